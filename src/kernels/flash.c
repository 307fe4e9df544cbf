/* flash.c -- blocks of attention: reading heads, products, scores with masks. */
#include "kernels/flash.h"

#include "kernels/gemm.h"
#include "kernels/loops/loops.h"

/* The library runs products of so many multiply-adds without packing them. */
enum { BLOCK_WORK = 1 << 19, LEAST_KEYS = 32, MOST_KEYS = 256 };

/* Strides of the mask along B, H, T, S; 0 where it is broadcast. */
static void align_mask(td_flash *f) {
    const td_tensor *m = f->mask;
    for (int i = 0; i < 4; i++) {
        int d = i - (4 - m->rank);
        f->mask_step[i] = d < 0 || m->size[d] == 1 ? 0 : m->stride[d];
    }
}

/* The number of keys in a block is chosen so that one product has about BLOCK_WORK
 * multiply-adds. */
void td__flash_init(td_flash *f, const td_opcall *c, int first, int last) {
    const td_tensor *q = td__in(c, first);
    *f = (td_flash){.acc = td__acc_of((td_dtype)q->dtype),
                    .loops = td__reduce_loops(),
                    .q = q,
                    .k = td__in(c, first + 1),
                    .v = td__in(c, first + 2),
                    .mask = td__in(c, first + 3),
                    .causal = td__in_bool(c, last),
                    .scale = td__in_f(c, last + 1)};
    f->dtype = f->acc == TD_ACC_F32 ? TD_F32 : TD_F64;
    f->size = (int64_t)td__acc_size(f->acc);
    f->f = &f->loops->f[f->acc];
    f->heads = q->size[0] * q->size[1];
    f->t = q->size[2], f->s = f->k->size[2], f->d = q->size[3];
    f->keys = BLOCK_WORK / (TD_FLASH_QUERIES * f->d);
    f->keys -= f->keys % LEAST_KEYS;
    if (f->keys < LEAST_KEYS) f->keys = LEAST_KEYS;
    if (f->keys > MOST_KEYS) f->keys = MOST_KEYS;
    if (f->mask) align_mask(f);
}

/* Pieces start at multiples of 64 bytes. */
int64_t td__flash_cut(const td_flash *f, char *p, const int64_t *counts,
                      char **const *to, int n) {
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        if (p) *to[i] = p + total;
        total += (counts[i] * f->size + 63) & ~(int64_t)63;
    }
    return total;
}

/* ---- reading and writing heads ------------------------------------------ */

/* head counts batch and head together: head = b * H + h. */
char *td__flash_at(const td_flash *f, const td_tensor *t, int64_t head, int64_t row) {
    int64_t h = f->q->size[1];
    int64_t at = head / h * t->stride[0] + head % h * t->stride[1] + row * t->stride[2];
    return td__ptr(t) + at * (int64_t)td__dtype_bytes[t->dtype];
}

/* A library needs unit stride in a row, a constant distance between rows, and the dtype
 * of computation. */
bool td__flash_in_place(const td_flash *f, const td_tensor *t, int64_t n) {
    if ((td_dtype)t->dtype != f->dtype || t->stride[3] != 1) return false;
    return n == 1 || (t->stride[2] >= f->d && t->stride[2] < INT32_MAX);
}

/* buf is used, and may only be NULL, where rows cannot be read in place. */
td_flash_rows td__flash_rows(const td_flash *f, const td_tensor *t, td_flash_span s,
                             void *buf) {
    const int64_t step = t->stride[2], bytes = (int64_t)td__dtype_bytes[t->dtype];
    char         *p = td__flash_at(f, t, s.head, s.row);
    if (td__flash_in_place(f, t, s.n))
        return (td_flash_rows){p, s.n == 1 ? f->d : step};
    for (int64_t r = 0; r < s.n; r++)
        f->loops->load[f->acc][t->dtype](p + r * step * bytes, t->stride[3], f->d,
                                         (char *)buf + r * f->d * f->size);
    return (td_flash_rows){buf, f->d};
}

/* Converts on the way; rows lie f->d elements apart. */
void td__flash_store(const td_flash *f, const td_tensor *t, td_flash_span s,
                     const char *rows) {
    const int64_t step = t->stride[2] * (int64_t)td__dtype_bytes[t->dtype];
    char         *p = td__flash_at(f, t, s.head, s.row);
    for (int64_t r = 0; r < s.n; r++)
        f->loops->store[f->acc][t->dtype](rows + r * f->d * f->size, f->d,
                                          p + r * step);
}

/* to[rows][cols] = transpose of cols rows of `rows` elements, `step` elements apart. */
static void transpose_rows(const td_flash *f, const char *src, int64_t step,
                           int64_t rows, int64_t cols, void *to) {
    td__isa()->transpose(rows, cols,
                         (td_block){.dst = to,
                                    .src = src,
                                    .dst_step = cols * f->size,
                                    .src_step = step * f->size,
                                    .bytes = (int)f->size});
}

void td__flash_transpose(const td_flash *f, td_flash_rows rows, int64_t n, void *to) {
    transpose_rows(f, rows.p, rows.ld, f->d, n, to);
}

/* ---- blocks ------------------------------------------------------------- */

/* One GEMM of a block: [m, d] by [d, n]. */
void td__flash_product(const td_flash *f, td_flash_block b, td_flash_rows a,
                       const void *transposed, double scale, void *to) {
    td_gemm g = {.dtype = f->dtype, .batch = 1, .m = b.m, .n = b.n, .k = f->d};
    g.a = a.p, g.a_row = a.ld, g.a_col = 1;
    g.b = transposed, g.b_row = b.n, g.b_col = 1;
    g.c = to, g.c_row = b.n, g.c_col = 1;
    g.alpha = scale;
    td__gemm_small(&g);
}

/* One GEMM of a block: [n, m] by [m, d]. */
void td__flash_gather(const td_flash *f, td_flash_block b, const void *x,
                      td_flash_rows rows, bool more, void *to) {
    td_gemm g = {.dtype = f->dtype, .batch = 1, .m = b.n, .n = f->d, .k = b.m};
    g.a = x, g.a_row = 1, g.a_col = b.n;
    g.b = rows.p, g.b_row = rows.ld, g.b_col = 1;
    g.c = to, g.c_row = f->d, g.c_col = 1;
    g.alpha = 1, g.beta = more;
    td__gemm_small(&g);
}

int64_t td__flash_seen(const td_flash *f, int64_t i) {
    return f->causal && i < f->s ? i : f->s;
}

/* The mask of a block, transposed as the scores are. */
static void load_mask(const td_flash *f, td_flash_block b, char *to) {
    const int64_t h = f->q->size[1], *step = f->mask_step;
    const int64_t bytes = (int64_t)td__dtype_bytes[f->mask->dtype];
    const int64_t first =
        b.head / h * step[0] + b.head % h * step[1] + b.i * step[2] + b.j * step[3];
    const char *p = td__ptr(f->mask) + first * bytes;
    if ((td_dtype)f->mask->dtype == f->dtype && step[3] == 1 && step[2] > 0) {
        transpose_rows(f, p, step[2], b.m, b.n, to);
        return;
    }
    for (int64_t j = 0; j < b.m; j++)
        f->loops->load[f->acc][f->mask->dtype](p + j * step[3] * bytes, step[2], b.n,
                                               to + j * b.n * f->size);
}

/* Scores of keys after a query are -inf under a causal mask. */
void td__flash_scores(const td_flash *f, td_flash_block b, td_flash_rows k,
                      const void *transposed, void *to, void *buf) {
    td__flash_product(f, b, k, transposed, f->scale, to);
    if (f->mask) {
        load_mask(f, b, buf);
        f->f->attend_add(buf, b.m * b.n, to);
    }
    if (!f->causal) return;
    for (int64_t j = b.j > b.i ? 0 : b.i - b.j + 1; j < b.m; j++) {
        int64_t n = b.j + j - b.i; /* queries before the key */
        f->f->attend_hide(n < b.n ? n : b.n, (char *)to + j * b.n * f->size);
    }
}
