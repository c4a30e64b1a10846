// Reading and writing one row of a table of `rows` rows, by a number from the device or a literal.
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
