// The steps of a run.

std::vector<void *> operands_at;
std::vector<char *> scratch;

// What the threads make now: some of the stages of a step, or of many steps at once.
struct Turn {
    const Stage *stages;
    int first, end;
    Size steps;
};

Turn turn;

void work(int thread) {
    Worker worker = {thread, pool.threads(), turn.steps, scratch[size_t(thread)], &fault, 0};
    for (int i = turn.first; i < turn.end; i++) {
        const Stage &stage = turn.stages[i];
        if (stage.meets) pool.meet();
        worker.stage = i;
        kernels[stage.kernel](worker, &operands_at[size_t(stage.first)]);
    }
}

void make_stages(const Stage *stages, int first, int end, Size steps) {
    turn = {stages, first, end, steps};
    pool.run();
}

void check_rows() {
    for (int i = 0; i < ROWS; i++) {
        const Int row = *integer(rows[i].buffer);
        if (row < 0 || row >= rows[i].rows) refuse(rows[i].words, row);
    }
}

void check_fault() {
    if (fault.kind == NO_FAULT || options.unchecked) return;
    for (int i = 0; i < MESSAGES; i++)
        if (messages[i].stage == fault.stage && messages[i].kind == fault.kind) refuse(messages[i].words, fault.value);
    end(FAILED, "stage " + std::to_string(fault.stage) + " reported the fault " + std::to_string(fault.kind));
}

void feed(Int token, Int step) {
    for (int i = 0; i < LEAVES; i++)
        if (fed(leaves[i])) *integer(leaves[i].buffer) = strcmp(leaves[i].name, "pos") ? token : step;
}

// All stages, with a stop after each that a tap reads: a buffer may serve another value after that.
void make_step(std::vector<Tap> &taps) {
    check_rows();
    int done = 0;
    for (Tap &tap : taps)
        if (tap.at()->stage < 0) tap.take();
    for (int stage = 0; stage < STAGES && !taps.empty(); stage++) {
        bool read = false;
        for (const Tap &tap : taps) read = read || tap.at()->stage == stage;
        if (!read) continue;
        make_stages(stages, done, stage + 1, 1);
        done = stage + 1;
        for (Tap &tap : taps)
            if (tap.at()->stage == stage) tap.take();
    }
    make_stages(stages, done, STAGES, 1);
    check_fault();
}

// Every variable that is read out has a file that is open until the end.
void allow_files() {
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most) != 0) return;
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
}

void run() {
    const Size given = Size(options.tokens.size());
    const Size more = options.generate > 1 ? options.generate - 1 : 0;
    const Size steps = given ? given + more : 1;
    std::vector<Tap> taps;
    std::vector<std::string> names = options.get;
    if (names.empty() && !options.dump.empty())
        for (int i = 0; i < VALUES; i++)
            if (values[i].stage >= 0) names.push_back(values[i].name);
    if (!options.dump.empty()) allow_files();
    for (const std::string &name : names) {
        const Value *value = find_value(name);
        if (value == nullptr) end(USAGE, "the program has no variable " + name + "; --list names them");
        taps.emplace_back(name, *value, steps, taps.size());
    }
    std::vector<Int> tokens = options.tokens, generated;
    const Value &output = values[OUTPUT];
    for (Size step = 0; step < steps; step++) {
        if (given) feed(tokens[size_t(step)], step);
        make_step(taps);
        if (options.generate > 0 && step + 1 >= given) {
            generated.push_back(*integer(output.buffer));
            tokens.push_back(generated.back());
        }
    }
    for (Tap &tap : taps) tap.finish();
    if (names.empty() && generated.empty()) print_lines(output, elements_of(output));
    for (size_t i = 0; i < generated.size(); i++) printf("%s%lld", i ? " " : "", generated[i]);
    if (!generated.empty()) printf("\n");
}

// The cores that this process may use.
int cores() {
#ifdef CPU_COUNT
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0) return CPU_COUNT(&mine);
#endif
    const unsigned found = std::thread::hardware_concurrency();
    return found ? int(found) : 1;
}

const Level &chosen_level() {
    std::string known;
    for (const Level &level : levels) {
        if (machine.level.empty() ? level.here() : machine.level == level.name) {
            if (!level.here()) end(REFUSED, "--level: this processor has not what " + machine.level + " takes");
            return level;
        }
        known += std::string(known.empty() ? "" : ", ") + level.name;
    }
    if (machine.level.empty()) end(REFUSED, "this program was built for another processor, with " + known);
    end(USAGE, "--level: there is no " + machine.level + " among " + known);
}

void prepare() {
    const Level &level = chosen_level();
    kernels = level.kernels;
    const int threads = machine.threads ? int(machine.threads) : cores();
    for (int i = KEPT; i < BUFFERS; i++) make_room(i);
    for (int i = 0; i < LEAVES; i++)
        if (fed(leaves[i])) make_room(leaves[i].buffer, leaves[i].name);
    load_leaves();
    for (int buffer : operands) operands_at.push_back(memory[buffer]);
    for (int i = 0; i < threads; i++) scratch.push_back(room(SCRATCH, "scratch"));
    pool.start(threads, work);
    if (machine.told)
        fprintf(stderr, "%d %s, instructions: %s\n", threads, threads == 1 ? "thread" : "threads", level.name);
}

void finish() { pool.stop(); }
