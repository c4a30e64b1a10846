// Graphs: what a stream was given between begin and end, with its arguments as they were, run again at each launch.
#pragma once

#include "runtime.h"

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    if (stream == nullptr) return logos_host::answer(cudaErrorStreamCaptureUnsupported);
    if (logos_host::open_capture) return logos_host::answer(cudaErrorIllegalState);
    bool relaxed = mode == cudaStreamCaptureModeRelaxed;
    logos_host::open_capture = stream->capture = new logos_host::Capture{{}, stream, relaxed};
    return cudaSuccess;
}

inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    *graph = nullptr;
    logos_host::Capture *capture = logos_host::stream_of(stream)->capture;
    if (capture == nullptr || capture->origin != stream) return logos_host::answer(cudaErrorIllegalState);
    bool joined = true;
    for (size_t i = 0; i < logos_host::streams.count; i++) {
        logos_host::Stream *member = logos_host::streams.items[i];
        if (member->capture != capture) continue;
        joined &= member == stream || member->joined;
        member->capture = nullptr;
    }
    logos_host::open_capture = nullptr;
    cudaError_t error = capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    if (error == cudaSuccess && !joined) error = cudaErrorStreamCaptureUnjoined;
    if (error != cudaSuccess) {
        capture->operations.let_all_go();
    } else {
        *graph = new logos_host::Graph;
        (*graph)->operations = capture->operations;
    }
    delete capture;
    return logos_host::answer(error);
}

inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long = 0) {
    *made = new logos_host::Graph;
    for (size_t i = 0; i < graph->operations.count; i++) (*made)->operations.hold(graph->operations.items[i]);
    return cudaSuccess;
}

inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    for (size_t i = 0; i < graph->operations.count; i++) {
        if (cudaError_t error = logos_host::issue(graph->operations.items[i], stream)) return error;
    }
    return cudaSuccess;
}

inline cudaError_t cudaGraphGetNodes(cudaGraph_t graph, void *nodes, size_t *count) {
    if (nodes != nullptr) return logos_host::answer(cudaErrorInvalidValue);
    *count = graph->operations.count;
    return cudaSuccess;
}

inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    graph->operations.let_all_go();
    delete graph;
    return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return cudaGraphDestroy(graph); }
