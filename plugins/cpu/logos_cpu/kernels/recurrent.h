// Ops that carry a state from step to step, in place: a convolution's ring, a delta rule's memory.
#pragma once

#include "common.h"

inline void causal_conv(const Worker &w, const Real *x, const Real *weight, Real *ring, Real *y, Size steps, Size taps,
                        Size columns, Size x_step) {
    const Range own = share(w, columns, BLOCK);
    for (Size step = 0; step < steps; step++)
        for (Size c = own.begin; c < own.end; c++) {
            double sum = 0;
            for (Size tap = 0; tap + 1 < taps; tap++) {
                const Real moved = ring[(tap + 1) * columns + c];
                ring[tap * columns + c] = moved;
                sum += double(moved) * double(weight[tap * columns + c]);
            }
            const Real newest = x[step * x_step + c];
            ring[(taps - 1) * columns + c] = newest;
            y[step * columns + c] = Real(sum + double(newest) * double(weight[(taps - 1) * columns + c]));
        }
}

// Where each operand's next row lies; 0 where one row serves every step.
struct DeltaSteps {
    Size q, k, v, z, beta, alpha, norm;
};

// Of a head: u = S k, S <- a S + b (v - a u) k, o = S q / sqrt(d), then gn * o / sqrt(mean(o^2) + eps) * silu(z).
// Value head h uses key head h mod `groups`. Threads share the heads.
inline void gated_delta(const Worker &w, const Real *q, const Real *k, const Real *v, const Real *z, const Real *beta,
                        const Real *alpha, Real *memory, const Real *norm, Real *y, Size steps, Size heads, Size groups,
                        Size width, DeltaSteps by, double eps) {
    const Range own = share(w, heads * width, width);
    double *o = reinterpret_cast<double *>(w.scratch);
    for (Size step = 0; step < steps; step++)
        for (Size at = own.begin; at < own.end; at += width) {
            const Size head = at / width, group = head % groups;
            const Real *key = k + step * by.k + group * width, *query = q + step * by.q + group * width;
            const double a = double(alpha[step * by.alpha + head]), b = double(beta[step * by.beta + head]);
            double mean = 0;
            for (Size row = 0; row < width; row++) {
                Real *s = memory + (at + row) * width;
                const double change = b * (double(v[step * by.v + at + row]) - a * dot(s, key, width));
                for (Size i = 0; i < width; i++) s[i] = Real(a * double(s[i]) + change * double(key[i]));
                o[row] = dot(s, query, width) / sqrt(double(width));
                mean += o[row] * o[row];
            }
            const double scale = 1.0 / sqrt(mean / double(width) + eps);
            for (Size i = 0; i < width; i++) {
                const double gate = double(z[step * by.z + at + i]);
                const double silu = gate / (1.0 + exp(-gate));
                y[step * heads * width + at + i] = Real(double(norm[step * by.norm + i]) * o[i] * scale * silu);
            }
        }
}
