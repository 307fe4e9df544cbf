/* aot_redraw.c -- compiled functions that draw in checkpoint regions, or with a memory
 * budget: backward draws the same numbers again, whichever backend runs it. */
#include "aot_help.h"

#include <math.h>

enum { N = 64, ROUNDS = 3 };

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env, (void)n_in, (void)n_out;
    td_tensor *h = td_dropout(td_tanh(td_matmul(in[0], in[1])), 0.4, true);
    out[0] = td_mul(td_dropout(h, 0.2, true), td_rand_like(h));
    return !td_is_nil(out[0]);
}

/* Two regions, a draw before, between and behind them. */
static bool body(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *w = td_arg(c, 1), *x = td_add(td_arg(c, 0), td_rand(cx, TD_SHAPE(N)));
    td_tensor *h, *y;
    if (!td_checkpoint(cx, region, NULL, TD_LIST(x, w), &h, 1)) return false;
    h = td_dropout(td_sin(h), 0.3, true);
    if (!td_checkpoint(cx, region, NULL, TD_LIST(h, w), &y, 1)) return false;
    return td_return(c, td_sum(td_dropout(y, 0.1, true)));
}

typedef struct side {
    td_ctx    *cx;
    td_fn     *f; /* NULL: eager */
    td_tensor *x, *w;
} side;

static side open_side(const char *backend, double budget) {
    side s = {.cx = td_open()};
    td_seed(s.cx, 3);
    s.x = td_requires_grad_(td_randn(s.cx, TD_SHAPE(N, N)));
    s.w = td_requires_grad_(td_mul(td_randn(s.cx, TD_SHAPE(N, N)), 0.1));
    if (!backend) return s;
    td_config_set(s.cx, "backend", backend);
    td_config set = *td__config(s.cx);
    set.memory_budget = budget;
    s.f =
        td_aot_function(s.cx, body, NULL, &(td_aot_opts){TD_AOT_OPTS, .config = &set});
    return s;
}

static td_tensor *run(side *s) {
    td_tensor *y = td_nil(s->cx);
    td_value   v = TD_NONE;
    td_values  args = TD_ARGS(s->x, s->w);
    if (s->f) td_invoke(s->f, args, &y, 1);
    else if (td_call_body(s->cx, body, NULL, args, &v, 1) > 0) y = v.u.t;
    td_rand(s->cx, TD_SHAPE(5)); /* the generator goes on between the halves */
    td_backward_with(TD_LIST(y), (td_tensors){0},
                     &(td_backward_opts){TD_BACKWARD_OPTS, .retain_graph = true});
    td_backward(y);
    TD_CHECK_THAT(td_ok(s->cx), "%s", td_message(s->cx));
    return y;
}

/* Native code may sum in another order; other numbers drawn would be far off. */
static void same(td_tensor *a, td_tensor *b, float by) {
    static float u[N * N], v[N * N];
    size_t       n = (size_t)td_numel(a);
    CHECK(td_numel(a) == td_numel(b));
    CHECK(td_read(a, TD_F32, u, n * sizeof *u) && td_read(b, TD_F32, v, n * sizeof *v));
    for (size_t i = 0; i < n; i++) CHECK(fabsf(u[i] - v[i]) <= by * (1 + fabsf(u[i])));
}

static void check_drawn(const char *backend, double budget, const char *words) {
    static char text[1 << 16];
    float       by = strcmp(backend, "interp") ? 1e-4f : 0;
    side        a = open_side(NULL, 1), b = open_side(backend, budget);
    for (int i = 0; i < ROUNDS; i++) {
        td_scope_begin(a.cx, "run");
        td_scope_begin(b.cx, "run");
        same(td_detach(run(&a)), td_detach(run(&b)), by);
        same(td_grad_of(a.x), td_grad_of(b.x), by);
        same(td_grad_of(a.w), td_grad_of(b.w), by);
        CHECK(td_rng_offset(a.cx) == td_rng_offset(b.cx));
        td_scope_end(b.cx, "run", NULL);
        td_scope_end(a.cx, "run", NULL);
    }
    CHECK(td_explain(b.f, text, sizeof text) < sizeof text);
    TD_CHECK_THAT(strstr(text, words), "%s", text);
    td_fn_drop(b.f);
    td_close(b.cx);
    td_close(a.cx);
}

TEST(regions_draw_the_same_numbers_again) {
    check_drawn("interp", 1, "6 random ops are recomputed with the same numbers");
}
TEST(regions_draw_the_same_numbers_again_in_native_code) {
    check_drawn("native", 1, "6 random ops are recomputed with the same numbers");
}
TEST(a_budget_draws_more_again) {
    check_drawn("interp", 0, "8 random ops are recomputed with the same numbers");
    check_drawn("native", 0, "8 random ops are recomputed with the same numbers");
}

TEST(the_generators_state_is_read_and_set) {
    td_ctx *cx = td_open();
    td_seed(cx, 11);
    td_rand(cx, TD_SHAPE(8));
    td_tensor *was = td_op_random_state(cx, NULL);
    float      a[8], b[8];
    CHECK(td_read(td_rand(cx, TD_SHAPE(8)), TD_F32, a, sizeof a));
    td_seed(cx, 12);
    td_tensor *other = td_op_random_state(cx, was);
    CHECK(td_read(td_rand(cx, TD_SHAPE(8)), TD_F32, b, sizeof b));
    CHECK(!memcmp(a, b, sizeof a));
    td_op_random_state(cx, other);
    CHECK(td_rng_seed(cx) == 12 && td_rng_offset(cx) == 0);
    CHECK(td_ok(cx));
    td_close(cx);
}
