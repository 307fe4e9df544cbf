/* facts_out.c -- what outputs are: which input or intermediate they alias, by which
 * views, and which gradients come in for them. */
#include "aot/facts_int.h"
#include "rules/geom.h"

#include <string.h>

/* ---- who shares what ---------------------------------------------------- */

static td_tensor *out_tensor(const td_facts_run *r, int i) {
    return r->r->out[i].kind == TD_K_TENSOR ? r->r->out[i].u.t : NULL;
}

/* The view op that made t; *nr: which of its results t is. NULL: none did. */
static const td_event *made_by(const td_facts_run *r, const td_tensor *t, int *nr) {
    for (int i = r->r->log->all.n - 1; i >= 0; i--) {
        const td_event *e = &r->r->log->all.v[i];
        for (*nr = 0; e->kind == TD_EV_VIEW && *nr < e->n_out; ++*nr)
            if (e->out[*nr] == t) return e;
    }
    return NULL;
}

/* Is t a result of a multi-output view, or a view of one? */
static bool is_multi(const td_facts_run *r, const td_tensor *t) {
    int             nr;
    const td_event *e = made_by(r, t, &nr);
    while (e && !(td__row(e->op)->flags & TD_OPF_MULTI)) e = made_by(r, e->t, &nr);
    return e != NULL;
}

/* Outputs in a storage, and those of them that came through multi-output views. */
static int count_sharers(td_facts_run *r, const td_storage *st, int *multi) {
    int n = 0;
    *multi = 0;
    for (int i = 0; i < r->to->n_out; i++) {
        td_tensor *t = out_tensor(r, i);
        if (!t || t->st != st) continue;
        n++;
        *multi += is_multi(r, t);
    }
    return n;
}

/* Of an output that is returned several times, the last. */
static int out_index(const td_facts_run *r, const td_tensor *t) {
    int i = r->to->n_out - 1;
    while (i >= 0 && out_tensor(r, i) != t) i--;
    return i;
}

static int input_index(const td_facts_run *r, const td_tensor *t) {
    for (int i = 0; i < r->to->n_in; i++)
        if (r->r->inputs[i].outer == t) return i;
    return -1;
}

/* The input that shares storage with t, preferably one t is a view of. -1: none. */
static int input_of(td_facts_run *r, td_tensor *t) {
    int             found = -1, nr;
    const td_event *e = NULL;
    for (const td_tensor *of = t; of; of = e ? e->t : NULL) {
        int i = input_index(r, of);
        if (i >= 0 && of->st == t->st) return i;
        e = made_by(r, of, &nr);
    }
    for (int i = r->to->n_in - 1; i >= 0; i--)
        if (r->r->inputs[i].outer && r->r->inputs[i].outer->st == t->st) found = i;
    return found;
}

/* ---- view sequences ----------------------------------------------------- */

/* The views that lead to an output, last first. */
typedef struct chain {
    td_facts_run    *r;
    td_output_fact  *to; /* its views are filled from the end of room for all events */
    const td_tensor *t;  /* what the rest of the views has to make */
    bool             done, ok;
} chain;

/* Adds a view op with copies of its arguments. */
static void add_view(chain *c, td_op op, int nr, const td_value *in, int n) {
    td_arena *a = c->r->arena;
    bool      several = td__row(op)->flags & TD_OPF_MULTI;
    td_value *copy = td__arena_zalloc(a, sizeof *copy * (size_t)n);
    c->ok &= copy != NULL;
    for (int i = 1; c->ok && i < n; i++) {
        copy[i] = in[i];
        if (in[i].kind != TD_K_INTS) continue;
        int64_t *ints = td__arena_alloc(a, sizeof *ints * (in[i].n + 1));
        if (!ints) c->ok = false;
        else if (in[i].n) memcpy(ints, in[i].u.ints, sizeof *ints * in[i].n);
        copy[i].u.ints = ints;
    }
    *--c->to->views = (td_view_op){td__row(op)->name, several ? nr : -1, n, copy};
    c->to->n_views++;
}

/* A piece of a storage, by its geometry: the sequence begins there. */
static void add_piece(chain *c, const td_geom *g) {
    td_value in[4] = {TD_NONE, td__value_ints((td_ints){g->size, g->rank}),
                      td__value_ints((td_ints){g->stride, g->rank}),
                      td_value_int(g->offset)};
    add_view(c, TD_OP_as_strided, 0, in, 4);
    c->done = true;
}

/* Goes on from the result of a view op to its argument. */
static void pass_view(chain *c, const td_event *e, int nr) {
    td_view_kind kind = td__op_view_kind(e->op);
    td_geom      g = td__geom_of(e->out[nr]);
    if (kind == TD_VIEW_STRIDED) add_piece(c, &g);
    else if (kind != TD_VIEW_SAME) add_view(c, e->op, nr, e->in, e->n_in);
    c->t = e->t;
}

/* Goes on from a tensor to what it was before a metadata write. */
static void pass_meta(chain *c, const td_event *e) {
    td_op pure = td__opinfo(e->op)->pure;
    bool  whole = e->op == TD_OP_set_;
    for (int i = 2; i < e->n_in; i++) whole &= e->in[i].kind == TD_K_NONE;
    if (whole) c->t = e->in[1].u.t;
    else if (e->op == TD_OP_set_ || e->op == TD_OP_resize_) add_piece(c, &e->geom);
    else if (pure != TD_OP_COUNT && td__op_view_kind(pure) == TD_VIEW_STRIDED)
        add_piece(c, &e->geom);
    else if (pure != TD_OP_COUNT) add_view(c, pure, 0, e->in, e->n_in);
}

/* The views from `base` to output t; metadata writes of an input, which is its base as
 * it arrived, count. */
static bool find_views(td_facts_run *r, td_output_fact *to, const td_tensor *t,
                       const td_tensor *base, bool arrived) {
    int   n = r->r->log->all.n, nr;
    chain c = {r, to, t, false, true};
    to->views = td__arena_zalloc(r->arena, sizeof *to->views * (size_t)(n + 1));
    if (!to->views) return td__fail_memory(r->r->cx);
    to->views += n;
    to->has_views = true;
    for (int i = n - 1; i >= 0 && !c.done && (arrived || c.t != base); i--) {
        const td_event *e = &r->r->log->all.v[i];
        if (e->kind == TD_EV_META && e->t == c.t) pass_meta(&c, e);
        for (nr = 0; e->kind == TD_EV_VIEW && nr < e->n_out; nr++)
            if (e->out[nr] == c.t) {
                pass_view(&c, e, nr);
                break;
            }
    }
    return c.ok || td__fail_memory(r->r->cx);
}

/* ---- kinds -------------------------------------------------------------- */

static bool is_custom(const td_tensor *t) { return t->creation == TD_MADE_CUSTOM; }

/* Does the input that shares storage with t decide the kind of this output? Not if the
 * storage became the input's by set_ and t is another tensor. */
static bool is_input_kind(td_facts_run *r, td_output_fact *to, td_tensor *t,
                          int input) {
    int  multi, n = count_sharers(r, t->st, &multi), self = input_index(r, t);
    bool moved = r->to->in[input].mutates_storage, history = !td__facts_is_leaf(r, t);
    to->base = input;
    if (history && is_custom(t)) {
        to->kind = TD_OUT_CUSTOM_VIEW;
        to->base = -1;
    } else if (!moved && history && n == multi) to->kind = TD_OUT_NON_ALIAS;
    else if (self >= 0) {
        to->kind = TD_OUT_IS_INPUT;
        to->base = self;
    } else if (!moved) to->kind = TD_OUT_ALIAS_OF_INPUT;
    else to->base = -1;
    return self >= 0 || !moved || to->kind == TD_OUT_CUSTOM_VIEW;
}

/* The base of an output is no output itself: it becomes an additional one, for
 * backward. */
static bool keep_base(td_facts_run *r, td_tensor *base) {
    td_output_fact *to = &r->to->bases[r->to->n_bases];
    r->bases[r->to->n_bases++] = base;
    *to = (td_output_fact){.base = -1, .value_kind = TD_K_TENSOR, .for_backward = true};
    to->requires_grad = td_requires_grad(base);
    return td__facts_type(r, &to->type, base);
}

/* Output t is a view of an intermediate. PyTorch's rule: a lone view of it counts as a
 * value of its own (unsafe view); otherwise all of them are views of one base, which is
 * an output or becomes one. */
static bool alias_intermediate(td_facts_run *r, td_output_fact *to, td_tensor *t) {
    int multi, n = count_sharers(r, t->st, &multi), at = out_index(r, t->base);
    if (n == 1 || n - multi <= 1) {
        to->kind = TD_OUT_UNSAFE_VIEW;
        return true;
    }
    to->kind = TD_OUT_ALIAS_OF_OUTPUT;
    to->base = at;
    for (int i = 0; at < 0 && i < r->to->n_bases; i++)
        if (r->bases[i] == t->base) {
            to->kind = TD_OUT_ALIAS_OF_BASE;
            to->base = i;
        }
    if (to->base < 0) {
        to->kind = TD_OUT_ALIAS_SAVES_BASE;
        to->base = r->to->n_bases;
        if (!keep_base(r, t->base)) return false;
    }
    return find_views(r, to, t, t->base, false);
}

/* An output with gradient of the same type, storage and offset. */
static int twin_of(td_facts_run *r, td_tensor *t) {
    for (int i = 0; i < r->to->n_out; i++) {
        td_tensor *u = out_tensor(r, i);
        if (!u || u == t || u->st != t->st || !td_requires_grad(u)) continue;
        td_geom a = td__geom_of(u), b = td__geom_of(t);
        if (td__geom_same(&a, &b)) return out_index(r, u);
    }
    return -1;
}

/* Classifies an output in the order PyTorch does: alias of an input, view of an
 * intermediate with gradients, alias of another output, or a value of its own. */
static bool find_kind(td_facts_run *r, td_output_fact *to, td_tensor *t) {
    int input = input_of(r, t), twin;
    if (input >= 0 && is_input_kind(r, to, t, input)) {
        if (to->kind != TD_OUT_ALIAS_OF_INPUT || r->to->in[input].mutates_metadata)
            return true;
        return find_views(r, to, t, r->r->inputs[input].outer, true);
    }
    if (t->base && td_requires_grad(t) && td_requires_grad(t->base))
        return alias_intermediate(r, to, t);
    if (!td_requires_grad(t) && (twin = twin_of(r, t)) >= 0) {
        to->kind = TD_OUT_ALIAS_OF_OUTPUT;
        to->base = twin;
        return find_views(r, to, t, r->r->out[twin].u.t, false);
    }
    to->kind = TD_OUT_NON_ALIAS;
    return true;
}

/* Fills in the facts of output i: type, flags, dynamic dims and its kind. */
static bool find_output(td_facts_run *r, int i) {
    td_output_fact *to = &r->to->out[i];
    td_tensor      *t = out_tensor(r, i);
    *to = (td_output_fact){.base = -1, .value_kind = (td_kind)r->r->out[i].kind};
    if (!t) return true;
    if (!td__facts_type(r, &to->type, t)) return false;
    to->requires_grad = td_requires_grad(t);
    to->for_backward = to->requires_grad && (!t->base || !td__facts_is_leaf(r, t));
    to->multi = is_multi(r, t);
    for (int d = 0; d < t->rank; d++)
        if (td__dim_is_sym(t->size[d])) to->dynamic |= (uint64_t)1 << d;
    return find_kind(r, to, t) && td_ok(r->r->cx);
}

bool td__facts_outputs(td_facts_run *r) {
    for (int i = 0; i < r->to->n_out; i++)
        if (!find_output(r, i)) return false;
    return true;
}

/* ---- tangents ----------------------------------------------------------- */

/* Row-major, or channels last where the value is. */
static bool add_tangent(td_facts_run *r, td_tangent_of of, int index,
                        const td_tensor *t) {
    td_tangent_fact *to = &r->to->tangents[r->to->n_tangents++];
    int64_t *stride = td__arena_alloc(r->arena, sizeof *stride * (size_t)(t->rank + 1));
    to->of = of;
    to->index = index;
    if (!stride) return td__fail_memory(r->r->cx);
    if (!td__facts_type(r, &to->type, t)) return false;
    if (td__is_channels_last(t)) td__strides_channels_last(t->rank, t->size, stride);
    else td__strides_dense(t->rank, t->size, stride);
    to->type.stride = stride;
    to->type.offset = 0;
    return true;
}

/* Only outputs with elements of their own take a tangent; the gradient of a view
 * arrives through its base. */
static bool wants_tangent(const td_output_fact *o) {
    bool own = o->kind == TD_OUT_NON_ALIAS || o->kind == TD_OUT_UNSAFE_VIEW ||
               o->kind == TD_OUT_CUSTOM_VIEW;
    return own && o->value_kind == TD_K_TENSOR && o->for_backward;
}

/* An input written with gradients off throughout is no reason to train. */
bool td__facts_tangents(td_facts_run *r) {
    td_facts *to = r->to;
    for (int i = 0; i < to->n_in; i++) {
        const td_input_fact *in = &to->in[i];
        if (in->mutation != TD_MUTATED_OUT_GRAPH || !in->mutates_data ||
            !in->requires_grad || in->duplicate >= 0)
            continue;
        if (!add_tangent(r, TD_TANGENT_INPUT, i, r->r->inputs[i].outer)) return false;
        to->trains |= !in->no_grad;
    }
    int n_written = to->n_tangents;
    for (int i = 0; i < to->n_out; i++)
        if (wants_tangent(&to->out[i]) &&
            !add_tangent(r, TD_TANGENT_OUTPUT, i, out_tensor(r, i)))
            return false;
    for (int i = 0; i < to->n_bases; i++)
        if (!add_tangent(r, TD_TANGENT_BASE, i, r->bases[i])) return false;
    to->trains |= to->n_tangents > n_written;
    if (!to->trains) to->n_tangents = 0;
    return true;
}
