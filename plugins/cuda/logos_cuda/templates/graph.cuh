// Launches captured once as one CUDA graph.

// The graph of what `make` launches, and null, with a line on why, where it cannot be captured: what failed leaves
// nothing behind, and the kernels are launched one by one.
cudaGraphExec_t captured_graph(void (*make)(), const char *of) {
    cudaGraphExec_t made = nullptr;
    failed_capture = cudaSuccess;
    cudaGraph_t graph = nullptr;
    cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    if (error == cudaSuccess) {
        capturing = true;
        make();
        capturing = false;
        error = cudaStreamEndCapture(stream, &graph);
        if (error == cudaSuccess) error = failed_capture;
    }
    if (error == cudaSuccess) error = cudaGraphInstantiate(&made, graph, 0);
    if (graph != nullptr) cudaGraphDestroy(graph);
    if (error == cudaSuccess) return made;
    cudaGetLastError();
    if (early) {
        // A driver may be older than such launches in graphs are.
        early = false;
        return captured_graph(make, of);
    }
    fprintf(stderr, "no graph of the %s (%s): its kernels are launched one by one\n", of, cudaGetErrorString(error));
    return nullptr;
}
