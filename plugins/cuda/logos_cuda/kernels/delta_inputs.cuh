// What stands between a gated delta rule and its projections: convolution, silu and l2norm of query, key and value, the
// sigmoid of beta, the decay. Several rows in one launch, each on blocks of its own.
#pragma once

#include "elementwise.cuh"
#include "layernorm.cuh"
#include "recurrent.cuh"

enum Made { AS_IT_IS, BY_SILU, BY_SIGMOID, BY_DECAY };

// n elements in runs of `width`, by the ops that there are: convolved where there is a ring (`w` the taps' weights),
// then `made` of (for a decay with its bias and rate), then over the run's length where there is `normed`; every
// result is stored where there is a pointer for it.
struct DeltaInput {
    const Real *x, *w, *bias, *rate;
    Real *ring, *convolved, *result, *normed;
    Size n, width, taps, made, blocks;
    float eps;

    __device__ __forceinline__ float at(Size i) const {
        float value = x[i];
        if (ring != nullptr) {
            value = conv_channel(value, w, ring, taps, n, i);
            if (convolved != nullptr) convolved[i] = value;
        }
        if (made == BY_SILU) value = Silu::of(value);
        if (made == BY_SIGMOID) value = Sigmoid::of(value);
        if (made == BY_DECAY) value = decay_of(value, bias[i], rate[i]);
        if (result != nullptr) result[i] = value;
        return value;
    }
};

// The row that a block is of; `block` becomes its number among that row's.
__device__ __forceinline__ DeltaInput input_of(Size &, const Real *x, const Real *w, const Real *bias, const Real *rate,
                                               Real *ring, Real *convolved, Real *result, Real *normed, Size n,
                                               Size width, Size taps, Size made, Size blocks, float eps) {
    return {x, w, bias, rate, ring, convolved, result, normed, n, width, taps, made, blocks, eps};
}

template <typename... More>
__device__ __forceinline__ DeltaInput input_of(Size &block, const Real *x, const Real *w, const Real *bias,
                                               const Real *rate, Real *ring, Real *convolved, Real *result,
                                               Real *normed, Size n, Size width, Size taps, Size made, Size blocks,
                                               float eps, More... more) {
    if (block < blocks) {
        return {x, w, bias, rate, ring, convolved, result, normed, n, width, taps, made, blocks, eps};
    }
    block -= blocks;
    return input_of(block, more...);
}

template <int lanes, typename... Rows>
__device__ inline void delta_inputs(Rows... rows) {
    LOGOS_SHARED(float, partial, 32);
    Size block = blockIdx.x;
    const DeltaInput input = input_of(block, rows...);
    const Size together = blockDim.x / lanes;
    const int lane = threadIdx.x % lanes;
    for (Size run = block * together + threadIdx.x / lanes; run * input.width < input.n; run += input.blocks * together) {
        const Size start = run * input.width, left = input.n - start, width = left < input.width ? left : input.width;
        float squares = 0.0f;
#pragma unroll 1
        for (Size i = start + lane; i < start + width; i += lanes) {
            const float value = input.at(i);
            squares = fmaf(value, value, squares);
            if (input.normed != nullptr) input.normed[i] = value;
        }
        if (input.normed == nullptr) continue;
        const float scale = 1.0f / sqrtf(row_sum<lanes>(squares, partial) + input.eps);
        // Each thread reads back what it wrote itself.
        for (Size i = start + lane; i < start + width; i += lanes) input.normed[i] *= scale;
    }
}
