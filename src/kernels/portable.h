/* portable.h -- ops that are called, in C99, for artefacts (td_export_c): the functions
 * that a graph needs are pasted into model.c. Each takes the tensors of its op, then
 * what the schema has of these: lists of integers, integers (with bools and dtypes) as
 * one array, floats; then the results. It returns 0, or 1 if an index is out of range.
 * Sizes and dtypes were checked when the graph was traced. What is here for f32
 * exists for f64 and i64 too (gen_helpers.c). The rows are in export/c_calls.c. */
#ifndef TD_OPS_PORTABLE_H
#define TD_OPS_PORTABLE_H

#include "kernels/fold_plain.h"

/* Independent iterations; an artefact's preamble defines it. */
#ifdef TD_SIMD
#else
#define TD_SIMD
#endif

/* A tensor: the address of its first element, bytes per element, sizes and strides. */
typedef struct td_c_array {
    char   *at;
    int     item, rank;
    int64_t size[8], stride[8];
} td_c_array;

/* A list of integers. */
typedef struct td_c_ints {
    const int64_t *v;
    int            n;
} td_c_ints;

/* ---- walking -------------------------------------------------------------- */

TD_M int64_t td_c_count(const td_c_array *a) {
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) n *= a->size[d];
    return n;
}

/* The next index of an array of these sizes, the last dim first. 0: that was the last.
 */
TD_M int td_c_next(int64_t *i, const td_c_array *a) {
    for (int d = a->rank - 1; d >= 0; d--) {
        if (++i[d] < a->size[d]) return 1;
        i[d] = 0;
    }
    return 0;
}

/* The element of index i. */
TD_M char *td_c_at(const td_c_array *a, const int64_t *i) {
    int64_t at = 0;
    for (int d = 0; d < a->rank; d++) at += i[d] * a->stride[d];
    return a->at + at * a->item;
}

/* An element of an array of i64 or i32 indices. */
TD_M int64_t td_c_index_at(const td_c_array *a, const int64_t *i) {
    const char *p = td_c_at(a, i);
    int64_t     wide;
    int32_t     narrow;
    if (a->item == 8) return __builtin_memcpy(&wide, p, 8), wide;
    return __builtin_memcpy(&narrow, p, 4), narrow;
}

TD_M void td_c_move(char *to, const char *from, int item) {
    if (item == 4) __builtin_memcpy(to, from, 4);
    else if (item == 8) __builtin_memcpy(to, from, 8);
    else __builtin_memcpy(to, from, (uint64_t)item);
}

/* A dim counted from the end, as one counted from the start. */
TD_M int td_c_dim(int64_t dim, const td_c_array *a) {
    return (int)(dim < 0 ? dim + a->rank : dim);
}

/* Moves n elements; strides in elements. */
TD_M_RUN void td_c_move_run(char *to, int64_t ts, const char *from, int64_t fs,
                            int64_t n, int item) {
    if (ts == 1 && fs == 1) __builtin_memcpy(to, from, (uint64_t)(n * item));
    else if (item == 4)
        for (int64_t k = 0; k < n; k++)
            __builtin_memcpy(to + k * ts * 4, from + k * fs * 4, 4);
    else
        for (int64_t k = 0; k < n; k++)
            td_c_move(to + k * ts * item, from + k * fs * item, item);
}

/* The array without its last dim: the first elements of its rows. *n and *stride are
 * those of a row. */
TD_M td_c_array td_c_rows_of(const td_c_array *a, int64_t *n, int64_t *stride) {
    td_c_array r = *a;
    if (r.rank > 0) r.rank--;
    *n = a->rank ? a->size[r.rank] : 1;
    *stride = a->rank ? a->stride[r.rank] : 1;
    return r;
}

/* Copies the elements of `from` to `to`, which has the same sizes. */
TD_M_RUN void td_c_copy(const td_c_array *from, const td_c_array *to) {
    int64_t    i[8] = {0}, n, fs, ts;
    td_c_array f = td_c_rows_of(from, &n, &fs), t = td_c_rows_of(to, &n, &ts);
    if (td_c_count(to) == 0) return;
    do td_c_move_run(td_c_at(&t, i), ts, td_c_at(&f, i), fs, n, to->item);
    while (td_c_next(i, &t));
}

/* ---- products ------------------------------------------------------------- */

/* Blocks: rows and columns of the result that are computed together in registers, and
 * inner elements and rows per pass. The buffer of a pass is td_c_inner x td_c_cols. */
#ifdef __AVX512F__
#define td_c_bytes 128
#else
#define td_c_bytes 64
#endif
#define td_c_cols_f32 (td_c_bytes / (int)sizeof(float))
#define td_c_rows 6
#define td_c_inner 128
#define td_c_pass 96

#define TD_C_FMA_f32(a, b, c) TD_FMAF(a, b, c)
#define TD_C_FMA_f64(a, b, c) TD_FMA(a, b, c)
#define TD_C_FMA_i64(a, b, c) ((a) * (b) + (c))
#define TD_C_GEMM_f32 cblas_sgemm
#define TD_C_GEMM_f64 cblas_dgemm

/* A matrix in memory: strides between rows and between columns, in elements. */
typedef struct td_c_matrix_f32 {
    float  *at;
    int64_t row, col;
} td_c_matrix_f32;

/* td_c_rows x td_c_cols elements of c, from n inner elements of a and the packed b. */
TD_M void td_c_tile_f32(const td_c_matrix_f32 *a, const float *b, int64_t n, float *c,
                        int64_t rows) {
    float        s[td_c_rows * td_c_cols_f32];
    const float *r[td_c_rows];
    for (int i = 0; i < td_c_rows; i++) r[i] = a->at + (i < rows ? i : 0) * a->row;
    for (int i = 0; i < td_c_rows * td_c_cols_f32; i++) s[i] = c[i];
    for (int64_t k = 0; k < n; k++, b += td_c_cols_f32)
        for (int i = 0; i < td_c_rows; i++) {
            const float x = r[i][k * a->col];
            TD_SIMD
            for (int j = 0; j < td_c_cols_f32; j++)
                s[i * td_c_cols_f32 + j] =
                    TD_C_FMA_f32(x, b[j], s[i * td_c_cols_f32 + j]);
        }
    for (int i = 0; i < td_c_rows * td_c_cols_f32; i++) c[i] = s[i];
}

/* A part of the product c = a b: rows from i, columns from j. */
typedef struct td_c_part_f32 {
    td_c_matrix_f32 a, b, c;
    int64_t         i, rows, j, cols, inner;
} td_c_part_f32;

/* Packs n rows of b from k on, td_c_cols wide. */
TD_M void td_c_pack_f32(const td_c_part_f32 *p, int64_t k, int64_t n, float *to) {
    for (int64_t r = 0; r < n; r++)
        for (int64_t j = 0; j < td_c_cols_f32; j++)
            to[r * td_c_cols_f32 + j] =
                j < p->cols ? p->b.at[(k + r) * p->b.row + (p->j + j) * p->b.col] : 0;
}

/* Adds n inner elements from k on to rows i to i + m. */
TD_M void td_c_rows_f32(const td_c_part_f32 *p, const float *pack, int64_t k, int64_t n,
                        int64_t i) {
    td_c_matrix_f32 x = {p->a.at + i * p->a.row + k * p->a.col, p->a.row, p->a.col};
    int64_t         m = p->i + p->rows - i;
    float          *to = p->c.at + i * p->c.row + p->j * p->c.col;
    float           t[td_c_rows * td_c_cols_f32];
    if (m > td_c_rows) m = td_c_rows;
    for (int e = 0; e < td_c_rows * td_c_cols_f32; e++) t[e] = 0;
    for (int64_t e = 0; k > 0 && e < m; e++)
        for (int64_t j = 0; j < p->cols; j++)
            t[e * td_c_cols_f32 + j] = to[e * p->c.row + j * p->c.col];
    td_c_tile_f32(&x, pack, n, t, m);
    for (int64_t e = 0; e < m; e++)
        for (int64_t j = 0; j < p->cols; j++)
            to[e * p->c.row + j * p->c.col] = t[e * td_c_cols_f32 + j];
}

/* One part; each element is summed in the order of the inner dim. */
TD_M void td_c_panel_f32(const td_c_part_f32 *p) {
    float pack[td_c_inner * td_c_cols_f32];
    for (int64_t k = 0; k < p->inner || k == 0; k += td_c_inner) {
        int64_t n = p->inner - k < td_c_inner ? p->inner - k : td_c_inner;
        td_c_pack_f32(p, k, n, pack);
        for (int64_t i = p->i; i < p->i + p->rows; i += td_c_rows)
            td_c_rows_f32(p, pack, k, n, i);
    }
}

/* c = a b for a of rows x inner and b of inner x cols. */
TD_M_RUN void td_c_product_f32(td_c_matrix_f32 a, td_c_matrix_f32 b, td_c_matrix_f32 c,
                               int64_t rows, int64_t cols, int64_t inner) {
#ifdef TD_CBLAS
    int ta = a.col != 1, tb = b.col != 1;
    if ((ta ? a.row : a.col) == 1 && (tb ? b.row : b.col) == 1 && c.col == 1 && inner) {
        int64_t la = ta ? a.col : a.row, lb = tb ? b.col : b.row, lc = c.row;
        la = la < (ta ? rows : inner) ? (ta ? rows : inner) : la;
        lb = lb < (tb ? inner : cols) ? (tb ? inner : cols) : lb;
        TD_C_GEMM_f32(CblasRowMajor, ta ? CblasTrans : CblasNoTrans,
                      tb ? CblasTrans : CblasNoTrans, (int)rows, (int)cols, (int)inner,
                      1, a.at, (int)la, b.at, (int)lb, 0, c.at,
                      (int)(lc < cols ? cols : lc));
        return;
    }
#endif
    int64_t down = (rows + td_c_pass - 1) / td_c_pass;
    int64_t across = (cols + td_c_cols_f32 - 1) / td_c_cols_f32;
#ifdef _OPENMP
#pragma omp parallel for schedule(static) if (rows * cols * inner > 100000)
#endif
    for (int64_t p = 0; p < down * across; p++) {
        td_c_part_f32 part = {a, b, c, p % down * td_c_pass, td_c_pass, 0, 0, inner};
        part.j = p / down * td_c_cols_f32;
        part.cols = cols - part.j < td_c_cols_f32 ? cols - part.j : td_c_cols_f32;
        if (rows - part.i < td_c_pass) part.rows = rows - part.i;
        td_c_panel_f32(&part);
    }
}

/* The last two dims of an array as a matrix. */
TD_M td_c_matrix_f32 td_c_last_f32(const td_c_array *a, int64_t batch) {
    td_c_matrix_f32 m;
    m.at =
        (float *)(void *)(a->at + (a->rank == 3 ? batch * a->stride[0] : 0) * a->item);
    m.row = a->stride[a->rank - 2];
    m.col = a->stride[a->rank - 1];
    return m;
}

TD_M_RUN int td_c_mm_f32(const td_c_array *a, const td_c_array *b,
                         const td_c_array *to) {
    td_c_product_f32(td_c_last_f32(a, 0), td_c_last_f32(b, 0), td_c_last_f32(to, 0),
                     a->size[0], b->size[1], a->size[1]);
    return 0;
}

TD_M_RUN int td_c_mm_for_f32(const td_c_array *a, const td_c_array *b,
                             const td_c_ints *lists, const td_c_array *to) {
    (void)lists;
    return td_c_mm_f32(a, b, to);
}

TD_M_RUN int td_c_bmm_f32(const td_c_array *a, const td_c_array *b,
                          const td_c_array *to) {
    for (int64_t k = 0; k < a->size[0]; k++)
        td_c_product_f32(td_c_last_f32(a, k), td_c_last_f32(b, k), td_c_last_f32(to, k),
                         a->size[1], b->size[2], a->size[2]);
    return 0;
}

#endif
