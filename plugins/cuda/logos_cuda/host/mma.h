// mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32, as the PTX manual lays out its fragments.
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

}  // namespace logos_host
