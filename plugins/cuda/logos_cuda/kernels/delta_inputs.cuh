// What stands between a gated delta rule and its projections: convolution, silu and l2norm of query, key and value, the
// sigmoid of beta, the decay. Several rows in one launch, each on blocks of its own.
#pragma once

#include "elementwise.cuh"
#include "layernorm.cuh"
#include "recurrent.cuh"

enum InputBy { AS_IT_IS, BY_SILU, BY_SIGMOID, BY_DECAY };

template <int by>
__device__ __forceinline__ float input_by(float x, const Real *bias, const Real *rate, Size i) {
    if (by == BY_SILU) return Silu::of(x);
    if (by == BY_SIGMOID) return Sigmoid::of(x);
    if (by == BY_DECAY) return decay_of(x, bias[i], rate[i]);
    return x;
}

// n elements in runs of `width` (the last may be shorter where nothing is normed), by the ops that there are: convolved
// where there is a ring (`w` weighs the taps), then `by` of (a decay has a bias and a rate), then over the run's length
// where there is `normed`. What an op makes is stored where there is a pointer for it.
template <int lanes, int by>
__device__ __forceinline__ void input_row(Size block, Size blocks, float *partial, const Real *x, const Real *w,
                                          const Real *bias, const Real *rate, Real *ring, Real *convolved,
                                          Real *result, Real *normed, Size n, Size width, Size taps, float eps) {
    const Size together = blockDim.x / lanes;
    for (Size run = block * together + threadIdx.x / lanes; run * width < n; run += blocks * together) {
        const Size first = run * width + threadIdx.x % lanes, end = run * width + width < n ? run * width + width : n;
        float squares = 0.0f;
        for (Size i = first; i < end; i += lanes) {
            float value = x[i];
            if (ring != nullptr) value = conv_channel(value, w, ring, taps, n, i);
            if (convolved != nullptr) convolved[i] = value;
            value = input_by<by>(value, bias, rate, i);
            if (result != nullptr) result[i] = value;
            squares = fmaf(value, value, squares);
            if (normed != nullptr) normed[i] = value;
        }
        if (normed == nullptr) continue;
        const float scale = 1.0f / sqrtf(row_sum<lanes>(squares, partial) + eps);
        // Each thread reads back what it wrote itself.
        for (Size i = first; i < end; i += lanes) normed[i] *= scale;
    }
}

template <int lanes>
__device__ __forceinline__ void input_rows(Size, float *) {}

// The rows one after another, until the one that the block is of.
template <int lanes, int by, int... others, typename... More>
__device__ __forceinline__ void input_rows(Size block, float *partial, const Real *x, const Real *w, const Real *bias,
                                           const Real *rate, Real *ring, Real *convolved, Real *result, Real *normed,
                                           Size n, Size width, Size taps, Size blocks, float eps, More... more) {
    if (block < blocks) {
        input_row<lanes, by>(block, blocks, partial, x, w, bias, rate, ring, convolved, result, normed, n, width, taps,
                             eps);
    } else {
        input_rows<lanes, others...>(block - blocks, partial, more...);
    }
}

template <int lanes, int... by, typename... Rows>
__device__ inline void delta_inputs(Rows... rows) {
    LOGOS_SHARED(float, partial, 32);
    input_rows<lanes, by...>(blockIdx.x, partial, rows...);
}
