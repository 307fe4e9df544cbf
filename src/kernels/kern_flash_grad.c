/* kern_flash_grad.c -- the gradient of blocked attention. The weights P of a block
 * come again from the scores and the saved log of their sum; then
 *
 *   dV = P^T G,  dS = P (G V^T - delta),  dK = scale dS^T Q,  dQ = scale dS K
 *
 * with delta = sum(G * out) - the gradient of the log, per query. Where out is a half,
 * its rounding would be most of the error of dS; then delta comes first, from the
 * weights, as sum(P * G V^T). A task has a head's keys, or each n-th block of them
 * where there are few heads; what such tasks give a query is added up at the end, in
 * order. */
#include "kernels/flash.h"
#include "kernels/gemm.h"

#include <stdatomic.h>
#include <string.h>

enum { TASKS = 8 }; /* fewer heads are split */

/* One call. Tensors as in td_flash; a task is one part of the keys of one head. */
typedef struct backward {
    td_flash         f;
    const td_tensor *g, *out, *lse, *g_lse;
    td_tensor       *dq, *dk, *dv;
    int64_t          parts;   /* tasks of a head */
    char            *partial; /* [head][part][T][D] of dq; NULL: one part */
    char            *deltas;  /* [head][T] of halves, else NULL */
    bool             direct;  /* dk and dv are summed in their own memory */
    atomic_bool      failed;
} backward;

/* Working memory of one thread. */
typedef struct scratch {
    char *q, *g, *out, *k, *v; /* rows that cannot be read in place */
    char *queries_t, *grads_t; /* a block of queries */
    char *p, *d, *mask;        /* a block of weights and of their gradient */
    char *dq, *dk, *dv;        /* sums: a block of queries, all keys */
    char *lse, *delta;         /* per query */
} scratch;

/* Cuts a thread's scratch; with p NULL only the size is returned. */
static int64_t lay_out(const backward *t, char *p, scratch *w) {
    const td_flash *f = &t->f;
    const int64_t   q = TD_FLASH_QUERIES, rows = q * f->d, keys = f->keys * f->d;
    const int64_t   block = q * f->keys, all = t->direct ? 0 : f->s * f->d;
    const int64_t   counts[] = {rows, rows, rows,  keys,  keys,
                                rows, rows, block, block, f->mask ? block : 0,
                                rows, all,  all,   q,     q};
    char **const    to[] = {&w->q,         &w->g,       &w->out, &w->k,   &w->v,
                            &w->queries_t, &w->grads_t, &w->p,   &w->d,   &w->mask,
                            &w->dq,        &w->dk,      &w->dv,  &w->lse, &w->delta};
    return td__flash_cut(f, p, counts, to, TD_COUNT(to));
}

/* Rows of the sums for keys j and on. */
static td_flash_rows sums(const backward *t, const td_tensor *d, char *buf,
                          td_flash_block b) {
    const td_flash *f = &t->f;
    if (!t->direct) return (td_flash_rows){buf + b.j * f->d * f->size, f->d};
    return td__flash_rows(f, d, (td_flash_span){b.head, b.j, f->s}, NULL);
}

/* to += scale * X rows for a block X: a row per key. */
static void spread(const td_flash *f, td_flash_block b, const void *x, double scale,
                   td_flash_rows rows, td_flash_rows to) {
    td_gemm g = {.dtype = f->dtype, .batch = 1, .m = b.m, .n = f->d, .k = b.n};
    g.a = x, g.a_row = b.n, g.a_col = 1;
    g.b = rows.p, g.b_row = rows.ld, g.b_col = 1;
    g.c = to.p, g.c_row = to.ld, g.c_col = 1;
    g.alpha = scale, g.beta = 1;
    td__gemm_small(&g);
}

/* w->p and w->d for a block: P and P (G V^T - w->delta). The keys' rows. */
static td_flash_rows weigh(const backward *t, td_flash_block b, scratch *w) {
    const td_flash   *f = &t->f;
    const void *const stat[] = {w->lse, w->delta};
    td_flash_span     keys = {b.head, b.j, b.m};
    td_flash_rows     k = td__flash_rows(f, f->k, keys, w->k);
    td_flash_rows     v = td__flash_rows(f, f->v, keys, w->v);
    td__flash_scores(f, b, k, w->queries_t, w->p, w->mask);
    td__flash_product(f, b, v, w->grads_t, 1, w->d);
    f->f->attend_grad(w->p, w->d, b.m, b.n, stat);
    return k;
}

/* Adds the block's parts to dv (P^T g), dk (dS^T q) and dq (dS k). */
static void one_block(const backward *t, td_flash_block b, td_flash_rows q,
                      td_flash_rows g, scratch *w) {
    const td_flash *f = &t->f;
    td_flash_rows   k = weigh(t, b, w);
    spread(f, b, w->p, 1, g, sums(t, t->dv, w->dv, b));
    spread(f, b, w->d, f->scale, q, sums(t, t->dk, w->dk, b));
    td__flash_gather(f, b, w->d, k, true, w->dq);
}

/* The deltas of the queries of a block, from their own sums or from out. */
static void read_delta(const backward *t, td_flash_block b, td_flash_rows g,
                       scratch *w) {
    const td_flash *f = &t->f;
    if (t->deltas) {
        memcpy(w->delta, t->deltas + (b.head * f->t + b.i) * f->size,
               (size_t)(b.n * f->size));
        return;
    }
    td_flash_rows out =
        td__flash_rows(f, t->out, (td_flash_span){b.head, b.i, b.n}, w->out);
    for (int64_t i = 0; i < b.n; i++)
        f->f->dot_row(g.p + i * g.ld * f->size, out.p + i * out.ld * f->size, f->d,
                      w->delta + i * f->size);
}

/* lse of the block's queries, which may be strided. */
static void read_lse(const backward *t, td_flash_block b, scratch *w) {
    const td_flash *f = &t->f;
    td_load_fn     *load = f->loops->load[f->acc][f->dtype];
    load(td__flash_at(f, t->lse, b.head, b.i), t->lse->stride[2], b.n, w->lse);
}

/* w->lse and w->delta for the queries of a block. */
static void statistics(const backward *t, td_flash_block b, td_flash_rows g,
                       scratch *w) {
    const td_flash *f = &t->f;
    td_load_fn     *load = f->loops->load[f->acc][f->dtype];
    read_lse(t, b, w);
    read_delta(t, b, g, w);
    if (!t->g_lse) return;
    load(td__flash_at(f, t->g_lse, b.head, b.i), t->g_lse->stride[2], b.n, w->p);
    f->f->shift(w->delta, w->p, 1, b.n, w->delta);
}

/* The queries [b.i, b.i + b.n) against a part's blocks of keys. */
static void one_row(const backward *t, td_flash_block b, int64_t part, scratch *w) {
    const td_flash *f = &t->f;
    td_flash_span   at = {b.head, b.i, b.n};
    td_flash_rows   q = td__flash_rows(f, f->q, at, w->q);
    td_flash_rows   g = td__flash_rows(f, t->g, at, w->g);
    const int64_t   seen = td__flash_seen(f, b.i + b.n);
    td__flash_transpose(f, q, b.n, w->queries_t);
    td__flash_transpose(f, g, b.n, w->grads_t);
    statistics(t, b, g, w);
    memset(w->dq, 0, (size_t)(b.n * f->d * f->size));
    for (b.j = part * f->keys; b.j < seen; b.j += t->parts * f->keys) {
        b.m = seen - b.j < f->keys ? seen - b.j : f->keys;
        one_block(t, b, q, g, w);
    }
    float scale = (float)f->scale;
    f->f->scale(w->dq, f->acc == TD_ACC_F32 ? (void *)&scale : (void *)&f->scale, 0,
                b.n * f->d, w->dq);
    if (!t->partial) {
        td__flash_store(f, t->dq, at, w->dq);
        return;
    }
    memcpy(t->partial + ((b.head * t->parts + part) * f->t + b.i) * f->d * f->size,
           w->dq, (size_t)(b.n * f->d * f->size));
}

/* Calls for each of the part's blocks of keys: their sums start at zero, and in the
 * end those kept aside are stored. */
static void each_key_block(const backward *t, int64_t head, int64_t part, bool store,
                           scratch *w) {
    const td_flash *f = &t->f;
    td_flash_block  b = {.head = head, .j = part * f->keys};
    for (; b.j < f->s; b.j += t->parts * f->keys) {
        b.m = f->s - b.j < f->keys ? f->s - b.j : f->keys;
        for (int i = 0; i < 2; i++) {
            const td_tensor *to = i ? t->dv : t->dk;
            td_flash_rows    r = sums(t, to, i ? w->dv : w->dk, b);
            if (store) td__flash_store(f, to, (td_flash_span){head, b.j, b.m}, r.p);
            for (int64_t j = 0; !store && j < b.m; j++)
                memset(r.p + j * r.ld * f->size, 0, (size_t)(f->d * f->size));
        }
    }
}

/* One thread's working memory of *bytes; NULL: there is none. */
static char *take_scratch(backward *t, scratch *w, size_t *bytes) {
    *bytes = (size_t)lay_out(t, NULL, w);
    char *p = td__block_alloc(*bytes);
    if (p) lay_out(t, p, w);
    else atomic_store(&t->failed, true);
    return p;
}

/* sum(P * G V^T) for each query of a block. */
static void sum_delta(const backward *t, td_flash_block b, scratch *w) {
    const td_flash *f = &t->f;
    td_flash_span   at = {b.head, b.i, b.n};
    const int64_t   seen = td__flash_seen(f, b.i + b.n);
    char           *to = t->deltas + (b.head * f->t + b.i) * f->size;
    td__flash_transpose(f, td__flash_rows(f, f->q, at, w->q), b.n, w->queries_t);
    td__flash_transpose(f, td__flash_rows(f, t->g, at, w->g), b.n, w->grads_t);
    read_lse(t, b, w);
    memset(w->delta, 0, (size_t)(b.n * f->size));
    memset(to, 0, (size_t)(b.n * f->size));
    for (b.j = 0; b.j < seen; b.j += f->keys) {
        b.m = seen - b.j < f->keys ? seen - b.j : f->keys;
        weigh(t, b, w);
        for (int64_t j = 0; j < b.m; j++)
            f->f->attend_add(w->d + j * b.n * f->size, b.n, to);
    }
}

/* Blocks of queries in a head. */
static int64_t query_blocks(const td_flash *f) {
    return (f->t + TD_FLASH_QUERIES - 1) / TD_FLASH_QUERIES;
}

/* Blocks of queries [begin,end) of all heads. */
static void sum_deltas(void *arg, int64_t begin, int64_t end) {
    backward       *t = arg;
    const td_flash *f = &t->f;
    scratch         w;
    size_t          bytes;
    char           *p = take_scratch(t, &w, &bytes);
    if (!p) return;
    for (int64_t u = begin; u < end; u++) {
        td_flash_block b = {.head = u / query_blocks(f)};
        b.i = u % query_blocks(f) * TD_FLASH_QUERIES;
        b.n = f->t - b.i < TD_FLASH_QUERIES ? f->t - b.i : TD_FLASH_QUERIES;
        sum_delta(t, b, &w);
    }
    td__block_free(p, bytes);
}

/* Tasks [begin, end): a task is one part of the keys of one head, for all queries. */
static void tasks(void *arg, int64_t begin, int64_t end) {
    backward       *t = arg;
    const td_flash *f = &t->f;
    scratch         w;
    size_t          bytes;
    char           *p = take_scratch(t, &w, &bytes);
    if (!p) return;
    for (int64_t u = begin; u < end; u++) {
        td_flash_block b = {.head = u / t->parts};
        each_key_block(t, b.head, u % t->parts, false, &w);
        for (; b.i < f->t; b.i += TD_FLASH_QUERIES) {
            b.n = f->t - b.i < TD_FLASH_QUERIES ? f->t - b.i : TD_FLASH_QUERIES;
            one_row(t, b, u % t->parts, &w);
        }
        if (!t->direct) each_key_block(t, b.head, u % t->parts, true, &w);
    }
    td__block_free(p, bytes);
}

/* Adds the parts' dq to the first one's, for rows [begin,end) of all heads. */
static void add_parts(void *arg, int64_t begin, int64_t end) {
    const backward *t = arg;
    const td_flash *f = &t->f;
    for (int64_t u = begin; u < end; u++) {
        int64_t head = u / f->t, row = u % f->t, bytes = f->d * f->size;
        char   *sum = t->partial + (head * t->parts * f->t + row) * bytes;
        for (int64_t k = 1; k < t->parts; k++)
            f->f->attend_add(sum + k * f->t * bytes, f->d, sum);
        td__flash_store(f, t->dq, (td_flash_span){head, row, 1}, sum);
    }
}

/* Allocates what tasks share, runs deltas (halves only), tasks, and the sum of the
 * parts; false: out of memory. */
static bool run(backward *t) {
    const td_flash *f = &t->f;
    const bool      half = td__is_half((td_dtype)t->out->dtype);
    const int64_t   work = f->t * f->s * f->d / t->parts;
    const int64_t   row_work = TD_FLASH_QUERIES * f->s * f->d;
    const size_t    row = (size_t)(f->heads * f->t * f->size);
    const size_t    bytes = row * (size_t)(t->parts * f->d);
    if (half) t->deltas = td__block_alloc(row);
    if (t->parts > 1) t->partial = td__block_alloc(bytes);
    bool ok = (t->deltas || !half) && (t->partial || t->parts == 1);
    if (ok && half)
        td__pool_run(f->heads * query_blocks(f), 1 + TD_FLASH_TASK / (row_work + 1),
                     sum_deltas, t);
    if (ok && !atomic_load(&t->failed))
        td__pool_run(f->heads * t->parts, 1 + TD_FLASH_TASK / (work + 1), tasks, t);
    if (ok && t->partial && !atomic_load(&t->failed))
        td__pool_run(f->heads * f->t, 1 + TD_FLASH_TASK / (4 * f->d), add_parts, t);
    if (t->partial) td__block_free(t->partial, bytes);
    if (t->deltas) td__block_free(t->deltas, row);
    return ok && !atomic_load(&t->failed);
}

/* in: grad, query, key, value, mask, out, logsumexp, grad_lse, is_causal, scale. */
bool td__kern_flash_attention_backward(td_opcall *c) {
    backward t = {.g = td__in(c, 0),
                  .out = td__in(c, 5),
                  .lse = td__in(c, 6),
                  .g_lse = td__in(c, 7),
                  .dq = c->out[0],
                  .dk = c->out[1],
                  .dv = c->out[2]};
    if (t.dq->numel == 0 && t.dk->numel == 0) return true;
    td__flash_init(&t.f, c, 1, 8);
    int64_t blocks = (t.f.s + t.f.keys - 1) / t.f.keys;
    t.parts = t.f.heads >= TASKS ? 1 : (TASKS + t.f.heads - 1) / t.f.heads;
    if (t.parts > blocks) t.parts = blocks;
    t.direct =
        td__flash_in_place(&t.f, t.dk, t.f.s) && td__flash_in_place(&t.f, t.dv, t.f.s);
    atomic_init(&t.failed, false);
    return run(&t) || td__fail_memory(c->cx);
}
