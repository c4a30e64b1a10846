// Elementwise ops one after another, the element carried in a register: each op rounds to float as in memory. What an
// op makes is kept in memory where there is a pointer for it.
#pragma once

#include "elementwise.cuh"

template <typename Function>
struct Unary {
    enum { BY_ROW = 0 };
    static __device__ __forceinline__ float load(const Real *, Size, Size) { return 0.0f; }
    static __device__ __forceinline__ float4 load4(const Real *, Size, Size) { return {0.0f, 0.0f, 0.0f, 0.0f}; }
    static __device__ __forceinline__ float of(float x, float) { return Function::of(x); }
};

// `second`: the element that is carried is the function's second operand.
template <typename Function, Spread spread, bool second>
struct Binary {
    enum { BY_ROW = spread == ROW };
    static __device__ __forceinline__ float load(const Real *b, Size i, Size columns) {
        return b[place<spread>(i, columns)];
    }
    static __device__ __forceinline__ float4 load4(const Real *b, Size i, Size columns) {
        if (spread != SCALAR) return reinterpret_cast<const float4 *>(b)[place<spread>(i, columns / 4)];
        return {b[0], b[0], b[0], b[0]};
    }
    static __device__ __forceinline__ float of(float x, float b) { return second ? Function::of(b, x) : Function::of(x, b); }
};

template <typename... Steps>
struct Chain {
    enum { BY_ROW = 0 };
    __device__ __forceinline__ float element(float x, Size, Size) const { return x; }
    __device__ __forceinline__ float4 vector(float4 x, Size, Size) const { return x; }
};

template <typename Step, typename... Rest>
struct Chain<Step, Rest...> {
    enum { BY_ROW = Step::BY_ROW || Chain<Rest...>::BY_ROW };
    const Real *b;
    Real *kept;
    Chain<Rest...> rest;

    template <typename... More>
    __device__ __forceinline__ Chain(const Real *b, Real *kept, More... more) : b(b), kept(kept), rest{more...} {}

    __device__ __forceinline__ float element(float x, Size i, Size columns) const {
        const float made = Step::of(x, Step::load(b, i, columns));
        if (kept != nullptr) kept[i] = made;
        return rest.element(made, i, columns);
    }

    __device__ __forceinline__ float4 vector(float4 x, Size i, Size columns) const {
        const float4 with = Step::load4(b, i, columns);
        const float4 made = {Step::of(x.x, with.x), Step::of(x.y, with.y), Step::of(x.z, with.z),
                             Step::of(x.w, with.w)};
        if (kept != nullptr) reinterpret_cast<float4 *>(kept)[i] = made;
        return rest.vector(made, i, columns);
    }
};

// `links` are each step's other operand, which a step of one operand lacks, and where what it makes is kept.
template <typename... Steps, typename... Links>
__device__ inline void chain(Size n, Size columns, const Real *x, Links... links) {
    const Chain<Steps...> steps(links...);
    const Size vectors = Chain<Steps...>::BY_ROW && columns % 4 != 0 ? 0 : n / 4;
    for (Size i = first_index(); i < vectors; i += grid_threads()) {
        steps.vector(reinterpret_cast<const float4 *>(x)[i], i, columns);
    }
    for (Size i = 4 * vectors + first_index(); i < n; i += grid_threads()) steps.element(x[i], i, columns);
}
