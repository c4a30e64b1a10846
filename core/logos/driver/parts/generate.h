// Generation: a prompt's steps, many at once in one pass over the weights, then a step for each token.

class Answer;

// What a target defines for programs that generate.

// Flags that say how it makes the steps, and their lines in --help.
extern const char *const WAYS_USE;
bool take_way(const std::string &word);

// Makes room for prompts of up to `longest` ids.
void begin_prompts(Size longest);

// How many of a prompt's next `left` steps it makes at once, up to CHUNK_STEPS; 0: none. And makes `many` of them, from
// the step `first` on: where they are the last, CHUNK_OUTPUT has the output.
Size count_at_once(Size left);
void make_at_once(const std::vector<Int> &ids, Size first, Size many);

// Makes the steps from `step` on, up to `total`, while the answer goes on, and gives it the id of each from the prompt's
// last on. `token` is what the step `step` reads.
void go_on(Answer &answer, const std::vector<Int> &ids, Size step, Int token, Size total);

std::string more_use() {
    return std::string("\n"
                       "Generation:\n"
                       "  --prompt-ids IDS  make these ids' steps and go on by the output of each, printing the ids as they come; @FILE has\n"
                       "                    them in a file; given again, another prompt from the start\n"
                       "  -n N              at most N ids [128]\n"
                       "  --stop IDS        end at one of these, which is printed too\n"
                       "  --lines           print an id a line\n"
                       "  --json            print one JSON object for each prompt\n") +
           WAYS_USE;
}

struct Generation {
    std::vector<std::vector<Int>> prompts;
    std::vector<Int> stops;
    Int most = 128;
    bool by_lines = false, as_json = false;
    bool after_tokens = false;
    std::string given;  // the last option that goes with prompts alone
};

Generation generation;

// A file's ids: lines are as good as commas.
std::string text_of(const std::string &path) {
    std::string text;
    FILE *file = fopen(path.c_str(), "rb");
    if (file == nullptr) end(REFUSED, "cannot read " + path + ": " + strerror(errno));
    for (int c = fgetc(file); c != EOF; c = fgetc(file)) text.push_back(c == '\n' || c == '\r' ? ',' : char(c));
    if (ferror(file)) end(REFUSED, "cannot read " + path + ": " + strerror(errno));
    fclose(file);
    return text;
}

std::vector<Int> ids_of(const std::string &text, const std::string &option) {
    std::vector<Int> found;
    for (const std::string &id : split(text)) found.push_back(whole(id, option));
    return found;
}

bool take_flag(const std::string &word) {
    if (word == "--lines") generation.by_lines = true;
    else if (word == "--json") generation.as_json = true;
    else if (!take_way(word)) return false;
    generation.given = word;
    return true;
}

bool take_more(const std::string &word, const std::string &text) {
    if (word == "--prompt-ids") {
        generation.after_tokens |= generation.prompts.empty() && !options.tokens.empty();
        generation.prompts.push_back(ids_of(text[0] == '@' ? text_of(text.substr(1)) : text, word));
        if (generation.prompts.back().empty()) end(USAGE, "--prompt-ids: the prompt has no ids");
        options.tokens = generation.prompts.back();
    } else if (word == "-n") {
        generation.most = count_of(text, word);
        if (generation.most == 0) end(USAGE, "-n: at least one id is made");
    } else if (word == "--stop") {
        generation.stops = ids_of(text, word);
    } else {
        return false;
    }
    if (word != "--prompt-ids") generation.given = word;
    return true;
}

// Options of the one way of running beside the other's.
void check_more() {
    const std::vector<std::vector<Int>> &prompts = generation.prompts;
    if (prompts.empty() && generation.given.empty()) return;
    if (prompts.empty()) end(USAGE, generation.given + " goes with --prompt-ids");
    const bool tokens = generation.after_tokens || options.tokens.size() != prompts.back().size();
    const char *const other = tokens                  ? "--tokens"
                              : options.generate      ? "--generate"
                              : !options.get.empty()  ? "--get"
                              : !options.dump.empty() ? "--dump"
                                                      : nullptr;
    if (other != nullptr) end(USAGE, std::string(other) + " does not go with --prompt-ids, which prints the ids alone");
}

void start_states() {
    for (int i = 0; i < LEAVES; i++)
        if (leaves[i].state && !load_given(leaves[i]))
            leaves[i].real ? load_start<Real>(leaves[i]) : load_start<Int>(leaves[i]);
    clear_fault();
}

// The row numbers of a prompt's steps, before any is made.
void check_prompt(const std::vector<Int> &ids) {
    for (size_t step = 0; step < ids.size(); step++)
        for (int i = 0; i < ROWS; i++) {
            Int row = rows[i].buffer == TOKEN ? ids[step] : Int(step);
            const bool own = rows[i].buffer != TOKEN && rows[i].buffer != POSITION;
            if (own && step > 0) continue;
            if (own) row = fetch_integer(rows[i].buffer);
            if (row < 0 || row >= rows[i].rows) refuse(rows[i].words, row);
        }
}

// The row that ends the context: the first of those with the fewest rows by position. Null: nothing ends it.
const Row *last_row() {
    const Row *found = nullptr;
    for (int i = 0; i < ROWS; i++)
        if (rows[i].buffer == POSITION && (found == nullptr || rows[i].rows < found->rows)) found = &rows[i];
    return found;
}

// The ids of one prompt, printed as they come.
class Answer {
  public:
    explicit Answer(Size given) : given(given), start(now()) {
        if (generation.as_json) printf("{\"prompt\": %lld, \"generated\": [", given);
    }

    void take(Int id) {
        last = now();
        if (count == 0) first = last;
        const char *const before = generation.as_json ? ", " : generation.by_lines ? "" : " ";
        printf("%s%lld%s", count ? before : "", id, generation.by_lines ? "\n" : "");
        fflush(stdout);
        count += 1;
        for (Int stop : generation.stops) stopped = stopped || stop == id;
    }

    bool goes_on() const { return !stopped && count < generation.most; }

    // A rate is of the steps after the prompt's.
    void finish(const char *end) {
        const double prompt = count > 0 ? first - start : 0, rest = last - first;
        const Size steps = count > 0 ? count - 1 : 0;
        if (generation.as_json) {
            printf("], \"end\": \"%s\", \"prompt_seconds\": %.6f, \"seconds\": %.6f, \"tokens_per_second\": ", end, prompt, rest);
            if (steps) printf("%.6g}\n", double(steps) / rest);
            else printf("null}\n");
        } else if (count && !generation.by_lines) {
            printf("\n");
        }
        fflush(stdout);
        if (count == 0) return;
        fprintf(stderr, "prompt: %lld tokens in %.3f s, %.1f tok/s", given, prompt, double(given) / prompt);
        if (steps) fprintf(stderr, "; then %lld in %.3f s, %.1f tok/s", steps, rest, double(steps) / rest);
        fprintf(stderr, "\n");
    }

    const char *end() const { return stopped ? "stop" : "count"; }

  private:
    Size given, count = 0;
    double start, first = 0, last = 0;
    bool stopped = false;
};

// As many of a prompt's steps as go many at once; where one of them meets a fault, none: single steps tell which.
Size make_prompt(const std::vector<Int> &ids) {
    const Size given = Size(ids.size());
    if (CHUNK_STEPS < 2 || given < 2) return 0;
    Size step = 0;
    for (Size many = count_at_once(given); many > 0; many = count_at_once(given - step)) {
        make_at_once(ids, step, many);
        step += many;
    }
    if (step == 0 || options.unchecked || fetch_fault().kind == 0) return step;
    start_states();
    return 0;
}

void answer_prompt(const std::vector<Int> &ids) {
    const Size given = Size(ids.size()), wanted = given + generation.most - 1;
    check_prompt(ids);
    if (given > 1 && *ALONE) fprintf(stderr, "the prompt goes token by token: %s\n", ALONE);
    Answer answer(given);
    const Row *const row = last_row();
    const Size total = row != nullptr && row->rows < wanted ? row->rows : wanted;
    const Size step = make_prompt(ids);
    const Int token = step < given ? ids[size_t(step)] : fetch_integer(CHUNK_OUTPUT);
    if (step == given) answer.take(token);
    go_on(answer, ids, step, token, total);
    const bool full = answer.goes_on();
    answer.finish(full ? "context" : answer.end());
    if (full) refuse(row->words, total);
}

Size make_together(const std::vector<Tap *> &, Size) { return 0; }

bool run_more() {
    if (generation.prompts.empty()) return false;
    Size longest = 0;
    for (const std::vector<Int> &ids : generation.prompts) longest = Size(ids.size()) > longest ? Size(ids.size()) : longest;
    begin_prompts(longest);
    for (size_t i = 0; i < generation.prompts.size(); i++) {
        if (i > 0) start_states();
        answer_prompt(generation.prompts[i]);
    }
    return true;
}
