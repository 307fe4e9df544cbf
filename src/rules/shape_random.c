/* shape_random.c -- shape rules of the random family, with the checks of ranges and
 * parameters. A rule draws nothing: a
 * call that fails leaves the generator where it was. */
#include "rules/create.h"
#include "rules/shape_rules.h"

#include <math.h>

/* ---- shared checks ------------------------------------------------------ */

/* The distributions are continuous: integers are an error. */
static bool floats_only(td_opcall *c, td_dtype dt) {
    if (td__is_float(dt)) return true;
    return td__op_fail(c, TD_E_DTYPE, "needs a float dtype, got %s", td_dtype_name(dt));
}

/* The integers a dtype holds; of a float, those up to its largest value. */
static bool int_in(td_dtype dt, double v) {
    switch (dt) {
    case TD_BOOL: return v == 0 || v == 1;
    case TD_U8: return v >= 0 && v <= UINT8_MAX;
    case TD_I8: return v >= INT8_MIN && v <= INT8_MAX;
    case TD_I16: return v >= INT16_MIN && v <= INT16_MAX;
    case TD_I32: return v >= INT32_MIN && v <= INT32_MAX;
    case TD_F16: return fabs(v) <= 65504;
    default: return true;
    }
}

/* [from, to) has elements, and dt represents the first and the last. */
static bool check_range(td_opcall *c, td_dtype dt, int64_t from, int64_t to) {
    if (from >= to)
        return td__op_fail(
            c, TD_E_ARG,
            "the range [%lld, %lld) is empty; its end must be above its start",
            (long long)from, (long long)to);
    if (!int_in(dt, (double)from) || !int_in(dt, (double)(to - 1)))
        return td__op_fail(c, TD_E_ARG,
                           "dtype %s cannot represent all integers of [%lld, %lld)",
                           td_dtype_name(dt), (long long)from, (long long)to);
    return true;
}

bool td__check_probability(td_opcall *c, double p) {
    if (p >= 0 && p <= 1) return true;
    return td__op_fail(c, TD_E_ARG, "p must be from 0 to 1, got %g", p);
}

/* Where the op draws from if it does not use the generator: both arguments or none, 0-d
 * i64 each. */
static bool rng_args(td_opcall *c) {
    int              at = c->info->rng;
    const td_tensor *t[2] = {at < 0 ? NULL : td__in(c, at),
                             at < 0 ? NULL : td__in(c, at + 1)};
    if (!t[0] && !t[1]) return true;
    for (int i = 0; i < 2; i++) {
        const char *name = c->info->s.in[at + i].name;
        if (!t[i])
            return td__op_fail(c, TD_E_ARG,
                               "argument %s is missing; pass both rng_seed and "
                               "rng_offset, or neither",
                               name);
        if (t[i]->dtype != TD_I64 || t[i]->rank)
            return td__op_fail(c, TD_E_SHAPE, "argument %s must be i64[], got %s", name,
                               td__type_str(t[i]));
    }
    return true;
}

/* Result 0 is shaped like argument 0, which must be a float tensor. */
static bool like_float(td_opcall *c) {
    td__create_like(c);
    return rng_args(c) && floats_only(c, c->meta[0].dtype);
}

/* ---- rules -------------------------------------------------------------- */

/* in: size, dtype. rand and randn. */
bool td__shape_rand(td_opcall *c) {
    td_dtype dt = td__create_dtype(c, c->cx->default_dtype);
    return rng_args(c) && floats_only(c, dt) && td__create_sizes(c, 0, dt);
}

bool td__shape_rand_like(td_opcall *c) { return like_float(c); }

/* in: low, high, size, dtype. */
bool td__shape_randint(td_opcall *c) {
    td_dtype dt = td__create_dtype(c, TD_I64);
    return rng_args(c) &&
           check_range(c, dt, td__in_number(c, 0), td__in_number(c, 1)) &&
           td__create_sizes(c, 2, dt);
}

/* in: self, low, high, dtype. */
bool td__shape_randint_like(td_opcall *c) {
    td__create_like(c);
    return rng_args(c) &&
           check_range(c, c->meta[0].dtype, td__in_number(c, 1), td__in_number(c, 2));
}

/* Counting must stay exact: a float holds integers up to 2^digits. */
static double counts_to(td_dtype dt) {
    switch (dt) {
    case TD_F64: return 0x1p53;
    case TD_F32: return 0x1p24;
    case TD_F16: return 0x1p11;
    case TD_BF16: return 0x1p8;
    case TD_I32: return INT32_MAX;
    case TD_I16: return INT16_MAX;
    case TD_I8: return INT8_MAX;
    case TD_U8: return UINT8_MAX;
    default: return 0x1p62;
    }
}

/* in: n, dtype. dt must represent n - 1 exactly, or entries would repeat. */
bool td__shape_randperm(td_opcall *c) {
    td_dtype dt = td__create_dtype(c, TD_I64);
    int64_t  n = td__in_int(c, 0);
    if (!rng_args(c)) return false;
    if (td__dim_lt(n, 0))
        return td__op_fail(c, TD_E_ARG, "n must not be negative, got %lld",
                           (long long)n);
    if (dt == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "has no bool form; use an integer dtype");
    if (!td__dim_is_sym(n) && (double)n - 1 > counts_to(dt))
        return td__op_fail(
            c, TD_E_ARG,
            "dtype %s cannot represent n - 1 = %lld exactly; use a wider one",
            td_dtype_name(dt), (long long)n - 1);
    td__meta_dense(&c->meta[0], dt, 1, &n);
    return true;
}

/* in: self, from, to. The length of the range must be representable as well: the kernel
 * multiplies by it. */
bool td__shape_uniform(td_opcall *c) {
    double from = td__in_f(c, 1), to = td__in_f(c, 2);
    if (!like_float(c)) return false;
    if (!(from <= to))
        return td__op_fail(c, TD_E_ARG, "from must not be above to, got %g and %g",
                           from, to);
    if (isinf(from) || isinf(to))
        return td__op_fail(c, TD_E_ARG, "from and to must be finite, got %g and %g",
                           from, to);
    td_dtype dt = c->meta[0].dtype;
    if (!td__number_fits(c, 1, dt) || !td__number_fits(c, 2, dt)) return false;
    return td__dtype_holds(dt, td_value_float(to - from)) ||
           td__op_fail(c, TD_E_ARG,
                       "the range [%g, %g) is longer than %s can represent", from, to,
                       td_dtype_name(dt));
}

/* in: self, mean, std. */
bool td__shape_normal(td_opcall *c) {
    if (!like_float(c)) return false;
    if (td__in_f(c, 2) >= 0) return true;
    return td__op_fail(c, TD_E_ARG, "std must be 0 or more, got %g", td__in_f(c, 2));
}

/* in: self, lambd. */
bool td__shape_exponential(td_opcall *c) {
    if (!like_float(c)) return false;
    if (td__in_f(c, 1) > 0) return true;
    return td__op_fail(c, TD_E_ARG, "lambd must be over 0, got %g", td__in_f(c, 1));
}

/* in: self, mean, std. */
bool td__shape_log_normal(td_opcall *c) {
    if (!like_float(c)) return false;
    if (td__in_f(c, 2) > 0) return true;
    return td__op_fail(c, TD_E_ARG, "std must be over 0, got %g", td__in_f(c, 2));
}

/* in: self, median, sigma. */
bool td__shape_cauchy(td_opcall *c) {
    if (!like_float(c)) return false;
    if (td__in_f(c, 2) > 0) return true;
    return td__op_fail(c, TD_E_ARG, "sigma must be over 0, got %g", td__in_f(c, 2));
}

/* in: self, p. Any dtype but bool, as in PyTorch. */
bool td__shape_geometric(td_opcall *c) {
    double p = td__in_f(c, 1);
    td__create_like(c);
    if (!rng_args(c)) return false;
    if (c->meta[0].dtype == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "has no bool form; use an integer dtype");
    return (p > 0 && p < 1) ||
           td__op_fail(c, TD_E_ARG, "p must be between 0 and 1, got %g", p);
}

/* in: count, prob. The result has the sizes of count. */
bool td__shape_binomial(td_opcall *c) {
    td_tensor *count = td__in(c, 0), *prob = td__in(c, 1);
    int        more = count->rank - prob->rank;
    bool       fits = more >= 0;
    td__meta_dense(&c->meta[0], (td_dtype)count->dtype, count->rank, count->size);
    if (!rng_args(c) || !floats_only(c, (td_dtype)count->dtype)) return false;
    if (prob->dtype != count->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "prob must have the dtype of count, %s; got %s",
                           td_dtype_name((td_dtype)count->dtype),
                           td_dtype_name((td_dtype)prob->dtype));
    for (int d = 0; fits && d < prob->rank; d++)
        fits = td__dim_eq(prob->size[d], 1) ||
               td__dim_eq(prob->size[d], count->size[d + more]);
    return fits ||
           td__op_fail(c, TD_E_SHAPE, "prob cannot be broadcast to the sizes of count");
}

/* in: self, output; of one type. */
bool td__shape_standard_gamma_grad(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *x = td__in(c, 1);
    td__meta_dense(&c->meta[0], (td_dtype)a->dtype, a->rank, a->size);
    if (!floats_only(c, (td_dtype)a->dtype)) return false;
    if (a->dtype == x->dtype && td__same_sizes(a, x)) return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "output must have the dtype and sizes of self, %s; got another "
                       "type",
                       td__type_str(a));
}

/* in: self, from, to. Without `to` the range ends with the dtype. */
bool td__shape_random(td_opcall *c) {
    td__create_like(c);
    td_dtype dt = c->meta[0].dtype;
    int64_t  from = td__in_none(c, 1) ? 0 : td__in_number(c, 1);
    if (!rng_args(c)) return false;
    if (!td__in_none(c, 2)) return check_range(c, dt, from, td__in_number(c, 2));
    if (!int_in(dt, (double)from))
        return td__op_fail(c, TD_E_ARG, "dtype %s cannot represent from = %lld",
                           td_dtype_name(dt), (long long)from);
    return true;
}

/* in: p, whose elements are probabilities; the kernel checks their values. */
bool td__shape_bernoulli(td_opcall *c) {
    td_tensor *p = td__in(c, 0);
    td__meta_dense(&c->meta[0], (td_dtype)p->dtype, p->rank, p->size);
    return rng_args(c) && floats_only(c, (td_dtype)p->dtype);
}

/* in: self, p. self gives sizes and dtype only. */
bool td__shape_bernoulli_p(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td__meta_dense(&c->meta[0], (td_dtype)t->dtype, t->rank, t->size);
    return rng_args(c) && td__check_probability(c, td__in_f(c, 1));
}

/* in: self (weights [k] or [n,k]), num_samples, replacement. i64 [num_samples] or [n,
 * num_samples]. */
bool td__shape_multinomial(td_opcall *c) {
    td_tensor *p = td__in(c, 0);
    int64_t    n = td__in_number(c, 1), size[2];
    if (!rng_args(c) || !floats_only(c, (td_dtype)p->dtype)) return false;
    if (p->rank != 1 && p->rank != 2)
        return td__op_fail(c, TD_E_SHAPE, "needs a vector or a matrix, got %s",
                           td__type_str(p));
    int64_t choices = p->size[p->rank - 1];
    if (n <= 0)
        return td__op_fail(c, TD_E_ARG, "num_samples must be over 0, got %lld",
                           (long long)n);
    if (!td__dim_expect(choices, TD_DIM_IS_NE, 0))
        return td__op_fail(c, TD_E_SHAPE, "there is nothing to choose from in %s",
                           td__type_str(p));
    if (!td__in_bool(c, 2) && td__dim_lt(choices, n))
        return td__op_fail(
            c, TD_E_ARG,
            "num_samples %lld is more than the %lld weights; pass replacement = true",
            (long long)n, (long long)choices);
    size[0] = p->rank == 2 ? p->size[0] : n;
    size[p->rank - 1] = n;
    td__meta_dense(&c->meta[0], TD_I64, p->rank, size);
    return true;
}

/* ---- dropout ------------------------------------------------------------ */

/* Of nothing any dtype is dropped; where only run time knows the size, the kernel
 * asks again. */
bool td__shape_native_dropout(td_opcall *c) {
    int64_t n = td__in(c, 0)->numel;
    td__meta_like(&c->meta[0], td__in(c, 0));
    c->meta[1] = c->meta[0];
    c->meta[1].dtype = TD_BOOL;
    if (!rng_args(c) || !td__check_probability(c, td__in_f(c, 1))) return false;
    if (!td__in_bool(c, 2) || !n || td__dim_is_symbolic(n)) return true;
    return floats_only(c, c->meta[0].dtype);
}

/* Kept elements were multiplied by 1 / (1 - p), or left alone outside training. */
bool td__vjp_native_dropout(td_vjp *v) {
    double p = td__value_f(v->in[1]), scale = p == 1 ? 0 : 1 / (1 - p);
    if (!v->g[0] || !v->need[0]) return true;
    if (!v->in[2].u.i) scale = 1;
    v->grad[0] = td_op_native_dropout_backward(v->g[0], v->out[1], scale);
    return !td_is_nil(v->grad[0]);
}

/* in: set, i64[2] or none. Result: seed and offset of the generator before the call. */
bool td__shape_random_state(td_opcall *c) {
    static const int64_t two = 2;
    const td_tensor     *set = td__in(c, 0);
    if (set && (set->dtype != TD_I64 || set->rank != 1 || !td__dim_eq(set->size[0], 2)))
        return td__op_fail(c, TD_E_SHAPE, "set must be i64[2], got %s",
                           td__type_str(set));
    td__meta_dense(&c->meta[0], TD_I64, 1, &two);
    return true;
}
