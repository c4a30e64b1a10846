// Prompts: CHUNK_STEPS of the ids' steps at once, and what fills no chunk one by one.

std::string more_use() {
    return "\nThe ids of --tokens are taken many at once, and those that fill no such chunk one by one.\n";
}

bool take_flag(const std::string &) { return false; }

bool take_more(const std::string &, const std::string &) { return false; }

void check_more() {}

bool run_more() { return false; }

typedef std::vector<std::vector<char>> States;

States read_states() {
    States found;
    for (int i = 0; i < LEAVES; i++)
        if (leaves[i].state) {
            found.emplace_back(size_t(buffers[leaves[i].buffer].bytes));
            bring(leaves[i].buffer, found.back().data());
        }
    return found;
}

void write_states(const States &states) {
    size_t next = 0;
    for (int i = 0; i < LEAVES; i++)
        if (leaves[i].state) {
            send(leaves[i].buffer, 0, states[next].data(), states[next].size());
            next += 1;
        }
}

// Whether the row numbers of a chunk lie in their tables.
bool rows_inside(Size first) {
    for (int i = 0; i < ROWS; i++)
        for (Size step = first; step < first + CHUNK_STEPS; step++) {
            Int row = rows[i].buffer == TOKEN ? options.tokens[size_t(step)] : step;
            if (rows[i].buffer != TOKEN && rows[i].buffer != POSITION) row = fetch_integer(rows[i].buffer);
            if (row < 0 || row >= rows[i].rows) return false;
        }
    return true;
}

// The stages of a chunk; false where they report a fault.
bool make_chunk(Size first) {
    std::vector<Int> positions;
    for (Size step = first; step < first + CHUNK_STEPS; step++) positions.push_back(step);
    const size_t bytes = size_t(CHUNK_STEPS) * sizeof(Int);
    send(CHUNK_TOKEN, 0, &options.tokens[size_t(first)], bytes);
    if (CHUNK_POSITION >= 0) send(CHUNK_POSITION, 0, positions.data(), bytes);
    for (int i = 0; i < CHUNK_STAGES; i++) chunk_stages[i]();
    return fetch_fault().kind == 0 || options.unchecked;
}

int number_of(const Tap *tap) { return int(tap->at() - values); }

void make_alone(const std::vector<Tap *> &taps, Size step) {
    feed(options.tokens[size_t(step)], step);
    make_step(taps);
}

// Single steps for what a chunk has of its last step alone, such as a state; then the states are as it left them.
void fill_in(const std::vector<Tap *> &taps, Size first, const States &before) {
    std::vector<Tap *> due;
    for (Tap *tap : taps)
        if (chunk_rows[number_of(tap)] != EACH && chunk_rows[number_of(tap)] != ALIKE) due.push_back(tap);
    if (due.empty()) return;
    const States after = read_states();
    write_states(before);
    for (Size step = first; step < first + CHUNK_STEPS - 1; step++) make_alone(due, step);
    for (Tap *tap : due)
        if (chunk_rows[number_of(tap)] == BEFORE) tap->take();
    write_states(after);
}

// A value as a chunk holds it: its rows of all steps, or what the last one has.
Value in_chunk(int number) {
    Value value = values[number];
    value.buffer = chunk_buffers[number];
    if (chunk_rows[number] == EACH) value.rows *= CHUNK_STEPS;
    return value;
}

void take_chunk(Tap *tap) {
    const int rows = chunk_rows[number_of(tap)];
    if (rows == BEFORE) return;
    const std::vector<char> found = elements_of(in_chunk(number_of(tap)));
    const size_t size = rows == EACH ? found.size() / size_t(CHUNK_STEPS) : found.size();
    for (Size step = rows == LAST ? CHUNK_STEPS - 1 : 0; step < CHUNK_STEPS; step++) {
        const char *const from = &found[rows == EACH ? size_t(step) * size : 0];
        tap->take(std::vector<char>(from, from + size));
    }
}

// The output of the last step, where a single step leaves it.
void leave_output() {
    const Value output = in_chunk(OUTPUT);
    if (output.buffer == values[OUTPUT].buffer) return;
    const size_t size = size_t(values[OUTPUT].rows * output.columns * bytes_of(output.real));
    const char *const from = static_cast<const char *>(memory[output.buffer]);
    const size_t last = chunk_rows[OUTPUT] == EACH ? size_t(CHUNK_STEPS - 1) * size : 0;
    CHECK(cudaMemcpy(memory[values[OUTPUT].buffer], from + last, size, cudaMemcpyDeviceToDevice));
}

// A fault is told by the single step that meets it.
Size make_together(const std::vector<Tap *> &taps, Size first) {
    if (Size(options.tokens.size()) < first + CHUNK_STEPS || !rows_inside(first)) return 0;
    for (const Tap *tap : taps) make_room(chunk_buffers[number_of(tap)]);
    const States before = read_states();
    if (!make_chunk(first)) {
        clear_fault();
        write_states(before);
        for (Size step = first; step < first + CHUNK_STEPS; step++) make_alone(taps, step);
        end(FAILED, "many steps at once, from step " + std::to_string(first) + " on, report a fault that single steps do not");
    }
    fill_in(taps, first, before);
    for (Tap *tap : taps) take_chunk(tap);
    leave_output();
    return CHUNK_STEPS;
}
