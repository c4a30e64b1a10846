// Layer normalization and division by the length of rows of `columns` elements, by `lanes` threads a row: a warp, or a
// block of 256.
#pragma once

#include "logos.cuh"

template <int lanes>
__device__ __forceinline__ float row_sum(float x, float *partial) {
    return lanes == 32 ? warp_join<Sum>(x) : block_join<Sum>(x, partial);
}

// All is taken less the row's first element, so that a row of neighbours far from 0 keeps its digits; and the variance
// is the mean of the squared deviations, not the difference of two large sums.
template <int lanes>
__device__ inline void layernorm(const Real *x, const Real *w, const Real *b, Real *y, Size rows, Size columns,
                                 float eps) {
    LOGOS_SHARED(float, partial, 32);
    const int lane = threadIdx.x % lanes;
    for (Size row = first_index() / lanes; row < rows; row += grid_threads() / lanes) {
        const Real *from = x + row * columns;
        const float shift = from[0];
        float sum = 0.0f;
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) sum += from[i] - shift;
        const float mean = row_sum<lanes>(sum, partial) / static_cast<float>(columns);
        float squares = 0.0f;
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) {
            const float off = from[i] - shift - mean;
            squares = fmaf(off, off, squares);
        }
        const float scale = 1.0f / sqrtf(row_sum<lanes>(squares, partial) / static_cast<float>(columns) + eps);
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) {
            y[row * columns + i] = fmaf((from[i] - shift - mean) * scale, w[i], b[i]);
        }
    }
}

template <int lanes>
__device__ inline void l2norm(const Real *x, Real *y, Size rows, Size columns, float eps) {
    LOGOS_SHARED(float, partial, 32);
    const int lane = threadIdx.x % lanes;
    for (Size row = first_index() / lanes; row < rows; row += grid_threads() / lanes) {
        const Real *from = x + row * columns;
        float squares = 0.0f;
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) squares = fmaf(from[i], from[i], squares);
        const float scale = 1.0f / sqrtf(row_sum<lanes>(squares, partial) + eps);
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) y[row * columns + i] = from[i] * scale;
    }
}
