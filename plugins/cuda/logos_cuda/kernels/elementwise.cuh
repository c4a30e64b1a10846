// One result for each element: functions of one or two tensors of n elements, and conversion to Real.
#pragma once

#include "logos.cuh"

struct Sigmoid {
    static __device__ __forceinline__ float of(float x) { return 1.0f / (1.0f + expf(-x)); }
};

struct Silu {
    static __device__ __forceinline__ float of(float x) { return x / (1.0f + expf(-x)); }
};

// The tanh approximation: x / (1 + e^(-2z)) with z = sqrt(2/pi) (x + 0.044715 x^3).
struct Gelu {
    static __device__ __forceinline__ float of(float x) {
        const float z = 0.7978845608f * (x + 0.044715f * x * x * x);
        return x / (1.0f + expf(-2.0f * z));
    }
};

struct Swiglu {
    static __device__ __forceinline__ float of(float gate, float up) { return Silu::of(gate) * up; }
};

struct Plus {
    static __device__ __forceinline__ float of(float a, float b) { return a + b; }
    static __device__ __forceinline__ Int of(Int a, Int b, bool &overflow) {
        const Int sum = static_cast<Int>(static_cast<unsigned long long>(a) + static_cast<unsigned long long>(b));
        overflow = overflow || ((a ^ sum) & (b ^ sum)) < 0;
        return sum;
    }
};

struct Hadamard {
    static __device__ __forceinline__ float of(float a, float b) { return a * b; }
    static __device__ __forceinline__ Int of(Int a, Int b, bool &overflow) {
        const __int128 product = static_cast<__int128>(a) * b;
        overflow = overflow || product != static_cast<Int>(product);
        return static_cast<Int>(product);
    }
};

// How B meets A: element for element, its one row with every row, its one element with every element.
enum Spread { SAME, ROW, SCALAR };

template <Spread spread>
__device__ __forceinline__ Size place(Size i, Size columns) {
    return spread == SAME ? i : spread == ROW ? i % columns : 0;
}

template <typename Function>
__device__ inline void map(const Real *x, Real *y, Size n) {
    const Size vectors = n / 4;
    for (Size i = first_index(); i < vectors; i += grid_threads()) {
        const float4 a = reinterpret_cast<const float4 *>(x)[i];
        const float4 made = {Function::of(a.x), Function::of(a.y), Function::of(a.z), Function::of(a.w)};
        reinterpret_cast<float4 *>(y)[i] = made;
    }
    for (Size i = 4 * vectors + first_index(); i < n; i += grid_threads()) y[i] = Function::of(x[i]);
}

template <typename Function, Spread spread>
__device__ inline void pairwise(const Real *a, const Real *b, Real *y, Size n, Size columns) {
    const Size vectors = spread == ROW ? 0 : n / 4;
    for (Size i = first_index(); i < vectors; i += grid_threads()) {
        const float4 p = reinterpret_cast<const float4 *>(a)[i];
        float4 q;
        if (spread == SCALAR) {
            q.x = q.y = q.z = q.w = b[0];
        } else {
            q = reinterpret_cast<const float4 *>(b)[i];
        }
        const float4 made = {Function::of(p.x, q.x), Function::of(p.y, q.y), Function::of(p.z, q.z),
                             Function::of(p.w, q.w)};
        reinterpret_cast<float4 *>(y)[i] = made;
    }
    for (Size i = 4 * vectors + first_index(); i < n; i += grid_threads()) {
        y[i] = Function::of(a[i], b[place<spread>(i, columns)]);
    }
}

template <typename T>
__device__ inline void repeat(const T *x, T *y, Size n, Size columns) {
    for (Size i = first_index(); i < n; i += grid_threads()) y[i] = x[i % columns];
}

template <typename Function, Spread spread>
__device__ inline void pairwise_int(const Int *a, const Int *b, Int *y, Fault *fault, int stage, Size n,
                                    Size columns) {
    bool overflow = false;
    for (Size i = first_index(); i < n; i += grid_threads()) {
        y[i] = Function::of(a[i], b[place<spread>(i, columns)], overflow);
    }
    if (overflow) report(fault, stage, FAULT_OVERFLOW, 0);
}

// Rows of `columns` elements, n in all: a row of a lies `a_step` after the one before, of b `b_step`, and b has `columns`
// elements a row or one for all of them.
template <typename Function>
__device__ inline void pairwise_rows(const Real *a, const Real *b, Real *y, Size n, Size columns, Size a_step,
                                     Size b_step, Size b_columns) {
    for (Size i = first_index(); i < n; i += grid_threads()) {
        const Size row = i / columns, at = i % columns;
        y[i] = Function::of(a[row * a_step + at], b[row * b_step + (b_columns == 1 ? 0 : at)]);
    }
}

template <typename Function>
__device__ inline void pairwise_rows_int(const Int *a, const Int *b, Int *y, Fault *fault, int stage, Size n,
                                         Size columns, Size a_step, Size b_step, Size b_columns) {
    bool overflow = false;
    for (Size i = first_index(); i < n; i += grid_threads()) {
        const Size row = i / columns, at = i % columns;
        y[i] = Function::of(a[row * a_step + at], b[row * b_step + (b_columns == 1 ? 0 : at)], overflow);
    }
    if (overflow) report(fault, stage, FAULT_OVERFLOW, 0);
}

template <typename T>
__device__ inline void convert(const T *x, Real *y, Size n) {
    for (Size i = first_index(); i < n; i += grid_threads()) y[i] = static_cast<Real>(x[i]);
}
