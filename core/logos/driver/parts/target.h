// What the target defines.

// Ends the process, whatever else is at work in it.
[[noreturn]] void quit(int code);

// Options of its own: their lines in --help, a word without a value, one with; and what they ask for in place of a run:
// true where they asked and it is done.
extern const char *const MACHINE_USE;
bool take_machine_flag(const std::string &word);
bool take_machine_option(const std::string &word, const std::string &text);
bool run_apart();

// Makes the machine ready and has the leaves loaded (load_leaves); waits until it has done all that it was given.
void prepare();
void finish();

// The files of a folder that give values, in words, and whether a buffer is filled by those of Q8_0.
extern const char *const WEIGHT_FILES;
bool takes_q8(int buffer);

// Memory for a buffer that has none.
void make_room(int buffer);

// `count` elements of a leaf, as it is stored, from the element `first` on into its buffer, rounded as that keeps them.
// Where there are several calls, all but the last have whole blocks.
void store(const Leaf &leaf, Size first, const void *from, Size count);

// The elements of a value as they are stored, as Real or Int.
void fetch(const Value &value, void *to);

// Keeps a file of elements as they are stored for the buffer itself; false where the target cannot.
bool keep_file(const Leaf &leaf, const std::string &path);

// The files of Q8_0, and others that the target alone knows, of a leaf: true where they are there and it keeps them.
bool load_q8(const Leaf &leaf, const std::string &stem);

// The first element of a buffer of Int.
Int fetch_integer(int buffer);

// Makes the stages of a step from `first` up to `end`; in a step they come in order, and none is left out.
void make_stages(int first, int end);

// The first fault that stages found: of what kind, in which, with what number. Kind 0 is none.
struct Report {
    int kind, stage;
    Int value;
};

// Waits until all stages that it was given are made; the fault stays until it is cleared.
Report fetch_fault();
void clear_fault();

// What the kind of program defines.

// Options of its own, as the target's; `check_more` refuses what does not go together.
std::string more_use();
bool take_flag(const std::string &word);
bool take_more(const std::string &word, const std::string &text);
void check_more();

// Runs the program in another way than `run`: true where it did.
bool run_more();

// Makes many steps at once, from the step `first` on, and has the taps take what they read: how many, or 0.
class Tap;
Size make_together(const std::vector<Tap *> &taps, Size first);

struct Options {
    std::vector<std::string> weights;
    std::vector<std::string> names, files;  // --set
    std::vector<Int> tokens;
    std::vector<std::string> get;
    std::string dump;
    long long generate = 0;
    bool list = false, unchecked = false, numbered = false;
};

Options options;

std::vector<std::string> unfinished;  // files that are half written

[[noreturn]] void leave(int code) {
    for (const std::string &path : unfinished) unlink(path.c_str());
    fflush(stdout);
    quit(code);
}

[[noreturn]] void end(int code, const std::string &text) {
    fprintf(stderr, "%s\n", text.c_str());
    leave(code);
}

[[noreturn]] void refuse(const Words &words, Int number) {
    fprintf(stderr, "%s:%d:%d: ", PROGRAM, words.line, words.column);
    fprintf(stderr, words.text, number);
    leave(REFUSED);
}
