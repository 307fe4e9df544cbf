/* history.c -- where the histories of two tensors of the outside meet. Copies of them
 * have histories of their own: td_grad in a body does not find the way that leads from
 * one through operations of the outside to the other. */
#include "trace/trace_int.h"

#include "eager/node.h"

typedef struct search {
    td_ptrmap seen; /* nodes */
    TD_VEC(td_node *) open;
} search;

/* Is e the place `to`, or a result that was computed from it in one node? */
static bool is_at(td_edge e, td_edge to) {
    if (e.node != to.node) return false;
    return e.nr == to.nr || (to.node->kind->passes && /* a compiled call */
                             to.node->kind->passes(to.node, e.nr, to.nr));
}

/* Does a gradient of `from` flow through result to.nr of to.node? -1: no memory. */
static int leads_to(td_edge from, td_edge to) {
    search s = {0};
    int    found = td__vec_push(&s.open, from.node) ? 0 : -1;
    if (from.node == to.node) found = is_at(from, to);
    while (found == 0 && s.open.n) {
        td_node *n = s.open.v[--s.open.n];
        for (int i = 0; found == 0 && i < n->n_edge; i++) {
            td_edge e = n->edge[i];
            if (is_at(e, to)) found = 1;
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

/* The place of t in the history; none where eager refuses to tell it. */
static td_edge place_of(td_tensor *t) {
    td_edge e = {0};
    bool    ok = td__needs_grad(t) && td__edge_of(t, &e);
    if (!ok && td_error(t->cx) != TD_E_MEMORY) td_clear(t->cx);
    return e;
}

/* The same for tensors; -1 after td__fail. */
static int passes(td_tensor *from, td_tensor *to) {
    td_edge a = place_of(from), b = place_of(to);
    int     found = a.node && b.node ? leads_to(a, b) : 0;
    if (a.node) td__node_drop(a.node);
    if (b.node) td__node_drop(b.node);
    if (found < 0) td__fail_memory(from->cx);
    return td_ok(from->cx) ? found : -1;
}

int td__history_passes(td_tensor *from, td_tensor *to) {
    if (from == to || from->base == to || td__is_leaf(from)) return 0;
    return passes(from, to);
}

/* ---- while a body is captured ------------------------------------------- */

td_tensor *td__record_real(const td_record *r, td_tensor *t) {
    const td_faker *f = r->close.fakes;
    for (int i = 0; f && i + 1 < f->held.n; i += 2)
        if (f->held.v[i] == t) return f->held.v[i + 1];
    return t;
}

/* td_grad asked for the gradient of one, the pair at `to`. */
static bool check_wanted(td_record *r, int to) {
    td_tensor **held = r->fakes.held.v;
    td_tensor  *wanted = td__record_real(r, held[to + 1]);
    if (td__grad_hooked(wanted, false))
        return td__fail(r->cx, TD_E_UNSUPPORTED,
                        "td_grad in the body asks for the gradient of a tensor with "
                        "gradient hooks (td_on_grad, td_retain_grad), which a program "
                        "cannot run; td_hook_remove them, or pass a td_alias of the "
                        "tensor and do in the body what they do");
    td_node *fn = NULL;
    if (td__has_node(wanted) && !td__fn_of(wanted, &fn)) return false;
    if (!td__grad_arrives(wanted, fn, "td_grad in the body")) return false;
    for (int i = 0; i + 1 < r->fakes.held.n; i += 2) {
        const td_tag *tag = td__record_tag(r, held[i]);
        if (!tag || i == to) continue;
        int outside = td__history_passes(td__record_real(r, held[i + 1]), wanted);
        if (outside < 0) return false;
        if (outside)
            return td__fail(r->cx, TD_E_UNSUPPORTED,
                            "td_grad in the body asks for the gradient of a tensor "
                            "that the history of another (input %s) passes through; "
                            "pass td_detach of that one, or compute it in the body",
                            tag->v->name ? tag->v->name : "");
    }
    return td_ok(r->cx);
}

/* A nested body asks on behalf of the one around it. */
static bool note_wanted(td_record *r, td_tensor *copy, td_tensor *real) {
    const td_tag *tag = td__record_tag(r, copy);
    if (r->lift) td__grad_want(real);
    if (r->lift || !tag || !tag->v || tag->v->node) return true;
    return td__vec_push(&r->g->wanted, tag->v->nr) || td__fail_memory(r->cx);
}

bool td__history_check(td_record *r) {
    for (int i = 0; i + 1 < r->fakes.held.n; i += 2) {
        td_tensor *copy = r->fakes.held.v[i], *real = r->fakes.held.v[i + 1];
        if (!(td__grad_use(copy) & TD_GRAD_WANTED)) continue;
        if (!check_wanted(r, i) || !note_wanted(r, copy, real)) return false;
    }
    return true;
}
