// Functions of numbers that CUDA adds to C's: bits, products of bytes, named roundings.
#pragma once

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "count.h"

namespace logos_host {

template <class To, class From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "the bits of one are those of the other");
    To to;
    memcpy(static_cast<void *>(&to), static_cast<const void *>(&from), sizeof to);
    return to;
}

// A float as an integer: NaN gives 0 (in 64 bits the least), what lies outside the nearest end.
template <class Integer, class Real>
Integer to_integer(Real rounded, Integer least, Integer most, Integer nan) {
    if (rounded != rounded) return nan;
    // `most` itself may not be a float; the power of two above it is.
    if (rounded >= -Real(least)) return most;
    if (rounded <= Real(least)) return least;
    return Integer(rounded);
}

}  // namespace logos_host

inline int __float_as_int(float x) { return logos_host::bits_as<int>(x); }
inline unsigned __float_as_uint(float x) { return logos_host::bits_as<unsigned>(x); }
inline float __int_as_float(int x) { return logos_host::bits_as<float>(x); }
inline float __uint_as_float(unsigned x) { return logos_host::bits_as<float>(x); }
inline long long __double_as_longlong(double x) { return logos_host::bits_as<long long>(x); }
inline double __longlong_as_double(long long x) { return logos_host::bits_as<double>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int i = 0; i < 32; i++) y |= (x >> i & 1u) << (31 - i);
    return y;
}
// Byte i of the result is the byte of y:x that the low 3 bits of nibble i name; bit 3 spreads that byte's sign.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned nibble = selector >> 4 * i & 0xf, byte = unsigned(both >> 8 * (nibble & 7)) & 0xff;
        if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}
inline int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned((unsigned long long)x * y >> 32); }
inline long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}

// The sum of c and four products of bytes; it wraps.
inline int __dp4a(int a, int b, int c) {
    signed char x[4], y[4];
    memcpy(x, &a, 4);
    memcpy(y, &b, 4);
    return int(unsigned(c) + unsigned(x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3]));
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    unsigned char x[4], y[4];
    memcpy(x, &a, 4);
    memcpy(y, &b, 4);
    return c + unsigned(x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3]);
}

template <class Value>
Value __ldg(const Value *address) {
    LOGOS_COUNT_LOAD(address, sizeof(Value));
    return *address;
}
template <class Value>
Value __ldcs(const Value *address) { return *address; }
template <class Value>
Value __ldcg(const Value *address) { return *address; }
template <class Value>
void __stcs(Value *address, Value value) { *address = value; }
template <class Value>
void __stcg(Value *address, Value value) { *address = value; }

inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline float rsqrtf(float x) { return float(1.0 / sqrt(double(x))); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }

inline int __float2int_rn(float x) { return logos_host::to_integer(rintf(x), INT_MIN, INT_MAX, 0); }
inline int __float2int_rz(float x) { return logos_host::to_integer(truncf(x), INT_MIN, INT_MAX, 0); }
inline int __float2int_rd(float x) { return logos_host::to_integer(floorf(x), INT_MIN, INT_MAX, 0); }
inline int __float2int_ru(float x) { return logos_host::to_integer(ceilf(x), INT_MIN, INT_MAX, 0); }
inline long long __float2ll_rn(float x) { return logos_host::to_integer(rintf(x), LLONG_MIN, LLONG_MAX, LLONG_MIN); }
inline long long __double2ll_rn(double x) { return logos_host::to_integer(rint(x), LLONG_MIN, LLONG_MAX, LLONG_MIN); }
inline float __int2float_rn(int x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline float __double2float_rn(double x) { return float(x); }

// CUDA's min and max take any two numbers of a kind.
#define LOGOS_ORDER(type) \
    inline type min(type x, type y) { return y < x ? y : x; } \
    inline type max(type x, type y) { return x < y ? y : x; }
LOGOS_ORDER(int)
LOGOS_ORDER(unsigned)
LOGOS_ORDER(long)
LOGOS_ORDER(unsigned long)
LOGOS_ORDER(long long)
LOGOS_ORDER(unsigned long long)
#undef LOGOS_ORDER
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline double max(double x, double y) { return fmax(x, y); }
