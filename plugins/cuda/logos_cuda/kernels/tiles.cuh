// Where the threads of the int8 tensor-core product put and find what they work on, as functions of numbers alone: a
// test compiles this text and tries all of it (tests/cuda/proof.cpp).
//
// A block of 256 threads makes a tile of ROWS rows of y by 32 * nt columns; a warp, one of 2 by 4, makes 32 by 8 * nt
// of them in subtiles of 16 by 8. The depth comes in steps of DEPTHS blocks of 32, which share a scale each.
#pragma once

#include "logos.cuh"

enum { GEMM_THREADS = 256, GEMM_ROWS = 64, WARP_ROWS = 32, DEPTHS = 4, DEEPEST = 1 << 22 };
enum { UNITS = 2 * DEPTHS, UNIT = 16, SPARE = 8 };

// Columns of a tile.
__host__ __device__ constexpr int tile_columns(int nt) { return 32 * nt; }

// The rows and columns of the tile from which a warp makes its part.
__host__ __device__ constexpr int warp_row(int warp) { return warp / 4 * WARP_ROWS; }
__host__ __device__ constexpr int warp_column(int warp, int nt) { return warp % 4 * 8 * nt; }

// A row of quants lies in shared memory as UNITS units of 16 bytes, in an order of its own, so that neither the copies
// nor the loads of eight rows at one depth meet in a bank: the unit's place, in units.
__host__ __device__ constexpr int unit_place(int row, int unit) { return row * UNITS + (unit ^ row % UNITS); }

// The scales of a step lie by depth, SPARE floats apart for the same reason: the place of a row's, in floats.
__host__ __device__ constexpr int scale_place(int row, int depth, int rows) { return depth * (rows + SPARE) + row; }

// The copies of a tile's quants by units and of its scales: the row and the unit or depth of copy number i.
__host__ __device__ constexpr int unit_row(int i) { return i / UNITS; }
__host__ __device__ constexpr int unit_of(int i) { return i % UNITS; }
__host__ __device__ constexpr int scale_row(int i) { return i / DEPTHS; }
__host__ __device__ constexpr int scale_depth(int i) { return i % DEPTHS; }

// The last of a tile's `most` rows from `first` on that a matrix of `rows` rows has. It stands in for those beyond it,
// whose results are not kept: the row, counted from `first`, that a tile's row is copied from.
__host__ __device__ constexpr int last_of_tile(Size first, Size rows, int most) {
    return rows - first < most ? static_cast<int>(rows - first) - 1 : most - 1;
}
__host__ __device__ constexpr int source_row(int row, int last) { return row < last ? row : last; }

// Of a row of `depths` scale blocks, counted as above: where a unit's quants lie, and a depth's scale. In 32 bits, which
// a tile's rows of up to DEEPEST values fit.
__host__ __device__ constexpr int unit_offset(int row, int depths, int depth, int unit) {
    return (row * depths + depth) * 32 + unit * UNIT;
}
__host__ __device__ constexpr int scale_offset(int row, int depths, int depth) { return row * depths + depth; }

// The depths of a step; 0 or less beyond the last.
__host__ __device__ constexpr int depths_of(int step, int depths) {
    return depths - step * DEPTHS < DEPTHS ? depths - step * DEPTHS : DEPTHS;
}

// What a lane's address is to point to for logos_load_matrices: of the 16 rows of A, and of 16 rows of W, which are two
// subtiles' columns, the row and which of a depth's two units. Register i of a fragment then is matrix i.
__host__ __device__ constexpr int a_row(int lane) { return lane % 16; }
__host__ __device__ constexpr int a_unit(int lane) { return lane / 16; }
__host__ __device__ constexpr int b_row(int lane) { return lane % 8 + lane / 16 * 8; }
__host__ __device__ constexpr int b_unit(int lane) { return lane / 8 % 2; }

// The row and column of a subtile that element i of a lane's sums is.
__host__ __device__ constexpr int sum_row(int lane, int i) { return lane / 4 + i / 2 * 8; }
__host__ __device__ constexpr int sum_column(int lane, int i) { return lane % 4 * 2 + i % 2; }
