/* cmd_emit_c.c -- `tandem emit-c FILE -o DIR`: a function as C files (td_export_c). */
#include "cli/case_run.h"
#include "cli/cli.h"
#include "tandem/export.h"
#include "trace/trace.h"

#include <string.h>

static const char *dir, *function, *what, *weights, *prefix;
static int64_t     loss;
static bool        written; /* the function was exported */

static const cli_option options[] = {
    {"o", "DIR", "The directory of the files; it is made if it does not exist.",
     CLI_WORD, &dir, 0, 0, NULL},
    {"function", "NAME", "The function; default: the first that a case calls.",
     CLI_WORD, &function, 0, 0, NULL},
    {"what", "WORD",
     "forward: results; loss: and the gradients of one of them; tangents: and\n"
     "        gradients, given one for each differentiable result. Default: forward.",
     CLI_WORD, &what, 0, 0, "forward loss tangents"},
    {"loss", "N", "Which result the loss is; default: 0.", CLI_INT, &loss, 0, 1000,
     NULL},
    {"weights", "WORD", "array, file, or auto: an array up to 1 MiB.", CLI_WORD,
     &weights, 0, 0, "auto array file"},
    {"name", "NAME", "Prefix of C names; default: model.", CLI_WORD, &prefix, 0, 0,
     NULL},
    {0}};

static td_export_c_opts export_opts(void) {
    td_export_c_opts o = {TD_EXPORT_C_OPTS, .name = prefix, .loss = (int)loss};
    if (!strcmp(what, "loss")) o.what = TD_EXPORT_LOSS;
    if (!strcmp(what, "tangents")) o.what = TD_EXPORT_TANGENTS;
    if (!strcmp(weights, "array")) o.weights = TD_C_WEIGHTS_ARRAY;
    if (!strcmp(weights, "file")) o.weights = TD_C_WEIGHTS_FILE;
    return o;
}

/* Exports the function for these inputs; those that it closes over are left out. */
static bool emit(const td_graph *fn, const td_value *in) {
    td_aot_opts opts = {TD_AOT_OPTS, .name = fn->name, .dynamic = TD_SHAPES_STATIC};
    td_export_c_opts o = export_opts();
    td_value        *args = td__zalloc(sizeof *args * ((size_t)fn->inputs.n + 1));
    int              n = 0;
    if (!args) return td__fail_memory(fn->cx);
    for (int i = 0; i < fn->inputs.n; i++)
        if (!td__graph_holds(fn, i)) args[n++] = in[i];
    td_fn *f = td_aot_graph(fn, &opts);
    bool   ok = td_export_c(f, (td_values){args, n}, dir, &o);
    td_fn_drop(f);
    td__free(args);
    return written = ok;
}

/* Executes a call of the case eagerly; exports the function if it is the one. */
static bool emit_and_call(case_run *run, const td_graph *fn, const td_value *in,
                          td_value *out) {
    (void)run;
    bool wanted = !written && (!function || !strcmp(function, fn->name));
    return (!wanted || emit(fn, in)) && td__graph_replay(fn, in, out);
}

static const case_way emit_way = {.name = "emit-c", .call = emit_and_call};

/* A function that no case calls, for the types of its inputs. */
static bool emit_uncalled(const td_gfile *f) {
    const td_graph *g = function ? td__gfile_find(f, function) : f->graphs.v[0];
    td_value       *in = td__zalloc(sizeof *in * ((size_t)g->inputs.n + 1));
    bool            ok = in || td__fail_memory(f->cx);
    td_scope_begin(f->cx, NULL);
    ok = ok && td__inputs_like(g, in) && emit(g, in);
    td_scope_end(f->cx, NULL, NULL);
    td__free(in);
    return ok;
}

static int emit_file(const td_gfile *f) {
    bool ok = true;
    if (!f->graphs.n) return cli_misuse("emit-c", "%s has no function", f->name);
    if (function && !td__gfile_find(f, function))
        return cli_misuse("emit-c", "%s has no function @%s", f->name, function);
    for (int i = 0; ok && !written && i < f->cases.n; i++) {
        case_run run = {.file = f, .c = f->cases.v[i], .way = &emit_way};
        ok = case_run_all(&run) || written;
    }
    if (ok && !written) ok = emit_uncalled(f);
    if (!ok) {
        fprintf(stderr, "tandem emit-c: %s\n", td_message(f->cx));
        return CLI_FAILED;
    }
    printf("%s: model.h, model.c, weights, main.c, Makefile\n", dir);
    return CLI_OK;
}

static int run(int argc, char **argv) {
    const char *path;
    int         status;
    dir = function = prefix = NULL, what = "forward", weights = "auto";
    loss = 0, written = false;
    if (!cli_parse(&cli_emit_c, argc, argv, &path, &status)) return status;
    if (!path) return cli_misuse("emit-c", "FILE is missing");
    if (!dir) return cli_misuse("emit-c", "-o DIR is missing");
    return case_file("emit-c", path, emit_file);
}

const cli_command cli_emit_c = {
    .name = "emit-c",
    .operand = "FILE",
    .summary = "write a function of a .td file as C files",
    .about =
        "Writes a function of FILE as C99 that needs libc and libm only: model.h,\n"
        "model.c, the weights, an example main.c and a Makefile. Inputs that are\n"
        "<param>, <buffer> or <const> become state of the model, with the values that\n"
        "the first call in a case has; other inputs are arguments of the C function.\n"
        "docs/artefact.md describes the files, the memory and the supported ops.\n"
        "\n"
        "The exit status is 1 if the function cannot be written, 2 if FILE cannot be\n"
        "read.\n",
    .examples = "tandem emit-c net.td -o net && make -C net && net/example\n"
                "tandem emit-c --what=loss --function=f net.td -o net\n",
    .options = options,
    .run = run};
