/* typed_layout.c -- what results of a type own and how they are laid out: inner tensors
 * that no argument has, in the strides that eager's ops give. */
#include "ops/cast.h"
#include "ops/typed_int.h"

/* ---- results that own their elements ------------------------------------ */

/* A search for a storage among the arguments. */
typedef struct search {
    const td_storage *st;
    bool              found;
} search;

static bool compare_leaf(void *env, td_tensor *leaf) {
    search *s = env;
    s->found |= leaf->st == s->st;
    return !s->found;
}

/* Does an argument, or an inner tensor of one, have the storage? */
static bool is_argument(const td_opcall *c, const td_storage *st) {
    search s = {st, false};
    for (int i = 0; i < c->n_in; i++) {
        td_value          v = c->in[i];
        td_tensor *const *ts = v.kind == TD_K_TENSORS ? v.u.ts : &v.u.t;
        uint32_t          n = v.kind == TD_K_TENSORS ? v.n : v.kind == TD_K_TENSOR;
        for (uint32_t k = 0; k < n; k++)
            if (ts[k]) td__typed_leaves(ts[k], compare_leaf, &s);
    }
    return s.found;
}

td_tensor *td__typed_wrap_as(const td_tensor *t, td_tensor **inner,
                             const int64_t *stride) {
    const td_typed *d = t->typed;
    td_value        in[6] = {{.kind = TD_K_TENSORS, .n = (uint32_t)d->n},
                             {.kind = TD_K_STR},
                             {.kind = TD_K_STR},
                             {.kind = TD_K_INTS, .n = t->rank},
                             {.kind = TD_K_INTS, .n = stride ? t->rank : 0},
                             {.kind = TD_K_DTYPE}};
    in[0].u.ts = inner;
    in[1].u.s = d->type->opts.name;
    in[2].u.s = d->metadata;
    in[3].u.ints = t->size;
    in[4].u.ints = stride;
    in[5].u.dt = (td_dtype)t->dtype;
    return td__call1(t->cx, TD_OP__wrap, in, 6);
}

td_tensor *td__typed_rewrap(td_tensor *t, td_tensor **inner) {
    return td__typed_wrap_as(t, inner, t->stride);
}

/* Nested types own their inner tensors, too. */
static td_tensor *owned_typed(td_opcall *c, td_tensor *t) {
    td_tensor *inner[TD_MOST_INNER];
    bool       other = false;
    for (int i = 0; i < t->typed->n; i++) {
        inner[i] = td__typed_owned(c, t->typed->inner[i]);
        if (td_is_nil(inner[i])) return inner[i];
        other |= inner[i] != t->typed->inner[i];
    }
    return other ? td__typed_rewrap(t, inner) : t;
}

/* t, or a copy where it shares a storage with an argument. nil after td__fail. */
td_tensor *td__typed_owned(td_opcall *c, td_tensor *t) {
    if (t->typed) return owned_typed(c, t);
    return is_argument(c, t->st) ? td_op_clone(t, false) : t;
}

/* A plain tensor in these strides. */
static td_tensor *in_strides(td_tensor *t, const int64_t *want) {
    if (td__dims_seem_eq(t->stride, want, t->rank)) return t;
    td_ints    size = {t->size, t->rank}, stride = {want, t->rank};
    td_tensor *to =
        td__empty_on(t->cx, t->st->device, size, stride, (td_dtype)t->dtype);
    return td_op_copy(to, t, false);
}

/* The strides of the op's rule; `dense` is memory for them. */
static const int64_t *strides_of(const td_meta *m, int64_t *dense) {
    td__strides_dense(m->rank, m->size, dense);
    return m->strided ? m->stride : dense;
}

/* A result in the strides of the op's rule: traces rely on them. A tensor of a type
 * only states them; its inner tensors have strides of their own. */
td_tensor *td__typed_in_rule(td_tensor *t, const td_meta *m) {
    int64_t        dense[TD_MAX_RANK];
    const int64_t *want = strides_of(m, dense);
    if (!t->typed) return in_strides(t, want);
    if (td__dims_seem_eq(t->stride, want, t->rank)) return t;
    return td__typed_wrap_as(t, t->typed->inner, want);
}

td_tensor *td__typed_laid_out(td_tensor *value, td_tensor *like) {
    td_tensor *inner[TD_MOST_INNER];
    bool       other = !td__dims_seem_eq(value->stride, like->stride, like->rank);
    if (!value->typed) return value;
    for (int i = 0; i < value->typed->n; i++) {
        td_tensor *was = value->typed->inner[i], *as = like->typed->inner[i];
        inner[i] = was->typed                ? td__typed_laid_out(was, as)
                   : td__same_sizes(was, as) ? in_strides(was, as->stride)
                                             : was;
        if (!inner[i] || td_is_nil(inner[i])) return NULL;
        other |= inner[i] != was;
    }
    if (other) value = td__typed_wrap_as(value, inner, like->stride);
    return td_is_nil(value) ? NULL : value;
}

/* The strides of a gradient of t, which has its sizes: those of t without gaps, else
 * row-major. */
static const int64_t *grad_strides(const td_tensor *t, int64_t *dense) {
    if (td__is_packed(t->rank, t->size, t->stride)) return t->stride;
    td__strides_dense(t->rank, t->size, dense);
    return dense;
}

const td_tensor *td__typed_inner_like(const td_tensor *t, const td_tensor *like,
                                      int i) {
    const td_tensor *inner = t->typed->inner[i];
    if (td__typed_same(t->typed, like->typed)) like = like->typed->inner[i];
    return td__same_sizes(inner, like) ? like : inner;
}

td_tensor *td__typed_empty(const td_tensor *t, const td_tensor *like) {
    td_tensor     *inner[TD_MOST_INNER];
    int64_t        dense[TD_MAX_RANK];
    td_ints        size = {t->size, t->rank};
    const int64_t *stride = grad_strides(td__same_sizes(t, like) ? like : t, dense);
    if (!t->typed)
        return td__empty_on(t->cx, t->st->device, size, (td_ints){stride, t->rank},
                            (td_dtype)t->dtype);
    for (int i = 0; i < t->typed->n; i++) {
        inner[i] =
            td__typed_empty(t->typed->inner[i], td__typed_inner_like(t, like, i));
        if (td_is_nil(inner[i])) return inner[i];
    }
    return td__typed_wrap_as(t, inner, stride);
}

td_tensor *td__filled_like(const td_tensor *like, double value) {
    td_tensor *inner[TD_MOST_INNER];
    td_dtype   dt = (td_dtype)like->dtype;
    td_value   v = td__is_differentiable(dt) ? td_value_float(value) : td_value_int(0);
    if (!like->typed) {
        uint8_t    was = td__make_on(like->cx, like->st->device);
        td_tensor *t = td_op_full(like->cx, td__sizes(like), v, dt);
        td__make_on(like->cx, was);
        return t;
    }
    for (int i = 0; i < like->typed->n; i++) {
        inner[i] = td__filled_like(like->typed->inner[i], value);
        if (td_is_nil(inner[i])) return inner[i];
    }
    return td__typed_wrap_as(like, inner, NULL);
}

/* A copy with copies of the inner tensors. nil after td__fail. */
td_tensor *td__typed_copied(td_tensor *t) {
    td_tensor *inner[TD_MOST_INNER];
    if (!t->typed) return td_op_clone(t, false);
    for (int i = 0; i < t->typed->n; i++) {
        inner[i] = td__typed_copied(t->typed->inner[i]);
        if (td_is_nil(inner[i])) return inner[i];
    }
    return td__typed_rewrap(t, inner);
}

/* copy of a tensor of the same type, metadata and sizes: whatever the type computes of
 * it, the copy has the inner tensors of the source. */
bool td__typed_is_same_copy(const td_opcall *c) {
    const td_tensor *to = td__in(c, 0), *from = td__in(c, 1);
    return c->info->op == TD_OP_copy && to->typed && to->dtype == from->dtype &&
           td__typed_same_inside(to->typed, from->typed) && td__same_sizes(to, from);
}
