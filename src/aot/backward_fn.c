/* backward_fn.c -- td_aot_backward: backwards through any history as compiled code. A
 * history that is new becomes a function whose body is a walk of the engine over it,
 * with saved values and root gradients as arguments and the gradients that leaves and
 * td_grad ask for as results. The ordinary pipeline compiles it. A history that is
 * known runs the function it has. */
#include "aot/options.h"
#include "eager/history.h"
#include "tandem/compiled_backward.h"

#include <stdio.h>
#include <string.h>

/* A history that was met, and its code. */
typedef struct shape {
    struct shape    *next;
    uint64_t         hash; /* of key */
    int64_t         *key;
    int32_t         *order; /* nodes by time, latest first */
    int              n_key;
    td_fn           *f;        /* NULL: nothing to compile, see why */
    td_history_trace t;        /* what the code leaves to do */
    td_history      *now;      /* of the backward that is running */
    char             why[200]; /* the engine runs it, for this reason; "": code does */
} shape;

struct td_backward_code {
    td_shared_opts *opts;
    shape          *shapes; /* most recently used first */
    int             n, n_compiled;
    bool            full;  /* warned once: later histories run in the engine */
    TD_VEC(td_value) args; /* scratch */
    TD_VEC(td_value) out;
    TD_VEC(td_tensor *) grads;
};

/* ---- histories ---------------------------------------------------------- */

static void free_shape(shape *s) {
    td__fn_free(s->f);
    td__noted_free(&s->t);
    td__free(s->key);
    td__free(s->order);
    td__free(s);
}

/* The engine walks over the history while its nodes are there, and returns what leaves
 * and requests receive. */
static bool walk_body(td_call *c) {
    shape      *s = td_call_env(c);
    td_ctx     *cx = td_call_ctx(c);
    int         n = td_arg_count(c);
    td_tensor **copies = td__alloc(sizeof *copies * ((size_t)n + 1));
    if (!copies) return td__fail_memory(cx);
    for (int i = 0; i < n; i++) copies[i] = td_arg(c, i);
    bool      ok = td__history_trace(s->now, copies, &s->t);
    size_t    n_out = (size_t)s->t.results.n;
    td_value *out = ok ? td__alloc(sizeof *out * (n_out + 1)) : NULL;
    if (ok && !out) ok = td__fail_memory(cx);
    for (size_t i = 0; ok && i < n_out; i++)
        out[i] = td_value_tensor(s->t.results.v[i]);
    ok = ok && td_return_values(c, (td_values){out, (int)n_out});
    td__noted_drop(&s->t);
    td__free(out);
    td__free(copies);
    return ok;
}

static uint64_t hash_of(const td_history *h) {
    return td__hash(h->key.v, sizeof *h->key.v * (size_t)h->key.n, 0);
}

static bool is_same(const shape *s, const td_history *h, uint64_t hash) {
    return s->hash == hash && s->n_key == h->key.n &&
           !memcmp(s->key, h->key.v, sizeof *s->key * (size_t)s->n_key) &&
           td__history_in_order(h, s->order);
}

/* The shape of h, moved to the front; NULL: it is new. */
static shape *find(struct td_backward_code *b, const td_history *h, uint64_t hash) {
    for (shape **at = &b->shapes; *at; at = &(*at)->next) {
        shape *s = *at;
        if (!is_same(s, h, hash)) continue;
        *at = s->next;
        s->next = b->shapes;
        return b->shapes = s;
    }
    return NULL;
}

/* A function without arguments of the user: sizes are those of the history, and what
 * identifies a body by a text would identify all histories by it. */
static td_fn *make_fn(td_ctx *cx, struct td_backward_code *b, shape *s) {
    b->opts->refs++;
    td_fn *f = td__fn_make(cx, b->opts, td__shared_opts_name(b->opts, "backward"));
    if (!f) return NULL;
    f->body = walk_body;
    f->env = s;
    return f;
}

/* Remembers a history. NULL after td__fail. */
static shape *add(td_ctx *cx, struct td_backward_code *b, const td_history *h,
                  uint64_t hash) {
    size_t words = (size_t)h->key.n, nodes = (size_t)td__history_nodes(h);
    shape *s = td__zalloc(sizeof *s);
    if (!s) return td__fail_memory(cx), NULL;
    s->hash = hash;
    s->n_key = h->key.n;
    s->key = td__alloc(sizeof *s->key * (words + 1));
    s->order = td__alloc(sizeof *s->order * (nodes + 1));
    if (!s->key || !s->order) td__fail_memory(cx);
    else s->f = make_fn(cx, b, s);
    if (!s->f) return free_shape(s), NULL;
    memcpy(s->key, h->key.v, sizeof *s->key * words);
    td__history_order(h, s->order);
    s->next = b->shapes;
    b->n++;
    return b->shapes = s;
}

/* The most histories that are compiled. */
static int64_t limit_of(td_ctx *cx, const struct td_backward_code *b) {
    const td_aot_opts *o = &b->opts->opts;
    return o->limit > 0
               ? o->limit
               : (o->config ? o->config : td__config(cx))->specialization_limit;
}

/* ---- running one -------------------------------------------------------- */

/* Room for n arguments and n_out results. */
static bool reserve(struct td_backward_code *b, int n, int n_out) {
#define ROOM(vec, count)      \
    ((vec)->cap >= (count) || \
     td__vec_grow((void **)&(vec)->v, &(vec)->cap, (count), sizeof *(vec)->v))
    return ROOM(&b->args, n) && ROOM(&b->out, n_out) && ROOM(&b->grads, n_out);
#undef ROOM
}

/* Calls the code; b->grads gets references. False after td__fail. */
static bool call(td_ctx *cx, struct td_backward_code *b, shape *s, td_history *h) {
    if (!reserve(b, h->values.n, h->most)) return td__fail_memory(cx);
    for (int i = 0; i < h->values.n; i++)
        b->args.v[i] = td_value_tensor(h->values.v[i]);
    if (!td__scope_push(cx)) return false;
    s->now = h;
    int n =
        td_invoke_values(s->f, (td_values){b->args.v, h->values.n}, b->out.v, h->most);
    s->now = NULL;
    for (int i = 0; n >= 0 && i < s->t.events.n; i++)
        b->grads.v[i] = td__ref(b->out.v[i].u.t);
    td__scope_pop(cx, NULL, 0);
    return n >= 0;
}

/* The trace or the compilation failed. Without memory that is an error; else the engine
 * runs this history from now on, which is where an error of eager's own comes from. */
static td_walk_end give_up(td_ctx *cx, shape *s, const char **why) {
    if (td__error(cx) == TD_E_MEMORY) return TD_WALK_FAILED;
    snprintf(s->why, sizeof s->why, "%.190s", td__message(cx));
    td__fn_free(s->f);
    s->f = NULL;
    td_clear(cx);
    *why = s->why;
    return TD_WALK_LEFT;
}

/* A tensor that the backward reads and no node saved, such as one that a custom
 * backward knows from elsewhere: the code has the one of the first run. */
static bool closes_over(const shape *s) {
    const td_spec *c = s->f->specs;
    return c && c->program && c->program->consts.n > 0;
}

static shape *shape_of(td_backward_fn *f, td_history *h, const char **why) {
    struct td_backward_code *b = f->code;
    uint64_t                 hash = hash_of(h);
    shape                   *s = find(b, h, hash);
    if (s && s->why[0]) *why = s->why;
    if (s) return s;
    if (b->n < limit_of(f->cx, b)) return add(f->cx, b, h, hash);
    *why = "too many histories: more than the setting specialization_limit";
    if (!b->full) td__warn(f->cx, "backward: %s", *why);
    b->full = true;
    return NULL;
}

static td_walk_end run(td_backward_fn *f, td_history *h, const char **why) {
    struct td_backward_code *b = f->code;
    shape                   *s = shape_of(f, h, why);
    if (*why) return TD_WALK_LEFT;
    if (!s) return TD_WALK_FAILED;
    bool first = !s->f->specs;
    if (!call(f->cx, b, s, h)) return give_up(f->cx, s, why);
    b->n_compiled += first;
    if (first && closes_over(s))
        snprintf(s->why, sizeof s->why,
                 "a custom backward reads a tensor that nobody saved");
    return td__history_finish(h, &s->t, b->grads.v) ? TD_WALK_DONE : TD_WALK_FAILED;
}

/* ---- making and freeing ------------------------------------------------- */

static void free_code(struct td_backward_code *b) {
    for (shape *s = b->shapes, *next; s; s = next) {
        next = s->next;
        free_shape(s);
    }
    td__shared_opts_drop(b->opts);
    td__vec_free(&b->args);
    td__vec_free(&b->out);
    td__vec_free(&b->grads);
    td__free(b);
}

static void free_fn(td_backward_fn *f) {
    td__handle_disown(f);
    if (f->busy) {
        f->dropped = true;
        return;
    }
    if (f->code) free_code(f->code);
    td__vec_free(&f->h.key);
    td__vec_free(&f->h.values);
    td__vec_free(&f->h.storage);
    td__handle_free(f, TD_H_BACKWARD);
}

static void end(void *object) { free_fn(object); }

/* Options that speak of arguments, of forward or of a body mean nothing here. */
static bool check_opts(td_ctx *cx, const td_aot_opts *o) {
    static const char why[] = "has no meaning for a backward, which has no body and no "
                              "arguments of yours; leave it zero";
    if (!td__opts_only(cx, o, TD_OPT_BACK, "td_aot_backward", why)) return false;
    bool symbols = o->dynamic == TD_SHAPES_DYNAMIC || o->dynamic == TD_SHAPES_MARKED;
    return !symbols ||
           td__fail(cx, TD_E_ARG, "td_aot_backward: td_aot_opts.dynamic %s", why);
}

td_backward_fn *td_aot_backward(td_ctx *cx, const td_aot_opts *opts) {
    if (!TD_ENTER_CTX(cx)) return TD_NIL(cx, BACKWARD);
    td_shared_opts *h = td__shared_opts_make(cx, opts);
    if (!h) return TD_NIL(cx, BACKWARD);
    bool            ok = check_opts(cx, &h->opts);
    td_backward_fn *f = ok ? td__handle_make(cx, TD_H_BACKWARD, sizeof *f) : NULL;
    if (f && !(f->code = td__zalloc(sizeof *f->code))) {
        td__fail_memory(cx);
        td__handle_free(f, TD_H_BACKWARD);
        f = NULL;
    }
    if (!f) {
        td__shared_opts_drop(h);
        return TD_NIL(cx, BACKWARD);
    }
    h->opts.dynamic = TD_SHAPES_STATIC;
    f->code->opts = h;
    f->run = run;
    f->free = free_fn;
    return td__handle_own(f, end);
}

void td_backward_fn_drop(td_backward_fn *f) {
    if (TD_MAY_FREE(f, BACKWARD)) free_fn(f);
}

/* ---- what was done ------------------------------------------------------ */

/* In a captured body the answers may differ from call to call. */
static bool may_read(const td_backward_fn *f, const char *who) {
    return td__may_read(f->cx, who, "what was compiled");
}

int td_backward_histories(const td_backward_fn *f) {
    if (!TD_ENTER(f, BACKWARD) || !may_read(f, __func__)) return 0;
    return f->code->n_compiled;
}

int64_t td_backward_runs(const td_backward_fn *f) {
    if (!TD_ENTER(f, BACKWARD) || !may_read(f, __func__)) return 0;
    return f->n_compiled;
}

int64_t td_backward_misses(const td_backward_fn *f) {
    if (!TD_ENTER(f, BACKWARD) || !may_read(f, __func__)) return 0;
    return f->n_engine;
}

const char *td_backward_why(const td_backward_fn *f) {
    if (!TD_ENTER(f, BACKWARD) || !may_read(f, __func__)) return "";
    return f->why;
}

/* Appends the explanation of one history. */
static void explain(td_buf *b, const shape *s, int nr) {
    td__buf_printf(b, "history %d: %d results, %d nodes\n", nr, s->t.events.n,
                   s->t.ran.n);
    if (s->why[0]) td__buf_printf(b, "  the engine runs it: %s\n", s->why);
    if (!s->f) return;
    size_t n = td_explain(s->f, NULL, 0);
    char  *text = td__alloc(n + 1);
    if (!text) {
        b->failed = true;
        return;
    }
    td_explain(s->f, text, n + 1);
    td__buf_add(b, text);
    td__free(text);
}

size_t td_backward_explain(const td_backward_fn *f, char *out, size_t cap) {
    if (out && cap) out[0] = 0;
    if (!TD_ENTER(f, BACKWARD) || !may_read(f, __func__)) return 0;
    td_buf b = {0};
    int    nr = 0;
    td__buf_printf(&b, "%lld backwards ran as code, %lld in the engine\n",
                   (long long)f->n_compiled, (long long)f->n_engine);
    if (f->why[0]) td__buf_printf(&b, "the last of those: %s\n", f->why);
    for (const shape *s = f->code->shapes; s; s = s->next) explain(&b, s, nr++);
    size_t n = b.failed ? 0 : td__text_out(td__buf_str(&b), b.n, out, cap);
    td__buf_free(&b);
    return n;
}
