/* kern_fft.c -- Fourier transforms over dims of tensors: one dim after the other, for
 * all places of the others, on the pool. */
#include "kernels/fft.h"
#include "ops/cast.h"
#include "ops/ops.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Elements of a tensor as the transforms see them; strides in bytes. */
typedef struct grid {
    char    *p;
    td_dtype part; /* f32 or f64 */
    bool     complex;
    int      rank;
    int64_t  size[TD_MAX_RANK], stride[TD_MAX_RANK];
} grid;

static grid grid_of(const td_tensor *t) {
    grid g = {.p = td__ptr(t), .rank = t->rank};
    g.complex = td__is_complex((td_dtype)t->dtype);
    g.part = td__real_of((td_dtype)t->dtype);
    for (int d = 0; d < t->rank; d++) {
        g.size[d] = t->size[d];
        g.stride[d] = t->stride[d] * td__dtype_bytes[t->dtype];
    }
    return g;
}

/* Transforms over one dim. */
typedef struct axis {
    const td_fft_plan *plan;
    td_fft_kind        kind;
    bool               inverse;
    int64_t            n; /* elements of the transform, real ones if either is real */
    grid               in, out;
    int                dim;
    double             scale;
    /* The other dims, merged where both sides allow it; the first is that of lanes. */
    int                rank;
    int64_t            size[TD_MAX_RANK], from[TD_MAX_RANK], to[TD_MAX_RANK];
    int64_t     chunk, chunks; /* lanes of a call, and calls along the first dim */
    atomic_bool failed;
} axis;

/* ---- places --------------------------------------------------------------------- */

/* Adds dims from the innermost on, merged with the one before if they continue it. */
static void merge_dims(axis *a) {
    for (int d = a->in.rank - 1; d >= 0; d--) {
        int64_t size = a->in.size[d], from = a->in.stride[d], to = a->out.stride[d];
        int     k = a->rank - 1;
        if (d == a->dim || size == 1) continue;
        if (k >= 0 && from == a->size[k] * a->from[k] && to == a->size[k] * a->to[k]) {
            a->size[k] *= size;
            continue;
        }
        a->size[a->rank] = size;
        a->from[a->rank] = from;
        a->to[a->rank++] = to;
    }
}

/* Puts the dim that suits lanes first: one whose elements are adjacent, else the
 * longest. */
static void choose_lanes(axis *a) {
    int     best = 0;
    int64_t bytes = td__dtype_bytes[a->in.part] * (a->in.complex ? 2 : 1);
    if (a->rank == 0) {
        a->size[0] = 1;
        a->from[0] = a->to[0] = 0;
        a->rank = 1;
    }
    for (int d = 1; d < a->rank; d++) {
        bool adjacent = a->from[d] == bytes && a->size[d] >= TD_FFT_LANES;
        if (adjacent || (a->size[d] > a->size[best] &&
                         (a->from[best] != bytes || a->size[best] < TD_FFT_LANES)))
            best = d;
    }
    int64_t *all[] = {a->size, a->from, a->to};
    for (int i = 0; i < TD_COUNT(all); i++) {
        int64_t first = all[i][0];
        all[i][0] = all[i][best];
        all[i][best] = first;
    }
}

/* ---- odd numbers of real elements ----------------------------------------------- */

/* Pairs at p, `row` bytes for each transform. */
static td_fft_side rows_at(const axis *a, char *p, int64_t row) {
    int64_t bytes = td__dtype_bytes[a->in.part];
    return (td_fft_side){p, p + bytes, 2 * bytes, row};
}

/* Element i of s becomes element k of transform l of `rows`; its imaginary part times
 * sign. */
static void move(const axis *a, const td_fft_side *in, int64_t i,
                 const td_fft_side *out, int64_t k, double sign) {
    td_dtype dt = a->in.part;
    double   re = td__load_f(dt, in->re + i * in->elem);
    double   im = td__load_f(dt, in->im + i * in->elem);
    td__store_f(dt, out->re + k * out->elem, re);
    td__store_f(dt, out->im + k * out->elem, sign == 0 ? 0 : sign * im);
}

/* The complex transform of n elements, of which one side has half, because the other
 * is real. */
static bool run_odd(const axis *a, td_fft_job *j) {
    int64_t     row = 2 * a->n * td__dtype_bytes[a->in.part], half = a->n / 2 + 1;
    size_t      bytes = (size_t)(row * j->count);
    char       *p = td__block_alloc(bytes);
    td_fft_side own = p ? rows_at(a, p, row) : (td_fft_side){0}, other;
    bool        forward = j->kind == TD_FFT_REAL_TO_HALF, ok = p != NULL;
    other = forward ? j->out : j->in;
    j->kind = TD_FFT_COMPLEX;
    *(forward ? &j->out : &j->in) = own;
    if (ok && forward) ok = td__fft_run(a->plan, j);
    for (int64_t l = 0; ok && l < j->count; l++) {
        for (int64_t k = 0; k < half; k++) {
            if (forward) {
                move(a, &own, k, &other, k, 1);
                continue;
            }
            /* the conjugate of what it stands for: its transform is the inverse one */
            move(a, &other, k, &own, k, k ? -1 : 0);
            if (k) move(a, &other, k, &own, a->n - k, 1);
        }
        other.re += other.lane;
        other.im += other.lane;
        own.re += row;
        own.im += row;
    }
    if (ok && !forward) ok = td__fft_run(a->plan, j);
    if (p) td__block_free(p, bytes);
    return ok;
}

/* ---- running -------------------------------------------------------------------- */

/* A side of `count` transforms. Real numbers are taken by twos if n is even. */
static td_fft_side side_of(const axis *a, const grid *g, int64_t at, int64_t lane) {
    int64_t     bytes = td__dtype_bytes[g->part], step = g->stride[a->dim];
    td_fft_side s = {g->p + at, g->p + at + bytes, step, lane};
    if (g->complex) return s;
    s.im = a->n % 2 ? NULL : s.re + step;
    if (a->n % 2 == 0) s.elem = 2 * step;
    return s;
}

static td_fft_side exchanged(td_fft_side s) {
    return (td_fft_side){s.im, s.re, s.elem, s.lane};
}

/* The transforms of chunk i. */
static bool run_chunk(const axis *a, int64_t i) {
    int64_t lane = i % a->chunks * a->chunk, rest = i / a->chunks;
    int64_t from = lane * a->from[0], to = lane * a->to[0], left = a->size[0] - lane;
    for (int d = 1; d < a->rank; d++) {
        from += rest % a->size[d] * a->from[d];
        to += rest % a->size[d] * a->to[d];
        rest /= a->size[d];
    }
    td_fft_job j = {.kind = a->kind, .scale = a->scale};
    j.count = left < a->chunk ? left : a->chunk;
    j.in = side_of(a, &a->in, from, a->from[0]);
    j.out = side_of(a, &a->out, to, a->to[0]);
    if (a->kind != TD_FFT_COMPLEX && a->n % 2) return run_odd(a, &j);
    if (a->inverse && a->kind == TD_FFT_COMPLEX) j.in = exchanged(j.in);
    if (a->inverse) j.out = exchanged(j.out);
    return td__fft_run(a->plan, &j);
}

static void run_range(void *arg, int64_t begin, int64_t end) {
    axis *a = arg;
    for (int64_t i = begin; i < end; i++)
        if (!run_chunk(a, i)) atomic_store(&a->failed, true);
}

static bool is_empty(const axis *a) {
    for (int d = 0; d < a->rank; d++)
        if (a->size[d] == 0) return true;
    return a->n == 0;
}

/* False after td__fail_memory. */
static bool run_axis(td_opcall *c, axis *a) {
    if (is_empty(a)) return true;
    bool         halves = a->kind != TD_FFT_COMPLEX && a->n % 2 == 0;
    td_fft_plan *plan = td__fft_plan(halves ? a->n / 2 : a->n, a->in.part, halves);
    if (!plan) return td__fail_memory(c->cx);
    a->plan = plan;
    merge_dims(a);
    choose_lanes(a);
    a->chunk = td__fft_chunk(plan);
    a->chunks = (a->size[0] + a->chunk - 1) / a->chunk;
    int64_t count = a->chunks;
    for (int d = 1; d < a->rank; d++) count *= a->size[d];
    td__pool_run(count, 1 + 16384 / (a->n * a->chunk), run_range, a);
    td__fft_release(plan);
    return !atomic_load(&a->failed) || td__fail_memory(c->cx);
}

/* ---- kernels --------------------------------------------------------------------- */

/* 1 over what argument 2 says, n being the product of these sizes. */
static double factor(const td_opcall *c, const int64_t *size) {
    double n = 1;
    for (uint32_t i = 0; i < c->in[1].n; i++) n *= (double)size[c->in[1].u.ints[i]];
    int64_t how = td__in_int(c, 2);
    return how == 0 ? 1 : how == 1 ? 1 / sqrt(n) : 1 / n;
}

/* Complex transforms over the first `count` of the dims in argument 1, from `in`, then
 * in place. The last multiplies by scale. */
static bool run_complex(td_opcall *c, grid in, grid out, int count, bool forward,
                        double scale) {
    for (int i = count - 1; i >= 0; i--, in = out) {
        int  d = (int)c->in[1].u.ints[i];
        axis a = {.kind = TD_FFT_COMPLEX,
                  .inverse = !forward,
                  .n = in.size[d],
                  .in = in,
                  .out = out,
                  .dim = d,
                  .scale = i ? 1 : scale};
        if (!run_axis(c, &a)) return false;
    }
    return true;
}

/* in: self, dim, normalization, forward. */
bool td__kern_fft_c2c(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (c->in[1].n == 0) return td__copy_into(c->out[0], t);
    if (t->numel == 0) return true;
    return run_complex(c, grid_of(t), grid_of(c->out[0]), (int)c->in[1].n,
                       td__in_bool(c, 3), factor(c, t->size));
}

/* The elements of a grid that fill_half sets: those of `dim` from `half` on. */
typedef struct fill {
    grid     g;
    int      dim;
    int64_t  half;
    uint64_t over; /* the transformed dims */
} fill;

#define copy_conjugate(T, to, from)  \
    do {                             \
        T z_[2];                     \
        memcpy(z_, from, sizeof z_); \
        z_[1] = -z_[1];              \
        memcpy(to, z_, sizeof z_);   \
    } while (0)

/* Places begin..end of all dims but `dim`: element i is the conjugate of -i in all
 * transformed dims. */
static void fill_rows(void *arg, int64_t begin, int64_t end) {
    const fill *f = arg;
    const grid *g = &f->g;
    int64_t     bytes = td__dtype_bytes[g->part], step = g->stride[f->dim];
    for (int64_t i = begin; i < end; i++) {
        int64_t rest = i, n = g->size[f->dim];
        char   *to = g->p, *from = g->p;
        for (int d = g->rank - 1; d >= 0; d--) {
            if (d == f->dim) continue;
            int64_t at = rest % g->size[d], back = f->over >> d & 1 && at;
            to += at * g->stride[d];
            from += (back ? g->size[d] - at : at) * g->stride[d];
            rest /= g->size[d];
        }
        for (int64_t k = f->half; k < n; k++) {
            const char *p = from + (n - k) * step;
            if (bytes == 8) copy_conjugate(double, to + k * step, p);
            else copy_conjugate(float, to + k * step, p);
        }
    }
}

/* Fills the other half of the last dim in argument 1. */
static void fill_half(const td_opcall *c, const grid *g) {
    fill    f = {.g = *g, .dim = (int)c->in[1].u.ints[c->in[1].n - 1]};
    int64_t rows = 1;
    f.half = g->size[f.dim] / 2 + 1;
    for (uint32_t i = 0; i < c->in[1].n; i++)
        f.over |= (uint64_t)1 << c->in[1].u.ints[i];
    for (int d = 0; d < g->rank; d++) rows *= d == f.dim ? 1 : g->size[d];
    if (g->size[f.dim] > f.half)
        td__pool_run(rows, 1 + 16384 / g->size[f.dim], fill_rows, &f);
}

/* in: self, dim, normalization, onesided. */
bool td__kern_fft_r2c(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    int              count = (int)c->in[1].n, last = (int)c->in[1].u.ints[count - 1];
    int64_t          n = t->size[last];
    double           scale = factor(c, t->size);
    grid             out = grid_of(c->out[0]);
    if (c->out[0]->numel == 0) return true;
    out.size[last] = n / 2 + 1;
    axis a = {.kind = TD_FFT_REAL_TO_HALF,
              .n = n,
              .in = grid_of(t),
              .out = out,
              .dim = last,
              .scale = count > 1 ? 1 : scale};
    if (!run_axis(c, &a) || !run_complex(c, out, out, count - 1, true, scale))
        return false;
    out.size[last] = c->out[0]->size[last];
    if (!td__in_bool(c, 3)) fill_half(c, &out);
    return true;
}

/* in: self, dim, normalization, last_dim_size. */
bool td__kern_fft_c2r(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *own = NULL;
    int        count = (int)c->in[1].n, last = (int)c->in[1].u.ints[count - 1];
    grid       in = grid_of(t);
    bool       ok = true;
    if (c->out[0]->numel == 0) return true;
    if (count > 1) {
        td_meta m;
        td__tensor_meta(t, &m);
        m.strided = false;
        m.offset = 0;
        own = td__tensor_make(c->cx, &m, false);
        if (!own || td_is_nil(own)) return false;
        in = grid_of(own);
        ok = run_complex(c, grid_of(t), in, count - 1, false, 1);
    }
    axis a = {.kind = TD_FFT_HALF_TO_REAL,
              .inverse = true,
              .n = td__in_int(c, 3),
              .in = in,
              .out = grid_of(c->out[0]),
              .dim = last,
              .scale = factor(c, c->out[0]->size)};
    ok = ok && run_axis(c, &a);
    if (own) td_drop(own);
    return ok;
}

/* in: self. */
bool td__kern_istft_divisor(td_opcall *c) {
    td_tensor *out = c->out[0];
    int64_t    bytes = td__dtype_bytes[out->dtype];
    if (!td__copy_into(out, td__in(c, 0))) return false;
    for (int64_t i = 0; i < out->numel; i++) {
        const char *p = td__ptr(out) + i * bytes;
        double      re = td__load_f((td_dtype)out->dtype, p);
        double      im = td__is_complex((td_dtype)out->dtype)
                             ? td__load_imag((td_dtype)out->dtype, p)
                             : 0;
        if (hypot(re, im) < 1e-11)
            return td__op_fail(
                c, TD_E_ARG,
                "the squares of the windows add up to 0 at element %lld, "
                "where the signal is not known; use a window that "
                "overlaps, or center",
                (long long)i);
    }
    return true;
}
