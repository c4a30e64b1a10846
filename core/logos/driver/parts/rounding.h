// Q8_0: of each BLOCK elements the quants, and the scale as a float16.

// What Q8_0's reference quantizer makes of a block; ends where it cannot hold a value.
Half round_block(const Leaf &leaf, const Real *from, Quant *quants) {
    const Real most = 3.40282347e+38f;
    Real largest = 0;
    bool holds = true;
    for (Size i = 0; i < BLOCK; i++) {
        holds = holds && fabsf(from[i]) <= most;
        largest = fmaxf(largest, fabsf(from[i]));
    }
    const Real step = largest / 127, inverse = step != 0 ? 1 / step : 0;
    const Half kept = half_bits(step);
    if (!holds || !(half_value(kept) <= most)) end(REFUSED, std::string(leaf.name) + " holds a value that Q8_0 cannot");
    for (Size i = 0; i < BLOCK; i++) quants[i] = inverse <= most ? static_cast<Quant>(roundf(from[i] * inverse)) : Quant(0);
    return kept;
}

Half scale_bits(Real scale, const std::string &path) {
    const Half bits = half_bits(scale);
    if (half_value(bits) != scale) end(REFUSED, path + " holds a scale that is no float16, as Q8_0 has them");
    return bits;
}
