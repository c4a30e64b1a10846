// Products by weights in Q8_0, which lie in tiles (types.h): exact, or by activations of 8 bits with integer sums.
#pragma once

#include "common.h"
#include "dots.h"
#include "half.h"

// A row of activations as quants and a scale for each 32, as Q8_0's reference quantizer rounds. Of a block whose scale has
// no inverse the quants are 0; one with an element that is no number has no scale, and nor has what is made of it.
inline void quantize_block(const Real *x, Quant *quants, Real *scale) {
    Real lanes[8] = {};
    bool finite = true;
    for (int i = 0; i < BLOCK; i += 8)
        for (int j = 0; j < 8; j++) {
            const Real size = fabsf(x[i + j]);
            finite &= size <= 3.40282347e+38f;
            lanes[j] = size > lanes[j] ? size : lanes[j];
        }
    for (int half = 4; half > 0; half /= 2)
        for (int j = 0; j < half; j++) lanes[j] = lanes[j + half] > lanes[j] ? lanes[j + half] : lanes[j];
    const Real step = lanes[0] / 127.0f;
    const bool there = finite && step >= 1.17549435e-38f;
    const Real inverse = there ? 1.0f / step : 0.0f;
    *scale = finite ? (there ? step : 0.0f) : NAN;
    int whole[BLOCK];
    for (int i = 0; i < BLOCK; i++) {
        const Real product = there ? x[i] * inverse : 0.0f;
        whole[i] = int(product + (product < 0 ? -0.5f : 0.5f));
    }
    for (int i = 0; i < BLOCK; i++) quants[i] = Quant(whole[i]);
}

inline void quantize(const Worker &w, const Real *x, Quant *quants, Real *scales, Size rows, Size columns) {
    const Range own = share(w, columns, BLOCK);
    for (Size r = 0; r < rows; r++)
        for (Size c = own.begin; c < own.end; c += BLOCK)
            quantize_block(x + r * columns + c, quants + r * columns + c, scales + (r * columns + c) / BLOCK);
}

// Outputs of one tile for ROWS rows of activations at once.
template <int ROWS>
void tile_rows(const Byte *tile, Size blocks, const Quant *const *a, const Real *const *scales, Real (*made)[TILE]) {
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < TILE; j++) made[r][j] = 0;
    tile_dots<ROWS>(tile, blocks, a, scales, made);
}

// Where a product's results go: row r's element c is y[r * step + c]; beyond `columns` there is only padding.
struct Rows {
    Real *y;
    Size step, columns;

    void put(Size r, Size tile, const Real *made) const {
        const Size left = columns - tile * TILE, width = left < TILE ? left : TILE;
        for (Size j = 0; j < width; j++) y[r * step + tile * TILE + j] = made[j];
    }
};

const int ROWS_AT_ONCE = 4;

// One tile times `count` rows, which `row(i)` numbers: rows of `k` quants and of k / 32 scales.
template <typename Row, typename Put>
void tile_product(const Byte *tile, Size k, const Quant *quants, const Real *scales, Size count, const Row &row,
                  const Put &put) {
    const Size blocks = k / BLOCK;
    Real made[ROWS_AT_ONCE][TILE];
    const Quant *a[ROWS_AT_ONCE];
    const Real *s[ROWS_AT_ONCE];
    for (Size first = 0; first < count;) {
        const int many = count - first < ROWS_AT_ONCE ? 1 : ROWS_AT_ONCE;
        for (int i = 0; i < many; i++) a[i] = quants + row(first + i) * k, s[i] = scales + row(first + i) * blocks;
        if (many == ROWS_AT_ONCE) tile_rows<ROWS_AT_ONCE>(tile, blocks, a, s, made);
        else tile_rows<1>(tile, blocks, a, s, made);
        for (int i = 0; i < many; i++) put(first + i, made[i]);
        first += many;
    }
}

// y (m, n) = a (m, k) in quants times the transpose of a weight (n, k) in tiles.
inline void matmul_q8(const Worker &w, const Quant *quants, const Real *scales, const Byte *tiles, Real *y, Size m, Size k,
                      Size n) {
    const Range own = share(w, n, TILE);
    const Rows to = {y, n, n};
    for (Size tile = own.begin / TILE; tile * TILE < own.end; tile++)
        tile_product(
            tiles + tile * (k / BLOCK) * TILE_BLOCK_BYTES, k, quants, scales, m, [](Size r) { return r; },
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
