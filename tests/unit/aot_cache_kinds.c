/* aot_cache_kinds.c -- what makes an entry on disk another one, and what does not:
 * custom functions, checkpoint policies, autocast, tensors outside, numbers, settings,
 * whether a backward ran. */
#include "cache_help.h"

/* Runs a body once in a function of its own: how much was found and stored. */
typedef struct tally {
    int found, stored;
} tally;

static tally call(td_ctx *cx, td_body *body, void *env, double *grad) {
    tally      was = {count("hit: f_"), count("stored f_")};
    td_tensor *out;
    td_scope_begin(cx, "call");
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(2, 2), 0.5));
    td_fn     *f = td_aot_function(cx, body, env, NULL);
    CHECK(td_invoke(f, TD_ARGS(x), &out, 1));
    if (grad) {
        CHECK(td_backward(td_sum(out)));
        *grad = td_item(td_sum(td_grad_of(x)));
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_scope_end(cx, "call", NULL);
    return (tally){count("hit: f_") - was.found, count("stored f_") - was.stored};
}

static void check_new(tally t) { CHECK(t.found == 0 && t.stored == 1); }
static void check_found(tally t) { CHECK(t.found == 1 && t.stored == 0); }

/* ---- custom functions --------------------------------------------------- */

static bool twice_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                     int n_out) {
    (void)f, (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], 2.0);
    return true;
}
static bool five_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                    int n_in) {
    (void)f, (void)n, (void)n_in;
    grad[0] = td_mul(g[0], 5.0);
    return true;
}
static bool six_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                   int n_in) {
    (void)f, (void)n, (void)n_in;
    grad[0] = td_mul(g[0], 6.0);
    return true;
}
static bool custom(td_call *c) {
    td_tensor *y = NULL;
    return td_function_call(td_call_ctx(c), td_call_env(c), NULL, TD_LIST(td_arg(c, 0)),
                            &y, 1) &&
           td_return(c, y);
}

TEST(custom_functions_count_for_what_they_do) {
    td_function five = {"mine", twice_fw, five_bw, NULL}, six = five;
    td_ctx     *cx = enter("cache");
    double      grad;
    six.backward = six_bw;
    check_new(call(cx, custom, &five, &grad));
    CHECK(grad == 20);
    check_found(call(cx, custom, &five, &grad));
    CHECK(grad == 20);
    check_new(call(cx, custom, &six, &grad)); /* forwards are the same */
    CHECK(grad == 24);
    leave(cx);
}

/* ---- regions -------------------------------------------------------------- */

static bool cube(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(x, td_mul(x, x)));
}
static bool fourth(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_mul(x, x);
    return td_return(c, td_mul(y, y));
}
typedef struct powers {
    td_body *body;
} powers;
static bool two_regions(td_call *c) {
    const powers  *p = td_call_env(c);
    td_region_body of = {.body = p->body, .name = "power"};
    td_tensor     *y = td_arg(c, 0);
    for (int i = 0; i < 2; i++)
        if (!td_call_region(td_call_ctx(c), of, TD_ARGS(y), &y, 1)) return false;
    return td_return(c, y);
}

/* The graph of a region is in the entry once, and both calls share what is read. */
TEST(regions_count_for_their_graphs_and_are_found) {
    td_ctx *cx = enter("cache");
    powers  three = {cube}, four = {fourth};
    double  grad, again, other;
    check_new(call(cx, two_regions, &three, &grad));
    check_found(call(cx, two_regions, &three, &again));
    CHECK(grad == again);
    check_new(call(cx, two_regions, &four, &other));
    CHECK(grad != other);
    leave(cx);
}

static bool stash_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                     int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_clone(in[0]);
    return td_fcall_stash(f, TD_LIST(in[1]));
}
static bool write_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                     int n_in) {
    (void)n, (void)n_in;
    grad[0] = td_clone(g[0]);
    grad[1] = NULL;
    return !td_is_nil(td_mul_(td_fcall_stashed(f, 0), 2.0));
}
static bool writes_late(td_call *c) {
    static const td_function fn = {"writer", stash_fw, write_bw, NULL};
    td_tensor               *y = NULL;
    td_tensors               in = TD_LIST(td_arg(c, 0), td_arg(c, 1));
    return td_function_call(td_call_ctx(c), &fn, NULL, in, &y, 1) && td_return(c, y);
}

TEST(a_backward_that_was_found_writes_inputs_too) {
    td_ctx    *cx = enter("cache");
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2))), *y;
    td_tensor *t = td_ones(cx, TD_SHAPE(2));
    for (int i = 0; i < 2; i++) {
        td_fn *f = td_aot_function(cx, writes_late, NULL, NULL);
        CHECK(td_invoke(f, TD_ARGS(x, t), &y, 1) && td_backward(td_sum(y)));
        CHECK(td_item(td_sum(t)) == (i ? 8 : 4) && count("hit: f_") == i);
        td_fn_drop(f);
    }
    CHECK_OK(cx);
    leave(cx);
}

/* ---- checkpoint policies ------------------------------------------------ */

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env, (void)n_in, (void)n_out;
    out[0] = td_tanh(td_exp(td_dropout(in[0], 0.5, true)));
    return true;
}
static td_policy save(void *env, const char *op) {
    (void)env, (void)op;
    return TD_MUST_SAVE;
}
static td_policy drop(void *env, const char *op) {
    (void)env, (void)op;
    return TD_MUST_RECOMPUTE;
}
static bool checkpointed(td_call *c) {
    td_tensor         *y = NULL;
    td_checkpoint_opts o = {TD_CHECKPOINT_OPTS, .region = region,
                            .policy = *(td_policy_fn **)td_call_env(c)};
    td_tensors         in = TD_LIST(td_arg(c, 0));
    return td_checkpoint_with(td_call_ctx(c), in, &y, 1, &o) && td_return(c, y);
}

TEST(policies_count_for_what_they_say_of_each_op) {
    td_policy_fn *one = save, *other = drop;
    td_ctx       *cx = enter("cache");
    double        a, b;
    td_seed(cx, 3);
    check_new(call(cx, checkpointed, (void *)&one, &a));
    td_seed(cx, 3);
    check_found(call(cx, checkpointed, (void *)&one, &b));
    CHECK(a == b);
    td_seed(cx, 3);
    check_new(call(cx, checkpointed, (void *)&other, &b));
    CHECK(a == b); /* the same coins */
    leave(cx);
}

/* ---- autocast, settings, numbers ---------------------------------------- */

static bool square(td_call *c) {
    return td_return(c, td_matmul(td_arg(c, 0), td_arg(c, 0)));
}

TEST(dtypes_of_autocast_have_entries_of_their_own) {
    td_ctx *cx = enter("cache");
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2; i++) {
            td_autocast_mode was = td_autocast_begin(cx, i ? TD_F16 : TD_BF16);
            tally            t = call(cx, square, NULL, NULL);
            td_autocast_end(cx, was);
            if (round) check_found(t);
            else check_new(t);
        }
    leave(cx);
}

TEST(a_budget_counts_and_a_limit_does_not) {
    td_ctx *cx = enter("cache");
    check_new(call(cx, square, NULL, NULL));
    td_config_set(cx, "memory_budget", "0.5");
    check_new(call(cx, square, NULL, NULL));
    td_config_set(cx, "specialization_limit", "3");
    check_found(call(cx, square, NULL, NULL));
    leave(cx);
}

static bool scaled(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), *(double *)td_call_env(c)));
}

TEST(numbers_a_body_closes_over_count) {
    td_ctx *cx = enter("cache");
    double  two = 2, three = 3, grad;
    check_new(call(cx, scaled, &two, &grad));
    check_new(call(cx, scaled, &three, &grad));
    check_found(call(cx, scaled, &two, &grad));
    CHECK(grad == 8);
    leave(cx);
}

static bool weighted(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), (td_tensor *)td_call_env(c)));
}

TEST(elements_of_tensors_it_closes_over_do_not) {
    td_ctx *cx = enter("cache");
    double  grad;
    check_new(call(cx, weighted, td_full(cx, TD_SHAPE(), 2.0), &grad));
    check_found(call(cx, weighted, td_full(cx, TD_SHAPE(), 7.0), &grad));
    CHECK(grad == 28);
    leave(cx);
}

/* ---- when --------------------------------------------------------------- */

/* The graph of backward is in the entry, so nothing waits for its code. */
TEST(an_entry_is_there_before_a_backward_ran) {
    td_ctx *cx = enter("cache");
    double  grad;
    check_new(call(cx, square, NULL, NULL));
    check_found(call(cx, square, NULL, &grad));
    CHECK(grad == 8);
    leave(cx);
}

TEST(with_a_bound_of_zero_nothing_is_cached_or_looked_up) {
    td_ctx *cx = enter("cache");
    td_config_set(cx, "cache_disk_mb", "0");
    for (int i = 0; i < 2; i++) {
        tally t = call(cx, square, NULL, NULL);
        CHECK(t.found == 0 && t.stored == 0);
    }
    td_config_set(cx, "cache_disk_mb", "8");
    check_new(call(cx, square, NULL, NULL));
    leave(cx);
}

TEST(who_listens_to_stages_gets_them) {
    td_ctx *cx = enter("cache,joint");
    for (int i = 0; i < 2; i++) {
        tally t = call(cx, square, NULL, NULL);
        CHECK(t.found == 0 && t.stored == 0);
    }
    CHECK(count("bypass: f: the log topics facts or joint need every stage to run") ==
          2);
    CHECK(count("joint graph, function ") == 2);
    leave(cx);
}
