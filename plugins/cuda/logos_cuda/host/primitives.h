// The barriers, votes and shuffles that kernels call, and asynchronous copies.
#pragma once

#include "meeting.h"
#include "shared.h"

inline void __syncthreads(logos_host::Site site = logos_host::Site::here()) {
    logos_host::barrier(logos_host::SYNCTHREADS, 0, site);
}
inline int __syncthreads_or(int predicate, logos_host::Site site = logos_host::Site::here()) {
    return int(logos_host::barrier(logos_host::SYNCTHREADS_OR, predicate != 0, site));
}
inline int __syncthreads_and(int predicate, logos_host::Site site = logos_host::Site::here()) {
    return int(logos_host::barrier(logos_host::SYNCTHREADS_AND, predicate != 0, site));
}
inline int __syncthreads_count(int predicate, logos_host::Site site = logos_host::Site::here()) {
    return int(logos_host::barrier(logos_host::SYNCTHREADS_COUNT, predicate != 0, site));
}

inline void __syncwarp(unsigned mask = logos_host::WHOLE, logos_host::Site site = logos_host::Site::here()) {
    logos_host::meet(logos_host::SYNCWARP, mask, 0, 0, site);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, logos_host::Site site = logos_host::Site::here()) {
    return unsigned(logos_host::meet(logos_host::BALLOT, mask, predicate != 0, 0, site));
}
inline int __any_sync(unsigned mask, int predicate, logos_host::Site site = logos_host::Site::here()) {
    return int(logos_host::meet(logos_host::ANY, mask, predicate != 0, 0, site));
}
inline int __all_sync(unsigned mask, int predicate, logos_host::Site site = logos_host::Site::here()) {
    return int(logos_host::meet(logos_host::ALL, mask, predicate != 0, 0, site));
}
inline unsigned __activemask(logos_host::Site site = logos_host::Site::here()) {
    return unsigned(logos_host::meet(logos_host::ACTIVEMASK, logos_host::WHOLE, 0, 0, site));
}

namespace logos_host {

inline unsigned lane_of_current() { return running("a shuffle").current->lane; }

inline bool good_width(int width) { return width > 0 && width <= int(WARP) && (width & (width - 1)) == 0; }

[[noreturn]] __attribute__((noinline)) inline void end_width(int width, const Site &site) {
    Text what;
    what.add("a shuffle at %s:%d has width %d", site.file, site.line, width);
    end_thread(what.characters, "give it a width of 1, 2, 4, 8, 16 or 32");
}

template <class Value>
Value shuffle(Primitive kind, unsigned mask, Value value, unsigned source, const Site &site) {
    static_assert(sizeof(Value) <= sizeof(unsigned long long), "a shuffle carries at most 8 bytes");
    unsigned long long bits = 0;
    memcpy(static_cast<void *>(&bits), static_cast<const void *>(&value), sizeof value);
    bits = meet(kind, mask, bits, source, site);
    memcpy(static_cast<void *>(&value), static_cast<const void *>(&bits), sizeof value);
    return value;
}

}  // namespace logos_host

// A warp is cut into runs of `width` lanes. Up and down give a lane its own value where the run ends; xor may reach an
// earlier run, not a later one. Of a step or a pattern of bits the device reads the lowest five bits.
template <class Value>
Value __shfl_sync(unsigned mask, Value value, int lane, int width = 32,
                  logos_host::Site site = logos_host::Site::here()) {
    if (!logos_host::good_width(width)) logos_host::end_width(width, site);
    unsigned run = unsigned(width) - 1, own = logos_host::lane_of_current();
    return logos_host::shuffle(logos_host::SHFL, mask, value, (own & ~run) | (unsigned(lane) & run), site);
}
template <class Value>
Value __shfl_up_sync(unsigned mask, Value value, unsigned step, int width = 32,
                     logos_host::Site site = logos_host::Site::here()) {
    if (!logos_host::good_width(width)) logos_host::end_width(width, site);
    unsigned run = unsigned(width) - 1, own = logos_host::lane_of_current();
    step %= 32;
    return logos_host::shuffle(logos_host::SHFL_UP, mask, value, (own & run) >= step ? own - step : own, site);
}
template <class Value>
Value __shfl_down_sync(unsigned mask, Value value, unsigned step, int width = 32,
                       logos_host::Site site = logos_host::Site::here()) {
    if (!logos_host::good_width(width)) logos_host::end_width(width, site);
    unsigned run = unsigned(width) - 1, own = logos_host::lane_of_current();
    step %= 32;
    return logos_host::shuffle(logos_host::SHFL_DOWN, mask, value, (own & run) + step <= run ? own + step : own, site);
}
template <class Value>
Value __shfl_xor_sync(unsigned mask, Value value, int bits, int width = 32,
                      logos_host::Site site = logos_host::Site::here()) {
    if (!logos_host::good_width(width)) logos_host::end_width(width, site);
    unsigned run = unsigned(width) - 1, own = logos_host::lane_of_current(), source = own ^ (unsigned(bits) % 32);
    return logos_host::shuffle(logos_host::SHFL_XOR, mask, value, source <= (own | run) ? source : own, site);
}

inline void logos_mma_s8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                         logos_host::Site site = logos_host::Site::here()) {
    logos_host::running("logos_mma_s8").current->fragments = {d, a, b};
    logos_host::meet(logos_host::MMA, logos_host::WHOLE, 0, 0, site);
}

namespace logos_host {

[[noreturn]] __attribute__((noinline)) inline void end_matrix(const Site &site) {
    Text what;
    what.add("logos_load_matrices at %s:%d has an address that is no multiple of 16", site.file, site.line);
    end_thread(what.characters, "begin every row of a matrix at such an address");
}

}  // namespace logos_host

inline void logos_load_matrices(unsigned (&to)[4], const void *shared,
                                logos_host::Site site = logos_host::Site::here()) {
    logos_host::running("logos_load_matrices").current->matrix = {shared, to};
    if (uintptr_t(shared) % 16) logos_host::end_matrix(site);
    logos_host::meet(logos_host::LOAD_MATRICES, logos_host::WHOLE, 0, 0, site);
}
