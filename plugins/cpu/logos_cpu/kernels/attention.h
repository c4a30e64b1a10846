// Rotary embedding and attention.
#pragma once

#include "common.h"

// Each run of `width` columns turns its first 2 * half elements in pairs (i, i + half); the rest passes through.
inline void rope(const Worker &w, const Real *q, const Real *cosines, const Real *sines, Real *y, Size rows,
                 Size columns, Size width, Size half, Size q_step, Size cos_step, Size sin_step) {
    const Range own = share(w, columns, width);
    for (Size r = 0; r < rows; r++) {
        const Real *cosine = cosines + r * cos_step, *sine = sines + r * sin_step;
        for (Size c = own.begin; c < own.end; c += width) {
            const Real *from = q + r * q_step + c;
            Real *to = y + r * columns + c;
            for (Size i = 0; i < half; i++) {
                const Real a = from[i], b = from[i + half];
                to[i] = Real(Sum(a) * Sum(cosine[i]) - Sum(b) * Sum(sine[i]));
                to[i + half] = Real(Sum(a) * Sum(sine[i]) + Sum(b) * Sum(cosine[i]));
            }
            for (Size i = 2 * half; i < width; i++) to[i] = from[i];
        }
    }
}

// The scores of KEYS rows of K. With PART, the width is no multiple of LANES.
template <int KEYS, bool PART>
void put_scores(const Real *q, const Real *k, Size step, Size width, Sum scale, Sum *scores) {
    Sums lanes[KEYS] = {};
    for (Size i = 0; i < width; i += LANES) {
        Sums a, b;
        load<PART>(q + i, width - i, a);
        for (int key = 0; key < KEYS; key++) load<PART>(k + key * step + i, width - i, b), lanes[key] += a * b;
    }
    for (int key = 0; key < KEYS; key++) scores[key] = total(lanes[key]) * scale;
}

// VECTORS * LANES columns of y, or with PART so many: rows of V by their weights.
template <int VECTORS, bool PART>
void put_values(const Real *v, Size step, const Sum *weights, Size stop, Sum inverse, Real *y, Size columns) {
    Sums sums[VECTORS] = {};
    for (Size p = 0; p < stop; p++)
        for (int i = 0; i < VECTORS; i++) {
            Sums row;
            load<PART>(v + p * step + i * LANES, columns - i * LANES, row);
            sums[i] += row * weights[p];
        }
    for (int i = 0; i < VECTORS; i++) {
        const Reals made = __builtin_convertvector(sums[i] * inverse, Reals);
        const Size left = columns - i * LANES;
        memcpy(y + i * LANES, &made, size_t(PART && left < LANES ? left : LANES) * sizeof(Real));
    }
}

// Scores as e^(score - the largest), and their sum. Beyond the scores there is room up to a multiple of LANES.
inline Sum soften(Sum *scores, Size count) {
    const Size room = (count + LANES - 1) / LANES * LANES;
    for (Size p = count; p < room; p++) scores[p] = -INFINITY;
    Sums each, most, sums = {};
    memcpy(&most, scores, sizeof most);
    for (Size p = LANES; p < room; p += LANES) {
        memcpy(&each, scores + p, sizeof each);
        most = each <= most ? most : each;
    }
    Sum largest = most[0];
    for (int j = 1; j < LANES; j++) largest = most[j] <= largest ? largest : most[j];
    for (Size p = 0; p < room; p++) scores[p] = exp_of(scores[p] - largest);
    for (Size p = 0; p < room; p += LANES) {
        memcpy(&each, scores + p, sizeof each);
        sums += each;
    }
    return total(sums);
}

template <bool PART>
void one_head_of(const Real *q, const Real *k, const Real *v, Real *y, Size stop, Size step, Size width, Sum scale,
                 Sum *scores) {
    const int KEYS = 4, VECTORS = 4;
    Size p = 0, i = 0;
    for (; p + KEYS <= stop; p += KEYS) put_scores<KEYS, PART>(q, k + p * step, step, width, scale, scores + p);
    for (; p < stop; p++) put_scores<1, PART>(q, k + p * step, step, width, scale, scores + p);
    const Sum inverse = Sum(1) / soften(scores, stop);
    for (; i + VECTORS * LANES <= width; i += VECTORS * LANES)
        put_values<VECTORS, false>(v + i, step, scores, stop, inverse, y + i, VECTORS * LANES);
    for (; i < width; i += LANES) put_values<1, PART>(v + i, step, scores, stop, inverse, y + i, width - i);
}

// One query head over `stop` rows of K and V, which lie `step` apart.
inline void one_head(const Real *q, const Real *k, const Real *v, Real *y, Size stop, Size step, Size width, Sum scale,
                     Sum *scores) {
    if (width % LANES == 0) one_head_of<false>(q, k, v, y, stop, step, width, scale, scores);
    else one_head_of<true>(q, k, v, y, stop, step, width, scale, scores);
}

// Row r reads the rows of K and V up to last[r], or without one all of them. Heads in groups share theirs.
inline void attention(const Worker &w, const Real *q, const Real *k, const Real *v, const Int *last, Real *y, Size rows,
                      Size table_rows, Size heads, Size groups, Size width, Size q_step, Size last_step) {
    const Size columns = heads * width, per = heads / groups;
    const Sum scale = Sum(1) / Sum(sqrt(double(width)));
    // Of one row threads share the columns; later rows see more, so of several the heads of each row are dealt out.
    const Range own = share(w, columns, width);
    for (Size r = 0; r < rows; r++) {
        Size stop = table_rows;
        if (last != nullptr) stop = checked_row(w, last[r * last_step], table_rows) + 1;
        if (stop <= 0) continue;
        for (Size head = 0; head < heads; head++) {
            const bool mine = rows == 1 ? head * width >= own.begin && head * width < own.end
                                        : (r * heads + head) % w.count == w.id;
            if (!mine) continue;
            const Size at = head / per * width;
            one_head(q + r * q_step + head * width, k + at, v + at, y + r * columns + head * width, stop, groups * width,
                     width, scale, reinterpret_cast<Sum *>(w.scratch));
        }
    }
}

// Each of `rows` rows over all of them, by head; `batches` of rows that do not see each other.
inline void full_attention(const Worker &w, const Real *q, const Real *k, const Real *v, Real *y, Size batches, Size rows,
                           Size heads, Size width, Size q_step, Size k_step, Size v_step) {
    const Size columns = heads * width;
    const Sum scale = Sum(1) / Sum(sqrt(double(width)));
    const Range own = share(w, columns, width);
    for (Size batch = 0; batch < batches; batch++)
        for (Size r = 0; r < rows; r++)
            for (Size c = own.begin; c < own.end; c += width)
                one_head(q + batch * q_step + r * columns + c, k + batch * k_step + c, v + batch * v_step + c,
                         y + (batch * rows + r) * columns + c, rows, columns, width, scale,
                         reinterpret_cast<Sum *>(w.scratch));
}
