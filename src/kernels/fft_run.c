/* fft_run.c -- executes plans of Fourier transforms. */
#include "kernels/fft.h"
#include "kernels/loops/loops.h"

#include <string.h>

/* From so many transforms on, and up to this size, they are computed side by side in
 * tiles. Fixed numbers: results must not depend on the width of vectors. */
enum { TILE_FROM = 8, TILE_SIZE = 2048, CHUNK_SIZE = 16384 };

typedef struct complex_f32 {
    float re, im;
} complex_f32;
typedef struct complex_f64 {
    double re, im;
} complex_f64;

#define T float
#define C complex_f32
#define NAME(x) x##_f32
#include "kernels/loops/fft_real.inc"
#undef T
#undef C
#undef NAME
#define T double
#define C complex_f64
#define NAME(x) x##_f64
#include "kernels/loops/fft_real.inc"
#undef T
#undef C
#undef NAME

static const td_fft_loops *loops_of(const td_fft_plan *p) {
    return &td__isa()->fft[p->dt == TD_F64];
}
static int64_t part_bytes(const td_fft_plan *p) { return td__dtype_bytes[p->dt]; }

/* Transform l of a side, and its elements from i on. */
static td_fft_side side_at(td_fft_side s, int64_t l, int64_t i) {
    int64_t at = l * s.lane + i * s.elem;
    s.re += at;
    if (s.im) s.im += at;
    return s;
}
static td_fft_side exchanged(td_fft_side s) {
    return (td_fft_side){s.im, s.re, s.elem, s.lane};
}
/* Rows of n complex elements at p. */
static td_fft_side rows_at(const td_fft_plan *p, void *at, int64_t n) {
    int64_t bytes = part_bytes(p);
    return (td_fft_side){at, (char *)at + bytes, 2 * bytes, 2 * bytes * n};
}

static bool by_tiles(const td_fft_plan *p, int64_t count) {
    return p->smooth && p->n <= TD_FFT_PASSES &&
           (!p->columns || (count >= TILE_FROM && p->n <= TILE_SIZE));
}

/* Whole tiles, and enough of small sizes. */
int64_t td__fft_chunk(const td_fft_plan *p) {
    int64_t tiles = CHUNK_SIZE / (p->n * TD_FFT_LANES);
    if (p->convolution) return td__fft_chunk(p->convolution);
    if (!by_tiles(p, TD_FFT_LANES)) return 1;
    return TD_FFT_LANES * (tiles > 1 ? tiles : 1);
}

/* ---- tiles ------------------------------------------------------------------- */

static size_t work_bytes(const td_fft_plan *p) {
    return (size_t)(4 * (p->n + 1) * loops_of(p)->lanes * part_bytes(p));
}

static bool run_tiles(const td_fft_plan *p, const td_fft_job *j) {
    const td_fft_loops *loops = loops_of(p);
    td_fft_tile         t = {.n = p->n, .n_pass = p->n_pass, .pass = p->pass};
    t.kind = j->kind;
    t.real = p->real;
    t.scale = j->scale;
    t.work = td__block_alloc(work_bytes(p));
    if (!t.work) return false;
    for (int64_t l = 0; l < j->count; l += loops->lanes) {
        t.in = side_at(j->in, l, 0);
        t.out = side_at(j->out, l, 0);
        t.lanes = j->count - l < loops->lanes ? j->count - l : loops->lanes;
        loops->tile(&t);
    }
    td__block_free(t.work, work_bytes(p));
    return true;
}

/* ---- a matrix ---------------------------------------------------------------- */

/* Columns of the matrix of one transform, to the same places of m. */
static bool run_columns(const td_fft_plan *p, td_fft_side in, char *m) {
    const td_fft_plan  *c = p->columns;
    const td_fft_loops *loops = loops_of(p);
    int64_t             bytes = part_bytes(p), cols = p->rows->n;
    td_fft_tile         t = {.n = c->n, .n_pass = c->n_pass, .pass = c->pass};
    t.scale = 1;
    t.work = td__block_alloc(work_bytes(c));
    if (!t.work) return false;
    for (int64_t l = 0; l < cols; l += loops->lanes) {
        t.in = side_at(in, 0, l);
        t.in.elem = cols * in.elem;
        t.in.lane = in.elem;
        t.out = (td_fft_side){m, m + bytes, 2 * bytes * cols, 2 * bytes};
        t.out = side_at(t.out, l, 0);
        t.lanes = cols - l < loops->lanes ? cols - l : loops->lanes;
        t.coarse = (char *)p->coarse + l / TD_FFT_LANES * c->n * 2 * bytes;
        t.fine = (char *)p->fine + l % TD_FFT_LANES * bytes;
        loops->tile(&t);
    }
    td__block_free(t.work, work_bytes(c));
    return true;
}

static bool run_matrix(const td_fft_plan *p, const td_fft_job *j) {
    size_t     bytes = 2 * (size_t)p->n * (size_t)part_bytes(p);
    int64_t    rows = p->columns->n;
    char      *m = td__block_alloc(bytes);
    bool       ok = m != NULL;
    td_fft_job by_row = {.count = rows, .scale = j->scale};
    for (int64_t l = 0; ok && l < j->count; l++) {
        by_row.in = rows_at(p, m, p->rows->n);
        by_row.out = side_at(j->out, l, 0);
        by_row.out.elem = rows * j->out.elem;
        by_row.out.lane = j->out.elem;
        ok = run_columns(p, side_at(j->in, l, 0), m) && td__fft_run(p->rows, &by_row);
    }
    if (m) td__block_free(m, bytes);
    return ok;
}

/* ---- Bluestein's algorithm ---------------------------------------------------- */

/* Between layouts, times scale. Where a side has no imaginary part it is 0. */
#define COPY(T, name)                                                       \
    static void name(td_fft_side in, td_fft_side out, int64_t n, T scale) { \
        for (int64_t i = 0; i < n; i++) {                                   \
            T re, im = 0;                                                   \
            memcpy(&re, in.re + i * in.elem, sizeof re);                    \
            if (in.im) memcpy(&im, in.im + i * in.elem, sizeof im);         \
            re *= scale;                                                    \
            im *= scale;                                                    \
            memcpy(out.re + i * out.elem, &re, sizeof re);                  \
            if (out.im) memcpy(out.im + i * out.elem, &im, sizeof im);      \
        }                                                                   \
    }
COPY(float, copy_f32)
COPY(double, copy_f64)
#undef COPY

static void copy_elements(const td_fft_plan *p, td_fft_side in, td_fft_side out,
                          int64_t n, double scale) {
    if (p->dt == TD_F64) copy_f64(in, out, n, scale);
    else copy_f32(in, out, n, (float)scale);
}

/* Are elements one after the other, each a pair? */
static bool is_packed(const td_fft_plan *p, const td_fft_side *s) {
    return s->im == s->re + part_bytes(p) && s->elem == 2 * part_bytes(p);
}

/* Products of one transform with a table of n pairs, times scale. work: n pairs. */
static void multiply(const td_fft_plan *p, td_fft_side in, const void *pairs,
                     td_fft_side out, double scale, void *work) {
    const td_fft_loops *loops = loops_of(p);
    td_fft_side         own = rows_at(p, work, 0);
    if (!is_packed(p, &in)) {
        copy_elements(p, in, own, p->n, 1);
        in = own;
    }
    void *to = is_packed(p, &out) ? out.re : work;
    loops->multiply(p->n, in.re, pairs, to, scale);
    if (to == work) copy_elements(p, own, out, p->n, 1);
}

/* X[k] = chirp[k] * sum of x[j] chirp[j] / chirp[k - j]. */
static bool run_convolution(const td_fft_plan *p, const td_fft_job *j) {
    int64_t     m = p->convolution->n, chunk = td__fft_chunk(p->convolution);
    int64_t     row = 2 * m * part_bytes(p), used = 2 * p->n * part_bytes(p);
    size_t      bytes = (size_t)((chunk + 1) * row);
    char       *x = td__block_alloc(bytes), *work = x + chunk * row;
    bool        ok = x != NULL;
    td_fft_side own = rows_at(p, x, m);
    for (int64_t l = 0; ok && l < j->count; l += chunk) {
        int64_t    count = j->count - l < chunk ? j->count - l : chunk;
        td_fft_job job = {.in = own, .out = own, .count = count, .scale = 1};
        for (int64_t i = 0; i < count; i++) {
            multiply(p, side_at(j->in, l + i, 0), p->chirp, side_at(own, i, 0), 1,
                     work);
            memset(x + i * row + used, 0, (size_t)(row - used));
        }
        ok = td__fft_run(p->convolution, &job);
        for (int64_t i = 0; ok && i < count; i++)
            loops_of(p)->multiply(m, x + i * row, p->kernel, x + i * row, 1);
        job.in = job.out = exchanged(own);
        ok = ok && td__fft_run(p->convolution, &job);
        for (int64_t i = 0; ok && i < count; i++)
            multiply(p, side_at(own, i, 0), p->chirp, side_at(j->out, l + i, 0),
                     j->scale / (double)m, work);
    }
    if (x) td__block_free(x, bytes);
    return ok;
}

/* ---- real numbers, one transform after the other -------------------------------- */

static bool run_complex(const td_fft_plan *p, const td_fft_job *j) {
    if (by_tiles(p, j->count)) return run_tiles(p, j);
    return p->columns ? run_matrix(p, j) : run_convolution(p, j);
}

static bool run_real(const td_fft_plan *p, const td_fft_job *j) {
    size_t      bytes = 2 * (size_t)(p->n + 1) * (size_t)part_bytes(p);
    char       *x = td__block_alloc(bytes);
    bool        ok = x != NULL, forward = j->kind == TD_FFT_REAL_TO_HALF;
    td_fft_side own = rows_at(p, x, p->n + 1);
    for (int64_t l = 0; ok && l < j->count; l++) {
        td_fft_side in = side_at(j->in, l, 0), out = side_at(j->out, l, 0);
        td_fft_job  job = {.count = 1, .in = own, .out = out, .scale = j->scale};
        if (forward) {
            job = (td_fft_job){.count = 1, .in = in, .out = own, .scale = 1};
            ok = run_complex(p, &job);
            if (ok && p->dt == TD_F64) spectrum_of_pairs_f64(p->n, (void *)x, p->real);
            else if (ok) spectrum_of_pairs_f32(p->n, (void *)x, p->real);
            if (ok) copy_elements(p, own, out, p->n + 1, j->scale);
        } else {
            copy_elements(p, in, own, p->n + 1, 1);
            if (p->dt == TD_F64) pairs_of_spectrum_f64(p->n, (void *)x, p->real);
            else pairs_of_spectrum_f32(p->n, (void *)x, p->real);
            ok = run_complex(p, &job);
        }
    }
    if (x) td__block_free(x, bytes);
    return ok;
}

bool td__fft_run(const td_fft_plan *p, const td_fft_job *j) {
    if (j->kind == TD_FFT_COMPLEX || by_tiles(p, j->count)) return run_complex(p, j);
    return run_real(p, j);
}
