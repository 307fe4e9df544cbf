/* checkpoint.c -- activation checkpointing: regions whose saved values are
 * recomputed in backward. In forward, saved-tensor hooks number the values and
 * store nothing. The first value that backward reads runs the region again,
 * with the same random numbers, and catches its saved values by number.
 *
 * A backward inside the region works alike: in the first run it runs the region
 * again; in a later run it gets that run's own values. In a capture no hooks
 * are pushed: the region's ops are marked, and the partitioner decides. */
#include "core/callback.h"
#include "eager/eager_int.h"

#include <stdio.h>
#include <string.h>

/* A saved value of a later run, and its version when it was saved. */
typedef struct caught {
    td_tensor *t; /* held */
    uint64_t   version;
} caught;

/* One value the region saved. */
typedef struct item {
    uint64_t looks; /* looks_of, to compare runs */
    caught   value; /* recomputed and not read yet; else t is NULL */
    bool     gone;  /* its node released it: no need to catch it */
} item;

/* One checkpointed call. Referenced by every value it saved. */
typedef struct frame {
    td_ctx    *cx;
    int        refs;
    td_region *fn;
    void      *env;
    int        n_in, n_out;
    td_saved  *in;           /* inputs; t and pack are NULL for a NULL input */
    bool       same_random;  /* the later run draws the same random numbers */
    uint64_t   seed, offset; /* generator state at the first run */
    int        autocast;     /* autocast state at the first run */
    bool       done;         /* the first run is over */
    int        count;        /* values caught in the current later run */
    bool       compiled;     /* a compiled call in the region has saved a value */
    TD_VEC(item) items;      /* values in the order of saving */
} frame;

/* What the pack hook returns: a value by number. References the frame. */
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
    for (int i = 0; i < f->n_in; i++) td__saved_free(&f->in[i]);
    td__vec_free(&f->items);
    td__free(f->in);
    td__free(f);
}

/* Hash of dtype, sizes and, if a compiled call saves the value, of its code. */
static uint64_t looks_of(frame *f, const td_tensor *t) {
    f->compiled |= f->cx->saver != 0;
    return td__hash(t->size, sizeof(int64_t) * t->rank, t->dtype + f->cx->saver);
}

/* ---- forward ------------------------------------------------------------ */

/* pack hook of the first run: numbers the value. */
static void *count_value(void *env, td_tensor *t) {
    frame  *f = env;
    ticket *k = td__alloc(sizeof *k);
    item    it = {.looks = looks_of(f, t)};
    if (!k || !td__vec_push(&f->items, it)) {
        td__free(k);
        td__fail_memory(f->cx);
        return NULL;
    }
    *k = (ticket){f, f->items.n - 1};
    f->refs++;
    return k;
}

/* drop hook of the first run: the node released the value. */
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

/* Fails because a later run saves other values than the first: value nr is `t`, or
 * there are nr of them (t NULL). A compiled call chooses its code by its arguments,
 * which the first run may have changed; other code saves other values. */
static bool fail_unlike(const frame *f, const td_tensor *t, int nr) {
    char what[160];
    if (t) snprintf(what, sizeof what, "saves %s as value %d", td__type_str(t), nr);
    else snprintf(what, sizeof what, "saves %d values, not %d", nr, f->items.n);
    if (f->compiled)
        return td__fail(f->cx, TD_E_UNSUPPORTED,
                        "td_checkpoint: unsupported: when recomputed, the region %s, "
                        "unlike the first time. It calls a compiled function, which "
                        "may run other code for arguments that have changed, for "
                        "example where set_ or resize_ has enlarged a storage, or "
                        "saved-tensor hooks have copied an argument. Call that "
                        "function outside of the region",
                        what);
    return td__fail(f->cx, TD_E_GRAD,
                    "td_checkpoint: when recomputed, the region %s, unlike the first "
                    "time; it must compute the same each time",
                    what);
}

/* pack hook of a later run: stores the value under its number. It must be like
 * the first run's; while the first run is still going on (a backward inside the
 * region), there may be more. */
static void *catch_value(void *env, td_tensor *t) {
    frame *f = env;
    int    nr = f->count++;
    item  *i = nr < f->items.n ? &f->items.v[nr] : NULL;
    if (i ? i->looks != looks_of(f, t) : f->done) {
        fail_unlike(f, t, nr);
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

/* Saved-tensor hooks are exempt from version checks, so they are done here: a
 * value that the region wrote after saving it is an error, as it is without a
 * checkpoint. */
static bool is_unmodified(const caught *c) {
    td_ctx *cx = c->t->cx;
    if (td__version(c->t) == c->version) return true;
    cx->stale = td_ok(cx);
    return td__fail(cx, TD_E_GRAD,
                    "td_checkpoint: backward needs a value (%s) of the region, but the "
                    "region has modified it in place after saving it; write to a clone",
                    td__type_str(c->t));
}

/* unpack hook of a later run, for a backward inside the region: that run's own
 * value. */
static td_tensor *own_value(void *env, void *packed, td_ctx *cx) {
    const caught *c = packed;
    (void)env;
    if (!is_unmodified(c)) return td_nil(cx);
    td__ref(c->t);
    return td__scope_own(c->t) ? c->t : td_nil(cx);
}

static void drop_own(void *env, void *packed) {
    caught *c = packed;
    (void)env;
    td__unref(c->t);
    td__free(c);
}

/* Fails if an input was written since the first run: recomputing would give
 * other values. An input that went through saved-tensor hooks is theirs. */
static bool check_inputs(const frame *f) {
    for (int i = 0; i < f->n_in; i++) {
        const td_saved *in = &f->in[i];
        if (!in->t || (in->st == in->t->st && in->version == td__version(in->t)))
            continue;
        f->cx->stale = td_ok(f->cx);
        return td__fail(
            f->cx, TD_E_GRAD,
            "td_checkpoint: backward must recompute the region, but its "
            "input %d (%s) has been modified in place since the call; write "
            "to a clone",
            i, td__type_str(in->t));
    }
    return true;
}

/* The inputs of a later run: the tensors of the first run, or what saved-tensor hooks
 * around the checkpoint unpack. They are the same tensors where possible, because a
 * compiled call inside must find the same leaves, views and duplicates, or it would
 * use another specialization, which saves other values. */
static bool read_inputs(const frame *f, td_tensor **in) {
    td_node reader = {.cx = f->cx, .name = "td_checkpoint"};
    bool    ok = check_inputs(f);
    for (int i = 0; ok && i < f->n_in; i++) {
        if (!f->in[i].t && !f->in[i].pack) continue;
        in[i] = td__unpack(&reader, &f->in[i]);
        ok = in[i] != NULL;
    }
    return ok;
}

static bool call_region(frame *f, td_tensor *const *in, td_tensor **out) {
    bool ok;
    TD_CALLBACK(f->cx, ok = f->fn(f->env, in, f->n_in, out, f->n_out));
    return ok && td_ok(f->cx);
}

/* A later run: with the first run's random numbers and autocast state, catching saved
 * values. */
static bool run_later(frame *f, td_tensor *const *in, td_tensor **out) {
    td_ctx        *cx = f->cx;
    td_saved_hooks hooks = {catch_value, own_value, drop_own, f};
    uint64_t       seed = cx->rng_seed, offset = cx->rng_offset;
    if (!td__saved_hooks_push(cx, &hooks)) return false;
    if (f->same_random) td__rng_put(cx, f->seed, f->offset);
    td_autocast_mode was = td__autocast_resume(cx, f->autocast);
    f->count = 0;
    bool ok = call_region(f, in, out);
    td_autocast_end(cx, was);
    if (f->same_random) td__rng_put(cx, seed, offset);
    td_saved_hooks_pop(cx);
    if (ok && f->done && f->count != f->items.n) ok = fail_unlike(f, NULL, f->count);
    return ok || td__fail(cx, TD_E_GRAD,
                          "td_checkpoint: the region returned false when recomputed");
}

/* Runs the region again with gradients on, in a scope of its own; the values that it
 * saves are handed to the nodes of the first run through hooks. Fails if an input was
 * written since. */
static bool recompute(frame *f) {
    td_ctx     *cx = f->cx;
    size_t      n = (size_t)(f->n_in + f->n_out + 1);
    td_tensor **tensors = td__zalloc(sizeof *tensors * n);
    if (!tensors) return td__fail_memory(cx);
    bool ok = td__scope_push(cx);
    if (ok) {
        td_grad_mode was = td_enable_grad_begin(cx);
        ok = read_inputs(f, tensors) && run_later(f, tensors, tensors + f->n_in);
        td_enable_grad_end(cx, was);
        td__scope_pop(cx, NULL, 0);
    }
    td__free(tensors);
    cx->recompute = !ok;
    return ok;
}

/* unpack hook of the first run. The value goes to the innermost scope, so it is
 * freed when the node that reads it has run. */
static td_tensor *give_value(void *env, void *packed, td_ctx *cx) {
    ticket *k = packed;
    frame  *f = k->f;
    (void)env;
    f->refs++; /* recomputing may drop the last other reference */
    bool       ok = f->items.v[k->nr].value.t || recompute(f);
    caught    *c = &f->items.v[k->nr].value;
    td_tensor *t = ok && c->t && is_unmodified(c) ? c->t : NULL;
    if (t) c->t = NULL;
    drop_frame(f);
    if (!t || !td__scope_own(t)) return td_nil(cx);
    return t;
}

/* ---- the call ----------------------------------------------------------- */

/* Saves the inputs for the later run, as a node saves its arguments. */
static bool save_inputs(frame *f, td_tensors in) {
    bool ok = true;
    for (int i = 0; ok && i < in.n; i++)
        if (in.v[i]) ok = td__save(&f->in[i], in.v[i], false, 0);
    return ok;
}

/* A frame with room for the inputs and the generator's state; NULL after td__fail. */
static frame *make_frame(td_ctx *cx, td_tensors in) {
    frame    *f = td__zalloc(sizeof *f);
    td_saved *saved = td__zalloc(sizeof *saved * (size_t)(in.n + 1));
    if (!f || !saved) {
        td__free(f);
        td__free(saved);
        td__fail_memory(cx);
        return NULL;
    }
    *f = (frame){.cx = cx,
                 .refs = 1,
                 .in = saved,
                 .n_in = in.n,
                 .seed = cx->rng_seed,
                 .offset = cx->rng_offset,
                 .autocast = td__autocast_state(&cx->ambient)};
    return f;
}

/* Fails if the region returned false or a dead tensor. A NULL result is a missing
 * one, such as a gradient taken inside the region that does not exist. */
static bool check_results(const frame *f, td_tensor *const *out, bool ok) {
    for (int i = 0; i < f->n_out && ok; i++) ok = !out[i] || !td_is_nil(out[i]);
    return ok || td__fail(f->cx, TD_E_ARG,
                          "td_checkpoint: the region returned false or a result that "
                          "is not a tensor");
}

/* The first run: hooks only count the saved values and do not store them. */
static bool run_first(td_ctx *cx, frame *f, td_tensors in, td_tensor **out) {
    td_saved_hooks hooks = {count_value, give_value, drop_value, f};
    bool           tape = td__recording(cx);
    if (tape && (!save_inputs(f, in) || !td__saved_hooks_push(cx, &hooks)))
        return false;
    bool ok = call_region(f, in.v, out);
    if (tape) td_saved_hooks_pop(cx);
    f->done = true;
    forget_values(f);
    return check_results(f, out, ok);
}

/* An eager checkpointed call. *f has the arguments; the frame itself is on the heap,
 * because saved values outlive the call. */
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
        ok = run_first(cx, call, in, out);
        td__scope_pop(cx, out, ok ? f->n_out : 0);
    }
    if (call) drop_frame(call);
    for (int i = 0; i < f->n_out && !ok; i++) out[i] = td_nil(cx);
    return ok;
}

/* ---- during a capture --------------------------------------------------- */

/* td_checkpoint_fresh draws new random numbers when it recomputes, and advances
 * the generator. Compiled code does neither: unsupported if a result takes
 * gradients. */
static bool check_draws(const frame *f, td_tensor *const *out, bool draws) {
    for (int i = 0; !f->same_random && draws && i < f->n_out; i++)
        if (out[i] && td__needs_grad(out[i]))
            return td__fail(
                f->cx, TD_E_UNSUPPORTED,
                "td_checkpoint_fresh: unsupported in a captured body if the "
                "region draws random numbers, because compiled code cannot "
                "draw new ones in backward; use td_checkpoint");
    return true;
}

/* In a capture: runs the region once with its ops marked (td_wish); the
 * partitioner decides what is recomputed. */
static bool run_marked(const frame *f, td_tensors in, td_tensor **out,
                       const td_checkpoint_opts *o) {
    td_ctx        *cx = f->cx;
    const td_wish *was = cx->wish;
    if (cx->regions >= TD_REGION_LIMIT || !td__scope_push(cx))
        return td__fail(cx, TD_E_UNSUPPORTED,
                        "td_checkpoint: a captured body has more than %d regions",
                        (int)TD_REGION_LIMIT);
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
    ok = check_results(f, out, ok) && check_draws(f, out, draws);
    td__scope_pop(cx, out, ok ? f->n_out : 0);
    for (int i = 0; i < f->n_out && !ok; i++) out[i] = td_nil(cx);
    return ok;
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
