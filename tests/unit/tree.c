/* tree.c -- nested lists, tuples and dictionaries, flat and back. */
#include "td_test.h"

#include "tandem/tandem.h"

/* {w: *, layers: [(*, *), []], "a b": *} */
static td_tree *example(td_ctx *cx) {
    td_tree   *t = td_tree_make(cx);
    td_tensor *w = td_ones(cx, TD_SHAPE(2));
    td_tree_begin(t, TD_TREE_DICT, NULL);
    td_tree_add(t, "w", w);
    td_tree_begin(t, TD_TREE_LIST, "layers");
    td_tree_begin(t, TD_TREE_TUPLE, NULL);
    td_tree_add(t, NULL, 1);
    td_tree_add(t, NULL, 2.5);
    td_tree_end(t);
    td_tree_begin(t, TD_TREE_LIST, NULL);
    td_tree_end(t);
    td_tree_end(t);
    td_tree_add(t, "a b", TD_NONE);
    td_tree_end(t);
    return t;
}

#define SPEC "{w: *, layers: [(*, *), []], \"a b\": *}"

TEST(a_tree_flattens_to_leaves_and_a_spec) {
    td_ctx  *cx = td_open();
    td_tree *t = example(cx);
    CHECK_STR(td_tree_spec(t), SPEC);
    td_values v = td_tree_leaves(t);
    CHECK(v.n == 4 && v.v[0].kind == TD_K_TENSOR && v.v[1].u.i == 1 &&
          v.v[2].u.f == 2.5);
    CHECK(v.v[3].kind == TD_K_NONE);
    td_tree_drop(t);
    td_close(cx);
}

TEST(a_spec_and_its_leaves_are_the_tree_again) {
    td_ctx  *cx = td_open();
    td_tree *t = example(cx), *again;
    td_value v[4] = {TD_V(10), TD_V(11), TD_V(12), TD_V(13)};
    again = td_tree_from(cx, td_tree_spec(t), (td_values){v, 4});
    CHECK_OK(cx);
    CHECK_STR(td_tree_spec(again), SPEC);
    CHECK(td_tree_value(again, td_tree_find(again, "layers.0.1")).u.i == 12);
    CHECK(td_tree_value(again, td_tree_find(again, "a b")).u.i == 13);
    td_tree_drop(t);
    td_tree_drop(again);
    td_close(cx);
}

TEST(paths_lead_to_entries) {
    td_ctx  *cx = td_open();
    td_tree *t = example(cx);
    int      layers = td_tree_find(t, "layers");
    CHECK(td_tree_find(t, "") == 0 && td_tree_kind_of(t, 0) == TD_TREE_DICT);
    CHECK(td_tree_length(t, 0) == 3 && td_tree_length(t, layers) == 2);
    CHECK(td_tree_kind_of(t, td_tree_entry(t, layers, 0)) == TD_TREE_TUPLE);
    CHECK_STR(td_tree_key(t, layers), "layers");
    CHECK(!td_tree_key(t, td_tree_entry(t, layers, 0)));
    CHECK(td_tree_find(t, "layers.2") == -1 && td_tree_find(t, "layers.x") == -1);
    CHECK(td_tree_find(t, "nope") == -1 && td_tree_entry(t, layers, 5) == -1);
    td_tree_drop(t);
    td_close(cx);
}

TEST(a_single_leaf_and_empty_groups_are_trees) {
    static const char *const specs[] = {"*",  "[]",      "()",
                                        "{}", "[[[*]]]", "{a: {b: ()}}"};
    td_ctx                  *cx = td_open();
    for (int i = 0; i < 6; i++) {
        td_value one = TD_V(1);
        bool     leaf = strchr(specs[i], '*') != NULL;
        td_tree *t = td_tree_from(cx, specs[i], (td_values){&one, leaf ? 1 : 0});
        CHECK_OK(cx);
        CHECK_STR(td_tree_spec(t), specs[i]);
        td_tree_drop(t);
    }
    td_close(cx);
}

TEST(a_tree_keeps_its_tensors_alive) {
    td_ctx  *cx = td_open();
    td_tree *t = td_tree_make(cx);
    td_scope_begin(cx, "s");
    td_tree_add(t, NULL, td_full(cx, TD_SHAPE(1), 7));
    td_scope_end(cx, "s", NULL);
    CHECK_NEAR(td_item(td_tree_leaves(t).v[0].u.t), 7, 0);
    td_tree_drop(t);
    td_close(cx);
}

TEST(a_wrong_spec_is_an_error_with_its_column) {
    static const struct {
        const char *spec, *words;
    } wrong[] = {{"", "column 1"},
                 {"[*", "column 3"},
                 {"[*)", "column 3"},
                 {"{*}", "expected key"},
                 {"* *", "column 3"},
                 {"{a: *, a: *}", "\"a\""},
                 {"[*, *, *]", "2 values"},
                 {"*", "1 leaves, but 2 values"},
                 {"{\"a: *}", "does not end"},
                 {"[*,, *]", "column 4"},
                 {"{: *}", "empty"}};
    td_ctx  *cx = td_open();
    td_value v[2] = {TD_V(1), TD_V(2)};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK(td_is_nil(td_tree_from(cx, wrong[i].spec, (td_values){v, 2})));
        TD_CHECK_THAT(td_error(cx) == TD_E_ARG &&
                          strstr(td_message(cx), wrong[i].words),
                      "%s: %s", wrong[i].spec, td_message(cx));
        td_clear(cx);
    }
    td_close(cx);
}

TEST(building_out_of_order_is_an_error) {
    td_ctx  *cx = td_open();
    td_tree *t = td_tree_make(cx);
    CHECK(!td_tree_spec(t) && td_tree_leaves(t).n == 0);
    td_clear(cx);
    CHECK(!td_tree_end(t));
    td_clear(cx);
    td_tree_begin(t, TD_TREE_LIST, NULL);
    CHECK(!td_tree_add(t, "key", 1));
    td_clear(cx);
    CHECK(!td_tree_spec(t));
    td_clear(cx);
    td_tree_end(t);
    CHECK(!td_tree_add(t, NULL, 1));
    td_clear(cx);
    CHECK_STR(td_tree_spec(t), "[]");
    td_tree_drop(t);
    td_close(cx);
}
