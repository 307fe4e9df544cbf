/* checkpoint.c -- regions whose saved values are computed again in backward. In
 * forward, hooks on saved values count them and keep nothing. The first of them
 * that backward asks for runs the region once more, with the same random numbers,
 * and catches its saved values by number. A backward inside the region does the same:
 * in the first run it runs the region again, and in a later one it finds the values
 * of that run. During a capture nothing is hooked: the region's ops are marked, and who
 * compiles the graph decides. */
#include "core/callback.h"
#include "eager/eager_int.h"

#include <string.h>

/* A value of a later run, and its version when it was saved. */
typedef struct caught {
    td_tensor *t; /* held */
    uint64_t   version;
} caught;

/* One value the region saved. */
typedef struct item {
    uint64_t looks; /* hash of dtype and sizes */
    caught   value; /* once recomputed and not yet handed out; t: NULL else */
    bool     gone;  /* nobody can ask for it any more */
} item;

/* What the region was called with; the second run must find it as it was. */
typedef struct given {
    td_tensor  *t; /* held; may be NULL */
    uint64_t    version;
    const void *st; /* its storage then */
} given;

/* One checkpointed call; held by every value it saved. */
typedef struct frame {
    td_ctx    *cx;
    int        refs;
    td_region *fn;
    void      *env;
    int        n_in, n_out;
    given     *in;
    bool       same_random;
    uint64_t   seed, offset;
    int        autocast; /* what was on */
    bool       done;     /* the first run is over */
    int        count;    /* values caught while recomputing */
    TD_VEC(item) items;
} frame;

typedef struct ticket {
    frame *f;
    int    nr;
} ticket;

static void forget_values(frame *f) {
    for (int i = 0; i < f->items.n; i++) {
        td_tensor *t = f->items.v[i].value.t;
        f->items.v[i].value.t = NULL;
        if (t) td__unref(t);
    }
}

static void drop_frame(frame *f) {
    if (--f->refs > 0) return;
    forget_values(f);
    for (int i = 0; i < f->n_in; i++)
        if (f->in[i].t) td__unref(f->in[i].t);
    td__vec_free(&f->items);
    td__free(f->in);
    td__free(f);
}

static uint64_t looks_of(const td_tensor *t) {
    return td__hash(t->size, sizeof(int64_t) * t->rank, t->dtype);
}

/* ---- forward ------------------------------------------------------------ */

static void *count_value(void *env, td_tensor *t) {
    frame  *f = env;
    ticket *k = td__alloc(sizeof *k);
    item    it = {.looks = looks_of(t)};
    if (!k || !td__vec_push(&f->items, it)) {
        td__free(k);
        td__fail_memory(f->cx);
        return NULL;
    }
    *k = (ticket){f, f->items.n - 1};
    f->refs++;
    return k;
}

static void drop_value(void *env, void *packed) {
    ticket *k = packed;
    item   *i = &k->f->items.v[k->nr];
    (void)env;
    if (i->value.t) td__unref(i->value.t);
    i->value.t = NULL;
    i->gone = true;
    drop_frame(k->f);
    td__free(k);
}

/* ---- backward ----------------------------------------------------------- */

/* While the first run goes on, a later run saves more than that has so far. */
static void *catch_value(void *env, td_tensor *t) {
    frame *f = env;
    int    nr = f->count++;
    item  *i = nr < f->items.n ? &f->items.v[nr] : NULL;
    if (i ? i->looks != looks_of(t) : f->done) {
        td__fail(f->cx, TD_E_GRAD,
                 "td_checkpoint: run again, the region saves %s as value %d, which the "
                 "first run did not; it must do the same each time",
                 td__type_str(t), nr);
        return NULL;
    }
    caught *own = td__alloc(sizeof *own);
    if (!own) return td__fail_memory(f->cx), NULL;
    *own = (caught){td__ref(t), td__version(t)};
    if (i && !i->value.t && !i->gone) {
        i->value = *own;
        td__ref(t);
    }
    return own;
}

/* Saved-tensor hooks check no versions. These know what they have caught: a value that
 * the region wrote after it was saved is an error, as it is without a checkpoint. */
static bool is_as_saved(const caught *c) {
    td_ctx *cx = c->t->cx;
    if (td__version(c->t) == c->version) return true;
    cx->stale = td_ok(cx);
    return td__fail(cx, TD_E_GRAD,
                    "td_checkpoint: backward needs a value (%s) of the region, but the "
                    "region has modified it in place after saving it; write to a clone",
                    td__type_str(c->t));
}

/* For a backward inside the region, in a later run: the value of that run. */
static td_tensor *own_value(void *env, void *packed, td_ctx *cx) {
    const caught *c = packed;
    (void)env;
    if (!is_as_saved(c)) return td_nil(cx);
    td__ref(c->t);
    return td__scope_own(c->t) ? c->t : td_nil(cx);
}

static void drop_own(void *env, void *packed) {
    caught *c = packed;
    (void)env;
    td__unref(c->t);
    td__free(c);
}

/* An input that was written since, by the region too, would give the second run other
 * values than the first had. */
static bool check_inputs(const frame *f) {
    for (int i = 0; i < f->n_in; i++) {
        const given *in = &f->in[i];
        if (!in->t || (in->st == in->t->st && in->version == td__version(in->t)))
            continue;
        f->cx->stale = td_ok(f->cx);
        return td__fail(f->cx, TD_E_GRAD,
                        "td_checkpoint: backward runs the region again, but its input "
                        "%d (%s) has been modified in place since the call; write to a "
                        "clone",
                        i, td__type_str(in->t));
    }
    return true;
}

/* The inputs themselves, as the first run had them: a compiled call inside must find
 * the same leaves, views and tensors given twice, or it is another specialization,
 * which saves other values. The history that the second run makes behind them goes with
 * its scope. */
static bool call_again(frame *f, td_tensor **in, td_tensor **out) {
    for (int i = 0; i < f->n_in; i++) in[i] = f->in[i].t;
    bool ok;
    TD_CALLBACK(f->cx, ok = f->fn(f->env, in, f->n_in, out, f->n_out));
    return ok && td_ok(f->cx);
}

static bool run_again(frame *f, td_tensor **in, td_tensor **out) {
    td_ctx        *cx = f->cx;
    td_saved_hooks hooks = {catch_value, own_value, drop_own, f};
    uint64_t       seed = cx->rng_seed, offset = cx->rng_offset;
    if (!td__saved_hooks_push(cx, &hooks)) return false;
    if (f->same_random) td_rng_set(cx, f->seed, f->offset);
    td_autocast_mode was = td__autocast_resume(cx, f->autocast);
    f->count = 0;
    bool ok = call_again(f, in, out);
    td_autocast_end(cx, was);
    if (f->same_random) td_rng_set(cx, seed, offset);
    td_saved_hooks_pop(cx);
    if (ok && f->done && f->count != f->items.n)
        ok = td__fail(
            cx, TD_E_GRAD,
            "td_checkpoint: the region saved %d values, run again only %d; it must "
            "do the same each time",
            f->items.n, f->count);
    return ok ||
           td__fail(cx, TD_E_GRAD, "td_checkpoint: the region failed when run again");
}

static bool recompute(frame *f) {
    td_ctx *cx = f->cx;
    size_t  n = (size_t)(f->n_in + f->n_out + 1);
    if (!check_inputs(f)) return false;
    td_tensor **room = td__zalloc(sizeof *room * n);
    if (!room) return td__fail_memory(cx);
    bool ok = td__scope_push(cx);
    if (ok) {
        td_grad_mode was = td_enable_grad_begin(cx);
        ok = run_again(f, room, room + f->n_in);
        td_enable_grad_end(cx, was);
        td__scope_pop(cx, NULL, 0);
    }
    td__free(room);
    return ok;
}

/* Handed to the innermost scope, so that it dies with the node that reads it. */
static td_tensor *give_value(void *env, void *packed, td_ctx *cx) {
    ticket *k = packed;
    frame  *f = k->f;
    (void)env;
    f->refs++; /* the region may drop things */
    bool       ok = f->items.v[k->nr].value.t || recompute(f);
    caught    *c = &f->items.v[k->nr].value;
    td_tensor *t = ok && c->t && is_as_saved(c) ? c->t : NULL;
    if (t) c->t = NULL;
    drop_frame(f);
    if (!t || !td__scope_own(t)) return td_nil(cx);
    return t;
}

/* ---- the call ----------------------------------------------------------- */

static frame *make_frame(td_ctx *cx, td_tensors in) {
    frame *f = td__zalloc(sizeof *f);
    given *copy = td__zalloc(sizeof *copy * (size_t)(in.n + 1));
    if (!f || !copy) {
        td__free(f);
        td__free(copy);
        td__fail_memory(cx);
        return NULL;
    }
    *f = (frame){.cx = cx,
                 .refs = 1,
                 .in = copy,
                 .n_in = in.n,
                 .seed = cx->rng_seed,
                 .offset = cx->rng_offset,
                 .autocast = td__autocast_state(&cx->ambient)};
    for (int i = 0; i < in.n; i++)
        if (in.v[i])
            copy[i] = (given){td__ref(in.v[i]), td__version(in.v[i]), in.v[i]->st};
    return f;
}

static bool run_first(td_ctx *cx, frame *f, td_tensor *const *in, td_tensor **out) {
    td_saved_hooks hooks = {count_value, give_value, drop_value, f};
    bool           tape = td__recording(cx);
    if (tape && !td__saved_hooks_push(cx, &hooks)) return false;
    bool ok;
    TD_CALLBACK(cx, ok = f->fn(f->env, in, f->n_in, out, f->n_out));
    if (tape) td_saved_hooks_pop(cx);
    f->done = true;
    forget_values(f);
    for (int i = 0; i < f->n_out && ok; i++) ok = out[i] && !td_is_nil(out[i]);
    return ok || td__fail(cx, TD_E_ARG, "td_checkpoint: the region failed");
}

/* f is a copy of what the frame starts from. */
static bool start(const frame *f, td_tensors in, td_tensor **out) {
    td_ctx *cx = f->cx;
    bool    ok = true;
    for (int i = 0; i < f->n_out; i++) out[i] = NULL;
    for (int i = 0; i < in.n; i++) ok = ok && !(in.v[i] && td_is_nil(in.v[i]));
    frame *call = ok ? make_frame(cx, in) : NULL;
    ok = call && td__scope_push(cx);
    if (ok) {
        call->fn = f->fn;
        call->env = f->env;
        call->n_out = f->n_out;
        call->same_random = f->same_random;
        ok = run_first(cx, call, in.v, out);
        td__scope_pop(cx, out, ok ? f->n_out : 0);
    }
    if (call) drop_frame(call);
    for (int i = 0; i < f->n_out && !ok; i++) out[i] = td_nil(cx);
    return ok;
}

/* ---- during a capture --------------------------------------------------- */

/* Run eagerly, backward draws anew, and the generator moves on; compiled code does
 * neither. Where nothing takes gradients, nothing is run again. */
static bool check_draws(const frame *f, td_tensor *const *out, bool draws) {
    for (int i = 0; !f->same_random && draws && i < f->n_out; i++)
        if (td__needs_grad(out[i]))
            return td__fail(f->cx, TD_E_UNSUPPORTED,
                            "td_checkpoint_fresh: the region draws random numbers, and "
                            "its backward would draw others, which compiled code does "
                            "not; use td_checkpoint, whose backward has the same");
    return true;
}

/* Ops are marked; what is computed again is decided when the graph is compiled. */
static bool run_marked(const frame *f, td_tensors in, td_tensor **out,
                       const td_checkpoint_opts *o) {
    td_ctx        *cx = f->cx;
    const td_wish *was = cx->wish;
    if (cx->regions >= TD_REGION_LIMIT || !td__scope_push(cx))
        return td__fail(cx, TD_E_UNSUPPORTED, "td_checkpoint: too many regions");
    bool    draws = false;
    td_wish wish = {.region = ++cx->regions,
                    .policy = o->policy,
                    .env = o->policy_env,
                    .draws = &draws};
    for (int i = 0; i < f->n_out; i++) out[i] = NULL;
    cx->wish = &wish;
    bool ok;
    TD_CALLBACK(cx, ok = f->fn(f->env, in.v, in.n, out, f->n_out) && td_ok(cx));
    cx->wish = was;
    if (was && draws) *was->draws = true;
    for (int i = 0; i < f->n_out && ok; i++) ok = out[i] && !td_is_nil(out[i]);
    ok = ok && check_draws(f, out, draws);
    td__scope_pop(cx, out, ok ? f->n_out : 0);
    for (int i = 0; i < f->n_out && !ok; i++) out[i] = td_nil(cx);
    return ok || td__fail(cx, TD_E_ARG, "td_checkpoint: the region failed");
}

bool td_checkpoint_with(td_ctx *cx, td_tensors in, td_tensor **out, int n_out,
                        const td_checkpoint_opts *opts) {
    static const char  who[] = "td_checkpoint";
    td_checkpoint_opts o;
    if (!TD_ENTER_CTX(cx) || !td__has(cx, who, "the options", opts) ||
        !td__opts_take(cx, "td_checkpoint_with", &o, sizeof o, opts,
                       "TD_CHECKPOINT_OPTS") ||
        !td__has(cx, who, "the region", o.region) ||
        !td__has_list(cx, who, in.v, in.n) || !td__has_room(cx, who, out, n_out)) {
        td__nil_tensors(cx, out, n_out);
        return false;
    }
    for (int i = 0; i < in.n; i++)
        if (in.v[i] && !td__enter_in(cx, in.v[i], TD_H_TENSOR, who)) {
            td__nil_tensors(cx, out, n_out);
            return false;
        }
    frame f = {.cx = cx,
               .fn = o.region,
               .env = o.env,
               .n_out = n_out,
               .same_random = !o.fresh};
    return cx->fake ? run_marked(&f, in, out, &o) : start(&f, in, out);
}

bool td_checkpoint(td_ctx *cx, td_region *fn, void *env, td_tensors in, td_tensor **out,
                   int n_out) {
    td_checkpoint_opts o = {TD_CHECKPOINT_OPTS, .region = fn, .env = env};
    return td_checkpoint_with(cx, in, out, n_out, &o);
}

bool td_checkpoint_fresh(td_ctx *cx, td_region *fn, void *env, td_tensors in,
                         td_tensor **out, int n_out) {
    td_checkpoint_opts o = {TD_CHECKPOINT_OPTS, .region = fn, .env = env,
                            .fresh = true};
    return td_checkpoint_with(cx, in, out, n_out, &o);
}
