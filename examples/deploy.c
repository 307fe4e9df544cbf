/* deploy.c -- a trained network in two files, and a program that runs it without its
 * code. net.td is the graph; the weights are in net.safetensors, found by the names
 * that the graph gives its inputs.
 *
 *     deploy export DIR    writes the files
 *     deploy serve DIR     reads them, compiles the graph and runs it
 *     deploy               both, in a directory of its own
 */
#define _DEFAULT_SOURCE /* mkdtemp, also with -std=c11 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem/tandem.h>
#include <unistd.h>

enum { MOST_INPUTS = 32 };

static const char *in_dir(char out[256], const char *dir, const char *name) {
    snprintf(out, 256, "%.200s/%s", dir, name);
    return out;
}

/* Ends a half: prints its error, closes its context. */
static bool done(td_ctx *cx) {
    bool ok = td_ok(cx);
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    td_close(cx);
    return ok;
}

/* ---- where the network is known ----------------------------------------- */

static bool export_net(const char *dir) {
    char    path[256];
    td_ctx *cx = td_open();
    td_seed(cx, 1);
    td_module *net =
        td_nn_sequential(cx, TD_MODULES(td_nn_linear(cx, 3, 8, NULL),
                                        td_nn_batch_norm1d(cx, 8, NULL), td_nn_relu(cx),
                                        td_nn_dropout(cx, 0.5),
                                        td_nn_linear(cx, 8, 2, NULL)));
    /* ... it is trained here ... */
    td_module_train(net, false); /* no dropout; batch norm reads its statistics */
    td_export_opts opts = {TD_EXPORT_OPTS, .name = "net",
                           .dynamic = TD_SHAPES_DYNAMIC}; /* for batches of any size */
    td_tensor     *example = td_zeros(cx, TD_SHAPE(4, 3));
    td_exported   *e = td_export_module(net, TD_ARGS(example), &opts);
    td_exported_save(e, in_dir(path, dir, "net.td"));
    td_module_save(net, in_dir(path, dir, "net.safetensors"), NULL);
    td_tensor *y = td_module_call(net, TD_ARGS(td_ones(cx, TD_SHAPE(6, 3))));
    printf("exported: %.6f\n", td_item(td_sum(y)));
    return done(cx);
}

/* ---- where only the files are ------------------------------------------- */

static bool serve(const char *dir) {
    char            path[256];
    td_ctx         *cx = td_open();
    td_exported    *e = td_exported_load(cx, in_dir(path, dir, "net.td"));
    td_safetensors *w = td_safetensors_open(cx, in_dir(path, dir, "net.safetensors"));
    td_value        in[MOST_INPUTS];
    int             n = td_exported_inputs(e), argument = n - 1; /* there is one */
    for (int i = 0; i < n && i < MOST_INPUTS && td_ok(cx); i++) {
        td_slot s = td_exported_input(e, i);
        bool    member = s.kind == TD_SLOT_PARAM || s.kind == TD_SLOT_BUFFER;
        if (member) in[i] = td_value_tensor(td_safetensors_get(w, s.name));
    }
    td_fn *f = td_aot_graph(td_exported_graph(e), NULL);
    for (int batch = 6; n <= MOST_INPUTS && batch <= 8 && td_ok(cx); batch++) {
        td_tensor *y;
        td_scope_begin(cx, "request");
        in[argument] = td_value_tensor(td_ones(cx, TD_SHAPE(batch, 3)));
        td_invoke(f, TD_ARGS_OF(in, n), &y, 1);
        printf("batch of %d: %.6f\n", batch, td_item(td_sum(y)));
        td_scope_end(cx, "request", NULL);
    }
    return done(cx); /* frees the function, the export and the tensors too */
}

int main(int argc, char **argv) {
    char path[256], own[] = "/tmp/tandem-deploy-XXXXXX";
    if (argc == 3 && !strcmp(argv[1], "export")) return !export_net(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "serve")) return !serve(argv[2]);
    bool ok = mkdtemp(own) && export_net(own) && serve(own);
    unlink(in_dir(path, own, "net.td"));
    unlink(in_dir(path, own, "net.safetensors"));
    rmdir(own);
    return !ok;
}
