// Attention whose result goes on in Q8_0: heads of a multiple of 32 elements; y is kept where there is a pointer for it.
#pragma once

#include "attention_combined.cuh"
#include "quantize.cuh"

__device__ inline void attention_join_q8(const Real *values, const Real *maxima, const Real *sums, Real *y, Quant *made,
                                         Real *scales, Size heads, Size splits, Size width) {
    for (Size head = blockIdx.x; head < heads; head += gridDim.x) {
        join_parts(values, maxima, sums, Quantized{y, made, scales}, head, heads, splits, width);
    }
}

template <int lanes, typename T>
__device__ inline void attention_combined_q8(const Real *q, const T *k, const T *v, Real *values, Real *maxima,
                                             Real *sums, Real *y, Quant *made, Real *scales, int *arrivals, Size rows,
                                             Size groups, Size heads, Size splits, Size width, float scale) {
    attention<lanes>(q, k, v, values, maxima, sums, rows, groups, heads, splits, width, scale);
    join_tile(values, maxima, sums, Quantized{y, made, scales}, arrivals, groups, heads, splits, 1, width);
}

template <int lanes, typename T>
__device__ inline void attention_up_to_combined_q8(const Real *q, const T *k, const T *v, const Int *last, Real *values,
                                                   Real *maxima, Real *sums, Real *y, Quant *made, Real *scales,
                                                   int *arrivals, Fault *fault, int stage, Size rows, Size groups,
                                                   Size heads, Size splits, Size steps, Size width, float scale) {
    attention_up_to<lanes>(q, k, v, last, values, maxima, sums, fault, stage, rows, groups, heads, splits, steps, width,
                           scale);
    join_tile(values, maxima, sums, Quantized{y, made, scales}, arrivals, groups, heads, splits, steps, width);
}
