// Normalizations of rows. Without heads every thread sums the whole row, which is cheaper than to meet, and makes its
// columns; across heads threads share the heads.
#pragma once

#include "common.h"

// Of x, or x + res: the sum of squares of a run.
inline double run_squares(const Real *x, const Real *res, Size n) {
    if (res == nullptr) return squares(x, n);
    double lanes[8] = {};
    Size i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) {
            const double both = double(x[i + j]) + double(res[i + j]);
            lanes[j] += both * both;
        }
    for (int j = 0; j < 8 && i + j < n; j++) {
        const double both = double(x[i + j]) + double(res[i + j]);
        lanes[j] += both * both;
    }
    return tree(lanes);
}

// Columns begin … end − 1 of a run times scale.
inline void run_scaled(const Real *x, const Real *res, const Real *weight, Real *y, Size begin, Size end, double scale) {
    for (Size c = begin; c < end; c++) {
        const double value = res == nullptr ? double(x[c]) : double(x[c]) + double(res[c]);
        y[c] = Real(weight == nullptr ? value * scale : value * scale * double(weight[c]));
    }
}

// y = x / sqrt(sum(x^2) / divisor + eps) [* weight]; a step of 0 repeats a row.
inline void norm_rows(const Worker &w, const Real *x, const Real *res, const Real *weight, Real *y, Size rows,
                      Size columns, Size x_step, Size res_step, Size weight_step, double divisor, double eps) {
    const Range own = share(w, columns, BLOCK);
    for (Size r = 0; r < rows; r++) {
        const Real *from = x + r * x_step, *more = res == nullptr ? nullptr : res + r * res_step;
        const double scale = 1.0 / sqrt(run_squares(from, more, columns) / divisor + eps);
        const Real *by = weight == nullptr ? nullptr : weight + r * weight_step;
        run_scaled(from, more, by, y + r * columns, own.begin, own.end, scale);
    }
}

// The same of each run of `width` columns.
inline void norm_heads(const Worker &w, const Real *x, const Real *res, const Real *weight, Real *y, Size rows,
                       Size columns, Size width, Size x_step, Size res_step, Size weight_step, double divisor,
                       double eps) {
    const Range own = share(w, columns, width);
    for (Size r = 0; r < rows; r++)
        for (Size c = own.begin; c < own.end; c += width) {
            const Real *from = x + r * x_step + c, *more = res == nullptr ? nullptr : res + r * res_step + c;
            const double scale = 1.0 / sqrt(run_squares(from, more, width) / divisor + eps);
            const Real *by = weight == nullptr ? nullptr : weight + r * weight_step;
            run_scaled(from, more, by, y + r * columns + c, 0, width, scale);
        }
}

inline void layernorm(const Worker &w, const Real *x, const Real *weight, const Real *bias, Real *y, Size rows,
                      Size columns, Size x_step, Size weight_step, Size bias_step, double eps) {
    const Range own = share(w, columns, BLOCK);
    for (Size r = 0; r < rows; r++) {
        const Real *from = x + r * x_step;
        double sum = 0, squared = 0;
        for (Size c = 0; c < columns; c++) sum += double(from[c]);
        const double mean = sum / double(columns);
        for (Size c = 0; c < columns; c++) squared += (double(from[c]) - mean) * (double(from[c]) - mean);
        const double scale = 1.0 / sqrt(squared / double(columns) + eps);
        for (Size c = own.begin; c < own.end; c++) {
            const double by = double(weight[r * weight_step + c]), add = double(bias[r * bias_step + c]);
            y[r * columns + c] = Real((double(from[c]) - mean) * scale * by + add);
        }
    }
}

inline void softmax(const Worker &w, const Real *x, Real *y, Size rows, Size columns) {
    const Range own = share(w, columns, BLOCK);
    for (Size r = 0; r < rows; r++) {
        const Real *from = x + r * columns;
        double largest = double(from[0]), sum = 0;
        for (Size c = 1; c < columns; c++) largest = fmax(largest, double(from[c]));
        for (Size c = 0; c < columns; c++) sum += exp(double(from[c]) - largest);
        for (Size c = own.begin; c < own.end; c++) y[r * columns + c] = Real(exp(double(from[c]) - largest) / sum);
    }
}
