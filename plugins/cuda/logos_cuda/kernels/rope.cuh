// Rotary embedding of rows of `columns` elements in heads of `width`, n in all: the first 2 * half of a head turn in pairs
// half apart. The cosines and sines of a row lie `turn` after those of the row before.
#pragma once

#include "logos.cuh"

__device__ inline void rope(const Real *q, const Real *cosines, const Real *sines, Real *y, Size n, Size columns,
                            Size turn, Size width, Size half) {
    for (Size i = first_index(); i < n; i += grid_threads()) {
        const Size row = i / columns * turn, at = i % width;
        if (at < half) {
            y[i] = q[i] * cosines[row + at] - q[i + half] * sines[row + at];
        } else if (at < 2 * half) {
            y[i] = q[i - half] * sines[row + at - half] + q[i] * cosines[row + at - half];
        } else {
            y[i] = q[i];
        }
    }
}
