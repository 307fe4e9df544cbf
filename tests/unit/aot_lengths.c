/* aot_lengths.c -- a layer whose body loops over the steps of a sequence is unrolled
 * when it is captured: each length is a specialization of its own, whether sizes may be
 * symbolic or not, and a length seen before runs what was compiled for it. */
#include "aot_help.h"

#include "tandem/nn.h"

enum { IN = 3, HIDDEN = 4, BATCH = 2 };

/* One number of the LSTM's results and the gradients of its parameters. */
static double digest(td_module *m, td_fn *f, td_tensor *x) {
    td_ctx    *cx = td_ctx_of(x);
    td_tensor *out[3], *p[8], *all = td_full(cx, TD_SHAPE(), 0);
    td_value   v[3];
    bool       ok = f ? td_invoke(f, TD_ARGS(x), out, 3)
                      : td_module_call_values(m, TD_ARGS(x), v, 3) == 3;
    TD_CHECK_THAT(ok, "%s", td_message(cx));
    for (int i = 0; i < 3 && td_is_nil(f); i++) out[i] = v[i].u.t;
    CHECK(td_backward(td_sum(td_square(out[0]))));
    for (int i = 0; i < 3; i++) all = td_add(all, td_sum(td_detach(out[i])));
    int n = td_module_parameters(m, p, 8);
    for (int i = 0; i < n; i++) {
        all = td_add(td_mul(all, 1.5), td_sum(td_square(td_grad_of(p[i]))));
        td_zero_grad(p[i]);
    }
    return td_item(td_detach(all));
}

static void check_lengths(td_shapes sizes) {
    static const int lengths[] = {5, 7, 5, 3, 7, 1};
    td_ctx          *cx = td_open();
    td_nn_rnn_opts   how = {TD_NN_RNN_OPTS, .batch_first = true};
    td_seed(cx, 6);
    td_module *m = td_nn_lstm(cx, IN, HIDDEN, &how);
    td_fn     *f = td_aot_module(m, &(td_aot_opts){TD_AOT_OPTS, .dynamic = sizes});
    for (int i = 0; i < TD_COUNT(lengths); i++) {
        td_scope_begin(cx, "call");
        td_tensor *x = td_randn(cx, TD_SHAPE(BATCH, lengths[i], IN));
        CHECK(is_number(cx, digest(m, f, x), digest(m, NULL, x), 1e-5));
        td_scope_end(cx, "call", NULL);
    }
    CHECK(td_fn_specializations(f) == 4);
    CHECK(td_ok(cx));
    td_fn_drop(f);
    td_module_free(m);
    td_close(cx);
}

TEST(an_lstm_is_compiled_once_for_each_length) { check_lengths(TD_SHAPES_STATIC); }
TEST(so_it_is_where_sizes_may_be_symbolic) { check_lengths(TD_SHAPES_DYNAMIC); }
