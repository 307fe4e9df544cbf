/* quantized.c -- rules of products with weights of 8 and 4 bits and with scaled 8-bit
 * floats: sizes, dtypes, the derivatives of 4-bit products, scaled_mm by its parts. */
#include "rules/rule_arith.h"
#include "rules/shape_rules.h"

/* Argument i has this many dims and this dtype (NONE: any). */
static bool want(td_opcall *c, int i, int rank, td_dtype dt) {
    const td_tensor *t = td__in(c, i);
    if (t->rank == rank && (dt == TD_DTYPE_NONE || t->dtype == dt)) return true;
    return td__op_fail(c, t->rank == rank ? TD_E_DTYPE : TD_E_SHAPE,
                       "%s must have %d dims%s%s, got %s", c->info->s.in[i].name, rank,
                       dt == TD_DTYPE_NONE ? "" : " and be ",
                       dt == TD_DTYPE_NONE ? "" : td_dtype_name(dt), td__type_str(t));
}

/* self is a matrix of f32, f16 or bf16, and argument i has its dtype. */
static bool want_self(td_opcall *c, int i) {
    const td_tensor *x = td__in(c, 0), *s = td__in(c, i);
    td_dtype         dt = (td_dtype)x->dtype;
    if (!want(c, 0, 2, TD_DTYPE_NONE)) return false;
    if (dt != TD_F32 && !td__is_half(dt))
        return td__op_fail(c, TD_E_DTYPE, "self must be f32, f16 or bf16, got %s",
                           td__type_str(x));
    return s->dtype == dt ||
           td__op_fail(c, TD_E_DTYPE, "%s must have the dtype of self, %s, got %s",
                       c->info->s.in[i].name, td_dtype_name(dt), td__type_str(s));
}

static void product(td_opcall *c, int64_t n) {
    const td_tensor *x = td__in(c, 0);
    td__meta_dense(&c->meta[0], (td_dtype)x->dtype, 2, (int64_t[]){x->size[0], n});
}

bool td__shape_int8pack_mm(td_opcall *c) {
    const td_tensor *x = td__in(c, 0), *w = td__in(c, 1), *s = td__in(c, 2);
    if (!want_self(c, 2) || !want(c, 1, 2, TD_I8) || !want(c, 2, 1, TD_DTYPE_NONE))
        return false;
    if (!td__dim_eq(x->size[1], w->size[1]))
        return td__op_fail(c, TD_E_SHAPE,
                           "self %s and mat2 %s must agree in size 1, the summed one",
                           td__type_str(x), td__type_str(w));
    if (!td__dim_eq(s->size[0], w->size[0]))
        return td__op_fail(c, TD_E_SHAPE,
                           "scales must have a number for each row of "
                           "mat2 %s, got %s",
                           td__type_str(w), td__type_str(s));
    product(c, w->size[0]);
    return true;
}

/* Packed weights, argument i, with group size i + 1 and scales i + 2. */
static bool want_int4(td_opcall *c, int i) {
    const td_tensor *w = td__in(c, i), *s = td__in(c, i + 2);
    int64_t          group = td__in_number(c, i + 1);
    if (!want(c, i, 2, TD_U8) || !want(c, i + 2, 3, TD_DTYPE_NONE)) return false;
    if (group != 32 && group != 64 && group != 128 && group != 256)
        return td__op_fail(c, TD_E_ARG,
                           "qGroupSize must be 32, 64, 128 or 256, got %lld",
                           (long long)group);
    int64_t n = td__dim_fixed(w->size[0]), k = 2 * td__dim_fixed(w->size[1]);
    if (n % 16)
        return td__op_fail(c, TD_E_SHAPE,
                           "mat2 must have a multiple of 16 rows, got %s",
                           td__type_str(w));
    if (!td__dim_eq(s->size[0], (k + group - 1) / group) ||
        !td__dim_eq(s->size[1], n) || !td__dim_eq(s->size[2], 2))
        return td__op_fail(c, TD_E_SHAPE,
                           "qScaleAndZeros must be [%lld, %lld, 2] for mat2 %s and "
                           "groups of %lld, got %s",
                           (long long)((k + group - 1) / group), (long long)n,
                           td__type_str(w), (long long)group, td__type_str(s));
    return true;
}

bool td__shape_int4pack_mm(td_opcall *c) {
    const td_tensor *x = td__in(c, 0), *w = td__in(c, 1);
    if (!want_self(c, 3) || !want_int4(c, 1)) return false;
    if (!td__dim_eq(x->size[1], td__dim_mul(w->size[1], 2)))
        return td__op_fail(c, TD_E_SHAPE,
                           "self %s must have two columns for each of mat2 %s",
                           td__type_str(x), td__type_str(w));
    product(c, w->size[0]);
    return true;
}

bool td__shape_int4pack(td_opcall *c) {
    if (!want(c, 0, 2, TD_I32)) return false;
    const td_tensor *q = td__in(c, 0);
    int64_t          n = td__dim_fixed(q->size[0]), k = td__dim_fixed(q->size[1]);
    if (n % 16 || k % 2)
        return td__op_fail(c, TD_E_SHAPE,
                           "self must have a multiple of 16 rows and an even number of "
                           "columns, got %s",
                           td__type_str(q));
    td__meta_dense(&c->meta[0], TD_U8, 2, (int64_t[]){n, k / 2});
    return true;
}

bool td__shape_dequantize_int4(td_opcall *c) {
    if (!want_int4(c, 0)) return false;
    const td_tensor *w = td__in(c, 0), *s = td__in(c, 2);
    if (!td__is_float((td_dtype)s->dtype))
        return td__op_fail(c, TD_E_DTYPE, "qScaleAndZeros must be of floats, got %s",
                           td__type_str(s));
    td__meta_dense(&c->meta[0], (td_dtype)s->dtype, 2,
                   (int64_t[]){w->size[0], td__dim_mul(w->size[1], 2)});
    return true;
}

/* ---- derivatives --------------------------------------------------------- */

/* The gradient of scales and zeros [k/group,n,2] from that of the weight, gw [n,k]. */
static td_tensor *scale_grad(td_tensor *gw, td_tensor *mat2, int64_t group) {
    int64_t    n = gw->size[0], k = gw->size[1], groups = (k + group - 1) / group;
    td_dtype   dt = (td_dtype)gw->dtype;
    td_tensor *unit[] = {td_op_new_full(gw, TD_SHAPE(groups, n), td_value_int(1), dt),
                         td_op_new_full(gw, TD_SHAPE(groups, n), td_value_int(0), dt)};
    td_tensor *q =
        td_op_dequantize_int4pack(mat2, group, td_op_stack(TD_LIST_OF(unit, 2), 2));
    td_tensor *both[] = {t_mul(gw, q), gw}; /* q is the number packed, less 8 */
    for (int i = 0; i < 2; i++) {
        td_tensor *t = td_op_constant_pad_nd(both[i], TD_DIMS(0, groups * group - k),
                                             td_value_int(0));
        t = td_op_view(t, TD_SHAPE(n, groups, group));
        both[i] = td_op_t(t_sum(t, TD_DIMS(2), false));
    }
    return td_op_stack(TD_LIST_OF(both, 2), 2);
}

static bool gives(td_vjp *v, int i, td_tensor *g) {
    v->grad[i] = g;
    return g && !td_is_nil(g);
}

/* in: self, mat2, qGroupSize, qScaleAndZeros. */
bool td__vjp_int4pack_mm(td_vjp *v) {
    td_tensor *mat2 = v->in[1].u.t, *g = v->g[0];
    int64_t    group = v->in[2].u.i;
    if (v->need[0] &&
        !gives(v, 0, td_op_mm(g, td_op_dequantize_int4pack(mat2, group, v->in[3].u.t))))
        return false;
    return !v->need[3] ||
           gives(v, 3, scale_grad(td_op_mm(td_op_t(g), v->in[0].u.t), mat2, group));
}

/* in: mat2, qGroupSize, qScaleAndZeros. */
bool td__vjp_dequantize_int4(td_vjp *v) {
    return !v->need[2] || gives(v, 2, scale_grad(v->g[0], v->in[0].u.t, v->in[1].u.i));
}

/* ---- scaled_mm ------------------------------------------------------------ */

static bool is_scale(const td_tensor *t, int64_t rows, int64_t cols) {
    if (t->dtype != TD_F32) return false;
    return td__dim_eq(t->numel, 1) || (t->rank == 2 && td__dim_eq(t->size[0], rows) &&
                                       td__dim_eq(t->size[1], cols));
}

/* A scale of one element multiplies whatever its rank is. */
static td_tensor *scaled(td_tensor *y, td_tensor *scale) {
    bool one = scale->rank && td__dim_eq(scale->numel, 1);
    return t_mul(y, one ? td_op_reshape(scale, TD_SHAPE()) : scale);
}

static bool want_scaled(td_opcall *c) {
    const td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    if (!want(c, 0, 2, TD_DTYPE_NONE) || !want(c, 1, 2, TD_DTYPE_NONE)) return false;
    if (!td__is_f8((td_dtype)a->dtype) || !td__is_f8((td_dtype)b->dtype))
        return td__op_fail(c, TD_E_DTYPE,
                           "self and mat2 must be f8e4m3 or f8e5m2, got %s and %s",
                           td__type_str(a), td__type_str(b));
    if (!td__dim_eq(a->size[1], b->size[0]))
        return td__op_fail(c, TD_E_SHAPE, "inner sizes differ, %s @ %s",
                           td__type_str(a), td__type_str(b));
    if (is_scale(td__in(c, 2), a->size[0], 1) &&
        is_scale(td__in(c, 3), 1, b->size[1]) &&
        td__dim_eq(td__in(c, 2)->numel, 1) == td__dim_eq(td__in(c, 3)->numel, 1))
        return true;
    return td__op_fail(c, TD_E_ARG,
                       "scale_a and scale_b must be f32 with one element each, or "
                       "[rows of self, 1] and [1, columns of mat2], got %s and %s",
                       td__type_str(td__in(c, 2)), td__type_str(td__in(c, 3)));
}

bool td__decomp_scaled_mm(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1), *bias = td__in(c, 4);
    td_tensor *last = td__in(c, 5);
    if (!want_scaled(c)) return false;
    td_dtype   out = td__in_dtype(c, 6, (td_dtype)a->dtype);
    td_tensor *y = td_op_mm(t_as(a, TD_F32), t_as(b, TD_F32));
    y = scaled(scaled(y, td__in(c, 2)), td__in(c, 3));
    if (bias) y = t_add(y, t_as(bias, TD_F32));
    if (last && td__is_f8(out)) y = t_div(y, last);
    c->out[0] = td_op_to(y, out, false);
    return true;
}
