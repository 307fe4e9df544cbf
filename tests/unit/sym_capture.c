/* sym_capture.c -- programs with dynamic sizes: one capture, many sizes. */
#include "sym_help.h"

/* ---- arguments ---------------------------------------------------------- */

/* x[4+k, 3], w[5, 3], b[5] */
static void layer(td_ctx *cx, world *w, nature n) {
    GIVE(w, drawn(cx, w, n, TD_SHAPE(4 + grown, 3)));
    GIVE(w, drawn(cx, w, n, TD_SHAPE(5, 3)));
    GIVE(w, drawn(cx, w, n, TD_SHAPE(5)));
}

/* Two matrices of one size, both dims of which change. */
static void pair(td_ctx *cx, world *w, nature n) {
    GIVE(w, drawn(cx, w, n, TD_SHAPE(3 + grown, 4 + 2 * grown)));
    GIVE(w, drawn(cx, w, n, TD_SHAPE(3 + grown, 4 + 2 * grown)));
}

static void images(td_ctx *cx, world *w, nature n) {
    GIVE(w, drawn(cx, w, n, TD_SHAPE(2 + grown, 3, 7 + grown, 6 + 2 * grown)));
    GIVE(w, drawn(cx, w, n, TD_SHAPE(4, 3, 3, 3)));
}

/* ---- bodies ------------------------------------------------------------- */

static bool mlp(td_call *c) {
    td_tensor *h = td_relu(td_linear(td_arg(c, 0), td_arg(c, 1), td_arg(c, 2)));
    return td_return(c, td_log_softmax(h, 1), td_mean(h), td_sum(h, TD_DIMS(0)));
}
TEST(a_network_serves_every_batch) { check_dynamic(mlp, layer); }

static bool products(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1);
    td_tensor *m = td_matmul(x, td_transpose(y, 0, 1));
    return td_return(c, m, td_softmax(m, 1), td_add(x, y));
}
TEST(products_serve_every_size) { check_dynamic(products, pair); }

static bool views(td_call *c) {
    td_tensor *x = td_arg(c, 0), *t = td_transpose(x, 0, 1);
    return td_return(c, t, td_select(x, 0, 1), td_slice(x, 0, 1, 3), td_unsqueeze(x, 1),
                     td_expand(td_unsqueeze(x, 0), TD_SHAPE(2, -1, -1)));
}
TEST(views_stay_views_at_every_size) { check_dynamic(views, pair); }

static bool joined(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1);
    return td_return(c, td_cat(TD_LIST(x, y), 0), td_stack(TD_LIST(x, y), 0));
}
TEST(joined_tensors_grow_with_their_parts) { check_dynamic(joined, pair); }

static bool reshaped(td_call *c) {
    td_tensor *x = td_arg(c, 0), *flat = td_reshape(x, TD_SHAPE(-1));
    return td_return(c, flat, td_view(flat, td_sym_sizes(x)),
                     td_reshape(td_transpose(x, 0, 1), TD_SHAPE(-1)),
                     td_reshape(x, TD_SHAPE(td_sym_size(x, 1), -1)),
                     td_flatten(td_unsqueeze(x, 0), 0, -1));
}
TEST(reshapes_follow_the_sizes) { check_dynamic(reshaped, pair); }

static bool writes(td_call *c) {
    td_tensor *x = td_mul(td_arg(c, 0), 2), *y = td_arg(c, 1);
    td_add_(td_select(x, 0, 1), 3);
    td_mul_(td_transpose(x, 0, 1), 2);
    td_copy_(td_slice(x, 1, 0, 2), td_slice(y, 1, 1, 3));
    return td_return(c, x, td_sum(x));
}
TEST(writes_through_views_serve_every_size) { check_dynamic(writes, pair); }

static bool reduces(td_call *c) {
    td_tensor *x = td_arg(c, 0), *i;
    td_tensor *v = td_max_dim(x, 1, false, &i);
    return td_return(c, v, i, td_mean(x), td_var(x), td_cumsum(x, 0), td_norm(x),
                     td_mean(x, TD_DIMS(0)));
}
TEST(reductions_serve_every_size) { check_dynamic(reduces, pair); }

static bool convolves(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_tensor *y = td_conv2d(x, w, NULL, TD_SHAPE(1, 1), TD_SHAPE(1, 1));
    return td_return(c, y, td_max_pool2d(y, TD_SHAPE(2, 2)));
}
TEST(convolutions_serve_every_size) { check_dynamic(convolves, images); }

static bool creates(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *x = td_arg(c, 0);
    td_tensor *z = td_zeros(cx, td_sym_sizes(x));
    td_add_(z, x);
    return td_return(c, z, td_ones_like(x), td_rand_like(x),
                     td_arange(cx, 0, td_sym_size(x, 0), 1),
                     td_full(cx, TD_SHAPE(td_sym_mul(td_sym_size(x, 0), 2)), 3.0));
}
TEST(fresh_tensors_follow_the_sizes) { check_dynamic(creates, pair); }

static bool indexes(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1);
    td_tensor *i = td_argsort(td_select(x, 1, 0), 0, false);
    return td_return(c, td_index_select(x, 0, i),
                     td_gather(y, 0, td_argsort(x, 0, false)),
                     td_where(td_gt(x, y), x, y), td_masked_fill(x, td_lt(x, 0), 0));
}
TEST(indexing_serves_every_size) { check_dynamic(indexes, pair); }

static bool splits(td_call *c) {
    td_tensor *x = td_arg(c, 0), *p[2];
    td_split_with_sizes(x, TD_SHAPE(2, td_sym_sub(td_sym_size(x, 0), 2)), 0, p, 2);
    return td_return(c, p[0], p[1], td_sum(p[1]));
}
TEST(pieces_of_symbolic_sizes) { check_dynamic(splits, pair); }

static bool returns_sizes(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_relu(x), td_sym_size(x, 0), td_sym_numel(x));
}
TEST(sizes_are_results_too) { check_dynamic(returns_sizes, pair); }

/* ---- handles that C code computes with ------------------------------------ */

static bool divides_by_a_handle(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_div(td_sum(x), (double)td_sym_size(x, 0)));
}

/* The op notices the handle, and the body is captured with numbers. */
TEST(a_symbolic_size_converted_to_a_float_is_noticed) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, divides_by_a_handle, NULL, NULL);
    td_tensor *y;
    for (int64_t n = 3; n < 7; n++) {
        td_tensor *x = td_ones(cx, TD_SHAPE(n));
        CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        CHECK(td_item(y) == 1);
    }
    CHECK(td_item(td_mul(td_ones(cx, TD_SHAPE()), -5e18)) == (float)-5e18);
    CHECK_OK(cx);
    td_close(cx);
}
