/* step_help.h -- a training step is run twenty times as it is and twenty times
 * compiled. After each step every parameter, every piece of state, the gradients that
 * are left, and the loss must have the same bits, or, of native code, which sums in an
 * order of its own (docs/numerics.md), the same numbers; writes are counted alike. */
#ifndef TD_STEP_HELP_H
#define TD_STEP_HELP_H

#include "aot_help.h"
#include "core/core.h"
#include "tandem/nn.h"

#include <math.h>
#include <stdlib.h>

enum { STEP_PARAMS = 4, STEP_ROUNDS = 20, STEP_FLOATS = 1024 };

/* What a step works on; w is 6x8, b 8, v 8x3, c 3. */
typedef struct net {
    td_ctx    *cx;
    td_tensor *p[STEP_PARAMS], *m[STEP_PARAMS], *s[STEP_PARAMS]; /* and state */
    td_tensor *x, *y, *lr, *t, *mean, *var;
    td_fn     *f; /* NULL: the eager side */
} net;

static inline void net_open(net *n, td_body *body, bool compiled) {
    td_ctx *cx = td_open();
    *n = (net){.cx = cx};
    td_seed(cx, 5);
    td_tensor *p[] = {td_randn(cx, TD_SHAPE(6, 8)), td_randn(cx, TD_SHAPE(8)),
                      td_randn(cx, TD_SHAPE(8, 3)), td_randn(cx, TD_SHAPE(3))};
    for (int i = 0; i < STEP_PARAMS; i++) {
        n->p[i] = td_requires_grad_(td_mul(p[i], 0.4));
        n->m[i] = td_zeros_like(p[i]);
        n->s[i] = td_zeros_like(p[i]);
    }
    n->x = td_randn(cx, TD_SHAPE(4, 6));
    n->y = td_randn(cx, TD_SHAPE(4, 3));
    n->lr = td_full(cx, TD_SHAPE(), 0.05);
    n->t = td_zeros(cx, TD_SHAPE());
    n->mean = td_zeros(cx, TD_SHAPE(8));
    n->var = td_ones(cx, TD_SHAPE(8));
    td_aot_opts o = {TD_AOT_OPTS, .state = {n->p, STEP_PARAMS}};
    if (compiled) n->f = td_aot_step(cx, body, n, &o);
}

static inline void net_close(net *n) {
    td_fn_drop(n->f);
    td_close(n->cx);
}

/* One step; the loss in the innermost scope. */
static inline td_tensor *net_step(net *n, td_body *body) {
    td_tensor *loss = td_nil(n->cx);
    td_value   v = TD_NONE;
    td_values  args = TD_ARGS(n->x, n->y, n->lr);
    if (n->f) td_invoke(n->f, args, &loss, 1);
    else if (td_call_body(n->cx, body, n, args, &v, 1) > 0) loss = v.u.t;
    TD_CHECK_THAT(td_ok(n->cx), "%s", td_message(n->cx));
    CHECK(!n->f || !td_requires_grad(loss));
    return loss;
}

/* Numbers that differ by rounding alone, over a few steps of training. */
static inline bool is_near(const float *a, const float *b, int64_t n) {
    float most = 1e-3f;
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(a[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 2e-5f * most)) return false;
    return true;
}

static inline void same_numbers(td_tensor *a, td_tensor *b, const char *what,
                                int round) {
    static float u[STEP_FLOATS], v[STEP_FLOATS];
    TD_CHECK_THAT(td_is_nil(a) == td_is_nil(b), "%s, round %d: one is absent", what,
                  round);
    if (td_is_nil(a)) return;
    int64_t n = td_numel(a);
    size_t  bytes = sizeof *u * (size_t)n;
    CHECK(bytes <= sizeof u && n == td_numel(b));
    CHECK(td_read(a, TD_F32, u, bytes) && td_read(b, TD_F32, v, bytes));
    bool same = is_exact(td_ctx_of(b)) ? !memcmp(u, v, bytes) : is_near(u, v, n);
    TD_CHECK_THAT(same, "%s, round %d: other numbers", what, round);
    TD_CHECK_THAT(td_version(a) == td_version(b), "%s, round %d: %d writes, not %d",
                  what, round, (int)td_version(b), (int)td_version(a));
}

static inline void same_nets(const net *a, const net *b, int round) {
    for (int i = 0; i < STEP_PARAMS; i++) {
        same_numbers(a->p[i], b->p[i], "a parameter", round);
        same_numbers(a->m[i], b->m[i], "the first moment", round);
        same_numbers(a->s[i], b->s[i], "the second moment", round);
        same_numbers(td_grad_of(a->p[i]), td_grad_of(b->p[i]), "a gradient", round);
        CHECK(td_is_leaf(b->p[i]) && td_requires_grad(b->p[i]));
    }
    same_numbers(a->t, b->t, "the count", round);
    same_numbers(a->mean, b->mean, "the mean", round);
    same_numbers(a->var, b->var, "the variance", round);
}

/* Both sides; at most `kinds` specializations. */
static inline void check_step(td_body *body, int kinds) {
    net eager, compiled;
    net_open(&eager, body, false);
    net_open(&compiled, body, true);
    for (int i = 0; i < STEP_ROUNDS; i++) {
        td_scope_begin(eager.cx, "step");
        td_scope_begin(compiled.cx, "step");
        td_tensor *a = net_step(&eager, body), *b = net_step(&compiled, body);
        same_numbers(td_detach(a), td_detach(b), "the loss", i);
        same_nets(&eager, &compiled, i);
        td_mul_(eager.lr, 0.9);
        td_mul_(compiled.lr, 0.9);
        td_scope_end(compiled.cx, "step", NULL);
        td_scope_end(eager.cx, "step", NULL);
    }
    TD_CHECK_THAT(td_fn_specializations(compiled.f) <= kinds, "%d specializations",
                  td_fn_specializations(compiled.f));
    net_close(&compiled);
    net_close(&eager);
}

/* ---- pieces of steps ---------------------------------------------------- */

static inline td_tensor *net_out(net *n, td_tensor *x) {
    td_tensor *h = td_gelu(td_add(td_matmul(x, n->p[0]), n->p[1]));
    return td_add(td_matmul(h, n->p[2]), n->p[3]);
}

static inline td_tensor *net_loss(net *n, td_tensor *x, td_tensor *y) {
    return td_mse_loss(net_out(n, x), y);
}

static inline void sgd(net *n, td_tensor *const *g, int first, int last,
                       td_tensor *lr) {
    td_grad_mode was = td_no_grad_begin(n->cx);
    for (int i = first; i < last; i++) {
        td_add_(td_mul_(n->m[i], 0.9), g[i]);
        td_sub_(n->p[i], td_mul(n->m[i], lr));
    }
    td_no_grad_end(n->cx, was);
}

static inline void adam(net *n, td_tensor *const *g, int first, int last,
                        td_tensor *lr) {
    td_ctx      *cx = n->cx;
    td_grad_mode was = td_no_grad_begin(cx);
    td_add_(n->t, 1.0);
    td_tensor *c1 = td_rsub(td_pow(td_full(cx, TD_SHAPE(), 0.9), n->t), 1.0);
    td_tensor *c2 = td_rsub(td_pow(td_full(cx, TD_SHAPE(), 0.999), n->t), 1.0);
    for (int i = first; i < last; i++) {
        td_mul_(n->p[i], td_rsub(td_mul(lr, 0.01), 1.0));
        td_lerp_(n->m[i], g[i], 0.1);
        td_addcmul_(td_mul_(n->s[i], 0.999), g[i], g[i], 0.001);
        td_tensor *by = td_add_(td_sqrt(td_div(n->s[i], c2)), 1e-8);
        td_sub_(n->p[i], td_mul(td_div(td_div(n->m[i], c1), by), lr));
    }
    td_no_grad_end(cx, was);
}

static inline void kept_grads(net *n, td_tensor **g) {
    for (int i = 0; i < STEP_PARAMS; i++) g[i] = td_grad_of(n->p[i]);
}

static inline void forget_grads(net *n) {
    for (int i = 0; i < STEP_PARAMS; i++) td_zero_grad(n->p[i]);
}

#endif
