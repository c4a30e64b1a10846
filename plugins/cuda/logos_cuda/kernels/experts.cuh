// Routed experts in float: of each row's experts the `top` with the largest scores, and their SwiGLU weighed.
#pragma once

#include "logos.cuh"
#include "matvec.cuh"

// A row of scores, by a block. An expert's place is the number of experts before it: those of a larger score, and of an
// equal one those of a lower number. `chosen` and `shares` hold `top`, best first; the shares sum to 1.
__device__ inline void choose_row(const Real *scores, Int *chosen, Real *shares, Size experts, Size top,
                                  float *partial) {
    // A NaN has no place, and leaves one without an expert: that one keeps its own number.
    for (Size i = threadIdx.x; i < top; i += blockDim.x) chosen[i] = i;
    __syncthreads();
    for (Size i = threadIdx.x; i < experts; i += blockDim.x) {
        const float score = scores[i];
        Size place = 0;
#pragma unroll 4
        for (Size j = 0; j < experts; ++j) place += scores[j] > score || (scores[j] == score && j < i);
        if (place < top && score == score) chosen[place] = i;
    }
    __syncthreads();
    const float largest = scores[chosen[0]];
    float sum = 0.0f;
    for (Size i = threadIdx.x; i < top; i += blockDim.x) sum += expf(scores[chosen[i]] - largest);
    // One score that is no number leaves none to any share, as a softmax over all of them does.
    for (Size i = threadIdx.x; i < experts; i += blockDim.x) sum += scores[i] == scores[i] ? 0.0f : scores[i];
    sum = block_join<Sum>(sum, partial);
    for (Size i = threadIdx.x; i < top; i += blockDim.x) shares[i] = expf(scores[chosen[i]] - largest) / sum;
    __syncthreads();
}

// A block for each row of scores; `chosen` and `shares` are (rows, top).
__device__ inline void choose_experts(const Real *scores, Int *chosen, Real *shares, Size rows, Size experts,
                                      Size top) {
    LOGOS_SHARED(float, partial, 32);
    for (Size row = blockIdx.x; row < rows; row += gridDim.x) {
        choose_row(scores + row * experts, chosen + row * top, shares + row * top, experts, top, partial);
    }
}

// hidden (rows, top, inner) = silu(G x) * U x, a warp for each element; expert e's rows of G and U start at e * inner.
__device__ inline void experts_hidden(const Real *x, const Real *gate, const Real *up, const Int *chosen, Real *hidden,
                                      Size rows, Size top, Size inner, Size width) {
    const int lane = threadIdx.x % 32;
    for (Size i = first_index() / 32; i < rows * top * inner; i += grid_threads() / 32) {
        const Size slot = i / inner, at = (chosen[slot] * inner + i % inner) * width;
        const Real *from = x + slot / top * width;
        const float g = warp_join<Sum>(dot_share<32>(from, gate + at, width, lane));
        const float u = warp_join<Sum>(dot_share<32>(from, up + at, width, lane));
        if (lane == 0) hidden[i] = g / (1.0f + expf(-g)) * u;
    }
}

// y (rows, width) = the sum over the chosen experts of share * D h, a warp for each element; D's rows start at e * width.
__device__ inline void experts_down(const Real *hidden, const Real *down, const Int *chosen, const Real *shares,
                                    Real *y, Size rows, Size top, Size inner, Size width) {
    const int lane = threadIdx.x % 32;
    for (Size i = first_index() / 32; i < rows * width; i += grid_threads() / 32) {
        const Size row = i / width;
        float sum = 0.0f;
        for (Size slot = row * top; slot < (row + 1) * top; ++slot) {
            const Real *weights = down + (chosen[slot] * width + i % width) * inner;
            sum = fmaf(shares[slot], dot_share<32>(hidden + slot * inner, weights, inner, lane), sum);
        }
        sum = warp_join<Sum>(sum);
        if (lane == 0) y[i] = sum;
    }
}
