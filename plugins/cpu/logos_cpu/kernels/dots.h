// A tile's outputs for ROWS rows of activations at once, by what the processor has. Every level makes the same: of each
// block an exact sum, then in float sum + whole * (weight's scale * activation's scale), in the order of the blocks,
// without fused multiply-adds.
#pragma once

#include "common.h"
#include "half.h"

inline uint32_t four(const Quant *a) {
    uint32_t found;
    memcpy(&found, a, sizeof found);
    return found;
}

#if LOGOS_LEVEL == 3  // AVX-512 with VNNI: 16 outputs a register

inline __m512 scales_of(const Byte *block, int q) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(block + 32 * q)));
}

template <int ROWS>
void tile_dots(const Byte *tile, Size blocks, const Activations (&a)[ROWS], Real (*made)[TILE]) {
    const __m512i flip = _mm512_set1_epi8(-128);  // a weight plus 128, unsigned
    __m512 sums[ROWS][2];
    for (int r = 0; r < ROWS; r++) sums[r][0] = sums[r][1] = _mm512_setzero_ps();
    for (Size b = 0; b < blocks; b++, tile += TILE_BLOCK_BYTES) {
        __m512i whole[ROWS][2];
        for (int r = 0; r < ROWS; r++) whole[r][0] = whole[r][1] = _mm512_set1_epi32(a[r].offsets[b]);
        for (int g = 0; g < 8; g++) {
            const Byte *from = tile + 2 * TILE + g * 4 * TILE;
            const __m512i low = _mm512_xor_si512(_mm512_loadu_si512(from), flip);
            const __m512i high = _mm512_xor_si512(_mm512_loadu_si512(from + 64), flip);
            for (int r = 0; r < ROWS; r++) {
                const __m512i x = _mm512_set1_epi32(int(four(a[r].quants + b * BLOCK + 4 * g)));
                whole[r][0] = _mm512_dpbusd_epi32(whole[r][0], low, x);
                whole[r][1] = _mm512_dpbusd_epi32(whole[r][1], high, x);
            }
        }
        for (int q = 0; q < 2; q++) {
            const __m512 by = scales_of(tile, q);
            for (int r = 0; r < ROWS; r++) {
                const __m512 scale = _mm512_mul_ps(by, _mm512_set1_ps(a[r].scales[b]));
                sums[r][q] = _mm512_add_ps(sums[r][q], _mm512_mul_ps(_mm512_cvtepi32_ps(whole[r][q]), scale));
            }
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int q = 0; q < 2; q++) _mm512_storeu_ps(made[r] + 16 * q, sums[r][q]);
}

#elif LOGOS_LEVEL == 1 || LOGOS_LEVEL == 2  // AVX2, or with VNNI of 256 bits: 8 outputs a register

inline __m256 scales_of(const Byte *block, int q) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(block + 16 * q)));
}

// Four products a lane, added: the factor that an instruction takes as unsigned is a weight plus 128, and sums start at the
// offsets; without VNNI it is a weight's size, whose sign goes to the activation: so no sum of two passes 16 bits.
#if LOGOS_LEVEL == 2
inline __m256i start_of(const Activations &a, Size b) { return _mm256_set1_epi32(a.offsets[b]); }
inline __m256i size_of(__m256i weights) { return _mm256_xor_si256(weights, _mm256_set1_epi8(-128)); }
inline __m256i add_products(__m256i sum, __m256i size, __m256i, __m256i x) {
    return _mm256_dpbusd_avx_epi32(sum, size, x);
}
#else
inline __m256i start_of(const Activations &, Size) { return _mm256_setzero_si256(); }
inline __m256i size_of(__m256i weights) { return _mm256_abs_epi8(weights); }
inline __m256i add_products(__m256i sum, __m256i size, __m256i weights, __m256i x) {
    const __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(x, weights));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif

inline __m256i weights_of(const Byte *from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)); }

// One row: all four quarters of a tile side by side, in the order in which they lie.
inline void one_row(const Byte *tile, Size blocks, const Activations &a, Real *made) {
    __m256 sums[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    for (Size b = 0; b < blocks; b++, tile += TILE_BLOCK_BYTES) {
        const __m256i start = start_of(a, b);
        __m256i whole[4] = {start, start, start, start};
        for (int g = 0; g < 8; g++) {
            const Byte *from = tile + 2 * TILE + g * 4 * TILE;
            _mm_prefetch(reinterpret_cast<const char *>(from + 3 * TILE_BLOCK_BYTES), _MM_HINT_T0);
            _mm_prefetch(reinterpret_cast<const char *>(from + 3 * TILE_BLOCK_BYTES + 64), _MM_HINT_T0);
            const __m256i x = _mm256_set1_epi32(int(four(a.quants + b * BLOCK + 4 * g)));
            for (int q = 0; q < 4; q++) {
                const __m256i weights = weights_of(from + 32 * q);
                whole[q] = add_products(whole[q], size_of(weights), weights, x);
            }
        }
        const __m256 own = _mm256_set1_ps(a.scales[b]);
        for (int q = 0; q < 4; q++) {
            const __m256 scale = _mm256_mul_ps(scales_of(tile, q), own);
            sums[q] = _mm256_add_ps(sums[q], _mm256_mul_ps(_mm256_cvtepi32_ps(whole[q]), scale));
        }
    }
    for (int q = 0; q < 4; q++) _mm256_storeu_ps(made + 8 * q, sums[q]);
}

// Several rows: a quarter of a tile after the other, the weights of a quarter once for all rows.
template <int ROWS>
void tile_dots(const Byte *tile, Size blocks, const Activations (&a)[ROWS], Real (*made)[TILE]) {
    if (ROWS == 1) return one_row(tile, blocks, a[0], made[0]);
    for (int q = 0; q < 4; q++) {
        __m256 sums[ROWS];
        for (int r = 0; r < ROWS; r++) sums[r] = _mm256_setzero_ps();
        for (Size b = 0; b < blocks; b++) {
            const Byte *block = tile + b * TILE_BLOCK_BYTES;
            __m256i whole[ROWS];
            for (int r = 0; r < ROWS; r++) whole[r] = start_of(a[r], b);
            for (int g = 0; g < 8; g++) {
                const __m256i weights = weights_of(block + 2 * TILE + g * 4 * TILE + 32 * q);
                const __m256i size = size_of(weights);
                for (int r = 0; r < ROWS; r++) {
                    const __m256i x = _mm256_set1_epi32(int(four(a[r].quants + b * BLOCK + 4 * g)));
                    whole[r] = add_products(whole[r], size, weights, x);
                }
            }
            const __m256 by = scales_of(block, q);
            for (int r = 0; r < ROWS; r++) {
                const __m256 scale = _mm256_mul_ps(by, _mm256_set1_ps(a[r].scales[b]));
                sums[r] = _mm256_add_ps(sums[r], _mm256_mul_ps(_mm256_cvtepi32_ps(whole[r]), scale));
            }
        }
        for (int r = 0; r < ROWS; r++) _mm256_storeu_ps(made[r] + 8 * q, sums[r]);
    }
}

#elif LOGOS_LEVEL == 4  // NEON's dot product: 4 outputs a register

template <int ROWS>
void tile_dots(const Byte *tile, Size blocks, const Activations (&a)[ROWS], Real (*made)[TILE]) {
    for (int half = 0; half < 2; half++)
        for (int r = 0; r < ROWS; r++) {
            float32x4_t sums[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
            for (Size b = 0; b < blocks; b++) {
                const Byte *block = tile + b * TILE_BLOCK_BYTES;
                const Quant *quants = reinterpret_cast<const Quant *>(block) + 2 * TILE + 64 * half;
                int32x4_t whole[4] = {vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)};
                for (int g = 0; g < 8; g++) {
                    const int8x16_t x = vreinterpretq_s8_u32(vdupq_n_u32(four(a[r].quants + b * BLOCK + 4 * g)));
                    for (int q = 0; q < 4; q++)
                        whole[q] = vdotq_s32(whole[q], vld1q_s8(quants + g * 4 * TILE + 16 * q), x);
                }
                for (int q = 0; q < 4; q++) {
                    uint16x4_t bits;
                    memcpy(&bits, block + 32 * half + 8 * q, sizeof bits);
                    const float32x4_t by = vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(bits)), a[r].scales[b]);
                    sums[q] = vaddq_f32(sums[q], vmulq_f32(vcvtq_f32_s32(whole[q]), by));
                }
            }
            for (int q = 0; q < 4; q++) vst1q_f32(made[r] + 16 * half + 4 * q, sums[q]);
        }
}

#else  // plain C++

template <int ROWS>
void tile_dots(const Byte *tile, Size blocks, const Activations (&a)[ROWS], Real (*made)[TILE]) {
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < TILE; j++) made[r][j] = 0;
    for (Size b = 0; b < blocks; b++, tile += TILE_BLOCK_BYTES) {
        const Quant *quants = reinterpret_cast<const Quant *>(tile) + 2 * TILE;
        Real by[TILE];
        for (int j = 0; j < TILE; j++) {
            Half bits;
            memcpy(&bits, tile + 2 * j, sizeof bits);
            by[j] = half_value(bits);
        }
        for (int r = 0; r < ROWS; r++) {
            int whole[TILE] = {};
            for (int g = 0; g < 8; g++) {
                const Quant *x = a[r].quants + b * BLOCK + 4 * g, *from = quants + g * 4 * TILE;
                for (int j = 0; j < TILE; j++)
                    for (int i = 0; i < 4; i++) whole[j] += int(from[4 * j + i]) * int(x[i]);
            }
            for (int j = 0; j < TILE; j++) made[r][j] += Real(whole[j]) * (by[j] * a[r].scales[b]);
        }
    }
}

#endif
