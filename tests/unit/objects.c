/* objects.c -- objects of the program as arguments of compiled functions and of
 * registered ops. */
#include "td_test.h"

#include "tandem/tandem.h"

#include <string.h>

typedef struct counter {
    int  n, dropped;
    char seen[64];
} counter;

static void drop_counter(void *data) { ((counter *)data)->dropped++; }

/* Counts, and copies x. */
static bool count(const td_op_run *r) {
    counter   *c = td_object_data(r->in[1].u.t, "counter");
    td_tensor *x = r->in[0].u.t;
    if (!c) return false;
    c->n++;
    strncat(c->seen, r->in[2].u.s, sizeof c->seen - strlen(c->seen) - 1);
    memcpy(td_data(r->out[0]), td_data(x),
           td_dtype_size(td_dtype_of(x)) * (size_t)td_numel(x));
    return true;
}
static bool count_back(const td_op_run *r) {
    return td_call_op(r->cx, "ob_count",
                      TD_ARGS(r->g[0], r->in[1].u.t, td_value_str("g")), r->grad, 1);
}

static bool open_ops(td_ctx *cx) {
    return td_register_op(
        cx, &(td_op_opts){TD_OP_OPTS,
                          .schema = "ob_count(Tensor x, Object c, str s='f') -> Tensor",
                          .shape = "x", .kernel = count, .backward = count_back,
                          .saves = "c", .effect = TD_EFFECT_ORDERED,
                          .dtypes = TD_ONLY(TD_F32), .version = 1});
}

static td_tensor *counter_of(td_ctx *cx, counter *c) {
    return td_object(cx, &(td_object_opts){TD_OBJECT_OPTS, .type = "counter", .data = c,
                                           .drop = drop_counter});
}

static td_tensor *ob_count(td_tensor *x, td_tensor *o) {
    td_tensor *y;
    td_call_op(td_ctx_of(x), "ob_count", TD_ARGS(x, o), &y, 1);
    return y;
}

static bool counts(td_call *c) {
    td_tensor *x = td_arg(c, 0), *o = td_arg(c, 1);
    return td_return(c, td_exp(ob_count(td_sin(ob_count(x, o)), o)));
}

TEST(an_object_reaches_the_op_in_forward_and_backward) {
    td_ctx *cx = td_open();
    counter c[3] = {{0}};
    CHECK(open_ops(cx));
    td_fn *f = td_aot_function(cx, counts, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        td_scope_begin(cx, "call");
        td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3))), *y = NULL;
        td_tensor *o = counter_of(cx, &c[i]);
        td_value   v;
        CHECK(td_object_data(o, "counter") == &c[i]);
        if (i) CHECK(td_invoke(f, TD_ARGS(x, o), &y, 1));
        else CHECK(td_call_body(cx, counts, NULL, TD_ARGS(x, o), &v, 1) == 1);
        CHECK_OK(cx);
        CHECK(td_backward(td_sum(i ? y : v.u.t)));
        CHECK_OK(cx);
        CHECK_STR(c[i].seen, "ffgg");
        td_scope_end(cx, "call", NULL);
        CHECK(c[i].n == 4 && c[i].dropped == 1);
    }
    CHECK(td_fn_specializations(f) == 1); /* other objects, the same code */
    td_close(cx);
}

TEST(a_compiled_backward_keeps_the_object_alive) {
    td_ctx *cx = td_open();
    counter c = {0};
    CHECK(open_ops(cx));
    td_fn     *f = td_aot_function(cx, counts, NULL, NULL);
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3))), *y = NULL;
    td_scope_begin(cx, "call");
    CHECK(td_invoke(f, TD_ARGS(x, counter_of(cx, &c)), &y, 1));
    td_scope_end(cx, "call", y);
    CHECK(c.n == 2 && c.dropped == 0);
    CHECK(td_backward(td_sum(y)) && c.n == 4);
    CHECK_OK(cx);
    td_close(cx);
    CHECK(c.dropped == 1);
}

static int copy_pack(void *env, const td_saved_at *at, td_tensor *t, td_tensor **to) {
    (void)env, (void)at;
    to[0] = td_clone(t);
    return 1;
}
static td_tensor *copy_unpack(void *env, const td_saved_at *at, td_tensor *const *v,
                              int n) {
    (void)env, (void)at, (void)n;
    return td_clone(v[0]);
}

TEST(an_object_is_not_packed) {
    td_ctx     *cx = td_open();
    counter     c = {0};
    td_aot_opts o = {TD_AOT_OPTS, .saved = {.pack = copy_pack, .unpack = copy_unpack}};
    CHECK(open_ops(cx));
    td_fn     *f = td_aot_function(cx, counts, NULL, &o);
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3))), *y = NULL;
    CHECK(td_invoke(f, TD_ARGS(x, counter_of(cx, &c)), &y, 1));
    CHECK(td_backward(td_sum(y)) && c.n == 4);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(types_and_keys_of_objects_select_code) {
    td_ctx *cx = td_open();
    counter c = {0};
    CHECK(open_ops(cx));
    td_fn         *f = td_aot_function(cx, counts, NULL, NULL);
    td_tensor     *x = td_ones(cx, TD_SHAPE(3)), *y;
    td_object_opts o = {TD_OBJECT_OPTS, .type = "counter", .data = &c};
    for (o.key = 0; o.key < 3; o.key++)
        for (int i = 0; i < 2; i++)
            CHECK(td_invoke(f, TD_ARGS(x, td_object(cx, &o)), &y, 1));
    CHECK(td_fn_specializations(f) == 3);
    o.type = "other";
    CHECK(!td_invoke(f, TD_ARGS(x, td_object(cx, &o)), &y, 1));
    CHECK(strstr(td_message(cx), "carries an object of type other") != NULL);
    td_clear(cx);
    CHECK(!td_invoke(f, TD_ARGS(x, td_zeros(cx, TD_SHAPE(0), TD_U8)), &y, 1));
    CHECK(strstr(td_message(cx), "argument c must be an object") != NULL);
    td_clear(cx);
    td_close(cx);
}

static bool reads_object(td_call *c) {
    return td_object_data(td_arg(c, 1), "counter") && td_return(c, td_arg(c, 0));
}

TEST(graphs_name_the_type_and_exports_refuse_objects) {
    td_ctx *cx = td_open();
    counter c = {0};
    char    text[2000];
    CHECK(open_ops(cx));
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3))), *o = counter_of(cx, &c);
    td_staged *s = td_stage_capture(cx, counts, NULL, TD_ARGS(x, o), NULL);
    CHECK_OK(cx);
    td_graph_format(td_stage_joint(s), text, sizeof text);
    CHECK(strstr(text, "u8[0] @0 <object \"counter\">") ||
          strstr(text, "u8[0] <object \"counter\">"));
    td_gfile *file = td_graphs_parse(cx, text, strlen(text), "joint");
    CHECK_OK(cx);
    td_graphs_drop(file);
    CHECK(td_is_nil(td_export_joint(cx, counts, NULL, TD_ARGS(x, o), NULL)));
    CHECK(strstr(td_message(cx), "is an object (td_object)") != NULL);
    td_clear(cx);
    td_fn     *f = td_aot_function(cx, reads_object, NULL, NULL);
    td_tensor *y;
    CHECK(!td_invoke(f, TD_ARGS(x, o), &y, 1) && td_error(cx) == TD_E_TRACE);
    td_clear(cx);
    td_close(cx);
}

TEST(mistakes_with_objects_are_errors) {
    td_ctx        *cx = td_open();
    int            n = 0;
    td_object_opts o = {TD_OBJECT_OPTS, .type = "Bad Name", .data = &n};
    CHECK(td_is_nil(td_object(cx, &o)));
    CHECK(strstr(td_message(cx), "must consist of") != NULL);
    td_clear(cx);
    o.type = "counter";
    o.data = NULL;
    CHECK(td_is_nil(td_object(cx, &o)));
    td_clear(cx);
    o.data = &n;
    td_tensor *t = td_object(cx, &o);
    CHECK(!td_object_data(t, "file") && td_error(cx) == TD_E_ARG);
    td_clear(cx);
    CHECK(!td_object_data(td_ones(cx, TD_SHAPE(2)), "counter"));
    td_clear(cx);
    CHECK(td_is_nil(td_zero_(t)));
    td_clear(cx);
    CHECK(td_ok(cx));
    td_close(cx);
}
