/* rule_arith.h -- short names for the arithmetic that C rules are made of. A nil
 * operand gives nil, so a rule looks at its result once, at the end. */
#ifndef TD_RULE_ARITH_H
#define TD_RULE_ARITH_H

#include "ops/ops.h"

/* Arithmetic between tensors; sizes broadcast and dtypes promote as in the ops. */
static inline td_tensor *t_add(td_tensor *a, td_tensor *b) {
    return td_op_add(a, td_value_tensor(b), td_value_int(1));
}
static inline td_tensor *t_sub(td_tensor *a, td_tensor *b) {
    return td_op_sub(a, td_value_tensor(b), td_value_int(1));
}
static inline td_tensor *t_mul(td_tensor *a, td_tensor *b) {
    return td_op_mul(a, td_value_tensor(b));
}
static inline td_tensor *t_div(td_tensor *a, td_tensor *b) {
    return td_op_div(a, td_value_tensor(b), "");
}
/* Times, and over, a number known when the rule runs. */
static inline td_tensor *t_scale(td_tensor *a, double k) {
    return td_op_mul(a, td_value_float(k));
}
static inline td_tensor *t_over(td_tensor *a, double k) {
    return td_op_div(a, td_value_float(k), "");
}
/* a / n for a size, which may be symbolic. */
static inline td_tensor *t_share(td_tensor *a, int64_t n) {
    return td_op_div(a, td_value_int(n), "");
}
/* Reductions in the dtype of a. */
static inline td_tensor *t_sum(td_tensor *a, td_ints dim, bool keepdim) {
    return td_op_sum(a, dim, keepdim, TD_DTYPE_NONE);
}
static inline td_tensor *t_mean(td_tensor *a, td_ints dim, bool keepdim) {
    return td_op_mean(a, dim, keepdim, TD_DTYPE_NONE);
}
/* a, or a + b where a may be NULL. */
static inline td_tensor *t_join(td_tensor *a, td_tensor *b) {
    return a ? t_add(a, b) : b;
}

/* t, which may be NULL, in other sizes; t itself when they are its own. */
static inline td_tensor *t_shaped(td_tensor *t, const int64_t *size, int rank) {
    bool same = !t || t->rank == rank;
    for (int i = 0; t && same && i < rank; i++) same = t->size[i] == size[i];
    return same ? t : td_op_reshape(t, (td_ints){size, rank});
}

/* t, which may be NULL, with halves as f32. A rule of several steps computes in f32 and
 * rounds to a half once, at its end, as a kernel does. */
static inline td_tensor *t_wide(td_tensor *t) {
    return t && td__is_half((td_dtype)t->dtype) ? td_op_to(t, TD_F32, false) : t;
}
/* t in dtype dt; t itself when it has it. */
static inline td_tensor *t_as(td_tensor *t, td_dtype dt) {
    return t->dtype == dt ? t : td_op_to(t, dt, false);
}

/* Size of dim -from_end; of nil, 0. */
static inline int64_t t_last(const td_tensor *t, int from_end) {
    return t->rank < from_end ? 0 : t->size[t->rank - from_end];
}

/* A list argument; nothing becomes TD_ALL. */
static inline td_ints t_ints(td_value v) {
    if (v.kind != TD_K_INTS) return TD_ALL;
    return (td_ints){v.u.ints, (int)v.n};
}

#endif
