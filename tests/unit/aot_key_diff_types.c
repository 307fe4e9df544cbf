/* aot_key_diff_types.c -- calls that differ in the type of a tensor, its metadata, its
 * inner tensors, or in an object: the log names the difference. */
#include "aot_help.h"
#include "type_samples.h"

static bool doubled(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 2.0)); }

/* The difference between two arguments, for a new function. */
static const char *why(td_ctx *cx, td_tensor *a, td_tensor *b) {
    td_fn      *f = td_aot_function(cx, doubled, NULL, NULL);
    const char *text = difference_of(f, TD_ARGS(a), TD_ARGS(b));
    td_fn_drop(f);
    return text;
}

static td_tensor *ones(td_ctx *cx) { return td_ones(cx, TD_SHAPE(2, 2)); }

TEST(types_metadata_and_inner_tensors_that_differ_are_named) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *plain = ones(cx), *pair = make_pair(ones(cx), ones(cx), "m");
    td_tensor *transposed = td_transpose(ones(cx), 0, 1);
    td_tensor *one = ones(cx);
    CHECK_STR(why(cx, pair, make_pair(ones(cx), ones(cx), "m")), "it fits");
    CHECK_STR(why(cx, plain, pair), "argument 0 is of a type now");
    CHECK_STR(why(cx, pair, plain), "argument 0 is no longer of a type");
    CHECK_STR(why(cx, pair, make_pair(ones(cx), ones(cx), "other")),
              "argument 0 has other metadata");
    CHECK_STR(why(cx, pair, make_counted(ones(cx))), "argument 0 has another type");
    static const char inner[] =
        "argument 0 has inner tensors of other sizes, strides, types or aliases";
    CHECK_STR(why(cx, pair, make_pair(ones(cx), transposed, "m")), inner);
    CHECK_STR(why(cx, pair, make_pair(one, one, "m")), inner);
    CHECK_STR(why(cx, pair,
                  make_pair(ones(cx), make_pair(ones(cx), ones(cx), ""), "m")),
              inner);
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- leaves that were read ---------------------------------------------- */

/* Changes the sizes of its argument, which may be a leaf. */
static bool turns(td_call *c) {
    td_ctx      *cx = td_call_ctx(c);
    td_grad_mode was = td_no_grad_begin(cx);
    td_transpose_(td_arg(c, 0), 0, 1);
    td_no_grad_end(cx, was);
    return td_return(c, td_mul(td_arg(c, 0), 2.0));
}

/* A leaf of 2 x 3, which was 3 x 2 when an op read it, if one did. */
static td_tensor *leaf(td_ctx *cx, bool read) {
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 2)));
    if (read) td_mul(x, 2.0);
    td_grad_mode was = td_no_grad_begin(cx);
    td_transpose_(x, 0, 1);
    td_no_grad_end(cx, was);
    return x;
}

static const char *why_turned(td_ctx *cx, td_tensor *a, td_tensor *b) {
    td_fn      *f = td_aot_function(cx, turns, NULL, NULL);
    const char *text = difference_of(f, TD_ARGS(a), TD_ARGS(b));
    td_fn_drop(f);
    return text;
}

TEST(a_leaf_that_an_op_has_read_is_named) {
    td_ctx *cx = open_hearing("guards");
    CHECK_STR(why_turned(cx, leaf(cx, false), leaf(cx, true)),
              "argument 0 is a leaf that an op has read now");
    CHECK_STR(why_turned(cx, leaf(cx, true), leaf(cx, false)),
              "argument 0 is no longer a leaf that an op has read");
    CHECK_STR(why_turned(cx, leaf(cx, true), leaf(cx, true)), "it fits");
    CHECK_OK(cx);
    td_close(cx);
}
