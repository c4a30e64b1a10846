// A matmul of one row: y (n) = x (k) times B, whose every byte is read once.
#pragma once

#include "logos.cuh"

__device__ __forceinline__ float4 fma4(float4 a, float4 b, float4 sum) {
    sum.x = fmaf(a.x, b.x, sum.x);
    sum.y = fmaf(a.y, b.y, sum.y);
    sum.z = fmaf(a.z, b.z, sum.z);
    sum.w = fmaf(a.w, b.w, sum.w);
    return sum;
}

// This lane's share of a dot product of k elements by `lanes` lanes. Four loads of 16 bytes are under way at once;
// what is left is not unrolled, which would cost registers for a short loop.
template <int lanes>
__device__ inline float dot_share(const Real *__restrict__ x, const Real *__restrict__ w, Size k, int lane) {
    float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
    if (k % 4 == 0) {
        const float4 *a = reinterpret_cast<const float4 *>(x) + lane, *b = reinterpret_cast<const float4 *>(w) + lane;
        Size left = k / 4 - lane;
        for (; left > 3 * lanes; left -= 4 * lanes, a += 4 * lanes, b += 4 * lanes) {
            const float4 b0 = __ldg(b), b1 = __ldg(b + lanes), b2 = __ldg(b + 2 * lanes), b3 = __ldg(b + 3 * lanes);
            sum = fma4(__ldg(a), b0, sum);
            sum = fma4(__ldg(a + lanes), b1, sum);
            sum = fma4(__ldg(a + 2 * lanes), b2, sum);
            sum = fma4(__ldg(a + 3 * lanes), b3, sum);
        }
#pragma unroll 1
        for (; left > 0; left -= lanes, a += lanes, b += lanes) sum = fma4(__ldg(a), __ldg(b), sum);
    } else {
        const Real *a = x + lane, *b = w + lane;
        Size left = k - lane;
        for (; left > 3 * lanes; left -= 4 * lanes, a += 4 * lanes, b += 4 * lanes) {
            sum.x = fmaf(__ldg(a), __ldg(b), sum.x);
            sum.y = fmaf(__ldg(a + lanes), __ldg(b + lanes), sum.y);
            sum.z = fmaf(__ldg(a + 2 * lanes), __ldg(b + 2 * lanes), sum.z);
            sum.w = fmaf(__ldg(a + 3 * lanes), __ldg(b + 3 * lanes), sum.w);
        }
#pragma unroll 1
        for (; left > 0; left -= lanes, a += lanes, b += lanes) sum.x = fmaf(__ldg(a), __ldg(b), sum.x);
    }
    return (sum.x + sum.y) + (sum.z + sum.w);
}

// The dot product of one row of a weight; every lane has it.
template <int lanes>
__device__ __forceinline__ float row_dot(const Real *x, const Real *w, Size k, float *partial) {
    const float share = dot_share<lanes>(x, w, k, threadIdx.x % lanes);
    return lanes == 32 ? warp_join<Sum>(share) : block_join<Sum>(share, partial);
}

// B stored as (n, k), a warp for each of its rows: for an n that fills the device with warps.
__device__ inline void matvec_by_warps(const Real *x, const Real *w, Real *y, Size k, Size n) {
    const int lane = threadIdx.x % 32;
    for (Size row = first_index() / 32; row < n; row += grid_threads() / 32) {
        const float sum = warp_join<Sum>(dot_share<32>(x, w + row * k, k, lane));
        if (lane == 0) y[row] = sum;
    }
}

// B stored as (n, k), a block of 128 threads for each of its rows.
__device__ inline void matvec_by_blocks(const Real *x, const Real *w, Real *y, Size k, Size n) {
    LOGOS_SHARED(float, partial, 32);
    for (Size row = blockIdx.x; row < n; row += gridDim.x) {
        const float sum = block_join<Sum>(dot_share<128>(x, w + row * k, k, threadIdx.x), partial);
        if (threadIdx.x == 0) y[row] = sum;
    }
}

// B stored as (k, n): a block takes tiles of 32 times `width` columns, each of its 8 warps every eighth row.
template <int width>
__device__ inline void matvec_columns(const Real *x, const Real *b, Real *y, Size k, Size n) {
    LOGOS_SHARED(float, partial, 8 * 32 * width);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (Size start = static_cast<Size>(blockIdx.x) * 32 * width; start < n;
         start += static_cast<Size>(gridDim.x) * 32 * width) {
        const Size column = start + lane * width;
        float sum[width] = {};
        if (column < n) {
#pragma unroll 4
            for (Size i = warp; i < k; i += 8) {
                const Real *row = b + i * n + column;
                if (width == 4) {
                    const float4 got = __ldg(reinterpret_cast<const float4 *>(row));
                    const float all[4] = {got.x, got.y, got.z, got.w};
#pragma unroll
                    for (int j = 0; j < width; ++j) sum[j] = fmaf(x[i], all[j], sum[j]);
                } else {
                    sum[0] = fmaf(x[i], __ldg(row), sum[0]);
                }
            }
        }
#pragma unroll
        for (int j = 0; j < width; ++j) partial[(warp * width + j) * 32 + lane] = sum[j];
        __syncthreads();
        for (int i = threadIdx.x; i < 32 * width; i += 256) {
            const int j = i % width, of = i / width;
            float total = 0.0f;
#pragma unroll
            for (int part = 0; part < 8; ++part) total += partial[(part * width + j) * 32 + of];
            if (start + i < n) y[start + i] = total;
        }
        __syncthreads();
    }
}
