// A matmul of integers, exact: y (m, n) = a (m, k) times b (k, n), a thread for each result.
#pragma once

#include "logos.cuh"

// Sums pass 64 and even 128 bits on the way to a result that fits: 192 bits hold any 2^48 products.
struct Exact {
    unsigned __int128 low = 0;
    Int high = 0;

    __device__ __forceinline__ void add(Int a, Int b) {
        const __int128 product = static_cast<__int128>(a) * b;
        const unsigned __int128 bits = static_cast<unsigned __int128>(product);
        low += bits;
        high += (low < bits ? 1 : 0) - (product < 0 ? 1 : 0);
    }

    __device__ __forceinline__ Int value() const { return static_cast<Int>(low); }

    __device__ __forceinline__ bool fits() const {
        return high == (value() < 0 ? -1 : 0) && static_cast<__int128>(low) == value();
    }
};

__device__ inline void matmul_int(const Int *a, const Int *b, Int *y, Fault *fault, int stage, Size m, Size k,
                                  Size n) {
    bool overflow = false;
    for (Size i = first_index(); i < m * n; i += grid_threads()) {
        const Int *row = a + i / n * k;
        const Int *column = b + i % n;
        Exact sum;
        for (Size j = 0; j < k; ++j) sum.add(row[j], column[j * n]);
        overflow = overflow || !sum.fits();
        y[i] = sum.value();
    }
    if (overflow) report(fault, stage, FAULT_OVERFLOW, 0);
}
