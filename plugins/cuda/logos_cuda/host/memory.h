// Memory of the device and pinned memory of the host: every allocation is known, so that a copy past its end or a
// launch with another pointer is found.
#pragma once

#include <limits.h>
#include <stdint.h>

#include "stream.h"

namespace logos_host {

struct Allocation {
    char *memory;
    size_t bytes;
    bool pinned;
    int number = 0;  // in the order of allocation
};

inline List<Allocation> allocations;  // by address
inline int allocated = 0;
inline size_t device_bytes = 0;  // in use

inline size_t most_device_bytes() {
    static const size_t most = size_t(setting("LOGOS_HOST_MEMORY", LONG_MAX, 0));
    return most;
}

// The place of the first allocation that begins beyond an address.
inline size_t beyond(const void *address) {
    size_t low = 0, high = allocations.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (uintptr_t(allocations.items[middle].memory) <= uintptr_t(address)) low = middle + 1;
        else high = middle;
    }
    return low;
}

// The allocation that an address lies in, or at whose end it lies; null if there is none.
inline const Allocation *find_allocation(const void *address) {
    size_t place = beyond(address);
    if (place == 0) return nullptr;
    const Allocation &found = allocations.items[place - 1];
    return static_cast<const char *>(address) <= found.memory + found.bytes ? &found : nullptr;
}

// Whether `bytes` from an address on lie in one allocation (of the device, or pinned).
inline bool holds(const void *address, size_t bytes) {
    const Allocation *found = find_allocation(address);
    return found != nullptr && size_t(found->memory + found->bytes - static_cast<const char *>(address)) >= bytes;
}

inline cudaError_t allocate(void **pointer, size_t bytes, bool pinned) {
    if (cudaError_t error = may_wait(true)) return error;
    if (pointer == nullptr) return answer(cudaErrorInvalidValue);
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (!pinned && bytes > most_device_bytes() - device_bytes) return answer(cudaErrorMemoryAllocation);
    // Exactly `bytes`: the sanitizer's red zone begins at the very end. CUDA aligns to 256.
    void *memory = nullptr;
    if (posix_memalign(&memory, 256, bytes) != 0) return answer(cudaErrorMemoryAllocation);
    if (poisoning()) poison(memory, bytes);
    size_t place = beyond(memory);
    allocations.add({});
    for (size_t i = allocations.count - 1; i > place; i--) allocations.items[i] = allocations.items[i - 1];
    allocations.items[place] = {static_cast<char *>(memory), bytes, pinned, allocated++};
    if (!pinned) device_bytes += bytes;
    *pointer = memory;
    return cudaSuccess;
}

inline cudaError_t release(void *pointer, bool pinned) {
    if (pointer == nullptr) return cudaSuccess;
    if (cudaError_t error = may_wait(true)) return error;
    synchronize();
    size_t place = beyond(pointer);
    if (place == 0) return answer(cudaErrorInvalidValue);
    Allocation found = allocations.items[place - 1];
    if (found.memory != pointer || found.pinned != pinned) return answer(cudaErrorInvalidValue);
    for (size_t i = place; i < allocations.count; i++) allocations.items[i - 1] = allocations.items[i];
    allocations.count--;
    if (!pinned) device_bytes -= found.bytes;
    if (poisoning()) poison(found.memory, found.bytes);
    free(found.memory);
    return cudaSuccess;
}

}  // namespace logos_host
