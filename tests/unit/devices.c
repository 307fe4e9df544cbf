/* devices.c -- tensors on a device, on the one for tests (tests/device/test_plugin.c):
 * host code that touches their bytes directly is stopped by the processor. */
#include "aot_help.h"
#include "tower_help.h"
#include "tandem/device.h"

#include <stdlib.h>

static const td_device cpu = {TD_CPU, 0}, dev = {TD_TEST, 0}, other = {TD_TEST, 1};

static bool is_on(const td_tensor *t, td_device d) {
    td_device is = td_device_of(t);
    return is.kind == d.kind && is.index == d.index;
}

static td_tensor *counted(td_ctx *cx, int64_t n) {
    return td_to_device(td_arange(cx, 0, n, 1, TD_F32), dev);
}

TEST(a_tensor_moves_to_a_device_and_back) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_arange(cx, 0, 6, 1, TD_F32), *d = td_to_device(x, dev);
    float      got[6] = {0};
    CHECK_OK(cx);
    CHECK(is_on(x, cpu) && is_on(d, dev) && d != x);
    CHECK(td_to_device(d, dev) == d && td_to_device(x, cpu) == x);
    CHECK(td_read(d, TD_F32, got, sizeof got) && got[5] == 5);
    CHECK(td_item(td_select(d, 0, 3)) == 3);
    CHECK(td_item_int(td_select(d, 0, 4)) == 4);
    CHECK(td_equal(td_to_device(d, cpu), x));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(ops_run_where_their_tensors_are) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_view(counted(cx, 6), TD_SHAPE(2, 3));
    td_tensor *b = td_matmul(td_relu(td_sub(a, 2.0)), td_t(a));
    td_tensor *c = td_softmax(b, 1);
    CHECK(is_on(b, dev) && is_on(c, dev));
    CHECK(td_item(td_sum(b)) == 8 + 26);
    CHECK(is_on(td_nonzero(a), dev) && td_size(td_nonzero(a), 0) == 5);
    CHECK(is_on(td_zeros_like(a), dev) && is_on(td_one_hot(td_to(a, TD_I64)), dev));
    CHECK(is_on(td_cat(TD_LIST(a, a), 0), dev));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(elements_on_a_device_have_no_host_address) {
    td_ctx    *cx = td_open();
    td_tensor *d = counted(cx, 4);
    CHECK(!td_data(d));
    CHECK(aot_says(cx, TD_E_ARG, "td_data: the tensor f32[4] is on test:0"));
    CHECK(td_device_data(d) && td_device_data(td_ones(cx, TD_SHAPE(2))));
    CHECK(!td_to_dlpack(d) && aot_says(cx, TD_E_ARG, "td_to_dlpack"));
    td_close(cx);
}

TEST(tensors_of_a_device_are_printed_with_it) {
    td_ctx *cx = td_open();
    char    text[200];
    td_format(counted(cx, 3), text, sizeof text);
    CHECK_STR(text, "tensor([0., 1., 2.], device='test:0')");
    td_close(cx);
}

TEST(arguments_on_two_devices_are_refused) {
    td_ctx    *cx = td_open();
    td_tensor *d = counted(cx, 3), *x = td_ones(cx, TD_SHAPE(3));
    CHECK(td_is_nil(td_add(d, x)));
    CHECK(aot_says(cx, TD_E_ARG,
                   "add: argument b is on cpu and argument a on test:0; all tensors"));
    CHECK(td_is_nil(td_matmul(x, d)) && aot_says(cx, TD_E_ARG, "one device"));
    CHECK(td_is_nil(td_add_(x, d)) && aot_says(cx, TD_E_ARG, "one device"));
    CHECK(td_is_nil(td_add(d, td_to_device(d, other))));
    CHECK(aot_says(cx, TD_E_ARG, "test:1"));
    CHECK(td_is_nil(td_cat(TD_LIST(d, x), 0)) && aot_says(cx, TD_E_ARG, "one device"));
    td_close(cx);
}

TEST(a_number_of_the_cpu_and_the_source_of_a_copy_may_be_elsewhere) {
    td_ctx    *cx = td_open();
    td_tensor *d = counted(cx, 3), *two = td_scalar_tensor(cx, 2.0);
    td_tensor *y = td_mul(two, d);
    CHECK(is_on(y, dev) && td_item(td_sum(y)) == 6);
    CHECK(is_on(td_mul_(d, two), dev) && td_item(td_sum(d)) == 6);
    td_copy_(d, td_ones(cx, TD_SHAPE(3)));
    CHECK(td_item(td_sum(d)) == 3);
    td_tensor *x = td_zeros(cx, TD_SHAPE(3, 2), TD_F64);
    td_copy_(td_t(x), td_to_device(td_ones(cx, TD_SHAPE(2, 3)), other));
    CHECK(is_on(x, cpu) && td_item(td_sum(x)) == 6);
    CHECK_OK(cx);
    CHECK(td_is_nil(td_add_(two, d)) && aot_says(cx, TD_E_ARG, "one device"));
    td_close(cx);
}

TEST(views_and_writes_of_a_device_tensor_share_its_memory) {
    td_ctx    *cx = td_open();
    td_tensor *d = td_view(counted(cx, 6), TD_SHAPE(2, 3)), *t = td_t(d);
    float      got[6], put[2] = {7, 8};
    td_add_(td_select(d, 0, 1), 10.0);
    CHECK(td_read(t, TD_F32, got, sizeof got));
    CHECK(got[0] == 0 && got[1] == 13 && got[5] == 15);
    CHECK(td_write(td_select(t, 0, 1), TD_F32, put, sizeof put));
    CHECK(td_read(d, TD_F32, got, sizeof got) && got[1] == 7 && got[4] == 8);
    CHECK(got[0] == 0 && got[2] == 2);
    CHECK(td_version(d) == 2 && td_same_storage(d, t));
    td_resize_(td_view(d, TD_SHAPE(6)), TD_SHAPE(8));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(gradients_pass_between_devices) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(3)));
    td_tensor *v = td_requires_grad_(counted(cx, 3));
    td_tensor *y = td_mul(td_to_device(w, dev), td_exp(v));
    td_backward(td_sum(td_to_device(y, cpu)));
    CHECK_OK(cx);
    CHECK(is_on(td_grad_of(w), cpu) && is_on(td_grad_of(v), dev));
    CHECK_NEAR(td_item(td_select(td_grad_of(w), 0, 1)), 2.71828, 1e-4);
    CHECK_NEAR(td_item(td_select(td_grad_of(v), 0, 2)), 7.38906, 1e-4);
    td_close(cx);
}

TEST(the_default_device_is_that_of_new_tensors) {
    td_ctx   *cx = td_open();
    td_device was = td_set_default_device(cx, dev);
    float     one[2] = {1, 2};
    CHECK(was.kind == TD_CPU && td_default_device(cx).kind == TD_TEST);
    CHECK(is_on(td_randn(cx, TD_SHAPE(2)), dev) && is_on(td_eye(cx, 2), dev));
    CHECK(is_on(td_from(cx, TD_F32, TD_SHAPE(2), one), dev));
    CHECK(td_item(td_sum(td_from(cx, TD_F32, TD_SHAPE(2), one))) == 3);
    td_set_default_device(cx, was);
    CHECK(is_on(td_zeros(cx, TD_SHAPE(2)), cpu));
    CHECK_OK(cx);
    td_set_default_device(cx, (td_device){TD_TEST, 9});
    CHECK(aot_says(cx, TD_E_UNSUPPORTED, "test:9: this machine has 2 devices"));
    CHECK(td_default_device(cx).kind == TD_CPU);
    td_close(cx);
}

TEST(a_moved_tensor_takes_its_views_along) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2, 2)));
    td_tensor *v = td_select(x, 0, 0);
    CHECK(td_move(x, dev) && is_on(x, dev) && is_on(v, dev));
    td_backward(td_sum(td_mul(x, 3.0)));
    CHECK(is_on(td_grad_of(x), dev) && td_item(td_sum(td_grad_of(x))) == 12);
    CHECK(td_move(x, cpu) && td_item(td_sum(v)) == 2);
    float host[2] = {0};
    CHECK(!td_move(td_wrap(cx, TD_F32, TD_SHAPE(2), TD_ALL, host, NULL, NULL), dev));
    CHECK(aot_says(cx, TD_E_UNSUPPORTED, "td_move"));
    td_close(cx);
}

/* x += 1; returns tanh(x * w) and a new tensor. */
static bool writes_and_makes(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_add_(x, 1.0);
    td_tensor *made = td_full(x->cx, TD_SHAPE(2), 4.0);
    return td_return(c, td_tanh(td_mul(x, w)), td_to_device(made, td_device_of(x)));
}

TEST(a_compiled_function_runs_on_its_arguments_device) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, writes_and_makes, NULL, NULL);
    td_tensor *at[2], *out[2], *grad[2];
    for (int i = 0; i < 2; i++) {
        td_device  d = i ? dev : cpu;
        td_tensor *x = td_to_device(td_arange(cx, 0, 3, 1, TD_F32), d);
        td_tensor *w =
            td_requires_grad_(td_to_device(td_full(cx, TD_SHAPE(3), 0.5), d));
        at[i] = td_clone(x);
        CHECK(td_invoke(f, TD_ARGS(at[i], w), out, 2));
        CHECK(is_on(out[0], d) && is_on(out[1], d) && td_item(td_sum(out[1])) == 8);
        td_backward(td_sum(out[0]));
        CHECK_OK(cx);
        CHECK(is_on(td_grad_of(w), d));
        grad[i] = td_to_device(td_grad_of(w), cpu);
        at[i] = td_to_device(at[i], cpu);
    }
    CHECK(td_equal(grad[0], grad[1]) && td_equal(at[0], at[1]));
    CHECK(td_fn_specializations(f) == 2);
    td_fn_drop(f);
    td_close(cx);
}

TEST(device_and_counters_of_a_process_are_reported) {
    td_ctx          *cx = td_open();
    td_device_counts a, b;
    char             text[200];
    CHECK(td_device_count(cx, TD_TEST, NULL, 0) == 2);
    CHECK(td_device_count(cx, TD_CPU, NULL, 0) == 1);
    CHECK(td_device_describe(cx, dev, text, sizeof text) && strstr(text, "64 MiB"));
    CHECK(td_device_counters(cx, dev, &a) && a.bytes == 0);
    td_tensor *d = counted(cx, 1000);
    CHECK(td_device_counters(cx, dev, &b) && b.bytes == 4000 && b.peak == 4000);
    CHECK(b.to_device == a.to_device + 1 && b.on_host == a.on_host);
    td_sort(d, &d);
    CHECK(td_device_counters(cx, dev, &a) && a.on_host == b.on_host + 1);
    CHECK(td_device_sync(cx, dev) && td_device_sync(cx, cpu));
    CHECK_OK(cx);
    td_close(cx);
    cx = td_open();
    CHECK(td_device_counters(cx, dev, &b) && b.bytes == 0); /* all was freed */
    td_close(cx);
}

TEST(a_full_device_is_out_of_memory_and_stays_usable) {
    td_ctx    *cx = td_open();
    td_tensor *d = counted(cx, 4);
    td_tensor *wide = td_expand(d, TD_SHAPE(8 << 20, 4));
    CHECK(td_is_nil(td_add(wide, 1.0)));
    CHECK(aot_says(cx, TD_E_MEMORY, "out of memory"));
    CHECK(td_item(td_sum(d)) == 6);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_missing_device_names_what_is_missing) {
    td_ctx *cx = td_open();
    char    why[600];
    setenv("TD_TEST_DEVICES", "0", 1);
    CHECK(td_device_count(cx, TD_TEST, why, sizeof why) == 0);
    CHECK_STR(why, "this machine has no test device; unset TD_TEST_DEVICES");
    td_device unused = {TD_TEST, 2}; /* one that no other test opens */
    CHECK(td_is_nil(td_to_device(td_ones(cx, TD_SHAPE(2)), unused)));
    CHECK(aot_says(cx, TD_E_UNSUPPORTED, "test:2: this machine has no test device"));
    unsetenv("TD_TEST_DEVICES");
    if (td_device_count(cx, TD_CUDA, why, sizeof why) == 0)
        CHECK(strstr(why, "plugin") || strstr(why, "driver") || strstr(why, "GPU"));
    CHECK(td_is_nil(td_to_device(td_ones(cx, TD_SHAPE(2)), (td_device){TD_CUDA, -1})));
    CHECK(aot_says(cx, TD_E_ARG, "no such device"));
    td_close(cx);
}

TEST(names_of_devices_are_read_and_written) {
    td_device d = {0};
    CHECK_STR(td_device_name((td_device){TD_CUDA, 3}), "cuda:3");
    CHECK_STR(td_device_name(cpu), "cpu");
    CHECK(!td_device_name((td_device){TD_CUDA, 15}) &&
          !td_device_name((td_device){9, 0}));
    CHECK(td_device_parse("cuda:14", &d) && d.kind == TD_CUDA && d.index == 14);
    CHECK(td_device_parse("cuda", &d) && d.index == 0);
    CHECK(!td_device_parse("cuda:15", &d) && !td_device_parse("cud", &d));
    CHECK(!td_device_parse("cuda:01", &d) && !td_device_parse("", &d));
    CHECK(!td_device_parse("cpu:1", &d) && !td_device_parse(NULL, &d));
}
