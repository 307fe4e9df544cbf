/* core_scopes.c -- who owns a tensor: scopes, keep and drop. */
#include "op_help.h"

#include "core/core.h"

static void count_release(void *env) { (*(int *)env)++; }

/* A tensor over static memory that counts its death. */
static td_tensor *watched(td_ctx *cx, int *deaths) {
    static float bytes[4];
    return td_wrap(cx, TD_F32, TD_SHAPE(4), TD_ALL, bytes, count_release, deaths);
}

TEST(ending_a_scope_drops_what_was_made_inside) {
    td_ctx *cx = td_open();
    int     deaths = 0;

    td_scope_begin(cx, "a");
    watched(cx, &deaths);
    watched(cx, &deaths);
    CHECK(deaths == 0);
    td_scope_end(cx, "a", NULL);

    CHECK(deaths == 2);
    td_close(cx);
}

TEST(a_tensor_made_outside_survives_an_inner_scope) {
    td_ctx *cx = td_open();
    int     deaths = 0;

    td_tensor *t = watched(cx, &deaths);
    td_scope_begin(cx, "a");
    td_add(t, 1);
    td_scope_end(cx, "a", NULL);

    CHECK(deaths == 0);
    CHECK(td_numel(t) == 4);
    td_close(cx);
    CHECK(deaths == 1);
}

TEST(ending_an_outer_scope_ends_the_inner_ones) {
    td_ctx *cx = td_open();
    int     deaths = 0;

    td_scope_begin(cx, "outer");
    td_scope_begin(cx, "inner");
    watched(cx, &deaths);
    td_scope_begin(cx, "innermost");
    watched(cx, &deaths);
    td_scope_end(cx, "outer", NULL);

    CHECK(deaths == 2);
    CHECK_OK(cx);
    td_scope_end(cx, "inner", NULL);
    CHECK_FAILS(cx, TD_E_ARG, "no open scope has the label \"inner\"");
    td_close(cx);
}

TEST(a_result_moves_to_the_parent_scope) {
    td_ctx *cx = td_open();
    int     deaths = 0;

    td_scope_begin(cx, "outer");
    td_scope_begin(cx, "inner");
    watched(cx, &deaths);
    td_tensor *t = td_scope_end(cx, "inner", watched(cx, &deaths));
    CHECK(deaths == 1);
    CHECK(td_numel(t) == 4);
    td_scope_end(cx, "outer", NULL);

    CHECK(deaths == 2);
    td_close(cx);
}

TEST(a_result_passes_several_scopes_at_once) {
    td_ctx *cx = td_open();
    int     deaths = 0;

    td_scope_begin(cx, "a");
    td_scope_begin(cx, "b");
    td_scope_begin(cx, "c");
    watched(cx, &deaths);
    td_tensor *t = td_scope_end(cx, "a", watched(cx, &deaths));

    CHECK(deaths == 1);
    CHECK(td_size(t, 0) == 4);
    td_close(cx);
    CHECK(deaths == 2);
}

TEST(a_result_of_an_outer_scope_stays_there) {
    td_ctx *cx = td_open();
    int     deaths = 0;

    td_scope_begin(cx, "a");
    td_tensor *t = watched(cx, &deaths);
    td_scope_begin(cx, "b");
    CHECK(td_scope_end(cx, "b", t) == t);
    CHECK(deaths == 0);
    td_scope_end(cx, "a", NULL);

    CHECK(deaths == 1);
    td_close(cx);
}

TEST(without_a_result_the_end_of_a_scope_gives_nil) {
    td_ctx *cx = td_open();

    td_scope_begin(cx, "a");
    CHECK(td_is_nil(td_scope_end(cx, "a", NULL)));
    td_scope_begin(cx, "a");
    CHECK(td_is_nil(td_scope_end(cx, "a", td_nil(cx))));

    CHECK_OK(cx);
    td_close(cx);
}

TEST(scopes_may_share_a_label_and_the_innermost_ends_first) {
    td_ctx *cx = td_open();
    int     outer = 0, inner = 0;

    td_scope_begin(cx, "layer");
    watched(cx, &outer);
    td_scope_begin(cx, "layer");
    watched(cx, &inner);
    td_scope_end(cx, "layer", NULL);
    CHECK(inner == 1 && outer == 0);
    td_scope_end(cx, "layer", NULL);

    CHECK(inner == 1 && outer == 1);
    td_close(cx);
}

TEST(a_scope_without_a_label_is_left_out_of_messages) {
    td_ctx *cx = td_open();

    td_scope_begin(cx, NULL);
    td_add(td_zeros(cx, TD_SHAPE(2)), td_zeros(cx, TD_SHAPE(3)));
    CHECK(!strncmp(td_message(cx), "add: ", 5));
    td_clear(cx);
    td_scope_end(cx, NULL, NULL);

    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_kept_tensor_outlives_its_scope) {
    td_ctx *cx = td_open();
    int     deaths = 0;

    td_scope_begin(cx, "a");
    td_tensor *t = watched(cx, &deaths);
    CHECK(td_keep(t) == t);
    td_scope_end(cx, "a", NULL);
    CHECK(deaths == 0);
    td_drop(t);

    CHECK(deaths == 1);
    CHECK_OK(cx);
    td_close(cx);
    CHECK(deaths == 1);
}

TEST(keeps_are_counted) {
    td_ctx *cx = td_open();
    int     deaths = 0;

    td_scope_begin(cx, "a");
    td_tensor *t = td_keep(td_keep(watched(cx, &deaths)));
    td_scope_end(cx, "a", NULL);
    td_drop(t);
    CHECK(deaths == 0);
    td_drop(t);

    CHECK(deaths == 1);
    td_close(cx);
}

TEST(a_drop_takes_back_a_keep_before_it_touches_the_scope) {
    td_ctx *cx = td_open();
    int     deaths = 0;

    td_scope_begin(cx, "a");
    td_tensor *t = td_keep(watched(cx, &deaths));
    td_drop(t);
    CHECK(deaths == 0);
    td_scope_end(cx, "a", NULL);

    CHECK(deaths == 1);
    td_close(cx);
}

TEST(a_drop_without_a_keep_lets_go_of_a_scopes_tensor_early) {
    td_ctx *cx = td_open();
    int     deaths = 0;

    td_scope_begin(cx, "a");
    td_tensor *t = watched(cx, &deaths);
    watched(cx, &deaths);
    td_drop(t);
    CHECK(deaths == 1);
    td_scope_end(cx, "a", NULL);

    CHECK(deaths == 2);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_dropped_base_lives_on_under_its_views) {
    td_ctx *cx = td_open();
    int     deaths = 0;

    td_scope_begin(cx, "a");
    td_tensor *t = watched(cx, &deaths), *v = td_view(t, TD_SHAPE(2, 2));
    td_drop(t);
    CHECK(deaths == 0);
    td_fill_(v, 3.0);
    CHECK_VALUES(v, 3, 3, 3, 3);
    td_scope_end(cx, "a", NULL);

    CHECK(deaths == 1);
    td_close(cx);
}

TEST(dropping_what_only_a_graph_holds_is_refused) {
    td_ctx *cx = td_open();

    td_tensor *t = td_keep(td_tensor1(cx, 1, 2)), *v;
    td_scope_begin(cx, "a");
    v = td_keep(td_view(t, TD_SHAPE(2, 1))); /* the view holds t */
    td_scope_end(cx, "a", NULL);
    td_drop(t); /* the keep */
    td_drop(t); /* the scope's */
    CHECK_OK(cx);
    td_drop(t); /* only v holds it */

    CHECK_FAILS(cx, TD_E_ARG, "td_drop: this tensor (f32[2]) was not kept");
    CHECK_VALUES(v, 1, 2);
    td_close(cx);
}

TEST(keep_and_drop_of_nil_do_nothing) {
    td_ctx *cx = td_open();

    td_drop(td_keep(td_nil(cx)));
    td_drop(td_nil(cx));
    td_drop(NULL);

    CHECK_OK(cx);
    CHECK(td_is_nil(td_nil(cx)));
    td_close(cx);
}

TEST(closing_a_context_frees_tensors_that_were_kept) {
    td_ctx *cx = td_open();
    int     deaths = 0;

    td_scope_begin(cx, "never ended");
    td_keep(watched(cx, &deaths));
    td_close(cx);

    CHECK(deaths == 1);
}

TEST(temporaries_of_an_expression_give_their_bytes_back) {
    td_ctx *cx = td_open();
    size_t  before = td_memory_live();

    for (int i = 0; i < 50; i++) {
        td_scope_begin(cx, "step");
        td_tensor *x = td_ones(cx, TD_SHAPE(1000));
        td_sum(td_mul(td_add(x, 1.0), td_exp(x)));
        td_scope_end(cx, "step", NULL);
        CHECK(td_memory_live() == before);
    }
    td_close(cx);
}

TEST(parts_of_a_composite_op_die_with_it) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(64, 64));
    size_t     before = td_memory_live();

    td_mse_loss(x, x); /* a 0-dim result: one small block */

    CHECK(td_memory_live() - before < 64 * 64 * 4);
    td_close(cx);
}

TEST(a_thousand_nested_scopes_end_together) {
    td_ctx *cx = td_open();
    int     deaths = 0;

    td_scope_begin(cx, "outer");
    for (int i = 0; i < 1000; i++) {
        td_scope_begin(cx, "inner");
        watched(cx, &deaths);
    }
    td_scope_end(cx, "outer", NULL);

    CHECK(deaths == 1000);
    td_close(cx);
}

TEST(a_long_chain_of_views_unwinds_without_recursion) {
    td_ctx *cx = td_open();

    td_scope_begin(cx, "a");
    td_tensor *t = td_zeros(cx, TD_SHAPE(2, 3));
    for (int i = 0; i < 100000; i++) {
        td_tensor *v = td_transpose(t, 0, 1);
        td_drop(t);
        t = v;
    }
    CHECK_SHAPE(t, 2, 3);
    td_scope_end(cx, "a", NULL);

    CHECK_OK(cx);
    td_close(cx);
}

/* A scope that could not be opened for lack of memory must not end another of its
 * name: what that one owns is still in use. */
TEST(a_scope_that_did_not_open_ends_nothing) {
    td_ctx *cx = td_open();
    int     deaths = 0, begun = 1, ended = 0;
    td_scope_begin(cx, "layer");
    watched(cx, &deaths);

    for (; begun < 1000 && td_ok(cx); begun++) { /* until the list must grow */
        td__fault_arm(0, true);
        td_scope_begin(cx, "layer");
        td__fault_arm(-1, false);
    }
    CHECK(td_error(cx) == TD_E_MEMORY);
    td_scope_begin(cx, "layer"); /* inside the missing one: missing as well */
    begun++;
    for (; deaths == 0 && ended < begun; ended++) td_scope_end(cx, "layer", NULL);

    CHECK(ended == begun);
    CHECK(deaths == 1);
    td_clear(cx);
    td_scope_end(cx, "layer", NULL);
    CHECK_FAILS(cx, TD_E_ARG, "no open scope");
    td_close(cx);
}

TEST(labels_of_open_scopes_are_the_path_in_messages) {
    td_ctx *cx = td_open();

    td_scope_begin(cx, "epoch");
    td_scope_begin(cx, "step");
    td_matmul(td_zeros(cx, TD_SHAPE(2, 3)), td_zeros(cx, TD_SHAPE(2, 3)));

    CHECK_MESSAGE(cx, "epoch/step: matmul: inner sizes differ, f32[2,3] @ f32[2,3]");
    td_close(cx);
}

TEST(a_path_longer_than_the_message_is_cut) {
    td_ctx *cx = td_open();
    char    label[600];
    memset(label, 'x', sizeof label - 1);
    label[sizeof label - 1] = 0;

    for (int i = 0; i < 10; i++) td_scope_begin(cx, label);
    td_add(td_zeros(cx, TD_SHAPE(2)), td_zeros(cx, TD_SHAPE(3)));

    CHECK(strstr(td_message(cx), "cannot broadcast f32[2] with f32[3]"));
    CHECK(strlen(td_message(cx)) < 2048);
    td_close(cx);
}
