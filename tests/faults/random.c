/* random.c -- every allocation fails in turn while functions that draw random numbers
 * are compiled to graphs that take the generator's state (functional_rng), called and
 * differentiated. */
#include "faults.h"

/* ---- bodies ------------------------------------------------------------- */

static bool draws(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *x = td_arg(c, 0), *h = td_dropout(td_mul(x, td_arg(c, 1)), 0.5, true);
    td_tensor *p = td_softmax(x, 1), *n = td_to(td_multinomial(p, 2, true), TD_F32);
    td_tensor *m = td_to(td_multinomial(p, 2, false), TD_F32);
    h = td_mul(td_dropout(h, 0.5, false), td_rand_like(h));
    h = td_add(h, td_to(td_randint(cx, 9, TD_SHAPE(3)), TD_F32));
    return td_return(c, td_add(h, td_sum(td_add(n, m))), td_randn_like(h));
}

/* The backward repeats a draw and draws anew. */
static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env, (void)n_in, (void)n_out;
    out[0] = td_sin(td_dropout(td_sin(in[0]), 0.5));
    return true;
}
static bool noisy_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                     int n_out) {
    (void)f, (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], 2.0);
    return true;
}
static bool noisy_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                     int n_in) {
    (void)f, (void)n, (void)n_in;
    grad[0] = td_mul(g[0], td_rand_like(g[0]));
    return true;
}
static bool repeats(td_call *c) {
    static const td_function fn = {"noisy", noisy_fw, noisy_bw, NULL};
    td_tensor *x = td_mul(td_arg(c, 0), td_arg(c, 1)), *y = NULL, *h = NULL;
    return td_function_call(td_call_ctx(c), &fn, NULL, TD_LIST(x), &y, 1) &&
           td_checkpoint(td_call_ctx(c), region, NULL, TD_LIST(y), &h, 1) &&
           td_return(c, td_mul(h, td_rand_like(h)), td_rand_like(h));
}

/* Draws inside a branch. */
static bool noisy(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_add(x, td_rand_like(x)));
}
static bool quiet(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 2.0)); }
static bool branches(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *h = NULL;
    td_branches of = {.yes = noisy, .no = quiet};
    td_tensor  *on = td_gt(td_sum(td_arg(c, 1)), 0.0);
    return td_cond(on, of, TD_ARGS(x), &h, 1) &&
           td_return(c, td_add(h, td_rand_like(x)), td_rand_like(x));
}

/* ---- runs --------------------------------------------------------------- */

static double sum_of(td_tensor *t) { return td_item(td_sum(td_to(t, TD_F64))); }

static double calls(td_ctx *cx, td_body *body, bool dynamic) {
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
    td_aot_opts o = {TD_AOT_OPTS, .functional_rng = true};
    if (dynamic) o.dynamic = TD_SHAPES_DYNAMIC;
    td_fn *f = td_aot_function(cx, body, NULL, &o);
    double sum = 0;
    for (int i = 0; i < 2 && td_ok(cx); i++) {
        td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(4 + i, 3), 0.3)), *y[2];
        td_tensor *w = td_full(cx, TD_SHAPE(3), 0.2);
        td_rng_set(cx, 7, 40);
        if (td_invoke(f, TD_ARGS(x, w), y, 2) && td_backward(td_sum(y[0])))
            sum += sum_of(td_grad_of(x)) + sum_of(y[0]) + sum_of(y[1]);
        sum += (double)td_rng_offset(cx);
    }
    td_fn_drop(f);
    return td_ok(cx) ? sum : 0;
}

static double plain(td_ctx *cx) { return calls(cx, draws, false); }
static double sizes(td_ctx *cx) { return calls(cx, draws, true); }
static double repeated(td_ctx *cx) { return calls(cx, repeats, false); }
static double branched(td_ctx *cx) { return calls(cx, branches, true); }

static const td_fault_case cases[] = {
    {.name = "plain", .run = plain, .slow = true},
    {.name = "sizes", .run = sizes, .slow = true},
    {.name = "repeated", .run = repeated, .slow = true},
    {.name = "branched", .run = branched, .slow = true}};

int main(int argc, char **argv) {
    return fault_main(cases, TD_COUNT(cases), argc, argv);
}
