/* record_values.c -- tensors as values of the graph being recorded: tags on tensors,
 * inputs for tensors the body closes over, arguments and results of nodes, and
 * the source location and labels of a node. */
#include "core/typed.h"
#include "trace/trace_int.h"

#include <stdio.h>

/* ---- source location and labels of a node -------------------------------- */

/* Joins the labels of the scopes the body opened ("model/attn") into r->scope. The
 * last path is cached, because consecutive ops share it. */
static bool find_scope(td_record *r) {
    const td_ctx *cx = r->cx;
    char          now[512];
    size_t        n = 0;
    for (int i = r->first_scope; i < cx->scopes.n && n < sizeof now - 1; i++) {
        const char *label = cx->scopes.v[i].label;
        if (!label) continue;
        if (n) now[n++] = '/';
        size_t len = strnlen(label, sizeof now - 1 - n);
        memcpy(now + n, label, len);
        n += len;
    }
    now[n] = 0;
    if (!strcmp(now, td__buf_str(&r->path))) return true;
    r->path.n = 0;
    td__buf_add(&r->path, now);
    if (r->path.failed) return td__fail_memory(r->cx);
    r->scope = n ? td__graph_str(r->g, now) : NULL;
    return !n || r->scope;
}

/* Copies the name of the user's source file: the library whose string it is may
 * be unloaded before the graph is dropped. */
static bool find_file(td_record *r) {
    if (td_here.file == r->file) return true;
    r->file = td_here.file;
    r->file_copy = td__place_file(r->cx, td_here.file);
    return r->file_copy || !r->file;
}

/* The recomputation policy that the checkpoint region around an op sets for it. */
static uint32_t tags_of(const td_ctx *cx, td_op op) {
    const td_wish *w = cx->wish;
    if (!w) return TD_TAG_WISH(cx->tags);
    td_policy p =
        w->policy ? w->policy(w->env, td__row(op)->name) : TD_PREFER_RECOMPUTE;
    bool known = p > TD_POLICY_NONE && p <= TD_MUST_OFFLOAD;
    return known ? TD_TAG(p, w->region) : 0;
}

/* The calls around the current op. Consecutive ops share them, so the last are cached.
 */
static const td_place *stack_of(td_record *r) {
    td_where list[TD_STACK_MOST];
    int      n = td__stack_list(r->cx, list, TD_STACK_MOST);
    bool     same = n == r->n_calls;
    for (int i = 0; i < n && same; i++)
        same = list[i].file == r->calls[i].file && list[i].line == r->calls[i].line;
    if (same) return r->stack;
    memcpy(r->calls, list, sizeof *list * (size_t)n);
    r->n_calls = n;
    return r->stack = td__stack_now(r->cx);
}

/* Source line, calls, scope, checkpoint policy and origin of a recorded node. */
bool td__record_place(td_record *r, td_gnode *n) {
    if (!find_scope(r) || !find_file(r)) return false;
    n->here = (td_where){r->file_copy, td_here.line};
    n->stack = td_here.file ? td__stack_beyond(stack_of(r), n->here) : NULL;
    n->scope = r->scope;
    n->tags = tags_of(r->cx, n->op);
    if (r->cx->wish && td__gnode_draws(n)) *r->cx->wish->draws = true;
    n->origin = TD_TAG_ORIGIN(r->cx->tags);
    return true;
}

/* ---- values ------------------------------------------------------------- */

/* A symbolic size of the trace as an expression of the graph. */
static int64_t dim_of(td_record *r, int64_t i) { return td__graph_dim(r->g, i); }

td_garg td__record_int(td_record *r, int64_t i) {
    td_garg a = td__garg_int(dim_of(r, i));
    if (r->sym && td__sym_at(r->sym, i)) a.kind = TD_G_SYM;
    return a;
}

td_tag *td__record_tag(const td_record *r, const td_tensor *t) {
    td_tag *tag = t->payload;
    return tag && tag->owner == &r->mode ? tag : NULL;
}

/* Notes in the tag the type and geometry that t has now. NULL after td__fail. */
static td_tag *note_type(td_record *r, td_tag *tag, const td_tensor *t,
                         int32_t storage) {
    td_geom now = td__geom_of(t);
    tag->storage = storage;
    tag->type = td__graph_type(r->g, t, td__needs_grad(t), storage);
    if (!tag->type) return NULL;
    tag->geom = tag->type->geom;
    if (!td__geom_is_symbolic(&now)) return tag;
    return td__geom_copy(r->cx, &r->g->arena, &tag->geom, t) ? tag : NULL;
}

td_tag *td__record_new_tag(td_record *r, td_tensor *t) {
    td_tag *tag = td__arena_zalloc(&r->g->arena, sizeof *tag);
    if (!tag) return td__fail_memory(r->cx), NULL;
    *tag = (td_tag){.owner = &r->mode, .hidden = -1};
    t->payload = tag;
    return tag;
}

/* Sets v as the value of t, in the tag that waits for its value or in a new
 * one. A tag that already has a value may be shared with aliases and is not
 * changed. */
static td_tag *put_tag(td_record *r, td_tensor *t, td_gval *v, int32_t storage) {
    td_tag *tag = td__record_tag(r, t);
    td_tag  noted;
    if (!note_type(r, &noted, t, storage)) return NULL;
    if (!tag || tag->v) tag = td__record_new_tag(r, t);
    if (!tag) return NULL;
    tag->type = noted.type;
    tag->geom = noted.geom;
    tag->storage = storage;
    tag->v = v;
    v->type = tag->type;
    tag->op = v->node ? td__row(v->node->op)->name : NULL;
    tag->here = v->node ? v->node->here : (td_where){0};
    tag->body = r->function;
    return tag;
}

/* The storage number in the graph's types, assigned on first use. */
static int32_t storage_nr(td_record *r, td_fake_store *s) {
    if (s->nr < 0) s->nr = r->g->n_storages++;
    return s->nr;
}

td_tensor *td__record_input(td_record *r, td_tensor *real, const char *name) {
    td_tensor *t = td__fake_copy(&r->fakes, real);
    td_desc    d = TD_PLAIN_DESC;
    if (t && t->st->object) d = (td_desc){TD_D_OBJECT, -1, t->st->object->name};
    td_gval *v = t ? td__graph_input(r->g, name, NULL, d) : NULL;
    if (!v) return NULL;
    td_fake_store *s = td__fake_store_of(&r->fakes, real);
    s->given = true;
    if (td__record_tag(r, t)) { /* the same tensor again: the body reads the first */
        v->type = td__record_tag(r, t)->type;
        return t;
    }
    return put_tag(r, t, v, storage_nr(r, s)) ? t : NULL;
}

/* Was t made in the body outside of ops (td_from, a file)? Eager makes it anew at each
 * call, so the graph clones its const. */
static bool made_here(const td_tensor *t) {
    return t->flags & TD_TF_TRACED && !t->st->release && !t->st->readonly &&
           atomic_load(&t->st->refs) == 1;
}

/* The op node that makes `of` anew for each run. */
static td_gval *add_clone(td_record *r, td_gval *of) {
    td_garg   in = td__garg_value(of);
    td_gnode *n = td__graph_op(r->g, TD_OP_clone, &in, 1, 1);
    return n && td__record_place(r, n) ? n->out[0] : NULL;
}

bool td__record_outer(td_record *r, td_tensor **t) {
    if (!r->outer || td__is_traced(*t)) return true;
    return td__record_value(r->outer, t, "a tensor closed over") != NULL;
}

/* Was t lifted before? Otherwise a tensor with a copy is an argument. */
static bool is_lifted(const td_lift *l, const td_tensor *t) {
    for (int i = 0; i < l->tensors.n; i++)
        if (l->tensors.v[i] == t) return true;
    return false;
}

/* In a nested capture: makes an outside tensor an input of the nested graph and
 * *t its copy. NULL after td__fail. */
static td_tag *lift_tensor(td_record *r, td_tensor **t) {
    const td_fake_grad *grad = td__ptrmap_get(&r->fakes.grads, *t);
    if (grad) *t = grad->real; /* the .grad of an input is the enclosing graph's */
    if (!td__record_outer(r, t)) return NULL;
    td_tensor *copy = td__fake_copy(&r->fakes, *t);
    td_tag    *tag = copy ? td__record_tag(r, copy) : NULL;
    char       name[24];
    if (copy && !tag) {
        snprintf(name, sizeof name, "c%d", r->lift->tensors.n);
        if (!td__vec_push(&r->lift->tensors, *t)) return td__fail_memory(r->cx), NULL;
        td__ref(*t);
        if (!td__record_input(r, *t, name)) return NULL;
        tag = td__record_tag(r, copy);
    } else if (copy && !is_lifted(r->lift, *t)) r->lift->args = true;
    *t = copy ? copy : *t;
    return tag;
}

/* The tensor of an enclosing capture that `copy` is the copy of, as it was then; NULL:
 * there is none, or the body has written it. */
static td_tensor *outer_of(const td_record *r, const td_tensor *copy) {
    td_tensor *t = NULL;
    for (int i = 0; r->outer && !t && i + 1 < r->fakes.pairs.n; i += 2)
        if (r->fakes.pairs.v[i] == copy) t = r->fakes.pairs.v[i + 1];
    if (!t || td__version(t) != td__version(copy)) return NULL;
    for (const td_record *o = r->outer; o; o = o->outer)
        if (td__record_tag(o, t)) return t;
    return NULL;
}

/* The cast of weight t of an enclosing capture, recorded in the state of r->outer, but
 * in the grad mode of r. */
static td_tensor *cast_outside(td_record *r, td_tensor *t, td_dtype to) {
    td_ctx *cx = r->cx;
    bool    grad = cx->grad_enabled, inference = cx->inference;
    td__ambient_swap(cx, r->outside);
    bool was[] = {cx->grad_enabled, cx->inference};
    cx->grad_enabled = grad;
    cx->inference = inference;
    bool       there = td__record_tag(r->outer, t) || lift_tensor(r->outer, &t);
    td_tensor *cast = there ? td__autocast_weight(cx, t, to) : &cx->nil;
    cx->grad_enabled = was[0];
    cx->inference = was[1];
    td__ambient_swap(cx, r->outside);
    return cast;
}

/* The graph closes over the cast, for these arguments alone. */
td_tensor *td__record_cast(td_mode *m, td_tensor *t, td_dtype to) {
    td_record *r = (td_record *)m;
    td_tensor *weight = outer_of(r, t);
    td_tensor *cast = weight ? cast_outside(r, weight, to) : NULL;
    if (!cast || td_is_nil(cast)) return cast;
    if (!is_lifted(r->lift, weight)) r->lift->args = true;
    return lift_tensor(r, &cast) ? cast : &r->cx->nil;
}

bool td__record_bind(td_record *r, const td_value *copies) {
    const td_values *real = &r->close.bound;
    for (int i = 0; i < real->n; i++) {
        td_tensor *t = real->v[i].u.t;
        if (!td__ptrmap_get(&r->closed, t) &&
            !td__ptrmap_put(&r->closed, t, copies[i].u.t))
            return td__fail_memory(r->cx);
    }
    return true;
}

/* Has the body written a tensor, data or metadata, so far? */
static bool has_written(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind == TD_N_OP &&
            (td__opinfo(n->op)->writes || td__row(n->op)->flags & TD_OPF_META))
            return true;
    }
    return false;
}

/* May the body close over a tensor? `seen` is its fake argument with symbolic
 * sizes, or the real tensor. If it shares bytes with an argument, the caller
 * must compare aliasing; with symbolic sizes all sizes are specialized first,
 * which is too late after a write. */
static bool may_close(td_record *r, td_tensor *seen, const char *who) {
    const td_fake_store *s = td__fake_store_of(&r->fakes, seen);
    if (!s) return true;
    if (!s->given) return true;
    if (!r->close.aliases)
        return td__record_fail(
            r, who,
            "the body uses a tensor that shares storage with an argument but was not "
            "passed as one; pass it as an argument and read it with td_arg");
    if (!seen->st->open) return true;
    td__fail(r->cx, TD_E_UNSUPPORTED,
             "%s: the body uses a tensor that was not passed as an argument and shares "
             "storage with an argument whose sizes are dynamic; pass it as an argument "
             "and read it with td_arg",
             who);
    return !has_written(r->g) && td__record_fix(r);
}

/* A const input of the graph for a real tensor. */
static td_gval *add_const(td_record *r, td_tensor *real) {
    char name[24];
    snprintf(name, sizeof name, "c%d", r->g->consts.n);
    return td__graph_const(r->g, name, real);
}

/* Tags `copy`, the fake copy of a closed-over tensor, with its const input v.
 * If copy has a tag already it is an argument as well, and the body reads the
 * argument. The input's type is the tensor's at the start of the call, before
 * any write of the body. */
static td_tag *tag_const(td_record *r, td_gval *v, const td_tensor *real,
                         td_tensor *seen, td_tensor *copy) {
    td_tag *tag = td__record_tag(r, copy);
    if (tag) return v->type = tag->v->type, tag;
    int32_t         nr = storage_nr(r, td__fake_store_of(&r->fakes, seen));
    const td_gtype *first = td__graph_type(r->g, copy, td__needs_grad(seen), nr);
    if (!(v->type = first)) return NULL;
    if (!made_here(real)) {
        tag = put_tag(r, copy, v, nr);
        v->type = first; /* its type at entry */
        return tag;
    }
    td_gval *fresh = add_clone(r, v);
    return fresh ? put_tag(r, copy, fresh, r->g->n_storages++) : NULL;
}

/* May another tensor have this storage, or foreign code its memory? */
static bool is_shared(const td_storage *st) {
    return atomic_load(&st->refs) > 1 || st->release;
}

/* Copies t for td__record_siblings. A failure other than out-of-memory is
 * ignored: it matters only if the body reads t, and is raised then. */
static bool copy_sibling(td_record *r, td_tensor *t) {
    td_faker *first = r->close.fakes;
    if (first && (t = td__fake_copy(first, t)) && t->st->open) return true;
    if ((t && td__fake_copy(&r->fakes, t)) || td__error(r->cx) == TD_E_MEMORY)
        return td_ok(r->cx);
    td_clear(r->cx);
    return true;
}

bool td__record_siblings(td_record *r) {
    td_faker *f = r->close.fakes ? r->close.fakes : &r->fakes;
    for (td_tensor *t = r->cx->all; t; t = t->next) {
        const td_fake_store *s =
            is_shared(t->st) && !td__is_traced(t) ? td__fake_store_of(f, t) : NULL;
        if (s && !s->st->open && !td__ptrmap_get(&f->copies, t) && !copy_sibling(r, t))
            return false;
    }
    return true;
}

/* Makes a real tensor that the body reads an input, and *t its copy. NULL after
 * td__fail. */
static td_tag *close_over(td_record *r, td_tensor **t, const char *who) {
    td_tensor *real = *t, *seen = real;
    td_tensor *copy = td__ptrmap_get(&r->closed, real);
    if (copy) return td__record_tag(r, *t = copy);
    if (td__is_fake(real)) /* a later call would need its elements */
        return td__record_fail(
                   r, who,
                   "the body closes over a fake tensor (td_fake); pass it as "
                   "an argument"),
               NULL;
    if (r->close.fakes) seen = td__fake_copy(r->close.fakes, real);
    if (!seen || !may_close(r, seen, who)) return NULL;
    td_gval *v = add_const(r, real);
    if (!v || !(copy = td__fake_copy(&r->fakes, seen))) return NULL;
    *t = copy;
    td_tag *tag = tag_const(r, v, real, seen, copy);
    if (tag && !td__ptrmap_put(&r->closed, real, copy))
        return td__fail_memory(r->cx), NULL;
    return !is_shared(real->st) || td__record_siblings(r) ? tag : NULL;
}

/* The existing copy of t in this capture, else in the enclosing ones; NULL:
 * none. */
static td_tensor *copy_of(const td_record *r, const td_tensor *t) {
    const td_tensor *given = t;
    td_tensor       *copy = td__ptrmap_get(&r->closed, t), *outer = NULL;
    if (copy) return copy;
    if (r->outer) outer = copy_of(r->outer, t);
    if (r->close.fakes) given = td__ptrmap_get(&r->close.fakes->copies, t);
    if (outer) given = outer;
    copy = given ? td__ptrmap_get(&r->fakes.copies, given) : NULL;
    return copy ? copy : outer;
}

/* A body reads sizes or flags of t: must t become an input, so that the key of a call
 * contains it? Not if no key compares it (a nested body of eager code, or a program
 * whose arguments share its bytes), or if the body made t itself. */
static bool must_close(td_record *r, const td_tensor *t) {
    const td_fake_store *s = td__fake_store_of(&r->fakes, t);
    if (t->flags & TD_TF_TRACED || td__ptrmap_get(&r->closed, t)) return false;
    return !r->lift && (r->close.aliases || !s || !s->given);
}

td_tensor *td__record_seen_as(const td_mode *m, const td_tensor *t) {
    td_record *r = (td_record *)(uintptr_t)m, *outermost = r;
    td_tensor *real = (td_tensor *)(uintptr_t)t;
    while (outermost->outer) outermost = outermost->outer;
    if (must_close(outermost, t) && !td__record_value(outermost, &real, "a question"))
        return NULL;
    return copy_of(r, t);
}

/* Does t have the geometry its value has now? Not if t is an alias that the tape
 * saved and the original's metadata was written since. What the trace has learned since
 * about its symbols changes nothing. */
static bool is_current(const td_tensor *t, const td_tag *tag) {
    td_geom now = td__geom_of(t);
    return !tag->moved && td__geom_same(&tag->geom, &now);
}

/* Records as_strided to get the saved alias t, with its old metadata, from the value
 * that has changed since. */
static td_gval *restore_view(td_record *r, td_tensor *t, td_tag *tag, const char *who) {
    if (tag->moved || tag->type->dtype != t->dtype)
        return td__record_fail(
                   r, who,
                   "backward needs the value that a tensor had before set_ "
                   "gave it other storage; use a new tensor instead of set_"),
               NULL;
    int64_t size[TD_MAX_RANK], stride[TD_MAX_RANK];
    for (int d = 0; d < t->rank; d++) {
        size[d] = dim_of(r, t->size[d]);
        stride[d] = dim_of(r, t->stride[d]);
    }
    td_garg   in[4] = {td__garg_value(tag->v), td__garg_ints(size, t->rank),
                       td__garg_ints(stride, t->rank), td__record_int(r, t->offset)};
    td_gnode *n = td__graph_op(r->g, TD_OP_as_strided, in, 4, 1);
    if (!n || !td__record_place(r, n)) return NULL;
    return put_tag(r, t, n->out[0], tag->storage) ? n->out[0] : NULL;
}

/* The graph value of a tensor. An unknown tensor is closed over (an input, or a
 * constant), or lifted into the enclosing graph. If its metadata changed since it was
 * recorded, view ops that restore it are recorded first. NULL after td__fail. */
td_gval *td__record_value(td_record *r, td_tensor **t, const char *who) {
    td_tag *tag = td__record_tag(r, *t);
    if (tag && !tag->v) tag = NULL; /* its call failed */
    if (tag && !td__parts_request(r, tag)) tag = NULL;
    if (!tag && r->lift) tag = lift_tensor(r, t);
    else if (!tag && td__is_traced(*t) && !(tag = td__own_grad_input(r, *t))) {
        if (!td_ok(r->cx)) return NULL;
        return td__record_fail(
                   r, who,
                   "the body uses a fake tensor that it neither received nor made (the "
                   "base of an argument, or a tensor of another capture); pass it as "
                   "an argument"),
               NULL;
    }
    if (!tag && !r->lift) tag = close_over(r, t, who);
    if (!tag || !tag->type) return NULL; /* no memory, now or for its metadata before */
    return is_current(*t, tag) ? tag->v : restore_view(r, *t, tag, who);
}

/* ---- arguments ---------------------------------------------------------- */

/* Lists in a graph hold sizes. Numbers below -2^62 are reserved for symbols, so
 * they are refused. */
static bool take_ints(td_record *r, td_value v, td_garg *a, const char *who) {
    int64_t *ints = td__arena_alloc(&r->cx->scratch, sizeof *ints * (v.n + 1));
    if (!ints) return td__fail_memory(r->cx);
    for (uint32_t k = 0; k < v.n; k++) {
        ints[k] = dim_of(r, v.u.ints[k]);
        if (td__dim_is_sym(ints[k]) && td__dim_entry(ints[k], r->g->dims.n) < 0)
            return td__fail(r->cx, TD_E_UNSUPPORTED,
                            "%s: a list of integers contains %lld; a captured program "
                            "supports integers from -2^62 on in lists",
                            who, (long long)ints[k]);
    }
    *a = td__garg_ints(ints, (int)v.n);
    return true;
}

/* A list of tensors. Real ones are replaced by copies in a new list in scratch
 * memory: the caller's list stays as it is. */
static bool take_list(td_record *r, td_value *v, td_garg *a, const char *who) {
    td_arena   *room = &r->cx->scratch;
    td_garg    *list = td__arena_alloc(room, sizeof *list * (v->n + 1));
    td_tensor **ts = td__arena_alloc(room, sizeof *ts * (v->n + 1));
    if (!list || !ts) return td__fail_memory(r->cx);
    for (uint32_t k = 0; k < v->n; k++) {
        ts[k] = v->u.ts[k];
        list[k] = (td_garg){0};
        td_gval *g = ts[k] ? td__record_value(r, &ts[k], who) : NULL;
        if (ts[k] && !g) return false;
        if (g) list[k] = td__garg_value(g);
    }
    v->u.ts = ts;
    *a = (td_garg){TD_G_LIST, v->n, {0}};
    a->u.list = list;
    return true;
}

/* An argument of a recorded op. *v is updated if a closed-over tensor is replaced by
 * its fake copy. */
bool td__record_arg(td_record *r, td_value *v, td_garg *a, const char *who) {
    td_gval *g;
    switch ((td_kind)v->kind) {
    case TD_K_TENSOR:
        if (!(g = td__record_value(r, &v->u.t, who))) return false;
        *a = td__garg_value(g);
        return true;
    case TD_K_INT: *a = td__record_int(r, v->u.i); return true;
    case TD_K_INTS: return take_ints(r, *v, a, who);
    case TD_K_TENSORS: return take_list(r, v, a, who);
    default: return td__garg_of(v, a); /* td__record_graphs handles graphs */
    }
}

/* ---- results ------------------------------------------------------------ */

/* The tag of the first tensor argument that shares t's storage, or NULL. */
static td_tag *sharer(const td_record *r, const td_value *in, int n,
                      const td_tensor *t) {
    for (int i = 0; i < n; i++) {
        const td_value *v = &in[i];
        if (v->kind == TD_K_TENSOR && v->u.t != t && v->u.t->st == t->st)
            return td__record_tag(r, v->u.t);
        for (uint32_t k = 0; v->kind == TD_K_TENSORS && k < v->n; k++)
            if (v->u.ts[k] && v->u.ts[k] != t && v->u.ts[k]->st == t->st)
                return td__record_tag(r, v->u.ts[k]);
    }
    return NULL;
}

/* The storage number of result i: that of an argument or an earlier result with
 * the same storage, else a new one. */
static int32_t storage_for(td_record *r, const td_opcall *c, const td_value *in,
                           int i) {
    td_tag *tag = sharer(r, in, c->n_in, c->out[i]);
    for (int k = 0; !tag && k < i && k < TD_MAX_RESULTS; k++)
        if (c->out[k]->st == c->out[i]->st) tag = td__record_tag(r, c->out[k]);
    return tag ? tag->storage : r->g->n_storages++;
}

/* A result that is one of the arguments (an in-place op) keeps that argument's
 * value; only its type is updated. After set_ the tensor gets a tag of its own:
 * aliases keep the old storage and the old tag. */
static td_tag *update_tag(td_record *r, const td_opcall *c, const td_value *in, int i,
                          td_tag *tag) {
    td_tensor *t = c->out[i];
    if (c->info->op == TD_OP_set_) { /* aliases keep the old bytes, and the old tag */
        td_tag         *from = sharer(r, in, c->n_in, t);
        const td_gtype *first = tag->v->type;
        tag->moved = true;
        tag = put_tag(r, t, tag->v, from ? from->storage : tag->storage);
        if (tag) tag->v->type = first;
        return tag;
    }
    return note_type(r, tag, t, tag->storage);
}

/* Tags the results of an op with their graph values. In-place ops return a known
 * tensor, whose tag moves to the new value. `hidden` marks parts of a composite that is
 * recorded whole. */
bool td__record_results(td_record *r, const td_opcall *c, const td_value *in,
                        td_gnode *n, int32_t hidden) {
    for (int i = 0; i < c->n_out; i++) {
        /* an alias of an inner tensor, but a value without history */
        if (TD_UNLIKELY(c->info->op == TD_OP__inner)) c->out[i]->payload = NULL;
        td_tag *tag = td__record_tag(r, c->out[i]);
        bool    known =
            tag && tag->v && (tag->hidden < 0 || tag->hidden < r->expansions.n);
        if (known) tag = update_tag(r, c, in, i, tag);
        else if (tag && tag->v && hidden < 0) tag = td__parts_adopt(r, tag, n, i);
        else tag = put_tag(r, c->out[i], n->out[i], storage_for(r, c, in, i));
        if (!tag) return false;
        if (!known) tag->hidden = hidden;
        n->out[i]->type = tag->type;
    }
    return true;
}

/* ---- tensors of a type that the body makes ------------------------------ */

/* td__typed_leaves */
static bool give_away(void *env, td_tensor *leaf) {
    (void)env;
    return leaf->st->inner = true;
}

/* Is it the storage of an argument, or of a tensor that the body closes over? */
static bool is_from_outside(const td_record *r, td_tensor *t) {
    const td_tag *tag = td__record_tag(r, t);
    for (int i = 0; tag && i < r->g->inputs.n; i++) {
        const td_gtype *type = r->g->inputs.v[i]->type;
        if (type && type->storage == tag->storage) return true;
    }
    return !tag;
}

void td__record_wrapped(const td_record *r, const td_opcall *c, const td_value *in) {
    bool shared = false;
    for (uint32_t i = 0; i < in[0].n; i++) {
        td_tensor *t = in[0].u.ts[i];
        shared |= t->st->inner || is_from_outside(r, t);
        t->st->inner = true;
        if (t->typed) td__typed_leaves(t, give_away, NULL);
    }
    if (shared) c->out[0]->st->inner = true;
}
