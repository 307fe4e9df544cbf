/* aot_leaks.c -- many calls hold no more than few. */
#include "aot_sides.h"

#include "core/core.h"

#include <stdlib.h>

static int living(const td_ctx *cx) {
    int n = 0;
    for (const td_tensor *t = cx->all; t; t = t->next) n++;
    return n;
}

static bool drops_body(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *seen = td_arg(c, 2);
    td_add_(seen, td_mean(x, TD_DIMS(0), false));
    td_tensor *h = td_dropout(td_tanh(td_add(td_matmul(x, w), seen)), 0.5, true);
    return td_return(c, h, td_transpose(h, 0, 1));
}

static void call(td_fn *f, td_ctx *cx, td_tensor *w, td_tensor *seen, int i) {
    td_scope_begin(cx, "call");
    td_grad_opts make = {TD_GRAD_OPTS, .create_graph = true};
    td_tensor   *x = values(cx, TD_SHAPE(2, 3), 0.1), *y[2], *g[1];
    td_invoke(f, TD_ARGS(x, w, seen), y, 2);
    if (i % 50 == 7) {
        td_grad(TD_LIST(td_sum(td_mul(y[0], y[0]))), TD_LIST(w), g, &make);
        td_backward(td_sum(td_mul(g[0], g[0])));
    } else if (i % 10) td_backward(td_sum(y[i % 2])); /* some never go back */
    td_zero_grad(w);
    td_scope_end(cx, "call", NULL);
}

TEST(ten_thousand_calls_hold_no_more_than_a_hundred) {
    td_ctx    *cx = td_open();
    int        calls = getenv("TD_TEST_QUICK") ? 500 : 10000, tensors = 0;
    size_t     bytes = 0, blocks = 0;
    td_tensor *w = leaf(cx, TD_SHAPE(3, 3), -0.4), *seen = values(cx, TD_SHAPE(3), 0);
    td_fn     *f = td_aot_function(cx, drops_body, NULL, NULL);
    for (int i = 0; i < calls; i++) {
        if (i == 100) {
            bytes = td_memory_live();
            blocks = td__block_live();
            tensors = living(cx);
        }
        call(f, cx, w, seen, i);
    }
    CHECK_OK(cx);
    CHECK(td_memory_live() == bytes);
    CHECK(td__block_live() == blocks);
    CHECK(living(cx) == tensors);
    CHECK(td_fn_specializations(f) == 1);
    td_fn_drop(f);
    td_close(cx);
}

/* Functions made and dropped leave nothing behind either. */
TEST(functions_come_and_go) {
    size_t bytes = td_memory_live();
    for (int i = 0; i < 20; i++) {
        td_ctx    *cx = td_open();
        td_tensor *w = leaf(cx, TD_SHAPE(3, 3), -0.4), *s = values(cx, TD_SHAPE(3), 0);
        td_fn     *f = td_aot_function(cx, drops_body, NULL, NULL);
        call(f, cx, w, s, 7);
        td_fn_drop(f);
        td_close(cx);
    }
    CHECK(td_memory_live() == bytes);
}
