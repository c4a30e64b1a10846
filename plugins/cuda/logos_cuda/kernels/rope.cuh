// Rotary embedding of one row of n elements in heads of `width`: the first 2 * half of a head turn in pairs half apart.
#pragma once

#include "logos.cuh"

__device__ inline void rope(const Real *q, const Real *cosines, const Real *sines, Real *y, Size n, Size width,
                            Size half) {
    for (Size i = first_index(); i < n; i += grid_threads()) {
        const Size at = i % width;
        if (at < half) {
            y[i] = q[i] * cosines[at] - q[i + half] * sines[at];
        } else if (at < 2 * half) {
            y[i] = q[i - half] * sines[at - half] + q[i] * cosines[at - half];
        } else {
            y[i] = q[i];
        }
    }
}
