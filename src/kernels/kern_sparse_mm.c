/* kern_sparse_mm.c -- products of sparse matrices. A row of the result is computed by
 * one thread, in the order of its entries, so that results do not depend on how many
 * there are. */
#include "ops/ops.h"

#include <string.h>

enum { COLS = 32, FEW = 8, TASK_NS = 20000 };

/* A call of _csr_mm; all arrays but crow are row-major. */
typedef struct csr_mm {
    const td_tensor *crow;
    const int64_t   *col;
    const void      *values, *b;
    void            *out;
    int64_t          rows, n; /* sizes of the result */
    int64_t          parts;   /* ranges of rows with about as many entries each */
    bool             wide;    /* f64 */
} csr_mm;

static inline int64_t start_of(const csr_mm *m, int64_t row) {
    return ((const int64_t *)(const void *)td__ptr(m->crow))[row * m->crow->stride[0]];
}

/* The first row of part p. */
static int64_t first_row(const csr_mm *m, int64_t p) {
    int64_t nnz = start_of(m, m->rows), low = 0, high = m->rows;
    int64_t want = p * (nnz / m->parts) + p * (nnz % m->parts) / m->parts;
    if (p == 0 || p == m->parts) return p ? m->rows : 0;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (start_of(m, mid) < want) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* Columns [j, j + w) of one row; a w known to the compiler keeps the sums in
 * registers. */
#define COLUMNS(T, NAME)                                                             \
    static inline __attribute__((always_inline)) void NAME(const csr_mm *m, T *out,  \
                                                           int64_t from, int64_t to, \
                                                           int64_t j, int64_t w) {   \
        const T *values = m->values, *b = m->b;                                      \
        T        acc[COLS] = {0};                                                    \
        for (int64_t k = from; k < to; k++) {                                        \
            const T *x = b + m->col[k] * m->n + j, v = values[k];                    \
            for (int64_t i = 0; i < w; i++) acc[i] += v * x[i];                      \
        }                                                                            \
        memcpy(out + j, acc, sizeof *acc * (size_t)w);                               \
    }
COLUMNS(float, columns_f32)
COLUMNS(double, columns_f64)

/* One row, in blocks of columns. */
#define ROW(T, NAME, PART)                                                   \
    static void NAME(const csr_mm *m, int64_t row) {                         \
        T      *out = (T *)m->out + row * m->n;                              \
        int64_t from = start_of(m, row), to = start_of(m, row + 1), j = 0;   \
        for (; m->n - j >= COLS; j += COLS) PART(m, out, from, to, j, COLS); \
        for (; m->n - j >= FEW; j += FEW) PART(m, out, from, to, j, FEW);    \
        if (j < m->n) PART(m, out, from, to, j, m->n - j);                   \
    }
ROW(float, row_f32, columns_f32)
ROW(double, row_f64, columns_f64)

static void run_parts(void *arg, int64_t begin, int64_t end) {
    const csr_mm *m = arg;
    for (int64_t r = first_row(m, begin); r < first_row(m, end); r++) {
        if (m->wide) row_f64(m, r);
        else row_f32(m, r);
    }
}

/* Entries and starts of rows are what the walk follows. */
static bool check(td_opcall *c, const csr_mm *m, int64_t nnz, int64_t limit) {
    int64_t was = 0;
    bool    good = m->rows >= 0 && start_of(m, 0) == 0 && start_of(m, m->rows) == nnz;
    for (int64_t r = 0; good && r <= m->rows; r++) {
        good = start_of(m, r) >= was;
        was = start_of(m, r);
    }
    if (!good)
        return td__op_fail(
            c, TD_E_INDEX,
            "the starts of rows of a sparse tensor must ascend from 0 to "
            "the number of entries, %lld",
            (long long)nnz);
    for (int64_t k = 0; k < nnz; k++)
        if (m->col[k] < 0 || m->col[k] >= limit)
            return td__op_fail(c, TD_E_INDEX,
                               "column %lld of entry %lld of a sparse tensor is out of "
                               "range for %lld columns",
                               (long long)m->col[k], (long long)k, (long long)limit);
    return true;
}

/* Is argument i row-major, as walks by pointers assume? */
static bool row_major(td_opcall *c, int i) {
    const td_tensor *t = td__in(c, i);
    return td__is_dense(t->rank, t->size, t->stride) ||
           td__op_fail(c, TD_E_ARG, "%s must be row-major (td_contiguous)",
                       c->info->s.in[i].name);
}

/* in: crow, col, values, b; the last three are row-major. */
bool td__kern_csr_mm(td_opcall *c) {
    for (int i = 1; i < 4; i++)
        if (!row_major(c, i)) return false;
    const td_tensor *col = td__in(c, 1), *b = td__in(c, 3);
    int64_t          nnz = col->size[0];
    csr_mm           m = {.crow = td__in(c, 0),
                          .col = (const int64_t *)(const void *)td__ptr(col),
                          .values = td__ptr(td__in(c, 2)),
                          .b = td__ptr(b),
                          .out = td__ptr(c->out[0]),
                          .rows = c->out[0]->size[0],
                          .n = b->size[1],
                          .wide = b->dtype == TD_F64};
    if (!check(c, &m, nnz, b->size[0])) return false;
    double ns = 5.0 * (double)nnz + 0.1 * (double)nnz * (double)m.n +
                0.2 * (double)c->out[0]->numel;
    m.parts = td__pool_threads(ns, m.rows > 0 ? m.rows : 1);
    td__pool_run(m.parts, 1, run_parts, &m);
    return true;
}

/* ---- sampled products --------------------------------------------------- */

typedef struct sampled {
    const int64_t *rows, *cols;
    const void    *x, *y;
    void          *out;
    int64_t        k; /* summed numbers */
    bool           wide;
} sampled;

enum { LANES = 16 };

/* Sums in LANES, then in order: as many additions in flight as registers allow. */
#define DOT(T, NAME)                                                       \
    static T NAME(const T *x, const T *y, int64_t n) {                     \
        T       acc[LANES] = {0}, sum = 0;                                 \
        int64_t i = 0;                                                     \
        for (; i + LANES <= n; i += LANES)                                 \
            for (int l = 0; l < LANES; l++) acc[l] += x[i + l] * y[i + l]; \
        for (int l = 0; l < LANES; l++) sum += acc[l];                     \
        for (; i < n; i++) sum += x[i] * y[i];                             \
        return sum;                                                        \
    }
DOT(float, dot_f32)
DOT(double, dot_f64)

static void run_sampled(void *arg, int64_t begin, int64_t end) {
    const sampled *s = arg;
    for (int64_t e = begin; e < end; e++) {
        int64_t r = s->rows[e] * s->k, q = s->cols[e] * s->k;
        if (s->wide)
            ((double *)s->out)[e] =
                dot_f64((const double *)s->x + r, (const double *)s->y + q, s->k);
        else
            ((float *)s->out)[e] =
                dot_f32((const float *)s->x + r, (const float *)s->y + q, s->k);
    }
}

static bool in_range(td_opcall *c, const int64_t *at, int64_t n, int64_t limit) {
    for (int64_t k = 0; k < n; k++)
        if (at[k] < 0 || at[k] >= limit)
            return td__op_fail(c, TD_E_INDEX,
                               "index %lld of entry %lld of a sparse tensor is out of "
                               "range for a dim of %lld",
                               (long long)at[k], (long long)k, (long long)limit);
    return true;
}

/* in: rows, cols, x, y, all row-major. */
bool td__kern_sampled_mm(td_opcall *c) {
    for (int i = 0; i < 4; i++)
        if (!row_major(c, i)) return false;
    const td_tensor *rows = td__in(c, 0), *x = td__in(c, 2), *y = td__in(c, 3);
    int64_t          n = rows->size[0];
    sampled          s = {.rows = (const int64_t *)(const void *)td__ptr(rows),
                          .cols = (const int64_t *)(const void *)td__ptr(td__in(c, 1)),
                          .x = td__ptr(x),
                          .y = td__ptr(y),
                          .out = td__ptr(c->out[0]),
                          .k = x->size[1],
                          .wide = x->dtype == TD_F64};
    if (!in_range(c, s.rows, n, x->size[0]) || !in_range(c, s.cols, n, y->size[0]))
        return false;
    int64_t grain = TASK_NS / (5 + s.k / 8) + 1;
    td__pool_run(n, grain, run_sampled, &s);
    return true;
}
