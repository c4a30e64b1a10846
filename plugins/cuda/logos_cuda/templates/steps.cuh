// The steps of a run.

void check_rows() {
    for (int i = 0; i < ROWS; i++) {
        Int row;
        CHECK(cudaMemcpy(&row, memory[rows[i].buffer], sizeof row, cudaMemcpyDeviceToHost));
        if (row < 0 || row >= rows[i].rows) refuse(rows[i].words, row);
    }
}

void check_fault() {
    Fault found;
    CHECK(cudaMemcpy(&found, fault, sizeof found, cudaMemcpyDeviceToHost));
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

// Launches all stages of a step at once, where the kind of program does.
bool launch_together();

// Makes many steps at once from one on, where the kind of program does: how many.
Size make_together(const std::vector<Tap *> &taps, Size first);

void make_step(const std::vector<Tap *> &taps) {
    check_rows();
    const bool launched = launch_together();
    for (int stage = -1; stage < STAGES; stage++) {
        if (stage >= 0 && !launched) stages[stage]();
        for (Tap *tap : taps)
            if (tap->at()->stage == stage) tap->take();
    }
    CHECK(cudaStreamSynchronize(stream));
    check_fault();
}

// Buffers from KEPT on are of values that only their own stage reads: it writes them where there is room.
void make_room(int buffer) {
    if (memory[buffer] != nullptr) return;
    const cudaError_t error = cudaMalloc(&memory[buffer], size_t(buffers[buffer].bytes));
    if (error != cudaSuccess)
        end(FAILED, "no room for " + std::to_string(buffers[buffer].bytes) + " bytes of " + buffers[buffer].name +
                               " on the device: " + cudaGetErrorString(error));
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
            generated.push_back(integer_at(elements_of(output), 0));
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

void find_device() {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) return;
    end(FAILED, std::string("there is no GPU here that the CUDA runtime can use: ") + cudaGetErrorString(error) +
                           "\n  next: run it where there are an NVIDIA GPU and its driver; without one, `logos run` and "
                           "`logos generate` take `--engine cuda -D device=host`");
}

void prepare() {
    find_device();
    CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < KEPT; i++) make_room(i);
    CHECK(cudaMalloc(reinterpret_cast<void **>(&fault), sizeof(Fault)));
    CHECK(cudaMemset(fault, 0, sizeof(Fault)));
    if (ARRIVALS > 0) {
        CHECK(cudaMalloc(reinterpret_cast<void **>(&arrivals), ARRIVALS * sizeof(int)));
        CHECK(cudaMemset(arrivals, 0, ARRIVALS * sizeof(int)));
    }
    allow_shared();
    load_leaves();
}

void finish() { CHECK(cudaDeviceSynchronize()); }

const char *const MACHINE_USE = "";

bool take_machine_flag(const std::string &) { return false; }

bool take_machine_option(const std::string &, const std::string &) { return false; }

bool run_apart() { return false; }
