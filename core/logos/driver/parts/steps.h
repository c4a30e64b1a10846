// The steps of a run.

// Seconds since some time.
double now() {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

void check_rows() {
    for (int i = 0; i < ROWS; i++) {
        const Int row = fetch_integer(rows[i].buffer);
        if (row < 0 || row >= rows[i].rows) refuse(rows[i].words, row);
    }
}

void check_fault() {
    const Report found = fetch_fault();
    if (found.kind == 0 || options.unchecked) return;
    for (int i = 0; i < MESSAGES; i++)
        if (messages[i].stage == found.stage && messages[i].kind == found.kind) refuse(messages[i].words, found.value);
    end(FAILED, "stage " + std::to_string(found.stage) + " reported the fault " + std::to_string(found.kind));
}

void feed(Int token, Int step) {
    for (int i = 0; i < LEAVES; i++) {
        const Leaf &leaf = leaves[i];
        const Int number = strcmp(leaf.name, "pos") ? token : step;
        if (fed(leaf)) store(leaf, 0, &number, 1);
    }
}

// All stages, with a stop after each that a tap reads: a buffer may serve another value after that.
void make_step(const std::vector<Tap *> &taps) {
    check_rows();
    int done = 0;
    for (int stage = -1; stage < STAGES; stage++) {
        bool read = stage == STAGES - 1;
        for (const Tap *tap : taps) read = read || tap->at()->stage == stage;
        if (!read) continue;
        if (done <= stage) make_stages(done, stage + 1);
        done = stage + 1;
        for (Tap *tap : taps)
            if (tap->at()->stage == stage) tap->take();
    }
    check_fault();
}

// Every variable that is read out has a file that is open until the end.
void allow_files() {
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) != 0) return;
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
}

// What is read out: --get, or with --dump alone all that is computed.
std::vector<std::string> names_read() {
    std::vector<std::string> names = options.get;
    if (names.empty() && !options.dump.empty())
        for (int i = 0; i < VALUES; i++)
            if (values[i].stage >= 0) names.push_back(values[i].name);
    return names;
}

// Makes the steps, writes or prints what is read out, and returns the ids of --generate.
std::vector<Int> make_steps(const std::vector<std::string> &names) {
    const Size given = Size(options.tokens.size());
    const Size more = options.generate > 1 ? options.generate - 1 : 0;
    const Size steps = given ? given + more : 1;
    std::vector<Tap> taps;
    if (!options.dump.empty()) allow_files();
    for (const std::string &name : names) {
        const Value *value = find_value(name);
        if (value == nullptr) end(USAGE, "the program has no variable " + name + "; --list names them");
        make_room(value->buffer);
        taps.emplace_back(name, *value, steps, taps.size());
    }
    std::vector<Tap *> all;
    for (Tap &tap : taps) all.push_back(&tap);
    std::vector<Int> tokens = options.tokens, generated;
    const Value &output = values[OUTPUT];
    for (Size step = 0; step < steps;) {
        const Size made = make_together(all, step);
        if (made == 0 && given) feed(tokens[size_t(step)], step);
        if (made == 0) make_step(all);
        step += made ? made : 1;
        if (options.generate > 0 && step >= given) {
            generated.push_back(fetch_integer(output.buffer));
            tokens.push_back(generated.back());
        }
    }
    for (Tap &tap : taps) tap.finish();
    return generated;
}

void print_ids(const std::vector<Int> &ids) {
    for (size_t i = 0; i < ids.size(); i++) printf("%s%lld", i ? " " : "", ids[i]);
    if (!ids.empty()) printf("\n");
}

void run() {
    const std::vector<std::string> names = names_read();
    const std::vector<Int> ids = make_steps(names);
    if (names.empty() && ids.empty()) print_lines(values[OUTPUT], elements_of(values[OUTPUT]));
    print_ids(ids);
}
