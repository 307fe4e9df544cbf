/* layout.c -- tensors in the layout that compiled code was made for. */
#include "ops/cast.h"
#include "runtime/node_frame.h"

td_tensor *td__empty_as(td_ctx *cx, const td_geom *g) {
    return td__empty_on(cx, g->device, (td_ints){g->size, g->rank},
                        (td_ints){g->stride, g->rank}, g->dtype);
}

bool td__size_stand_in(td_ctx *cx, const td_geom *g, td_value *to) {
    *to = TD_NONE;
    if (!g || !g->size) return true;
    *to = td_value_tensor(td__empty_as(cx, g));
    return !td_is_nil(to->u.t);
}

/* A tensor of this type, its elements not set, at the offset the graph may count from.
 * nil on failure. */
static td_tensor *empty_as(td_ctx *cx, const td_geom *g) {
    if (!g->offset) return td__empty_as(cx, g);
    int64_t    end = td__geom_last(g) + 1;
    td_tensor *all = td__empty_on(cx, g->device, (td_ints){&end, 1},
                                  (td_ints){(const int64_t[]){1}, 1}, g->dtype);
    return td_op_as_strided(all, (td_ints){g->size, g->rank},
                            (td_ints){g->stride, g->rank}, td_value_int(g->offset));
}

/* Copies t into `to`, whose elements overlap. False: elements of one address differ,
 * or after td__fail. */
static bool copy_over(td_tensor *to, td_tensor *t) {
    static const td_dtype bits[] = {
        [1] = TD_I8, [2] = TD_I16, [4] = TD_I32, [8] = TD_I64};
    td_dtype as = bits[td__dtype_bytes[td__real_of((td_dtype)t->dtype)]];
    td__copy_into(to, t);
    if (td__is_complex((td_dtype)t->dtype)) {
        to = td_op_view_as_real(to);
        t = td_op_view_as_real(t);
    }
    td_tensor *same =
        td_op_eq(td_op_view_dtype(to, as), td_value_tensor(td_op_view_dtype(t, as)));
    return td_item(td_op_all(same, (td_ints){0}, false)) != 0;
}

/* Does t have the wanted strides and offset, so that compiled code may read it
 * directly? */
bool td__has_layout(const td_tensor *t, const td_geom *want) {
    bool same = t->numel == 0 || t->offset == want->offset;
    for (int d = 0; same && d < t->rank; d++)
        same = t->size[d] == 1 || t->stride[d] == want->stride[d];
    return same;
}

/* The copy has no history: saved values are given to code that has none. */
td_tensor *td__copy_laid_out(td_node *n, int i, td_tensor *t, const td_geom *want) {
    td_tensor *to = empty_as(n->cx, want);
    if (td_is_nil(to)) return NULL;
    if (!td__overlaps_itself(to)) to = td_op_copy_(to, t, false);
    else if (!copy_over(to, t) && td_ok(n->cx))
        td__fail(n->cx, TD_E_UNSUPPORTED,
                 "%s: the unpack hook of saved value %d gave other values to elements "
                 "that share one place in memory; pass a clone of the expanded tensor",
                 n->name, i);
    return td_ok(n->cx) ? to : NULL;
}

/* Is t all of its storage? A hook that makes a new tensor gives such a one. */
static bool fills_storage(const td_tensor *t) {
    return t->st->bytes <= (size_t)t->numel * td__dtype_bytes[t->dtype];
}

bool td__is_type(const td_tensor *t, const td_geom *want) {
    td_geom got = td__geom_of(t);
    return t->dtype == want->dtype && td__sizes_identical(&got, want);
}

/* A saved value after its unpack hook. Other strides are copied; another dtype or other
 * sizes are an error. `beside`: backward reads elements outside of the value, which
 * only the original storage has. */
td_tensor *td__fit_unpacked(td_node *n, int i, td_tensor *t, const td_geom *want,
                            const td_gtyped *of, bool beside) {
    if (!td__is_type(t, want)) {
        td__fail(n->cx, TD_E_GRAD,
                 "%s: the unpack hook of saved value %d gave %s, but %s%s was packed; "
                 "compiled code needs a tensor of that type back",
                 n->name, i, td__type_str(t), td_dtype_name(want->dtype),
                 td__sizes_str(want->rank, want->size));
        return NULL;
    }
    bool same = td__has_layout(t, want);
    if (beside && (!same || fills_storage(t))) {
        td__fail(n->cx, TD_E_UNSUPPORTED,
                 "%s: backward reads elements beside saved value %d by as_strided, and "
                 "its unpack hook gave another storage; pass the whole tensor",
                 n->name, i);
        return NULL;
    }
    if (TD_UNLIKELY(t->typed || of)) return td__fit_saved_typed(n, i, t, of);
    if (same) return t;
    bool grad = n->cx->grad_enabled;
    n->cx->grad_enabled = false;
    t = td__copy_laid_out(n, i, t, want);
    n->cx->grad_enabled = grad;
    return t;
}

/* A tangent in the layout the backward was traced for; copied if it has another one.
 * NULL after td__fail. */
td_tensor *td__fit_tangent(td_ctx *cx, td_tensor *g, const td_geom *want) {
    if (g->numel == 0 || td__has_layout(g, want)) return g;
    td_tensor *to = td__empty_as(cx, want);
    return td_is_nil(to) ? NULL : td_op_copy_(to, g, false);
}

bool td__write_tangent(td_tensor *g, td_tensor *fitted) {
    return g == fitted || !td_is_nil(td_op_copy_(g, fitted, false));
}
