/* shape_rules.c -- what shape rules share: result metas, type promotion, and which
 * numbers a dtype can represent.
 *
 * A shape rule checks every argument that can be checked without reading elements, and
 * fills c->meta. It also runs in traces, where sizes may be symbols. So sizes are
 * computed with td__dim_add and its relatives, and compared in one of three ways.
 * td__dim_eq and td__dim_lt decide what the program does: in a trace the answer becomes
 * a guard. td__dim_seems_eq only chooses a layout: of a size that only run time knows
 * it takes the answer for a size above 1. td__dim_expect takes the relation for granted
 * and has the compiled program check it; a rule that fails for a size of 0, or gives
 * another result than its general path, asks so. */
#include "rules/shape_rules.h"

#include <math.h>

void td__meta_dense(td_meta *m, td_dtype dt, int rank, const int64_t *size) {
    m->dtype = dt;
    m->rank = rank;
    m->strided = false;
    m->device = 0; /* exec.c sets that of the call */
    m->offset = 0;
    for (int i = 0; i < rank; i++) m->size[i] = size[i];
}

void td__meta_like(td_meta *m, const td_tensor *t) {
    td__meta_dense(m, (td_dtype)t->dtype, t->rank, t->size);
    m->strided = true; /* also when dense: dims of size 1 keep their strides */
    td__strides_like(t->rank, t->size, t->stride, m->stride);
}

/* The three weights of ATen's promotion: tensors with dims decide, 0-dim tensors
 * and plain numbers only raise the class (bool < int < float). */
typedef struct weights {
    td_dtype dims, zero, number; /* TD_DTYPE_NONE: none seen */
} weights;

/* Promotes two dtypes of one category, either of which may be absent. */
static td_dtype either(td_dtype a, td_dtype b) {
    if (a == TD_DTYPE_NONE) return b;
    return b == TD_DTYPE_NONE ? a : td__promote(a, b);
}

/* Adds v to its category. */
static void weigh(td_ctx *cx, weights *w, td_value v) {
    if (v.kind == TD_K_TENSOR && v.u.t) {
        td_dtype dt = (td_dtype)v.u.t->dtype;
        if (v.u.t->rank > 0) w->dims = either(w->dims, dt);
        else w->zero = either(w->zero, dt);
    } else if (v.kind == TD_K_FLOAT) w->number = either(w->number, cx->default_dtype);
    else if (v.kind == TD_K_INT) w->number = either(w->number, TD_I64);
    else if (v.kind == TD_K_BOOL) w->number = either(w->number, TD_BOOL);
}

/* A heavier category keeps its dtype unless the lighter one has a higher class. */
static td_dtype combine(td_dtype heavy, td_dtype light) {
    if (heavy == TD_DTYPE_NONE) return light;
    if (light == TD_DTYPE_NONE || td__is_complex(heavy)) return heavy;
    if (td__is_float(heavy)) /* complex with the precision of the heavier */
        return td__is_complex(light) ? td__complex_of(heavy) : heavy;
    if (heavy == TD_BOOL || td__is_differentiable(light))
        return td__promote(heavy, light);
    return heavy;
}

/* The common case, two tensors of one dtype or a float tensor and a number:
 * its dtype. TD_DTYPE_NONE: the weights decide. */
static td_dtype obvious_type(const td_value *in, int n) {
    if (n != 2 || in[0].kind != TD_K_TENSOR || !in[0].u.t) return TD_DTYPE_NONE;
    const td_tensor *a = in[0].u.t, *b = in[1].kind == TD_K_TENSOR ? in[1].u.t : NULL;
    bool same = in[1].kind != TD_K_TENSORS && td__is_differentiable((td_dtype)a->dtype);
    if (b) same = b->dtype == a->dtype;
    return same ? (td_dtype)a->dtype : TD_DTYPE_NONE;
}

/* ATen's rule: tensors with dims decide, then 0-dim tensors, then numbers; a lighter
 * category counts only when its class (bool, integer, float) is higher. */
td_dtype td__result_type(td_ctx *cx, const td_value *in, int n) {
    td_dtype dt = obvious_type(in, n);
    if (dt != TD_DTYPE_NONE) return dt;
    weights w = {TD_DTYPE_NONE, TD_DTYPE_NONE, TD_DTYPE_NONE};
    for (int i = 0; i < n; i++) {
        weigh(cx, &w, in[i]);
        for (uint32_t k = 0; in[i].kind == TD_K_TENSORS && k < in[i].n; k++)
            if (in[i].u.ts[k]) weigh(cx, &w, td_value_tensor(in[i].u.ts[k]));
    }
    return combine(w.dims, combine(w.zero, w.number));
}

/* ---- numbers ------------------------------------------------------------ */

/* The largest finite value of a float dtype, the largest integer of others. */
static double largest(td_dtype dt) {
    switch (td__real_of(dt)) {
    case TD_F64: return 0x1.fffffffffffffp1023;
    case TD_F32: return 0x1.fffffep127;
    case TD_BF16: return 0x1.fep127;
    case TD_F16: return 65504;
    case TD_I64: return 0x1p63;
    case TD_I32: return INT32_MAX;
    case TD_I16: return INT16_MAX;
    case TD_I8: return INT8_MAX;
    case TD_U16: return UINT16_MAX;
    case TD_U32: return UINT32_MAX;
    case TD_U64: return 0x1p64;
    case TD_F8E4M3: return 448;
    case TD_F8E5M2: return 57344;
    default: return UINT8_MAX;
    }
}

/* Fractions above the largest integer truncate to it; below the lowest they do
 * not. */
bool td__dtype_holds(td_dtype dt, td_value v) {
    if (v.kind == TD_K_INT && td__dim_is_symbolic(v.u.i)) return true;
    double x = td__value_f(v), top = largest(dt);
    if (dt == TD_BOOL) return true;
    if (dt == TD_F8E4M3 && isinf(x)) return false; /* has no infinity */
    if (dt == TD_U64) return v.kind != TD_K_FLOAT || (x >= 0 && x < top);
    if (td__is_differentiable(dt)) return isnan(x) || isinf(x) || fabs(x) <= top;
    if (dt == TD_U8 || td__is_stored(dt))
        return x >= (v.kind == TD_K_FLOAT ? 0 : -top) && x < top + 1;
    if (dt == TD_I64) return v.kind != TD_K_FLOAT || (x >= -top && x < top);
    return x >= -top - 1 && x < top + 1;
}

/* Names the argument in the error. */
bool td__number_fits(td_opcall *c, int i, td_dtype dt) {
    td_value v = c->in[i];
    if (v.kind == TD_K_TENSOR || v.kind == TD_K_NONE || td__dtype_holds(dt, v))
        return true;
    return td__op_fail(c, TD_E_ARG, "%s = %.9g cannot be represented in %s",
                       c->info->s.in[i].name, td__value_f(v), td_dtype_name(dt));
}

/* A real dtype has no room for imaginary parts; whether a number is 0 is a bool. */
bool td__can_keep(td_opcall *c, const td_tensor *t, td_dtype dt) {
    if (!td__is_complex((td_dtype)t->dtype) || td__is_complex(dt) || dt == TD_BOOL)
        return true;
    return td__op_fail(c, TD_E_DTYPE,
                       "%s has no room for the imaginary parts of %s; pass td_real, "
                       "td_imag or td_abs of it",
                       td_dtype_name(dt), td__type_str(t));
}

bool td__factor_suits(td_opcall *c, int i, td_dtype dt) {
    td_kind     kind = c->in[i].kind;
    const char *name = c->info->s.in[i].name;
    if (kind == TD_K_BOOL && dt != TD_BOOL)
        return td__op_fail(c, TD_E_ARG, "a bool %s is for bool tensors only, got %s",
                           name, td_dtype_name(dt));
    if (kind == TD_K_FLOAT && !td__is_differentiable(dt))
        return td__op_fail(c, TD_E_ARG, "%s must be an integer for %s tensors", name,
                           td_dtype_name(dt));
    return true;
}
