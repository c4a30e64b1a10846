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

inline Sum score_of(const Real *q, const Real *k, Size width) {
    Sum lanes[16] = {};
    Size i = 0;
    for (; i + 16 <= width; i += 16)
        for (int j = 0; j < 16; j++) lanes[j] += Sum(q[i + j]) * Sum(k[i + j]);
    for (int j = 0; j < 16 && i + j < width; j++) lanes[j] += Sum(q[i + j]) * Sum(k[i + j]);
    for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; j++) lanes[j] += lanes[j + half];
    return lanes[0];
}

// One query head over `stop` rows of K and V, which lie `step` apart; `scores` has room for a score of each row and a
// head's sums.
inline void one_head(const Real *q, const Real *k, const Real *v, Real *y, Size stop, Size step, Size width, Sum scale,
                     Sum *scores) {
    Sum largest = -INFINITY, total = 0, *sums = scores + stop;
    for (Size p = 0; p < stop; p++) {
        const Sum score = score_of(q, k + p * step, width) * scale;
        scores[p] = score;
        largest = score > largest || score != score ? score : largest;
    }
    for (Size p = 0; p < stop; p++) scores[p] = exp_of(scores[p] - largest);
    for (Size p = 0; p < stop; p++) total += scores[p];
    for (Size i = 0; i < width; i++) sums[i] = 0;
    for (Size p = 0; p < stop; p++) {
        const Sum weight = scores[p];
        const Real *row = v + p * step;
        for (Size i = 0; i < width; i++) sums[i] += weight * Sum(row[i]);
    }
    for (Size i = 0; i < width; i++) y[i] = Real(sums[i] / total);
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
