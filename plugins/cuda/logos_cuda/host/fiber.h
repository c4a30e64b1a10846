// Fibers: stacks that the program switches between by hand, each switch announced to the address sanitizer.
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#include "fault.h"

#if defined(__SANITIZE_ADDRESS__)
#define LOGOS_HOST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LOGOS_HOST_ASAN 1
#endif
#endif

#ifdef LOGOS_HOST_ASAN
extern "C" {
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **bottom, size_t *size);
void __asan_poison_memory_region(void const volatile *memory, size_t size);
void __asan_unpoison_memory_region(void const volatile *memory, size_t size);
// What a program still holds at its end is no fault here, and leak detection fails under tracers and emulators. What
// a sanitizer finds ends the program as every fault does. Not weak, as clang's own is: a program is one translation unit.
const char *__asan_default_options() { return "detect_leaks=0:exitcode=86"; }
const char *__ubsan_default_options() { return "exitcode=86"; }
}
#endif

// logos_host_switch(&from, to): saves what the calling convention asks a function to keep, leaves the stack pointer
// in `from`, and goes on where the stack `to` was left. Written by hand: swapcontext makes a system call each time.
extern "C" void logos_host_switch(void **from, void *to);
extern "C" void logos_host_start();

#if defined(__x86_64__)
asm(R"(
.pushsection .text.logos_host_switch,"axG",@progbits,logos_host_switch,comdat
.weak logos_host_switch
.type logos_host_switch,@function
logos_host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size logos_host_switch,.-logos_host_switch
.weak logos_host_start
.type logos_host_start,@function
logos_host_start:
    movq %r12, %rdi
    callq *%rbx
    ud2
.size logos_host_start,.-logos_host_start
.popsection
)");
#elif defined(__aarch64__)
asm(R"(
.pushsection .text.logos_host_switch,"axG",@progbits,logos_host_switch,comdat
.weak logos_host_switch
.type logos_host_switch,@function
logos_host_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size logos_host_switch,.-logos_host_switch
.weak logos_host_start
.type logos_host_start,@function
logos_host_start:
    mov x0, x20
    blr x19
    brk #0
.size logos_host_start,.-logos_host_start
.popsection
)");
#else
#error "the host stand-in switches stacks on x86-64 and aarch64 only"
#endif

namespace logos_host {

// A stack and where it was left. The stack of an OS thread is a Fiber too, with `stack` found by `adopt`.
struct Fiber {
    void *pointer = nullptr;
    void *fake_stack = nullptr;
    const void *stack = nullptr;
    size_t size = 0;
    Fiber *below = nullptr;  // the next free one of a pool
};

#ifdef LOGOS_HOST_ASAN
constexpr size_t STACK = 512 << 10;  // the sanitizer's frames are several times as large
#else
constexpr size_t STACK = 128 << 10;
#endif
constexpr size_t PAGE = 64 << 10;  // a multiple of every page size there is

inline void switch_to(Fiber *from, Fiber *to) {
#ifdef LOGOS_HOST_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->size);
#endif
    logos_host_switch(&from->pointer, to->pointer);
#ifdef LOGOS_HOST_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, nullptr, nullptr);
#endif
}

// The first act of a new fiber, which no switch_to of its own receives.
inline void arrived_first() {
#ifdef LOGOS_HOST_ASAN
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

// A new fiber that, when first switched to, calls `entry(fiber)`, which must not return. It lives to the program's end.
inline Fiber *new_fiber(void (*entry)(Fiber *)) {
    size_t whole = STACK + PAGE;
    void *memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) end_with("no memory is left for the stack of a thread", "set LOGOS_HOST_THREADS=1");
    static unsigned fibers = 0;
    unsigned number = __atomic_fetch_add(&fibers, 1, __ATOMIC_RELAXED);
    // A stack that overflows must not write into its neighbour. A guard costs a mapping, of which Linux gives 65,530.
    if (number < 24000) (void)mprotect(memory, PAGE, PROT_NONE);
    Fiber *fiber = new Fiber;
    fiber->stack = static_cast<char *>(memory) + PAGE;
    fiber->size = STACK;
    // Stacks that all ended at the same place of a page would share a few sets of the cache.
    size_t colour = number * 320 % 8192;
    uintptr_t *top = reinterpret_cast<uintptr_t *>(static_cast<char *>(memory) + whole - colour);
#if defined(__x86_64__)
    // r15 r14 r13 r12 rbx rbp and the return address; two words of zero leave the stack aligned to 16 for `call`.
    uintptr_t *saved = top - 9;
    memset(saved, 0, 9 * sizeof *saved);
    saved[3] = reinterpret_cast<uintptr_t>(fiber);
    saved[4] = reinterpret_cast<uintptr_t>(entry);
    saved[6] = reinterpret_cast<uintptr_t>(&logos_host_start);
#else
    // x19 … x30, d8 … d15
    uintptr_t *saved = top - 20;
    memset(saved, 0, 20 * sizeof *saved);
    saved[0] = reinterpret_cast<uintptr_t>(entry);
    saved[1] = reinterpret_cast<uintptr_t>(fiber);
    saved[11] = reinterpret_cast<uintptr_t>(&logos_host_start);
#endif
    fiber->pointer = saved;
    return fiber;
}

// The OS thread's own stack as a fiber to come back to.
inline void adopt(Fiber *fiber) {
#ifdef LOGOS_HOST_ASAN
    pthread_attr_t attributes;
    void *stack;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &stack, &fiber->size);
        pthread_attr_destroy(&attributes);
        fiber->stack = stack;
    }
#else
    (void)fiber;
#endif
}

}  // namespace logos_host
