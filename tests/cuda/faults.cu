// What a kernel may not do, one case each: `faults CASE`. The host names it and ends with exit code 86.
#include <stdio.h>
#include <string.h>

#include "gemm_q8.cuh"

extern "C" __global__ void divergent(int *out) {
    int x = threadIdx.x;
    if (x < 48) {
        x = __shfl_xor_sync(0xffffffffu, x, 1);
    } else if (x != 50) {
        __syncthreads();
    }
    out[threadIdx.x] = x;
}

extern "C" __global__ void two_places(int *out) {
    int x = threadIdx.x;
    if (x % 2) x = __shfl_down_sync(0xffffffffu, x, 1);
    else x = __shfl_down_sync(0xffffffffu, x, 2);
    out[threadIdx.x] = x;
}

extern "C" __global__ void two_masks(int *out) {
    const unsigned mask = threadIdx.x < 20 ? 0xffffffffu : 0xfff00000u;
    out[threadIdx.x] = __shfl_sync(mask, 1, 31);
}

extern "C" __global__ void exited(int *out) {
    if (threadIdx.x == 3 || (threadIdx.x >= 7 && threadIdx.x < 10)) return;
    out[threadIdx.x] = __shfl_up_sync(0xffffffffu, 1, 1);
}

extern "C" __global__ void beyond(int *out) { out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1); }

extern "C" __global__ void outside_mask(int *out) {
    out[threadIdx.x] = __ballot_sync(0x0000ffffu, 1);
}

extern "C" __global__ void reads_outside(int *out) {
    if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1, 16);
}

extern "C" __global__ void two_barriers(int *out) {
    if (threadIdx.x < 33) __syncthreads();
    else out[threadIdx.x] = __syncthreads_or(1);
}

extern "C" __global__ void deadlock(int *out) {
    const int t = threadIdx.x + blockDim.x * threadIdx.y;
    if (t < 8) __syncwarp(0x0000ffffu);
    else __syncthreads();
    out[t] = 1;
}

extern "C" __global__ void divergent_mma(int *out) {
    int d[4] = {0, 0, 0, 0};
    const unsigned a[4] = {1, 2, 3, 4}, b[2] = {5, 6};
    if (threadIdx.x != 31) logos_mma_s8(d, a, b);
    out[threadIdx.x] = d[0];
}

extern "C" __global__ void width(int *out) {
    out[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0, out == nullptr ? 8 : 12);
}

extern "C" __global__ void unaligned(int *out) {
    LOGOS_SHARED(int4, row, 2);
    logos_copy_async(&row[threadIdx.x], out + 1);
    logos_copy_wait<0>();
}

extern "C" __global__ void unaligned_matrix(int *out) {
    LOGOS_SHARED(int4, rows, 33);
    unsigned got[4];
    logos_load_matrices(got, reinterpret_cast<int *>(&rows[threadIdx.x]) + 1);
    out[threadIdx.x] = static_cast<int>(got[0]);
}

extern "C" __global__ void divergent_matrix(int *out) {
    LOGOS_SHARED(int4, rows, 32);
    unsigned got[4] = {};
    if (threadIdx.x != 31) logos_load_matrices(got, &rows[threadIdx.x]);
    out[threadIdx.x] = static_cast<int>(got[0]);
}

// Shared memory of a block and what a launch adds to it: 40 KB and 200 KB are more than 227 KB.
extern "C" __global__ void too_much(int *out) {
    LOGOS_SHARED(int, row, 10240);
    row[threadIdx.x] = 1;
    out[threadIdx.x] = row[0];
}

extern "C" __global__ void nowhere(int *out, const int *in) { out[threadIdx.x] = in[threadIdx.x]; }

extern "C" __global__ void divides(int *out, int by) { out[threadIdx.x] = 7 / (by - int(threadIdx.x)); }

extern "C" __global__ void deep(int *out) {
    volatile char row[400 << 10];
    for (int i = 0; i < int(sizeof row); i += 1000) row[i] = char(i);
    out[threadIdx.x] = row[threadIdx.x * 1000];
}

extern "C" __global__ void plain(int *out) { out[0] = 1; }

int main(int count, char **arguments) {
    const char *name = count == 2 ? arguments[1] : "";
    int *out, mine[64];
    cudaMalloc((void **)&out, 256 * sizeof(int));
#define CASE(kernel, grid, block) \
    if (!strcmp(name, #kernel)) LOGOS_LAUNCH(kernel, grid, block, 0, 0, out)
    CASE(divergent, 1, 64);
    CASE(two_places, 1, 32);
    CASE(two_masks, 1, 32);
    CASE(exited, 1, 32);
    CASE(beyond, 1, 33);
    CASE(outside_mask, 1, 32);
    CASE(reads_outside, 1, 32);
    CASE(two_barriers, 1, 64);
    CASE(deadlock, dim3(2, 1, 1), dim3(16, 4, 1));
    CASE(divergent_mma, 1, 32);
    CASE(width, 1, 32);
    CASE(unaligned, 1, 2);
    CASE(unaligned_matrix, 1, 32);
    CASE(divergent_matrix, 1, 32);
    if (!strcmp(name, "too_much")) {
        cudaFuncSetAttribute(too_much, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10);
        LOGOS_LAUNCH(too_much, 1, 32, 200 << 10, 0, out);
    }
    CASE(deep, 1, 1);
    if (!strcmp(name, "nowhere")) LOGOS_LAUNCH(nowhere, 1, 1, 0, 0, out, nullptr);
    if (!strcmp(name, "divides")) LOGOS_LAUNCH(divides, 1, 32, 0, 0, out, 5);
    if (!strcmp(name, "host_pointer")) LOGOS_LAUNCH(plain, 1, 1, 0, 0, mine);
#ifndef __CUDACC__
    if (!strcmp(name, "outside")) __syncthreads();
#endif
    cudaDeviceSynchronize();
    printf("the end\n");
    return 0;
}
