// What the runtime answers, printed: `runtime CASE`. Compiled by nvcc or for the host.
#include <stdio.h>
#include <string.h>

#include "logos.cuh"

extern "C" __global__ void add(int *x, const int *step, int n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) x[i] = int(3u * unsigned(x[i]) + unsigned(*step));
}
extern "C" __global__ void count_up(int *step) { *step += 1; }
extern "C" __global__ void large(int *out) {
    LOGOS_DYNAMIC_SHARED(int, row);
    row[threadIdx.x * 1000] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = row[(blockDim.x - 1 - threadIdx.x) * 1000];
}
extern "C" __global__ void where(unsigned *out) {
    const unsigned last[3] = {gridDim.x - 1, gridDim.y - 1, gridDim.z - 1};
    if (blockIdx.x == last[0] && blockIdx.y == last[1] && blockIdx.z == last[2]) {
        out[0] = blockIdx.x, out[1] = blockIdx.y, out[2] = blockIdx.z;
    }
}

static void say(const char *what, cudaError_t error) { printf("%s: %s\n", what, cudaGetErrorName(error)); }
#define SAY(call) say(#call, call)

static void launches(int *x) {
    LOGOS_LAUNCH(add, 1, 1025, 0, 0, x, x, 1);
    SAY(cudaPeekAtLastError());
    SAY(cudaGetLastError());
    SAY(cudaGetLastError());
    LOGOS_LAUNCH(add, 1, dim3(1, 1, 65), 0, 0, x, x, 1);
    SAY(cudaGetLastError());
    LOGOS_LAUNCH(add, dim3(1, 65536), 1, 0, 0, x, x, 1);
    SAY(cudaGetLastError());
    LOGOS_LAUNCH(add, dim3(1, 1, 65536), 1, 0, 0, x, x, 1);
    SAY(cudaGetLastError());
    LOGOS_LAUNCH(add, dim3(0x80000000u), 1, 0, 0, x, x, 1);
    SAY(cudaGetLastError());
    LOGOS_LAUNCH(add, 0, 1, 0, 0, x, x, 1);
    SAY(cudaGetLastError());
    LOGOS_LAUNCH(large, 1, 13, 49153, 0, x);
    SAY(cudaGetLastError());
    SAY(cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, 232449));
    SAY(cudaGetLastError());
    SAY(cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, 232448));
    LOGOS_LAUNCH(large, 1, 58, 232448, 0, x);
    SAY(cudaGetLastError());
    int first[2];
    SAY(cudaMemcpy(first, x, sizeof first, cudaMemcpyDeviceToHost));
    printf("%d %d\n", first[0], first[1]);
    unsigned last[3];
    LOGOS_LAUNCH(where, dim3(2, 300, 300), 32, 0, 0, (unsigned *)x);
    cudaMemcpy(last, x, sizeof last, cudaMemcpyDeviceToHost);
    printf("%u %u %u\n", last[0], last[1], last[2]);
}

static void copies(int *x) {
    int mine[4] = {1, 2, 3, 4};
    SAY(cudaMemcpy(x, mine, sizeof mine, cudaMemcpyHostToDevice));
    SAY(cudaMemset(x + 1, 1, 4));
    mine[2] = 0;
    SAY(cudaMemcpy(mine, x, 8, cudaMemcpyDefault));
    printf("%d %d %d\n", mine[0], mine[1], mine[2]);
#ifndef __CUDACC__
    SAY(cudaMemcpy(mine, x, 257 * 4, cudaMemcpyDeviceToHost));
    SAY(cudaMemcpy(x, x + 255, 8, cudaMemcpyDeviceToDevice));
    SAY(cudaMemset(x + 255, 0, 8));
    SAY(cudaMemcpy(mine, mine + 2, 4, cudaMemcpyHostToDevice));
    SAY(cudaFree(x + 1));
    SAY(cudaFreeHost(x));
#endif
    SAY(cudaFree(nullptr));
    void *none = &mine;
    SAY(cudaMalloc(&none, 0));
    printf("%d\n", none == nullptr);
    SAY(cudaSetDevice(0));
    SAY(cudaSetDevice(99));
    printf("%s, %s\n", cudaGetErrorString(cudaErrorInvalidDevice), cudaGetErrorString(cudaSuccess));
}

// What a stream was given is done only when the program waits: pinned memory still holds what it held.
static void streams(int *x) {
    int *pinned;
    cudaStream_t stream;
    cudaEvent_t from, to;
    float milliseconds = -1;
    cudaMallocHost((void **)&pinned, 4);
    cudaStreamCreate(&stream), cudaEventCreate(&from), cudaEventCreate(&to);
    *pinned = 5;
    cudaMemsetAsync(x, 0, 8, stream);
    cudaEventRecord(from, stream);
    LOGOS_LAUNCH(count_up, 1, 1, 0, stream, x + 1);
    LOGOS_LAUNCH(add, 1, 32, 0, stream, x, x + 1, 1);
    cudaMemcpyAsync(pinned, x, 4, cudaMemcpyDeviceToHost, stream);
    cudaEventRecord(to, stream);
#ifndef __CUDACC__
    printf("%d\n", *pinned);
    SAY(cudaEventElapsedTime(&milliseconds, from, to));
#endif
    SAY(cudaEventSynchronize(to));
    printf("%d\n", *pinned);
    SAY(cudaEventElapsedTime(&milliseconds, from, to));
    printf("%d\n", milliseconds >= 0);
    SAY(cudaEventDestroy(from));
    SAY(cudaStreamDestroy(stream));
    SAY(cudaFreeHost(pinned));
}

static void step(int *x, int *counter, cudaStream_t stream) {
    LOGOS_LAUNCH(add, 3, 100, 0, stream, x, counter, 256);
    LOGOS_LAUNCH(count_up, 1, 1, 0, stream, counter);
}

// Sixty-four steps by one graph's replays, and as many plain: the same numbers.
static void replays(int *x) {
    unsigned sums[2];
    int *counter, host[256];
    cudaStream_t stream, other;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    cudaGraphExec_t made;
    size_t nodes;
    cudaMalloc((void **)&counter, 4);
    cudaStreamCreate(&stream), cudaStreamCreate(&other), cudaEventCreate(&fork), cudaEventCreate(&join);
    SAY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    int *given = x;
    cudaEventRecord(fork, stream), cudaStreamWaitEvent(other, fork, 0);
    step(given, counter, other);
    cudaEventRecord(join, other), cudaStreamWaitEvent(stream, join, 0);
    given = nullptr;
    SAY(cudaStreamEndCapture(stream, &graph));
    SAY(cudaGraphGetNodes(graph, nullptr, &nodes));
    SAY(cudaGraphInstantiate(&made, graph, 0));
    SAY(cudaGraphDestroy(graph));
    for (int way = 0; way < 2; way++) {
        cudaMemset(x, 0, 1024), cudaMemset(counter, 0, 4);
        for (int i = 0; i < 64; i++) {
            if (way) step(x, counter, stream);
            else cudaGraphLaunch(made, stream);
        }
        cudaMemcpyAsync(host, x, 1024, cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
        sums[way] = 0;
        for (int i = 0; i < 256; i++) sums[way] += unsigned(host[i]) * unsigned(2 * i + 1);
    }
    printf("%zu %u %u\n", nodes, sums[0], sums[1]);
    SAY(cudaGraphExecDestroy(made));
}

// What may not be done while a stream captures, each with the capture's end that it spoils.
static void captures(int *x) {
    cudaStream_t stream;
    cudaGraph_t graph;
    void *memory = nullptr;
    int mine = 0;
    SAY(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal));
    cudaStreamCreate(&stream);
    SAY(cudaStreamEndCapture(stream, &graph));
    for (int i = 0; i < 7; i++) {
        cudaStreamBeginCapture(stream, i == 6 ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeGlobal);
        step(x, x, stream);
        if (i == 0) SAY(cudaMalloc(&memory, 4));
        if (i == 1) SAY(cudaMemcpy(&mine, x, 4, cudaMemcpyDeviceToHost));
        if (i == 2) SAY(cudaStreamSynchronize(stream));
        if (i == 3) SAY(cudaDeviceSynchronize());
        if (i == 4) LOGOS_LAUNCH(count_up, 1, 1, 0, 0, x), say("count_up", cudaGetLastError());
        if (i == 5) LOGOS_LAUNCH(add, 1, 2000, 0, stream, x, x, 1), say("add", cudaGetLastError());
        if (i == 6) SAY(cudaMalloc(&memory, 4));
        SAY(cudaStreamEndCapture(stream, &graph));
        printf("%d\n", graph != nullptr);
    }
    cudaStream_t other;
    cudaEvent_t fork;
    cudaStreamCreate(&other), cudaEventCreate(&fork);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaEventRecord(fork, stream), cudaStreamWaitEvent(other, fork, 0);
    step(x, x, other);
    SAY(cudaStreamEndCapture(stream, &graph));
    // Joined, but not for what came after the event.
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaEventRecord(fork, stream), cudaStreamWaitEvent(other, fork, 0);
    cudaEventRecord(fork, other);
    step(x, x, other);
    cudaStreamWaitEvent(stream, fork, 0);
    SAY(cudaStreamEndCapture(stream, &graph));
    cudaGetLastError();
    step(x, x, stream);
    SAY(cudaStreamSynchronize(stream));
    SAY(cudaGetLastError());
}

int main(int count, char **arguments) {
    const char *name = count == 2 ? arguments[1] : "";
    int *x;
    cudaMalloc((void **)&x, 256 * sizeof(int));
    cudaMemset(x, 0, 256 * sizeof(int));
    if (!strcmp(name, "launches")) launches(x);
    if (!strcmp(name, "copies")) copies(x);
    if (!strcmp(name, "streams")) streams(x);
    if (!strcmp(name, "replays")) replays(x);
    if (!strcmp(name, "captures")) captures(x);
    return 0;
}
