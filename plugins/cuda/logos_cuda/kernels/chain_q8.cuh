// A chain whose results go on in Q8_0: n is a multiple of 32, and so are the columns where an operand is a row's.
#pragma once

#include "chain.cuh"
#include "quantize.cuh"

template <typename... Steps, typename... Links>
__device__ inline void chain_q8(Quant *made, Real *scales, Size n, Size columns, const Real *x, Links... links) {
    const Chain<Steps...> steps(links...);
    // Whole warps go on together: blocks are joined by shuffles.
    for (Size i = first_index(); i - threadIdx.x % 32 < n / 4; i += grid_threads()) {
        const bool there = i < n / 4;
        float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
        if (there) four = steps.vector(reinterpret_cast<const float4 *>(x)[i], i, columns);
        unsigned quants;
        const float scale = quantize_four(four, quants);
        if (!there) continue;
        reinterpret_cast<unsigned *>(made)[i] = quants;
        if (i % 8 == 0) scales[i / 8] = scale;
    }
}
