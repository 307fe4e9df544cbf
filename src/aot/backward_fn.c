/* backward_fn.c -- td_aot_backward: backwards through any history as compiled code. A
 * history that is new becomes a function whose body is a walk of the engine over it,
 * with saved values and root gradients as arguments and the gradients that leaves and
 * td_grad ask for as results. The ordinary pipeline compiles it. A history that is
 * known runs the function it has. A history that is cut (history.h) has such a function
 * for each part, with pending gradients among arguments and results. */
#include "aot/options.h"
#include "eager/history.h"
#include "tandem/compiled_backward.h"

#include <stdio.h>
#include <string.h>

/* The code of a history or of a part of one. */
typedef struct code {
    struct code           *next;  /* of the same part */
    td_fn                 *f;     /* NULL: nothing to compile, see why */
    td_history_trace       t;     /* what the code leaves to do */
    td_history            *now;   /* of the backward that is running */
    const td_history_part *part;  /* NULL: the whole history */
    uint8_t               *there; /* which gradients a part begins with */
    char why[200]; /* the engine runs it, for this reason; "": code does */
} code;

/* A part, and its code for each set of gradients that it began with. */
typedef struct part {
    struct part    *next;
    td_history_part p;
    code           *codes;
    int             n;
} part;

/* A history that was met. */
typedef struct shape {
    struct shape *next;
    uint64_t      hash; /* of key */
    int64_t      *key;
    int32_t      *order; /* nodes by time, latest first */
    int           n_key;
    bool          compiled;
    code          whole;
    part         *parts; /* if it is cut */
    char         *cuts;  /* for the explanation: what the engine runs */
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

/* ---- code --------------------------------------------------------------- */

static void free_code(code *c) {
    td__fn_free(c->f);
    td__noted_free(&c->t);
    td__free(c->there);
}

/* The engine walks over the nodes while they are there, and returns what leaves,
 * requests and later nodes receive. */
static bool walk_body(td_call *c) {
    code       *s = td_call_env(c);
    td_ctx     *cx = td_call_ctx(c);
    int         n = td_arg_count(c);
    td_tensor **copies = td__alloc(sizeof *copies * ((size_t)n + 1));
    if (!copies) return td__fail_memory(cx);
    for (int i = 0; i < n; i++) copies[i] = td_arg(c, i);
    bool      ok = td__history_trace(s->now, s->part, copies, &s->t);
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

/* A function without arguments of the user: sizes are those of the history, and what
 * identifies a body by a text would identify all histories by it. */
static td_fn *make_fn(td_ctx *cx, struct td_backward_code *b, code *c) {
    b->opts->refs++;
    td_fn *f = td__fn_make(cx, b->opts, td__shared_opts_name(b->opts, "backward"));
    if (!f) return NULL;
    f->body = walk_body;
    f->env = c;
    return f;
}

/* ---- histories ---------------------------------------------------------- */

static void free_part(part *p) {
    for (code *c = p->codes, *next; c; c = next) {
        next = c->next;
        free_code(c);
        td__free(c);
    }
    td__part_free(&p->p);
    td__free(p);
}

static void free_shape(shape *s) {
    free_code(&s->whole);
    for (part *p = s->parts, *next; p; p = next) {
        next = p->next;
        free_part(p);
    }
    td__free(s->cuts);
    td__free(s->key);
    td__free(s->order);
    td__free(s);
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

/* A line for each node at which the engine runs something. */
static bool list_cuts(td_ctx *cx, shape *s, const td_history *h) {
    td_buf b = {0};
    bool   ok = true;
    for (int i = 0; i < td__history_nodes(h) && ok; i++)
        ok = td__history_print_cut(h, i, &b);
    s->cuts = ok ? td__strdup(td__buf_str(&b)) : NULL;
    td__buf_free(&b);
    return s->cuts || td__fail_memory(cx);
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
    bool ok = (s->key && s->order) || td__fail_memory(cx);
    if (ok && h->host) ok = list_cuts(cx, s, h);
    else if (ok) ok = (s->whole.f = make_fn(cx, b, &s->whole)) != NULL;
    if (!ok) return free_shape(s), NULL;
    memcpy(s->key, h->key.v, sizeof *s->key * words);
    td__history_order(h, s->order);
    s->next = b->shapes;
    b->n++;
    return b->shapes = s;
}

/* The most histories that are compiled, and sets of gradients for each part. */
static int64_t limit_of(td_ctx *cx, const struct td_backward_code *b) {
    const td_aot_opts *o = &b->opts->opts;
    return o->limit > 0
               ? o->limit
               : (o->config ? o->config : td__config(cx))->specialization_limit;
}

/* ---- running code ------------------------------------------------------- */

/* Room for n arguments and n_out results. */
static bool reserve(struct td_backward_code *b, int n, int n_out) {
#define ROOM(vec, count)      \
    ((vec)->cap >= (count) || \
     td__vec_grow((void **)&(vec)->v, &(vec)->cap, (count), sizeof *(vec)->v))
    return ROOM(&b->args, n) && ROOM(&b->out, n_out) && ROOM(&b->grads, n_out);
#undef ROOM
}

/* Calls the code; b->grads gets references. False after td__fail. */
static bool call(td_ctx *cx, struct td_backward_code *b, code *s, td_history *h) {
    int most = h->most + (s->part ? s->part->at.n : 0);
    if (!reserve(b, h->values.n, most)) return td__fail_memory(cx);
    for (int i = 0; i < h->values.n; i++)
        b->args.v[i] = td_value_tensor(h->values.v[i]);
    if (!td__scope_push(cx)) return false;
    s->now = h;
    int n = td_invoke_values(s->f, (td_values){b->args.v, h->values.n}, b->out.v, most);
    s->now = NULL;
    for (int i = 0; n >= 0 && i < s->t.n_results; i++)
        b->grads.v[i] = td__ref(b->out.v[i].u.t);
    td__scope_pop(cx, NULL, 0);
    return n >= 0;
}

/* The trace or the compilation failed. Without memory that is an error; else the engine
 * runs this history or part from now on, which is where an error of eager's own comes
 * from. */
static bool give_up(td_ctx *cx, code *s, const char **why) {
    if (td__error(cx) == TD_E_MEMORY) return false;
    snprintf(s->why, sizeof s->why, "%.190s", td__message(cx));
    td__fn_free(s->f);
    s->f = NULL;
    td_clear(cx);
    *why = s->why;
    return true;
}

/* A tensor that the backward reads and no node saved, such as one that a custom
 * backward knows from elsewhere: the code has the one of the first run. */
static bool closes_over(const code *s) {
    const td_spec *c = s->f->specs;
    return c && c->program && c->program->consts.n > 0;
}

/* Calls the code; *why: it could not be made. False after td__fail. */
static bool run_code(td_ctx *cx, struct td_backward_code *b, shape *s, code *c,
                     td_history *h, const char **why) {
    bool first = !c->f->specs;
    if (!call(cx, b, c, h)) return give_up(cx, c, why);
    b->n_compiled += !s->compiled;
    s->compiled = true;
    if (first && closes_over(c))
        snprintf(c->why, sizeof c->why,
                 "a custom backward reads a tensor that nobody saved");
    return true;
}

/* ---- parts -------------------------------------------------------------- */

/* The part that begins with node `from`, which is next. NULL after td__fail. */
static part *part_at(td_ctx *cx, shape *s, td_history *h, int32_t from) {
    for (part *p = s->parts; p; p = p->next)
        if (p->p.recs.v[0] == from) return p;
    part *p = td__zalloc(sizeof *p);
    if (!p) return td__fail_memory(cx), NULL;
    if (!td__part_make(h, &p->p)) return td__free(p), NULL;
    part **at = &s->parts;
    while (*at) at = &(*at)->next;
    return *at = p;
}

/* The code of a part for the gradients that are there. NULL: the engine must run it, or
 * after td__fail. */
static code *code_of(td_ctx *cx, struct td_backward_code *b, part *p,
                     const td_history *h, const char **why) {
    size_t n = (size_t)h->there.n;
    for (code *c = p->codes; c; c = c->next)
        if (!memcmp(c->there, h->there.v, n))
            return c->why[0] ? *why = c->why, NULL : c;
    if (p->n >= limit_of(cx, b))
        return *why = "a part begins with too many sets of gradients", NULL;
    code *c = td__zalloc(sizeof *c);
    if (!c) return td__fail_memory(cx), NULL;
    c->part = &p->p;
    c->there = td__alloc(n + 1);
    if (!c->there) td__fail_memory(cx);
    else c->f = make_fn(cx, b, c);
    if (!c->f) return free_code(c), td__free(c), NULL;
    memcpy(c->there, h->there.v, n);
    c->next = p->codes;
    p->n++;
    return p->codes = c;
}

/* Runs the part that is next, as code or in the engine. */
static bool run_part(td_backward_fn *f, td_history *h, shape *s, part *p,
                     const char **why) {
    struct td_backward_code *b = f->code;
    const char              *not_now = NULL;
    if (!td__part_lift(h, &p->p, &not_now)) return false;
    code *c = not_now ? NULL : code_of(f->cx, b, p, h, &not_now);
    if (c && !run_code(f->cx, b, s, c, h, &not_now)) return false;
    if (c && !not_now) return td__part_finish(h, &p->p, &c->t, b->grads.v);
    if (!not_now) return false;
    *why = not_now;
    return td__part_engine(h, &p->p);
}

/* *why: the engine ran one of the parts. */
static td_walk_end run_parts(td_backward_fn *f, td_history *h, shape *s,
                             const char **why) {
    int32_t next;
    if (!td__history_begin(h)) return TD_WALK_FAILED;
    while ((next = td__history_next(h)) >= 0) {
        part *p = part_at(f->cx, s, h, next);
        if (!p || !run_part(f, h, s, p, why)) return TD_WALK_FAILED;
    }
    return next == -1 ? TD_WALK_DONE : TD_WALK_FAILED;
}

/* ---- running a history -------------------------------------------------- */

static shape *shape_of(td_backward_fn *f, td_history *h, const char **why) {
    struct td_backward_code *b = f->code;
    uint64_t                 hash = hash_of(h);
    shape                   *s = find(b, h, hash);
    if (s && s->whole.why[0]) *why = s->whole.why;
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
    if (h->host) return run_parts(f, h, s, why);
    if (!run_code(f->cx, b, s, &s->whole, h, why)) return TD_WALK_FAILED;
    if (*why) return TD_WALK_LEFT;
    return td__history_finish(h, &s->whole.t, b->grads.v) ? TD_WALK_DONE
                                                          : TD_WALK_FAILED;
}

/* ---- making and freeing ------------------------------------------------- */

static void free_codes(struct td_backward_code *b) {
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
    if (f->code) free_codes(f->code);
    td__vec_free(&f->h.key);
    td__vec_free(&f->h.values);
    td__vec_free(&f->h.storage);
    td__vec_free(&f->h.there);
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

/* Appends the explanation of code. */
static void explain_code(td_buf *b, const code *c) {
    if (c->why[0]) td__buf_printf(b, "  the engine runs it: %s\n", c->why);
    if (!c->f) return;
    size_t n = td_explain(c->f, NULL, 0);
    char  *text = td__alloc(n + 1);
    if (!text) {
        b->failed = true;
        return;
    }
    td_explain(c->f, text, n + 1);
    td__buf_add(b, text);
    td__free(text);
}

/* Appends the explanation of one history. */
static void explain(td_buf *b, const shape *s, int nr) {
    const code *whole = &s->whole;
    int         n = 0;
    if (!s->cuts) {
        td__buf_printf(b, "history %d: %d results, %d nodes\n", nr, whole->t.events.n,
                       whole->t.ran.n);
        explain_code(b, whole);
        return;
    }
    for (const part *p = s->parts; p; p = p->next) n++;
    td__buf_printf(b, "history %d: %d parts\n%s", nr, n, s->cuts);
    n = 0;
    for (const part *p = s->parts; p; p = p->next, n++)
        for (const code *c = p->codes; c; c = c->next) {
            td__buf_printf(b, "history %d, part %d: %d results, %d nodes\n", nr, n,
                           c->t.n_results, c->t.ran.n);
            explain_code(b, c);
        }
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
