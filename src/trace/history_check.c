/* history_check.c -- whether the autograd graph of one outside tensor passes through
 * another. The fake copies of two tensors have separate histories, so td_grad
 * in a body does not see a path that leads from one argument through operations
 * outside of the body to another. A td_grad whose gradient reaches the first is
 * refused. */
#include "trace/trace_int.h"

#include "eager/node.h"

#include <stdio.h>

/* A depth-first search over autograd nodes, without recursion. */
typedef struct search {
    td_ptrmap seen;         /* nodes visited */
    TD_VEC(td_node *) open; /* nodes whose edges are to be followed */
} search;

/* Is edge e the edge `to`, or a result of the same compiled call that was
 * computed from `to`? */
static bool is_same_edge(td_edge e, td_edge to) {
    if (e.node != to.node) return false;
    return e.nr == to.nr || (to.node->kind->passes && /* a compiled call */
                             to.node->kind->passes(to.node, e.nr, to.nr));
}

/* Is `to` reachable from `from`? 1, 0, or -1: out of memory. `to` without a node:
 * visits all there is and marks the leaves (td__grad_reach). */
static int leads_to(td_edge from, td_edge to) {
    search s = {0};
    int    found = td__vec_push(&s.open, from.node) ? 0 : -1;
    if (from.node == to.node) found = is_same_edge(from, to);
    while (found == 0 && s.open.n) {
        td_node *n = s.open.v[--s.open.n];
        if (!to.node && n->kind == &td__accumulate_kind) td__grad_reach(n->data);
        for (int i = 0; found == 0 && i < n->n_edge; i++) {
            td_edge e = n->edge[i];
            if (to.node && is_same_edge(e, to)) found = 1;
            else if (e.node && !td__ptrmap_get(&s.seen, e.node) &&
                     (!td__ptrmap_put(&s.seen, e.node, e.node) ||
                      !td__vec_push(&s.open, e.node)))
                found = -1;
        }
    }
    td__ptrmap_free(&s.seen);
    td__vec_free(&s.open);
    return found;
}

/* The edge of t (its grad_fn and result number); an empty edge where eager
 * refuses to give it. */
static td_edge edge_of(td_tensor *t) {
    td_edge e = {0};
    bool    ok = td__needs_grad(t) && td__edge_of(t, &e);
    if (!ok && td__error(t->cx) != TD_E_MEMORY) td_clear(t->cx);
    return e;
}

/* leads_to for the edges of two tensors; -1 after td__fail. */
static int passes(td_tensor *from, td_tensor *to) {
    td_edge a = edge_of(from), b = edge_of(to);
    int     found = a.node && b.node ? leads_to(a, b) : 0;
    if (a.node) td__node_drop(a.node);
    if (b.node) td__node_drop(b.node);
    if (found < 0) td__fail_memory(from->cx);
    return td_ok(from->cx) ? found : -1;
}

/* Marks the leaves that gradients of t reach. */
static bool mark_reached(td_tensor *t) {
    td_edge e = edge_of(t);
    int     found = e.node ? leads_to(e, (td_edge){0}) : 0;
    if (e.node) td__node_drop(e.node);
    return (found == 0 || td__fail_memory(t->cx)) && td_ok(t->cx);
}

int td__history_passes(td_tensor *from, td_tensor *to) {
    if (from == to || from->base == to || td__is_leaf(from)) return 0;
    return passes(from, to);
}

/* ---- while a body is captured ------------------------------------------- */

td_tensor *td__record_real(const td_record *r, td_tensor *t) {
    const td_faker *f = r->close.fakes;
    for (int i = 0; f && i + 1 < f->pairs.n; i += 2)
        if (f->pairs.v[i] == t) return f->pairs.v[i + 1];
    return t;
}

/* The name of the tensor at pairs[i] in messages: that in its module, or "input x0". */
static const char *name_of(const td_record *r, int i, char out[80]) {
    td_tensor   **held = r->fakes.pairs.v;
    const td_tag *tag = td__record_tag(r, held[i]);
    const char   *name =
        r->close.name ? r->close.name(r->close.env, td__record_real(r, held[i + 1]))
                        : NULL;
    if (name) snprintf(out, 80, "%.79s", name);
    else snprintf(out, 80, "input %.60s", tag && tag->v->name ? tag->v->name : "");
    return out;
}

/* td_grad in the body computes the gradient of a tensor: the pair at pairs[to]. Fails
 * if it has gradient hooks, which would not run, or if another input's history passes
 * through it, because that path would be missing from the gradient. */
static bool check_wanted(td_record *r, int to) {
    td_tensor **held = r->fakes.pairs.v;
    td_tensor  *wanted = td__record_real(r, held[to + 1]);
    char        one[80], other[80];
    if (td__grad_hooked(wanted, false))
        return td__fail(
            r->cx, TD_E_UNSUPPORTED,
            "td_grad in the body computes the gradient of a tensor with "
            "gradient hooks (td_on_grad, td_retain_grad); a captured "
            "program does not run them. Remove them with td_hook_remove, or "
            "pass td_alias of the tensor and do their work in the body");
    td_node *fn = NULL;
    if (td__has_node(wanted) && !td__fn_of(wanted, &fn)) return false;
    if (!td__grad_arrives(wanted, fn, "td_grad in the body")) return false;
    for (int i = 0; i + 1 < r->fakes.pairs.n; i += 2) {
        const td_tag *tag = td__record_tag(r, held[i]);
        if (!tag || i == to || !td__fake_reached(&r->fakes, held[i], held[i + 1]))
            continue;
        int outside = td__history_passes(td__record_real(r, held[i + 1]), wanted);
        if (outside < 0) return false;
        if (outside)
            return td__fail(r->cx, TD_E_UNSUPPORTED,
                            "td_grad in the body computes the gradient of %s, from "
                            "which %s was computed outside of the body; pass td_detach "
                            "of %s, or compute it in the body",
                            name_of(r, to, one), name_of(r, i, other), other);
    }
    return td_ok(r->cx);
}

/* Lists the input in td_graph.wanted, so that later calls repeat the check. A
 * nested body passes the question on to the enclosing capture. */
static bool note_wanted(td_record *r, td_tensor *copy, td_tensor *real) {
    const td_tag *tag = td__record_tag(r, copy);
    if (r->lift) td__grad_want(real);
    if (r->lift || !tag || !tag->v || tag->v->node) return true;
    return td__vec_push(&r->g->noted[TD_NOTED_WANTED], tag->v->nr) ||
           td__fail_memory(r->cx);
}

/* Lists the inputs that gradients of a td_grad reach in td_graph.noted. A nested body
 * marks their history in the enclosing capture. */
static bool note_reached(td_record *r) {
    for (int i = 0; i + 1 < r->fakes.pairs.n; i += 2) {
        td_tensor    *copy = r->fakes.pairs.v[i], *real = r->fakes.pairs.v[i + 1];
        const td_tag *tag = td__record_tag(r, copy);
        if (!td__needs_grad(real) || !td__fake_reached(&r->fakes, copy, real)) continue;
        if (r->lift && !mark_reached(real)) return false;
        if (r->lift || !tag || !tag->v || tag->v->node) continue;
        if (!td__vec_push(&r->g->noted[TD_NOTED_REACHED], tag->v->nr))
            return td__fail_memory(r->cx);
    }
    return td_ok(r->cx);
}

/* td_grad inside a body is refused if eager's gradient would pass through history
 * outside of it; otherwise the wanted arguments are noted in the program. */
bool td__history_check(td_record *r) {
    bool any = false;
    for (int i = 0; i + 1 < r->fakes.pairs.n; i += 2) {
        td_tensor *copy = r->fakes.pairs.v[i], *real = r->fakes.pairs.v[i + 1];
        if (!(td__grad_use(copy) & TD_GRAD_WANTED)) continue;
        if (r->lift) r->lift->grads = true;
        if (!check_wanted(r, i) || !note_wanted(r, copy, real)) return false;
        any = true;
    }
    return !any || note_reached(r);
}
