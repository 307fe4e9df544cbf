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
static int64_t divisor(const td_planes *p, const span s[3]) {
    if (p->divisor) return p->divisor;
    if (p->count_pad) return s[0].all * s[1].all * s[2].all;
    return (s[0].to - s[0].from) * (s[1].to - s[1].from) * (s[2].to - s[2].from);
}

/* Dilation can step over a small input: then the window of o, q has no element. */
static bool is_empty(const td_planes *p, int64_t o, int64_t q) {
    span v = taps(o, p->sh, p->ph, p->kh, p->dh, p->h);
    span u = taps(q, p->sw, p->pw, p->kw, p->dw, p->w);
    return v.from >= v.to || u.from >= u.to;
}

/* The index of an empty window may lie outside the plane, no other; where there are no
 * windows (kh is 0), none. */
static bool indices_fit(td_opcall *c, const td_planes *p, const int64_t *index) {
    int64_t plane = p->d * p->h * p->w, large = p->od * p->oh * p->ow;
    for (int64_t k = 0; k < p->n * large; k++) {
        int64_t o = k % large / p->ow, q = k % p->ow;
        if ((index[k] < 0 || index[k] >= plane) && !(p->kh && is_empty(p, o, q)))
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
    int64_t    step = j->p->od * j->p->oh * j->p->ow;
    td_planes  p = *j->p;
    for (p.plane = begin; p.plane < end; p.plane++)
        j->fn(&p, j->from + p.plane * j->from_bytes, j->to + p.plane * j->to_bytes,
              j->index ? j->index + p.plane * step : NULL);
}

/* Inside a scope that ends with the call: temporaries need no care. */
static bool run_in_scope(td_opcall *c, job *j, td_plane_dir dir, const td_plane_fns fns,
                         td_tensor *index) {
    const td_planes *p = j->p;
    td_tensor       *out = c->out[0];
    bool             back = dir == TD_PLANES_BACKWARD, read = dir != TD_PLANES_FORWARD;
    int              type = compute_type(out);
    td_dtype         dt = compute_dtype[type];
    td_tensor       *from = plain_copy(td__in(c, 0), dt);
    td_tensor       *to = is_plain(out, dt) ? out : plain_like(out, dt);
    td_tensor       *at = !index                    ? NULL
                          : read                    ? plain_copy(index, TD_I64)
                          : is_plain(index, TD_I64) ? index
                                                    : plain_like(index, TD_I64);
    if (!from || !to || (index && !at)) return false;
    if (at) j->index = (int64_t *)(void *)td__ptr(at);
    if (at && read && !p->any_index && !indices_fit(c, p, j->index)) return false;

    int64_t small = p->d * p->h * p->w, large = p->od * p->oh * p->ow;
    int64_t size = td__dtype_bytes[dt];
    j->fn = fns[type];
    j->from = td__ptr(from);
    j->to = td__ptr(to);
    j->from_bytes = (back ? large : small) * size;
    j->to_bytes = (back ? small : large) * size;
    int64_t grain = 32768 / (small + large + 1) + 1;
    td__pool_run(p->n, grain, run_planes, j);
    if (at && !read && at != index && !td__copy_into(index, at)) return false;
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
#define ODD(e) isnan(e)
#define TYPE AS_F32
#include "kernels/pool_loops.inc"
#define T double
#define NAME(what) what##_f64
#define LEAST (-(double)INFINITY)
#define ODD(e) isnan(e)
#define TYPE AS_F64
#include "kernels/pool_loops.inc"
#define T int64_t
#define NAME(what) what##_i64
#define LEAST p->least
#define ODD(e) false
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
static bool max_pool(td_opcall *c, int spatial) {
    td_planes p = {.least = least_of((td_dtype)td__in(c, 0)->dtype)};
    return td__planes_window(c, 1, spatial, true, &p) &&
           td__planes_run(c, &p, TD_PLANES_FORWARD, BY_TYPE(max_forward), c->out[1]);
}

bool td__kern_max_pool2d(td_opcall *c) { return max_pool(c, 2); }
bool td__kern_max_pool3d(td_opcall *c) { return max_pool(c, 3); }

/* in: grad_output, self, window arguments, indices. */
bool td__kern_max_pool2d_backward(td_opcall *c) {
    td_planes p = {0};
    return td__planes_window(c, 2, 2, true, &p) &&
           td__planes_run(c, &p, TD_PLANES_BACKWARD, BY_TYPE(max_backward),
                          td__in(c, 7));
}

/* in: self, output_size. Results: maxima, indices. */
static bool adaptive_max(td_opcall *c, int spatial) {
    td_planes p = {0};
    td__planes_of(td__in(c, 0), spatial, c->out[0]->size + c->out[0]->rank - spatial,
                  &p);
    return td__planes_run(c, &p, TD_PLANES_FORWARD, BY_TYPE(adaptive_max), c->out[1]);
}

bool td__kern_adaptive_max2d(td_opcall *c) { return adaptive_max(c, 2); }
bool td__kern_adaptive_max3d(td_opcall *c) { return adaptive_max(c, 3); }

/* ---- windows at random places ------------------------------------------- */

/* Where the `to` windows of k elements begin in one dim of `from` elements, by a sample
 * from [0,1): steps of (from - k) / (to - 1) from a shifted start, the last at the end.
 * Rounded as elements of f32 are where they are not f64. */
static void starts(int64_t from, int64_t k, int64_t to, double sample, bool wide,
                   int64_t *at) {
    double alpha = to > 1 ? (double)(from - k) / (double)(to - 1) : 0;
    if (!wide) alpha = (double)(float)alpha;
    for (int64_t i = 0; i < to - 1; i++) {
        double a = ((double)i + sample) * alpha, b = sample * alpha;
        if (!wide) {
            a = (double)((float)((float)i + (float)sample) * (float)alpha);
            b = (double)((float)sample * (float)alpha);
        }
        at[i] = (int64_t)a - (int64_t)b;
    }
    at[to - 1] = from - k;
}

/* The tables of all planes, `to` entries each. `nr`: which sample. */
static int64_t *all_starts(td_opcall *c, int64_t planes, int64_t from, int64_t k,
                           int64_t to, int nr) {
    const td_tensor *r = td__in(c, 3);
    size_t           bytes = sizeof(int64_t) * (size_t)(planes * to);
    int64_t         *at = td__arena_alloc(&c->cx->scratch, bytes);
    if (!at) return (void)td__fail_memory(c->cx), NULL;
    for (int64_t i = 0; i < planes; i++) {
        int64_t step = i / r->size[1] * r->stride[0] + i % r->size[1] * r->stride[1] +
                       nr * r->stride[2];
        double sample = td__load_f((td_dtype)r->dtype,
                                   td__ptr(r) + step * td__dtype_bytes[r->dtype]);
        starts(from, k, to, sample, r->dtype == TD_F64, at + i * to);
    }
    return at;
}

/* in: self, kernel_size, output_size, random_samples [N,C,spatial]: for planes of
 * width and height, for volumes of depth, height and width. */
static bool fractional_max(td_opcall *c, int spatial) {
    const int64_t *to = c->out[0]->size + c->out[0]->rank - spatial;
    td_value       k = c->in[1];
    td_planes      p = {.kd = 1};
    td__planes_of(td__in(c, 0), spatial, to, &p);
    if (p.n == 0) return true;
    if (spatial == 3) p.kd = k.u.ints[0];
    p.kh = k.u.ints[k.n == 1 ? 0 : spatial - 2];
    p.kw = k.u.ints[k.n - 1];
    int64_t zero = 0, *deep = &zero;
    if (spatial == 3) deep = all_starts(c, p.n, p.d, p.kd, p.od, 0);
    int64_t *row = all_starts(c, p.n, p.h, p.kh, p.oh, 1);
    int64_t *col = all_starts(c, p.n, p.w, p.kw, p.ow, spatial == 3 ? 2 : 0);
    p.deep = deep, p.row = row, p.col = col;
    return deep && row && col &&
           td__planes_run(c, &p, TD_PLANES_FORWARD, BY_TYPE(fractional), c->out[1]);
}

bool td__kern_fractional_max2d(td_opcall *c) { return fractional_max(c, 2); }
bool td__kern_fractional_max3d(td_opcall *c) { return fractional_max(c, 3); }

/* ---- by indices --------------------------------------------------------- */

/* The large side is `whole`, the pooled one has the sizes of the indices. */
static td_planes indexed(const td_tensor *whole, const td_tensor *index, int spatial) {
    td_planes p = {.any_index = true};
    td__planes_of(whole, spatial, index->size + index->rank - spatial, &p);
    return p;
}

/* in: grad_output, indices, size, spatial. */
bool td__kern_pool_put(td_opcall *c) {
    td_planes p = indexed(c->out[0], td__in(c, 1), (int)td__in_int(c, 3));
    return td__planes_run(c, &p, TD_PLANES_BACKWARD, BY_TYPE(max_backward),
                          td__in(c, 1));
}

/* in: self, indices, spatial. */
bool td__kern_pool_take(td_opcall *c) {
    td_planes p = indexed(td__in(c, 0), td__in(c, 1), (int)td__in_int(c, 2));
    return td__planes_run(c, &p, TD_PLANES_TAKE, BY_TYPE(take), td__in(c, 1));
}

/* in: self, indices, size, spatial. */
bool td__kern_max_unpool(td_opcall *c) {
    td_planes p = indexed(c->out[0], td__in(c, 1), (int)td__in_int(c, 3));
    p.any_index = false;
    return td__planes_run(c, &p, TD_PLANES_BACKWARD, BY_TYPE(unpool), td__in(c, 1));
}

/* ---- average ------------------------------------------------------------ */

/* count_include_pad and divisor_override are arguments i and i + 1. */
static void read_average(td_opcall *c, int i, td_planes *p) {
    p->count_pad = td__in_bool(c, i);
    p->divisor = td__in_none(c, i + 1) ? 0 : td__in_int(c, i + 1);
}

/* in: self, kernel_size, stride, padding, ceil_mode, count_include_pad,
 * divisor_override. */
static bool avg_pool(td_opcall *c, int spatial) {
    td_planes p = {0};
    read_average(c, 5, &p);
    return td__planes_window(c, 1, spatial, false, &p) &&
           td__planes_run(c, &p, TD_PLANES_FORWARD, BY_TYPE(avg_forward), NULL);
}

bool td__kern_avg_pool2d(td_opcall *c) { return avg_pool(c, 2); }
bool td__kern_avg_pool3d(td_opcall *c) { return avg_pool(c, 3); }

/* in: grad_output, self, then as avg_pool2d. */
static bool avg_pool_backward(td_opcall *c, int spatial) {
    td_planes p = {0};
    read_average(c, 6, &p);
    return td__planes_window(c, 2, spatial, false, &p) &&
           td__planes_run(c, &p, TD_PLANES_BACKWARD, BY_TYPE(avg_backward), NULL);
}

bool td__kern_avg_pool2d_backward(td_opcall *c) { return avg_pool_backward(c, 2); }
bool td__kern_avg_pool3d_backward(td_opcall *c) { return avg_pool_backward(c, 3); }

/* in: self, output_size. */
static bool adaptive(td_opcall *c, int spatial) {
    td_planes p = {0};
    td__planes_of(td__in(c, 0), spatial, c->in[1].u.ints, &p);
    return td__planes_run(c, &p, TD_PLANES_FORWARD, BY_TYPE(adaptive_forward), NULL);
}

bool td__kern_adaptive_pool(td_opcall *c) { return adaptive(c, 2); }
bool td__kern_adaptive_pool3d(td_opcall *c) { return adaptive(c, 3); }

/* in: grad_output, self. */
static bool adaptive_backward(td_opcall *c, int spatial) {
    const td_tensor *g = td__in(c, 0);
    td_planes        p = {0};
    td__planes_of(td__in(c, 1), spatial, g->size + g->rank - spatial, &p);
    return td__planes_run(c, &p, TD_PLANES_BACKWARD, BY_TYPE(adaptive_backward), NULL);
}

bool td__kern_adaptive_pool_backward(td_opcall *c) { return adaptive_backward(c, 2); }
bool td__kern_adaptive_pool3d_backward(td_opcall *c) { return adaptive_backward(c, 3); }
