/* export_c.c -- td_export_c: what the files say, and what is refused. That the files
 * compile and compute is tested by programs/emit_c.c. */
#include "export_help.h"

#include "td_files.h"

/* Does the file have the text? */
static bool has(const char *name, const char *text) {
    static char all[1 << 18];
    all[files_read(name, all, sizeof all - 1)] = 0;
    return strstr(all, text) != NULL;
}

static bool square(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_arg(c, 0)));
}

static bool counts(td_call *c) {
    td_tensor   *w = td_arg(c, 0);
    td_grad_mode was = td_no_grad_begin(td_call_ctx(c));
    td_sub_(w, td_mul(td_arg(c, 1), 0.5));
    td_no_grad_end(td_call_ctx(c), was);
    return td_return(c, td_sum(w));
}

static bool sorts(td_call *c) {
    td_tensor *places, *y = td_sort(td_arg(c, 0), -1, false, false, &places);
    return td_return(c, y);
}

TEST(a_function_becomes_a_header_a_source_weights_a_main_and_a_makefile) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3));
    td_fn     *f = td_aot_function(cx, square, NULL, NULL);
    files_begin();
    CHECK(td_export_c(f, TD_ARGS(x), files_dir, NULL));
    CHECK_OK(cx);
    CHECK(has("model.h",
              "int model_forward(model *m, const float *arg_0, float *result_0);"));
    CHECK(has("model.h", "f32[2,3], 6 elements, read"));
    CHECK(has("model.c", "#include \"model.h\"") && has("main.c", "model_forward("));
    CHECK(has("Makefile", "example: main.c model.c weights.c model.h"));
    CHECK(td_fn_specializations(f) == 0); /* the function itself is as it was */
    td_tensor *y;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_item(td_sum(y)) == 6);
    files_end();
    td_fn_drop(f);
    td_close(cx);
}

TEST(parameters_are_state_and_a_function_that_writes_them_is_a_step) {
    const char *const names[] = {"fc.weight"};
    td_aot_opts       a = {TD_AOT_OPTS, .n_params = 1, .state_names = names};
    td_export_c_opts  o = {TD_EXPORT_C_OPTS, .name = "net",
                           .weights = TD_C_WEIGHTS_FILE};
    td_ctx           *cx = td_open();
    td_tensor        *w = td_requires_grad_(td_ones(cx, TD_SHAPE(4)));
    td_tensor        *x = td_ones(cx, TD_SHAPE(4));
    td_fn            *f = td_aot_function(cx, counts, NULL, &a);
    files_begin();
    CHECK(td_export_c(f, TD_ARGS(w, x), files_dir, &o));
    CHECK_OK(cx);
    CHECK(has("model.h", "int net_step(net *m, const float *arg_0, float *result_0);"));
    CHECK(has("model.h", "net_at_fc_weight = 0, /* f32[4]"));
    CHECK(has("model.h", "net_state_bytes = 64"));
    CHECK(has("model.h", "void net_init(net *m, const void *weights);"));
    CHECK(has("main.c", "mmap("));
    CHECK(td_item(td_sum(w)) == 4); /* the export runs nothing */
    files_end();
    td_fn_drop(f);
    td_close(cx);
}

TEST(gradients_are_results_after_the_loss) {
    td_export_c_opts o = {TD_EXPORT_C_OPTS, .what = TD_EXPORT_LOSS};
    td_ctx          *cx = td_open();
    td_tensor       *x = td_requires_grad_(td_ones(cx, TD_SHAPE()));
    td_fn           *f = td_aot_function(cx, square, NULL, NULL);
    files_begin();
    CHECK(td_export_c(f, TD_ARGS(x), files_dir, &o));
    CHECK_OK(cx);
    CHECK(has("model.h", "int model_forward_backward(model *m, const float *arg_0, "
                         "float *loss, float *grad_arg_0);"));
    files_end();
    td_fn_drop(f);
    td_close(cx);
}

TEST(ops_without_a_c_function_and_wrong_options_are_refused_by_name) {
    td_export_c_opts bad = {TD_EXPORT_C_OPTS, .name = "9 lives"};
    td_ctx          *cx = td_open();
    td_tensor       *x = td_ones(cx, TD_SHAPE(3));
    td_fn           *f = td_aot_function(cx, sorts, NULL, NULL);
    CHECK(!td_export_c(f, TD_ARGS(x), "/tmp/td-export-c-none", NULL));
    CHECK(td_error(cx) == TD_E_UNSUPPORTED);
    CHECK(strstr(td_message(cx), "sort with result f32[3] has no C function"));
    td_clear(cx);
    CHECK(!td_export_c(f, TD_ARGS(x), "/tmp/td-export-c-none", &bad));
    CHECK(td_error(cx) == TD_E_ARG);
    CHECK(strstr(td_message(cx), "must be an identifier"));
    td_clear(cx);
    td_fn_drop(f);
    f = td_aot_function(cx, square, NULL, NULL);
    CHECK(!td_export_c(f, TD_ARGS(x), "/tmp/no/such/folder", NULL));
    CHECK(td_error(cx) == TD_E_IO);
    CHECK(strstr(td_message(cx), "cannot make /tmp/no/such/folder"));
    td_clear(cx);
    CHECK(!td_export_c(f, TD_ARGS(x), NULL, NULL));
    td_clear(cx);
    CHECK(!td_export_c(NULL, TD_ARGS(x), "/tmp/x", NULL));
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}
