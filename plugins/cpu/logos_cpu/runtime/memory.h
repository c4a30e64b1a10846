// Buffers, and how a weight in Q8_0 comes to lie in tiles.

char *memory[BUFFERS];
Fault fault;
Pool pool;
const Kernel *kernels;

Real *real(int buffer) { return reinterpret_cast<Real *>(memory[buffer]); }
Int *integer(int buffer) { return reinterpret_cast<Int *>(memory[buffer]); }

[[noreturn]] void quit(int code) { _exit(code); }  // the other threads may be at work

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

void make_room(int buffer) { make_room(buffer, "values"); }

bool takes_q8(int buffer) { return buffers[buffer].element == TILES || buffers[buffer].element == QUANTS; }

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

// Elements of a leaf as stored, whole blocks from the element `first` on, as its buffer keeps them.
void store_rounded(const Leaf &leaf, Size first, const Real *from, Size count) {
    const Memory &kept = buffers[leaf.buffer];
    const Size blocks = kept.columns / BLOCK;
    for (Size done = 0; done < count; done += BLOCK) {
        const Size at = (first + done) / BLOCK;
        Quant quants[BLOCK];
        const Half scale = round_block(leaf, from + done, quants);
        if (kept.element == TILES) {
            put_block(kept, reinterpret_cast<Byte *>(memory[leaf.buffer]), at / blocks, at % blocks, scale, quants);
        } else {
            memcpy(memory[leaf.buffer] + at * BLOCK, quants, BLOCK);
            real(kept.scales)[at] = half_value(scale);
        }
    }
}

void store(const Leaf &leaf, Size first, const void *from, Size count) {
    const Memory &kept = buffers[leaf.buffer];
    make_room(leaf.buffer, leaf.name);
    if (kept.scales >= 0) make_room(kept.scales, leaf.name);
    if (takes_q8(leaf.buffer)) return store_rounded(leaf, first, static_cast<const Real *>(from), count);
    const Size size = bytes_of(leaf.real);
    memcpy(memory[leaf.buffer] + first * size, from, size_t(count * size));
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
