/* decomp_gradient.c -- gradient: derivatives of sampled functions by differences. */
#include "rules/rule_arith.h"

/* A function sampled along dim. The samples are h apart, a number or a tensor without
 * dims, or have coordinates: then `gaps` has their differences, as many dims as f, and
 * size 1 in all but dim. */
typedef struct sampled {
    td_tensor *f, *gaps;
    td_value   h;
    int        dim, order;
} sampled;

/* Entries of t from `start` on without the last `drop`, along the dim. */
static td_tensor *run(const sampled *s, td_tensor *t, int64_t start, int64_t drop) {
    td_value end = drop ? td_value_int(-drop) : td_value_none();
    return td_op_slice(t, s->dim, td_value_int(start), end, 1);
}

/* Entry i of t, a negative i from the end, as a slice of size 1. */
static td_tensor *entry(const sampled *s, td_tensor *t, int64_t i) {
    td_value end = i == -1 ? td_value_none() : td_value_int(i + 1);
    return td_op_slice(t, s->dim, td_value_int(i), end, 1);
}

/* a x + b y + c z. */
static td_tensor *sum3(td_tensor *const *k, td_tensor *x, td_tensor *y, td_tensor *z) {
    return t_add(t_add(t_mul(k[0], x), t_mul(k[1], y)), t_mul(k[2], z));
}

/* ---- samples at one distance -------------------------------------------- */

static td_tensor *over_h(const sampled *s, td_tensor *t) {
    return td_op_div(t, s->h, "");
}

/* The derivative at an end: i counts from it, 0, 1, 2 or -1, -2, -3. */
static td_tensor *even_end(const sampled *s, bool last) {
    int64_t    i = last ? -1 : 0, by = last ? -1 : 1;
    td_tensor *x = entry(s, s->f, i), *y = entry(s, s->f, i + by);
    if (s->order == 1) return over_h(s, last ? t_sub(x, y) : t_sub(y, x));
    td_tensor *z = entry(s, s->f, i + 2 * by);
    double     sign = last ? 1 : -1;
    td_tensor *sum = t_sub(t_scale(x, 1.5 * sign), t_scale(y, 2 * sign));
    return over_h(s, t_add(sum, t_scale(z, 0.5 * sign)));
}

static td_tensor *even_middle(const sampled *s) {
    return t_over(over_h(s, t_sub(run(s, s->f, 2, 0), run(s, s->f, 0, 2))), 2);
}

/* ---- samples at coordinates --------------------------------------------- */

/* The derivative at an end; the difference quotient, or that of the parabola through
 * three samples. g and h are the distances from the end. */
static td_tensor *uneven_end(const sampled *s, bool last) {
    int64_t    i = last ? -1 : 0, by = last ? -1 : 1;
    td_tensor *x = entry(s, s->f, i), *y = entry(s, s->f, i + by);
    td_tensor *g = entry(s, s->gaps, i);
    if (s->order == 1) return t_div(last ? t_sub(x, y) : t_sub(y, x), g);
    td_tensor *z = entry(s, s->f, i + 2 * by), *h = entry(s, s->gaps, i + by);
    td_tensor *both = t_add(g, h);
    td_tensor *k[3] = {t_div(t_add(g, both), t_mul(g, both)),
                       td_op_neg(t_div(both, t_mul(g, h))), t_div(g, t_mul(h, both))};
    td_tensor *slope = sum3(k, x, y, z);
    return last ? slope : td_op_neg(slope);
}

/* Parabolas through each sample and its neighbours. */
static td_tensor *uneven_middle(const sampled *s) {
    td_tensor *g = run(s, s->gaps, 0, 1), *h = run(s, s->gaps, 1, 0);
    td_tensor *both = t_add(g, h);
    td_tensor *k[3] = {td_op_neg(t_div(h, t_mul(g, both))),
                       t_div(t_sub(h, g), t_mul(g, h)), t_div(g, t_mul(h, both))};
    return sum3(k, run(s, s->f, 0, 2), run(s, s->f, 1, 1), run(s, s->f, 2, 0));
}

/* ---- the ops ------------------------------------------------------------ */

static td_tensor *slope(const sampled *s) {
    bool       even = !s->gaps;
    td_tensor *parts[3] = {even ? even_end(s, false) : uneven_end(s, false),
                           even ? even_middle(s) : uneven_middle(s),
                           even ? even_end(s, true) : uneven_end(s, true)};
    return td_op_cat((td_tensors){parts, 3}, s->dim);
}

/* in: self, spacing, dim, edge_order. Fills dims with those given, or all; how many, -1
 * after td__op_fail. */
static int read_dims(td_opcall *c, int *dims) {
    const td_tensor *t = td__in(c, 0);
    int64_t          order = td__in_number(c, 3);
    bool             all = c->in[2].kind == TD_K_NONE;
    int              n = all ? t->rank : (int)c->in[2].n;
    bool             fits = (order == 1 || order == 2) && t->dtype != TD_U8 &&
                t->dtype != TD_BOOL && n <= TD_MAX_RANK;
    if (!fits) {
        td__op_fail(c, TD_E_ARG,
                    "edge_order must be 1 or 2 and self neither u8 nor bool, got %lld "
                    "and %s",
                    (long long)order, td__type_str(t));
        return -1;
    }
    for (int i = 0; i < n; i++) {
        dims[i] = all ? i : td__op_dim(c, c->in[2].u.ints[i], t->rank);
        if (dims[i] < 0) return -1;
        bool twice = false;
        for (int k = 0; k < i; k++) twice |= dims[k] == dims[i];
        if (t->rank == 0 || twice || td__dim_lt(t->size[dims[i]], order + 1)) {
            td__op_fail(c, TD_E_SHAPE,
                        "dim %d of %s must occur once and have at least %lld samples",
                        dims[i], td__type_str(t), (long long)order + 1);
            return -1;
        }
    }
    return n;
}

/* in: self, spacing or none, dim, edge_order. */
bool td__decomp_gradient(td_opcall *c) {
    int     dims[TD_MAX_RANK], n = read_dims(c, dims);
    sampled s = {.f = td__in(c, 0), .h = td_value_int(1)};
    if (n < 0 || !td__call_results(c, n)) return false;
    s.order = (int)td__in_number(c, 3);
    if (!td__in_none(c, 1)) s.h = c->in[1];
    for (int i = 0; i < n; i++) {
        s.dim = dims[i];
        c->out[i] = slope(&s);
    }
    return td_ok(c->cx);
}

/* The differences of coordinates x along dim of f; NULL after td__op_fail. */
static td_tensor *gaps_of(td_opcall *c, const sampled *s, td_tensor *x) {
    int64_t size[TD_MAX_RANK];
    if (x->rank != 1 || !td__dim_eq(x->size[0], s->f->size[s->dim])) {
        td__op_fail(c, TD_E_SHAPE,
                    "spacing %s must be a number or have a coordinate for each of the "
                    "%lld samples along dim %d",
                    td__type_str(x), (long long)s->f->size[s->dim], s->dim);
        return NULL;
    }
    for (int d = 0; d < s->f->rank; d++) size[d] = d == s->dim ? -1 : 1;
    return td_op_reshape(td_op_diff(x, 1, 0), (td_ints){size, s->f->rank});
}

/* in: self, spacing, dim, edge_order. */
bool td__decomp_gradient_spacing(td_opcall *c) {
    int      dims[TD_MAX_RANK], n = read_dims(c, dims);
    td_value list = c->in[1];
    sampled  s = {.f = td__in(c, 0)};
    if (n < 0 || !td__call_results(c, n)) return false;
    if ((int)list.n != n)
        return td__op_fail(c, TD_E_ARG, "spacing has %u entries for %d dims", list.n,
                           n);
    s.order = (int)td__in_number(c, 3);
    for (int i = 0; i < n; i++) {
        s.dim = dims[i];
        s.h = td_value_tensor(list.u.ts[i]);
        s.gaps = list.u.ts[i]->rank ? gaps_of(c, &s, list.u.ts[i]) : NULL;
        if (list.u.ts[i]->rank && !s.gaps) return false;
        c->out[i] = slope(&s);
    }
    return td_ok(c->cx);
}
