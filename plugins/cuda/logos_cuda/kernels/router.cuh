// One row's scores and the choice of its experts in one launch: the block that comes last chooses.
#pragma once

#include "elementwise.cuh"
#include "experts.cuh"

// `lanes` threads share a row of W (experts, width). Where there is a further row `shared`, its product is kept where
// there is a pointer for it, and `gate` is its sigmoid.
template <int lanes>
__device__ inline void router(const Real *x, const Real *w, const Real *shared, Real *scores, Int *chosen, Real *shares,
                              Real *product, Real *gate, int *arrivals, Size width, Size experts, Size top) {
    LOGOS_SHARED(float, partial, 32);
    const Size rows = shared != nullptr ? experts + 1 : experts;
    for (Size row = first_index() / lanes; row < rows; row += grid_threads() / lanes) {
        const float sum = row_dot<lanes>(x, row < experts ? w + row * width : shared, width, partial);
        if (threadIdx.x % lanes != 0) continue;
        if (row < experts) {
            scores[row] = sum;
        } else {
            if (product != nullptr) product[0] = sum;
            gate[0] = Sigmoid::of(sum);
        }
    }
    if (comes_last(arrivals, 1, static_cast<int>(gridDim.x))) choose_row(scores, chosen, shares, experts, top, partial);
}
