// What kernels and driver share: element types, how a weight lies in tiles, a thread's place among its fellows, faults.
#pragma once

#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

typedef float Real;
typedef long long Int;
typedef long long Size;  // Sizes and offsets: a tensor may pass 2^31 elements.
typedef signed char Quant;
typedef unsigned short Half;  // the bits of a float16
typedef unsigned char Byte;

// 16 numbers that compilers keep in as many registers as a level takes for them. Functions have them by reference: by
// value, how they are passed would differ from level to level.
typedef Real Reals __attribute__((vector_size(64)));
typedef int Ints __attribute__((vector_size(64)));
typedef Quant Quants __attribute__((vector_size(16)));
const int LANES = 16;

// A weight in Q8_0 lies in tiles of 32 outputs; a tile holds for each block of 32 inputs the 32 scales (float16), then the
// quants, of 4 inputs at a time those of output 0, 1 … 31: one broadcast of 4 activations feeds all of them.
const Size BLOCK = 32, TILE = 32, TILE_BLOCK_BYTES = TILE * 2 + TILE * BLOCK;

enum FaultKind { NO_FAULT = 0, FAULT_ROW = 1, FAULT_NAN = 2, FAULT_OVERFLOW = 3 };

// The fault of the first stage that has one: threads may be in different stages.
struct Fault {
    std::atomic<int> kind{NO_FAULT};
    int stage = 0;
    Int value = 0;
    std::mutex claim;

    void report(int at, int what, Int number) {
        std::lock_guard<std::mutex> hold(claim);
        if (kind != NO_FAULT && stage <= at) return;
        stage = at, value = number, kind = what;
    }

    void clear() { kind = NO_FAULT; }
};

// One of `count` threads that make a stage together, which makes `steps` steps at once.
struct Worker {
    int id, count;
    Size steps;
    char *scratch;  // this thread's own memory, SCRATCH bytes
    Fault *fault;
    int stage;

    void report(int kind, Int value) const { fault->report(stage, kind, value); }
};

typedef void (*Kernel)(const Worker &, void *const *);

// Rows of activations in quants; for each 32 a scale, and -128 times the sum of the quants, where a kernel starts that
// takes weights plus 128, for want of an instruction that multiplies signed bytes by signed ones.
struct Activations {
    Quant *quants;
    Real *scales;
    int *offsets;

    Activations row(Size r, Size columns) const {
        return {quants + r * columns, scales + r * (columns / BLOCK), offsets + r * (columns / BLOCK)};
    }
};

// A kernel's operands as what they hold.
inline Real *reals(void *at) { return static_cast<Real *>(at); }
inline Int *ints(void *at) { return static_cast<Int *>(at); }
inline Byte *bytes(void *at) { return static_cast<Byte *>(at); }
inline Quant *quants(void *at) { return static_cast<Quant *>(at); }
inline Activations activations(void *at, Size size) {
    Real *const scales = reinterpret_cast<Real *>(static_cast<Byte *>(at) + size);
    return {static_cast<Quant *>(at), scales, reinterpret_cast<int *>(scales + size / BLOCK)};
}

struct Range {
    Size begin, end;
};

// A thread's part of n columns, whole runs of `unit`. Whatever has the same n and unit is shared out alike.
inline Range share(const Worker &w, Size n, Size unit) {
    const Size units = (n + unit - 1) / unit, end = units * (w.id + 1) / w.count * unit;
    return {units * w.id / w.count * unit, end < n ? end : n};
}

// A row number that was computed; outside its table it is a fault and is -1.
inline Size checked_row(const Worker &w, Int row, Size rows) {
    if (row >= 0 && row < rows) return row;
    w.report(FAULT_ROW, row);
    return -1;
}
