// Functions that many kernels use. All sums have one order, whatever the processor: plain loops over lanes.
#pragma once

#include "types.h"

// Sums within a kernel: double where the program is to equal the reference machine.
#ifdef LOGOS_EXACT
typedef double Sum;
#else
typedef float Sum;
#endif

// LANES of them side by side, and two of these added without one step waiting for another.
typedef Sum Sums __attribute__((vector_size(LANES * sizeof(Sum))));
typedef Sum HalfSums __attribute__((vector_size(LANES / 2 * sizeof(Sum))));

// LANES elements from x on; with PART, up to so many, the rest 0.
template <bool PART>
void load(const Real *x, Size count, Sums &to) {
    Reals found = {};
    if (!PART || count >= LANES) memcpy(&found, x, sizeof found);
    else memcpy(&found, x, size_t(count) * sizeof(Real));
    to = __builtin_convertvector(found, Sums);
}

inline Sum total(const Sums &lanes) {
    HalfSums half[2];
    memcpy(half, &lanes, sizeof half);
    half[0] += half[1];
    return ((half[0][0] + half[0][4]) + (half[0][2] + half[0][6])) + ((half[0][1] + half[0][5]) + (half[0][3] + half[0][7]));
}

// Sums whose order does not depend on the width of registers: 8 lanes, then their tree.
inline double tree(const double *lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

inline double dot(const Real *a, const Real *b, Size n) {
    double lanes[8] = {};
    Size i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) lanes[j] += double(a[i + j]) * double(b[i + j]);
    for (int j = 0; j < 8 && i + j < n; j++) lanes[j] += double(a[i + j]) * double(b[i + j]);
    return tree(lanes);
}

inline double squares(const Real *x, Size n) { return dot(x, x, n); }

// e^x to some 1e-7 of itself, without branches, so that loops of it become vectors; 0 below -87, e^88 above 88.
inline Real fast_exp(Real x) {
    const Real high = x > 88.0f ? 88.0f : x, low = high < -87.0f ? -87.0f : high;
    const Real shifted = low * 1.44269504f + 12582912.0f, whole = shifted - 12582912.0f;
    const Real r = low - whole * 0.693359375f - whole * -2.12194440e-4f;
    Real p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000u;
    Real power;
    memcpy(&power, &bits, sizeof power);
    return x < -87.0f ? 0.0f : p * power;
}

// What the program's exact mode computes in double, the other in float.
inline double exp_of(double x) { return exp(x); }
inline Real exp_of(Real x) { return fast_exp(x); }

template <typename T>
inline T sigmoid_of(T x) {
    return T(1) / (T(1) + exp_of(-x));
}
