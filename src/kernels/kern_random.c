/* kern_random.c -- kernels that draw. A result is cut into chunks of whole
 * Philox blocks, so any split over threads gives the same numbers; a chunk is
 * made in a buffer in row-major order and then laid out by the strides. */
#include "core/cpu.h"
#include "ops/cast.h"
#include "rules/create.h"
#include "kernels/draw.h"
#include "kernels/fill_loops.h"
#include "kernels/loops/loops.h"
#include "kernels/row_walk.h"

#include <string.h>

#define CHUNK 1024 /* elements made at once; a multiple of every block's */
#define GRAIN (8 * CHUNK)

/* ---- the loops of this machine ------------------------------------------ */

extern const td_fresh_loops td__fresh_base;
#ifdef __x86_64__
extern const td_fresh_loops td__fresh_avx2, td__fresh_avx512;
#endif

const td_fresh_loops *td__fresh_loops(void) {
#ifdef __x86_64__
    if (td__cpu_level() == TD_CPU_AVX2) return &td__fresh_avx2;
    if (td__cpu_level() == TD_CPU_AVX512) return &td__fresh_avx512;
#endif
    return &td__fresh_base;
}

/* ---- one draw ----------------------------------------------------------- */

typedef struct draw draw;

/* Makes elements [first, first + n) of the draw, n at most CHUNK, from the words of
 * their blocks into `buf`, which has room for whole blocks. */
typedef void make_fn(const draw *d, const uint32_t *w, int64_t first, int64_t n,
                     void *buf);

/* One call: which elements are made, from which words, and where they go. */
struct draw {
    td_tensor            *out;
    const td_tensor      *p; /* bernoulli of a tensor: its probabilities */
    make_fn              *make;
    const td_fresh_loops *loops;
    td_dtype              work; /* dtype of what make gives; cast to out's */
    int                   per;  /* elements a block serves */
    uint64_t              seed, offset;
    double                a, b;  /* from, width; mean, std; p; rate */
    uint64_t              range; /* integers: how many, 0 for 2^64 */
    int64_t               low;   /* integers: the first */
    bool                  dense;
};

/* Stores elements [first, first + n) of the draw where the strides of out put them. */
static void lay_out(const draw *d, int64_t first, int64_t n, const void *items) {
    size_t bytes = td__dtype_bytes[d->out->dtype];
    walk   w;
    if (d->dense) {
        memcpy(td__ptr(d->out) + (size_t)first * bytes, items, (size_t)n * bytes);
        return;
    }
    walk_start(&w, d->out, first);
    for (int64_t i = 0; i < n; i++, walk_next(&w))
        memcpy(w.p, (const char *)items + (size_t)i * bytes, bytes);
}

/* Elements [begin, end); begin is a multiple of CHUNK, so every chunk starts with a
 * whole block. */
static void draw_range(void *arg, int64_t begin, int64_t end) {
    const draw *d = arg;
    uint64_t    made[CHUNK], cast[CHUNK];
    uint32_t    w[2 * CHUNK]; /* at most two words an element */
    for (int64_t i = begin; i < end; i += CHUNK) {
        int64_t     n = end - i < CHUNK ? end - i : CHUNK;
        const void *items = made;
        d->loops->words(d->seed, d->offset + (uint64_t)(i / d->per),
                        (n + d->per - 1) / d->per, w);
        d->make(d, w, i, n, made);
        if (d->work != (td_dtype)d->out->dtype) {
            td__cast_run(n, (td_dtype)d->out->dtype, cast, d->work, made);
            items = cast;
        }
        lay_out(d, i, n, items);
    }
}

/* Takes the offset range and fills d->out. */
static bool run(td_opcall *c, draw *d) {
    td_tensor *t = d->out;
    td__draw(c, (uint64_t)((t->numel + d->per - 1) / d->per));
    d->loops = td__fresh_loops();
    d->seed = c->seed;
    d->offset = c->offset;
    d->dense = td_is_contiguous(t);
    if (t->numel) td__pool_run(t->numel, GRAIN, draw_range, d);
    return true;
}

/* ---- floats ------------------------------------------------------------- */

/* n rounded up to four words. */
static int64_t whole_blocks(int64_t n) { return (n + 3) / 4 * 4; }

/* Halves are drawn on their own grid: a finer f32 would round up to the end of the
 * range. */
static void make_uniform_f32(const draw *d, const uint32_t *w, int64_t first, int64_t n,
                             void *buf) {
    float *o = buf, from = (float)d->a, width = (float)d->b;
    (void)first;
    if (d->out->dtype == TD_F32)
        d->loops->uniform_f32(w, whole_blocks(n), from, width, o);
    else if (d->out->dtype == TD_F16)
        for (int64_t i = 0; i < n; i++) o[i] = td_uniform_f16(w[i]) * width + from;
    else
        for (int64_t i = 0; i < n; i++) o[i] = td_uniform_bf16(w[i]) * width + from;
}

/* Two words an element, on the grid of 2^-53. */
static void make_uniform_f64(const draw *d, const uint32_t *w, int64_t first, int64_t n,
                             void *buf) {
    double *o = buf;
    (void)first;
    for (int64_t i = 0; i < n; i++)
        o[i] = td_uniform_f64(w[2 * i], w[2 * i + 1]) * d->b + d->a;
}

static void make_normal_f32(const draw *d, const uint32_t *w, int64_t first, int64_t n,
                            void *buf) {
    (void)first;
    d->loops->normal_f32(w, whole_blocks(n), (float)d->a, (float)d->b, buf);
}

static void make_normal_f64(const draw *d, const uint32_t *w, int64_t first, int64_t n,
                            void *buf) {
    (void)first;
    d->loops->normal_f64(w, (n + 1) / 2 * 2, d->a, d->b, buf);
}

/* In double for every dtype; the result is rounded once. */
static void make_exponential(const draw *d, const uint32_t *w, int64_t first, int64_t n,
                             void *buf) {
    double *o = buf;
    (void)first;
    for (int64_t i = 0; i < n; i++)
        o[i] = td_draw_exponential(w[2 * i], w[2 * i + 1], d->a);
}

/* As make_exponential: in double, two words an element. */
static void make_log_normal(const draw *d, const uint32_t *w, int64_t first, int64_t n,
                            void *buf) {
    double *o = buf;
    (void)first;
    for (int64_t i = 0; i < n; i++) {
        double angle = 6.283185307179586 * (double)w[2 * i + 1] * 0x1p-32;
        double radius =
            td_m_sqrt_f64(-2 * td_m_log_f64(((double)w[2 * i] + 0.5) * 0x1p-32));
        o[i] = td_m_exp_f64(radius * td_m_cos_f64(angle) * d->b + d->a);
    }
}

/* The quantile of a uniform number in (0, 1). */
static void make_cauchy(const draw *d, const uint32_t *w, int64_t first, int64_t n,
                        void *buf) {
    double *o = buf;
    (void)first;
    for (int64_t i = 0; i < n; i++) {
        double u = td_uniform_f64(w[2 * i], w[2 * i + 1]) + 0x1p-54;
        o[i] = d->a + d->b * td_m_tan_f64(3.141592653589793 * (u - 0.5));
    }
}

static void make_geometric(const draw *d, const uint32_t *w, int64_t first, int64_t n,
                           void *buf) {
    double *o = buf;
    (void)first;
    for (int64_t i = 0; i < n; i++) {
        double k = td_draw_exponential(w[2 * i], w[2 * i + 1], 1) / d->a;
        o[i] = k > 1 ? td_m_ceil_f64(k) : 1;
    }
}

/* [from, to) in the dtype of the result. */
static bool run_uniform(td_opcall *c, double from, double to) {
    bool f64 = c->out[0]->dtype == TD_F64;
    return run(c, &(draw){.out = c->out[0],
                          .make = f64 ? make_uniform_f64 : make_uniform_f32,
                          .work = f64 ? TD_F64 : TD_F32,
                          .per = f64 ? 2 : 4,
                          .a = from,
                          .b = to - from});
}

/* Mean and standard deviation in the dtype of the result. */
static bool run_normal(td_opcall *c, double mean, double std) {
    bool f64 = c->out[0]->dtype == TD_F64;
    return run(c, &(draw){.out = c->out[0],
                          .make = f64 ? make_normal_f64 : make_normal_f32,
                          .work = f64 ? TD_F64 : TD_F32,
                          .per = f64 ? 2 : 4,
                          .a = mean,
                          .b = std});
}

bool td__kern_rand(td_opcall *c) { return run_uniform(c, 0, 1); }
bool td__kern_randn(td_opcall *c) { return run_normal(c, 0, 1); }
bool td__kern_uniform(td_opcall *c) {
    return run_uniform(c, td__in_f(c, 1), td__in_f(c, 2));
}
bool td__kern_normal(td_opcall *c) {
    return run_normal(c, td__in_f(c, 1), td__in_f(c, 2));
}
bool td__kern_exponential(td_opcall *c) {
    return run(c, &(draw){.out = c->out[0],
                          .make = make_exponential,
                          .work = TD_F64,
                          .per = 2,
                          .a = td__in_f(c, 1)});
}

/* Two parameters and a maker in double. */
static bool run_pairs(td_opcall *c, make_fn *make, double a, double b) {
    return run(c, &(draw){.out = c->out[0],
                          .make = make,
                          .work = TD_F64,
                          .per = 2,
                          .a = a,
                          .b = b});
}
bool td__kern_log_normal(td_opcall *c) {
    return run_pairs(c, make_log_normal, td__in_f(c, 1), td__in_f(c, 2));
}
bool td__kern_cauchy(td_opcall *c) {
    return run_pairs(c, make_cauchy, td__in_f(c, 1), td__in_f(c, 2));
}
bool td__kern_geometric(td_opcall *c) {
    return run_pairs(c, make_geometric, -td_m_log1p_f64(-td__in_f(c, 1)), 0);
}

/* ---- integers ----------------------------------------------------------- */

static void make_ints(const draw *d, const uint32_t *w, int64_t first, int64_t n,
                      void *buf) {
    uint64_t *o = buf;
    (void)first;
    for (int64_t i = 0; i < n; i++)
        o[i] = td_draw_below(w[2 * i], w[2 * i + 1], d->range) + (uint64_t)d->low;
}

/* range integers from low on. */
static bool run_ints(td_opcall *c, int64_t low, uint64_t range) {
    return run(c, &(draw){.out = c->out[0],
                          .make = make_ints,
                          .work = TD_I64,
                          .per = 2,
                          .low = low,
                          .range = range});
}

/* in: low, high, size, dtype. */
bool td__kern_randint(td_opcall *c) {
    int64_t low = td__in_int(c, 0), high = td__in_int(c, 1);
    return run_ints(c, low, (uint64_t)high - (uint64_t)low);
}

bool td__kern_randint_like(td_opcall *c) {
    int64_t low = td__in_int(c, 1), high = td__in_int(c, 2);
    return run_ints(c, low, (uint64_t)high - (uint64_t)low);
}

/* The largest integer random_ gives without a bound. */
static int64_t counts_to(td_dtype dt) {
    switch (dt) {
    case TD_F64: return (int64_t)1 << 53;
    case TD_F32: return 1 << 24;
    case TD_F16: return 1 << 11;
    case TD_BF16: return 1 << 8;
    case TD_I64: return INT64_MAX;
    case TD_I32: return INT32_MAX;
    case TD_I16: return INT16_MAX;
    case TD_I8: return INT8_MAX;
    case TD_U8: return UINT8_MAX;
    default: return 1;
    }
}

/* in: self, from, to. */
bool td__kern_random(td_opcall *c) {
    int64_t from = td__in_none(c, 1) ? 0 : td__in_int(c, 1);
    int64_t last = td__in_none(c, 2) ? counts_to((td_dtype)c->out[0]->dtype)
                                     : td__in_int(c, 2) - 1;
    if (last < from) last = from;
    return run_ints(c, from, (uint64_t)last - (uint64_t)from + 1);
}

/* Fisher-Yates from the front; step i reads the i-th draw below n - i. */
static void shuffle(td_opcall *c, int64_t *v, int64_t n) {
    uint32_t w[2 * CHUNK];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i % CHUNK;
        if (at == 0)
            td__fresh_loops()->words(c->seed, c->offset + (uint64_t)(i / 2), CHUNK / 2,
                                     w);
        int64_t j =
            i + (int64_t)td_draw_below(w[2 * at], w[2 * at + 1], (uint64_t)(n - i));
        int64_t x = v[i];
        v[i] = v[j];
        v[j] = x;
    }
}

/* in: n, dtype. Shuffled as i64, then cast: the permutation does not depend on the
 * dtype. */
bool td__kern_randperm(td_opcall *c) {
    td_tensor *t = c->out[0];
    int64_t    n = t->numel;
    size_t     bytes = (size_t)n * sizeof(int64_t);
    int64_t   *v = n ? td__block_alloc(bytes) : NULL;
    if (n && !v) return td__fail_memory(c->cx);
    td__draw(c, (uint64_t)((n + 1) / 2));
    for (int64_t i = 0; i < n; i++) v[i] = i;
    shuffle(c, v, n);
    if (n) {
        td__cast_run(n, (td_dtype)t->dtype, td__ptr(t), TD_I64, v);
        td__block_free(v, bytes);
    }
    return true;
}

/* ---- coins -------------------------------------------------------------- */

static void make_coins(const draw *d, const uint32_t *w, int64_t first, int64_t n,
                       void *buf) {
    (void)first;
    d->loops->coins(w, n, d->a, buf);
}

/* One probability per element, read in row-major order of p. */
static void make_coins_each(const draw *d, const uint32_t *w, int64_t first, int64_t n,
                            void *buf) {
    uint8_t *o = buf;
    td_dtype dt = (td_dtype)d->p->dtype;
    walk     p;
    walk_start(&p, d->p, first);
    for (int64_t i = 0; i < n; i++, walk_next(&p))
        o[i] = (uint8_t)td_draw_bernoulli(w[i], td__load_f(dt, p.p));
}

static bool run_coins(td_opcall *c, td_tensor *out, double p) {
    return run(
        c, &(draw){.out = out, .make = make_coins, .work = TD_BOOL, .per = 4, .a = p});
}

bool td__kern_bernoulli_p(td_opcall *c) {
    return run_coins(c, c->out[0], td__in_f(c, 1));
}

/* All probabilities are checked before the first number is drawn. */
bool td__kern_bernoulli(td_opcall *c) {
    td_tensor *p = td__in(c, 0);
    walk       w;
    if (p->numel) walk_start(&w, p, 0);
    for (int64_t i = 0; i < p->numel; i++, walk_next(&w)) {
        double v = td__load_f((td_dtype)p->dtype, w.p);
        if (!(v >= 0 && v <= 1))
            return td__op_fail(c, TD_E_ARG,
                               "element %lld of self must be from 0 to 1, got %g",
                               (long long)i, v);
    }
    return run(c, &(draw){.out = c->out[0],
                          .p = p,
                          .make = make_coins_each,
                          .work = TD_BOOL,
                          .per = 4});
}

/* ---- dropout ------------------------------------------------------------ */

/* Dropout of x by a mask that was drawn before. */
typedef struct drop_job {
    td_tensor *x, *out, *mask;
    double     scale;
} drop_job;

/* x * mask * scale with every product rounded to the dtype, as ATen does it: a
 * dropped NaN or infinity stays NaN. Both results have one layout; `begin` and
 * `end` count their elements as they lie in memory. */
static void drop_run_f32(const drop_job *j, int64_t begin, int64_t end) {
    const float *x = (const float *)(const void *)td__ptr(j->x);
    float       *o = (float *)(void *)td__ptr(j->out), scale = (float)j->scale;
    const char  *m = td__ptr(j->mask);
    for (int64_t i = begin; i < end; i++) o[i] = x[i] * (float)m[i] * scale;
}

/* v after rounding to dt. */
static double rounded(td_dtype dt, double v) {
    char item[8];
    td__store_f(dt, item, v);
    return td__load_f(dt, item);
}

/* Any dtype and layout, element by element. */
static void drop_walk(const drop_job *j, int64_t begin, int64_t end) {
    td_dtype dt = (td_dtype)j->x->dtype;
    double   scale = dt == TD_F64 ? j->scale : (double)(float)j->scale;
    walk     x, o, m;
    walk_start(&x, j->x, begin);
    walk_start(&o, j->out, begin);
    walk_start(&m, j->mask, begin);
    for (int64_t i = begin; i < end; i++) {
        double v = rounded(dt, td__load_f(dt, x.p) * (double)*m.p);
        td__store_f(dt, o.p, v * scale);
        walk_next(&x);
        walk_next(&o);
        walk_next(&m);
    }
}

/* Elements [begin, end), in the order of memory where both are packed alike, else
 * row-major. */
static void drop_range(void *arg, int64_t begin, int64_t end) {
    const drop_job  *j = arg;
    const td_tensor *x = j->x, *o = j->out;
    bool same = x->dtype == TD_F32 && td__is_packed(x->rank, x->size, x->stride) &&
                !memcmp(x->stride, o->stride, sizeof(int64_t) * x->rank);
    if (same) drop_run_f32(j, begin, end);
    else drop_walk(j, begin, end);
}

/* in: input, p, train. Results: out, mask. Outside training the mask is all true and
 * nothing is drawn. */
bool td__kern_native_dropout(td_opcall *c) {
    double   p = td__in_f(c, 1);
    drop_job j = {td__in(c, 0), c->out[0], c->out[1], p == 1 ? 0 : 1 / (1 - p)};
    if (!td__in_bool(c, 2))
        return td__fill(j.mask, td_value_bool(true)) && td__copy_into(j.out, j.x);
    if (j.x->numel && !td__is_float(j.x->dtype))
        return td__op_fail(c, TD_E_DTYPE, "needs a float dtype, got %s",
                           td_dtype_name(j.x->dtype));
    if (!run_coins(c, j.mask, 1 - p)) return false;
    if (j.x->numel) td__pool_run(j.x->numel, GRAIN, drop_range, &j);
    return true;
}

/* ---- the generator itself ----------------------------------------------- */

/* Result: seed and offset before the call; then, with `set`, the generator continues
 * from there. */
bool td__kern_random_state(td_opcall *c) {
    const td_tensor *set = td__in(c, 0);
    td_ctx          *cx = c->cx;
    int64_t         *was = (void *)td__ptr(c->out[0]);
    was[0] = (int64_t)cx->rng_seed;
    was[1] = (int64_t)cx->rng_offset;
    if (!set) return true;
    const int64_t *to = (const void *)td__ptr(set);
    td__rng_put(cx, (uint64_t)to[0], (uint64_t)to[set->stride[0]]);
    return true;
}
