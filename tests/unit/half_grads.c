/* half_grads.c -- gradients of halves against the same gradients in f64. A derivative
 * of several steps computes in f32 and rounds once, so the error is that of one
 * rounding: eps/4 of the largest gradient is more than its root mean square, rounding
 * after each step is above it. */
#include "grad_help.h"

enum { MOST = 3, VALUES = 2048 };

typedef td_tensor *function(td_tensor *const *x);

typedef struct operand {
    int64_t size[4];
    int     rank;
} operand;

static double drawn(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / (1 << 23) - 1;
}

/* Gradients in dt, one after the other, of f's result times drawn numbers. Values are
 * eighths, so that every dtype holds them. */
static int gradients(td_dtype dt, function *f, const operand *in, int n, double *to) {
    td_ctx    *cx = td_open();
    td_tensor *x[MOST], *g[MOST], *y;
    double     v[VALUES];
    uint64_t   state = 5;
    int        count = 0;
    for (int i = 0; i < n; i++) {
        int64_t m = 1;
        for (int d = 0; d < in[i].rank; d++) m *= in[i].size[d];
        for (int64_t k = 0; k < m; k++) v[k] = round(16 * drawn(&state)) / 8;
        x[i] = td_from(cx, TD_F64, TD_SHAPE_OF(in[i].size, in[i].rank), v);
        x[i] = td_requires_grad_(td_to(x[i], dt));
    }
    y = f(x);
    for (int64_t k = 0; k < td_numel(y); k++) v[k] = round(16 * drawn(&state)) / 8;
    td_tensor *w = td_to(td_from(cx, TD_F64, td_sizes(y), v), dt);
    td_grad((td_tensors){&y, 1}, (td_tensors){x, n}, g,
            &(td_grad_opts){TD_GRAD_OPTS, .grads = {&w, 1}});
    for (int i = 0; i < n && td_ok(cx); i++) {
        int64_t m = td_numel(g[i]);
        CHECK(count + m <= VALUES && td_dtype_of(g[i]) == dt);
        td_read(g[i], TD_F64, to + count, sizeof(double) * (size_t)m);
        count += (int)m;
    }
    CHECK_OK(cx);
    td_close(cx);
    return count;
}

/* The root mean square of errors, in eps of the largest gradient. */
static double error_of(td_dtype dt, function *f, const operand *in, int n) {
    static double half[VALUES], exact[VALUES];
    double        sum = 0, most = 0;
    int           m = gradients(dt, f, in, n, half);
    CHECK(m > 0 && gradients(TD_F64, f, in, n, exact) == m);
    for (int i = 0; i < m; i++) {
        sum += (half[i] - exact[i]) * (half[i] - exact[i]);
        if (fabs(exact[i]) > most) most = fabs(exact[i]);
    }
    return sqrt(sum / m) / most / (dt == TD_BF16 ? 0x1p-7 : 0x1p-10);
}

static void check_once(const char *what, function *f, const operand *in, int n) {
    for (td_dtype dt = TD_F16; dt <= TD_BF16; dt++) {
        double e = error_of(dt, f, in, n);
        TD_CHECK_THAT(e < 0.25, "%s in %s: error %.3f eps", what, td_dtype_name(dt), e);
    }
}

static td_tensor *product(td_tensor *const *x) { return td_matmul(x[0], x[1]); }

TEST(half_gradients_of_a_matrix_beside_a_stack_are_one_product) {
    check_once("stack @ [1,k,n]", product, (operand[]){{{32, 3, 4}, 3}, {{1, 4, 5}, 3}},
               2);
    check_once("[1,m,k] @ stack", product, (operand[]){{{1, 3, 4}, 3}, {{32, 4, 5}, 3}},
               2);
    check_once("matrix @ stack", product, (operand[]){{{3, 4}, 2}, {{32, 4, 5}, 3}}, 2);
    check_once("stack @ [1,1,k,n]", product,
               (operand[]){{{4, 8, 3, 4}, 4}, {{1, 1, 4, 5}, 4}}, 2);
}

static td_tensor *evaluated_batch_norm(td_tensor *const *x) {
    td_ctx    *cx = td_ctx_of(x[0]);
    td_tensor *mean =
        td_to(td_from(cx, TD_F32, TD_SHAPE(2), (float[]){0.5f, -1}), td_dtype_of(x[0]));
    td_tensor *var =
        td_to(td_from(cx, TD_F32, TD_SHAPE(2), (float[]){3, 0.75f}), td_dtype_of(x[0]));
    return td_op_batch_norm(x[0], x[1], x[2], mean, var, false, 0.1, 0.5);
}
static td_tensor *running_sum(td_tensor *const *x) { return td_logcumsumexp(x[0], 1); }
static td_tensor *deviation(td_tensor *const *x) {
    return td_op_std(x[0], TD_DIMS(1), td_value_int(1), false);
}
static td_tensor *logits(td_tensor *const *x) {
    return td_op_bce_with_logits(x[0], x[1], x[2], NULL, "sum");
}

TEST(half_gradients_of_rules_in_several_steps_round_once) {
    check_once("batch_norm", evaluated_batch_norm,
               (operand[]){{{8, 2, 5}, 3}, {{2}, 1}, {{2}, 1}}, 3);
    check_once("std", deviation, (operand[]){{{5, 16}, 2}}, 1);
    check_once("logcumsumexp", running_sum, (operand[]){{{5, 16}, 2}}, 1);
    check_once("bce_with_logits", logits,
               (operand[]){{{8, 8}, 2}, {{8, 8}, 2}, {{1, 8}, 2}}, 3);
}

static td_tensor *attention(td_tensor *const *x) {
    return td_op_scaled_dot_product_attention(x[0], x[1], x[2], NULL, 0, false,
                                              td_value_none(), false);
}
static td_tensor *masked_attention(td_tensor *const *x) {
    return td_op_scaled_dot_product_attention(x[0], x[1], x[1], x[2], 0, false,
                                              td_value_none(), false);
}

TEST(half_gradients_of_attention_round_once) {
    operand a[] = {{{2, 2, 5, 8}, 4}, {{2, 2, 12, 8}, 4}, {{2, 2, 12, 8}, 4}};
    operand m[] = {{{2, 2, 5, 8}, 4}, {{2, 2, 12, 8}, 4}, {{5, 12}, 2}};
    operand few[] = {{{1, 1, 2, 2}, 4}, {{1, 1, 300, 2}, 4}, {{1, 1, 300, 2}, 4}};
    operand one[] = {{{2, 4, 5, 8}, 4}, {{1, 4, 12, 8}, 4}, {{1, 1, 12, 8}, 4}};
    check_once("attention", attention, a, 3);
    check_once("attention with shared keys", attention, one, 3);
    check_once("attention with a mask", masked_attention, m, 3);
    check_once("attention in parts", attention, few, 3);
}
