/* gemm_pack.c -- products that no library reads in place.
 * Halves, integers and odd strides: blocks of A and B are copied into plain
 * scratch of a word type (f64, f32, u64 or u32), multiplied there, and the block
 * of C is merged at the end, so a half is rounded once. Scratch is bounded by
 * the block sizes, not by the matrices. */
#include "kernels/gemm.h"

#include "base/base.h"
#include "core/cpu.h"
#include "kernels/gemm_int.h"
#include "kernels/loops/loops.h"
#include "kernels/math.h"

#include <stdatomic.h>
#include <string.h>

enum {
    BLOCK_SIDE = 1024,  /* rows of A and columns of B in a block */
    BLOCK_DEPTH = 4096, /* so a packed block is at most 16 MiB of f32 */
    THIN = 16,          /* at most this many rows or columns: stay in the L2 */
    THIN_DEPTH = 128,
    INT_DEPTH = 512, /* a strip of B stays in the L2 while rows pass over it */
    PACK_GRAIN = 1 << 14,
    PACK_ROWS = 64 /* transposed at once: as many cache lines stay open */
};

/* What the words of scratch are. Integers of up to 32 bits multiply as u32 and
 * keep their low bits: wrapping is arithmetic modulo a power of two. */
typedef enum word { WORD_F64, WORD_F32, WORD_U64, WORD_U32 } word;

/* The word type in which a dtype is multiplied. */
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

/* Bytes of an element in memory. */
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

static bool    is_float(td_dtype t) { return t <= TD_BF16; }
static int64_t word_size(word w) { return w == WORD_F64 || w == WORD_U64 ? 8 : 4; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The dtype whose conversions give these words: the low bits of a signed number
 * are those of the unsigned one. */
static td_dtype word_type(word w) {
    static const td_dtype types[] = {TD_F64, TD_F32, TD_I64, TD_I32};
    return types[w];
}

/* ---- packing ------------------------------------------------------------ */

/* A matrix to copy: rows of `cols` elements become words, `ld` to a row. */
typedef struct pack {
    td_dtype    dtype;
    const char *from;
    char       *to;
    int64_t     cols, row, col, ld;
} pack;

/* Rows [begin, end), converted along each row. */
static void pack_rows(void *arg, int64_t begin, int64_t end) {
    const pack    *p = arg;
    const int64_t  item = size_of(p->dtype), wide = word_size(word_of(p->dtype));
    td_convert_fn *fn = td__isa()->convert[p->dtype][word_type(word_of(p->dtype))];
    for (int64_t i = begin; i < end; i++)
        fn(p->cols, p->to + i * p->ld * wide, wide, p->from + i * p->row * item,
           p->col * item);
}

/* The same for a matrix stored by columns: reads run along them. */
static void turn_rows(void *arg, int64_t begin, int64_t end) {
    const pack    *p = arg;
    const int64_t  item = size_of(p->dtype), wide = word_size(word_of(p->dtype));
    td_convert_fn *fn = td__isa()->convert[p->dtype][word_type(word_of(p->dtype))];
    for (int64_t i = begin; i < end; i += PACK_ROWS)
        for (int64_t j = 0; j < p->cols; j++)
            fn(least(PACK_ROWS, end - i), p->to + (i * p->ld + j) * wide, p->ld * wide,
               p->from + (i * p->row + j * p->col) * item, p->row * item);
}

/* Copies a matrix into scratch in the order it is stored in, or by rows when
 * `rows_only`; true when the copy is column-major. */
static bool pack_matrix(pack p, int64_t rows, bool rows_only) {
    int64_t row = p.row < 0 ? -p.row : p.row, col = p.col < 0 ? -p.col : p.col;
    bool    by_cols = row < col, flip = by_cols && !rows_only;
    if (flip) {
        int64_t t = p.cols;
        p.cols = rows, rows = t;
        t = p.row, p.row = p.col, p.col = t;
        p.ld = p.cols;
    }
    td__pool_run(rows, 1 + PACK_GRAIN / (p.cols + 1),
                 by_cols && rows_only ? turn_rows : pack_rows, &p);
    return flip;
}

/* ---- merging ------------------------------------------------------------ */

/* Element i as double. */
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

/* Rounds once, to the dtype. */
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
    uint64_t beta = (uint64_t)g->beta_int, alpha = (uint64_t)g->alpha_int;
    uint64_t old = beta == 0 ? 0 : beta * load_int(g->dtype, c, i);
    store_int(g->dtype, c, i, alpha * acc + old);
}

/* The integer loop for this CPU level. */
static td_gemm_rows *int_rows(word w) {
#ifdef __x86_64__
    if (td__cpu_level() == TD_CPU_AVX512)
        return w == WORD_U64 ? td__gemm_rows_u64_avx512 : td__gemm_rows_u32_avx512;
    if (td__cpu_level() == TD_CPU_AVX2)
        return w == WORD_U64 ? td__gemm_rows_u64_avx2 : td__gemm_rows_u32_avx2;
#endif
    return w == WORD_U64 ? td__gemm_rows_u64_base : td__gemm_rows_u32_base;
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

/* n rounded up to a multiple of unit. */
static int64_t up_to(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* Words in a row of packed B and C: integer strips are never cut short. */
static int64_t width(const item *t, int64_t n) {
    return is_float(t->g->dtype) ? n : up_to(n, TD_GEMM_STRIP);
}

/* Chooses block sizes and allocates the scratch for one block of each operand. */
static bool item_open(item *t) {
    const td_gemm *g = t->g;
    const bool     thin = g->m <= THIN || g->n <= THIN;
    const int64_t  wide = word_size(t->w);
    const int64_t  deep = is_float(g->dtype) ? BLOCK_DEPTH : INT_DEPTH;
    t->side_m = least(g->m, BLOCK_SIDE);
    t->side_n = least(g->n, BLOCK_SIDE);
    t->depth = least(g->k, thin ? THIN_DEPTH : deep);
    int64_t a = up_to(t->side_m * t->depth * wide, 64);
    int64_t b = up_to(width(t, t->side_n) * t->depth * wide, 64);
    t->bytes = (size_t)(a + b + t->side_m * width(t, t->side_n) * wide);
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
    const int64_t  size = size_of(g->dtype), ld = width(t, s.n);
    const bool     ints = !is_float(g->dtype);
    pack           a = {g->dtype, NULL, t->pa, s.k, g->a_row, g->a_col, s.k};
    pack           b = {g->dtype, NULL, t->pb, s.n, g->b_row, g->b_col, ld};
    a.from = t->a + (s.m0 * g->a_row + s.k0 * g->a_col) * size;
    b.from = t->b + (s.k0 * g->b_row + s.n0 * g->b_col) * size;
    bool ta = pack_matrix(a, s.m, ints), tb = pack_matrix(b, s.k, ints);
    if (ints) {
        td_gemm_tile w = {t->pa, t->pb, t->pc, s.k, ld, s.k0 > 0};
        td__pool_run(s.m, 4 * (1 + PACK_GRAIN / (ld * s.k)), int_rows(t->w), &w);
        return true;
    }
    td_gemm p = {.dtype = word_type(t->w), .batch = 1, .m = s.m, .n = s.n, .k = s.k};
    p.a = t->pa, p.a_row = ta ? 1 : s.k, p.a_col = ta ? s.m : 1;
    p.b = t->pb, p.b_row = tb ? 1 : s.n, p.b_col = tb ? s.k : 1;
    p.c = t->pc, p.c_row = s.n, p.c_col = 1;
    p.alpha = 1, p.beta = s.k0 > 0;
    return td__gemm(&p);
}

typedef struct merge_job {
    const item *t;
    span        s;
} merge_job;

/* Adds one accumulated word to its element of C, by alpha and beta. */
static void merge_word(const item *t, int64_t from, int64_t at) {
    switch (t->w) {
    case WORD_F64: merge_float(t->g, t->c, at, ((double *)t->pc)[from]); break;
    case WORD_F32: merge_float(t->g, t->c, at, (double)((float *)t->pc)[from]); break;
    case WORD_U64: merge_int(t->g, t->c, at, ((uint64_t *)t->pc)[from]); break;
    case WORD_U32: merge_int(t->g, t->c, at, ((uint32_t *)t->pc)[from]); break;
    }
}

/* Rows [begin, end) of the block: a plain conversion when C is only overwritten. */
static void merge_rows(void *arg, int64_t begin, int64_t end) {
    const merge_job *j = arg;
    const item      *t = j->t;
    const td_gemm   *g = t->g;
    const int64_t    size = size_of(g->dtype), wide = word_size(t->w);
    const int64_t    n = j->s.n, ld = width(t, n);
    td_convert_fn   *fn = td__isa()->convert[word_type(t->w)][g->dtype];
    const bool       plain = is_float(g->dtype) ? g->alpha == 1 && g->beta == 0
                                                : g->alpha_int == 1 && g->beta_int == 0;
    for (int64_t i = begin; i < end; i++) {
        const int64_t at = (j->s.m0 + i) * g->c_row + j->s.n0 * g->c_col;
        if (plain)
            fn(n, t->c + at * size, g->c_col * size, t->pc + i * ld * wide, wide);
        else
            for (int64_t k = 0; k < n; k++)
                merge_word(t, i * ld + k, at + k * g->c_col);
    }
}

static void merge(const item *t, span s) {
    td__pool_run(s.m, 1 + PACK_GRAIN / s.n, merge_rows, &(merge_job){t, s});
}

/* All blocks of one batch item; the depth is the innermost loop, so that C is merged
 * once. */
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

/* Batch items [begin, end). */
static void run_items(void *arg, int64_t begin, int64_t end) {
    batch_job *j = arg;
    for (int64_t i = begin; i < end; i++)
        if (!run_item(j->g, i)) atomic_store(&j->failed, true);
}

/* A batch at least as long as the pool is split by items, each on one thread; else each
 * product is split. */
bool td__gemm_packed(const td_gemm *p) {
    batch_job j = {.g = p};
    atomic_init(&j.failed, false);
    if (p->batch >= td__pool_size())
        td__pool_run(p->batch, 1, run_items, &j); /* inner regions run alone */
    else run_items(&j, 0, p->batch);
    return !atomic_load(&j.failed);
}

/* ---- nothing to add, and the reference ---------------------------------- */

/* True when C = beta C. */
bool td__gemm_adds_nothing(const td_gemm *p) {
    bool ints = !is_float(p->dtype) && p->dtype < TD_C64;
    return p->k <= 0 || (ints ? p->alpha_int == 0 : p->alpha == 0);
}

/* Real and imaginary parts of C, each as a matrix of its own. */
static void scale_parts(const td_gemm *p) {
    td_gemm part = *p;
    part.dtype = p->dtype == TD_C64 ? TD_F32 : TD_F64;
    part.c_batch *= 2, part.c_row *= 2, part.c_col *= 2;
    td__gemm_scale(&part);
    part.c = (char *)p->c + size_of(part.dtype);
    td__gemm_scale(&part);
}

/* C = beta C, without reading C where beta is 0. */
void td__gemm_scale(const td_gemm *p) {
    if (p->dtype >= TD_C64) {
        scale_parts(p);
        return;
    }
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

/* One element of C by the definition. */
static void naive_cell(const td_gemm *g, int64_t b, int64_t i, int64_t j) {
    const int64_t size = size_of(g->dtype);
    const char   *a = (const char *)g->a + b * g->a_batch * size;
    const char   *m = (const char *)g->b + b * g->b_batch * size;
    char         *c = (char *)g->c + b * g->c_batch * size;
    double        sum = 0;
    uint64_t      acc = 0;
    for (int64_t k = 0; !td__gemm_adds_nothing(g) && k < g->k; k++) {
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
