/* native_dynamic.c -- native code for many sizes: the same kernels as for one, and what
 * eager computes at each. */
#include "aot_help.h"

#include "trace/sym.h"
#include "trace/trace.h"

enum { WIDE = 16 };

/* Norm, gelu, softmax and a loss between two products. */
static bool network(td_call *c) {
    td_tensor *x = td_arg(c, 0), *up = td_arg(c, 1), *down = td_arg(c, 2);
    td_tensor *h = td_layer_norm(x, TD_SHAPE(WIDE), td_arg(c, 3), td_arg(c, 4));
    h = td_matmul(td_gelu(td_matmul(h, up)), down);
    h = td_mul(td_softmax(h, 1), td_add(x, td_mean(x)));
    return td_return(c, td_cross_entropy(h, td_arg(c, 5)));
}

static void make_args(td_ctx *cx, int64_t rows, td_tensor **a) {
    td_rng_set(cx, (uint64_t)rows, 0);
    a[0] = td_requires_grad_(td_randn(cx, TD_SHAPE(rows, WIDE)));
    a[1] = td_requires_grad_(td_randn(cx, TD_SHAPE(WIDE, 32)));
    a[2] = td_requires_grad_(td_randn(cx, TD_SHAPE(32, WIDE)));
    a[3] = td_requires_grad_(td_randn(cx, TD_SHAPE(WIDE)));
    a[4] = td_requires_grad_(td_randn(cx, TD_SHAPE(WIDE)));
    a[5] = td_to(td_mul(td_rand(cx, TD_SHAPE(rows)), WIDE - 0.5), TD_I64);
}

/* Settings are those of the call that compiles. */
static td_tensor *call(td_fn *f, const char *backend, const char *dynamic,
                       td_tensor **a) {
    td_tensor *loss = NULL;
    td_config_set(f->cx, "backend", backend);
    td_config_set(f->cx, "dynamic", dynamic);
    td_invoke(f, TD_ARGS(a[0], a[1], a[2], a[3], a[4], a[5]), &loss, 1);
    td_backward(loss);
    return loss;
}

static char said[1 << 16];

/* Lines that name kernels and calls, without sizes, bytes and where these lie. */
static void kernels_of(td_fn *f, char *to) {
    td_explain(f, said, sizeof said);
    bool in = false;
    *to = 0;
    for (char *line = said, *next; *line; line = next) {
        next = line + strcspn(line, "\n") + 1;
        if (!strncmp(line + 2, "forward code", 12) ||
            !strncmp(line + 2, "backward code", 13))
            in = true;
        else if (strncmp(line, "    ", 4)) in = false;
        int  n = (int)(next - line - 1);
        bool memory =
            !strncmp(line + 4, "peak memory", 11) || !strncmp(line + 4, "arena:", 6);
        if (in && !memory) sprintf(to + strlen(to), "%.*s\n", n > 56 ? 56 : n, line);
    }
}

TEST(one_kernel_serves_all_sizes_fused_as_for_one) {
    td_ctx     *cx = td_open();
    static char fixed[8192], any[8192];
    td_tensor  *a[6];
    td_fn      *f = td_aot_function(cx, network, NULL, NULL);
    td_fn      *g = td_aot_function(cx, network, NULL, NULL);
    make_args(cx, 8, a);
    call(f, "native", "off", a);
    call(g, "native", "on", a);
    CHECK_OK(cx);
    kernels_of(f, fixed);
    kernels_of(g, any);
    CHECK(strstr(said, "s0") != NULL);
    CHECK(strstr(fixed, "forward code: ") && strstr(fixed, "backward code: "));
    CHECK_STR(any, fixed);
    CHECK(!strstr(any, "softmax") && !strstr(any, "layer_norm") &&
          !strstr(any, "mean"));
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

static void check_close(td_tensor *a, td_tensor *b) {
    double far = td_item(td_max(td_abs(td_sub(a, b))));
    CHECK(far <= 1e-5 * (1 + td_item(td_max(td_abs(a)))));
}

TEST(every_size_gives_what_eager_gives) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, network, NULL, NULL);
    td_fn  *slow = td_aot_function(cx, network, NULL, NULL);
    for (int64_t rows = 2; rows < 4000; rows = rows * 5 - 3) {
        td_tensor *a[6], *b[6];
        make_args(cx, rows, a);
        make_args(cx, rows, b);
        td_tensor *x = call(f, "native", "on", a);
        td_tensor *y = call(slow, "interp", "off", b);
        CHECK_OK(cx);
        check_close(x, y);
        for (int i = 0; i < 5; i++) check_close(td_grad_of(a[i]), td_grad_of(b[i]));
    }
    CHECK(f->n_specs == 1);
    td_fn_drop(f);
    td_fn_drop(slow);
    td_close(cx);
}

/* ---- from types alone --------------------------------------------------- */

static td_graph *parse(td_ctx *cx, td_gfile **file, const char *text) {
    *file = td__gfile_parse(cx, text, strlen(text), "t.td");
    CHECK_OK(cx);
    return *file ? (*file)->graphs.v[0] : NULL;
}

static void check_simpler(const char *text, const char *want) {
    td_ctx   *cx = td_open();
    td_gfile *file;
    td_graph *g = parse(cx, &file, text), *to = td__graph_decompose(g, "all");
    td_buf    b = {0};
    if (to) td__graph_print(&b, to, TD_PRINT_TYPES);
    CHECK_SAYS(to ? td__buf_str(&b) : td_message(cx), want);
    td_clear(cx);
    td__buf_free(&b);
    td__graph_drop(to);
    td__gfile_drop(file);
    td_close(cx);
}

TEST(what_a_graph_says_of_sizes_is_relied_on) {
    check_simpler(
        "func @f(%x: f32[s0,s1], %y: f32[s2], %n: int=s3) {\n"
        "  given s0 >= 2, s1 >= 2, s2 == s1, s3 == s0*2\n"
        "  %a = silu(%x) : f32[s0,s1]\n"
        "  %b = add(%a, %y) : f32[s0,s1]\n"
        "  %c = reshape(%b, [s3,s1//2])\n"
        "  return %b\n"
        "}\n",
        "@f: the capture is valid only where s0*s1 == s0*(s1 // 2)*2 (read at "
        "t.td:5), which its types do not state");
    check_simpler("func @f(%x: f32[s0,s1], %y: f32[s2], %n: int) {\n"
                  "  given s0 >= 2, s1 >= 2, s2 == s1, s0 <> 7, s1 < 100\n"
                  "  %a = silu(%x) : f32[s0,s1]\n"
                  "  %b = add(%a, %y) : f32[s0,s1]\n"
                  "  return %b, %n\n"
                  "}\n",
                  "func @f(%x: f32[s0,s1], %y: f32[s1], %n: int=s3) {\n"
                  "  given s0 >= 2, s1 >= 2, s2 == s1, s0 <> 7, s1 < 100\n"
                  "  %3 = sigmoid(%x) : f32[s0,s1]\n"
                  "  %4 = mul(%x, %3) : f32[s0,s1]\n"
                  "  %5 = add(%4, %y) : f32[s0,s1]\n"
                  "  return %5, s3\n"
                  "}\n");
}

TEST(a_size_that_no_input_shows_is_refused) {
    check_simpler("func @f(%x: f32[s1]) {\n"
                  "  given s0 >= 2, s1 == s0*2\n"
                  "  %a = silu(%x) : f32[s1]\n"
                  "  return %a\n"
                  "}\n",
                  "@f: a symbolic size occurs in the input types only inside "
                  "expressions; one input needs it as a size by itself");
    check_simpler("func @f(%x: f32[u0]) {\n"
                  "  %a = silu(%x) : f32[u0]\n"
                  "  return %a\n"
                  "}\n",
                  "@f: the size u0 depends on data, so the function cannot be "
                  "captured from its types");
}

/* ---- inputs that do not fit ---------------------------------------------- */

/* Node by node then, also where a node reads what no kernel does. */
TEST(inputs_of_another_layout_are_no_error) {
    static const char text[] = "func @f(%x: f32[2,3], %y: f32[2,3]) {\n"
                               "  %a = zeros_like(%y) : f32[2,3]\n"
                               "  %b = copy(%x, %a) : f32[2,3]\n"
                               "  %c = exp(%y) : f32[2,3]\n"
                               "  return %b, %c\n"
                               "}\n";
    td_ctx           *cx = td_open();
    td_gfile         *f = td__gfile_parse(cx, text, sizeof text - 1, "t.td");
    td_compile_info   info = {.size = sizeof info, .name = "f"};
    td_runner         code;
    td_value          in[2], out[2];
    in[0] = td_value_tensor(td_ones(cx, TD_SHAPE(2, 3)));
    in[1] = td_value_tensor(td_transpose(td_zeros(cx, TD_SHAPE(3, 2)), 0, 1));
    CHECK(td__compile(cx, &td__native, f->graphs.v[0], &info, &code));
    CHECK(code.run(code.env, cx, in, out));
    CHECK_OK(cx);
    CHECK(td_item(td_sum(out[0].u.t)) == 0 && td_item(td_sum(out[1].u.t)) == 6);
    td__runner_drop(&code);
    td__gfile_drop(f);
    td_close(cx);
}
