/* check_twice.c -- gradients of gradients of a sample through compiled functions, with
 * each gradient taken inside the body or outside.
 *
 * Stage 0 is the call, with results y; stage k is the gradient, by the float leaves x,
 * of the sum of w sin(v), v being what the stage before gave and w hashed numbers.
 * Through sin each gradient depends on what came before. A body goes through the first
 * stages, its caller through the others: eager's last stage and the compiled one must
 * agree. Eager's second and third stage are held against differences of the one
 * before. */
#include "sample.h"

#include "tandem/aot.h"
#include "tandem/grad.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Gradients inside the body, and all of them. */
typedef struct split {
    int  inside, all;
    bool dynamic;
} split;
static const split splits[] = {{0, 2, false}, {1, 2, false}, {2, 2, false},
                               {1, 3, false}, {2, 3, false}, {1, 2, true},
                               {2, 2, true}};

/* What one stage gives, by end or by leaf; NULL: nothing. */
typedef struct values {
    td_tensor *v[MAX_ENDS];
    int        n;
} values;

typedef struct twice {
    td_ctx       *cx;
    const sample *s;
    td_op         op;
    td_tensor    *leaf[MAX_LEAVES], *by_leaf[MAX_LEAVES]; /* and weights of gradients */
    td_tensor    *by_end[MAX_ENDS];
    int           n_ends; /* as eager's */
    int           all;    /* gradients that eager takes */
    int           inside; /* of the body: gradients it takes, */
    bool          more;   /* ...which will be differentiated */
} twice;

/* ---- stages --------------------------------------------------------------- */

static bool ends(const twice *w, values *to) {
    static inputs in;
    in.strided = false;
    if (!inputs_call(w->cx, w->s, w->op, w->leaf, &in)) return false;
    to->n = grad_ends(&in, to->v);
    return true;
}

static td_tensor *weigh(const values *of, td_tensor *const *by) {
    td_tensor *sum = NULL;
    for (int i = 0; i < of->n; i++) {
        if (!of->v[i] || !td_requires_grad(of->v[i])) continue;
        td_tensor *one = td_sum(td_mul(td_sin(of->v[i]), by[i]));
        sum = sum ? td_add(sum, one) : one;
    }
    return sum;
}

/* *of becomes the gradients of its weighed sum. */
static bool next(const twice *w, int stage, bool create, values *of) {
    td_tensor *need[MAX_LEAVES], *got[MAX_LEAVES];
    int        which[MAX_LEAVES], n = 0;
    td_tensor *sum = weigh(of, stage == 1 ? w->by_end : w->by_leaf);
    for (int i = 0; i < w->s->n_leaves; i++)
        if (w->leaf[i] && td_requires_grad(w->leaf[i]))
            need[n] = w->leaf[i], which[n++] = i;
    of->n = w->s->n_leaves;
    memset(of->v, 0, sizeof of->v);
    if (!sum || !n) return true;
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = create, .allow_unused = true};
    td_tensors   from = {&sum, 1}, to = {need, n};
    if (!td_grad(from, to, got, &o)) return false;
    for (int i = 0; i < n; i++) of->v[which[i]] = td_is_nil(got[i]) ? NULL : got[i];
    return true;
}

static bool stages(const twice *w, int from, int to, bool more, values *of) {
    for (int k = from; k <= to; k++)
        if (k == 0 ? !ends(w, of) : !next(w, k, k < to || more, of)) return false;
    return true;
}

/* ---- compiled ------------------------------------------------------------- */

static bool body(td_call *c) {
    twice    w = *(const twice *)td_call_env(c);
    int      at = 0;
    values   v = {.n = 0};
    td_value out[MAX_ENDS];
    for (int i = 0; i < w.s->n_leaves; i++) w.leaf[i] = td_arg(c, at++);
    for (int i = 0; i < w.s->n_leaves; i++) w.by_leaf[i] = td_arg(c, at++);
    for (int i = 0; i < w.n_ends; i++) w.by_end[i] = td_arg(c, at++);
    if (!stages(&w, 0, w.inside, w.more, &v)) return false;
    for (int i = 0; i < v.n; i++) out[i] = v.v[i] ? td_value_tensor(v.v[i]) : TD_NONE;
    return td_return_values(c, (td_values){out, v.n});
}

/* With symbols the second call captures the body again, for numbers, and compares: what
 * a derivative calls may not depend on whether a size is a symbol. */
static bool compiled(twice *w, split how, values *to) {
    td_value    args[2 * MAX_LEAVES + MAX_ENDS], out[MAX_ENDS];
    int         n = 0;
    td_aot_opts o = {TD_AOT_OPTS,
                     .dynamic = how.dynamic ? TD_SHAPES_DYNAMIC : TD_SHAPES_STATIC};
    for (int i = 0; i < w->s->n_leaves; i++) args[n++] = td_value_tensor(w->leaf[i]);
    for (int i = 0; i < w->s->n_leaves; i++) args[n++] = td_value_tensor(w->by_leaf[i]);
    for (int i = 0; i < w->n_ends; i++) args[n++] = td_value_tensor(w->by_end[i]);
    w->inside = how.inside;
    w->more = how.inside < how.all;
    td_config_set(w->cx, "debug_asserts", how.dynamic ? "on" : "off");
    td_fn *f = td_aot_function(w->cx, body, w, &o);
    for (int calls = 0; calls <= how.dynamic && td_ok(w->cx); calls++)
        to->n = td_invoke_values(f, (td_values){args, n}, out, MAX_ENDS);
    for (int i = 0; i < to->n; i++)
        to->v[i] = out[i].kind == TD_K_TENSOR ? out[i].u.t : NULL;
    bool ok = to->n >= 0 && stages(w, how.inside + 1, how.all, false, to);
    td_fn_drop(f);
    return ok;
}

/* ---- comparing ------------------------------------------------------------ */

static bool read(const td_tensor *t, double *to, int64_t n) {
    memset(to, 0, sizeof *to * (size_t)n);
    return !t || td_read((td_tensor *)(uintptr_t)t, TD_F64, to, sizeof *to * (size_t)n);
}

/* Sums of terms that cancel round by what was added up, so by the largest. */
static bool same(report *r, const char *what, const values *a, const values *b) {
    for (int i = 0; i < a->n; i++) {
        const td_tensor *any = a->v[i] ? a->v[i] : b->v[i];
        int64_t          n = any ? td_numel(any) : 0;
        double          *x = malloc(sizeof *x * (size_t)(2 * n + 1)), most = 1;
        bool             ok = x && read(a->v[i], x, n) && read(b->v[i], x + n, n);
        for (int64_t k = 0; ok && k < n; k++)
            if (isfinite(x[k])) most = fmax(most, fabs(x[k]));
        for (int64_t k = 0; ok && k < n; k++) {
            double e = x[k], c = x[n + k];
            ok = (isnan(e) && isnan(c)) || e == c || fabs(e - c) <= 1e-7 * most;
            if (!ok)
                fail_sample(r, "%s: gradient %d[%lld] is %.12g, eager %.12g", what, i,
                            (long long)k, c, e);
        }
        free(x);
        if (!ok) return r->failures ? false : (fail_sample(r, "no memory"), false);
    }
    return true;
}

/* The weighed sum that stage `w->all` differentiates, with the leaves moved. */
static double moved_sum(const twice *w, td_tensor *const *dir, double by) {
    twice  q = *w;
    values v = {.n = 0};
    double sum = NAN;
    td_scope_begin(w->cx, "move");
    for (int i = 0; i < w->s->n_leaves; i++) {
        if (!dir[i]) continue;
        q.leaf[i] = td_add(td_detach(w->leaf[i]), td_mul(dir[i], by));
        td_set_requires_grad(q.leaf[i], true);
    }
    if (stages(&q, 0, w->all - 1, true, &v)) {
        td_tensor *f = weigh(&v, q.by_leaf);
        sum = f ? td_item(f) : NAN;
    }
    td_scope_end(w->cx, "move", NULL);
    return sum;
}

/* Five points, so that the third derivative of steep functions drops out. */
static double slope_of(const twice *w, td_tensor *const *dir, double h) {
    double near = moved_sum(w, dir, h) - moved_sum(w, dir, -h);
    double far = moved_sum(w, dir, 2 * h) - moved_sum(w, dir, -2 * h);
    return (8 * near - far) / (12 * h);
}

static bool is_near(double a, double b, double scale) {
    return fabs(a - b) <= 1e-4 * (fabs(a) + scale);
}

/* NaN where differences with two steps do not agree: beside a kink, or too steep. */
static double find_slope(const twice *w, td_tensor *const *dir) {
    double last = slope_of(w, dir, 1e-4);
    for (double h = 1e-5; h > 1e-7; h /= 10) {
        double slope = slope_of(w, dir, h);
        if (is_near(last, slope, 1e-3)) return slope;
        last = slope;
    }
    return NAN;
}

/* Eager's last gradients along one direction. */
static void check_slope(report *r, const twice *w, const values *last,
                        twice_stats *st) {
    td_tensor *dir[MAX_LEAVES] = {NULL};
    double     have = 0, scale = 1e-3;
    for (int i = 0; i < w->s->n_leaves; i++) {
        if (!td_requires_grad(w->leaf[i])) continue;
        td_ints size = td_sizes(w->leaf[i]);
        dir[i] = hashed_tensor(w->cx, w->s, 300 + i, TD_F64, size);
        if (leaf_is_mirrored(&w->s->leaves[i]))
            dir[i] = td_add(dir[i], td_transpose(dir[i], -2, -1));
        if (!last->v[i]) continue;
        td_tensor *along = td_mul(td_detach(last->v[i]), dir[i]);
        have += td_item(td_sum(along));
        scale = fmax(scale, td_item(td_sum(td_abs(along))));
    }
    double slope = find_slope(w, dir);
    if (!isfinite(slope) || !td_ok(w->cx)) return;
    st->slopes++;
    if (!is_near(have, slope, scale))
        fail_sample(r, "gradient %d: %.9g along a direction, by differences %.9g",
                    w->all, have, slope);
}

/* ---- the check ------------------------------------------------------------ */

static bool make_leaves(twice *w) {
    bool any = false;
    for (int i = 0; i < w->s->n_leaves; i++) {
        const leaf *l = &w->s->leaves[i];
        int64_t     flat = leaf_numel(l);
        td_ints     size =
            l->has_stride ? (td_ints){&flat, 1} : (td_ints){l->size, l->rank};
        w->leaf[i] = hashed_tensor(w->cx, w->s, i, l->dt, size);
        w->by_leaf[i] = hashed_tensor(w->cx, w->s, 200 + i, TD_F64, size);
        if (!l->grad) continue;
        if (l->dt != TD_F64) return false;
        td_set_requires_grad(w->leaf[i], true);
        any = true;
    }
    return any && td_ok(w->cx);
}

/* Eager's stages; false: the sample has no second gradients to speak of. */
static bool eager(twice *w, int all, values *v) {
    if (!ends(w, v) || !v->n) return false;
    w->n_ends = v->n;
    for (int i = 0; i < v->n; i++) {
        if (td_dtype_of(v->v[i]) != TD_F64) return false;
        w->by_end[i] = hashed_tensor(w->cx, w->s, 100 + i, TD_F64, td_sizes(v->v[i]));
    }
    w->all = all;
    return stages(w, 1, all, false, v);
}

/* Sizes that depend on values are the one thing that may be refused, and as_strided
 * where they take symbols; other programs are compiled for their sizes then. */
static bool is_refusal(td_ctx *cx) {
    td_code     code = td_error(cx);
    const char *why = td_message(cx);
    return (code == TD_E_UNSUPPORTED || code == TD_E_TRACE || code == TD_E_SHAPE) &&
           (strstr(why, "depends on values") || strstr(why, "depend on data") ||
            strstr(why, "as_strided counts in bytes"));
}

static void check_split(report *r, twice *w, split how, const values *want,
                        twice_stats *st) {
    values got = {.n = 0};
    char   what[64];
    snprintf(what, sizeof what, "%d of %d gradients inside%s", how.inside, how.all,
             how.dynamic ? ", dynamic" : "");
    td_scope_begin(w->cx, "split");
    if (compiled(w, how, &got)) {
        st->compared++;
        same(r, what, want, &got);
    } else if (is_refusal(w->cx)) st->refused++;
    else fail_sample(r, "%s: %s", what, td_message(w->cx));
    td_clear(w->cx);
    td_scope_end(w->cx, "split", NULL);
}

void check_twice(td_ctx *cx, report *r, twice_stats *st) {
    twice    w = {.cx = cx, .s = r->s, .op = td__op_find(r->s->op_name)};
    uint32_t tags = r->s->src->tags;
    values   second = {.n = 0}, third = {.n = 0};
    if (tags & (TAG_NOGRAD | TAG_RANDOM | TAG_ERROR)) return;
    if (!make_leaves(&w) || !eager(&w, 2, &second)) {
        td_clear(cx);
        return;
    }
    if (!(tags & (TAG_NOCHECK | TAG_NOCHECK2))) check_slope(r, &w, &second, st);
    bool deep = eager(&w, 3, &third);
    if (deep && !(tags & (TAG_NOCHECK | TAG_NOCHECK2))) check_slope(r, &w, &third, st);
    td_clear(cx);
    for (size_t i = 0; i < sizeof splits / sizeof *splits && !r->failures; i++)
        if (splits[i].all < 3 || deep)
            check_split(r, &w, splits[i], splits[i].all < 3 ? &second : &third, st);
}
