/* device_ahead.c -- kernels that read ahead, results that are computed where they are
 * joined, and rows that are walked: texts, and values against those of the CPU. */
#include "device_help.h"

/* Two folds of a row, and two over rows. */
TEST(a_row_is_read_while_the_one_before_is_computed) {
    static maker m;
    BEGIN(&m, 1, 40, 128);
    int x = LOAD(&m, TD_F32, 128, 1), y = LOAD(&m, TD_F32, 128, 1);
    int s = fold(&m, TD_S_REDUCE, TD_FOLD_SUM, x);
    int t = fold(&m, TD_S_REDUCE, TD_FOLD_MAX, op2(&m, TD_OP_mul, x, y));
    int d = op2(&m, TD_OP_mul, op2(&m, TD_OP_sub, x, s), t);
    STORE(&m, d, 128, 1);
    int a = fold(&m, TD_S_COLUMN, TD_FOLD_SUM, y);
    int b = fold(&m, TD_S_COLUMN, TD_FOLD_MAX, d);
    STORE(&m, op2(&m, TD_OP_mul, a, b), 0, 1);
    const char *text = text_of(&m.n, true, false);
    CHECK(strstr(
        text,
        "        TD_WORDS(td_vec_f32) n0[TD_SHARE(32, 32)];\n"
        "        TD_WORDS(td_vec_f32) n1[TD_SHARE(32, 32)];\n"
        "        if (begin < end) {\n"
        "            const int32_t i0 = (int32_t)begin;\n"
        "            TD_UNROLL_ALL\n"
        "            for (int k = 0; k < TD_SHARE(32, 32); k++) {\n"
        "                const int vec = (int)TD_LANE + k * (int)TD_LANES;\n"
        "                if (vec >= 32) continue;\n"
        "                const int64_t base = vec * 4;\n"
        "                const int32_t j0 = (int32_t)base;\n"
        "                n0[k] = TD_FETCH(td_vec_f32, p0 + (i0 * 128 + j0));\n"
        "                n1[k] = TD_FETCH(td_vec_f32, p1 + (i0 * 128 + j0));\n"
        "            }\n"
        "        }\n"
        "        for (int64_t row = begin; row < end; row++) {\n"
        "            TD_WORDS(td_vec_f32) m0[TD_SHARE(32, 32)];\n"
        "            TD_WORDS(td_vec_f32) m1[TD_SHARE(32, 32)];\n"
        "            TD_UNROLL_ALL\n"
        "            for (int k = 0; k < TD_SHARE(32, 32); k++) {\n"
        "                m0[k] = n0[k];\n"
        "                m1[k] = n1[k];\n"
        "            }\n"
        "            const int64_t next = row + 1;\n"
        "            if (next < end) {\n"
        "                const int32_t i0 = (int32_t)next;\n"
        "                TD_UNROLL_ALL\n"
        "                for (int k = 0; k < TD_SHARE(32, 32); k++) {\n"
        "                    const int vec = (int)TD_LANE + k * (int)TD_LANES;\n"
        "                    if (vec >= 32) continue;\n"
        "                    const int64_t base = vec * 4;\n"
        "                    const int32_t j0 = (int32_t)base;\n"
        "                    n0[k] = TD_FETCH(td_vec_f32, p0 + (i0 * 128 + j0));\n"
        "                    n1[k] = TD_FETCH(td_vec_f32, p1 + (i0 * 128 + j0));\n"
        "                }\n"
        "            }\n"
        "            const int32_t i0 = (int32_t)row;\n"));
    CHECK(strstr(
        text, "                const td_vec_f32 q0 = TD_VECTOR(td_vec_f32, m0[k]);\n"
              "                const td_vec_f32 q1 = TD_VECTOR(td_vec_f32, m1[k]);\n"));
    CHECK(strstr(
        text,
        "TD_TOGETHER_TWO(float, acc2, (a + b), float, acc4, (TD_MOST(a, b)));\n"));
    const char *end = text_of(&m.n, true, true); /* one loop for both columns */
    CHECK(strstr(end, "        float acc8 = 0;\n"
                      "        float acc9 = -__builtin_inf();\n"
                      "        TD_UNROLL_MORE\n"
                      "        for (int64_t part = TD_SLICE; "));
}

/* Vectors are as wide as the first kernel allows; what takes long reads one row ahead,
 * what does not reads several rows at a time. */
TEST(columns_that_take_long_are_read_ahead) {
    static maker m;
    for (int slow = 0; slow < 2; slow++) {
        BEGIN(&m, 1, 64, 512);
        int x = cast(&m, LOAD(&m, TD_BF16, 512, 1), TD_F32);
        int y = slow ? op1(&m, TD_OP_tanh, op1(&m, TD_OP_sigmoid, x)) : x;
        for (int i = 0; slow && i < 16; i++) y = op2(&m, TD_OP_mul, y, x);
        int sum = fold(&m, TD_S_COLUMN, TD_FOLD_SUM, y);
        STORE(&m, op2(&m, TD_OP_mul, sum, LOAD(&m, TD_F32, 0, 1)), 0, 1);
        const char *text = text_of(&m.n, true, false);
        CHECK(strstr(text, "const int64_t all = inside / 8;\n"));
        CHECK(
            strstr(text, slow ? "TD_FETCH(td_vec_bf16, p0 + (i0 * 512 + j0))"
                              : "            TD_UNROLL\n            for (int64_t row"));
    }
}

/* Attention whose query, key and value are parts of one product. */
static bool attends(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *part[3];
    td_split(td_view(td_matmul(x, w), TD_SHAPE(2, 8, 96)), 32, 2, part, 3);
    for (int i = 0; i < 3; i++)
        part[i] = td_transpose(td_view(part[i], TD_SHAPE(2, 8, 4, 8)), 1, 2);
    td_tensor *y =
        td_scaled_dot_product_attention(part[0], part[1], part[2], NULL, 0.0, true);
    return td_return(c, td_sum(td_mul(y, y)));
}

/* Its gradients, one after the other. */
static void attention_results(bool there, float *to) {
    td_ctx *cx = td_open();
    td_set_default_device(cx, there ? dev : (td_device){TD_CPU, 0});
    td_seed(cx, 3);
    td_tensor *x = td_requires_grad_(td_randn(cx, TD_SHAPE(16, 32)));
    td_tensor *w = td_requires_grad_(td_mul(td_randn(cx, TD_SHAPE(32, 96)), 0.1));
    td_fn     *f = td_aot_function(cx, attends, NULL, NULL);
    td_tensor *out;
    CHECK(td_invoke(f, TD_ARGS(x, w), &out, 1));
    td_backward(out);
    CHECK(td_read(td_grad_of(x), TD_F32, to, sizeof *to * 512));
    CHECK(td_read(td_grad_of(w), TD_F32, to + 512, sizeof *to * 3072));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(gradients_are_computed_where_they_are_joined) {
    static float a[3584], b[3584];
    td_ctx      *cx = open_there();
    if (!cx) return;
    attention_results(false, a);
    attention_results(true, b);
    for (int i = 0; i < 3584; i++)
        CHECK_NEAR((double)b[i], (double)a[i], 1e-4 * (1 + fabs((double)a[i])));
    CHECK(counts(cx).on_host == 0);
    td_close(cx);
}

/* Rows that are too long for registers, in halves. */
static bool long_rows(td_call *c) {
    td_tensor *p = td_softmax(td_to(td_arg(c, 0), TD_BF16), 1);
    return td_return(c, td_to(p, TD_F32), td_sum(p, TD_DIMS(0)));
}

static void long_results(bool there, float *to) {
    td_ctx    *cx = td_open();
    td_tensor *out[2];
    td_set_default_device(cx, there ? dev : (td_device){TD_CPU, 0});
    td_seed(cx, 3);
    td_fn *f = td_aot_function(cx, long_rows, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(td_randn(cx, TD_SHAPE(3, 8204))), out, 2));
    CHECK(td_read(out[0], TD_F32, to, sizeof *to * 3 * 8204));
    CHECK(td_read(td_to(out[1], TD_F32), TD_F32, to + 3 * 8204, sizeof *to * 8204));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_row_that_is_walked_computes_what_that_of_the_cpu_does) {
    static float a[4 * 8204], b[4 * 8204];
    td_ctx      *cx = open_there();
    if (!cx) return;
    long_results(false, a);
    long_results(true, b);
    for (int i = 0; i < 4 * 8204; i++)
        CHECK_NEAR((double)b[i], (double)a[i], 1e-2 * fabs((double)a[i]));
    CHECK(counts(cx).on_host == 0);
    td_close(cx);
}

/* Rows that a block keeps arrive while the one before is computed, if they fit and
 * consist of whole vectors. */
TEST(a_long_row_that_fits_is_kept_between_its_walks) {
    static maker         m;
    static const int64_t sizes[] = {16384, 16386, 30000};
    for (int i = 0; i < TD_COUNT(sizes); i++) {
        BEGIN(&m, 1, 5, sizes[i]);
        int x = LOAD(&m, TD_F32, sizes[i], 1);
        int top = fold(&m, TD_S_REDUCE, TD_FOLD_MAX, x);
        STORE(&m, op2(&m, TD_OP_sub, x, top), sizes[i], 1);
        const char *text = text_of(&m.n, true, false);
        CHECK(!strstr(text, "TD_KEEP(td_vec_f32, r0, 0, 4096);\n") == (i > 0));
        CHECK(!strstr(text, "TD_ARRIVED;\n") == (i == 2));
        CHECK(!strstr(text, "TD_BRING(td_vec_f32, r0 + vec, ") == (i == 2));
    }
}

/* The loss of class targets over rows of halves that are kept, or not. */
static bool scores_loss(td_call *c) {
    td_tensor *p = td_log_softmax(td_to(td_arg(c, 0), TD_F32), 1);
    return td_return(c, td_nll_loss(p, td_arg(c, 1), NULL, "none", 5));
}

enum { SCORE_ROWS = 7 };
static void scores_results(bool there, int64_t len, float *to) {
    td_ctx *cx = td_open();
    td_set_default_device(cx, there ? dev : (td_device){TD_CPU, 0});
    td_seed(cx, 3);
    const int64_t target[SCORE_ROWS] = {0, 5, len - 1, 7, 5, 11, len / 2};
    td_tensor    *x = td_randn(cx, TD_SHAPE(SCORE_ROWS, len)), *out;
    td_fill_(td_narrow(td_select(x, 0, 2), 0, 3, 40), -INFINITY);
    td_fill_(td_select(x, 0, 3), -INFINITY);                      /* NaN everywhere */
    td_fill_(td_narrow(td_select(x, 0, 4), 0, len - 2, 1), NAN);  /* ignored, too */
    td_fill_(td_narrow(td_select(x, 0, 5), 0, 11, 1), -INFINITY); /* its target */
    x = td_requires_grad_(td_to(x, TD_BF16));
    td_tensor *y = td_from(cx, TD_I64, TD_SHAPE(SCORE_ROWS), target);
    td_fn     *f = td_aot_function(cx, scores_loss, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, y), &out, 1));
    td_backward(td_sum(out));
    CHECK(td_read(td_detach(out), TD_F32, to, sizeof *to * SCORE_ROWS));
    CHECK(td_read(td_to(td_grad_of(x), TD_F32), TD_F32, to + SCORE_ROWS,
                  sizeof *to * (size_t)(SCORE_ROWS * len)));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(losses_of_kept_rows_have_the_infinities_of_the_cpu) {
    static const int64_t sizes[] = {4104, 4099, 8204, 50264};
    static float         a[SCORE_ROWS * 50265], b[SCORE_ROWS * 50265];
    td_ctx              *cx = open_there();
    if (!cx) return;
    for (int k = 0; k < TD_COUNT(sizes); k++) {
        int64_t n = SCORE_ROWS * (sizes[k] + 1);
        scores_results(false, sizes[k], a);
        scores_results(true, sizes[k], b);
        CHECK(a[1] == 0 && isnan(a[3]) && isinf(a[5]) && isfinite(a[6]));
        for (int64_t i = 0; i < n; i++)
            TD_CHECK_THAT(isnan(a[i]) ? isnan(b[i])
                                      : a[i] == b[i] || fabsf(a[i] - b[i]) <=
                                                            1e-2F * fabsf(a[i]) + 1e-6F,
                          "%lld of rows of %lld: %g, %g", (long long)i,
                          (long long)sizes[k], (double)a[i], (double)b[i]);
    }
    CHECK(counts(cx).on_host == 0);
    td_close(cx);
}

/* A norm whose value a loop behind a product computes again. */
static bool normed(td_call *c) {
    td_tensor *x = td_exp(td_arg(c, 0)), *mean = td_mean(x, TD_DIMS(1), true);
    td_tensor *n = td_mul(td_sub(x, mean), td_rsqrt(mean));
    td_tensor *p = td_matmul(td_mul(n, 0.5), td_arg(c, 1));
    return td_return(c, td_add(p, x), td_mul(p, n));
}

enum { NORMED = 4096 * 64 };
TEST(a_value_that_is_computed_again_is_the_same) {
    static float a[NORMED], b[NORMED];
    td_ctx      *cx = open_there();
    if (!cx) return;
    td_fn     *f = td_aot_function(cx, normed, NULL, NULL);
    td_tensor *x = td_randn(cx, TD_SHAPE(4096, 64)), *out[2];
    td_tensor *w = td_randn(cx, TD_SHAPE(64, 64));
    td_value   want[2];
    CHECK(td_invoke(f, TD_ARGS(x, w), out, 2));
    CHECK(td_call_body(cx, normed, NULL, TD_ARGS(x, w), want, 2));
    for (int i = 0; i < 2; i++) {
        CHECK(td_read(out[i], TD_F32, a, sizeof a));
        CHECK(td_read(want[i].u.t, TD_F32, b, sizeof b));
        for (int k = 0; k < NORMED; k++)
            CHECK_NEAR((double)a[k], (double)b[k], 1e-4 * (1 + fabs((double)b[k])));
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}
