/* kern_reduce_ops.c -- the kernels of sums, products, extremes, truth, moments and
 * norms: each says which reduction it is and how results are finished. */
#include "kernels/kern_complex.h"

#include <math.h>
#include <string.h>

/* Plans the reduction of in[0] into out[0] over the dims of argument `arg`. */
static void start(td_opcall *c, td_reduction *r, int arg, bool empty_is_all) {
    static const td_value none = {TD_K_NONE, 0, {0}};
    const td_tensor      *t = td__in(c, 0);
    bool                  mask[TD_MAX_RANK + 1];
    td__reduce_init(r, t, (td_dtype)c->out[0]->dtype);
    td__reduce_mask(arg < 0 ? &none : &c->in[arg], t->rank, empty_is_all, mask);
    td__walk_make(&r->w, t, mask, false);
    r->dst = td__ptr(c->out[0]);
}

/* ---- sums and products ------------------------------------------------- */

/* A full sum of a small dense tensor, the commonest reduction of all. */
static bool sum_small(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td_tensor       *out = c->out[0];
    if (t->dtype != TD_F32 || out->dtype != TD_F32 || out->numel != 1 ||
        t->numel > 8192 || !td__is_dense(t->rank, t->size, t->stride))
        return false;
    float sum = 0;
    td__reduce_loops()->row[TD_ACC_F32][TD_RED_SUM](td__ptr(t), t->numel, &sum);
    *(float *)(void *)td__ptr(out) = sum;
    return true;
}

/* A bool result asks whether any (MAX) or every (MIN) element is true: 0 or 1 in
 * the elements' own accumulator, as the greatest or least of them. */
static void as_truth(td_reduction *r, td_red op) {
    r->acc = td__acc_of(r->in);
    r->round = TD_DTYPE_NONE;
    r->map = TD_MAP_NONZERO;
    r->op = op;
    if (r->w.reds > 0) return;
    r->acc = TD_ACC_I64; /* nothing to look at: the identity of the question */
    r->op = op == TD_RED_MIN ? TD_RED_PROD : TD_RED_SUM;
}

bool td__kern_sum(td_opcall *c) {
    td_reduction r;
    if (sum_small(c)) return true;
    start(c, &r, 1, true);
    if (r.out == TD_BOOL) as_truth(&r, TD_RED_MAX);
    return td__reduce_run(c->cx, &r);
}

bool td__kern_nansum(td_opcall *c) {
    td_reduction r;
    start(c, &r, 1, true);
    r.skip_nan = td__is_float(r.in);
    if (r.out == TD_BOOL) as_truth(&r, TD_RED_MAX);
    else if (r.skip_nan && r.acc != TD_ACC_I64) r.map = TD_MAP_NAN0;
    /* NaN has no integer: it becomes 0 before the conversion. */
    if (r.skip_nan && r.map != TD_MAP_NAN0 && r.round == TD_DTYPE_NONE)
        r.round = r.out == TD_BOOL ? r.in : r.out;
    return td__reduce_run(c->cx, &r);
}

/* A finish: accumulators over r->k. */
static void divide(const td_reduction *r, void *acc, int64_t place, int64_t n) {
    (void)place;
    for (int64_t i = 0; i < n; i++) {
        if (r->acc == TD_ACC_F32) ((float *)acc)[i] /= (float)r->k;
        else ((double *)acc)[i] /= r->k;
    }
}

/* The sum over the count; of no elements it is 0 / 0, NaN. */
bool td__kern_mean(td_opcall *c) {
    td_reduction r;
    start(c, &r, 1, true);
    r.k = (double)r.w.reds;
    r.finish = divide;
    return td__reduce_run(c->cx, &r);
}

/* arg < 0: over all elements. */
static bool run_prod(td_opcall *c, int arg) {
    td_reduction r;
    start(c, &r, arg, true);
    r.op = TD_RED_PROD;
    if (td__is_complex(r.in)) return td__complex_prod(&r);
    if (r.out == TD_BOOL) as_truth(&r, TD_RED_MIN);
    return td__reduce_run(c->cx, &r);
}

bool td__kern_prod(td_opcall *c) { return run_prod(c, -1); }
bool td__kern_prod_dim(td_opcall *c) { return run_prod(c, 1); }

/* ---- truth ------------------------------------------------------------- */

/* all is the minimum, any the maximum of "is not zero". An empty list of dims reduces
 * none. */
static bool run_truth(td_opcall *c, td_red op) {
    td_reduction r;
    start(c, &r, 1, false);
    as_truth(&r, op);
    return td__reduce_run(c->cx, &r);
}

bool td__kern_all(td_opcall *c) { return run_truth(c, TD_RED_MIN); }
bool td__kern_any(td_opcall *c) { return run_truth(c, TD_RED_MAX); }

/* Ones are added in f32 only up to a block, where they are exact; f64 is used
 * throughout to stay so. */
bool td__kern_count_nonzero(td_opcall *c) {
    td_reduction r;
    start(c, &r, 1, true);
    r.acc = td__is_float(r.in) ? TD_ACC_F64 : TD_ACC_I64;
    r.map = TD_MAP_NONZERO;
    return td__reduce_run(c->cx, &r);
}

/* ---- extremes ---------------------------------------------------------- */

/* A NaN wins, by the loops. */
static bool run_extreme(td_opcall *c, int arg, td_red op) {
    td_reduction r;
    start(c, &r, arg, true);
    r.op = op;
    return td__reduce_run(c->cx, &r);
}

bool td__kern_amax(td_opcall *c) { return run_extreme(c, 1, TD_RED_MAX); }
bool td__kern_amin(td_opcall *c) { return run_extreme(c, 1, TD_RED_MIN); }
bool td__kern_max(td_opcall *c) { return run_extreme(c, -1, TD_RED_MAX); }
bool td__kern_min(td_opcall *c) { return run_extreme(c, -1, TD_RED_MIN); }

/* ---- moments ----------------------------------------------------------- */

/* Two passes: the mean, then the squares of the distances from it. One pass would
 * cancel where the mean is large. */
bool td__moments(td_ctx *cx, const td_tensor *t, const bool *mask, td_walk *w,
                 double *mean, double *m2) {
    td_reduction r;
    td__reduce_init(&r, t, TD_F64);
    td__walk_make(&r.w, t, mask, false);
    *w = r.w;
    r.raw = mean;
    r.k = (double)r.w.reds;
    r.finish = divide;
    if (!td__reduce_run(cx, &r)) return false;
    r.center = mean;
    r.raw = m2;
    r.finish = NULL;
    return td__reduce_run(cx, &r);
}

/* Stores doubles given by place as the elements of a dense result. */
static void spread(const td_walk *w, const double *v, td_tensor *out) {
    td_dtype dt = (td_dtype)out->dtype;
    char    *p = td__ptr(out);
    for (int64_t i = 0; i < w->outs; i++)
        td__store_f(dt, p + td__walk_out(w, i) * td__dtype_bytes[dt], v[i]);
}

/* in: self, dim, correction, keepdim. Computed in double for every dtype. */
static bool run_var(td_opcall *c, bool root, bool with_mean) {
    const td_tensor *t = td__in(c, 0);
    size_t           n = (size_t)c->out[0]->numel, bytes = (2 * n + 1) * sizeof(double);
    bool             mask[TD_MAX_RANK + 1];
    td_walk          w;
    double          *mean = td__block_alloc(bytes);
    if (!mean) return td__fail_memory(c->cx);
    double *m2 = mean + n;
    td__reduce_mask(&c->in[1], t->rank, true, mask);
    bool ok = td__moments(c->cx, t, mask, &w, mean, m2);
    if (ok) {
        double over = (double)w.reds - td__in_f(c, 2);
        for (size_t i = 0; i < n; i++) {
            m2[i] /= over > 0 && w.reds > 0 ? over : 0; /* of nothing: NaN */
            if (root) m2[i] = sqrt(m2[i]);
        }
        spread(&w, m2, c->out[0]);
        if (with_mean) spread(&w, mean, c->out[1]);
    }
    td__block_free(mean, bytes);
    return ok;
}

bool td__kern_var(td_opcall *c) { return run_var(c, false, false); }
bool td__kern_std(td_opcall *c) { return run_var(c, true, false); }
bool td__kern_var_mean(td_opcall *c) { return run_var(c, false, true); }
bool td__kern_std_mean(td_opcall *c) { return run_var(c, true, true); }

/* ---- norms ------------------------------------------------------------- */

/* A finish: the p-th root of the sums. */
static void root(const td_reduction *r, void *acc, int64_t place, int64_t n) {
    (void)place;
    for (int64_t i = 0; i < n; i++) {
        double x =
            r->acc == TD_ACC_F32 ? (double)((float *)acc)[i] : ((double *)acc)[i];
        x = r->k == 2 ? sqrt(x) : pow(x, 1 / r->k);
        if (r->acc == TD_ACC_F32) ((float *)acc)[i] = (float)x;
        else ((double *)acc)[i] = x;
    }
}

/* in: self, p, dim, keepdim, dtype. A norm over one element is |x| exactly, without
 * power and root. */
bool td__kern_norm(td_opcall *c) {
    td_reduction r;
    double       p = td__in_f(c, 1);
    start(c, &r, 2, true);
    r.map = TD_MAP_ABS;
    r.k = r.power = p;
    bool one = td__in(c, 0)->numel == c->out[0]->numel; /* of one element: |x| */
    if (isinf(p)) r.op = p > 0 ? TD_RED_MAX : TD_RED_MIN;
    else if (p == 0) r.map = TD_MAP_NONZERO;
    else if (p != 1 && !one) {
        r.map = p == 2 ? TD_MAP_SQUARE : TD_MAP_POW;
        r.finish = root;
    }
    return td__reduce_run(c->cx, &r);
}
