/* device_run.c -- runs op calls on a device: finds or builds the kernel of a nest, and
 * starts it; products go to the plugin's library. A kernel is built once for a nest and
 * a device, and stays. */
#include "build/device_code.h"
#include "device/device_int.h"
#include "ops/device_kernel.h"

#include <string.h>

/* ---- kernels ------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static td_kernel_table all; /* by nest, or by what a text is written from */

/* Everything that the text of a nest depends on, as words. */
enum { MOST_WORDS = 1024 };
typedef struct words {
    int64_t v[MOST_WORDS];
    int     n;
} words;

static void put(words *w, int64_t x) {
    if (w->n < MOST_WORDS) w->v[w->n++] = x;
}

static void put_scalars(words *w, const td_stmt *s) {
    for (int k = 0; s->p && k < TD_LOOP_SCALARS; k++) {
        int64_t bits;
        memcpy(&bits, &s->p->f[k], sizeof bits);
        put(w, bits);
        put(w, s->p->i[k]);
    }
}

static void put_stmt(words *w, const td_nest *n, const td_stmt *s) {
    put(w, s->kind | s->dtype << 8 | s->compute << 16 | (int64_t)s->how << 24 |
               (int64_t)s->n << 32 | (int64_t)s->masks << 40 | (int64_t)s->wide << 48);
    put(w, s->ptr | (int64_t)s->op << 16);
    for (int k = 0; k < s->n; k++) put(w, s->a[k]);
    for (int d = 0; s->stride && d < n->n_dims; d++) {
        put(w, s->stride[d].c);
        put(w, s->stride[d].p);
    }
    put_scalars(w, s);
}

/* Hashes everything that the text of a nest depends on. False: the nest has more than
 * MOST_WORDS words. */
static bool hash_nest(const td_nest *n, td_hash128 *to) {
    words w; /* large, so it is not zeroed */
    w.n = 0;
    put(&w, n->n_dims | n->n_outer << 8 | n->ptr.n << 16);
    for (int d = 0; d < n->n_dims; d++) put(&w, n->size[d].c), put(&w, n->size[d].p);
    for (int k = 0; k < n->ptr.n; k++)
        put(&w, n->ptr.v[k].dtype | n->ptr.v[k].written << 8);
    for (int i = 0; i < n->stmt.n; i++) put_stmt(&w, n, &n->stmt.v[i]);
    *to = td__hash128(w.v, sizeof *w.v * (size_t)w.n);
    return w.n < MOST_WORDS;
}

/* Writes the text and compiles it. NULL, after a warning: it cannot be compiled. */
static void *build(td_ctx *cx, td_device_state *d, const td_device_source *from) {
    td_buf text = {0};
    bool   ok = from->write(&text, from->of);
    void  *kernel = ok ? td__device_build(cx, d, td__buf_str(&text)) : NULL;
    td__buf_free(&text);
    return kernel;
}

void *td__device_find(td_ctx *cx, td_device_state *d, td_hash128 hash,
                      const td_device_source *from) {
    bool found;
    pthread_mutex_lock(&lock);
    td_kernel_slot *k = td__kernel_slot(&all, hash, d->code, &found);
    if (k && !found) k->kernel = build(cx, d, from);
    void *kernel = k ? k->kernel : NULL;
    pthread_mutex_unlock(&lock);
    return kernel;
}

static bool write_nest(td_buf *to, const void *nest) {
    return td__device_text(to, nest);
}

/* The kernel of a nest, built at its first use. NULL: there is none. */
static void *kernel_of(td_ctx *cx, td_device_state *d, const td_nest *n) {
    td_hash128 hash;
    if (!hash_nest(n, &hash)) return NULL;
    return td__device_find(cx, d, hash, &(td_device_source){write_nest, n});
}

/* ---- launches ----------------------------------------------------------- */

/* MANY: blocks that keep every GPU busy. */
enum { THREADS = 256, WARP = 32, EACH = 4, MANY = 4096, MOST_BLOCKS = 1 << 16 };

/* The grid of a launch. A thread computes one element, or EACH if there are many: it
 * loads all before it waits for the first. Rows are divided among blocks, with as many
 * threads as a row can use. */
td_device_grid td__device_grid(int64_t inside, int64_t rows, bool by_rows) {
    int64_t threads = THREADS, blocks = (inside + THREADS - 1) / THREADS;
    if (blocks > MANY) blocks = blocks / EACH > MANY ? blocks / EACH : MANY;
    if (by_rows) {
        while (threads > WARP && threads / 2 >= inside) threads /= 2;
        blocks = rows;
    }
    if (blocks > MOST_BLOCKS) blocks = MOST_BLOCKS;
    return (td_device_grid){(uint32_t)blocks, (uint32_t)threads, 0, 0};
}

static bool has_fold(const td_nest *n) {
    for (int i = 0; i < n->stmt.n; i++)
        if (n->stmt.v[i].kind == TD_S_REDUCE) return true;
    return false;
}

bool td__device_launch(td_ctx *cx, td_device_state *d, void *kernel,
                       td_device_grid grid, td_device_run *run) {
    void *args[1] = {run};
    grid.bytes = sizeof *run;
    pthread_mutex_lock(&d->lock);
    bool ok = d->plugin->launch(d->dev, kernel, grid, args);
    d->launches++;
    pthread_mutex_unlock(&d->lock);
    if (!ok)
        td__fail(cx, TD_E_UNSUPPORTED, "%s%s%s: a kernel could not be started: %s",
                 cx->making ? cx->making : "", cx->making ? ": " : "",
                 td__device_str(d->code), d->plugin->error(d->dev));
    return ok;
}

/* Runs a nest. False: there is no kernel; else *ok is false after td__fail. */
static bool run_nest(td_ctx *cx, td_call_nest *t, td_device_state *d, bool *ok) {
    void *kernel = kernel_of(cx, d, &t->nest);
    if (!kernel) return false;
    *ok = td__device_launch(cx, d, kernel,
                            td__device_grid(t->inside, t->rows, has_fold(&t->nest)),
                            &t->run);
    return true;
}

bool td__device_copy_kernel(td_tensor *dst, const td_tensor *src, td_device_state *d,
                            bool *ok) {
    td_call_nest t;
    if (td__op_copy_vectors(dst, src, d, ok)) return true;
    bool done = td__copy_nest(&t, dst, src) && run_nest(dst->cx, &t, d, ok);
    td__call_nest_free(&t);
    return done;
}

bool td__device_fill_kernel(td_tensor *t, td_value number, td_device_state *d,
                            bool *ok) {
    td_call_nest n;
    bool         done = td__fill_nest(&n, t, number) && run_nest(t->cx, &n, d, ok);
    td__call_nest_free(&n);
    return done;
}

/* ---- products ----------------------------------------------------------- */

/* The last two dims of t as a matrix that the library can read: rows are *row elements
 * apart, or *transposed. False: neither dim is contiguous. */
static bool matrix_of(const td_tensor *t, int64_t *row, bool *transposed) {
    int64_t m = t->size[t->rank - 2], n = t->size[t->rank - 1];
    int64_t down = t->stride[t->rank - 2], across = t->stride[t->rank - 1];
    bool    plain = (across == 1 || n == 1) && (down >= n || m == 1);
    bool    other = (down == 1 || m == 1) && (across >= m || n == 1);
    *transposed = !plain;
    *row = plain ? (m == 1 ? n : down) : (n == 1 ? m : across);
    return plain || other;
}

static int64_t batch_of(const td_tensor *t) { return t->rank == 3 ? t->stride[0] : 0; }

bool td__device_product(td_opcall *c, td_device_state *d, const td_product *of,
                        bool *ok) {
    const td_tensor  *a = of->a, *b = of->b, *out = of->out;
    td_device_product p = {.a = td__ptr(a),
                           .b = td__ptr(b),
                           .c = td__ptr(out),
                           .bias = of->bias ? td__ptr(of->bias) : NULL};
    int               r = a->rank;
    bool              transposed;
    if (!d->plugin->product || out->numel == 0 || a->numel == 0 ||
        !td__is_float((td_dtype)a->dtype) || a->dtype != b->dtype ||
        a->dtype != out->dtype || !matrix_of(a, &p.row_a, &p.transposed_a) ||
        !matrix_of(b, &p.row_b, &p.transposed_b) ||
        !matrix_of(out, &p.row_c, &transposed) || transposed)
        return false;
    p.m = out->size[r - 2], p.n = out->size[r - 1], p.k = a->size[r - 1];
    p.batch = r == 3 ? out->size[0] : 1;
    p.batch_a = batch_of(a), p.batch_b = batch_of(b), p.batch_c = batch_of(out);
    p.dtype = (td_dtype)a->dtype;
    p.alpha = of->alpha, p.beta = of->beta;
    pthread_mutex_lock(&d->lock);
    int how = d->plugin->product(d->dev, &p);
    d->launches += how != 1;
    pthread_mutex_unlock(&d->lock);
    if (how == 1) return false;
    *ok = how == 0 || td__op_fail(c, TD_E_UNSUPPORTED, "%s: the product failed: %s",
                                  td__device_str(d->code), d->plugin->error(d->dev));
    return true;
}

/* mm and bmm of floats, whose operands are row- or column-major; a product that takes
 * long is padded. False: not offered. */
static bool run_product(td_opcall *c, td_device_state *d, bool *ok) {
    td_product p = {td__in(c, 0), td__in(c, 1), c->out[0], 1, 0, NULL};
    return td__device_op(c, d, ok) || td__device_product(c, d, &p, ok);
}

/* ---- calls -------------------------------------------------------------- */

bool td__device_kernel(td_opcall *c, td_device_state *d, bool *ok) {
    td_call_nest t;
    if (c->def == td__row(TD_OP_mm) || c->def == td__row(TD_OP_bmm))
        return run_product(c, d, ok);
    if (td__device_op(c, d, ok)) return true;
    bool done = td__call_nest(&t, c) && run_nest(c->cx, &t, d, ok);
    td__call_nest_free(&t);
    return done;
}
