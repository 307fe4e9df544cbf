/* kern_flash.c -- attention that never stores its scores: for a block of queries,
 * softmax goes along the blocks of keys with the greatest score and the sum so far,
 * and what has been gathered is scaled down when a greater score comes. */
#include "kernels/flash.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* One call; tasks are blocks of queries of all heads. */
typedef struct forward {
    td_flash    f;
    td_tensor  *out, *lse;
    int64_t     blocks; /* of queries, in a head */
    atomic_bool failed;
} forward;

/* Working memory of one thread. */
typedef struct scratch {
    char *q, *k, *v;            /* rows that cannot be read in place */
    char *transposed;           /* the block's queries */
    char *scores, *mask;        /* a block */
    char *sum;                  /* of the values, by the weights so far */
    char *max, *total, *factor; /* per query */
} scratch;

/* Cuts a thread's scratch; with p NULL only the size is returned. */
static int64_t lay_out(const td_flash *f, char *p, scratch *w) {
    const int64_t q = TD_FLASH_QUERIES, rows = q * f->d, keys = f->keys * f->d;
    const int64_t block = q * f->keys;
    const int64_t counts[] = {rows, keys, keys, rows, block, f->mask ? block : 0,
                              rows, q,    q,    q};
    char **const  to[] = {&w->q,    &w->k,   &w->v,   &w->transposed, &w->scores,
                          &w->mask, &w->sum, &w->max, &w->total,      &w->factor};
    return td__flash_cut(f, p, counts, to, TD_COUNT(to));
}

/* One block of keys: its part of w->sum. */
static void one_block(const td_flash *f, td_flash_block b, scratch *w) {
    void *const   stat[] = {w->max, w->total, w->factor};
    td_flash_span keys = {b.head, b.j, b.m};
    td_flash_rows k = td__flash_rows(f, f->k, keys, w->k);
    td__flash_scores(f, b, k, w->transposed, w->scores, w->mask);
    if (f->f->attend(w->scores, b.m, b.n, stat) && b.j > 0)
        for (int64_t i = 0; i < b.n; i++) {
            char *row = w->sum + i * f->d * f->size;
            f->f->scale(row, w->factor + i * f->size, 0, f->d, row);
        }
    td_flash_rows v = td__flash_rows(f, f->v, keys, w->v);
    td__flash_gather(f, b, w->scores, v, b.j > 0, w->sum);
}

/* Divides the gathered values by the sums of weights and stores rows and lse. */
static void finish(const forward *t, td_flash_block b, scratch *w) {
    const td_flash *f = &t->f;
    void *const     stat[] = {w->max, w->total, w->factor};
    char           *lse = td__ptr(t->lse) + (b.head * f->t + b.i) * f->size;
    f->f->attend_end(b.n, stat, lse);
    td_flash_span at = {b.head, b.i, b.n};
    bool          direct = td__flash_in_place(f, t->out, b.n);
    td_flash_rows to = {w->sum, f->d};
    if (direct) to = td__flash_rows(f, t->out, at, NULL);
    for (int64_t i = 0; i < b.n; i++)
        f->f->divide(w->sum + i * f->d * f->size, w->total + i * f->size, 0, f->d,
                     to.p + i * to.ld * f->size);
    if (!direct) td__flash_store(f, t->out, at, w->sum);
}

/* One block of queries against all keys it sees. */
static void one_task(const forward *t, int64_t head, int64_t at, scratch *w) {
    const td_flash *f = &t->f;
    td_flash_block  b = {.head = head, .i = at * TD_FLASH_QUERIES};
    b.n = f->t - b.i < TD_FLASH_QUERIES ? f->t - b.i : TD_FLASH_QUERIES;
    td_flash_rows q = td__flash_rows(f, f->q, (td_flash_span){head, b.i, b.n}, w->q);
    int64_t       seen = td__flash_seen(f, b.i + b.n);
    td__flash_transpose(f, q, b.n, w->transposed);
    f->f->attend_hide(b.n, w->max);
    memset(w->total, 0, (size_t)(b.n * f->size));
    for (b.j = 0; b.j < seen; b.j += f->keys) {
        b.m = seen - b.j < f->keys ? seen - b.j : f->keys;
        one_block(f, b, w);
    }
    finish(t, b, w);
}

/* A head's blocks come first, last, second, last but one, ...: under a causal mask
 * any run of them is about equally long. */
static void tasks(void *arg, int64_t begin, int64_t end) {
    forward *t = arg;
    scratch  w;
    size_t   bytes = (size_t)lay_out(&t->f, NULL, &w);
    char    *p = td__block_alloc(bytes);
    if (!p) {
        atomic_store(&t->failed, true);
        return;
    }
    lay_out(&t->f, p, &w);
    for (int64_t u = begin; u < end; u++) {
        int64_t i = u % t->blocks;
        one_task(t, u / t->blocks, i % 2 ? t->blocks - 1 - i / 2 : i / 2, &w);
    }
    td__block_free(p, bytes);
}

bool td__kern_flash_attention(td_opcall *c) {
    forward t = {.out = c->out[0], .lse = c->out[1]};
    if (t.out->numel == 0) return true;
    td__flash_init(&t.f, c, 0, 4);
    t.blocks = (t.f.t + TD_FLASH_QUERIES - 1) / TD_FLASH_QUERIES;
    atomic_init(&t.failed, false);
    int64_t work = TD_FLASH_QUERIES * t.f.s * t.f.d;
    td__pool_run(t.f.heads * t.blocks, 1 + TD_FLASH_TASK / work, tasks, &t);
    return !atomic_load(&t.failed) || td__fail_memory(c->cx);
}
