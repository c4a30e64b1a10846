// LOGOS_HOST_ORDER: the order in which a block's threads run between barriers, and a grid's blocks. A program that
// lacks a barrier gives other results in another order.
#pragma once

#include "fault.h"

namespace logos_host {

enum Order { FORWARD, REVERSE, SHUFFLE };

struct OrderSetting {
    Order order = FORWARD;
    unsigned long long seed = 0;
    OrderSetting() {
        const char *text = getenv("LOGOS_HOST_ORDER");
        if (text == nullptr || *text == 0 || strcmp(text, "forward") == 0) return;
        if (strcmp(text, "reverse") == 0) {
            order = REVERSE;
            return;
        }
        char *end = nullptr;
        if (strncmp(text, "shuffle:", 8) == 0) seed = strtoull(text + 8, &end, 10);
        if (end == nullptr || end == text + 8 || *end != 0) {
            Text what;
            what.add("LOGOS_HOST_ORDER is '%s'", text);
            end_with(what.characters, "set it to forward, reverse or shuffle:SEED, where SEED is a number");
        }
        order = SHUFFLE;
    }
};

inline const OrderSetting &order_setting() {
    static const OrderSetting setting;
    return setting;
}

// splitmix64 (Steele, Lea and Flood, 2014).
struct Random {
    unsigned long long state = 0;
    void seed(unsigned long long block) { state = order_setting().seed * 0x9e3779b97f4a7c15u ^ block; }
    unsigned long long next() {
        unsigned long long z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    }
};

// item_of[slot] is the slot'th of `count` items to run, slot_of its inverse.
inline void order_of(unsigned char *item_of, unsigned char *slot_of, unsigned count, Random &random) {
    Order order = order_setting().order;
    for (unsigned i = 0; i < count; i++) item_of[i] = (unsigned char)(order == REVERSE ? count - 1 - i : i);
    if (order == SHUFFLE) {
        for (unsigned i = count; i > 1; i--) {
            unsigned j = unsigned(random.next() % i);
            unsigned char item = item_of[i - 1];
            item_of[i - 1] = item_of[j];
            item_of[j] = item;
        }
    }
    for (unsigned i = 0; i < count; i++) slot_of[item_of[i]] = (unsigned char)i;
}

// The place'th of `blocks` blocks to run: a permutation that needs no table, place * factor + first.
struct BlockOrder {
    unsigned long long blocks, factor = 1, first = 0;
    explicit BlockOrder(unsigned long long blocks) : blocks(blocks) {
        if (order_setting().order != SHUFFLE) return;
        Random random;
        random.seed(blocks);
        first = random.next() % blocks;
        do factor = random.next() % blocks | 1;
        while (common(factor, blocks) != 1);
    }
    static unsigned long long common(unsigned long long a, unsigned long long b) {
        return b == 0 ? a : common(b, a % b);
    }
    unsigned long long at(unsigned long long place) const {
        if (order_setting().order == REVERSE) return blocks - 1 - place;
        return (unsigned long long)(((unsigned __int128)place * factor + first) % blocks);
    }
};

}  // namespace logos_host
