/* emit_rows.c -- nests with reductions: over a row's inside, over rows, and both. */
#include "emit_help.h"

#include <stdlib.h>

/* A pattern without structure in [-2, 2). */
static float wave(int64_t i) {
    uint32_t x = (uint32_t)i * 2654435761u;
    x ^= x >> 15;
    return (float)(x % 100003u) / 25000.75f - 2.0f;
}

static float *waves(int64_t n) {
    float *p = aligned_alloc(64, (size_t)(n + 16) / 16 * 64);
    for (int64_t i = 0; i < n; i++) p[i] = wave(i);
    return p;
}

/* Each test runs with both compilers, where they are. */
static const char *const compilers[] = {"gcc", "clang"};
#define WITH_EACH(cc)                                            \
    for (int cc##_i = 0; cc##_i < TD_COUNT(compilers); cc##_i++) \
        if (has_compiler(compilers[cc##_i]))                     \
            for (const char *cc = compilers[cc##_i]; cc; cc = NULL)

/* ---- softmax -------------------------------------------------------------- */

static void make_softmax(maker *m, int64_t rows, int64_t len) {
    int64_t step = len < 0 ? 1000 : len;
    BEGIN(m, 1, rows, len);
    int x = LOAD(m, TD_F32, step, 1);
    int top = fold(m, TD_S_REDUCE, TD_FOLD_MAX, x);
    int e = op1(m, TD_OP_exp, op2(m, TD_OP_sub, x, top));
    int sum = fold(m, TD_S_REDUCE, TD_FOLD_SUM, e);
    STORE(m, op2(m, TD_OP_div, e, sum), step, 1);
}

static void check_softmax(built *b, int64_t rows, int64_t len, int64_t step) {
    float *x = waves(rows * step), *y = waves(rows * step);
    void  *ptr[] = {x, y};
    run(b, 0, (run_args){ptr, &len, NULL, rows, len, 2});
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0, top = -INFINITY;
        for (int64_t j = 0; j < len; j++) top = fmax(top, (double)x[r * step + j]);
        for (int64_t j = 0; j < len; j++) sum += exp((double)x[r * step + j] - top);
        for (int64_t j = 0; j < len; j++)
            CHECK_NEAR((double)y[r * step + j],
                       exp((double)x[r * step + j] - top) / sum, 1e-6);
    }
    free(x);
    free(y);
}

TEST(softmax_is_three_loops_over_a_row) {
    static maker m;
    static built b;
    CHECK(td__table_init());
    static const int64_t lens[] = {1, 7, 16, 64, 100, 1000};
    WITH_EACH(cc) {
        for (int i = 0; i < TD_COUNT(lens); i++) {
            make_softmax(&m, 5, lens[i]);
            build_one(&b, &m, cc);
            check_softmax(&b, 5, lens[i], lens[i]);
            build_end(&b);
        }
    }
}

TEST(a_row_of_unknown_size_is_done_by_blocks) {
    static maker m;
    static built b;
    CHECK(td__table_init());
    make_softmax(&m, 4, -1);
    build_one(&b, &m, "gcc");
    for (int64_t len = 0; len <= 1000; len += len < 40 ? 1 : 37)
        check_softmax(&b, 4, len, 1000);
    build_end(&b);
}

TEST(a_long_row_is_done_by_blocks) {
    static maker m;
    static built b;
    CHECK(td__table_init());
    make_softmax(&m, 2, 50257);
    build_one(&b, &m, "gcc");
    check_softmax(&b, 2, 50257, 50257);
    build_end(&b);
}

/* ---- layer norm ----------------------------------------------------------- */

TEST(layer_norm_reads_what_it_stored_and_its_weights) {
    static maker m;
    static built b;
    enum { ROWS = 9, LEN = 768 };
    CHECK(td__table_init());
    BEGIN(&m, 1, ROWS, LEN);
    int x = LOAD(&m, TD_F32, LEN, 1), y = LOAD(&m, TD_F32, LEN, 1);
    int w = LOAD(&m, TD_F32, 0, 1), bias = LOAD(&m, TD_F32, 0, 1);
    int h = op2(&m, TD_OP_add, x, y), n = number(&m, TD_F32, LEN);
    STORE(&m, h, LEN, 1);
    int mean = op2(&m, TD_OP_div, fold(&m, TD_S_REDUCE, TD_FOLD_SUM, h), n);
    int d = op2(&m, TD_OP_sub, h, mean), sq = op2(&m, TD_OP_mul, d, d);
    int var = op2(&m, TD_OP_div, fold(&m, TD_S_REDUCE, TD_FOLD_SUM, sq), n);
    int rstd = op1(&m, TD_OP_rsqrt, op2(&m, TD_OP_add, var, number(&m, TD_F32, 1e-5)));
    int z = op2(&m, TD_OP_mul, op2(&m, TD_OP_mul, d, rstd), w);
    STORE(&m, op2(&m, TD_OP_add, z, bias), LEN, 1);
    STORE(&m, rstd, 1, 0);
    WITH_EACH(cc) {
        float *px = waves(ROWS * LEN), *py = waves(ROWS * LEN), *pw = waves(LEN),
              *pb = waves(LEN), *out = waves(ROWS * LEN), *pr = waves(ROWS);
        float *first = waves(ROWS * LEN);
        /* The sum is stored over its first operand. */
        void  *ptr[] = {px, py, pw, pb, px, out, pr};
        build_one(&b, &m, cc);
        run(&b, 0, (run_args){ptr, NULL, NULL, ROWS, LEN, 3});
        for (int r = 0; r < ROWS; r++) {
            double s = 0, v = 0;
            for (int j = 0; j < LEN; j++) s += 2.0 * (double)first[r * LEN + j];
            s /= LEN;
            for (int j = 0; j < LEN; j++)
                v += pow(2.0 * (double)first[r * LEN + j] - s, 2);
            double rs = 1 / sqrt(v / LEN + 1e-5);
            CHECK_NEAR((double)pr[r], rs, 1e-6);
            for (int j = 0; j < LEN; j++) {
                int k = r * LEN + j;
                CHECK(px[k] == first[k] + first[k]);
                CHECK_NEAR((double)out[k],
                           (2.0 * (double)first[k] - s) * rs * (double)pw[j] +
                               (double)pb[j],
                           2e-5);
            }
        }
        build_end(&b);
        free(px), free(py), free(pw), free(pb), free(out), free(pr), free(first);
    }
}
