/* hessian.c -- Newton's method without a Hessian: its products with vectors are
 * gradients of gradients, and conjugate gradients need no more. The compiled function
 * is called and differentiated twice from outside. */
#include <math.h>
#include <stdio.h>
#include <tandem/tandem.h>

/* Logistic regression: data, labels, weights. */
static bool loss(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1), *w = td_arg(c, 2);
    td_tensor *fit = td_bce_with_logits(td_mv(x, w), y);
    return td_return(c, td_add(fit, td_mul(td_sum(td_square(w)), 1e-3)));
}

typedef struct problem {
    td_ctx    *cx;
    td_fn     *f;
    td_tensor *x, *y, *w;
} problem;

static td_tensor *gradient(const problem *p, bool keep) {
    td_tensor   *out, *g = NULL;
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = keep};
    td_invoke(p->f, TD_ARGS(p->x, p->y, p->w), &out, 1);
    td_grad((td_tensors){&out, 1}, (td_tensors){(td_tensor *[]){p->w}, 1}, &g, &o);
    return g;
}

/* H v: the derivative of g . v by the weights. */
static td_tensor *times(const problem *p, td_tensor *v) {
    td_tensor *dot = td_dot(gradient(p, true), td_detach(v)), *h = NULL;
    td_grad((td_tensors){&dot, 1}, (td_tensors){(td_tensor *[]){p->w}, 1}, &h, NULL);
    return h;
}

/* Solves H s = g by conjugate gradients. */
static td_tensor *newton_step(const problem *p, td_tensor *g) {
    td_tensor *s = td_zeros_like(g), *r = td_detach(g), *d = r;
    double     rr = td_item(td_dot(r, r));
    for (int i = 0; i < 20 && rr > 1e-12; i++) {
        td_tensor *hd = times(p, d);
        double     a = rr / td_item(td_dot(d, hd));
        s = td_add(s, td_mul(d, a));
        r = td_sub(r, td_mul(hd, a));
        double next = td_item(td_dot(r, r));
        d = td_add(r, td_mul(d, next / rr));
        rr = next;
    }
    return s;
}

int main(void) {
    td_ctx *cx = td_open();
    td_seed(cx, 1);
    problem p = {.cx = cx, .x = td_randn(cx, TD_SHAPE(200, 8))};
    p.y = td_to(td_gt(td_sum(p.x, TD_DIMS(1)), 0.0), TD_F32);
    p.w = td_requires_grad_(td_zeros(cx, TD_SHAPE(8)));
    p.f = td_aot_function(cx, loss, NULL, NULL);
    double size = 0;
    for (int i = 0; i < 8 && td_ok(cx); i++) {
        td_scope_begin(cx, "newton");
        td_tensor *g = gradient(&p, false);
        size = sqrt(td_item(td_dot(g, g)));
        printf("step %d: gradient %.2e\n", i, size);
        td_tensor   *s = newton_step(&p, g);
        td_grad_mode was = td_no_grad_begin(cx);
        td_sub_(p.w, s);
        td_no_grad_end(cx, was);
        td_scope_end(cx, "newton", NULL);
    }
    bool ok = td_ok(cx) && size < 1e-5;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_fn_drop(p.f);
    td_close(cx);
    return !ok;
}
