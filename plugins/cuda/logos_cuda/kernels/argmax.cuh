// The first largest of n elements: blocks find theirs, then one block finds the first largest of the blocks'.
#pragma once

#include "logos.cuh"

// An element and its index; index -1 is none.
template <typename T>
struct Best {
    T value = 0;
    Int index = -1;

    __device__ __forceinline__ void meet(T other, Int at) {
        if (at >= 0 && (index < 0 || other > value || (other == value && at < index))) {
            value = other;
            index = at;
        }
    }
};

// The block's best, in thread 0. Whole warps of up to 1024 threads.
template <typename T>
__device__ inline Best<T> block_best(Best<T> best) {
    LOGOS_SHARED(T, values, 32);
    LOGOS_SHARED(Int, indexes, 32);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const T value = __shfl_xor_sync(WHOLE_WARP, best.value, step);
        best.meet(value, __shfl_xor_sync(WHOLE_WARP, best.index, step));
    }
    if (lane == 0) {
        values[warp] = best.value;
        indexes[warp] = best.index;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < warps; ++i) best.meet(values[i], indexes[i]);
    }
    return best;
}

// Each block's best of its share of x, as (values, indexes).
template <typename T>
__device__ inline void argmax_parts(const T *x, T *values, Int *indexes, Fault *fault, int stage, Size n) {
    Best<T> best;
    bool nan = false;
#pragma unroll 4
    for (Size i = first_index(); i < n; i += grid_threads()) {
        const T value = x[i];
        nan = nan || value != value;
        best.meet(value, i);
    }
    if (nan) report(fault, stage, FAULT_NAN, 0);
    best = block_best(best);
    if (threadIdx.x == 0) {
        values[blockIdx.x] = best.value;
        indexes[blockIdx.x] = best.index;
    }
}

// A block for each row: its best.
template <typename T>
__device__ inline void argmax_rows(const T *x, Int *y, Fault *fault, int stage, Size columns) {
    const T *row = x + Size(blockIdx.x) * columns;
    Best<T> best;
    bool nan = false;
#pragma unroll 4
    for (Size i = threadIdx.x; i < columns; i += blockDim.x) {
        const T value = row[i];
        nan = nan || value != value;
        best.meet(value, i);
    }
    if (nan) report(fault, stage, FAULT_NAN, 0);
    best = block_best(best);
    if (threadIdx.x == 0) y[blockIdx.x] = best.index;
}

// One block: the best of n parts.
template <typename T>
__device__ inline void argmax_whole(const T *values, const Int *indexes, Int *y, Size n) {
    Best<T> best;
    for (Size i = threadIdx.x; i < n; i += blockDim.x) best.meet(values[i], indexes[i]);
    best = block_best(best);
    if (threadIdx.x == 0) *y = best.index;
}

// Both in one launch: the block that comes last finds the best of all.
template <typename T>
__device__ inline void argmax_combined(const T *x, T *values, Int *indexes, Int *y, int *arrivals, Fault *fault,
                                       int stage, Size n) {
    argmax_parts(x, values, indexes, fault, stage, n);
    if (comes_last(arrivals, 1, static_cast<int>(gridDim.x))) argmax_whole(values, indexes, y, gridDim.x);
}
