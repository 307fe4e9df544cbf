/* device_forms.c -- ops in the form that a device computes best. The loss of class
 * targets compares each class with the target, so that it is computed in the loops
 * that compute the log-probabilities: these are then not stored, nor is the gradient
 * of the loss. On the CPU, which reads one score of a row, this would be slower. */
#include "backend/native.h"
#include "trace/trace.h"
#include "tandem/aot.h"
#include "tandem/mode.h"
#include "ops/call.h"
#include "rules/rule_arith.h"

#include <string.h>

/* where(which, yes, no); NULL stands for 0. */
static td_tensor *choose(td_tensor *which, td_tensor *yes) {
    return td_op_where(which, yes ? td_value_tensor(yes) : td_value_int(0),
                       td_value_int(0));
}

/* Targets [..] and the weights of classes, which may be NULL. */
typedef struct classes {
    td_tensor *counts; /* [..] bool: not ignored */
    td_tensor *hit;    /* bool, of the scores: is this the target's class? */
    td_tensor *weight; /* [..], of the target's class; NULL: 1 */
} classes;

/* A target that is no class is an error, as in eager. */
static classes classes_of(td_tensor *target, td_tensor *weight, int64_t ignore, int dim,
                          int rank, int64_t n) {
    td_ctx    *cx = target->cx;
    int64_t    size[TD_MAX_RANK];
    td_tensor *at = td_op_to(target, TD_I64, false);
    classes    k = {td_op_ne(target, td_value_int(ignore)), NULL, NULL};
    at = td_op__expect_range(choose(k.counts, at), 0, (double)(n - 1), "nll_loss");
    td_tensor *class_ =
        td_op_arange(cx, td_value_int(0), td_value_int(n), td_value_int(1), TD_I64);
    for (int d = 0; d < rank; d++) size[d] = d == dim ? n : 1;
    k.hit = td_op_eq(td_op_reshape(class_, (td_ints){size, rank}),
                     td_value_tensor(td_op_unsqueeze(at, dim)));
    if (!weight) return k;
    td_tensor *picked = td_op_index_select(weight, 0, td_op_reshape(at, TD_SHAPE(-1)));
    k.weight = td_op_reshape(picked, td__sizes(target));
    return k;
}

/* Does the op stay? Kernels of halves compute in f32 and round once. */
static bool stays(const td_opcall *c, const td_tensor *scores) {
    return scores->numel == 0 || td__is_half((td_dtype)scores->dtype) ||
           !td__is_float((td_dtype)scores->dtype) || !scores->st->device ||
           !td__device_has_loops(scores->st->device) || td__in(c, 1)->numel == 0;
}

/* in: self, target, weight, reduction, ignore_index. */
static bool likelihood(void *env, td_mode_call *h, const td_op_site *at) {
    td_opcall  *c = h->c;
    td_tensor  *x = td__in(c, 0), *target = td__in(c, 1);
    const char *how = c->in[3].u.s;
    int         dim = x->rank > 1 ? 1 : 0;
    (void)env, (void)at;
    if (stays(c, x)) return td_mode_call_go(h);
    classes k =
        classes_of(target, td__in(c, 2), td__in_int(c, 4), dim, x->rank, x->size[dim]);
    td_tensor *loss = td_op_where(k.hit, td_value_tensor(x), td_value_int(0));
    loss = td_op_neg(t_sum(loss, TD_SHAPE(dim), false));
    if (k.weight) loss = t_mul(loss, k.weight);
    loss = choose(k.counts, loss);
    td_tensor *w = k.weight ? choose(k.counts, k.weight) : k.counts;
    td_tensor *total = td_op_to(t_sum(w, TD_ALL, false), (td_dtype)x->dtype, false);
    bool       none = !strcmp(how, "none");
    if (!none) loss = t_sum(loss, TD_ALL, false);
    if (none) total = td_op_zeros(c->cx, TD_SHAPE(), (td_dtype)x->dtype);
    if (!strcmp(how, "mean")) loss = t_div(loss, total);
    return td_mode_call_answer(h, 0, loss) && td_mode_call_answer(h, 1, total);
}

/* in: grad, target, weight, total_weight, size, reduction, ignore_index. */
static bool likelihood_backward(void *env, td_mode_call *h, const td_op_site *at) {
    td_opcall *c = h->c;
    td_tensor *g = td__in(c, 0);
    td_ints    size = t_ints(c->in[4]);
    int        dim = size.n > 1 ? 1 : 0;
    (void)env, (void)at;
    if (stays(c, g)) return td_mode_call_go(h);
    classes    k = classes_of(td__in(c, 1), td__in(c, 2), td__in_int(c, 6), dim,
                              (int)size.n, size.v[dim]);
    td_tensor *v = td_op_neg(g);
    if (!strcmp(c->in[5].u.s, "mean")) v = t_div(v, td__in(c, 3));
    if (k.weight) v = t_mul(v, k.weight);
    v = td_op_unsqueeze(choose(k.counts, v), dim);
    return td_mode_call_answer(h, 0, choose(k.hit, v));
}

/* ---- products ------------------------------------------------------------ */

/* SMALL: multiply-adds below which copies cost more than they save. */
enum { PAD = 64, ALIGNED = 8, SMALL = 1 << 24 };

/* Matrices that were padded, so that products of one matrix share its copy. */
typedef struct padded {
    td_tensor *of, *to; /* `of` is held, so that no other has its storage */
    int64_t    by[2];
} padded;
typedef TD_VEC(padded) all_padded;

/* Do both have their elements at the same places? */
static bool same_view(const td_tensor *a, const td_tensor *b) {
    return a->st == b->st && a->offset == b->offset && a->size[0] == b->size[0] &&
           a->size[1] == b->size[1] && a->stride[0] == b->stride[0] &&
           a->stride[1] == b->stride[1];
}

/* A row-major matrix with zeros behind its rows and columns. */
static td_tensor *pad_rows(all_padded *all, td_tensor *t, int64_t rows, int64_t cols) {
    for (int i = 0; i < all->n; i++)
        if (same_view(all->v[i].of, t) && all->v[i].by[0] == rows &&
            all->v[i].by[1] == cols)
            return all->v[i].to;
    td_tensor *to =
        td_op_constant_pad_nd(t, rows ? TD_SHAPE(0, cols, 0, rows) : TD_SHAPE(0, cols),
                              td_value_int(0));
    if (td_is_nil(to)) return to;
    if (!td__vec_push(all, ((padded){t, to, {rows, cols}}))) td__fail_memory(t->cx);
    else td__ref(t), td__ref(to);
    return to;
}

static bool is_transposed(const td_tensor *t) {
    return t->stride[0] == 1 && t->size[1] > 1 && t->stride[1] != 1;
}

/* A matrix with zeros behind it, in the same order of memory. */
static td_tensor *pad_to(all_padded *all, td_tensor *t, int64_t rows, int64_t cols) {
    rows -= t->size[0], cols -= t->size[1];
    if (!rows && !cols) return t;
    if (!is_transposed(t)) return pad_rows(all, t, rows, cols);
    return td_op_t(pad_rows(all, td_op_t(t), cols, rows));
}

static int64_t rounded(int64_t n) { return (n + PAD - 1) / PAD * PAD; }

/* Is it a matrix of fixed sizes whose rows or columns are contiguous? */
static bool is_matrix(const td_tensor *t) {
    return !td__dims_any_sym(t->size, 2) && !td__dims_any_sym(t->stride, 2) &&
           (t->stride[0] == 1 || t->stride[1] == 1) && t->numel > 0;
}

/* in: a [m,k], b [k,n]. Libraries are several times slower with halves whose rows are
 * not a multiple of 16 bytes apart, such as those of 50,257 columns. Sizes along which
 * memory is contiguous are padded; the product is a view of the padded one. */
static bool padded_product(void *env, td_mode_call *h, const td_op_site *at) {
    td_opcall *c = h->c;
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    (void)at;
    if (!td__is_half((td_dtype)a->dtype) || !td__device_has_loops(a->st->device) ||
        !is_matrix(a) || !is_matrix(b))
        return td_mode_call_go(h);
    int64_t m = a->size[0], k = a->size[1], n = b->size[1];
    int64_t mp = is_transposed(a) && m % ALIGNED ? rounded(m) : m;
    int64_t np = n % ALIGNED ? rounded(n) : n;
    bool    along_k = !is_transposed(a) || is_transposed(b);
    int64_t kp = along_k && k % ALIGNED ? rounded(k) : k;
    if ((mp == m && np == n && kp == k) || m < ALIGNED || n < ALIGNED || k < ALIGNED ||
        m * n < SMALL / k)
        return td_mode_call_go(h);
    td_tensor *y = td_op_mm(pad_to(env, a, mp, kp), pad_to(env, b, kp, np));
    td_value   first = td_value_int(0);
    if (mp != m) y = td_op_slice(y, 0, first, td_value_int(m), 1);
    if (np != n) y = td_op_slice(y, 1, first, td_value_int(n), 1);
    return td_mode_call_answer(h, 0, y);
}

/* ---- all of a graph ------------------------------------------------------ */

/* Have the outputs the sizes and strides that they had? */
static bool same_outputs(const td_graph *a, const td_graph *b) {
    for (int i = 0; i < a->outputs.n; i++) {
        const td_garg *x = &a->outputs.v[i], *y = &b->outputs.v[i];
        if (x->kind != TD_G_VALUE || y->kind != TD_G_VALUE) continue;
        const td_gtype *s = x->u.v->type, *t = y->u.v->type;
        if (s && t && s->kind == TD_K_TENSOR && !td__geom_same(&s->geom, &t->geom))
            return false;
    }
    return true;
}

/* One of the forms is `last`; ops NULL: none beside them. */
static td_graph *decompose(const td_graph *g, const char *ops, int n) {
    all_padded       all = {0};
    td_decomposition rows[] = {
        {.op = "nll_loss_forward", .run = likelihood},
        {.op = "nll_loss_backward", .run = likelihood_backward},
        {.op = "mm", .run = padded_product, .env = &all},
    };
    td_decompose_by by = {rows, n, g->name, NULL, true};
    td_graph       *to = td__graph_decompose_by(g, &by, ops);
    for (int i = 0; i < all.n; i++) td__unref(all.v[i].of), td__unref(all.v[i].to);
    td__vec_free(&all);
    return to;
}

/* Padded products have other strides, which an output must not show. */
td_graph *td__device_forms(const td_graph *g, const char *ops) {
    td_graph *to = decompose(g, ops, 3);
    if (to && same_outputs(g, to)) return to;
    if (!to && td__error(g->cx) == TD_E_MEMORY) return NULL;
    td_clear(g->cx);
    td__graph_drop(to);
    return decompose(g, ops, 2);
}
