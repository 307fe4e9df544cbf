/* record_parts.c -- the parts of a recorded call. The recorder writes a composite op,
 * or a write, as one node. Two more modes see what happens inside: `inside`,
 * between recorder and tape, receives the parts of composites; `mark`, below
 * the tape, receives the copies that the tape takes of values about to be
 * overwritten, and tags results before the tape saves aliases of them.
 *
 * The nodes of parts are kept beside the graph. Most are dropped: nothing reads
 * their values. If td_grad in the body reads a value that only a part has, the
 * parts replace the recorded call when the capture ends. */
#include "trace/trace_int.h"

/* ---- recording parts ---------------------------------------------------- */

/* Does t have a value in the graph or among the parts? */
static bool is_known(const td_record *r, const td_tensor *t) {
    const td_tag *tag = td__record_tag(r, t);
    return tag && tag->v;
}

/* Can this inner call become a node? Only if all its tensor arguments have
 * values and the grad mode is the graph's; calls that autograd makes for itself
 * run under no_grad and are not parts. */
static bool is_part(const td_record *r, const td_opcall *c) {
    const td_ctx *cx = r->cx;
    if (!r->current || cx->grad_enabled != r->grad || cx->inference != r->inference)
        return false;
    for (int i = 0; i < c->n_in; i++) {
        td_value v = c->in[i];
        if (v.kind == TD_K_TENSOR && !is_known(r, v.u.t)) return false;
        for (uint32_t k = 0; v.kind == TD_K_TENSORS && k < v.n; k++)
            if (v.u.ts[k] && !is_known(r, v.u.ts[k])) return false;
    }
    return true;
}

/* Runs an inner call and keeps its node in r->parts. */
static bool record_part(td_record *r, td_mode *m, td_opcall *c) {
    td_value in[TD_MAX_ARGS];
    td_garg  args[TD_MAX_ARGS];
    for (int i = 0; i < c->n_in; i++) {
        if (!td__record_arg(r, &c->in[i], &args[i], c->info->s.name)) return false;
        in[i] = c->in[i];
    }
    if (!td__record_graphs(r, c, args)) return false;
    td_opcall *outer = r->part;
    r->part = c;
    bool ok = td__call_below(m, c);
    r->part = outer;
    if (!ok) return false;
    td_gnode *n = td__graph_op(r->g, c->info->op, args, c->n_in, c->n_out);
    if (!n) return false;
    r->g->nodes.n--; /* kept beside the graph until it is needed */
    if (!td__record_place(r, n)) return false;
    if (!td__vec_push(&r->parts, n)) return td__fail_memory(r->cx);
    return td__record_results(r, c, in, n, r->expansions.n);
}

/* detach_ is about to remove y's grad_fn. Aliases of y that the tape saved for
 * derivatives, or as the base of a write through a view, keep theirs; so they
 * get a value of their own: an alias node before the detach_. */
static bool separate_aliases(td_record *r, const td_tensor *y) {
    td_tag *tag = td__record_tag(r, y), *own = NULL;
    if (!tag || !tag->v || !td__needs_grad(y)) return true;
    for (td_tensor *t = r->cx->all; t; t = t->next) {
        if (t == y || t->payload != tag) continue;
        if (!own) {
            td_garg   in = td__garg_value(tag->v);
            td_gnode *n = td__graph_op(r->g, TD_OP_alias, &in, 1, 1);
            if (!n) return false;
            r->g->nodes.n--; /* beside the graph, as parts are */
            n->out[0]->type = tag->type;
            if (!td__record_place(r, n) || !(own = td__record_new_tag(r, t)))
                return false;
            if (!td__vec_push(&r->parts, n)) return td__fail_memory(r->cx);
            *own = *tag;
            own->v = n->out[0];
            own->hidden = r->expansions.n;
        }
        t->payload = own;
    }
    return true;
}

/* td_mode.call of `inside`. Passes r->current through; all other calls are parts of
 * it. */
static bool inside_call(td_mode *m, td_opcall *c) {
    td_record *r = (td_record *)(void *)((char *)m - offsetof(td_record, inside));
    if (c == r->current && c->info->op == TD_OP_detach_) {
        if (!separate_aliases(r, td__in(c, 0))) return false;
        r->expansion.main = r->parts.n - r->expansion.first;
    }
    if (c == r->current || !is_part(r, c)) return td__call_below(m, c);
    return record_part(r, m, c);
}

/* The tape clones a value before it is overwritten. The clone requires grad if
 * its source does, but the tape sets that only after this call. */
static bool record_copy(td_record *r, td_opcall *c) {
    if (!record_part(r, &r->mark, c)) return false;
    if (!td__recording(r->cx) || !td__needs_grad(td__in(c, 0))) return true;
    td_gval *v = r->parts.v[r->parts.n - 1]->out[0];
    td_gtype l = *v->type;
    l.grad = true;
    return (v->type = td__graph_type_of(r->g, l)) != NULL;
}

/* Is the current call one of an op with nested graphs (custom)? Its results are
 * made by the ops inside. */
static bool in_function(const td_record *r) {
    return r->current && r->current->def->flags & TD_OPF_NESTS;
}

/* td_mode.call of `mark`. Calls the recorder knows of (the current one and its
 * parts) get tags on their results; a clone it does not know of is the tape's
 * copy. */
static bool mark_call(td_mode *m, td_opcall *c) {
    td_record *r = (td_record *)(void *)((char *)m - offsetof(td_record, mark));
    bool       asked = c == r->current || c == r->part || in_function(r);
    if (!asked && c->info->op == TD_OP_clone && is_part(r, c)) return record_copy(r, c);
    if (!td__call_below(m, c)) return false;
    if (c == r->current) r->expansion.main = r->parts.n - r->expansion.first;
    for (int i = 0; i < c->n_out && asked; i++)
        if (!td__record_tag(r, c->out[i]) && !td__record_new_tag(r, c->out[i]))
            return false;
    return true;
}

void td__parts_init(td_record *r) {
    r->inside = (td_mode){.name = "inside", .call = inside_call};
    r->mark = (td_mode){.name = "mark", .call = mark_call};
}

/* ---- around one recorded call ------------------------------------------- */

void td__parts_begin(td_record *r, td_opcall *c) {
    r->current = c;
    r->expansion = (td_expansion){.first = r->parts.n, .main = -1};
}

bool td__parts_end(td_record *r, td_gnode *top) {
    td_expansion w = r->expansion;
    r->current = NULL;
    w.n = r->parts.n - w.first;
    w.top = top;
    if (w.n == 0) return true;
    return td__vec_push(&r->expansions, w) || td__fail_memory(r->cx);
}

td_tag *td__parts_adopt(td_record *r, td_tag *tag, td_gnode *n, int i) {
    td_expansion *w = &r->expansion;
    if (!w->instead)
        w->instead =
            td__arena_zalloc(&r->g->arena, sizeof *w->instead * (size_t)n->n_out);
    if (!w->instead) return td__fail_memory(r->cx), NULL;
    w->instead[i] = tag->v;
    tag->v = n->out[i];
    return tag;
}

bool td__parts_request(td_record *r, const td_tag *tag) {
    if (tag->hidden < 0 || tag->hidden >= r->expansions.n) return true;
    td_expansion *w = &r->expansions.v[tag->hidden];
    w->wanted = true;
    return w->top != NULL;
}

/* ---- at the end --------------------------------------------------------- */

typedef TD_VEC(td_gnode *) node_list;

/* Appends the parts of w, with the node of w between them unless it is a
 * composite. */
static bool push_parts(td_record *r, const td_expansion *w, node_list *to) {
    for (int k = 0; k <= w->n; k++) {
        if (k == w->main && !td__vec_push(to, w->top)) return false;
        if (k < w->n && !td__vec_push(to, r->parts.v[w->first + k])) return false;
    }
    return true;
}

/* Maps a value to its replacement, for td__garg_map. */
static td_gval *replace(void *env, td_gval *v) {
    td_gval *const *instead = env;
    return instead[v->id] ? instead[v->id] : v;
}

/* Makes nodes and outputs read the parts' values instead of the results of
 * composites that were replaced. */
static bool redirect(td_record *r) {
    td_graph *g = r->g;
    td_gval **instead = td__zalloc(sizeof *instead * ((size_t)g->n_values + 1));
    if (!instead) return td__fail_memory(r->cx);
    for (int i = 0; i < r->expansions.n; i++) {
        const td_expansion *w = &r->expansions.v[i];
        for (int k = 0; w->wanted && w->instead && k < w->top->n_out; k++)
            instead[w->top->out[k]->id] = w->instead[k];
    }
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_in; k++)
            td__garg_map(&g->nodes.v[i]->in[k], replace, instead);
    for (int i = 0; i < g->outputs.n; i++)
        td__garg_map(&g->outputs.v[i], replace, instead);
    td__free(instead);
    return true;
}

/* Rebuilds the node list with requested parts in it. r->expansions is in node
 * order. */
static bool expand(td_record *r) {
    td_graph *g = r->g;
    node_list list = {0};
    bool      ok = true;
    for (int i = 0, k = 0; i < g->nodes.n && ok; i++) {
        td_gnode *n = g->nodes.v[i];
        while (k < r->expansions.n && !r->expansions.v[k].top) k++;
        bool whole = k < r->expansions.n && r->expansions.v[k].top == n;
        ok = whole && r->expansions.v[k].wanted
                 ? push_parts(r, &r->expansions.v[k], &list)
                 : td__vec_push(&list, n);
        k += whole;
    }
    if (!ok) return td__vec_free(&list), td__fail_memory(r->cx);
    td__free(g->nodes.v);
    g->nodes.v = list.v;
    g->nodes.n = list.n;
    g->nodes.cap = list.cap;
    return redirect(r);
}

bool td__parts_splice(td_record *r) {
    bool any = false;
    for (int i = 0; i < r->expansions.n; i++) any |= r->expansions.v[i].wanted;
    if (any && !expand(r)) return false;
    if (r->expansions.n || r->removed) td__graph_pack(r->g);
    return true;
}
