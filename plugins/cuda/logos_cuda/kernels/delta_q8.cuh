// A gated delta rule whose result goes on in Q8_0: heads of a multiple of 32; y is kept where there is a pointer for it.
#pragma once

#include "delta_combined.cuh"
#include "quantize.cuh"

__device__ inline void delta_norm_q8(const Real *o, const Real *z, const Real *gn, Real *y, Quant *made, Real *scales,
                                     Size heads, Size width, float eps) {
    delta_norms(o, z, gn, Quantized{y, made, scales}, heads, width, eps);
}

__device__ inline void delta_combined_q8(const Real *q, const Real *k, const Real *v, const Real *beta,
                                         const Real *alpha, Real *memory, Real *o, const Real *z, const Real *gn,
                                         Real *y, Quant *made, Real *scales, int *arrivals, Size heads, Size groups,
                                         Size width, Size steps, float scale, float eps) {
    delta_rows_normed(q, k, v, beta, alpha, memory, o, z, gn, Quantized{y, made, scales}, arrivals, heads, groups,
                      width, steps, scale, eps);
}
