// Rows quantized to 8 bits with one scale for each 32 elements: x = quant * scale to within half a scale.
#pragma once

#include "logos.cuh"

// The scale of a block whose largest size is `largest`, the same in all its 8 threads. One so small that its inverse is
// beyond a float counts as 0; a block with an element that is no number has none, and nor has what is made of it.
__device__ __forceinline__ float block_scale(float largest) {
    if (!(largest <= LARGEST)) return NAN;
    const float scale = largest / 127.0f;
    return scale < LEAST_NORMAL ? 0.0f : scale;
}

// 1 / scale, and 0 where there is nothing to divide by.
__device__ __forceinline__ float inverse_of(float scale) { return scale > 0.0f ? 1.0f / scale : 0.0f; }

// The size of an element; what is no number is larger than all that are.
__device__ __forceinline__ float size_of(float x) { return fabsf(x) <= LARGEST ? fabsf(x) : INFINITY; }

// The nearest whole number, halves away from zero, as Q8_0's reference quantizer rounds.
__device__ __forceinline__ int quant_of(float x, float inverse) {
    return inverse > 0.0f ? __float2int_rz(roundf(x * inverse)) : 0;
}

__device__ __forceinline__ unsigned packed(int a, int b, int c, int d) {
    return (a & 255u) | (b & 255u) << 8 | (c & 255u) << 16 | (d & 255u) << 24;
}

// What quants leave of x.
__device__ __forceinline__ float4 rest_of(float4 x, unsigned quants, float scale) {
    const float4 left = {fmaf(-scale, static_cast<float>(static_cast<Quant>(quants)), x.x),
                         fmaf(-scale, static_cast<float>(static_cast<Quant>(quants >> 8)), x.y),
                         fmaf(-scale, static_cast<float>(static_cast<Quant>(quants >> 16)), x.z),
                         fmaf(-scale, static_cast<float>(static_cast<Quant>(quants >> 24)), x.w)};
    return left;
}

// Four elements of a block, whose other threads hold the rest; returns the scale.
__device__ __forceinline__ float quantize_four(float4 x, unsigned &quants) {
    const float largest = fmaxf(fmaxf(size_of(x.x), size_of(x.y)), fmaxf(size_of(x.z), size_of(x.w)));
    const float scale = block_scale(warp_join<Max, 8>(largest)), inverse = inverse_of(scale);
    quants = packed(quant_of(x.x, inverse), quant_of(x.y, inverse), quant_of(x.z, inverse), quant_of(x.w, inverse));
    return scale;
}

// x (n elements, whole blocks) as quants and scales; `passes` of 2 also quantizes what these leave, behind them.
template <int passes>
__device__ inline void quantize(const Real *x, Quant *made, Real *scales, Size n) {
    // Whole warps go on together: blocks are joined by shuffles.
    for (Size i = first_index(); i - threadIdx.x % 32 < n / 4; i += grid_threads()) {
        const bool there = i < n / 4;
        float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
        if (there) four = reinterpret_cast<const float4 *>(x)[i];
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) {
            unsigned quants;
            const float scale = quantize_four(four, quants);
            if (there) reinterpret_cast<unsigned *>(made + pass * n)[i] = quants;
            if (there && i % 8 == 0) scales[pass * (n / 32) + i / 8] = scale;
            if (passes > 1) four = rest_of(four, quants, scale);
        }
    }
}

// One element of a block of which the other lanes of this warp hold the rest.
__device__ __forceinline__ void quantize_one(float x, Size i, Quant *made, Real *scales) {
    const float scale = block_scale(warp_join<Max>(size_of(x)));
    made[i] = static_cast<Quant>(quant_of(x, inverse_of(scale)));
    if (i % 32 == 0) scales[i / 32] = scale;
}

// Where what a kernel makes goes, quantized and, where there is a pointer for it, as it is. The lanes of a warp come
// together, with the elements of a block.
struct Quantized {
    Real *y;
    Quant *made;
    Real *scales;
    __device__ __forceinline__ void operator()(Size i, float x) const {
        if (y != nullptr) y[i] = x;
        quantize_one(x, i, made, scales);
    }
};

// Elements of y that several blocks make, this one `count` of them from `first` on, all of one block of 32: who makes
// the last of 32 quantizes them. An arrivals counter for each 32.
__device__ inline void quantize_when_made(const Real *y, Size first, int count, Quant *made, Real *scales,
                                          int *arrivals) {
    const Size block = first / 32;
    if (comes_last(arrivals + block, count, 32) && threadIdx.x < 32) {
        const Size i = block * 32 + threadIdx.x;
        quantize_one(y[i], i, made, scales);
    }
}
