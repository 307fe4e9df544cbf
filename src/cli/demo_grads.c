/* demo_grads.c -- compares gradients of compiled functions with central differences
 * in f64: single ops, and a whole GPT. */
#include "cli/demo.h"

#include <math.h>

static const double TOLERANCE = 1e-6;
enum { MOST_PARAMS = 64 };

/* A scalar function of some tensors. */
typedef struct probe {
    td_ctx    *cx;
    td_body   *body;
    void      *env;
    td_tensor *x[MOST_PARAMS]; /* varied: arguments, or parameters of env */
    int        n;
    td_value   args[4];
    int        n_args;
} probe;

/* ---- the functions ------------------------------------------------------ */

/* Weights the elements differently: a plain sum would hide mistakes. */
static bool weigh(td_call *c, td_tensor *y) {
    td_tensor *w = td_sin(td_arange(td_call_ctx(c), 0, td_numel(y)));
    w = td_to(w, TD_F64);
    return td_return(c, td_sum(td_mul(td_reshape(y, TD_SHAPE(-1)), w)));
}

static bool matmul(td_call *c) {
    return weigh(c, td_matmul(td_arg(c, 0), td_transpose(td_arg(c, 1), -1, -2)));
}
static bool softmax(td_call *c) {
    return weigh(c, td_softmax(td_matmul(td_arg(c, 0), td_t(td_arg(c, 1))), -1));
}
static bool layer_norm(td_call *c) {
    td_tensor *w = td_select(td_arg(c, 1), 0, 0), *b = td_select(td_arg(c, 1), 0, 1);
    return weigh(c, td_layer_norm(td_arg(c, 0), TD_SHAPE(6), w, b));
}
static bool gelu(td_call *c) {
    return weigh(c,
                 td_gelu(td_mul(td_arg(c, 0), td_select(td_arg(c, 1), 0, 0)), "tanh"));
}
static bool attention(td_call *c) {
    td_tensor *q = td_view(td_arg(c, 0), TD_SHAPE(1, 1, 5, 6));
    td_tensor *k = td_view(td_arg(c, 1), TD_SHAPE(1, 1, 5, 6));
    return weigh(c,
                 td_scaled_dot_product_attention(q, k, td_mul(q, k), NULL, 0.0, true));
}
/* Writes through a view of a copy, which the compiler makes functional. */
static bool in_place(td_call *c) {
    td_tensor *y = td_clone(td_arg(c, 0));
    td_mul_(td_select(y, 0, 1), td_select(td_arg(c, 1), 0, 2));
    td_tanh_(td_narrow(y, 1, 0, 3));
    return weigh(c, td_mul(y, td_arg(c, 1)));
}

/* The loss of a GPT; its parameters are the module's. */
static bool gpt_loss(td_call *c) {
    td_tensor *y = td_module_call(td_call_env(c), TD_ARGS(td_arg(c, 0)));
    y = td_reshape(y, TD_SHAPE(-1, td_size(y, 2)));
    return td_return(c, td_cross_entropy(y, td_reshape(td_arg(c, 1), TD_SHAPE(-1))));
}

/* ---- differences -------------------------------------------------------- */

static double value_at(probe *p) {
    td_value out = TD_NONE;
    td_scope_begin(p->cx, "probe");
    bool   ok = td_call_body(p->cx, p->body, p->env, (td_values){p->args, p->n_args},
                             &out, 1) == 1;
    double value = ok ? td_item(out.u.t) : (double)NAN;
    td_scope_end(p->cx, "probe", NULL);
    return value;
}

/* A central difference of fourth order. Writes the element directly; td_bump
 * announces that. */
static double slope_at(probe *p, td_tensor *x, int64_t i) {
    static const double step[] = {-2, -1, 1, 2};
    const double        h = 1e-4;
    double             *at = (double *)td_data(x) + i, was = *at, f[4];
    for (int k = 0; k < 4; k++) {
        *at = was + step[k] * h;
        td_bump(x);
        f[k] = value_at(p);
    }
    *at = was;
    td_bump(x);
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
}

/* Gradients of the compiled function, in the innermost scope. False after td__fail. */
static bool gradients(probe *p, td_tensor **grad) {
    td_aot_opts o = {TD_AOT_OPTS, .name = "check"};
    td_fn      *f = td_aot_function(p->cx, p->body, p->env, &o);
    td_tensor  *y;
    bool        ok = f && td_invoke(f, (td_values){p->args, p->n_args}, &y, 1) &&
              td_grad(TD_LIST(y), (td_tensors){p->x, p->n}, grad, NULL);
    td_fn_drop(f);
    return ok;
}

static void compare(probe *p, td_tensor *const *grad, demo_check *to) {
    double most = 0;
    for (int i = 0; i < p->n; i++) most = fmax(most, td_item(td_amax(td_abs(grad[i]))));
    for (int i = 0; i < p->n; i++) {
        const double *g = td_data(td_contiguous(grad[i]));
        for (int64_t k = 0; k < td_numel(p->x[i]) && td_ok(p->cx); k++, to->count++) {
            double slope = slope_at(p, p->x[i], k);
            double size = fmax(fmax(fabs(slope), fabs(g[k])), most * 1e-3);
            double error = fabs(slope - g[k]) / size;
            if (error > to->worst || isnan(error)) to->worst = error;
        }
    }
    to->good = to->worst <= TOLERANCE;
}

static bool check(probe *p, demo_check *to) {
    td_tensor *grad[MOST_PARAMS];
    td_scope_begin(p->cx, "check");
    if (gradients(p, grad)) {
        td_grad_mode was = td_no_grad_begin(p->cx);
        compare(p, grad, to);
        td_no_grad_end(p->cx, was);
    }
    td_scope_end(p->cx, "check", NULL);
    return td_ok(p->cx);
}

/* ---- all ---------------------------------------------------------------- */

static const struct {
    const char *name, *what;
    td_body    *body;
} ops[DEMO_CHECKS - 1] = {
    {"matmul", "a product of matrices", matmul},
    {"softmax", "of a product", softmax},
    {"layer_norm", "with weight and bias", layer_norm},
    {"gelu", "times a row", gelu},
    {"attention", "causal, scores never stored", attention},
    {"in-place writes", "through views", in_place},
};

static bool check_op(td_ctx *cx, int i, demo_check *to) {
    probe p = {.cx = cx, .body = ops[i].body, .n = 2, .n_args = 2};
    td_scope_begin(cx, "op");
    *to = (demo_check){.name = ops[i].name, .what = ops[i].what};
    for (int k = 0; k < 2; k++) {
        td_tensor *x = td_to(td_randn(cx, TD_SHAPE(5, 6)), TD_F64);
        p.x[k] = td_requires_grad_(x);
        p.args[k] = td_value_tensor(p.x[k]);
    }
    bool ok = td_ok(cx) && check(&p, to);
    td_scope_end(cx, "op", NULL);
    return ok;
}

static bool check_gpt(td_ctx *cx, demo_check *to) {
    probe p = {.cx = cx, .body = gpt_loss, .n_args = 2};
    *to = (demo_check){.name = "a whole GPT", .what = "1 block, 2 heads"};
    td_scope_begin(cx, "gpt");
    td_module *net = gpt2_make(cx, (gpt2_sizes){16, 6, 1, 2, 8});
    bool       ok = net && td_module_to(net, TD_F64);
    p.env = net;
    if (ok) {
        td_tensor *x = td_remainder(td_arange(cx, 0, 12), 7);
        x = td_reshape(x, TD_SHAPE(2, 6));
        p.args[0] = td_value_tensor(x);
        p.args[1] = td_value_tensor(td_add(x, 1));
        p.n = td_module_parameters(net, p.x, MOST_PARAMS);
        ok = p.n > 0 && p.n <= MOST_PARAMS && check(&p, to);
    }
    if (net) td_module_free(net);
    td_scope_end(cx, "gpt", NULL);
    return ok;
}

bool demo_check_one(td_ctx *cx, int i, demo_check *to) {
    return i < DEMO_CHECKS - 1 ? check_op(cx, i, to) : check_gpt(cx, to);
}
