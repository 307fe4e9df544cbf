/* device_plan.c -- compiled functions on a device with kernels: what the kernels say,
 * that they compute what the CPU does, and that a step is recorded and replayed. */
#include "device_help.h"

#include "tandem/nn.h"
#include "tandem/optim.h"

#include <sys/wait.h>
#include <unistd.h>

/* ---- texts --------------------------------------------------------------- */

TEST(elements_are_divided_among_all_threads) {
    static maker m;
    BEGIN(&m, 1, 6, 4);
    int x = LOAD(&m, TD_F32, 4, 1), b = LOAD(&m, TD_BF16, 0, 1);
    int s = op2(&m, TD_OP_mul, x, cast(&m, b, TD_F32));
    STORE(&m, s, 1, 6);
    STORE(&m, LOAD(&m, TD_I64, 1, 0), 1, 0);
    CHECK_STR(text_of(&m.n, false, false),
              "TD_KERNEL KERNEL(TD_RUN(td_nest_run)) {\n"
              "    TD_OPEN\n"
              "    const float *restrict p0 = (const float *)r->ptr[0];\n"
              "    const uint16_t *restrict p1 = (const uint16_t *)r->ptr[1];\n"
              "    float *restrict p2 = (float *)r->ptr[2];\n"
              "    const int64_t *restrict p3 = (const int64_t *)r->ptr[3];\n"
              "    int64_t *restrict p4 = (int64_t *)r->ptr[4];\n"
              "    const int64_t count = (int64_t)6 * 4;\n"
              "    TD_UNROLL\n"
              "    for (int64_t at = TD_FIRST; at < count; at += TD_STEP) {\n"
              "        int32_t rest_j = (int32_t)at;\n"
              "        const int32_t j1 = rest_j % 4;\n"
              "        rest_j /= 4;\n"
              "        const int32_t j0 = rest_j;\n"
              "        const float v0 = p0[j0 * 4 + j1];\n"
              "        const uint16_t h1 = p1[j1];\n"
              "        const float v1 = td_m_bf16_to_f32(h1);\n"
              "        const float v2 = v1;\n"
              "        const float v3 = v0 * v2;\n"
              "        p2[j0 + j1 * 6] = v3;\n"
              "        const int64_t v5 = p3[j0];\n"
              "        if (j1 == 0)\n"
              "            p4[j0] = v5;\n"
              "    }\n"
              "}\n");
}

TEST(a_thread_takes_a_vector_where_rows_consist_of_them) {
    static maker m;
    BEGIN(&m, 1, 6, 8);
    int x = LOAD(&m, TD_F32, 8, 1), b = LOAD(&m, TD_BF16, 0, 1),
        r = LOAD(&m, TD_F32, 1, 0);
    int s = op2(&m, TD_OP_mul, op2(&m, TD_OP_mul, x, r), cast(&m, b, TD_F32));
    STORE(&m, cast(&m, s, TD_BF16), 8, 1);
    CHECK_STR(text_of(&m.n, true, false),
              "TD_KERNEL KERNEL(TD_RUN(td_nest_run)) {\n"
              "    TD_OPEN\n"
              "    const float *restrict p0 = (const float *)r->ptr[0];\n"
              "    const uint16_t *restrict p1 = (const uint16_t *)r->ptr[1];\n"
              "    const float *restrict p2 = (const float *)r->ptr[2];\n"
              "    uint16_t *restrict p3 = (uint16_t *)r->ptr[3];\n"
              "    const int64_t count = (int64_t)6 * 8;\n"
              "    TD_UNROLL_TWO\n"
              "    for (int64_t vec = TD_FIRST; vec < count / 4; vec += TD_STEP) {\n"
              "        const int64_t base = vec * 4;\n"
              "        int32_t rest_j = (int32_t)base;\n"
              "        const int32_t j1 = rest_j % 8;\n"
              "        rest_j /= 8;\n"
              "        const int32_t j0 = rest_j;\n"
              "        const int32_t from = j1;\n"
              "        const td_vec_f32 q0 = TD_TAKE(td_vec_f32, p0 + (j0 * 8 + j1));\n"
              "        const td_vec_bf16 q1 = TD_TAKE(td_vec_bf16, p1 + (j1));\n"
              "        td_vec_bf16 q7;\n"
              "        TD_UNROLL_ALL\n"
              "        for (int u = 0; u < 4; u++) {\n"
              "            const int64_t at = base + u;\n"
              "            const int32_t j1 = from + u;\n"
              "            const float v0 = q0.v[u];\n"
              "            const uint16_t h1 = q1.v[u];\n"
              "            const float v1 = td_m_bf16_to_f32(h1);\n"
              "            const float v2 = p2[j0];\n"
              "            const float v3 = v1;\n"
              "            const float v4 = v0 * v2;\n"
              "            const float v5 = v4 * v3;\n"
              "            const uint16_t h6 = td_m_f32_to_bf16((float)(v5));\n"
              "            const float v6 = td_m_bf16_to_f32(h6);\n"
              "            q7.v[u] = h6;\n"
              "        }\n"
              "        TD_GIVE(td_vec_bf16, p3 + (j0 * 8 + j1), q7);\n"
              "    }\n"
              "}\n");
    CHECK(td__device_alignment(&m.n, 4, 0) == 16 &&
          td__device_alignment(&m.n, 4, 1) == 8);
    CHECK(td__device_alignment(&m.n, 4, 2) == 1 &&
          td__device_alignment(&m.n, 4, 3) == 8);
}

/* e^(x - most) is never above 1, whose form takes fewer steps. */
static void make_softmax(maker *m, int64_t rows, int64_t len) {
    BEGIN(m, 1, rows, len);
    int x = LOAD(m, TD_F32, len, 1);
    int top = fold(m, TD_S_REDUCE, TD_FOLD_MAX, x);
    int e = op1(m, TD_OP_exp, op2(m, TD_OP_sub, x, top));
    int sum = fold(m, TD_S_REDUCE, TD_FOLD_SUM, e);
    STORE(m, op2(m, TD_OP_div, e, sum), len, 1);
}

TEST(a_block_walks_a_long_row_once_for_each_fold) {
    static maker m;
    make_softmax(&m, 5, 30000);
    CHECK_STR(text_of(&m.n, false, false),
              "TD_KERNEL KERNEL(TD_RUN(td_nest_run)) {\n"
              "    TD_OPEN\n"
              "    const float *restrict p0 = (const float *)r->ptr[0];\n"
              "    float *restrict p1 = (float *)r->ptr[1];\n"
              "    const int64_t rows = (int64_t)5;\n"
              "    const int64_t inside = (int64_t)30000;\n"
              "    for (int64_t row = TD_ROW; row < rows; row += TD_ROWS) {\n"
              "        const int32_t i0 = (int32_t)row;\n"
              "        float acc1 = -__builtin_inf();\n"
              "        TD_UNROLL\n"
              "        for (int64_t at = TD_LANE; at < inside; at += TD_LANES) {\n"
              "            const int32_t j0 = (int32_t)at;\n"
              "            const float v0 = p0[i0 * 30000 + j0];\n"
              "            {\n"
              "                const float a = acc1, b = v0;\n"
              "                acc1 = TD_MOST(a, b);\n"
              "            }\n"
              "        }\n"
              "        TD_TOGETHER(float, acc1, (TD_MOST(a, b)));\n"
              "        const float v1 = acc1;\n"
              "        float acc4 = 0;\n"
              "        TD_UNROLL\n"
              "        for (int64_t at = TD_LANE; at < inside; at += TD_LANES) {\n"
              "            const int32_t j0 = (int32_t)at;\n"
              "            const float v0 = p0[i0 * 30000 + j0];\n"
              "            const float v2 = v0 - 1.0f * v1;\n"
              "            const float v3 = td_m_exp_neg_f32(v2);\n"
              "            {\n"
              "                const float a = acc4, b = v3;\n"
              "                acc4 = a + b;\n"
              "            }\n"
              "        }\n"
              "        TD_TOGETHER(float, acc4, (a + b));\n"
              "        const float v4 = acc4;\n"
              "        TD_UNROLL\n"
              "        for (int64_t at = TD_LANE; at < inside; at += TD_LANES) {\n"
              "            const int32_t j0 = (int32_t)at;\n"
              "            const float v0 = p0[i0 * 30000 + j0];\n"
              "            const float v2 = v0 - 1.0f * v1;\n"
              "            const float v3 = td_m_exp_neg_f32(v2);\n"
              "            const float v5 = v3 / v4;\n"
              "            p1[i0 * 30000 + j0] = v5;\n"
              "        }\n"
              "    }\n"
              "}\n");
}

TEST(a_block_has_a_row_in_registers_and_folds_it_together) {
    static maker m;
    make_softmax(&m, 5, 300);
    CHECK_STR(text_of(&m.n, false, false),
              "TD_KERNEL KERNEL(TD_RUN(td_nest_run)) {\n"
              "    TD_OPEN\n"
              "    const float *restrict p0 = (const float *)r->ptr[0];\n"
              "    float *restrict p1 = (float *)r->ptr[1];\n"
              "    const int64_t rows = (int64_t)5;\n"
              "    const int64_t inside = (int64_t)300;\n"
              "    for (int64_t row = TD_ROW; row < rows; row += TD_ROWS) {\n"
              "        const int32_t i0 = (int32_t)row;\n"
              "        float t0[TD_SHARE(300, 160) * 1];\n"
              "        float t3[TD_SHARE(300, 160) * 1];\n"
              "        float acc1 = -__builtin_inf();\n"
              "        TD_UNROLL_ALL\n"
              "        for (int k = 0; k < TD_SHARE(300, 160); k++) {\n"
              "            const int vec = (int)TD_LANE + k * (int)TD_LANES;\n"
              "            if (vec >= 300) continue;\n"
              "            const int at = vec, reg = k;\n"
              "            const int32_t j0 = (int32_t)at;\n"
              "            const float v0 = p0[i0 * 300 + j0];\n"
              "            t0[reg] = v0;\n"
              "            {\n"
              "                const float a = acc1, b = v0;\n"
              "                acc1 = TD_MOST(a, b);\n"
              "            }\n"
              "        }\n"
              "        TD_TOGETHER(float, acc1, (TD_MOST(a, b)));\n"
              "        const float v1 = acc1;\n"
              "        float acc4 = 0;\n"
              "        TD_UNROLL_ALL\n"
              "        for (int k = 0; k < TD_SHARE(300, 160); k++) {\n"
              "            const int vec = (int)TD_LANE + k * (int)TD_LANES;\n"
              "            if (vec >= 300) continue;\n"
              "            const int at = vec, reg = k;\n"
              "            const int32_t j0 = (int32_t)at;\n"
              "            const float v0 = t0[reg];\n"
              "            const float v2 = v0 - 1.0f * v1;\n"
              "            const float v3 = td_m_exp_neg_f32(v2);\n"
              "            t3[reg] = v3;\n"
              "            {\n"
              "                const float a = acc4, b = v3;\n"
              "                acc4 = a + b;\n"
              "            }\n"
              "        }\n"
              "        TD_TOGETHER(float, acc4, (a + b));\n"
              "        const float v4 = acc4;\n"
              "        TD_UNROLL_ALL\n"
              "        for (int k = 0; k < TD_SHARE(300, 160); k++) {\n"
              "            const int vec = (int)TD_LANE + k * (int)TD_LANES;\n"
              "            if (vec >= 300) continue;\n"
              "            const int at = vec, reg = k;\n"
              "            const int32_t j0 = (int32_t)at;\n"
              "            const float v3 = t3[reg];\n"
              "            const float v5 = v3 / v4;\n"
              "            p1[i0 * 300 + j0] = v5;\n"
              "        }\n"
              "    }\n"
              "}\n");
}

TEST(a_long_row_ends_with_elements_behind_its_vectors) {
    static maker m;
    BEGIN(&m, 1, 5, 1003);
    int x = LOAD(&m, TD_F32, 1024, 1);
    STORE(&m, fold(&m, TD_S_REDUCE, TD_FOLD_SUM, x), 1, 0);
    const char *text = text_of(&m.n, true, false);
    CHECK(strstr(text, "for (int64_t vec = TD_LANE; vec < inside / 4;"));
    CHECK(strstr(text, "for (int64_t at = inside / 4 * 4 + TD_LANE; at < inside;"));
}

static void make_columns(maker *m) {
    BEGIN(m, 1, 1000, 3);
    int x = LOAD(m, TD_F32, 3, 1);
    int sum = fold(m, TD_S_COLUMN, TD_FOLD_SUM, op2(m, TD_OP_mul, x, x));
    STORE(m, sum, 0, 1);
}

TEST(a_thread_sums_a_column_of_a_part_of_the_rows) {
    static maker m;
    make_columns(&m);
    CHECK_STR(
        text_of(&m.n, false, false),
        "TD_KERNEL KERNEL(TD_RUN(td_nest_run)) {\n"
        "    TD_OPEN\n"
        "    const float *restrict p0 = (const float *)r->ptr[0];\n"
        "    const int64_t rows = (int64_t)1000;\n"
        "    const int64_t inside = (int64_t)3;\n"
        "    const int64_t parts = r->size[0];\n"
        "    char *parts_at = r->ptr[2];\n"
        "    const int64_t each = 8 * inside;\n"
        "    const int64_t all = inside;\n"
        "    const int64_t tiles = (all + 255) / 256;\n"
        "    for (int64_t w = TD_ROW; w < parts * tiles; w += TD_ROWS) {\n"
        "        const int64_t part = w / tiles, first = w % tiles * 256;\n"
        "        const int64_t last = first + 256 < all ? first + 256 : all;\n"
        "        const int64_t begin = rows * part / parts;\n"
        "        const int64_t end = rows * (part + 1) / parts;\n"
        "        for (int64_t at = first + TD_LANE; at < last; at += TD_LANES) {\n"
        "            const int32_t j0 = (int32_t)at;\n"
        "            float acc2 = 0;\n"
        "            TD_UNROLL\n"
        "            for (int64_t row = begin; row < end; row++) {\n"
        "                const int32_t i0 = (int32_t)row;\n"
        "                const float v0 = p0[i0 * 3 + j0];\n"
        "                const float v1 = v0 * v0;\n"
        "                {\n"
        "                    const float a = acc2, b = v1;\n"
        "                    acc2 = a + b;\n"
        "                }\n"
        "            }\n"
        "            ((float *)(parts_at + (part * 1 + 0) * each))[at] = acc2;\n"
        "        }\n"
        "    }\n"
        "}\n");
    CHECK_STR(
        text_of(&m.n, false, true),
        "TD_KERNEL KERNEL(TD_RUN(td_nest_run)) {\n"
        "    TD_OPEN\n"
        "    float *restrict p1 = (float *)r->ptr[1];\n"
        "    const int64_t inside = (int64_t)3;\n"
        "    const int64_t parts = r->size[0];\n"
        "    char *parts_at = r->ptr[2];\n"
        "    const int64_t each = 8 * inside;\n"
        "    for (int64_t w = TD_ROW * TD_COLUMNS; w < inside; w += TD_ROWS * "
        "TD_COLUMNS) {\n"
        "        const bool mine = TD_SLICE == 0 && w + TD_COLUMN < inside;\n"
        "        const int64_t at = w + TD_COLUMN < inside ? w + TD_COLUMN : inside - "
        "1;\n"
        "        const int32_t j0 = (int32_t)at;\n"
        "        float acc2 = 0;\n"
        "        TD_UNROLL_MORE\n"
        "        for (int64_t part = TD_SLICE; part < parts; part += TD_SLICES) {\n"
        "            {\n"
        "                const float a = acc2, b = ((float *)(parts_at + (part * 1 + "
        "0) * each))[at];\n"
        "                acc2 = a + b;\n"
        "            }\n"
        "        }\n"
        "        TD_DOWN(float, acc2, (a + b));\n"
        "        const float v2 = acc2;\n"
        "        if (mine)\n"
        "            p1[j0] = v2;\n"
        "    }\n"
        "}\n");
}

/* ---- values --------------------------------------------------------------- */

/* Folds over rows, over the inside and over both, in f32 and bf16. */
static bool folds(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_tensor *y = td_mul(td_layer_norm(td_mul(x, 2.0), TD_DIMS(33)), w);
    td_tensor *p = td_softmax(y, 1), *h = td_to(p, TD_BF16);
    td_tensor *rows = td_sum(td_mul(p, x), TD_DIMS(0));
    td_tensor *top = td_amax(td_add(h, 1.0), TD_DIMS(1));
    return td_return(c, p, td_mul(rows, w), td_sum(td_mul(p, p)), td_to(top, TD_F32));
}

/* Its results and gradients, on a device or the CPU, one after the other. */
static int results(bool there, float *to) {
    td_ctx *cx = td_open();
    int     n = 0;
    td_set_default_device(cx, there ? dev : (td_device){TD_CPU, 0});
    td_seed(cx, 3);
    td_tensor *x = td_randn(cx, TD_SHAPE(70, 33)), *w = td_randn(cx, TD_SHAPE(33));
    td_requires_grad_(x);
    td_requires_grad_(w);
    td_fn     *f = td_aot_function(cx, folds, NULL, NULL);
    td_tensor *out[4];
    CHECK(td_invoke(f, TD_ARGS(x, w), out, 4));
    td_backward(td_add(td_add(td_sum(out[1]), out[2]), td_sum(td_mul(out[0], out[0]))));
    td_tensor *all[] = {out[0], out[1], out[2], out[3], td_grad_of(x), td_grad_of(w)};
    for (int i = 0; i < 6; i++) {
        int64_t k = td_numel(all[i]);
        CHECK(td_read(td_detach(all[i]), TD_F32, to + n, sizeof *to * (size_t)k));
        n += (int)k;
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
    return n;
}

TEST(a_plan_on_a_device_computes_what_that_of_the_cpu_does) {
    static float a[20000], b[20000];
    td_ctx      *cx = open_there();
    if (!cx) return;
    int n = results(false, a);
    CHECK(results(true, b) == n);
    for (int i = 0; i < n; i++)
        CHECK_NEAR((double)b[i], (double)a[i], 1e-5 * (1 + fabs((double)a[i])));
    CHECK(counts(cx).on_host == 0);
    td_close(cx);
}

/* The loss of class targets of a product with 261 columns in halves, and its gradients:
 * one target is ignored, classes have weights. The product is padded, unless its
 * strides show in the last result. */
static bool likelihoods(td_call *c) {
    const bool *shows = td_call_env(c);
    td_tensor  *x = td_arg(c, 0), *w = td_arg(c, 1), *y = td_arg(c, 2);
    td_tensor  *h = td_to(td_arg(c, 3), TD_F32);
    td_tensor  *z = td_matmul(td_to(x, TD_BF16), td_t(td_to(w, TD_BF16)));
    td_tensor  *p = td_log_softmax(td_to(z, TD_F32), 1);
    td_tensor  *plain = td_nll_loss(p, y, NULL, "mean", 5);
    td_tensor  *sum = td_nll_loss(p, y, h, "sum", 5);
    return td_return(c, td_add(plain, sum), td_nll_loss(p, y, h, "none", 5),
                     *shows ? z : td_amax(z, TD_DIMS(1)));
}

enum { WORDS = 261, WIDE = 520, TOKENS = 128 };
static int likelihood_results(bool there, bool shows, float *to) {
    td_ctx *cx = td_open();
    int     n = 0;
    td_set_default_device(cx, there ? dev : (td_device){TD_CPU, 0});
    td_seed(cx, 3);
    td_tensor *x = td_randn(cx, TD_SHAPE(TOKENS, WIDE));
    td_tensor *w = td_mul(td_randn(cx, TD_SHAPE(WORDS, WIDE)), 0.05);
    td_tensor *y = td_randint(cx, 0, 12, TD_SHAPE(TOKENS));
    td_tensor *h = td_rand(cx, TD_SHAPE(WORDS));
    td_requires_grad_(x);
    td_requires_grad_(w);
    td_fn     *f = td_aot_function(cx, likelihoods, &shows, NULL);
    td_tensor *out[3];
    CHECK(td_invoke(f, TD_ARGS(x, w, y, h), out, 3));
    CHECK(!shows || td_is_contiguous(out[2]));
    td_backward(td_add(out[0], td_mul(td_sum(out[1]), 0.5)));
    td_tensor *all[] = {out[0], out[1], td_to(out[2], TD_F32), td_grad_of(x),
                        td_grad_of(w)};
    for (int i = 0; i < 5; i++) {
        int64_t k = td_numel(all[i]);
        CHECK(td_read(td_detach(all[i]), TD_F32, to + n, sizeof *to * (size_t)k));
        n += (int)k;
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
    return n;
}

TEST(a_loss_of_classes_is_part_of_the_loops_over_its_scores) {
    static float a[400000], b[400000];
    td_ctx      *cx = open_there();
    if (!cx) return;
    for (int shows = 0; shows < 2; shows++) {
        int n = likelihood_results(false, shows, a);
        CHECK(likelihood_results(true, shows, b) == n);
        for (int i = 0; i < n; i++)
            CHECK_NEAR((double)b[i], (double)a[i], 2e-2 * (1 + fabs((double)a[i])));
    }
    CHECK(counts(cx).on_host == 0);
    td_close(cx);
}

static bool mean_loss(td_call *c) {
    return td_return(c, td_cross_entropy(td_arg(c, 0), td_arg(c, 1)));
}

TEST(a_class_out_of_range_is_found_in_compiled_code) {
    td_ctx *cx = open_there();
    if (!cx) return;
    td_fn     *f = td_aot_function(cx, mean_loss, NULL, NULL);
    td_tensor *x = td_requires_grad_(td_randn(cx, TD_SHAPE(4, 9)));
    td_tensor *y = td_full(cx, TD_SHAPE(4), 9, TD_I64), *out;
    CHECK(td_invoke(f, TD_ARGS(x, y), &out, 1));
    (void)td_item(out);
    CHECK(td_error(cx) == TD_E_INDEX);
    CHECK(strstr(td_message(cx), "nll_loss: an index, a class"));
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* Zeros behind a tensor are stored by the loops that compute it. */
static bool pads(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_tensor *y = td_mul(td_softmax(x, 1), 2.0), *z = td_exp(x);
    td_tensor *cols = td_constant_pad_nd(y, TD_DIMS(0, 5));
    td_tensor *rows = td_constant_pad_nd(z, TD_DIMS(0, 0, 0, 3));
    td_tensor *odd = td_constant_pad_nd(z, TD_DIMS(1, 2));
    return td_return(c, cols, rows, odd, td_constant_pad_nd(z, TD_DIMS(0, 2), 4.0));
}

TEST(a_padded_result_is_stored_with_its_zeros) {
    static const int64_t sizes[][2] = {{40, 32}, {8, 33}, {1, 7}, {3, 5000}};
    static float         a[60000], b[60000];
    td_ctx              *cx = open_there();
    if (!cx) return;
    for (int k = 0; k < TD_COUNT(sizes); k++) {
        td_tensor *x = td_randn(cx, TD_SHAPE(sizes[k][0], sizes[k][1])), *out[4];
        td_fn     *f = td_aot_function(cx, pads, NULL, NULL);
        td_value   want[4];
        CHECK(td_invoke(f, TD_ARGS(x), out, 4));
        CHECK(td_call_body(cx, pads, NULL, TD_ARGS(x), want, 4));
        for (int i = 0; i < 4; i++) {
            int64_t n = td_numel(out[i]);
            CHECK(n == td_numel(want[i].u.t));
            CHECK(td_read(out[i], TD_F32, a, sizeof *a * (size_t)n));
            CHECK(td_read(want[i].u.t, TD_F32, b, sizeof *b * (size_t)n));
            for (int64_t j = 0; j < n; j++)
                CHECK_NEAR((double)a[j], (double)b[j], 1e-6 * (1 + fabs((double)b[j])));
        }
        td_fn_drop(f);
    }
    CHECK_OK(cx);
    td_close(cx);
}

static bool squares(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_add(td_mul(x, x), 1.0));
}

/* A row that begins 4 bytes behind a vector, after one that begins at one. */
TEST(a_pointer_between_vectors_takes_elements_one_by_one) {
    td_ctx *cx = open_there();
    if (!cx) return;
    td_fn     *f = td_aot_function(cx, squares, NULL, NULL);
    td_tensor *x = td_arange(cx, 0, 65, 1, TD_F32), *out;
    for (int i = 0; i < 2; i++) {
        float got[64];
        CHECK(td_invoke(f, TD_ARGS(td_slice(x, 0, i, i + 64)), &out, 1));
        CHECK(td_read(out, TD_F32, got, sizeof got));
        for (int k = 0; k < 64; k++) CHECK(got[k] == (float)((k + i) * (k + i) + 1));
    }
    CHECK(counts(cx).on_host == 0);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- recordings ----------------------------------------------------------- */

typedef struct job {
    td_module *net;
    td_optim  *opt;
} job;

static bool train(td_call *c) {
    job       *j = td_call_env(c);
    td_tensor *out = td_module_call(j->net, TD_ARGS(td_arg(c, 0)));
    td_tensor *loss = td_mean(td_mul(out, out));
    return td_backward(loss) && td_optim_step(j->opt) &&
           (td_optim_zero_grad(j->opt), td_return(c, loss));
}

/* Losses of steps on a device; every one has an input at another address if `moves`.
 * launches: of the last step. */
static void steps(td_ctx *cx, int n, bool recorded, bool moves, double *losses,
                  uint64_t *launches) {
    td_scope_begin(cx, "steps");
    td_config_set(cx, "device_graphs", recorded ? "on" : "off");
    td_seed(cx, 5);
    job j = {.net = td_nn_sequential(cx, (td_modules){NULL, 0})};
    for (int i = 0; i < 3; i++) td_nn_append(j.net, td_nn_linear(cx, 8, 8, NULL));
    j.opt = td_optim_module(j.net, td_adamw(1e-2));
    td_aot_opts o = {TD_AOT_OPTS, .module = j.net};
    td_fn      *f = td_aot_step(cx, train, &j, &o);
    td_tensor  *x = td_randn(cx, TD_SHAPE(4, 8)), *loss, *kept[16];
    for (int i = 0; i < n; i++) {
        if (moves) kept[i] = x = td_add(x, 0.01);
        if (i == n / 2) td_optim_set_lr(j.opt, 0, 1e-3);
        uint64_t before = counts(cx).launches;
        CHECK(td_invoke(f, TD_ARGS(x), &loss, 1));
        *launches = counts(cx).launches - before;
        losses[i] = td_item(loss);
    }
    CHECK_OK(cx);
    (void)kept;
    td_fn_drop(f);
    td_optim_free(j.opt);
    td_module_free(j.net);
    td_scope_end(cx, "steps", NULL);
}

TEST(a_step_is_recorded_once_and_replayed) {
    double   a[12], b[12];
    uint64_t one, many;
    td_ctx  *cx = open_there();
    if (!cx) return;
    steps(cx, 12, false, false, a, &many);
    steps(cx, 12, true, false, b, &one);
    CHECK(many > 8 && one == 1);
    for (int i = 0; i < 12; i++) CHECK(a[i] == b[i]);
    CHECK(b[11] < b[0]);
    td_close(cx);
}

TEST(an_input_that_moves_is_copied_to_the_recording) {
    double   a[12], b[12];
    uint64_t one, many;
    td_ctx  *cx = open_there();
    if (!cx) return;
    steps(cx, 12, false, true, a, &many);
    steps(cx, 12, true, true, b, &one);
    CHECK(many > 8 && one == 1);
    for (int i = 0; i < 12; i++) CHECK(a[i] == b[i]);
    td_close(cx);
}

static bool powers(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    for (int i = 0; i < 4; i++) x = td_tanh(td_mm(x, td_arg(c, 0)));
    return td_return(c, td_sum(x));
}

/* Parts of one tensor have one storage, and not one address. */
TEST(a_replay_reads_the_part_that_it_was_given) {
    double  is[2][8];
    td_ctx *cx = open_there();
    if (!cx) return;
    td_fn     *f = td_aot_function(cx, powers, NULL, NULL);
    td_tensor *all = td_randn(cx, TD_SHAPE(8, 4, 4)), *out;
    for (int on = 0; on < 2; on++) {
        td_config_set(cx, "device_graphs", on ? "on" : "off");
        for (int i = 0; i < 8; i++) {
            CHECK(td_invoke(f, TD_ARGS(td_select(all, 0, i < 4 ? 0 : i)), &out, 1));
            is[on][i] = td_item(out);
        }
    }
    for (int i = 0; i < 8; i++) CHECK(is[0][i] == is[1][i]);
    CHECK(is[0][0] == is[0][3] && is[0][3] != is[0][4] && is[0][4] != is[0][5]);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* Five kernels, one of which draws. */
static bool noise(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    for (int i = 0; i < 3; i++) x = td_tanh(td_mm(x, td_arg(c, 1)));
    return td_return(c, td_sum(td_mul(x, td_rand_like(x))));
}

TEST(a_recording_draws_new_numbers) {
    td_ctx *cx = open_there();
    if (!cx) return;
    td_fn     *f = td_aot_function(cx, noise, NULL, NULL);
    td_tensor *x = td_ones(cx, TD_SHAPE(6, 6)), *out;
    double     drawn[2][6];
    uint64_t   launches = 0;
    for (int on = 0; on < 2; on++) {
        td_config_set(cx, "device_graphs", on ? "on" : "off");
        td_seed(cx, 9);
        for (int i = 0; i < 6; i++) {
            uint64_t before = counts(cx).launches;
            CHECK(td_invoke(f, TD_ARGS(x, x), &out, 1));
            launches = counts(cx).launches - before;
            drawn[on][i] = td_item(out);
        }
    }
    CHECK(launches == 1);
    for (int i = 0; i < 6; i++) CHECK(drawn[0][i] == drawn[1][i]);
    CHECK(drawn[0][4] != drawn[0][5]);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- memory and the cache ------------------------------------------------- */

TEST(the_arena_of_a_plan_is_kept_from_call_to_call) {
    td_ctx *cx = open_there();
    if (!cx) return;
    td_fn     *f = td_aot_function(cx, noise, NULL, NULL);
    td_tensor *x = td_ones(cx, TD_SHAPE(64, 64)), *out;
    uint64_t   bytes[3];
    td_config_set(cx, "device_graphs", "off");
    for (int i = 0; i < 3; i++) {
        td_scope_begin(cx, "call");
        CHECK(td_invoke(f, TD_ARGS(x, x), &out, 1));
        td_scope_end(cx, "call", NULL);
        bytes[i] = counts(cx).bytes;
    }
    CHECK(bytes[1] == bytes[0] && bytes[2] == bytes[0]);
    td_fn_drop(f);
    CHECK(counts(cx).bytes < bytes[0]);
    td_close(cx);
}

static int build_noise(void) {
    td_ctx    *cx = open_there();
    td_fn     *f = td_aot_function(cx, noise, NULL, NULL);
    td_tensor *x = td_ones(cx, TD_SHAPE(5, 5)), *out;
    bool       ok = td_invoke(f, TD_ARGS(x, x), &out, 1);
    return ok ? (int)counts(cx).kernels_built : 100;
}

TEST(a_second_process_finds_the_kernels_on_disk) {
    char dir[] = "/tmp/td-device-XXXXXX", line[64];
#ifdef TD_TEST_INPROC
    return;
#endif
    CHECK(mkdtemp(dir) && setenv("TD_CACHE_DIR", dir, 1) == 0);
    for (int i = 0; i < 2; i++) {
        pid_t p = fork();
        int   status = 0;
        if (p == 0) _exit(build_noise());
        CHECK(p > 0 && waitpid(p, &status, 0) == p && WIFEXITED(status));
        CHECK(i ? WEXITSTATUS(status) == 0
                : WEXITSTATUS(status) > 0 && WEXITSTATUS(status) < 100);
    }
    snprintf(line, sizeof line, "rm -rf %s", dir);
    CHECK(system(line) == 0);
}
