// The transpose of a (rows, columns) matrix, in tiles of 32 by 32 brought by 256 threads.
#pragma once

#include "logos.cuh"

template <typename T>
__device__ inline void transpose(const T *x, T *y, Size rows, Size columns) {
    LOGOS_SHARED(T, tile, 32 * 33);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Size across = (columns + 31) / 32, tiles = across * ((rows + 31) / 32);
    for (Size number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Size top = number / across * 32, start = number % across * 32;
        for (int i = warp; i < 32; i += 8) {
            if (top + i < rows && start + lane < columns) tile[i * 33 + lane] = x[(top + i) * columns + start + lane];
        }
        __syncthreads();
        for (int i = warp; i < 32; i += 8) {
            if (start + i < columns && top + lane < rows) y[(start + i) * rows + top + lane] = tile[lane * 33 + i];
        }
        __syncthreads();
    }
}
