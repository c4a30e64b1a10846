// Generation: a prompt's steps, then for each token the step that was captured once as a graph. Its last kernel feeds
// the next step, so the host only reads what was made, one step behind.

const char *const MORE_USE =
    "\n"
    "Generation:\n"
    "  --prompt-ids IDS  make these ids' steps and go on by the output of each, printing the ids as they come; @FILE has\n"
    "                    them in a file; given again, another prompt from the start\n"
    "  -n N              at most N ids [128]\n"
    "  --stop IDS        end at one of these, which is printed too\n"
    "  --no-graph        launch a step's kernels one by one instead of the captured graph\n"
    "  --lines           print an id a line\n"
    "  --json            print one JSON object for each prompt\n";

struct Generation {
    std::vector<std::vector<Int>> prompts;
    std::vector<Int> stops;
    Int most = 128;
    bool by_launches = false, by_lines = false, as_json = false;
    bool after_tokens = false;
    std::string given;  // the last option that goes with prompts alone
};

Generation generation;
Turn *turn;
Made *made;  // memory of the host that the device writes
Int *prompt_ids;
cudaEvent_t step_done[MADE];
cudaGraphExec_t captured;

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
    bool *const flag = word == "--no-graph" ? &generation.by_launches
                       : word == "--lines"  ? &generation.by_lines
                       : word == "--json"   ? &generation.as_json
                                            : nullptr;
    if (flag == nullptr) return false;
    *flag = true;
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

void make_launches() {
    for (int i = 0; i < STAGES; i++) stages[i]();
    Int *const position = POSITION < 0 ? nullptr : integer(POSITION);
    LAUNCH(next_step_kernel, dim3(1u), dim3(1u), 0, integer(values[OUTPUT].buffer), prompt_ids, integer(TOKEN), position,
           turn, made, fault);
}

void issue_step(Size step) {
    if (captured != nullptr) CHECK(cudaGraphLaunch(captured, stream));
    else make_launches();
    CHECK(cudaEventRecord(step_done[step % MADE], stream));
}

void put(void *to, const void *from, size_t bytes) { CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice)); }

void start_states() {
    for (int i = 0; i < LEAVES; i++)
        if (leaves[i].state && !load_given(leaves[i]))
            leaves[i].real ? load_start<Real>(leaves[i]) : load_start<Int>(leaves[i]);
    CHECK(cudaMemset(fault, 0, sizeof(Fault)));
}

// What the step of a number reads: of a prompt, its own id.
void start_step(Size step, Size given, Int token) {
    const Turn now = {step, given};
    put(turn, &now, sizeof now);
    put(integer(TOKEN), &token, sizeof token);
    if (POSITION >= 0) put(integer(POSITION), &step, sizeof(Int));
}

// The row numbers of a prompt's steps, before any is made.
void check_prompt(const std::vector<Int> &ids) {
    for (size_t step = 0; step < ids.size(); step++)
        for (int i = 0; i < ROWS; i++) {
            Int row = rows[i].buffer == TOKEN ? ids[step] : Int(step);
            const bool own = rows[i].buffer != TOKEN && rows[i].buffer != POSITION;
            if (own && step > 0) continue;
            if (own) CHECK(cudaMemcpy(&row, memory[rows[i].buffer], sizeof row, cudaMemcpyDeviceToHost));
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

void take_step(Answer &answer, Size step) {
    CHECK(cudaEventSynchronize(step_done[step % MADE]));
    const Made got = made[step % MADE];
    if (got.fault.kind != 0 && !options.unchecked) {
        answer.finish("fault");
        check_fault();
    }
    answer.take(got.id);
}

// As many of a prompt's steps as go many at once; where one of them meets a fault, none: single steps tell which.
Size steps_at_once(const std::vector<Int> &ids) {
    const Size given = Size(ids.size());
    Size step = 0;
    for (; CHUNK_STEPS > 1 && given - step >= CHUNK_STEPS; step += CHUNK_STEPS) {
        std::vector<Int> positions;
        for (Size i = 0; i < CHUNK_STEPS; i++) positions.push_back(step + i);
        const size_t bytes = size_t(CHUNK_STEPS) * sizeof(Int);
        put(integer(CHUNK_TOKEN), &ids[size_t(step)], bytes);
        if (CHUNK_POSITION >= 0) put(integer(CHUNK_POSITION), positions.data(), bytes);
        for (int i = 0; i < CHUNK_STAGES; i++) chunk_stages[i]();
    }
    Fault found;
    CHECK(cudaMemcpy(&found, fault, sizeof found, cudaMemcpyDeviceToHost));
    if (found.kind == 0 || options.unchecked) return step;
    start_states();
    return 0;
}

void answer_prompt(const std::vector<Int> &ids) {
    const Size given = Size(ids.size()), wanted = given + generation.most - 1;
    check_prompt(ids);
    if (given > 1 && *ALONE) fprintf(stderr, "the prompt goes token by token: %s\n", ALONE);
    put(prompt_ids, ids.data(), ids.size() * sizeof(Int));
    Answer answer(given);
    Size step = steps_at_once(ids), next = step < given ? given - 1 : step;
    Int token = 0;
    if (step == given) {
        CHECK(cudaMemcpy(&token, integer(CHUNK_OUTPUT), sizeof token, cudaMemcpyDeviceToHost));
        answer.take(token);
    }
    start_step(step, given, step < given ? ids[size_t(step)] : token);
    const Row *const row = last_row();
    const Size total = row != nullptr && row->rows < wanted ? row->rows : wanted;
    for (; step < total && answer.goes_on(); step++) {
        issue_step(step);
        if (next < step) take_step(answer, next++);
    }
    for (; next < total && answer.goes_on(); next++) take_step(answer, next);
    CHECK(cudaStreamSynchronize(stream));
    const bool full = answer.goes_on();
    answer.finish(full ? "context" : answer.end());
    if (full) refuse(row->words, total);
}

bool launch_together() { return false; }

Size make_together(const std::vector<Tap *> &, Size) { return 0; }

bool run_more() {
    if (generation.prompts.empty()) return false;
    size_t longest = 0;
    for (const std::vector<Int> &ids : generation.prompts) longest = ids.size() > longest ? ids.size() : longest;
    CHECK(cudaMalloc(reinterpret_cast<void **>(&turn), sizeof(Turn)));
    CHECK(cudaMalloc(reinterpret_cast<void **>(&prompt_ids), longest * sizeof(Int)));
    CHECK(cudaMallocHost(reinterpret_cast<void **>(&made), MADE * sizeof(Made)));
    for (int i = 0; i < MADE; i++) CHECK(cudaEventCreateWithFlags(&step_done[i], cudaEventDisableTiming));
    if (!generation.by_launches) captured = captured_graph(make_launches, "step");
    for (size_t i = 0; i < generation.prompts.size(); i++) {
        if (i > 0) start_states();
        answer_prompt(generation.prompts[i]);
    }
    return true;
}
