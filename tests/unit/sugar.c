/* sugar.c -- what the macros of the public headers make of their arguments. That they
 * compile, and what does not, is programs/headers.c. */
#include "tandem/tandem.h"

#include "td_test.h"

TEST(numbers_of_every_type_keep_their_value) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(), TD_F64);
    CHECK(td_item(td_mul(x, 0.5L)) == 0.5 && td_item(td_mul(x, 0.5f)) == 0.5);
    CHECK(td_item(td_mul(x, 3u)) == 3 && td_item(td_mul(x, (short)-3)) == -3);
    CHECK(td_item(td_mul(x, (signed char)-1)) == -1 && td_item(td_mul(x, true)) == 1);
    CHECK(td_item(td_mul(x, (unsigned char)200)) == 200);
    CHECK(td_item(td_mul(x, (unsigned long)-1)) == 0x1p64);
    CHECK(td_item(td_mul(x, 1LL << 40)) == 0x1p40 && td_ok(cx));
    CHECK(td_is_nil(td_add(x, NULL)) && !td_ok(cx));
    td_close(cx);
}

TEST(arguments_that_have_defaults_can_be_left_out) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_arange(cx, 5), *h[3], *at[2] = {a, a};
    CHECK(td_numel(a) == 5 && td_item(td_sum(a)) == 10);
    CHECK(td_item(td_sum(td_arange(cx, 1, 5))) == 10);
    CHECK(td_chunk(td_arange(cx, 6), 3, h, 3) == 3 && td_item(td_sum(h[2])) == 9);
    CHECK(td_numel(td_randint(cx, 7, TD_SHAPE(3))) == 3);
    CHECK(td_size(td_stack(TD_LIST_OF(at, 2)), 0) == 2);
    CHECK(td_size(td_stack(TD_LIST_OF(at, 2), 1), 1) == 2);
    CHECK(td_numel(td_cat(TD_LIST_OF(at, 2))) == 10 && td_ok(cx));
    td_close(cx);
}

static bool count(td_call *c) { return td_return(c, td_arg_count(c)); }

TEST(more_than_sixteen_arguments_fit) {
    td_ctx   *cx = td_open();
    td_value  out;
    td_values args =
        TD_ARGS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20);
    CHECK(td_call_body(cx, count, NULL, args, &out, 1) == 1);
    CHECK(out.kind == TD_K_INT && out.u.i == 20);
    td_value v[70];
    for (int i = 0; i < 70; i++) v[i] = TD_V(i);
    CHECK(td_call_body(cx, count, NULL, TD_ARGS_OF(v, 70), &out, 1) == 1);
    CHECK(out.u.i == 70);
    td_close(cx);
}

/* ---- places in libraries built on this one ------------------------------- */

/* As a library that defines TD_KEEP_PLACE: no line of its own is noted. */
static td_tensor *layer(td_tensor *x) { return td_op_matmul(x, x); }
#define layer(...) (TD_AT, layer(__VA_ARGS__))

TEST(a_library_can_note_the_line_that_calls_it) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3));
    int        line = 0, wanted = __LINE__ + 1;
    layer(x);
    CHECK(td_error_place(cx, &line) != NULL && line == wanted);
    td_close(cx);
}
