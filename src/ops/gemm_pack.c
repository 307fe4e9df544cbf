/* gemm_pack.c -- products that no library reads in place.
 * Halves, integers and odd strides: blocks of A and B are copied into plain
 * scratch of a word type (f64, f32, u64 or u32), multiplied there, and the block
 * of C is merged at the end, so a half is rounded once. Scratch is bounded by
 * the block sizes, not by the matrices. */
#include "ops/gemm.h"

#include "base/base.h"
#include "ops/math.h"

#include <stdatomic.h>
#include <string.h>

enum {
    BLOCK_SIDE = 1024,  /* rows of A and columns of B in a block */
    BLOCK_DEPTH = 4096, /* so a packed block is at most 16 MiB of f32 */
    THIN = 16,          /* at most this many rows or columns: stay in the L2 */
    THIN_DEPTH = 128,
    PACK_GRAIN = 1 << 14
};

/* What the words of scratch are. Integers of up to 32 bits multiply as u32 and
 * keep their low bits: wrapping is arithmetic modulo a power of two. */
typedef enum word { WORD_F64, WORD_F32, WORD_U64, WORD_U32 } word;

static word word_of(td_dtype t) {
    switch (t) {
    case TD_F64: return WORD_F64;
    case TD_F32:
    case TD_F16:
    case TD_BF16: return WORD_F32;
    case TD_I64: return WORD_U64;
    default: return WORD_U32;
    }
}

static int64_t size_of(td_dtype t) {
    switch (t) {
    case TD_F64:
    case TD_I64: return 8;
    case TD_F32:
    case TD_I32: return 4;
    case TD_F16:
    case TD_BF16:
    case TD_I16: return 2;
    default: return 1;
    }
}

static int64_t word_size(word w) { return w == WORD_F64 || w == WORD_U64 ? 8 : 4; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* alpha or beta as a wrapping integer; out of range saturates first. */
static uint64_t whole(double x) {
    if (!(x > -9.2e18)) return (uint64_t)INT64_MIN;
    return x < 9.2e18 ? (uint64_t)(int64_t)x : (uint64_t)INT64_MAX;
}

/* ---- packing ------------------------------------------------------------ */

/* A matrix to copy: rows of `cols` elements become contiguous words. */
typedef struct pack {
    td_dtype    dtype;
    const char *from;
    void       *to;
    int64_t     cols, row, col;
} pack;

/* One row; s is the element stride. */
static void pack_row(td_dtype t, const void *from, void *to, int64_t n, int64_t s) {
    float    *f = to;
    uint32_t *u = to;
    switch (t) {
    case TD_F64:
        for (int64_t i = 0; i < n; i++)
            ((double *)to)[i] = ((const double *)from)[i * s];
        break;
    case TD_F32:
        for (int64_t i = 0; i < n; i++) f[i] = ((const float *)from)[i * s];
        break;
    case TD_F16:
        for (int64_t i = 0; i < n; i++)
            f[i] = td_m_f16_to_f32(((const uint16_t *)from)[i * s]);
        break;
    case TD_BF16:
        for (int64_t i = 0; i < n; i++)
            f[i] = td_m_bf16_to_f32(((const uint16_t *)from)[i * s]);
        break;
    case TD_I64:
        for (int64_t i = 0; i < n; i++)
            ((uint64_t *)to)[i] = ((const uint64_t *)from)[i * s];
        break;
    case TD_I32:
        for (int64_t i = 0; i < n; i++) u[i] = ((const uint32_t *)from)[i * s];
        break;
    case TD_I16:
        for (int64_t i = 0; i < n; i++) u[i] = ((const uint16_t *)from)[i * s];
        break;
    default: /* the low 8 bits are all that i8 and u8 keep */
        for (int64_t i = 0; i < n; i++) u[i] = ((const uint8_t *)from)[i * s];
    }
}

static void pack_rows(void *arg, int64_t begin, int64_t end) {
    const pack   *p = arg;
    const int64_t item = size_of(p->dtype), wide = word_size(word_of(p->dtype));
    for (int64_t i = begin; i < end; i++)
        pack_row(p->dtype, p->from + i * p->row * item,
                 (char *)p->to + i * p->cols * wide, p->cols, p->col);
}

/* Copies a matrix into scratch in the order it is stored in, unless `rows_only`;
 * true when that made the copy column-major. */
static bool pack_matrix(pack p, int64_t rows, bool rows_only) {
    int64_t row = p.row < 0 ? -p.row : p.row, col = p.col < 0 ? -p.col : p.col;
    bool    flip = !rows_only && row < col;
    if (flip) {
        int64_t t = p.cols;
        p.cols = rows, rows = t;
        t = p.row, p.row = p.col, p.col = t;
    }
    td__pool_run(rows, 1 + PACK_GRAIN / (p.cols + 1), pack_rows, &p);
    return flip;
}

/* ---- merging ------------------------------------------------------------ */

static double load_float(td_dtype t, const void *p, int64_t i) {
    switch (t) {
    case TD_F64: return ((const double *)p)[i];
    case TD_F32: return (double)((const float *)p)[i];
    case TD_F16: return (double)td_m_f16_to_f32(((const uint16_t *)p)[i]);
    default: return (double)td_m_bf16_to_f32(((const uint16_t *)p)[i]);
    }
}

static uint64_t load_int(td_dtype t, const void *p, int64_t i) {
    switch (t) {
    case TD_I64: return ((const uint64_t *)p)[i];
    case TD_I32: return ((const uint32_t *)p)[i];
    case TD_I16: return ((const uint16_t *)p)[i];
    default: return ((const uint8_t *)p)[i];
    }
}

static void store_float(td_dtype t, void *p, int64_t i, double x) {
    switch (t) {
    case TD_F64: ((double *)p)[i] = x; break;
    case TD_F32: ((float *)p)[i] = (float)x; break;
    case TD_F16: ((uint16_t *)p)[i] = td_m_f32_to_f16((float)x); break;
    default: ((uint16_t *)p)[i] = td_m_f32_to_bf16((float)x);
    }
}

static void store_int(td_dtype t, void *p, int64_t i, uint64_t x) {
    switch (t) {
    case TD_I64: ((uint64_t *)p)[i] = x; break;
    case TD_I32: ((uint32_t *)p)[i] = (uint32_t)x; break;
    case TD_I16: ((uint16_t *)p)[i] = (uint16_t)x; break;
    default: ((uint8_t *)p)[i] = (uint8_t)x;
    }
}

/* c[i] = alpha * acc + beta * c[i], beta 0 not reading c. */
static void merge_float(const td_gemm *g, void *c, int64_t i, double acc) {
    double old = g->beta == 0 ? 0 : g->beta * load_float(g->dtype, c, i);
    store_float(g->dtype, c, i, g->alpha * acc + old);
}

static void merge_int(const td_gemm *g, void *c, int64_t i, uint64_t acc) {
    uint64_t old = g->beta == 0 ? 0 : whole(g->beta) * load_int(g->dtype, c, i);
    store_int(g->dtype, c, i, whole(g->alpha) * acc + old);
}

static bool is_float(td_dtype t) { return t <= TD_BF16; }

/* ---- integers ----------------------------------------------------------- */

/* The packed block: A is m x k, B is k x n, C is m x n, all row-major words. */
typedef struct tile {
    const void *a, *b;
    void       *c;
    int64_t     n, k;
} tile;

enum { INT_COLS = 64, INT_DEPTH = 256 };

/* c += a @ b over rows [begin,end): a strip of B stays in the L1 while every
 * row passes over it. */
static void rows_u32(void *arg, int64_t begin, int64_t end) {
    const tile *t = arg;
    for (int64_t k0 = 0; k0 < t->k; k0 += INT_DEPTH)
        for (int64_t j0 = 0; j0 < t->n; j0 += INT_COLS) {
            const int64_t k1 = least(t->k, k0 + INT_DEPTH),
                          w = least(INT_COLS, t->n - j0);
            for (int64_t i = begin; i < end; i++) {
                const uint32_t *a = (const uint32_t *)t->a + i * t->k;
                uint32_t *c = (uint32_t *)t->c + i * t->n + j0, sum[INT_COLS] = {0};
                for (int64_t k = k0; k < k1; k++) {
                    const uint32_t *b = (const uint32_t *)t->b + k * t->n + j0,
                                   x = a[k];
                    if (w == INT_COLS)
                        for (int j = 0; j < INT_COLS; j++) sum[j] += x * b[j];
                    else
                        for (int64_t j = 0; j < w; j++) sum[j] += x * b[j];
                }
                for (int64_t j = 0; j < w; j++) c[j] += sum[j];
            }
        }
}

static void rows_u64(void *arg, int64_t begin, int64_t end) {
    const tile *t = arg;
    for (int64_t k0 = 0; k0 < t->k; k0 += INT_DEPTH)
        for (int64_t j0 = 0; j0 < t->n; j0 += INT_COLS) {
            const int64_t k1 = least(t->k, k0 + INT_DEPTH),
                          w = least(INT_COLS, t->n - j0);
            for (int64_t i = begin; i < end; i++) {
                const uint64_t *a = (const uint64_t *)t->a + i * t->k;
                uint64_t *c = (uint64_t *)t->c + i * t->n + j0, sum[INT_COLS] = {0};
                for (int64_t k = k0; k < k1; k++) {
                    const uint64_t *b = (const uint64_t *)t->b + k * t->n + j0,
                                   x = a[k];
                    if (w == INT_COLS)
                        for (int j = 0; j < INT_COLS; j++) sum[j] += x * b[j];
                    else
                        for (int64_t j = 0; j < w; j++) sum[j] += x * b[j];
                }
                for (int64_t j = 0; j < w; j++) c[j] += sum[j];
            }
        }
}

/* ---- blocks ------------------------------------------------------------- */

/* A batch item and the scratch for its blocks. */
typedef struct item {
    const td_gemm *g;
    const char    *a, *b;
    char          *c;
    word           w;
    int64_t        side_m, side_n, depth;
    char          *pa, *pb, *pc; /* packed blocks, one allocation at pa */
    size_t         bytes;
} item;

static bool item_open(item *t) {
    const td_gemm *g = t->g;
    const bool     thin = g->m <= THIN || g->n <= THIN;
    const int64_t  wide = word_size(t->w);
    t->side_m = least(g->m, BLOCK_SIDE);
    t->side_n = least(g->n, BLOCK_SIDE);
    t->depth = least(g->k, thin ? THIN_DEPTH : BLOCK_DEPTH);
    int64_t a = (t->side_m * t->depth * wide + 63) & ~INT64_C(63);
    int64_t b = (t->side_n * t->depth * wide + 63) & ~INT64_C(63);
    t->bytes = (size_t)(a + b + t->side_m * t->side_n * wide);
    t->pa = td__block_alloc(t->bytes);
    t->pb = t->pa ? t->pa + a : NULL;
    t->pc = t->pa ? t->pb + b : NULL;
    return t->pa != NULL;
}

/* Bounds of one block of the product. */
typedef struct span {
    int64_t m0, m, n0, n, k0, k;
} span;

/* pc (+)= A[block] @ B[block]. */
static bool multiply(item *t, span s) {
    const td_gemm *g = t->g;
    const int64_t  size = size_of(g->dtype);
    const bool     floats = is_float(g->dtype);
    pack           a = {g->dtype, NULL, t->pa, s.k, g->a_row, g->a_col};
    pack           b = {g->dtype, NULL, t->pb, s.n, g->b_row, g->b_col};
    a.from = t->a + (s.m0 * g->a_row + s.k0 * g->a_col) * size;
    b.from = t->b + (s.k0 * g->b_row + s.n0 * g->b_col) * size;
    bool ta = pack_matrix(a, s.m, !floats), tb = pack_matrix(b, s.k, !floats);
    if (floats) {
        td_gemm p = {.dtype = t->w == WORD_F64 ? TD_F64 : TD_F32,
                     .batch = 1,
                     .m = s.m,
                     .n = s.n,
                     .k = s.k,
                     .a = t->pa,
                     .b = t->pb,
                     .c = t->pc,
                     .a_row = ta ? 1 : s.k,
                     .a_col = ta ? s.m : 1,
                     .b_row = tb ? 1 : s.n,
                     .b_col = tb ? s.k : 1,
                     .c_row = s.n,
                     .c_col = 1,
                     .alpha = 1,
                     .beta = s.k0 > 0};
        return td__gemm(&p);
    }
    tile    w = {t->pa, t->pb, t->pc, s.n, s.k};
    int64_t grain = 1 + PACK_GRAIN / (s.n * s.k);
    if (s.k0 == 0) memset(t->pc, 0, (size_t)(s.m * s.n * word_size(t->w)));
    td__pool_run(s.m, grain, t->w == WORD_U64 ? rows_u64 : rows_u32, &w);
    return true;
}

static void merge(const item *t, span s) {
    const td_gemm *g = t->g;
    for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.n; j++) {
            int64_t from = i * s.n + j;
            int64_t at = (s.m0 + i) * g->c_row + (s.n0 + j) * g->c_col;
            switch (t->w) {
            case WORD_F64: merge_float(g, t->c, at, ((double *)t->pc)[from]); break;
            case WORD_F32:
                merge_float(g, t->c, at, (double)((float *)t->pc)[from]);
                break;
            case WORD_U64: merge_int(g, t->c, at, ((uint64_t *)t->pc)[from]); break;
            case WORD_U32: merge_int(g, t->c, at, ((uint32_t *)t->pc)[from]); break;
            }
        }
}

static bool run_item(const td_gemm *g, int64_t index) {
    const int64_t size = size_of(g->dtype);
    item          t = {.g = g, .w = word_of(g->dtype)};
    bool          ok = item_open(&t);
    t.a = (const char *)g->a + index * g->a_batch * size;
    t.b = (const char *)g->b + index * g->b_batch * size;
    t.c = (char *)g->c + index * g->c_batch * size;
    for (int64_t n0 = 0; ok && n0 < g->n; n0 += t.side_n)
        for (int64_t m0 = 0; ok && m0 < g->m; m0 += t.side_m) {
            span s = {m0, least(t.side_m, g->m - m0), n0, least(t.side_n, g->n - n0), 0,
                      0};
            for (; ok && s.k0 < g->k; s.k0 += t.depth) {
                s.k = least(t.depth, g->k - s.k0);
                ok = multiply(&t, s);
            }
            if (ok) merge(&t, s);
        }
    if (t.pa) td__block_free(t.pa, t.bytes);
    return ok;
}

typedef struct batch_job {
    const td_gemm *g;
    atomic_bool    failed;
} batch_job;

static void run_items(void *arg, int64_t begin, int64_t end) {
    batch_job *j = arg;
    for (int64_t i = begin; i < end; i++)
        if (!run_item(j->g, i)) atomic_store(&j->failed, true);
}

bool td__gemm_packed(const td_gemm *p) {
    batch_job j = {.g = p};
    atomic_init(&j.failed, false);
    if (p->batch >= td__pool_size())
        td__pool_run(p->batch, 1, run_items, &j); /* inner regions run alone */
    else run_items(&j, 0, p->batch);
    return !atomic_load(&j.failed);
}

/* ---- nothing to add, and the reference ---------------------------------- */

void td__gemm_scale(const td_gemm *p) {
    const int64_t size = size_of(p->dtype);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++) {
                char   *c = (char *)p->c + b * p->c_batch * size;
                int64_t at = i * p->c_row + j * p->c_col;
                if (is_float(p->dtype)) merge_float(p, c, at, 0);
                else merge_int(p, c, at, 0);
            }
}

static void naive_cell(const td_gemm *g, int64_t b, int64_t i, int64_t j) {
    const int64_t size = size_of(g->dtype);
    const char   *a = (const char *)g->a + b * g->a_batch * size;
    const char   *m = (const char *)g->b + b * g->b_batch * size;
    char         *c = (char *)g->c + b * g->c_batch * size;
    double        sum = 0;
    uint64_t      acc = 0;
    for (int64_t k = 0; g->alpha != 0 && k < g->k; k++) {
        int64_t x = i * g->a_row + k * g->a_col, y = k * g->b_row + j * g->b_col;
        if (is_float(g->dtype))
            sum += load_float(g->dtype, a, x) * load_float(g->dtype, m, y);
        else acc += load_int(g->dtype, a, x) * load_int(g->dtype, m, y);
    }
    if (is_float(g->dtype)) merge_float(g, c, i * g->c_row + j * g->c_col, sum);
    else merge_int(g, c, i * g->c_row + j * g->c_col, acc);
}

bool td__gemm_naive(const td_gemm *p) {
    if ((unsigned)p->dtype >= TD_BOOL) return false;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++) naive_cell(p, b, i, j);
    return true;
}
