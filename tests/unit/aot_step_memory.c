/* aot_step_memory.c -- training steps that compute values again: checkpoint regions and
 * memory budgets change how much memory a step needs, never a bit of what it gives. */
#include "aot_help.h"

enum { LAYERS = 8, WIDE = 96, ROWS = 512, STEPS = 3 };

/* A tower with a body that trains it. */
typedef struct tower {
    td_ctx    *cx;
    td_fn     *f;
    td_tensor *w[LAYERS], *x, *y;
    bool       regions;
    int        parts; /* of the batch, each with a backward of its own */
} tower;

static bool layer_of(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                     int n_out) {
    (void)env, (void)n_in, (void)n_out;
    td_tensor *h = td_gelu(td_matmul(in[0], in[1]));
    out[0] = td_add(in[0], td_dropout(td_sigmoid(td_exp(h)), 0.2, true));
    return !td_is_nil(out[0]);
}

static td_tensor *tower_loss(tower *t, td_tensor *x, td_tensor *y) {
    for (int i = 0; i < LAYERS; i++) {
        td_tensor *in[2] = {x, t->w[i]};
        td_tensors both = {in, 2};
        bool       ok = t->regions ? td_checkpoint(t->cx, layer_of, NULL, both, &x, 1)
                                   : layer_of(NULL, in, 2, &x, 1);
        if (!ok) return td_nil(t->cx);
    }
    return td_mse_loss(x, y);
}

static bool train(td_call *c) {
    tower     *t = td_call_env(c);
    td_tensor *sum = td_zeros(t->cx, TD_SHAPE());
    int64_t    rows = ROWS / t->parts;
    for (int i = 0; i < t->parts; i++) {
        td_tensor *x = td_slice(td_arg(c, 0), 0, i * rows, (i + 1) * rows);
        td_tensor *y = td_slice(td_arg(c, 1), 0, i * rows, (i + 1) * rows);
        td_tensor *loss = tower_loss(t, x, y);
        if (!td_backward(loss)) return false;
        td_add_(sum, td_detach(loss));
    }
    td_grad_mode was = td_no_grad_begin(t->cx);
    for (int i = 0; i < LAYERS; i++) td_sub_(t->w[i], td_mul(td_grad_of(t->w[i]), 0.1));
    td_no_grad_end(t->cx, was);
    for (int i = 0; i < LAYERS; i++) td_zero_grad(t->w[i]);
    return td_return(c, sum);
}

static tower tower_open(const char *backend, bool regions, int parts) {
    tower t = {.cx = td_open(), .regions = regions, .parts = parts};
    td_seed(t.cx, 4);
    for (int i = 0; i < LAYERS; i++)
        t.w[i] = td_requires_grad_(td_mul(td_randn(t.cx, TD_SHAPE(WIDE, WIDE)), 0.05));
    t.x = td_randn(t.cx, TD_SHAPE(ROWS, WIDE));
    t.y = td_randn(t.cx, TD_SHAPE(ROWS, WIDE));
    td_config_set(t.cx, "backend", backend);
    return t;
}

/* What a run leaves: the loss, one weight, and the most memory a warm step took. */
typedef struct left {
    float  loss[STEPS], w[WIDE * WIDE];
    size_t peak;
    char   text[1 << 16];
} left;

static void run(left *to, const char *backend, double budget, bool regions, int parts) {
    tower     t = tower_open(backend, regions, parts);
    td_config set = *td__config(t.cx);
    set.memory_budget = budget;
    t.f = td_aot_step(t.cx, train, &t,
                      &(td_aot_opts){TD_AOT_OPTS, .config = &set,
                                     .state = {t.w, LAYERS}});
    for (int i = 0; i < STEPS; i++) {
        td_tensor *loss = td_nil(t.cx);
        size_t     live = td_memory_live();
        td_scope_begin(t.cx, "step");
        td_memory_peak_reset();
        td_invoke(t.f, TD_ARGS(t.x, t.y), &loss, 1);
        to->peak = td_memory_peak() - live;
        TD_CHECK_THAT(td_ok(t.cx), "%s", td_message(t.cx));
        CHECK(td_read(loss, TD_F32, &to->loss[i], sizeof to->loss[i]));
        td_scope_end(t.cx, "step", NULL);
    }
    CHECK(td_read(t.w[1], TD_F32, to->w, sizeof to->w));
    td_explain(t.f, to->text, sizeof to->text);
    td_fn_drop(t.f);
    td_close(t.cx);
}

static void check_bits(const left *a, const left *b) {
    CHECK(!memcmp(a->loss, b->loss, sizeof a->loss));
    CHECK(!memcmp(a->w, b->w, sizeof a->w));
}

static const char *const backends[] = {"interp", "native"};

TEST(regions_in_a_step_save_memory_and_change_no_bit) {
    static left all, less;
    for (int i = 0; i < 2; i++) {
        run(&all, backends[i], 1, false, 1);
        run(&less, backends[i], 1, true, 1);
        check_bits(&all, &less);
        TD_CHECK_THAT(less.peak < all.peak * 2 / 3, "%s: %zu bytes, %zu without",
                      backends[i], less.peak, all.peak);
        TD_CHECK_THAT(strstr(less.text, "checkpoint region 1"), "%s", less.text);
        CHECK(strstr(less.text, "8 random ops are recomputed with the same numbers"));
        TD_CHECK_THAT(!strstr(all.text, "for backward"), "%s", all.text);
    }
}

TEST(a_smaller_budget_needs_no_more_memory) {
    static left all, now;
    for (int i = 0; i < 2; i++) {
        run(&all, backends[i], 1, false, 1);
        size_t before = all.peak;
        for (int k = 3; k >= 0; k--) {
            run(&now, backends[i], k / 4.0, false, 1);
            check_bits(&all, &now);
            TD_CHECK_THAT(now.peak <= before, "%s, budget %g: %zu bytes, %zu before",
                          backends[i], k / 4.0, now.peak, before);
            before = now.peak;
        }
        TD_CHECK_THAT(before < all.peak * 2 / 3, "%s: %zu bytes, %zu without",
                      backends[i], before, all.peak);
    }
}

TEST(every_backward_of_a_step_has_its_regions) {
    static left all, less, least;
    run(&all, "interp", 1, false, 4);
    run(&less, "interp", 1, true, 4);
    run(&least, "interp", 0, false, 4);
    check_bits(&all, &less);
    check_bits(&all, &least);
    TD_CHECK_THAT(less.peak < all.peak, "%zu bytes, %zu without", less.peak, all.peak);
    TD_CHECK_THAT(least.peak < all.peak, "%zu bytes, %zu without", least.peak,
                  all.peak);
    CHECK(strstr(less.text, "32 random ops are recomputed"));
}
