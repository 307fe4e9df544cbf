/* dist.c -- distributions: making them, arguments, shapes. dist_rows.c has the
 * formulas, dist_kl.c the divergences. */
#include "nn/dist.h"

#include <stdio.h>

/* ---- making ------------------------------------------------------------- */

static td_distribution make(td_dist_kind kind, td_tensor *a, td_tensor *b,
                            td_tensor *c) {
    return (td_distribution){sizeof(td_distribution), kind, {a, b, c}};
}

td_distribution td_dist_normal(td_tensor *loc, td_tensor *scale) {
    return make(TD_DIST_NORMAL, loc, scale, NULL);
}
td_distribution td_dist_log_normal(td_tensor *loc, td_tensor *scale) {
    return make(TD_DIST_LOG_NORMAL, loc, scale, NULL);
}
td_distribution td_dist_uniform(td_tensor *low, td_tensor *high) {
    return make(TD_DIST_UNIFORM, low, high, NULL);
}
td_distribution td_dist_bernoulli(td_tensor *probs, td_tensor *logits) {
    return make(TD_DIST_BERNOULLI, probs, logits, NULL);
}
td_distribution td_dist_categorical(td_tensor *probs, td_tensor *logits) {
    return make(TD_DIST_CATEGORICAL, probs, logits, NULL);
}
td_distribution td_dist_gamma(td_tensor *concentration, td_tensor *rate) {
    return make(TD_DIST_GAMMA, concentration, rate, NULL);
}
td_distribution td_dist_beta(td_tensor *concentration1, td_tensor *concentration0) {
    return make(TD_DIST_BETA, concentration1, concentration0, NULL);
}
td_distribution td_dist_dirichlet(td_tensor *concentration) {
    return make(TD_DIST_DIRICHLET, concentration, NULL, NULL);
}
td_distribution td_dist_exponential(td_tensor *rate) {
    return make(TD_DIST_EXPONENTIAL, rate, NULL, NULL);
}
td_distribution td_dist_laplace(td_tensor *loc, td_tensor *scale) {
    return make(TD_DIST_LAPLACE, loc, scale, NULL);
}
td_distribution td_dist_poisson(td_tensor *rate) {
    return make(TD_DIST_POISSON, rate, NULL, NULL);
}
td_distribution td_dist_binomial(td_tensor *total_count, td_tensor *probs,
                                 td_tensor *logits) {
    return make(TD_DIST_BINOMIAL, probs, logits, total_count);
}
td_distribution td_dist_student_t(td_tensor *df, td_tensor *loc, td_tensor *scale) {
    return make(TD_DIST_STUDENT_T, df, loc, scale);
}
td_distribution td_dist_multivariate_normal(td_tensor *loc, td_tensor *scale_tril) {
    return make(TD_DIST_MULTIVARIATE_NORMAL, loc, scale_tril, NULL);
}

/* ---- checks ------------------------------------------------------------- */

/* The kinds whose params 0 and 1 are probabilities or logits. */
static bool has_logits(td_dist_kind k) {
    return k == TD_DIST_BERNOULLI || k == TD_DIST_CATEGORICAL || k == TD_DIST_BINOMIAL;
}

static const td_dist_row *row_of(const td_distribution *d) {
    return &td__dist_rows[d->kind];
}

/* A float tensor of the context? The kind may do without. False after td__fail. */
static bool check_param(td_ctx **cx, const char *who, const td_distribution *d, int i) {
    td_tensor *t = d->param[i];
    if (!t && (i >= row_of(d)->params || (has_logits(d->kind) && i < 2))) return true;
    if (!td__enter(t, TD_H_TENSOR, who)) return false;
    if (!*cx) *cx = td_ctx_of(t);
    if (td_ctx_of(t) != *cx)
        return td__fail(*cx, TD_E_ARG,
                        "%s: parameter %d of %s belongs to another context", who, i,
                        row_of(d)->name);
    return td_dtype_is_float(td_dtype_of(t)) ||
           td__fail(*cx, TD_E_DTYPE,
                    "%s: parameter %d of %s is %s; it must have a float dtype", who, i,
                    row_of(d)->name, td__type_str(t));
}

/* Can the distribution be used? *cx gets its context. False after td__fail. */
static bool check(td_ctx **cx, const char *who, const td_distribution *d) {
    if (d->size != sizeof *d || (unsigned)d->kind >= TD_DIST_COUNT) {
        if (!*cx) *cx = td__ctx_of_any(NULL);
        return td__fail(
            *cx, TD_E_ARG,
            "%s: the td_distribution is invalid; make it with td_dist_normal or "
            "another of the td_distribution functions",
            who);
    }
    for (int i = 0; i < 3; i++)
        if (!check_param(cx, who, d, i)) return false;
    if (!has_logits(d->kind) || !d->param[0] != !d->param[1]) return td_ok(*cx);
    if (!*cx) *cx = td__ctx_of_any(NULL);
    return td__fail(*cx, TD_E_ARG,
                    "%s: %s takes either probs or logits; the other is NULL", who,
                    row_of(d)->name);
}

static td_tensor *nil_of(td_ctx *cx) { return cx ? td_nil(cx) : td_nil(NULL); }

/* Fails for a value that the kind does not have. Returns nil. */
static td_tensor *none(td_ctx *cx, const char *who, const td_distribution *d) {
    return td_fail(cx, TD_E_UNSUPPORTED, "%s: %s has none in closed form", who,
                   row_of(d)->name);
}

/* ---- shapes ------------------------------------------------------------- */

/* Sizes of a result: shape, then those of the parameters broadcast, without the last
 * dim of what is chosen from, or whose rows are factors. */
typedef struct sizes {
    int64_t v[TD_MAX_RANK];
    int     n;
} sizes;

/* Broadcasts size s at dim d from the end into the sizes. */
static void widen(sizes *to, const int64_t *of, int n) {
    for (int i = 1; i <= n; i++) {
        if (i > to->n) to->v[TD_MAX_RANK - i] = 1;
        int64_t *now = &to->v[TD_MAX_RANK - i];
        if (*now == 1) *now = of[n - i];
    }
    if (n > to->n) to->n = n;
}

/* The sizes of one draw, at the end of to->v. */
static void batch_sizes(const td_distribution *d, sizes *to) {
    for (int i = 0; i < 3; i++) {
        td_tensor *t = d->param[i];
        int64_t    of[TD_MAX_RANK];
        if (!t) continue;
        int  n = td_rank(t);
        bool matrix = d->kind == TD_DIST_MULTIVARIATE_NORMAL && i == 1;
        if (d->kind == TD_DIST_CATEGORICAL || matrix) n--;
        for (int k = 0; k < n; k++) of[k] = td_sym_size(t, k);
        widen(to, of, n);
    }
}

/* Puts the shape in front; to->v then begins with the first size. False after td__fail.
 * */
static bool whole_sizes(td_ctx *cx, const char *who, const td_distribution *d,
                        td_ints shape, sizes *to) {
    sizes batch = {.n = 0};
    if (!td__has_list(cx, who, shape.v, shape.n)) return false;
    batch_sizes(d, &batch);
    to->n = shape.n + batch.n;
    if (to->n > TD_MAX_RANK)
        return td__fail(cx, TD_E_SHAPE, "%s: the result would have %d dims; at most %d",
                        who, to->n, TD_MAX_RANK);
    for (int i = 0; i < shape.n; i++) to->v[i] = shape.v[i];
    for (int i = 0; i < batch.n; i++)
        to->v[shape.n + i] = batch.v[TD_MAX_RANK - batch.n + i];
    return true;
}

/* ---- drawing ------------------------------------------------------------ */

/* Have the parameters the dims of their kind? False after td__fail. */
static bool check_dims(td_ctx *cx, const char *who, const td_distribution *d) {
    int first = d->kind == TD_DIST_CATEGORICAL || d->kind == TD_DIST_DIRICHLET ||
                d->kind == TD_DIST_MULTIVARIATE_NORMAL;
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        int least = first + (d->kind == TD_DIST_MULTIVARIATE_NORMAL && i == 1);
        ok &= !d->param[i] || td_rank(d->param[i]) >= least;
    }
    return ok ||
           td__fail(cx, TD_E_SHAPE,
                    "%s: a parameter of %s has too few dims; its last dim is that "
                    "of the values",
                    who, row_of(d)->name);
}

static td_tensor *draw(const char *who, const td_distribution *d, td_ints shape) {
    td_ctx *cx = NULL;
    sizes   s;
    if (!check(&cx, who, d) || !check_dims(cx, who, d) ||
        !whole_sizes(cx, who, d, shape, &s))
        return nil_of(cx);
    return row_of(d)->draw(d, (td_ints){s.v, s.n});
}

td_tensor *td_dist_rsample(td_distribution d, td_ints shape) {
    static const char who[] = "td_dist_rsample";
    td_ctx           *cx = NULL;
    if (!check(&cx, who, &d)) return nil_of(cx);
    if (row_of(&d)->integers)
        return td_fail(cx, TD_E_GRAD,
                       "%s: %s has integer values, which have no gradient; use "
                       "td_dist_sample",
                       who, row_of(&d)->name);
    return draw(who, &d, shape);
}

td_tensor *td_dist_sample(td_distribution d, td_ints shape) {
    static const char who[] = "td_dist_sample";
    td_ctx           *cx = NULL;
    if (!check(&cx, who, &d)) return nil_of(cx);
    td_grad_mode was = td_no_grad_begin(cx);
    td_tensor   *t = draw(who, &d, shape);
    td_no_grad_end(cx, was);
    return t;
}

/* ---- values ------------------------------------------------------------- */

td_tensor *td_dist_log_prob(td_distribution d, td_tensor *value) {
    static const char who[] = "td_dist_log_prob";
    td_ctx           *cx = NULL;
    if (!check(&cx, who, &d) || !check_dims(cx, who, &d) ||
        !td__enter_in(cx, value, TD_H_TENSOR, who))
        return nil_of(cx);
    return row_of(&d)->log_prob(&d, value);
}

/* A function of the parameters alone. */
static td_tensor *of_params(const char *who, const td_distribution *d,
                            td_tensor *(*fn)(const td_distribution *d)) {
    td_ctx *cx = NULL;
    if (!check(&cx, who, d) || !check_dims(cx, who, d)) return nil_of(cx);
    return fn ? fn(d) : none(cx, who, d);
}

/* The row of any td_distribution; one without functions if it is invalid. */
static td_dist_row any_row(const td_distribution *d) {
    return (unsigned)d->kind < TD_DIST_COUNT ? *row_of(d) : (td_dist_row){0};
}

td_tensor *td_dist_entropy(td_distribution d) {
    return of_params("td_dist_entropy", &d, any_row(&d).entropy);
}
td_tensor *td_dist_mean(td_distribution d) {
    return of_params("td_dist_mean", &d, any_row(&d).mean);
}
td_tensor *td_dist_variance(td_distribution d) {
    return of_params("td_dist_variance", &d, any_row(&d).variance);
}

td_tensor *td_dist_kl(td_distribution p, td_distribution q) {
    static const char who[] = "td_dist_kl";
    td_ctx           *cx = NULL;
    if (!check(&cx, who, &p) || !check(&cx, who, &q) || !check_dims(cx, who, &p) ||
        !check_dims(cx, who, &q))
        return nil_of(cx);
    td_tensor *kl = td__dist_kl(&p, &q);
    return kl ? kl
              : td_fail(cx, TD_E_UNSUPPORTED,
                        "%s: the divergence of %s from %s has no closed form; estimate "
                        "it from samples and log_prob",
                        who, row_of(&p)->name, row_of(&q)->name);
}
