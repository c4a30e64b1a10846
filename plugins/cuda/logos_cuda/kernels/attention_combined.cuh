// Attention whose parts are joined by the block that comes last: one launch.
#pragma once

#include "attention.cuh"

// The queries of a tile, joined by the block that makes the last of its parts. A counter for each tile of each step.
template <typename Sink>
__device__ __forceinline__ void join_tile(const Real *values, const Real *maxima, const Real *sums, Sink y,
                                          int *arrivals, Size groups, Size heads, Size splits, Size steps,
                                          Size width) {
    const Size number = blockIdx.x / splits;
    if (!comes_last(arrivals + number, 1, static_cast<int>(splits))) return;
    const Size tiles = (heads + HEADS - 1) / HEADS, tile = number % tiles, begin = number / tiles * heads;
    const Size end = begin + (tile + 1) * HEADS < begin + heads ? begin + (tile + 1) * HEADS : begin + heads;
    for (Size query = begin + tile * HEADS; query < end; ++query) {
        join_parts(values, maxima, sums, y, query, steps * groups * heads, splits, width);
    }
}

template <int lanes, typename T>
__device__ inline void attention_combined(const Real *q, const T *k, const T *v, Real *values, Real *maxima, Real *sums,
                                          Real *y, int *arrivals, Size rows, Size groups, Size heads, Size splits,
                                          Size width, float scale) {
    attention<lanes>(q, k, v, values, maxima, sums, rows, groups, heads, splits, width, scale);
    join_tile(values, maxima, sums, Stored{y}, arrivals, groups, heads, splits, 1, width);
}

template <int lanes, typename T>
__device__ inline void attention_up_to_combined(const Real *q, const T *k, const T *v, const Int *last, Real *values,
                                                Real *maxima, Real *sums, Real *y, int *arrivals, Fault *fault,
                                                int stage, Size rows, Size groups, Size heads, Size splits, Size steps,
                                                Size width, float scale) {
    attention_up_to<lanes>(q, k, v, last, values, maxima, sums, fault, stage, rows, groups, heads, splits, steps, width,
                           scale);
    join_tile(values, maxima, sums, Stored{y}, arrivals, groups, heads, splits, steps, width);
}
