// Rows read and written by number, and the number of the largest element.
#pragma once

#include "common.h"

// `numbers` of null: the row is `literal`, which the checks held to the table.
inline Size row_of(const Worker &w, const Int *numbers, Size step, Size literal, Size rows) {
    return numbers == nullptr ? literal : checked_row(w, numbers[step], rows);
}

template <typename T>
void read_rows(const Worker &w, const Int *numbers, Size literal, const T *table, T *y, Size steps, Size rows,
               Size columns) {
    const Range own = share(w, columns, BLOCK);
    for (Size step = 0; step < steps; step++) {
        const Size row = row_of(w, numbers, step, literal, rows);
        if (row < 0) continue;
        for (Size c = own.begin; c < own.end; c++) y[step * columns + c] = table[row * columns + c];
    }
}

// Of a table in Q8_0, its rows as rows: quants, and a scale for each 32 of them.
inline void read_rows_q8(const Worker &w, const Int *numbers, Size literal, const Quant *quants, const Real *scales,
                         Real *y, Size steps, Size rows, Size columns) {
    const Range own = share(w, columns, BLOCK);
    for (Size step = 0; step < steps; step++) {
        const Size row = row_of(w, numbers, step, literal, rows);
        if (row < 0) continue;
        for (Size c = own.begin; c < own.end; c++)
            y[step * columns + c] = Real(quants[row * columns + c]) * scales[(row * columns + c) / BLOCK];
    }
}

template <typename T>
void set_rows(const Worker &w, const Int *numbers, Size literal, T *table, const T *values, Size steps, Size rows,
              Size columns, Size step_between) {
    const Range own = share(w, columns, BLOCK);
    for (Size step = 0; step < steps; step++) {
        const Size row = row_of(w, numbers, step, literal, rows);
        if (row < 0) continue;
        for (Size c = own.begin; c < own.end; c++) table[row * columns + c] = values[step * step_between + c];
    }
}

inline bool no_number(Real x) { return x != x; }
inline bool no_number(Int) { return false; }

// The first largest of each row: a thread's own columns, the places beside their values.
template <typename T>
void argmax_parts(const Worker &w, const T *x, T *values, Int *places, Size rows, Size columns) {
    const Range own = share(w, columns, BLOCK);
    for (Size r = 0; r < rows; r++) {
        const T *from = x + r * columns;
        Size best = own.begin;
        bool lost = false;
        for (Size c = own.begin; c < own.end; c += 64) {
            const Size end = c + 64 < own.end ? c + 64 : own.end;
            T lanes[8];
            for (int j = 0; j < 8; j++) lanes[j] = from[best];
            Size i = c;
            for (; i + 8 <= end; i += 8)
                for (int j = 0; j < 8; j++) {
                    lost |= no_number(from[i + j]);
                    lanes[j] = from[i + j] > lanes[j] ? from[i + j] : lanes[j];
                }
            bool above = false;
            for (int j = 0; j < 8; j++) above |= lanes[j] > from[best];
            for (; i < end; i++) {
                lost |= no_number(from[i]);
                above |= from[i] > from[best];
            }
            for (i = c; above && i < end; i++)
                if (from[i] > from[best]) best = i;
        }
        if (lost) w.report(FAULT_NAN, 0);
        if (own.begin >= own.end) continue;
        values[r * w.count + w.id] = from[best], places[r * w.count + w.id] = best;
    }
}

// The first of the largest of all threads' that had a part.
template <typename T>
void argmax_join(const Worker &w, const T *values, const Int *places, Int *y, Size rows, Size columns) {
    if (w.id != 0) return;
    for (Size r = 0; r < rows; r++) {
        const T *from = values + r * w.count;
        int best = -1;
        for (int t = 0; t < w.count; t++) {
            const Worker other = {t, w.count, 0, nullptr, nullptr, 0};
            const Range part = share(other, columns, BLOCK);
            if (part.begin < part.end && (best < 0 || from[t] > from[best])) best = t;
        }
        y[r] = places[r * w.count + best];
    }
}
