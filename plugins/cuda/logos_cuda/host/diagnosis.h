// Primitives that cannot complete, named: who waits where, and what those do that it waits for.
#pragma once

#include "block.h"

namespace logos_host {

inline void add_index(Text &text, const uint3 &index) { text.add("(%u, %u, %u)", index.x, index.y, index.z); }

// "kernel NAME, block (x, y, z), thread (x, y, z): "
inline void add_place(Text &text, const Worker &w, const Thread *thread) {
    text.add("kernel %s, block ", w.launch->name);
    add_index(text, block_index);
    if (thread != nullptr) {
        text.add(", thread ");
        add_index(text, thread->index);
    }
    text.add(": ");
}

inline void add_primitive(Text &text, Primitive kind, unsigned mask, const Site &site) {
    text.add("%s", PRIMITIVES[kind]);
    if (!is_barrier(kind) && kind != ACTIVEMASK && kind < MMA) text.add(" with mask 0x%08x", mask);
    text.add(" at %s:%d", site.file, site.line);
}

// Ends the program over one thread's call.
[[noreturn]] __attribute__((noinline)) inline void end_thread(const char *what, const char *next) {
    Text text;
    add_place(text, *worker, worker->current);
    text.add("%s", what);
    end_with(text.characters, next);
}

// "… reads lane 20, which the mask does not name". Out of line, as all that ends the program: a text on the stack of
// every thread that waits would cost each switch a page.
[[noreturn]] __attribute__((noinline)) inline void end_call(
    const Thread &thread, const char *does, unsigned lane, const char *next) {
    Text text;
    add_primitive(text, thread.kind, thread.mask, thread.site);
    text.add(" %s lane %u, which the mask does not name", does, lane);
    end_thread(text.characters, next);
}

[[noreturn]] __attribute__((noinline)) inline void end_outside(const char *primitive) {
    Text text;
    text.add("%s is called outside a kernel", primitive);
    end_with(text.characters, "call it from a kernel that LOGOS_LAUNCH starts");
}

inline bool alike(const Thread &a, const Thread &b) {
    return a.kind == b.kind && a.mask == b.mask && a.site == b.site;
}

// "3, 5 to 8" of a set of numbers below `count`; returns how many they are.
inline unsigned add_ranges(Text &text, const bool *set, unsigned count) {
    unsigned many = 0;
    for (unsigned i = 0; i < count; i++) {
        if (!set[i]) continue;
        unsigned last = i;
        while (last + 1 < count && set[last + 1]) last++;
        text.add(last == i ? "%s%u" : "%s%u to %u", many ? ", " : "", i, last);
        many += last - i + 1;
        i = last;
    }
    return many;
}

// One line for those of `set` (numbers from `first` in the block): "  lanes 3 to 5 have exited".
inline void add_line(Text &text, const char *noun, const bool *set, unsigned count, const char *one, const char *many) {
    Text ranges;
    unsigned found = add_ranges(ranges, set, count);
    if (found) text.add("\n  %s%s %s %s", noun, found == 1 ? "" : "s", ranges.characters, found == 1 ? one : many);
}

// A line for each primitive that threads of `among` (numbers from `first` in the block) wait at.
inline void add_waiting(Text &text, const Worker &w, const char *noun, bool *among, unsigned first, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        if (!among[i]) continue;
        const Thread &leader = w.thread_states[first + i];
        bool same[MOST_THREADS] = {};
        for (unsigned j = i; j < count; j++) {
            if (!among[j] || !alike(leader, w.thread_states[first + j])) continue;
            same[j] = true;
            among[j] = false;
        }
        Text at;
        add_primitive(at, leader.kind, leader.mask, leader.site);
        Text one, many;
        one.add("waits at %s", at.characters);
        many.add("wait at %s", at.characters);
        add_line(text, noun, same, count, one.characters, many.characters);
    }
}

[[noreturn]] __attribute__((noinline)) inline void end_gathering(const Worker &w, const Warp &warp, const Gathering &gathering) {
    unsigned first = unsigned(&warp - w.warp_states) * WARP;
    Text text;
    add_place(text, w, &w.thread_states[first + unsigned(__builtin_ctz(gathering.arrived))]);
    add_primitive(text, gathering.kind, gathering.mask, gathering.site);
    text.add(" waits for lanes that do not come");
    unsigned missing = gathering.mask & ~gathering.arrived;
    bool absent[WARP], exited[WARP], waiting[WARP];
    for (unsigned lane = 0; lane < WARP; lane++) {
        bool misses = missing >> lane & 1, there = warp.there >> lane & 1, gone = warp.exited >> lane & 1;
        absent[lane] = misses && !there;
        exited[lane] = misses && there && gone;
        waiting[lane] = misses && there && !gone;
    }
    add_line(text, "lane", absent, WARP, "is beyond the block's threads", "are beyond the block's threads");
    add_line(text, "lane", exited, WARP, "has exited", "have exited");
    add_waiting(text, w, "lane", waiting, first, WARP);
    end_with(text.characters,
             "let every lane that the mask names make this very call, or name only those that make it");
}

[[noreturn]] __attribute__((noinline)) inline void end_barrier(const Worker &w) {
    Text text;
    add_place(text, w, nullptr);
    text.add("its threads wait at different barriers");
    bool waiting[MOST_THREADS];
    for (unsigned i = 0; i < w.threads; i++) {
        const Thread &thread = w.thread_states[i];
        waiting[i] = !(w.warp_states[thread.warp].exited >> thread.lane & 1);
    }
    add_waiting(text, w, "thread", waiting, 0, w.threads);
    end_with(text.characters, "let every thread of the block reach the same barrier");
}

inline void nothing_is_ready(Worker &w) {
    for (unsigned i = 0; i < w.warps; i++) {
        if (w.warp_states[i].gathered) end_gathering(w, w.warp_states[i], w.warp_states[i].gatherings[0]);
    }
    end_barrier(w);
}

}  // namespace logos_host
