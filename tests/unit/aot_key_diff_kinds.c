/* aot_key_diff_kinds.c -- each property of a key has a message: why a call was
 * recompiled, and the guards that td_explain prints. */
#include "aot_help.h"
#include "td_files.h"

/* The difference between two pairs of arguments, for a new function. */
static const char *why(td_ctx *cx, td_tensor *const first[2],
                       td_tensor *const next[2]) {
    td_fn      *f = td_aot_function(cx, product, NULL, NULL);
    const char *text =
        difference_of(f, TD_ARGS(first[0], first[1]), TD_ARGS(next[0], next[1]));
    td_fn_drop(f);
    return text;
}

#define DIFFERS(a, b, to, back)                                                 \
    do {                                                                        \
        CHECK_STR(why(cx, (td_tensor *[]){x, a}, (td_tensor *[]){x, b}), to);   \
        CHECK_STR(why(cx, (td_tensor *[]){x, b}, (td_tensor *[]){x, a}), back); \
    } while (0)

TEST(flags_of_views_and_of_inference_are_named_both_ways) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_tensor *plain = td_ones(cx, TD_SHAPE(2));

    td_grad_mode was = td_inference_begin(cx, true);
    td_tensor   *inferred = td_ones(cx, TD_SHAPE(2));
    td_inference_end(cx, was);
    td_tensor *z = td_zeros(cx, TD_SHAPE(2)); /* without gradients: it is not saved */
    CHECK_STR(why(cx, (td_tensor *[]){z, plain}, (td_tensor *[]){z, inferred}),
              "argument 1 is an inference tensor now");
    CHECK_STR(why(cx, (td_tensor *[]){z, inferred}, (td_tensor *[]){z, plain}),
              "argument 1 is no longer an inference tensor");

    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_tensor *v = td_mul(w, 1.0), *of = td_view(td_mul(w, 1.0), TD_SHAPE(2));
    DIFFERS(v, of, "argument 1 is a view now", "argument 1 is no longer a view");

    was = td_no_grad_begin(cx);
    td_tensor *silent = td_view(w, TD_SHAPE(2));
    td_no_grad_end(cx, was);
    td_tensor *loud = td_view(td_requires_grad_(td_ones(cx, TD_SHAPE(2))), TD_SHAPE(2));
    CHECK_STR(why(cx, (td_tensor *[]){x, silent}, (td_tensor *[]){x, loud}),
              "argument 1 is no longer a leaf");
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_view_of_an_older_state_or_of_a_base_elsewhere_is_named) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_tensor *a = td_mul(td_requires_grad_(td_ones(cx, TD_SHAPE(2))), 1.0);
    td_tensor *b = td_mul(td_requires_grad_(td_ones(cx, TD_SHAPE(2))), 1.0);
    td_tensor *fresh = td_view(a, TD_SHAPE(2)), *old = td_view(b, TD_SHAPE(2));
    td_mul_(b, 2.0);
    CHECK_STR(why(cx, (td_tensor *[]){x, fresh}, (td_tensor *[]){x, old}),
              "argument 1 is a stale view now (its base was written)");
    CHECK_OK(cx);
    td_close(cx);
}

TEST(modes_are_named_both_ways) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 2)), *out[1];
    td_fn     *f = td_aot_function(cx, product, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, x), out, 1));

    td_grad_mode was = td_inference_begin(cx, true);
    heard[0] = 0;
    CHECK(td_invoke(f, TD_ARGS(x, x), out, 1));
    td_inference_end(cx, was);
    CHECK(strstr(heard, "not #0: grad mode off"));

    td_autocast_mode before = td_autocast_begin(cx, TD_BF16);
    heard[0] = 0;
    CHECK(td_invoke(f, TD_ARGS(x, x), out, 1));
    td_autocast_end(cx, before);
    CHECK(strstr(heard, "autocast bf16, was off"));

    cx->default_dtype = TD_F64;
    heard[0] = 0;
    CHECK(td_invoke(f, TD_ARGS(x, x), out, 1));
    cx->default_dtype = TD_F32;
    CHECK(strstr(heard, "default dtype f64, was f32"));

    static char text[1 << 14];
    td_explain(f, text, sizeof text);
    CHECK(strstr(text, "grad mode off, inference mode, default dtype f32"));
    CHECK(strstr(text, "autocast bf16"));
    CHECK(strstr(text, "default dtype f64"));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* no_grad first, so that inference mode is what differs. */
TEST(inference_mode_and_no_grad_have_their_own_specializations) {
    td_ctx      *cx = open_hearing("guards");
    td_tensor   *x = td_ones(cx, TD_SHAPE(2)), *out[1];
    td_fn       *f = td_aot_function(cx, product, NULL, NULL);
    td_grad_mode was = td_no_grad_begin(cx);
    CHECK(td_invoke(f, TD_ARGS(x, x), out, 1));
    td_no_grad_end(cx, was);
    was = td_inference_begin(cx, true);
    heard[0] = 0;
    CHECK(td_invoke(f, TD_ARGS(x, x), out, 1));
    td_inference_end(cx, was);
    CHECK(strstr(heard, "not #0: inference mode on"));
    td_fn_drop(f);
    td_close(cx);
}

/* Whatever the second argument is, it counts for the key. */
static bool whatever(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_arg_absent(c, 1) ? td_neg(x) : td_exp(x));
}

TEST(kinds_and_numbers_are_named) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *out[1];
    struct {
        td_value    first, next;
        const char *words;
    } all[] = {
        {td_value_int(2), td_value_int(3), "argument 1 is 3, was 2"},
        {td_value_bool(true), td_value_bool(false), "argument 1 is false, was true"},
        {td_value_bool(false), td_value_bool(true), "argument 1 is true, was false"},
        {td_value_int(2), td_value_float(2), "argument 1 is a float, was an int"},
        {td_value_float(2), td_value_bool(true), "argument 1 is a bool, was a float"},
        {td_value_none(), td_value_int(1), "argument 1 is an int, was absent"},
        {td_value_tensor(x), td_value_none(), "argument 1 is absent, was a tensor"},
        {td_value_none(), td_value_tensor(x), "argument 1 is a tensor, was absent"}};
    for (int i = 0; i < TD_COUNT(all); i++) {
        td_fn   *f = td_aot_function(cx, whatever, NULL, NULL);
        td_value a[] = {td_value_tensor(x), all[i].first};
        td_value b[] = {td_value_tensor(x), all[i].next};
        CHECK(td_invoke(f, (td_values){a, 2}, out, 1));
        heard[0] = 0;
        CHECK(td_invoke(f, (td_values){b, 2}, out, 1));
        TD_CHECK_THAT(strstr(heard, all[i].words), "%s\nhas no %s", heard,
                      all[i].words);
        td_fn_drop(f);
    }
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- tensors that a body closes over ------------------------------------- */

static bool with_env(td_call *c) {
    td_tensor **w = td_call_env(c);
    return td_return(c, td_mul(td_arg(c, 0), td_add(w[0], w[1])));
}

TEST(closed_over_tensors_and_bases_have_names) {
    td_ctx     *cx = open_hearing("guards");
    static char text[1 << 14];
    td_tensor  *x = td_ones(cx, TD_SHAPE(2)), *out[1];
    td_tensor  *b = td_requires_grad_(td_ones(cx, TD_SHAPE(4)));
    td_tensor  *both = td_mul(b, 1.0);
    td_tensor  *w[2] = {td_slice(both, 0, 0, 2), td_slice(both, 0, 2, 4)};
    td_fn      *f = td_aot_function(cx, with_env, w, NULL);
    CHECK(td_invoke(f, TD_ARGS(x), out, 1));
    td_explain(f, text, sizeof text);
    TD_CHECK_THAT(strstr(text, "closed-over tensor 1: f32[2]+2") &&
                      strstr(text, "shares storage with closed-over tensor 0") &&
                      strstr(text, "the base of a view: f32[4]"),
                  "%s", text);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(bytes_no_longer_shared_are_named_and_where_a_view_begins) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *b = td_ones(cx, TD_SHAPE(6)), *c = td_ones(cx, TD_SHAPE(2));
    td_tensor *p = td_slice(b, 0, 0, 2), *q = td_slice(b, 0, 2, 4);
    td_tensor *r = td_slice(b, 0, 4, 6);
    CHECK_STR(why(cx, (td_tensor *[]){p, q}, (td_tensor *[]){p, c}),
              "argument 0 and argument 1 no longer share storage");
    CHECK_STR(why(cx, (td_tensor *[]){p, q}, (td_tensor *[]){p, r}),
              "argument 1 begins at element 4 of its storage, was 2");
    CHECK_OK(cx);
    td_close(cx);
}

/* A mapped file is read-only. */
TEST(a_read_only_tensor_is_named) {
    td_ctx     *cx = open_hearing("guards");
    const char *name = "w";
    static char text[1 << 14];
    td_tensor  *x = td_ones(cx, TD_SHAPE(2)), *w = td_ones(cx, TD_SHAPE(2)), *out[1];
    files_begin();
    CHECK(
        td_safetensors_save(cx, files_path("w.safetensors"), &name, TD_LIST(w), NULL));
    td_safetensors *file = td_safetensors_open(cx, files_path("w.safetensors"));
    td_tensor      *r = td_safetensors_get(file, "w");
    CHECK_OK(cx);
    CHECK_STR(why(cx, (td_tensor *[]){x, w}, (td_tensor *[]){x, r}),
              "argument 1 is read-only now");
    CHECK_STR(why(cx, (td_tensor *[]){x, r}, (td_tensor *[]){x, w}),
              "argument 1 is no longer read-only");
    td_fn *f = td_aot_function(cx, product, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, r), out, 1));
    td_explain(f, text, sizeof text);
    CHECK(strstr(text, "argument 1: f32[2], read-only"));
    td_fn_drop(f);
    td_safetensors_close(file);
    files_end();
    td_close(cx);
}

/* ---- gradients that a body reads ------------------------------------------ */

static bool reads_grad(td_call *c) {
    td_tensor **w = td_call_env(c), *g = td_grad_of(w[0]);
    td_tensor  *x = td_arg(c, 0);
    return td_return(c, td_is_nil(g) ? td_neg(x) : td_mul(x, g));
}

TEST(a_gradient_that_appeared_or_disappeared_is_named) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *out[1];
    td_tensor *w[1] = {td_requires_grad_(td_ones(cx, TD_SHAPE(2)))};
    td_fn     *f = td_aot_function(cx, reads_grad, w, NULL);
    CHECK(td_invoke(f, TD_ARGS(x), out, 1));
    CHECK(td_item(td_sum(out[0])) == -2);
    CHECK(td_backward(td_sum(td_mul(w[0], 3.0))));
    heard[0] = 0;
    CHECK(td_invoke(f, TD_ARGS(x), out, 1));
    CHECK(td_item(td_sum(out[0])) == 6);
    TD_CHECK_THAT(strstr(heard, "the gradient of closed-over tensor 0 is there now"),
                  "%s", heard);
    td_fn_drop(f);

    f = td_aot_function(cx, reads_grad, w, NULL);
    CHECK(td_invoke(f, TD_ARGS(x), out, 1));
    td_zero_grad(w[0]);
    heard[0] = 0;
    CHECK(td_invoke(f, TD_ARGS(x), out, 1));
    CHECK(td_item(td_sum(out[0])) == -2);
    TD_CHECK_THAT(strstr(heard, "the gradient of closed-over tensor 0 is gone now"),
                  "%s", heard);
    td_fn_drop(f);
    CHECK_OK(cx);
    td_close(cx);
}
