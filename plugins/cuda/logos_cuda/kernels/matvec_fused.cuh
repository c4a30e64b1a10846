// Products of one row by weights that are stored as (n, k), and what follows each; every sum is in the order of the
// product alone. `lanes` threads share a row of a weight: a warp, or a block of 128.
#pragma once

#include "chain.cuh"
#include "matvec.cuh"

// One weight of several: it takes `blocks` of the grid's blocks.
struct Product {
    const Real *w;
    Real *y;
    Size n, blocks, lanes;
};

// The part that a block is of; `block` becomes its number among the part's.
__device__ __forceinline__ Product product_of(Size &, const Real *w, Real *y, Size n, Size blocks, Size lanes) {
    return {w, y, n, blocks, lanes};
}

template <typename... More>
__device__ __forceinline__ Product product_of(Size &block, const Real *w, Real *y, Size n, Size blocks, Size lanes,
                                              More... more) {
    if (block < blocks) return {w, y, n, blocks, lanes};
    block -= blocks;
    return product_of(block, more...);
}

template <int lanes>
__device__ __forceinline__ void part_rows(const Real *x, const Product &part, Size block, Size k, float *partial) {
    const Size together = blockDim.x / lanes;
    for (Size row = block * together + threadIdx.x / lanes; row < part.n; row += part.blocks * together) {
        const float sum = row_dot<lanes>(x, part.w + row * k, k, partial);
        if (threadIdx.x % lanes == 0) part.y[row] = sum;
    }
}

// `lanes` is 0 where some parts take warps and others blocks.
template <int lanes, typename... Parts>
__device__ inline void matvec_parts(const Real *x, Size k, Parts... parts) {
    LOGOS_SHARED(float, partial, 32);
    Size block = blockIdx.x;
    const Product part = product_of(block, parts...);
    if (lanes == 32 || (lanes == 0 && part.lanes == 32)) {
        part_rows<32>(x, part, block, k, partial);
    } else {
        part_rows<128>(x, part, block, k, partial);
    }
}

// The elementwise ops that follow x W, up to a sum; the product is kept where there is a pointer for it, and so is what
// each op makes: see chain.cuh.
template <int lanes, typename... Steps, typename... Links>
__device__ inline void matvec_then(const Real *x, const Real *w, Real *product, Size k, Size n, Links... links) {
    LOGOS_SHARED(float, partial, 32);
    const Chain<Steps...> steps(links...);
    for (Size row = first_index() / lanes; row < n; row += grid_threads() / lanes) {
        const float sum = row_dot<lanes>(x, w + row * k, k, partial);
        if (threadIdx.x % lanes != 0) continue;
        if (product != nullptr) product[row] = sum;
        steps.element(sum, row, n);
    }
}

// y = silu(x Wg) (x Wu); both products and the silu are kept where there are pointers for them.
template <int lanes>
__device__ inline void gate_up(const Real *x, const Real *wg, const Real *wu, Real *gate, Real *up, Real *silu, Real *y,
                               Size k, Size n) {
    LOGOS_SHARED(float, partial, 32);
    for (Size row = first_index() / lanes; row < n; row += grid_threads() / lanes) {
        const float g = row_dot<lanes>(x, wg + row * k, k, partial), u = row_dot<lanes>(x, wu + row * k, k, partial);
        if (threadIdx.x % lanes != 0) continue;
        const float made = Silu::of(g);
        if (gate != nullptr) gate[row] = g;
        if (up != nullptr) up[row] = u;
        if (silu != nullptr) silu[row] = made;
        y[row] = made * u;
    }
}
