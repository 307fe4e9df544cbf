/* transpose.c -- the transpose of a small block, for operands that lie across the
 * output. Elements of four bytes go by eights through registers; the others, which
 * are rarer, one by one. Every source line is read once, whatever the stride. */
#include "kernels/loops/loops.h"

#include <string.h>

typedef uint32_t v8 __attribute__((vector_size(32)));

/* Pairs, then pairs of pairs, then halves. x[j] holds row j, afterwards column j. */
static inline void turn8(v8 *x) {
    v8 t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            v8 a = t[i + h], b = t[i + h + 2];
            x[i + 2 * h] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
            x[i + 2 * h + 1] =
                __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
        }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        v8 a = x[i], b = x[i + 4];
        x[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
        x[i + 4] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* Eight by eight elements of four bytes. */
static inline void turn_block(td_block b) {
    v8 x[8];
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) memcpy(&x[j], b.src + j * b.src_step, sizeof x[j]);
    turn8(x);
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++) memcpy(b.dst + r * b.dst_step, &x[r], sizeof x[r]);
}

/* The block's part from row r and column j on. */
static inline td_block part(td_block b, int64_t r, int64_t j) {
    b.dst += r * b.dst_step + j * b.bytes;
    b.src += j * b.src_step + r * b.bytes;
    return b;
}

/* Element by element. */
static void turn_rest(int64_t rows, int64_t cols, td_block b) {
    for (int64_t j = 0; j < cols; j++)
        for (int64_t r = 0; r < rows; r++) {
            td_block e = part(b, r, j);
            switch (b.bytes) {
            case 1: *e.dst = *e.src; break;
            case 2: memcpy(e.dst, e.src, 2); break;
            case 4: memcpy(e.dst, e.src, 4); break;
            case 8: memcpy(e.dst, e.src, 8); break;
            default: memcpy(e.dst, e.src, 16); break;
            }
        }
}

void TD_ISA_NAME(td__transpose)(int64_t rows, int64_t cols, td_block b) {
    int64_t r8 = b.bytes == 4 ? rows & ~(int64_t)7 : 0,
            c8 = r8 ? cols & ~(int64_t)7 : 0;
    for (int64_t j = 0; j < c8; j += 8)
        for (int64_t r = 0; r < r8; r += 8) turn_block(part(b, r, j));
    if (c8 < cols) turn_rest(r8, cols - c8, part(b, 0, c8));
    if (r8 < rows) turn_rest(rows - r8, cols, part(b, r8, 0));
}
