/* native_run.c -- runs the steps of native code: launches kernels on the thread pool
 * and calls ops. Values are in a td_replay, as for the interpreter. */
#include "backend/native.h"
#include "core/readonly.h"

#include "kernels/pointwise.h"

#include <time.h>

/* Elements worth a thread before a kernel was measured, runs that are measured, and the
 * elements they have at least. */
enum { GRAIN = 16384, TIMED = 8, ENOUGH = 1024 };
/* Elements worth a part of a COLUMN, most parts, and elements that no two threads
 * divide, so that they write to other cache lines. */
enum { PART = 65536, MOST_PARTS = 32, LINE = 64 };

static int64_t extent(const td_launch *k, td_extent e) {
    return e.p < 0 ? e.c : e.c * k->size[e.p];
}

/* Evaluates the kernel's symbolic sizes. False after td__fail. */
static bool find_sizes(const td_native *c, const td_replay *r, td_launch *k) {
    for (int i = 0; i < k->b.params.n; i++) {
        const td_product *p = &c->low.products.v.v[k->b.params.v[i]];
        k->size[i] = td__product_value(p, c->g, r->bound);
        if (k->size[i] == INT64_MIN)
            return td__fail(c->g->cx, TD_E_SHAPE,
                            "@%.60s: a symbolic size has no value in this call",
                            c->g->name);
    }
    return true;
}

/* The type of a value for these bindings. */
static void find_meta(const td_graph *g, const td_gtype *type, const int64_t *bound,
                      td_meta *m) {
    m->dtype = (td_dtype)type->dtype;
    m->rank = type->rank;
    m->strided = !type->dense;
    m->device = type->device;
    m->offset = 0;
    for (int d = 0; d < type->rank; d++) {
        m->size[d] = td__gdim_value(g, type->size[d], bound);
        m->stride[d] = td__gdim_value(g, type->stride[d], bound);
    }
}

/* Metadata of the results, computed once; with symbolic sizes they are filled in at
 * each run. */
td_made_meta *td__launch_metas(const td_graph *g, const td_launch *k) {
    td_made_meta *m = td__alloc(sizeof *m * (size_t)(k->b.makes.n + 1));
    for (int i = 0; m && i < k->b.makes.n; i++) {
        find_meta(g, k->b.makes.v[i]->type, NULL, &m[i].as);
        m[i].count = td__tensor_count(&m[i].as);
    }
    return m;
}

/* Allocates result i. A value in the arena gets a tensor only if a call or output
 * needs it. */
static bool make_value(const td_native *c, td_replay *r, const td_launch *k, int i) {
    const td_gval       *v = k->b.makes.v[i];
    const td_live_range *s = td__memory_range(c, v);
    const td_made_meta  *made = k->metas ? &k->metas[i] : NULL;
    td_ctx              *cx = c->g->cx;
    td_meta              now;
    const td_meta       *m = made ? &made->as : &now;
    if (s && !c->low.needed[v->id]) return true;
    if (!made) find_meta(c->g, v->type, r->bound, &now);
    td_tensor *t = s                     ? td__tensor_over(cx, s->st, m)
                   : made && made->count ? td__tensor_counted(cx, m, made->count)
                                         : td__tensor_make(cx, m, false);
    return t && td__replay_set(r, v, td_value_tensor(t));
}

/* Reuses the memory of `from` for v, if this step is its last reader and nothing else
 * refers to it; the loops read each element before they write it. False: not
 * possible. */
static bool take_over(const td_native *c, td_replay *r, const td_gval *v,
                      const td_gval *from) {
    if (!from || r->reads[from->id] != 1 || td__memory_range(c, v)) return false;
    if (r->val[from->id].kind != TD_K_TENSOR) return false;
    td_tensor *t = r->val[from->id].u.t;
    if (t->refs != 1 || t->base || t->steps || t->ag ||
        atomic_load_explicit(&t->st->refs, memory_order_relaxed) != 1 || t->offset)
        return false;
    return td__replay_set(r, v, td_value_tensor(t));
}

/* Bytes from its first element to the end of its storage. */
static int64_t bytes_from(const td_tensor *t) {
    return (int64_t)t->st->bytes - t->offset * td__dtype_bytes[t->dtype];
}

static const int64_t none = 0; /* what a pointer beyond the end of a storage reads */

char *td__native_pointer(const td_tensor *t, int64_t at, int64_t end) {
    return bytes_from(t) >= end ? (char *)td__ptr(t) + at : (char *)(uintptr_t)&none;
}

/* Addresses of all pointers, as td__native_pointer gives them. A tensor without
 * elements may still have a storage that views read (as_strided). */
static void find_pointers(const td_native *c, const td_replay *r, td_launch *k) {
    for (int i = 0; i < k->b.bytes.n; i++) {
        const td_bytes      *y = &k->b.bytes.v[i];
        const td_value      *x = &r->val[y->v->id];
        bool                 tensor = x->kind == TD_K_TENSOR;
        const td_live_range *s = tensor ? NULL : td__memory_range(c, y->v);
        char                *p = tensor ? td__ptr(x->u.t) : s->st->data;
        int64_t              item = td__dtype_bytes[y->dtype];
        int64_t              at = extent(k, y->offset) * item;
        int64_t              left = tensor ? bytes_from(x->u.t) : (int64_t)s->bytes;
        bool                 there = k->on || left >= at + item;
        k->ptr[i] = there ? p + at : (char *)(uintptr_t)&none;
    }
}

/* Reserves random numbers for each draw, in graph order. */
static void find_draws(const td_native *c, const td_replay *r, td_launch *k) {
    td_ctx *cx = c->g->cx;
    for (int i = 0; i < k->b.draws.n; i++) {
        const td_draw  *d = &k->b.draws.v[i];
        const td_gtype *type = d->v->type;
        int64_t         n = 1;
        for (int j = 0; j < type->rank; j++)
            n *= td__gdim_value(c->g, type->size[j], r->bound);
        k->given[d->at] = (int64_t)cx->rng_seed;
        k->given[d->at + 1] = (int64_t)cx->rng_offset;
        cx->rng_offset += (uint64_t)((n + d->per - 1) / d->per);
    }
}

/* Fills the numbers that are known at run time only. False after td__fail. */
static bool find_run_numbers(const td_native *c, const td_replay *r, td_launch *k) {
    for (int i = 0; i < k->b.run_numbers.n; i++) {
        const td_run_number *t = &k->b.run_numbers.v[i];
        const td_garg       *a = t->arg;
        bool                 value = a->kind == TD_G_VALUE;
        td_value             v = value ? r->val[a->u.v->id] : td_value_none();
        if (!value) v = td_value_int(td__gdim_value(c->g, a->u.i, r->bound));
        if (v.kind == TD_K_INT && v.u.i == INT64_MIN)
            return td__fail(c->g->cx, TD_E_SHAPE,
                            "@%.60s: a symbolic size has no value in this call",
                            c->g->name);
        k->given[t->at] = td__pw_number(t->pw, v);
    }
    return true;
}

bool td__launch_numbers(const td_native *c, const td_replay *r, td_launch *k) {
    find_draws(c, r, k);
    return find_run_numbers(c, r, k);
}

/* One launch on the pool. */
typedef struct job {
    td_launch  *k;
    td_nest_run run;
    int64_t     rows, parts;
    int64_t     inside; /* elements of a row */
} job;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void do_rows(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    j->k->kernel.run(&j->run, 0, begin, end);
}

/* The part that the caller runs tells what an element costs; the first run finds
 * nothing in the caches, so the least of some counts. */
static void do_timed_rows(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    td_launch *k = j->k;
    double     start = begin ? 0 : now_ns();
    do_rows(arg, begin, end);
    if (begin) return;
    double ns = (now_ns() - start) / ((double)(end - begin) * (double)j->inside);
    if (k->n_timed++ == 0 || ns < k->ns) k->ns = ns;
}

/* Runs the rows on as many threads as pay. */
static void run_rows(job *j, bool lines) {
    td_launch *k = j->k;
    int64_t    grain = GRAIN / (j->inside + 1) + 1;
    if (k->n_timed) {
        double  ns = k->ns * (double)j->rows * (double)j->inside;
        int64_t n = td__pool_threads(ns, j->rows);
        grain = (j->rows + n - 1) / n;
    }
    if (lines) grain = (grain + LINE - 1) / LINE * LINE;
    bool timed = k->n_timed < TIMED && j->rows * j->inside >= ENOUGH;
    td__pool_run(j->rows, grain, timed ? do_timed_rows : do_rows, j);
}

/* The bounds of a part depend on the number of rows and parts only, not on the
 * threads. */
static void do_parts(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    for (int64_t p = begin; p < end; p++)
        j->k->kernel.run(&j->run, p, j->rows * p / j->parts,
                         j->rows * (p + 1) / j->parts);
}

static void do_end(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    j->k->kernel.end(&j->run, j->parts, begin, end);
}

/* Runs a kernel with COLUMNs. The number of parts depends on sizes only, so that
 * results do not depend on the number of threads. False after td__fail. */
static bool run_parts(td_ctx *cx, job *j, int64_t inside) {
    const td_launch *k = j->k;
    int64_t          work = j->rows * (inside > 0 ? inside : 1), n = work / PART;
    n = n > MOST_PARTS ? MOST_PARTS : n > j->rows ? j->rows : n;
    j->parts = n < 1 ? 1 : n;
    j->run.part_bytes = 8 * (k->n_wide * inside + k->n_single);
    j->run.part_bytes = (j->run.part_bytes + 63) & ~(int64_t)63;
    size_t bytes = (size_t)(j->parts * j->run.part_bytes);
    if (!(j->run.parts = td__block_alloc(bytes))) return td__fail_memory(cx);
    td__pool_run(j->parts, 1, do_parts, j);
    td__pool_run(k->n_wide ? inside : 1, GRAIN, do_end, j);
    td__block_free(j->run.parts, bytes);
    return true;
}

/* Runs a kernel over all threads. A nest of one dim has no rows: its elements are
 * divided among the threads. Folds over rows run in parts that KERNEL_end combines, so
 * that the result does not depend on the number of threads. */
bool td__launch_run(const td_native *c, td_launch *k) {
    const td_nest *n = &k->b.nest;
    int64_t        rows = extent(k, n->rows), inside = extent(k, n->inside);
    if (k->on)
        return td__launch_run_device(c->g->cx, k, rows, inside, td__memory_parts(c));
    bool plain = n->n_outer == 0 && n->n_dims == 1;
    job  j = {.k = k, .rows = rows, .parts = 1};
    j.run.ptr = k->ptr;
    j.run.size = k->size;
    j.run.given = k->given;
    if (plain) {
        j.rows = inside; /* threads divide elements instead of rows */
        inside = 1;
    }
    if (k->kernel.has_end) return run_parts(c->g->cx, &j, inside);
    j.inside = inside > 0 ? inside : 1;
    if (j.rows > 0) run_rows(&j, plain);
    return true;
}

/* The check that exec.c does before an op that writes. False after td__fail. */
bool td__launch_may_write(const td_native *c, const td_replay *r, const td_launch *k) {
    for (int i = 0; i < k->b.writes.n; i++)
        if (r->val[k->b.writes.v[i]->id].u.t->st->readonly)
            return td__fail(c->g->cx, TD_E_ALIAS, "copy_: self " TD_READONLY_CLONE);
    return true;
}

/* Advances the versions of written storages, as exec.c does. */
void td__launch_note_writes(const td_replay *r, const td_launch *k) {
    for (int i = 0; i < k->b.writes.n; i++) {
        td_storage *st = r->val[k->b.writes.v[i]->id].u.t->st;
        atomic_fetch_add_explicit(&st->version, 1, memory_order_relaxed);
        st->writer = td__row(TD_OP_copy_)->name;
    }
}

/* Outputs belong to the caller's scope; other values are freed after their last read.
 */
static bool make_values(const td_native *c, td_replay *r, const td_launch *k) {
    bool ok = !k->inner || td__scope_push(c->g->cx);
    if (!ok) return false;
    for (int i = 0; ok && i < k->b.makes.n; i++)
        ok = take_over(c, r, k->b.makes.v[i], k->over[i]) || make_value(c, r, k, i);
    if (k->inner) td__scope_pop(c->g->cx, NULL, 0);
    return ok;
}

/* Runs one kernel. False after td__fail. */
static bool take_launch(const td_native *c, td_replay *r, td_launch *k) {
    bool ok =
        find_sizes(c, r, k) && td__launch_may_write(c, r, k) && make_values(c, r, k);
    if (!ok) return false;
    find_pointers(c, r, k);
    if (!td__launch_numbers(c, r, k) || !td__launch_run(c, k)) return false;
    td__launch_note_writes(r, k);
    for (int i = 0; i < k->n_reads; i++) td__replay_read(r, k->reads[i]);
    return true;
}

bool td__native_fits(const td_graph *g, const td_gtype *l, const td_tensor *t,
                     const int64_t *bound) {
    if (l->rank != t->rank || l->dtype != t->dtype || l->device != t->st->device)
        return false;
    for (int d = 0; d < l->rank; d++) {
        bool plain = g->dims.n == 0; /* numbers need no looking up */
        if ((plain ? l->size[d] : td__gdim_value(g, l->size[d], bound)) != t->size[d])
            return false;
        if (t->size[d] > 1 &&
            (plain ? l->stride[d] : td__gdim_value(g, l->stride[d], bound)) !=
                t->stride[d])
            return false;
    }
    return true;
}

/* Do the inputs have the strides and offsets the code was compiled for? A value
 * returned by a hook or another op may have others. */
static bool inputs_fit(const td_native *c, const td_replay *r) {
    for (int i = 0; i < c->g->inputs.n; i++) {
        const td_gval  *v = c->g->inputs.v[i];
        const td_value *x = &r->val[v->id];
        if (x->kind == TD_K_TENSOR && v->type &&
            !td__native_fits(c->g, v->type, x->u.t, r->bound))
            return false;
    }
    return true;
}

/* Inputs have another layout than expected: replays the graph node by node. */
static bool walk_nodes(td_replay *r) {
    int32_t *reads = r->reads;
    bool     ok = true;
    r->reads = NULL;
    for (int i = 0; ok && i < r->g->nodes.n; i++)
        ok = td__replay_node(r, r->g->nodes.v[i]);
    r->reads = reads;
    return ok;
}

/* Calls an op. The first op that makes results uses the storages that its results have
 * in the arena; a result that does not fit is allocated. */
static bool take_call(const td_native *c, td_replay *r, int step) {
    const td_gnode *n = c->steps.v[step].node;
    td_ctx         *cx = c->g->cx;
    td_result_place in[TD_MAX_RESULTS] = {0};
    bool            any = false; /* of longer lists none: their results are allocated */
    bool            few = n->n_out <= TD_MAX_RESULTS;
    for (int i = 0; few && (c->mem.arena || c->mem.on) && i < n->n_out; i++) {
        const td_part       *p = td__parts_of(c, n->out[i]);
        const td_live_range *s = td__memory_range(c, p ? p->whole : n->out[i]);
        in[i] = (td_result_place){.st = s ? s->st : NULL, .as = p ? &p->as : NULL};
        any |= s != NULL;
    }
    td__memory_lend(c, step);
    cx->results_in = any ? in : NULL;
    bool ok = td__replay_node(r, n);
    cx->results_in = NULL;
    td__memory_lend(c, -1);
    return ok;
}

static void note_work(td_ctx *cx, td_work w) {
    td__span_arg(cx, "read", w.read);
    td__span_arg(cx, "written", w.written);
    td__span_arg(cx, "flops", w.flops);
}

void td__native_note_launch(td_ctx *cx, const td_launch *k) {
    if (TD_UNLIKELY(cx->spans.on)) note_work(cx, td__launch_work(k, true));
}

/* For traces (TD_TRACE). */
static void note_step(const td_native *c, const td_replay *r, const td_native_step *s) {
    if (s->node) note_work(c->g->cx, td__call_work(c->g, s->node, r->bound));
    else td__native_note_launch(c->g->cx, &c->launches[s->launch]);
}

/* So that the span of a step has the time that it takes on the device. */
static void wait_for_device(const td_native *c) {
    td_device_state *d = c->low.device ? td__device_state(c->low.device) : NULL;
    if (!d || !d->plugin) return;
    pthread_mutex_lock(&d->lock);
    d->plugin->sync(d->dev);
    pthread_mutex_unlock(&d->lock);
}

/* Launches and op calls in order, each in a span of its own for TD_TRACE. */
bool td__native_steps(const td_native *c, td_replay *r) {
    td_ctx *cx = c->g->cx;
    for (int i = 0; i < c->steps.n; i++) {
        const td_native_step *s = &c->steps.v[i];
        td_launch            *k = s->node ? NULL : &c->launches[s->launch];
        const char           *name = s->node ? td__row(s->node->op)->name : k->label;
        td__span_begin(cx, name);
        if (!(s->node ? take_call(c, r, i) : take_launch(c, r, k))) return false;
        if (TD_UNLIKELY(cx->spans.on)) {
            note_step(c, r, s);
            wait_for_device(c);
        }
        td__span_end(cx, name);
    }
    return true;
}

/* Runs the native code, or the interpreter if the inputs do not fit: same results,
 * slower. */
bool td__native_walk(void *env, td_replay *r) {
    td_native *c = env;
    if (c->interpreted || !inputs_fit(c, r)) return walk_nodes(r);
    bool ok = td__memory_take(c, r->bound) &&
              (c->low.device ? td__record_walk(c, r) : td__native_steps(c, r));
    td__memory_give(c);
    return ok;
}
