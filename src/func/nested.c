/* nested.c -- ops that take graphs, in the functional mode: their graphs become
 * functional too, each by a run of its own. */
#include "func/func_int.h"

/* Operands by input of g. */
static bool make_inputs(td_func *f, const td_graph *g, const td_value *args, int n_args,
                        td_value *in) {
    int at = 0, arg = 0;
    for (int i = 0; i < g->inputs.n; i++) {
        if (td__graph_holds(g, i)) continue;
        while (arg < n_args &&
               (args[arg].kind != TD_K_TENSORS || at >= (int)args[arg].n)) {
            at = 0;
            arg++;
        }
        td_tensor *t = arg < n_args ? td__template(args[arg].u.ts[at++], false) : NULL;
        if (!t)
            return td__fail(f->cx, TD_E_ARG, "@%.60s: an operand is missing", g->name);
        in[i] = td_value_tensor(t);
    }
    return true;
}

/* Results require grad as they did: the tape asks when it hears the call. */
static bool copy_flags(td_graph *to, const td_graph *from) {
    for (int i = 0; i < from->outputs.n; i++) {
        const td_garg *a = &from->outputs.v[i], *b = &to->outputs.v[i];
        if (a->kind != TD_G_VALUE || b->kind != TD_G_VALUE || !b->u.v->look) continue;
        td_look l = *b->u.v->look;
        bool    grad = !a->u.v->look || a->u.v->look->grad;
        l.grad = (l.grad || grad) && td__is_float((td_dtype)l.dtype);
        if (!(b->u.v->look = td__graph_look_of(to, l))) return false;
    }
    return true;
}

/* The run has a mode stack of its own: nothing stands below the tape. */
static td_functional *run(td_func *f, const td_graph *g, const td_value *in) {
    td_mode *below = f->cx->tape->below;
    f->cx->tape->below = NULL;
    td_functional *to = td__functionalize(g, in);
    f->cx->tape->below = below;
    return to;
}

static td_graph *functional(td_func *f, const td_graph *g, const td_value *args,
                            int n_args) {
    size_t    n = sizeof(td_value) * ((size_t)g->inputs.n + 1);
    td_value *in = td__arena_zalloc(&f->cx->scratch, n);
    if (!in) return td__fail_memory(f->cx), NULL;
    if (!td__scope_push(f->cx)) return NULL;
    td_functional *to = make_inputs(f, g, args, n_args, in) ? run(f, g, in) : NULL;
    td__scope_pop(f->cx, NULL, 0);
    td_graph *pure = NULL;
    if (to && to->g->outputs.n != to->n_out)
        td__fail(f->cx, TD_E_UNSUPPORTED,
                 "@%.60s, a nested graph, writes its inputs; return the new values",
                 g->name);
    else if (to && copy_flags(to->g, g)) {
        pure = to->g;
        to->g = NULL;
    }
    td__functional_drop(to);
    return pure;
}

bool td__func_nested(td_func *f, const td_opcall *c, td_value *in, td_tensor **out) {
    td_graph *made[TD_MAX_ARGS] = {0};
    bool      ok = true;
    for (int i = 0; i < c->n_in && ok; i++) {
        if (in[i].kind != TD_K_GRAPH) continue;
        made[i] = functional(f, in[i].u.g, in, c->n_in);
        ok = made[i] != NULL;
        in[i] = td__value_graph(made[i]);
    }
    ok = ok && td__func_call(f, c->info->op, in, c->n_in, out, c->n_out);
    for (int i = 0; i < c->n_in; i++) td__graph_drop(made[i]);
    return ok;
}
