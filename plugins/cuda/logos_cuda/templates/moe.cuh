// A block: its stages are captured once as one CUDA graph.

std::string more_use() {
    return "\n"
           "Block:\n"
           "  --no-graph       launch the kernels one by one instead of the captured graph\n"
           "  --repeat N       then launch N times more, and print the microseconds of one on standard error\n";
}

bool by_launches = false;
Size repeats = 0;
cudaGraphExec_t captured;

bool take_flag(const std::string &word) {
    if (word != "--no-graph") return false;
    by_launches = true;
    return true;
}

bool take_more(const std::string &word, const std::string &text) {
    if (word != "--repeat") return false;
    repeats = count_of(text, word);
    return true;
}

void check_more() {}

void make_launches() {
    for (int i = 0; i < STAGES; i++) stages[i]();
}

// Captured when it is first launched: by then there is memory for all that is read out. Without states every value
// lasts to the step's end.
bool launch_captured() {
    if (!by_launches && captured == nullptr) {
        captured = captured_graph(make_launches, "block");
        by_launches = captured == nullptr;
    }
    if (captured != nullptr) CHECK(cudaGraphLaunch(captured, stream));
    return captured != nullptr;
}

Size make_together(const std::vector<Tap *> &, Size) { return 0; }

bool run_more() {
    launch_together = launch_captured;
    run();
    if (repeats == 0) return true;
    const double start = now();
    for (Size i = 0; i < repeats; i++)
        if (!launch_captured()) make_launches();
    CHECK(cudaStreamSynchronize(stream));
    fprintf(stderr, "%lld times, %.3f us each\n", repeats, 1e6 * (now() - start) / double(repeats));
    return true;
}
