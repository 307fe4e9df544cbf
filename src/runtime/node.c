/* node.c -- a compiled call on the tape: one node whose edges are the inputs that take
 * gradients, whose results are what tangents come in for, and whose derivative is
 * the backward half. Saved values are held and checked as eager holds and checks
 * its own. */
#include "ops/cast.h"
#include "runtime/plan.h"

#include <stdio.h>
#include <string.h>

/* Lies in the node, before its dims. */
typedef struct frame {
    td_plan  *p;     /* held */
    td_now   *sizes; /* held; NULL: all are numbers */
    uint64_t  seed, offset;
    /* Sets of tangents behind it: those that came last, those that did not, and all
     * whose values are gone. */
    uint64_t *now, *missing, *spent;
} frame;
enum { FRAME_INTS = sizeof(frame) / sizeof(int64_t) };

static int words_of(const td_plan *p) { return td__set_words(p->j->n_tangents); }

static const td_joint *joint_of(const td_node *n) {
    const frame *f = n->data;
    return f->sizes ? &f->sizes->j : f->p->j;
}

/* A tensor that only says how large things are; TD_NONE: nothing to say. */
static td_value stand_in(td_ctx *cx, const td_geom *g) {
    if (!g || !g->size) return TD_NONE;
    return td_value_tensor(td_op_empty_strided(cx, (td_ints){g->size, g->rank},
                                               (td_ints){g->stride, g->rank},
                                               g->dtype));
}

/* A tensor of this type, its elements not set, at the offset the graph may count from.
 * nil on failure. */
static td_tensor *empty_as(td_ctx *cx, const td_geom *g) {
    td_ints size = {g->size, g->rank}, stride = {g->stride, g->rank};
    if (!g->offset) return td_op_empty_strided(cx, size, stride, g->dtype);
    int64_t end = g->offset + 1;
    for (int d = 0; d < g->rank; d++) end += (g->size[d] - 1) * g->stride[d];
    td_tensor *all = td_op_empty(cx, (td_ints){&end, 1}, g->dtype);
    return td_op_as_strided(all, size, stride, td_value_int(g->offset));
}

/* Where saved value i was packed: the type that the backward code was made for. */
static td_geom saved_type(const td_node *n, int i) {
    const frame *f = n->data;
    if (f->sizes) return f->sizes->looks[i];
    const td_look *l = f->p->h->bwd->inputs.v[i]->look;
    return (td_geom){(td_dtype)l->dtype, l->rank, l->offset, l->size, l->stride};
}

/* Copies t into `to`, in which elements share places. False: those of one place differ,
 * or after td__fail. */
static bool copy_over(td_tensor *to, td_tensor *t) {
    static const td_dtype bits[] = {
        [1] = TD_I8, [2] = TD_I16, [4] = TD_I32, [8] = TD_I64};
    td_dtype as = bits[td__dtype_bytes[t->dtype]];
    td__copy_into(to, t);
    td_tensor *same =
        td_op_eq(td_op_view_dtype(to, as), td_value_tensor(td_op_view_dtype(t, as)));
    return td_item(td_op_all(same, (td_ints){0}, false)) != 0;
}

/* What an unpack hook gave for saved value i. Compiled code knows dtype, sizes and
 * strides: it gets a copy where strides are others, and nothing where the rest is. */
static td_tensor *fit_unpacked(td_node *n, int i, td_tensor *t) {
    td_geom want = saved_type(n, i);
    bool    same = t->dtype == want.dtype && t->rank == want.rank;
    for (int d = 0; same && d < t->rank; d++) same = t->size[d] == want.size[d];
    if (!same) {
        td__fail(n->cx, TD_E_GRAD,
                 "%s: the unpack hook of saved value %d gave %s, but %s%s was packed; "
                 "compiled code needs a tensor of that type back",
                 n->name, i, td__type_str(t), td_dtype_name(want.dtype),
                 td__sizes_str(want.rank, want.size));
        return NULL;
    }
    same = t->numel == 0 || t->offset == want.offset;
    for (int d = 0; same && d < t->rank; d++)
        same = t->size[d] == 1 || t->stride[d] == want.stride[d];
    if (same) return t;
    td_tensor *to = empty_as(n->cx, &want);
    if (td_is_nil(to)) return NULL;
    if (!td__overlaps_itself(to)) to = td_op_copy_(to, t, false);
    else if (!copy_over(to, t) && td_ok(n->cx))
        td__fail(n->cx, TD_E_UNSUPPORTED,
                 "%s: the unpack hook of saved value %d gave other values to elements "
                 "that share one place in memory; pass a clone of the expanded tensor",
                 n->name, i);
    return td_ok(n->cx) ? to : NULL;
}

/* What was kept for the backward code, if that reads it for the tangents that came:
 * what only others need may be gone or overwritten. Tensors may also say how large
 * things are, those too. */
static bool kept_value(td_node *n, const td_back *b, int i, td_value *to) {
    const frame   *f = n->data;
    const td_hold *k = &f->p->keep[i];
    if (k->number) {
        *to = td_value_int(f->sizes->kept[i]);
        return true;
    }
    *to = TD_NONE;
    if (!b->reads[i]) {
        if (!f->sizes) return true;
        if (n->saved[i].t) return *to = td_value_tensor(n->saved[i].t), true;
        *to = stand_in(n->cx, &f->sizes->looks[i]);
        return to->kind == TD_K_NONE || !td_is_nil(to->u.t);
    }
    td_tensor *t = td__unpack(n, &n->saved[i]);
    if (t && n->saved[i].pack) t = fit_unpacked(n, i, t);
    *to = td_value_tensor(t);
    return t != NULL;
}

/* ---- backward ----------------------------------------------------------- */

/* A tangent in the layout the graph was made for, and at the start of its storage, from
 * where the graph may count. */
static td_tensor *coerce(td_ctx *cx, td_tensor *g, const td_geom *want) {
    bool same = g->numel == 0 || (g->numel == 1 && g->offset == 0);
    if (!same) {
        same = g->offset == 0;
        for (int d = 0; d < want->rank; d++)
            same &= g->size[d] == 1 || g->stride[d] == want->stride[d];
    }
    if (same) return g;
    td_tensor *to =
        td_op_empty_strided(cx, (td_ints){want->size, want->rank},
                            (td_ints){want->stride, want->rank}, want->dtype);
    return td_is_nil(to) ? NULL : td_op_copy_(to, g, false);
}

/* A missing tangent is zeros to a joint graph of the user's own. Otherwise the code
 * does not read it, but may take symbolic sizes from it: an expanded zero is enough. */
static td_tensor *tangent(td_node *n, int i, td_tensor *g) {
    const frame   *f = n->data;
    const td_geom *want = &joint_of(n)->tangents[i].geom;
    if (g) return coerce(n->cx, g, want);
    if (!f->p->retrace.joint) {
        td_tensor *t =
            td_op_empty_strided(n->cx, (td_ints){want->size, want->rank},
                                (td_ints){want->stride, want->rank}, want->dtype);
        return td_op_zero_(t);
    }
    if (!f->sizes) return NULL;
    td_tensor *zero = td_op_zeros(n->cx, (td_ints){NULL, 0}, want->dtype);
    return td_op_expand(zero, (td_ints){want->size, want->rank});
}

/* Which tangents came, and which did not. */
static void look_at(const td_node *n, td_tensor *const *g) {
    frame *f = n->data;
    size_t size = sizeof *f->now * (size_t)words_of(f->p);
    memset(f->now, 0, size);
    memset(f->missing, 0, size);
    for (int i = 0; i < n->n_out; i++) td__set_add(g[i] ? f->now : f->missing, i);
}

/* Does no tangent that arrived lead to edge i? The call's results share one node, and
 * eager's backward does not visit such an edge. */
static bool apart(const td_node *n, int i) {
    const frame *f = n->data;
    return !td__set_meets(f->p->j->targets[i].from, f->now, words_of(f->p));
}

static void note_read(void *env, td_gval *v) {
    bool *reads = env;
    if (!v->node) reads[v->nr] = true;
}

static bool find_reads(const td_graph *g, bool **reads) {
    if (!*reads && !(*reads = td__zalloc((size_t)g->inputs.n + 1)))
        return td__fail_memory(g->cx);
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_in; k++)
            td__garg_each(&g->nodes.v[i]->in[k], note_read, *reads);
    for (int i = 0; i < g->outputs.n; i++)
        td__garg_each(&g->outputs.v[i], note_read, *reads);
    return true;
}

bool td__plan_compile_back(td_plan *p, td_back *b) {
    td_compile_info info = p->info;
    info.half = TD_BACKWARD;
    if (!b->reads && !find_reads(b->g, &b->reads)) return false;
    return b->code.run || td__compile(p->cx, p->backend, b->g, &info, &b->code);
}

bool td__plan_room(const td_plan *p, int n, const char *what) {
    return n < p->limit ||
           td__fail(
               p->cx, TD_E_UNSUPPORTED,
               "%s: compiled %s for %d sets of results already, the limit is %lld, "
               "and these are another; raise backward_limit, or let gradients "
               "come in for the same results each time",
               p->name, what, n, (long long)p->limit);
}

/* The backward graph for a set of missing tangents: the engine is asked again, from the
 * roots whose tangents arrived, and reads what the forward code saved. */
static td_graph *trace_back(const td_plan *p, const uint64_t *missing) {
    td_joint *j = p->retrace.joint(p->retrace.env, missing);
    td_graph *g = j ? td__part_reuse(p->h, j) : NULL;
    td__joint_drop(j);
    return g;
}

/* The backward for this set, made at its first use. */
static td_back *back_for(td_plan *p, const uint64_t *missing) {
    size_t   size = sizeof *missing * (size_t)words_of(p);
    bool     all = !p->retrace.joint || !td__set_any(missing, words_of(p));
    td_back *b = all ? &p->back : p->back.next;
    while (b && b != &p->back && memcmp(b->missing, missing, size)) b = b->next;
    bool first = b == &p->back && !b->code.run;
    int  n = p->n_back + (p->back.code.run != NULL);
    if ((first || !b) && !td__plan_room(p, n, "backward")) return NULL;
    if (!b) {
        b = td__zalloc(sizeof *b + size);
        if (!b) return td__fail_memory(p->cx), NULL;
        *b = (td_back){.missing = memcpy(b + 1, missing, size), .next = p->back.next};
        b->g = trace_back(p, missing);
        if (!b->g) return td__free(b), NULL;
        p->back.next = b;
        p->n_back++;
    }
    return td__plan_compile_back(p, b) ? b : NULL;
}

/* Is a mode pushed that hears ops? Autocast was there when the call was compiled. */
static bool heard(const td_ctx *cx) { return td__modes_below_autocast(cx) != cx->tape; }

/* As compiled, or op by op where a mode listens. */
static bool run_code(td_plan *p, const td_back *b, const td_value *in, td_value *out) {
    td_ctx *cx = p->cx;
    if (TD_LIKELY(!heard(cx))) return td__plan_run(p, b->g, &b->code, in, out);
    bool grad = cx->grad_enabled;
    cx->grad_enabled = false;
    bool ok = td__replay_under_modes(b->g, in, out);
    cx->grad_enabled = grad;
    return ok && td_ok(cx);
}

static bool run_back(td_node *n, td_tensor *const *g, const bool *need,
                     td_tensor **grads) {
    frame   *f = n->data;
    td_plan *p = f->p;
    td_back *b = back_for(p, f->missing);
    size_t   room = (size_t)(p->n_saved + n->n_out + p->j->n_targets) + 1;
    td_value few[24], *v = few;
    if (!b) return false;
    if (room > TD_COUNT(few) && !(v = td__alloc(sizeof *v * room)))
        return td__fail_memory(n->cx);
    td_value *out = v + p->n_saved + n->n_out;
    bool      ok = true;
    for (int i = 0; ok && i < p->n_saved; i++) ok = kept_value(n, b, i, &v[i]);
    for (int i = 0; ok && i < n->n_out; i++) {
        td_tensor *t = tangent(n, i, g[i]);
        ok = t ? !td_is_nil(t) : !g[i];
        v[p->n_saved + i] = t ? td_value_tensor(t) : TD_NONE;
    }
    ok = ok && run_code(p, b, v, out) && (!p->asserts || td__plan_check_grads(p, out));
    for (int i = 0; ok && i < p->j->n_targets; i++)
        if (need[i] && out[i].kind == TD_K_TENSOR && !apart(n, i))
            grads[i] = out[i].u.t;
    if (v != few) td__free(v);
    return ok;
}

/* ---- gradients of gradients --------------------------------------------- */

/* Is input i a leaf whose place in the history the epilogue finds? */
static bool is_late(const td_joint *j, int i) {
    for (int k = 0; k < j->n_targets; k++)
        if (j->targets[k].input == i && j->targets[k].leaf) return true;
    return false;
}

/* Has the call given another geometry to the leaf that edge k leads to? Then m is what
 * it had when it took its place in the history, and t shows it as it came. */
static bool is_turned(const td_node *n, int k, const td_tensor *t, td_meta *m) {
    td__note_meta(&n->note[k], m);
    bool same = m->rank == t->rank && m->offset == t->offset;
    for (int d = 0; same && d < t->rank; d++)
        same = m->size[d] == t->size[d] && m->stride[d] == t->stride[d];
    return !same;
}

/* t, with those of its elements that such a leaf shows taken from the leaf. */
static td_tensor *before_turn(td_node *n, int k, td_tensor *t, const td_meta *m) {
    td_tensor *leaf = td__tensor_over(n->cx, t->st, m);
    if (!leaf || !(leaf = td__alias_at(leaf, n->edge[k]))) return NULL;
    t = td_op_as_strided_scatter(t, leaf, (td_ints){m->size, m->rank},
                                 (td_ints){m->stride, m->rank},
                                 td_value_int(m->offset));
    return td_is_nil(t) ? NULL : t;
}

/* A primal that was overwritten comes back as the copy kept of it, in its old place in
 * the history; so does one that no gradient reads, for a custom function may lead to it
 * all the same, and it may be a view that eager refuses to ask since. */
static td_tensor *old_primal(td_node *n, int i, td_tensor *t, bool unread) {
    const td_plan  *p = ((frame *)n->data)->p;
    const td_joint *j = p->j;
    const td_hold  *h = &p->keep[p->held[i]];
    bool            idle = h->out < 0 && !h->checked; /* kept without its place */
    bool            late = is_late(j, i);
    td_meta         m;
    if (h->came && !idle && !late) return t;
    bool moved = j->written[i] || unread || idle || late;
    for (int k = 0; k < j->n_targets && moved; k++)
        if (j->targets[k].input == i && !j->targets[k].base && n->edge[k].node) {
            if (!late || !is_turned(n, k, t, &m)) return td__alias_at(t, n->edge[k]);
            if (h->out < 0) return before_turn(n, k, t, &m);
            td__fail(n->cx, TD_E_UNSUPPORTED,
                     "%s: gradients of gradients of leaf %d, which the call writes and "
                     "gives another geometry; do that to a view of it",
                     p->name, i);
            return NULL;
        }
    return t;
}

/* Primal i for gradients that `read` it or do not: then its elements may have been
 * written since, as eager does not unpack what a backward does not pass. */
static td_tensor *held_primal(td_node *n, int i, bool read) {
    const td_saved *s = &n->saved[((frame *)n->data)->p->held[i]];
    bool       unread = !read && s->t && s->t->st == s->st && !(s->flags & TD_SV_ALIAS);
    td_tensor *t = unread ? s->t : td__unpack(n, s);
    return t ? old_primal(n, i, t, unread) : NULL;
}

static bool again_args(td_node *n, td_tensor *const *g, td_value *in) {
    frame          *f = n->data;
    const td_joint *j = joint_of(n);
    const bool     *reads = f->p->again.reads(f->p->again.env, f->missing);
    if (!reads) return false;
    for (int i = 0; i < j->n_primals; i++) {
        if (f->p->held[i] < 0) { /* where sizes are symbols, it says them */
            in[i] = stand_in(n->cx, f->sizes ? &f->sizes->given[i] : NULL);
            continue;
        }
        td_tensor *t = held_primal(n, i, reads[i]);
        if (!t) return false;
        in[i] = td_value_tensor(t);
    }
    for (int i = 0; i < n->n_out; i++) {
        const td_geom *m = &j->tangents[i].geom;
        td_ints        size = {m->size, m->rank};
        td_tensor     *t =
            g[i] ? coerce(n->cx, g[i], m) : td_op_zeros(n->cx, size, m->dtype);
        if (!t || td_is_nil(t)) return false;
        in[j->n_primals + i] = td_value_tensor(t);
    }
    return true;
}

/* Everything is computed anew from the primals, with the same random numbers, by a
 * function that is differentiable like any other. */
static bool run_again(td_node *n, td_tensor *const *g, const bool *need,
                      td_tensor **grads) {
    frame          *f = n->data;
    td_ctx         *cx = n->cx;
    const td_joint *j = f->p->j;
    size_t          room = (size_t)(j->n_primals + n->n_out + j->n_targets) + 1;
    td_value       *in = td__zalloc(sizeof *in * room);
    if (!in) return td__fail_memory(cx);
    td_value *out = in + j->n_primals + n->n_out;
    uint64_t  seed = cx->rng_seed, offset = cx->rng_offset;
    bool      ok = again_args(n, g, in);
    if (ok && j->random) td_rng_set(cx, f->seed, f->offset);
    ok = ok && f->p->again.call(f->p->again.env, f->missing, in, out);
    if (j->random) td_rng_set(cx, seed, offset);
    for (int i = 0; ok && i < j->n_targets; i++)
        if (need[i] && out[i].kind == TD_K_TENSOR && !apart(n, i))
            grads[i] = out[i].u.t;
    td__free(in);
    return ok;
}

static bool apply(td_node *n, td_tensor *const *g, const bool *need,
                  td_tensor **grads) {
    frame *f = n->data;
    look_at(n, g);
    for (int i = 0; i < n->n_out; i++) {
        const td_tangent *t = &f->p->j->tangents[i];
        if (!g[i]) continue;
        if (t->broken) return td__fail(n->cx, t->code, "%s", t->broken);
        if (td__set_meets(t->clash, f->spent, words_of(f->p)))
            return td__fail_second(n);
    }
    if (!td__recording(n->cx)) return run_back(n, g, need, grads);
    if (heard(n->cx))
        return td__fail(n->cx, TD_E_UNSUPPORTED,
                        "%s: a mode is pushed, and gradients of a compiled call that "
                        "get a history (create_graph) are computed from its arguments "
                        "anew: the mode would hear the forward a second time; pop the "
                        "mode, or push it before the call, which then runs op by op",
                        f->p->name);
    if (f->p->again.call) return run_again(n, g, need, grads);
    return td__fail(n->cx, TD_E_UNSUPPORTED,
                    "%s was compiled with double_backward off: its gradients have no "
                    "history; switch the setting on, or go backward without "
                    "create_graph",
                    f->p->name);
}

/* Can a value still be read by a backward that eager would not refuse? */
static bool is_needed(const frame *f, const td_hold *k, int n_out) {
    for (int i = 0; i < n_out; i++)
        if ((!k->used || td__set_has(k->used, i)) &&
            !td__set_meets(f->p->j->tangents[i].clash, f->spent, words_of(f->p)))
            return true;
    return false;
}

/* Behind a backward: what tangents used up that came this time. Nobody asks again when
 * the node goes. */
static void release(td_node *n) {
    frame *f = n->data;
    td__set_join(f->spent, f->now, words_of(f->p));
    for (int i = 0; i < n->n_saved; i++)
        if (n->refs <= 0 || !is_needed(f, &f->p->keep[i], n->n_out))
            td__saved_free(&n->saved[i]);
}

static void destroy(td_node *n) {
    frame *f = n->data;
    td__plan_drop(f->p);
    td__now_drop(f->sizes);
}

static bool passes(const td_node *n, int from, int to) {
    const td_tangent *t = ((const frame *)n->data)->p->j->tangents;
    return from != to && td__set_has(t[to].feeds, from);
}

/* "result 1", "argument 0". */
static const char *called(const td_joint *j, int nr, char out[64]) {
    const td_fwd *f = &j->fwd[j->tangents[nr].index];
    if (f->input >= 0) snprintf(out, 64, "argument %d, which it wrote", f->input);
    else if (f->result >= 0) snprintf(out, 64, "result %d", f->result);
    else snprintf(out, 64, "the tensor that results are views of");
    return out;
}

static bool refuse(const td_node *n, int from, int to) {
    const td_joint *j = ((const frame *)n->data)->p->j;
    char            a[64], b[64];
    return td__fail(
        n->cx, TD_E_UNSUPPORTED,
        "%s: %s was computed from %s, whose gradient is asked for (td_grad, "
        "td_on_grad, td_retain_grad, inputs of td_backward); the compiled "
        "function passes no gradient of the one through the other. Compute "
        "%s outside of the compiled function",
        n->name, called(j, from, a), called(j, to, b),
        j->fwd[j->tangents[from].index].result >= 0 ? a : "it");
}

static const td_node_kind compiled_kind = {.name = "compiled",
                                           .apply = apply,
                                           .release = release,
                                           .destroy = destroy,
                                           .apart = apart,
                                           .passes = passes,
                                           .refuse = refuse};

/* ---- making one --------------------------------------------------------- */

static td_tensor *target_of(const td_pcall *c, int i) {
    td_target to = c->p->j->targets[i];
    if (to.leaf) return NULL; /* bound when it is one */
    td_tensor *t = c->in[to.input].u.t;
    return to.base && t->base ? t->base : t;
}

/* What the i-th result of the node looks like; the sizes outlive the node. Field by
 * field: bytes put together and read back as a word would wait for each other. */
static void note_result(td_note *note, const td_geom *g) {
    note->dims = g->size;
    note->offset = 0;
    note->dtype = (uint8_t)g->dtype;
    note->rank = (uint8_t)g->rank;
    note->strided = false;
}

/* Is input i a leaf that nothing has read with gradients, before the call or in it? It
 * has no place in the history, and would have the sizes of now from here on. */
static bool is_unread(const td_pcall *c, int i) {
    const td_tensor *in = c->in[i].u.t;
    if (td__has_node(in) || in->base || td__known_accumulator(in)) return false;
    for (int k = 0; k < c->j->n_targets; k++)
        if (c->j->targets[k].input == i && !c->j->targets[k].base) return false;
    return true;
}

/* The value t of a primal, as the primal came. */
static td_tensor *as_it_came(const td_pcall *c, int i, td_tensor *t) {
    td_tensor *in = c->in[i].u.t;
    td_edge    e = {0};
    bool       lost = td__is_behind(in) && in->creation != TD_MADE_PLAIN;
    bool       needs = c->j->g->inputs.v[i]->look->grad; /* the call may have it so */
    if (is_late(c->j, i) || is_unread(c, i)) needs = false; /* see old_primal */
    if (needs && td__needs_grad(in) && !lost && !td__edge_of(in, &e)) return NULL;
    if (!e.node) return td__tensor_alias(c->p->cx, t);
    t = td__alias_at(t, e);
    td__node_drop(e.node);
    return t;
}

/* Holds a primal that no gradient depends on: eager saves no such value, so that hooks
 * on saved values, those of a checkpoint too, do not see it. */
static bool save_idle(td_saved *s, td_tensor *t) {
    *s = (td_saved){.t = td__ref(t), .version = td__version(t), .st = t->st};
    return true;
}

static bool save(td_pcall *c, td_node *n, int i) {
    const td_hold *k = &c->p->keep[i];
    td_saved      *s = &n->saved[n->n_saved++];
    *s = (td_saved){.flags = TD_SV_FREED}; /* what a failure below leaves */
    if (k->number) {
        c->now->kept[i] = k->out < 0 ? c->in[k->index].u.i : c->vals[k->out].u.i;
        return true;
    }
    td_tensor *t = k->out < 0 ? c->in[k->index].u.t : c->vals[k->out].u.t;
    bool       idle = k->out < 0 && !k->checked; /* nothing depends on it */
    bool own = td_is_inference(t) || idle; /* or eager did not save it, or had failed */
    bool came = !idle && (k->came || (own && k->out < 0));
    bool changes =
        k->out >= 0 && k->out < c->j->n_fwd && c->j->fwd[k->out].meta_written;
    if (changes && !(t = td__tensor_alias(c->p->cx, t))) return false;
    if (came && !(t = as_it_came(c, k->index, t))) return false;
    if (own && !came && !(t = td__tensor_alias(c->p->cx, t))) return false;
    if (own || came) t->flags &= (uint8_t)~TD_TF_INFERENCE;
    *s = (td_saved){.arg = k->nr >= 0 ? (int16_t)-1 : (int16_t)0};
    if (idle ? !save_idle(s, t) : !td__save(s, t, k->nr >= 0, k->nr < 0 ? 0 : k->nr))
        return false;
    if (!k->checked) s->flags |= TD_SV_PLAIN;
    return !c->now || td__geom_copy(c->p->cx, &c->now->arena, &c->now->looks[i], t);
}

static bool fill(td_pcall *c, td_node *n, int64_t *ints) {
    const td_joint *j = c->j;
    int             words = words_of(c->p);
    for (int i = 0; i < n->n_edge; i++) {
        td_tensor *t = target_of(c, i);
        if (!t) {
            n->note[i] = (td_note){.dims = ints};
            ints += 2 * TD_MAX_RANK;
            continue;
        }
        td__note(&n->note[i], t, true, &ints);
        if (!td__set_any(j->targets[i].from, words))
            continue; /* no tangent leads there */
        if (!td__edge_of(t, &n->edge[i])) return false;
    }
    for (int i = 0; i < j->n_tangents; i++)
        note_result(&n->out_note[i], &j->tangents[i].geom);
    for (int i = 0; i < c->p->n_keep; i++)
        if (!save(c, n, i)) return false;
    return true;
}

/* Writes of the call itself that share a storage with a saved input, and left the
 * input alone, are not writes after it was saved. */
void td__plan_saved(td_pcall *c) {
    td_node *n = c->node;
    for (int i = 0; n && i < n->n_saved; i++)
        if (n->saved[i].t) n->saved[i].version = td__version(n->saved[i].t);
}

bool td__plan_node(td_pcall *c) {
    td_plan     *p = c->p;
    td_node_plan size = {.n_edge = p->j->n_targets,
                         .n_out = p->j->n_tangents,
                         .n_saved = p->n_keep,
                         .n_ints = p->node_dims + FRAME_INTS + 3 * words_of(p)};
    int64_t     *ints;
    td_node     *n = td__node_make(p->cx, &compiled_kind, &size, &ints, NULL);
    if (!n) return false;
    frame *f = (frame *)(void *)ints;
    *f = (frame){.p = p, .sizes = c->now, .seed = c->seed, .offset = c->offset};
    f->now = (uint64_t *)(f + 1);
    f->missing = f->now + words_of(p);
    f->spent = f->missing + words_of(p);
    memset(f->spent, 0, sizeof *f->spent * (size_t)words_of(p));
    p->refs++;
    if (c->now) c->now->refs++;
    n->data = f;
    n->name = p->name;
    n->n_saved = 0; /* counts as they come */
    c->node = n;
    return fill(c, n, ints + FRAME_INTS + 3 * words_of(p));
}
