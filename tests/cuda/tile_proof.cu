// Tries all of the index functions of kernels/tiles.cuh: what a warp's fragments hold, where copies read, which banks
// they meet. The hardware's layouts are those of the PTX manual (ldmatrix; mma.m16n8k32 of s8). Prints the bytes of a
// stage for each nt; where something does not hold says what, and ends with exit code 1.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <set>
#include <vector>

#include "gemm_q8.cuh"

static void hold(bool good, const char *format, ...) {
    if (good) return;
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    exit(1);
}

enum { LANES = 32, WARPS = GEMM_THREADS / LANES, BANKS = 32, WORDS = UNIT / 4 };

struct Unit {
    int row, unit;
};

// A tile's units as the copies leave them, by place; every unit is copied once, to a place of its own.
static std::vector<Unit> copied(int rows) {
    std::vector<Unit> held(size_t(rows) * UNITS, {-1, -1});
    for (int i = 0; i < rows * UNITS; i++) {
        const int row = unit_row(i), unit = unit_of(i), place = unit_place(row, unit);
        hold(row >= 0 && row < rows && unit >= 0 && unit < UNITS, "copy %d is of no unit of %d rows", i, rows);
        hold(place >= 0 && place < rows * UNITS, "unit %d of row %d lies outside its part", unit, row);
        hold(held[place].row < 0, "two units lie at place %d", place);
        held[place] = {row, unit};
    }
    std::set<int> places;
    for (int i = 0; i < rows * DEPTHS; i++) {
        const int row = scale_row(i), depth = scale_depth(i), place = scale_place(row, depth, rows);
        hold(row < rows && depth < DEPTHS && place < DEPTHS * (rows + SPARE), "scale %d lies outside its part", i);
        hold(places.insert(place).second, "two scales lie at place %d", place);
    }
    return held;
}

// The unit that a register of a lane is of: lane 8 i + r has the address of row r of matrix i.
static Unit loaded(const std::vector<Unit> &held, int row, int unit, int rows) {
    hold(row >= 0 && row < rows && unit >= 0 && unit < UNITS, "a lane's address is of row %d, unit %d", row, unit);
    return held[size_t(unit_place(row, unit))];
}

// Register i of A holds row g + 8 (i % 2), the columns from 16 (i / 2) + 4 t on, for lane 4 g + t.
static void fragments_of_a(const std::vector<Unit> &held) {
    for (int warp = 0; warp < WARPS; warp++)
        for (int r = 0; r < 2; r++)
            for (int depth = 0; depth < DEPTHS; depth++)
                for (int lane = 0; lane < LANES; lane++)
                    for (int i = 0; i < 4; i++) {
                        const int from = 8 * i + lane / 4, top = warp_row(warp) + 16 * r;
                        const Unit got = loaded(held, top + a_row(from), 2 * depth + a_unit(from), GEMM_ROWS);
                        hold(got.unit / 2 == depth, "A: lane %d's register %d is of another scale block", lane, i);
                        hold(got.row == top + lane / 4 + 8 * (i % 2) && got.unit % 2 == i / 2,
                             "A: lane %d's register %d is row %d, unit %d", lane, i, got.row, got.unit);
                    }
}

// Register i of B holds column g, the rows from 16 i + 4 t on.
static void fragments_of_b(const std::vector<Unit> &held, int nt) {
    for (int warp = 0; warp < WARPS; warp++)
        for (int c = 0; c < nt; c++)
            for (int depth = 0; depth < DEPTHS; depth++)
                for (int lane = 0; lane < LANES; lane++)
                    for (int i = 0; i < 2; i++) {
                        const int from = 8 * (c % 2 * 2 + i) + lane / 4, start = warp_column(warp, nt);
                        const Unit got = loaded(held, start + c / 2 * 16 + b_row(from), 2 * depth + b_unit(from),
                                                tile_columns(nt));
                        hold(got.unit / 2 == depth, "B: lane %d's register %d is of another scale block", lane, i);
                        hold(got.row == start + 8 * c + lane / 4 && got.unit % 2 == i,
                             "B: lane %d's register %d is row %d, unit %d", lane, i, got.row, got.unit);
                    }
}

// Element i of D is at row g + 8 (i / 2), column 2 t + i % 2: each result of a tile is one lane's, by its own scales.
static void results(int nt) {
    std::set<int> seen;
    for (int warp = 0; warp < WARPS; warp++)
        for (int r = 0; r < 2; r++)
            for (int c = 0; c < nt; c++)
                for (int lane = 0; lane < LANES; lane++)
                    for (int i = 0; i < 4; i++) {
                        hold(sum_row(lane, i) == lane / 4 + 8 * (i / 2) && sum_column(lane, i) == lane % 4 * 2 + i % 2,
                             "element %d of lane %d is kept elsewhere", i, lane);
                        hold(sum_row(lane, i / 2 * 2) == sum_row(lane, i) &&
                                 sum_column(lane, i % 2) == sum_column(lane, i),
                             "element %d of lane %d takes another's scale", i, lane);
                        const int row = warp_row(warp) + 16 * r + sum_row(lane, i);
                        const int column = warp_column(warp, nt) + 8 * c + sum_column(lane, i);
                        hold(row >= 0 && row < GEMM_ROWS && column >= 0 && column < tile_columns(nt),
                             "a result of warp %d lies outside the tile", warp);
                        hold(seen.insert(row * tile_columns(nt) + column).second, "a result is made twice");
                    }
    hold(seen.size() == size_t(GEMM_ROWS) * size_t(tile_columns(nt)), "a result is not made");
}

// Places of 4 or 16 bytes that threads touch at once: no two different ones in a bank.
static void no_conflict(const std::vector<int> &places, int words, const char *what) {
    const std::set<int> different(places.begin(), places.end());
    std::set<int> banks;
    for (const int place : different)
        for (int word = 0; word < words; word++)
            hold(banks.insert((place * words + word) % BANKS).second, "%s: two in a bank", what);
}

// The banks of both sides; accesses of 16 bytes go eight threads at a time.
static void banks(int rows, int nt, bool left) {
    std::vector<int> places;
    for (int i = 0; i < rows * UNITS; i += 8) {
        places.clear();
        for (int j = i; j < i + 8; j++) places.push_back(unit_place(unit_row(j), unit_of(j)));
        no_conflict(places, WORDS, "copies of quants");
    }
    for (int i = 0; i < rows * DEPTHS; i += LANES) {
        places.clear();
        for (int j = i; j < i + LANES; j++) places.push_back(scale_place(scale_row(j), scale_depth(j), rows));
        no_conflict(places, 1, "stores of scales");
    }
    for (int warp = 0; warp < WARPS; warp++)
        for (int depth = 0; depth < DEPTHS; depth++)
            for (int at = 0; at < (left ? 2 : nt / 2); at++) {
                const int first = (left ? warp_row(warp) : warp_column(warp, nt)) + 16 * at;
                for (int matrix = 0; matrix < 4; matrix++) {
                    places.clear();
                    for (int lane = 8 * matrix; lane < 8 * matrix + 8; lane++)
                        places.push_back(left ? unit_place(first + a_row(lane), 2 * depth + a_unit(lane))
                                              : unit_place(first + b_row(lane), 2 * depth + b_unit(lane)));
                    no_conflict(places, WORDS, "loads of quants");
                }
                for (int i = 0; i < 4; i++) {
                    places.clear();
                    for (int lane = 0; lane < LANES; lane++)
                        places.push_back(scale_place(first + (left ? sum_row(lane, i) : sum_column(lane, i)), depth, rows));
                    no_conflict(places, 1, "loads of scales");
                }
            }
}

// What a tile's rows are copied from is there, in matrices of any number of rows.
static void rows_there(int most) {
    std::vector<Size> counts = {2147483647LL, 2147483648LL - most, 70001, 1 << 20, (1LL << 33) + 5};
    for (Size rows = 1; rows <= 4 * most + 1; rows++) counts.push_back(rows);
    for (const Size rows : counts) {
        const Size tiles = (rows + most - 1) / most;
        for (Size tile = tiles > 6 ? tiles - 3 : 0; tile < tiles; tile++) {
            const Size first = tile * most;
            const int last = last_of_tile(first, rows, most);
            for (int row = 0; row < most; row++) {
                const int from = source_row(row, last);
                hold(from >= 0 && from < most && first + from < rows, "row %d of %lld is copied from beyond", row, rows);
                hold(first + row >= rows || from == row, "row %d of %lld is copied from another", row, rows);
                hold((row <= last) == (first + row < rows), "row %d of %lld is taken for one beyond", row, rows);
            }
        }
    }
}

// Offsets of a row's units and scales lie in the row and in its step, at 16 bytes each, and are not beyond 32 bits.
static void offsets_there(int most) {
    std::vector<int> depths = {DEEPEST / 32, DEEPEST / 32 - 1, DEEPEST / 32 - 5, 4096, 1029};
    for (int count = 1; count <= 70; count++) depths.push_back(count);
    for (const int count : depths) {
        const int steps = (count + DEPTHS - 1) / DEPTHS;
        int covered = 0;
        for (int step = 0; step < steps; step++) {
            hold(depths_of(step, count) > 0 && depths_of(step, count) <= DEPTHS, "step %d of %d is empty", step, count);
            covered += depths_of(step, count);
        }
        hold(covered == count, "of %d depths %d are multiplied", count, covered);
        for (int step = steps; step < steps + 4; step++) hold(depths_of(step, count) <= 0, "a step beyond the last");
        for (int row = 0; row < most; row++)
            for (int step = steps > 20 ? steps - 3 : 0; step < steps; step++)
                for (int unit = 0; unit < 2 * depths_of(step, count); unit++) {
                    const int depth = step * DEPTHS;
                    const Size due = (Size(row) * count + depth) * 32 + unit * 16;
                    hold(unit_offset(row, count, depth, unit) == due, "row %d of %d depths: another unit", row, count);
                    hold(due % 16 == 0 && due + 16 <= Size(row + 1) * count * 32, "row %d: beyond its end", row);
                    hold(scale_offset(row, count, depth + unit / 2) == Size(row) * count + depth + unit / 2 &&
                             depth + unit / 2 < count,
                         "row %d of %d depths: another scale", row, count);
                }
    }
}

template <int nt>
static void prove() {
    const std::vector<Unit> left = copied(GEMM_ROWS), right = copied(tile_columns(nt));
    fragments_of_a(left);
    fragments_of_b(right, nt);
    results(nt);
    banks(GEMM_ROWS, nt, true);
    banks(tile_columns(nt), nt, false);
    rows_there(tile_columns(nt));
    offsets_there(tile_columns(nt));
    hold(GemmSlot<nt>::BYTES % UNIT == 0, "a stage is no whole number of units");
    printf("%d %d\n", nt, int(GemmSlot<nt>::BYTES));
}

int main() {
    rows_there(GEMM_ROWS);
    prove<2>();
    prove<4>();
    prove<6>();
    prove<8>();
    return 0;
}
