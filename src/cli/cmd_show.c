/* cmd_show.c -- `tandem show FILE`: prints the functions of a .td file, normalized or
 * after a stage of compilation, as text, JSON or a Graphviz drawing. */
#include "aot/aot.h"
#include "cli/cli.h"
#include "trace/sym_args.h"

#include <string.h>

static bool        json, dot, types, places, stacks, dynamic, functional_rng;
static const char *only, *after, *simpler;

static const cli_option options[] = {
    {"json", NULL, "Print one JSON array with an object per function.", CLI_FLAG, &json,
     0, 0, NULL},
    {"dot", NULL, "Print Graphviz input.", CLI_FLAG, &dot, 0, 0, NULL},
    {"types", NULL, "Infer the type of every value from the types of the inputs.",
     CLI_FLAG, &types, 0, 0, NULL},
    {"places", NULL, "Print source lines and scopes.", CLI_FLAG, &places, 0, 0, NULL},
    {"stack", NULL, "The same with the calls around each line, innermost first.",
     CLI_FLAG, &stacks, 0, 0, NULL},
    {"after", "STAGE",
     "Print the graph after a stage: capture, functional, joint, forward, backward or "
     "plan.",
     CLI_WORD, &after, 0, 0, NULL},
    {"decompose", "OPS",
     "Decompose ops into simpler ones: all, or a list of names with commas.", CLI_WORD,
     &simpler, 0, 0, NULL},
    {"functional-rng", NULL,
     "With --after: graphs that draw take seed and offset of the generator.", CLI_FLAG,
     &functional_rng, 0, 0, NULL},
    {"dynamic", NULL,
     "With --after=capture or functional: use symbolic sizes and print guards.",
     CLI_FLAG, &dynamic, 0, 0, NULL},
    {"function", "NAME", "Only the function @NAME.", CLI_WORD, &only, 0, 0, NULL},
    {0}};

static unsigned how(void) {
    return TD_PRINT_TYPES |
           (places || stacks ? TD_PRINT_PLACES | TD_PRINT_SCOPES : 0u) |
           (stacks ? TD_PRINT_STACKS : 0u);
}

static bool print_as_is(td_buf *b, td_graph *g, int nth) {
    if (types && !td__graph_infer(g)) return false;
    if (json) {
        td__buf_add(b, nth ? ",\n" : "");
        return td__graph_json(b, g);
    }
    if (nth) td__buf_add(b, "\n");
    return dot ? td__graph_dot(b, g) : td__graph_print(b, g, how());
}

/* Guards are printed as a comment: they are no part of the graph. */
static void print_guards(td_buf *b, const char *text) {
    if (!json && !dot) td__buf_printf(b, "# guards: %s\n", text);
}

static bool print_graph(td_buf *b, td_graph *g, int nth) {
    if (!simpler) return print_as_is(b, g, nth);
    td_graph *d = td__graph_decompose(g, simpler);
    bool      ok = d && print_as_is(b, d, nth);
    td__graph_drop(d);
    return ok;
}

/* The program without writes, for these arguments. */
static bool show_functional(td_buf *b, const td_graph *g, const td_value *in, int nth) {
    td_buf    guards = {0};
    td_joint *j = td__functional_form(g, in, dynamic ? &guards : NULL);
    bool      ok = j && print_graph(b, j->g, nth);
    if (ok && dynamic) print_guards(b, td__buf_str(&guards));
    td__buf_free(&guards);
    td__joint_drop(j);
    return ok;
}

static bool show_capture(td_buf *b, const td_graph *g, const td_value *in, int nth) {
    td_buf     guards = {0};
    td_symplan plan = {.dynamic = TD_DYNAMIC_ALL, .named_as = g};
    td_graph  *c =
        dynamic ? td__capture_symbolic(g, in, plan, &guards) : td__capture_types(g);
    bool ok = c && print_graph(b, c, nth);
    if (ok && dynamic) print_guards(b, td__buf_str(&guards));
    td__buf_free(&guards);
    td__graph_drop(c);
    return ok;
}

/* Prints `capture` or `functional`, for arguments of the types of the inputs. */
static bool show_stage(td_buf *b, const td_graph *g, int nth) {
    td_value *in = td__zalloc(sizeof *in * (size_t)(g->inputs.n + 1));
    bool      ok = in || td__fail_memory(g->cx);
    bool      functional = !strcmp(after, "functional");
    if (functional || dynamic) ok = ok && td__inputs_like(g, in);
    ok = ok &&
         (functional ? show_functional(b, g, in, nth) : show_capture(b, g, in, nth));
    td__free(in);
    return ok;
}

/* Is it a stage of the pipeline, which compiles the function? `capture` is printed
 * without compiling. */
static bool is_compiled(const char *stage) {
    return td__stage_artifact(stage) && strcmp(stage, "capture") != 0;
}

static bool is_stage(const char *word) {
    return !strcmp(word, "functional") || td__stage_artifact(word);
}

/* The graph of a stage; NULL after td__fail. */
static const td_graph *stage_of(const td_fn *f) {
    const td_spec  *s = f->specs;
    const td_graph *g = td__stage_artifact(after)->graph(f, s);
    if (!g && !strcmp(after, "forward")) return s->plan->j->g; /* not partitioned */
    if (!g)
        td__fail(f->cx, TD_E_ARG,
                 "@%.60s has no backward: no result depends on an input that requires "
                 "grad; write `grad` after the type of an input",
                 f->name);
    return g;
}

/* Compiles the function for leaves of its inputs' types and prints a stage. */
static bool show_compiled(td_buf *b, const td_graph *g, int nth) {
    td_value *in = td__zalloc(sizeof *in * (size_t)(g->inputs.n + 1));
    if (!in) return td__fail_memory(g->cx);
    td_fn *f = td_aot_graph(g, NULL);
    td_scope_begin(g->cx, NULL);
    bool ok =
        f && td__inputs_like(g, in) && td__fn_prepare(f, (td_values){in, g->inputs.n});
    const td_graph *to = ok ? stage_of(f) : NULL;
    td_graph *first = to && !strcmp(after, "plan") ? f->specs->plan->prologue : NULL;
    ok = to && (!first || print_graph(b, first, nth)) &&
         print_graph(b, (td_graph *)(uintptr_t)to, nth + (first != NULL));
    td_scope_end(g->cx, NULL, NULL);
    td_fn_drop(f);
    td__free(in);
    return ok;
}

static bool show_graph(td_buf *b, td_graph *g, int nth) {
    if (!td__graph_verify(g, TD_STAGE_PROGRAM)) return false;
    if (!after) return print_graph(b, g, nth);
    return is_compiled(after) ? show_compiled(b, g, nth) : show_stage(b, g, nth);
}

/* Without options, prints the whole file with its cases. */
static bool show_file(td_buf *b, const td_gfile *f, int *shown) {
    bool whole = !json && !dot && !only && !after && !simpler;
    if (json) td__buf_add(b, "[");
    for (int i = 0; i < f->graphs.n; i++) {
        td_graph *g = f->graphs.v[i];
        if (only && strcmp(g->name, only) != 0) continue;
        size_t before = b->n;
        if (!show_graph(b, g, *shown)) return false;
        if (whole && b->s) b->n = before, b->s[before] = 0;
        ++*shown;
    }
    if (json) td__buf_add(b, "]\n");
    *shown += whole ? f->cases.n : 0;
    return !whole || td__gfile_print(b, f, how());
}

static int run(int argc, char **argv) {
    const char *path;
    int         status, shown = 0;
    json = dot = types = places = stacks = dynamic = functional_rng = false,
    only = after = simpler = NULL;
    if (!cli_parse(&cli_show, argc, argv, &path, &status)) return status;
    if (!path) return cli_misuse("show", "FILE is missing");
    if (json && dot) return cli_misuse("show", "--json and --dot exclude each other");
    if (after && !is_stage(after))
        return cli_misuse("show",
                          "--after=%s: the stages are: capture, functional, joint, "
                          "forward, backward, plan",
                          after);
    if (after && dynamic && is_compiled(after))
        return cli_misuse("show",
                          "--dynamic requires --after=capture or --after=functional");
    td_ctx *cx = td_open();
    if (!cx) return CLI_FAILED;
    td_buf b = {0};
    if (functional_rng) td_config_set(cx, "functional_rng", "on");
    td_gfile *f = td__gfile_read(cx, path);
    bool      ok = f && show_file(&b, f, &shown);
    if (!ok) {
        fprintf(stderr, "tandem show: %s\n", td_message(cx));
        status = CLI_MISUSED;
    } else if (only && !shown) {
        status = cli_misuse("show", "%s has no function @%s", path, only);
    } else fputs(td__buf_str(&b), stdout);
    td__buf_free(&b);
    td__gfile_drop(f);
    td_close(cx);
    return status;
}

const cli_command cli_show = {
    .name = "show",
    .operand = "FILE",
    .summary = "print the functions of a .td file",
    .about =
        "Reads FILE, checks it and prints it normalized: positional arguments, no\n"
        "defaults, one statement per line. The output is a valid .td file with the\n"
        "same functions and cases. docs/text-format.md describes the format.\n"
        "\n"
        "With --after, compiles each function for inputs of the given types (leaves\n"
        "that require grad where the type ends in `grad`) and prints a stage.\n"
        "--after=plan prints what a call runs after the forward code: the prologue, "
        "if\n"
        "gradients are recorded, binds the edges of the compiled node (`_bind`); the\n"
        "epilogue performs the effects of the program:\n"
        "new tensors, views, writes, metadata writes and changes of requires_grad;\n"
        "%f0, %f1, ... are the forward outputs. `tandem explain` prints all other\n"
        "decisions.\n"
        "\n"
        "The exit status is 2 if FILE has an error; the message on stderr begins with\n"
        "file, line and column.\n",
    .examples = "tandem show --types f.td\n"
                "tandem show --after=functional f.td\n"
                "tandem show --after=backward f.td\n"
                "tandem show --after=plan f.td\n"
                "tandem show --after=functional --decompose=all f.td\n"
                "tandem show --dot --function=f f.td | dot -Tsvg >f.svg\n"
                "tandem show --json f.td | jq '.[0].nodes | length'\n",
    .options = options,
    .run = run,
};
