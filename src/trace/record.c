/* record.c -- the recorder: the mode that writes a graph. It stands above the
 * tape, receives each op call (a composite op as one call), runs it on fake
 * tensors through the modes below, and adds a node with the call's arguments
 * and results.
 *
 * A tensor is recognized by the tag in its payload. Tags live in the graph's
 * arena and tensors drop them when freed, so the recorder holds nothing for
 * tensors that the body has released.
 *
 * Grad-mode changes are not calls; before each call the recorder compares the
 * context's grad mode with the graph's and opens or closes a region (no_grad {
 * }). */
#include "trace/trace_int.h"

#include <stdio.h>

/* ---- grad-mode regions -------------------------------------------------- */

/* Opens a region in the graph; grad and inference are the modes inside. */
static bool enter(td_record *r, td_gregion region, bool grad, bool inference) {
    td_open_region was = {r->grad, r->inference};
    if (!td__vec_push(&r->open, was)) return td__fail_memory(r->cx);
    r->grad = grad;
    r->inference = inference;
    return td__graph_enter(r->g, region);
}

static bool leave(td_record *r) {
    td_open_region was = r->open.v[--r->open.n];
    r->grad = was.grad;
    r->inference = was.inference;
    return td__graph_leave(r->g);
}

/* Brings the end of the graph to the given grad and inference mode: leaves the
 * innermost region if that restores them, otherwise opens one or two regions. */
static bool change_mode(td_record *r, bool grad, bool inference) {
    if (r->grad == grad && r->inference == inference) return true;
    if (r->open.n) {
        td_open_region was = r->open.v[r->open.n - 1];
        if (was.grad == grad && was.inference == inference) return leave(r);
    }
    if (r->inference != inference &&
        !enter(r, inference ? TD_R_INFERENCE : TD_R_PLAIN, !inference, inference))
        return false;
    if (r->grad == grad) return true;
    return enter(r, grad ? TD_R_ENABLE_GRAD : TD_R_NO_GRAD, grad, inference);
}

/* Before each call: the graph's mode follows the context's. */
static bool follow_mode(td_record *r) {
    return change_mode(r, r->cx->grad_enabled, r->cx->inference);
}

/* Closes open regions. A body that returns with another grad mode than it began with
 * leaves that mode set (g->left); both modes at once cannot be expressed. */
bool td__record_finish(td_record *r) {
    bool grad = r->cx->grad_enabled, inference = r->cx->inference;
    while (r->open.n)
        if (!leave(r)) return false;
    if (!td__parts_splice(r)) return false;
    if (r->grad == grad && r->inference == inference) return true;
    if (grad && inference)
        return td__fail(r->cx, TD_E_TRACE,
                        "the body returns with grad mode and inference mode both "
                        "switched on; end the region it began before td_return");
    r->g->left = (uint8_t)(1 + (r->inference == inference
                                    ? (grad ? TD_R_ENABLE_GRAD : TD_R_NO_GRAD)
                                : inference ? TD_R_INFERENCE
                                            : TD_R_PLAIN));
    return true;
}

bool td__record_fail(td_record *r, const char *who, const char *what) {
    return td__fail(r->cx, TD_E_TRACE, "%s: %s", who, what);
}

/* ---- calls ----------------------------------------------------------- */

static const char *const rels[] = {"==", "!=", "<", ">="};

/* When a running program can know a data-dependent size: before the call, after it
 * (the size of one of its results), or never (the size of a value inside a composite,
 * which checks it itself). The order of the constants matters to later(). */
typedef enum known { KNOWN_BEFORE, KNOWN_AFTER, KNOWN_NEVER } known;
/* Symbols from number `first` on were created by call c. */
typedef struct new_symbols {
    const td_opcall *c;
    int              first;
} new_symbols;

/* Is `size` the size of a result of the call? */
static bool is_result_size(const td_opcall *c, int64_t size) {
    for (int i = 0; i < c->n_out; i++)
        for (int d = 0; d < c->out[i]->rank; d++)
            if (c->out[i]->size[d] == size) return true;
    return false;
}

static known later(known a, known b) { return a > b ? a : b; }

/* The latest moment at which all symbols of an expression are known. */
static known when_known(const td_symenv *e, int64_t dim, const new_symbols *b) {
    const td_symexpr *x = td__sym_at(e, dim);
    known             w = KNOWN_BEFORE;
    if (!x) return w;
    if (x->kind == TD_SYM_SYMBOL)
        return x->nr < b->first            ? w
               : is_result_size(b->c, dim) ? KNOWN_AFTER
                                           : KNOWN_NEVER;
    if (x->kind != TD_SYM_SUM)
        return later(when_known(e, x->a, b), when_known(e, x->b, b));
    for (int i = 0; i < x->nr; i++)
        for (int k = 0; k < x->term[i].n; k++)
            w = later(w, when_known(e, td__sym_tag(x->term[i].atom[k]), b));
    return w;
}

/* Adds the node expect(a, rel, b, true), which fails at run time if a rel b is
 * false. */
static bool record_assert(td_record *r, const td_guard *g) {
    td_garg in[4] = {td__record_int(r, g->a),
                     {TD_G_STR, 0, {0}},
                     td__record_int(r, g->b),
                     {TD_G_BOOL, 0, {0}}};
    in[1].u.s = rels[g->rel];
    in[3].u.i = true;
    td_gnode *n = td__graph_op(r->g, TD_OP_expect, in, 4, 0);
    return n && td__record_place(r, n);
}

/* Adds asserts for the run-time guards that arose since the last call and can
 * be checked at moment `when`: right before the call, or right after it for
 * sizes of its own results. b NULL: all of them. */
static bool record_asserts(td_record *r, const new_symbols *b, known when) {
    td_symenv *e = r->sym;
    for (int i = r->guards; e && i < e->guards.n; i++) {
        td_guard g = e->guards.v[i];
        if (!g.runtime) continue;
        known w = b ? later(when_known(e, g.a, b), when_known(e, g.b, b)) : when;
        if (w == when && !record_assert(r, &g)) return false;
    }
    return true;
}

bool td__record_asserts(td_record *r) {
    bool ok = record_asserts(r, NULL, KNOWN_BEFORE);
    if (r->sym) r->guards = r->sym->guards.n;
    return ok;
}

/* td_mode.call of the recorder. If the call fails with symbolic sizes and the
 * trace may specialize, all sizes become numbers and the call is repeated once. */
static bool record_call(td_mode *m, td_opcall *c) {
    td_record  *r = (td_record *)m;
    const char *who = c->info->s.name;
    td_value    in[TD_MAX_ARGS];
    td_garg     args[TD_MAX_ARGS];
    bool        draws = td__op_draws(c->info->op);
    if (!follow_mode(r)) return false;
    for (int i = 0; i < c->n_in; i++) {
        if (!td__record_arg(r, &c->in[i], &args[i], who)) return false;
        in[i] = c->in[i];
    }
    if (!td__record_graphs(r, c, args)) return false;
    td__parts_begin(r, c);
    const char *outer = td__symenv_op(who);
    new_symbols b = {c, r->sym ? r->sym->symbols.n : 0};
    bool        ok = td__call_below(m, c);
    if (!ok && td__record_fix_call(r, c, in)) {
        r->parts.n = r->expansion.first;
        td__parts_begin(r, c);
        ok = td__call_below(m, c);
    }
    if (r->sym && c->info->op == TD_OP_expect) r->guards = r->sym->guards.n;
    ok = ok && record_asserts(r, &b, KNOWN_BEFORE);
    td__symenv_op_end(outer);
    td_gnode *n = ok ? td__graph_op(r->g, c->info->op, args, c->n_in, c->n_out) : NULL;
    ok = n && td__record_place(r, n) && td__record_results(r, c, in, n, -1) &&
         record_asserts(r, &b, KNOWN_AFTER);
    if (TD_UNLIKELY(c->info->op == TD_OP__wrap) && ok && r->outside && !r->cx->handling)
        td__record_wrapped(r, c, in);
    if (r->sym) r->guards = r->sym->guards.n;
    if (draws && ok) r->cx->rng_offset = ++r->offset;
    return td__parts_end(r, ok ? n : NULL) && ok;
}

/* ---- beginning and end -------------------------------------------------- */

/* Begins recording into g. Sizes are translated into expressions of g if a symbol
 * environment is active. Scopes opened by the body name its nodes. */
void td__record_begin(td_record *r, td_graph *g) {
    td_ctx *cx = g->cx;
    *r = (td_record){.mode = {.name = "record",
                              .call = record_call,
                              .composites = true,
                              .function = td__record_function,
                              .hook = td__record_hook,
                              .stand_in = td__record_stand_in,
                              .cast = td__record_cast},
                     .cx = cx,
                     .g = g,
                     .fakes = {.cx = cx},
                     .start_grad = cx->grad_enabled,
                     .start_inference = cx->inference,
                     .grad = cx->grad_enabled,
                     .inference = cx->inference,
                     .offset = cx->rng_offset,
                     .first_scope = cx->scopes.n};
    td__parts_init(r);
    r->sym = td__symenv_current();
    if (!r->sym) return;
    g->dim_in = td__sym_to_graph;
    g->dim_env = r->sym;
    r->guards = r->sym->guards.n;
}

/* Removes the tag. A tensor that the body kept can be used only inside it: this is
 * reported now, and later uses name its origin. A tensor kept in a nested body may be
 * used by the enclosing one. */
static void untag(td_record *r, td_tensor *t) {
    char              text[300];
    const td_payload *of = t->kept > 0 ? td__tensor_keep_origin(t) : NULL;
    t->payload = (void *)(uintptr_t)of;
    if (!of || !of->op || r->lift || !td_ok(r->cx)) return;
    td__origin_text(of, text, sizeof text);
    td__warn(
        r->cx,
        "the result of %s was kept (td_keep) beyond the capture; it has no elements "
        "there. Return it from the body with td_return",
        text);
}

/* Removes the recorder's tags from all tensors of the context: they may outlive the
 * recording. */
void td__record_end(td_record *r) {
    r->g->dim_in = NULL;
    r->g->dim_env = NULL;
    for (td_tensor *t = r->cx->all; t; t = t->next)
        if (td__record_tag(r, t)) untag(r, t);
    td__faker_end(&r->fakes);
    td__ptrmap_free(&r->closed);
    td__ptrmap_free(&r->own_grads);
    td__vec_free(&r->parts);
    td__vec_free(&r->expansions);
    td__vec_free(&r->hooks);
    td__vec_free(&r->open);
    td__buf_free(&r->path);
    td__regions_free(r);
}
