/* strips.c -- products with packed strips at one CPU level. A block of rows times one
 * or two strips stays in registers for DEPTH steps of k; that part of the strips stays
 * in the L1 cache for all blocks of rows. */
#include "kernels/strips.h"

#include "kernels/loops/loops.h"

#include <string.h>

#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16, ROWS = 8, WIDE = 2 };
typedef __m512    vec;
static inline vec multiply_add(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(__FMA__)
enum { LANES = 8, ROWS = 6, WIDE = 1 };
typedef __m256    vec;
static inline vec multiply_add(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
#else
enum { LANES = 4, ROWS = 2, WIDE = 1 };
typedef float     vec __attribute__((vector_size(16)));
static inline vec multiply_add(vec a, vec b, vec c) { return a * b + c; }
#endif

enum { VECS = TD_STRIP / LANES, DEPTH = 256 };

/* Sums are registers only if every loop over them is unrolled, and if none is copied
 * with a size that varies. */
#define INLINE static inline __attribute__((always_inline))
#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

INLINE void load(vec *to, const float *from) {
    EACH(v, VECS) memcpy(&to[v], from + v * LANES, sizeof *to);
}

INLINE void store(float *to, const vec *from) {
    EACH(v, VECS) memcpy(to + v * LANES, &from[v], sizeof *from);
}

/* Rows [i, i + rows) and strips [j, j + wide) of C, for steps [from,to) of k. */
typedef struct place {
    int64_t i, j, from, to;
} place;

/* Row i and strip j of C. The last strip may have fewer columns. */
static inline float *cell(const td_strips *p, int64_t i, int64_t j, size_t *bytes) {
    int64_t n = p->n - j * TD_STRIP;
    *bytes = sizeof(float) * (size_t)(n < TD_STRIP ? n : TD_STRIP);
    return p->c + i * p->c_row + j * TD_STRIP;
}

INLINE void fetch(const td_strips *p, int64_t i, int64_t j, vec *sum) {
    float        some[TD_STRIP] = {0};
    size_t       bytes;
    const float *c = cell(p, i, j, &bytes);
    load(sum, bytes < sizeof some ? memcpy(some, c, bytes) : c);
}

INLINE void keep(const td_strips *p, int64_t i, int64_t j, const vec *sum) {
    float  some[TD_STRIP];
    size_t bytes;
    float *c = cell(p, i, j, &bytes);
    store(bytes < sizeof some ? some : c, sum);
    if (bytes < sizeof some) memcpy(c, some, bytes);
}

/* Called with constants for rows and wide. */
INLINE void block(const td_strips *p, place at, const int rows, const int wide) {
    vec          sum[ROWS][WIDE * VECS] = {{{0}}};
    const float *b[WIDE], *a = p->a + at.i * p->a_row + at.from * p->a_col;
    EACH(w, wide) b[w] = p->b + ((at.j + w) * p->k + at.from) * TD_STRIP;
    if (at.from)
        EACH(r, rows) EACH(w, wide) fetch(p, at.i + r, at.j + w, &sum[r][w * VECS]);
    for (int64_t k = at.from; k < at.to; k++, a += p->a_col) {
        vec x[WIDE * VECS];
        EACH(w, wide) {
            load(&x[w * VECS], b[w]);
            b[w] += TD_STRIP;
        }
        EACH(r, rows) {
            const vec y = a[r * p->a_row] - (vec){0};
            EACH(v, wide * VECS) sum[r][v] = multiply_add(y, x[v], sum[r][v]);
        }
    }
    EACH(r, rows) EACH(w, wide) keep(p, at.i + r, at.j + w, &sum[r][w * VECS]);
}

INLINE void some_rows(const td_strips *p, place at, int64_t rows, const int wide) {
    switch (rows) {
#if defined(__AVX512F__)
    case 8: block(p, at, 8, wide); break;
    case 7: block(p, at, 7, wide); break;
#endif
#if defined(__FMA__)
    case 6: block(p, at, 6, wide); break;
    case 5: block(p, at, 5, wide); break;
    case 4: block(p, at, 4, wide); break;
    case 3: block(p, at, 3, wide); break;
#endif
    case 2: block(p, at, 2, wide); break;
    default: block(p, at, 1, wide);
    }
}

void TD_ISA_NAME(td__strips)(const td_strips *p, int64_t from, int64_t to,
                             int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j += WIDE)
        for (int64_t k = 0; k == 0 || k < p->k; k += DEPTH)
            for (int64_t i = from; i < to; i += ROWS) {
                place   at = {i, j, k, p->k - k < DEPTH ? p->k : k + DEPTH};
                int64_t rows = to - i < ROWS ? to - i : ROWS;
                if (WIDE > 1 && j + 1 < end) some_rows(p, at, rows, WIDE);
                else some_rows(p, at, rows, 1);
            }
}
