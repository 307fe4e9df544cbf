/* train_step.c -- fails every allocation of a training step in turn. Each time the
 * step must report out of memory (or not have needed that block), leak nothing, and
 * leave a context that trains on. Twice: one failure, and failure from there on. */
#include "base/base.h"

#include <stdio.h>
#include <string.h>
#include <tandem/tandem.h>

typedef struct model {
    td_ctx    *cx;
    td_tensor *w1, *b1, *w2, *conv, *gamma, *x, *y;
} model;

static td_tensor *param(td_ctx *cx, td_ints shape) {
    td_tensor *t = td_keep(td_randn(cx, shape));
    return td_set_requires_grad(t, true);
}

static bool model_open(model *m) {
    if (!(m->cx = td_open())) return false;
    td_seed(m->cx, 1);
    m->w1 = param(m->cx, TD_SHAPE(8, 16));
    m->b1 = param(m->cx, TD_SHAPE(8));
    m->w2 = param(m->cx, TD_SHAPE(3, 8));
    m->conv = param(m->cx, TD_SHAPE(1, 1, 3, 3));
    m->gamma = param(m->cx, TD_SHAPE(8));
    m->x = td_keep(td_randn(m->cx, TD_SHAPE(5, 1, 4, 4)));
    m->y =
        td_keep(td_from(m->cx, TD_I64, TD_SHAPE(5), (const int64_t[]){0, 1, 2, 1, 0}));
    return td_ok(m->cx);
}

/* Views, writes, random numbers, products, convolution, norms, hooks-free backward
 * and an update in place. */
static double step(model *m) {
    td_ctx *cx = m->cx;
    td_scope_begin(cx, "step");
    td_tensor *h = td_conv2d(m->x, m->conv, NULL, TD_DIMS(1, 1), TD_DIMS(1, 1));
    h = td_tanh(td_linear(td_flatten(h, 1), m->w1, m->b1));
    h = td_layer_norm(h, TD_SHAPE(8), m->gamma);
    h = td_dropout(h, 0.25, true);
    td_mul_(td_select(h, 1, 0), 0.5);
    td_tensor *loss = td_cross_entropy(td_linear(h, m->w2), m->y);
    td_tensor *extra = td_mean(td_square(td_index_select(h, 0, m->y)));
    td_tensor *total = td_add(loss, extra);
    td_backward(total);
    td_tensor   *params[] = {m->w1, m->b1, m->w2, m->conv, m->gamma};
    td_grad_mode was = td_no_grad_begin(cx);
    for (int i = 0; i < 5; i++) {
        td_sub_(params[i], td_mul(td_grad_of(params[i]), 0.1));
        td_zero_grad(params[i]);
    }
    td_no_grad_end(cx, was);
    double value = td_item(total);
    td_scope_end(cx, "step", NULL);
    return value;
}

static bool fail(int64_t n, const char *what) {
    printf("allocation %lld: %s\n", (long long)n, what);
    return false;
}

/* Fails allocation n of opening a model and taking a step. *done: it was not
 * reached. */
static bool try_one(int64_t n, bool sticky, bool *done) {
    model m;
    memset(&m, 0, sizeof m);
    size_t live = td_memory_live();
    td__fault_arm(n, sticky);
    bool opened = model_open(&m);
    if (opened) step(&m);
    *done = td__fault_count() <= n;
    td__fault_arm(-1, false);
    if (m.cx) {
        if (!td_ok(m.cx) && td_error(m.cx) != TD_E_MEMORY)
            return fail(n, td_message(m.cx));
        td_clear(m.cx);
        td_close(m.cx);
    }
    if (!model_open(&m)) return fail(n, "a fresh model does not open afterwards");
    double a = step(&m), b = step(&m);
    bool   ok = td_ok(m.cx) && a == a && b == b;
    td_close(m.cx);
    if (!ok) return fail(n, "a fresh model does not train afterwards");
    if (td_memory_live() != live) return fail(n, "bytes were leaked");
    return true;
}

/* The same context after a failed step must still train, from where it was. */
static bool same_context(int64_t n, bool sticky, bool *done) {
    model m;
    if (!model_open(&m)) return fail(n, "cannot open");
    size_t live = td_memory_live();
    td__fault_arm(n, sticky);
    step(&m);
    *done = td__fault_count() <= n;
    td__fault_arm(-1, false);
    bool ok = td_ok(m.cx) || td_error(m.cx) == TD_E_MEMORY;
    if (!ok) fail(n, td_message(m.cx));
    td_clear(m.cx);
    td_tensor *params[] = {m.w1, m.b1, m.w2, m.conv, m.gamma};
    for (int i = 0; i < 5; i++) td_zero_grad(params[i]);
    td_set_grad_enabled(m.cx, true);
    if (td_memory_live() != live) ok = fail(n, "the failed step holds bytes");
    double v = step(&m);
    if (ok && !(td_ok(m.cx) && v == v))
        ok = fail(n, "the context does not train after the failure");
    td_close(m.cx);
    return ok;
}

/* Fails allocation 0, 1, 2... until the program needs no more. */
static void try_all(bool (*one)(int64_t, bool, bool *), bool sticky, int *tally) {
    bool done = false;
    for (int64_t n = 0; !done && n < 100000; n++)
        tally[one(n, sticky, &done) ? 0 : 1]++;
}

int main(void) {
    int tally[2] = {0, 0}; /* passed, failed */
    for (int sticky = 0; sticky < 2; sticky++) {
        try_all(try_one, sticky, tally);
        try_all(same_context, sticky, tally);
    }
    printf("%d passed, %d failed\n", tally[0], tally[1]);
    return tally[1] != 0;
}
