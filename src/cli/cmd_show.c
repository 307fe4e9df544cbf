/* cmd_show.c -- `tandem show FILE`: the functions of a .td file, normalized, as JSON
 * or as a drawing. */
#include "aot/aot.h"
#include "cli/cli.h"
#include "trace/sym_args.h"

#include <string.h>

static bool        json, dot, types, places, dynamic;
static const char *only, *after, *simpler;

static const cli_option options[] = {
    {"json", NULL, "One JSON array with an object per function.", CLI_FLAG, &json, 0, 0,
     NULL},
    {"dot", NULL, "Drawings for Graphviz.", CLI_FLAG, &dot, 0, 0, NULL},
    {"types", NULL, "Work out the type of every value from those of the inputs.",
     CLI_FLAG, &types, 0, 0, NULL},
    {"places", NULL, "Show source lines and scopes.", CLI_FLAG, &places, 0, 0, NULL},
    {"after", "STAGE",
     "Show what a stage makes of it: capture, functional, joint, forward, backward or "
     "plan.",
     CLI_WORD, &after, 0, 0, NULL},
    {"decompose", "OPS",
     "Replace ops by simpler ones: all, or names with commas between.", CLI_WORD,
     &simpler, 0, 0, NULL},
    {"dynamic", NULL, "With --after: sizes of inputs are symbols; shows the guards.",
     CLI_FLAG, &dynamic, 0, 0, NULL},
    {"function", "NAME", "Only the function @NAME.", CLI_WORD, &only, 0, 0, NULL},
    {0}};

static unsigned how(void) {
    return TD_PRINT_TYPES | (places ? TD_PRINT_PLACES | TD_PRINT_SCOPES : 0u);
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

/* As a remark, since they are no part of the graph. */
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

/* For arguments that look as the function's inputs do. */
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

/* A stage of the pipeline that a text file goes through like a body does; a capture of
 * one is shown by itself. */
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
    if (!g && !strcmp(after, "forward")) return s->plan->j->g; /* all of it */
    if (!g)
        td__fail(f->cx, TD_E_ARG,
                 "@%.60s has no backward: nothing it returns or writes depends on an "
                 "input that requires grad (`grad` behind its type)",
                 f->name);
    return g;
}

/* What is compiled for arguments that look as its inputs do, as leaves. */
static bool show_compiled(td_buf *b, const td_graph *g, int nth) {
    td_value *in = td__zalloc(sizeof *in * (size_t)(g->inputs.n + 1));
    if (!in) return td__fail_memory(g->cx);
    td_fn *f = td_aot_graph(g, NULL);
    td_scope_begin(g->cx, NULL);
    bool ok =
        f && td__inputs_like(g, in) && td__fn_prepare(f, (td_values){in, g->inputs.n});
    const td_graph *to = ok ? stage_of(f) : NULL;
    ok = to && print_graph(b, (td_graph *)(uintptr_t)to, nth);
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

/* A whole file as text has its cases too. */
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
    json = dot = types = places = dynamic = false, only = after = simpler = NULL;
    if (!cli_parse(&cli_show, argc, argv, &path, &status)) return status;
    if (!path) return cli_misuse("show", "which FILE?");
    if (json && dot) return cli_misuse("show", "--json or --dot, not both");
    if (after && !is_stage(after))
        return cli_misuse("show",
                          "--after=%s: the stages are: capture, functional, joint, "
                          "forward, backward, plan",
                          after);
    if (after && dynamic && is_compiled(after))
        return cli_misuse("show", "--dynamic goes with --after=capture and functional");
    td_ctx *cx = td_open();
    if (!cx) return CLI_FAILED;
    td_buf    b = {0};
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
        "Reads FILE, checks it and prints it normalized: arguments by position,\n"
        "defaults left out, one statement a line. What it prints reads back as the\n"
        "same functions and cases. docs/text-format.md describes the form.\n"
        "\n"
        "With --after the stages of compiling run for inputs of the types given,\n"
        "leaves that require grad where the type says `grad`. --after=plan prints "
        "what\n"
        "a call does once the forward code has run: new tensors, views, writes, "
        "changes\n"
        "of geometry and of requires_grad; %f0, %f1, ... are the forward outputs.\n"
        "`tandem explain` tells what else was decided.\n"
        "\n"
        "The status is 2 when FILE is not right; the line on stderr begins with\n"
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
