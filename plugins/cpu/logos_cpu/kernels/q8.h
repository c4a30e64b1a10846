// Products by weights in Q8_0, which lie in tiles (types.h): exact, or by activations of 8 bits with integer sums.
#pragma once

#include "common.h"
#include "dots.h"
#include "half.h"

// 32 activations as quants and their scale, as Q8_0's reference quantizer rounds. Where the scale has no inverse the
// quants are 0; with an element that is no number there is no scale, and nor has what is made of it.
inline void quantize_block(const Real *x, const Activations &to) {
    Reals values[2];
    Ints bits[2];
    memcpy(values, x, sizeof values);
    memcpy(bits, x, sizeof bits);
    // The bits of sizes have their order, and what is no finite number is beyond all others.
    const Ints low = bits[0] & 0x7fffffff, high = bits[1] & 0x7fffffff, larger = low > high ? low : high;
    int largest = 0;
    for (int j = 0; j < LANES; j++) largest = larger[j] > largest ? larger[j] : largest;
    Real most;
    memcpy(&most, &largest, sizeof most);
    const bool finite = largest < 0x7f800000;
    const Real step = most / 127.0f;
    const bool there = finite && step >= 1.17549435e-38f;
    const Real inverse = there ? 1.0f / step : 0.0f;
    Ints sums = {};
    for (int i = 0; i < 2; i++) {
        const Reals product = values[i] * inverse, half = product < 0.0f ? Reals{} - 0.5f : Reals{} + 0.5f;
        const Ints whole = there ? __builtin_convertvector(product + half, Ints) : Ints{};
        const Quants quants = __builtin_convertvector(whole, Quants);
        memcpy(to.quants + LANES * i, &quants, sizeof quants);
        sums += whole;
    }
    int sum = 0;
    for (int j = 0; j < LANES; j++) sum += sums[j];
    *to.scales = finite ? (there ? step : 0.0f) : NAN;
    *to.offsets = -128 * sum;
}

inline void quantize(const Worker &w, const Real *x, const Activations &to, Size rows, Size columns) {
    const Range own = share(w, columns, BLOCK);
    for (Size r = 0; r < rows; r++) {
        const Activations row = to.row(r, columns);
        for (Size c = own.begin; c < own.end; c += BLOCK)
            quantize_block(x + r * columns + c, {row.quants + c, row.scales + c / BLOCK, row.offsets + c / BLOCK});
    }
}

// Where a product's results go: row r's element c is y[r * step + c]; beyond `columns` there is only padding.
struct Rows {
    Real *y;
    Size step, columns;

    void put(Size r, Size tile, const Real *made) const {
        const Size left = columns - tile * TILE;
        Real *const to = y + r * step + tile * TILE;
        if (left >= TILE) memcpy(to, made, TILE * sizeof(Real));
        else memcpy(to, made, size_t(left) * sizeof(Real));
    }
};

const int ROWS_AT_ONCE = 4;

// One tile times `count` rows of `k` activations, which `row(i)` numbers.
template <typename Row, typename Put>
void tile_product(const Byte *tile, Size k, const Activations &all, Size count, const Row &row, const Put &put) {
    Real made[ROWS_AT_ONCE][TILE];
    Size first = 0;
    for (; first + ROWS_AT_ONCE <= count; first += ROWS_AT_ONCE) {
        Activations a[ROWS_AT_ONCE];
        for (int i = 0; i < ROWS_AT_ONCE; i++) a[i] = all.row(row(first + i), k);
        tile_dots<ROWS_AT_ONCE>(tile, k / BLOCK, a, made);
        for (int i = 0; i < ROWS_AT_ONCE; i++) put(first + i, made[i]);
    }
    for (; first < count; first++) {
        const Activations a[1] = {all.row(row(first), k)};
        tile_dots<1>(tile, k / BLOCK, a, made);
        put(first, made[0]);
    }
}

// y (m, n) = a (m, k) in quants times the transpose of a weight (n, k) in tiles.
inline void matmul_q8(const Worker &w, const Activations &a, const Byte *tiles, Real *y, Size m, Size k, Size n) {
    const Range own = share(w, n, TILE);
    const Rows to = {y, n, n};
    for (Size tile = own.begin / TILE; tile * TILE < own.end; tile++)
        tile_product(
            tiles + tile * (k / BLOCK) * TILE_BLOCK_BYTES, k, a, m, [](Size r) { return r; },
            [&](Size r, const Real *made) { to.put(r, tile, made); });
}

// A tile's block as floats, which hold quant times scale exactly: of each of 32 inputs the 32 outputs.
inline void block_values(const Byte *block, Real (*values)[TILE]) {
    const Quant *quants = reinterpret_cast<const Quant *>(block) + 2 * TILE;
    for (int j = 0; j < TILE; j++) {
        Half bits;
        memcpy(&bits, block + 2 * j, sizeof bits);
        const Real scale = half_value(bits);
        for (int i = 0; i < BLOCK; i++) values[i][j] = Real(quants[i / 4 * 4 * TILE + j * 4 + i % 4]) * scale;
    }
}

// One tile times a row of float activations, summed in double.
inline void tile_exact(const Byte *tile, Size k, const Real *x, double *sums) {
    for (int j = 0; j < TILE; j++) sums[j] = 0;
    for (Size b = 0; b < k / BLOCK; b++) {
        Real values[BLOCK][TILE];
        block_values(tile + b * TILE_BLOCK_BYTES, values);
        for (int i = 0; i < BLOCK; i++)
            for (int j = 0; j < TILE; j++) sums[j] += double(x[b * BLOCK + i]) * double(values[i][j]);
    }
}

inline void matmul_exact(const Worker &w, const Real *a, const Byte *tiles, Real *y, Size m, Size k, Size n) {
    const Range own = share(w, n, TILE);
    const Rows to = {y, n, n};
    for (Size tile = own.begin / TILE; tile * TILE < own.end; tile++)
        for (Size r = 0; r < m; r++) {
            double sums[TILE];
            Real made[TILE];
            tile_exact(tiles + tile * (k / BLOCK) * TILE_BLOCK_BYTES, k, a + r * k, sums);
            for (int j = 0; j < TILE; j++) made[j] = Real(sums[j]);
            to.put(r, tile, made);
        }
}
