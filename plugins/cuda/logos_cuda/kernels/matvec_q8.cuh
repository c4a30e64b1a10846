// Products with a weight W (n, k) in Q8_0, k a multiple of 32: W = quant * scale, the scales (n, k / 32). Up to `rows`
// rows of x are multiplied at once, so that the weight is read once for all of them.
#pragma once

#include "logos.cuh"

// Sixteen products of bytes, added to `sum`.
__device__ __forceinline__ int dot16(int4 a, int4 b, int sum) {
    return __dp4a(a.w, b.w, __dp4a(a.z, b.z, __dp4a(a.y, b.y, __dp4a(a.x, b.x, sum))));
}

__device__ __forceinline__ int4 sixteen(const Quant *quants, Size half) {
    return __ldg(reinterpret_cast<const int4 *>(quants) + half);
}

// This lane's share of a row's products with `count` rows of quants x, `xs` their scales, `apart` blocks apart. A lane
// takes the half-blocks `lane` and `lane + lanes` of each 2 * lanes and its neighbour the other halves; one exchange
// gives each a whole block: the even lane one of the first, the odd lane one of the second. Integer sums are exact, and
// the floats are added in the order of the blocks: the same on every device.
template <int lanes, int rows>
__device__ __forceinline__ void share_chunk(int4 first, int4 second, float scale, const Quant *x, const Real *xs,
                                            Size blocks, Size apart, int count, Size half, Size block,
                                            float (&sum)[rows]) {
    const bool odd = threadIdx.x % 2 == 1;
    const bool near = half < 2 * blocks, far = half + lanes < 2 * blocks, there = block < blocks;
#pragma unroll
    for (int row = 0; row < rows; ++row) {
        if (rows > 1 && row >= count) break;
        const Quant *quants = x + row * apart * 32;
        const int a = near ? dot16(first, sixteen(quants, half), 0) : 0;
        const int b = far ? dot16(second, sixteen(quants, half + lanes), 0) : 0;
        const int whole = (odd ? b : a) + __shfl_xor_sync(WHOLE_WARP, odd ? a : b, 1);
        if (there) sum[row] = fmaf(static_cast<float>(whole), scale * __ldg(xs + row * apart + block), sum[row]);
    }
}

template <int lanes, int rows>
__device__ __forceinline__ void q8_share(const Quant *w, const Real *ws, const Quant *x, const Real *xs, Size blocks,
                                         Size apart, int count, int lane, float (&sum)[rows]) {
    const int4 none = {0, 0, 0, 0};
    const Size own = lane % 2 == 1 ? (lanes + lane) / 2 : lane / 2;
    Size base = 0;
    // Four loads of 16 bytes are under way at once.
    for (; base + 2 * lanes <= blocks; base += 2 * lanes) {
        const Size half = 2 * base + lane, block = base + own;
        const int4 a = sixteen(w, half), b = sixteen(w, half + lanes);
        const int4 c = sixteen(w, half + 2 * lanes), d = sixteen(w, half + 3 * lanes);
        const float first = __ldg(ws + block), second = __ldg(ws + block + lanes);
        share_chunk<lanes>(a, b, first, x, xs, blocks, apart, count, half, block, sum);
        share_chunk<lanes>(c, d, second, x, xs, blocks, apart, count, half + 2 * lanes, block + lanes, sum);
    }
#pragma unroll 1
    for (; base < blocks; base += lanes) {
        const Size half = 2 * base + lane, block = base + own;
        const int4 a = half < 2 * blocks ? sixteen(w, half) : none;
        const int4 b = half + lanes < 2 * blocks ? sixteen(w, half + lanes) : none;
        const float scale = block < blocks ? __ldg(ws + block) : 0.0f;
        share_chunk<lanes>(a, b, scale, x, xs, blocks, apart, count, half, block, sum);
    }
}

// y (m, n) = x (m, k) times the transpose of W, `lanes` threads for each row of W: a warp, or a block of 128.
template <int lanes, int rows>
__device__ inline void matvec_q8(const Quant *x, const Real *xs, const Quant *w, const Real *ws, Real *y, Size m,
                                 Size k, Size n) {
    LOGOS_SHARED(float, partial, 32);
    const int lane = threadIdx.x % lanes;
    const Size blocks = k / 32;
    for (Size row = first_index() / lanes; row < n; row += grid_threads() / lanes) {
        for (Size top = 0; top < m; top += rows) {
            const int count = m - top < rows ? static_cast<int>(m - top) : rows;
            float sum[rows] = {};
            q8_share<lanes>(w + row * k, ws + row * blocks, x + top * k, xs + top * blocks, blocks, blocks, count, lane,
                            sum);
#pragma unroll
            for (int i = 0; i < rows; ++i) {
                if (rows > 1 && i >= count) break;
                const float all = lanes == 32 ? warp_join<Sum>(sum[i]) : block_join<Sum>(sum[i], partial);
                if (lane == 0) y[(top + i) * n + row] = all;
            }
        }
    }
}
