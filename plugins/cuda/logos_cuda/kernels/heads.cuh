// What stands between an attention and its projections: the norms of query and key across heads, their rotation, the
// rows appended to the tables. Several rows of heads in one launch, each on blocks of its own.
#pragma once

#include "logos.cuh"

__device__ __forceinline__ void put(Real *to, float x) { *to = x; }
__device__ __forceinline__ void put(Half *to, float x) { *to = half_of(x); }

// A row of n elements in heads of `width` (the last may be shorter where nothing is normed): normed where `norms`, its
// first 2 * half elements a head rotated where there are cosines, stored where there are pointers.
template <typename T>
struct Heads {
    const Real *x, *w, *cosines, *sines;
    Real *normed, *turned;
    T *table;
    Size n, width, half, norms, rows, blocks;
    float eps;

    __device__ __forceinline__ float at(Size head, Size i, float scale) const {
        const float value = x[head * width + i];
        if (norms == 0) return value;
        return w != nullptr ? value * scale * w[i] : value * scale;
    }

    __device__ __forceinline__ float rotated(Size head, Size i, float scale, float value) const {
        if (cosines == nullptr || i >= 2 * half) return value;
        if (i < half) return value * cosines[i] - at(head, i + half, scale) * sines[i];
        return at(head, i - half, scale) * sines[i - half] + value * cosines[i - half];
    }
};

// The row of heads that a block is of; `block` becomes its number among that row's.
template <typename T>
__device__ __forceinline__ Heads<T> heads_of(Size &, const Real *x, const Real *w, const Real *cosines,
                                             const Real *sines, Real *normed, Real *turned, T *table, Size n, Size width,
                                             Size half, Size norms, Size rows, Size blocks, float eps) {
    return {x, w, cosines, sines, normed, turned, table, n, width, half, norms, rows, blocks, eps};
}

template <typename T, typename... More>
__device__ __forceinline__ Heads<T> heads_of(Size &block, const Real *x, const Real *w, const Real *cosines,
                                             const Real *sines, Real *normed, Real *turned, T *table, Size n, Size width,
                                             Size half, Size norms, Size rows, Size blocks, float eps, More... more) {
    if (block < blocks) {
        return {x, w, cosines, sines, normed, turned, table, n, width, half, norms, rows, blocks, eps};
    }
    block -= blocks;
    return heads_of<T>(block, more...);
}

// A head, by `lanes` threads; `row` is where it goes in the table.
template <int lanes, typename T>
__device__ __forceinline__ void one_head(const Heads<T> &heads, Size head, Size row, float *partial) {
    const int lane = threadIdx.x % lanes;
    const Size start = head * heads.width, left = heads.n - start, width = left < heads.width ? left : heads.width;
    float scale = 1.0f;
    if (heads.norms != 0) {
        float squares = 0.0f;
#pragma unroll 4
        for (Size i = lane; i < width; i += lanes) squares = fmaf(heads.x[start + i], heads.x[start + i], squares);
        squares = lanes == 32 ? warp_join<Sum>(squares) : block_join<Sum>(squares, partial);
        scale = 1.0f / sqrtf(squares / static_cast<float>(width) + heads.eps);
    }
    for (Size i = lane; i < width; i += lanes) {
        const float value = heads.at(head, i, scale), turned = heads.rotated(head, i, scale, value);
        if (heads.normed != nullptr) heads.normed[start + i] = value;
        if (heads.turned != nullptr) heads.turned[start + i] = turned;
        if (heads.table != nullptr && row >= 0 && row < heads.rows) put(heads.table + row * heads.n + start + i, turned);
    }
}

// The row's number is `*number` or, without one, the literal; the driver has checked it.
template <int lanes, typename T, typename... Rows>
__device__ inline void heads(const Int *number, Size literal, Rows... all) {
    LOGOS_SHARED(float, partial, 32);
    Size block = blockIdx.x;
    const Heads<T> own = heads_of<T>(block, all...);
    const Size row = number != nullptr ? *number : literal, together = blockDim.x / lanes;
    for (Size head = block * together + threadIdx.x / lanes; head * own.width < own.n; head += own.blocks * together) {
        one_head<lanes>(own, head, row, partial);
    }
}
