/* node.c -- nodes of the autograd graph, each with its arrays in one block; the
 * autograd state of tensors; edges. Nodes of common sizes are reused through
 * free lists of the context, because an op call makes one. */
#include "eager/eager_int.h"

#include <string.h>

/* ---- memory of nodes ---------------------------------------------------- */

/* A block for a node, from the free list of its size if there is one. */
static td_node *alloc_node(td_eager *e, size_t bytes) {
    size_t units = (bytes + 63) / 64;
    if (units < TD_NODE_CLASSES && e->pool[units]) {
        td_node *n = e->pool[units];
        e->pool[units] = n->next;
        return n;
    }
    td_node *n = td__alloc(units * 64);
    if (!n) return td__fail_memory(e->cx), NULL;
    n->units = (uint16_t)(units < TD_NODE_CLASSES ? units : 0);
    return n;
}

static void free_node(td_eager *e, td_node *n) {
    if (n->units == 0) {
        td__free(n);
        return;
    }
    n->next = e->pool[n->units];
    e->pool[n->units] = n;
}

/* Labels of the open scopes, "model/attn"; NULL: none, or out of memory. */
static char *scope_path(td_ctx *cx) {
    td_buf b = {0};
    for (int i = 0; i < cx->scopes.n; i++) {
        const char *label = cx->scopes.v[i].label;
        if (label) td__buf_printf(&b, b.n ? "/%s" : "%s", label);
    }
    return b.s;
}

/* One allocation for the node and all its lists, from a free list of common sizes.
 * *ints and *chars are the caller's part of it. Edges are zeroed, because a half filled
 * node may be dropped. */
td_node *td__node_make(td_ctx *cx, const td_node_kind *kind, const td_node_plan *p,
                       int64_t **ints, char **chars) {
    td_eager *e = td__eager(cx);
    size_t    edges = sizeof(td_edge) * (size_t)p->n_edge;
    size_t    notes = sizeof(td_geom) * (size_t)(p->n_edge + p->n_out);
    size_t    saved = sizeof(td_saved) * (size_t)p->n_saved;
    size_t    in = sizeof(td_value) * (size_t)p->n_in;
    size_t    bytes = sizeof(td_node) + edges + notes + saved + in +
                   sizeof(int64_t) * (size_t)p->n_ints + (size_t)p->n_chars;
    td_node *n = alloc_node(e, bytes);
    if (!n) return NULL;
    uint16_t units = n->units;
    *n = (td_node){.handle = TD_LIVE(NODE, cx),
                   .kind = kind,
                   .name = kind->name,
                   .refs = 1,
                   .units = units,
                   .seq = ++e->seq,
                   .here = td_here,
                   .stack = TD_UNLIKELY(cx->fake) ? td__stack_now(cx) : NULL,
                   .n_edge = p->n_edge,
                   .n_out = p->n_out,
                   .n_saved = p->n_saved,
                   .n_in = p->n_in};
    if (TD_UNLIKELY(cx->anomaly)) n->path = scope_path(cx);
    char *at = (char *)(n + 1);
    n->edge = (td_edge *)(void *)at;
    n->in_type = (td_geom *)(void *)(at += edges);
    n->out_type = n->in_type + p->n_edge;
    n->saved = (td_saved *)(void *)(at += notes);
    n->in = (td_value *)(void *)(at += saved);
    *ints = (int64_t *)(void *)(at += in);
    if (chars) *chars = at + sizeof(int64_t) * (size_t)p->n_ints;
    memset(n->edge, 0, edges); /* read even if the node is dropped half filled */
    return n;
}

void td__node_release(td_node *n) {
    n->flags |= TD_NF_FREED;
    if (n->kind->release) {
        n->kind->release(n);
        return;
    }
    for (int i = 0; i < n->n_saved; i++) td__saved_free(&n->saved[i]);
}

bool td__node_saves(const td_node *n) {
    if (n->kind == &td__slices_kind) n = td__slices_writer(n);
    for (int i = 0; i < n->n_saved; i++)
        if (!(n->saved[i].flags & TD_SV_SPARE)) return true; /* eager saves it, too */
    return false;
}

/* Frees a node whose last reference is gone. */
static void destroy_node(td_node *n) {
    if (n->kind == &td__accumulate_kind) {
        td_tensor *leaf = n->data;
        if (leaf->ag && leaf->ag->accum == n) leaf->ag->accum = NULL;
        td__unref(leaf);
    }
    td__node_release(n);
    if (n->kind->destroy) n->kind->destroy(n);
    if (n->hooks) td__hooks_free(n->cx, &n->hooks);
    for (int i = 0; i < n->n_edge; i++)
        if (n->edge[i].node) td__node_drop(n->edge[i].node);
    td__free(n->path);
    td__free(n->extra);
    TD_ENDED(n, NODE);
    free_node(td__eager(n->cx), n);
}

/* Freeing a node drops the nodes it references, and so on. Nodes queue in
 * e->dying, and tensors that are freed with them queue in td__unref, so the
 * stack depth does not depend on the length of the graph. */
void td__node_drop(td_node *n) {
    if (--n->refs > 0) return;
    td_eager *e = td__eager(n->cx);
    n->next = e->dying;
    e->dying = n;
    if (e->burying) return;
    e->burying = true;
    while (e->dying) {
        td_node *dead = e->dying;
        e->dying = dead->next;
        destroy_node(dead);
    }
    e->burying = false;
}

/* ---- recorded geometry -------------------------------------------------- */

void td__node_type(td_geom *to, const td_tensor *t, bool strided, int64_t **ints) {
    int64_t *d = *ints;
    *to = (td_geom){t->dtype,  t->rank, t->st->device,
                    t->offset, d,       strided ? d + t->rank : NULL};
    for (int i = 0; i < t->rank; i++) *d++ = t->size[i];
    for (int i = 0; strided && i < t->rank; i++) *d++ = t->stride[i];
    *ints = d;
}

bool td__node_outputs(td_node *n, td_tensor *const *out, int n_out, int64_t *dims,
                      int n_dims) {
    int ints = 0;
    for (int i = 0; i < n_out; i++) ints += out[i] ? out[i]->rank : 0;
    if (n_out > n->n_out || ints > n_dims) {
        size_t notes = sizeof(td_geom) * (size_t)n_out;
        char  *more = td__alloc(notes + sizeof(int64_t) * (size_t)ints);
        if (!more) return td__fail_memory(n->cx);
        n->extra = more;
        n->out_type = (td_geom *)(void *)more;
        dims = (int64_t *)(void *)(more + notes);
    }
    n->n_out = n_out;
    for (int i = 0; i < n_out; i++)
        if (out[i]) td__node_type(&n->out_type[i], out[i], false, &dims);
        else n->out_type[i] = (td_geom){0};
    return true;
}

/* ---- autograd state of tensors ------------------------------------------ */

td_autograd *td__state(td_tensor *t) {
    if (t->ag) return t->ag;
    td_eager    *e = td__eager(t->cx);
    td_autograd *s = e->states;
    if (s) e->states = s->next;
    else if (!(s = td__alloc(sizeof *s))) return td__fail_memory(t->cx), NULL;
    *s = (td_autograd){0};
    return t->ag = s;
}

void td__state_free(td_tensor *t) {
    td_eager    *e = td__eager(t->cx);
    td_autograd *s = t->ag;
    t->ag = NULL;
    t->flags &= (uint8_t)~TD_TF_NEEDS_GRAD;
    if (s->retains && s->fn) td__retain_move(t, s->fn, NULL, s->nr);
    if (s->hooks) td__hooks_free(t->cx, &s->hooks);
    if (s->grad) td__unref(s->grad);
    if (s->fn) td__node_drop(s->fn);
    if (s->borrows) td__node_drop(s->accum);
    s->next = e->states;
    e->states = s;
}

/* t becomes result nr of node n. Its retain_grad hook moves along, and its history is
 * current as of this version. */
bool td__set_history(td_tensor *t, td_node *n, int nr) {
    td_autograd *s = td__state(t);
    if (!s) return false;
    td_node *old = s->fn;
    if (s->retains && old && !td__retain_move(t, old, n, nr)) return false;
    s->fn = td__node_ref(n);
    s->nr = nr;
    t->flags |= TD_TF_NEEDS_GRAD;
    t->seen = td__version(t);
    if (old) td__node_drop(old);
    return true;
}

void td__clear_history(td_tensor *t) {
    td_autograd *s = t->ag;
    t->flags &= (uint8_t)~TD_TF_NEEDS_GRAD;
    if (!s) return;
    td_node *old = s->fn;
    if (s->retains && old) td__retain_move(t, old, NULL, s->nr);
    s->retains = s->wants = false;
    s->fn = NULL;
    s->nr = 0;
    if (old) td__node_drop(old);
}

td_node *td__last_node(const td_tensor *t) { return t->ag ? t->ag->fn : NULL; }

bool td__has_node(const td_tensor *t) { return t->ag && t->ag->fn; }

bool td__is_behind(const td_tensor *t) {
    return t->base && td__needs_grad(t) && t->seen != td__version(t) &&
           (td__has_node(t) || t->base->flags & TD_TF_NEEDS_GRAD);
}

/* Follows view ops and metadata writes back to the node that computed the
 * elements. set_, which has no derivative, ends the chain. */
static const td_node *behind_views(const td_node *n) {
    while (n && n->def && n->n_edge == 1 && !(n->flags & TD_NF_NONE) &&
           n->def->flags & (TD_OPF_VIEW | TD_OPF_META))
        n = n->edge[0].node;
    return n;
}

bool td__is_apart(const td_tensor *t) {
    const td_tensor *base = t->base;
    if (!base || base->st != t->st || !td__has_node(t) || td__is_behind(t) ||
        !td__needs_grad(base))
        return false;
    const td_node *from =
        td__has_node(base) ? base->ag->fn : td__known_accumulator(base);
    return behind_views(t->ag->fn) != behind_views(from);
}

bool td__fn_of(td_tensor *t, td_node **fn) {
    if (td__is_behind(t) && !td__regenerate(t)) return false;
    *fn = t->ag ? t->ag->fn : NULL;
    return true;
}

/* Where the gradient of t goes: its grad_fn, its accumulator, or nowhere. The caller
 * drops the node. A stale view's grad_fn is recomputed first. */
bool td__edge_of(td_tensor *t, td_edge *e) {
    td_node *fn;
    *e = (td_edge){0};
    if (!td__fn_of(t, &fn)) return false;
    if (fn) {
        e->node = td__node_ref(fn);
        e->nr = t->ag->nr;
    } else if (t->ag && t->ag->wants) {
        e->node = td__accumulator(t);
        return e->node != NULL;
    }
    return true;
}

/* ---- calling ops -------------------------------------------------------- */

td_tensor *td__op1(td_ctx *cx, td_op op, td_tensor *a) {
    td_tensor *out = &cx->nil;
    td_value   in = td_value_tensor(a);
    td__call(cx, op, &in, 1, &out, 1);
    return out;
}

td_tensor *td__op2(td_ctx *cx, td_op op, td_tensor *a, td_value b) {
    td_tensor *out = &cx->nil;
    td_value   in[2] = {td_value_tensor(a), b};
    td__call(cx, op, in, 2, &out, 1);
    return out;
}

/* ---- public access to the graph ----------------------------------------- */

td_node *td__grad_fn(td_tensor *t) {
    td_node *fn = NULL;
    return td__fn_of(t, &fn) ? fn : NULL;
}

const char *td__made_by(td_tensor *t) {
    const td_node *fn = td__grad_fn(t);
    return fn ? fn->name : "";
}

/* The grad_fn that user code may see. In a captured body, whether an outside
 * tensor has a grad_fn is part of the key; which op it is, is not: fails then. */
static td_node *fn_for(td_tensor *t, const char *who) {
    td_tensor *copy = td__seen_as(t);
    td_node   *fn = td__grad_fn(copy ? copy : t);
    if (!fn || !td__from_outside(t)) return fn;
    return td__may_read_tensor(t, who, "the op that made it") ? fn : NULL;
}

td_node *td_grad_fn(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return NULL;
    return fn_for(t, "td_grad_fn");
}

const char *td_grad_fn_name(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return "";
    td_node *fn = fn_for(t, "td_grad_fn_name");
    return fn ? fn->name : "";
}

int td_output_nr(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return 0;
    return fn_for(t, "td_output_nr") ? t->ag->nr : 0;
}

const char *td_node_name(const td_node *n) {
    if (!TD_ENTER(n, NODE)) return "";
    return n->name;
}

int td_node_edges(const td_node *n) {
    if (!TD_ENTER(n, NODE)) return 0;
    return n->n_edge;
}

td_node *td_node_edge(const td_node *n, int i) {
    if (!TD_ENTER(n, NODE)) return NULL;
    return i >= 0 && i < n->n_edge ? n->edge[i].node : NULL;
}
