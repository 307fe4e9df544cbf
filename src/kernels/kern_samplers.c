/* kern_samplers.c -- kernels of the samplers, an element at a time, and the derivative
 * of gamma. Numbers are made in double and rounded once. */
#include "kernels/row_walk.h"
#include "kernels/samplers.h"
#include "rules/create.h"

#include <float.h>

enum { GRAIN = 512 };

/* One call: result i is drawn by fn from element i of a and of b. */
typedef struct sampling {
    td_tensor       *out;
    const td_tensor *a, *b; /* b NULL: none */
    td_sampler_fn   *fn;
    uint64_t         seed, offset;
    double           least; /* of the results */
} sampling;

static void sample_range(void *arg, int64_t begin, int64_t end) {
    const sampling *s = arg;
    td_dtype        from = (td_dtype)s->a->dtype, to = (td_dtype)s->out->dtype;
    walk            a, b, out;
    walk_start(&a, s->a, begin);
    walk_start(&b, s->b ? s->b : s->a, begin);
    walk_start(&out, s->out, begin);
    for (int64_t i = begin; i < end; i++) {
        td_stream w = td__stream(s->seed, s->offset + (uint64_t)i);
        double    v = s->fn(&w, td__load_f(from, a.p), td__load_f(from, b.p));
        td__store_f(to, out.p, v < s->least ? s->least : v);
        walk_next(&a);
        walk_next(&b);
        walk_next(&out);
    }
}

/* Takes a block for each element, and draws. */
static bool run(td_opcall *c, sampling *s) {
    s->out = c->out[0];
    td__draw(c, (uint64_t)s->out->numel);
    s->seed = c->seed;
    s->offset = c->offset;
    if (s->out->numel) td__pool_run(s->out->numel, GRAIN, sample_range, s);
    return true;
}

/* Is each rate at least 0? Checked before the first number is drawn. */
static bool check_rates(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    walk             w;
    if (t->numel) walk_start(&w, t, 0);
    for (int64_t i = 0; i < t->numel; i++, walk_next(&w)) {
        double v = td__load_f((td_dtype)t->dtype, w.p);
        if (!(v >= 0))
            return td__op_fail(c, TD_E_ARG,
                               "element %lld of self must be at least 0, got %g",
                               (long long)i, v);
    }
    return true;
}

bool td__kern_poisson(td_opcall *c) {
    sampling s = {.a = td__in(c, 0), .fn = td__sample_poisson, .least = -1};
    return check_rates(c) && run(c, &s);
}

/* The smallest normal number of a dtype: gamma variables are positive. */
static double smallest(td_dtype dt) {
    return dt == TD_F64 ? DBL_MIN : dt == TD_F16 ? 0x1p-14 : FLT_MIN;
}

bool td__kern_standard_gamma(td_opcall *c) {
    sampling s = {.a = td__in(c, 0),
                  .fn = td__sample_gamma,
                  .least = smallest((td_dtype)c->out[0]->dtype)};
    return run(c, &s);
}

/* prob with the sizes of count: dims of size 1 have stride 0. Sizes and strides are in
 * `room`. */
static td_tensor broadcast(const td_tensor *prob, const td_tensor *count,
                           int64_t room[2 * TD_MAX_RANK]) {
    td_tensor wide = *prob;
    int       more = count->rank - prob->rank;
    wide.rank = count->rank;
    wide.numel = count->numel;
    wide.size = room;
    wide.stride = room + TD_MAX_RANK;
    for (int d = 0; d < count->rank; d++) {
        bool repeats = d < more || prob->size[d - more] == 1;
        wide.size[d] = count->size[d];
        wide.stride[d] = repeats ? 0 : prob->stride[d - more];
    }
    return wide;
}

bool td__kern_binomial(td_opcall *c) {
    int64_t   room[2 * TD_MAX_RANK];
    td_tensor prob = broadcast(td__in(c, 1), td__in(c, 0), room);
    sampling  s = {.a = td__in(c, 0),
                   .b = &prob,
                   .fn = td__sample_binomial,
                   .least = -1};
    return run(c, &s);
}

/* ---- the derivative ------------------------------------------------------- */

static void grad_range(void *arg, int64_t begin, int64_t end) {
    const td_opcall *c = arg;
    const td_tensor *in[2] = {td__in(c, 0), td__in(c, 1)};
    td_dtype         dt = (td_dtype)in[0]->dtype;
    walk             a, x, out;
    walk_start(&a, in[0], begin);
    walk_start(&x, in[1], begin);
    walk_start(&out, c->out[0], begin);
    for (int64_t i = begin; i < end; i++) {
        td__store_f(dt, out.p,
                    td__gamma_grad(td__load_f(dt, a.p), td__load_f(dt, x.p)));
        walk_next(&a);
        walk_next(&x);
        walk_next(&out);
    }
}

bool td__kern_standard_gamma_grad(td_opcall *c) {
    if (c->out[0]->numel) td__pool_run(c->out[0]->numel, GRAIN, grad_range, c);
    return true;
}
