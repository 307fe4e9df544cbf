/* aot_export_kinds.c -- exports of bodies with branches, custom functions, checkpoint
 * regions, and of writes that stay in the graph. */
#include "export_help.h"

static char text[8000];

/* Through text and back. */
static td_exported *reread(td_ctx *cx, td_exported *e) {
    TD_CHECK_THAT(e, "%s", td_message(cx));
    size_t       n = td_exported_text(e, text, sizeof text);
    td_exported *l = td_exported_parse(cx, text, n, "kinds.td");
    TD_CHECK_THAT(l, "%s", td_message(cx));
    td_exported_drop(e);
    return l;
}

/* ---- branches ----------------------------------------------------------- */

/* The write is dead: of a copy that nobody returns. */
static bool up(td_call *c) {
    td_tensor *x = td_arg(c, 0), *dead = td_clone(x);
    td_add_(dead, 5.0);
    return td_return(c, td_sin(x));
}
static bool down(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_mul(x, 2.0);
    td_add_(y, 1.0);
    return td_return(c, y);
}
static bool nested(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *y = NULL;
    td_branches of = {.yes = up, .no = down};
    return td_cond(td_gt(td_sum(td_detach(x)), 3.0), of, TD_ARGS(x), &y, 1) &&
           td_return(c, y);
}
static bool branches(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *y = NULL;
    td_branches of = {.yes = nested, .no = down};
    return td_cond(td_gt(td_sum(td_detach(x)), 0.0), of, TD_ARGS(x), &y, 1) &&
           td_return(c, td_mul(y, 3.0));
}

TEST(branches_are_exported_pure_and_run_as_they_would) {
    td_ctx      *cx = td_open();
    td_tensor   *x = td_set_requires_grad(td_full(cx, TD_SHAPE(2), 0.5), true);
    td_tensor   *t = td_ones(cx, TD_SHAPE(2));
    td_exported *e = reread(cx, td_export_joint(cx, branches, NULL, TD_ARGS(x), NULL));
    CHECK(strstr(text, "cond(") && !strstr(text, "add_("));
    CHECK(!strstr(text, "5.0")); /* what was dead */
    for (int i = -1; i < 2; i++) {
        td_value   out[2], want;
        td_tensor *y = td_set_requires_grad(td_full(cx, TD_SHAPE(2), 2.0 * i), true);
        CHECK(td_exported_run(e, TD_ARGS(y, t), out, 2));
        CHECK(td_call_body(cx, branches, NULL, TD_ARGS(y), &want, 1) == 1);
        CHECK(td_backward(td_sum(want.u.t)));
        CHECK(aot_near(out[0].u.t, want.u.t) && aot_near(out[1].u.t, td_grad_of(y)));
        CHECK_OK(cx);
    }
    td_exported_drop(e);
    td_close(cx);
}

/* ---- writes that stay --------------------------------------------------- */

static bool counting(td_call *c) {
    td_tensor *buf = td_arg(c, 0);
    td_add_(buf, 1.0);
    return td_return(c, td_sum(td_mul(buf, td_arg(c, 1))));
}

TEST(writes_left_in_a_graph_are_its_last_nodes) {
    td_ctx        *cx = td_open();
    td_tensor     *buf = td_zeros(cx, TD_SHAPE(2)), *t = td_ones(cx, TD_SHAPE());
    td_tensor     *x = td_set_requires_grad(td_full(cx, TD_SHAPE(2), 3.0), true);
    td_export_opts o = {TD_EXPORT_OPTS, .keep_mutations = true, .n_buffers = 1};
    td_exported   *e =
        reread(cx, td_export_joint(cx, counting, NULL, TD_ARGS(buf, x), &o));
    td_value out[3];
    int      n = td_exported_outputs(e);
    CHECK(strstr(text, "copy_(%b0"));
    CHECK(n == 2 && td_exported_find_output(e, TD_SLOT_UPDATE, 0) == -1);
    for (int i = 1; i < 3; i++) {
        CHECK(td_exported_run(e, TD_ARGS(buf, x, t), out, n));
        CHECK(td_item(td_sum(buf)) == 2 * i && td_item(out[0].u.t) == 6 * i);
        CHECK(td_item(td_sum(out[1].u.t)) == 2 * i);
    }
    CHECK_OK(cx);
    td_exported_drop(e);
    td_close(cx);
}

/* ---- functions of the user's own, regions -------------------------------- */

static bool twice_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                     int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], 2.0);
    return td_fcall_save(f, TD_LIST(in[0]));
}
static bool odd_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                   int n_in) {
    (void)n, (void)n_in;
    grad[0] = td_mul(g[0], td_fcall_saved(f, 0)); /* not the derivative */
    return true;
}
static const td_function odd = {"odd", twice_fw, odd_bw, NULL};

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env, (void)n_in, (void)n_out;
    out[0] = td_tanh(td_mul(in[0], in[0]));
    return true;
}
static bool own_parts(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = NULL, *z = NULL;
    td_ctx    *cx = td_call_ctx(c);
    return td_function_call(cx, &odd, NULL, TD_LIST(x), &y, 1) &&
           td_checkpoint(cx, region, NULL, TD_LIST(y), &z, 1) &&
           td_return(c, td_sum(z));
}

TEST(custom_functions_and_regions_are_exported_as_what_they_do) {
    td_ctx        *cx = td_open();
    td_tensor     *x = td_set_requires_grad(td_full(cx, TD_SHAPE(2), 0.3), true);
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_LOSS};
    td_exported   *e = reread(cx, td_export_joint(cx, own_parts, NULL, TD_ARGS(x), &o));
    td_value       out[2], want;
    CHECK(td_exported_run(e, TD_ARGS(x), out, 2));
    CHECK(td_call_body(cx, own_parts, NULL, TD_ARGS(x), &want, 1) == 1);
    CHECK(td_backward(want.u.t));
    CHECK(aot_near(out[0].u.t, want.u.t) && aot_near(out[1].u.t, td_grad_of(x)));
    CHECK_OK(cx);
    td_exported_drop(e);
    td_close(cx);
}

/* ---- inputs that cannot be written -------------------------------------- */

static bool adds(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_add_(x, 1.0);
    return td_return(c, td_mul(x, 2.0));
}

static bool fails(td_ctx *cx, const td_exported *e, td_tensor *x, const char *words) {
    td_value out[1];
    bool ok = !td_exported_run(e, TD_ARGS(x), out, 1) && strstr(td_message(cx), words);
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    td_clear(cx);
    return ok;
}

/* Eager's refusals, of tensors that the export was not made for. */
TEST(an_exported_graph_writes_only_what_eager_may_write) {
    td_ctx      *cx = td_open();
    td_value     out[1];
    td_tensor   *x = td_ones(cx, TD_SHAPE(3));
    td_exported *e = reread(cx, td_export_joint(cx, adds, NULL, TD_ARGS(x), NULL));
    td_grad_mode m = td_inference_begin(cx, true);
    td_tensor   *inference = td_ones(cx, TD_SHAPE(3));
    CHECK(td_exported_run(e, TD_ARGS(inference), out, 1));
    td_inference_end(cx, m);
    CHECK(fails(cx, e, inference, "outside inference mode"));
    CHECK(td_item(td_sum(inference)) == 6);
    td_tensor *wide = td_expand(td_ones(cx, TD_SHAPE(1)), TD_SHAPE(3));
    CHECK(fails(cx, e, wide, "have the same address, as in an expanded view"));
    CHECK(td_item(td_sum(wide)) == 3);
    CHECK(td_exported_run(e, TD_ARGS(x), out, 1) && td_item(td_sum(x)) == 6);
    td_exported_drop(e);
    td_close(cx);
}
