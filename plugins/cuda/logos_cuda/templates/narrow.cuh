// What the device keeps in fewer bits than a Real: float16, and Q8_0, a float16 scale for each 32 elements.

const Size BLOCK = 32;

// The nearest float16, ties to even, as its bits.
unsigned short half_bits(float x) {
    const float size = fabsf(x);
    const unsigned sign = signbit(x) ? 0x8000 : 0;
    if (size != size) return static_cast<unsigned short>(sign | 0x7e00);
    if (size >= 65520.0f) return static_cast<unsigned short>(sign | 0x7c00);
    if (size < 6.103515625e-05f) return static_cast<unsigned short>(sign | unsigned(lrintf(size * 16777216.0f)));
    unsigned bits;
    memcpy(&bits, &size, sizeof bits);
    bits += 0xfff + (bits >> 13 & 1);
    return static_cast<unsigned short>(sign | ((bits >> 13) - (112 << 10)));
}

float half_value(unsigned short bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? ldexpf(float(fraction), -24)
                                       : ldexpf(float(1024 + fraction), exponent - 25);
    return bits & 0x8000 ? -size : size;
}

// Q8_0's reference quantizer; false for what it cannot hold.
bool quantize_block(const Real *from, Quant *quants, Half &kept) {
    float largest = 0;
    for (Size i = 0; i < BLOCK; i++) {
        if (!(fabsf(from[i]) <= LARGEST)) return false;
        largest = fmaxf(largest, fabsf(from[i]));
    }
    const float step = largest / 127, inverse = step != 0 ? 1 / step : 0;
    kept = half_bits(step);
    const float scale = half_value(kept);
    for (Size i = 0; i < BLOCK; i++)
        quants[i] = inverse <= LARGEST && scale <= LARGEST ? static_cast<Quant>(roundf(from[i] * inverse)) : Quant(0);
    return scale <= LARGEST;
}

void send(int buffer, Size start, const void *from, size_t bytes) {
    CHECK(cudaMemcpy(static_cast<char *>(memory[buffer]) + start, from, bytes, cudaMemcpyHostToDevice));
}

// `count` elements of a leaf from `first` on, whole blocks, rounded as the device keeps them.
void send_rounded(const Leaf &leaf, Size first, const Real *from, Size count) {
    const Memory &kept = buffers[leaf.buffer];
    if (kept.element == HALVES) {
        std::vector<unsigned short> halves(static_cast<size_t>(count));
        for (size_t i = 0; i < halves.size(); i++) halves[i] = half_bits(from[i]);
        return send(leaf.buffer, first * Size(sizeof(Half)), halves.data(), halves.size() * sizeof(Half));
    }
    std::vector<Quant> quants(static_cast<size_t>(count));
    std::vector<Half> scales(static_cast<size_t>(count / BLOCK));
    for (size_t i = 0; i < scales.size(); i++)
        if (!quantize_block(from + BLOCK * Size(i), &quants[size_t(BLOCK) * i], scales[i]))
            end(REFUSED, std::string(leaf.name) + " holds a value that Q8_0 cannot");
    send(leaf.buffer, first, quants.data(), quants.size());
    send(kept.scales, first / BLOCK * Size(sizeof(Half)), scales.data(), scales.size() * sizeof(Half));
}

void bring(int buffer, void *to) {
    CHECK(cudaMemcpyAsync(to, memory[buffer], size_t(buffers[buffer].bytes), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
}

// All elements of a buffer that keeps them rounded.
void bring_widened(int buffer, Real *to) {
    const Memory &kept = buffers[buffer];
    std::vector<char> found(static_cast<size_t>(kept.bytes));
    bring(buffer, found.data());
    if (kept.element == HALVES) {
        const Half *halves = reinterpret_cast<const Half *>(found.data());
        for (Size i = 0; i < kept.bytes / Size(sizeof(Half)); i++) to[i] = half_value(halves[i]);
        return;
    }
    std::vector<Half> scales(static_cast<size_t>(kept.bytes / BLOCK));
    bring(kept.scales, scales.data());
    for (Size i = 0; i < kept.bytes; i++)
        to[i] = static_cast<Quant>(found[size_t(i)]) * half_value(scales[size_t(i / BLOCK)]);
}

void fetch(const Value &value, void *to) {
    if (buffers[value.buffer].element == PLAIN) bring(value.buffer, to);
    else bring_widened(value.buffer, static_cast<Real *>(to));
}
