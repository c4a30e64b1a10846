// A matmul of several rows, in tiles: y (m, n) = a (m, k) times b, which is (k, n) or stored transposed as (n, k).
#pragma once

#include "logos.cuh"

enum { TILE = 64, DEPTH = 16, PITCH = TILE + 4, CHUNK = 32 };

// Four neighbours of a row-major matrix from (row, column) on; 0 outside it.
__device__ __forceinline__ float4 neighbours(const Real *x, Size row, Size column, Size rows, Size columns) {
    float4 got = {0.0f, 0.0f, 0.0f, 0.0f};
    if (row >= rows || column >= columns) return got;
    const Real *from = x + row * columns + column;
    if (columns % 4 == 0) return __ldg(reinterpret_cast<const float4 *>(from));
    got.x = __ldg(from);
    if (column + 1 < columns) got.y = __ldg(from + 1);
    if (column + 2 < columns) got.z = __ldg(from + 2);
    if (column + 3 < columns) got.w = __ldg(from + 3);
    return got;
}

// A tile of TILE rows and DEPTH columns, kept by columns: 256 threads bring four elements each.
__device__ __forceinline__ void bring_turned(const Real *x, float *tile, Size row, Size column, Size rows,
                                             Size columns) {
    const int i = threadIdx.x / 4, j = threadIdx.x % 4 * 4;
    const float4 got = neighbours(x, row + i, column + j, rows, columns);
    tile[(j + 0) * PITCH + i] = got.x;
    tile[(j + 1) * PITCH + i] = got.y;
    tile[(j + 2) * PITCH + i] = got.z;
    tile[(j + 3) * PITCH + i] = got.w;
}

// A tile of DEPTH rows and TILE columns, kept by rows.
__device__ __forceinline__ void bring(const Real *x, float *tile, Size row, Size column, Size rows, Size columns) {
    const int i = threadIdx.x / 16, j = threadIdx.x % 16 * 4;
    *reinterpret_cast<float4 *>(tile + i * PITCH + j) = neighbours(x, row + i, column + j, rows, columns);
}

// A thread's 4 by 4 results. Sums over CHUNK tiles are joined apart, so that rounding grows with the chunk, not with k.
template <bool transposed>
__device__ inline void gemm(const Real *a, const Real *b, Real *y, Size m, Size k, Size n) {
    LOGOS_SHARED(float4, left_tile, DEPTH * PITCH / 4);
    LOGOS_SHARED(float4, right_tile, DEPTH * PITCH / 4);
    float *const left = reinterpret_cast<float *>(left_tile), *const right = reinterpret_cast<float *>(right_tile);
    const int i = threadIdx.x / 16 * 4, j = threadIdx.x % 16 * 4;
    const Size across = (n + TILE - 1) / TILE, tiles = across * ((m + TILE - 1) / TILE);
    for (Size tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Size top = tile / across * TILE, start = tile % across * TILE;
        float total[4][4] = {}, sum[4][4] = {};
        int due = CHUNK;
        for (Size depth = 0; depth < k; depth += DEPTH) {
            bring_turned(a, left, top, depth, m, k);
            if (transposed) {
                bring_turned(b, right, start, depth, n, k);
            } else {
                bring(b, right, depth, start, k, n);
            }
            __syncthreads();
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
                const float4 p = *reinterpret_cast<const float4 *>(left + d * PITCH + i);
                const float4 q = *reinterpret_cast<const float4 *>(right + d * PITCH + j);
                const float rows[4] = {p.x, p.y, p.z, p.w}, columns[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
                for (int r = 0; r < 4; ++r) {
#pragma unroll
                    for (int c = 0; c < 4; ++c) sum[r][c] = fmaf(rows[r], columns[c], sum[r][c]);
                }
            }
            __syncthreads();
            due -= 1;
            if (due == 0 || depth + DEPTH >= k) {
                due = CHUNK;
#pragma unroll
                for (int r = 0; r < 4; ++r) {
#pragma unroll
                    for (int c = 0; c < 4; ++c) {
                        total[r][c] += sum[r][c];
                        sum[r][c] = 0.0f;
                    }
                }
            }
        }
#pragma unroll
        for (int r = 0; r < 4; ++r) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                if (top + i + r < m && start + j + c < n) y[(top + i + r) * n + start + j + c] = total[r][c];
            }
        }
    }
}
