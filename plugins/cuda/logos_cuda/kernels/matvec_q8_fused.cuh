// Products of one row by weights in Q8_0, and what follows each, as matvec_fused.cuh has them of floats; every sum is in
// the order of the product alone. `lanes` threads share a row of a weight: a warp, or a block of 128.
#pragma once

#include "chain.cuh"
#include "matvec_q8.cuh"
#include "quantize.cuh"

// One weight, and the row that it multiplies.
struct Q8Rows {
    const Quant *x;
    const Real *xs;
    const Quant *w;
    const Half *ws;
    Size k;

    // The product of a row; every lane has it.
    template <int lanes>
    __device__ __forceinline__ float dot(Size row, float *partial) const {
        const Size blocks = k / 32;
        float sum[1] = {};
        q8_share<lanes>(w + row * k, ws + row * blocks, x, xs, blocks, blocks, 1, threadIdx.x % lanes, sum);
        return lanes == 32 ? warp_join<Sum>(sum[0]) : block_join<Sum>(sum[0], partial);
    }
};

// One weight of several: it takes `blocks` of the grid's blocks.
struct Q8Part {
    const Quant *w;
    const Half *ws;
    Real *y;
    Size n, blocks, lanes;
};

// The part that a block is of; `block` becomes its number among the part's.
__device__ __forceinline__ Q8Part q8_part_of(Size &, const Quant *w, const Half *ws, Real *y, Size n, Size blocks,
                                             Size lanes) {
    return {w, ws, y, n, blocks, lanes};
}

template <typename... More>
__device__ __forceinline__ Q8Part q8_part_of(Size &block, const Quant *w, const Half *ws, Real *y, Size n, Size blocks,
                                             Size lanes, More... more) {
    if (block < blocks) return {w, ws, y, n, blocks, lanes};
    block -= blocks;
    return q8_part_of(block, more...);
}

template <int lanes>
__device__ __forceinline__ void q8_part_rows(const Q8Rows &rows, const Q8Part &part, Size block, float *partial) {
    const Size together = blockDim.x / lanes;
    for (Size row = block * together + threadIdx.x / lanes; row < part.n; row += part.blocks * together) {
        const float sum = rows.dot<lanes>(row, partial);
        if (threadIdx.x % lanes == 0) part.y[row] = sum;
    }
}

// `lanes` is 0 where some parts take warps and others blocks.
template <int lanes, typename... Parts>
__device__ inline void matvec_q8_parts(const Quant *x, const Real *xs, Size k, Parts... parts) {
    LOGOS_SHARED(float, partial, 32);
    Size block = blockIdx.x;
    const Q8Part part = q8_part_of(block, parts...);
    const Q8Rows rows = {x, xs, part.w, part.ws, k};
    if (lanes == 32 || (lanes == 0 && part.lanes == 32)) {
        q8_part_rows<32>(rows, part, block, partial);
    } else {
        q8_part_rows<128>(rows, part, block, partial);
    }
}

// The elementwise ops that follow x W, up to a sum.
template <int lanes, typename... Steps, typename... Links>
__device__ inline void matvec_q8_then(const Quant *x, const Real *xs, const Quant *w, const Half *ws, Real *product,
                                      Size k, Size n, Links... links) {
    LOGOS_SHARED(float, partial, 32);
    const Chain<Steps...> steps(links...);
    const Q8Rows rows = {x, xs, w, ws, k};
    for (Size row = first_index() / lanes; row < n; row += grid_threads() / lanes) {
        const float sum = rows.dot<lanes>(row, partial);
        if (threadIdx.x % lanes != 0) continue;
        if (product != nullptr) product[row] = sum;
        steps.element(sum, row, n);
    }
}

// y = silu(x Wg) (x Wu); both products and the silu are kept where there are pointers for them. Where there are quants
// to make of y, n is a multiple of 32, with a counter for each.
template <int lanes>
__device__ inline void gate_up_q8(const Quant *x, const Real *xs, const Quant *wg, const Half *gs, const Quant *wu,
                                  const Half *us, Real *gate, Real *up, Real *silu, Real *y, Quant *made, Real *scales,
                                  int *arrivals, Size k, Size n) {
    LOGOS_SHARED(float, partial, 32);
    const Q8Rows gates = {x, xs, wg, gs, k}, ups = {x, xs, wu, us, k};
    const Size together = blockDim.x / lanes;
    for (Size first = static_cast<Size>(blockIdx.x) * together; first < n;
         first += static_cast<Size>(gridDim.x) * together) {
        const Size row = first + threadIdx.x / lanes;
        if (row < n) {
            const float g = gates.dot<lanes>(row, partial), u = ups.dot<lanes>(row, partial), s = Silu::of(g);
            if (threadIdx.x % lanes == 0) {
                if (gate != nullptr) gate[row] = g;
                if (up != nullptr) up[row] = u;
                if (silu != nullptr) silu[row] = s;
                y[row] = s * u;
            }
        }
        if (made != nullptr) quantize_when_made(y, first, static_cast<int>(together), made, scales, arrivals);
    }
}
