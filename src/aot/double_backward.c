/* double_backward.c -- gradients of gradients. A backward that records a history
 * (create_graph) calls a compiled function of the primals and the tangents, which gives
 * the gradients and has a node of its own. It is the same program, compiled for the
 * next order of differentiation (td_joint_opts.orders), and so gradients can be
 * differentiated to any order.
 *
 * The program is traced once more, when a node is first asked for such gradients. Its
 * arguments may be gone or written by then: td_arrived has copies of them. */
#include "core/typed.h"
#include "aot/aot.h"
#include "core/callback.h"

#include <stdio.h>
#include <string.h>

/* ---- arguments as they arrived ------------------------------------------ */

void td__arrived_drop(td_arrived *a) {
    if (!a) return;
    td__faker_end(&a->fakes);
    td__free(a->in);
    td__free(a);
}

/* A fake copy with the autograd state of the argument, because the program may be
 * replayed after the argument was freed. One that stands for a number still does: its
 * size shares no symbol with equal sizes of others. */
static bool copy_input(td_arrived *a, int i) {
    if (a->in[i].kind != TD_K_TENSOR || !a->in[i].u.t) return true;
    uint8_t    number = a->in[i].u.t->flags & TD_TF_NUMBER;
    td_tensor *t = td__fake_copy(&a->fakes, a->in[i].u.t);
    if (!t) return false;
    t->flags |= number;
    a->in[i] = td_value_tensor(t);
    return true;
}

/* Takes over in[]. */
static td_arrived *arrive(const td_graph *program, td_value *in, td_faker *fakes) {
    td_arrived *a = td__zalloc(sizeof *a);
    bool        ok = a != NULL;
    if (!a) {
        td__faker_end(fakes);
        td__free(in);
        return td__fail_memory(program->cx), NULL;
    }
    *a = (td_arrived){.fakes = *fakes, .in = in, .n = program->inputs.n};
    for (int grads = 1; grads >= 0; grads--) /* before those they are copied with */
        for (int i = 0; ok && i < a->n; i++)
            if ((program->in_desc.v[i].kind == TD_D_OWN_GRAD) == (grads == 1))
                ok = copy_input(a, i);
    td__faker_close(&a->fakes);
    if (ok) return a;
    td__arrived_drop(a);
    return NULL;
}

/* Fake copies of the arguments are needed for double backward, and for missing tangents
 * if there is more than one tangent. */
bool td__spec_arrive(td_fn *f, td_spec *s, td_values args) {
    const td_graph *program = td__spec_program(f, s);
    td_faker        fakes = {.cx = f->cx};
    if (s->j->n_tangents < (s->set.double_backward ? 1 : 2)) return true;
    td_value *in = td__spec_inputs(s, program, args);
    return in && (s->arrived = arrive(program, in, &fakes)) != NULL;
}

/* Gives the copies of inner tensors of t the geometry of `of`. */
static bool shape_parts(td_faker *f, const td_tensor *t, const td_gtyped *of) {
    for (int i = 0; of && t->typed && i < of->n && i < t->typed->n; i++) {
        td_meta m = td__geom_meta(&of->inner[i]->geom);
        if (!td__fake_shape(f, t->typed->inner[i], &m) ||
            !shape_parts(f, t->typed->inner[i], of->inner[i]->of))
            return false;
    }
    return true;
}

/* The same arguments in the geometry they had in another call, where sizes are symbols:
 * then none that requires grad is a view. */
static td_arrived *arrive_at(const td_arrived *a, const td_graph *program,
                             const td_now *sizes) {
    td_faker  fakes = {.cx = program->cx};
    td_value *in = td__zalloc(sizeof *in * ((size_t)a->n + 1));
    bool      ok = in || td__fail_memory(program->cx);
    for (int i = 0; ok && i < a->n; i++) {
        in[i] = a->in[i];
        if (in[i].kind != TD_K_TENSOR || !in[i].u.t) continue;
        td_meta m = td__geom_meta(&sizes->given[i]);
        ok = td__fake_shape(&fakes, in[i].u.t, &m) &&
             shape_parts(&fakes, in[i].u.t, sizes->given_typed[i]);
    }
    if (ok) return arrive(program, in, &fakes);
    td__faker_end(&fakes);
    td__free(in);
    return NULL;
}

/* ---- functions of the next order ---------------------------------------- */

/* One for each pair of sets of tangents: eager leaves out what would only add zeros,
 * and what has no history. */
typedef struct td_variant {
    struct td_variant *next;
    td_fn             *fn;
    td_grad_order      orders[]; /* those below, and then these sets */
} variant;

static bool same_sets(const td_grad_order *a, const td_grad_order *b) {
    size_t size = sizeof *a->missing * (size_t)a->words;
    return !memcmp(a->missing, b->missing, size) && !memcmp(a->grad, b->grad, size);
}

/* With room for its sets behind it; NULL after td__fail. */
static variant *make_variant(td_trace_source *a, const td_grad_order *o) {
    size_t   orders = sizeof *o * (size_t)(a->opts.n_orders + 1);
    size_t   set = sizeof(uint64_t) * (size_t)o->words;
    variant *v = td__zalloc(sizeof *v + orders + 2 * set);
    if (!v) return td__fail_memory(a->p->cx), NULL;
    uint64_t *own = (uint64_t *)(void *)(v->orders + a->opts.n_orders + 1);
    if (a->opts.n_orders) memcpy(v->orders, a->opts.orders, orders - sizeof *o);
    memcpy(own, o->missing, set);
    memcpy(own + o->words, o->grad, set);
    v->orders[a->opts.n_orders] = (td_grad_order){own, own + o->words, o->words};
    a->shared->refs++;
    if (!(v->fn = td__fn_make(a->p->cx, a->shared, a->name))) return td__free(v), NULL;
    td__graph_keep(a->program);
    v->fn->graph = a->program;
    v->fn->owns_graph = v->fn->inner = true;
    v->fn->opts.config = &a->set;
    v->fn->orders = v->orders;
    v->fn->n_orders = a->opts.n_orders + 1;
    return v;
}

/* One variant for each pair of sets of tangents (missing, requiring grad), up to
 * backward_limit. */
static variant *variant_for(td_trace_source *a, const td_grad_order *o) {
    for (variant *v = a->variants; v; v = v->next)
        if (same_sets(&v->orders[a->opts.n_orders], o)) return v;
    if (!td__plan_may_compile(a->p, a->p->later.n_plans, "double backward"))
        return NULL;
    variant *v = make_variant(a, o);
    if (!v) return NULL;
    a->p->later.n_plans++;
    v->next = a->variants;
    return a->variants = v;
}

/* Casts are in the program already. */
static bool prepare_uncast(td_fn *f, td_values args) {
    if (!td_autocast_enabled(f->cx)) return td__fn_prepare(f, args);
    td_autocast_mode was = td_autocast_off_begin(f->cx);
    bool             ok = td__fn_prepare(f, args);
    td_autocast_end(f->cx, was);
    return ok;
}

/* Compiles f for such arguments, unless that is done. NULL after td__fail. */
static td_plan *prepare(td_fn *f, const td_arrived *a) {
    td_callback b; /* backends are the user's */
    f->calls++;
    td__callback_begin(&b, f->cx);
    bool ok = prepare_uncast(f, (td_values){a->in, a->n});
    td__callback_end(&b);
    td_plan *p = ok && f->specs ? f->specs->plan : NULL;
    td__fn_leave(f);
    return p;
}

/* td_later_traces.plan. With symbolic sizes the program is replayed for the sizes of
 * the call. */
static td_plan *next_plan(void *env, const td_grad_order *o, const td_now *sizes) {
    td_trace_source *a = env;
    variant         *v = variant_for(a, o);
    if (!v || !sizes) return v ? prepare(v->fn, a->arrived) : NULL;
    td_arrived *now = arrive_at(a->arrived, a->program, sizes);
    td_plan    *p = now ? prepare(v->fn, now) : NULL;
    td__arrived_drop(now);
    return p;
}

/* Called with the plan: frees the functions of all variants, the arguments and the
 * references to program and options. */
static void drop(void *env) {
    td_trace_source *a = env;
    while (a->variants) {
        variant *v = a->variants;
        a->variants = v->next;
        td__fn_free(v->fn);
        td__free(v);
    }
    td__shared_opts_drop(a->shared);
    td__arrived_drop(a->arrived);
    td__graph_drop(a->program);
    td__arena_free(&a->arena);
    td__free(a);
}

static const uint64_t *copy_set(td_trace_source *a, const uint64_t *set, int words) {
    size_t    n = sizeof *set * (size_t)words;
    uint64_t *own = td__arena_alloc(&a->arena, n);
    return own ? memcpy(own, set, n) : NULL;
}

/* The orders and the name are the function's, which may be dropped before the backward.
 * False: no memory. */
static bool copy_orders(td_trace_source *a, const td_fn *f) {
    char           name[80];
    td_grad_order *to =
        td__arena_zalloc(&a->arena, sizeof *to * (size_t)(f->n_orders + 1));
    bool ok = to != NULL;
    for (int i = 0; ok && i < f->n_orders; i++) {
        const td_grad_order *o = &f->orders[i];
        to[i] = (td_grad_order){copy_set(a, o->missing, o->words),
                                copy_set(a, o->grad, o->words), o->words};
        ok = to[i].missing && to[i].grad;
    }
    a->opts.orders = to;
    snprintf(name, sizeof name, "%.60s'", f->name);
    return ok && (a->name = td__arena_strdup(&a->arena, name)) != NULL;
}

/* The backward of a backward repeats forward from the inputs. Values that went through
 * a pack that loses something would be others there. */
bool td__spec_twice(const td_fn *f, const td_spec *s, const td_halves *h) {
    bool lossy = f->opts.saved.pack && !f->opts.saved.lossless;
    return s->set.double_backward && !(h && h->plain && lossy);
}

/* Attaches later traces to the plan of s. They own references to everything they need,
 * because td_fn may be dropped before the backward. A fallback to eager is impossible
 * there. Missing tangents are traced where there are several, or a custom function
 * that runs without any, and zeros where the user replaced the graph. Tangents of
 * another type are traced where there are types at all. */
bool td__spec_later(td_fn *f, td_spec *s) {
    bool own = f->staged || f->own_graph || (f->opts.pass.run && !f->inner);
    if (!s->plan->h) return true;
    td_trace_source *a = td__zalloc(sizeof *a);
    if (!a) return td__fail_memory(f->cx);
    *a = (td_trace_source){.p = s->plan,
                           .program = (td_graph *)(uintptr_t)td__spec_program(f, s),
                           .shared = f->shared,
                           .arrived = s->arrived,
                           .set = s->set,
                           .opts = td__spec_joint_opts(f, s),
                           .grad = f->cx->grad_enabled,
                           .inference = f->cx->inference,
                           .dtype = f->cx->default_dtype};
    a->set.fallback = TD_FALLBACK_ERROR;
    td__graph_keep(a->program);
    f->shared->refs++;
    s->arrived = NULL;
    s->plan->later = (td_later_traces){.drop = drop, .env = a};
    if (td__spec_twice(f, s, s->plan->h)) s->plan->later.plan = next_plan;
    if (!copy_orders(a, f)) return td__fail_memory(f->cx);
    bool nests = td__graph_flags(a->program, TD_OPF_NESTS);
    bool one = nests || f->cx->n_typed > 0;
    if (s->plan->j->n_tangents < (one ? 1 : 2) || own) return true;
    s->plan->later.nests = nests;
    s->plan->later.joint = td__missing_joint;
    return td__missing_symbols(a);
}
