/* sums.c -- what a sum adds up: sizes of its terms, by element, and whether comparing
 * by them notices a wrong kernel.
 *
 * Rounding of a sum of products goes with the sum of the terms' absolute values. Terms
 * may cancel, so the result says nothing about it. For an op whose row says TD_OPF_SUMS
 * the same call on absolute values gives that size, and the gradients of that call
 * for absolute tangents give it for the gradients. Both run in f64. */
#include "sample.h"

#include "tandem/grad.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool op_sums(td_op op) {
    const char *pure = td__ops[op].pure;
    if (pure) op = td__op_find(pure);
    return op != TD_OP_COUNT && td__ops[op].flags & TD_OPF_SUMS;
}

/* The elements of t as doubles; NULL: none. */
static double *read_doubles(td_tensor *t, int64_t *n) {
    *n = 0;
    if (!t || td_is_nil(t) || !td_dtype_is_float(td_dtype_of(t))) return NULL;
    size_t  bytes = sizeof(double) * (size_t)td_numel(t);
    double *v = malloc(bytes + 1);
    if (v && td_read(t, TD_F64, v, bytes)) return *n = td_numel(t), v;
    free(v);
    return NULL;
}

static void keep(sum_size *to, td_tensor *t) { to->v = read_doubles(t, &to->n); }

/* Tangents of the sample's own dtypes, without their signs. */
static bool absolute_tangents(td_ctx *cx, const sample *s, td_tensor *const *ends,
                              int n, td_tensor **out) {
    for (int i = 0; i < n; i++) {
        td_tensor *t =
            hashed_tensor(cx, s, 100 + i, td_dtype_of(ends[i]), td_sizes(ends[i]));
        out[i] = td_op_to(td_op_abs(t), TD_F64, false);
        if (td_is_nil(out[i])) return false;
    }
    return true;
}

static void measure_grads(td_ctx *cx, const sample *s, const inputs *plain,
                          const inputs *in, sums *m) {
    td_tensor *ends[MAX_ENDS], *own[MAX_ENDS], *tan[MAX_ENDS];
    td_tensor *need[MAX_LEAVES], *got[MAX_LEAVES];
    int        which[MAX_LEAVES], n = grad_ends(in, ends);
    int        n_need = grad_leaves_needing(s, in->leaf, need, which);
    if (!n || !n_need || grad_ends(plain, own) != n) return;
    for (int i = 0; i < n; i++)
        if (td_dtype_of(ends[i]) != TD_F64) return;
    if (!absolute_tangents(cx, s, own, n, tan)) return;
    td_grad_opts opts = {TD_GRAD_OPTS, .allow_unused = true, .grads = {tan, n}};
    if (!td_grad((td_tensors){ends, n}, (td_tensors){need, n_need}, got, &opts)) return;
    for (int i = 0; i < n_need; i++) keep(&m->grad[which[i]], got[i]);
}

void sums_measure(td_ctx *cx, report *r) {
    static inputs plain, in;
    static sums   m;
    td_op         op = td__op_find(r->s->op_name);
    if (!op_sums(op) || r->s->src->tags & (TAG_ERROR | TAG_RANDOM)) return;
    memset(&m, 0, sizeof m);
    plain.strided = in.strided = plain.absolute = false;
    in.absolute = true;
    if (inputs_call(cx, r->s, op, NULL, &plain) &&
        inputs_call(cx, r->s, op, NULL, &in)) {
        for (int i = 0; i < in.n_out; i++) keep(&m.out[i], in.out[i]);
        for (int i = 0; i < r->s->n_leaves; i++) keep(&m.base[i], in.base[i]);
        measure_grads(cx, r->s, &plain, &in, &m);
        r->sums = &m;
    }
    in.absolute = false;
    td_clear(cx);
}

void sums_free(report *r) {
    if (!r->sums) return;
    for (int i = 0; i < (int)TD_COUNT(r->sums->out); i++) free(r->sums->out[i].v);
    for (int i = 0; i < MAX_LEAVES; i++) free(r->sums->base[i].v);
    for (int i = 0; i < MAX_LEAVES; i++) free(r->sums->grad[i].v);
    r->sums = NULL;
}

/* ---- does it notice ------------------------------------------------------ */

/* The sample's leaf nr with element k left out of every sum. */
static td_tensor *without(td_ctx *cx, const sample *s, int nr, int64_t k) {
    const leaf *l = &s->leaves[nr];
    int64_t     flat = leaf_numel(l);
    td_ints    size = l->has_stride ? (td_ints){&flat, 1} : (td_ints){l->size, l->rank};
    td_tensor *t = hashed_tensor(cx, s, nr, l->dt, size);
    size_t     each = td_dtype_size(l->dt), bytes = (size_t)td_numel(t) * each;
    char      *at = malloc(bytes + 1);
    if (at && td_read(t, l->dt, at, bytes)) {
        td__store_f(l->dt, at + (size_t)k * each, 0);
        td_write(t, l->dt, at, bytes);
    }
    free(at);
    return t;
}

/* Are the results of `in` other numbers than those of `plain`, to the eye of a person
 * who looks at the first digits? A term that is multiplied by 0 is no mistake. */
static bool plainly_differ(const inputs *plain, const inputs *in) {
    bool differ = false;
    for (int i = 0; i < plain->n_out && !differ; i++) {
        int64_t n, k;
        double *a = read_doubles(plain->out[i], &n), *b = read_doubles(in->out[i], &k);
        for (int64_t e = 0; e < n && e < k && !differ; e++)
            differ = fabs(a[e] - b[e]) > 0.05 * (fabs(a[e]) + 1);
        free(a);
        free(b);
    }
    return differ;
}

/* A kernel that drops one term, element k of leaf nr: false when the comparison
 * accepts it. `plain` is the right call. */
static bool notices_dropped(report *r, const expected *e, const inputs *plain, int nr,
                            int64_t k, int *tried) {
    static inputs in;
    td_ctx       *cx = td_ctx_of(plain->leaf[nr]);
    td_tensor    *as[MAX_LEAVES] = {NULL};
    report        quiet = {.s = r->s, .quiet = true, .sums = r->sums};
    as[nr] = without(cx, r->s, nr, k);
    in.strided = in.absolute = false;
    if (!inputs_call(cx, r->s, plain->op, as, &in) || in.n_out != e->n_out) return true;
    if (!plainly_differ(plain, &in)) return true;
    ++*tried;
    for (int i = 0; i < in.n_out; i++)
        compare_values(&quiet, "", in.out[i], e->out[i].values, e->out[i].dt,
                       result_tolerance(&quiet, i, e->out[i].dt));
    return quiet.failures > 0;
}

/* A kernel that stores two elements in each other's place. */
static bool notices_swapped(report *r, td_tensor *got, const exp_tensor *e, int nr,
                            int *tried) {
    report   quiet = {.s = r->s, .quiet = true, .sums = r->sums};
    size_t   each = td_dtype_size(e->dt);
    uint8_t *v = malloc((size_t)e->numel * each + 1);
    bool     found = false;
    for (int64_t k = 1; v && k < e->numel && !found && td_dtype_is_float(e->dt); k++) {
        const uint8_t *a = e->values, *b = e->values + (size_t)k * each;
        double         x = td__load_f(e->dt, a), y = td__load_f(e->dt, b);
        if (!(fabs(x - y) > 0.05 * (fabs(x) + 1))) continue;
        memcpy(v, e->values, (size_t)e->numel * each);
        memcpy(v, b, each);
        memcpy(v + (size_t)k * each, a, each);
        compare_values(&quiet, "", got, v, e->dt, result_tolerance(&quiet, nr, e->dt));
        found = true;
    }
    free(v);
    *tried += found;
    return !found || quiet.failures > 0;
}

void check_notices(td_ctx *cx, report *r, const expected *e, int *tried) {
    static inputs plain;
    if (!r->sums || e->n_change) return;
    for (int i = 0; i < e->n_out; i++)
        if (!e->out[i].values) return;
    plain.strided = plain.absolute = false;
    if (!inputs_call(cx, r->s, td__op_find(r->s->op_name), NULL, &plain)) return;
    for (int i = 0; i < e->n_out; i++)
        if (!notices_swapped(r, plain.out[i], &e->out[i], i, tried))
            fail_sample(r, "a kernel that exchanges elements of result %d is accepted",
                        i);
    for (int nr = 0; nr < r->s->n_leaves; nr++) {
        const leaf *l = &r->s->leaves[nr];
        int64_t     n = leaf_numel(l);
        if (!td_dtype_is_float(l->dt) || l->n_lit || n < 2) continue;
        for (int64_t k = 0; k < n; k += n / 2) /* the first, one within */
            if (!notices_dropped(r, e, &plain, nr, k, tried))
                fail_sample(r, "a kernel without element %lld of tensor %d is accepted",
                            (long long)k, nr);
    }
    td_clear(cx);
}
