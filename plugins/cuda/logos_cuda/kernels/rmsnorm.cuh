// Root mean square normalization of rows of `columns` elements, by `lanes` threads a row: a warp, or a block of 256.
#pragma once

#include "logos.cuh"

template <bool plus, bool weight, int lanes>
__device__ inline void rmsnorm(const Real *x, const Real *res, const Real *w, Real *y, Size rows, Size columns,
                               float eps) {
    LOGOS_SHARED(float, partial, 32);
    const int lane = threadIdx.x % lanes;
    const Size abreast = blockDim.x / lanes;
    for (Size row = blockIdx.x * abreast + threadIdx.x / lanes; row < rows; row += gridDim.x * abreast) {
        const Size start = row * columns;
        float squares = 0.0f;
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) {
            const float value = plus ? x[start + i] + res[start + i] : x[start + i];
            squares = fmaf(value, value, squares);
        }
        squares = lanes == 32 ? warp_join<Sum>(squares) : block_join<Sum>(squares, partial);
        const float scale = 1.0f / sqrtf(squares / static_cast<float>(columns) + eps);
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) {
            const float value = plus ? x[start + i] + res[start + i] : x[start + i];
            y[start + i] = weight ? value * scale * w[i] : value * scale;
        }
    }
}
