/* functionalize.c -- a program replayed under the functional mode and the recorder:
 * the graph that computes what the program does and writes nothing. */
#include "func/func_int.h"
#include "ops/call.h"
#include "trace/sym.h"

#include <string.h>

typedef struct run {
    td_functional  *to;
    const td_graph *program;
    td_ctx         *cx;
    td_tensor     **real, **alias, **outer; /* by input; NULL: no tensor */
    td_value       *in, *out;               /* of the replay */
    int            *nr;     /* by input: which of the mode's arguments */
    td_storage    **stores; /* by home */
    td_faker        fakes;  /* outer copies */
    td_record       rec;
    td_func         f;
} run;

/* ---- arguments ---------------------------------------------------------- */

static bool find_inputs(run *r, const td_value *in) {
    if (!td__program_inputs(r->program, in, r->in)) return false;
    for (int i = 0; i < r->program->inputs.n; i++) {
        if (r->in[i].kind != TD_K_TENSOR) continue;
        r->real[i] = r->in[i].u.t;
        if (!(r->outer[i] = td__fake_copy(&r->fakes, r->real[i]))) return false;
        r->outer[i]->flags |= TD_TF_UNTAPED; /* the tape asks who writes leaves */
    }
    return true;
}

/* The inner copy of input i: without history, and one for each tensor. */
static td_tensor *inner_input(run *r, int i) {
    const td_graph *p = r->program;
    const char     *name = p->inputs.v[i]->name;
    td_tensor      *t = NULL;
    for (int k = 0; k < i && !t; k++)
        if (r->real[k] == r->real[i]) t = r->alias[k];
    if (!t && !(t = td__tensor_alias(r->cx, r->real[i]))) return NULL;
    r->alias[i] = t;
    t = td__record_input(&r->rec, t, name);
    if (!t) return NULL;
    td_graph *g = r->to->g;
    td_gval  *v = g->inputs.v[i];
    v->look = td__graph_look(g, t, td__needs_grad(r->outer[i]), v->look->storage);
    g->in_desc.v[i] = p->in_desc.v[i];
    if (g->in_desc.v[i].kind == TD_D_CONST) g->in_desc.v[i].index = -1;
    return v->look ? t : NULL;
}

/* A const the program holds; one that is passed in is an input like any other. */
static bool is_held(const run *r, int i) {
    const td_graph *p = r->program;
    const td_desc  *d = &p->in_desc.v[i];
    return d->kind == TD_D_CONST && d->index >= 0 && d->index < p->consts.n &&
           r->real[i] == p->consts.v[d->index];
}

static td_tensor *inner_const(run *r, int i) {
    td_tensor *t = r->real[i];
    return td__record_value(&r->rec, &t, "a constant") ? t : NULL;
}

static bool give_inputs(run *r) {
    const td_graph *p = r->program;
    for (int i = 0; i < p->inputs.n; i++) {
        if (!r->real[i]) {
            const td_look *l = p->inputs.v[i]->look;
            if (l) l = td__graph_look_of(r->to->g, *l);
            if (!td__graph_input(r->to->g, p->inputs.v[i]->name, l, p->in_desc.v[i]))
                return false;
            continue;
        }
        td_tensor *t = is_held(r, i) ? inner_const(r, i) : inner_input(r, i);
        r->nr[i] = r->f.in.n;
        if (!t || !td__func_give(&r->f, r->outer[i], t)) return false;
        r->in[i] = td_value_tensor(r->outer[i]);
    }
    return true;
}

/* ---- what became of them ------------------------------------------------ */

static td_func_in *given(run *r, int i) { return &r->f.in.v[r->nr[i]]; }

/* The number of a storage; those of arguments come first. */
static int home_of(run *r, td_storage *st) {
    for (int i = 0; i < r->to->n_homes; i++)
        if (r->stores[i] == st) return i;
    r->stores[r->to->n_homes] = st;
    r->to->homes[r->to->n_homes].bytes = st->bytes;
    r->to->homes[r->to->n_homes].span = td__storage_span(st);
    r->to->homes[r->to->n_homes].version = atomic_load(&st->version);
    return r->to->n_homes++;
}

/* Does the end show all the elements the argument came with? */
static bool shows_all(const td_geom *was, const td_geom *end) {
    return td__geom_same(was, end) ||
           (td__geom_covers(end, was) && td__dim_eq(td__numel(was->rank, was->size),
                                                    td__numel(end->rank, end->size)));
}

static bool find_change(run *r, int i) {
    td_change  *c = &r->to->in[i];
    td_func_in *in = given(r, i);
    td_group   *g = td__group_of(in->given);
    if (!td__geom_copy(r->cx, &r->to->arena, &c->end, in->t)) return false;
    c->data = g->writes > 0;
    c->storage = in->t->st != in->st;
    c->meta = c->storage || !td__geom_same(&in->given->geom, &c->end);
    c->came = home_of(r, in->st);
    r->to->homes[c->came].given = true;
    if (!td__group_writes_outside(&r->f, g)) return true;
    return td__fail(r->cx, TD_E_UNSUPPORTED,
                    "@%.60s writes elements in the storage of input %d that no input "
                    "shows; pass the base as an input",
                    r->program->name, i);
}

static int add_output(run *r, td_fval *v, td_desc_kind kind, int i) {
    td_tensor *t = td__fval_value(v);
    td_gval   *g = t ? td__record_value(&r->rec, &t, "an output") : NULL;
    if (!g || !td__graph_output(r->to->g, td__garg_value(g),
                                (td_desc){(uint8_t)kind, i, NULL}))
        return -1;
    return r->to->g->outputs.n - 1;
}

/* One output where the new geometry shows everything written, else two. */
static bool put_change(run *r, int i) {
    td_change  *c = &r->to->in[i];
    td_func_in *in = given(r, i);
    bool        one = c->meta && !c->storage && shows_all(&in->given->geom, &c->end);
    for (int k = 0; k < i; k++)
        if (r->outer[k] == r->outer[i]) return true; /* the same tensor */
    if (c->data && !(c->meta && one)) {
        c->update = add_output(r, in->given, TD_D_UPDATE, i);
        if (c->update < 0) return false;
    }
    if (!c->meta) return true;
    c->now = add_output(r, in->t->payload,
                        c->data && one ? TD_D_UPDATE : TD_D_META_UPDATE, i);
    return c->now >= 0;
}

/* ---- results ------------------------------------------------------------ */

/* The argument a result is a view of; -1: none, or through its bytes alone. */
static int arg_of(run *r, const td_tensor *t) {
    for (const td_fval *v = t->payload; v; v = v->from ? v->from : v->up)
        for (int i = 0; i < r->to->n_in; i++)
            if (r->real[i] && given(r, i)->given == v) return i;
    return -1;
}

static bool find_place(run *r, int i) {
    td_place  *p = &r->to->out[i];
    td_tensor *t = r->out[i].u.t;
    if (r->out[i].kind != TD_K_TENSOR) return true;
    if (!td__geom_copy(r->cx, &r->to->arena, &p->geom, t)) return false;
    for (int k = r->to->n_in - 1; k >= 0; k--)
        if (r->outer[k] == t) p->same = k;
    for (int k = i - 1; k >= 0; k--)
        if (r->out[k].kind == TD_K_TENSOR && r->out[k].u.t == t) p->again = k;
    p->home = home_of(r, t->st);
    p->of = arg_of(r, t);
    const td_fval *v = t->payload;
    p->multi = v->multi;
    p->inference = t->flags & TD_TF_INFERENCE;
    p->behind = v->born != atomic_load(&t->st->version);
    if (v->multi && p->behind)
        r->f.no_history = "one of several views is returned after a write";
    r->to->homes[p->home].users += p->same < 0 && p->again < 0;
    p->partial = t->base || td__func_hides(&r->f, t);
    return true;
}

/* The tensor its history comes from. */
static const td_tensor *source_of(const td_tensor *t) { return t->base ? t->base : t; }

/* Do arguments that share bytes share their history? */
static bool one_history(run *r, int i, int k) {
    td_tensor *a = r->real[i], *b = r->real[k];
    return a->st != b->st ||
           (source_of(a) == source_of(b) && td_requires_grad(a) == td_requires_grad(b));
}

/* A group of arguments that overlap in part is read through its bytes. */
static bool one_shows(run *r, int i, int k) {
    const td_geom *a = &given(r, i)->given->geom, *b = &given(r, k)->given->geom;
    return given(r, i)->st != given(r, k)->st || !td__geom_overlap(a, b) ||
           td__geom_same(a, b) || td__geom_covers(a, b) || td__geom_covers(b, a);
}

/* What a run under the tape cannot get right. */
static const char *history_lost(run *r) {
    for (int i = 0; i < r->to->n_in; i++) {
        const td_change *c = &r->to->in[i];
        if (!r->real[i]) continue;
        if (c->storage || given(r, i)->st->bytes != given(r, i)->bytes)
            return "the storage of an input is another";
        if (c->data && r->real[i]->creation != TD_MADE_PLAIN)
            return "an input that changes is a view that may not be written";
        for (int k = 0; c->data && k < r->to->n_in; k++)
            if (r->real[k] && !one_history(r, i, k))
                return "inputs that are written share bytes but no history";
            else if (r->real[k] && !one_shows(r, i, k))
                return "inputs that are written overlap in part";
    }
    for (int i = 0; i < r->to->n_out; i++) {
        td_place *p = &r->to->out[i];
        if (p->home < 0 || p->same >= 0) continue;
        if (r->to->homes[p->home].users > 1 && td__geom_overlaps_itself(&p->geom))
            return "a result that shares bytes overlaps itself";
        if (!r->to->homes[p->home].given) continue;
        if (p->of < 0) return "a result is a view of no single input";
    }
    for (int i = 0; i < r->to->g->nodes.n; i++)
        if (r->to->g->nodes.v[i]->op == TD_OP_as_strided_scatter)
            return "a write is known by its geometry alone";
    return r->f.no_history;
}

static bool put_result(run *r, int i) {
    td_value v = r->out[i];
    td_garg  a = {0};
    if (v.kind == TD_K_TENSOR) {
        td_tensor *t = td__func_value(&r->f, v.u.t);
        td_gval   *g = t ? td__record_value(&r->rec, &t, "a result") : NULL;
        if (!g) return false;
        a = td__garg_value(g);
    } else if (v.kind == TD_K_FLOAT) {
        a.kind = TD_G_FLOAT;
        a.u.f = v.u.f;
    } else if (v.kind != TD_K_NONE) {
        a.kind = v.kind == TD_K_BOOL          ? TD_G_BOOL
                 : td__dim_is_symbolic(v.u.i) ? TD_G_SYM
                                              : TD_G_INT;
        a.u.i = td__graph_dim(r->to->g, v.u.i);
    }
    return td__graph_output(r->to->g, a, r->program->out_desc.v[i]) && find_place(r, i);
}

static bool finish(run *r) {
    for (int i = 0; i < r->to->n_in; i++)
        if (r->real[i] && !find_change(r, i)) return false;
    for (int i = 0; i < r->to->n_in; i++) {
        if (!r->real[i]) continue;
        td_shown by = {r->program->name, r->outer, r->out, r->to->n_in, r->to->n_out};
        r->to->in[i].home = home_of(r, given(r, i)->t->st);
        if (!r->to->homes[r->to->in[i].home].given && r->outer[i]->numel > 0 &&
            !td__storage_shown(r->cx, r->stores[r->to->in[i].home], &by))
            return false;
        r->to->homes[r->to->in[i].home].users++;
        if (!put_change(r, i)) return false;
    }
    for (int i = 0; i < r->to->n_out; i++)
        if (!put_result(r, i)) return false;
    for (int i = 0; i < r->to->n_out; i++) {
        td_place *p = &r->to->out[i];
        p->partial |= p->home >= 0 && r->to->homes[p->home].users > 1;
        p->partial &= p->same < 0;
    }
    r->to->no_history = history_lost(r);
    return td__functional_keep(r->to) &&
           td__graph_verify(r->to->g, TD_STAGE_FUNCTIONAL);
}

/* ---- the run ------------------------------------------------------------ */

/* Recorder and mode are asked for nothing but pure ops outside any history, so the
 * recorder begins, and stays, with gradients off. */
static bool trace(run *r, const td_ambient *outside) {
    td_ctx *cx = r->cx;
    cx->grad_enabled = cx->inference = false;
    td__record_begin(&r->rec, r->to->g);
    r->rec.mode.composites = false;
    r->rec.mode.below = cx->tape;
    td__func_begin(&r->f, cx, &r->rec.mode);
    cx->top = &r->f.mode;
    cx->fake = true;
    bool ok = give_inputs(r);
    td__modes_resume(cx, outside);
    r->f.recording = td__recording(cx);
    r->f.alone = true;
    ok = ok && td__graph_replay(r->program, r->in, r->out) &&
         td__copies_returned(cx, r->out, r->to->n_out) && td__record_asserts(&r->rec);
    cx->grad_enabled = cx->inference = false;
    ok = ok && finish(r);
    td__func_end(&r->f);
    td__record_end(&r->rec);
    return ok;
}

static bool make_room(run *r) {
    td_functional *to = r->to;
    td_arena      *a = &to->arena;
    size_t         n = (size_t)to->n_in + 1, m = (size_t)to->n_out + 1;
    r->real = td__arena_zalloc(a, sizeof *r->real * n);
    r->alias = td__arena_zalloc(a, sizeof *r->alias * n);
    r->outer = td__arena_zalloc(a, sizeof *r->outer * n);
    r->nr = td__arena_zalloc(a, sizeof *r->nr * n);
    r->in = td__arena_zalloc(a, sizeof *r->in * n);
    r->out = td__arena_zalloc(a, sizeof *r->out * m);
    to->in = td__arena_zalloc(a, sizeof *to->in * n);
    to->out = td__arena_zalloc(a, sizeof *to->out * m);
    to->homes = td__arena_zalloc(a, sizeof *to->homes * (2 * n + m));
    r->stores = td__arena_zalloc(a, sizeof *r->stores * (2 * n + m));
    if (!r->real || !r->alias || !r->outer || !r->nr || !r->in || !r->out || !to->in ||
        !to->out || !to->homes || !r->stores)
        return td__fail_memory(r->cx);
    for (int i = 0; i < to->n_in; i++)
        to->in[i].came = to->in[i].home = to->in[i].update = to->in[i].now = -1;
    for (int i = 0; i < to->n_out; i++)
        to->out[i] = (td_place){.same = -1, .again = -1, .home = -1, .of = -1};
    return true;
}

static bool functionalize(run *r, const td_value *in) {
    td_outside o;
    if (!make_room(r) || !td__ambient_clear(r->cx, &o)) return false;
    r->to->g = td__graph_make(r->cx, r->program->name);
    bool ok = r->to->g && find_inputs(r, in) && trace(r, &o.was);
    td__ambient_restore(r->cx, &o, ok);
    td__faker_end(&r->fakes);
    return ok;
}

td_functional *td__functionalize(const td_graph *program, const td_value *in) {
    td_ctx        *cx = program->cx;
    td_functional *to = td__zalloc(sizeof *to);
    if (!to) return td__fail_memory(cx), NULL;
    to->cx = cx;
    to->n_in = program->inputs.n;
    to->n_out = program->outputs.n;
    to->left = program->left;
    run *r = td__zalloc(sizeof *r);
    bool ok = r || td__fail_memory(cx);
    if (r) {
        *r = (run){.to = to, .program = program, .cx = cx, .fakes = {.cx = cx}};
        ok = functionalize(r, in);
    }
    td__free(r);
    if (ok) return to;
    td__functional_drop(to);
    return NULL;
}

void td__functional_drop(td_functional *f) {
    if (!f) return;
    td__graph_drop(f->g);
    td__guards_drop(f->guards);
    td__free(f->guard_text);
    td__arena_free(&f->arena);
    td__free(f);
}
