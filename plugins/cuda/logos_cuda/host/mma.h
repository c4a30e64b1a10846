// mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 and ldmatrix, as the PTX manual lays out their fragments.
#pragma once

#include "block.h"

namespace logos_host {

inline void unpack(unsigned word, signed char *bytes) { memcpy(bytes, &word, sizeof word); }

// D += A * B over the fragments that a warp's 32 lanes hold. Of lane 4 g + t: A's register i holds row g + 8 (i % 2),
// the four columns from 16 (i / 2) + 4 t on; B's register i holds column g, the four rows from 16 i + 4 t on; D's
// element i is at row g + 8 (i / 2), column 2 t + i % 2. Sums wrap, as without .satfinite.
inline void multiply_fragments(Thread *lanes) {
    signed char A[16][32], B[8][32];
    for (unsigned lane = 0; lane < WARP; lane++) {
        const Fragments &f = lanes[lane].fragments;
        unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 4; i++) unpack(f.a[i], &A[g + 8 * (i % 2)][16 * (i / 2) + 4 * t]);
        for (unsigned i = 0; i < 2; i++) unpack(f.b[i], &B[g][16 * i + 4 * t]);
    }
    for (unsigned lane = 0; lane < WARP; lane++) {
        int *d = lanes[lane].fragments.d;
        unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 4; i++) {
            const signed char *row = A[g + 8 * (i / 2)], *column = B[2 * t + i % 2];
            int sum = 0;
            for (unsigned k = 0; k < 32; k++) sum += row[k] * column[k];
            d[i] = int(unsigned(d[i]) + unsigned(sum));
        }
    }
}

// ldmatrix.m8n8.x4: lane 8 i + r has the address of row r of matrix i, 16 bytes; of each matrix lane 4 r + c takes the
// c-th four bytes of row r.
inline void load_matrices(Thread *lanes) {
    for (unsigned lane = 0; lane < WARP; lane++) {
        for (unsigned i = 0; i < 4; i++) {
            const char *row = static_cast<const char *>(lanes[8 * i + lane / 4].matrix.row);
            memcpy(&lanes[lane].matrix.words[i], row + lane % 4 * 4, 4);
        }
    }
}

}  // namespace logos_host
