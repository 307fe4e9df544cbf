/* explain_effects.c -- the effects of an epilogue on one tensor, in program order. A
 * write through a view is a write to every tensor that the view was made from. */
#include "aot/explain.h"

/* ---- steps -------------------------------------------------------------- */

/* The effect of a node on its first argument. */
static td_effect_kind kind_of(const td_gnode *n) {
    switch (n->op) {
    case TD_OP__made:
    case TD_OP__bump:
    case TD_OP__bind: return TD_EFFECT_COUNT;
    case TD_OP__assign: return TD_EFFECT_WRITE;
    case TD_OP__touch: return TD_EFFECT_REFRESH;
    case TD_OP__give: return TD_EFFECT_GIVE;
    case TD_OP_set_: return TD_EFFECT_MOVE;
    case TD_OP_detach_: return TD_EFFECT_DETACH;
    case TD_OP_requires_grad_:
        return td__gnode_switches_grad_off(n) ? TD_EFFECT_GRAD_OFF : TD_EFFECT_GRAD_ON;
    default: break;
    }
    if (!td__opinfo(n->op)->writes) return TD_EFFECT_COUNT;
    return td__row(n->op)->flags & TD_OPF_META ? TD_EFFECT_GEOMETRY : TD_EFFECT_WRITE;
}

static bool is_view_of(const td_gval *v, const td_gval *of) {
    while (v && v != of) v = td__epi_viewed(v);
    return v != NULL;
}

/* Is the value that a write or a custom function brings differentiated? */
static bool has_history(const td_joint *j, const td_gnode *n) {
    bool value = n->n_in > 1 && n->in[1].kind == TD_G_VALUE && !n->in[1].u.v->node;
    int  k = value ? n->in[1].u.v->nr - j->n_primals : -1;
    return k >= 0 && j->fwd[k].tangent >= 0;
}

/* Calls fn for each effect of the epilogue on v, in program order: ops on v itself, and
 * writes through views of it. */
void td__epi_effects(const td_joint *j, const td_gval *v, td_effect_fn *fn, void *env) {
    for (int i = 0; i < j->epilogue->nodes.n; i++) {
        const td_gnode *n = j->epilogue->nodes.v[i];
        if (n->kind != TD_N_OP || !n->n_in || n->in[0].kind != TD_G_VALUE) continue;
        td_effect e = {.kind = kind_of(n), .n = n};
        bool      own = n->in[0].u.v == v;
        if (e.kind == TD_EFFECT_COUNT) continue;
        if (!own && (e.kind != TD_EFFECT_WRITE || !is_view_of(n->in[0].u.v, v)))
            continue;
        bool brings = e.kind == TD_EFFECT_WRITE || e.kind == TD_EFFECT_GIVE;
        e.history = brings && has_history(j, n);
        e.no_grad = td__epi_is_no_grad(j, n);
        fn(env, &e);
    }
}

/* ---- combined ------------------------------------------------------------ */

/* The state after all effects: later ones override requires_grad. */
static void add_up(void *env, const td_effect *e) {
    td_effect_sum *sum = env;
    sum->any = true;
    sum->history |= e->history;
    switch (e->kind) {
    case TD_EFFECT_WRITE: sum->written = true; break;
    case TD_EFFECT_MOVE:
        sum->moved_to = e->n->in[1].u.v;
        sum->geometry = true;
        break;
    case TD_EFFECT_GEOMETRY: sum->geometry = true; break;
    case TD_EFFECT_DETACH:
        sum->detached = true;
        sum->requires_grad = false;
        break;
    case TD_EFFECT_GRAD_ON: sum->requires_grad = true; break;
    case TD_EFFECT_GRAD_OFF: sum->requires_grad = false; break;
    case TD_EFFECT_REFRESH:
    case TD_EFFECT_GIVE:
    case TD_EFFECT_COUNT: break;
    }
}

td_effect_sum td__epi_sum(const td_joint *j, const td_gval *v) {
    td_effect_sum sum = {0};
    td__epi_effects(j, v, add_up, &sum);
    return sum;
}

/* ---- as text ------------------------------------------------------------- */

/* The tensor that effects are described of, and where the lines go. */
typedef struct line_writer {
    const td_joint *j;
    const td_gval  *v;
    td_line_fn     *fn;
    void           *env;
} line_writer;

/* "written through select(0, 1) with history". */
static void write_text(td_buf *b, const line_writer *t, const td_effect *e) {
    td__buf_add(b, "written");
    if (e->n->in[0].u.v != t->v) {
        td__buf_add(b, " through ");
        td__epi_views_print(b, t->j, e->n->in[0].u.v, t->v);
    }
    td__buf_add(b, e->history ? " with history" : " without history");
}

/* A change of sizes, strides, offset or storage, with the new type if it is known. */
static void geometry_text(td_buf *b, const line_writer *t, const td_effect *e) {
    const td_gtype *l = e->n->out[0]->type;
    if (e->kind == TD_EFFECT_MOVE) {
        td__buf_add(b, "set_ to the storage of ");
        td__epi_name_print(b, t->j, e->n->in[1].u.v);
    } else td__gnode_call_print(b, t->j->epilogue, e->n);
    if (l) td__buf_add(b, e->kind == TD_EFFECT_MOVE ? ", as " : " to ");
    if (l) td__gtype_print(b, t->j->epilogue, l);
    if (e->no_grad) td__buf_add(b, " under no_grad");
}

/* The words for one effect; docs/explain.md lists them. */
static void write_line(void *env, const td_effect *e) {
    const line_writer *t = env;
    td_buf             b = {0};
    switch (e->kind) {
    case TD_EFFECT_WRITE: write_text(&b, t, e); break;
    case TD_EFFECT_GEOMETRY:
    case TD_EFFECT_MOVE: geometry_text(&b, t, e); break;
    case TD_EFFECT_DETACH: td__buf_add(&b, "detached (detach_)"); break;
    case TD_EFFECT_GRAD_ON: td__buf_add(&b, "requires grad from here on"); break;
    case TD_EFFECT_GRAD_OFF: td__buf_add(&b, "no longer requires grad"); break;
    case TD_EFFECT_REFRESH:
        td__buf_add(&b, "its grad_fn is recomputed from its base");
        break;
    case TD_EFFECT_GIVE:
        td__buf_add(&b, e->history ? "a custom function becomes its grad_fn"
                                   : "marked as a result of a custom function");
        break;
    case TD_EFFECT_COUNT: break;
    }
    t->fn(t->env, b.failed ? NULL : td__buf_str(&b));
    td__buf_free(&b);
}

void td__epi_effect_lines(const td_joint *j, const td_gval *v, td_line_fn *fn,
                          void *env) {
    td__epi_effects(j, v, write_line, &(line_writer){j, v, fn, env});
}
