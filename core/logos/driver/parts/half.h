// float16 as its bits, by the types Real and Half.

// Exactly the float16, without branches: the exponent is made float's by a product, which subnormals take too.
inline Real half_value(Half bits) {
    const uint32_t shifted = uint32_t(bits & 0x7fffu) << 13, sign = uint32_t(bits & 0x8000u) << 16;
    Real size;
    memcpy(&size, &shifted, sizeof size);
    size *= 5.192296858534828e+33f;  // 2^112
    uint32_t found;
    memcpy(&found, &size, sizeof found);
    if ((bits & 0x7c00u) == 0x7c00u) found |= 0x7f800000u;
    found |= sign;
    memcpy(&size, &found, sizeof size);
    return size;
}

// The nearest float16, ties to even.
inline Half half_bits(Real x) {
    const Real size = fabsf(x);
    const unsigned sign = signbit(x) ? 0x8000 : 0;
    if (size != size) return Half(sign | 0x7e00);
    if (size >= 65520.0f) return Half(sign | 0x7c00);
    if (size < 6.103515625e-05f) return Half(sign | unsigned(lrintf(size * 16777216.0f)));
    uint32_t bits;
    memcpy(&bits, &size, sizeof bits);
    bits += 0xfff + (bits >> 13 & 1);
    return Half(sign | ((bits >> 13) - (112 << 10)));
}
