// Reading and writing rows of a table of `rows` rows: one, by a number from the device or a literal, or one for each of
// several steps, by a number each.
#pragma once

#include "logos.cuh"

template <typename T>
__device__ __forceinline__ void copy_row(const T *from, T *to, Size columns) {
    for (Size i = first_index(); i < columns; i += grid_threads()) to[i] = from[i];
}

// Rows of a multiple of four columns start on 16 bytes.
template <>
__device__ __forceinline__ void copy_row<Real>(const Real *from, Real *to, Size columns) {
    if (columns % 4 != 0) {
        for (Size i = first_index(); i < columns; i += grid_threads()) to[i] = from[i];
        return;
    }
    for (Size i = first_index(); i < columns / 4; i += grid_threads()) {
        reinterpret_cast<float4 *>(to)[i] = reinterpret_cast<const float4 *>(from)[i];
    }
}

template <typename T>
__device__ inline void embedding_at(const T *table, T *y, Size row, Size columns) {
    copy_row(table + row * columns, y, columns);
}

template <typename T>
__device__ inline void embedding(const Int *token, const T *table, T *y, Fault *fault, int stage, Size rows,
                                 Size columns) {
    const Size row = checked_row(token, rows, fault, stage);
    if (row >= 0) embedding_at(table, y, row, columns);
}

template <typename T>
__device__ inline void set_row_at(const T *values, T *table, Size row, Size columns) {
    copy_row(values, table + row * columns, columns);
}

template <typename T>
__device__ inline void set_row(const Int *number, const T *values, T *table, Fault *fault, int stage, Size rows,
                               Size columns) {
    const Size row = checked_row(number, rows, fault, stage);
    if (row >= 0) set_row_at(values, table, row, columns);
}

// A step's row number; outside the table it is reported and is -1.
__device__ inline Size step_row(const Int *numbers, Size step, Size rows, Fault *fault, int stage) {
    const Int row = numbers[step];
    if (row >= 0 && row < rows) return row;
    if (threadIdx.x == 0) report(fault, stage, FAULT_ROW, row);
    return -1;
}

template <typename T>
__device__ inline void embedding_steps(const Int *tokens, const T *table, T *y, Fault *fault, int stage, Size rows,
                                       Size columns, Size steps) {
    for (Size step = blockIdx.x; step < steps; step += gridDim.x) {
        const Size row = step_row(tokens, step, rows, fault, stage);
        if (row < 0) continue;
        for (Size i = threadIdx.x; i < columns; i += blockDim.x) y[step * columns + i] = table[row * columns + i];
    }
}

// The rows' numbers are all different.
template <typename T>
__device__ inline void set_row_steps(const Int *numbers, const T *values, T *table, Fault *fault, int stage, Size rows,
                                     Size columns, Size steps) {
    for (Size step = blockIdx.x; step < steps; step += gridDim.x) {
        const Size row = step_row(numbers, step, rows, fault, stage);
        if (row < 0) continue;
        for (Size i = threadIdx.x; i < columns; i += blockDim.x) table[row * columns + i] = values[step * columns + i];
    }
}
