// The command line.

const char *USE =
    "usage: %s [--weights DIR]... [--set NAME=FILE]... [--tokens 1,2,3] [--generate N] [--get NAME,...] [--dump DIR]\n"
    "\n"
    "  --weights DIR    read %s there [the folder `weights` beside\n"
    "                   this program]; a transposed variable's file is transposed. Without a folder, what has no value is\n"
    "                   the ramp\n"
    "  --set NAME=FILE  a variable in the program's shape: raw little-endian float32, int64 or (FILE.f64) float64\n"
    "  --tokens IDS     one step for each id: `tok` is the id, `pos` the step's number\n"
    "  --generate N     go on for N ids, each the output of the step before; print them\n"
    "  --get NAMES      print these variables as of the last step; NAME@1 is an earlier value of a step\n"
    "  --dump DIR       write NAME.npy (steps, rows, columns) of --get's variables, or of all that is computed\n"
    "  --numbered       name these files by their place in --get instead, from 0\n"
    "  --unchecked      go on past a NaN in an argmax, a computed row outside its table, a sum beyond 64 bits\n"
    "  --list           print the variables: name, rows, columns, type, file\n"
    "%s"
    "\n"
    "Without --get and --dump it prints the output, one element a line.\n"
    "%s";

void take_set(const std::string &text) {
    const size_t mark = text.find('=');
    if (mark == std::string::npos) end(USAGE, "--set: " + text + " is not NAME=FILE");
    const std::string name = text.substr(0, mark);
    for (int i = 0; i < LEAVES; i++)
        if (name == leaves[i].name) {
            options.names.push_back(name);
            options.files.push_back(text.substr(mark + 1));
            return;
        }
    end(USAGE, "--set: the program has no input, weight or state " + name + "; --list names them");
}

bool *flag_of(const std::string &word) {
    return word == "--list"        ? &options.list
           : word == "--unchecked" ? &options.unchecked
           : word == "--numbered"  ? &options.numbered
                                   : nullptr;
}

void read_options(int count, char **words) {
    for (int i = 1; i < count; i++) {
        std::string word = words[i], text;
        if (word == "--help" || word == "-h") {
            printf(USE, words[0], WEIGHT_FILES, MACHINE_USE, more_use().c_str());
            leave(DONE);
        }
        if (bool *const flag = flag_of(word)) {
            *flag = true;
            continue;
        }
        if (take_machine_flag(word) || take_flag(word)) continue;
        const size_t mark = word.find('=');
        if (word.compare(0, 2, "--") == 0 && mark != std::string::npos) {
            text = word.substr(mark + 1);
            word.resize(mark);
        } else if (i + 1 < count) {
            text = words[++i];
        } else {
            end(USAGE, word + ": no such option, or its value is missing; --help lists them");
        }
        if (word == "--weights") options.weights.push_back(text);
        else if (word == "--set") take_set(text);
        else if (word == "--tokens") for (const std::string &id : split(text)) options.tokens.push_back(whole(id, word));
        else if (word == "--generate") options.generate = count_of(text, word);
        else if (word == "--get") for (const std::string &name : split(text)) options.get.push_back(name);
        else if (word == "--dump") options.dump = text;
        else if (!take_machine_option(word, text) && !take_more(word, text))
            end(USAGE, word + ": no such option; --help lists them");
    }
}

void check_options() {
    check_more();
    struct stat found;
    for (const std::string &folder : options.weights)
        if (stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) end(REFUSED, "there is no folder " + folder);
    if (!options.dump.empty() && mkdir(options.dump.c_str(), 0777) != 0 && errno != EEXIST)
        end(REFUSED, "cannot make the folder " + options.dump + ": " + strerror(errno));
    bool takes = false;
    for (int i = 0; i < LEAVES; i++) takes = takes || (fed(leaves[i]) && !strcmp(leaves[i].name, "tok"));
    for (int i = 0; i < LEAVES; i++)
        for (const std::string &name : options.names)
            if (fed(leaves[i]) && name == leaves[i].name) end(USAGE, "--set: --tokens feeds " + name + " at every step");
    if (!options.tokens.empty() && !takes) end(USAGE, "--tokens: the program has no input tok, 1 by 1 of Int");
    const Value &output = values[OUTPUT];
    if (options.generate && options.tokens.empty()) end(USAGE, "--generate goes on after --tokens");
    if (options.generate && (output.real || output.rows * output.columns != 1))
        end(USAGE, std::string("--generate: the output ") + output.name + " is not one token id");
}

// The folder `weights` beside this program, where nothing else is said.
void find_weights() {
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    if (!options.weights.empty() || length <= 0) return;
    std::string folder(path, size_t(length));
    folder = folder.substr(0, folder.rfind('/') + 1) + "weights";
    struct stat found;
    if (stat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) options.weights.push_back(folder);
}

void list() {
    for (int i = 0; i < VALUES; i++) {
        const Value &value = values[i];
        const char *file = value.stage < 0 ? (takes_q8(value.buffer) ? "q s" : value.real ? "f32" : "i64") : "-";
        if (value.stage < 0 || !strchr(value.name, '@'))
            printf("%s\t%lld\t%lld\t%s\t%s%s\n", value.name, value.rows, value.columns, type_of(value.real), file,
                   value.transposed ? " transposed" : "");
    }
}

int run_program(int count, char **words) {
    read_options(count, words);
    if (options.list) return list(), DONE;
    if (run_apart()) return DONE;
    check_options();
    find_weights();
    prepare();
    if (!run_more()) run();
    finish();
    if (fflush(stdout) != 0 || ferror(stdout)) end(REFUSED, std::string("cannot write the output: ") + strerror(errno));
    return DONE;
}

}  // namespace driver

int main(int count, char **words) { return driver::run_program(count, words); }
