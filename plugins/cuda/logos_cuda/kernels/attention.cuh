// Grouped-query attention of one row over the first rows of K and V: each block takes a part of the rows for up to
// HEADS query heads that share a group, by an online softmax; then a block for each head joins the parts.
#pragma once

#include "logos.cuh"

// A row of K or V is held by `lanes` threads, each with VECTORS times four of its up to 16 * lanes elements.
enum { HEADS = 4, VECTORS = 4, ATTENTION_THREADS = 128, ATTENTION_WARPS = ATTENTION_THREADS / 32 };

// Four elements from `at` on of a head of `width` elements; 0 beyond it.
__device__ __forceinline__ float4 four_of(const Real *head, int at, int width) {
    float4 got = {0.0f, 0.0f, 0.0f, 0.0f};
    if (at >= width) return got;
    if (width % 4 == 0) return __ldg(reinterpret_cast<const float4 *>(head + at));
    got.x = __ldg(head + at);
    if (at + 1 < width) got.y = __ldg(head + at + 1);
    if (at + 2 < width) got.z = __ldg(head + at + 2);
    if (at + 3 < width) got.w = __ldg(head + at + 3);
    return got;
}

// Where vector i of this lane begins in a row's fours. Loads are of 16 bytes: a vector of floats, or two of halves.
template <typename T>
__device__ __forceinline__ int four_at(int i, int lanes, int lane) {
    return sizeof(T) == 4 ? i * lanes + lane : 2 * (i / 2 * lanes + lane) + i % 2;
}

// A lane's vectors of a head of `width` elements; 0 beyond it.
template <int lanes>
__device__ __forceinline__ void bring_row(const Real *head, int lane, int width, float4 (&got)[VECTORS]) {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) got[i] = four_of(head, 4 * four_at<Real>(i, lanes, lane), width);
}

__device__ __forceinline__ float4 widened(unsigned low, unsigned high) {
    const float4 made = {float_of(low & 65535u), float_of(low >> 16), float_of(high & 65535u), float_of(high >> 16)};
    return made;
}

__device__ __forceinline__ float half_or_zero(const Half *head, int at, int width) {
    return at < width ? float_of(__ldg(head + at)) : 0.0f;
}

template <int lanes>
__device__ __forceinline__ void bring_row(const Half *head, int lane, int width, float4 (&got)[VECTORS]) {
#pragma unroll
    for (int i = 0; i < VECTORS; i += 2) {
        const int at = 4 * four_at<Half>(i, lanes, lane);
        if (width % 8 == 0) {
            uint4 eight = {0u, 0u, 0u, 0u};
            if (at < width) eight = __ldg(reinterpret_cast<const uint4 *>(head + at));
            got[i] = widened(eight.x, eight.y);
            got[i + 1] = widened(eight.z, eight.w);
            continue;
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            got[i + j].x = half_or_zero(head, at + 4 * j, width);
            got[i + j].y = half_or_zero(head, at + 4 * j + 1, width);
            got[i + j].z = half_or_zero(head, at + 4 * j + 2, width);
            got[i + j].w = half_or_zero(head, at + 4 * j + 3, width);
        }
    }
}

__device__ __forceinline__ float dot4(float4 a, float4 b, float sum) {
    return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, sum))));
}

// a * p + b * q.
__device__ __forceinline__ float4 mix(float4 a, float p, float4 b, float q) {
    const float4 made = {fmaf(b.x, q, a.x * p), fmaf(b.y, q, a.y * p), fmaf(b.z, q, a.z * p), fmaf(b.w, q, a.w * p)};
    return made;
}

// What a part counts beside one whose maximum is `largest`; a part of no rows counts nothing.
__device__ __forceinline__ float part_share(float maximum, float sum, float largest) {
    return sum == 0.0f ? 0.0f : expf(maximum - largest);
}

// What one run of lanes knows of one query head: the largest score, the sum of the exponentials, the sum of V's rows.
struct Part {
    float maximum = -INFINITY;
    float sum = 0.0f;
    float4 value[VECTORS] = {};

    __device__ __forceinline__ void row(float score, const float4 (&v)[VECTORS]) {
        const float largest = fmaxf(maximum, score);
        const float before = part_share(maximum, sum, largest), now = score == -INFINITY ? 0.0f : expf(score - largest);
        maximum = largest;
        sum = fmaf(sum, before, now);
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) value[i] = mix(value[i], before, v[i], now);
    }

    // Joins the lane `step` away, of another run of this warp.
    __device__ __forceinline__ void join(int step) {
        const float other = __shfl_xor_sync(WHOLE_WARP, maximum, step);
        const float others = __shfl_xor_sync(WHOLE_WARP, sum, step);
        const float largest = fmaxf(maximum, other);
        const float mine = part_share(maximum, sum, largest), theirs = part_share(other, others, largest);
        maximum = largest;
        sum = sum * mine + others * theirs;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            float4 far;
            far.x = __shfl_xor_sync(WHOLE_WARP, value[i].x, step);
            far.y = __shfl_xor_sync(WHOLE_WARP, value[i].y, step);
            far.z = __shfl_xor_sync(WHOLE_WARP, value[i].z, step);
            far.w = __shfl_xor_sync(WHOLE_WARP, value[i].w, step);
            value[i] = mix(value[i], mine, far, theirs);
        }
    }
};

// A query's place among all: one row's heads lie group by group; of several rows, each with a head for each group
// (`by_rows`), a group's queries lie a row apart.
template <bool by_rows>
__device__ __forceinline__ Size query_place(Size group, Size number, Size groups, Size heads) {
    return by_rows ? number * groups + group : group * heads + number;
}

// The parts: values (splits, all heads, width), maxima and sums (splits, all heads). Of the `rows` of K and V the first
// `stop` count; a group's rows have `width` of the `groups * width` columns; `heads` queries read each group. `block` is
// this block among those of the queries, `all` the queries of a split.
template <int lanes, bool by_rows, typename T>
__device__ inline void attention_rows(const Real *q, const T *k, const T *v, Real *values, Real *maxima,
                                      Real *sums, Size block, Size all, Size stop, Size groups, Size heads, Size splits,
                                      int width, float scale) {
    enum { SPAN = 4 * VECTORS * lanes, RUNS = ATTENTION_THREADS / lanes };
    LOGOS_SHARED(float4, query, HEADS * SPAN / 4);
    LOGOS_SHARED(float4, merged, ATTENTION_WARPS * HEADS * SPAN / 4);
    LOGOS_SHARED(float, tops, ATTENTION_WARPS * HEADS);
    LOGOS_SHARED(float, totals, ATTENTION_WARPS * HEADS);
    const Size tiles = (heads + HEADS - 1) / HEADS;
    const Size split = block % splits, tile = block / splits % tiles, group = block / splits / tiles;
    const int count = heads - tile * HEADS < HEADS ? static_cast<int>(heads - tile * HEADS) : HEADS;
    const int lane = threadIdx.x % lanes, run = threadIdx.x / lanes;

    for (int i = threadIdx.x; i < HEADS * SPAN; i += ATTENTION_THREADS) {
        const int head = i / SPAN, at = i % SPAN;
        const bool there = head < count && at < width;
        const Size from = query_place<by_rows>(group, tile * HEADS + head, groups, heads) * width + at;
        reinterpret_cast<float *>(query)[i] = there ? q[from] * scale : 0.0f;
    }
    __syncthreads();

    Part part[HEADS];
    const Size share = (stop + splits - 1) / splits, begin = split * share;
    const Size end = begin + share < stop ? begin + share : stop;
    for (Size base = begin; base < end; base += RUNS) {
        const Size row = base + run;
        const bool there = row < end;
        const Size offset = (row * groups + group) * width;
        float4 key[VECTORS] = {}, value[VECTORS] = {};
        if (there) {
            bring_row<lanes>(k + offset, lane, width, key);
            bring_row<lanes>(v + offset, lane, width, value);
        }
#pragma unroll
        for (int head = 0; head < HEADS; ++head) {
            float score = 0.0f;
#pragma unroll
            for (int i = 0; i < VECTORS; ++i) {
                score = dot4(key[i], query[head * SPAN / 4 + four_at<T>(i, lanes, lane)], score);
            }
            score = warp_join<Sum, lanes>(score);
            if (there) part[head].row(score, value);
        }
    }

    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int head = 0; head < HEADS; ++head) {
#pragma unroll
        for (int step = lanes; step < 32; step *= 2) part[head].join(step);
        if (threadIdx.x % 32 < lanes) {
#pragma unroll
            for (int i = 0; i < VECTORS; ++i) {
                merged[(warp * HEADS + head) * SPAN / 4 + four_at<T>(i, lanes, lane)] = part[head].value[i];
            }
        }
        if (threadIdx.x % 32 == 0) {
            tops[warp * HEADS + head] = part[head].maximum;
            totals[warp * HEADS + head] = part[head].sum;
        }
    }
    __syncthreads();

    for (int i = threadIdx.x; i < count * width; i += ATTENTION_THREADS) {
        const int head = i / width, at = i % width;
        float largest = -INFINITY, sum = 0.0f, total = 0.0f;
#pragma unroll
        for (int j = 0; j < ATTENTION_WARPS; ++j) largest = fmaxf(largest, tops[j * HEADS + head]);
#pragma unroll
        for (int j = 0; j < ATTENTION_WARPS; ++j) {
            const float counts = part_share(tops[j * HEADS + head], totals[j * HEADS + head], largest);
            sum = fmaf(totals[j * HEADS + head], counts, sum);
            total = fmaf(reinterpret_cast<const float *>(merged)[(j * HEADS + head) * SPAN + at], counts, total);
        }
        const Size place = split * all + query_place<by_rows>(group, tile * HEADS + head, groups, heads);
        values[place * width + at] = total;
        if (at == 0) {
            maxima[place] = largest;
            sums[place] = sum;
        }
    }
}

template <int lanes, typename T>
__device__ inline void attention(const Real *q, const T *k, const T *v, Real *values, Real *maxima, Real *sums,
                                 Size rows, Size groups, Size heads, Size splits, Size width, float scale) {
    attention_rows<lanes, false>(q, k, v, values, maxima, sums, blockIdx.x, groups * heads, rows, groups, heads, splits,
                                 static_cast<int>(width), scale);
}

// Every row of Q over every row of K and V, head by head.
template <int lanes>
__device__ inline void full_attention(const Real *q, const Real *k, const Real *v, Real *values, Real *maxima,
                                      Real *sums, Size rows, Size heads, Size splits, Size width, float scale) {
    attention_rows<lanes, true>(q, k, v, values, maxima, sums, blockIdx.x, heads * rows, rows, heads, rows, splits,
                                static_cast<int>(width), scale);
}

// Over the rows 0 to *last; of several steps, each with a row of q, over those to its own.
template <int lanes, typename T>
__device__ inline void attention_up_to(const Real *q, const T *k, const T *v, const Int *last, Real *values,
                                       Real *maxima, Real *sums, Fault *fault, int stage, Size rows, Size groups,
                                       Size heads, Size splits, Size steps, Size width, float scale) {
    const Size all = groups * heads, blocks = groups * ((heads + HEADS - 1) / HEADS) * splits;
    const Size step = blockIdx.x / blocks;
    const Size stop = checked_row(last + step, rows, fault, stage) + 1;
    attention_rows<lanes, false>(q + step * all * width, k, v, values + step * all * width, maxima + step * all,
                                 sums + step * all, blockIdx.x % blocks, steps * all, stop, groups, heads, splits,
                                 static_cast<int>(width), scale);
}

// One query's result: its parts weighed by their maxima and divided by the sum of all exponentials. `all` are the queries
// of a split.
template <typename Sink>
__device__ __forceinline__ void join_parts(const Real *values, const Real *maxima, const Real *sums, Sink y, Size query,
                                           Size all, Size splits, Size width) {
    float largest = -INFINITY, sum = 0.0f;
#pragma unroll 4
    for (Size i = 0; i < splits; ++i) largest = fmaxf(largest, maxima[i * all + query]);
#pragma unroll 4
    for (Size i = 0; i < splits; ++i) {
        const Size at = i * all + query;
        sum = fmaf(sums[at], part_share(maxima[at], sums[at], largest), sum);
    }
    for (Size i = threadIdx.x; i < width; i += blockDim.x) {
        float total = 0.0f;
#pragma unroll 4
        for (Size j = 0; j < splits; ++j) {
            const Size at = j * all + query;
            total = fmaf(values[at * width + i], part_share(maxima[at], sums[at], largest), total);
        }
        y(query * width + i, total / sum);
    }
}

// y of one query, for each block.
__device__ inline void attention_join(const Real *values, const Real *maxima, const Real *sums, Real *y, Size heads,
                                      Size splits, Size width) {
    for (Size head = blockIdx.x; head < heads; head += gridDim.x) {
        join_parts(values, maxima, sums, Stored{y}, head, heads, splits, width);
    }
}
