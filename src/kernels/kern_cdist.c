/* kern_cdist.c -- distances of all pairs of rows of two stacks of matrices. Terms are
 * added in the dtype, in eight lanes that compilers make vectors of; results do not
 * depend on strides or threads. */
#include "kernels/lapack.h"
#include "ops/cast.h"

#include <math.h>

enum { LANES = 8 };

typedef struct distances {
    td_dtype         dt;
    double           p;
    const td_tensor *a, *b, *out; /* dense */
    int64_t          n, m, d;
} distances;

/* Distance of rows of d elements: fold(sum, |x - y|) over all, then finish(sum). */
#define DISTANCE(NAME, T, FABS, FOLD, JOIN, FINISH)              \
    static T NAME(const T *x, const T *y, int64_t d, T p) {      \
        T       s[LANES] = {0};                                  \
        int64_t i = 0;                                           \
        for (; i + LANES <= d; i += LANES)                       \
            for (int k = 0; k < LANES; k++) {                    \
                T t = FABS(x[i + k] - y[i + k]);                 \
                s[k] = FOLD(s[k], t);                            \
            }                                                    \
        for (; i < d; i++) {                                     \
            T t = FABS(x[i] - y[i]);                             \
            s[0] = FOLD(s[0], t);                                \
        }                                                        \
        for (int k = 1; k < LANES; k++) s[0] = JOIN(s[0], s[k]); \
        (void)p;                                                 \
        return FINISH(s[0]);                                     \
    }
#define SUM(s, t) ((s) + (t))
#define SQUARE(s, t) ((s) + (t) * (t))
#define COUNT_NZ(s, t) ((s) + ((t) != 0))
#define POWER(s, t) ((s) + pow_of(t, p))
#define MOST(s, t) ((t) > (s) || (t) != (t) ? (t) : (s))
#define SAME(s) (s)
#define ROOT(s) pow_of(s, 1 / p)
#define pow_of powf
DISTANCE(sum_f32, float, fabsf, SUM, SUM, SAME)
DISTANCE(euclid_f32, float, fabsf, SQUARE, SUM, sqrtf)
DISTANCE(count_f32, float, fabsf, COUNT_NZ, SUM, SAME)
DISTANCE(most_f32, float, fabsf, MOST, MOST, SAME)
DISTANCE(power_f32, float, fabsf, POWER, SUM, ROOT)
#undef pow_of
#define pow_of pow
DISTANCE(sum_f64, double, fabs, SUM, SUM, SAME)
DISTANCE(euclid_f64, double, fabs, SQUARE, SUM, sqrt)
DISTANCE(count_f64, double, fabs, COUNT_NZ, SUM, SAME)
DISTANCE(most_f64, double, fabs, MOST, MOST, SAME)
DISTANCE(power_f64, double, fabs, POWER, SUM, ROOT)
#undef pow_of

/* Which of the five norms p names: 0, 1, 2, inf, any other. */
static int norm_of(double p) {
    return p == 0 ? 0 : p == 1 ? 1 : p == 2 ? 2 : isinf(p) ? 3 : 4;
}

/* Row r of all rows of x1, counted through the stack, against every row of x2. */
static bool distances_one(void *job, int64_t r) {
    static float (*const f32[])(const float *, const float *, int64_t,
                                float) = {count_f32, sum_f32, euclid_f32, most_f32,
                                          power_f32};
    static double (*const f64[])(const double *, const double *, int64_t,
                                 double) = {count_f64, sum_f64, euclid_f64, most_f64,
                                            power_f64};
    const distances *t = job;
    int              norm = norm_of(t->p);
    int64_t          b = r / t->n * t->m * t->d;
    if (t->dt == TD_F64) {
        const double *x = (const double *)(const void *)td__ptr(t->a) + r * t->d;
        const double *y = (const double *)(const void *)td__ptr(t->b) + b;
        double       *to = (double *)(void *)td__ptr(t->out) + r * t->m;
        for (int64_t k = 0; k < t->m; k++)
            to[k] = f64[norm](x, y + k * t->d, t->d, t->p);
    } else {
        const float *x = (const float *)(const void *)td__ptr(t->a) + r * t->d;
        const float *y = (const float *)(const void *)td__ptr(t->b) + b;
        float       *to = (float *)(void *)td__ptr(t->out) + r * t->m;
        for (int64_t k = 0; k < t->m; k++)
            to[k] = f32[norm](x, y + k * t->d, t->d, (float)t->p);
    }
    return true;
}

/* in: x1, x2, p. */
bool td__kern_cdist(td_opcall *c) {
    td_tensor *own_a, *own_b = NULL, *out = c->out[0];
    td_tensor *a = td__dense_of(c, td__in(c, 0), &own_a);
    td_tensor *b = a ? td__dense_of(c, td__in(c, 1), &own_b) : NULL;
    distances  t = {.dt = (td_dtype)out->dtype, .p = td__in_f(c, 2), .out = out};
    bool       ok = b != NULL;
    if (ok && out->numel) {
        t.a = a;
        t.b = b;
        t.n = a->size[a->rank - 2];
        t.m = b->size[b->rank - 2];
        t.d = a->size[a->rank - 1];
        ok = td__each_matrix(c, out->numel / t.m, (double)t.m * (double)t.d,
                             distances_one, &t);
    }
    if (own_a) td_drop(own_a);
    if (own_b) td_drop(own_b);
    return ok;
}
