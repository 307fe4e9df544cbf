/* aot_threads.c -- functions compiled and called on several threads at once, each in a
 * context of its own, come to the numbers of one thread alone. */
#include "aot_sides.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 4, CALLS = 12 };

typedef struct worker {
    double sum;
    int    id;
    bool   ok;
} worker;

static bool busy_body(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *seen = td_arg(c, 2);
    td_add_(seen, td_mean(x, TD_DIMS(0), false));
    td_tensor *h = td_dropout(td_tanh(td_add(td_matmul(x, w), seen)), 0.5, true);
    return td_return(c, h, td_transpose(h, 0, 1));
}

static int note_id(td_fn *f) {
    char        text[4096];
    const char *at;
    td_explain_json(f, text, sizeof text);
    at = strstr(text, "\"id\": ");
    return at ? atoi(at + 6) : 0;
}

/* Other sizes compile anew: compiling goes on all the time. */
static void work(worker *to, td_ctx *cx) {
    td_fn *f = td_aot_function(cx, busy_body, NULL, NULL);
    to->sum = 0;
    for (int i = 0; i < CALLS; i++) {
        td_scope_begin(cx, "call");
        td_grad_opts make = {TD_GRAD_OPTS, .create_graph = i % 4 == 0};
        td_tensor   *x = leaf(cx, TD_SHAPE(2 + i % 3, 3), 0.1);
        td_tensor   *w = leaf(cx, TD_SHAPE(3, 3), -0.2);
        td_tensor   *seen = values(cx, TD_SHAPE(3), 0), *y[2], *g[2];
        td_invoke(f, TD_ARGS(x, w, seen), y, 2);
        td_grad(TD_LIST(td_sum(td_mul(y[1], y[1]))), TD_LIST(x, w), g, &make);
        if (i % 4 == 0) td_backward(td_sum(td_mul(g[0], g[0])));
        to->sum +=
            td_item(td_sum(g[0])) + td_item(td_sum(g[1])) + td_item(td_sum(seen));
        td_scope_end(cx, "call", NULL);
    }
    to->id = note_id(f);
    td_fn_drop(f);
}

static void *start(void *arg) {
    worker *to = arg;
    td_ctx *cx = td_open();
    td_seed(cx, 3);
    work(to, cx);
    to->ok = td_ok(cx);
    td_close(cx);
    return NULL;
}

TEST(threads_compile_and_call_at_once) {
    worker    w[THREADS + 1];
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK(!pthread_create(&t[i], NULL, start, &w[i]));
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    start(&w[THREADS]);
    for (int i = 0; i < THREADS; i++) {
        CHECK(w[i].ok);
        CHECK_NEAR(w[i].sum, w[THREADS].sum, 0);
        for (int k = 0; k < i && w[i].id; k++) CHECK(w[i].id != w[k].id);
    }
}

/* ---- one function, handed from thread to thread ------------------------- */

typedef struct handed {
    td_ctx *cx;
    td_fn  *f;
    double  sum;
} handed;

static void *call_once(void *arg) {
    handed    *h = arg;
    td_tensor *x = leaf(h->cx, TD_SHAPE(3), 1), *w = leaf(h->cx, TD_SHAPE(3), 2), *y;
    td_invoke(h->f, TD_ARGS(x, w), &y, 1);
    td_backward(td_sum(y));
    h->sum += td_item(td_sum(td_grad_of(x)));
    return NULL;
}

TEST(a_context_with_its_functions_moves_between_threads) {
    handed h = {.cx = td_open()};
    h.f = td_aot_function(h.cx, product_body, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        pthread_t t;
        CHECK(!pthread_create(&t, NULL, call_once, &h));
        pthread_join(t, NULL);
    }
    CHECK_OK(h.cx);
    CHECK_NEAR(h.sum, 3 * 6.3, 1e-9);
    td_fn_drop(h.f);
    td_close(h.cx);
}
