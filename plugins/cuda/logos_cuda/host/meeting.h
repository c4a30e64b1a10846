// Where threads meet: a block's barrier, and the gatherings of a warp's lanes.
#pragma once

#include "diagnosis.h"
#include "mma.h"

namespace logos_host {

inline Worker &running(const char *primitive) {
    if (worker == nullptr) end_outside(primitive);
    return *worker;
}

inline void bring(Worker &w, const Gathering &gathering, Thread *lanes, Thread &thread) {
    if (!(gathering.arrived >> thread.source & 1)) {
        set_current(w, &thread);
        end_call(thread, "reads", thread.source, "name in the mask every lane that is read");
    }
    thread.result = lanes[thread.source].value;
}

// Gives every lane of a gathering its result and makes them ready.
inline void finish(Worker &w, Warp &warp, int number) {
    const Gathering gathering = warp.gatherings[number];
    warp.gatherings[number] = warp.gatherings[--warp.gathered];
    Thread *lanes = &w.thread_states[(&warp - w.warp_states) * WARP];
    unsigned long long together = gathering.kind == ACTIVEMASK ? gathering.arrived : 0;
    if (is_vote(gathering.kind)) {
        unsigned votes = 0;
        for (unsigned left = gathering.arrived; left; left &= left - 1) {
            unsigned lane = unsigned(__builtin_ctz(left));
            votes |= unsigned(lanes[lane].value != 0) << lane;
        }
        if (gathering.kind == ANY) together = votes != 0;
        else if (gathering.kind == ALL) together = votes == gathering.arrived;
        else together = votes;
    }
    if (gathering.kind == MMA) multiply_fragments(lanes);
    if (gathering.kind == LOAD_MATRICES) load_matrices(lanes);
    bool shuffles = gathering.kind >= SHFL && gathering.kind <= SHFL_XOR;
    for (unsigned left = gathering.arrived; left; left &= left - 1) {
        Thread &thread = lanes[__builtin_ctz(left)];
        if (shuffles) bring(w, gathering, lanes, thread);
        else thread.result = together;
    }
    if (gathering.arrived == warp.there) {
        warp.ready = warp.there;
        w.ready_warps |= 1u << w.warp_slot[lanes->warp];
    } else {
        make_all_ready(w, warp, gathering.arrived);
    }
}

// Finishes a gathering that is complete. An exited lane is one less to wait for at a vote or __syncwarp, as CUDA has
// it; a shuffle or mma that names one would read a value that nobody gave.
inline bool finish_complete(Worker &w, Warp &warp, int number) {
    const Gathering &gathering = warp.gatherings[number];
    unsigned missing = gathering.mask & ~gathering.arrived;
    if (gathering.kind == SYNCWARP || is_vote(gathering.kind)) missing &= warp.there & ~warp.exited;
    if (missing) return false;
    finish(w, warp, number);
    return true;
}

// No other lane of the warp can run: those that ask which lanes are active are the active ones.
inline bool gather_active(Worker &w, Warp &warp) {
    for (int i = 0; i < warp.gathered; i++) {
        if (warp.gatherings[i].kind != ACTIVEMASK) continue;
        finish(w, warp, i);
        return true;
    }
    return false;
}

inline void wait_at(Thread &thread, Primitive kind, unsigned mask, unsigned long long value, const Site &site) {
    thread.kind = kind;
    thread.mask = mask;
    thread.value = value;
    thread.site = site;
}

// The current lane waits for those that `mask` names. Divergent __syncwarp calls meet whatever their place.
inline unsigned long long meet(Primitive kind, unsigned mask, unsigned long long value, unsigned source,
                               const Site &site) {
    Worker &w = running(PRIMITIVES[kind]);
    Thread &thread = *w.current;
    Warp &warp = w.warp_states[thread.warp];
    wait_at(thread, kind, mask, value, site);
    thread.source = source;
    if (!(mask >> thread.lane & 1)) end_call(thread, "is called by", thread.lane, "name the calling lane in the mask");
    int number = 0;
    for (; number < warp.gathered; number++) {
        const Gathering &other = warp.gatherings[number];
        if (other.kind == kind && other.mask == mask && (kind == SYNCWARP || other.site == site)) break;
    }
    if (number == warp.gathered) warp.gatherings[warp.gathered++] = {kind, mask, 0, site};
    warp.gatherings[number].arrived |= 1u << thread.lane;
    finish_complete(w, warp, number);
    wait_turn(w);
    return thread.result;
}

inline void finish_barrier(Worker &w) {
    if (w.barrier_differs) end_barrier(w);
    Primitive kind = w.first_at_barrier->kind;
    w.at_barrier = 0;
    if (kind != SYNCTHREADS) {
        unsigned votes = 0;
        for (unsigned i = 0; i < w.threads; i++) {
            const Thread &thread = w.thread_states[i];
            bool exited = w.warp_states[thread.warp].exited >> thread.lane & 1;
            votes += !exited && thread.value != 0;
        }
        unsigned long long result = votes;
        if (kind == SYNCTHREADS_OR) result = votes != 0;
        if (kind == SYNCTHREADS_AND) result = votes == w.live;
        for (unsigned i = 0; i < w.threads; i++) w.thread_states[i].result = result;
    }
    bool shuffles = order_setting().order == SHUFFLE;
    if (shuffles) order_of(w.warp_of, w.warp_slot, w.warps, w.random);
    w.ready_warps = 0;
    for (unsigned i = 0; i < w.warps; i++) {
        Warp &warp = w.warp_states[i];
        unsigned lanes = unsigned(__builtin_popcount(warp.there));
        if (shuffles) order_of(warp.lane_of, warp.slot_of, lanes, w.random);
        make_all_ready(w, warp, warp.there & ~warp.exited);
    }
    w.warp = w.warp_of[__builtin_ctz(w.ready_warps)];
}

inline unsigned long long barrier(Primitive kind, unsigned long long value, const Site &site) {
    Worker &w = running(PRIMITIVES[kind]);
    Thread &thread = *w.current;
    wait_at(thread, kind, 0, value, site);
    if (w.at_barrier++ == 0) {
        w.first_at_barrier = &thread;
        w.barrier_differs = false;
    } else if (!alike(*w.first_at_barrier, thread)) {
        w.barrier_differs = true;
    }
    if (w.at_barrier == w.live) finish_barrier(w);
    wait_turn(w);
    return thread.result;
}

// The thread has returned from its kernel: nothing waits for it any more.
inline void leave(Worker &w, Thread &thread) {
    Warp &warp = w.warp_states[thread.warp];
    warp.exited |= 1u << thread.lane;
    w.live--;
    for (int i = warp.gathered - 1; i >= 0; i--) finish_complete(w, warp, i);
    if (w.at_barrier != 0 && w.at_barrier == w.live) finish_barrier(w);
}

}  // namespace logos_host
