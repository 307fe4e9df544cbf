/* native_device.c -- kernels of compiled code on a device: which nodes become nests,
 * and a launch with its arguments. One device per graph: nodes of another are
 * called. */
#include "backend/native.h"

#include "build/device_code.h"

#include <string.h>

bool td__device_has_loops(uint8_t code) {
    const td_device_state *d = td__device_state(code);
    return d->plugin && d->plugin->build;
}

/* ---- making --------------------------------------------------------------- */

/* Bytes of shared memory in which a block may keep rows: at most half of what a
 * processor has, so that one block reads while another computes. */
static int64_t kept_bytes(uint8_t device) {
    const td_device_state *d = td__device_state(device);
    return d->dev && d->plugin->shared ? d->plugin->shared(d->dev) / 2 : 0;
}

/* The name of a kernel in traces: the ops of the launch, joined by underscores. */
static void add_name(td_buf *to, const char *label, const char *end) {
    td__buf_add(to, "#define TD_NAME td_");
    for (const char *p = label; *p; p++)
        if (*p != '.') td__buf_addn(to, *p == '+' ? "_" : p, 1);
    td__buf_printf(to, "%s\n", end);
}

/* Writes the texts of a nest. False: out of memory. */
static bool write_texts(td_on_device *t, const td_nest *n, const char *label,
                        bool vectors) {
    td_device_code code = {0};
    add_name(&code.text, label, "");
    add_name(&code.end, label, "_end");
    bool ok = td__device_emit(n, vectors, kept_bytes(t->device), &code);
    if (ok && t->text) {
        t->plain_threads = code.threads;
        t->plain_shared = code.shared;
        ok = (t->plain_text = td__text_copy(&code.text)) != NULL;
    } else if (ok) {
        t->threads = code.threads;
        t->shared = code.shared;
        t->text = td__text_copy(&code.text);
        t->end_text = code.has_end ? td__text_copy(&code.end) : NULL;
        t->vector = code.vector;
        t->shape = code.shape;
        t->tile = code.tile;
        t->n_wide = code.n_wide;
        t->n_single = code.n_single;
        t->has_end = code.has_end;
        ok = t->text && (t->end_text || !code.has_end);
    }
    td__device_code_free(&code);
    return ok;
}

bool td__launch_write_device(td_launch *k, uint8_t device) {
    td_on_device *t = k->on = td__zalloc(sizeof *t);
    if (!t) return false;
    const td_nest *n = &k->b.nest;
    t->device = device;
    t->n_words = n->ptr.n + 1 + n->n_sizes + 1 + n->n_given + 1 + 1;
    t->varies = k->b.draws.n || k->b.run_numbers.n;
    t->word = td__zalloc(sizeof *t->word * (size_t)t->n_words);
    return t->word && write_texts(t, n, k->label, true) &&
           (!t->vector || write_texts(t, n, k->label, false));
}

void td__on_device_drop(td_on_device *t) {
    if (!t) return;
    td__free(t->text);
    td__free(t->end_text);
    td__free(t->plain_text);
    td__free(t->word);
    td__free(t);
}

bool td__device_kernels(const td_native *c) {
    const char **text = td__alloc(sizeof *text * (2 * (size_t)c->n_launches + 1));
    int          n = 0;
    if (!text) return td__fail_memory(c->g->cx);
    for (int i = 0; i < c->n_launches; i++) {
        const td_on_device *t = c->launches[i].on;
        if (t) text[n++] = t->text;
        if (t && t->has_end) text[n++] = t->end_text;
    }
    td_device_state *d = n ? td__device_open(c->g->cx, c->low.device) : NULL;
    if (d) td__device_build_all(c->g->cx, d, text, n);
    td__free(text);
    return d || n == 0;
}

/* Builds the kernels, or finds them. False after td__fail. */
bool td__launch_load_device(td_ctx *cx, td_on_device *t) {
    td_device_state *d = td__device_open(cx, t->device);
    if (!d) return false;
    t->kernel = td__device_build(cx, d, t->text);
    if (t->has_end) t->end = td__device_build(cx, d, t->end_text);
    if (t->kernel && (t->end || !t->has_end)) return true;
    return td__fail(cx, TD_E_UNSUPPORTED, "%s: a kernel was not built: %.1000s",
                    td__device_str(d->code), d->plugin->error(d->dev));
}

/* ---- running -------------------------------------------------------------- */

/* MANY: blocks that keep every GPU busy; PARTS: most parts of a fold over rows. */
enum {
    THREADS = 256,
    END_THREADS = 512,
    WARP = 32,
    EACH = 4,
    MANY = 4096,
    MOST = 1 << 16,
    PARTS = 528
};

static int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

static td_device_grid grid(int64_t blocks, int64_t threads) {
    return (td_device_grid){(uint32_t)(blocks < 1      ? 1
                                       : blocks > MOST ? MOST
                                                       : blocks),
                            (uint32_t)threads, 0, 0};
}

/* A thread takes one element, or EACH if there are many. */
static td_device_grid grid_of_elements(int64_t n) {
    int64_t blocks = divide_up(n, THREADS);
    if (blocks > MANY) blocks = blocks / EACH > MANY ? blocks / EACH : MANY;
    return grid(blocks, THREADS);
}

/* As many threads as a row can use. */
static td_device_grid grid_of_rows(int64_t blocks, int64_t inside) {
    int64_t threads = THREADS;
    while (threads > WARP && threads / 2 >= inside) threads /= 2;
    return grid(blocks, threads);
}

int64_t td__device_parts(const td_on_device *t, int64_t rows, int64_t inside) {
    int64_t n = PARTS;
    if (!t->has_end) return 0;
    if (t->threads > THREADS) n = PARTS / 2;
    if (t->shape == TD_DEVICE_COLUMNS) {
        n = MANY / 4 / divide_up(inside, t->threads * (t->vector ? t->vector : 1));
        if (n > PARTS) n = PARTS;
    }
    n = n > rows ? rows : n;
    return n < 1 ? 1 : n;
}

int64_t td__device_part_bytes(const td_on_device *t, int64_t inside) {
    return 8 * (t->n_wide * inside + t->n_single);
}

static bool start(td_ctx *cx, td_device_state *d, void *kernel, td_device_grid g,
                  td_on_device *t, int *nr) {
    void *args[1] = {t->word};
    g.bytes = (uint32_t)(sizeof *t->word * (size_t)t->n_words);
    pthread_mutex_lock(&d->lock);
    bool ok = d->plugin->launch(d->dev, kernel, g, args);
    *nr = ok && d->plugin->last ? d->plugin->last(d->dev) : -1;
    d->launches++;
    pthread_mutex_unlock(&d->lock);
    return ok ||
           td__fail(cx, TD_E_UNSUPPORTED, "%s%s%s: a kernel could not be started: %s",
                    cx->making ? cx->making : "", cx->making ? ": " : "",
                    td__device_str(d->code), d->plugin->error(d->dev));
}

/* The argument of both kernels, from the arrays of the launch. */
static void fill_words(td_launch *k, int64_t parts, char *parts_at) {
    const td_nest *n = &k->b.nest;
    int64_t       *w = k->on->word;
    for (int i = 0; i < n->ptr.n; i++) *w++ = (int64_t)(intptr_t)k->ptr[i];
    *w++ = (int64_t)(intptr_t)parts_at;
    for (int i = 0; i < n->n_sizes; i++) *w++ = k->size[i];
    *w++ = parts;
    for (int i = 0; i < n->n_given; i++) *w++ = k->given[i];
}

/* Are the pointers of this run aligned as the vectors need? */
static bool is_aligned(const td_launch *k) {
    const td_nest *n = &k->b.nest;
    for (int i = 0; i < n->ptr.n; i++)
        if ((uintptr_t)k->ptr[i] % (uintptr_t)td__device_alignment(n, k->on->vector, i))
            return false;
    return true;
}

/* The kernel for the pointers of this run. NULL after td__fail. */
static void *kernel_for(td_ctx *cx, td_launch *k, td_device_state *d, int64_t *vector) {
    td_on_device *t = k->on;
    *vector = t->vector ? t->vector : 1;
    if (!t->vector || is_aligned(k)) return t->kernel;
    *vector = 1;
    if (!t->plain) t->plain = td__device_build(cx, d, t->plain_text);
    if (!t->plain)
        td__fail(cx, TD_E_UNSUPPORTED, "%s: a kernel was not built: %.1000s",
                 td__device_str(d->code), d->plugin->error(d->dev));
    return t->plain;
}

bool td__launch_run_device(td_ctx *cx, td_launch *k, int64_t rows, int64_t inside,
                           char *parts_at) {
    td_on_device    *t = k->on;
    td_device_state *d = td__device_state(t->device);
    int64_t          parts = td__device_parts(t, rows, inside);
    int64_t          vector;
    void            *kernel = kernel_for(cx, k, d, &vector);
    if (!kernel) return false;
    td_device_grid g = grid_of_elements(rows * inside / vector);
    int64_t        threads = kernel == t->plain ? t->plain_threads : t->threads;
    int64_t        blocks = t->has_end ? parts : rows;
    if (t->shape == TD_DEVICE_ROWS)
        g = threads ? grid(blocks, threads) : grid_of_rows(blocks, inside / vector);
    if (t->shape == TD_DEVICE_COLUMNS)
        g = grid(parts * divide_up(inside / vector, threads), threads);
    g.shared = (uint32_t)(kernel == t->plain ? t->plain_shared : t->shared);
    fill_words(k, parts, parts_at);
    if (!start(cx, d, kernel, g, t, &t->nr)) return false;
    return !t->has_end ||
           start(cx, d, t->end,
                 grid(t->n_wide ? divide_up(inside, t->tile) : 1, END_THREADS), t,
                 &t->end_nr);
}
