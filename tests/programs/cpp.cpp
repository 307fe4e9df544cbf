// cpp.cpp -- what C++ adds to the public headers, at work: tests/programs/headers.c
// compiles this with every C++ compiler at hand and runs it.
#include <tandem/tandem.h>

#include <cmath>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

static int failed;
static void check(bool ok, const char *what, int line) {
    if (ok) return;
    std::printf("FAIL cpp.cpp:%d: %s\n", line, what);
    failed++;
}
#define CHECK(x) check((x), #x, __LINE__)

static bool is_sized(td_tensor *t, td_ints want) {
    bool same = td_rank(t) == want.n;
    for (int i = 0; same && i < want.n; i++) same = td_size(t, i) == want.v[i];
    return same;
}

// ---- lists ------------------------------------------------------------------

// A list is finished before the call in the same expression that uses another one of
// the same line.
static td_tensor *halved(td_ctx *cx, int n) {
    if (n == 0) return td_ones(cx, TD_SHAPE(1, 64));
    return td_reshape(td_mul(halved(cx, n - 1), 2.0), TD_SHAPE(1 << n, 64 >> n));
}

static bool nested_body(td_call *c) {
    td_tensor *n = td_arg(c, 1);
    if (td_item(n) == 0) return td_return(c, td_add(td_arg(c, 0), 1.0));
    td_tensor *down = td_add(td_arg(c, 0), 1.0), *less = td_sub(n, 1.0);
    td_value   v;
    if (td_call_body(td_call_ctx(c), nested_body, nullptr, TD_ARGS(down, less), &v, 1) < 0)
        return false;
    return td_return(c, td_add(v.u.t, td_mul(td_arg(c, 0), 100.0)));
}

struct block {
    td_module *inner;
};
static bool block_forward(td_module *m, td_call *c) {
    td_module *inner = static_cast<block *>(td_module_state(m))->inner;
    td_tensor *down = td_add(td_arg(c, 0), 1.0), *up = down;
    if (inner) up = td_module_call(inner, TD_ARGS(down));
    return td_return(c, td_add(up, td_mul(td_arg(c, 0), 100.0)));
}

static void test_recursion(td_ctx *cx) {
    CHECK(is_sized(halved(cx, 3), TD_SHAPE(8, 8)));
    td_value v;
    CHECK(td_call_body(cx, nested_body, nullptr,
                       TD_ARGS(td_zeros(cx, TD_SHAPE(1)), td_full(cx, TD_SHAPE(), 3.0)),
                       &v, 1) == 1);
    CHECK(td_item(v.u.t) == 304);

    td_module_type type;
    type.name = "Block", type.bytes = sizeof(block), type.forward = block_forward;
    td_module *m = nullptr;
    for (int i = 0; i < 4; i++) {
        td_module *outer = td_module_make(cx, &type);
        if (m) {
            td_module_child(outer, "inner", m);
            td_module_follow_child(outer, "inner",
                                   &static_cast<block *>(td_module_state(outer))->inner);
        }
        m = outer;
    }
    CHECK(td_item(td_module_call(m, TD_ARGS(td_zeros(cx, TD_SHAPE(1))))) == 604);
    td_module_free(m);
    CHECK(td_ok(cx));
}

static void test_nesting(td_ctx *cx) {
    td_module *net = td_nn_sequential(
        cx, TD_MODULES(td_nn_conv2d(cx, 1, 4, TD_SHAPE(3, 3), nullptr), td_nn_relu(cx)));
    td_tensor *x = td_randn(cx, TD_SHAPE(2, 1, 8, 8));
    td_tensor *y =
        td_cat(TD_LIST(td_reshape(x, TD_SHAPE(-1)), td_reshape(x, TD_SHAPE(-1))));
    CHECK(is_sized(y, TD_SHAPE(256)));
    td_module *id = td_nn_sequential(cx, TD_MODULES());
    CHECK(is_sized(td_module_call(id, TD_ARGS(td_module_call(net, TD_ARGS(x)))),
                   TD_SHAPE(2, 4, 6, 6)));
    CHECK(td_ok(cx));
}

static const auto shape = TD_SHAPE(2, 3);
static td_int_list kept = TD_SHAPE(3, 2);
struct settings {
    td_int_list kernel = TD_SHAPE(3, 3);
};
static td_tensor *zeros(td_ctx *cx, td_ints s = TD_SHAPE(4)) { return td_zeros(cx, s); }

// Overwrites the stack where a list that is gone would have been.
static int overwrite(int n) {
    volatile int64_t there[64];
    for (int i = 0; i < 64; i++) there[i] = n;
    return (int)there[n % 64];
}

static void test_scopes(td_ctx *cx) {
    auto [rows, columns] = std::pair<int, long>(2, 3);
    CHECK(is_sized(td_zeros(cx, TD_SHAPE(rows, columns)), shape));
    CHECK(is_sized(td_zeros(cx, shape), TD_SHAPE(2, 3)));
    CHECK(is_sized(td_zeros(cx, kept), TD_SHAPE(3, 2)));
    CHECK(is_sized(zeros(cx), TD_SHAPE(4)));
    settings s;
    CHECK(is_sized(td_zeros(cx, s.kernel), TD_SHAPE(3, 3)));

    auto named = TD_SHAPE(5, 6);
    auto copy = named;
    named.v[0] = 7;
    overwrite(1);
    CHECK(is_sized(td_zeros(cx, copy), TD_SHAPE(5, 6)));
    CHECK(is_sized(td_zeros(cx, named), TD_SHAPE(7, 6)));
    td_tensor *x = td_ones(cx, TD_SHAPE(2));
    auto       two = TD_LIST(x, x);
    auto       values = TD_ARGS(x, 2, nullptr);
    overwrite(2);
    CHECK(is_sized(td_cat(two), TD_SHAPE(4)));
    CHECK(values.n == 3 && values.v[1].u.i == 2);

    auto many = TD_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2);
    CHECK(td_rank(td_zeros(cx, many)) == 20);
    auto parts = TD_LIST(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x);
    CHECK(is_sized(td_cat(parts), TD_SHAPE(40)));

    std::vector<int64_t> sizes = {2, 4};
    CHECK(is_sized(td_zeros(cx, TD_SHAPE_OF(sizes.data(), sizes.size())), TD_SHAPE(2, 4)));
    CHECK(is_sized(td_tensor1(cx, 1, 2.5f, 3u), TD_SHAPE(3)));
    CHECK(::td_ok(cx));
    ::td_clear(cx);
    td_tensor *sum = ::td_add(x, ::td_mul(x, 2));
    CHECK(td_item(td_sum(sum)) == 6);
}

// Lists in options: the options own them.
static td_nn_conv_opts conv_opts(int stride) {
    td_nn_conv_opts o;
    o.stride = TD_SHAPE(stride, stride);
    o.padding = TD_SHAPE(1, 1);
    return o;
}

static void test_options(td_ctx *cx) {
    td_nn_conv_opts o = conv_opts(2), other = o;
    o = other;
    o = td_nn_conv_opts(o);
    overwrite(3);
    td_module *conv = td_nn_conv2d(cx, 1, 1, TD_SHAPE(3, 3), &o);
    td_tensor *x = td_ones(cx, TD_SHAPE(1, 1, 8, 8));
    CHECK(is_sized(td_module_call(conv, TD_ARGS(x)), TD_SHAPE(1, 1, 4, 4)));

    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(2))), *g;
    td_grad_opts by;
    by.grads = TD_LIST(td_full(cx, TD_SHAPE(2), 3.0));
    overwrite(4);
    CHECK(td_grad(TD_LIST(td_mul(w, 2)), TD_LIST(w), &g, &by));
    CHECK(td_item(td_sum(g)) == 12);
#if __cplusplus >= 202002L
    conv = td_nn_conv2d(cx, 1, 1, TD_SHAPE(3, 3),
                        TD_OPTS(td_nn_conv_opts, .stride = TD_SHAPE(3, 3)));
    CHECK(is_sized(td_module_call(conv, TD_ARGS(x)), TD_SHAPE(1, 1, 2, 2)));
#endif
    CHECK(td_ok(cx));
}

// ---- nothing ----------------------------------------------------------------

static bool with_bias(td_call *c) {
    td_tensor *b = td_arg(c, 1);
    return td_return(c, b ? td_add(td_arg(c, 0), b) : td_arg(c, 0), nullptr, 1, 2.0, true);
}

static void test_nullptr(td_ctx *cx) {
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3)), *i = td_arange(cx, 2);
    td_value   v[5];
    CHECK(td_call_body(cx, with_bias, nullptr, TD_ARGS(x, nullptr), v, 5) == 5);
    CHECK(v[2].kind == TD_K_INT && v[3].kind == TD_K_FLOAT && v[4].kind == TD_K_BOOL);
    CHECK(td_item(td_sum(td_clamp(td_neg(x), nullptr, 0.5))) == -6);
    CHECK(is_sized(td_index(x, TD_LIST(nullptr, i)), TD_SHAPE(2, 2)));
    CHECK(is_sized(td_index(x, TD_LIST(NULL, i)), TD_SHAPE(2, 2)));
    CHECK(td_is_nil(nullptr) && td_is_nil(NULL) && !td_is_nil(x));
    CHECK(is_sized(td_linear(x, td_ones(cx, TD_SHAPE(4, 3)), NULL), TD_SHAPE(2, 4)));
    CHECK(td_cat(TD_LIST()) && !td_ok(cx));
    td_clear(cx);
}

// ---- arrays ------------------------------------------------------------------

static bool fails(td_ctx *cx, td_code code) {
    bool so = td_error(cx) == code;
    td_clear(cx);
    return so;
}

static void test_arrays(td_ctx *cx) {
    std::vector<double>     d{1, 2, 3, 4};
    const std::vector<long> l{1, 2};
    float                   f[3] = {1, 2, 3}, to[4];
    td_tensor              *t = td_from(cx, TD_F64, TD_SHAPE(2, 2), d.data());
    CHECK(td_item(td_sum(t)) == 10);
    CHECK(td_item(td_sum(td_from(cx, TD_I64, TD_SHAPE(2), l.data()))) == 3);
    CHECK(td_item(td_sum(td_from(cx, TD_F32, TD_SHAPE(3), f))) == 6);
    CHECK(td_read(t, TD_F32, to, sizeof to) && to[3] == 4);
    CHECK(td_ok(cx));
    td_from(cx, TD_F32, TD_SHAPE(2, 2), d.data());
    CHECK(fails(cx, TD_E_DTYPE));
    td_from(cx, TD_F32, TD_SHAPE(2, 2), f);
    CHECK(fails(cx, TD_E_ARG));
    CHECK(!td_read(t, TD_F32, d.data(), 4 * sizeof(double)) && fails(cx, TD_E_DTYPE));
    CHECK(td_is_nil(td_from(cx, TD_F32, TD_SHAPE(1), nullptr)) && fails(cx, TD_E_ARG));
}

// ---- exceptions ---------------------------------------------------------------

static bool throws(td_call *c) {
    td_add(td_arg(c, 0), 1);
    throw std::runtime_error("no such file");
}
static bool throws_int(td_module *, td_call *) { throw 3; }
static td_tensor *throws_memory(td_tensor *) { throw std::bad_alloc(); }
static bool region(void *, td_tensor *const *, int, td_tensor **, int) { throw 4; }

static bool said(td_ctx *cx, const char *what) {
    bool is = std::string(td_message(cx)).find(what) != std::string::npos;
    if (!is) std::printf("message: %s\n", td_message(cx));
    td_clear(cx);
    return is;
}

static void test_exceptions(td_ctx *cx) {
    td_tensor *x = td_ones(cx, TD_SHAPE(3)), *y;
    td_fn     *f = td_aot_function(cx, td_catch<throws>, nullptr, nullptr);
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(said(cx, "exception: no such file"));
    CHECK(td_item(td_sum(td_add(x, 1))) == 6);
    td_value v;
    CHECK(td_call_body(cx, td_catch<throws>, nullptr, TD_ARGS(x), &v, 1) < 0);
    CHECK(said(cx, "exception: no such file"));
    td_module_type type;
    type.name = "Thrower", type.forward = td_catch<throws_int>;
    td_module *m = td_module_make(cx, &type);
    CHECK(td_is_nil(td_module_call(m, TD_ARGS(x))));
    CHECK(said(cx, "not a std::exception"));
    td_module_free(m); // before its type
    td_module_call(td_nn_function(cx, td_catch<throws_memory>), TD_ARGS(x));
    CHECK(td_error(cx) == TD_E_MEMORY);
    td_clear(cx);
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    CHECK(!td_checkpoint(cx, td_catch<region>, nullptr, TD_LIST(w), &y, 1));
    CHECK(said(cx, "not a std::exception"));
    CHECK(td_item(td_sum(td_add(x, 1))) == 6);
    td_fn_drop(f);
}

int main() {
    td_ctx *cx = td_open();
    test_recursion(cx);
    test_nesting(cx);
    test_scopes(cx);
    test_options(cx);
    test_nullptr(cx);
    test_arrays(cx);
    test_exceptions(cx);
    td_close(cx);
    return failed != 0;
}
