/* aot_masks.c -- compiled bodies whose sizes depend on values: masks, nonzero and what
 * is computed with them, forward and backward, for any number of elements. */
#include "aot_sides.h"
#include "base/base.h"
#include "tower_help.h"

static bool picks(td_call *c) {
    return td_return(c, td_index(td_arg(c, 0), TD_LIST(td_arg(c, 1))));
}
static bool sums(td_call *c) {
    td_tensor *y = td_index(td_arg(c, 0), TD_LIST(td_arg(c, 1)));
    return td_return(c, td_sum(td_mul(y, td_sin(y))));
}
static bool puts_sum(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_index_put(x, TD_LIST(td_arg(c, 1)), td_sum(x), false));
}
static bool adds_in_place(td_call *c) {
    td_tensor *x = td_mul(td_arg(c, 0), 2.0);
    td_index_put_(x, TD_LIST(td_arg(c, 1)),
                  td_full(td_call_ctx(c), TD_SHAPE(), 3.0, TD_F64), true);
    return td_return(c, td_exp(x));
}
static bool selects(td_call *c) {
    td_tensor *y = td_masked_select(td_arg(c, 0), td_arg(c, 1));
    return td_return(c, td_mul(y, y));
}
static bool by_rows(td_call *c) {
    td_tensor *rows = td_select(td_nonzero(td_select(td_arg(c, 1), 1, 0)), 1, 0);
    return td_return(c, td_index_select(td_sin(td_arg(c, 0)), 0, rows));
}
static bool makes_mask(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_index(x, TD_LIST(td_gt(x, td_mean(x))));
    return td_return(c, td_mul(td_add(y, 1.0),
                               td_sum(td_index(x, TD_LIST(td_arg(c, 1))))));
}

/* Eager's contiguous copies where there is more than one row; nobody can tell. */
static bool lays_out(td_call *c) {
    td_tensor *mask = td_select(td_arg(c, 1), 1, 0);
    td_tensor *rows = td_index(td_sin(td_arg(c, 0)), TD_LIST(mask));
    td_tensor *y = td_contiguous(td_transpose(rows, 0, 1));
    return td_return(c, td_mul(y, y));
}

/* Masks of 0, 1, some and all elements. */
static void each_mask(side *s) {
    static const int n[] = {5, 0, 1, 2, 12};
    for (int k = 0; k < TD_COUNT(n); k++) {
        double     at[12];
        td_tensor *x = leaf(s->cx, TD_SHAPE(3, 4), -0.3), *y, *g;
        for (int i = 0; i < 12; i++) at[i] = i * 7 % 12 < n[k];
        td_tensor *m = td_gt(td_from(s->cx, TD_F64, TD_SHAPE(3, 4), at), 0.5);
        y = ask1(s, TD_ARGS(x, m));
        tell(s, "y", y);
        if (!td_ok(s->cx)) tell_error(s, NULL);
        else if (td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, NULL))
            tell_grad(s, "g", g);
        else tell_error(s, NULL);
    }
    if (s->fn) CHECK(td_fn_specializations(s->fn) == 1);
}

static void check_masks(td_body *body) {
    static const td_aot_opts dynamic = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
    check_scene(each_mask, body);
    check_with(each_mask, body, NULL, &dynamic);
}

TEST(a_mask_picks_elements) { check_masks(picks); }
TEST(picked_elements_are_summed) { check_masks(sums); }
TEST(a_mask_says_where_a_value_is_put) { check_masks(puts_sum); }
TEST(a_mask_says_where_is_written_in_place) { check_masks(adds_in_place); }
TEST(masked_select_is_differentiable) { check_masks(selects); }
TEST(rows_are_picked_by_nonzero) { check_masks(by_rows); }
TEST(a_mask_is_made_inside) { check_masks(makes_mask); }
TEST(what_a_mask_picks_is_laid_out_anew) { check_masks(lays_out); }
