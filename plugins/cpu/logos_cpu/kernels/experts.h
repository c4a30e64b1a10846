// Routed experts: of each row's experts the `top` with the largest scores, their SwiGLU, and the sum by their shares.
// Threads share the columns; an expert's weights are read once for all rows that chose it.
#pragma once

#include "matmul.h"
#include "q8.h"

// `chosen` and `shares` hold `top` of each row, best first, of equal scores the lower number first; shares sum to 1.
inline void choose_experts(const Worker &w, const Real *scores, Int *chosen, Real *shares, Size rows, Size experts,
                           Size top) {
    for (Size r = w.id; r < rows; r += w.count) {
        const Real *score = scores + r * experts;
        Int *own = chosen + r * top;
        double total = 0, lost = 0;
        for (Size place = 0; place < top; place++) {
            Size best = -1;
            for (Size e = 0; e < experts; e++) {
                bool taken = false;
                for (Size before = 0; before < place; before++) taken |= own[before] == e;
                if (!taken && (best < 0 || score[e] > score[best])) best = e;
            }
            own[place] = best;
        }
        // One score that is no number leaves none to any share, as a softmax over all of them does.
        for (Size e = 0; e < experts; e++) lost += score[e] == score[e] ? 0.0 : double(score[e]);
        for (Size place = 0; place < top; place++) total += exp(double(score[own[place]]) - double(score[own[0]]));
        for (Size place = 0; place < top; place++)
            shares[r * top + place] = Real(exp(double(score[own[place]]) - double(score[own[0]])) / total + lost);
    }
}

// The slots (row * top + place) that chose an expert, in order: how many, from `slots` on.
inline Size slots_of(const Int *chosen, Size count, Size expert, Size *slots) {
    Size found = 0;
    for (Size i = 0; i < count; i++)
        if (chosen[i] == expert) slots[found++] = i;
    return found;
}

inline Real swiglu(Real gate, Real up) { return Real(Sum(gate) * sigmoid_of(Sum(gate)) * Sum(up)); }

// hidden (rows, top, inner) = silu(G x) * U x, of weights of float32; expert e's rows start at e * inner.
inline void experts_hidden(const Worker &w, const Real *x, const Real *gate, const Real *up, const Int *chosen,
                           Real *hidden, Size rows, Size top, Size inner, Size width) {
    const Range own = share(w, inner, BLOCK);
    for (Size slot = 0; slot < rows * top; slot++)
        for (Size i = own.begin; i < own.end; i++) {
            const Size at = (chosen[slot] * inner + i) * width;
            const Real *from = x + slot / top * width;
            hidden[slot * inner + i] = swiglu(Real(dot(from, gate + at, width)), Real(dot(from, up + at, width)));
        }
}

// y (rows, width) = the sum over the chosen experts, in their order, of share * D h; D's rows start at e * width.
inline void experts_down(const Worker &w, const Real *hidden, const Real *down, const Int *chosen, const Real *shares,
                         Real *y, Size rows, Size top, Size inner, Size width) {
    const Range own = share(w, width, BLOCK);
    for (Size r = 0; r < rows; r++)
        for (Size c = own.begin; c < own.end; c++) {
            double sum = 0;
            for (Size slot = r * top; slot < (r + 1) * top; slot++)
                sum += double(shares[slot]) * dot(hidden + slot * inner, down + (chosen[slot] * width + c) * inner, inner);
            y[r * width + c] = Real(sum);
        }
}

// A tile of an expert: experts' rows begin a tile each.
inline const Byte *expert_tile(const Byte *tiles, Size expert, Size outputs, Size inputs, Size tile) {
    return tiles + (expert * ((outputs + TILE - 1) / TILE) + tile) * (inputs / BLOCK) * TILE_BLOCK_BYTES;
}

// One tile times the rows of `count` slots; `divide` slots in a row have one row of activations.
template <bool EXACT, typename Put>
void expert_product(const Byte *tile, Size k, const Real *x, const Activations &a, const Size *slots, Size count,
                    Size divide, const Put &put) {
    if (!EXACT)
        return tile_product(tile, k, a, count, [&](Size i) { return slots[i] / divide; }, put);
    for (Size i = 0; i < count; i++) {
        double sums[TILE];
        Real made[TILE];
        tile_exact(tile, k, x + slots[i] / divide * k, sums);
        for (int j = 0; j < TILE; j++) made[j] = Real(sums[j]);
        put(i, made);
    }
}

// The same as experts_hidden of weights in tiles, by x (EXACT) or by its quants. `ups` has room for a tile of each slot.
template <bool EXACT>
void experts_hidden_q8(const Worker &w, const Real *x, const Activations &a, const Byte *gate, const Byte *up,
                       const Int *chosen, Real *hidden, Size rows, Size top, Size inner, Size width, Size experts) {
    const Range own = share(w, inner, TILE);
    Size *slots = reinterpret_cast<Size *>(w.scratch);
    Real(*ups)[TILE] = reinterpret_cast<Real(*)[TILE]>(slots + rows * top);
    for (Size e = 0; e < experts; e++) {
        const Size count = slots_of(chosen, rows * top, e, slots);
        for (Size tile = own.begin / TILE; count > 0 && tile * TILE < own.end; tile++) {
            const Size left = inner - tile * TILE, many = left < TILE ? left : TILE;
            expert_product<EXACT>(expert_tile(up, e, inner, width, tile), width, x, a, slots, count, top,
                                  [&](Size i, const Real *made) { memcpy(ups[i], made, sizeof ups[i]); });
            expert_product<EXACT>(expert_tile(gate, e, inner, width, tile), width, x, a, slots, count, top,
                                  [&](Size i, const Real *made) {
                                      Real *to = hidden + slots[i] * inner + tile * TILE;
                                      for (Size j = 0; j < many; j++) to[j] = swiglu(made[j], ups[i][j]);
                                  });
        }
    }
}

// Every slot's D h, (rows, top, width): summed by experts_sum.
template <bool EXACT>
void experts_down_q8(const Worker &w, const Real *hidden, const Activations &a, const Byte *down, const Int *chosen,
                     Real *parts, Size rows, Size top, Size inner, Size width, Size experts) {
    const Range own = share(w, width, TILE);
    Size *slots = reinterpret_cast<Size *>(w.scratch);
    for (Size e = 0; e < experts; e++) {
        const Size count = slots_of(chosen, rows * top, e, slots);
        for (Size tile = own.begin / TILE; count > 0 && tile * TILE < own.end; tile++) {
            const Size left = width - tile * TILE, many = left < TILE ? left : TILE;
            expert_product<EXACT>(expert_tile(down, e, width, inner, tile), inner, hidden, a, slots, count, 1,
                                  [&](Size i, const Real *made) {
                                      memcpy(parts + slots[i] * width + tile * TILE, made, size_t(many) * sizeof(Real));
                                  });
        }
    }
}

inline void experts_sum(const Worker &w, const Real *parts, const Real *shares, Real *y, Size rows, Size top, Size width) {
    const Range own = share(w, width, BLOCK);
    for (Size r = 0; r < rows; r++)
        for (Size c = own.begin; c < own.end; c++) {
            double sum = 0;
            for (Size slot = r * top; slot < (r + 1) * top; slot++)
                sum += double(shares[slot]) * double(parts[slot * width + c]);
            y[r * width + c] = Real(sum);
        }
}
