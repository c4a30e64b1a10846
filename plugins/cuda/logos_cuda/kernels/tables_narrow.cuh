// Reading one row of a table in Q8_0, and writing one of a table of float16, by a number from the device or a literal.
#pragma once

#include "tables.cuh"

__device__ inline void embedding_q8_at(const Quant *table, const Half *scales, Real *y, Size row, Size columns) {
    const Size start = row * columns;
    for (Size i = first_index(); i < columns / 4; i += grid_threads()) {
        const unsigned four = reinterpret_cast<const unsigned *>(table + start)[i];
        const float scale = float_of(scales[start / 32 + i / 8]);
        const float4 made = {scale * static_cast<Quant>(four), scale * static_cast<Quant>(four >> 8),
                             scale * static_cast<Quant>(four >> 16), scale * static_cast<Quant>(four >> 24)};
        reinterpret_cast<float4 *>(y)[i] = made;
    }
}

__device__ inline void embedding_q8(const Int *token, const Quant *table, const Half *scales, Real *y, Fault *fault,
                                    int stage, Size rows, Size columns) {
    const Size row = checked_row(token, rows, fault, stage);
    if (row >= 0) embedding_q8_at(table, scales, y, row, columns);
}

__device__ inline void set_row_half_at(const Real *values, Half *table, Size row, Size columns) {
    for (Size i = first_index(); i < columns; i += grid_threads()) table[row * columns + i] = half_of(values[i]);
}

__device__ inline void set_row_half(const Int *number, const Real *values, Half *table, Fault *fault, int stage,
                                    Size rows, Size columns) {
    const Size row = checked_row(number, rows, fault, stage);
    if (row >= 0) set_row_half_at(values, table, row, columns);
}

__device__ inline void embedding_steps_q8(const Int *tokens, const Quant *table, const Half *scales, Real *y,
                                          Fault *fault, int stage, Size rows, Size columns, Size steps) {
    for (Size step = blockIdx.x; step < steps; step += gridDim.x) {
        const Size row = step_row(tokens, step, rows, fault, stage);
        if (row < 0) continue;
        for (Size i = threadIdx.x; i < columns; i += blockDim.x) {
            const Size from = row * columns + i;
            y[step * columns + i] = float_of(scales[from / 32]) * table[from];
        }
    }
}

__device__ inline void set_row_steps_half(const Int *numbers, const Real *values, Half *table, Fault *fault, int stage,
                                          Size rows, Size columns, Size steps) {
    for (Size step = blockIdx.x; step < steps; step += gridDim.x) {
        const Size row = step_row(numbers, step, rows, fault, stage);
        if (row < 0) continue;
        for (Size i = threadIdx.x; i < columns; i += blockDim.x) {
            table[row * columns + i] = half_of(values[step * columns + i]);
        }
    }
}
