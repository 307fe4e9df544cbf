/* module.c -- a small network as modules: trained, saved, loaded, asked again. It
 * learns which of eight symbols follows which; the table of symbols is also the
 * head that names the next one, one parameter under two names. */
#define _DEFAULT_SOURCE /* mkstemps, also with -std=c11 */
#include <stdio.h>
#include <stdlib.h>
#include <tandem/tandem.h>
#include <unistd.h>

enum { SYMBOLS = 8, WIDTH = 16 };

typedef struct linear {
    td_tensor *weight;
} linear;

static bool linear_forward(td_module *m, td_call *c) {
    linear *l = td_module_state(m);
    return td_return(c, td_linear(td_arg(c, 0), l->weight));
}

static const td_module_type linear_type = {.name = "Linear",
                                           .bytes = sizeof(linear),
                                           .forward = linear_forward};

/* `tied`: a weight to share; NULL: one of its own. */
static td_module *linear_make(td_ctx *cx, int in, int out, td_tensor *tied) {
    td_module *m = td_module_make(cx, &linear_type);
    if (td_is_nil(m)) return NULL;
    linear    *l = td_module_state(m);
    td_tensor *w = tied ? tied : td_mul(td_randn(cx, TD_SHAPE(out, in)), 0.3);
    td_module_param(m, "weight", w);
    td_module_follow(m, "weight", &l->weight); /* also when it is replaced */
    return m;
}

typedef struct net {
    td_tensor *table;
    td_module *hidden, *head;
} net;

static bool net_forward(td_module *m, td_call *c) {
    net       *n = td_module_state(m);
    td_tensor *h = td_embedding(n->table, td_arg(c, 0));
    h = td_tanh(td_module_call(n->hidden, TD_ARGS(h)));
    return td_return(c, td_module_call(n->head, TD_ARGS(h)));
}

static const td_module_type net_type = {.name = "Net",
                                        .bytes = sizeof(net),
                                        .forward = net_forward};

static td_module *net_make(td_ctx *cx) {
    td_module *m = td_module_make(cx, &net_type);
    if (td_is_nil(m)) return NULL;
    net *n = td_module_state(m);
    n->table = td_module_param(m, "table", td_randn(cx, TD_SHAPE(SYMBOLS, WIDTH)));
    n->hidden = td_module_child(m, "hidden", linear_make(cx, WIDTH, WIDTH, NULL));
    n->head = td_module_child(m, "head", linear_make(cx, WIDTH, SYMBOLS, n->table));
    return m;
}

static double train(td_ctx *cx, td_module *m, td_tensor *x, td_tensor *next) {
    td_tensor *params[8];
    int        n = td_module_parameters(m, params, 8); /* table and hidden.weight */
    double     last = 0;
    for (int step = 0; step < 200; step++) {
        td_scope_begin(cx, "step");
        td_tensor *loss = td_cross_entropy(td_module_call(m, TD_ARGS(x)), next);
        td_backward(loss);
        last = td_item(loss);
        td_grad_mode was = td_no_grad_begin(cx);
        for (int i = 0; i < n; i++)
            td_sub_(params[i], td_mul(td_grad_of(params[i]), 0.5));
        td_no_grad_end(cx, was);
        td_module_zero_grad(m);
        if (step % 50 == 0) printf("%3d  %.4f\n", step, last);
        td_scope_end(cx, "step", NULL);
    }
    return last;
}

int main(void) {
    char    path[] = "/tmp/tandem-module-XXXXXX.safetensors";
    int64_t order[SYMBOLS], after[SYMBOLS];
    for (int i = 0; i < SYMBOLS; i++) order[i] = i, after[i] = (3 * i + 1) % SYMBOLS;
    td_ctx    *cx = td_open();
    td_tensor *x = td_from(cx, TD_I64, TD_SHAPE(SYMBOLS), order);
    td_tensor *next = td_from(cx, TD_I64, TD_SHAPE(SYMBOLS), after);
    td_module *m = net_make(cx), *again = net_make(cx);

    double loss = train(cx, m, x, next);
    close(mkstemps(path, 12));
    td_module_save(m, path, NULL);     /* table, hidden.weight, head.weight */
    td_module_load(again, path, NULL); /* into the tensors it has */
    td_tensor *y = td_argmax(td_module_call(again, TD_ARGS(x)), -1);
    double     right = td_item(td_sum(td_eq(y, next)));
    printf("loaded: %.0f of %d right\n", right, SYMBOLS);

    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    bool ok = td_ok(cx) && loss < 0.1 && right == SYMBOLS;
    remove(path);
    td_module_free(again);
    td_module_free(m);
    td_close(cx);
    return ok ? 0 : 1;
}
