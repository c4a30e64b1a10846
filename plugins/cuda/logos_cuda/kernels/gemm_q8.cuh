// y (m, n) = x (m, k) times the transpose of W (n, k), both in Q8_0, on the tensor cores: 32 products a depth are
// summed in integers and scaled in float32, as q8_share has it.
#pragma once

#include "tiles.cuh"

#ifdef __CUDACC__

// Four 8 by 8 matrices of 16 bits from shared memory: lane 8 i + r has the address of row r of matrix i, and of each
// matrix lane 4 r + c takes the c-th four bytes of row r.
__device__ __forceinline__ void logos_load_matrices(unsigned (&to)[4], const void *shared) {
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

#endif

// An integer below 2^22 in size, added to the bits of 1.5 * 2^23, is the float 1.5 * 2^23 plus it: sums that begin with
// these bits are floats by one subtraction, where a conversion is four times as slow. 32 products are below 2^20.
enum { SUM_BITS = 0x4b400000 };

__device__ __forceinline__ float whole_sum(int bits) { return __int_as_float(bits) - 12582912.0f; }

// A scale as a weight has it, and as quantized activations do.
__device__ __forceinline__ float scale_of(Half bits) { return float_of(bits); }
__device__ __forceinline__ float scale_of(float scale) { return scale; }

// A matrix in Q8_0 from a tile's first row on: the last row that is there of the tile's, and the scale blocks of a row.
template <typename Scale>
struct GemmSide {
    const Quant *quants;
    const Scale *scales;
    int last, depths;

    __device__ __forceinline__ GemmSide(const Quant *quants, const Scale *scales, Size first, Size all, Size depths,
                                        int most)
        : quants(quants + first * depths * 32), scales(scales + first * depths), last(last_of_tile(first, all, most)),
          depths(static_cast<int>(depths)) {}
};

// What a thread brings of a step's scales, on their way from memory through registers: they are of 16 bits in a weight,
// too few for an asynchronous copy.
template <int rows, typename Scale>
struct GemmScales {
    Scale at[rows * DEPTHS / GEMM_THREADS];

    __device__ __forceinline__ void take(const GemmSide<Scale> &side, int step) {
        const int count = depths_of(step, side.depths);
#pragma unroll
        for (int i = 0; i < rows * DEPTHS / GEMM_THREADS; ++i) {
            const int number = i * GEMM_THREADS + threadIdx.x, depth = scale_depth(number);
            const int row = source_row(scale_row(number), side.last);
            if (depth < count) at[i] = __ldg(side.scales + scale_offset(row, side.depths, step * DEPTHS + depth));
        }
    }

    __device__ __forceinline__ void put(float *scales, int step, int depths) const {
        const int count = depths_of(step, depths);
#pragma unroll
        for (int i = 0; i < rows * DEPTHS / GEMM_THREADS; ++i) {
            const int number = i * GEMM_THREADS + threadIdx.x, depth = scale_depth(number);
            if (depth < count) scales[scale_place(scale_row(number), depth, rows)] = scale_of(at[i]);
        }
    }
};

// What a step needs of one side, in shared memory: `rows` rows of DEPTHS * 32 quants and their scales.
template <int rows>
struct GemmPart {
    Quant *quants;
    float *scales;

    enum { BYTES = DEPTHS * (rows * 32 + (rows + SPARE) * 4) };

    __device__ __forceinline__ explicit GemmPart(Quant *at)
        : quants(at), scales(reinterpret_cast<float *>(at + rows * DEPTHS * 32)) {}

    // Begins the copies of a step's quants.
    template <typename Scale>
    __device__ __forceinline__ void bring(const GemmSide<Scale> &side, int step) const {
        const int count = depths_of(step, side.depths);
#pragma unroll
        for (int i = threadIdx.x; i < rows * UNITS; i += GEMM_THREADS) {
            const int row = unit_row(i), unit = unit_of(i), from = source_row(row, side.last);
            if (unit >= 2 * count) continue;
            logos_copy_async(quants + UNIT * unit_place(row, unit),
                             side.quants + unit_offset(from, side.depths, step * DEPTHS, unit));
        }
    }

    // Two registers of each of two fragments, or four of one: the 16 rows from `row` on at a depth.
    __device__ __forceinline__ void load(unsigned (&to)[4], int row, int unit) const {
        logos_load_matrices(to, quants + UNIT * unit_place(row, unit));
    }

    __device__ __forceinline__ float scale(int row, int depth) const { return scales[scale_place(row, depth, rows)]; }
};

// A warp's sums: two subtiles of rows by nt of columns.
template <int nt>
struct GemmSums {
    float at[2][nt][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < 2 * nt * 4; ++i) at[i / (4 * nt)][i / 4 % nt][i % 4] = 0.0f;
    }

    __device__ __forceinline__ void add(const GemmSums &more) {
#pragma unroll
        for (int i = 0; i < 2 * nt * 4; ++i) {
            at[i / (4 * nt)][i / 4 % nt][i % 4] += more.at[i / (4 * nt)][i / 4 % nt][i % 4];
        }
    }
};

// The products at one depth, added to a warp's sums.
template <int nt>
__device__ __forceinline__ void add_depth(const GemmPart<GEMM_ROWS> &x, const GemmPart<tile_columns(nt)> &w, int depth,
                                          GemmSums<nt> &sums) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, top = warp_row(warp), start = warp_column(warp, nt);
    unsigned a[2][4];
    float rows[2][2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        x.load(a[r], top + 16 * r + a_row(lane), 2 * depth + a_unit(lane));
#pragma unroll
        for (int i = 0; i < 2; ++i) rows[r][i] = x.scale(top + 16 * r + sum_row(lane, 2 * i), depth);
    }
#pragma unroll
    for (int pair = 0; pair < nt / 2; ++pair) {
        unsigned both[4];
        w.load(both, start + 16 * pair + b_row(lane), 2 * depth + b_unit(lane));
#pragma unroll
        for (int c = 2 * pair; c < 2 * pair + 2; ++c) {
            const unsigned b[2] = {both[c % 2 * 2], both[c % 2 * 2 + 1]};
            const float columns[2] = {w.scale(start + 8 * c + sum_column(lane, 0), depth),
                                      w.scale(start + 8 * c + sum_column(lane, 1), depth)};
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                int d[4] = {SUM_BITS, SUM_BITS, SUM_BITS, SUM_BITS};
                logos_mma_s8(d, a[r], b);
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    sums.at[r][c][i] = fmaf(whole_sum(d[i]), columns[i % 2] * rows[r][i / 2], sums.at[r][c][i]);
            }
        }
    }
}

// A warp's results into y (m, n), those that are there; `top` and `start` are the tile's first row and column.
template <int nt>
__device__ __forceinline__ void keep_tile(const GemmSums<nt> &sums, Real *y, Size m, Size n, Size top, Size start) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const Size row = top + warp_row(warp) + 16 * r + sum_row(lane, i);
            if (row >= m) continue;
#pragma unroll
            for (int c = 0; c < nt; ++c) {
                const Size column = start + warp_column(warp, nt) + 8 * c + sum_column(lane, i);
                if (column < n) y[row * n + column] = sums.at[r][c][i];
            }
        }
    }
}

// Steps whose sums are joined before they are added to the total, so that rounding grows with the root of k.
enum { GEMM_CHUNK = 4 };

// What a step copies and multiplies of both sides.
template <int nt>
struct GemmSlot {
    GemmPart<GEMM_ROWS> x;
    GemmPart<tile_columns(nt)> w;

    enum { BYTES = GemmPart<GEMM_ROWS>::BYTES + GemmPart<tile_columns(nt)>::BYTES };

    __device__ __forceinline__ GemmSlot(Quant *memory, int number)
        : x(memory + number * BYTES), w(memory + number * BYTES + GemmPart<GEMM_ROWS>::BYTES) {}
};

// A step's copies of both sides, none beyond the last: a group of copies in any case, which waits count.
template <int nt>
struct GemmSteps {
    Quant *memory;
    GemmSide<Real> x;
    GemmSide<Half> w;
    GemmScales<GEMM_ROWS, Real> xs;
    GemmScales<tile_columns(nt), Half> ws;

    __device__ __forceinline__ void begin(int number, int step) {
        const GemmSlot<nt> slot(memory, number);
        xs.take(x, step);
        ws.take(w, step);
        slot.x.bring(x, step);
        slot.w.bring(w, step);
        logos_copy_commit();
    }

    __device__ __forceinline__ void end(int number, int step) const {
        const GemmSlot<nt> slot(memory, number);
        xs.put(slot.x.scales, step, x.depths);
        ws.put(slot.w.scales, step, x.depths);
    }
};

// A tile's sums. Copies of `stages` - 1 steps are on their way while one is multiplied.
template <int nt, int stages>
__device__ __forceinline__ GemmSums<nt> tile_sums(GemmSteps<nt> due) {
    // Of 8 subtiles' sums there are no registers left to look ahead with.
    [[maybe_unused]] constexpr int TURNS = nt < 8 ? DEPTHS : 1;
    const int depths = due.x.depths, steps = (depths + DEPTHS - 1) / DEPTHS, warp = threadIdx.x / 32;
    const bool there = warp_row(warp) <= due.x.last && warp_column(warp, nt) <= due.w.last;
    GemmSums<nt> total, sums;
    total.clear();
    sums.clear();
    for (int step = 0; step < stages - 1; ++step) {
        due.begin(step, step);
        due.end(step, step);
    }
    int full = 0, free = stages - 1;
    for (int step = 0; step < steps; ++step) {
        logos_copy_wait<stages - 2>();
        // The step's copies are there for all, and all are done with the slot that the next ones go to.
        __syncthreads();
        due.begin(free, step + stages - 1);
        const GemmSlot<nt> slot(due.memory, full);
        const int count = there ? depths_of(step, depths) : 0;
#pragma unroll TURNS
        for (int depth = 0; depth < DEPTHS; ++depth) {
            if (depth < count) add_depth<nt>(slot.x, slot.w, depth, sums);
        }
        due.end(free, step + stages - 1);
        if (step % GEMM_CHUNK == GEMM_CHUNK - 1 || step == steps - 1) {
            total.add(sums);
            sums.clear();
        }
        full = full + 1 == stages ? 0 : full + 1;
        free = free + 1 == stages ? 0 : free + 1;
    }
    return total;
}

// A tile's rows follow one another among the blocks, so that those that read the same rows of W run together.
template <int nt, int stages>
__device__ inline void gemm_q8(const Quant *x, const Real *xs, const Quant *w, const Half *ws, Real *y, Size m, Size k,
                               Size n) {
    LOGOS_DYNAMIC_SHARED(Quant, memory);
    const Size down = (m + GEMM_ROWS - 1) / GEMM_ROWS, across = (n + tile_columns(nt) - 1) / tile_columns(nt);
    for (Size tile = blockIdx.x; tile < down * across; tile += gridDim.x) {
        const Size top = tile % down * GEMM_ROWS, start = tile / down * tile_columns(nt);
        const GemmSteps<nt> due = {memory, GemmSide<Real>(x, xs, top, m, k / 32, GEMM_ROWS),
                                   GemmSide<Half>(w, ws, start, n, k / 32, tile_columns(nt)), {}, {}};
        keep_tile<nt>(tile_sums<nt, stages>(due), y, m, n, top, start);
        // The next tile's copies go to slots that others still read.
        __syncthreads();
    }
}
