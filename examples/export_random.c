/* export_random.c -- an exported function that draws random numbers: seed and offset of
 * the generator are inputs, the new offset is an output. */
#include <stdio.h>
#include <tandem/tandem.h>

static bool noisy(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_sum(td_dropout(td_add(x, td_rand_like(x)), 0.5)));
}

/* A number of the generator's state. */
static td_tensor *number(td_ctx *cx, int64_t v) {
    return td_from(cx, TD_I64, TD_SHAPE_OF(NULL, 0), &v);
}

int main(void) {
    td_ctx        *cx = td_open();
    td_tensor     *x = td_ones(cx, TD_SHAPE(100));
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_FORWARD,
                        .functional_rng = true};
    td_exported   *e = td_export_joint(cx, noisy, NULL, TD_ARGS(x), &o);
    td_value       first[2], second[2], again[2];
    td_tensor     *seed = number(cx, 42), *offset = number(cx, 0);

    printf("inputs: %d, seed is input %d\n", td_exported_inputs(e),
           td_exported_find_input(e, TD_SLOT_SEED, 0));
    td_exported_run(e, TD_ARGS(x, seed, offset), first, 2);
    td_exported_run(e, TD_ARGS(x, seed, first[1].u.t), second, 2); /* goes on */
    td_exported_run(e, TD_ARGS(x, seed, offset), again, 2);        /* repeats */

    double a = td_item(first[0].u.t), b = td_item(second[0].u.t);
    double c = td_item(again[0].u.t);
    printf("%g, then %g, and again %g\n", a, b, c);
    bool ok = td_ok(cx) && a == c && a != b && td_rng_offset(cx) == 0;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_exported_drop(e);
    td_close(cx);
    return !ok;
}
