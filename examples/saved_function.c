/* saved_function.c -- a compiled function as a file, and a program that runs it without
 * its body: calls, gradients, and gradients of gradients.
 *
 *     saved_function save FILE    compiles and writes it
 *     saved_function run FILE     reads and calls it
 *     saved_function              both, with a file of its own
 */
#define _DEFAULT_SOURCE /* mkdtemp, also with -std=c11 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem/tandem.h>
#include <unistd.h>

/* The sum of x cubed, which only `save` runs. */
static bool cubes(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_sum(td_mul(td_mul(x, x), x)));
}

static bool done(td_ctx *cx) {
    bool ok = td_ok(cx);
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    td_close(cx);
    return ok;
}

static bool save(const char *path) {
    td_ctx     *cx = td_open();
    td_aot_opts opts = {TD_AOT_OPTS, .name = "cubes", .savable = true,
                        .dynamic = TD_SHAPES_DYNAMIC};
    td_fn      *f = td_aot_function(cx, cubes, NULL, &opts);
    td_tensor  *y;
    /* A call like those the file is for: its argument requires grad. */
    td_tensor  *x = td_requires_grad_(td_ones(cx, TD_SHAPE(4)));
    td_invoke(f, TD_ARGS(x), &y, 1);
    td_fn_save(f, path);
    return done(cx);
}

static bool run(const char *path) {
    td_ctx      *cx = td_open();
    td_fn       *f = td_fn_load(cx, path, NULL);
    td_tensor   *x = td_requires_grad_(td_full(cx, TD_SHAPE(6), 0.5)), *y, *g, *h;
    td_grad_opts twice = {TD_GRAD_OPTS, .create_graph = true};
    td_invoke(f, TD_ARGS(x), &y, 1);
    td_grad(TD_LIST(y), TD_LIST(x), &g, &twice);
    td_grad(TD_LIST(td_sum(g)), TD_LIST(x), &h, NULL);
    printf("%g, gradient %g, second gradient %g\n", td_item(y), td_item(td_sum(g)),
           td_item(td_sum(h)));
    bool ok = td_item(y) == 0.75 && td_item(td_sum(h)) == 18;
    return done(cx) && ok;
}

int main(int argc, char **argv) {
    char path[80], dir[] = "/tmp/tandem-saved-XXXXXX";
    if (argc == 3 && !strcmp(argv[1], "save")) return !save(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "run")) return !run(argv[2]);
    if (!mkdtemp(dir)) return 1;
    snprintf(path, sizeof path, "%s/cubes.tdfn", dir);
    bool ok = save(path) && run(path);
    unlink(path);
    rmdir(dir);
    return !ok;
}
