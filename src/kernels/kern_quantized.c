/* kern_quantized.c -- kernels of products with weights of 8 and 4 bits. x and scales
 * are read as f32, sums are f32, and the result is rounded once. */
#include "kernels/loops/loops.h"
#include "ops/cast.h"
#include "rules/shape_rules.h"

#include <string.h>

/* A product: m rows of x, n rows of weights, k numbers each; all row-major. */
typedef struct product {
    const float          *x, *scale;
    const void           *w;
    float                *out;
    int64_t               m, n, k, group;
    const td_quant_loops *loops;
} product;

/* ---- operands ------------------------------------------------------------ */

/* t in this dtype, row-major: itself, or a copy in *own. NULL after td__fail. */
static void *dense(td_opcall *c, const td_tensor *t, td_dtype dt, td_tensor **own) {
    td_meta m;
    *own = NULL;
    if (t->dtype == dt && td__is_dense(t->rank, t->size, t->stride)) return td__ptr(t);
    td__meta_dense(&m, dt, t->rank, t->size);
    *own = td__tensor_make(c->cx, &m, false);
    return *own && td__copy_into(*own, t) ? td__ptr(*own) : NULL;
}

/* Runs `part` over n rows of weights or blocks of them, and rounds its sums. */
static bool run(td_opcall *c, product *p, td_tensor *scale, int64_t n, int64_t grain,
                td_pool_fn *part) {
    td_tensor *x = td__in(c, 0), *w = td__in(c, 1), *out = c->out[0], *own[4] = {0};
    td_meta    m;
    if (out->numel == 0) return true;
    p->x = dense(c, x, TD_F32, &own[0]);
    p->w = p->x ? dense(c, w, (td_dtype)w->dtype, &own[1]) : NULL;
    p->scale = p->w ? dense(c, scale, TD_F32, &own[2]) : NULL;
    td__meta_dense(&m, TD_F32, 2, out->size);
    bool ok = p->scale, direct = out->dtype == TD_F32;
    if (ok && !direct) ok = (own[3] = td__tensor_make(c->cx, &m, false)) != NULL;
    if (ok) {
        p->out = (float *)(void *)td__ptr(direct ? out : own[3]);
        p->loops = td__isa()->quant;
        p->m = x->size[0];
        p->k = x->size[1];
        p->n = out->size[1];
        td__pool_run(n, grain, part, p);
        ok = direct || td__copy_into(out, own[3]);
    }
    for (int i = 0; i < 4; i++)
        if (own[i]) td_drop(own[i]);
    return ok;
}

static int rows_at(const product *p, int64_t r) {
    return (int)(p->m - r < TD_QUANT_ROWS ? p->m - r : TD_QUANT_ROWS);
}

/* ---- eight bits ---------------------------------------------------------- */

static void part_i8(void *arg, int64_t begin, int64_t end) {
    const product *p = arg;
    float          dot[TD_QUANT_ROWS];
    for (int64_t j = begin; j < end; j++)
        for (int64_t r = 0; r < p->m; r += TD_QUANT_ROWS) {
            int rows = rows_at(p, r);
            p->loops->dot_i8(rows, p->k, p->x + r * p->k, p->k,
                             (const int8_t *)p->w + j * p->k, dot);
            for (int i = 0; i < rows; i++)
                p->out[(r + i) * p->n + j] = dot[i] * p->scale[j];
        }
}

/* in: self, mat2, scales. */
bool td__kern_int8pack_mm(td_opcall *c) {
    product p = {0};
    int64_t k = td__in(c, 0)->size[1];
    return run(c, &p, td__in(c, 2), c->out[0]->size[1], 1 + (1 << 16) / (k + 1),
               part_i8);
}

/* ---- four bits ----------------------------------------------------------- */

/* Rows of block b: 64, or the rest. */
static int64_t block_rows(int64_t n, int64_t b) {
    int64_t left = n - b * TD_QUANT_BLOCK;
    return left < TD_QUANT_BLOCK ? left : TD_QUANT_BLOCK;
}

/* The byte of number k of row j of a block of n rows, and whether it is the upper half:
 * in a block of 64 rows j and j + 32 share a byte, in a smaller one neighbours. */
static int64_t byte_of(int64_t n, int64_t j, int64_t k, bool *high) {
    bool whole = n == TD_QUANT_BLOCK;
    *high = whole ? j >= n / 2 : j & 1;
    return k * (n / 2) + (whole ? j % (n / 2) : j / 2);
}

static int number_at(const uint8_t *block, int64_t n, int64_t j, int64_t k) {
    bool    high;
    uint8_t b = block[byte_of(n, j, k, &high)];
    return high ? b >> 4 : b & 15;
}

/* Scale and zero of row j, group g. */
static const float *scale_at(const product *p, int64_t g, int64_t j) {
    return p->scale + (g * p->n + j) * 2;
}

/* A block of less than 64 rows. */
static void small_block(const product *p, int64_t b, const uint8_t *block) {
    int64_t rows = block_rows(p->n, b);
    for (int64_t r = 0; r < p->m; r++)
        for (int64_t j = 0; j < rows; j++) {
            float sum = 0;
            for (int64_t k = 0; k < p->k; k++) {
                const float *s = scale_at(p, k / p->group, b * TD_QUANT_BLOCK + j);
                float w = (float)(number_at(block, rows, j, k) - 8) * s[0] + s[1];
                sum += p->x[r * p->k + k] * w;
            }
            p->out[r * p->n + b * TD_QUANT_BLOCK + j] = sum;
        }
}

static void part_i4(void *arg, int64_t begin, int64_t end) {
    const product *p = arg;
    for (int64_t b = begin; b < end; b++) {
        const uint8_t *block = (const uint8_t *)p->w + b * TD_QUANT_BLOCK * p->k / 2;
        td_int4_block  w = {.packed = block,
                            .scale = scale_at(p, 0, b * TD_QUANT_BLOCK),
                            .scale_step = 2 * p->n,
                            .k = p->k,
                            .group = p->group};
        if (block_rows(p->n, b) < TD_QUANT_BLOCK) small_block(p, b, block);
        else
            for (int64_t r = 0; r < p->m; r += TD_QUANT_ROWS)
                p->loops->dot_i4(rows_at(p, r), p->x + r * p->k, p->k, &w,
                                 p->out + r * p->n + b * TD_QUANT_BLOCK, p->n);
    }
}

/* in: self, mat2, qGroupSize, qScaleAndZeros. */
bool td__kern_int4pack_mm(td_opcall *c) {
    product p = {.group = td__in_int(c, 2)};
    int64_t blocks = (c->out[0]->size[1] + TD_QUANT_BLOCK - 1) / TD_QUANT_BLOCK;
    return run(c, &p, td__in(c, 3), blocks, 1, part_i4);
}

/* in: self, innerKTiles, which CPUs do not use. */
bool td__kern_int4pack(td_opcall *c) {
    const td_tensor *q = td__in(c, 0);
    td_tensor       *own;
    const int32_t   *from = dense(c, q, TD_I32, &own);
    uint8_t         *to = (uint8_t *)(void *)td__ptr(c->out[0]);
    int64_t          n = q->size[0], k = q->size[1], bad = -1;
    for (int64_t i = 0; from && i < n * k && bad < 0; i++)
        if (from[i] < 0 || from[i] > 15) bad = i;
    if (from && bad >= 0)
        td__op_fail(c, TD_E_ARG, "self[%lld, %lld] is %d; numbers must be from 0 to 15",
                    (long long)(bad / k), (long long)(bad % k), (int)from[bad]);
    if (from && bad < 0 && n * k > 0) memset(to, 0, (size_t)(n * k / 2));
    for (int64_t j = 0; from && bad < 0 && j < n; j++) {
        int64_t  b = j / TD_QUANT_BLOCK, rows = block_rows(n, b);
        uint8_t *block = to + b * TD_QUANT_BLOCK * k / 2;
        for (int64_t i = 0; i < k; i++) {
            bool    high;
            int64_t at = byte_of(rows, j % TD_QUANT_BLOCK, i, &high);
            block[at] |= (uint8_t)(from[j * k + i] << (high ? 4 : 0));
        }
    }
    if (own) td_drop(own);
    return from && bad < 0;
}

/* in: mat2, qGroupSize, qScaleAndZeros. */
bool td__kern_dequantize_int4(td_opcall *c) {
    const td_tensor *w = td__in(c, 0), *s = td__in(c, 2);
    td_tensor       *out = c->out[0], *own[2] = {0};
    td_dtype         dt = (td_dtype)out->dtype;
    const uint8_t   *packed = dense(c, w, TD_U8, &own[0]);
    const char      *scale = packed ? dense(c, s, dt, &own[1]) : NULL;
    int64_t          n = out->size[0], k = out->size[1], group = td__in_int(c, 1);
    int64_t          item = td__dtype_bytes[dt];
    for (int64_t j = 0; scale && j < n; j++) {
        int64_t b = j / TD_QUANT_BLOCK, rows = block_rows(n, b);
        for (int64_t i = 0; i < k; i++) {
            int         q = number_at(packed + b * TD_QUANT_BLOCK * k / 2, rows,
                                      j % TD_QUANT_BLOCK, i);
            const char *at = scale + (i / group * n + j) * 2 * item;
            double      one = td__load_f(dt, at), zero = td__load_f(dt, at + item);
            td__store_f(dt, td__ptr(out) + (j * k + i) * item, (q - 8) * one + zero);
        }
    }
    for (int i = 0; i < 2; i++)
        if (own[i]) td_drop(own[i]);
    return scale || out->numel == 0;
}
