/* threads.c -- contexts on several threads at once, with bytes they share. */
#include "op_help.h"

#include "core/core.h"

#include <pthread.h>
#include <stdatomic.h>

enum { STEPS = 30, ROWS = 24, WIDE = 8 };

typedef struct trainer {
    td_ctx    *cx;
    td_tensor *x, *y; /* shared bytes, read by all */
    double     first, last;
    bool       ok;
} trainer;

/* A small network on the shared data; every thread has weights of its own. */
static void *train(void *arg) {
    trainer *t = arg;
    td_seed(t->cx, 5);
    td_tensor *w = td_keep(td_mul(td_randn(t->cx, TD_SHAPE(WIDE, WIDE)), 0.3));
    td_tensor *v = td_keep(td_mul(td_randn(t->cx, TD_SHAPE(1, WIDE)), 0.3));
    td_tensor *params[] = {td_set_requires_grad(w, true),
                           td_set_requires_grad(v, true)};
    for (int step = 0; step < STEPS; step++) {
        td_scope_begin(t->cx, "step");
        td_tensor *h = td_tanh(td_linear(t->x, w));
        td_tensor *loss = td_mse_loss(td_linear(h, v), t->y);
        td_backward(loss);
        td_grad_mode was = td_no_grad_begin(t->cx);
        for (int i = 0; i < 2; i++) {
            td_sub_(params[i], td_mul(td_grad_of(params[i]), 0.1));
            td_zero_grad(params[i]);
        }
        td_no_grad_end(t->cx, was);
        t->last = td_item(loss);
        if (step == 0) t->first = t->last;
        td_scope_end(t->cx, "step", NULL);
    }
    t->ok = td_ok(t->cx);
    td_close(t->cx);
    return NULL;
}

TEST(two_threads_train_at_once_on_shared_data) {
    td_ctx *cx = td_open();
    td_seed(cx, 1);
    td_tensor *x = td_randn(cx, TD_SHAPE(ROWS, WIDE)), *y = td_sum(x, TD_DIMS(1), true);
    trainer    t[3];
    pthread_t  threads[3];

    for (int i = 0; i < 3; i++) {
        t[i].cx = td_open();
        t[i].x = td_share(t[i].cx, x);
        t[i].y = td_share(t[i].cx, y);
    }
    for (int i = 0; i < 2; i++) CHECK(!pthread_create(&threads[i], NULL, train, &t[i]));
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    train(&t[2]); /* alone: the same numbers */

    for (int i = 0; i < 3; i++) {
        CHECK(t[i].ok);
        CHECK(t[i].last < t[i].first);
        CHECK(t[i].last == t[2].last);
    }
    td_close(cx);
}

static void *open_and_compute(void *arg) {
    atomic_int *good = arg;
    for (int i = 0; i < 20; i++) {
        td_ctx *cx = td_open();
        double  v = td_item(td_sum(td_exp(td_zeros(cx, TD_SHAPE(100)))));
        if (v == 100 && td_ok(cx)) atomic_fetch_add(good, 1);
        td_close(cx);
    }
    return NULL;
}

TEST(contexts_open_and_close_on_many_threads) {
    pthread_t  threads[4];
    atomic_int good = 0;

    for (int i = 0; i < 4; i++)
        CHECK(!pthread_create(&threads[i], NULL, open_and_compute, &good));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);

    CHECK(good == 80);
}

/* Large enough for the pool, which one of the two gets at a time. */
static void *compute_large(void *arg) {
    trainer *t = arg;
    for (int i = 0; i < 5; i++) {
        td_scope_begin(t->cx, "large");
        td_tensor *y = td_add(td_mul(t->x, 2.0), t->x);
        t->last = td_item(td_sum(td_matmul(y, td_t(y))));
        td_scope_end(t->cx, "large", NULL);
    }
    t->ok = td_ok(t->cx);
    td_close(t->cx);
    return NULL;
}

TEST(threads_take_turns_at_the_pool) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_full(cx, TD_SHAPE(300, 300), 0.5);
    trainer    t[2];
    pthread_t  threads[2];
    int        was = td_threads();

    td_set_threads(2);
    for (int i = 0; i < 2; i++) {
        t[i].cx = td_open();
        t[i].x = td_share(t[i].cx, x);
        CHECK(!pthread_create(&threads[i], NULL, compute_large, &t[i]));
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    td_set_threads(was);

    for (int i = 0; i < 2; i++) {
        CHECK(t[i].ok);
        CHECK(t[i].last == 300.0 * 300 * 300 * 2.25);
    }
    td_close(cx);
}

static void *use_context(void *arg) {
    td_ctx *cx = arg;
    td_backward(
        td_sum(td_square(td_set_requires_grad(td_ones(cx, TD_SHAPE(3)), true))));
    return NULL;
}

TEST(a_context_may_move_from_one_thread_to_another) {
    td_ctx   *cx = td_open();
    pthread_t thread;

    td_tensor *x = td_keep(td_ones(cx, TD_SHAPE(1000)));
    CHECK(!pthread_create(&thread, NULL, use_context, cx));
    pthread_join(thread, NULL);

    CHECK(td_item(td_sum(x)) == 1000);
    CHECK_OK(cx);
    td_close(cx);
}
