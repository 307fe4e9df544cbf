/* artefact.c -- a classifier that learns on-line, as plain C: the whole training step
 * (loss, backward, update) of a small network becomes model.c, which needs no library
 * and no malloc, and at most 64 KiB of memory.
 *
 *     artefact DIR     writes the files; then: make -C DIR && DIR/example
 *     artefact         in a directory of its own
 */
#define _DEFAULT_SOURCE /* mkdtemp, also with -std=c11 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem/nn.h>
#include <tandem/optim.h>
#include <tandem/tandem.h>

typedef struct trainer {
    td_module *net;
    td_optim  *opt;
} trainer;

/* One example, its class, and the step: what the artefact computes. */
static bool step(td_call *c) {
    trainer   *t = td_call_env(c);
    td_tensor *y = td_module_call(t->net, TD_ARGS(td_arg(c, 0)));
    td_tensor *loss = td_cross_entropy(y, td_arg(c, 1));
    if (!td_backward(loss) || !td_optim_step(t->opt)) return false;
    td_optim_zero_grad(t->opt);
    return td_return(c, loss, td_argmax(y, 1));
}

/* The bytes of memory that model.h declares; 0: there is no such file. */
static long bytes_of(const char *dir) {
    char path[256], line[256];
    long bytes = 0;
    snprintf(path, sizeof path, "%.200s/model.h", dir);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "#define model_bytes ", 20)) bytes = atol(line + 20);
    if (f) fclose(f);
    return bytes;
}

int main(int argc, char **argv) {
    char        made[] = "/tmp/tandem-artefact-XXXXXX";
    const char *dir = argc > 1 ? argv[1] : mkdtemp(made);
    if (!dir) return perror(made), 1;
    td_ctx *cx = td_open();
    td_seed(cx, 1);
    trainer t = {.net = td_nn_sequential(
                     cx, TD_MODULES(td_nn_linear(cx, 16, 32, NULL), td_nn_relu(cx),
                                    td_nn_linear(cx, 32, 32, NULL), td_nn_relu(cx),
                                    td_nn_linear(cx, 32, 4, NULL)))};
    t.opt = td_optim_module(t.net, td_adamw(0.01));
    td_fn *f = td_aot_step(cx, step, &t, &(td_aot_opts){TD_AOT_OPTS, .module = t.net});

    td_tensor *x = td_randn(cx, TD_SHAPE(1, 16)),
              *y = td_zeros(cx, TD_SHAPE(1), TD_I64);
    bool ok = td_export_c(f, TD_ARGS(x, y), dir, NULL);
    long bytes = ok ? bytes_of(dir) : 0;
    if (ok) printf("model.c trains in %ld bytes of memory\n", bytes);
    else fprintf(stderr, "%s\n", td_message(cx));

    td_fn_drop(f);
    td_optim_free(t.opt);
    td_module_free(t.net);
    td_close(cx);
    if (argc < 2) {
        char line[64];
        snprintf(line, sizeof line, "rm -r %s", dir);
        if (system(line)) ok = false;
    }
    return !(ok && bytes > 0 && bytes <= 65536);
}
