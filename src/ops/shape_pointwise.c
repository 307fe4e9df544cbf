/* shape_pointwise.c -- what a pointwise op returns: broadcast sizes, promoted dtype,
 * and the strides ATen's TensorIterator would give a fresh result. */
#include "ops/pointwise.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

/* ---- which arguments the loop reads ------------------------------------- */

static td_pw_args     table[TD_OP_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool    ready; /* table is filled: spares the call of pthread_once */

static bool is_mask(const char *expr, const char *name) {
    size_t n = strlen(name);
    for (const char *p = expr ? strchr(expr, '%') : NULL; p; p = strchr(p + 1, '%'))
        if (!strncmp(p + 1, name, n) && !isalnum((unsigned char)p[1 + n]))
            return true;
    return false;
}

static void read_args(td_pw_args *a, const td_schema *s, const char *expr) {
    for (int i = 0; i < s->n_in; i++) {
        uint8_t type = s->in[i].type;
        if (type == TD_T_TENSOR || type == TD_T_OPT_TENSOR || type == TD_T_OPERAND) {
            if (a->n_in == TD_LOOP_INPUTS) continue;
            if (is_mask(expr, s->in[i].name)) a->masks |= (uint8_t)(1u << a->n_in);
            a->in[a->n_in++] = (uint8_t)i;
        } else if (type == TD_T_SCALAR || type == TD_T_OPT_SCALAR || type == TD_T_INT ||
                   type == TD_T_OPT_INT || type == TD_T_FLOAT || type == TD_T_OPT_FLOAT ||
                   type == TD_T_BOOL) {
            if (a->n_scalars < TD_LOOP_SCALARS) a->scalar[a->n_scalars++] = (uint8_t)i;
        }
    }
}

static void read_table(void) {
    for (int op = 0; op < TD_OP_COUNT; op++)
        if (td__ops[op].flags & TD_OPF_POINTWISE)
            read_args(&table[op], &td__opinfo((td_op)op)->s, td__ops[op].expr);
    atomic_store_explicit(&ready, true, memory_order_release);
}

const td_pw_args *td__pw_args(const td_opdef *def) {
    if (TD_UNLIKELY(!atomic_load_explicit(&ready, memory_order_acquire)))
        pthread_once(&once, read_table);
    return &table[def - td__ops];
}

/* ---- dtypes ------------------------------------------------------------- */

/* The dtype all operands share, counting numbers as weaker than a float tensor; or
 * NONE: promotion has to look closer. */
static td_dtype shared_dtype(const td_opcall *c, const td_pw_args *a) {
    td_dtype dt      = TD_DTYPE_NONE;
    bool     numbers = false;
    for (int k = 0; k < a->n_in; k++) {
        td_value v = c->in[a->in[k]];
        if (a->masks >> k & 1) continue;
        if (v.kind != TD_K_TENSOR) {
            numbers = true;
            continue;
        }
        if (v.u.t->flags & TD_TF_NUMBER) return TD_DTYPE_NONE;
        if (dt != TD_DTYPE_NONE && dt != v.u.t->dtype) return TD_DTYPE_NONE;
        dt = (td_dtype)v.u.t->dtype;
    }
    return numbers && !td__is_float(dt) ? TD_DTYPE_NONE : dt;
}

td_dtype td__pw_common(const td_opcall *c, const td_pw_args *a) {
    td_value in[TD_LOOP_INPUTS];
    int      n     = 0;
    uint32_t flags = c->def->flags;
    if (flags & TD_OPF_FIRST_DTYPE) return (td_dtype)td__in(c, a->in[0])->dtype;
    td_dtype dt = shared_dtype(c, a);
    if (dt == TD_DTYPE_NONE) {
        for (int k = 0; k < a->n_in; k++)
            if (!(a->masks >> k & 1)) in[n++] = c->in[a->in[k]];
        dt = td__result_type(c->cx, in, n);
    }
    return flags & TD_OPF_FLOAT && !td__is_float(dt) ? c->cx->default_dtype : dt;
}

bool td__pw_check(td_opcall *c, td_dtype common) {
    uint32_t flags = c->def->flags;
    if (TD_LIKELY(!(flags & (TD_OPF_INT_ONLY | TD_OPF_FLOAT_ONLY | TD_OPF_NO_BOOL))))
        return true;
    if (flags & TD_OPF_INT_ONLY && td__is_float(common))
        return td__op_fail(c, TD_E_DTYPE, "is not defined on floats, got %s",
                           td_dtype_name(common));
    if (flags & TD_OPF_FLOAT_ONLY && !td__is_float(common))
        return td__op_fail(c, TD_E_DTYPE, "is defined on floats only, got %s",
                           td_dtype_name(common));
    if (flags & TD_OPF_NO_BOOL && common == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "is not defined on bool");
    return true;
}

/* ---- layout ------------------------------------------------------------- */

/* Row-major to the letter: strides of size-1 dims included, and not empty. */
static bool is_canonical(const td_tensor *t) {
    int64_t step = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (!td__dim_eq(t->stride[d], step) || td__dim_eq(t->size[d], 0)) return false;
        step = td__dim_mul(step, t->size[d]);
    }
    return true;
}

/* The operands whose strides have a say, after ATen's conversion to the common
 * dtype: a converted operand is a packed copy. */
typedef struct voices {
    int     n;
    bool    same_shape; /* all of the result's sizes, no number among them */
    int64_t stride[TD_LOOP_INPUTS][TD_MAX_RANK];
} voices;

static void hear(voices *v, const td_tensor *t, bool converted, const td_meta *m) {
    int64_t  own[TD_MAX_RANK];
    int64_t *to  = v->stride[v->n++];
    int      add = m->rank - t->rank;
    if (converted)
        td__strides_like(t->rank, t->size, t->stride, own);
    else if (t->rank > 0)
        memcpy(own, t->stride, sizeof(int64_t) * t->rank);
    for (int d = 0; d < add; d++) to[d] = 0;
    v->same_shape &= add == 0;
    for (int d = 0; d < t->rank; d++) {
        bool same = td__dim_eq(t->size[d], m->size[add + d]);
        to[add + d] = same ? own[d] : 0;
        v->same_shape &= same;
    }
}

static bool channels_last(const int64_t *size, const int64_t *stride) {
    static const int order[] = {1, 3, 2, 0};
    int64_t          step    = 1;
    for (int i = 0; i < 4; i++) {
        if (td__dim_eq(size[order[i]], 1)) continue;
        if (!td__dim_eq(stride[order[i]], step)) return false;
        step = td__dim_mul(step, size[order[i]]);
    }
    return true;
}

/* All operands of one shape: contiguous wins, then channels last, then the strides
 * they share. False: the general rule decides. */
static bool shared_layout(td_meta *m, voices *v) {
    bool   dense = true, last = m->rank == 4, packed = true;
    size_t bytes = sizeof(int64_t) * (size_t)m->rank;
    for (int k = 0; k < v->n; k++) {
        dense &= td__is_dense(m->rank, m->size, v->stride[k]);
        last = last && channels_last(m->size, v->stride[k]);
        packed = packed && td__is_packed(m->rank, m->size, v->stride[k]) &&
                 !memcmp(v->stride[k], v->stride[0], bytes);
    }
    if (dense) return true;
    if (!last && !packed) return false;
    m->strided = true;
    memcpy(m->stride, v->stride[0], bytes);
    if (!last) return true;
    m->stride[1] = 1;
    m->stride[3] = m->size[1];
    m->stride[2] = td__dim_mul(m->stride[3], m->size[3]);
    m->stride[0] = td__dim_mul(m->stride[2], m->size[2]);
    return true;
}

static void general_layout(td_meta *m, voices *v) {
    int     order[TD_MAX_RANK];
    bool    row_major = true;
    int64_t step      = 1;
    td__iter_order(m->rank, m->size, v->n, v->stride, order);
    for (int i = 0; i < m->rank; i++) {
        row_major &= order[i] == m->rank - 1 - i;
        m->stride[order[i]] = step;
        step                = td__dim_mul(step, m->size[order[i]]);
    }
    m->strided = !row_major;
}

static void lay_out(td_opcall *c, const td_pw_args *a, td_dtype common, td_meta *m) {
    voices v = {.n = 0, .same_shape = true};
    for (int k = 0; k < a->n_in; k++) {
        const td_tensor *t = td__in(c, a->in[k]);
        if (!t)
            v.same_shape &= td__in_none(c, a->in[k]);
        else
            hear(&v, t, t->dtype != common && !(a->masks >> k & 1), m);
    }
    if (v.same_shape && shared_layout(m, &v)) return;
    general_layout(m, &v);
}

/* The sizes all tensors broadcast to; *plain: all have them and are row-major. */
static bool broadcast(td_opcall *c, const td_pw_args *a, td_meta *m, bool *plain) {
    const td_tensor *first = NULL;
    m->rank = 0;
    *plain  = true;
    for (int k = 0; k < a->n_in; k++) {
        const td_tensor *t = td__in(c, a->in[k]);
        if (!t) continue;
        if (!first) {
            first   = t;
            m->rank = t->rank;
            for (int d = 0; d < t->rank; d++) m->size[d] = t->size[d];
        } else if (t->rank != m->rank ||
                   memcmp(t->size, m->size, sizeof(int64_t) * t->rank)) {
            *plain = false;
            if (!td__broadcast(&m->rank, m->size, t->rank, t->size))
                return td__op_fail(c, TD_E_SHAPE, "cannot broadcast %s with %s",
                                   td__type_str(first), td__type_str(t));
        }
        if (*plain) *plain = is_canonical(t);
    }
    return true;
}

bool td__pw_meta(td_opcall *c, const td_pw_args *a, td_dtype common, td_dtype result) {
    td_meta *m = &c->meta[0];
    bool     plain;
    m->dtype   = result;
    m->strided = false;
    m->offset  = 0;
    if (!broadcast(c, a, m, &plain)) return false;
    if (!plain) lay_out(c, a, common, m);
    return true;
}

bool td__shape_pointwise(td_opcall *c) {
    const td_pw_args *a  = td__pw_args(c->def);
    td_dtype          dt = td__pw_common(c, a);
    if (!td__pw_check(c, dt)) return false;
    return td__pw_meta(c, a, dt, c->def->flags & TD_OPF_BOOL_OUT ? TD_BOOL : dt);
}

/* ---- rows with rules of their own --------------------------------------- */

/* The integers a dtype holds; bool takes any. */
static void int_range(td_dtype dt, int64_t *low, int64_t *high) {
    int bits = 8 * td__dtype_bytes[dt] - (dt != TD_U8);
    *high    = dt == TD_BOOL || bits == 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
    *low     = dt == TD_U8 ? 0 : -*high - 1;
}

/* Ops that ATen makes convert a number with care: it must be in range, though a
 * negative one may wrap around in u8. */
static bool number_fits(td_opcall *c, int arg, td_dtype dt) {
    int64_t  low, high;
    td_value v = c->in[arg];
    if (v.kind == TD_K_TENSOR || td__is_float(dt)) return true;
    int_range(dt, &low, &high);
    if (dt == TD_U8) low = -high;
    bool in = v.kind == TD_K_FLOAT ? v.u.f >= (double)low && v.u.f <= (double)high
                                   : v.u.i >= low && v.u.i <= high;
    return in || dt == TD_BOOL ||
           td__op_fail(c, TD_E_ARG, "%s = %g does not fit %s", c->info->s.in[arg].name,
                       td__value_f(v), td_dtype_name(dt));
}

/* add: alpha must suit the dtype it multiplies. */
static bool check_alpha(td_opcall *c, int arg, td_dtype common) {
    td_value alpha = c->in[arg];
    if (alpha.kind == TD_K_BOOL && common != TD_BOOL)
        return td__op_fail(c, TD_E_ARG, "a bool alpha is for bool tensors only, got %s",
                           td_dtype_name(common));
    if (alpha.kind == TD_K_FLOAT && !td__is_float(common))
        return td__op_fail(c, TD_E_ARG, "alpha must be an integer for %s tensors",
                           td_dtype_name(common));
    return true;
}

bool td__shape_add(td_opcall *c) {
    const td_pw_args *a  = td__pw_args(c->def);
    td_dtype          dt = td__pw_common(c, a);
    return check_alpha(c, 2, dt) && td__pw_meta(c, a, dt, dt);
}

static bool is_bool(td_value v) {
    return v.kind == TD_K_BOOL || (v.kind == TD_K_TENSOR && v.u.t->dtype == TD_BOOL);
}

/* sub, rsub: ATen refuses bool and says what was probably meant. */
bool td__shape_sub(td_opcall *c) {
    if (is_bool(c->in[0]) && is_bool(c->in[1]))
        return td__op_fail(c, TD_E_DTYPE, "two bool tensors cannot be subtracted; "
                                          "use bitwise_xor or logical_xor");
    if (is_bool(c->in[0]) || is_bool(c->in[1]))
        return td__op_fail(c, TD_E_DTYPE, "a bool tensor cannot be subtracted; to invert "
                                          "a mask use bitwise_not or logical_not");
    return td__shape_add(c);
}

bool td__shape_neg(td_opcall *c) {
    if (is_bool(c->in[0]))
        return td__op_fail(c, TD_E_DTYPE, "a bool tensor cannot be negated; to invert a mask "
                                          "use bitwise_not or logical_not");
    return td__shape_pointwise(c);
}

bool td__shape_div(td_opcall *c) {
    const td_pw_args *a    = td__pw_args(c->def);
    td_dtype          dt   = td__pw_common(c, a);
    const char       *mode = c->in[2].u.s;
    if (strcmp(mode, "") && strcmp(mode, "trunc") && strcmp(mode, "floor"))
        return td__op_fail(c, TD_E_ARG,
                           "rounding_mode must be \"\", \"trunc\" or \"floor\", got \"%.32s\"",
                           mode);
    if (!*mode && !td__is_float(dt)) dt = c->cx->default_dtype;
    if (dt == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "with rounding is not defined on bool");
    return td__pw_meta(c, a, dt, dt);
}

bool td__shape_pow(td_opcall *c) {
    const td_pw_args *a  = td__pw_args(c->def);
    td_dtype          dt = td__pw_common(c, a);
    if (!td__in(c, 0) && !td__in(c, 1))
        return td__op_fail(c, TD_E_ARG, "at least one argument must be a tensor");
    if (dt == TD_BOOL && td__in(c, 1))
        return td__op_fail(c, TD_E_DTYPE, "is not defined on bool");
    if (!td__is_float(dt) && !td__in(c, 1) && td__value_i(c->in[1]) < 0)
        return td__op_fail(c, TD_E_ARG, "integers to negative integer powers are not "
                                        "allowed; make the base a float");
    return number_fits(c, 0, dt) && number_fits(c, 1, dt) && td__pw_meta(c, a, dt, dt);
}

bool td__shape_round(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (td__in_int(c, 1) != 0 && !td__is_float((td_dtype)t->dtype))
        return td__op_fail(c, TD_E_DTYPE, "with decimals is defined on floats only, got %s",
                           td__type_str(t));
    return td__shape_pointwise(c);
}

bool td__shape_where(td_opcall *c) {
    td_tensor        *mask = td__in(c, 0);
    const td_pw_args *a    = td__pw_args(c->def);
    if (mask->dtype != TD_BOOL && mask->dtype != TD_U8)
        return td__op_fail(c, TD_E_DTYPE, "cond must be bool, got %s", td__type_str(mask));
    td_dtype dt = td__pw_common(c, a);
    return number_fits(c, 1, dt) && number_fits(c, 2, dt) && td__pw_meta(c, a, dt, dt);
}

/* The result is row-major whatever the operands are, as ATen's. */
bool td__shape_masked_fill(td_opcall *c) {
    td_tensor *mask = td__in(c, 1), *value = td__in(c, 2);
    if (mask->dtype != TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "mask must be bool, got %s", td__type_str(mask));
    if (value && value->rank != 0)
        return td__op_fail(c, TD_E_SHAPE, "value must be a number or a 0-dim tensor, got %s",
                           td__type_str(value));
    if (!number_fits(c, 2, (td_dtype)td__in(c, 0)->dtype) || !td__shape_pointwise(c))
        return false;
    c->meta[0].strided = false;
    return true;
}

/* A number that bounds integers: one that would leave nothing is an error, one that
 * binds nothing becomes the end of the range (td__clamp_bound). */
static bool bound_fits(td_opcall *c, int arg, bool is_min, td_dtype dt) {
    int64_t  low, high;
    td_value v = c->in[arg];
    if (v.kind != TD_K_INT || td__is_float(dt)) return true;
    int_range(dt, &low, &high);
    if (is_min ? v.u.i <= high : v.u.i >= low) return true;
    return td__op_fail(c, TD_E_ARG, "%s = %lld is outside the range of %s",
                       c->info->s.in[arg].name, (long long)v.u.i, td_dtype_name(dt));
}

td_value td__clamp_bound(td_value v, bool is_min, td_dtype dt) {
    int64_t low, high;
    if (v.kind == TD_K_TENSOR || (v.kind == TD_K_FLOAT && td__is_float(dt))) return v;
    if (td__is_float(dt)) {
        if (v.kind == TD_K_NONE) return td_value_float(is_min ? -INFINITY : INFINITY);
        return v;
    }
    int_range(dt, &low, &high);
    if (v.kind == TD_K_NONE) return td_value_int(is_min ? low : high);
    if (is_min && v.u.i < low) return td_value_int(low);
    return !is_min && v.u.i > high ? td_value_int(high) : v;
}

/* clamp: numbers weigh in promotion like operands. */
bool td__shape_clamp(td_opcall *c) {
    const td_pw_args *a = td__pw_args(c->def);
    if (td__in_none(c, 1) && td__in_none(c, 2))
        return td__op_fail(c, TD_E_ARG, "at least one of min and max must be given");
    td_dtype dt  = td__result_type(c->cx, c->in, 3);
    bool     one = td__in_none(c, 1) || td__in_none(c, 2);
    if (dt == TD_BOOL && !(one && (td__in(c, 1) || td__in(c, 2))))
        return td__op_fail(c, TD_E_DTYPE, "is not defined on bool");
    return bound_fits(c, 1, true, dt) && bound_fits(c, 2, false, dt) &&
           td__pw_meta(c, a, dt, dt);
}

/* clamp_min and clamp_max; bool only between tensors. */
static bool one_bound(td_opcall *c, bool is_min) {
    const td_pw_args *a  = td__pw_args(c->def);
    td_dtype          dt = td__pw_common(c, a);
    if (dt == TD_BOOL && !td__in(c, 1))
        return td__op_fail(c, TD_E_DTYPE, "is not defined on bool");
    return bound_fits(c, 1, is_min, dt) && td__pw_meta(c, a, dt, dt);
}

bool td__shape_clamp_min(td_opcall *c) { return one_bound(c, true); }
bool td__shape_clamp_max(td_opcall *c) { return one_bound(c, false); }

bool td__shape_addcdiv(td_opcall *c) {
    const td_tensor *x = td__in(c, 1), *y = td__in(c, 2);
    if (!td__is_float((td_dtype)x->dtype) && !td__is_float((td_dtype)y->dtype))
        return td__op_fail(c, TD_E_DTYPE, "does not divide integers, %s and %s; convert one",
                           td__type_str(x), td__type_str(y));
    return td__shape_pointwise(c);
}

static bool same_dtype(td_opcall *c, int arg) {
    td_tensor *t = td__in(c, arg), *first = td__in(c, 0);
    if (!t || t->dtype == first->dtype || (t->rank == 0 && arg == 2)) return true;
    return td__op_fail(c, TD_E_DTYPE, "%s must have the dtype of %s, %s vs %s",
                       c->info->s.in[arg].name, c->info->s.in[0].name, td__type_str(t),
                       td__type_str(first));
}

bool td__shape_lerp(td_opcall *c) {
    return same_dtype(c, 1) && same_dtype(c, 2) && td__shape_pointwise(c);
}

bool td__shape_softshrink(td_opcall *c) {
    if (td__in_f(c, 1) < 0)
        return td__op_fail(c, TD_E_ARG, "lambd must not be negative, got %g", td__in_f(c, 1));
    return td__shape_pointwise(c);
}

bool td__shape_gelu(td_opcall *c) {
    const char *how = c->in[c->n_in - 1].u.s;
    if (strcmp(how, "none") && strcmp(how, "tanh"))
        return td__op_fail(c, TD_E_ARG, "approximate must be \"none\" or \"tanh\", got \"%.32s\"",
                           how);
    return td__shape_pointwise(c);
}
