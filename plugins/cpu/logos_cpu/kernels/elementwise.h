// One result for each element. Threads share the columns, so what follows element by element need not wait.
#pragma once

#include "common.h"

struct Sigmoid {
    static Real of(Real x) { return Real(sigmoid_of(Sum(x))); }
};

struct Silu {
    static Real of(Real x) { return Real(Sum(x) * sigmoid_of(Sum(x))); }
};

// The tanh approximation: x / (1 + e^(-2z)) with z = sqrt(2/pi) (x + 0.044715 x^3).
struct Gelu {
    static Real of(Real x) {
        const Sum t = Sum(x), z = Sum(1.5957691216057308) * (t + Sum(0.044715) * t * t * t);
        return Real(t * sigmoid_of(z));
    }
};

struct Swiglu {
    static Real of(Real gate, Real up) { return Real(Sum(gate) * sigmoid_of(Sum(gate)) * Sum(up)); }
};

struct Plus {
    static Real of(Real a, Real b) { return a + b; }
    static bool of(Int a, Int b, Int &y) { return __builtin_add_overflow(a, b, &y); }
};

struct Hadamard {
    static Real of(Real a, Real b) { return a * b; }
    static bool of(Int a, Int b, Int &y) { return __builtin_mul_overflow(a, b, &y); }
};

template <typename Function>
void map(const Worker &w, const Real *x, Real *y, Size rows, Size columns) {
    const Range own = share(w, columns, BLOCK);
    for (Size r = 0; r < rows; r++)
        for (Size c = own.begin; c < own.end; c++) y[r * columns + c] = Function::of(x[r * columns + c]);
}

// Rows of a lie `a_step` apart, of b `b_step`; b has `columns` elements a row, or one for all of them.
template <typename Function>
void pairwise(const Worker &w, const Real *a, const Real *b, Real *y, Size rows, Size columns, Size a_step, Size b_step,
              Size b_columns) {
    const Range own = share(w, columns, BLOCK);
    for (Size r = 0; r < rows; r++) {
        const Real *from = a + r * a_step, *other = b + r * b_step;
        Real *to = y + r * columns;
        if (b_columns == 1)
            for (Size c = own.begin; c < own.end; c++) to[c] = Function::of(from[c], other[0]);
        else
            for (Size c = own.begin; c < own.end; c++) to[c] = Function::of(from[c], other[c]);
    }
}

template <typename Function>
void pairwise_int(const Worker &w, const Int *a, const Int *b, Int *y, Size rows, Size columns, Size a_step, Size b_step,
                  Size b_columns) {
    const Range own = share(w, columns, BLOCK);
    bool overflow = false;
    for (Size r = 0; r < rows; r++)
        for (Size c = own.begin; c < own.end; c++)
            overflow |= Function::of(a[r * a_step + c], b[r * b_step + (b_columns == 1 ? 0 : c)], y[r * columns + c]);
    if (overflow) w.report(FAULT_OVERFLOW, 0);
}

inline void convert(const Worker &w, const Int *x, Real *y, Size rows, Size columns) {
    const Range own = share(w, columns, BLOCK);
    for (Size r = 0; r < rows; r++)
        for (Size c = own.begin; c < own.end; c++) y[r * columns + c] = Real(x[r * columns + c]);
}

template <typename T>
void transpose(const Worker &w, const T *x, T *y, Size rows, Size columns) {
    const Range own = share(w, rows, BLOCK);
    for (Size c = 0; c < columns; c++)
        for (Size r = own.begin; r < own.end; r++) y[c * rows + r] = x[r * columns + c];
}

// e^(al * softplus(ar + dt)) without overflow.
inline void decay(const Worker &w, const Real *ar, const Real *dt, const Real *al, Real *y, Size rows, Size columns,
                  Size ar_step, Size dt_step, Size al_step) {
    const Range own = share(w, columns, BLOCK);
    for (Size r = 0; r < rows; r++)
        for (Size c = own.begin; c < own.end; c++) {
            const double x = double(ar[r * ar_step + c]) + double(dt[r * dt_step + c]);
            const double softplus = fmax(x, 0.0) + log1p(exp(-fabs(x)));
            y[r * columns + c] = Real(exp(double(al[r * al_step + c]) * softplus));
        }
}
