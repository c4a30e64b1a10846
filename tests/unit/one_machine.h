// The smallest machine that the driver takes: every buffer is memory of this process, every stage a function.

char *memory[BUFFERS];
Report fault = {0, 0, 0};

Real *real(int buffer) { return reinterpret_cast<Real *>(memory[buffer]); }

void stage_0() {
    for (Size i = 0; i < 6; i++) real(Y)[i] = real(X)[i] + real(X)[i];
}

void (*const functions[])() = {stage_0};

[[noreturn]] void quit(int code) { exit(code); }

const char *const MACHINE_USE = "";
bool take_machine_flag(const std::string &) { return false; }
bool take_machine_option(const std::string &, const std::string &) { return false; }
bool run_apart() { return false; }

const char *const WEIGHT_FILES = "NAME.f32 and NAME.i64";
bool takes_q8(int) { return false; }
bool load_q8(const Leaf &, const std::string &) { return false; }
bool keep_file(const Leaf &, const std::string &) { return false; }

void make_room(int buffer) {
    if (memory[buffer] == nullptr) memory[buffer] = new char[size_t(buffers[buffer].bytes)]();
}

void store(const Leaf &leaf, Size first, const void *from, Size count) {
    memcpy(memory[leaf.buffer] + first * bytes_of(leaf.real), from, size_t(count * bytes_of(leaf.real)));
}

void fetch(const Value &value, void *to) {
    memcpy(to, memory[value.buffer], size_t(value.rows * value.columns * bytes_of(value.real)));
}

Int fetch_integer(int buffer) {
    Int found;
    memcpy(&found, memory[buffer], sizeof found);
    return found;
}

void make_stages(int first, int end) {
    for (int i = first; i < end; i++) functions[i]();
}

Report fetch_fault() { return fault; }
void clear_fault() { fault.kind = 0; }

void prepare() {
    for (int i = 0; i < BUFFERS; i++) make_room(i);
    load_leaves();
}

void finish() {}
