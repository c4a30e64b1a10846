// The stages of a step, made by threads.

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

void make_stages(int first, int end) { make_stages(stages, first, end, 1); }

Int fetch_integer(int buffer) { return *integer(buffer); }

Report fetch_fault() { return {fault.kind, fault.stage, fault.value}; }

void clear_fault() { fault.clear(); }

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
