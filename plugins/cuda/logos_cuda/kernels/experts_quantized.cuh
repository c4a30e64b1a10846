// The hidden rows of experts that go on in Q8_0: `inner` is a multiple of 32, with a counter for each 32.
#pragma once

#include "experts_q8.cuh"
#include "quantize.cuh"

__device__ inline void experts_hidden_quantized(const Quant *x, const Real *xs, const Quant *gate, const Half *gs,
                                                const Quant *up, const Half *us, const Int *chosen, Real *hidden,
                                                Quant *made, Real *scales, int *arrivals, Size rows, Size top,
                                                Size inner, Size width) {
    const int together = blockDim.x / 32;
    for (Size first = static_cast<Size>(blockIdx.x) * together; first < rows * top * inner;
         first += static_cast<Size>(gridDim.x) * together) {
        hidden_q8<1>(x, xs, gate, gs, up, us, chosen, hidden, first + threadIdx.x / 32, rows, top, inner, width);
        quantize_when_made(hidden, first, together, made, scales, arrivals);
    }
}
