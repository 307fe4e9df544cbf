/* count_flops.c -- a mode that counts the floating-point operations of a training
 * step, forward and backward, op by op.
 *
 *     cc count_flops.c $(pkg-config --cflags --libs tandem) && ./a.out
 */
#include <tandem/tandem.h>

#include <stdio.h>
#include <string.h>

enum { KINDS = 32 };

typedef struct count {
    const char *op;
    int         calls;
    double      flops;
} count;

typedef struct counter {
    count kind[KINDS];
    int   n;
} counter;

static td_tensor *tensor_arg(const td_mode_call *h, int i) {
    td_value v = i < td_mode_call_args(h) ? td_mode_call_arg(h, i) : TD_NONE;
    return v.kind == TD_K_TENSOR ? v.u.t : NULL;
}

/* A product takes a multiplication and an addition per element and inner index; any
 * other op that makes floats, one per element. Views compute nothing. */
static double flops_of(const td_mode_call *h) {
    const char *op = td_mode_call_name(h);
    td_tensor  *out = td_mode_call_result(h, 0);
    double      n = (double)td_numel(out);
    int         product = !strcmp(op, "mm") || !strcmp(op, "bmm") ? 0
                          : !strcmp(op, "addmm")                  ? 1
                                                                  : -1;
    if (product >= 0) return 2 * n * (double)td_size(tensor_arg(h, product), -1);
    if (td_is_view(out) || !td_dtype_is_float(td_dtype_of(out))) return 0;
    td_tensor *in = tensor_arg(h, 0);
    return in && td_numel(in) > td_numel(out) ? (double)td_numel(in) : n;
}

static bool hear(void *env, td_mode_call *h) {
    counter *c = env;
    int      i = 0;
    if (!td_mode_call_go(h)) return false;
    while (i < c->n && strcmp(c->kind[i].op, td_mode_call_name(h)) != 0) i++;
    if (i == KINDS) return true;
    if (i == c->n) c->kind[c->n++] = (count){.op = td_mode_call_name(h)};
    c->kind[i].calls++;
    c->kind[i].flops += flops_of(h);
    return true;
}

static double print(const counter *c) {
    double sum = 0;
    for (int i = 0; i < c->n; i++) sum += c->kind[i].flops;
    for (int i = 0; i < c->n; i++)
        if (c->kind[i].flops > 0)
            printf("  %-24s %3d calls %12.0f flops\n", c->kind[i].op, c->kind[i].calls,
                   c->kind[i].flops);
    printf("  %-24s           %12.0f flops\n", "all", sum);
    return sum;
}

int main(void) {
    td_ctx      *cx = td_open();
    counter      forward = {.n = 0}, backward = {.n = 0};
    td_mode_hook mode = {.name = "flops", .call = hear, .env = &forward};
    td_tensor *x = td_randn(cx, TD_SHAPE(64, 256)), *y = td_randn(cx, TD_SHAPE(64, 10));
    td_tensor *w1 = td_requires_grad_(td_randn(cx, TD_SHAPE(512, 256)));
    td_tensor *w2 = td_requires_grad_(td_randn(cx, TD_SHAPE(10, 512)));

    td_mode_push(cx, &mode);
    td_tensor *h = td_relu(td_linear(x, w1));
    td_tensor *loss = td_mse_loss(td_linear(h, w2), y);
    mode.env = &backward;
    td_backward(loss);
    td_mode_pop(cx, &mode);

    printf("forward\n");
    double f = print(&forward);
    printf("backward\n");
    double b = print(&backward);
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    bool right = td_ok(cx) && f > 2.0 * 64 * 512 * (256 + 10) && b > f && b < 2 * f;
    td_close(cx);
    return !right;
}
