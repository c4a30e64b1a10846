// Reads and writes where nothing is, one case each: `memory CASE`. The address sanitizer finds them.
#include <stdio.h>
#include <string.h>

#include "logos.cuh"

extern "C" __global__ void global_read(const int *in, int *out, int n) { out[threadIdx.x] = in[threadIdx.x + n]; }

extern "C" __global__ void global_write(int *out, long long at) {
    if (threadIdx.x == 40) out[at] = 1;
}

extern "C" __global__ void shared_read(int *out, int at) {
    LOGOS_SHARED(int, row, 37);
    LOGOS_SHARED(int, other, 37);
    row[threadIdx.x] = other[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = row[threadIdx.x + at];
}

// The same through a pointer, of which the compiler knows no bound.
extern "C" __global__ void shared_pointer(int *out, int at) {
    LOGOS_SHARED(int, row, 37);
    LOGOS_SHARED(int, other, 37);
    int *const which[2] = {row, other};
    which[out == nullptr][threadIdx.x] = 1;
    out[threadIdx.x] = which[out == nullptr][threadIdx.x + at];
}

extern "C" __global__ void dynamic_write(int at) {
    LOGOS_DYNAMIC_SHARED(int, row);
    row[threadIdx.x + at] = 1;
}

extern "C" __global__ void misaligned(int *out) {
    LOGOS_SHARED(float, row, 64);
    row[threadIdx.x] = row[threadIdx.x + 32] = 1;
    __syncthreads();
    const float4 *four = reinterpret_cast<const float4 *>(row + threadIdx.x / 4 * 4);
    out[threadIdx.x] = int(four->x + four->w);
}

// Follows a pointer that device memory holds, which no launch's arguments show.
extern "C" __global__ void within(int *const *table) { *table[0] = 1; }

// Every other element is written; the rest, of global and of shared memory, shows what nothing wrote.
extern "C" __global__ void unwritten(float *out, double *wide, unsigned short *narrow) {
    LOGOS_SHARED(float, row, 64);
    if (threadIdx.x % 2) row[threadIdx.x] = 2;
    __syncthreads();
    out[threadIdx.x + 64] = row[threadIdx.x];
    if (threadIdx.x % 2 == 0) out[threadIdx.x] = wide[threadIdx.x] = narrow[threadIdx.x] = 1;
}

int main(int count, char **arguments) {
    const char *name = count == 2 ? arguments[1] : "";
    int *in, *out;
    cudaMalloc((void **)&in, 32 * sizeof(int));
    cudaMalloc((void **)&out, 64 * sizeof(int));
    cudaMemset(in, 0, 32 * sizeof(int));
    if (!strcmp(name, "inside")) {
        LOGOS_LAUNCH(global_read, 1, 32, 0, 0, in, out, 0);
        LOGOS_LAUNCH(global_write, 1, 64, 0, 0, out, 63);
        LOGOS_LAUNCH(shared_read, 2, 36, 0, 0, out, 1);
        LOGOS_LAUNCH(dynamic_write, 2, 32, 128, 0, 0);
    }
    if (!strcmp(name, "global_read")) LOGOS_LAUNCH(global_read, 1, 32, 0, 0, in, out, 1);
    if (!strcmp(name, "global_write")) LOGOS_LAUNCH(global_write, 1, 64, 0, 0, out, 64);
    if (!strcmp(name, "before")) LOGOS_LAUNCH(global_write, 1, 64, 0, 0, out, -1);
    if (!strcmp(name, "shared_read")) LOGOS_LAUNCH(shared_read, 1, 36, 0, 0, out, 2);
    if (!strcmp(name, "shared_pointer")) LOGOS_LAUNCH(shared_pointer, 1, 32, 0, 0, out, 6);
    if (!strcmp(name, "dynamic_write")) LOGOS_LAUNCH(dynamic_write, 1, 32, 128, 0, 1);
    if (!strcmp(name, "misaligned")) LOGOS_LAUNCH(misaligned, 1, 32, 0, 0, out);
    if (!strcmp(name, "freed")) {
        cudaStream_t stream;
        cudaGraph_t graph;
        cudaGraphExec_t made;
        int *late = out;
        cudaStreamCreate(&stream);
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
        LOGOS_LAUNCH(global_write, 1, 64, 0, stream, out, 2);
        cudaStreamEndCapture(stream, &graph);
        cudaGraphInstantiate(&made, graph);
        cudaGraphLaunch(made, stream);
        cudaFree(late);
        cudaGraphLaunch(made, stream);
    }
    if (!strcmp(name, "freed_within")) {
        int **table;
        cudaMalloc((void **)&table, sizeof out);
        cudaMemcpy(table, &out, sizeof out, cudaMemcpyHostToDevice);
        cudaFree(out);
        LOGOS_LAUNCH(within, 1, 1, 0, 0, table);
    }
    if (!strcmp(name, "unwritten")) {
        float *real, reals[128];
        double *wide, wides[2];
        unsigned short *narrow, narrows[2];
        cudaMalloc((void **)&real, sizeof reals);
        cudaMalloc((void **)&wide, 64 * sizeof(double));
        cudaMalloc((void **)&narrow, 128);
        LOGOS_LAUNCH(unwritten, 1, 64, 0, 0, real, wide, narrow);
        cudaMemcpy(reals, real, sizeof reals, cudaMemcpyDeviceToHost);
        cudaMemcpy(wides, wide, sizeof wides, cudaMemcpyDeviceToHost);
        cudaMemcpy(narrows, narrow, sizeof narrows, cudaMemcpyDeviceToHost);
        for (int i = 0; i < 128; i++) printf("%g ", reals[i]);
        printf("%g %g %x %x %lld\n", wides[0], wides[1], narrows[0], narrows[1], *(long long *)&wides[1]);
    }
    cudaDeviceSynchronize();
    printf("the end\n");
    return 0;
}
