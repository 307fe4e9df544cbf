/* gradcheck.c -- td_gradcheck and td_gradgradcheck: compare derivatives with
 * central differences, in f64. The Jacobian of every result with respect to
 * every input that requires grad is computed twice: by backward, one result
 * element at a time, and by varying one input element at a time. A complex element is
 * two real ones, its parts: gradients are those by the parts (docs/complex.md). */
#include "core/callback.h"
#include "eager/eager_int.h"

#include <math.h>
#include <string.h>

/* One check. */
typedef struct check {
    td_ctx     *cx;
    td_region  *fn;
    void       *env;
    td_tensors  in;
    int         n_out;
    const char *who;
    double      eps, atol, rtol, nondet; /* td_check_opts */
    td_tensor **out;  /* [n_out]: results of the run that is differentiated */
    int        *rows; /* [n_out]: numbers of each result; 0: not differentiable */
    double    **jac;  /* [n_out * n_in]: Jacobians by backward, row-major; or NULL */
} check;

/* How many real numbers t has, and the dtype that reads them. */
static int64_t numbers_of(const td_tensor *t) {
    return t->numel * (td__is_complex((td_dtype)t->dtype) ? 2 : 1);
}
static td_dtype wide_of(const td_tensor *t) {
    return td__is_complex((td_dtype)t->dtype) ? TD_C128 : TD_F64;
}

/* Is this input varied? */
static bool varied(const td_tensor *t) { return t && td__needs_grad(t); }

static bool run(check *k, td_tensor **out) {
    for (int i = 0; i < k->n_out; i++) out[i] = NULL;
    bool ok;
    TD_CALLBACK(k->cx, ok = k->fn(k->env, k->in.v, k->in.n, out, k->n_out));
    if (!ok)
        return td__fail(k->cx, TD_E_GRAD, "%s: the checked function returned false",
                        k->who);
    for (int i = 0; i < k->n_out; i++)
        if (!out[i] || td_is_nil(out[i]))
            return td__fail(k->cx, TD_E_GRAD,
                            "%s: the checked function left result %d unset", k->who, i);
    return true;
}

/* ---- through backward --------------------------------------------------- */

/* Row `row` of the Jacobians of result o: gradients for the unit vector e_row. */
static bool backward_row(check *k, int o, int64_t row, td_tensor **in,
                         td_tensor **grads, int n) {
    td_ctx    *cx = k->cx;
    td_tensor *y = k->out[o];
    double    *one = td__zalloc(sizeof *one * (size_t)numbers_of(y));
    if (!one) return td__fail_memory(cx);
    one[row] = 1;
    td_tensor *g = td_from(cx, wide_of(y), td__sizes(y), one);
    td__free(one);
    if (y->dtype != wide_of(y)) g = td_op_to(g, (td_dtype)y->dtype, false);
    td_grad_opts opts = {TD_GRAD_OPTS, .retain_graph = true, .materialize = true,
                         .grads = {&g, 1}};
    return !td_is_nil(g) &&
           td_grad((td_tensors){&y, 1}, (td_tensors){in, n}, grads, &opts);
}

/* Stores a row; `again`: compares it with the stored one, to find backwards that give
 * different results each time. */
static bool store_row(check *k, int o, int i, int64_t row, td_tensor *g, bool again) {
    size_t  n = (size_t)numbers_of(g);
    double *at = k->jac[o * k->in.n + i] + (size_t)row * n;
    if (!again) return td_read(g, wide_of(g), at, n * sizeof(double));
    double *now = td__alloc((n + 1) * sizeof *now);
    if (!now) return td__fail_memory(k->cx);
    bool ok = td_read(g, wide_of(g), now, n * sizeof(double));
    for (size_t e = 0; e < n && ok; e++)
        if (fabs(now[e] - at[e]) > k->nondet)
            ok = td__fail(
                k->cx, TD_E_GRAD,
                "%s: backward gave %.17g, then %.17g for result %d by input %d", k->who,
                at[e], now[e], o, i);
    td__free(now);
    return ok;
}

/* One row of the Jacobian by backward: a tangent that is 1 at element `row` of output
 * o. again: compare with the row stored before, to find results that differ between
 * runs. */
static bool one_row(check *k, int o, int64_t row, bool again) {
    td_tensor *in[32], *grads[32];
    int        n = 0, ok;
    for (int i = 0; i < k->in.n; i++)
        if (varied(k->in.v[i])) in[n++] = k->in.v[i];
    if (!td__scope_push(k->cx)) return false;
    ok = backward_row(k, o, row, in, grads, n);
    for (int i = 0, m = 0; i < k->in.n && ok; i++)
        if (varied(k->in.v[i])) ok = store_row(k, o, i, row, grads[m++], again);
    td__scope_pop(k->cx, NULL, 0);
    return ok;
}

/* Fills k->jac; row 0 of each result is computed twice. */
static bool analytic(check *k) {
    if (!run(k, k->out)) return false;
    bool any = false;
    for (int o = 0; o < k->n_out; o++) {
        td_tensor *y = k->out[o];
        if (!td__is_differentiable((td_dtype)y->dtype) || !td__needs_grad(y)) continue;
        any = true;
        k->rows[o] = (int)numbers_of(y);
        for (int i = 0; i < k->in.n; i++) {
            if (!varied(k->in.v[i])) continue;
            size_t n = (size_t)(numbers_of(y) * numbers_of(k->in.v[i]) + 1);
            if (!(k->jac[o * k->in.n + i] = td__zalloc(n * sizeof(double))))
                return td__fail_memory(k->cx);
        }
        for (int64_t r = 0; r < numbers_of(y); r++)
            if (!one_row(k, o, r, false)) return false;
        if (y->numel && !one_row(k, o, 0, true)) return false;
    }
    return any || td__fail(k->cx, TD_E_GRAD,
                           "%s: no result requires grad, so there is nothing to check",
                           k->who);
}

/* ---- by differences ----------------------------------------------------- */

/* Runs the function on the current inputs and stores all results, one after the
 * other. */
static bool evaluate(check *k, double *to) {
    td_tensor *out[32];
    if (!td__scope_push(k->cx)) return false;
    td_grad_mode was = {td_grad_enabled(k->cx), td_inference_enabled(k->cx)};
    bool         ok = run(k, out);
    for (int o = 0; o < k->n_out && ok; o++) {
        if (!k->rows[o]) continue;
        if (numbers_of(out[o]) != k->rows[o]) {
            ok = td__fail(k->cx, TD_E_GRAD,
                          "%s: the size of result %d depends on the values of inputs",
                          k->who, o);
            break;
        }
        ok = td_read(out[o], wide_of(out[o]), to, sizeof(double) * (size_t)k->rows[o]);
        to += k->rows[o];
    }
    td_no_grad_end(k->cx, was);
    td__scope_pop(k->cx, NULL, 0);
    return ok;
}

/* Compares column e of the Jacobians of input i; lo and hi are results at x - eps and
 * x + eps. */
static bool compare(check *k, int i, int64_t e, const double *lo, const double *hi) {
    int64_t n = numbers_of(k->in.v[i]);
    for (int o = 0; o < k->n_out; o++)
        for (int r = 0; r < k->rows[o]; r++) {
            double num = (*hi++ - *lo++) / (2 * k->eps);
            double ana = k->jac[o * k->in.n + i][(size_t)r * (size_t)n + (size_t)e];
            if (fabs(num - ana) <= k->atol + k->rtol * fabs(num) || num == ana)
                continue;
            return td__fail(k->cx, TD_E_GRAD,
                            "%s: d result %d [element %d] / d input %d [element %lld]: "
                            "backward says %.10g, differences say %.10g",
                            k->who, o, r, i, (long long)e, ana, num);
        }
    return true;
}

/* Varies each element of input i and restores it. */
static bool vary(check *k, int i, double *x, double *lo, double *hi) {
    td_tensor *t = k->in.v[i];
    td_dtype   dt = wide_of(t);
    size_t     bytes = sizeof(double) * (size_t)numbers_of(t);
    bool       ok = td_read(t, dt, x, bytes);
    for (int64_t e = 0; e < numbers_of(t) && ok; e++) {
        double at = x[e];
        x[e] = at - k->eps;
        ok = td_write(t, dt, x, bytes) && evaluate(k, lo);
        x[e] = at + k->eps;
        ok = ok && td_write(t, dt, x, bytes) && evaluate(k, hi);
        x[e] = at;
        ok = td_write(t, dt, x, bytes) && ok && compare(k, i, e, lo, hi);
    }
    return ok;
}

/* The same Jacobian by central differences, one input element at a time. */
static bool numeric(check *k) {
    size_t total = 1;
    for (int o = 0; o < k->n_out; o++) total += (size_t)k->rows[o];
    bool ok = true;
    for (int i = 0; i < k->in.n && ok; i++) {
        if (!varied(k->in.v[i])) continue;
        size_t  more = (size_t)numbers_of(k->in.v[i]);
        double *buf = td__alloc((2 * total + more) * sizeof *buf);
        ok = buf ? vary(k, i, buf + 2 * total, buf, buf + total)
                 : td__fail_memory(k->cx);
        td__free(buf);
    }
    return ok;
}

/* ---- the calls ---------------------------------------------------------- */

/* Checks the arguments. */
static bool ready(const check *k) {
    if (!td__has(k->cx, k->who, "the region", k->fn) ||
        !td__has_list(k->cx, k->who, k->in.v, k->in.n) ||
        !td__has_room(k->cx, k->who, k, k->n_out))
        return false;
    if (k->n_out < 0 || k->in.n > 32 || k->n_out > 32)
        return td__fail(k->cx, TD_E_ARG, "%s: more than 32 inputs or results", k->who);
    for (int i = 0; i < k->in.n; i++) {
        if (k->in.v[i] && !td__enter_in(k->cx, k->in.v[i], TD_H_TENSOR, k->who))
            return false;
        if (varied(k->in.v[i]) && k->in.v[i]->dtype != wide_of(k->in.v[i]))
            return td__fail(k->cx, TD_E_DTYPE,
                            "%s: input %d is %s; differences need f64 or c128", k->who,
                            i, td__type_str(k->in.v[i]));
        if (varied(k->in.v[i]) && td__overlaps_itself(k->in.v[i]))
            return td__fail(k->cx, TD_E_ALIAS,
                            "%s: elements of input %d share memory, so they cannot be "
                            "varied one by one; pass a clone",
                            k->who, i);
    }
    return true;
}

static bool take_opts(check *k, const td_check_opts *opts) {
    td_check_opts o;
    if (!td__opts_take(k->cx, k->who, &o, sizeof o, opts, "TD_CHECK_OPTS"))
        return false;
    k->eps = o.eps > 0 ? o.eps : 1e-6;
    k->atol = o.atol > 0 ? o.atol : 1e-5;
    k->rtol = o.rtol > 0 ? o.rtol : 1e-3;
    k->nondet = o.nondet;
    return true;
}

static bool check_all(check *k) {
    td_tensor *out[32];
    int        rows[32] = {0};
    size_t     n = (size_t)(k->n_out * k->in.n + 1);
    if (!ready(k) || !td__scope_push(k->cx)) return false;
    k->out = out;
    k->rows = rows;
    k->jac = td__zalloc(n * sizeof *k->jac);
    bool ok = k->jac ? analytic(k) : td__fail_memory(k->cx);
    td__scope_pop(k->cx, NULL, 0); /* the graph goes before its inputs are written */
    ok = ok && numeric(k);
    for (size_t i = 0; k->jac && i < n; i++) td__free(k->jac[i]);
    td__free(k->jac);
    return ok;
}

static const char elements[] = "the elements of tensors";

bool td_gradcheck(td_ctx *cx, td_region *fn, void *env, td_tensors in, int n_out,
                  const td_check_opts *opts) {
    check k = {
        .cx = cx, .fn = fn, .env = env, .in = in, .n_out = n_out, .who = "gradcheck"};
    return TD_ENTER_CTX(cx) && td__may_read(cx, "td_gradcheck", elements) &&
           take_opts(&k, opts) && check_all(&k);
}

/* For gradgradcheck: the gradients of fn as a function of its inputs and of the
 * incoming gradients. */
typedef struct inner {
    td_region *fn;
    void      *env;
    int        n_in, n_out; /* of fn */
    bool       diff[32];    /* results that take part */
} inner;

static bool gradients(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                      int n_out) {
    inner     *p = env;
    td_tensor *y[32], *diff[32], *from[32];
    int        m = 0, n = 0;
    (void)n_in;
    if (!p->fn(p->env, in, p->n_in, y, p->n_out)) return false;
    for (int o = 0; o < p->n_out; o++)
        if (p->diff[o]) diff[m++] = y[o];
    for (int i = 0; i < p->n_in; i++)
        if (varied(in[i])) from[n++] = in[i];
    td_grad_opts opts = {TD_GRAD_OPTS, .create_graph = true, .materialize = true,
                         .grads = {in + p->n_in, m}};
    return n == n_out &&
           td_grad((td_tensors){diff, m}, (td_tensors){from, n}, out, &opts);
}

/* An incoming gradient for result y, with distinct values. */
static td_tensor *some_grad(td_ctx *cx, td_tensor *y, int o) {
    double *v = td__alloc(sizeof *v * (size_t)(numbers_of(y) + 1));
    if (!v) return td__fail_memory(cx), td_nil(cx);
    for (int64_t e = 0; e < numbers_of(y); e++)
        v[e] = 0.3 + sin(1.7 * (double)(e + 1) + o);
    td_tensor *g = td_from(cx, wide_of(y), td__sizes(y), v);
    td__free(v);
    if (y->dtype != wide_of(y)) g = td_op_to(g, (td_dtype)y->dtype, false);
    return td_set_requires_grad(g, true);
}

bool td_gradgradcheck(td_ctx *cx, td_region *fn, void *env, td_tensors in, int n_out,
                      const td_check_opts *opts) {
    check      k = {.cx = cx,
                    .fn = fn,
                    .env = env,
                    .in = in,
                    .n_out = n_out,
                    .who = "gradgradcheck"};
    inner      p = {.fn = fn, .env = env, .n_in = in.n, .n_out = n_out};
    td_tensor *y[32], *all[64];
    int        n = in.n, wanted = 0;
    if (!TD_ENTER_CTX(cx) || !td__may_read(cx, "td_gradgradcheck", elements) ||
        !take_opts(&k, opts) || !ready(&k) || !td__scope_push(cx))
        return false;
    bool ok = run(&k, y);
    for (int i = 0; i < in.n; i++) {
        all[i] = in.v[i];
        wanted += varied(in.v[i]);
    }
    for (int o = 0; o < n_out && ok; o++) {
        p.diff[o] =
            td__is_differentiable((td_dtype)y[o]->dtype) && td__needs_grad(y[o]);
        if (!p.diff[o]) continue;
        all[n] = some_grad(cx, y[o], o);
        ok = !td_is_nil(all[n++]);
    }
    check second = k;
    second.fn = gradients;
    second.env = &p;
    second.in = (td_tensors){all, n};
    second.n_out = wanted;
    ok = ok && check_all(&second);
    td__scope_pop(cx, NULL, 0);
    return ok;
}
