/* kern_loss.c -- negative log likelihood over class indices, forward and backward.
 * One walk over the places (rows, or rows and positions) serves both; places are
 * few compared with scores, so single elements are loaded one by one. */
#include "ops/cast.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

enum { SELF, TARGET, WEIGHT };

/* ---- the walk ----------------------------------------------------------- */

/* The targets, their scores and weights, and how the class dim is strided. */
typedef struct places {
    int64_t          n, classes, class_stride; /* strides in elements of the scores */
    const td_tensor *target, *scores, *weight;
} places;

/* The class dim is 1, or 0 for a single row of scores. */
static places places_of(const td_tensor *scores, const td_tensor *target,
                        const td_tensor *w) {
    int d = scores->rank > 1 ? 1 : 0;
    return (places){target->numel, scores->size[d], scores->stride[d],
                    target,        scores,          w};
}

/* The address of an element by its offset. */
static const char *element(const td_tensor *t, int64_t offset) {
    return td__ptr(t) + offset * td__dtype_bytes[t->dtype];
}

/* Offsets of place k in target and scores (its class 0), row-major order. */
static void locate(const places *p, int64_t k, int64_t *in_target, int64_t *in_scores) {
    *in_target = *in_scores = 0;
    for (int d = p->target->rank - 1; d >= 0; d--) {
        int64_t i = k % p->target->size[d];
        k /= p->target->size[d];
        *in_target += i * p->target->stride[d];
        *in_scores += i * p->scores->stride[d > 0 ? d + 1 : 0];
    }
}

/* Before anything is written: every target is a class or ignore_index. */
static bool check_targets(td_opcall *c, const places *p, int64_t ignore) {
    int64_t at, scores;
    for (int64_t k = 0; k < p->n; k++) {
        locate(p, k, &at, &scores);
        int64_t y = td__load_i((td_dtype)p->target->dtype, element(p->target, at));
        if (y != ignore && (y < 0 || y >= p->classes))
            return td__op_fail(c, TD_E_INDEX,
                               "target %lld at position %lld must be a class from 0 to "
                               "%lld, or ignore_index",
                               (long long)y, (long long)k, (long long)p->classes - 1);
    }
    return true;
}

/* The weight of class y; 1 without weights. */
static double weight_of(const places *p, int64_t y) {
    if (!p->weight) return 1;
    return td__load_f((td_dtype)p->weight->dtype,
                      element(p->weight, y * p->weight->stride[0]));
}

/* in: self, target, weight, reduction, ignore_index. Sums in double. */
bool td__kern_nll_loss(td_opcall *c) {
    td_tensor *out = c->out[0];
    td_dtype   dt = (td_dtype)out->dtype;
    places     p = places_of(td__in(c, SELF), td__in(c, TARGET), td__in(c, WEIGHT));
    int64_t    ignore = td__in_int(c, 4), at, scores;
    bool       none = !strcmp(c->in[3].u.s, "none");
    double     sum = 0, total = 0;
    if (!check_targets(c, &p, ignore)) return false;
    for (int64_t k = 0; k < p.n; k++) {
        locate(&p, k, &at, &scores);
        int64_t y = td__load_i((td_dtype)p.target->dtype, element(p.target, at));
        double  w = y == ignore ? 0 : weight_of(&p, y), loss = 0;
        if (y != ignore)
            loss = -w * td__load_f(dt, element(p.scores, scores + y * p.class_stride));
        if (none) td__store_f(dt, td__ptr(out) + k * td__dtype_bytes[dt], loss);
        sum += loss;
        total += w;
    }
    /* no place counts: 0/0, as a mean of nothing */
    if (!none)
        td__store_f(dt, td__ptr(out), strcmp(c->in[3].u.s, "mean") ? sum : sum / total);
    td__store_f(dt, td__ptr(c->out[1]), none ? 0 : total);
    return true;
}

/* in: grad, target, weight, total_weight, sizes, reduction, ignore_index. Writes -w g
 * (over the total weight under "mean") at the target's class, zeros elsewhere. */
bool td__kern_nll_loss_backward(td_opcall *c) {
    td_tensor *g = td__in(c, 0), *out = c->out[0];
    td_dtype   dt = (td_dtype)out->dtype;
    places     p = places_of(out, td__in(c, TARGET), td__in(c, WEIGHT));
    int64_t    ignore = td__in_int(c, 6), at, scores;
    bool   none = !strcmp(c->in[5].u.s, "none"), mean = !strcmp(c->in[5].u.s, "mean");
    double total = td__load_f((td_dtype)td__in(c, 3)->dtype, td__ptr(td__in(c, 3)));
    if (!check_targets(c, &p, ignore) || !td__fill(out, td_value_int(0))) return false;
    for (int64_t k = 0; k < p.n; k++) {
        locate(&p, k, &at, &scores);
        int64_t y = td__load_i((td_dtype)p.target->dtype, element(p.target, at));
        if (y == ignore) continue;
        int64_t g_at = 0, rest = k;
        for (int d = g->rank - 1; none && d >= 0; d--) {
            g_at += rest % g->size[d] * g->stride[d];
            rest /= g->size[d];
        }
        double v = -weight_of(&p, y) * td__load_f((td_dtype)g->dtype, element(g, g_at));
        char  *to = td__ptr(out) + (scores + y * p.class_stride) * td__dtype_bytes[dt];
        td__store_f(dt, to, mean ? v / total : v);
    }
    return true;
}
