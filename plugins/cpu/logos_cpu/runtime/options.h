// Options of how the processor is used.

const char *const MACHINE_USE =
    "  -t N             so many threads [as many as cores]; the numbers are the same for any\n"
    "  --level NAME     the instructions to use: avx512, avxvnni, avx2, dotprod, plain [the best that are there]\n"
    "  --tell           say which these are\n"
    "  --lay DIR        write NAME.tiles there of NAME.q and NAME.s, as the kernels read them, and end\n";

struct MachineOptions {
    std::string level, lay;
    Int threads = 0;
    bool told = false;
};

MachineOptions machine;

Int threads_of(const std::string &text, const std::string &option) {
    const Int found = count_of(text, option);
    if (found < 1 || found > MOST_THREADS)
        end(USAGE, option + ": from 1 to " + std::to_string(int(MOST_THREADS)) + " threads, not " + text);
    return found;
}

bool take_machine_flag(const std::string &word) {
    if (word != "--tell") return false;
    machine.told = true;
    return true;
}

bool take_machine_option(const std::string &word, const std::string &text) {
    if (word == "--level") machine.level = text;
    else if (word == "--lay") machine.lay = text;
    else if (word == "-t" || word == "--threads") machine.threads = threads_of(text, word);
    else return false;
    return true;
}

bool run_apart() {
    if (machine.lay.empty()) return false;
    lay_all(machine.lay);
    return true;
}
