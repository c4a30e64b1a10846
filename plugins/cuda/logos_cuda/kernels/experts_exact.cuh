// Routed experts in Q8_0 by float32 activations, sums in double; as experts_q8.cuh has them by dp4a.
#pragma once

#include "logos.cuh"
#include "exact_q8.cuh"

// The warp's product of a row of W and x, in every lane.
__device__ __forceinline__ double exact_product(const Quant *w, const Half *ws, const Real *x, Size blocks, int lane) {
    double sum[1] = {};
    exact_share(w, ws, x, blocks, 1, lane, sum);
    return warp_sum(sum[0]);
}

__device__ inline void experts_hidden_exact(const Real *x, const Quant *gate, const Half *gs, const Quant *up,
                                            const Half *us, const Int *chosen, Real *hidden, Size rows, Size top,
                                            Size inner, Size width) {
    const int lane = threadIdx.x % 32;
    const Size blocks = width / 32;
    for (Size i = first_index() / 32; i < rows * top * inner; i += grid_threads() / 32) {
        const Size slot = i / inner, at = chosen[slot] * inner + i % inner;
        const Real *from = x + slot / top * width;
        const float g = static_cast<float>(exact_product(gate + at * width, gs + at * blocks, from, blocks, lane));
        const float u = static_cast<float>(exact_product(up + at * width, us + at * blocks, from, blocks, lane));
        if (lane == 0) hidden[i] = g / (1.0f + expf(-g)) * u;
    }
}

__device__ inline void experts_down_exact(const Real *hidden, const Quant *down, const Half *ds, const Int *chosen,
                                          const Real *shares, Real *y, Size rows, Size top, Size inner, Size width) {
    const int lane = threadIdx.x % 32;
    const Size blocks = inner / 32;
    for (Size i = first_index() / 32; i < rows * width; i += grid_threads() / 32) {
        const Size row = i / width;
        double sum = 0.0;
        for (Size slot = row * top; slot < (row + 1) * top; ++slot) {
            const Size at = chosen[slot] * width + i % width;
            const double part = exact_product(down + at * inner, ds + at * blocks, hidden + slot * inner, blocks, lane);
            sum = fma(static_cast<double>(shares[slot]), part, sum);
        }
        if (lane == 0) y[i] = static_cast<Real>(sum);
    }
}
