/* emit_rows.c -- nests with reductions: over a row's inside, over rows, and both. */
#include "emit_help.h"

#include "tandem/tandem.h"

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

/* ---- the greatest and the least ------------------------------------------- */

TEST(a_nan_wins_over_the_greatest_and_the_least) {
    static maker m;
    static built b;
    enum { ROWS = 40, LEN = 200 };
    static float x[ROWS * LEN], top[ROWS], low[ROWS], top2[ROWS];
    BEGIN(&m, 1, ROWS, LEN);
    int v = LOAD(&m, TD_F32, LEN, 1);
    STORE(&m, fold(&m, TD_S_REDUCE, TD_FOLD_MAX, v), 1, 0);
    STORE(&m, fold(&m, TD_S_REDUCE, TD_FOLD_MIN, v), 1, 0);
    STORE(&m, fold(&m, TD_S_REDUCE, TD_FOLD_MAX, op1(&m, TD_OP_neg, v)), 1, 0);
    CHECK(td__table_init());
    WITH_EACH(cc) {
        void *ptr[] = {x, top, low, top2};
        for (int i = 0; i < ROWS * LEN; i++) x[i] = wave(i);
        for (int r = 1; r < ROWS; r += 2) x[r * LEN + r * 5 % LEN] = NAN;
        x[2 * LEN + 3] = INFINITY;
        build_one(&b, &m, cc);
        run(&b, 0, (run_args){ptr, NULL, NULL, ROWS, LEN, 1});
        for (int r = 0; r < ROWS; r++) {
            float hi = -INFINITY, lo = INFINITY;
            for (int j = 0; j < LEN; j++) {
                hi = fmaxf(hi, x[r * LEN + j]);
                lo = fminf(lo, x[r * LEN + j]);
            }
            CHECK(r % 2 ? isnan(top[r]) && isnan(low[r]) && isnan(top2[r])
                        : top[r] == hi && low[r] == lo && top2[r] == -lo);
        }
        build_end(&b);
    }
}

TEST(integers_are_folded_in_64_bits) {
    static maker m;
    static built b;
    enum { ROWS = 3, LEN = 77 };
    static int32_t x[ROWS * LEN];
    static int64_t sum[ROWS];
    static int32_t prod[ROWS], top[ROWS];
    static uint8_t any[ROWS];
    BEGIN(&m, 1, ROWS, LEN);
    int v = LOAD(&m, TD_I32, LEN, 1), s = fold(&m, TD_S_REDUCE, TD_FOLD_SUM, v);
    m.stmt[s].dtype = TD_I64;
    STORE(&m, s, 1, 0);
    STORE(&m, fold(&m, TD_S_REDUCE, TD_FOLD_PROD, v), 1, 0);
    STORE(&m, fold(&m, TD_S_REDUCE, TD_FOLD_MAX, v), 1, 0);
    STORE(&m, fold(&m, TD_S_REDUCE, TD_FOLD_MAX, cast(&m, v, TD_BOOL)), 1, 0);
    CHECK(td__table_init());
    void *ptr[] = {x, sum, prod, top, any};
    for (int i = 0; i < ROWS * LEN; i++)
        x[i] = i < LEN ? 0 : 2000000000 + (int32_t)(wave(i) * 1e6f);
    build_one(&b, &m, "gcc");
    run(&b, 0, (run_args){ptr, NULL, NULL, ROWS, LEN, 1});
    for (int r = 0; r < ROWS; r++) {
        int64_t  add = 0, hi = INT64_MIN;
        uint64_t mul = 1;
        for (int j = 0; j < LEN; j++) {
            add += x[r * LEN + j];
            mul *= (uint64_t)(int64_t)x[r * LEN + j];
            hi = x[r * LEN + j] > hi ? x[r * LEN + j] : hi;
        }
        CHECK(sum[r] == add && prod[r] == (int32_t)(uint32_t)mul && top[r] == hi);
        CHECK(any[r] == (r > 0));
    }
    build_end(&b);
}

TEST(a_sum_over_a_row_has_the_bits_of_eagers) {
    static maker         m;
    static built         b;
    static const int64_t lens[] = {1, 5, 9, 64, 65, 768, 1000, 5000};
    td_ctx              *cx = td_open();
    for (int i = 0; i < TD_COUNT(lens); i++)
        for (int how = TD_FOLD_SUM; how <= TD_FOLD_MAX; how += 2) {
            BEGIN(&m, 1, 2, lens[i]);
            int v = LOAD(&m, TD_F32, lens[i], 1);
            STORE(&m, fold(&m, TD_S_REDUCE, (td_fold)how, v), 1, 0);
            build_add(&b, &m.n);
        }
    build(&b, "gcc", "");
    for (int i = 0; i < b.n; i++) {
        float     *x = waves(2 * lens[i / 2]), got[2], want[2];
        void      *ptr[] = {x, got};
        td_tensor *t = td_from(cx, TD_F32, TD_SHAPE(2, lens[i / 2]), x);
        td_tensor *y = i % 2 ? td_amax(t, TD_SHAPE(1)) : td_sum(t, TD_SHAPE(1));
        run(&b, i, (run_args){ptr, NULL, NULL, 2, lens[i / 2], 1});
        CHECK(td_read(y, TD_F32, want, sizeof want));
        TD_CHECK_THAT(!memcmp(want, got, sizeof want), "%d of %d: %.9g %.9g", i % 2,
                      (int)lens[i / 2], (double)got[0], (double)want[0]);
        free(x);
    }
    td_close(cx);
    build_end(&b);
}

TEST(a_row_of_one_element_is_folded_before_it_is_written_over) {
    static maker m;
    static built b;
    float        x[5] = {1, 2, 3, 4, 5}, y[5];
    void        *ptr[] = {x, x, y};
    BEGIN(&m, 1, 5, 1);
    int v = LOAD(&m, TD_F32, 1, 1);
    STORE(&m, op1(&m, TD_OP_neg, v), 1, 1);
    STORE(&m, fold(&m, TD_S_REDUCE, TD_FOLD_SUM, v), 1, 1);
    CHECK(td__table_init());
    build_one(&b, &m, "gcc");
    run(&b, 0, (run_args){ptr, NULL, NULL, 5, 1, 2});
    for (int i = 0; i < 5; i++)
        CHECK(x[i] == (float)(-1 - i) && y[i] == (float)(i + 1));
    build_end(&b);
}

/* ---- several inner dims --------------------------------------------------- */

TEST(a_reduction_may_be_over_several_dims) {
    static maker m;
    static built b;
    enum { A = 4, B = 6, C = 50 };
    CHECK(td__table_init());
    for (int c = C; c <= 2000; c += 1950) { /* kept whole, and by blocks */
        float *x = waves(A * B * c), *w = waves(B), *y = waves(A * B * c);
        BEGIN(&m, 1, A, B, c);
        int v = LOAD(&m, TD_F32, c, A * c, 1), k = LOAD(&m, TD_F32, 0, 1, 0);
        int e = op1(&m, TD_OP_tanh, op2(&m, TD_OP_mul, v, op1(&m, TD_OP_exp, k)));
        int s = fold(&m, TD_S_REDUCE, TD_FOLD_SUM, e);
        STORE(&m, op2(&m, TD_OP_div, e, s), B * c, c, 1);
        void *ptr[] = {x, w, y};
        build_one(&b, &m, "gcc");
        run(&b, 0, (run_args){ptr, NULL, NULL, A, B * c, 2});
        for (int i = 0; i < A; i++) {
            double sum = 0;
            for (int j = 0; j < B * c; j++)
                sum += tanh((double)x[i * c + j / c * A * c + j % c] *
                            exp((double)w[j / c]));
            for (int j = 0; j < B * c; j++)
                CHECK_NEAR((double)y[i * B * c + j] * sum,
                           tanh((double)x[i * c + j / c * A * c + j % c] *
                                exp((double)w[j / c])),
                           1e-4);
        }
        build_end(&b);
        free(x), free(w), free(y);
    }
}

/* ---- over rows ------------------------------------------------------------ */

/* Layer norm backward: a row's gradient and those of weight and bias, at once. */
TEST(sums_over_rows_and_over_a_row_share_a_nest) {
    static maker m;
    static built b;
    enum { ROWS = 300, LEN = 96 };
    BEGIN(&m, 1, ROWS, LEN);
    int g = LOAD(&m, TD_F32, LEN, 1), x = LOAD(&m, TD_F32, LEN, 1);
    int w = LOAD(&m, TD_F32, 0, 1), rs = LOAD(&m, TD_F32, 1, 0);
    int old = LOAD(&m, TD_F32, 0, 1);
    int gw = op2(&m, TD_OP_mul, g, w), gx = op2(&m, TD_OP_mul, g, x);
    int s1 = fold(&m, TD_S_REDUCE, TD_FOLD_SUM, gw);
    int s2 = fold(&m, TD_S_REDUCE, TD_FOLD_SUM, op2(&m, TD_OP_mul, gw, x));
    int dx = op2(&m, TD_OP_sub, op2(&m, TD_OP_sub, gw, s1), op2(&m, TD_OP_mul, x, s2));
    STORE(&m, op2(&m, TD_OP_mul, dx, rs), LEN, 1);
    int dw = fold(&m, TD_S_COLUMN, TD_FOLD_SUM, gx);
    int db = fold(&m, TD_S_COLUMN, TD_FOLD_SUM, g);
    int most = fold(&m, TD_S_COLUMN, TD_FOLD_MAX, x);
    int all = fold(&m, TD_S_COLUMN, TD_FOLD_SUM, s1);
    STORE(&m, op2(&m, TD_OP_add, op2(&m, TD_OP_mul, dw, w), old), 0, 1);
    STORE(&m, op2(&m, TD_OP_mul, db, all), 0, 1);
    STORE(&m, most, 0, 1);
    STORE(&m, all, 0, 0);
    CHECK(td__table_init());
    WITH_EACH(cc) {
        float *pg = waves(ROWS * LEN), *px = waves(ROWS * LEN);
        float *pw = waves(LEN), *pr = waves(ROWS), *po = waves(LEN);
        float *y = waves(ROWS * LEN), *ow = waves(LEN), *ob = waves(LEN);
        float *om = waves(LEN), oall;
        void  *ptr[] = {pg, px, pw, pr, po, y, ow, ob, om, &oall};
        double total = 0;
        build_one(&b, &m, cc);
        run(&b, 0, (run_args){ptr, NULL, NULL, ROWS, LEN, 3});
        for (int i = 0; i < ROWS; i++) {
            double a = 0, c = 0;
            for (int j = 0; j < LEN; j++) {
                a += (double)(pg[i * LEN + j] * pw[j]);
                c += (double)(pg[i * LEN + j] * pw[j] * px[i * LEN + j]);
            }
            total += a;
            for (int j = 0; j < LEN; j++)
                CHECK_NEAR((double)y[i * LEN + j],
                           ((double)(pg[i * LEN + j] * pw[j]) - a -
                            (double)px[i * LEN + j] * c) *
                               (double)pr[i],
                           2e-3);
        }
        CHECK_NEAR((double)oall, total, 1e-3);
        for (int j = 0; j < LEN; j++) {
            double sw = 0, sb = 0, top = -INFINITY;
            for (int i = 0; i < ROWS; i++) {
                sw += (double)(pg[i * LEN + j] * px[i * LEN + j]);
                sb += (double)pg[i * LEN + j];
                top = fmax(top, (double)px[i * LEN + j]);
            }
            CHECK_NEAR((double)ow[j], sw * (double)pw[j] + (double)po[j], 1e-3);
            CHECK_NEAR((double)ob[j], sb * total, fabs(total) * 1e-4);
            CHECK((double)om[j] == top);
        }
        build_end(&b);
        free(pg), free(px), free(pw), free(pr), free(po);
        free(y), free(ow), free(ob), free(om);
    }
}

TEST(all_elements_are_summed_by_parts) {
    static maker m;
    static built b;
    enum { N = 100003 };
    float *x = waves(N), sum[2], top;
    CHECK(td__table_init());
    for (int way = 0; way < 2; way++) { /* as elements; as rows of a few */
        if (way) BEGIN(&m, 1, N / 7, 7);
        else BEGIN(&m, 1, N);
        int v = way ? LOAD(&m, TD_F32, 7, 1) : LOAD(&m, TD_F32, 1);
        int e = op2(&m, TD_OP_mul, v, v);
        int s = way ? fold(&m, TD_S_REDUCE, TD_FOLD_SUM, e) : e;
        int t = way ? fold(&m, TD_S_REDUCE, TD_FOLD_MAX, v) : v;
        int all = fold(&m, TD_S_COLUMN, TD_FOLD_SUM, s);
        int max = fold(&m, TD_S_COLUMN, TD_FOLD_MAX, t);
        if (way) STORE(&m, all, 0, 0), STORE(&m, max, 0, 0);
        else STORE(&m, all, 0), STORE(&m, max, 0);
        build_one(&b, &m, "gcc");
        int64_t rows = way ? N / 7 : N;
        for (int parts = 1; parts < 6; parts += 4) {
            void *ptr[] = {x, &sum[parts > 1], &top};
            run(&b, 0, (run_args){ptr, NULL, NULL, rows, way ? 7 : 1, parts});
        }
        double want = 0, hi = -INFINITY;
        for (int64_t i = 0; i < rows * (way ? 7 : 1); i++) {
            want += (double)x[i] * (double)x[i];
            hi = fmax(hi, (double)x[i]);
        }
        CHECK_NEAR((double)sum[0], want, want * 2e-7);
        CHECK_NEAR((double)sum[1], want, want * 2e-7);
        CHECK((double)top == hi);
        build_end(&b);
    }
    free(x);
}

TEST(no_rows_and_no_inside_are_allowed) {
    static maker m;
    static built b;
    float        x[4] = {1, 2, 3, 4}, sums[4] = {9, 9, 9, 9}, cols[4] = {9, 9, 9, 9};
    void        *ptr[] = {x, sums, cols};
    CHECK(td__table_init());
    BEGIN(&m, 2, 0, 3, 4); /* parts are filled although there are no rows */
    int u = op1(&m, TD_OP_neg, LOAD(&m, TD_F32, 12, 4, 1));
    STORE(&m, fold(&m, TD_S_COLUMN, TD_FOLD_SUM, fold(&m, TD_S_REDUCE, TD_FOLD_SUM, u)),
          0, 0, 0);
    build_one(&b, &m, "gcc");
    run(&b, 0, (run_args){ptr, NULL, NULL, 0, 4, 1});
    build_end(&b);
    CHECK(sums[0] == 0);
    sums[0] = 9;
    for (int way = 0; way < 2; way++) {
        if (way) BEGIN(&m, 1, 4, 0);
        else BEGIN(&m, 1, 0, 4);
        int v = op1(&m, TD_OP_neg, LOAD(&m, TD_F32, 4, 1));
        STORE(&m, fold(&m, TD_S_REDUCE, TD_FOLD_SUM, v), 1, 0);
        STORE(&m, fold(&m, TD_S_COLUMN, TD_FOLD_SUM, v), 0, 1);
        build_one(&b, &m, "gcc");
        run(&b, 0, (run_args){ptr, NULL, NULL, way ? 4 : 0, way ? 0 : 4, 1});
        build_end(&b);
        for (int i = 0; i < 4; i++) CHECK(sums[i] == (way ? 0 : 9) && cols[i] == 0);
    }
}
