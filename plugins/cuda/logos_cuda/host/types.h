// CUDA's vector types with their sizes and alignments, and dim3.
#pragma once

#define LOGOS_VECTOR1(name, type, bytes) \
    struct alignas(bytes) name { type x; }; \
    static inline name make_##name(type x) { return {x}; }
#define LOGOS_VECTOR2(name, type, bytes) \
    struct alignas(bytes) name { type x, y; }; \
    static inline name make_##name(type x, type y) { return {x, y}; }
#define LOGOS_VECTOR3(name, type, bytes) \
    struct alignas(bytes) name { type x, y, z; }; \
    static inline name make_##name(type x, type y, type z) { return {x, y, z}; }
#define LOGOS_VECTOR4(name, type, bytes) \
    struct alignas(bytes) name { type x, y, z, w; }; \
    static inline name make_##name(type x, type y, type z, type w) { return {x, y, z, w}; }
// A vector of n is aligned to its size up to 16 bytes; one of 3 only as its elements are.
#define LOGOS_VECTORS(prefix, type, one, two, four) \
    LOGOS_VECTOR1(prefix##1, type, one) \
    LOGOS_VECTOR2(prefix##2, type, two) \
    LOGOS_VECTOR3(prefix##3, type, one) \
    LOGOS_VECTOR4(prefix##4, type, four)

LOGOS_VECTORS(char, signed char, 1, 2, 4)
LOGOS_VECTORS(uchar, unsigned char, 1, 2, 4)
LOGOS_VECTORS(short, short, 2, 4, 8)
LOGOS_VECTORS(ushort, unsigned short, 2, 4, 8)
LOGOS_VECTORS(int, int, 4, 8, 16)
LOGOS_VECTORS(uint, unsigned, 4, 8, 16)
LOGOS_VECTORS(longlong, long long, 8, 16, 16)
LOGOS_VECTORS(ulonglong, unsigned long long, 8, 16, 16)
LOGOS_VECTORS(float, float, 4, 8, 16)
LOGOS_VECTORS(double, double, 8, 16, 16)

#undef LOGOS_VECTORS
#undef LOGOS_VECTOR4
#undef LOGOS_VECTOR3
#undef LOGOS_VECTOR2
#undef LOGOS_VECTOR1

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    operator uint3() const { return {x, y, z}; }
};
