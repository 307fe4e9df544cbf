/* check_grad.c -- gradients of a sample: through td_grad with hashed tangents, and
 * against central differences in f64, first and second order.
 *
 * First order differentiates F1 = sum of <result, tangent>, second order F2 = sum
 * of <gradient of F1 by leaf i, u_i>; both by every f64 leaf, and by the real and
 * imaginary parts of every c128 leaf, which are numbers of their own. */
#include "sample.h"
#include "tandem/grad.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP 1e-6
#define MOST 24        /* elements of a leaf that are moved */
#define ROUNDING 1e-15 /* of a term of F1 or F2, relative to it */

int grad_ends(const inputs *in, td_tensor **ends) {
    int k = 0;
    for (int i = 0; i < in->n_out && k < MAX_ENDS; i++)
        if (td_requires_grad(in->out[i])) ends[k++] = in->out[i];
    for (int i = 0; i < MAX_LEAVES && in->writes && k < MAX_ENDS; i++)
        if (in->base[i] && in->used[i] != in->base[i] && td_requires_grad(in->base[i]))
            ends[k++] = in->base[i];
    return k;
}

int grad_leaves_needing(const sample *s, td_tensor *const *t, td_tensor **need,
                        int *which) {
    int k = 0;
    for (int i = 0; i < s->n_leaves; i++) {
        if (!t[i] || !td_requires_grad(t[i])) continue;
        which[k] = i;
        need[k++] = t[i];
    }
    return k;
}

/* Tangents have the strides of their results, as a compiled backward gives them: a
 * product of a library rounds by the layout of its operands. */
static int tangents(td_ctx *cx, const sample *s, td_tensor *const *ends, int n,
                    td_tensor **out) {
    for (int i = 0; i < n; i++) {
        td_tensor *t =
            hashed_tensor(cx, s, 100 + i, td_dtype_of(ends[i]), td_sizes(ends[i]));
        out[i] = td_copy_(td_empty_like(td_detach(ends[i])), t);
    }
    return n;
}

bool grad_leaves(td_ctx *cx, const sample *s, const inputs *in, td_tensor **grads,
                 bool create) {
    td_tensor *ends[MAX_ENDS], *tan[MAX_ENDS], *need[MAX_LEAVES], *got[MAX_LEAVES];
    int        which[MAX_LEAVES];
    int        n_ends = grad_ends(in, ends);
    int        n_need = grad_leaves_needing(s, in->leaf, need, which);
    for (int i = 0; i < MAX_LEAVES; i++) grads[i] = NULL;
    if (!n_ends || !n_need) return true;
    tangents(cx, s, ends, n_ends, tan);
    td_grad_opts opts = {TD_GRAD_OPTS, .create_graph = create, .allow_unused = true,
                         .grads = {tan, n_ends}};
    td_tensors   outs = {ends, n_ends}, ins = {need, n_need};
    if (!td_grad(outs, ins, got, &opts)) return false;
    for (int i = 0; i < n_need; i++)
        grads[which[i]] = td_is_nil(got[i]) ? NULL : got[i];
    return true;
}

/* ---- finite differences ------------------------------------------------- */

typedef struct probe {
    td_ctx       *cx;
    const sample *s;
    td_op         op;
    int           order;
    td_tensor    *leaf[MAX_LEAVES]; /* f64 leaves as they stand, others NULL */
} probe;

/* How many doubles t has, and the dtype that reads them. */
static int64_t numbers_of(const td_tensor *t) {
    return td_numel(t) * (td_dtype_is_complex(td_dtype_of(t)) ? 2 : 1);
}
static td_dtype wide_of(const td_tensor *t) {
    return td_dtype_is_complex(td_dtype_of(t)) ? TD_C128 : TD_F64;
}
static bool read_numbers(td_tensor *t, double *to) {
    return td_read(t, wide_of(t), to, sizeof *to * (size_t)numbers_of(t));
}

/* A sum, and that of the absolute values of what it adds up, which bounds its
 * rounding. */
typedef struct total {
    double sum, size;
} total;

static void add_inner(total *to, td_tensor *a, td_tensor *b) {
    int64_t n = numbers_of(a);
    double *x = malloc(sizeof *x * (size_t)(2 * n + 1));
    if (!x || !read_numbers(a, x) || !read_numbers(b, x + n)) to->sum = NAN;
    for (int64_t i = 0; i < n && to->sum == to->sum; i++) {
        to->sum += x[i] * x[n + i];
        to->size += fabs(x[i] * x[n + i]);
    }
    free(x);
}

/* F1 or F2 at p's leaves; NaN on failure. */
static total probe_value(const probe *p) {
    static inputs in;
    td_tensor    *ends[MAX_ENDS], *tan[MAX_ENDS], *grads[MAX_LEAVES];
    total         t = {0, 0}, none = {NAN, 0};
    in.strided = false;
    if (!inputs_call(p->cx, p->s, p->op, p->leaf, &in)) return none;
    if (p->order == 1) {
        int k = tangents(p->cx, p->s, ends, grad_ends(&in, ends), tan);
        for (int i = 0; i < k; i++) add_inner(&t, ends[i], tan[i]);
        return t;
    }
    if (!grad_leaves(p->cx, p->s, &in, grads, false)) return none;
    for (int i = 0; i < p->s->n_leaves; i++) {
        if (!grads[i]) continue;
        td_tensor *u = hashed_tensor(p->cx, p->s, 200 + i, td_dtype_of(grads[i]),
                                     td_sizes(grads[i]));
        add_inner(&t, grads[i], u);
    }
    return t;
}

/* The derivative of F1 or F2 by td_grad; false with *none: there is none. */
static bool probe_grads(const probe *p, td_tensor **grads, bool *none) {
    static inputs in;
    td_tensor    *first[MAX_LEAVES], *ends[MAX_ENDS], *u[MAX_LEAVES];
    td_tensor    *need[MAX_LEAVES], *got[MAX_LEAVES];
    int           which[MAX_LEAVES], n_ends = 0;
    *none = false;
    in.strided = false;
    if (!inputs_call(p->cx, p->s, p->op, p->leaf, &in)) return false;
    int n_first = grad_ends(&in, ends);
    *none = n_first == 0;
    for (int i = 0; i < n_first; i++) *none |= td_dtype_of(ends[i]) != wide_of(ends[i]);
    if (*none) return false;
    if (p->order == 1) return grad_leaves(p->cx, p->s, &in, grads, false);
    if (!grad_leaves(p->cx, p->s, &in, first, true)) return false;
    for (int i = 0; i < p->s->n_leaves; i++) {
        if (!first[i] || !td_requires_grad(first[i])) continue;
        ends[n_ends] = first[i];
        u[n_ends++] = hashed_tensor(p->cx, p->s, 200 + i, td_dtype_of(first[i]),
                                    td_sizes(first[i]));
    }
    int n_need = grad_leaves_needing(p->s, in.leaf, need, which);
    *none = n_ends == 0;
    if (*none) return false;
    td_grad_opts opts = {TD_GRAD_OPTS, .allow_unused = true, .grads = {u, n_ends}};
    td_tensors   outs = {ends, n_ends}, ins = {need, n_need};
    if (!td_grad(outs, ins, got, &opts)) return false;
    for (int i = 0; i < n_need; i++)
        grads[which[i]] = td_is_nil(got[i]) ? NULL : got[i];
    return true;
}

/* F at p's leaves with element k of leaf i, and its mirror image, moved by `by`. */
static total moved(const probe *p, int i, const double *values, int64_t k, double by) {
    probe   q = *p;
    int64_t n = numbers_of(p->leaf[i]);
    double *v = malloc(sizeof *v * (size_t)n);
    if (!v) return (total){NAN, 0};
    memcpy(v, values, sizeof *v * (size_t)n);
    int64_t mirror = leaf_mirror(&p->s->leaves[i], k);
    v[k] += by;
    if (mirror != k) v[mirror] += by;
    td_scope_begin(p->cx, "move");
    for (int j = 0; j < p->s->n_leaves; j++) {
        if (!p->leaf[j]) continue;
        if (j == i) {
            td_dtype dt = wide_of(p->leaf[j]);
            q.leaf[j] = td_from(p->cx, dt, td_sizes(p->leaf[j]), v);
            td_set_requires_grad(q.leaf[j], true);
        }
    }
    total f = probe_value(&q);
    td_scope_end(p->cx, "move", NULL);
    free(v);
    return f;
}

static bool check_leaf(report *r, const probe *p, int i, td_tensor *grad) {
    int64_t n = numbers_of(p->leaf[i]), jump = n > MOST ? n / MOST : 1;
    double *v = malloc(sizeof *v * (size_t)(2 * n + 1));
    bool    ok = v && read_numbers(p->leaf[i], v);
    if (ok) memset(v + n, 0, sizeof *v * (size_t)n);
    if (ok && grad) ok = read_numbers(grad, v + n);
    for (int64_t k = 0; ok && k < n; k += jump) {
        total   up = moved(p, i, v, k, STEP), down = moved(p, i, v, k, -STEP);
        double  slope = (up.sum - down.sum) / (2 * STEP), have = v[n + k];
        double  noise = ROUNDING * (up.size + down.size) / (2 * STEP);
        int64_t mirror = leaf_mirror(&p->s->leaves[i], k);
        if (mirror != k) have += v[n + mirror];
        if (fabs(slope - have) <= 1e-5 + 1e-4 * fabs(slope) + noise) continue;
        fail_sample(r,
                    "gradcheck %d: leaf %d[%lld] is %.10g, differences give %.10g %s",
                    p->order, i, (long long)k, have, slope, td_message(p->cx));
        ok = false;
    }
    free(v);
    return ok;
}

static bool check_order(report *r, probe *p, bool *done) {
    td_tensor *grads[MAX_LEAVES] = {NULL};
    bool       none;
    if (!isfinite(probe_value(p).sum) && td_ok(p->cx)) return true; /* no slope there */
    if (!probe_grads(p, grads, &none)) {
        if (none || td_error(p->cx) == TD_E_UNSUPPORTED) return td_clear(p->cx), true;
        fail_sample(r, "gradcheck %d: %s", p->order, td_message(p->cx));
        return false;
    }
    for (int i = 0; i < p->s->n_leaves; i++)
        if (p->leaf[i] && !check_leaf(r, p, i, grads[i])) return false;
    *done = true;
    return true;
}

/* Leaves in f64 or c128 that require grad; false: the sample is of another dtype. */
static bool probe_leaves(probe *p) {
    int n = 0;
    for (int i = 0; i < p->s->n_leaves; i++) {
        const leaf *l = &p->s->leaves[i];
        int64_t     flat = leaf_numel(l);
        if (!l->grad) continue;
        if (l->dt != TD_F64 && l->dt != TD_C128) return false;
        td_ints size =
            l->has_stride ? (td_ints){&flat, 1} : (td_ints){l->size, l->rank};
        p->leaf[i] = hashed_tensor(p->cx, p->s, i, l->dt, size);
        td_set_requires_grad(p->leaf[i], true);
        n++;
    }
    return n > 0;
}

/* Without a gradient from PyTorch there is none to expect, unless the sample says
 * that ours is better. */
void check_grad(td_ctx *cx, report *r, const expected *e, grad_stats *st) {
    probe    p = {.cx = cx, .s = r->s, .op = td__op_find(r->s->op_name), .order = 1};
    uint32_t tags = r->s->src->tags;
    if (tags & (TAG_NOGRAD | TAG_RANDOM | TAG_ERROR | TAG_NOCHECK)) return;
    if (!e->has_grad && !(tags & (TAG_OWNGRAD | TAG_SIGNS))) return;
    if (!probe_leaves(&p)) return;
    if (!check_order(r, &p, &st->first) || !st->first || (tags & TAG_NOCHECK2)) return;
    p.order = 2;
    check_order(r, &p, &st->second);
}
