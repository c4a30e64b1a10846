// Softmax of rows of any length, by `lanes` threads a row: a warp, or a block of 256.
#pragma once

#include "logos.cuh"

template <int lanes>
__device__ inline void softmax(const Real *x, Real *y, Size rows, Size columns) {
    LOGOS_SHARED(float, partial, 32);
    const int lane = threadIdx.x % lanes;
    for (Size row = first_index() / lanes; row < rows; row += grid_threads() / lanes) {
        const Real *from = x + row * columns;
        float largest = -INFINITY;
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) largest = fmaxf(largest, from[i]);
        largest = lanes == 32 ? warp_join<Max>(largest) : block_join<Max>(largest, partial);
        float sum = 0.0f;
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) sum += expf(from[i] - largest);
        sum = lanes == 32 ? warp_join<Sum>(sum) : block_join<Sum>(sum, partial);
        const float share = 1.0f / sum;
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) y[row * columns + i] = expf(from[i] - largest) * share;
    }
}
