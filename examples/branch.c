/* branch.c -- a function that branches on a value and loops until one is reached,
 * captured: both branches and the loop are part of the program.
 *
 *     cc branch.c $(pkg-config --cflags --libs tandem) && ./a.out
 */
#include <tandem/tandem.h>

#include <stdio.h>
#include <stdlib.h>

/* Steps that are too long are cut to length one. */
static bool cut(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_div(x, td_sqrt(td_sum(td_mul(x, x)))));
}
static bool keep(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 1.0)); }

static bool clipped(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *y;
    td_tensor  *is_long = td_gt(td_sum(td_mul(x, x)), 1.0);
    td_branches of = {.yes = cut, .no = keep};
    return td_cond(is_long, of, TD_ARGS(x), &y, 1) && td_return(c, y);
}

/* Newton's steps to the square root of what the loop closes over. */
static bool is_off(td_call *c) {
    td_tensor *r = td_arg(c, 0), *a = td_call_env(c);
    return td_return(c, td_gt(td_abs(td_sub(td_mul(r, r), a)), 1e-4));
}
static bool improve(td_call *c) {
    td_tensor *r = td_arg(c, 0), *a = td_call_env(c);
    return td_return(c, td_mul(td_add(r, td_div(a, r)), 0.5));
}
static bool root(td_call *c) {
    td_tensor *a = td_arg(c, 0), *r;
    td_loop    of = {.test = is_off, .body = improve, .env = a};
    return td_while(td_call_ctx(c), of, TD_LIST(a), &r) && td_return(c, r);
}

static void show(td_program *p) {
    size_t n = td_program_text(p, NULL, 0); /* 0 for nil, of a capture that failed */
    char  *s = malloc(n + 1);
    if (s && td_program_text(p, s, n + 1)) printf("%s\n", s);
    free(s);
}

int main(void) {
    td_ctx     *cx = td_open();
    td_tensor  *x = td_requires_grad_(td_full(cx, TD_SHAPE(4), 2.0));
    td_program *clip = td_capture(cx, clipped, NULL, TD_ARGS(x));
    td_value    y, r;
    show(clip);
    if (td_program_run(clip, TD_ARGS(x), &y, 1)) {
        td_backward(td_sum(td_mul(y.u.t, y.u.t))); /* through the branch taken */
        td_print(y.u.t);
    }
    td_tensor  *two = td_full(cx, TD_SHAPE(1), 2.0);
    td_program *newton = td_capture(cx, root, NULL, TD_ARGS(two));
    show(newton);
    if (td_program_run(newton, TD_ARGS(two), &r, 1)) td_print(r.u.t);
    td_program_drop(clip);
    td_program_drop(newton);
    bool ok = td_ok(cx);
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    td_close(cx);
    return ok ? 0 : 1;
}
