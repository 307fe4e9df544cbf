/* fake_tensors.c -- the public functions for fake tensors (tandem/fake.h).
 * td_fakes_begin sets a switch of the context, which ops (ops/call.c, exec.c) and
 * compiled calls (runtime/fake_run.c) read. */
#include "rules/shape_rules.h"
#include "trace/trace.h"
#include "tandem/fake.h"

bool td_fakes_begin(td_ctx *cx) {
    if (!TD_ENTER_CTX(cx) ||
        !td__may_change(cx, "td_fakes_begin", "the kind of tensors"))
        return false;
    bool was = cx->takes_fakes == TD_FAKES_SCOPE;
    cx->takes_fakes = TD_FAKES_SCOPE;
    return was;
}

void td_fakes_end(td_ctx *cx, bool was) {
    if (TD_ENTER_CTX(cx) && td__may_change(cx, "td_fakes_end", "the kind of tensors"))
        cx->takes_fakes = was ? TD_FAKES_SCOPE : TD_FAKES_NO;
}

/* Are sizes and strides those of a possible tensor? False after td__fail. */
static bool check(td_ctx *cx, td_ints size, td_ints stride, td_dtype dtype) {
    static const char who[] = "td_fake";
    if (!td__has_list(cx, who, size.v, size.n) ||
        !td__has_list(cx, who, stride.v, stride.n))
        return false;
    if ((unsigned)dtype >= TD_DTYPE_COUNT)
        return td__fail(cx, TD_E_DTYPE, "%s: there is no dtype %d", who, (int)dtype);
    if (size.n > TD_MAX_RANK)
        return td__fail(cx, TD_E_SHAPE, "%s: %d dims, and at most %d are possible", who,
                        size.n, TD_MAX_RANK);
    if (stride.n && stride.n != size.n)
        return td__fail(cx, TD_E_SHAPE,
                        "%s: %d strides for %d sizes; pass as many, or "
                        "none for row-major ones",
                        who, stride.n, size.n);
    for (int i = 0; i < stride.n; i++)
        if (stride.v[i] < 0 || stride.v[i] >= TD_DIM_HUGE)
            return td__fail(cx, TD_E_SHAPE,
                            "%s: stride %lld in dim %d; a stride must not be negative, "
                            "and elements must have an address",
                            who, (long long)stride.v[i], i);
    for (int i = 0; i < size.n; i++)
        if (size.v[i] < 0 || size.v[i] >= TD_DIM_HUGE)
            return td__fail(cx, TD_E_SHAPE, "%s: size %lld in dim %d", who,
                            (long long)size.v[i], i);
    return true;
}

td_tensor *td_fake(td_ctx *cx, td_ints size, td_ints stride, td_dtype dtype) {
    td_meta m;
    if (!TD_ENTER_CTX(cx)) return td_nil(cx);
    if (!td_ok(cx) || !td__may_change(cx, "td_fake", "the kind of tensors") ||
        !check(cx, size, stride, dtype))
        return td_nil(cx);
    td__meta_dense(&m, dtype, size.n, size.v);
    m.strided = stride.n > 0;
    for (int i = 0; i < stride.n; i++) m.stride[i] = stride.v[i];
    td_tensor *t = td__tensor_make(cx, &m, true);
    if (!t) return td_nil(cx);
    t->st->fake = TD_FAKE_OF_USER;
    return t;
}

td_tensor *td_fake_like(td_tensor *t) {
    td_meta m;
    if (!TD_ENTER(t, TENSOR) || !td_ok(t->cx)) return td_nil(td__ctx_of_any(t));
    if (!td__may_change(t->cx, "td_fake_like", "the kind of tensors"))
        return td_nil(t->cx);
    td__tensor_meta(t, &m);
    td_storage *st = td__storage_make(t->st->bytes, true);
    if (!st) return td__fail_memory(t->cx), td_nil(t->cx);
    st->device = t->st->device;
    st->fake = TD_FAKE_OF_USER;
    td_tensor *to = td__tensor_over(t->cx, st, &m);
    td__storage_drop(st);
    if (!to) return td_nil(t->cx);
    return td_requires_grad(t) ? td_set_requires_grad(to, true) : to;
}

bool td_is_fake(const td_tensor *t) {
    return TD_ENTER(t, TENSOR) &&
           td__may_read(t->cx, "td_is_fake", "whether tensors have elements") &&
           td__is_fake(t);
}
