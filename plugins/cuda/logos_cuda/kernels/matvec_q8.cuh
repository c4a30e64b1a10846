// Products with a weight W (n, k) in Q8_0, k a multiple of 32: W = quant * scale, the scales (n, k / 32) in float16. Up to `rows`
// rows of x are multiplied at once, so that the weight is read once for all of them.
#pragma once

#include "logos.cuh"

// Sixteen products of bytes, added to `sum`.
__device__ __forceinline__ int dot16(int4 a, int4 b, int sum) {
    return __dp4a(a.w, b.w, __dp4a(a.z, b.z, __dp4a(a.y, b.y, __dp4a(a.x, b.x, sum))));
}

// What a lane reads of a row of W and of the rows of x: half-blocks of quants, and its block's scale. Pointers rather
// than indexes, which would take twice the registers.
struct Lane {
    const int4 *w, *x;
    const Half *ws;
    const float *xs;

    template <int lanes>
    __device__ __forceinline__ void advance(int rounds) {
        w += 2 * rounds * lanes;
        x += 2 * rounds * lanes;
        ws += rounds * lanes;
        xs += rounds * lanes;
    }
};

// A round: the products of two half-blocks `first` and `second` of W, `scale` of the block that this lane is to have,
// with those of `count` rows of x, `apart` blocks apart. `round` is the round's number behind `at`.
template <int lanes, int rows>
__device__ __forceinline__ void add_round(const Lane &at, int round, int4 first, int4 second, float scale, bool near,
                                          bool far, bool there, Size apart, int count, float (&sum)[rows]) {
    const bool odd = threadIdx.x % 2 == 1;
#pragma unroll
    for (int row = 0; row < rows; ++row) {
        if (rows > 1 && row >= count) break;
        const int4 *quants = at.x + 2 * row * apart + 2 * round * lanes;
        const int a = near ? dot16(first, __ldg(quants), 0) : 0;
        const int b = far ? dot16(second, __ldg(quants + lanes), 0) : 0;
        const int whole = (odd ? b : a) + __shfl_xor_sync(WHOLE_WARP, odd ? a : b, 1);
        if (there) sum[row] = fmaf(static_cast<float>(whole), scale * __ldg(at.xs + row * apart + round * lanes), sum[row]);
    }
}

// This lane's share of a row's products with `count` rows of quants x, `xs` their scales, `apart` blocks apart. A lane
// takes the half-blocks `lane` and `lane + lanes` of each 2 * lanes and its neighbour the other halves; one exchange
// gives each a whole block: the even lane one of the first, the odd lane one of the second. Integer sums are exact, and
// the floats are added in the order of the blocks: the same on every device.
template <int lanes, int rows>
__device__ __forceinline__ void q8_share(const Quant *w, const Half *ws, const Quant *x, const Real *xs, Size blocks,
                                         Size apart, int count, int lane, float (&sum)[rows]) {
    const int own = lane % 2 == 1 ? (lanes + lane) / 2 : lane / 2;
    Lane at = {reinterpret_cast<const int4 *>(w) + lane, reinterpret_cast<const int4 *>(x) + lane, ws + own, xs + own};
    Size left = blocks;
    // Four loads of 16 bytes are under way at once; more would cost the registers that keep warps resident.
#pragma unroll 1
    for (; left >= 2 * lanes; left -= 2 * lanes, at.advance<lanes>(2)) {
        const int4 a = __ldg(at.w), b = __ldg(at.w + lanes), c = __ldg(at.w + 2 * lanes), d = __ldg(at.w + 3 * lanes);
        const float first = float_of(__ldg(at.ws)), second = float_of(__ldg(at.ws + lanes));
        add_round<lanes>(at, 0, a, b, first, true, true, true, apart, count, sum);
        add_round<lanes>(at, 1, c, d, second, true, true, true, apart, count, sum);
    }
    const int4 none = {0, 0, 0, 0};
#pragma unroll 1
    for (; left > 0; left -= lanes, at.advance<lanes>(1)) {
        const bool near = lane < 2 * left, far = lane + lanes < 2 * left, there = own < left;
        const int4 a = near ? __ldg(at.w) : none, b = far ? __ldg(at.w + lanes) : none;
        add_round<lanes>(at, 0, a, b, there ? float_of(__ldg(at.ws)) : 0.0f, near, far, there, apart, count, sum);
    }
}

// y (m, n) = x (m, k) times the transpose of W, `lanes` threads for each row of W: a warp, or a block of 128.
template <int lanes, int rows>
__device__ inline void matvec_q8(const Quant *x, const Real *xs, const Quant *w, const Half *ws, Real *y, Size m,
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
