/* apply.c -- evaluates the derivative of one recorded op: reads the saved
 * values, sets up a td_vjp from them and the incoming gradients, and runs the
 * row's formulas or its C rule. The engine sums to the input's sizes and casts
 * to its dtype. */
#include "eager/eager_int.h"
#include "eager/history.h"

td_tensor *td__vjp_zeros(const td_vjp *v, int i) {
    const td_meta *m = v->out_meta[i];
    td_ints        size = {m->size, m->rank};
    /* new_zeros of a gradient: in a trace it belongs to the backward part */
    for (int k = 0; k < v->n_out; k++)
        if (v->g[k]) return td_op_new_zeros(v->g[k], size, m->dtype);
    return td_op_zeros(v->cx, size, m->dtype);
}

/* The arrays of a td_vjp. Arrays by result or list entry are in the walks'
 * arena, the rest is bounded by TD_MAX_ARGS. */
typedef struct frame {
    td_vjp                v;
    td_value              in[TD_MAX_ARGS];
    td_meta               meta[TD_MAX_ARGS];
    const td_meta        *in_meta[TD_MAX_ARGS];
    bool                  need[TD_MAX_ARGS];
    td_tensor            *grad[TD_MAX_ARGS];
    td_tensor           **list_grad[TD_MAX_ARGS];
    const bool           *list_need[TD_MAX_ARGS];
    const td_meta *const *list_meta[TD_MAX_ARGS];
    td_tensor           **list[TD_MAX_ARGS]; /* saved entries of a list */
    int                   edge[TD_MAX_ARGS]; /* first edge of the argument */
    td_tensor           **out;               /* by result; one_out when there is one */
    td_tensor            *one_out;
    td_meta               one_meta;
    const td_meta        *one_meta_at;
} frame;

/* Recorded geometries as a list of td_meta; NULL after td__fail. */
static const td_meta *const *make_metas(td_ctx *cx, const td_geom *notes, int n) {
    td_arena       *a = &td__eager(cx)->walks;
    td_meta        *m = td__arena_alloc(a, sizeof *m * (size_t)n);
    const td_meta **list = td__arena_alloc(a, sizeof *list * (size_t)n);
    if (!m || !list) return td__fail_memory(cx), NULL;
    for (int i = 0; i < n; i++) {
        td__geom_to_meta(&notes[i], &m[i]);
        list[i] = &m[i];
    }
    return list;
}

/* Argument i, a list of tensors. Its gradients are written to grads[] directly. */
static bool set_list(frame *f, td_node *n, int i, const bool *need, td_tensor **grads) {
    int       first = f->edge[i], count = (int)n->in[i].n;
    td_arena *a = &td__eager(n->cx)->walks;
    f->list_grad[i] = grads + first;
    f->list_need[i] = need + first;
    f->list_meta[i] = make_metas(n->cx, n->in_type + first, count);
    f->list[i] = td__arena_zalloc(a, sizeof(td_tensor *) * (size_t)(count + 1));
    if (!f->list_meta[i] || !f->list[i]) return td__fail_memory(n->cx);
    for (int k = 0; k < count; k++) f->need[i] |= need[first + k];
    return true;
}

/* Sets the arguments: numbers as recorded, tensors as geometry only; set_saved
 * adds those that were saved. */
static bool set_args(frame *f, td_node *n, const bool *need, td_tensor **grads) {
    int e = 0;
    for (int i = 0; i < n->n_in; i++) {
        td_value v = n->in[i];
        f->in[i] = v;
        f->in_meta[i] = NULL;
        f->need[i] = false;
        f->grad[i] = NULL;
        f->list_grad[i] = NULL;
        f->edge[i] = e;
        if (v.kind == TD_K_TENSOR) {
            f->in[i] = td_value_none();
            f->in_meta[i] = &f->meta[i];
            f->need[i] = need[e];
            td__geom_to_meta(&n->in_type[e++], &f->meta[i]);
        } else if (v.kind == TD_K_TENSORS) {
            if (!set_list(f, n, i, need, grads)) return false;
            e += (int)v.n;
        }
    }
    return true;
}

/* Sets the results' geometry. */
static bool set_results(frame *f, td_node *n) {
    if (n->n_out == 1) {
        td__geom_to_meta(&n->out_type[0], &f->one_meta);
        f->one_meta_at = &f->one_meta;
        f->v.out_meta = &f->one_meta_at;
        f->v.out = f->out = &f->one_out;
        return true;
    }
    td_arena *a = &td__eager(n->cx)->walks;
    f->v.out_meta = make_metas(n->cx, n->out_type, n->n_out);
    f->v.out = f->out = td__arena_zalloc(a, sizeof(td_tensor *) * (size_t)n->n_out);
    return f->v.out_meta && (f->v.out || td__fail_memory(n->cx));
}

/* Reads all saved values, even those that no needed gradient uses: as in eager
 * PyTorch, a saved value that was written makes the node fail in any case. */
static bool set_saved(frame *f, td_node *n) {
    for (int k = 0; k < n->n_saved; k++) {
        const td_saved *s = &n->saved[k];
        if (TD_UNLIKELY(td__saved_is_absent(s))) continue;
        td_tensor *t = td__unpack(n, s);
        if (!t) return false;
        if (s->arg < 0) f->out[-1 - s->arg] = t;
        else if (n->in[s->arg].kind == TD_K_TENSOR) f->in[s->arg] = td_value_tensor(t);
        else {
            f->list[s->arg][s->item] = t;
            f->in[s->arg].u.ts = f->list[s->arg];
        }
    }
    return true;
}

/* Is a gradient needed at all? If not, the rule is not run. */
static bool any_needed(const td_node *n, const bool *need) {
    for (int i = 0; i < n->n_edge; i++)
        if (need[i]) return true;
    return false;
}

/* Is it an analytic function of complex numbers? Its derivative as on real numbers, d,
 * is then a complex number, and the gradient is g times the conjugate of d: PyTorch's
 * convention. As a rule multiplies by d, that is the conjugate of what the rule makes
 * of the conjugate of g. */
static bool conjugates(const td_node *n) {
    const td_opdef *def = n->def;
    if (n->info->pure != TD_OP_COUNT && !def->vjp_fn && def->vjp && def->vjp[0] == '@')
        def = td__row(n->info->pure);
    return def->analytic && n->n_out > 0 &&
           td__is_complex((td_dtype)n->out_type[0].dtype);
}

/* The conjugates of n tensors, some of which may be NULL. False after td__fail. */
static bool conjugate_all(td_tensor **t, int n) {
    for (int i = 0; i < n; i++) {
        if (!t[i]) continue;
        t[i] = td_op_conj(t[i]);
        if (td_is_nil(t[i])) return false;
    }
    return true;
}

/* Replaces the incoming gradients by their conjugates. */
static bool conjugate_incoming(frame *f, td_node *n) {
    size_t      bytes = sizeof(td_tensor *) * (size_t)n->n_out;
    td_tensor **g = td__arena_alloc(&td__eager(n->cx)->walks, bytes);
    if (!g) return td__fail_memory(n->cx);
    for (int i = 0; i < n->n_out; i++) g[i] = f->v.g[i];
    f->v.g = g;
    return conjugate_all(g, n->n_out);
}

/* Runs the C rule or the formulas; grads[] by edge. */
static bool run_rule(frame *f, td_node *n, td_vjp_fn *rule, td_tensor **grads) {
    if (!set_saved(f, n)) return false;
    if (rule && !rule(&f->v))
        return td__fail(n->cx, TD_E_GRAD, "backward of %s failed", n->name);
    for (int i = 0; i < n->n_in; i++) {
        if (!f->need[i] || n->in[i].kind != TD_K_TENSOR) continue;
        if (!rule && n->info->term[i].f)
            f->grad[i] = td__formula_eval(n->info->term[i].f, &f->v);
        grads[f->edge[i]] = f->grad[i];
    }
    return td_ok(n->cx); /* any error is this node's: the walk began without one */
}

/* A derivative that is zero: zeros, made from the incoming gradient so that in
 * a trace they belong to the backward part. */
static bool zero_grads(td_node *n, td_tensor *const *g, const bool *need,
                       td_tensor **grads) {
    if (n->flags & TD_NF_NONE)
        return td__fail(n->cx, TD_E_GRAD,
                        "backward reaches %s, which has no derivative; detach its "
                        "argument, or call it under no_grad",
                        n->name);
    for (int i = 0; i < n->n_edge; i++) {
        if (!need[i]) continue;
        const td_geom *t = &n->in_type[i];
        td_tensor     *from = g && n->n_out > 0 ? g[0] : NULL;
        grads[i] = from ? td_op_new_zeros(from, td__geom_sizes(t), (td_dtype)t->dtype)
                        : td__zeros_on(n->cx, t->device, td__geom_sizes(t),
                                       (td_dtype)t->dtype);
        if (td_is_nil(grads[i])) return false;
    }
    return true;
}

/* The C rule of the row, or of its functional twin; NULL: formulas. */
static td_vjp_fn *rule_of(const td_node *n) {
    const td_opdef *def = n->def;
    if (def->vjp && def->vjp[0] == '@') def = td__row(n->info->pure);
    return def->vjp_fn;
}

/* The gradient of a captured branch, loop or region that is recorded repeats its ops.
 * So no gradient of it passes the results of the node, and hooks on them do not run. */
static bool note_repeated(td_node *n) {
    if (!n->cx->fake || !td__recording(n->cx)) return true;
    n->flags |= TD_NF_REPEATED;
    return !n->hooks ||
           td__fail(n->cx, TD_E_UNSUPPORTED,
                    "td_on_grad: unsupported in a captured body: a hook is on a result "
                    "of a branch, loop or region (%s), and its gradient is computed "
                    "with create_graph; a gradient of that gradient repeats its ops, "
                    "and would not run the hook. Call the ops without td_cond, "
                    "td_while or td_call_region",
                    n->name);
}

/* td_node_kind.apply of recorded ops. */
static bool op_apply(td_node *n, td_tensor *const *g, const bool *need,
                     td_tensor **grads) {
    if (n->flags & TD_NF_ZERO) return zero_grads(n, g, need, grads);
    frame         f;
    td_arena     *walks = &td__eager(n->cx)->walks;
    td_arena_mark mark = td__arena_mark(walks);
    f.one_out = NULL;
    f.v = (td_vjp){.cx = n->cx,
                   .def = n->def,
                   .info = n->info,
                   .in = f.in,
                   .in_meta = f.in_meta,
                   .g = g,
                   .n_out = n->n_out,
                   .need = f.need,
                   .grad = f.grad,
                   .list_grad = f.list_grad,
                   .list_need = f.list_need,
                   .list_meta = f.list_meta};
    if (TD_UNLIKELY(n->def->flags & TD_OPF_NESTS) && !note_repeated(n)) return false;
    uint8_t device = td__make_on(n->cx, n->n_out ? n->out_type[0].device : 0);
    bool    conj = TD_UNLIKELY(n->cx->special) && conjugates(n);
    bool    ok = set_args(&f, n, need, grads) && set_results(&f, n) &&
              (!conj || conjugate_incoming(&f, n)) &&
              run_rule(&f, n, any_needed(n, need) ? rule_of(n) : NULL, grads) &&
              (!conj || conjugate_all(grads, n->n_edge));
    td__make_on(n->cx, device);
    td__arena_reset(walks, mark);
    return ok;
}

/* Graphs among the arguments are referenced by the node. */
static void op_destroy(td_node *n) {
    for (int i = 0; n->def->flags & TD_OPF_NESTS && i < n->n_in; i++)
        if (n->in[i].kind == TD_K_GRAPH) td__graph_drop(n->in[i].u.g);
}

/* A branch or loop that was captured is one node; eager's ops connect its results to
 * the operands they read alone. Where no gradient came, eager has no edge. (A region
 * has edges to the operands that all of its results are computed from.) */
static bool is_apart(const td_node *n, int i) {
    (void)i;
    return n->def == td__row(TD_OP_cond) || n->def == td__row(TD_OP_cond_forward) ||
           n->def == td__row(TD_OP_while_loop);
}

/* Eager runs a custom function in a region without gradients, too. */
static bool is_hungry(const td_node *n) {
    return n->def == td__row(TD_OP_call_forward) &&
           td__graph_flags(n->in[TD_CALL_BODY].u.g, TD_OPF_CUTS);
}

/* The op and its numbers. An op with graphs among its arguments exists once for each
 * call, so nothing tells that two of them are the same. */
static const char *op_describe(const td_node *n, td_history *h) {
    if (n->def->flags & TD_OPF_NESTS) return "an op with graphs among its arguments";
    td__history_put(h, (int64_t)(uintptr_t)n->def);
    for (int i = 0; i < n->n_in; i++) td__history_number(h, &n->in[i]);
    return NULL;
}

const td_node_kind td__op_kind = {.name = "op",
                                  .describe = op_describe,
                                  .apart = is_apart,
                                  .hungry = is_hungry,
                                  .apply = op_apply,
                                  .destroy = op_destroy};
