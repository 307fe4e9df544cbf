/* typed_api.c -- public functions of tandem/type.h that call ops: they make tensors of
 * a type, read inner tensors, and compute an op for the function of a type. */
#include "core/callback.h"
#include "ops/typed_int.h"

#include <string.h>

/* ---- making and reading ------------------------------------------------- */

/* In a captured body the inner tensors are values of the body's own, and belong to the
 * new tensor from then on (td__record_wrapped): eager's would be aliases, which
 * compiled code could not tell from copies. */
static bool may_wrap(td_tensor *t) {
    if (!t->cx->fake || t->cx->handling) return true;
    if (!(t->flags & TD_TF_TRACED) || t->base || t->st->inner)
        return td__fail(t->cx, TD_E_UNSUPPORTED,
                        "td_type_make: unsupported in a captured body: an inner tensor "
                        "is an argument, a view or another's inner tensor, with which "
                        "the new tensor would share elements; pass a clone");
    return true;
}

static bool check_list(td_ctx *cx, td_tensors inner) {
    for (int i = 0; i < inner.n; i++) {
        if (!td__enter_in(cx, inner.v[i], TD_H_TENSOR, "td_type_make")) return false;
        if (inner.v[i]->cx != cx)
            return td__fail(cx, TD_E_ARG,
                            "td_type_make: inner tensor %d belongs to another context",
                            i);
        if (!may_wrap(inner.v[i])) return false;
    }
    return true;
}

td_tensor *td_type_make(const td_type *type, td_tensors inner, const char *metadata,
                        td_ints size, td_ints stride, td_dtype dtype) {
    static const char who[] = "td_type_make";
    td_tensor        *first = inner.n > 0 && inner.v ? inner.v[0] : NULL;
    if (!TD_ENTER(first, TENSOR)) return TD_NIL_BY(first, TENSOR);
    td_ctx *cx = first->cx;
    if (!td__has(cx, who, "the type", type) || !td__has_list(cx, who, size.v, size.n) ||
        !td__has_list(cx, who, stride.v, stride.n) || !check_list(cx, inner))
        return td_nil(cx);
    td_value in[6] = {{.kind = TD_K_TENSORS, .n = (uint32_t)inner.n},
                      {.kind = TD_K_STR},
                      {.kind = TD_K_STR},
                      {.kind = TD_K_INTS, .n = (uint32_t)size.n},
                      {.kind = TD_K_INTS, .n = (uint32_t)stride.n},
                      {.kind = TD_K_DTYPE}};
    in[0].u.ts = inner.v;
    in[1].u.s = type->opts.name;
    in[2].u.s = metadata ? metadata : "";
    in[3].u.ints = size.v;
    in[4].u.ints = stride.v;
    in[5].u.dt = dtype;
    return td__call1(cx, TD_OP__wrap, in, 6);
}

td_tensor *td_type_inner(td_tensor *t, int i) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    td_value in[2] = {td_value_tensor(t), td_value_int(i)};
    return td__call1(t->cx, TD_OP__inner, in, 2);
}

/* ---- answers ------------------------------------------------------------ */

/* Is h a call that a type has received? */
static bool of_type(td_mode_call *h, const char *who) {
    if (!TD_ENTER(h, MODE_CALL)) return false;
    return h->type || td__op_fail(h->c, TD_E_ARG,
                                  "%s: only the function of a type (td_type_opts.call) "
                                  "may call it, not a mode's",
                                  who);
}

/* What takes the place of an argument of the type. */
typedef struct swap {
    td_mode_call   *h;
    int             nr;    /* the inner tensor that does; -1: the plain tensor */
    const td_typed *first; /* of the first argument of the type */
} swap;

static bool has_same_metadata(const swap *s, const td_typed *d) {
    char a[120], b[120];
    return td__typed_same(s->first, d) ||
           td__op_fail(s->h->c, TD_E_ARG,
                       "td_type_each: its arguments are %s and %s; their metadata must "
                       "be equal",
                       td__typed_str(s->first, a, sizeof a),
                       td__typed_str(d, b, sizeof b));
}

/* as_strided and its like address a storage: that of an inner tensor is addressed in
 * the same way only if it is laid out as the tensor. */
static bool has_same_places(const swap *s, const td_tensor *t, const td_tensor *inner) {
    bool same = t->rank == inner->rank && t->offset == inner->offset &&
                td__dims_seem_eq(t->stride, inner->stride, t->rank);
    return same || !(s->h->c->def->flags & TD_OPF_PLACES) ||
           td__op_fail(s->h->c, TD_E_UNSUPPORTED,
                       "unsupported for a tensor of type %s whose inner tensors have "
                       "other strides than it has",
                       s->h->type->opts.name);
}

/* nil after td__fail. */
static td_tensor *swapped(swap *s, td_tensor *t) {
    const td_type *type = s->h->type;
    td_ctx        *cx = s->h->c->cx;
    if (!t || !t->typed || t->typed->type != type) return t;
    if (s->nr < 0) {
        td_tensor *plain = NULL;
        TD_CALLBACK(cx, plain = type->opts.plain(type->opts.env, t));
        return plain ? plain : td_nil(cx);
    }
    if (!s->first) s->first = t->typed;
    if (!has_same_metadata(s, t->typed) ||
        !has_same_places(s, t, t->typed->inner[s->nr]))
        return td_nil(cx);
    return t->typed->inner[s->nr];
}

/* The arguments with that in place. Lists are in the scratch memory of the call. */
static bool swap_all(swap *s, td_value *in) {
    td_opcall *c = s->h->c;
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i];
        if (in[i].kind == TD_K_TENSOR) in[i].u.t = swapped(s, in[i].u.t);
        if (in[i].kind == TD_K_TENSOR && td_is_nil(in[i].u.t)) return false;
        if (in[i].kind != TD_K_TENSORS) continue;
        td_tensor **ts =
            td__arena_alloc(&c->cx->scratch, sizeof *ts * ((size_t)in[i].n + 1));
        if (!ts) return td__fail_memory(c->cx);
        for (uint32_t k = 0; k < in[i].n; k++) {
            ts[k] = swapped(s, in[i].u.ts[k]);
            if (ts[k] && td_is_nil(ts[k])) return false;
        }
        in[i].u.ts = ts;
    }
    return true;
}

/* Wraps the inner results of result i: got[k * n_out + i]. */
static bool wrap_result(const swap *s, td_tensor *const *got, int i) {
    td_opcall     *c = s->h->c;
    const td_meta *m = &c->meta[i];
    td_tensor     *inner[TD_MOST_INNER];
    int64_t        stride[TD_MAX_RANK];
    int            n = s->h->type->opts.n_inner;
    for (int k = 0; k < n; k++) inner[k] = got[k * c->n_out + i];
    td__strides_dense(m->rank, m->size, stride);
    td_ints size = {m->size, m->rank};
    td_ints given = {m->strided ? m->stride : stride, m->rank};
    c->out[i] = td_type_make(s->h->type, (td_tensors){inner, n}, s->first->metadata,
                             size, given, m->dtype);
    return !td_is_nil(c->out[i]);
}

bool td_type_each(td_mode_call *h) {
    static const char who[] = "td_type_each";
    if (!of_type(h, who)) return false;
    td_opcall *c = h->c;
    if (!c->def->shape || c->def->flags & TD_OPF_DYNAMIC)
        return td__op_fail(c, TD_E_UNSUPPORTED,
                           "td_type_each: the sizes of its results depend on elements");
    int         n = h->type->opts.n_inner;
    size_t      bytes = sizeof(td_tensor *) * (size_t)(n * c->n_out + 1);
    td_tensor **got = td__arena_zalloc(&c->cx->scratch, bytes);
    swap        s = {.h = h};
    if (!got) return td__fail_memory(c->cx);
    for (s.nr = 0; s.nr < n; s.nr++) {
        td_value in[TD_MAX_ARGS];
        if (!swap_all(&s, in) ||
            !td__call(c->cx, c->info->op, in, c->n_in, got + s.nr * c->n_out, c->n_out))
            return false;
    }
    for (int i = 0; i < c->n_out; i++)
        if (!wrap_result(&s, got, i)) return false;
    return true;
}

bool td_type_plain(td_mode_call *h) {
    static const char who[] = "td_type_plain";
    if (!of_type(h, who)) return false;
    td_opcall *c = h->c;
    swap       s = {.h = h, .nr = -1};
    td_value   in[TD_MAX_ARGS];
    if (!h->type->opts.plain)
        return td__op_fail(c, TD_E_UNSUPPORTED,
                           "unsupported for a tensor of type %s, which has no plain "
                           "form (td_type_opts.plain)",
                           h->type->opts.name);
    if (c->def->flags & TD_OPF_VIEW) return td__typed_no_view(c, h->type);
    return swap_all(&s, in) &&
           td__call(c->cx, c->info->op, in, c->n_in, c->out, c->n_out);
}
