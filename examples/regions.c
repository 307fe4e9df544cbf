/* regions.c -- a stack of blocks with the same code and other weights. The compiled
 * function contains the block once, however many there are.
 *
 *     cc regions.c $(pkg-config --cflags --libs tandem) && ./a.out
 */
#include <tandem/tandem.h>

#include <stdio.h>
#include <string.h>

enum { BLOCKS = 6, WIDTH = 16 };

typedef struct layer {
    td_tensor *w, *b;
} layer;

/* x + tanh(x w + b); it closes over its weights. */
static bool block(td_call *c) {
    const layer *l = td_call_env(c);
    td_tensor   *x = td_arg(c, 0);
    return td_return(c, td_add(x, td_tanh(td_add(td_matmul(x, l->w), l->b))));
}

static bool model(td_call *c) {
    layer     *l = td_call_env(c);
    td_tensor *x = td_arg(c, 0);
    for (int i = 0; i < BLOCKS; i++) {
        td_region_body of = {.body = block, .env = &l[i], .name = "block"};
        if (!td_call_region(td_call_ctx(c), of, TD_ARGS(x), &x, 1)) return false;
    }
    return td_return(c, td_mean(td_mul(x, x)));
}

/* How often a text contains a word. */
static int count(const char *text, const char *word) {
    int n = 0;
    for (; (text = strstr(text, word)); text++) n++;
    return n;
}

int main(void) {
    static char text[1 << 16];
    td_ctx     *cx = td_open();
    layer       l[BLOCKS];
    td_seed(cx, 1);
    for (int i = 0; i < BLOCKS; i++) {
        l[i].w = td_mul(td_randn(cx, TD_SHAPE(WIDTH, WIDTH)), 0.2);
        l[i].w = td_set_requires_grad(l[i].w, true);
        l[i].b = td_set_requires_grad(td_zeros(cx, TD_SHAPE(WIDTH)), true);
    }
    td_tensor  *x = td_randn(cx, TD_SHAPE(4, WIDTH)), *y;
    td_program *p = td_capture(cx, model, l, TD_ARGS(x));
    td_program_text(p, text, sizeof text);
    int graphs = count(text, "func @block");
    printf("%d calls of %d graphs\n", count(text, "region("), graphs);
    td_fn *f = td_aot_function(cx, model, l, NULL);
    td_invoke(f, TD_ARGS(x), &y, 1);
    td_backward(y);
    printf("loss %.4f, gradient of the first weight %.4f\n", td_item(y),
           td_item(td_sum(td_abs(td_grad_of(l[0].w)))));
    /* The first block takes x, which requires no gradient: a graph of its own. */
    bool ok = td_ok(cx) && graphs == 2;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_program_drop(p);
    td_fn_drop(f);
    td_close(cx);
    return !ok;
}
