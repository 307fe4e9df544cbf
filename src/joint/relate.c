/* relate.c -- how the inputs of a program are related before it runs: whoever runs it
 * once more, on copies of them, makes the copies related alike. */
#include "joint/joint_int.h"
#include "rules/geom.h"

/* ---- view ops ----------------------------------------------------------- */

/* Those that make a view again. */
typedef struct chain {
    int         n_views;
    td_view_op *views;
    td_geom     geom;     /* of the view */
    uint8_t     creation; /* its td_creation */
    bool        stale;    /* its history is not up to date, and nobody asks */
} chain;

static int count_steps(const td_view_step *s, const td_view_step *until) {
    int n = 0;
    while (s && s != until) {
        s = s->up;
        n++;
    }
    return s == until ? n : -1;
}

static bool copy_step(td_joint_run *r, td_view_op *to, const td_view_step *s) {
    td_arena *a = &r->to->arena;
    *to = (td_view_op){.op = (td_op)(s->def - td__ops),
                       .nr = s->out_nr,
                       .n_in = s->n_in,
                       .grad = s->grad,
                       .inference = s->inference};
    to->in = td__arena_alloc(a, sizeof(td_value) * (size_t)(s->n_in + 1));
    if (!to->in) return td__fail_memory(r->cx);
    for (int i = 0; i < s->n_in; i++) {
        to->in[i] = s->in[i];
        if (s->in[i].kind != TD_K_INTS) continue;
        int64_t *v = td__arena_alloc(a, sizeof *v * (s->in[i].n + 1));
        if (!v) return td__fail_memory(r->cx);
        if (s->in[i].n) memcpy(v, s->in[i].u.ints, sizeof *v * s->in[i].n);
        to->in[i].u.ints = v;
    }
    return true;
}

static bool one_step(td_joint_run *r, chain *to) {
    td_arena   *a = &r->to->arena;
    td_view_op *v = td__arena_zalloc(a, sizeof *v);
    if (v) v->in = td__arena_zalloc(a, sizeof *v->in * 4);
    if (!v || !v->in) return td__fail_memory(r->cx);
    v->op = TD_OP_as_strided;
    v->n_in = 4;
    v->inference = to->creation == TD_MADE_INFERENCE;
    v->grad = to->creation != TD_MADE_NO_GRAD && !v->inference;
    v->in[1] = td__value_ints((td_ints){to->geom.size, to->geom.rank});
    v->in[2] = td__value_ints((td_ints){to->geom.stride, to->geom.rank});
    v->in[3] = td_value_int(to->geom.offset);
    to->views = v;
    to->n_views = 1;
    return true;
}

/* Do the ops, on a tensor like `from`, give what the result looks like? Writes of
 * geometry in between may have left them behind. */
static bool lead_to(td_joint_run *r, const chain *to, td_tensor *from) {
    td_ctx    *cx = r->cx;
    td_tensor *t = td__tensor_alias(cx, from), *out[64];
    td_geom    end;
    bool       ok = t != NULL;
    td_mode   *top = td__modes_from(cx, NULL);
    for (int i = 0; ok && i < to->n_views; i++) {
        const td_view_op *v = &to->views[i];
        td_value          in[TD_MAX_ARGS];
        memcpy(in, v->in, sizeof *in * (size_t)v->n_in);
        in[td__opinfo(v->op)->view_of] = td_value_tensor(t);
        ok = v->nr < TD_COUNT(out) && td__call(cx, v->op, in, v->n_in, out, v->nr + 1);
        if (ok) t = out[v->nr];
        ok = ok && !td_is_nil(t); /* fewer views than there were */
    }
    td__modes_from(cx, top);
    if (!ok && td_error(cx) != TD_E_MEMORY) td_clear(cx);
    return ok && td__geom_copy(cx, &r->to->arena, &end, t) &&
           td__geom_same(&end, &to->geom);
}

/* A step has a history only where what it viewed had one then: it may require grad
 * since, and a result that gradients do not pass must not get one. */
static void find_silent(chain *to, td_tensor *t) {
    td_node *n = to->stale ? NULL : td__grad_fn(t);
    if (to->stale) return;
    for (int i = to->n_views - 1; i >= 0; i--) {
        td_view_op *v = &to->views[i];
        if (!n) {
            for (int k = 0; k <= i; k++) to->views[k].grad = false;
            return;
        }
        if (n->def != &td__ops[v->op] || n->n_edge != 1) return;
        n = n->edge[0].node;
    }
}

/* Does its history end at a view that was made without gradients? Of one step it would
 * lead on. */
static bool leads_nowhere(td_tensor *t) {
    const td_node *n = td__grad_fn(t);
    while (n && n->def && n->def->flags & (TD_OPF_VIEW | TD_OPF_META) && n->n_edge == 1)
        n = n->edge[0].node;
    return !n;
}

/* The ops from `from` on, as they were called; false after td__fail. */
static bool copy_steps(td_joint_run *r, chain *to, td_tensor *t, int n) {
    to->views = td__arena_zalloc(&r->to->arena, sizeof *to->views * (size_t)(n + 1));
    if (!to->views) return td__fail_memory(r->cx);
    to->n_views = n;
    for (const td_view_step *s = t->steps; n > 0; s = s->up)
        if (!copy_step(r, &to->views[--n], s)) return false;
    return true;
}

/* t is a view; the ops that make it of `from`, a tensor it was made of or shares a base
 * with. False after td__fail. */
static bool find_views(td_joint_run *r, chain *to, td_tensor *t, td_tensor *from) {
    const td_view_step *until = t->base == from ? NULL : from->steps;
    int                 n = count_steps(t->steps, until);
    if (n >= 0) {
        if (!copy_steps(r, to, t, n)) return false;
        find_silent(to, t);
        if (lead_to(r, to, from)) return true;
        if (!td_ok(r->cx)) return false;
        to->n_views = 0;
    }
    if (!one_step(r, to)) return false;
    find_silent(to, t);
    if (!to->stale && leads_nowhere(t)) to->views->grad = false;
    return true;
}

/* ---- who is who --------------------------------------------------------- */

/* Which inputs are one tensor. */
static bool find_same(td_joint_run *r) {
    td_ptrmap first = {0}; /* by tensor: 1 + the first input it is */
    bool      ok = true;
    for (int i = 0; ok && i < r->to->n_primals; i++) {
        uintptr_t at = r->real[i] ? (uintptr_t)td__ptrmap_get(&first, r->real[i]) : 0;
        r->to->related[i] = (td_relation){.same = at ? (int)at - 1 : i, .base = -1};
        if (!at && r->real[i])
            ok = td__ptrmap_put(&first, r->real[i], (void *)(uintptr_t)(i + 1));
    }
    td__ptrmap_free(&first);
    return ok || td__fail_memory(r->cx);
}

/* Where no history passes, the modes of views say what may be done with them. */
static void restore_modes(td_relation *o, const td_tensor *t) {
    for (int i = 0; i < o->n_views; i++) {
        o->views[i].inference = t->creation == TD_MADE_INFERENCE;
        o->views[i].grad = !o->views[i].inference && t->creation != TD_MADE_NO_GRAD;
    }
}

static bool find_base(td_joint_run *r, int i) {
    td_relation *o = &r->to->related[i];
    td_tensor   *t = r->outer[i];
    chain        made = {.stale = td__joint_is_stale(t)};
    for (int k = 0; t->base && k < r->to->n_primals; k++) {
        if (r->outer[k] != t->base) continue;
        if (!td__geom_copy(r->cx, &r->to->arena, &made.geom, t) ||
            !find_views(r, &made, t, t->base))
            return false;
        o->base = k;
        o->views = made.views;
        o->n_views = made.n_views;
        if (!td__needs_grad(t->base)) restore_modes(o, t);
        return true;
    }
    return true;
}

bool td__joint_relate(td_joint_run *r, const int *shared) {
    if (!find_same(r)) return false;
    for (int i = 0; i < r->to->n_primals; i++) {
        r->to->related[i].shared = shared[i];
        if (shared[i] && r->outer[i] && !find_base(r, i)) return false;
    }
    return true;
}
