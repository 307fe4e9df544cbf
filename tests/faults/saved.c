/* saved.c -- every allocation fails in turn while a function is compiled and called
 * whose saved values are packed, are in a store, or both: with symbolic sizes, other
 * strides, missing tangents and gradients of gradients. */
#include "faults.h"

/* ---- functions ---------------------------------------------------------- */

static bool layers(td_call *c) {
    td_tensor *a = td_tanh(td_matmul(td_arg(c, 0), td_arg(c, 1)));
    td_tensor *b = td_exp(td_mul(a, td_arg(c, 0)));
    return td_return(c, td_sin(td_mul(b, a)), td_mul(b, b));
}

/* Loses nothing, and hides which sizes a value has. */
static int to_rows(void *env, const td_saved_at *at, td_tensor *t, td_tensor **to) {
    (void)env, (void)at;
    if (td_dtype_of(t) != TD_F32 || td_rank(t) < 2) return 0;
    to[0] = td_transpose(td_to(t, TD_F64), 0, 1);
    to[1] = td_sum(t, TD_DIMS(0), false);
    return 2;
}

/* Row-major strides in place of others, and the other way round. */
static td_tensor *from_rows(void *env, const td_saved_at *at, td_tensor *const *from,
                            int n) {
    (void)env, (void)at, (void)n;
    td_tensor *t = td_contiguous(td_to(from[0], TD_F32));
    return td_add(td_transpose(t, 0, 1), td_mul(from[1], 0.0));
}

static bool chosen(void *env, const td_saved_at *at) {
    (void)env;
    return strcmp(at->op, "tanh") != 0;
}

/* ---- runs --------------------------------------------------------------- */

static double sum_of(td_tensor *t) { return td_item(td_sum(td_to(t, TD_F64))); }

/* Two calls of other sizes: backward from all results, from one of them, and twice
 * where `second` is set. */
static double calls(td_ctx *cx, const td_aot_opts *o, bool second) {
    td_fn *f = td_aot_function(cx, layers, NULL, o);
    double sum = 0;
    for (int i = 0; i < 2 && td_ok(cx); i++) {
        td_tensor   *x = td_requires_grad_(td_full(cx, TD_SHAPE(2 + i, 2 + i), 0.3));
        td_tensor   *w = td_requires_grad_(td_full(cx, TD_SHAPE(2 + i, 2 + i), 0.2));
        td_tensor   *y[2], *g[2];
        td_grad_opts make = {TD_GRAD_OPTS, .create_graph = second};
        if (!td_invoke(f, TD_ARGS(x, w), y, 2)) break;
        td_tensor *loss = i ? td_sum(y[0]) : td_add(td_sum(y[0]), td_sum(y[1]));
        if (!td_grad(TD_LIST(loss), TD_LIST(x, w), g, &make)) break;
        if (second) td_backward(td_sum(td_mul(g[0], g[1])));
        if (td_ok(cx)) sum += sum_of(second ? td_grad_of(w) : g[0]) + sum_of(g[1]);
    }
    td_fn_drop(f);
    return sum;
}

static td_aot_opts options(td_ctx *cx) {
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
    return (td_aot_opts){TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT};
}
static const td_packing rows = {.pack = to_rows,
                                .unpack = from_rows,
                                .filter = TD_SAVED_ALL,
                                .lossless = true};

static double packed(td_ctx *cx) {
    td_aot_opts o = options(cx);
    o.saved = rows;
    o.dynamic = TD_SHAPES_DYNAMIC;
    return calls(cx, &o, false);
}

static double packed_twice(td_ctx *cx) {
    td_aot_opts o = options(cx);
    o.saved = rows;
    return calls(cx, &o, true);
}

/* With symbolic sizes, in a store of the context's own. */
static double in_store(td_ctx *cx, td_aot_opts o, bool second) {
    td_store *s = td_store_memory(cx, "memory");
    if (td_is_nil(s)) return 0;
    o.offload.store = s;
    o.dynamic = TD_SHAPES_DYNAMIC;
    double sum = calls(cx, &o, second);
    td_store_close(s);
    return sum;
}

/* Values that are fetched two ahead, some of which stay in memory. */
static double offloaded(td_ctx *cx) {
    td_aot_opts o = options(cx);
    o.offload = (td_offload){.min_bytes = 1, .ahead = 2, .choose = chosen};
    return in_store(cx, o, true);
}

static double both(td_ctx *cx) {
    td_aot_opts o = options(cx);
    o.saved = rows;
    o.offload = (td_offload){.min_bytes = 1, .ahead = -1, .filter = TD_SAVED_NO_STATIC};
    return in_store(cx, o, false);
}

static const td_fault_case cases[] = {
    {.name = "packed", .run = packed, .slow = true},
    {.name = "twice", .run = packed_twice, .slow = true},
    {.name = "offloaded", .run = offloaded, .io = true, .slow = true},
    {.name = "both", .run = both, .io = true, .slow = true}};

int main(int argc, char **argv) {
    return fault_main(cases, TD_COUNT(cases), argc, argv);
}
