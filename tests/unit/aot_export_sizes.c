/* aot_export_sizes.c -- graphs exported for all sizes: they say what they were traced
 * for, hold inputs to it, and compute what the function does. */
#include "export_help.h"

/* seen is written; rows are paired. */
static bool pairs(td_call *c) {
    td_tensor *w = td_arg(c, 0), *x = td_arg(c, 1), *seen = td_arg(c, 2);
    td_add_(seen, td_mean(x));
    td_tensor *h = td_tanh(td_matmul(x, w));
    td_tensor *p = td_reshape(h, TD_SHAPE(-1, 4));
    return td_return(c, td_mean(td_square(p)), td_transpose(h, 0, 1));
}

/* For all sizes, after a trip through text. */
static td_exported *export_any(td_ctx *cx, td_body *body, td_values args,
                               td_export_what what, char *text, size_t cap) {
    bool           param = body == pairs;
    td_export_opts o = {TD_EXPORT_OPTS, .what = what, .n_params = param,
                        .dynamic = TD_SHAPES_DYNAMIC};
    td_exported   *e = td_export_joint(cx, body, NULL, args, &o), *l;
    TD_CHECK_THAT(e, "%s", td_message(cx));
    size_t n = td_exported_text(e, text, cap);
    l = td_exported_parse(cx, text, n, "any.td");
    TD_CHECK_THAT(l, "%s", td_message(cx));
    td_exported_drop(e);
    return l;
}

TEST(a_graph_for_all_sizes_says_so_and_keeps_what_it_was_traced_for) {
    static char  text[8000];
    td_ctx      *cx = td_open();
    td_tensor   *w = td_set_requires_grad(td_randn(cx, TD_SHAPE(3, 2)), true);
    td_tensor   *x = td_randn(cx, TD_SHAPE(6, 3)), *seen = td_zeros(cx, TD_SHAPE());
    td_exported *e =
        export_any(cx, pairs, TD_ARGS(w, x, seen), TD_EXPORT_LOSS, text, sizeof text);
    td_value out[ROOM], want[2];

    CHECK(strstr(text, "(%p0: f32[3,2] grad <param \"p0\">, %x1: f32[s0,3]"));
    CHECK(strstr(text, "\n  given s0 >= 2, ") && strstr(text, " s0*2 % 4 == 0"));
    for (int64_t rows = 4; rows <= 12; rows += 4) {
        x = td_randn(cx, TD_SHAPE(rows, 3));
        td_zero_grad(w);
        td_tensor *now = td_clone(seen);
        CHECK(td_exported_run(e, TD_ARGS(w, x, now), out, 3));
        CHECK(td_call_body(cx, pairs, NULL, TD_ARGS(w, x, seen), want, 2) == 2);
        CHECK(td_backward(want[0].u.t));
        CHECK(aot_near(now, seen) && aot_near(out[0].u.t, want[0].u.t));
        CHECK(aot_near(out[1].u.t, want[1].u.t) && td_size(out[1].u.t, 1) == rows);
        CHECK(aot_near(out[2].u.t, td_grad_of(w)));
        CHECK_OK(cx);
    }
    CHECK(!td_exported_run(e, TD_ARGS(w, td_randn(cx, TD_SHAPE(5, 3)), seen), out, 3));
    CHECK(aot_says(cx, TD_E_ARG,
                   "satisfy s0*2 % 4 == 0, where s0 is the size of input 1 in dim 0, "
                   "here 5; export it for such inputs"));
    CHECK(!td_exported_run(e, TD_ARGS(w, td_randn(cx, TD_SHAPE(1, 3)), seen), out, 3));
    CHECK(aot_says(cx, TD_E_ARG,
                   "input 1, %x1, has size 1 in dim 0; the graph was exported for a "
                   "size of at least 2 there"));
    CHECK(!td_exported_run(e, TD_ARGS(w, td_randn(cx, TD_SHAPE(4, 5)), seen), out, 3));
    CHECK(aot_says(cx, TD_E_ARG,
                   "input 1, %x1, is f32[4,5], but the graph takes f32[4,3]"));
    td_exported_drop(e);
    td_close(cx);
}

TEST(tangents_and_geometry_have_symbolic_sizes_too) {
    static char  text[8000];
    td_ctx      *cx = td_open();
    td_tensor   *x = td_set_requires_grad(td_randn(cx, TD_SHAPE(3)), true);
    td_exported *e = export_any(cx, products, TD_ARGS(x, td_detach(x)),
                                TD_EXPORT_TANGENTS, text, sizeof text);
    td_value     out[ROOM], want[3];
    CHECK(strstr(text, ": f32[s0] <tangent 0>"));
    x = td_randn(cx, TD_SHAPE(5));
    td_tensor *y = td_randn(cx, TD_SHAPE(5)), *t = td_ones(cx, TD_SHAPE(5));
    CHECK(td_exported_run(e, TD_ARGS(x, y, t), out, 4));
    CHECK(aot_near(out[3].u.t, y));
    td_tensor *four = td_ones(cx, TD_SHAPE(4));
    CHECK(!td_exported_run(e, TD_ARGS(x, four, t), out, 4) && !td_ok(cx));
    td_clear(cx);
    td_exported_drop(e);

    td_tensor *a = td_randn(cx, TD_SHAPE(2, 3)), *b = td_randn(cx, TD_SHAPE(2, 2));
    e = export_any(cx, moves, TD_ARGS(a, b, td_clone(a)), TD_EXPORT_FORWARD, text,
                   sizeof text);
    a = td_randn(cx, TD_SHAPE(4, 7)), b = td_randn(cx, TD_SHAPE(4, 4));
    td_tensor *d = td_randn(cx, TD_SHAPE(4, 7));
    td_tensor *a2 = td_clone(a), *b2 = td_clone(b), *d2 = td_clone(d);
    CHECK(td_exported_run(e, TD_ARGS(a, b, d), out, 3));
    CHECK(td_call_body(cx, moves, NULL, TD_ARGS(a2, b2, d2), want, 3) == 3);
    CHECK(aot_near(a, a2) && aot_near(b, b2) && aot_near(d, d2));
    for (int i = 0; i < 3; i++) CHECK(aot_near(out[i].u.t, want[i].u.t));
    CHECK_OK(cx);
    td_exported_drop(e);
    td_close(cx);
}

/* How many there are only a run knows. */
static bool found(td_call *c) { return td_return(c, td_nonzero(td_arg(c, 0))); }

TEST(sizes_that_depend_on_values_take_symbols) {
    static char  text[2000];
    td_ctx      *cx = td_open();
    td_tensor   *x = td_eye(cx, 3);
    td_exported *e =
        export_any(cx, found, TD_ARGS(x), TD_EXPORT_FORWARD, text, sizeof text);
    td_value out;
    CHECK(td_exported_run(e, TD_ARGS(td_eye(cx, 5)), &out, 1));
    CHECK(td_size(out.u.t, 0) == 5 && td_size(out.u.t, 1) == 2);
    td_exported_drop(e);
    td_close(cx);
}

TEST(parameters_keep_their_sizes) {
    static char    text[8000];
    td_ctx        *cx = td_open();
    td_module     *m = tower_make(cx);
    td_tensor     *x = td_randn(cx, TD_SHAPE(4, 3));
    td_export_opts o = {TD_EXPORT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
    td_exported   *e = td_export_module(m, TD_ARGS(x), &o);
    td_value       in[ROOM], out[ROOM], want[2];
    CHECK_OK(cx);
    td_exported_text(e, text, sizeof text);
    CHECK(strstr(text, ": f32[s0,3]) {\n"));
    x = td_randn(cx, TD_SHAPE(7, 3));
    CHECK(run(e, m, TD_ARGS(x), in, out));
    CHECK(td_module_call_values(m, TD_ARGS(x), want, 2) == 2);
    CHECK(aot_near(out[0].u.t, want[0].u.t) && aot_near(out[1].u.t, want[1].u.t));
    CHECK_OK(cx);
    td_exported_drop(e);
    td_module_free(m);
    td_close(cx);
}

static bool strided(td_call *c) {
    return td_return(c, td_as_strided(td_arg(c, 0), TD_SHAPE(2), TD_SHAPE(1)));
}

/* Is the export made, and for numbers? */
static bool is_for_its_sizes(td_ctx *cx, td_body *body, td_values in,
                             const td_export_opts *o) {
    static char  text[4000];
    td_exported *e = td_export_joint(cx, body, NULL, in, o);
    bool         ok = !td_is_nil(e);
    if (ok) td_exported_text(e, text, sizeof text);
    td_exported_drop(e);
    return ok && !strstr(text, "[s0");
}

TEST(what_cannot_be_for_other_sizes_is_for_those_it_was_made_with) {
    td_ctx        *cx = td_open();
    td_tensor     *b = td_set_requires_grad(td_randn(cx, TD_SHAPE(2, 3)), true);
    td_tensor     *view = td_select(td_mul(b, 1.0), 0, 0);
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_FORWARD,
                        .dynamic = TD_SHAPES_DYNAMIC};
    CHECK(is_for_its_sizes(cx, products, TD_ARGS(view, view), &o));
    CHECK(is_for_its_sizes(cx, strided, TD_ARGS(td_detach(b)), &o));
    o.dynamic =
        TD_SHAPES_STATIC; /* a size that depends on values is a symbol here too */
    CHECK(is_for_its_sizes(cx, found, TD_ARGS(td_detach(b)), &o));
    td_config_set(cx, "dynamic", "on"); /* as the option */
    o.dynamic = TD_SHAPES_AUTO;
    CHECK(is_for_its_sizes(cx, products, TD_ARGS(view, view), &o));
    CHECK_OK(cx);
    td_close(cx);
}
