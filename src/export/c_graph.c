/* c_graph.c -- one graph of what an export traced: the epilogue's writes become copy_
 * nodes at the end of the pure graph, its results the outputs, followed by the
 * gradients. */
#include "export/c_model.h"

#include <string.h>

/* The state of merging. */
typedef struct merging {
    td_graph       *g;
    const td_graph *e;      /* the epilogue */
    td_gval       **of;     /* by id of a value of e: the value of g that it is */
    td_gval       **update; /* by input of g: its new elements; NULL: not written */
    int             n_primals, n_forward;
} merging;

static bool refuse(const merging *x, const char *what) {
    return td__fail(x->g->cx, TD_E_UNSUPPORTED, "td_export_c: @%.60s: %s", x->g->name,
                    what);
}

/* The epilogue reads the graph's inputs, then its forward outputs. */
static bool map_inputs(merging *x) {
    for (int i = 0; i < x->e->inputs.n; i++) {
        const td_garg *a = i < x->n_primals ? NULL : &x->g->outputs.v[i - x->n_primals];
        if (a && a->kind != TD_G_VALUE)
            return refuse(x, "unsupported in C: a result that is no tensor");
        x->of[x->e->inputs.v[i]->id] = a ? a->u.v : x->g->inputs.v[i];
    }
    return true;
}

static td_gval *mapped(const merging *x, const td_garg *a) {
    return a->kind == TD_G_VALUE ? x->of[a->u.v->id] : NULL;
}

/* Records that `self` becomes `value`. False after td__fail. */
static bool take_update(merging *x, const td_gval *self, td_gval *value) {
    bool same = self && value && !self->node &&
                self->type->dtype == value->type->dtype &&
                self->type->rank == value->type->rank;
    for (int d = 0; same && d < self->type->rank; d++)
        same = self->type->size[d] == value->type->size[d];
    if (!same)
        return refuse(x, "unsupported in C: a write that is no update of a whole "
                         "argument in its own sizes; write to a clone and return it");
    x->update[self->nr] = value;
    return true;
}

/* One op of the epilogue. */
static bool take_node(merging *x, const td_gnode *n) {
    if (n->kind != TD_N_OP) return true;
    td_gval *self = n->n_in ? mapped(x, &n->in[0]) : NULL;
    bool     known = n->op == TD_OP__made || n->op == TD_OP__bump;
    if (td__view_operand(n) >= 0 || n->op == TD_OP_detach) return true;
    if (n->op == TD_OP__assign) known = take_update(x, self, mapped(x, &n->in[1]));
    else if (!known)
        return td__fail(x->g->cx, TD_E_UNSUPPORTED,
                        "td_export_c: @%.60s: unsupported in C: %s on an argument or a "
                        "result, which changes its sizes, flags or history; return a "
                        "new tensor instead",
                        x->g->name, td__row(n->op)->name);
    for (int i = 0; i < n->n_out; i++) x->of[n->out[i]->id] = self;
    return known;
}

static bool add_write(merging *x, int input, td_gval *v) {
    td_graph *g = x->g;
    td_garg   in[2] = {td__garg_value(g->inputs.v[input]), td__garg_value(v)};
    td_gnode *n = td__graph_op(g, TD_OP_copy_, in, 2, 1);
    if (n) n->out[0]->type = g->inputs.v[input]->type;
    return n != NULL;
}

/* A copy of an input at the start of the graph, before all writes. */
static td_gval *copy_first(td_graph *g, td_gval *v) {
    td_gnode *n = td__graph_copy(g, v);
    if (!n) return NULL;
    memmove(g->nodes.v + 1, g->nodes.v, sizeof *g->nodes.v * (size_t)(g->nodes.n - 1));
    g->nodes.v[0] = n;
    return n->out[0];
}

/* Values that are inputs are copied: another write may change them. */
static bool add_writes(merging *x) {
    for (int i = 0; i < x->n_primals; i++)
        if (x->update[i] && !x->update[i]->node &&
            !(x->update[i] = copy_first(x->g, x->update[i])))
            return false;
    for (int i = 0; i < x->n_primals; i++)
        if (x->update[i] && !add_write(x, i, x->update[i])) return false;
    return true;
}

static bool is_expanded(const td_gtype *l) {
    for (int d = 0; d < l->rank; d++)
        if (l->stride[d] == 0 && l->size[d] > 1) return true;
    return false;
}

/* A value for the caller: an expanded one is copied to a row-major one, before the
 * writes at the end of the graph. NULL after td__fail. */
static td_gval *packed(td_graph *g, td_gval *v) {
    int at = 0;
    if (!is_expanded(v->type)) return v;
    while (at < g->nodes.n && g->nodes.v[at]->op != TD_OP_copy_) at++;
    td_gnode *n = td__graph_copy(g, v);
    if (!n) return NULL;
    memmove(g->nodes.v + at + 1, g->nodes.v + at,
            sizeof *g->nodes.v * (size_t)(g->nodes.n - 1 - at));
    g->nodes.v[at] = n;
    return n->out[0];
}

/* Results, then gradients; outputs that are none are left out. */
static bool set_outputs(merging *x) {
    td_graph *g = x->g;
    int       n_grads = g->outputs.n - x->n_forward, n = 0;
    size_t    most = (size_t)(x->e->outputs.n + n_grads + 1);
    td_garg  *v = td__arena_alloc(&g->arena, sizeof *v * most);
    td_desc  *d = td__arena_alloc(&g->arena, sizeof *d * most);
    if (!v || !d) return td__fail_memory(g->cx);
    for (int i = 0; i < x->e->outputs.n; i++) {
        const td_garg *a = &x->e->outputs.v[i];
        td_gval       *of = mapped(x, a);
        if (a->kind == TD_G_NONE) continue;
        if (!of) return refuse(x, "unsupported in C: a result that is no tensor");
        d[n] = TD_PLAIN_DESC;
        d[n].index = i;
        for (int k = 0; k < x->n_forward; k++)
            if (g->outputs.v[k].u.v == of && g->out_desc.v[k].kind == TD_D_LOSS)
                d[n] = g->out_desc.v[k];
        v[n++] = td__garg_value(of);
    }
    for (int i = x->n_forward; i < g->outputs.n; i++) {
        if (g->outputs.v[i].kind != TD_G_VALUE) continue;
        d[n] = g->out_desc.v[i];
        v[n++] = g->outputs.v[i];
    }
    g->outputs.n = g->out_desc.n = 0;
    for (int i = 0; i < n; i++) {
        td_gval *of = packed(g, v[i].u.v);
        if (!of || !td__graph_output(g, td__garg_value(of), d[i])) return false;
    }
    return true;
}

static bool is_complex(const td_gval *v) {
    return v->type && v->type->kind == TD_K_TENSOR &&
           td__is_complex((td_dtype)v->type->dtype);
}

/* Is a value of the graph complex? */
static bool has_complex(const td_graph *g) {
    for (int i = 0; i < g->inputs.n; i++)
        if (is_complex(g->inputs.v[i])) return true;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_out; k++)
            if (is_complex(g->nodes.v[i]->out[k])) return true;
    return false;
}

/* What only a call of the library can do. */
static bool check_inputs(const merging *x) {
    const td_graph *g = x->g;
    if (g->dims.n)
        return refuse(x, "unsupported in C: symbolic sizes; set td_aot_opts.dynamic to "
                         "TD_SHAPES_STATIC, or TD_DYNAMIC=off");
    if (td__graph_is_typed(g))
        return refuse(x, "unsupported in C: tensors of a registered type");
    if (has_complex(g))
        return refuse(x, "unsupported in C: complex tensors; compute with their real "
                         "and imaginary parts");
    for (int i = 0; i < g->inputs.n; i++) {
        const td_gtype *l = g->inputs.v[i]->type;
        if (g->in_desc.v[i].kind == TD_D_TOKEN)
            return refuse(x, "unsupported in C: ops with an effect");
        if (!l || l->kind != TD_K_TENSOR || l->rank > 8)
            return refuse(x, "unsupported in C: an argument that is no tensor of at "
                             "most 8 dims; pass numbers as 0-d tensors");
    }
    return true;
}

bool td__c_merge(td_traced *t) {
    td_graph *g = t->g;
    merging   x = {.g = g, .e = t->epilogue, .n_forward = t->n_forward};
    x.n_primals = x.e->inputs.n - x.n_forward;
    x.of = td__arena_zalloc(&g->arena, sizeof *x.of * (size_t)(x.e->n_values + 1));
    x.update =
        td__arena_zalloc(&g->arena, sizeof *x.update * (size_t)(g->inputs.n + 1));
    if (!x.of || !x.update) return td__fail_memory(g->cx);
    bool ok = check_inputs(&x) && map_inputs(&x);
    for (int i = 0; ok && i < x.e->nodes.n; i++) ok = take_node(&x, x.e->nodes.v[i]);
    return ok && set_outputs(&x) && add_writes(&x) && td__graph_index(g) &&
           td__graph_dce(g) && td__graph_fix_storages(g);
}
