/* aot_wrong_backend.c -- backends whose outputs differ from the graph's types, each in
 * another way: debug_asserts names the value, the call fails, the next one works. */
#include "aot_help.h"

#include <stdlib.h>

typedef enum lie {
    TRUTH,
    NOTHING,
    A_NUMBER,
    DTYPE,
    RANK,
    SIZES,
    STRIDES,
    TWICE,
    AN_INPUT,
    LIES
} lie;

static lie fwd, bwd;

typedef struct code {
    const td_graph *g;
    bool            back;
} code;

static void tell(td_value *v, lie l, td_value first, td_value input) {
    td_tensor *t = v->u.t;
    switch (l) {
    case NOTHING: *v = TD_NONE; break;
    case A_NUMBER: *v = td_value_int(3); break;
    case DTYPE: *v = td_value_tensor(td_to(t, TD_F64)); break;
    case RANK: *v = td_value_tensor(td_unsqueeze(t, 0)); break;
    case SIZES: *v = td_value_tensor(td_slice(t, 0, 0, 1)); break;
    case STRIDES: *v = td_value_tensor(td_t(td_contiguous(td_t(t)))); break;
    case TWICE: *v = first; break;
    case AN_INPUT: *v = input; break;
    default: break;
    }
}

/* The last output of forward, and the first of backward. */
static bool run_code(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    const code *c = env;
    int         n = td_graph_outputs(c->g);
    (void)cx;
    if (!td_graph_run(c->g, in, td_graph_inputs(c->g), out, n)) return false;
    if (c->back) tell(&out[0], bwd, out[0], in[0]);
    else tell(&out[1], fwd, out[0], in[0]);
    return true;
}

static void drop_code(void *env) { free(env); }

static bool compile(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *to) {
    code *c = malloc(sizeof *c);
    (void)env;
    *c = (code){g, info->half == TD_BACKWARD};
    *to = (td_runner){.run = run_code, .drop = drop_code, .env = c};
    return true;
}

static bool both(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    return td_return(c, td_mul(x, w), td_tanh(td_add(x, w)));
}

static bool step(td_fn *f, td_tensor *x, td_tensor *w, double *sum) {
    td_tensor *y[2];
    td_zero_grad(w);
    if (!td_invoke(f, TD_ARGS(x, w), y, 2)) return false;
    if (!td_backward(td_sum(td_mul(y[0], y[1])))) return false;
    *sum = td_item(td_sum(td_grad_of(w)));
    return true;
}

TEST(debug_asserts_name_each_wrong_result_of_a_backend) {
    static const char *const of_fwd[LIES] = {
        [NOTHING] = "out[1] is no tensor",
        [A_NUMBER] = "out[1] is no tensor",
        [DTYPE] =
            "output 1 is f64[2,3] with strides [3,1]; the graph says another dtype",
        [RANK] = "out[1] is f32[1,2,3]",
        [SIZES] = "output 1 is f32[1,3]",
        [STRIDES] = "result 1 is f32[2,3] with strides [1,2]; eager's has another",
        [TWICE] = "it must have a storage of its own",
        [AN_INPUT] = "it must have a storage of its own"};
    static const char *const of_bwd[LIES] = {
        [DTYPE] = "gradient 0 is f64[2,3]",
        [RANK] = "out[0] is f32[1,2,3]",
        [SIZES] = "gradient 0 is f32[1,3] with strides [3,1]; its input has another"};
    td_ctx     *cx = td_open();
    td_backend  b = {.name = "liar", .compile = compile};
    td_aot_opts o = {TD_AOT_OPTS, .forward = &b, .backward = &b, .inference = &b};
    td_config_set(cx, "debug_asserts", "on");
    td_fn     *f = td_aot_function(cx, both, NULL, &o);
    td_tensor *x = td_full(cx, TD_SHAPE(2, 3), 0.5);
    td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(2, 3), 0.25));
    double     want = 0, got = 0;
    CHECK(step(f, x, w, &want) && want > 0);
    for (int i = TRUTH; i < 2 * LIES; i++) {
        const char *says = i < LIES ? of_fwd[i] : of_bwd[i - LIES];
        if (!says) continue;
        fwd = i < LIES ? (lie)i : TRUTH;
        bwd = i < LIES ? TRUTH : (lie)(i - LIES);
        TD_CHECK_THAT(!step(f, x, w, &got), "lie %d is not noticed", i);
        int  what = i % LIES; /* noticed without debug_asserts: */
        bool always = what == NOTHING || what == A_NUMBER || what == RANK;
        TD_CHECK_THAT(td_error(cx) == (always ? TD_E_ARG : TD_E_GUARD) &&
                          strstr(td_message(cx), says),
                      "lie %d: %s", i, td_message(cx));
        td_clear(cx);
        fwd = bwd = TRUTH;
        CHECK(step(f, x, w, &got) && got == want);
    }
    td_fn_drop(f);
    td_close(cx);
}

/* The gradient of w, from result `from` alone. */
static td_tensor *grad_from(td_fn *f, int from, td_tensor *x, td_tensor *w) {
    td_tensor *y[2];
    td_zero_grad(w);
    td_invoke(f, TD_ARGS(x, w), y, 2);
    td_backward(td_sum(y[from]));
    return td_grad_of(w);
}

TEST(a_backend_may_run_a_backward_whose_tangents_are_missing) {
    td_ctx     *cx = td_open();
    td_backend  b = {.name = "plain", .compile = compile};
    td_aot_opts o = {TD_AOT_OPTS, .forward = &b, .backward = &b, .inference = &b};
    td_fn      *f = td_aot_function(cx, both, NULL, &o);
    td_tensor  *x = td_full(cx, TD_SHAPE(2, 3), 0.5);
    td_tensor  *w = td_requires_grad_(td_full(cx, TD_SHAPE(2, 3), 0.25));
    fwd = bwd = TRUTH;
    CHECK(td_item(td_sum(grad_from(f, 0, x, w))) == 3);
    CHECK(fabs(td_item(td_sum(grad_from(f, 1, x, w))) - 6 * (1 - pow(tanh(0.75), 2))) <
          1e-5);
    TD_CHECK_THAT(td_ok(cx), "%s", td_message(cx));
    td_fn_drop(f);
    td_close(cx);
}
