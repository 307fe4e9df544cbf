/* case_f64.c -- the programs of a file in f64 instead of f32: types, literals and dtype
 * arguments, so that finite differences have digits to differ in. */
#include "cli/case_differences.h"

static td_dtype in_f64(td_dtype dt) { return dt == TD_F32 ? TD_F64 : dt; }

/* Types are shared and immutable: a value gets a copy. */
static bool convert_type(td_graph *g, td_gval *v) {
    if (!v || !v->type || v->type->kind != TD_K_TENSOR || v->type->dtype != TD_F32)
        return true;
    td_gtype *type = td__arena_alloc(&g->arena, sizeof *type);
    if (!type) return td__fail_memory(g->cx);
    *type = *v->type;
    type->dtype = TD_F64;
    v->type = type;
    return true;
}

static bool convert_graph(td_graph *g);

static bool convert_node(td_graph *g, td_gnode *n) {
    bool ok = true;
    for (int i = 0; ok && i < n->n_in; i++) {
        td_garg *a = &n->in[i];
        if (a->kind == TD_G_DTYPE) a->u.dt = in_f64(a->u.dt);
    }
    for (int i = 0; ok && i < n->n_out; i++) ok = convert_type(g, n->out[i]);
    return ok;
}

static bool convert_const(td_graph *g, int i) {
    td_tensor *t = g->consts.v[i];
    if (!t || t->dtype != TD_F32) return true;
    td_tensor *to = td_op_to(t, TD_F64, false);
    if (td_is_nil(to)) return false;
    g->consts.v[i] = td__ref(to);
    td__unref(t);
    return true;
}

/* Types that the text states for results are converted, not inferred again, and may be
 * wrong for ops whose results depend on the dtype. A call checks only its arguments. */
static bool convert_graph(td_graph *g) {
    bool ok = true;
    for (int i = 0; ok && i < g->inputs.n; i++) ok = convert_type(g, g->inputs.v[i]);
    for (int i = 0; ok && i < g->nodes.n; i++) ok = convert_node(g, g->nodes.v[i]);
    for (int i = 0; ok && i < g->consts.n; i++) ok = convert_const(g, i);
    for (int i = 0; ok && i < g->nested.n; i++) ok = convert_graph(g->nested.v[i]);
    return ok;
}

bool case_to_f64(const td_gfile *f) {
    bool ok = true;
    for (int i = 0; ok && i < f->graphs.n; i++) ok = convert_graph(f->graphs.v[i]);
    for (int i = 0; ok && i < f->cases.n; i++) ok = convert_graph(f->cases.v[i]->g);
    return ok;
}
