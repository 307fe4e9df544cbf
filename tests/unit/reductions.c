/* reductions.c -- sums, extremes, moments, scans and sorts: values, dtypes, layouts,
 * what is refused, and that fast paths agree with plain loops on any number of
 * threads. Norm layers and softmax are in norms.c. */
#include "op_help.h"

#include "kernels/reduce.h"

#include <string.h>

static td_tensor *count(td_ctx *cx, td_ints size) {
    int64_t n = 1;
    for (int i = 0; i < size.n; i++) n *= size.v[i];
    return td_view(td_arange(cx, 0, n, 1, TD_F32), size);
}

static td_tensor *as(td_tensor *t, td_dtype dt) { return td_op_to(t, dt, false); }

#define CHECK_DTYPE(t, dt) CHECK_STR(td_dtype_name(td_dtype_of(t)), td_dtype_name(dt))

/* ---- sums -------------------------------------------------------------- */

TEST(sum_without_dims_adds_all_elements) {
    td_ctx *cx = td_open();
    CHECK_VALUES(td_sum(count(cx, TD_SHAPE(2, 3))), 15);
    CHECK(td_rank(td_sum(count(cx, TD_SHAPE(2, 3)))) == 0);
    td_close(cx);
}

TEST(sum_takes_negative_dims_and_keeps_them_when_asked) {
    td_ctx    *cx = td_open();
    td_tensor *s = td_sum(count(cx, TD_SHAPE(2, 3)), TD_DIMS(-2), true);

    CHECK_SHAPE(s, 1, 3);
    CHECK_VALUES(s, 3, 5, 7);
    td_close(cx);
}

TEST(sum_over_an_empty_list_of_dims_reduces_all) {
    td_ctx *cx = td_open();
    CHECK_VALUES(td_sum(count(cx, TD_SHAPE(4)), TD_DIMS()), 6);
    td_close(cx);
}

TEST(sum_of_integers_and_bool_is_i64) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 100, 100, 100);

    CHECK_DTYPE(td_sum(as(x, TD_I8)), TD_I64);
    CHECK_VALUES(td_sum(as(x, TD_I8)), 300);
    CHECK_VALUES(td_sum(as(x, TD_BOOL)), 3);
    td_close(cx);
}

TEST(sum_casts_elements_before_adding) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1.9, 1.9);

    CHECK_VALUES(td_sum(x, TD_ALL, false, TD_I64), 2);
    CHECK_VALUES(td_sum(as(td_tensor1(cx, 200, 76), TD_I64), TD_ALL, false, TD_I8), 20);
    CHECK_VALUES(td_sum(x, TD_ALL, false, TD_BOOL), 1);
    td_close(cx);
}

TEST(sum_of_no_elements_is_zero_and_prod_is_one) {
    td_ctx    *cx = td_open();
    td_tensor *e = td_zeros(cx, TD_SHAPE(0, 2));

    CHECK_VALUES(td_sum(e), 0);
    CHECK_VALUES(td_sum(e, TD_DIMS(0)), 0, 0);
    CHECK_VALUES(td_prod(e), 1);
    CHECK_SHAPE(td_sum(e, TD_DIMS(1)), 0);
    CHECK_VALUES(td_mean(e), (double)NAN);
    td_close(cx);
}

TEST(sum_of_halves_accumulates_in_single_precision) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(3000), TD_F16);

    CHECK_VALUES(td_sum(x), 3000);
    CHECK_DTYPE(td_sum(x), TD_F16);
    td_close(cx);
}

TEST(sum_of_many_small_numbers_stays_accurate) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_full(cx, TD_SHAPE(1 << 22), 0.1, TD_F32);
    double     want = (double)0.1f * (1 << 22);

    CHECK_NEAR(td_item(td_sum(x)), want, 4e-7 * want);
    x = td_view(x, TD_SHAPE(1 << 20, 4));
    CHECK_NEAR(td_item(td_select(td_sum(x, TD_DIMS(0)), 0, 3)), want / 4,
               4e-7 * want / 4);
    td_close(cx);
}

TEST(results_are_row_major_whatever_the_input_is) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_permute(count(cx, TD_SHAPE(4, 5, 6)), TD_DIMS(2, 0, 1));
    td_tensor *s = td_sum(x, TD_DIMS(1));

    CHECK_SHAPE(s, 6, 5);
    CHECK(td_stride(s, 0) == 5 && td_stride(s, 1) == 1);
    td_close(cx);
}

TEST(a_dim_named_twice_is_refused) {
    td_ctx *cx = td_open();
    td_sum(count(cx, TD_SHAPE(2, 3)), TD_DIMS(0, -2));
    CHECK_FAILS(cx, TD_E_ARG, "sum: dim 0 appears more than once");
    td_close(cx);
}

TEST(a_dim_out_of_range_is_refused_but_0_dim_tensors_take_0_and_minus_1) {
    td_ctx    *cx = td_open();
    td_tensor *z = td_full(cx, TD_SHAPE(), 3.0);

    td_sum(count(cx, TD_SHAPE(2)), TD_DIMS(1));
    CHECK_FAILS(cx, TD_E_INDEX, "sum: dim 1 is out of range");
    CHECK_VALUES(td_sum(z, TD_DIMS(0)), 3);
    CHECK_VALUES(td_sum(z, TD_DIMS(-1)), 3);
    td_sum(z, TD_DIMS(1));
    CHECK_FAILS(cx, TD_E_INDEX, "out of range for rank 0");
    td_close(cx);
}

TEST(mean_refuses_integers_unless_a_float_dtype_is_given) {
    td_ctx    *cx = td_open();
    td_tensor *x = as(td_tensor1(cx, 1, 2), TD_I64);

    td_mean(x);
    CHECK_FAILS(cx, TD_E_DTYPE, "mean: the result must be floating point, not i64");
    CHECK_VALUES(td_mean(x, TD_ALL, false, TD_F64), 1.5);
    td_close(cx);
}

TEST(nansum_passes_over_nan) {
    td_ctx *cx = td_open();
    CHECK_VALUES(td_nansum(td_tensor1(cx, 1, (double)NAN, 3)), 4);
    td_close(cx);
}

TEST(count_nonzero_counts_nan_and_gives_i64) {
    td_ctx    *cx = td_open();
    td_tensor *n = td_count_nonzero(td_tensor1(cx, 0, (double)NAN, -0.0, 2));

    CHECK_VALUES(n, 2);
    CHECK_DTYPE(n, TD_I64);
    td_close(cx);
}

TEST(sum_to_size_returns_its_input_when_sizes_agree) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(2, 3));

    CHECK(td_sum_to_size(x, TD_SHAPE(2, 3)) == x);
    CHECK_VALUES(td_sum_to_size(x, TD_SHAPE(1, 3)), 3, 5, 7);
    CHECK_SHAPE(td_sum_to_size(x, TD_SHAPE(3)), 3);
    CHECK_SHAPE(td_sum_to_size(x, TD_SHAPE(2, 1)), 2, 1);
    td_sum_to_size(x, TD_SHAPE(2, 2));
    CHECK_FAILS(cx, TD_E_SHAPE, "sum_to_size: size [2,2] does not broadcast");
    td_close(cx);
}

/* ---- truth and extremes ------------------------------------------------ */

TEST(all_and_any_are_bool_but_u8_of_u8) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 0, 2, (double)NAN);

    CHECK_VALUES(td_all(x), 0);
    CHECK_VALUES(td_any(x), 1);
    CHECK_DTYPE(td_all(x), TD_BOOL);
    CHECK_DTYPE(td_any(as(td_tensor1(cx, 0, 2), TD_U8)), TD_U8);
    CHECK_VALUES(td_any(as(td_tensor1(cx, 0, 2), TD_U8)), 1);
    td_close(cx);
}

TEST(all_of_nothing_is_true_and_any_is_false) {
    td_ctx    *cx = td_open();
    td_tensor *e = td_zeros(cx, TD_SHAPE(0));

    CHECK_VALUES(td_all(e), 1);
    CHECK_VALUES(td_any(e), 0);
    td_close(cx);
}

TEST(all_over_an_empty_list_of_dims_reduces_none) {
    td_ctx *cx = td_open();
    CHECK_VALUES(td_all(td_tensor1(cx, 0, 2), TD_DIMS()), 0, 1);
    td_close(cx);
}

TEST(a_nan_wins_in_max_and_min_and_its_first_place_is_given) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1, (double)NAN, 3, (double)NAN), *at;

    CHECK_VALUES(td_max(x), (double)NAN);
    CHECK_VALUES(td_amin(x), (double)NAN);
    td_min_dim(x, 0, false, &at);
    CHECK_VALUES(at, 1);
    CHECK_VALUES(td_argmax(x), 1);
    td_close(cx);
}

TEST(argmax_gives_the_first_of_equal_elements) {
    td_ctx    *cx = td_open();
    td_tensor *x = as(td_tensor1(cx, 2, 5, 5, 1, 5), TD_I32), *at;

    CHECK_VALUES(td_argmax(x), 1);
    CHECK_VALUES(td_argmin(as(td_tensor1(cx, 3, 0, 0), TD_U8)), 1);
    CHECK_VALUES(td_max_dim(x, 0, false, &at), 5);
    CHECK_VALUES(at, 1);
    td_close(cx);
}

TEST(argmax_of_all_counts_in_row_major_order) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_t(count(cx, TD_SHAPE(2, 3)));

    CHECK_VALUES(td_argmax(x), 5);
    CHECK_VALUES(td_argmax(td_neg(x)), 0);
    CHECK_VALUES(td_argmax(td_select(x, 1, 1)), 2);
    td_close(cx);
}

TEST(extremes_of_i64_are_exact_to_the_last_bit) {
    td_ctx       *cx = td_open();
    const int64_t big[3] = {INT64_MAX - 1, INT64_MAX, INT64_MIN};
    td_tensor    *x = td_from(cx, TD_I64, TD_SHAPE(3), big), *at;

    CHECK(td_item_int(td_max(x)) == INT64_MAX);
    CHECK(td_item_int(td_min_dim(x, 0, false, &at)) == INT64_MIN);
    CHECK_VALUES(at, 2);
    td_close(cx);
}

TEST(an_extreme_of_no_elements_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *e = td_zeros(cx, TD_SHAPE(0, 3)), *at;

    td_max(e);
    CHECK_FAILS(cx, TD_E_INDEX, "max: self must have elements, got f32[0,3]");
    td_amax(e, TD_DIMS(0));
    CHECK_FAILS(cx, TD_E_INDEX, "amax: reduced dim 0 has size 0");
    td_argmin(e);
    CHECK_FAILS(cx, TD_E_INDEX, "argmin: self must have elements");
    CHECK_SHAPE(td_max_dim(e, 1, false, &at), 0);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(argmax_refuses_bool) {
    td_ctx *cx = td_open();
    td_argmax(as(td_tensor1(cx, 0, 1), TD_BOOL));
    CHECK_FAILS(cx, TD_E_DTYPE, "argmax: is not defined on bool");
    td_close(cx);
}

/* ---- moments and norms ------------------------------------------------- */

TEST(var_divides_by_n_less_the_correction) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1, 2, 4), *mean;

    CHECK_VALUES(td_var(x), 7.0 / 3);
    CHECK_VALUES(td_var(x, TD_ALL, td_value_int(0)), 14.0 / 9);
    CHECK_VALUES(td_std(x), sqrt(7.0 / 3));
    CHECK_VALUES(td_var_mean(x, TD_DIMS(0), td_value_int(0), true, &mean), 14.0 / 9);
    CHECK_VALUES(mean, 7.0 / 3);
    td_close(cx);
}

TEST(var_of_one_element_is_nan) {
    td_ctx *cx = td_open();
    CHECK_VALUES(td_var(td_tensor1(cx, 5)), (double)NAN);
    td_close(cx);
}

TEST(var_is_accurate_far_from_zero) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 10000, 10001, 10002);

    CHECK_VALUES(td_var(x), 1);
    td_close(cx);
}

TEST(norm_knows_every_order) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 3, -4, 0);
    td_value   inf = td_value_float((double)INFINITY);

    CHECK_VALUES(td_norm(x), 5);
    CHECK_VALUES(td_norm(x, td_value_int(1)), 7);
    CHECK_VALUES(td_norm(x, td_value_int(0)), 2);
    CHECK_VALUES(td_norm(x, inf), 4);
    CHECK_VALUES(td_norm(x, td_value_float(-(double)INFINITY)), 0);
    CHECK_VALUES(td_norm(x, td_value_int(3)), cbrt(27 + 64));
    td_close(cx);
}

TEST(an_inf_norm_of_no_elements_is_refused_and_a_2_norm_is_zero) {
    td_ctx    *cx = td_open();
    td_tensor *e = td_zeros(cx, TD_SHAPE(0));

    CHECK_VALUES(td_norm(e), 0);
    td_norm(e, td_value_float((double)INFINITY));
    CHECK_FAILS(cx, TD_E_INDEX, "norm: reduced dim 0 has size 0");
    td_close(cx);
}

TEST(logsumexp_neither_overflows_nor_loses_infinities) {
    td_ctx *cx = td_open();
    double  inf = (double)INFINITY;

    CHECK_VALUES(td_logsumexp(td_tensor1(cx, 1000, 1000), TD_DIMS(0)), 1000 + log(2));
    CHECK_VALUES(td_logsumexp(td_tensor1(cx, -inf, -inf), TD_DIMS(0)), -inf);
    CHECK_VALUES(td_logsumexp(td_tensor1(cx, inf, 0), TD_DIMS(0)), inf);
    td_close(cx);
}

/* ---- scans ------------------------------------------------------------- */

TEST(cumsum_runs_along_any_dim_and_widens_integers) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(2, 3));

    CHECK_VALUES(td_cumsum(x, 0), 0, 1, 2, 3, 5, 7);
    CHECK_VALUES(td_cumsum(td_t(x), 1), 0, 3, 1, 5, 2, 7);
    CHECK_DTYPE(td_cumsum(as(x, TD_BOOL), 0), TD_I64);
    CHECK_VALUES(td_cumprod(td_tensor1(cx, 2, 3, 4), 0), 2, 6, 24);
    td_close(cx);
}

TEST(cumsum_can_be_written_in_place) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1, 2, 3);

    td_cumsum_(x, 0);

    CHECK_VALUES(x, 1, 3, 6);
    td_close(cx);
}

TEST(cummax_gives_the_last_of_equal_places_and_keeps_a_nan) {
    td_ctx    *cx = td_open();
    td_tensor *at, *v = td_cummax(td_tensor1(cx, 1, 1, 0, (double)NAN, 5), 0, &at);

    CHECK_VALUES(v, 1, 1, 1, (double)NAN, (double)NAN);
    CHECK_VALUES(at, 0, 1, 1, 3, 3);
    td_close(cx);
}

TEST(diff_takes_differences_n_times) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1, 4, 9, 16);

    CHECK_VALUES(td_diff(x), 3, 5, 7);
    CHECK_VALUES(td_diff(x, 2), 2, 2);
    CHECK_SHAPE(td_diff(x, 5), 0);
    td_close(cx);
}

/* ---- sorting ----------------------------------------------------------- */

TEST(sort_puts_nan_last_and_first_when_descending) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 2, (double)NAN, -1), *at;

    CHECK_VALUES(td_sort(x, 0, false, false, &at), -1, 2, (double)NAN);
    CHECK_VALUES(at, 2, 0, 1);
    CHECK_VALUES(td_sort(x, 0, true, false, &at), (double)NAN, 2, -1);
    CHECK_VALUES(td_argsort(x), 2, 0, 1);
    td_close(cx);
}

TEST(sort_keeps_the_order_of_equal_elements_in_short_and_long_lines) {
    td_ctx *cx = td_open();
    for (int64_t n = 8; n <= 8000; n *= 10) {
        td_tensor *x = td_remainder(td_arange(cx, 0, n, 1, TD_F32), 3), *at;
        td_sort(x, 0, false, true, &at);
        td_tensor *same = td_eq(td_diff(td_op_gather(x, 0, at)), 0);
        td_tensor *up = td_gt(td_diff(at), 0);
        CHECK_VALUES(td_all(td_logical_or(td_logical_not(same), up)), 1);
    }
    td_close(cx);
}

TEST(sort_keeps_the_layout_of_its_input) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_t(count(cx, TD_SHAPE(2, 3))), *at;
    td_tensor *v = td_sort(x, 0, true, false, &at);

    CHECK_VALUES(v, 2, 5, 1, 4, 0, 3);
    CHECK(td_stride(v, 0) == 1 && td_stride(v, 1) == 3);
    CHECK(td_stride(at, 0) == 1 && td_stride(at, 1) == 3);
    td_close(cx);
}

TEST(topk_takes_the_greatest_or_least_in_order) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 3, 9, 1, 7), *at;

    CHECK_VALUES(td_topk(x, 2, 0, true, true, &at), 9, 7);
    CHECK_VALUES(at, 1, 3);
    CHECK_VALUES(td_topk(x, 3, 0, false, true, &at), 1, 3, 7);
    td_topk(x, 5, 0, true, true, &at);
    CHECK_FAILS(cx, TD_E_INDEX, "topk: k = 5 is out of range for dim 0 of f32[4]");
    td_close(cx);
}

TEST(median_is_the_lower_one_and_nan_where_there_is_one) {
    td_ctx    *cx = td_open();
    td_tensor *at, *x = td_tensor1(cx, 4, 1, 3, 2);

    CHECK_VALUES(td_median(x), 2);
    CHECK_VALUES(td_median_dim(x, 0, false, &at), 2);
    CHECK_VALUES(at, 3);
    CHECK_VALUES(td_median(td_tensor1(cx, 1, (double)NAN, 3)), (double)NAN);
    CHECK_VALUES(td_kthvalue(x, 3, 0, false, &at), 3);
    td_close(cx);
}

/* ---- fast paths against plain loops ------------------------------------ */

/* Every way a tensor of these sizes may lie in memory. */
static td_tensor *laid_out(td_tensor *x, int how) {
    switch (how) {
    case 0: return x;
    case 1:
        return td_permute(td_contiguous(td_permute(x, TD_DIMS(2, 1, 0))),
                          TD_DIMS(2, 1, 0));
    case 2:
        return td_permute(td_contiguous(td_permute(x, TD_DIMS(1, 2, 0))),
                          TD_DIMS(2, 0, 1));
    case 3: return td_slice(td_cat(TD_LIST(x, x), 2), 2, td_value_int(1), TD_NONE, 2);
    default: return td_expand(td_narrow(x, 1, 0, 1), td_sizes(x));
    }
}

static void compare(td_tensor *t, td_red op, unsigned dims) {
    td_reduction r;
    bool         mask[3];
    td__reduce_init(&r, t, td_dtype_of(t) == TD_F64 ? TD_F64 : TD_F32);
    for (int i = 0; i < 3; i++) mask[i] = dims >> i & 1;
    td__walk_make(&r.w, t, mask, false);
    r.op = op;
    r.map = op == TD_RED_PROD ? TD_MAP_NONE : TD_MAP_SQUARE;
    r.out = TD_F64;
    double *want = malloc(sizeof(double) * (size_t)(r.w.outs + 1));
    double *got = malloc(sizeof(double) * (size_t)(r.w.outs + 1));
    td__naive_reduce(&r, want);
    r.dst = (char *)got;
    CHECK(td__reduce_run(td_ctx_of(t), &r));
    for (int64_t p = 0; p < r.w.outs; p++)
        CHECK_NEAR(got[td__walk_out(&r.w, p)], want[p], 1e-4 * (1 + fabs(want[p])));
    free(want);
    free(got);
}

static void compare_all(td_tensor *x) {
    for (unsigned dims = 0; dims < 8; dims++)
        for (int op = 0; op < TD_REDS; op++) compare(x, (td_red)op, dims);
}

TEST(every_layout_reduces_as_plain_loops_do) {
    td_ctx       *cx = td_open();
    const td_ints sizes[] = {TD_SHAPE(3, 70, 5), TD_SHAPE(130, 2, 33),
                             TD_SHAPE(2, 3, 1100)};
    td_seed(cx, 1);
    for (int s = 0; s < 3; s++)
        for (int how = 0; how < 5; how++)
            for (int dt = TD_F64; dt <= TD_BF16; dt++)
                compare_all(laid_out(as(td_randn(cx, sizes[s]), (td_dtype)dt), how));
    CHECK_OK(cx);
    td_close(cx);
}

/* The bytes of a reduction on 1, 2 and 5 threads. */
static void same_on_any_pool(td_tensor *(*f)(td_tensor *), td_tensor *x) {
    int        before = td_threads();
    td_tensor *one;
    td_set_threads(1);
    one = f(x);
    for (int n = 2; n <= 5; n += 3) {
        td_set_threads(n);
        td_tensor *many = f(x);
        CHECK(td_numel(one) == td_numel(many));
        CHECK(!memcmp(td_data(one), td_data(many),
                      sizeof(float) * (size_t)td_numel(one)));
    }
    td_set_threads(before);
}

static td_tensor *sum_all(td_tensor *x) { return td_sum(x); }
static td_tensor *sum_rows(td_tensor *x) { return td_sum(x, TD_DIMS(1)); }
static td_tensor *sum_columns(td_tensor *x) { return td_sum(x, TD_DIMS(0)); }
static td_tensor *std_columns(td_tensor *x) { return td_std(x, TD_DIMS(0)); }
static td_tensor *norm_all(td_tensor *x) { return td_norm(x); }

TEST(no_bit_depends_on_the_number_of_threads) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(1500, 700));
    td_tensor *y = td_contiguous(td_t(x));

    same_on_any_pool(sum_all, x);
    same_on_any_pool(sum_rows, x);
    same_on_any_pool(sum_columns, x);
    same_on_any_pool(sum_columns, td_view(y, TD_SHAPE(150000, 7)));
    same_on_any_pool(std_columns, y);
    same_on_any_pool(norm_all, td_t(x));
    td_close(cx);
}

/* ---- derivatives ------------------------------------------------------- */

static td_tensor *leaf(td_ctx *cx, td_ints size, const double *v) {
    return td_set_requires_grad(td_from(cx, TD_F64, size, v), true);
}

typedef td_tensor *unary(td_tensor *x);

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)n_in, (void)n_out;
    unary *const *f = env;
    out[0] = (*f)(in[0]);
    return !td_is_nil(out[0]);
}

#define CHECK_GRADS(cx, f, x)                                                      \
    do {                                                                           \
        unary     *f_ = f;                                                         \
        td_tensor *x_ = x;                                                         \
        CHECK(td_gradcheck((cx), region, &f_, (td_tensors){&x_, 1}, 1, NULL));     \
        CHECK(td_gradgradcheck((cx), region, &f_, (td_tensors){&x_, 1}, 1, NULL)); \
    } while (0)

static td_tensor *prod_all(td_tensor *x) { return td_prod(x); }
static td_tensor *prod_last(td_tensor *x) { return td_prod_dim(x, 1); }
static td_tensor *cumprod_last(td_tensor *x) { return td_cumprod(x, 1); }
static td_tensor *cumsum_first(td_tensor *x) { return td_cumsum(x, 0); }
static td_tensor *std_last(td_tensor *x) { return td_std(x, TD_DIMS(1)); }
static td_tensor *norm3(td_tensor *x) {
    return td_norm(x, td_value_int(3), TD_DIMS(0));
}
static td_tensor *lse(td_tensor *x) { return td_logsumexp(x, TD_DIMS(1)); }
static td_tensor *largest(td_tensor *x) {
    td_tensor *at;
    return td_topk(x, 2, 1, true, true, &at);
}

TEST(products_have_derivatives_of_two_orders_at_zeros) {
    td_ctx      *cx = td_open();
    const double v[6] = {1.5, 0, -2, 0, 0, 0.5};
    td_tensor   *x = leaf(cx, TD_SHAPE(2, 3), v);

    CHECK_GRADS(cx, prod_all, x);
    CHECK_GRADS(cx, prod_last, x);
    CHECK_GRADS(cx, cumprod_last, x);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(other_reductions_have_derivatives_of_two_orders) {
    td_ctx      *cx = td_open();
    const double v[6] = {1.5, 0.3, -2, 0.7, -1.1, 0.5};
    td_tensor   *x = leaf(cx, TD_SHAPE(2, 3), v);

    CHECK_GRADS(cx, cumsum_first, x);
    CHECK_GRADS(cx, std_last, x);
    CHECK_GRADS(cx, norm3, x);
    CHECK_GRADS(cx, lse, x);
    CHECK_GRADS(cx, largest, x);
    CHECK_OK(cx);
    td_close(cx);
}

static td_tensor *gradient(td_tensor *y, td_tensor *x) {
    td_tensor *g = NULL;
    td_grad((td_tensors){&y, 1}, (td_tensors){&x, 1}, &g, NULL);
    return g;
}

TEST(equal_extremes_share_the_gradient) {
    td_ctx      *cx = td_open();
    const double v[4] = {1, 7, 7, 7};
    td_tensor   *x = leaf(cx, TD_SHAPE(4), v);

    CHECK_VALUES(gradient(td_amax(x), x), 0, 1 / 3.0, 1 / 3.0, 1 / 3.0);
    CHECK_VALUES(gradient(td_max(x), x), 0, 1 / 3.0, 1 / 3.0, 1 / 3.0);
    td_close(cx);
}

TEST(a_selected_maximum_takes_the_whole_gradient) {
    td_ctx      *cx = td_open();
    const double v[4] = {1, 7, 7, 2};
    td_tensor   *x = leaf(cx, TD_SHAPE(4), v), *at;

    CHECK_VALUES(gradient(td_max_dim(x, 0, false, &at), x), 0, 1, 0, 0);
    td_close(cx);
}

TEST(norm_and_std_have_gradient_zero_at_zero) {
    td_ctx      *cx = td_open();
    const double v[3] = {0, 0, 0};
    td_tensor   *x = leaf(cx, TD_SHAPE(3), v);

    CHECK_VALUES(gradient(td_norm(x), x), 0, 0, 0);
    CHECK_VALUES(gradient(td_std(x), x), 0, 0, 0);
    td_close(cx);
}

/* PyTorch fails in f32, and counts elements of other bags in f64. */
TEST(offsets_of_bags_must_ascend) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_ones(cx, TD_SHAPE(3, 2));
    td_tensor *at = td_to(td_tensor1(cx, 0, 2, 1), TD_I64);
    td_tensor *down = td_to(td_tensor1(cx, 0, 2, 1), TD_I64);
    td_tensor *up = td_to(td_tensor1(cx, 0, 0, 3), TD_I64);

    CHECK(td_is_nil(td_embedding_bag(w, at, down, false, "sum")));
    CHECK(td_error(cx) == TD_E_ARG &&
          strstr(td_message(cx), "the length of a bag must be from 0 to inf"));
    td_clear(cx);
    CHECK_VALUES(td_embedding_bag(w, at, up, false, "sum"), 0, 0, 3, 3, 0, 0);
    td_close(cx);
}
