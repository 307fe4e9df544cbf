/* kern_pool.c -- pooling kernels: which elements a window covers, and the run over
 * planes that resampling shares. The loops are in pool_loops.inc. */
#include "kernels/planes.h"
#include "ops/cast.h"
#include "kernels/loops/loops.h"
#include "rules/shape_rules.h"

#include <math.h>
#include <string.h>

/* ---- operands ----------------------------------------------------------- */

enum { AS_F32, AS_F64, AS_I64 }; /* as td_isa.max_tap counts them */
static const td_dtype compute_dtype[] = {TD_F32, TD_F64, TD_I64};

/* Halves are pooled in f32, integers in i64. */
static int compute_type(const td_tensor *t) {
    if (t->dtype == TD_F64) return AS_F64;
    return td__is_float((td_dtype)t->dtype) ? AS_F32 : AS_I64;
}

/* Can planes of t be read in place as this dtype? */
static bool is_plain(const td_tensor *t, td_dtype dt) {
    return t->dtype == dt && td_is_contiguous(t);
}

/* A dense tensor of t's sizes that the surrounding scope owns; NULL: failed. */
static td_tensor *plain_like(const td_tensor *t, td_dtype dt) {
    td_meta m;
    td__meta_dense(&m, dt, t->rank, t->size);
    return td__tensor_make(t->cx, &m, false);
}

/* t itself where it is dense and of the dtype, else a copy. */
static td_tensor *plain_copy(td_tensor *t, td_dtype dt) {
    if (is_plain(t, dt)) return t;
    td_tensor *copy = plain_like(t, dt);
    return copy && td__copy_into(copy, t) ? copy : NULL;
}

/* ---- windows along one dim ---------------------------------------------- */

/* Elements [from,to) inside the input; `all` counts the padding too. */
typedef struct span {
    int64_t from, to, all;
} span;

/* Window o of an average pool: starts at o * step - pad, cut at the padded end. */
static span window(int64_t o, int64_t step, int64_t pad, int64_t k, int64_t size) {
    int64_t from = o * step - pad, to = from + k < size + pad ? from + k : size + pad;
    return (span){from > 0 ? from : 0, to < size ? to : size, to - from};
}

/* The same with taps `dil` apart; the first tap inside is where it starts. */
static span taps(int64_t o, int64_t step, int64_t pad, int64_t k, int64_t dil,
                 int64_t size) {
    int64_t from = o * step - pad, to = from + (k - 1) * dil + 1;
    if (from < 0) from += (dil - 1 - from) / dil * dil;
    return (span){from, to < size ? to : size, k};
}

/* a / step for a >= 0. Steps are small, and dividing takes longer than a short row. */
static int64_t steps_in(int64_t a, int64_t step) {
    return step == 1 ? a : step == 2 ? a >> 1 : a / step;
}

/* The windows of `n` whose element o * step + at lies inside the input. */
static span inside(int64_t at, int64_t step, int64_t size, int64_t n) {
    int64_t from = at < 0 ? steps_in(-at + step - 1, step) : 0;
    int64_t to = size <= at ? 0 : steps_in(size - at - 1, step) + 1;
    return (span){from, to < n ? to : n, 0};
}

/* Part o of n that share `size` elements; parts overlap by one where needed. */
static span share(int64_t o, int64_t size, int64_t n) {
    int64_t from = o / n * size + o % n * size / n;
    int64_t to = 1 + ((o + 1) * size - 1) / n;
    return (span){from, to, to - from};
}

/* What an average divides by: the override, the window with its padding, or the
 * elements inside. */
static int64_t divisor(const td_planes *p, const span *v, const span *u) {
    if (p->divisor) return p->divisor;
    return p->count_pad ? v->all * u->all : (v->to - v->from) * (u->to - u->from);
}

/* Dilation can step over a small input: then the window of o, q has no element. */
static bool is_empty(const td_planes *p, int64_t o, int64_t q) {
    span v = taps(o, p->sh, p->ph, p->kh, p->dh, p->h);
    span u = taps(q, p->sw, p->pw, p->kw, p->dw, p->w);
    return v.from >= v.to || u.from >= u.to;
}

/* The index of an empty window may lie outside the plane, no other. */
static bool indices_fit(td_opcall *c, const td_planes *p, const int64_t *index) {
    int64_t plane = p->h * p->w, large = p->oh * p->ow;
    for (int64_t k = 0; k < p->n * large; k++) {
        int64_t o = k % large / p->ow, q = k % p->ow;
        if ((index[k] < 0 || index[k] >= plane) && !is_empty(p, o, q))
            return td__op_fail(c, TD_E_INDEX,
                               "indices must be from 0 to %lld, got %lld",
                               (long long)plane - 1, (long long)index[k]);
    }
    return true;
}

/* ---- the run over planes ------------------------------------------------ */

/* A run over planes: fn on each, by threads. */
typedef struct job {
    const td_planes *p;
    td_plane_fn     *fn;
    const char      *from;
    char            *to;
    int64_t         *index;
    int64_t          from_bytes, to_bytes; /* of one plane */
} job;

/* Planes [begin, end). */
static void run_planes(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    int64_t    step = j->p->oh * j->p->ow;
    for (int64_t i = begin; i < end; i++)
        j->fn(j->p, j->from + i * j->from_bytes, j->to + i * j->to_bytes,
              j->index ? j->index + i * step : NULL);
}

/* Inside a scope that ends with the call: temporaries need no care. */
static bool run_in_scope(td_opcall *c, job *j, td_plane_dir dir, const td_plane_fns fns,
                         td_tensor *index) {
    const td_planes *p = j->p;
    td_tensor       *out = c->out[0];
    bool             back = dir == TD_PLANES_BACKWARD;
    int              type = compute_type(out);
    td_dtype         dt = compute_dtype[type];
    td_tensor       *from = plain_copy(td__in(c, 0), dt);
    td_tensor       *to = is_plain(out, dt) ? out : plain_like(out, dt);
    td_tensor       *at = !index                    ? NULL
                          : back                    ? plain_copy(index, TD_I64)
                          : is_plain(index, TD_I64) ? index
                                                    : plain_like(index, TD_I64);
    if (!from || !to || (index && !at)) return false;
    if (at) j->index = (int64_t *)(void *)td__ptr(at);
    if (at && back && !indices_fit(c, p, j->index)) return false;

    int64_t small = p->h * p->w, large = p->oh * p->ow, size = td__dtype_bytes[dt];
    j->fn = fns[type];
    j->from = td__ptr(from);
    j->to = td__ptr(to);
    j->from_bytes = (back ? large : small) * size;
    j->to_bytes = (back ? small : large) * size;
    int64_t grain = 32768 / (small + large + 1) + 1;
    td__pool_run(p->n, grain, run_planes, j);
    if (at && !back && at != index && !td__copy_into(index, at)) return false;
    return to == out || td__copy_into(out, to);
}

/* An empty input gives zeros; an empty result is done. */
bool td__planes_run(td_opcall *c, const td_planes *p, td_plane_dir dir,
                    const td_plane_fns fns, td_tensor *index) {
    job j = {.p = p};
    if (c->out[0]->numel == 0) return true;
    if (td__in(c, 0)->numel == 0) return td__fill(c->out[0], td_value_int(0));
    if (!td__scope_push(c->cx)) return false;
    bool ok = run_in_scope(c, &j, dir, fns, index);
    td__scope_pop(c->cx, NULL, 0);
    return ok;
}

#define T float
#define NAME(what) what##_f32
#define LEAST (-INFINITY)
#define TYPE AS_F32
#include "kernels/pool_loops.inc"
#define T double
#define NAME(what) what##_f64
#define LEAST (-(double)INFINITY)
#define TYPE AS_F64
#include "kernels/pool_loops.inc"
#define T int64_t
#define NAME(what) what##_i64
#define LEAST p->least
#define TYPE AS_I64
#include "kernels/pool_loops.inc"

/* ---- kernels ------------------------------------------------------------ */

#define BY_TYPE(what) ((const td_plane_fns){what##_f32, what##_f64, what##_i64})

/* The smallest value of an integer dtype; floats have their own, -inf. */
static int64_t least_of(td_dtype dt) {
    if (td__is_float(dt) || dt == TD_BOOL || dt == TD_U8) return 0;
    return dt == TD_I64 ? INT64_MIN : -((int64_t)1 << (8 * td_dtype_size(dt) - 1));
}

/* in: self, kernel_size, stride, padding, dilation, ceil_mode. Results: maxima,
 * indices. A window that covers padding alone has the smallest value of the dtype. */
bool td__kern_max_pool2d(td_opcall *c) {
    td_planes p = {.least = least_of((td_dtype)td__in(c, 0)->dtype)};
    return td__planes_window(c, 1, true, &p) &&
           td__planes_run(c, &p, TD_PLANES_FORWARD, BY_TYPE(max_forward), c->out[1]);
}

/* in: grad_output, self, window arguments, indices. */
bool td__kern_max_pool2d_backward(td_opcall *c) {
    td_planes p = {0};
    return td__planes_window(c, 2, true, &p) &&
           td__planes_run(c, &p, TD_PLANES_BACKWARD, BY_TYPE(max_backward),
                          td__in(c, 7));
}

/* count_include_pad and divisor_override are arguments i and i + 1. */
static void read_average(td_opcall *c, int i, td_planes *p) {
    p->count_pad = td__in_bool(c, i);
    p->divisor = td__in_none(c, i + 1) ? 0 : td__in_int(c, i + 1);
}

/* in: self, kernel_size, stride, padding, ceil_mode, count_include_pad,
 * divisor_override. */
bool td__kern_avg_pool2d(td_opcall *c) {
    td_planes p = {0};
    read_average(c, 5, &p);
    return td__planes_window(c, 1, false, &p) &&
           td__planes_run(c, &p, TD_PLANES_FORWARD, BY_TYPE(avg_forward), NULL);
}

bool td__kern_avg_pool2d_backward(td_opcall *c) {
    td_planes p = {0};
    read_average(c, 6, &p);
    return td__planes_window(c, 2, false, &p) &&
           td__planes_run(c, &p, TD_PLANES_BACKWARD, BY_TYPE(avg_backward), NULL);
}

/* in: self, output_size. */
bool td__kern_adaptive_pool(td_opcall *c) {
    td_planes p = {0};
    td__planes_of(td__in(c, 0), c->in[1].u.ints[0], c->in[1].u.ints[1], &p);
    return td__planes_run(c, &p, TD_PLANES_FORWARD, BY_TYPE(adaptive_forward), NULL);
}

/* in: grad_output, self. */
bool td__kern_adaptive_pool_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0);
    td_planes        p = {0};
    td__planes_of(td__in(c, 1), g->size[g->rank - 2], g->size[g->rank - 1], &p);
    return td__planes_run(c, &p, TD_PLANES_BACKWARD, BY_TYPE(adaptive_backward), NULL);
}
