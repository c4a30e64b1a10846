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

__device__ inline void causal_conv(const Real *x, const Real *w, Real *ring, Real *y, Size taps, Size columns) {
    for (Size i = first_index(); i < columns; i += grid_threads()) {
        y[i] = conv_channel(x[i], w, ring, taps, columns, i);
    }
}

// e^(al * softplus(ar + dt)) without overflow. In double: of a large exponent a float keeps too few digits.
__device__ __forceinline__ float decay_of(float ar, float dt, float al) {
    const double x = static_cast<double>(ar) + dt;
    return static_cast<Real>(exp(al * (fmax(x, 0.0) + log1p(exp(-fabs(x))))));
}

__device__ inline void decay(const Real *ar, const Real *dt, const Real *al, Real *y, Size n) {
    for (Size i = first_index(); i < n; i += grid_threads()) y[i] = decay_of(ar[i], dt[i], al[i]);
}

// A warp for each row of the memory, of which none needs another: u = S k, S <- a S + b (v - a u) k, o = S q / sqrt(d).
// Value head h uses key head h mod `groups`; `heads` heads of `width` rows.
__device__ inline void delta_rows(const Real *q, const Real *k, const Real *v, const Real *beta, const Real *alpha,
                                  Real *memory, Real *o, Size heads, Size groups, Size width, float scale) {
    const int lane = threadIdx.x % 32;
    for (Size row = first_index() / 32; row < heads * width; row += grid_threads() / 32) {
        const Size head = row / width;
        const Real *query = q + head % groups * width, *key = k + head % groups * width;
        Real *s = memory + row * width;
        float u = 0.0f;
#pragma unroll 4
        for (Size i = lane; i < width; i += 32) u = fmaf(s[i], key[i], u);
        u = warp_join<Sum>(u);
        const float a = alpha[head], change = beta[head] * fmaf(-a, u, v[row]);
        float sum = 0.0f;
#pragma unroll 4
        for (Size i = lane; i < width; i += 32) {
            const float now = fmaf(change, key[i], a * s[i]);
            s[i] = now;
            sum = fmaf(now, query[i], sum);
        }
        sum = warp_join<Sum>(sum);
        if (lane == 0) o[row] = sum * scale;
    }
}

// y = gn * o / sqrt(mean(o^2) + eps) * silu(z), a block of 256 for each head.
__device__ inline void delta_norm(const Real *o, const Real *z, const Real *gn, Real *y, Size heads, Size width,
                                  float eps) {
    LOGOS_SHARED(float, partial, 32);
    for (Size head = blockIdx.x; head < heads; head += gridDim.x) {
        const Size start = head * width;
        float squares = 0.0f;
#pragma unroll 4
        for (Size i = threadIdx.x; i < width; i += blockDim.x) squares = fmaf(o[start + i], o[start + i], squares);
        squares = block_join<Sum>(squares, partial);
        const float scale = 1.0f / sqrtf(squares / static_cast<float>(width) + eps);
#pragma unroll 4
        for (Size i = threadIdx.x; i < width; i += blockDim.x) {
            const float gate = z[start + i];
            y[start + i] = gn[i] * o[start + i] * scale * (gate / (1.0f + expf(-gate)));
        }
    }
}
