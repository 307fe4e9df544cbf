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
