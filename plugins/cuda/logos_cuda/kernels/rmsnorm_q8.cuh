// The norms of rmsnorm.cuh whose rows, of a multiple of 32 elements, go on in Q8_0; y is kept where there is a pointer.
#pragma once

#include "quantize.cuh"
#include "rmsnorm.cuh"

template <bool plus, bool weight, int lanes>
__device__ inline void rmsnorm_q8(const Real *x, const Real *res, const Real *w, Real *y, Quant *made, Real *scales,
                                  Size rows, Size columns, float eps) {
    rmsnorm_rows<plus, weight, lanes>(x, res, w, Quantized{y, made, scales}, rows, columns, eps);
}

template <int lanes>
__device__ inline void add_rmsnorm_q8(const Real *a, const Real *b, const Real *w, Real *sum, Real *y, Quant *made,
                                      Real *scales, Size rows, Size columns, float eps) {
    add_rmsnorm_rows<lanes>(a, b, w, sum, Quantized{y, made, scales}, rows, columns, eps);
}
