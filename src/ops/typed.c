/* typed.c -- ops on tensors of a type (tandem/type.h). An op reaches this file below
 * the tape, where kernels would run: the function of the type computes it with ops on
 * inner tensors. What holds for all types is here: the sizes and dtype of a result are
 * those of the op's own rule; a view of a tensor has views of its inner tensors; a
 * write computes the new value by the functional twin and copies that, inner tensor by
 * inner tensor; results of other ops share no inner tensor with an argument. */
#include "core/callback.h"
#include "core/readonly.h"
#include "ops/call.h"
#include "ops/typed_int.h"
#include "ops/cast.h"

#include <string.h>

/* ---- whose call it is --------------------------------------------------- */

/* The first argument of a type, in lists too; NULL: all are plain. */
static td_tensor *first_typed(const td_opcall *c) {
    for (int i = 0; i < c->n_in; i++) {
        td_value v = c->in[i];
        if (v.kind == TD_K_TENSOR && v.u.t && v.u.t->typed) return v.u.t;
        for (uint32_t k = 0; v.kind == TD_K_TENSORS && k < v.n; k++)
            if (v.u.ts[k] && v.u.ts[k]->typed) return v.u.ts[k];
    }
    return NULL;
}

/* Steps of compiled calls change flags and histories, which any tensor has. The graphs
 * of an op take tensors of a type, and their ops are computed by it. */
bool td__call_is_typed(const td_opcall *c) {
    uint32_t any = TD_OPF_TYPED | TD_OPF_TAPE | TD_OPF_NESTS;
    return c->def->typed_fn || (!(c->def->flags & any) && first_typed(c));
}

/* The op that stands for `name` in the list of a type; `op`: none does. */
static td_op instead_of(td_op op, const char *const *pair) {
    const char *name = td__row(op)->name;
    for (; pair && pair[0]; pair += 2)
        if (!strcmp(pair[0], name)) {
            td_op other = td__op_find(pair[1]);
            return other == TD_OP_COUNT ? op : other;
        }
    return op;
}

bool td__typed_replaces(const char *type, td_op op) {
    const td_type *t = td__type_find(type);
    return t && instead_of(op, t->opts.instead) != op;
}

/* Arguments are not checked yet: some may be nil or freed. */
td_op td__typed_instead(td_op op, const td_value *in, int n_in) {
    for (int i = 0; i < n_in; i++) {
        const td_tensor *t = in[i].kind == TD_K_TENSOR ? in[i].u.t : NULL;
        if (t && td__is_live(t, TD_H_TENSOR) && t->typed)
            return instead_of(op, t->typed->type->opts.instead);
    }
    return op;
}

/* Payloads begin with the mode that owns them. */
bool td__inner_is_known(const td_mode *m, const td_opcall *c) {
    const td_typed *d = c->info->op == TD_OP__inner ? td__in(c, 0)->typed : NULL;
    int64_t         i = d ? c->in[1].u.i : -1;
    td_mode       **owner = i >= 0 && i < d->n ? d->inner[i]->payload : NULL;
    return owner && *owner == m;
}

static bool fail_unsupported(td_opcall *c, const td_type *type, const char *why) {
    return td__op_fail(c, TD_E_UNSUPPORTED, "unsupported for a tensor of type %s: %s",
                       type->opts.name, why);
}

/* ---- the function of the type ------------------------------------------- */

/* Every result is there. */
static bool check_answers(td_opcall *c, const td_type *type) {
    for (int i = 0; i < c->n_out; i++)
        if (!c->out[i] || td_is_nil(c->out[i]))
            return td__op_fail(c, TD_E_ARG,
                               "the function of type %s gave no result %d; it answers "
                               "by td_type_each, td_type_plain or td_mode_call_answer",
                               type->opts.name, i);
    return true;
}

/* The row's own function computes c->out; errors of the ops that it calls name the
 * row. */
static bool call_row(td_opcall *c) {
    const td_opinfo *outer = c->cx->composite;
    if (!outer) c->cx->composite = c->info;
    c->cx->handling++;
    bool ok = c->def->typed_fn(c);
    c->cx->handling--;
    c->cx->composite = outer;
    for (int i = 0; i < c->n_out && ok; i++) ok = c->out[i] && !td_is_nil(c->out[i]);
    return ok && td_ok(c->cx);
}

/* Has the function compute c->out. Ops that it calls begin at cx->top: the kernels, or
 * a recorder that sees ops on inner tensors. */
static bool call_type(td_opcall *c, const td_type *type) {
    if (c->def->typed_fn) return call_row(c);
    td_ctx      *cx = c->cx;
    td_mode_call h = {.handle = TD_LIVE(MODE_CALL, cx), .type = type, .c = c};
    bool         ok;
    cx->handling++;
    TD_CALLBACK(cx, ok = type->opts.call(type->opts.env, &h));
    cx->handling--;
    TD_ENDED(&h, MODE_CALL);
    if (!ok && td_ok(cx))
        td__op_fail(c, TD_E_ARG,
                    "the function of type %s returned false without an error; record "
                    "the reason with td_fail",
                    type->opts.name);
    return ok && td_ok(cx) && check_answers(c, type);
}

/* Has the result the sizes and dtype of the op's own rule? Autograd relies on it. */
static bool check_result(td_opcall *c, const td_type *type, int i) {
    const td_meta   *m = &c->meta[i];
    const td_tensor *t = c->out[i];
    bool             same = m->rank == t->rank && m->dtype == (td_dtype)t->dtype &&
                td__dims_eq(m->size, t->size, t->rank);
    return same ||
           td__op_fail(c, TD_E_SHAPE,
                       "the function of type %s gave %s for result %d, which "
                       "is %s%s",
                       type ? type->opts.name : "none", td__type_str(t), i,
                       td_dtype_name(m->dtype), td__sizes_str(m->rank, m->size));
}

/* ---- kinds of ops ------------------------------------------------------- */

/* An op that computes new tensors. Without a shape rule that needs no elements, the
 * function of the type says what the results are. */
static bool exec_fresh(td_opcall *c, const td_type *type) {
    bool rule = c->def->shape && !(c->def->flags & TD_OPF_DYNAMIC);
    if (rule && !c->def->shape(c)) return false;
    if (td__typed_is_same_copy(c)) c->out[0] = td__typed_copied(td__in(c, 1));
    else if (!call_type(c, type)) return false;
    for (int i = 0; i < c->n_out; i++) {
        if (rule && !check_result(c, type, i)) return false;
        c->out[i] = td__typed_owned(c, c->out[i]);
        if (rule && !td_is_nil(c->out[i]))
            c->out[i] = td__typed_in_rule(c->out[i], &c->meta[i]);
        if (td_is_nil(c->out[i])) return false;
    }
    return true;
}

bool td__typed_no_view(td_opcall *c, const td_type *type) {
    return fail_unsupported(c, type,
                            "it has no such view, and a view is of the type of what it "
                            "shows; view a clone or a plain tensor");
}

/* Below functionalization a view is a tensor of its own, which counts elements from the
 * start of a storage as large as that of the viewed tensor. */
static td_tensor *flat_view(td_tensor *view, const td_tensor *self, const td_meta *m) {
    view = td__typed_in_rule(view, m);
    if (td_is_nil(view) || view->st == self->st) return view;
    view->st->bytes = self->st->bytes;
    view->st->span = self->st->span;
    view->st->open = self->st->open;
    return view;
}

/* A view: eager's view of the tensor, with what the type gave inside. */
static bool exec_typed_view(td_opcall *c, const td_type *type, bool flat) {
    td_tensor *self = td__in(c, c->info->view_of);
    if (!self->typed)
        return fail_unsupported(c, type, "the viewed tensor is a plain one");
    if (!c->def->shape(c) || !call_type(c, type)) return false;
    for (int i = 0; i < c->n_out; i++) {
        if (!check_result(c, type, i)) return false;
        if (!c->out[i]->typed || c->out[i]->typed->type != self->typed->type)
            return td__typed_no_view(c, type);
    }
    for (int i = 0; flat && i < c->n_out; i++) {
        c->out[i] = flat_view(c->out[i], self, &c->meta[i]);
        if (td_is_nil(c->out[i])) return false;
    }
    if (flat) return true;
    size_t      n = sizeof(td_tensor *) * (size_t)(c->n_out + 1);
    td_tensor **got = td__arena_alloc(&c->cx->scratch, n);
    if (!got) return td__fail_memory(c->cx);
    for (int i = 0; i < c->n_out; i++) got[i] = c->out[i];
    if (!td__exec_view(c)) return false;
    for (int i = 0; i < c->n_out; i++) td__typed_set(c->out[i], got[i]->typed);
    return true;
}

/* Types nest: an inner tensor may have to be packed, too. NULL after td__fail. */
static td_tensor *inner_for(td_ctx *cx, const char *op, td_tensor *value,
                            td_tensor *like) {
    td_tensor *inner[TD_MOST_INNER];
    bool       other = false;
    for (int i = 0; value->typed && i < value->typed->n; i++) {
        td_tensor *was = value->typed->inner[i];
        inner[i] = td__typed_for(cx, op, was, like->typed->inner[i]);
        if (!inner[i]) return NULL;
        other |= inner[i] != was;
    }
    if (other) value = td__typed_rewrap(value, inner);
    return td_is_nil(value) ? NULL : value;
}

td_tensor *td__typed_for(td_ctx *cx, const char *op, td_tensor *value,
                         td_tensor *like) {
    const td_typed *want = like->typed, *is = value->typed;
    char            a[120], b[120];
    if (td__typed_same(want, is)) return inner_for(cx, op, value, like);
    if (want && !is && want->type->opts.pack) {
        td_tensor *t = NULL;
        cx->handling++;
        TD_CALLBACK(cx, t = want->type->opts.pack(want->type->opts.env, value, like));
        cx->handling--;
        if (t && !td_is_nil(t) && td_ok(cx) && td__typed_same(want, t->typed) &&
            td__same_sizes(t, like))
            return t;
        if (td_ok(cx))
            td__fail(cx, TD_E_ARG,
                     "%s: pack of type %s gave no tensor of that type, metadata and "
                     "sizes",
                     op, want->type->opts.name);
        return NULL;
    }
    td__fail(cx, TD_E_ARG,
             "%s: the result is %s, and the written tensor is %s; types and metadata "
             "must be equal%s",
             op, td__typed_str(is, a, sizeof a), td__typed_str(want, b, sizeof b),
             want && !is ? " (td_type_opts.pack would convert it)" : "");
    return NULL;
}

/* Do the inner tensors of a value fit those of the written tensor? */
static bool inner_fit(const td_tensor *to, const td_tensor *value) {
    for (int i = 0; to->typed && i < to->typed->n; i++) {
        const td_tensor *a = to->typed->inner[i], *b = value->typed->inner[i];
        if (!td__same_sizes(a, b) || a->dtype != b->dtype)
            return td__fail(to->cx, TD_E_SHAPE,
                            "a write to a tensor of type %s: its inner tensor %s is "
                            "%s, and the new one is %s",
                            to->typed->type->opts.name, to->typed->type->opts.inner[i],
                            td__type_str(a), td__type_str(b));
        if (b->typed && !inner_fit(a, b)) return false;
    }
    return true;
}

bool td__typed_copy(td_tensor *to, td_tensor *value) {
    if (!inner_fit(to, value)) return false;
    bool ok = true;
    to->cx->handling++; /* the whole is written, not an inner tensor by the body */
    for (int i = 0; i < to->typed->n && ok; i++)
        ok =
            !td_is_nil(td_op_copy_(to->typed->inner[i], value->typed->inner[i], false));
    to->cx->handling--;
    return ok;
}

/* The functional twin on the same arguments; nil after td__fail. */
static td_tensor *call_twin(td_opcall *c) {
    return td__call1(c->cx, c->info->pure, c->in, c->n_in);
}

/* t_, unsqueeze_...: the tensor becomes what its twin, a view, gives. */
static bool exec_typed_meta(td_opcall *c, const td_type *type) {
    td_tensor *self = td__in(c, 0);
    if (c->info->pure == TD_OP_COUNT || !self->typed)
        return fail_unsupported(c, type,
                                "it has no storage of its own to exchange or resize");
    td_tensor *view = call_twin(c);
    if (td_is_nil(view) || !td__exec_meta_write(c)) return false;
    td__typed_set(self, view->typed);
    return true;
}

/* May this inner tensor of the written tensor be written? */
static bool may_write_leaf(void *env, td_tensor *leaf) {
    td_opcall *c = env;
    if (leaf->st->readonly)
        return td__op_fail(c, TD_E_ALIAS,
                           "an inner tensor of the written tensor " TD_READONLY_CLONE);
    return !td__overlaps_itself(leaf) ||
           td__op_fail(
               c, TD_E_ALIAS,
               "several elements of an inner tensor, %s, of the written tensor "
               "have the same address, as in an expanded view; write to a clone",
               td__type_str(leaf));
}

/* The checks of a write to any tensor, and of one to each inner tensor. */
static bool may_write(td_opcall *c, td_tensor *self) {
    return td__may_write(c, &c->info->s.in[0], self) &&
           (!self->typed || td__typed_leaves(self, may_write_leaf, c));
}

/* Puts the new value in place. A plain tensor is written if another argument of the op
 * is of a type. In a capture there are no elements; inner tensors have versions, by
 * which plain arguments that share them are stale views. */
static bool put_value(td_tensor *self, td_tensor *value) {
    if (self->typed) return td__typed_copy(self, value);
    return td__is_fake(self) || td__copy_into(self, value);
}

/* Computes the new value, and copies it into the inner tensors of the written
 * tensor. */
static bool exec_typed_write(td_opcall *c, const td_type *type) {
    td_tensor *self = td__in(c, 0);
    if (c->def->flags & TD_OPF_META) return exec_typed_meta(c, type);
    if (c->info->pure == TD_OP_COUNT || !self || !c->info->s.in[0].write)
        return fail_unsupported(c, type, "it writes arguments in a way of its own");
    if (!may_write(c, self)) return false;
    td_tensor *value = call_twin(c);
    if (td_is_nil(value)) return false;
    if (value->dtype != self->dtype &&
        td__can_cast((td_dtype)value->dtype, (td_dtype)self->dtype))
        value = td_op__to_copy(value, (td_dtype)self->dtype);
    if (td_is_nil(value)) return false;
    if (!td__same_sizes(value, self) || value->dtype != self->dtype)
        return td__op_fail(c, TD_E_SHAPE, "a result %s does not fit the written %s",
                           td__type_str(value), td__type_str(self));
    if (!(value = td__typed_for(c->cx, td__op_name(c), value, self))) return false;
    if (!inner_fit(self, value)) return false;
    if (!put_value(self, value)) return false;
    td__count_write(c, self);
    c->out[0] = self;
    return true;
}

bool td__exec_typed(td_opcall *c, bool flat) {
    const td_tensor *first = first_typed(c); /* NULL: the row makes one */
    const td_type   *type = first ? first->typed->type : NULL;
    if (!td__scope_push(c->cx)) return false;
    bool ok = c->info->writes               ? exec_typed_write(c, type)
              : c->def->flags & TD_OPF_VIEW ? exec_typed_view(c, type, flat)
                                            : exec_fresh(c, type);
    for (int i = 0; i < c->n_out && ok; i++) ok = c->out[i] && !td_is_nil(c->out[i]);
    td__scope_pop(c->cx, c->out, ok && !c->info->writes ? c->n_out : 0);
    return ok && td_ok(c->cx);
}

/* ---- the ops _inner and _wrap ------------------------------------------- */

/* A captured body gets an inner tensor in a storage of its own: compiled code could not
 * say that a write to it writes the whole, so that is refused (td_storage.inner). */
static bool part_from_whole(td_opcall *c, td_tensor *t) {
    td_storage *st = td__storage_make(t->st->bytes, true);
    if (!st) return td__fail_memory(c->cx);
    st->span = t->st->span;
    st->open = t->st->open;
    st->device = t->st->device;
    st->inner = true;
    td__tensor_set_storage(t, st);
    td__storage_drop(st);
    return true;
}

bool td__kern_inner(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    i = c->in[1].u.i;
    if (!t->typed || i < 0 || i >= t->typed->n)
        return td__op_fail(c, TD_E_INDEX, "%s has no inner tensor %lld",
                           t->typed ? t->typed->type->opts.name : "a plain tensor",
                           (long long)i);
    c->out[0] = td__tensor_alias(c->cx, t->typed->inner[i]);
    if (!c->out[0]) return false;
    return !c->cx->fake || c->cx->handling || part_from_whole(c, c->out[0]);
}

/* The inner tensors of a call of _wrap: as many as the type has. */
static bool check_inner(td_opcall *c, const td_type *type) {
    const td_value *v = &c->in[0];
    if ((int)v->n != type->opts.n_inner)
        return td__op_fail(c, TD_E_ARG,
                           "a tensor of type %s has %d inner tensors, got %d",
                           type->opts.name, type->opts.n_inner, (int)v->n);
    for (uint32_t i = 0; i < v->n; i++)
        if (td__typed_depth(v->u.ts[i]) >= TD_TYPE_DEPTH)
            return td__op_fail(c, TD_E_ARG, "types are nested more than %d levels deep",
                               TD_TYPE_DEPTH);
    return true;
}

/* The geometry that the arguments of _wrap state. */
static bool read_geometry(td_opcall *c, td_meta *m) {
    const td_value *size = &c->in[3], *stride = &c->in[4];
    if (size->n > TD_MAX_RANK || (stride->n && stride->n != size->n))
        return td__op_fail(c, TD_E_SHAPE,
                           "there are %u sizes and %u strides; strides are left out or "
                           "as many as sizes, at most %d",
                           size->n, stride->n, TD_MAX_RANK);
    m->dtype = c->in[5].u.dt;
    m->rank = (int)size->n;
    m->strided = stride->n > 0;
    m->device = c->device;
    m->offset = 0;
    for (uint32_t d = 0; d < size->n; d++) {
        m->size[d] = size->u.ints[d];
        if (td__dim_is_negative(m->size[d]))
            return td__op_fail(c, TD_E_SHAPE, "a size is negative: %s",
                               td__sizes_str(m->rank, size->u.ints));
        if (m->strided) m->stride[d] = stride->u.ints[d];
        if (m->strided && td__dim_is_negative(m->stride[d]))
            return td__op_fail(c, TD_E_SHAPE, "a stride is negative: %s",
                               td__sizes_str(m->rank, stride->u.ints));
    }
    return true;
}

/* The result is made as a fake tensor, which checks its sizes; where its inner tensors
 * have elements its storage is exchanged for one that counts as real. */
bool td__kern_wrap(td_opcall *c) {
    const td_type *type = td__type_find(c->in[1].u.s);
    td_meta        m;
    if (!type)
        return td__op_fail(c, TD_E_ARG,
                           "no type %.60s is registered (td_register_type)",
                           c->in[1].u.s);
    if (!check_inner(c, type) || !read_geometry(c, &m)) return false;
    td_tensor *t = td__tensor_make(c->cx, &m, true);
    td_typed  *d = t ? td__typed_make(c->cx, type, c->in[0].u.ts, c->in[2].u.s) : NULL;
    if (!d) return false;
    td__typed_set(t, d);
    td__typed_drop(d);
    c->out[0] = t;
    if (td__call_is_fake(c)) return true;
    td_storage *st = td__storage_hollow(t->st->bytes);
    if (!st) return td__fail_memory(c->cx);
    st->device = t->st->device;
    td__tensor_set_storage(t, st);
    td__storage_drop(st);
    return true;
}
