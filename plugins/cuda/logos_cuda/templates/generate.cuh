// Generation on the device: the step is captured once as a graph. Its last kernel feeds the next step, so the host only
// reads what was made, one step behind.

const char *const WAYS_USE = "  --no-graph        launch a step's kernels one by one instead of the captured graph\n";

bool by_launches = false;

bool take_way(const std::string &word) {
    if (word != "--no-graph") return false;
    by_launches = true;
    return true;
}

Turn *turn;
Made *made;  // memory of the host that the device writes
Int *prompt_ids;
cudaEvent_t step_done[MADE];
cudaGraphExec_t captured;

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

// What the step of a number reads: of a prompt, its own id.
void start_step(Size step, Size given, Int token) {
    const Turn now = {step, given};
    put(turn, &now, sizeof now);
    put(integer(TOKEN), &token, sizeof token);
    if (POSITION >= 0) put(integer(POSITION), &step, sizeof(Int));
}

void begin_prompts(Size longest) {
    CHECK(cudaMalloc(reinterpret_cast<void **>(&turn), sizeof(Turn)));
    CHECK(cudaMalloc(reinterpret_cast<void **>(&prompt_ids), size_t(longest) * sizeof(Int)));
    CHECK(cudaMallocHost(reinterpret_cast<void **>(&made), MADE * sizeof(Made)));
    for (int i = 0; i < MADE; i++) CHECK(cudaEventCreateWithFlags(&step_done[i], cudaEventDisableTiming));
    if (!by_launches) captured = captured_graph(make_launches, "step");
}

Size count_at_once(Size left) { return left < CHUNK_STEPS ? 0 : Size(CHUNK_STEPS); }

void make_at_once(const std::vector<Int> &ids, Size first, Size many) {
    std::vector<Int> positions;
    for (Size i = 0; i < many; i++) positions.push_back(first + i);
    const size_t bytes = size_t(many) * sizeof(Int);
    put(integer(CHUNK_TOKEN), &ids[size_t(first)], bytes);
    if (CHUNK_POSITION >= 0) put(integer(CHUNK_POSITION), positions.data(), bytes);
    for (int i = 0; i < CHUNK_STAGES; i++) chunk_stages[i]();
}

void take_step(Answer &answer, Size step) {
    CHECK(cudaEventSynchronize(step_done[step % MADE]));
    const Made got = made[step % MADE];
    if (got.fault.kind != 0 && !options.unchecked) {
        answer.finish("fault");
        check_fault();
    }
    answer.take(got.id);
}

void go_on(Answer &answer, const std::vector<Int> &ids, Size step, Int token, Size total) {
    const Size given = Size(ids.size());
    Size next = step < given ? given - 1 : step;
    put(prompt_ids, ids.data(), ids.size() * sizeof(Int));
    start_step(step, given, token);
    for (; step < total && answer.goes_on(); step++) {
        issue_step(step);
        if (next < step) take_step(answer, next++);
    }
    for (; next < total && answer.goes_on(); next++) take_step(answer, next);
    CHECK(cudaStreamSynchronize(stream));
}
