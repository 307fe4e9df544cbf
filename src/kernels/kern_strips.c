/* kern_strips.c -- the product with packed strips, divided among threads. */
#include "kernels/strips.h"

#include "base/base.h"
#include "core/cpu.h"
#include "kernels/gemm.h"
#include "ops/cast.h"
#include "rules/shape_rules.h"

/* Strips and rows that a kernel takes at once. */
enum { PAIR = 2, ROWS = 8 };

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static td_strips_run *of_level(void) {
#ifdef __x86_64__
    if (td__cpu_level() == TD_CPU_AVX512) return td__strips_avx512;
    if (td__cpu_level() == TD_CPU_AVX2) return td__strips_avx2;
#endif
    return td__strips_base;
}

/* Unit u is part u % parts of the rows of pair u / parts: the units of a thread have
 * strips in common, and are the same ones in each call of equal sizes, so that a
 * matrix that is used again is in the caches of the cores that read it. */
typedef struct job {
    const td_strips *p;
    int64_t          strips, parts, step;
} job;

static void run_units(void *arg, int64_t begin, int64_t end) {
    const job     *j = arg;
    td_strips_run *run = of_level();
    for (int64_t u = begin; u < end; u++) {
        int64_t from = u % j->parts * j->step, first = u / j->parts * PAIR;
        int64_t to = from + j->step < j->p->m ? from + j->step : j->p->m;
        int64_t last = first + PAIR < j->strips ? first + PAIR : j->strips;
        run(j->p, from, to, first, last);
    }
}

/* Rows are divided only if there are fewer strips than threads. */
static void multiply(const td_strips *p) {
    job     j = {.p = p, .strips = ceil_div(p->n, TD_STRIP), .parts = 1, .step = p->m};
    int64_t pairs = ceil_div(j.strips, PAIR), blocks = ceil_div(p->m, ROWS);
    double  work = (double)p->m * (double)p->n * (double)p->k;
    int64_t threads = td__pool_threads(work * td__gemm_ns(), pairs * blocks);
    if (threads > pairs) {
        j.step = ceil_div(ceil_div(p->m, ceil_div(threads, pairs)), ROWS) * ROWS;
        j.parts = ceil_div(p->m, j.step);
    }
    td__pool_run(pairs * j.parts, ceil_div(pairs * j.parts, threads), run_units, &j);
}

/* Any dtype and layout: a product for each strip. */
static bool multiply_each(td_opcall *c) {
    const td_tensor *a = td__in(c, 0), *s = td__in(c, 1), *out = c->out[0];
    td_gemm          p = {.dtype = (td_dtype)out->dtype, .alpha = 1, .alpha_int = 1};
    p.batch = s->size[0], p.m = a->size[0], p.n = TD_STRIP, p.k = a->size[1];
    p.a = td__ptr(a), p.a_row = a->stride[0], p.a_col = a->stride[1];
    p.b = td__ptr(s), p.b_batch = s->stride[0], p.b_row = s->stride[1];
    p.b_col = s->stride[2];
    p.c = td__ptr(out), p.c_batch = TD_STRIP * out->stride[1], p.c_row = out->stride[0];
    p.c_col = out->stride[1];
    return td__gemm(&p) || td__fail_memory(c->cx);
}

bool td__kern_mm_strips(td_opcall *c) {
    const td_tensor *a = td__in(c, 0), *s = td__in(c, 1);
    td_tensor       *out = c->out[0];
    td_strips        p = {.m = out->size[0], .n = out->size[1], .k = a->size[1]};
    if (out->numel == 0) return true;
    if (out->dtype != TD_F32 || !td__is_dense(s->rank, s->size, s->stride))
        return multiply_each(c);
    p.a = (const float *)td__ptr(a), p.a_row = a->stride[0], p.a_col = a->stride[1];
    p.b = (const float *)td__ptr(s);
    p.c = (float *)td__ptr(out), p.c_row = out->stride[0];
    multiply(&p);
    return true;
}
