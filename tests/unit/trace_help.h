/* trace_help.h -- compares a body with its program in every respect a caller can see:
 * values, strides, aliasing, requires-grad, leaves, versions, writes to the arguments,
 * random state, gradients, also after writing into each result. */
#ifndef TD_TRACE_HELP_H
#define TD_TRACE_HELP_H

#include "td_test.h"

#include "trace/trace.h"
#include "tandem/tandem.h"

#include <stdlib.h>

enum { MOST = 16 };

/* How the arguments take gradients. */
typedef enum nature { PLAIN, LEAF_GRAD, MADE_GRAD, NATURES } nature;

/* Arguments and the leaves behind them. */
typedef struct world {
    td_value   in[MOST], out[MOST];
    td_tensor *leaf[MOST], *grad[MOST];
    int        n_in, n_out, n_leaf;
    bool       ok;
    uint64_t   offset;
} world;

typedef void make_fn(td_ctx *cx, world *w, nature n);

/* A tensor of draws: a leaf, or made of one. */
static inline td_tensor *drawn(td_ctx *cx, world *w, nature n, td_ints size) {
    td_tensor *t = td_randn(cx, size);
    if (n == PLAIN) return t;
    td_requires_grad_(t);
    w->leaf[w->n_leaf++] = t;
    return n == LEAF_GRAD ? t : td_mul(t, 1.5);
}

static inline void give(world *w, td_value v) { w->in[w->n_in++] = v; }
#define GIVE(w, x) give((w), TD_V(x))

/* Two matrices of one size. */
static inline void two(td_ctx *cx, world *w, nature n) {
    GIVE(w, drawn(cx, w, n, TD_SHAPE(3, 4)));
    GIVE(w, drawn(cx, w, n, TD_SHAPE(3, 4)));
}

static inline void prepare(td_ctx *cx, world *w, make_fn *make, nature n) {
    memset(w, 0, sizeof *w);
    td_seed(cx, 7);
    make(cx, w, n);
    td_seed(cx, 11);
}

#define SAME(what, a, b) \
    TD_CHECK_THAT((a) == (b), "nature %d: %s differs", (int)n, what)

static inline void check_same(const char *what, td_tensor *a, td_tensor *b, nature n) {
    SAME(what, td_is_nil(a), td_is_nil(b));
    if (td_is_nil(a)) return;
    SAME(what, td_dtype_of(a), td_dtype_of(b));
    SAME(what, td_rank(a), td_rank(b));
    for (int d = 0; d < td_rank(a); d++) {
        SAME(what, td_size(a, d), td_size(b, d));
        SAME(what, td_stride(a, d), td_stride(b, d));
    }
    SAME(what, td_offset(a), td_offset(b));
    SAME(what, td_requires_grad(a), td_requires_grad(b));
    SAME(what, td_is_leaf(a), td_is_leaf(b));
    SAME(what, td_is_view(a), td_is_view(b));
    SAME(what, td_is_inference(a), td_is_inference(b));
    if (strcmp(what, "gradient")) /* how often the engine added to it is its business */
        SAME(what, td_version(a), td_version(b));
    size_t  bytes = (size_t)td_numel(a) * sizeof(double);
    double *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    bool    same = td_read(a, TD_F64, x, bytes) && td_read(b, TD_F64, y, bytes) &&
                !memcmp(x, y, bytes);
    free(x);
    free(y);
    TD_CHECK_THAT(same, "nature %d: values of %s differ", (int)n, what);
}

/* Tensors of a world in one order: arguments, then results. */
static inline td_tensor *nth(const world *w, int i) {
    td_value v = i < w->n_in ? w->in[i] : w->out[i - w->n_in];
    return v.kind == TD_K_TENSOR ? v.u.t : NULL;
}

static inline void check_worlds(const world *a, const world *b, nature n) {
    SAME("count of results", a->n_out, b->n_out);
    for (int i = 0; i < a->n_in + a->n_out; i++) {
        td_tensor *x = nth(a, i), *y = nth(b, i);
        SAME("presence", x != NULL, y != NULL);
        if (x) check_same(i < a->n_in ? "argument" : "result", x, y, n);
        for (int k = 0; k < i && x; k++) {
            if (!nth(a, k)) continue;
            SAME("identity", x == nth(a, k), y == nth(b, k));
            SAME("aliasing", td_same_storage(x, nth(a, k)),
                 td_same_storage(y, nth(b, k)));
        }
    }
    for (int i = 0; i < a->n_out; i++) {
        SAME("kind of result", a->out[i].kind, b->out[i].kind);
        if (a->out[i].kind != TD_K_TENSOR && a->out[i].kind != TD_K_NONE)
            SAME("number", a->out[i].u.i, b->out[i].u.i);
    }
}

/* Gradients of the sum of all results that have one. */
static inline void take_grads(td_ctx *cx, world *w) {
    td_tensor *sum = NULL;
    for (int i = 0; i < w->n_out; i++) {
        td_tensor *t = nth(w, w->n_in + i);
        if (!t || !td_requires_grad(t)) continue;
        t = td_sum(td_mul(t, t));
        sum = sum ? td_add(sum, t) : t;
    }
    for (int i = 0; i < w->n_leaf; i++) w->grad[i] = td_nil(cx);
    if (!sum) return;
    td_grad_opts o = {TD_GRAD_OPTS, .allow_unused = true, .retain_graph = true};
    td_grad((td_tensors){&sum, 1}, (td_tensors){w->leaf, w->n_leaf}, w->grad, &o);
}

static inline void check_grads(td_ctx *cx, world *a, world *b, nature n) {
    take_grads(cx, a);
    take_grads(cx, b);
    CHECK_OK(cx);
    for (int i = 0; i < a->n_leaf; i++)
        check_same("gradient", a->grad[i], b->grad[i], n);
}

/* Writes into each result in turn, and all must still agree. A write eager refuses
 * must be refused in both. */
static inline void check_writes(td_ctx *cx, world *a, world *b, nature n) {
    for (int i = 0; i < a->n_out; i++) {
        td_tensor *x = nth(a, a->n_in + i), *y = nth(b, b->n_in + i);
        if (!x) continue;
        td_add_(x, 2);
        td_code first = td_error(cx);
        td_clear(cx);
        td_add_(y, 2);
        SAME("error of a write", first, td_error(cx));
        td_clear(cx);
    }
    check_worlds(a, b, n);
}

/* The text of a graph is the same after parsing it. */
static inline void check_text(td_ctx *cx, const td_graph *g) {
    td_buf text = {0}, again = {0};
    CHECK(td__graph_print(&text, g, TD_PRINT_TYPES));
    td_gfile *f = td__gfile_parse(cx, td__buf_str(&text), text.n, "text");
    TD_CHECK_THAT(!td_is_nil(f), "%s in\n%s", td_message(cx), td__buf_str(&text));
    CHECK(td__graph_print(&again, f->graphs.v[0], TD_PRINT_TYPES));
    CHECK_STR(td__buf_str(&again), td__buf_str(&text));
    td__gfile_drop(f);
    td__buf_free(&text);
    td__buf_free(&again);
}

/* What the capture says of each value is what a replay on real tensors finds. */
static inline void check_types(td_ctx *cx, const td_graph *g, td_values args,
                               nature n) {
    static world w;
    td_replay    r;
    w.n_in = 0;
    for (int i = 0; i < args.n; i++)
        if (args.v[i].kind == TD_K_TENSOR) w.in[w.n_in++] = args.v[i];
    uint64_t seed = td_rng_seed(cx), offset = td_rng_offset(cx);
    CHECK(td__replay_begin(&r, g));
    for (int i = 0; i < g->inputs.n; i++)
        td__replay_set(&r, g->inputs.v[i],
                       i < w.n_in
                           ? w.in[i]
                           : td_value_tensor(g->consts.v[g->in_desc.v[i].index]));
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *node = g->nodes.v[i];
        TD_CHECK_THAT(td__replay_node(&r, node), "%s", td_message(cx));
        for (int k = 0; k < node->n_out; k++) {
            const td_gtype  *l = node->out[k]->type;
            const td_tensor *t = r.val[node->out[k]->id].u.t;
            SAME("look: grad", l->grad, td_requires_grad(t));
            SAME("look: dtype", l->dtype, t->dtype);
            SAME("look: offset", l->offset, t->offset);
            for (int d = 0; d < t->rank; d++)
                SAME("look: sizes",
                     l->size[d] == t->size[d] && l->stride[d] == t->stride[d], true);
        }
    }
    td__replay_end(&r);
    td_rng_set(cx, seed, offset);
}

static inline void run_eager(td_ctx *cx, world *w, td_body *body, void *env) {
    w->n_out = td_call_body(cx, body, env, (td_values){w->in, w->n_in}, w->out, MOST);
    w->ok = w->n_out >= 0;
    w->offset = td_rng_offset(cx);
}

/* Captured from one world, replayed on another. */
static inline void run_captured(td_ctx *cx, world *w, td_body *body, void *env,
                                make_fn *make, nature n) {
    static world model;
    prepare(cx, &model, make, n);
    uint64_t versions[MOST] = {0}, offset = td_rng_offset(cx);
    bool     grad = td_grad_enabled(cx);
    for (int i = 0; i < model.n_in; i++)
        if (nth(&model, i)) versions[i] = td_version(nth(&model, i));
    td_values   args = {model.in, model.n_in};
    td_program *p = td_capture(cx, body, env, args);
    for (int i = 0; i < model.n_in; i++)
        if (nth(&model, i)) CHECK(td_version(nth(&model, i)) == versions[i]);
    CHECK(td_rng_offset(cx) == offset && td_grad_enabled(cx) == grad);
    w->ok = !td_is_nil(p);
    w->n_out = p ? td_program_results(p) : 0;
    if (td_is_nil(p)) return;
    td_graph *g = td__capture(cx, body, env, args);
    CHECK_OK(cx);
    TD_CHECK_THAT(td__graph_verify(g, TD_STAGE_PROGRAM), "%s", td_message(cx));
    check_text(cx, g);
    check_types(cx, g, args, n);
    td__graph_drop(g);
    w->ok = td_program_run(p, (td_values){w->in, w->n_in}, w->out, MOST);
    w->offset = td_rng_offset(cx);
    td_program_drop(p);
}

static inline void check_nature(td_body *body, void *env, make_fn *make, nature n) {
    td_ctx      *cx = td_open();
    static world a, b;
    prepare(cx, &a, make, n);
    run_eager(cx, &a, body, env);
    bool    grad = td_grad_enabled(cx), inference = td_inference_enabled(cx);
    td_code code = td_error(cx);
    td_set_grad_enabled(cx, true);
    td_inference_end(cx, (td_grad_mode){true, false});
    td_clear(cx);
    prepare(cx, &b, make, n);
    run_captured(cx, &b, body, env, make, n);
    TD_CHECK_THAT(a.ok == b.ok && td_error(cx) == code, "nature %d: %s", (int)n,
                  td_message(cx));
    if (a.ok) {
        SAME("grad mode left", td_grad_enabled(cx), grad);
        SAME("inference mode left", td_inference_enabled(cx), inference);
        td_inference_end(cx, (td_grad_mode){true, false});
        SAME("random offset", a.offset, b.offset);
        check_worlds(&a, &b, n);
        check_grads(cx, &a, &b, n);
        check_writes(cx, &a, &b, n);
    }
    td_close(cx);
}

/* The body and its program agree, whatever takes gradients. */
static inline void check_body(td_body *body, make_fn *make) {
    for (int n = 0; n < NATURES; n++) check_nature(body, NULL, make, (nature)n);
}

/* The text of the program for these arguments; the caller frees. */
static inline char *text_of_body(td_ctx *cx, td_body *body, td_values args) {
    td_program *p = td_capture(cx, body, NULL, args);
    TD_CHECK_THAT(!td_is_nil(p), "%s", td_message(cx));
    size_t n = td_program_text(p, NULL, 0);
    char  *s = malloc(n + 1);
    td_program_text(p, s, n + 1);
    td_program_drop(p);
    return s;
}

#endif
