/* gemm_bench.c -- td__gemm against the libraries called directly.
 * Prints one JSON object per line; `ratio_to_library` is our speed over the best
 * of OpenBLAS, dnnl_sgemm and oneDNN's matmul, each on as many threads as ours
 * has. Contestants take turns and each keeps its best time; pauses let the one
 * before fall asleep, since its idle threads spin on a core that is then missing. */
#include "base/base.h"
#include "kernels/gemm.h"
#include "kernels/dnnl_primitive.h"

#include <cblas.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 6, CONTESTANTS = 4, PAUSE_NS = 30 * 1000 * 1000 };
static const char *const names[CONTESTANTS] = {"td__gemm", "openblas", "dnnl_sgemm",
                                               "dnnl_matmul"};

typedef struct shape {
    const char *name;
    int64_t     batch, m, n, k;
    bool        ta, tb;
} shape;

typedef struct bench {
    shape   s;
    int     threads;
    float  *a, *b, *c;
    td_gemm g;
#if TD_HAVE_DNNL
    dnnl_stream_t    stream;
    dnnl_primitive_t op;
    dnnl_memory_t    mem[3];
#endif
} bench;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void width(int n) {
    void (*set)(int);
    *(void **)&set = dlsym(NULL, "omp_set_num_threads");
    if (set) set(n);
}

static void openblas(bench *b) {
    const shape *s = &b->s;
    const int    lda = (int)(s->ta ? s->m : s->k), ldb = (int)(s->tb ? s->k : s->n);
    for (int64_t i = 0; i < s->batch; i++)
        cblas_sgemm(CblasRowMajor, s->ta ? CblasTrans : CblasNoTrans,
                    s->tb ? CblasTrans : CblasNoTrans, (int)s->m, (int)s->n, (int)s->k,
                    1, b->a + i * s->m * s->k, lda, b->b + i * s->n * s->k, ldb, 0,
                    b->c + i * s->m * s->n, (int)s->n);
}

#if TD_HAVE_DNNL
static dnnl_engine_t engine;

static void sgemm(bench *b) {
    const shape  *s = &b->s;
    const int64_t lda = s->ta ? s->m : s->k, ldb = s->tb ? s->k : s->n;
    for (int64_t i = 0; i < s->batch; i++)
        dnnl_sgemm(s->ta ? 'T' : 'N', s->tb ? 'T' : 'N', s->m, s->n, s->k, 1,
                   b->a + i * s->m * s->k, lda, b->b + i * s->n * s->k, ldb, 0,
                   b->c + i * s->m * s->n, s->n);
}

static void matmul(bench *b) {
    dnnl_exec_arg_t args[3] = {{DNNL_ARG_SRC, b->mem[0]},
                               {DNNL_ARG_WEIGHTS, b->mem[1]},
                               {DNNL_ARG_DST, b->mem[2]}};
    dnnl_primitive_execute(b->op, b->stream, 3, args);
}

static void operand(bench *b, int i, td_md *md, const int64_t v[5]) {
    const int   flat = b->s.batch == 1;
    float      *p = i == 0 ? b->a : i == 1 ? b->b : b->c;
    dnnl_dims_t dims = {b->s.batch, v[0], v[1]};
    dnnl_dims_t strides = {v[0] * v[1], v[2], v[3]}, d = {0}, t = {0};
    memcpy(d, dims + flat, sizeof(dnnl_dim_t) * 3);
    memcpy(t, strides + flat, sizeof(dnnl_dim_t) * 3);
    td__md_strided(md, 3 - flat, d, t);
    dnnl_memory_create(&b->mem[i], td__md(md), engine, p);
}

static void matmul_open(bench *b) {
    const shape          *s = &b->s;
    td_md                 md[3];
    dnnl_primitive_desc_t pd;
    const bool            ta = s->ta, tb = s->tb;
    if (!engine) dnnl_engine_create(&engine, dnnl_cpu, 0);
    dnnl_stream_create(&b->stream, engine, dnnl_stream_default_flags);
    operand(b, 0, &md[0], (int64_t[5]){s->m, s->k, ta ? 1 : s->k, ta ? s->m : 1});
    operand(b, 1, &md[1], (int64_t[5]){s->k, s->n, tb ? 1 : s->n, tb ? s->k : 1});
    operand(b, 2, &md[2], (int64_t[5]){s->m, s->n, s->n, 1});
    td__dnnl_matmul(&pd, engine, td__md(&md[0]), td__md(&md[1]), td__md(&md[2]), NULL);
    dnnl_primitive_create(&b->op, pd);
    dnnl_primitive_desc_destroy(pd);
    for (int i = 0; i < 3; i++) td__md_free(&md[i]);
}

static void matmul_close(bench *b) {
    for (int i = 0; i < 3; i++) dnnl_memory_destroy(b->mem[i]);
    dnnl_primitive_destroy(b->op);
    dnnl_stream_destroy(b->stream);
}
#endif

static void call(bench *b, int who) {
    if (who == 0) td__gemm(&b->g);
    if (who == 1) openblas(b);
#if TD_HAVE_DNNL
    if (who == 2) sgemm(b);
    if (who == 3) matmul(b);
#endif
}

/* Seconds per call: the best of some repetitions lasting about 20 ms. */
static double measure(bench *b, int who) {
    int    reps = 1;
    double best = 1e9, begin;
    if (who == 1) openblas_set_num_threads(b->threads);
    if (who >= 2) width(b->threads);
    if (who == 0) openblas_set_num_threads(1);
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    call(b, who);
    begin = now();
    while (now() - begin < 0.02) {
        double t = now();
        for (int i = 0; i < reps; i++) call(b, who);
        t = now() - t;
        if (t < 5e-5) reps *= 2;
        else if (t / reps < best) best = t / reps;
    }
    return best;
}

static float *fill(int64_t n) {
    float *p = td__block_alloc((size_t)n * sizeof *p);
    if (!p) exit(1);
    for (int64_t i = 0; i < n; i++) p[i] = (float)(i % 17) - 8;
    return p;
}

static void report(const bench *b, const double best[CONTESTANTS]) {
    const shape *s = &b->s;
    const double flops = 2e-9 * (double)(s->batch * s->m * s->n * s->k);
    int          top = 1;
    for (int i = 2; i < CONTESTANTS; i++)
        if (best[i] < best[top]) top = i;
    printf("{\"name\":\"gemm %s %c%c %dT\",\"value\":%.1f,\"unit\":\"GFLOP/s\","
           "\"ratio_to_library\":%.3f,\"library\":\"%s\",\"us\":%.2f}\n",
           s->name, "NT"[s->ta], "NT"[s->tb], b -> threads, flops / best[0],
           best[top] / best[0], names[top], best[0] * 1e6);
    fflush(stdout);
}

static void run(shape s, int threads) {
    bench  b = {.s = s, .threads = threads};
    double best[CONTESTANTS] = {1e9, 1e9, 1e9, 1e9};
    b.a = fill(s.batch * s.m * s.k);
    b.b = fill(s.batch * s.n * s.k);
    b.c = fill(s.batch * s.m * s.n);
    b.g = (td_gemm){.dtype = TD_F32,
                    .batch = s.batch,
                    .m = s.m,
                    .n = s.n,
                    .k = s.k,
                    .a = b.a,
                    .b = b.b,
                    .c = b.c,
                    .a_row = s.ta ? 1 : s.k,
                    .a_col = s.ta ? s.m : 1,
                    .b_row = s.tb ? 1 : s.n,
                    .b_col = s.tb ? s.k : 1,
                    .c_row = s.n,
                    .c_col = 1,
                    .a_batch = s.m * s.k,
                    .b_batch = s.k * s.n,
                    .c_batch = s.m * s.n,
                    .alpha = 1};
    td__pool_resize(threads);
    width(threads);
#if TD_HAVE_DNNL
    matmul_open(&b);
#endif
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < (TD_HAVE_DNNL ? CONTESTANTS : 2); i++) {
            double t = measure(&b, i);
            if (t < best[i]) best[i] = t;
        }
    report(&b, best);
#if TD_HAVE_DNNL
    matmul_close(&b);
#endif
    td__block_free(b.a, (size_t)(s.batch * s.m * s.k) * sizeof(float));
    td__block_free(b.b, (size_t)(s.batch * s.n * s.k) * sizeof(float));
    td__block_free(b.c, (size_t)(s.batch * s.m * s.n) * sizeof(float));
}

int main(int argc, char **argv) {
    static const shape shapes[] = {
        {"8x8x8", 1, 8, 8, 8, false, false},
        {"64x64x64", 1, 64, 64, 64, false, false},
        {"256x256x256", 1, 256, 256, 256, false, false},
        {"1024x1024x1024", 1, 1024, 1024, 1024, false, false},
        {"256x768x768", 1, 256, 768, 768, false, true},
        {"256x768x768", 1, 256, 768, 768, false, false},
        {"768x768x256", 1, 768, 768, 256, true, false},
        {"12x256x256x64", 12, 256, 256, 64, false, true},
        {"12x256x64x256", 12, 256, 64, 256, false, false},
        {"12x256x64x256", 12, 256, 64, 256, true, false},
        {"1x768x768", 1, 1, 768, 768, false, true},
        {"1x4096x4096", 1, 1, 4096, 4096, false, false},
    };
    const int only = argc > 1 ? atoi(argv[1]) : 0; /* a thread count, or both */
    for (int threads = 1; threads <= 2; threads++)
        for (int i = 0; i < TD_COUNT(shapes); i++)
            if (!only || only == threads) run(shapes[i], threads);
    return 0;
}
