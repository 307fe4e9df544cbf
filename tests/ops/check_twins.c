/* check_twins.c -- other ways to compute a sample that must give the same: inputs
 * with gaps between elements, the op's in-place form, a view and its inverse. */
#include "sample.h"

#include <stdio.h>
#include <string.h>

static bool compute(td_ctx *cx, const sample *s, td_op op, bool strided, inputs *to) {
    memset(to, 0, sizeof *to);
    to->strided = strided;
    return inputs_call(cx, s, op, NULL, to);
}

static void check_strided(td_ctx *cx, report *r, const inputs *plain) {
    static inputs other;
    td_op         op = plain->op;
    if (td__ops[op].flags & (TD_OPF_VIEW | TD_OPF_RANDOM | TD_OPF_META)) return;
    if (plain->writes) return;
    /* as_strided and its kin look at the storage, not at the elements. */
    if (!strncmp(td__ops[op].name, "as_strided", 10)) return;
    /* Composite views (reshape) may take the other branch or refuse: view only. */
    if (td__opinfo(op)->s.n_out && td__opinfo(op)->s.out[0].alias) return;
    if (!compute(cx, r->s, op, true, &other)) {
        fail_sample(r, "with strided inputs: %s", td_message(cx));
        return;
    }
    for (int i = 0; i < plain->n_out; i++) {
        td_dtype  dt = td_dtype_of(plain->out[i]);
        tolerance tol = result_tolerance(r, i, dt);
        if (!compare_tensors(r, "with strided inputs", other.out[i], plain->out[i],
                             tol))
            return;
    }
}

static void check_in_place(td_ctx *cx, report *r, const inputs *plain) {
    static inputs other;
    char          name[64];
    snprintf(name, sizeof name, "%s_", r->s->op_name);
    td_op op = td__op_find(name);
    if (op == TD_OP_COUNT || plain->n_out != 1 || plain->in[0].kind != TD_K_TENSOR)
        return;
    if (td__ops[op].flags & (TD_OPF_META | TD_OPF_RANDOM)) return;
    td_tensor *first = plain->in[0].u.t, *out = plain->out[0];
    if (td_dtype_of(first) != td_dtype_of(out) || td_rank(first) != td_rank(out))
        return;
    for (int i = 0; i < td_rank(first); i++)
        if (td_size(first, i) != td_size(out, i)) return;
    if (td__overlaps_itself(first)) return;
    for (int i = 1; i < plain->n_in; i++) /* the same tensor again may not be written */
        if (plain->in[i].kind == TD_K_TENSOR && plain->in[i].u.t != first &&
            td_same_storage(plain->in[i].u.t, first))
            return;
    if (!compute(cx, r->s, op, false, &other)) {
        fail_sample(r, "%s: %s", name, td_message(cx));
        return;
    }
    compare_tensors(r, name, other.out[0], out,
                    result_tolerance(r, 0, td_dtype_of(out)));
}

/* inverse(base, view(base) negated) shows, through the view, the negated view. */
static void check_inverse(td_ctx *cx, report *r, const inputs *plain) {
    const td_opdef *def = &td__ops[plain->op];
    if (!def->inverse || plain->n_out != 1 || td_numel(plain->out[0]) == 0) return;
    if (!strcmp(def->inverse, "as_strided_scatter") &&
        td__overlaps_itself(plain->out[0]))
        return;                                            /* refused */
    if (td__is_stored(td_dtype_of(plain->out[0]))) return; /* nothing negates them */
    td_tensor *view = plain->out[0], *changed, *whole;
    td_op      op = td__op_find(def->inverse), flip = td__op_find("bitwise_not");
    td_value   v[TD_MAX_ARGS + 2] = {td_value_tensor(view)};
    int        at = 2;
    if (td_dtype_is_float(td_dtype_of(view)) || td_dtype_is_complex(td_dtype_of(view)))
        flip = td__op_find("neg");
    if (op == TD_OP_COUNT || !td__call(cx, flip, v, 1, &changed, 1)) {
        fail_sample(r, "inverse %s: %s", def->inverse, td_message(cx));
        return;
    }
    v[0] = plain->in[0];
    v[1] = td_value_tensor(changed);
    if (def->flags & TD_OPF_MULTI) v[at++] = td_value_int(0);
    for (int i = 1; i < plain->n_in; i++) v[at++] = plain->in[i];
    if (!td__call(cx, op, v, at, &whole, 1)) {
        fail_sample(r, "inverse %s: %s", def->inverse, td_message(cx));
        return;
    }
    td_tensor *again;
    v[0] = td_value_tensor(whole);
    for (int i = 1; i < plain->n_in; i++) v[i] = plain->in[i];
    if (td__overlaps_itself(view)) return;
    if (!td__call(cx, plain->op, v, plain->n_in, &again, 1))
        fail_sample(r, "view of the inverse: %s", td_message(cx));
    else compare_tensors(r, "view of the inverse", again, changed, (tolerance){0});
}

void check_twins(td_ctx *cx, report *r) {
    static inputs plain;
    if (r->s->src->tags & (TAG_ERROR | TAG_RANDOM)) return;
    if (!compute(cx, r->s, td__op_find(r->s->op_name), false, &plain)) {
        td_clear(cx);
        return;
    }
    bool chained = false;
    for (int i = 0; i < r->s->n_leaves; i++) chained |= plain.used[i] != plain.base[i];
    if (!chained) check_strided(cx, r, &plain);
    td_clear(cx);
    check_in_place(cx, r, &plain);
    td_clear(cx);
    check_inverse(cx, r, &plain);
    td_clear(cx);
}
