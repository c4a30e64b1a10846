// Counts of what a program does on the device, where it is built with LOGOS_HOST_COUNT and the environment's variable of
// that name gives a file to write when it ends: a line `launch NAME` for each kernel that ran, in order, and a line
// `read NUMBER BYTES` for each allocation (numbered in order) from which kernels loaded by __ldg. It costs time.
#pragma once

#include "memory.h"

#ifdef LOGOS_HOST_COUNT

namespace logos_host {

enum { COUNTED = 1 << 14 };
inline unsigned long long loaded[COUNTED];  // bytes, by the allocation's number
inline List<const char *> launched;

inline void write_counts() {
    const char *path = getenv("LOGOS_HOST_COUNT");
    FILE *file = path == nullptr ? nullptr : fopen(path, "w");
    if (file == nullptr) return;
    for (size_t i = 0; i < launched.count; i++) fprintf(file, "launch %s\n", launched.items[i]);
    for (int i = 0; i < COUNTED; i++)
        if (loaded[i]) fprintf(file, "read %d %llu\n", i, loaded[i]);
    fclose(file);
}

inline void count_launch(const char *name) {
    if (launched.count == 0) atexit(write_counts);
    launched.add(name);
}

inline void count_load(const void *address, size_t bytes) {
    const Allocation *found = find_allocation(address);
    if (found != nullptr && found->number < COUNTED) __atomic_fetch_add(&loaded[found->number], bytes, __ATOMIC_RELAXED);
}

}  // namespace logos_host

#define LOGOS_COUNT_LAUNCH(name) ::logos_host::count_launch(name)
#define LOGOS_COUNT_LOAD(address, bytes) ::logos_host::count_load(address, bytes)

#else

#define LOGOS_COUNT_LAUNCH(name)
#define LOGOS_COUNT_LOAD(address, bytes)

#endif
