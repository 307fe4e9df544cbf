/* shape_pointwise.c -- what a pointwise op returns: broadcast sizes, promoted dtype,
 * and the strides ATen's TensorIterator would give a fresh result. Layouts matter
 * beyond speed: a program may read strides, and views of the result depend on them. */
#include "rules/iter_order.h"
#include "rules/pointwise_args.h"
#include "rules/shape_rules.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- which arguments the loop reads ------------------------------------- */

static td_pw_args     table[TD_OP_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool    ready; /* table is filled: spares the call of pthread_once */

/* Does the expression read argument `name` as %name? */
static bool is_mask(const char *expr, const char *name) {
    size_t n = strlen(name);
    for (const char *p = expr ? strchr(expr, '%') : NULL; p; p = strchr(p + 1, '%'))
        if (!strncmp(p + 1, name, n) && !isalnum((unsigned char)p[1 + n])) return true;
    return false;
}

/* Numbers the operands and the scalars of a schema in the order in which the generated
 * loop takes them (td__expr_operand, td__expr_number). */
static void read_args(td_pw_args *a, const td_schema *s, const char *expr) {
    for (int i = 0; i < s->n_in; i++) {
        uint8_t type = s->in[i].type;
        if (type == TD_T_TENSOR || type == TD_T_OPT_TENSOR || type == TD_T_OPERAND) {
            if (a->n_in == TD_LOOP_INPUTS) continue;
            if (is_mask(expr, s->in[i].name)) a->masks |= (uint8_t)(1u << a->n_in);
            a->in[a->n_in++] = (uint8_t)i;
        } else if (type == TD_T_SCALAR || type == TD_T_OPT_SCALAR || type == TD_T_INT ||
                   type == TD_T_OPT_INT || type == TD_T_FLOAT ||
                   type == TD_T_OPT_FLOAT || type == TD_T_BOOL) {
            if (a->n_scalars < TD_LOOP_SCALARS) a->scalar[a->n_scalars++] = (uint8_t)i;
        }
    }
}

/* Once per process, when the first pointwise op is called. */
static void read_table(void) {
    for (int op = 0; op < TD_OP_COUNT; op++)
        if (td__row(op)->flags & TD_OPF_POINTWISE)
            read_args(&table[op], &td__opinfo((td_op)op)->s, td__row(op)->expr);
    atomic_store_explicit(&ready, true, memory_order_release);
}

/* By row, computed once per process; later calls cost one load. */
const td_pw_args *td__pw_args(const td_opdef *def) {
    if (TD_UNLIKELY(!atomic_load_explicit(&ready, memory_order_acquire)))
        pthread_once(&once, read_table);
    return &table[def - td__ops];
}

/* ---- dtypes ------------------------------------------------------------- */

/* The dtype all operands share, counting numbers as weaker than a float tensor; or
 * NONE: promotion has to look closer. */
static td_dtype shared_dtype(const td_opcall *c, const td_pw_args *a) {
    td_dtype dt = TD_DTYPE_NONE;
    bool     numbers = false;
    for (int k = 0; k < a->n_in; k++) {
        td_value v = c->in[a->in[k]];
        if (a->masks >> k & 1) continue;
        if (v.kind != TD_K_TENSOR) {
            numbers = true;
            continue;
        }
        if (dt != TD_DTYPE_NONE && dt != v.u.t->dtype) return TD_DTYPE_NONE;
        dt = (td_dtype)v.u.t->dtype;
    }
    return numbers && !td__is_differentiable(dt) ? TD_DTYPE_NONE : dt;
}

/* Masks do not take part. An integer result of promotion becomes the default float
 * where the row says TD_DT_FLOAT. */
td_dtype td__pw_common(const td_opcall *c, const td_pw_args *a) {
    td_value in[TD_LOOP_INPUTS];
    int      n = 0;
    unsigned dtypes = c->def->dtypes;
    if (dtypes & TD_DT_FIRST) return (td_dtype)td__in(c, a->in[0])->dtype;
    td_dtype dt = shared_dtype(c, a);
    if (dt == TD_DTYPE_NONE) {
        for (int k = 0; k < a->n_in; k++)
            if (!(a->masks >> k & 1)) in[n++] = c->in[a->in[k]];
        dt = td__result_type(c->cx, in, n);
    }
    return dtypes & TD_DT_FLOAT && !td__is_differentiable(dt) ? c->cx->default_dtype
                                                              : dt;
}

/* Reports dtypes that the row excludes. */
bool td__pw_check(td_opcall *c, td_dtype common) {
    unsigned dtypes = c->def->dtypes;
    if (TD_LIKELY(!(dtypes & (TD_DT_INT_ONLY | TD_DT_FLOAT_ONLY | TD_DT_NO_BOOL))))
        return true;
    if (dtypes & TD_DT_INT_ONLY && td__is_differentiable(common))
        return td__op_fail(c, TD_E_DTYPE, "is not defined on floats, got %s",
                           td_dtype_name(common));
    if (dtypes & TD_DT_FLOAT_ONLY && !td__is_differentiable(common))
        return td__op_fail(c, TD_E_DTYPE, "is defined on floats only, got %s",
                           td_dtype_name(common));
    if (dtypes & TD_DT_NO_BOOL && common == TD_BOOL)
        return td__op_fail(
            c, TD_E_DTYPE,
            "is not defined on bool; convert to an integer or a float first");
    return true;
}

/* ---- layout ------------------------------------------------------------- */

/* Row-major to the letter: strides of size-1 dims included, and not empty. */
static bool is_canonical(const td_tensor *t) {
    int64_t step = 1;
    if (TD_LIKELY(t->plain)) return true;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (!td__dim_seems_eq(t->stride[d], step) || td__dim_seems_eq(t->size[d], 0))
            return false;
        step = td__dim_mul(step, t->size[d]);
    }
    return true;
}

/* The operands whose strides decide the layout of the result, after ATen's conversion
 * to the common dtype: a converted operand is a packed copy, and its strides are those
 * of the copy. */
typedef struct layout_operands {
    int     n;
    bool    same_shape; /* all of the result's sizes, no number among them */
    int64_t stride[TD_LOOP_INPUTS][TD_MAX_RANK];
} layout_operands;

/* Adds operand t, with stride 0 where it is broadcast to the sizes of m. */
static void add_operand(layout_operands *v, const td_tensor *t, bool converted,
                        const td_meta *m) {
    int64_t  own[TD_MAX_RANK];
    int64_t *to = v->stride[v->n++];
    int      add = m->rank - t->rank;
    if (converted) td__strides_like(t->rank, t->size, t->stride, own);
    else if (t->rank > 0) memcpy(own, t->stride, sizeof(int64_t) * t->rank);
    for (int d = 0; d < add; d++) to[d] = 0;
    v->same_shape &= add == 0;
    for (int d = 0; d < t->rank; d++) {
        bool same = td__dim_eq(t->size[d], m->size[add + d]);
        to[add + d] = same ? own[d] : 0;
        v->same_shape &= same;
    }
}

/* Are these the strides of a dense NHWC tensor? */
static bool channels_last(const int64_t *size, const int64_t *stride) {
    static const int order[] = {1, 3, 2, 0};
    int64_t          step = 1;
    for (int i = 0; i < 4; i++) {
        if (td__dim_seems_eq(size[order[i]], 1)) continue;
        if (!td__dim_seems_eq(stride[order[i]], step)) return false;
        step = td__dim_mul(step, size[order[i]]);
    }
    return true;
}

/* All operands of one shape: contiguous wins, then channels last, then the strides
 * they share. False: the general rule decides. */
static bool shared_layout(td_meta *m, layout_operands *v) {
    bool   dense = true, last = m->rank == 4, packed = true;
    size_t bytes = sizeof(int64_t) * (size_t)m->rank;
    for (int k = 0; k < v->n; k++) {
        dense &= td__is_dense(m->rank, m->size, v->stride[k]);
        last = last && channels_last(m->size, v->stride[k]);
        packed = packed && td__is_packed(m->rank, m->size, v->stride[k]) &&
                 td__dims_seem_eq(v->stride[k], v->stride[0], m->rank);
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

/* Operands of different shapes or layouts: the result is dense in the order in which
 * ATen's iterator walks the dims. */
static void general_layout(td_meta *m, layout_operands *v) {
    int     order[TD_MAX_RANK];
    bool    row_major = true;
    int64_t step = 1;
    td__iter_order(m->rank, m->size, v->n, v->stride, order);
    for (int i = 0; i < m->rank; i++) {
        row_major &= order[i] == m->rank - 1 - i;
        m->stride[order[i]] = step;
        step = td__dim_mul(step, m->size[order[i]]);
    }
    m->strided = !row_major;
}

/* Only called where the result is not plainly row-major. */
static void lay_out(td_opcall *c, const td_pw_args *a, td_dtype common, td_meta *m) {
    layout_operands v = {.n = 0, .same_shape = true};
    for (int k = 0; k < a->n_in; k++) {
        const td_tensor *t = td__in(c, a->in[k]);
        if (!t) v.same_shape &= td__in_none(c, a->in[k]);
        else add_operand(&v, t, t->dtype != common && !(a->masks >> k & 1), m);
    }
    if (v.same_shape && shared_layout(m, &v)) return;
    general_layout(m, &v);
}

/* Names the last dim whose sizes differ; size: what td__broadcast left of the sizes of
 * the operands before t, filled up to the larger rank. Symbolic sizes are not compared:
 * that would add a guard. */
static bool fail_broadcast(td_opcall *c, const td_tensor *first, const td_tensor *t,
                           int rank, const int64_t *size) {
    char dim[100] = "";
    int  n = rank > t->rank ? rank : t->rank;
    for (int k = 1; k <= t->rank && !*dim; k++) {
        int64_t a = size[n - k], b = t->size[t->rank - k];
        bool    numbers = !td__dim_is_sym(a) && !td__dim_is_sym(b);
        if (numbers && a != b && a != 1 && b != 1)
            snprintf(dim, sizeof dim, "dim -%d is %lld and %lld; ", k, (long long)a,
                     (long long)b);
    }
    return td__op_fail(c, TD_E_SHAPE,
                       "cannot broadcast %s with %s: %ssizes must be equal or 1, "
                       "compared from the last dim on",
                       td__type_str(first), td__type_str(t), dim);
}

/* The sizes all tensors broadcast to; *plain: all have them and are row-major. */
static bool broadcast(td_opcall *c, const td_pw_args *a, td_meta *m, bool *plain) {
    const td_tensor *first = NULL;
    m->rank = 0;
    *plain = true;
    for (int k = 0; k < a->n_in; k++) {
        const td_tensor *t = td__in(c, a->in[k]);
        if (!t) continue;
        if (!first) {
            first = t;
            m->rank = t->rank;
            for (int d = 0; d < t->rank; d++) m->size[d] = t->size[d];
        } else if (t->rank != m->rank ||
                   memcmp(t->size, m->size, sizeof(int64_t) * t->rank)) {
            *plain = false;
            if (!td__broadcast(&m->rank, m->size, t->rank, t->size))
                return fail_broadcast(c, first, t, m->rank, m->size);
        }
        if (*plain) *plain = is_canonical(t);
    }
    return true;
}

/* Scalars are converted to the dtype of the computation and must be in its range. */
static bool scalars_fit(td_opcall *c, const td_pw_args *a, td_dtype common) {
    unsigned dtypes = c->def->dtypes;
    bool     half = dtypes & TD_DT_HALF_SCALARS || !td__is_half(common);
    if (dtypes & TD_DT_SATURATES && !td__is_float(common)) return true;
    for (int k = 0; k < a->n_scalars; k++) {
        int     i = a->scalar[k];
        uint8_t type = c->info->s.in[i].type;
        if ((type == TD_T_SCALAR || type == TD_T_OPT_SCALAR) &&
            !td__number_fits(c, i, half ? common : TD_F32))
            return false;
    }
    return true;
}

/* Row-major operands of one shape need no layout: the result is row-major. */
bool td__pw_meta(td_opcall *c, const td_pw_args *a, td_dtype common, td_dtype result) {
    td_meta *m = &c->meta[0];
    bool     plain;
    if (a->n_scalars && !scalars_fit(c, a, common)) return false;
    m->dtype = result;
    m->strided = false;
    m->offset = 0;
    if (!broadcast(c, a, m, &plain)) return false;
    if (!plain) lay_out(c, a, common, m);
    return true;
}

/* The rule of most rows: promotion, the row's dtype bits, broadcasting. */
bool td__shape_pointwise(td_opcall *c) {
    const td_pw_args *a = td__pw_args(c->def);
    td_dtype          dt = td__pw_common(c, a);
    if (!td__pw_check(c, dt)) return false;
    td_dtype out = c->def->dtypes & TD_DT_BOOL_OUT   ? TD_BOOL
                   : c->def->dtypes & TD_DT_REAL_OUT ? td__real_of(dt)
                                                     : dt;
    return td__pw_meta(c, a, dt, out);
}

/* The replacement becomes an element, so a half must represent it; the threshold is
 * compared in f32. */
bool td__shape_threshold(td_opcall *c) {
    td_dtype dt = (td_dtype)td__in(c, 0)->dtype;
    return (!td__is_half(dt) || td__number_fits(c, 2, dt)) && td__shape_pointwise(c);
}
