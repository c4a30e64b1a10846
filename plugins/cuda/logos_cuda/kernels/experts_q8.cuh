// Routed experts in Q8_0 by dp4a. In one pass activations keep 8 bits; in two, what the first leaves keeps 8 more, and
// the results are a float32 product's to some 1e-5. Pass p of x starts p times `x`'s whole size behind the first.
#pragma once

#include "logos.cuh"
#include "matvec_q8.cuh"

// The product of a row of W with x in all its passes, in every lane of the warp's share of it.
template <int passes>
__device__ __forceinline__ float passes_share(const Quant *w, const Half *ws, const Quant *x, const Real *xs,
                                              Size blocks, Size apart, int lane) {
    float sum[passes] = {};
    q8_share<32>(w, ws, x, xs, blocks, apart, passes, lane, sum);
    return passes == 1 ? sum[0] : sum[0] + sum[passes - 1];
}

// Element i of hidden (rows, top, inner) = silu(G x) * U x, by a warp; expert e's rows of G and U start at e * inner.
template <int passes>
__device__ __forceinline__ void hidden_q8(const Quant *x, const Real *xs, const Quant *gate, const Half *gs,
                                          const Quant *up, const Half *us, const Int *chosen, Real *hidden, Size i,
                                          Size rows, Size top, Size inner, Size width) {
    const int lane = threadIdx.x % 32;
    const Size blocks = width / 32, apart = rows * blocks;
    const Size slot = i / inner, row = slot / top, at = chosen[slot] * inner + i % inner;
    const Quant *from = x + row * width;
    const Real *scales = xs + row * blocks;
    const float g =
        warp_join<Sum>(passes_share<passes>(gate + at * width, gs + at * blocks, from, scales, blocks, apart, lane));
    const float u =
        warp_join<Sum>(passes_share<passes>(up + at * width, us + at * blocks, from, scales, blocks, apart, lane));
    if (lane == 0) hidden[i] = g / (1.0f + expf(-g)) * u;
}

template <int passes>
__device__ inline void experts_hidden_q8(const Quant *x, const Real *xs, const Quant *gate, const Half *gs,
                                         const Quant *up, const Half *us, const Int *chosen, Real *hidden, Size rows,
                                         Size top, Size inner, Size width) {
    for (Size i = first_index() / 32; i < rows * top * inner; i += grid_threads() / 32) {
        hidden_q8<passes>(x, xs, gate, gs, up, us, chosen, hidden, i, rows, top, inner, width);
    }
}

// y (rows, width) = the sum over the chosen experts of share * D h, a warp for each element; D's rows start at e * width.
template <int passes>
__device__ inline void experts_down_q8(const Quant *hidden, const Real *hs, const Quant *down, const Half *ds,
                                       const Int *chosen, const Real *shares, Real *y, Size rows, Size top, Size inner,
                                       Size width) {
    const int lane = threadIdx.x % 32;
    const Size blocks = inner / 32, apart = rows * top * blocks;
    for (Size i = first_index() / 32; i < rows * width; i += grid_threads() / 32) {
        const Size row = i / width;
        float sum = 0.0f;
#pragma unroll 2
        for (Size slot = row * top; slot < (row + 1) * top; ++slot) {
            const Size at = chosen[slot] * width + i % width;
            const float part = passes_share<passes>(down + at * inner, ds + at * blocks, hidden + slot * inner,
                                                    hs + slot * blocks, blocks, apart, lane);
            sum = fmaf(shares[slot], part, sum);
        }
        sum = warp_join<Sum>(sum);
        if (lane == 0) y[i] = sum;
    }
}
