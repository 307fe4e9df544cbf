/* shape_create.c -- shape rules of creation: sizes and dtypes from numbers. All checks
 * of these ops are here; their kernels only fill. A dtype that is not given is the
 * default float, or follows from the values (full, arange). */
#include "rules/create.h"
#include "rules/shape_rules.h"

#include <math.h>
#include <string.h>

/* ---- shared ------------------------------------------------------------- */

td_dtype td__create_dtype(const td_opcall *c, td_dtype otherwise) {
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].kind == TD_K_DTYPE) return c->in[i].u.dt;
    return otherwise;
}

/* The row must have one. */
int td__scalar_arg(const td_opcall *c) {
    int i = 0;
    while (c->info->s.in[i].type != TD_T_SCALAR) i++;
    return i;
}

/* Negative sizes and too many dims are errors. */
bool td__create_sizes(td_opcall *c, int i, td_dtype dt) {
    td_value v = c->in[i];
    if (v.n > TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE,
                           "size has %u entries; at most %d dims are supported", v.n,
                           TD_MAX_RANK);
    for (uint32_t d = 0; d < v.n; d++)
        if (td__dim_lt(v.u.ints[d], 0))
            return td__op_fail(c, TD_E_SHAPE,
                               "size %lld of dim %u must not be negative",
                               (long long)v.u.ints[d], d);
    td__meta_dense(&c->meta[0], dt, (int)v.n, v.u.ints);
    return true;
}

void td__create_like(td_opcall *c) {
    td__meta_like(&c->meta[0], td__in(c, 0));
    c->meta[0].dtype = td__create_dtype(c, c->meta[0].dtype);
}

/* A fill value, where the op has one, must fit the dtype of the result; a single
 * narrow float may overflow, as in ATen. */
static bool check_fill(td_opcall *c) {
    const td_meta *m = &c->meta[0];
    if (td__is_narrow(m->dtype) && td__dim_eq(td__numel(m->rank, m->size), 1))
        return true;
    for (int i = 0; i < c->n_in; i++)
        if (c->info->s.in[i].type == TD_T_SCALAR)
            return td__number_fits(c, i, m->dtype);
    return true;
}

/* Sizes are argument `size`, strides the next; zero strides are allowed, negative ones
 * are not. */
static bool strided(td_opcall *c, int size, td_dtype dt) {
    td_value stride = c->in[size + 1];
    td_meta *m = &c->meta[0];
    if (!td__create_sizes(c, size, dt)) return false;
    if ((int)stride.n != m->rank)
        return td__op_fail(c, TD_E_ARG,
                           "size has %d entries and stride %u; they must have as many",
                           m->rank, stride.n);
    m->strided = true;
    for (int d = 0; d < m->rank; d++) {
        m->stride[d] = stride.u.ints[d];
        if (td__dim_lt(m->stride[d], 0))
            return td__op_fail(c, TD_E_ARG,
                               "stride %lld of dim %d must not be negative",
                               (long long)m->stride[d], d);
    }
    return true;
}

/* ---- rules -------------------------------------------------------------- */

/* in: size, dtype. empty, zeros, ones. */
bool td__shape_create(td_opcall *c) {
    return td__create_sizes(c, 0, td__create_dtype(c, c->cx->default_dtype));
}

/* in: size, stride, dtype. */
bool td__shape_create_strided(td_opcall *c) {
    return strided(c, 0, td__create_dtype(c, c->cx->default_dtype));
}

/* in: size, physical_layout, dtype. The layout lists the dims from the outermost in
 * memory on. */
bool td__shape_create_permuted(td_opcall *c) {
    td_value order = c->in[1];
    td_meta *m = &c->meta[0];
    uint64_t seen = 0;
    int64_t  step = 1;
    if (!td__create_sizes(c, 0, td__create_dtype(c, c->cx->default_dtype)))
        return false;
    for (uint32_t i = 0; i < order.n && (int)order.n == m->rank; i++)
        if (order.u.ints[i] >= 0 && order.u.ints[i] < m->rank)
            seen |= (uint64_t)1 << order.u.ints[i];
    if ((int)order.n != m->rank || seen != ((uint64_t)1 << m->rank) - 1)
        return td__op_fail(c, TD_E_ARG,
                           "physical_layout %s must list each of the %d dims once",
                           td__sizes_str((int)order.n, order.u.ints), m->rank);
    m->strided = true;
    for (int i = m->rank - 1; i >= 0; i--) {
        int64_t d = order.u.ints[i];
        m->stride[d] = step;
        step = td__dim_mul(step, td__dim_max(m->size[d], 1));
    }
    return true;
}

/* in: length, .., dtype. A window: one floating point vector. */
bool td__shape_window(td_opcall *c) {
    td_dtype dt = td__create_dtype(c, c->cx->default_dtype);
    int64_t  n = td__in_int(c, 0);
    if (td__dim_lt(n, 0))
        return td__op_fail(c, TD_E_ARG, "the length must not be negative, got %lld",
                           (long long)n);
    if (!td__is_float(dt))
        return td__op_fail(c, TD_E_DTYPE, "dtype must be floating point, got %s",
                           td_dtype_name(dt));
    td__meta_dense(&c->meta[0], dt, 1, &n);
    return true;
}

/* in: M, beta, sym, dtype. Kaiser's window of torch.signal.windows. */
bool td__shape_signal_kaiser(td_opcall *c) {
    if (!td__shape_window(c)) return false;
    if (td__in_f(c, 1) < 0)
        return td__op_fail(c, TD_E_ARG, "beta must not be negative, got %g",
                           td__in_f(c, 1));
    return !td__is_half(c->meta[0].dtype) ||
           td__op_fail(c, TD_E_DTYPE, "dtype must be f32 or f64, got %s",
                       td_dtype_name(c->meta[0].dtype));
}

/* in: size, value, dtype. Without a dtype, that of the value: bool, i64 or the default
 * float. */
bool td__shape_full(td_opcall *c) {
    td_dtype dt = td__result_type(c->cx, &c->in[1], 1);
    return td__create_sizes(c, 0, td__create_dtype(c, dt)) && check_fill(c);
}

/* in: value, dtype. */
bool td__shape_scalar_tensor(td_opcall *c) {
    td__meta_dense(&c->meta[0], td__create_dtype(c, c->cx->default_dtype), 0, NULL);
    return check_fill(c);
}

/* in: self, .., dtype. The order of dims of self is kept. */
bool td__shape_like(td_opcall *c) {
    td__create_like(c);
    return check_fill(c);
}

/* in: self, size, .., dtype: the sizes given, the dtype of self. */
bool td__shape_new(td_opcall *c) {
    td_dtype dt = td__create_dtype(c, (td_dtype)td__in(c, 0)->dtype);
    return td__create_sizes(c, 1, dt) && check_fill(c);
}

/* in: self, size, stride, dtype. */
bool td__shape_new_strided(td_opcall *c) {
    return strided(c, 1, td__create_dtype(c, (td_dtype)td__in(c, 0)->dtype));
}

/* in: n, m or none, dtype. */
bool td__shape_eye(td_opcall *c) {
    int64_t n = td__in_int(c, 0), m = td__in_none(c, 1) ? n : td__in_int(c, 1);
    if (td__dim_lt(n, 0) || td__dim_lt(m, 0))
        return td__op_fail(c, TD_E_ARG, "%s must not be negative, got %lld",
                           td__dim_lt(n, 0) ? "n" : "m",
                           (long long)(td__dim_lt(n, 0) ? n : m));
    td__meta_dense(&c->meta[0], td__create_dtype(c, c->cx->default_dtype), 2,
                   (int64_t[]){n, m});
    return true;
}

/* How many elements arange has; integers are counted exactly. */
static bool arange_size(td_opcall *c, bool ints, int64_t *n) {
    double start = td__in_f(c, 0), end = td__in_f(c, 1), step = td__in_f(c, 2);
    if (ints) {
        int64_t  a = c->in[0].u.i, b = c->in[1].u.i, s = c->in[2].u.i;
        /* |b - a| fits an unsigned word whatever the signs are. */
        uint64_t span = s > 0 ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
        uint64_t width = s > 0 ? (uint64_t)s : 0 - (uint64_t)s;
        uint64_t count = span / width + (span % width != 0);
        *n = count < (uint64_t)TD_DIM_HUGE ? (int64_t)count : TD_DIM_HUGE;
    } else {
        if (!isfinite(step))
            return td__op_fail(c, TD_E_ARG, "step must be finite, got %g", step);
        double count = ceil((end - start) / step);
        *n = count < (double)TD_DIM_HUGE ? (int64_t)count : TD_DIM_HUGE;
    }
    if (*n < TD_DIM_HUGE) return true;
    return td__op_fail(c, TD_E_ARG, "too many elements from %.9g to %.9g by %.9g",
                       start, end, step);
}

/* A range of integers some of which are symbolic. */
static bool symbolic_arange(td_opcall *c, td_dtype dt) {
    int64_t a = c->in[0].u.i, b = c->in[1].u.i, s = td__dim_fixed(c->in[2].u.i);
    int64_t span = s > 0 ? td__dim_sub(b, a) : td__dim_sub(a, b), by = s > 0 ? s : -s;
    if (s == 0) return td__op_fail(c, TD_E_ARG, "step must not be 0");
    if (td__dim_lt(span, 0))
        return td__op_fail(
            c, TD_E_ARG,
            "step %lld does not lead from start %s to end %s; change its sign",
            (long long)s, td__sizes_str(1, &a), td__sizes_str(1, &b));
    int64_t n = td__dim_div(td__dim_add(span, by - 1), by);
    td__meta_dense(&c->meta[0], dt, 1, &n);
    return true;
}

static bool any_symbolic(const td_opcall *c, int n) {
    for (int i = 0; i < n; i++)
        if (c->in[i].kind == TD_K_INT && td__dim_is_symbolic(c->in[i].u.i)) return true;
    return false;
}

/* in: start, end, step, dtype. All integers give i64; a symbolic bound gives a symbolic
 * size. */
bool td__shape_arange(td_opcall *c) {
    bool    ints = true;
    int64_t n = 0;
    for (int i = 0; i < 3; i++) ints &= c->in[i].kind != TD_K_FLOAT;
    td_dtype dt = td__create_dtype(c, ints ? TD_I64 : c->cx->default_dtype);
    if (dt == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "has no bool form; use an integer dtype");
    if (ints && any_symbolic(c, 3)) return symbolic_arange(c, dt);
    double start = td__in_f(c, 0), end = td__in_f(c, 1), step = td__in_f(c, 2);
    if (!isfinite(start) || !isfinite(end) || isnan(step))
        return td__op_fail(
            c, TD_E_ARG,
            "start and end must be finite and step a number, got %g, %g and %g", start,
            end, step);
    if (step == 0) return td__op_fail(c, TD_E_ARG, "step must not be 0");
    if (step > 0 ? start > end : start < end)
        return td__op_fail(
            c, TD_E_ARG,
            "step %g does not lead from start %g to end %g; change its sign", step,
            start, end);
    if (!arange_size(c, ints, &n)) return false;
    td__meta_dense(&c->meta[0], dt, 1, &n);
    return true;
}

/* in: start, end, steps, dtype. end is not read when steps is 1, so only then it need
 * not be representable. */
bool td__shape_linspace(td_opcall *c) {
    td_dtype dt = td__create_dtype(c, c->cx->default_dtype);
    int64_t  n = td__in_int(c, 2);
    bool     one = td__dim_lt(n, 2);
    if (td__dim_lt(n, 0))
        return td__op_fail(c, TD_E_ARG, "steps must not be negative, got %lld",
                           (long long)n);
    if (dt == TD_BOOL && !one)
        return td__op_fail(c, TD_E_DTYPE, "has no bool form; use an integer dtype");
    if (td__dim_lt(0, n) && !td__number_fits(c, 0, dt)) return false;
    if (!one && !td__number_fits(c, 1, dt)) return false;
    td__meta_dense(&c->meta[0], dt, 1, &n);
    return true;
}

/* Elements of an n by m matrix on or below diagonal k, by whole blocks: rows of
 * rising length, then full rows. */
static int64_t count_lower(int64_t n, int64_t m, int64_t k) {
    /* rows [first, full) have i + k + 1 elements, rows from `full` on all m */
    int64_t first = k < -n ? n : k < 0 ? -k : 0; /* first row with any */
    int64_t full = m - 1 - k < first ? first : m - 1 - k;
    if (full > n) full = n;
    if (m == 0) return 0;
    int64_t rows = full - first, low = first + k + 1, high = full + k;
    int64_t rise = rows > 0 ? td__dim_mul(rows, td__dim_add(low, high)) / 2 : 0;
    return td__dim_add(rise, td__dim_mul(n - full, m));
}

/* in: row, col, offset, dtype. [2, number of elements of the triangle]; tril_indices
 * and triu_indices share the rule. */
bool td__shape_tri_indices(td_opcall *c) {
    int64_t  n = td__in_number(c, 0), m = td__in_number(c, 1), k = td__in_number(c, 2);
    td_dtype dt = td__create_dtype(c, TD_I64);
    if (n < 0 || m < 0 || n > INT32_MAX || m > INT32_MAX)
        return td__op_fail(c, TD_E_ARG,
                           "row and col must be from 0 to %d, got %lld, %lld",
                           INT32_MAX, (long long)n, (long long)m);
    if (dt != TD_I64 && dt != TD_I32)
        return td__op_fail(c, TD_E_DTYPE, "dtype must be i64 or i32, got %s",
                           td_dtype_name(dt));
    if (k > m) k = m;
    if (k < -n) k = -n;
    int64_t size[2] = {2, count_lower(n, m, k)};
    if (c->def->cpu == td__kern_triu_indices)
        size[1] = n * m - count_lower(n, m, k - 1);
    td__meta_dense(&c->meta[0], dt, 2, size);
    return true;
}

/* ---- checks ------------------------------------------------------------- */

/* in: a, relation, b, guess. The check of a captured program at run time; has no
 * result. `guess`: the relation was assumed by the trace, not stated by the user, and
 * the message says so. */
bool td__shape_expect(td_opcall *c) {
    static const char *const words[] = {"==", "!=", "<", ">="};
    const char              *rel = c->in[1].u.s;
    int64_t                  ab[2] = {td__in_int(c, 0), td__in_int(c, 2)};
    int                      r = 0;
    while (r < TD_COUNT(words) && strcmp(words[r], rel) != 0) r++;
    if (r == TD_COUNT(words))
        return td__op_fail(c, TD_E_ARG,
                           "no relation \"%.20s\"; there are ==, !=, <, >=", rel);
    if (td__dim_expect(ab[0], (td_dim_rel)r, ab[1])) return true;
    if (td__in_bool(c, 3)) return td__fail_other_size(c->cx, ab[0], rel, ab[1]);
    return td__op_fail(c, TD_E_SHAPE, "a size is not as the program expects: %s %s %s",
                       td__sizes_str(1, &ab[0]), rel, td__sizes_str(1, &ab[1]));
}
