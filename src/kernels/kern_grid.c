/* kern_grid.c -- grid_sampler: images read at the points of a grid, its gradients and
 * theirs. At a point each dim has taps with weights that depend on the coordinate; an
 * image is read at all products of them. A block of points is prepared at once, for all
 * channels. The loops are in grid_loops.inc. */
#include "ops/cast.h"
#include "rules/shape_rules.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC }; /* ATen's interpolation_mode */
enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION }; /* ATen's padding_mode */
enum { BLOCK = 32, MOST_TAPS = 64 };

/* Dense operands of one call. */
typedef struct grid {
    int         mode, padding;
    bool        align;
    int         dims;    /* 2 or 3 coordinates */
    int64_t     size[3]; /* of an image: d, h, w */
    int64_t     samples, channels, image, points;
    const char *input, *grid, *grad, *gg_input, *gg_grid;
    char       *out, *grad_input, *grad_grid;
} grid;

static float  floored_f32(float x) { return floorf(x); }
static double floored_f64(double x) { return floor(x); }
static float  nearest_f32(float x) { return nearbyintf(x); }
static double nearest_f64(double x) { return nearbyint(x); }

#define T float
#define NAME(what) what##_f32
#include "kernels/grid_loops.inc"
#define T double
#define NAME(what) what##_f64
#include "kernels/grid_loops.inc"

/* ---- operands ----------------------------------------------------------- */

/* Dense, of the dtype computed in; a copy ends with the surrounding scope. Of nothing,
 * a place that is not read. NULL: failed. */
static const char *operand(td_tensor *t, td_dtype dt) {
    td_meta m;
    if (t->numel == 0) return "";
    if (t->dtype == dt && td_is_contiguous(t)) return td__ptr(t);
    td__meta_dense(&m, dt, t->rank, t->size);
    td_tensor *copy = td__tensor_make(t->cx, &m, false);
    return copy && td__copy_into(copy, t) ? td__ptr(copy) : NULL;
}

/* Where a result is computed: itself, or a dense tensor that store_result copies. */
static td_tensor *result(td_tensor *t, td_dtype dt) {
    td_meta m;
    if (t->dtype == dt && td_is_contiguous(t)) return t;
    td__meta_dense(&m, dt, t->rank, t->size);
    return td__tensor_make(t->cx, &m, false);
}

static bool store_result(td_tensor *to, td_tensor *made) {
    return to == made || td__copy_into(to, made);
}

/* Sizes from input and grid, options from argument `at` on. */
static void read_grid(const td_opcall *c, const td_tensor *x, const td_tensor *g,
                      int at, grid *m) {
    m->dims = x->rank - 2;
    m->samples = x->size[0], m->channels = x->size[1];
    m->size[0] = m->dims == 3 ? x->size[2] : 1;
    m->size[1] = x->size[x->rank - 2], m->size[2] = x->size[x->rank - 1];
    m->image = m->size[0] * m->size[1] * m->size[2];
    m->points = 1;
    for (int d = 1; d < g->rank - 1; d++) m->points *= g->size[d];
    m->mode = (int)td__in_int(c, at), m->padding = (int)td__in_int(c, at + 1);
    m->align = td__in_bool(c, at + 2);
}

/* Halves are computed in f32. */
static td_dtype compute_dtype(const td_tensor *t) {
    return t->dtype == TD_F64 ? TD_F64 : TD_F32;
}

/* ---- the run over samples ------------------------------------------------ */

typedef bool sample_fn(const grid *m, int64_t s);

typedef struct job {
    const grid *m;
    sample_fn  *fn;
    atomic_bool failed;
} job;

static void samples(void *arg, int64_t begin, int64_t end) {
    job *j = arg;
    for (int64_t s = begin; s < end; s++)
        if (!j->fn(j->m, s)) atomic_store(&j->failed, true);
}

static bool run(td_opcall *c, const grid *m, sample_fn *fn) {
    job j = {.m = m, .fn = fn};
    atomic_init(&j.failed, false);
    td__pool_run(m->samples, 1, samples, &j);
    return !atomic_load(&j.failed) || td__fail_memory(c->cx);
}

/* ---- kernels ------------------------------------------------------------ */

/* in: input, grid, interpolation_mode, padding_mode, align_corners. */
static bool forward(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *g = td__in(c, 1), *y;
    td_dtype   dt = compute_dtype(x);
    grid       m = {0};
    read_grid(c, x, g, 2, &m);
    m.input = operand(x, dt), m.grid = operand(g, dt);
    y = result(c->out[0], dt);
    if (!m.input || !m.grid || !y) return false;
    m.out = td__ptr(y);
    return run(c, &m, dt == TD_F64 ? sample_forward_f64 : sample_forward_f32) &&
           store_result(c->out[0], y);
}

/* in: grad_output, input, grid, options. Results: gradients of input and grid. */
static bool backward(td_opcall *c) {
    td_tensor *x = td__in(c, 1), *g = td__in(c, 2);
    td_dtype   dt = compute_dtype(x);
    grid       m = {0};
    read_grid(c, x, g, 3, &m);
    m.grad = operand(td__in(c, 0), dt);
    m.input = operand(x, dt), m.grid = operand(g, dt);
    td_tensor *gx = result(c->out[0], dt), *gg = result(c->out[1], dt);
    if (!m.grad || !m.input || !m.grid || !gx || !gg) return false;
    m.grad_input = td__ptr(gx), m.grad_grid = td__ptr(gg);
    return td__fill(gx, td_value_int(0)) &&
           run(c, &m, dt == TD_F64 ? sample_backward_f64 : sample_backward_f32) &&
           store_result(c->out[0], gx) && store_result(c->out[1], gg);
}

/* in: gradients of the two results of backward, then as backward. Results: gradients of
 * grad_output, input and grid. */
static bool twice(td_opcall *c) {
    td_tensor *x = td__in(c, 3), *g = td__in(c, 4);
    td_dtype   dt = compute_dtype(x);
    grid       m = {0};
    read_grid(c, x, g, 5, &m);
    m.gg_input = operand(td__in(c, 0), dt), m.gg_grid = operand(td__in(c, 1), dt);
    m.grad = operand(td__in(c, 2), dt);
    m.input = operand(x, dt), m.grid = operand(g, dt);
    td_tensor *y = result(c->out[0], dt), *gx = result(c->out[1], dt),
              *gg = result(c->out[2], dt);
    if (!m.gg_input || !m.gg_grid || !m.grad || !m.input || !m.grid || !y || !gx || !gg)
        return false;
    m.out = td__ptr(y), m.grad_input = td__ptr(gx), m.grad_grid = td__ptr(gg);
    return td__fill(gx, td_value_int(0)) &&
           run(c, &m, dt == TD_F64 ? sample_twice_f64 : sample_twice_f32) &&
           store_result(c->out[0], y) && store_result(c->out[1], gx) &&
           store_result(c->out[2], gg);
}

/* Copies end with the call. */
static bool in_scope(td_opcall *c, bool (*fn)(td_opcall *)) {
    if (!td__scope_push(c->cx)) return false;
    bool ok = fn(c);
    td__scope_pop(c->cx, NULL, 0);
    return ok;
}

bool td__kern_grid_sampler(td_opcall *c) { return in_scope(c, forward); }
bool td__kern_grid_sampler_backward(td_opcall *c) { return in_scope(c, backward); }
bool td__kern_grid_sampler_twice(td_opcall *c) { return in_scope(c, twice); }
