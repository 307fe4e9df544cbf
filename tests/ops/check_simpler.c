/* check_simpler.c -- an op whose row has a simpler form gives the same by it: results
 * in value, dtype and layout, and gradients through the parts. */
#include "sample.h"

#include "tandem/grad.h"
#include "tandem/mode.h"

#include <stdio.h>
#include <string.h>

static bool compute(td_ctx *cx, const report *r, td_op op, inputs *to) {
    memset(to, 0, sizeof *to);
    td_rng_set(cx, 5, 0);
    return inputs_call(cx, r->s, op, NULL, to);
}

static bool same_layout(report *r, const td_tensor *a, const td_tensor *b) {
    size_t n = sizeof(int64_t) * a->rank;
    if (a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->size, b->size, n) &&
        !memcmp(a->stride, b->stride, n))
        return true;
    fail_sample(r, "simpler form: %s of other strides or dtype than %s",
                td__type_str(b), td__type_str(a));
    return false;
}

static bool same_results(report *r, const inputs *a, const inputs *b) {
    for (int i = 0; i < a->n_out; i++) {
        tolerance tol = result_tolerance(r, i, td_dtype_of(a->out[i]));
        char      what[48];
        snprintf(what, sizeof what, "simpler form, result %d", i);
        if (!same_layout(r, a->out[i], b->out[i]) ||
            !compare_tensors(r, what, b->out[i], a->out[i], tol))
            return false;
    }
    if (a->n_out && td_requires_grad(a->out[0]) != td_requires_grad(b->out[0])) {
        fail_sample(r, "simpler form: requires_grad differs");
        return false;
    }
    return true;
}

/* Where a result is infinite or NaN, so may be what the parts hand on. */
static bool finite(const inputs *a) {
    for (int i = 0; i < a->n_out; i++) {
        td_tensor *t = td_op_all(td_op_isfinite(a->out[i]), TD_ALL, false);
        if (td_is_nil(t) || td_item(t) == 0) return false;
    }
    return true;
}

static void same_grads(td_ctx *cx, report *r, const inputs *a, const inputs *b) {
    td_tensor *x[MAX_LEAVES], *y[MAX_LEAVES];
    if (!grad_leaves(cx, r->s, a, x, false)) {
        td_clear(cx);
        return;
    }
    if (!grad_leaves(cx, r->s, b, y, false)) {
        fail_sample(r, "simpler form, backward: %s", td_message(cx));
        return;
    }
    for (int i = 0; i < r->s->n_leaves; i++) {
        char what[48];
        snprintf(what, sizeof what, "simpler form, gradient %d", i);
        if (!x[i] && !y[i]) continue;
        if (!x[i] || !y[i]) {
            td_tensor *t = x[i] ? x[i] : y[i]; /* absent is zero */
            x[i] = x[i] ? x[i] : td_op_zeros_like(t, TD_DTYPE_NONE);
            y[i] = y[i] ? y[i] : td_op_zeros_like(t, TD_DTYPE_NONE);
        }
        tolerance tol = grad_tolerance(r, i, td_dtype_of(x[i]));
        if (!compare_tensors(r, what, y[i], x[i], tol)) return;
    }
}

void check_simpler(td_ctx *cx, report *r, int *checked) {
    static inputs plain, other;
    td_op         op = td__op_find(r->s->op_name);
    if (!td__opinfo(op)->has_simpler || td__opinfo(op)->composite) return;
    if (!compute(cx, r, op, &plain)) {
        td_clear(cx);
        return;
    }
    uint64_t drawn = cx->rng_offset;
    bool     ok = td_decompose_begin(cx, "all") && compute(cx, r, op, &other);
    td_decompose_end(cx);
    if (ok && cx->rng_offset != drawn) fail_sample(r, "simpler form draws otherwise");
    if (!ok) fail_sample(r, "simpler form: %s%s", td_message(cx), other.why);
    else if (same_results(r, &plain, &other) && finite(&plain))
        same_grads(cx, r, &plain, &other);
    td_clear(cx);
    ++*checked;
}
