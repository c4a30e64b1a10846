// A gated delta rule in one launch: a head is normed by the block that makes the last of its rows.
#pragma once

#include "recurrent.cuh"

// The `width` rows of a head are a multiple of what a block takes at once; a counter for each head.
template <typename Sink>
__device__ __forceinline__ void delta_rows_normed(const Real *q, const Real *k, const Real *v, const Real *beta,
                                                  const Real *alpha, Real *memory, Real *o, const Real *z,
                                                  const Real *gn, Sink y, int *arrivals, Size heads, Size groups,
                                                  Size width, Size steps, float scale, float eps) {
    LOGOS_SHARED(float, partial, 32);
    const int together = blockDim.x / 32;
    for (Size first = static_cast<Size>(blockIdx.x) * together; first < heads * width;
         first += static_cast<Size>(gridDim.x) * together) {
        delta_row(q, k, v, beta, alpha, memory, o, first + threadIdx.x / 32, heads, groups, width, steps, scale);
        const Size head = first / width;
        if (!comes_last(arrivals + head, together, static_cast<int>(width))) continue;
        for (Size step = 0; step < steps; ++step) {
            delta_norm_head(o, z, gn, y, step * heads + head, width, eps, partial);
        }
    }
}

__device__ inline void delta_combined(const Real *q, const Real *k, const Real *v, const Real *beta, const Real *alpha,
                                      Real *memory, Real *o, const Real *z, const Real *gn, Real *y, int *arrivals,
                                      Size heads, Size groups, Size width, Size steps, float scale, float eps) {
    delta_rows_normed(q, k, v, beta, alpha, memory, o, z, gn, Stored{y}, arrivals, heads, groups, width, steps, scale,
                      eps);
}
