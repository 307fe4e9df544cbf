/* check_fake.c -- a sample on copies of its inputs without bytes: results and written
 * arguments have the dtype, sizes, strides, offset, requires-grad and aliases of the
 * real ones. Ops whose sizes depend on values are refused instead. */
#include "sample.h"

#include "trace/trace.h"

#include <string.h>

static bool same_type(const td_tensor *a, const td_tensor *b) {
    size_t n = sizeof(int64_t) * a->rank;
    return a->dtype == b->dtype && a->rank == b->rank && a->offset == b->offset &&
           !memcmp(a->size, b->size, n) && !memcmp(a->stride, b->stride, n) &&
           td__needs_grad(a) == td__needs_grad(b);
}

/* Replaces every tensor of the arguments by its copy. */
static bool fake_args(td_faker *f, const inputs *in, td_value *v, td_tensor **lists) {
    int used = 0;
    for (int i = 0; i < in->n_in; i++) {
        v[i] = in->in[i];
        if (v[i].kind == TD_K_TENSOR && v[i].u.t &&
            !(v[i].u.t = td__fake_copy(f, v[i].u.t)))
            return false;
        if (v[i].kind != TD_K_TENSORS) continue;
        for (uint32_t k = 0; k < v[i].n; k++) {
            td_tensor *t = v[i].u.ts[k];
            lists[used + (int)k] = t ? td__fake_copy(f, t) : NULL;
            if (t && !lists[used + (int)k]) return false;
        }
        v[i].u.ts = lists + used;
        used += (int)v[i].n;
    }
    return true;
}

/* Do results and arguments share storage as the real ones do? `was` are the real
 * storages of the leaves' copies before the call. */
static bool same_aliases(const inputs *in, td_tensor *const *out, td_storage **was,
                         td_storage **copy, int n_leaves) {
    for (int i = 0; i < in->n_out; i++) {
        for (int k = 0; k < i; k++)
            if ((in->out[i]->st == in->out[k]->st) != (out[i]->st == out[k]->st))
                return false;
        for (int k = 0; k < n_leaves; k++)
            if (copy[k] && (in->out[i]->st == was[k]) != (out[i]->st == copy[k]))
                return false;
    }
    return true;
}

static void compare(report *r, const inputs *in, td_tensor *const *out, int n) {
    if (n != in->n_out) {
        fail_sample(r, "without bytes: %d results, not %d", n, in->n_out);
        return;
    }
    for (int i = 0; i < n; i++)
        if (!td__is_fake(out[i]))
            fail_sample(r, "without bytes: result %d has bytes", i);
        else if (!same_type(in->out[i], out[i]))
            fail_sample(r, "without bytes: result %d is %s%s%s, not %s%s%s", i,
                        td__type_str(out[i]), " strides ",
                        td__sizes_str(out[i]->rank, out[i]->stride),
                        td__type_str(in->out[i]), " strides ",
                        td__sizes_str(in->out[i]->rank, in->out[i]->stride));
}

static void check_copies(td_ctx *cx, report *r, td_faker *f, inputs *in) {
    static td_tensor *lists[64], *out[64];
    td_value          v[TD_MAX_ARGS];
    td_storage       *was[MAX_LEAVES] = {0}, *copy[MAX_LEAVES] = {0};
    if (!fake_args(f, in, v, lists)) {
        fail_sample(r, "a copy without bytes: %s", td_message(cx));
        return;
    }
    for (int i = 0; i < r->s->n_leaves; i++) {
        td_fake_store *s = td__fake_store_of(f, in->base[i]);
        was[i] = in->base[i]->st;
        copy[i] = s ? s->st : NULL;
    }
    cx->fake = true;
    int n = td__call_list(cx, in->op, v, in->n_in, out, 64);
    cx->fake = false;
    if (n < 0 && td_error(cx) == TD_E_TRACE) return; /* it says why */
    if (n < 0) {
        fail_sample(r, "without bytes: %s", td_message(cx));
        return;
    }
    in->n_out = td__call_list(cx, in->op, in->in, in->n_in, in->out, 64);
    compare(r, in, out, n);
    if (!r->failures && !same_aliases(in, out, was, copy, r->s->n_leaves))
        fail_sample(r, "without bytes: results alias otherwise");
    for (int i = 0; i < in->n_in && !r->failures; i++)
        if (in->in[i].kind == TD_K_TENSOR && in->in[i].u.t &&
            !same_type(in->in[i].u.t, v[i].u.t))
            fail_sample(r, "without bytes: argument %d looks otherwise afterwards", i);
}

void check_fake(td_ctx *cx, report *r) {
    static inputs in;
    td_faker      f = {.cx = cx};
    memset(&in, 0, sizeof in);
    if (inputs_build(cx, r->s, td__op_find(r->s->op_name), NULL, &in))
        check_copies(cx, r, &f, &in);
    td__faker_end(&f);
    td_clear(cx);
}
