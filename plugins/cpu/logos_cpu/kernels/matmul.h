// Products by weights of float32, summed in double, and of integers, exact.
#pragma once

#include "common.h"

// y (m, n) = a (m, k) times the transpose of b (n, k).
inline void matmul_rows(const Worker &w, const Real *a, const Real *b, Real *y, Size m, Size k, Size n) {
    const Range own = share(w, n, BLOCK);
    for (Size c = own.begin; c < own.end; c++)
        for (Size r = 0; r < m; r++) y[r * n + c] = Real(dot(a + r * k, b + c * k, k));
}

// y (m, n) = a (m, k) times b (k, n).
inline void matmul_columns(const Worker &w, const Real *a, const Real *b, Real *y, Size m, Size k, Size n) {
    const Range own = share(w, n, BLOCK);
    for (Size c = own.begin; c < own.end; c += BLOCK) {
        const Size width = own.end - c < BLOCK ? own.end - c : BLOCK;
        for (Size r = 0; r < m; r++) {
            double sums[BLOCK] = {};
            for (Size i = 0; i < k; i++) {
                const double x = double(a[r * k + i]);
                if (width == BLOCK)
                    for (Size j = 0; j < BLOCK; j++) sums[j] += x * double(b[i * n + c + j]);
                else
                    for (Size j = 0; j < width; j++) sums[j] += x * double(b[i * n + c + j]);
            }
            for (Size j = 0; j < width; j++) y[r * n + c + j] = Real(sums[j]);
        }
    }
}

// Sums pass 64 and even 128 bits on the way to a result that fits: 192 bits hold any 2^48 products.
struct ExactSum {
    unsigned __int128 low = 0;
    Int high = 0;

    void add(Int a, Int b) {
        const __int128 product = __int128(a) * b;
        const unsigned __int128 bits = static_cast<unsigned __int128>(product);
        low += bits;
        high += (low < bits ? 1 : 0) - (product < 0 ? 1 : 0);
    }

    Int value() const { return static_cast<Int>(low); }

    bool fits() const { return high == (value() < 0 ? -1 : 0) && static_cast<__int128>(low) == value(); }
};

inline void matmul_int(const Worker &w, const Int *a, const Int *b, Int *y, Size m, Size k, Size n) {
    const Range own = share(w, n, BLOCK);
    bool overflow = false;
    for (Size r = 0; r < m; r++)
        for (Size c = own.begin; c < own.end; c++) {
            ExactSum sum;
            for (Size i = 0; i < k; i++) sum.add(a[r * k + i], b[i * n + c]);
            overflow |= !sum.fits();
            y[r * n + c] = sum.value();
        }
    if (overflow) w.report(FAULT_OVERFLOW, 0);
}
