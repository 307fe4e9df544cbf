/* aot.c -- a function with a written argument, results in one storage and random
 * numbers, under failing allocations: compiled, called, differentiated once and twice.
 * A call that fails may be made again. */
#include "faults.h"

static bool layer(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *seen = td_arg(c, 2);
    td_add_(seen, td_mean(x, TD_DIMS(0), false));
    td_tensor *h = td_tanh(td_add(td_matmul(x, w), seen));
    return td_return(c, h, td_transpose(h, 0, 1), td_dropout(h, 0.5, true), 2.0);
}

/* History ends inside, and a custom function has its own backward. */
static bool twice(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)n_in, (void)n;
    out[0] = td_mul(in[0], in[0]);
    return td_fcall_save(f, TD_LIST(in[0]));
}
static bool twice_back(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                       int n_in) {
    (void)n, (void)n_in;
    grad[0] = td_mul(td_mul(g[0], td_fcall_saved(f, 0)), 2.0);
    return true;
}
static bool cut(td_call *c) {
    static const td_function fn = {"twice", twice, twice_back, NULL};
    td_tensor               *x = td_arg(c, 0), *w = td_arg(c, 1), *y;
    td_tensor               *h = td_mul(x, td_detach(td_exp(x)));
    td_mul_(td_arg(c, 2), 2.0);
    if (!td_function_call(td_call_ctx(c), &fn, NULL, TD_LIST(td_matmul(h, w)), &y, 1))
        return false;
    return td_return(c, y, td_select(y, 0, 1), td_add(y, h), 1.0);
}

/* A loop, which has no second gradients. */
static bool below(td_call *c) {
    return td_return(c, td_lt(td_sum(td_arg(c, 0)), 20.0));
}
static bool grown(td_call *c) {
    td_tensor *w = td_call_env(c), *y = td_mul(td_arg(c, 0), td_add(w, 1.5));
    return td_return(c, y, td_add(td_arg(c, 1), td_sum(y)));
}
static bool looping(td_call *c) {
    td_tensor *y[2];
    td_loop    of = {below, grown, td_arg(c, 1)};
    td_tensor *zero = td_zeros(td_call_ctx(c), TD_SHAPE());
    return td_while(td_call_ctx(c), of, TD_LIST(td_arg(c, 0), zero), y) &&
           td_return(c, y[0], y[1]);
}

static double sum_of(td_tensor *t) { return td_item(td_sum(td_to(t, TD_F64))); }

static double grad_sum(td_tensor *t) {
    return td_has_grad(t) ? sum_of(td_grad_of(t)) : 0;
}

/* Two calls: one goes backward, one takes gradients of gradients. */
static double steps(td_ctx *cx, td_fn *f) {
    td_grad_opts make = {TD_GRAD_OPTS, .create_graph = true};
    td_tensor   *x = td_requires_grad_(td_mul(td_ones(cx, TD_SHAPE(3, 3)), 0.3));
    td_tensor   *w = td_requires_grad_(td_mul(td_ones(cx, TD_SHAPE(3, 3)), 0.2));
    td_tensor   *seen = td_zeros(cx, TD_SHAPE(3)), *y[3], *g[2];
    td_invoke(f, TD_ARGS(x, w, seen), y, 3);
    td_backward(td_add(td_sum(y[1]), td_sum(y[2])));
    td_invoke(f, TD_ARGS(x, w, td_detach(seen)), y, 3);
    if (td_grad(TD_LIST(td_sum(td_mul(y[0], y[2]))), TD_LIST(x, w), g, &make))
        td_backward(td_sum(td_mul(g[0], g[0])));
    if (!td_ok(cx)) return 0;
    return grad_sum(w) + grad_sum(x) + sum_of(seen);
}

static double run(td_ctx *cx, td_body *body, const td_aot_opts *opts) {
    td_fn *f = td_aot_function(cx, body, NULL, opts);
    bool   made = !td_is_nil(f);
    double sum = made ? steps(cx, f) : 0;
    if (made && !td_ok(cx)) { /* the function is still good */
        td_clear(cx);
        (void)steps(cx, f);
        if (td_ok(cx)) td_fail(cx, TD_E_MEMORY, "once");
    }
    td_fn_drop(f);
    return sum;
}

static double plain(td_ctx *cx) {
    td_aot_opts o = {TD_AOT_OPTS, .name = "layer"};
    return run(cx, layer, &o);
}
static double kept(td_ctx *cx) {
    td_aot_opts o = {TD_AOT_OPTS, .keep_mutations = true,
                     .partition = TD_PARTITION_DEFAULT};
    return run(cx, layer, &o);
}
static double cut_inside(td_ctx *cx) { return run(cx, cut, NULL); }

/* One result alone: the other tangent is missing. Drops f. */
static double backward_of(td_ctx *cx, td_fn *f) {
    td_tensor *x = td_requires_grad_(td_mul(td_ones(cx, TD_SHAPE(3)), 0.3)), *y[2];
    td_tensor *w = td_requires_grad_(td_mul(td_ones(cx, TD_SHAPE(3)), 0.2));
    if (td_invoke(f, TD_ARGS(x, w), y, 2)) td_backward(td_sum(y[1]));
    double sum = td_ok(cx) ? grad_sum(w) + grad_sum(x) : 0;
    td_fn_drop(f);
    return sum;
}

static int pack(void *env, const td_saved_at *at, td_tensor *t, td_tensor **to) {
    (void)env, (void)at;
    if (td_dtype_of(t) != TD_F32 || td_rank(t) == 0) return 0;
    to[0] = td_mul(t, 0.5);
    to[1] = td_transpose(to[0], 0, -1);
    return 2;
}
static td_tensor *unpack(void *env, const td_saved_at *at, td_tensor *const *from,
                         int n) {
    (void)env, (void)at, (void)n;
    return td_add(from[0], td_transpose(from[1], 0, -1));
}
static bool waves(td_call *c) {
    td_tensor *a = td_exp(td_mul(td_arg(c, 0), td_arg(c, 1)));
    return td_return(c, a, td_sin(a));
}
static double packed(td_ctx *cx) {
    td_aot_opts o = {TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT,
                     .saved = {.pack = pack, .unpack = unpack, .filter = TD_SAVED_ALL}};
    return backward_of(cx, td_aot_function(cx, waves, NULL, &o));
}

/* In a store of the context's own. */
static double offloaded_to(td_ctx *cx, td_store *s) {
    td_aot_opts o = {TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT,
                     .offload = {.store = s, .min_bytes = 1, .filter = TD_SAVED_ALL}};
    if (td_is_nil(s)) return 0;
    double sum = backward_of(cx, td_aot_function(cx, waves, NULL, &o));
    td_store_close(s);
    return sum;
}
static double offloaded(td_ctx *cx) {
    return offloaded_to(cx, td_store_memory(cx, "memory"));
}
static double offloaded_file(td_ctx *cx) {
    return offloaded_to(cx, td_store_file(cx, "disk", "/tmp"));
}

static double looped(td_ctx *cx) {
    return backward_of(cx, td_aot_function(cx, looping, NULL, NULL));
}

/* A tensor of a type as argument, result and gradient. */
static bool each(void *env, td_mode_call *h) {
    (void)env;
    return td_type_each(h);
}
static bool typed_body(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(td_sin(x), x));
}
static double typed(td_ctx *cx) {
    static const char *const names[] = {"a", "b"};
    const td_type           *type =
        td_register_type(cx, &(td_type_opts){TD_TYPE_OPTS, .name = "fault_pair",
                                             .inner = names, .n_inner = 2, .call = each,
                                             .version = 1});
    td_tensor *a = td_randn(cx, TD_SHAPE(2, 3)), *y = NULL;
    td_tensor *x = td_requires_grad_(td_type_make(type, TD_LIST(a, td_neg(a)), "m",
                                                  td_sizes(a), (td_ints){0}, TD_F32));
    td_fn     *f = td_aot_function(cx, typed_body, NULL, NULL);
    double     sum = 0;
    if (td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(td_sum(y)))
        sum = td_item(td_sum(td_type_inner(td_grad_of(x), 0)));
    td_fn_drop(f);
    return sum;
}

static const td_fault_case cases[] = {
    {.name = "plain", .run = plain},
    {.name = "kept", .run = kept},
    {.name = "cut", .run = cut_inside},
    {.name = "packed", .run = packed},
    {.name = "offloaded", .run = offloaded, .io = true},
    {.name = "offloaded_file", .run = offloaded_file, .io = true},
    {.name = "looped", .run = looped},
    {.name = "typed", .run = typed}};

int main(int argc, char **argv) {
    return fault_main(cases, TD_COUNT(cases), argc, argv);
}
