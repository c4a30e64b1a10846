// A block: its threads, run one at a time on fibers of the OS thread that has the block, and what they wait at.
#pragma once

#include "fiber.h"
#include "order.h"

namespace logos_host {

enum Primitive : unsigned char {
    SYNCTHREADS, SYNCTHREADS_OR, SYNCTHREADS_AND, SYNCTHREADS_COUNT,
    SYNCWARP, SHFL, SHFL_UP, SHFL_DOWN, SHFL_XOR, BALLOT, ANY, ALL, ACTIVEMASK, MMA, LOAD_MATRICES,
};
constexpr const char *PRIMITIVES[] = {
    "__syncthreads", "__syncthreads_or", "__syncthreads_and", "__syncthreads_count",
    "__syncwarp", "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync",
    "__ballot_sync", "__any_sync", "__all_sync", "__activemask", "logos_mma_s8",
    "logos_load_matrices",
};
inline bool is_barrier(Primitive kind) { return kind <= SYNCTHREADS_COUNT; }
inline bool is_vote(Primitive kind) { return kind >= BALLOT && kind <= ALL; }

constexpr unsigned WARP = 32, MOST_THREADS = 1024, WHOLE = 0xffffffffu;

struct Fragments {
    int *d;
    const unsigned *a, *b;
};

// The address of a row of a matrix, and where a lane's words of four matrices go.
struct MatrixRow {
    const void *row;
    unsigned *words;
};

struct AsyncCopy {
    void *to;
    const void *from;
    unsigned bytes;
    long group;
};

// Copies that a thread has begun and not waited for: their data is not yet in shared memory.
struct AsyncCopies {
    AsyncCopy *items = nullptr;
    int count = 0, room = 0;
    long committed = 0;
};

struct Thread {
    uint3 index;
    unsigned lane, warp;
    Primitive kind;  // the primitive that it waits at, or met last
    Site site;
    unsigned mask;
    unsigned source;           // the lane whose value a shuffle brings
    unsigned long long value;  // what it gives to the primitive
    unsigned long long result;
    Fragments fragments;
    MatrixRow matrix;
    Fiber *fiber;  // null before it starts
    AsyncCopies copies;
};

// Lanes that wait at one primitive, same in kind, mask and place.
struct Gathering {
    Primitive kind;
    unsigned mask, arrived;
    Site site;
};

// Sets of lanes are masks by lane; `ready` is by slot, the lane's place in the order in which lanes run.
struct Warp {
    unsigned there, exited, ready;
    unsigned char lane_of[WARP], slot_of[WARP];
    Gathering gatherings[WARP];
    int gathered;
};

struct Launch {
    const char *name;
    dim3 grid, block;
    size_t shared;
    bool early = false;  // it may begin before the launch before it has ended, and has to wait for that itself
    virtual void thread() const = 0;  // runs the kernel as the current thread
    virtual ~Launch() = default;
};

struct Shared;

// An OS thread's whole state for the block that it runs.
struct Worker {
    const Launch *launch = nullptr;
    Fiber root;
    Fiber *free_fibers = nullptr;
    Thread *current = nullptr;
    unsigned threads = 0, live = 0;
    unsigned warps = 0, warp = 0;      // how many, and the one whose lanes run
    unsigned ready_warps = 0;          // by slot
    unsigned char warp_of[WARP], warp_slot[WARP];
    unsigned at_barrier = 0;
    bool barrier_differs = false;
    const Thread *first_at_barrier = nullptr;
    Random random;
    Shared *shared = nullptr;
    Warp warp_states[WARP];
    Thread thread_states[MOST_THREADS];
};

inline thread_local Worker *worker = nullptr;

// The registers that a kernel reads; set at each switch.
inline thread_local uint3 thread_index = {0, 0, 0};
inline thread_local uint3 block_index = {0, 0, 0};
inline thread_local dim3 block_shape, grid_shape;

inline void make_ready(Worker &w, Warp &warp, unsigned lane) {
    warp.ready |= 1u << warp.slot_of[lane];
    w.ready_warps |= 1u << w.warp_slot[unsigned(&warp - w.warp_states)];
}

inline void make_all_ready(Worker &w, Warp &warp, unsigned lanes) {
    for (; lanes; lanes &= lanes - 1) make_ready(w, warp, unsigned(__builtin_ctz(lanes)));
}

[[noreturn]] void nothing_is_ready(Worker &w);
bool gather_active(Worker &w, Warp &warp);

// The next thread to run, taken from those that are ready: the lanes of one warp until they all wait, then the next.
inline Thread *take_ready(Worker &w) {
    for (;;) {
        Warp &warp = w.warp_states[w.warp];
        if (warp.ready || gather_active(w, warp)) {
            unsigned slot = unsigned(__builtin_ctz(warp.ready));
            warp.ready &= warp.ready - 1;
            return &w.thread_states[w.warp * WARP + warp.lane_of[slot]];
        }
        w.ready_warps &= ~(1u << w.warp_slot[w.warp]);
        if (w.ready_warps == 0) return nullptr;
        w.warp = w.warp_of[__builtin_ctz(w.ready_warps)];
    }
}

inline void set_current(Worker &w, Thread *thread) {
    w.current = thread;
    thread_index = thread->index;
}

void fiber_main(Fiber *fiber);

// Leaves the running stack `from` for the thread's: where it waits, or a free one on which it starts.
inline void go(Worker &w, Fiber *from, Thread *thread) {
    set_current(w, thread);
    Fiber *to = thread->fiber;
    if (to == nullptr) {
        to = w.free_fibers;
        if (to == nullptr) to = new_fiber(fiber_main);
        else w.free_fibers = to->below;
    }
    switch_to(from, to);
}

// The current thread waits; returns once its primitive is complete and its turn has come.
inline void wait_turn(Worker &w) {
    Thread *self = w.current;
    Thread *next = take_ready(w);
    if (next == nullptr) nothing_is_ready(w);
    if (next != self) go(w, self->fiber, next);
}

void leave(Worker &w, Thread &thread);

// Runs threads on one stack, one after another while none waits; leaves it to those that wait on stacks of their own.
inline void fiber_main(Fiber *fiber) {
    arrived_first();
    for (;;) {
        Worker &w = *worker;
        Thread *thread = w.current;
        while (thread != nullptr && thread->fiber == nullptr) {
            set_current(w, thread);
            thread->fiber = fiber;
            w.launch->thread();
            leave(w, *thread);
            thread = take_ready(w);
        }
        if (thread == nullptr && w.live != 0) nothing_is_ready(w);
        fiber->below = w.free_fibers;
        w.free_fibers = fiber;
        if (thread == nullptr) switch_to(fiber, &w.root);
        else go(w, fiber, thread);
    }
}

// Sets the threads' places for every block of a launch, where the last launch had other blocks.
inline void prepare(Worker &w, const Launch &launch) {
    w.launch = &launch;
    grid_shape = launch.grid;
    dim3 shape = launch.block;
    if (w.threads && shape.x == block_shape.x && shape.y == block_shape.y && shape.z == block_shape.z) return;
    block_shape = shape;
    w.threads = shape.x * shape.y * shape.z;
    w.warps = (w.threads + WARP - 1) / WARP;
    for (unsigned i = 0; i < w.threads; i++) {
        Thread &thread = w.thread_states[i];
        thread.index = {i % shape.x, i / shape.x % shape.y, i / shape.x / shape.y};
        thread.lane = i % WARP;
        thread.warp = i / WARP;
    }
}

// Runs one block to its end.
inline void run_block(Worker &w, unsigned long long block) {
    block_index = {unsigned(block % grid_shape.x), unsigned(block / grid_shape.x % grid_shape.y),
                   unsigned(block / grid_shape.x / grid_shape.y)};
    w.random.seed(block);
    w.live = w.threads;
    w.at_barrier = 0;
    order_of(w.warp_of, w.warp_slot, w.warps, w.random);
    w.ready_warps = w.warps == WARP ? WHOLE : (1u << w.warps) - 1;
    for (unsigned i = 0; i < w.warps; i++) {
        Warp &warp = w.warp_states[i];
        unsigned lanes = w.threads - i * WARP;
        warp.there = warp.ready = lanes >= WARP ? WHOLE : (1u << lanes) - 1;
        warp.exited = 0;
        warp.gathered = 0;
        order_of(warp.lane_of, warp.slot_of, lanes >= WARP ? WARP : lanes, w.random);
    }
    for (unsigned i = 0; i < w.threads; i++) {
        w.thread_states[i].fiber = nullptr;
        w.thread_states[i].copies.count = 0;
    }
    w.warp = w.warp_of[0];
    go(w, &w.root, take_ready(w));
}

}  // namespace logos_host
