/* custom_linear.c -- may the gradients of a program with custom functions and gradient
 * hooks be differentiated?
 *
 * Eager calls a custom backward, and a hook, once, with the sum of all gradients of a
 * value. Compiled double backward recomputes the value and calls them once per use,
 * which is the same only if they are linear in their incoming gradients. */
#include "aot/aot.h"

static bool is_tangent(const td_graph *g, int i) {
    return g->in_desc.v[i].kind == TD_D_TANGENT;
}

/* The backward graph of a custom function's node; NULL: n is no such node. */
static const td_graph *backward_of(const td_gnode *n) {
    const td_graph *g = NULL;
    if (n->kind != TD_N_OP || n->op != TD_OP_custom) return NULL;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].kind == TD_G_GRAPH)
            g = n->in[i].u.g; /* the last graph; the forward is before it */
    return g;
}

static const char *name_of(const td_gnode *n) {
    return n->in[0].kind == TD_G_STR ? n->in[0].u.s : "custom";
}

typedef struct reading {
    const td_gnode *of;
    bool            any;
} reading;

static void note_read(void *env, td_gval *v) {
    reading *r = env;
    r->any |= v->node == r->of;
}

/* Does the function save a result for its own backward? Its forward returns results and
 * then saved values. */
static bool saves_result(const td_gnode *n) {
    const td_graph *back = backward_of(n), *forward = NULL;
    int             saved = 0;
    for (int i = 0; i < n->n_in && !forward; i++)
        if (n->in[i].kind == TD_G_GRAPH) forward = n->in[i].u.g;
    for (int i = 0; i < back->in_desc.n; i++)
        saved += back->in_desc.v[i].kind == TD_D_SAVED;
    for (int i = 0; i < forward->outputs.n - saved; i++)
        for (int k = forward->outputs.n - saved; k < forward->outputs.n; k++)
            if (forward->outputs.v[i].u.v == forward->outputs.v[k].u.v) return true;
    return false;
}

/* Does anything read a result of the node, so that double backward passes through it?
 */
static bool is_read(const td_graph *g, const td_gnode *of) {
    reading r = {of, saves_result(of)};
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_in; k++)
            td__garg_each(&g->nodes.v[i]->in[k], note_read, &r);
    return r.any;
}

/* False after td__fail: double backward through this node would be wrong. */
static bool check_custom(td_fn *f, const td_graph *g, const td_gnode *n) {
    const td_graph *back = backward_of(n);
    if (!back || !is_read(g, n) || td__graph_linear(back, is_tangent)) return true;
    return td__fail(f->cx, TD_E_UNSUPPORTED,
                    "%s: unsupported: double backward passes through a result of the "
                    "custom function %s, whose backward is not known to be linear in "
                    "its incoming gradient%s. Call that function outside of the body",
                    f->name, name_of(n),
                    td__graph_draws(back) ? ": it draws random numbers" : "");
}

/* The same for a gradient hook. */
static bool check_hook(td_fn *f, const td_gnode *n) {
    const char *what = td__hook_not_linear(n);
    return !what || td__fail(f->cx, TD_E_UNSUPPORTED,
                             "%s: unsupported: double backward passes a gradient hook "
                             "of the body (td_on_grad) that %s. " TD_HOOK_TWICE,
                             f->name, what);
}

bool td__custom_linear(td_fn *f, const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (!check_custom(f, g, n) || !check_hook(f, n)) return false;
        bool nests = n->kind == TD_N_OP && td__row(n->op)->flags & TD_OPF_NESTS;
        for (int k = 0; nests && k < n->n_in; k++)
            if (n->in[k].kind == TD_G_GRAPH && !td__custom_linear(f, n->in[k].u.g))
                return false;
    }
    return true;
}
