// A block's shared memory: an arena of the OS thread, from which each array is carved at its first declaration.
#pragma once

#include "diagnosis.h"

namespace logos_host {

// Bytes a block may declare, and have in all with cudaFuncSetAttribute (compute capability 9.0).
constexpr size_t STATIC_SHARED = 48 << 10, MOST_SHARED = 227 << 10;

#ifdef LOGOS_HOST_ASAN
constexpr size_t RED_ZONE = 64;
#else
constexpr size_t RED_ZONE = 0;
#endif
constexpr int MOST_ARRAYS = 64;

struct SharedArray {
    const void *declaration;
    void *memory;
};

struct Shared {
    alignas(128) unsigned char arena[MOST_SHARED + (MOST_ARRAYS + 2) * (RED_ZONE + 32)];
    size_t used, declared;  // bytes of the arena; bytes of static arrays
    void *dynamic;
    SharedArray arrays[MOST_ARRAYS];
    int count;
};

// Bytes of the arena for an array. Under the sanitizer one that is aligned to 8 bytes or fewer lies off a multiple of
// 16: code that reads it 16 bytes at a time without asking for that alignment is found.
inline void *carve(Shared &shared, size_t bytes, size_t alignment) {
    size_t unit = alignment < 16 ? 16 : alignment;
    size_t at = (shared.used + RED_ZONE + unit - 1) / unit * unit;
    if (RED_ZONE && alignment <= 8) at += 8;
    shared.used = at + bytes;
    void *memory = shared.arena + at;
#ifdef LOGOS_HOST_ASAN
    __asan_unpoison_memory_region(memory, bytes);
#endif
    if (poisoning()) poison(memory, bytes);
    return memory;
}

// Forgets the last block's arrays and sets aside the launch's dynamic ones.
inline void begin_shared(Shared &shared, size_t dynamic) {
#ifdef LOGOS_HOST_ASAN
    __asan_poison_memory_region(shared.arena, sizeof shared.arena);
#endif
    shared.used = shared.declared = 0;
    shared.count = 0;
    shared.dynamic = carve(shared, dynamic, 16);
}

[[noreturn]] __attribute__((noinline)) inline void end_shared(const Shared &shared, const char *name) {
    Text what;
    if (shared.count == MOST_ARRAYS) what.add("more than %d shared arrays: no room for %s", MOST_ARRAYS, name);
    else if (shared.declared > STATIC_SHARED) what.add("%zu bytes of shared arrays with %s", shared.declared, name);
    else what.add("%zu bytes of shared memory with %s", shared.declared + worker->launch->shared, name);
    end_thread(what.characters, "declare at most 48 KB (49152 bytes), of at most 227 KB with the dynamic memory");
}

// The array of one declaration: the same for every thread of the block.
inline void *shared_array(const void *declaration, size_t bytes, size_t alignment, const char *name) {
    Shared &shared = *worker->shared;
    for (int i = 0; i < shared.count; i++) {
        if (shared.arrays[i].declaration == declaration) return shared.arrays[i].memory;
    }
    shared.declared = (shared.declared + alignment - 1) / alignment * alignment + bytes;
    if (shared.count == MOST_ARRAYS || shared.declared > STATIC_SHARED ||
        shared.declared + worker->launch->shared > MOST_SHARED) {
        end_shared(shared, name);
    }
    void *memory = carve(shared, bytes, alignment);
    shared.arrays[shared.count++] = {declaration, memory};
    return memory;
}

}  // namespace logos_host

#define LOGOS_SHARED(type, name, count)  \
    static char name##_declaration;      \
    type(&name)[count] = *static_cast<type(*)[count]>( \
        ::logos_host::shared_array(&name##_declaration, sizeof(type) * (count), alignof(type), #name))
#define LOGOS_DYNAMIC_SHARED(type, name) type *const name = static_cast<type *>(::logos_host::worker->shared->dynamic)
