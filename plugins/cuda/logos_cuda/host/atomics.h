// Atomics as CUDA declares them, each returning the old value, and fences.
#pragma once

#include <string.h>

namespace logos_host {

typedef unsigned __attribute__((may_alias)) Word4;
typedef unsigned long long __attribute__((may_alias)) Word8;

// Replaces *address by change(*address).
template <class Word, class Value, class Change>
Value exchange_with(Value *address, Change change) {
    Word *word = reinterpret_cast<Word *>(address);
    auto seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    for (;;) {
        Value old, wanted;
        memcpy(&old, &seen, sizeof old);
        wanted = change(old);
        decltype(seen) next;
        memcpy(&next, &wanted, sizeof next);
        if (__atomic_compare_exchange_n(word, &seen, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return old;
    }
}

}  // namespace logos_host

#define LOGOS_ATOMIC(name, type, word, result) \
    inline type name(type *address, type value) { \
        return logos_host::exchange_with<logos_host::word>(address, [=](type old) { return (type)(result); }); \
    }
#define LOGOS_ORDER_ATOMICS(type, word) \
    LOGOS_ATOMIC(atomicMax, type, word, old < value ? value : old) \
    LOGOS_ATOMIC(atomicMin, type, word, value < old ? value : old) \
    LOGOS_ATOMIC(atomicAnd, type, word, old & value) \
    LOGOS_ATOMIC(atomicOr, type, word, old | value) \
    LOGOS_ATOMIC(atomicXor, type, word, old ^ value)
#define LOGOS_SWAP_ATOMICS(type, word) \
    LOGOS_ATOMIC(atomicExch, type, word, (void(old), value)) \
    inline type atomicCAS(type *address, type expected, type value) { \
        return logos_host::exchange_with<logos_host::word>( \
            address, [=](type old) { return old == expected ? value : old; }); \
    }

LOGOS_ORDER_ATOMICS(int, Word4)
LOGOS_ORDER_ATOMICS(unsigned, Word4)
LOGOS_ORDER_ATOMICS(long long, Word8)
LOGOS_ORDER_ATOMICS(unsigned long long, Word8)
LOGOS_SWAP_ATOMICS(int, Word4)
LOGOS_SWAP_ATOMICS(unsigned, Word4)
LOGOS_SWAP_ATOMICS(unsigned long long, Word8)
LOGOS_ATOMIC(atomicExch, float, Word4, (void(old), value))
// Sums of integers wrap.
LOGOS_ATOMIC(atomicAdd, int, Word4, unsigned(old) + unsigned(value))
LOGOS_ATOMIC(atomicAdd, unsigned, Word4, old + value)
LOGOS_ATOMIC(atomicAdd, unsigned long long, Word8, old + value)
LOGOS_ATOMIC(atomicAdd, float, Word4, old + value)
LOGOS_ATOMIC(atomicAdd, double, Word8, old + value)
LOGOS_ATOMIC(atomicSub, int, Word4, unsigned(old) - unsigned(value))
LOGOS_ATOMIC(atomicSub, unsigned, Word4, old - value)

#undef LOGOS_SWAP_ATOMICS
#undef LOGOS_ORDER_ATOMICS
#undef LOGOS_ATOMIC

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
