// __half and __nv_bfloat16: conversions round to the nearest, ties to even; arithmetic rounds once.
#pragma once

#include "numbers.h"
#include "types.h"

namespace logos_host {

// A float's nearest value with `fraction` bits of fraction and exponents from 1 - bias, as its bits. Both formats are
// a sign, an exponent and a fraction, so that rounding up carries from one into the next.
template <int fraction, int bias>
unsigned short narrowed(float x) {
    constexpr int most = 2 * bias + 1, shift = 23 - fraction;
    unsigned bits = bits_as<unsigned>(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return 0x7fff;
    int exponent = int(magnitude >> 23) - 127 + bias;
    if (exponent >= most) return (unsigned short)(sign | unsigned(most) << fraction);
    unsigned significand = magnitude & 0x7fffff;
    int drop = shift;
    if (exponent <= 0 || magnitude < 0x800000) {  // below the least normal: a multiple of the least denormal
        if (magnitude >= 0x800000) significand |= 0x800000;
        int lowest = magnitude >= 0x800000 ? exponent : 1 - 127 + bias;
        drop += 1 - lowest;
        exponent = 0;
        if (drop > 25) return (unsigned short)sign;
    }
    unsigned kept = unsigned(exponent) << fraction, rest = significand & ((1u << drop) - 1), half = 1u << (drop - 1);
    kept += significand >> drop;
    if (rest > half || (rest == half && (kept & 1))) kept++;
    return (unsigned short)(sign | kept);
}

template <int fraction, int bias>
float widened(unsigned short bits) {
    unsigned sign = unsigned(bits & 0x8000) << 16, magnitude = bits & 0x7fff, exponent = magnitude >> fraction;
    if (exponent == unsigned(2 * bias + 1)) return bits_as<float>(sign | 0x7f800000 | magnitude << (23 - fraction));
    if (bias == 127) return bits_as<float>(sign | magnitude << 16);
    if (exponent == 0) return bits_as<float>(sign | bits_as<unsigned>(float(magnitude) * (1.0f / 16777216.0f)));
    return bits_as<float>(sign | ((magnitude << (23 - fraction)) + (unsigned(127 - bias) << 23)));
}

// A double as a float, rounded to odd: rounding that again to 11 bits or fewer is one rounding.
inline float odd_float(double x) {
    float near = float(x);
    if (double(near) == x || near - near != 0) return near;
    unsigned bits = bits_as<unsigned>(near);
    if (!(bits & 1)) bits += (x > double(near)) == (x > 0) ? 1u : ~0u;
    return bits_as<float>(bits);
}

// a * b + c as a float rounded to odd.
inline float odd_sum(float a, float b, float c) {
    double product = double(a) * double(b);  // exact
    double sum = product + double(c);
    double back = sum - product;
    double error = (product - (sum - back)) + (double(c) - back);
    long long bits = bits_as<long long>(sum);
    if (error != 0 && sum - sum == 0 && !(bits & 1)) bits += (error > 0) == (sum > 0) ? 1 : -1;
    return odd_float(bits_as<double>(bits));
}

}  // namespace logos_host

#define LOGOS_NARROW(Type, fraction, bias) \
    struct Type { \
        unsigned short bits; \
        Type() = default; \
        Type(float x) : bits(logos_host::narrowed<fraction, bias>(x)) {} \
        Type(double x) : Type(logos_host::odd_float(x)) {} \
        Type(int x) : Type(double(x)) {} \
        Type(unsigned x) : Type(double(x)) {} \
        Type(long long x) : Type(double(x)) {} \
        operator float() const { return logos_host::widened<fraction, bias>(bits); } \
        Type &operator+=(Type y); \
        Type &operator-=(Type y); \
        Type &operator*=(Type y); \
    }; \
    static_assert(sizeof(Type) == 2, ""); \
    inline Type operator+(Type x, Type y) { return float(x) + float(y); } \
    inline Type operator-(Type x, Type y) { return float(x) - float(y); } \
    inline Type operator*(Type x, Type y) { return float(x) * float(y); } \
    inline Type operator/(Type x, Type y) { return float(x) / float(y); } \
    inline Type operator-(Type x) { return logos_host::bits_as<Type>((unsigned short)(x.bits ^ 0x8000)); } \
    inline bool operator==(Type x, Type y) { return float(x) == float(y); } \
    inline bool operator!=(Type x, Type y) { return float(x) != float(y); } \
    inline bool operator<(Type x, Type y) { return float(x) < float(y); } \
    inline bool operator<=(Type x, Type y) { return float(x) <= float(y); } \
    inline bool operator>(Type x, Type y) { return float(x) > float(y); } \
    inline bool operator>=(Type x, Type y) { return float(x) >= float(y); } \
    inline Type &Type::operator+=(Type y) { return *this = *this + y; } \
    inline Type &Type::operator-=(Type y) { return *this = *this - y; } \
    inline Type &Type::operator*=(Type y) { return *this = *this * y; } \
    struct alignas(4) Type##2 { Type x, y; }; \
    inline Type __hadd(Type x, Type y) { return x + y; } \
    inline Type __hsub(Type x, Type y) { return x - y; } \
    inline Type __hmul(Type x, Type y) { return x * y; } \
    inline Type __hdiv(Type x, Type y) { return x / y; } \
    inline Type __hneg(Type x) { return -x; } \
    inline Type __habs(Type x) { return logos_host::bits_as<Type>((unsigned short)(x.bits & 0x7fff)); } \
    inline Type __hfma(Type x, Type y, Type z) { return logos_host::odd_sum(x, y, z); } \
    inline bool __heq(Type x, Type y) { return x == y; } \
    inline bool __hlt(Type x, Type y) { return x < y; } \
    inline bool __hgt(Type x, Type y) { return x > y; } \
    inline bool __hisnan(Type x) { return float(x) != float(x); } \
    inline Type __hmax(Type x, Type y) { return fmaxf(x, y); } \
    inline Type __hmin(Type x, Type y) { return fminf(x, y); } \
    inline Type##2 __hadd2(Type##2 a, Type##2 b) { return {a.x + b.x, a.y + b.y}; } \
    inline Type##2 __hsub2(Type##2 a, Type##2 b) { return {a.x - b.x, a.y - b.y}; } \
    inline Type##2 __hmul2(Type##2 a, Type##2 b) { return {a.x * b.x, a.y * b.y}; } \
    inline Type##2 __hfma2(Type##2 a, Type##2 b, Type##2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; } \
    inline float __low2float(Type##2 a) { return a.x; } \
    inline float __high2float(Type##2 a) { return a.y; }

LOGOS_NARROW(__half, 10, 15)
typedef __half half;
typedef __half2 half2;
LOGOS_NARROW(__nv_bfloat16, 7, 127)
typedef __nv_bfloat162 nv_bfloat162;
typedef __nv_bfloat16 nv_bfloat16;
#undef LOGOS_NARROW

inline __half __float2half(float x) { return x; }
inline __half __float2half_rn(float x) { return x; }
inline __half __double2half(double x) { return x; }
inline float __half2float(__half x) { return x; }
inline unsigned short __half_as_ushort(__half x) { return x.bits; }
inline __half __ushort_as_half(unsigned short x) { return logos_host::bits_as<__half>(x); }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline __half2 __float22half2_rn(float2 a) { return {a.x, a.y}; }
inline __half2 __float2half2_rn(float x) { return {x, x}; }
inline float2 __half22float2(__half2 a) { return {a.x, a.y}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half x) { return {x, x}; }
inline __half __low2half(__half2 a) { return a.x; }
inline __half __high2half(__half2 a) { return a.y; }

inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
inline float __bfloat162float(__nv_bfloat16 x) { return x; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return logos_host::bits_as<__nv_bfloat16>(x); }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 a) { return {a.x, a.y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 a) { return {a.x, a.y}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
