/* module_errors.c -- names that lead nowhere, types without a name, forwards that give
 * numbers, nothing, or end what they did not begin: an error that says so, or what was
 * asked for, and the module works on. */
#include "base/base.h"
#include "td_test.h"
#include "tower_help.h"

static const td_module_type bare = {.name = "module", .bytes = 8};
static const td_module_type nameless = {.bytes = 8};

TEST(messages_call_a_module_by_its_type) {
    td_ctx    *cx = td_open();
    td_module *m = td_module_make(cx, &bare), *child = td_module_make(cx, &bare);
    CHECK(td_is_nil(td_module_make(cx, &nameless)));
    CHECK(aot_says(cx, TD_E_ARG, "td_module_make: the name of the type"));
    CHECK_STR(td_module_name(m), "module");
    td_module_param(m, "a.b", td_ones(cx, TD_SHAPE(2)));
    CHECK(aot_says(cx, TD_E_ARG,
                   "td_module_param: module \"a.b\": a name must not contain"));
    td_module_param(m, NULL, td_ones(cx, TD_SHAPE(2)));
    CHECK(aot_says(cx, TD_E_ARG, "module \"\": a name must not be empty"));
    td_module_param(m, "", td_ones(cx, TD_SHAPE(2)));
    CHECK(aot_says(cx, TD_E_ARG, "module \"\": a name must not be empty"));
    CHECK(td_is_nil(td_module_get(m, "w")));
    CHECK(aot_says(cx, TD_E_ARG, "module has no parameter or buffer \"w\""));
    CHECK(td_is_nil(td_module_call(m, TD_ARGS(td_ones(cx, TD_SHAPE(2))))));
    CHECK(aot_says(cx, TD_E_ARG, "module has no forward"));
    CHECK(td_module_child(m, "c", child) == child);
    td_module_free(child);
    CHECK(aot_says(cx, TD_E_ARG, "this module is child \"c\" of another module"));
    td_module_free(m);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(names_that_lead_nowhere_are_errors) {
    td_ctx    *cx = td_open();
    td_module *m = tower_make(cx), *at = NULL;
    td_tensor *t = NULL;
    CHECK(m);
    CHECK(!td_module_follow(m, "lost", &t) &&
          aot_says(cx, TD_E_ARG, "td_module_follow: Tower has no tensor \"lost\""));
    CHECK(
        !td_module_follow_child(m, "lost", &at) &&
        aot_says(cx, TD_E_ARG, "td_module_follow_child: Tower has no child \"lost\""));
    CHECK(td_module_find(m, "") == m);
    CHECK(td_is_nil(td_module_find(m, "norm.deeper")) &&
          aot_says(cx, TD_E_ARG, "td_module_find: Tower has no child \"norm.deeper\""));
    CHECK(td_is_nil(td_module_find(m, "lost.deeper")) &&
          aot_says(cx, TD_E_ARG, "has no child \"lost.deeper\""));
    CHECK(!td_module_set(m, "norm.lost", td_ones(cx, TD_SHAPE(2))) &&
          aot_says(cx, TD_E_ARG, "has no parameter or buffer \"norm.lost\""));
    CHECK(!td_module_set(m, "lost.weight", td_ones(cx, TD_SHAPE(2))) &&
          aot_says(cx, TD_E_ARG, "has no parameter or buffer \"lost.weight\""));
    CHECK(td_module_child_at(m, 1, NULL) == NULL);
    CHECK(td_module_child_at(m, -1, NULL) == NULL);
    const char *name = NULL;
    CHECK(td_module_child_at(m, 0, &name) == td_module_find(m, "norm"));
    CHECK_STR(name, "norm");
    CHECK_OK(cx);
    td_module_free(m);
    td_close(cx);
}

TEST(a_parameter_is_replaced_by_what_may_be_one_only) {
    td_ctx    *cx = td_open(), *other = td_open();
    td_module *m = tower_make(cx);
    CHECK(!td_module_set(m, "norm.weight", td_ones(cx, TD_SHAPE(2), TD_I64)) &&
          aot_says(cx, TD_E_DTYPE, "a parameter must have a float or complex dtype"));
    td_tensor *w = td_mul(td_requires_grad_(td_ones(cx, TD_SHAPE(2))), 2.0);
    CHECK(!td_module_set(m, "norm.weight", w) &&
          aot_says(cx, TD_E_GRAD, "was made by"));
    CHECK(!td_module_set(m, "norm.weight", td_ones(other, TD_SHAPE(2))) &&
          aot_says(cx, TD_E_ARG, "belongs to another context"));
    CHECK(!td_module_set(m, "norm.weight", td_nil(cx)) &&
          aot_says(cx, TD_E_ARG, "\"norm.weight\" is nil"));
    /* a buffer is whatever it is, and none where it is not there */
    CHECK(td_module_set(m, "norm.mean", td_ones(cx, TD_SHAPE(2), TD_I64)));
    CHECK(td_module_set(m, "norm.mean", NULL) && !td_module_get(m, "norm.mean"));
    CHECK(td_module_set(m, "norm.mean", td_zeros(cx, TD_SHAPE(2))));
    /* gradients stay off where they were */
    CHECK(td_set_requires_grad(td_module_get(m, "norm.weight"), false));
    CHECK(td_module_set(m, "norm.weight", td_ones(cx, TD_SHAPE(2))));
    CHECK(!td_requires_grad(td_module_get(m, "norm.weight")));
    CHECK_OK(cx);
    td_module_free(m);
    td_close(other);
    td_close(cx);
}

TEST(a_child_of_another_context_or_with_its_parent_inside_is_refused) {
    td_ctx    *cx = td_open(), *other = td_open();
    td_module *m = td_module_make(cx, &tower_type),
              *n = td_module_make(other, &norm_type);
    td_module *k = td_module_make(cx, &norm_type);
    CHECK(td_is_nil(td_module_child(m, "norm", n)) &&
          aot_says(cx, TD_E_ARG, "belongs to another context"));
    CHECK(td_module_child(m, "norm", k) == k);
    CHECK(td_is_nil(td_module_child(k, "loop", m)) &&
          aot_says(cx, TD_E_ARG, "contains the module itself"));
    CHECK(td_is_nil(td_module_child(m, "self", m)) &&
          aot_says(cx, TD_E_ARG, "contains the module itself"));
    td_module_free(m);
    td_module_free(n);
    td_close(other);
    td_close(cx);
}

/* ---- what forwards give back ---------------------------------------------- */

static int mode;

static bool odd_forward(td_module *m, td_call *c) {
    td_ctx    *cx = td_module_ctx(m);
    td_tensor *x = td_arg(c, 0);
    if (mode == 0) return td_return(c, 2.5);
    if (mode == 1) return td_return(c);
    if (mode == 2) return td_return(c, (td_tensor *)NULL);
    if (mode == 3) { /* a scope is left open */
        td_scope_begin(cx, "left open");
        return td_return(c, td_mul(x, 2.0));
    }
    if (mode == 4) { /* one more is ended than was begun */
        td_scope_end(cx, NULL, NULL);
        return td_return(c, x);
    }
    return td_return(c, td_mul(x, 3.0));
}

static const td_module_type odd = {.name = "Odd", .forward = odd_forward};

TEST(results_that_are_no_tensors_and_scopes_out_of_step) {
    td_ctx    *cx = td_open();
    td_module *m = td_module_make(cx, &odd);
    td_tensor *x = td_ones(cx, TD_SHAPE(2));
    td_value   v;
    mode = 0;
    CHECK(td_is_nil(td_module_call(m, TD_ARGS(x))) &&
          aot_says(cx, TD_E_ARG, "the first result of Odd is a number"));
    CHECK(td_module_call_values(m, TD_ARGS(x), &v, 1) == 1 && v.kind == TD_K_FLOAT &&
          v.u.f == 2.5);
    mode = 1;
    CHECK(td_module_call(m, TD_ARGS(x)) == NULL && td_ok(cx));
    mode = 2;
    CHECK(td_module_call(m, TD_ARGS(x)) == NULL && td_ok(cx));
    mode = 3;
    CHECK(td_item(td_sum(td_module_call(m, TD_ARGS(x)))) == 4);
    td_scope_begin(cx, "around");
    mode = 4;
    td_module_call(m, TD_ARGS(x));
    CHECK(!td_ok(cx));
    td_clear(cx);
    mode = 5;
    CHECK(td_item(td_sum(td_module_call(m, TD_ARGS(x)))) == 6);
    td_module_free(m);
    td_close(cx);
}

/* ---- more results than there is room on the stack -------------------------- */

enum { MANY = 70 };

static bool many_forward(td_module *m, td_call *c) {
    (void)m;
    td_value v[MANY];
    for (int i = 0; i < MANY; i++)
        v[i] = td_value_tensor(td_mul(td_arg(c, 0), (double)i));
    return td_return_values(c, (td_values){v, MANY});
}

static const td_module_type many = {.name = "Many", .forward = many_forward};

TEST(a_module_may_have_many_results) {
    td_ctx    *cx = td_open();
    td_module *m = td_module_make(cx, &many);
    td_value   x = td_value_tensor(td_ones(cx, TD_SHAPE(2))), out[MANY];
    CHECK(td_module_call_values(m, (td_values){&x, 1}, out, MANY) == MANY);
    for (int i = 0; i < MANY; i++) CHECK(td_item(td_sum(out[i].u.t)) == 2 * i);
    for (int64_t n = 0, more = 1; more; n++) {
        td__fault_arm(n, false);
        int got = td_module_call_values(m, (td_values){&x, 1}, out, MANY);
        more = td__fault_count() > n;
        td__fault_arm(-1, false);
        CHECK(got == MANY ? td_ok(cx) : td_error(cx) == TD_E_MEMORY);
        for (int i = 0; i < MANY; i++) CHECK(got == MANY || td_is_nil(out[i].u.t));
        td_clear(cx);
    }
    td_module_free(m);
    td_close(cx);
}
