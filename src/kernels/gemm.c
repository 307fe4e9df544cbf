/* gemm.c -- one matrix product: normalize the layout, pick a library, split.
 * Libraries run on one thread each and are called from our pool on blocks. Takes
 * f32 and f64 whose layouts a library reads in place; gemm_pack.c has the rest. */
#include "kernels/gemm.h"

#include "base/base.h"
#include "core/cpu.h"
#include "kernels/blas_setup.h"

#include <cblas.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

/* Multiply-adds, so half the flops. */
enum {
    SPLIT_WORK = 1 << 17,      /* less is run by the caller alone: about 2 us */
    SMALL_WORK = 64 * 64 * 64, /* up to here OpenBLAS beats dnnl_sgemm's 0.3 us */
    BATCH_WORK = 24 * 24 * 24, /* from here one matmul primitive for a batch */
    THIN_WORK = 1 << 20,       /* from here one for some rows: it takes 1 us to run */
    VECTOR_WORK = 1 << 16,     /* matrix elements worth a thread of their own */
    ROW_GRAIN = 8,
    COL_GRAIN = 16
};

/* A product whose operands a library reads in place: C is row-major, or a column; A and
 * B are row-major or transposed, with leading dimensions. */
typedef struct job {
    td_gemm g;
    bool    ta, tb;
    int     lda, ldb, ldc;
    bool    by_cols;     /* cut n instead of m */
    bool    small;       /* OpenBLAS, whatever the size */
    int64_t parts, step; /* of one batch item */
} job;

/* One block of one batch item. */
typedef struct block {
    int64_t     m, n;
    const char *a, *b;
    char       *c;
} block;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Bytes of an element of what a library multiplies. */
static int64_t item_of(td_dtype dt) {
    return dt == TD_F32 ? 4 : dt == TD_C128 ? 16 : 8;
}
static bool is_complex(td_dtype dt) { return dt == TD_C64 || dt == TD_C128; }

/* ---- layout ------------------------------------------------------------- */

/* Can rows x cols with these strides be read as row-major? Gives its leading
 * dimension. Strides of dimensions of size one do not matter. */
static bool leading(int64_t rows, int64_t cols, int64_t row, int64_t col, int *ld) {
    if (col != 1 && cols != 1) return false;
    if (rows == 1) row = cols;
    if (row < cols || row > INT_MAX) return false;
    *ld = (int)row;
    return true;
}

/* C^T = B^T @ A^T, by exchanging strides. */
static void transpose(td_gemm *g) {
    td_gemm t = *g;
    g->m = t.n, g->n = t.m;
    g->a = t.b, g->a_row = t.b_col, g->a_col = t.b_row, g->a_batch = t.b_batch;
    g->b = t.a, g->b_row = t.a_col, g->b_col = t.a_row, g->b_batch = t.a_batch;
    g->c_row = t.c_col, g->c_col = t.c_row;
}

/* A batch that shares one operand and runs on evenly in the other is one taller
 * or wider product, as in a linear layer over [B,T,C]. */
static void fold_batch(td_gemm *g) {
    if (g->batch == 1) return;
    if (g->b_batch == 0 && g->a_batch == g->m * g->a_row &&
        g->c_batch == g->m * g->c_row) {
        g->m *= g->batch;
        g->batch = 1;
    } else if (g->a_batch == 0 && g->b_batch == g->n * g->b_col &&
               g->c_batch == g->n * g->c_col) {
        g->n *= g->batch;
        g->batch = 1;
    }
}

/* Brings the product into the form of `job` by exchanging operands; false: an operand
 * must be packed first. */
static bool plain(job *j) {
    td_gemm *g = &j->g;
    fold_batch(g);
    if (g->m > INT_MAX || g->n > INT_MAX || g->k > INT_MAX) return false;
    if (g->m == 1 && g->n != 1) transpose(g);
    if (!leading(g->m, g->n, g->c_row, g->c_col, &j->ldc)) {
        transpose(g);
        if (!leading(g->m, g->n, g->c_row, g->c_col, &j->ldc)) return false;
    }
    j->ta = !leading(g->m, g->k, g->a_row, g->a_col, &j->lda);
    if (j->ta && !leading(g->k, g->m, g->a_col, g->a_row, &j->lda)) return false;
    j->tb = !leading(g->k, g->n, g->b_row, g->b_col, &j->ldb);
    return !j->tb || leading(g->n, g->k, g->b_col, g->b_row, &j->ldb);
}

/* ---- matmul primitives -------------------------------------------------- */

#if TD_HAVE_DNNL
enum {
    KEY_KIND,
    KEY_BATCH,
    KEY_M,
    KEY_N,
    KEY_K,
    KEY_A,
    KEY_B = 8,
    KEY_C = 11,
    KEY_SUM = 14
};

/* Three strides at v, sizes d; a batch stride of 0 is a batch of one. */
static bool describe(td_md *md, const int64_t d[3], const int64_t v[3]) {
    dnnl_dims_t dims = {v[0] ? d[0] : 1, d[1], d[2]}, strides = {v[0], v[1], v[2]};
    if (v[0] == 0) strides[0] = d[1] * d[2];
    return td__md_strided(md, 3, dims, strides);
}

/* Fills in a matmul primitive for its key: f32, C (+)= A B. */
static bool build_batch(td_prim *p, dnnl_engine_t eng, dnnl_primitive_attr_t attr,
                        dnnl_primitive_desc_t *pd) {
    const int64_t *v = p->key.v;
    const int64_t  a[3] = {v[KEY_BATCH], v[KEY_M], v[KEY_K]};
    const int64_t  b[3] = {v[KEY_BATCH], v[KEY_K], v[KEY_N]};
    const int64_t  c[3] = {v[KEY_BATCH], v[KEY_M], v[KEY_N]};
    td_md         *md = p->outer;
    if (!describe(&md[TD_PRIM_A], a, v + KEY_A) ||
        !describe(&md[TD_PRIM_B], b, v + KEY_B) ||
        !describe(&md[TD_PRIM_OUT], c, v + KEY_C))
        return false;
    for (int i = TD_PRIM_A; i <= TD_PRIM_OUT; i++)
        if (!td__md_copy(&p->inner[i], td__md(&md[i]))) return false;
    p->arg[TD_PRIM_A] = DNNL_ARG_SRC;
    p->arg[TD_PRIM_B] = DNNL_ARG_WEIGHTS;
    p->arg[TD_PRIM_OUT] = DNNL_ARG_DST;
    if (v[KEY_SUM]) {
        dnnl_post_ops_t ops;
        if (dnnl_post_ops_create(&ops)) return false;
        bool ok = td__dnnl_add_sum(ops) && !dnnl_primitive_attr_set_post_ops(attr, ops);
        dnnl_post_ops_destroy(ops);
        if (!ok) return false;
    }
    return td__dnnl_matmul(pd, eng, td__md(&md[TD_PRIM_A]), td__md(&md[TD_PRIM_B]),
                           td__md(&md[TD_PRIM_OUT]), attr);
}

/* `batch` items, or blocks of them, of k->m x k->n; false: do it otherwise. */
static bool run_prim(const job *j, const block *k, int64_t batch) {
    const td_gemm *g = &j->g;
    if (g->dtype != TD_F32 || g->alpha != 1 || (g->beta != 0 && g->beta != 1))
        return false;
    bool        many = batch > 1;
    td_prim_key key = {{'m', batch, k->m, k->n, g->k, many ? g->a_batch : 0,
                        j->ta ? 1 : j->lda, j->ta ? j->lda : 1, many ? g->b_batch : 0,
                        j->tb ? 1 : j->ldb, j->tb ? j->ldb : 1, many ? g->c_batch : 0,
                        j->ldc, 1, g->beta != 0}};
    td_prim    *p = td__prim_get(&key, build_batch);
    if (!p) return false;
    bool ok = td__prim_run(p, (void *[]){(void *)(uintptr_t)k->a,
                                         (void *)(uintptr_t)k->b, k->c, NULL});
    td__prim_put(p);
    return ok;
}
#else
static bool run_prim(const job *j, const block *k, int64_t batch) {
    (void)j, (void)k, (void)batch;
    return false;
}
#endif

/* ---- one block ---------------------------------------------------------- */

/* y = A x + beta y for n == 1. y is scaled here and not by the library, which differs
 * about a beta of 0 and of NaN: 0 does not read y, NaN makes it NaN. */
static void vector_block(const job *j, const block *k) {
    const td_gemm        *g = &j->g;
    const CBLAS_TRANSPOSE t = j->ta ? CblasTrans : CblasNoTrans;
    const int rows = (int)(j->ta ? g->k : k->m), cols = (int)(j->ta ? k->m : g->k);
    const int inc = j->tb ? 1 : j->ldb;
    if (g->beta != 1) {
        td_gemm y = {.dtype = g->dtype, .batch = 1, .m = k->m, .n = 1, .c = k->c};
        y.c_row = j->ldc;
        y.beta = g->beta;
        td__gemm_scale(&y);
    }
    if (g->dtype == TD_F32)
        cblas_sgemv(CblasRowMajor, t, rows, cols, (float)g->alpha, (const float *)k->a,
                    j->lda, (const float *)k->b, inc, 1, (float *)k->c, j->ldc);
    else
        cblas_dgemv(CblasRowMajor, t, rows, cols, g->alpha, (const double *)k->a,
                    j->lda, (const double *)k->b, inc, 1, (double *)k->c, j->ldc);
}

#if TD_HAVE_DNNL
static bool dnnl_block(const job *j, const block *k) {
    const td_gemm *g = &j->g;
    int            width = td__prim_serial_begin();
    dnnl_status_t  s =
        dnnl_sgemm(j->ta ? 'T' : 'N', j->tb ? 'T' : 'N', k->m, k->n, g->k,
                   (float)g->alpha, (const float *)k->a, j->lda, (const float *)k->b,
                   j->ldb, (float)g->beta, (float *)k->c, j->ldc);
    td__prim_serial_end(width);
    return s == dnnl_success;
}
#else
static bool dnnl_block(const job *j, const block *k) {
    (void)j, (void)k;
    return false;
}
#endif

/* Some rows times a transposed matrix, as a linear layer has it: there the primitive
 * packs less. GF/s of one Zen 4 core against dnnl_sgemm: 32x1024x256 98 to 88,
 * 64x256x768 107 to 97, 256x768x768 112 to 110, 256x768x3072 110 to 99, 512x768x3072
 * 109 to 105; below 16 rows 70 to 96, and of 1024 it is slower on Ice Lake. */
static bool is_thin(const job *j, const block *k) {
    const int64_t depth = j->g.k;
    return !j->ta && j->tb && k->m >= 16 && k->m <= 512 && depth >= 192 &&
           k->m * k->n * depth >= THIN_WORK;
}

/* Rows along k that lie a large power of two apart fall into few sets of the L1 cache
 * when dnnl_sgemm reads them in place. GF/s of one Zen 5 core: with AVX2 79 for
 * 256x1024x1024 NN and 90 for 1024x256x2048 TN, OpenBLAS 132 and 127; with AVX-512 229
 * for the latter, the primitive 261. */
static bool is_aliased(const job *j, int step) {
    return (j->ta && j->lda % step == 0) || (!j->tb && j->ldb % step == 0);
}

/* Products of f32 that are better not given to dnnl_sgemm. */
static bool prefers_blas(const job *j) {
    return td__cpu_level() == TD_CPU_AVX2 && is_aliased(j, 256);
}
static bool prefers_prim(const job *j, const block *k) {
    bool deep = td__cpu_level() == TD_CPU_AVX512 && j->g.k >= 1024;
    return is_thin(j, k) ||
           (deep && j->ta && j->lda % 1024 == 0 && k->m * k->n * j->g.k >= THIN_WORK);
}

/* Complex products by OpenBLAS. */
static void complex_block(const job *j, const block *k) {
    const td_gemm        *g = &j->g;
    const CBLAS_TRANSPOSE ta = j->ta ? CblasTrans : CblasNoTrans;
    const CBLAS_TRANSPOSE tb = j->tb ? CblasTrans : CblasNoTrans;
    const int             m = (int)k->m, n = (int)k->n, depth = (int)g->k;
    const float           alpha32[2] = {(float)g->alpha}, beta32[2] = {(float)g->beta};
    const double          alpha[2] = {g->alpha}, beta[2] = {g->beta};
    if (g->dtype == TD_C64)
        cblas_cgemm(CblasRowMajor, ta, tb, m, n, depth, alpha32, k->a, j->lda, k->b,
                    j->ldb, beta32, k->c, j->ldc);
    else
        cblas_zgemm(CblasRowMajor, ta, tb, m, n, depth, alpha, k->a, j->lda, k->b,
                    j->ldb, beta, k->c, j->ldc);
}

/* f64 by OpenBLAS; f32 by the library that is fastest for the sizes (enum above). */
static void matrix_block(const job *j, const block *k) {
    const td_gemm        *g = &j->g;
    const CBLAS_TRANSPOSE ta = j->ta ? CblasTrans : CblasNoTrans;
    const CBLAS_TRANSPOSE tb = j->tb ? CblasTrans : CblasNoTrans;
    const int             m = (int)k->m, n = (int)k->n, depth = (int)g->k;
    if (g->dtype == TD_F64) {
        cblas_dgemm(CblasRowMajor, ta, tb, m, n, depth, g->alpha, (const double *)k->a,
                    j->lda, (const double *)k->b, j->ldb, g->beta, (double *)k->c,
                    j->ldc);
        return;
    }
    const bool small = j->small || k->m * k->n * g->k <= SMALL_WORK || prefers_blas(j);
    if (!small && prefers_prim(j, k) && run_prim(j, k, 1)) return;
    if (!small && dnnl_block(j, k)) return;
    cblas_sgemm(CblasRowMajor, ta, tb, m, n, depth, (float)g->alpha,
                (const float *)k->a, j->lda, (const float *)k->b, j->ldb,
                (float)g->beta, (float *)k->c, j->ldc);
}

/* Unit u is part u % parts of batch item u / parts. */
static void run_unit(const job *j, int64_t u) {
    const td_gemm *g = &j->g;
    const int64_t  item = item_of(g->dtype);
    const int64_t  b = u / j->parts, at = u % j->parts * j->step;
    block          k = {.m = g->m, .n = g->n};
    k.a = (const char *)g->a + item * b * g->a_batch;
    k.b = (const char *)g->b + item * b * g->b_batch;
    k.c = (char *)g->c + item * b * g->c_batch;
    if (j->by_cols) {
        k.n = g->n - at < j->step ? g->n - at : j->step;
        k.b += item * at * g->b_col;
        k.c += item * at * g->c_col;
    } else {
        k.m = g->m - at < j->step ? g->m - at : j->step;
        k.a += item * at * g->a_row;
        k.c += item * at * g->c_row;
    }
    if (is_complex(g->dtype)) complex_block(j, &k);
    else if (g->n == 1) vector_block(j, &k);
    else matrix_block(j, &k);
}

/* ---- a run of batch items ----------------------------------------------- */

/* Whole items [begin,end) by one primitive; false: do them one by one. */
static bool run_batch(const job *j, int64_t begin, int64_t end) {
    const td_gemm *g = &j->g;
    const int64_t  item = 4;
    if (j->parts != 1 || end - begin < 2 || g->n == 1) return false;
    if (g->m * g->n * g->k < BATCH_WORK) return false;
    block k = {g->m, g->n, (const char *)g->a + item * begin * g->a_batch,
               (const char *)g->b + item * begin * g->b_batch,
               (char *)g->c + item * begin * g->c_batch};
    return run_prim(j, &k, end - begin);
}

/* Units [begin, end) of the job; whole batch items go to one primitive where that
 * pays. */
static void run_range(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    if (run_batch(j, begin, end)) return;
    for (int64_t u = begin; u < end; u++) run_unit(j, u);
}

/* ---- splitting ---------------------------------------------------------- */

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Batch items go whole where that balances; else each is cut along its longer
 * side, in steps the kernels' register blocks divide. */
static void choose_parts(job *j, int64_t threads) {
    const td_gemm *g = &j->g;
    j->by_cols = g->n > g->m;
    int64_t size = j->by_cols ? g->n : g->m, grain = j->by_cols ? COL_GRAIN : ROW_GRAIN;
    j->parts = 1;
    j->step = size;
    if (g->batch % threads == 0 || g->batch >= 4 * threads) return;
    j->step = ceil_div(ceil_div(size, threads), grain) * grain;
    j->parts = ceil_div(size, j->step);
}

double td__gemm_ns(void) {
    switch (td__cpu_level()) {
    case TD_CPU_AVX512: return 0.01;
    case TD_CPU_AVX2: return 0.02;
    default: return 0.1;
    }
}

/* Chooses the number of threads by the work, then the cut, on which the rounding of the
 * libraries depends: both follow from sizes, not from measured times, so that results
 * repeat. */
static void run(job *j) {
    const td_gemm *g = &j->g;
    const double   work = (double)g->m * (double)g->n * (double)g->k * (double)g->batch;
    const double   enough = g->n == 1 ? 2 * VECTOR_WORK : SPLIT_WORK;
    int64_t        threads = 1;
    if (work >= enough) threads = td__pool_size();
    if (threads > 1 && work < enough * (double)threads)
        threads = 1 + (int64_t)(work / enough);
    if (threads == 1) {
        j->parts = 1;
        j->step = g->m;
        run_range(j, 0, g->batch);
        return;
    }
    choose_parts(j, threads);
    td__pool_run(g->batch * j->parts, ceil_div(g->batch * j->parts, threads), run_range,
                 j);
}

/* An operand of a complex product: rows x cols elements for each batch item. */
typedef struct operand {
    const char *from;
    int64_t     rows, cols, step[3]; /* batch, row, column */
} operand;

/* Copies every batch item to `to`, row-major. */
static void pack_complex(const td_gemm *g, const operand *x, char *to) {
    const int64_t item = item_of(g->dtype);
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t i = 0; i < x->rows; i++)
            for (int64_t k = 0; k < x->cols; k++, to += item)
                memcpy(to,
                       x->from +
                           item * (b * x->step[0] + i * x->step[1] + k * x->step[2]),
                       (size_t)item);
}

/* Complex operands whose layout no library reads: row-major copies are multiplied. C is
 * row- or column-major. False: out of memory. */
static bool run_copies(const td_gemm *p) {
    const int64_t item = item_of(p->dtype);
    const size_t  na = (size_t)(item * p->batch * p->m * p->k);
    const size_t  nb = (size_t)(item * p->batch * p->k * p->n);
    char         *a = td__block_alloc(na), *b = td__block_alloc(nb);
    job           j = {.g = *p};
    bool          ok = a && b;
    if (ok) {
        const operand x = {p->a, p->m, p->k, {p->a_batch, p->a_row, p->a_col}};
        const operand y = {p->b, p->k, p->n, {p->b_batch, p->b_row, p->b_col}};
        pack_complex(p, &x, a);
        pack_complex(p, &y, b);
        j.g.a = a, j.g.a_batch = p->m * p->k, j.g.a_row = p->k, j.g.a_col = 1;
        j.g.b = b, j.g.b_batch = p->k * p->n, j.g.b_row = p->n, j.g.b_col = 1;
        ok = plain(&j);
        if (ok) run(&j);
    }
    td__block_free(a, na);
    td__block_free(b, nb);
    return ok;
}

/* A job is cut along m or n, never along k: each element of C is summed by one
 * thread. */
bool td__gemm(const td_gemm *p) {
    if ((unsigned)p->dtype >= TD_DTYPE_COUNT || p->dtype == TD_BOOL) return false;
    if (p->batch <= 0 || p->m <= 0 || p->n <= 0) return true;
    if (td__gemm_adds_nothing(p)) {
        td__gemm_scale(p);
        return true;
    }
    pthread_once(&once, td__blas_start);
    if (p->dtype > TD_F32 && !is_complex(p->dtype)) return td__gemm_packed(p);
    job j = {.g = *p};
    if (!plain(&j)) return is_complex(p->dtype) ? run_copies(p) : td__gemm_packed(p);
    run(&j);
    return true;
}

void td__gemm_small(const td_gemm *p) {
    job j = {.g = *p, .small = true, .parts = 1};
    pthread_once(&once, td__blas_start);
    if (!plain(&j)) return;
    j.step = j.g.m;
    run_unit(&j, 0);
}
