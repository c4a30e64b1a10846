// Buffers, and how a weight in Q8_0 comes to lie in tiles.

Size tiles_of(const Memory &kept) { return kept.groups * ((kept.rows + TILE - 1) / TILE); }

Size bytes_of(const Memory &kept) {
    const Size elements = kept.groups * kept.rows * kept.columns;
    switch (kept.element) {
        case REAL: return elements * Size(sizeof(Real));
        case INT: return elements * Size(sizeof(Int));
        case QUANTS: return elements;
        case ACTIVATIONS: return elements + elements / BLOCK * Size(sizeof(Real) + sizeof(int));
        case TILES: break;
    }
    return tiles_of(kept) * (kept.columns / BLOCK) * TILE_BLOCK_BYTES;
}

char *room(Size bytes, const char *what) {
    void *found = nullptr;
    const size_t size = (size_t(bytes) + 127) / 64 * 64;
    if (posix_memalign(&found, 64, size) != 0) end(FAILED, "no room for " + std::to_string(bytes) + " bytes of " + what);
    memset(found, 0, size);
    return static_cast<char *>(found);
}

void make_room(int buffer, const char *what) {
    if (memory[buffer] == nullptr) memory[buffer] = room(bytes_of(buffers[buffer]), what);
}

// Of a weight in tiles: where the block of 32 inputs of an output lies.
Byte *block_at(const Memory &kept, Byte *tiles, Size row, Size block) {
    const Size group = row / kept.rows, own = row % kept.rows, per = (kept.rows + TILE - 1) / TILE;
    return tiles + ((group * per + own / TILE) * (kept.columns / BLOCK) + block) * TILE_BLOCK_BYTES;
}

void put_block(const Memory &kept, Byte *tiles, Size row, Size block, Half scale, const Quant *quants) {
    Byte *const at = block_at(kept, tiles, row, block);
    const Size own = row % kept.rows % TILE;
    memcpy(at + own * 2, &scale, sizeof scale);
    for (Size i = 0; i < BLOCK; i += 4) memcpy(at + 2 * TILE + i * TILE + own * 4, quants + i, 4);
}

void get_block(const Memory &kept, Byte *tiles, Size row, Size block, Real *values) {
    const Byte *const at = block_at(kept, tiles, row, block);
    const Size own = row % kept.rows % TILE;
    Half scale;
    memcpy(&scale, at + own * 2, sizeof scale);
    for (Size i = 0; i < BLOCK; i++)
        values[i] = Real(static_cast<Quant>(at[2 * TILE + i / 4 * 4 * TILE + own * 4 + i % 4])) * half_value(scale);
}

// Q8_0's reference quantizer; false for what it cannot hold.
bool round_block(const Real *from, Quant *quants, Half &kept) {
    const Real most = 3.40282347e+38f;
    Real largest = 0;
    for (Size i = 0; i < BLOCK; i++) {
        if (!(fabsf(from[i]) <= most)) return false;
        largest = fmaxf(largest, fabsf(from[i]));
    }
    const Real step = largest / 127, inverse = step != 0 ? 1 / step : 0;
    kept = half_bits(step);
    const bool holds = half_value(kept) <= most;
    for (Size i = 0; i < BLOCK; i++)
        quants[i] = inverse <= most && holds ? static_cast<Quant>(roundf(from[i] * inverse)) : Quant(0);
    return holds;
}

Half scale_bits(Real scale, const std::string &path) {
    const Half bits = half_bits(scale);
    if (half_value(bits) != scale) end(REFUSED, path + " holds a scale that is no float16, as Q8_0 has them");
    return bits;
}

// Rows of float32 as a leaf's buffer keeps them.
void keep_rounded(const Leaf &leaf, const Real *rows) {
    const Memory &kept = buffers[leaf.buffer];
    const Size blocks = kept.columns / BLOCK;
    for (Size row = 0; row < kept.groups * kept.rows; row++)
        for (Size b = 0; b < blocks; b++) {
            Quant quants[BLOCK];
            Half scale;
            if (!round_block(rows + row * kept.columns + b * BLOCK, quants, scale))
                end(REFUSED, std::string(leaf.name) + " holds a value that Q8_0 cannot");
            if (kept.element == TILES) {
                put_block(kept, reinterpret_cast<Byte *>(memory[leaf.buffer]), row, b, scale, quants);
            } else {
                memcpy(memory[leaf.buffer] + row * kept.columns + b * BLOCK, quants, BLOCK);
                real(kept.scales)[row * blocks + b] = half_value(scale);
            }
        }
}

// All elements of a buffer, rows as stored, as Real.
void widen(int buffer, Real *to) {
    const Memory &kept = buffers[buffer];
    const Size blocks = kept.columns / BLOCK;
    for (Size row = 0; row < kept.groups * kept.rows; row++)
        for (Size b = 0; b < blocks; b++) {
            Real *const at = to + row * kept.columns + b * BLOCK;
            if (kept.element == TILES) {
                get_block(kept, reinterpret_cast<Byte *>(memory[buffer]), row, b, at);
                continue;
            }
            const Quant *const quants = reinterpret_cast<Quant *>(memory[buffer]) + row * kept.columns + b * BLOCK;
            for (Size i = 0; i < BLOCK; i++) at[i] = Real(quants[i]) * real(kept.scales)[row * blocks + b];
        }
}

void fetch(const Value &value, void *to) {
    const Element element = buffers[value.buffer].element;
    if (element == REAL || element == INT)
        memcpy(to, memory[value.buffer], size_t(value.rows * value.columns * bytes_of(value.real)));
    else
        widen(value.buffer, static_cast<Real *>(to));
}
