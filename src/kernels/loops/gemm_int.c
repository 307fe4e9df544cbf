/* gemm_int.c -- integer products on packed words, at one CPU level.
 * A block of four rows and a strip of columns stays in registers down all of k.
 * Vector types make the register block explicit. */
#include "kernels/gemm_int.h"

#include "kernels/loops/loops.h"

#include <string.h>

typedef uint32_t v_u32 __attribute__((vector_size(64)));
typedef uint64_t v_u64 __attribute__((vector_size(64)));

enum { ROWS = 4, U32_VECS = TD_GEMM_STRIP / 16, U64_LANES = 8, U64_VECS = 2 };

/* One strip of up to four rows; rows past the last repeat it and are not kept. */
static void strip_u32(const td_gemm_tile *t, int64_t i, int64_t rows, int64_t j) {
    const uint32_t *a[ROWS], *b = (const uint32_t *)t->b + j;
    v_u32           s[ROWS][U32_VECS] = {{{0}}};
    for (int r = 0; r < ROWS; r++)
        a[r] = (const uint32_t *)t->a + (i + (r < rows ? r : rows - 1)) * t->k;
    for (int64_t k = 0; k < t->k; k++, b += t->ld) {
        v_u32 x, y;
        memcpy(&x, b, sizeof x);
        memcpy(&y, b + 16, sizeof y);
        for (int r = 0; r < ROWS; r++) {
            s[r][0] += x * a[r][k];
            s[r][1] += y * a[r][k];
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        uint32_t *c = (uint32_t *)t->c + (i + r) * t->ld + j;
        v_u32     old[U32_VECS];
        memcpy(old, c, sizeof old);
        for (int v = 0; t->add && v < U32_VECS; v++) s[r][v] += old[v];
        memcpy(c, s[r], sizeof s[r]);
    }
}

/* As strip_u32, with half the lanes. */
static void strip_u64(const td_gemm_tile *t, int64_t i, int64_t rows, int64_t j) {
    const uint64_t *a[ROWS], *b = (const uint64_t *)t->b + j;
    v_u64           s[ROWS][U64_VECS] = {{{0}}};
    for (int r = 0; r < ROWS; r++)
        a[r] = (const uint64_t *)t->a + (i + (r < rows ? r : rows - 1)) * t->k;
    for (int64_t k = 0; k < t->k; k++, b += t->ld) {
        v_u64 x, y;
        memcpy(&x, b, sizeof x);
        memcpy(&y, b + U64_LANES, sizeof y);
        for (int r = 0; r < ROWS; r++) {
            s[r][0] += x * a[r][k];
            s[r][1] += y * a[r][k];
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        uint64_t *c = (uint64_t *)t->c + (i + r) * t->ld + j;
        v_u64     old[U64_VECS];
        memcpy(old, c, sizeof old);
        for (int v = 0; t->add && v < U64_VECS; v++) s[r][v] += old[v];
        memcpy(c, s[r], sizeof s[r]);
    }
}

void TD_ISA_NAME(td__gemm_rows_u32)(void *tile, int64_t begin, int64_t end) {
    const td_gemm_tile *t = tile;
    for (int64_t j = 0; j < t->ld; j += 16 * U32_VECS)
        for (int64_t i = begin; i < end; i += ROWS)
            strip_u32(t, i, end - i < ROWS ? end - i : ROWS, j);
}

void TD_ISA_NAME(td__gemm_rows_u64)(void *tile, int64_t begin, int64_t end) {
    const td_gemm_tile *t = tile;
    for (int64_t j = 0; j < t->ld; j += U64_LANES * U64_VECS)
        for (int64_t i = begin; i < end; i += ROWS)
            strip_u64(t, i, end - i < ROWS ? end - i : ROWS, j);
}
