/* aot_questions.c -- what a captured body asks of tensors without giving them to an op:
 * answers that another call may change are part of what the code is compiled for, or
 * the body is refused. */
#include "aot_sides.h"
#include "td_files.h"

/* ---- of tensors it closes over ------------------------------------------ */

static td_tensor *held, *other;

/* Every question, one digit or more each. */
static double ask_rank(void) { return td_rank(held); }
static double ask_size(void) { return (double)td_size(held, 0); }
static double ask_stride(void) { return (double)td_stride(held, -1); }
static double ask_sizes(void) { return (double)td_sizes(held).v[0]; }
static double ask_strides(void) { return (double)td_strides(held).v[0]; }
static double ask_sym_size(void) { return (double)td_sym_size(held, 0); }
static double ask_sym_sizes(void) { return (double)td_sym_sizes(held).n; }
static double ask_sym_numel(void) { return (double)td_sym_numel(held); }
static double ask_numel(void) { return (double)td_numel(held); }
static double ask_dense(void) { return td_is_contiguous(held); }
static double ask_wants(void) { return td_requires_grad(held); }
static double ask_leaf(void) { return td_is_leaf(held); }
static double ask_shares(void) { return td_same_storage(held, other); }
static double ask_has_grad(void) { return td_has_grad(held); }

static double (*const questions[])(void) = {
    ask_rank,     ask_size,      ask_stride,    ask_sizes,    ask_strides,
    ask_sym_size, ask_sym_sizes, ask_sym_numel, ask_numel,    ask_dense,
    ask_wants,    ask_leaf,      ask_shares,    ask_has_grad,
};
static int question;

static bool only_asks(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), 1.0 + questions[question]()));
}

/* Changes `held` in place, another way each time. */
static void change(side *s, int k) {
    td_ctx *cx = s->cx;
    if (k == 1) td_resize_(held, TD_SHAPE(2));
    if (k == 2) td_requires_grad_(held);
    if (k == 3) td_set_grad(held, values(cx, TD_SHAPE(2), 1));
    if (k == 4) td_set_requires_grad(held, false);
    if (k == 5) td_set_(held, other, 1, TD_SHAPE(2, 2), TD_SHAPE(1, 2));
    if (k == 6) td_set_(held, values(cx, TD_SHAPE(3), 1));
    if (k == 7) td_mul_(held, leaf(cx, TD_SHAPE(3), 1));
}

static void asked_between_changes(side *s) {
    held = values(s->cx, TD_SHAPE(4), 0.5);
    other = values(s->cx, TD_SHAPE(8), 0.25);
    for (int k = 0; k < 8; k++) {
        change(s, k);
        tell(s, "asked", ask1(s, TD_ARGS(td_ones(s->cx, TD_SHAPE(2)))));
    }
}

TEST(answers_about_closed_over_tensors_are_part_of_the_key) {
    for (question = 0; question < (int)(sizeof questions / sizeof *questions);
         question++)
        check_scene(asked_between_changes, only_asks);
}

/* In a branch, and of the base of a view that is used. */
static bool asks_inside(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), 1.0 + questions[question]()));
}
static bool asks_in_a_branch(td_call *c) {
    td_tensor *y;
    if (!td_cond(td_gt(td_sum(td_arg(c, 0)), 1.0),
                 (td_branches){.yes = asks_inside, .no = asks_inside},
                 TD_ARGS(td_arg(c, 0)), &y, 1))
        return false;
    return td_return(c, y);
}

TEST(answers_in_a_branch_are_part_of_the_key) {
    for (question = 0; question < 2; question++)
        check_scene(asked_between_changes, asks_in_a_branch);
}

static bool asks_the_base(td_call *c) {
    return td_return(c, td_add(td_mul(td_arg(c, 0), (double)td_size(held, 0)),
                               td_sum(other)));
}
static void base_resized(side *s) {
    held = values(s->cx, TD_SHAPE(4), 0.5);
    other = td_slice(held, 0, 0, 2);
    for (int k = 0; k < 3; k++) {
        if (k == 1) td_resize_(held, TD_SHAPE(3));
        if (k == 2) td_resize_(held, TD_SHAPE(2, 2));
        tell(s, "asked", ask1(s, TD_ARGS(td_ones(s->cx, TD_SHAPE(2)))));
    }
}
TEST(the_base_of_a_tensor_in_use_is_closed_over_when_it_is_asked) {
    check_scene(base_resized, asks_the_base);
}

/* ---- of arguments ------------------------------------------------------- */

static bool asks_sizes(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_div(td_sum(x), (double)td_sizes(x).v[0]),
                     td_mul(x, (double)td_strides(td_t(x)).v[1]));
}
static void sizes_grow(side *s) {
    for (int n = 2; n < 6; n++) {
        td_tensor *y[2];
        ask(s, TD_ARGS(td_ones(s->cx, TD_SHAPE(n, n + 1))), y, 2);
        tell(s, "sum", y[0]);
        tell(s, "product", y[1]);
    }
}
TEST(lists_of_sizes_and_strides_are_numbers_also_where_sizes_are_dynamic) {
    check_scene(sizes_grow, asks_sizes);
}

static bool asks_view(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_is_view(td_arg(c, 0)) ? 1.0 : 0.0));
}
static bool asks_base(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_is_nil(td_base(td_arg(c, 0))) ? 1 : 2));
}
static bool asks_version(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), 1.0 + (double)td_version(td_arg(c, 0))));
}
static bool asks_version_of_view(td_call *c) {
    td_tensor *v = td_slice(td_arg(c, 0), 0, 0, 1);
    return td_return(c, td_mul(v, 1.0 + (double)td_version(v)));
}
static bool asks_retained(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), 1.0 + td_retains_grad(td_arg(c, 0))));
}
static bool asks_storage(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0),
                               1.0 + (double)td_storage_bytes(td_arg(c, 0))));
}

static td_code code_of(td_ctx *cx, td_body *body, const char *words) {
    td_fn     *f = td_aot_function(cx, body, NULL, NULL);
    td_tensor *y;
    td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(2))), &y, 1);
    td_code code = td_error(cx);
    TD_CHECK_THAT(strstr(td_message(cx), words) != NULL, "%s", td_message(cx));
    td_clear(cx);
    td_fn_drop(f);
    return code;
}

TEST(what_no_key_compares_is_refused_in_a_body) {
    td_ctx *cx = td_open();
    CHECK(code_of(cx, asks_view, "td_is_view: ") == TD_E_TRACE);
    CHECK(code_of(cx, asks_base, "td_base: ") == TD_E_TRACE);
    CHECK(code_of(cx, asks_version, "td_version: ") == TD_E_TRACE);
    CHECK(code_of(cx, asks_version_of_view, "td_version: ") == TD_E_TRACE);
    CHECK(code_of(cx, asks_retained, "td_retains_grad: ") == TD_E_TRACE);
    CHECK(code_of(cx, asks_storage, "td_storage_bytes: ") == TD_E_TRACE);
    td_close(cx);
}

/* A leaf has none, and that is part of the key; a history is not. */
static bool asks_history(td_call *c) {
    bool made = td_grad_fn(held) || td_output_nr(held) || *td_grad_fn_name(held);
    return td_return(c, td_mul(td_arg(c, 0), made ? 10.0 : 1.0));
}
TEST(the_op_that_made_a_tensor_from_outside_is_not_asked_for) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, asks_history, NULL, NULL);
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *y;
    held = values(cx, TD_SHAPE(2), 1);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(td_item(td_sum(y)) == 2.0);
    td_mul_(held, leaf(cx, TD_SHAPE(2), 1));
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(td_error(cx) == TD_E_TRACE && strstr(td_message(cx), "td_grad_fn: "));
    td_close(cx);
}

/* The body's own tensors are the same in each run. */
static bool asks_its_own(td_call *c) {
    td_tensor *y = td_mul(td_arg(c, 0), 2.0);
    td_add_(y, 1.0);
    double v = (double)td_version(y), n = (double)td_storage_bytes(y);
    return td_return(c, td_mul(y, 1.0 + v + 10.0 * n + td_retains_grad(y)));
}
static void own_asked(side *s) {
    for (int n = 2; n < 6; n++)
        tell(s, "y", ask1(s, TD_ARGS(td_ones(s->cx, TD_SHAPE(n)))));
}
TEST(what_the_body_made_may_be_asked) { check_scene(own_asked, asks_its_own); }

/* ---- of files ----------------------------------------------------------- */

static const char *path;
static void       *file;

static bool opens(td_call *c) {
    td_safetensors *f = td_safetensors_open(td_call_ctx(c), path);
    return td_return(c, td_add(td_arg(c, 0), td_safetensors_get(f, "w")));
}
static bool gets(td_call *c) {
    return td_return(c, td_add(td_arg(c, 0), td_safetensors_get(file, "w")));
}
static bool loads(td_call *c) {
    return td_return(c, td_add(td_arg(c, 0), td_load_npy(td_call_ctx(c), path)));
}
static bool saves(td_call *c) {
    return td_save_npy(held, path) && td_return(c, td_arg(c, 0));
}

TEST(a_body_cannot_read_or_write_files) {
    td_ctx *cx = td_open();
    held = td_ones(cx, TD_SHAPE(2));
    files_begin();
    path = files_path("w.safetensors");
    CHECK(td_safetensors_save(cx, path, (const char *const[]){"w"},
                              TD_LIST(td_ones(cx, TD_SHAPE(2))), NULL));
    CHECK((file = td_safetensors_open(cx, path)) != NULL);
    CHECK(code_of(cx, opens, "td_safetensors_open: a captured body") == TD_E_TRACE);
    CHECK(code_of(cx, gets, "td_safetensors_get: a captured body") == TD_E_TRACE);
    path = files_path("w.npy");
    CHECK(td_save_npy(held, path));
    CHECK(code_of(cx, loads, "td_load_npy: a captured body") == TD_E_TRACE);
    CHECK(code_of(cx, saves, "td_save_npy: ") == TD_E_TRACE);
    files_end();
    td_close(cx);
}

/* ---- how it ends -------------------------------------------------------- */

static bool gives_up(td_call *c) {
    (void)c;
    return false;
}

TEST(a_body_that_returns_false_has_one_code) {
    td_ctx  *cx = td_open();
    td_value v;
    CHECK(code_of(cx, gives_up, "returned false without an error") == TD_E_ARG);
    td_call_body(cx, gives_up, NULL, TD_ARGS(td_ones(cx, TD_SHAPE(2))), &v, 1);
    CHECK(td_error(cx) == TD_E_ARG);
    td_close(cx);
}
