/* types.c -- every allocation fails in turn while functions of tensors of a type are
 * compiled, called and differentiated: types in types, symbolic sizes, writes, copies,
 * branches, loops and regions, inner tensors that arguments share, gradients of another
 * type, plain conversions. */
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

static bool sine(td_call *c) { return td_return(c, td_sin(td_arg(c, 0))); }
static bool product(td_call *c) {
    return td_return(c, td_tanh(td_mul(td_arg(c, 0), td_arg(c, 1))));
}
static bool doubles(td_call *c) {
    return td_return(c, td_add(td_mul_(td_arg(c, 0), 2.0), 1.0));
}

/* Branches of a pair: of one, the gradients are saved; the other writes its operand. */
static bool branches(td_call *c) {
    td_tensor  *a = td_arg(c, 0), *b = td_arg(c, 1), *x = td_mul(a, 1.5), *y, *z;
    td_tensor  *yes = td_gt(td_sum(td_mul(td_detach(b), td_detach(b))), 0.0);
    td_branches pure = {.yes = product, .no = sine};
    td_branches dirty = {.yes = doubles, .no = sine};
    return td_cond(yes, pure, TD_ARGS(a, b), &y, 1) &&
           td_cond(yes, dirty, TD_ARGS(x), &z, 1) &&
           td_return(c, td_add(y, z), td_sin(b));
}

static bool below_two(td_call *c) { return td_return(c, td_lt(td_arg(c, 1), 2.0)); }
static bool iterates(td_call *c) {
    td_tensor *b = td_call_env(c);
    return td_return(c, td_sin(td_mul(td_arg(c, 0), b)), td_add(td_arg(c, 1), 1.0));
}

/* A loop whose state is a pair, which closes over a tensor that takes a gradient. */
static bool loops(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *y[2], *b = td_arg(c, 1);
    td_loop    of = {below_two, iterates, b};
    td_tensor *n = td_zeros(cx, (td_ints){0});
    return td_while(cx, of, TD_LIST(td_arg(c, 0), n), y) &&
           td_return(c, y[0], td_sin(b));
}

/* One region, twice: the results of the first call are pairs. */
static bool regions(td_call *c) {
    td_region_body of = {.body = product, .name = "product", .once = true};
    td_tensor     *x = td_arg(c, 0), *b = td_arg(c, 1);
    return td_call_region(td_call_ctx(c), of, TD_ARGS(x, b), &x, 1) &&
           td_call_region(td_call_ctx(c), of, TD_ARGS(x, b), &x, 1) &&
           td_return(c, x, td_sin(b));
}

/* Each argument is written through the whole or a view, and read after the others. */
static bool writes_each(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1), *a = td_arg(c, 2);
    td_mul_(x, 2.0);
    td_tensor *p = td_add(y, 1.0);
    td_add_(a, 0.5);
    td_tensor *q = td_mul(x, y);
    td_neg_(td_transpose(y, 0, 1));
    td_add_(td_select(x, 0, 0), 1.0);
    return td_return(c, p, q, td_add(a, 1.0), td_add(x, y));
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

static double branched(td_ctx *cx) { return calls(cx, branches, pair, true, true); }
static double looped(td_ctx *cx) { return calls(cx, loops, pair, false, true); }
static double called(td_ctx *cx) { return calls(cx, regions, pair, true, true); }

/* Pairs share an inner tensor with each other and with a plain argument. */
static double shared(td_ctx *cx) {
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
    td_tensor *a = noise(cx, 4), *row = td_slice(a, 0, 1, 3, 1), *y[4];
    td_tensor *x = pair_of(row, noise(cx, 2), "m"),
              *b = pair_of(noise(cx, 2), row, "m");
    td_fn *f = td_aot_function(cx, writes_each, NULL, NULL);
    double sum = 0;
    if (td_invoke(f, TD_ARGS(x, b, a), y, 4)) {
        sum = sum_of(x) + 3 * sum_of(b) + 5 * sum_of(a);
        for (int i = 0; i < 4; i++) sum += (i + 7) * sum_of(y[i]);
    }
    td_fn_drop(f);
    return td_ok(cx) ? sum : 0;
}

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

static const td_fault_case cases[] = {
    {.name = "sizes", .run = sizes, .slow = true},
    {.name = "nested", .run = inside, .slow = true},
    {.name = "written", .run = written, .slow = true},
    {.name = "made", .run = made, .slow = true},
    {.name = "branched", .run = branched, .slow = true},
    {.name = "looped", .run = looped, .slow = true},
    {.name = "called", .run = called, .slow = true},
    {.name = "shared", .run = shared},
    {.name = "coerced", .run = coerced, .slow = true}};

int main(int argc, char **argv) {
    return fault_main(cases, TD_COUNT(cases), argc, argv);
}
