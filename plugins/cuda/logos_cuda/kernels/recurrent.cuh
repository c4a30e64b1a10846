// Ops that carry a state from step to step, which stays in its buffer: a causal convolution's ring, a delta rule's
// memory; and the delta rule's decay.
#pragma once

#include "logos.cuh"

// A channel i of a convolution: its column of the ring moves up one row, and the sum over the taps.
__device__ __forceinline__ float conv_channel(float newest, const Real *w, Real *ring, Size taps, Size columns, Size i) {
    float sum = 0.0f;
#pragma unroll 4
    for (Size tap = 0; tap + 1 < taps; ++tap) {
        const float moved = ring[(tap + 1) * columns + i];
        ring[tap * columns + i] = moved;
        sum = fmaf(moved, w[tap * columns + i], sum);
    }
    ring[(taps - 1) * columns + i] = newest;
    return fmaf(newest, w[(taps - 1) * columns + i], sum);
}

// A thread for each channel takes one row of x after the other.
__device__ inline void causal_conv(const Real *x, const Real *w, Real *ring, Real *y, Size taps, Size columns,
                                   Size steps) {
    for (Size i = first_index(); i < columns; i += grid_threads()) {
        for (Size at = i; at < steps * columns; at += columns) y[at] = conv_channel(x[at], w, ring, taps, columns, i);
    }
}

// e^(al * softplus(ar + dt)) without overflow. In double: of a large exponent a float keeps too few digits.
__device__ __forceinline__ float decay_of(float ar, float dt, float al) {
    const double x = static_cast<double>(ar) + dt;
    return static_cast<Real>(exp(al * (fmax(x, 0.0) + log1p(exp(-fabs(x))))));
}

// Of dt and al, `period` elements serve all of ar.
__device__ inline void decay(const Real *ar, const Real *dt, const Real *al, Real *y, Size n, Size period) {
    for (Size i = first_index(); i < n; i += grid_threads()) y[i] = decay_of(ar[i], dt[i % period], al[i % period]);
}

// A warp for each row of the memory, of which none needs another: u = S k, S <- a S + b (v - a u) k, o = S q / sqrt(d).
// Value head h uses key head h mod `groups`; `heads` heads of `width` rows. Steps, with a row each of all but the memory,
// follow each other.
__device__ __forceinline__ void delta_row(const Real *q, const Real *k, const Real *v, const Real *beta,
                                          const Real *alpha, Real *memory, Real *o, Size row, Size heads, Size groups,
                                          Size width, Size steps, float scale) {
    const int lane = threadIdx.x % 32;
    const Size head = row / width;
    Real *s = memory + row * width;
    for (Size step = 0; step < steps; ++step) {
        const Size keys = (step * groups + head % groups) * width, values = step * heads * width + row;
        const Real *query = q + keys, *key = k + keys;
        float u = 0.0f;
#pragma unroll 4
        for (Size i = lane; i < width; i += 32) u = fmaf(s[i], key[i], u);
        u = warp_join<Sum>(u);
        const float a = alpha[step * heads + head], change = beta[step * heads + head] * fmaf(-a, u, v[values]);
        float sum = 0.0f;
#pragma unroll 4
        for (Size i = lane; i < width; i += 32) {
            const float now = fmaf(change, key[i], a * s[i]);
            s[i] = now;
            sum = fmaf(now, query[i], sum);
        }
        sum = warp_join<Sum>(sum);
        if (lane == 0) o[values] = sum * scale;
    }
}

__device__ inline void delta_rows(const Real *q, const Real *k, const Real *v, const Real *beta, const Real *alpha,
                                  Real *memory, Real *o, Size heads, Size groups, Size width, Size steps, float scale) {
    for (Size row = first_index() / 32; row < heads * width; row += grid_threads() / 32) {
        delta_row(q, k, v, beta, alpha, memory, o, row, heads, groups, width, steps, scale);
    }
}

// y = gn * o / sqrt(mean(o^2) + eps) * silu(z) of one head, by a block of 256.
template <typename Sink>
__device__ __forceinline__ void delta_norm_head(const Real *o, const Real *z, const Real *gn, Sink y, Size head,
                                                Size width, float eps, float *partial) {
    const Size start = head * width;
    float squares = 0.0f;
#pragma unroll 4
    for (Size i = threadIdx.x; i < width; i += blockDim.x) squares = fmaf(o[start + i], o[start + i], squares);
    squares = block_join<Sum>(squares, partial);
    const float scale = 1.0f / sqrtf(squares / static_cast<float>(width) + eps);
#pragma unroll 4
    for (Size i = threadIdx.x; i < width; i += blockDim.x) {
        const float gate = z[start + i];
        y(start + i, gn[i] * o[start + i] * scale * (gate / (1.0f + expf(-gate))));
    }
}

template <typename Sink>
__device__ __forceinline__ void delta_norms(const Real *o, const Real *z, const Real *gn, Sink y, Size heads,
                                            Size width, float eps) {
    LOGOS_SHARED(float, partial, 32);
    for (Size head = blockIdx.x; head < heads; head += gridDim.x) {
        delta_norm_head(o, z, gn, y, head, width, eps, partial);
    }
}

__device__ inline void delta_norm(const Real *o, const Real *z, const Real *gn, Real *y, Size heads, Size width,
                                  float eps) {
    delta_norms(o, z, gn, Stored{y}, heads, width, eps);
}
