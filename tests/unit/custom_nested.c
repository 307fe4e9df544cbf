/* custom_nested.c -- custom functions inside branches and loops, eager against
 * compiled: such a function writes what its forward writes, and nothing else. */
#include "aot_sides.h"

/* ---- functions ----------------------------------------------------------- */

static bool square_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                      int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], in[0]);
    return td_fcall_save(f, TD_LIST(in[0]));
}
static bool square_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                      int n_in) {
    (void)n, (void)n_in;
    grad[0] = td_mul(td_mul(g[0], td_fcall_saved(f, 0)), 2.0);
    return true;
}
static bool same_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    (void)f, (void)n_in, (void)n_out;
    out[0] = in[0];
    return true;
}
static bool double_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                      int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul_(in[0], 2.0);
    return td_fcall_mark_dirty(f, TD_LIST(in[0]));
}
static bool plus_one_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                        int n_out) {
    (void)f, (void)n_in, (void)n_out;
    out[0] = td_mul(td_add_(in[0], 1.0), 2.0);
    return true;
}
static bool twice_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                     int n_in) {
    (void)f, (void)n, (void)n_in;
    grad[0] = td_mul(g[0], 2.0);
    return true;
}

static const td_function square = {"square", square_fw, square_bw, NULL};
static const td_function same = {"same", same_fw, twice_bw, NULL};
static const td_function doubled = {"doubled", double_fw, twice_bw, NULL};
static const td_function plus_one = {"plus one", plus_one_fw, twice_bw, NULL};

/* ---- branches and loops -------------------------------------------------- */

static const td_function *used; /* by the branch and the loop */

static bool call_used(td_call *c) {
    td_tensor *y;
    return td_function_call(td_call_ctx(c), used, NULL, TD_LIST(td_arg(c, 0)), &y, 1) &&
           td_return(c, y);
}
static bool half(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 0.5)); }

/* Argument 1 chooses the branch. */
static bool branching(td_call *c) {
    td_tensor  *y;
    td_branches of = {.yes = call_used, .no = half};
    return td_cond(td_gt(td_arg(c, 1), 0.0), of, TD_ARGS(td_arg(c, 0)), &y, 1) &&
           td_return(c, td_mul(y, y));
}
static bool is_small(td_call *c) {
    return td_return(c, td_lt(td_sum(td_detach(td_arg(c, 0))), 50.0));
}
static bool looping(td_call *c) {
    td_tensor *y;
    td_loop    of = {.test = is_small, .body = call_used};
    return td_while(td_call_ctx(c), of, TD_LIST(td_arg(c, 0)), &y) &&
           td_return(c, td_mul(y, y));
}

/* A leaf or a computed tensor; the branch with the function. */
static void call_on(side *s, bool is_leaf) {
    td_tensor *w = leaf(s->cx, TD_SHAPE(2), 1.5);
    td_tensor *x = is_leaf ? w : td_mul(w, 1.0);
    td_tensor *y = ask1(s, TD_ARGS(x, td_full(s->cx, TD_SHAPE(1), 1.0, TD_F64)));
    tell(s, "y", y);
    tell(s, "x", x);
    td_backward(td_sum(y));
    tell_grad(s, "gradient", td_grad_of(w));
}
static void on_a_leaf(side *s) { call_on(s, true); }
static void on_a_result(side *s) { call_on(s, false); }

TEST(a_custom_function_in_a_branch_reads_its_input) {
    const td_function *reading[] = {&square, &same};
    for (int i = 0; i < 2; i++) {
        used = reading[i];
        check_scene(on_a_leaf, branching);
        check_scene(on_a_result, branching);
    }
}
TEST(a_custom_function_in_a_branch_writes_its_input) {
    used = &doubled;
    check_scene(on_a_result, branching);
    used = &plus_one;
    check_scene(on_a_leaf, branching);
    check_scene(on_a_result, branching);
}
TEST(a_custom_function_in_a_loop_reads_the_state) {
    used = &square;
    check_scene(on_a_leaf, looping);
    check_scene(on_a_result, looping);
}
