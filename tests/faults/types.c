/* types.c -- every allocation fails in turn while functions of tensors of a type are
 * compiled, called and differentiated: types in types, symbolic sizes, writes, copies,
 * gradients of another type, plain conversions. */
#include "faults.h"

/* ---- types -------------------------------------------------------------- */

static bool each(void *env, td_mode_call *h) {
    (void)env;
    return td_type_each(h);
}
static td_tensor *first(void *env, td_tensor *t) {
    (void)env;
    return td_type_inner(t, 0);
}

/* A pair of another text becomes a pair of this one, or its first tensor. */
static td_tensor *coerce(void *env, td_tensor *g, const td_type *type,
                         const char *metadata) {
    (void)env;
    td_tensor *a = td_type_inner(g, 0), *b = td_type_inner(g, 1);
    if (!type) return td_clone(a);
    return td_type_make(type, TD_LIST(a, b), metadata, td_sizes(g), (td_ints){0},
                        TD_F32);
}

static td_tensor *pair_of(td_tensor *a, td_tensor *b, const char *text) {
    static const char *const names[] = {"a", "b"};
    const td_type           *type =
        td_register_type(td_ctx_of(a),
                         &(td_type_opts){TD_TYPE_OPTS, .name = "types_pair",
                                         .inner = names, .n_inner = 2, .call = each,
                                         .plain = first, .coerce = coerce,
                                         .version = 1});
    if (!type) return td_nil(td_ctx_of(a));
    return td_type_make(type, TD_LIST(a, b), text, td_sizes(a), (td_ints){0}, TD_F32);
}

static td_tensor *noise(td_ctx *cx, int64_t n) {
    return td_mul(td_randn(cx, TD_SHAPE(n, 3)), 0.5);
}
static td_tensor *pair(td_ctx *cx, int64_t n) {
    return pair_of(noise(cx, n), noise(cx, n), "m");
}

/* The sum of all elements that t consists of. */
static double sum_of(td_tensor *t) {
    double sum = 0;
    if (td_is_nil(t)) return 0;
    for (int i = 0; i < td_type_inner_count(t); i++)
        sum += (i + 1) * sum_of(td_type_inner(t, i));
    return td_type_of(t) ? sum : td_item(td_sum(td_to(t, TD_F64)));
}

/* ---- bodies ------------------------------------------------------------- */

static bool smooth(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    return td_return(c, td_mul(td_tanh(td_mul(a, b)), a), td_sin(b));
}

/* Writes an argument and a view of it, and returns the argument and a copy. */
static bool writes(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    td_mul_(a, 2.0);
    td_add_(td_select(a, 0, 1), 1.0);
    return td_return(c, td_mul(td_clone(a), b), a);
}

/* Makes a pair inside, reads an inner tensor, returns a pair of pairs. */
static bool makes(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    td_tensor *p = pair_of(td_sin(b), td_mul(b, 2.0), "m");
    return td_return(c, td_mul(a, p), pair_of(p, td_neg(p), "outer"));
}

/* ---- runs --------------------------------------------------------------- */

typedef td_tensor *makes_argument(td_ctx *cx, int64_t n);

/* Two calls of other sizes, the second with a missing tangent. */
static double calls(td_ctx *cx, td_body *body, makes_argument *make, bool dynamic,
                    bool leaf) {
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
    td_aot_opts o = {TD_AOT_OPTS};
    if (dynamic) o.dynamic = TD_SHAPES_DYNAMIC;
    td_fn *f = td_aot_function(cx, body, NULL, &o);
    double sum = 0;
    for (int i = 0; i < 2 && td_ok(cx); i++) {
        td_tensor *x = make(cx, 2 + i), *y[2];
        td_tensor *b = td_requires_grad_(noise(cx, 2 + i));
        if (leaf) td_requires_grad_(x);
        if (!td_invoke(f, TD_ARGS(x, b), y, 2)) break;
        td_tensor *a = td_sum(y[0]), *z = td_sum(td_mul(y[1], y[1]));
        if (i || !td_requires_grad(z)) td_backward(a);
        else td_backward_with(TD_LIST(a, z), (td_tensors){0}, NULL);
        sum += sum_of(x) + sum_of(y[0]) + sum_of(y[1]) + sum_of(td_grad_of(b));
        if (leaf && td_ok(cx)) sum += sum_of(td_grad_of(x));
    }
    td_fn_drop(f);
    return td_ok(cx) ? sum : 0;
}

static td_tensor *nested(td_ctx *cx, int64_t n) {
    return pair_of(pair(cx, n), pair(cx, n), "outer");
}

static double sizes(td_ctx *cx) { return calls(cx, smooth, pair, true, true); }
static double inside(td_ctx *cx) { return calls(cx, smooth, nested, false, true); }
static double written(td_ctx *cx) { return calls(cx, writes, nested, true, false); }
static double made(td_ctx *cx) { return calls(cx, makes, pair, false, true); }

/* Gradients of other metadata, and plain ones, are converted. */
static double coerced(td_ctx *cx) {
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
    td_fn     *f = td_aot_function(cx, smooth, NULL, NULL);
    td_tensor *x = td_requires_grad_(pair(cx, 2)), *b = td_requires_grad_(noise(cx, 2));
    td_tensor *y[2];
    if (td_invoke(f, TD_ARGS(x, b), y, 2)) {
        td_tensor *g = pair_of(noise(cx, 2), noise(cx, 2), "other");
        td_tensor *h = pair_of(noise(cx, 2), noise(cx, 2), "m");
        td_backward_with(TD_LIST(y[0], y[1]), TD_LIST(g, h), NULL);
    }
    double sum = td_ok(cx) ? sum_of(td_grad_of(x)) + sum_of(td_grad_of(b)) : 0;
    td_fn_drop(f);
    return sum;
}

static const td_fault_case cases[] = {{.name = "sizes", .run = sizes, .slow = true},
                                      {.name = "nested", .run = inside, .slow = true},
                                      {.name = "written", .run = written, .slow = true},
                                      {.name = "made", .run = made, .slow = true},
                                      {.name = "coerced",
                                       .run = coerced,
                                       .slow = true}};

int main(int argc, char **argv) {
    return fault_main(cases, TD_COUNT(cases), argc, argv);
}
