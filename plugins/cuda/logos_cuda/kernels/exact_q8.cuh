// Products with a weight in Q8_0 by float32 activations: every product is exact in a double, and so are the sums but
// for a double's rounding. What comes of it is the reference machine's value, rounded to float32 once.
#pragma once

#include "logos.cuh"

// A lane's part of a warp's sum, joined; every lane has the result.
__device__ __forceinline__ double warp_sum(double x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(WHOLE_WARP, x, step);
    return x;
}

// sum += quants * scale * x for the four bytes of `quants`.
__device__ __forceinline__ double exact_four(int quants, float scale, float4 x, double sum) {
    sum = fma(static_cast<double>(scale * static_cast<Quant>(quants)), static_cast<double>(x.x), sum);
    sum = fma(static_cast<double>(scale * static_cast<Quant>(quants >> 8)), static_cast<double>(x.y), sum);
    sum = fma(static_cast<double>(scale * static_cast<Quant>(quants >> 16)), static_cast<double>(x.z), sum);
    return fma(static_cast<double>(scale * static_cast<Quant>(quants >> 24)), static_cast<double>(x.w), sum);
}

// This lane's share of a row's products with `count` rows of x (count, 32 * blocks): every 32nd half-block.
template <int rows>
__device__ __forceinline__ void exact_share(const Quant *w, const Half *ws, const Real *x, Size blocks, int count,
                                            int lane, double (&sum)[rows]) {
#pragma unroll 4
    for (Size half = lane; half < 2 * blocks; half += 32) {
        const int4 quants = __ldg(reinterpret_cast<const int4 *>(w) + half);
        const float scale = float_of(__ldg(ws + half / 2));
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            if (rows > 1 && row >= count) break;
            const float4 *from = reinterpret_cast<const float4 *>(x + row * blocks * 32) + 4 * half;
            sum[row] = exact_four(quants.x, scale, __ldg(from), sum[row]);
            sum[row] = exact_four(quants.y, scale, __ldg(from + 1), sum[row]);
            sum[row] = exact_four(quants.z, scale, __ldg(from + 2), sum[row]);
            sum[row] = exact_four(quants.w, scale, __ldg(from + 3), sum[row]);
        }
    }
}

// y (m, n) = x (m, k) times the transpose of W (n, k), a warp for each row of W.
template <int rows>
__device__ inline void matvec_exact(const Real *x, const Quant *w, const Half *ws, Real *y, Size m, Size k, Size n) {
    const int lane = threadIdx.x % 32;
    const Size blocks = k / 32;
    for (Size row = first_index() / 32; row < n; row += grid_threads() / 32) {
        for (Size top = 0; top < m; top += rows) {
            const int count = m - top < rows ? static_cast<int>(m - top) : rows;
            double sum[rows] = {};
            exact_share(w + row * k, ws + row * blocks, x + top * k, blocks, count, lane, sum);
#pragma unroll
            for (int i = 0; i < rows; ++i) {
                if (rows > 1 && i >= count) break;
                const double all = warp_sum(sum[i]);
                if (lane == 0) y[(top + i) * n + row] = static_cast<Real>(all);
            }
        }
    }
}
