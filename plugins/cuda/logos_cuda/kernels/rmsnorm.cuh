// Root mean square normalization of rows of `columns` elements, by `lanes` threads a row: a warp, or a block of 256.
#pragma once

#include "logos.cuh"

template <bool plus, bool weight, int lanes, typename Sink>
__device__ __forceinline__ void rmsnorm_rows(const Real *x, const Real *res, const Real *w, Sink y, Size rows,
                                             Size columns, float eps) {
    LOGOS_SHARED(float, partial, 32);
    const int lane = threadIdx.x % lanes;
    for (Size row = first_index() / lanes; row < rows; row += grid_threads() / lanes) {
        const Size start = row * columns;
        const Real *const from = x + start, *const more = plus ? res + start : nullptr;
        float squares = 0.0f;
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) {
            const float value = plus ? from[i] + more[i] : from[i];
            squares = fmaf(value, value, squares);
        }
        squares = lanes == 32 ? warp_join<Sum>(squares) : block_join<Sum>(squares, partial);
        const float scale = 1.0f / sqrtf(squares / static_cast<float>(columns) + eps);
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) {
            const float value = plus ? from[i] + more[i] : from[i];
            y(start + i, weight ? value * scale * w[i] : value * scale);
        }
    }
}

template <bool plus, bool weight, int lanes>
__device__ inline void rmsnorm(const Real *x, const Real *res, const Real *w, Real *y, Size rows, Size columns,
                               float eps) {
    rmsnorm_rows<plus, weight, lanes>(x, res, w, Stored{y}, rows, columns, eps);
}

// The same of a + b, which is kept where there is a pointer for it.
template <int lanes, typename Sink>
__device__ __forceinline__ void add_rmsnorm_rows(const Real *a, const Real *b, const Real *w, Real *sum, Sink y,
                                                 Size rows, Size columns, float eps) {
    LOGOS_SHARED(float, partial, 32);
    const int lane = threadIdx.x % lanes;
    for (Size row = first_index() / lanes; row < rows; row += grid_threads() / lanes) {
        const Size start = row * columns;
        float squares = 0.0f;
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) {
            const float value = a[start + i] + b[start + i];
            if (sum != nullptr) sum[start + i] = value;
            squares = fmaf(value, value, squares);
        }
        squares = lanes == 32 ? warp_join<Sum>(squares) : block_join<Sum>(squares, partial);
        const float scale = 1.0f / sqrtf(squares / static_cast<float>(columns) + eps);
#pragma unroll 4
        for (Size i = lane; i < columns; i += lanes) y(start + i, (a[start + i] + b[start + i]) * scale * w[i]);
    }
}

template <int lanes>
__device__ inline void add_rmsnorm(const Real *a, const Real *b, const Real *w, Real *sum, Real *y, Size rows,
                                   Size columns, float eps) {
    add_rmsnorm_rows<lanes>(a, b, w, sum, Stored{y}, rows, columns, eps);
}
