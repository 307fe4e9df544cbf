/* cmd_explain.c -- `tandem explain FILE`: what was compiled for the inputs of every
 * case. */
#include "aot/aot.h"
#include "cli/case_run.h"
#include "cli/cli.h"

#include <string.h>

static bool        json, graphs, no_times;
static const char *only;

static const cli_option options[] = {
    {"case", "WORD", "Only the cases whose name contains WORD.", CLI_WORD, &only, 0, 0,
     NULL},
    {"graphs", NULL, "Also print the graphs of every stage.", CLI_FLAG, &graphs, 0, 0,
     NULL},
    {"json", NULL, "Print one JSON object.", CLI_FLAG, &json, 0, 0, NULL},
    {"no-times", NULL, "Omit times, so that outputs can be compared.", CLI_FLAG,
     &no_times, 0, 0, NULL},
    {0}};

/* The compiled functions of the current case. */
typedef struct compiled {
    const td_graph *g;
    td_fn          *f;
} compiled;
static TD_VEC(compiled) fns;

static td_fn *fn_of(const td_graph *g) {
    for (int i = 0; i < fns.n; i++)
        if (fns.v[i].g == g) return fns.v[i].f;
    compiled c = {g, td_aot_graph(g, NULL)};
    if (!c.f) return NULL;
    if (td__vec_push(&fns, c)) return c.f;
    td_fn_drop(c.f);
    td__fail_memory(g->cx);
    return NULL;
}

static bool call(case_run *run, const td_graph *g, const td_value *in, td_value *out) {
    (void)run;
    td_fn *f = fn_of(g);
    return f &&
           td_invoke_values(f, (td_values){in, g->inputs.n}, out, g->outputs.n) >= 0;
}

static const case_way explained = {.name = "explain", .call = call};

/* ---- printing ----------------------------------------------------------- */

static void as_text(const char *title, const char *name, const char *error) {
    td_buf   b = {0};
    unsigned how =
        (graphs ? TD_EXPLAIN_GRAPHS : 0u) | (no_times ? 0u : TD_EXPLAIN_TIMES);
    for (int i = 0; i < fns.n; i++)
        if (fns.v[i].f->n_specs) td__explain(&b, fns.v[i].f, how);
    printf("# %s%s\n%s", title, name, td__buf_str(&b));
    if (error) printf("error: %s\n", error);
    putchar('\n');
    td__buf_free(&b);
}

static void as_json(const char *key, const char *name, const char *error, bool first) {
    td_buf   b = {0};
    unsigned how =
        (graphs ? TD_EXPLAIN_GRAPHS : 0u) | (no_times ? 0u : TD_EXPLAIN_TIMES);
    td__buf_printf(&b, "%s{\"%s\":", first ? "\n" : ",\n", key);
    td__json_string(&b, name);
    td__buf_add(&b, ",\"functions\":[");
    for (int i = 0; i < fns.n; i++) {
        if (i) td__buf_add(&b, ",\n");
        td__explain_json(&b, fns.v[i].f, how);
    }
    td__buf_add(&b, "]");
    if (error) td__buf_add(&b, ",\"error\":"), td__json_string(&b, error);
    td__buf_add(&b, "}");
    fputs(td__buf_str(&b), stdout);
    td__buf_free(&b);
}

/* Prints what was compiled, then drops it. */
static void show(td_ctx *cx, const char *key, const char *name, bool first) {
    const char *error = td_ok(cx) ? NULL : td_message(cx);
    if (json) as_json(key, name, error, first);
    else as_text(strcmp(key, "case") ? "function @" : "case ", name, error);
    td__span_reset(cx); /* kernel names of one case must not count in the next */
    for (int i = 0; i < fns.n; i++) td_fn_drop(fns.v[i].f);
    td__vec_free(&fns);
    td_clear(cx);
}

/* ---- cases and functions ------------------------------------------------ */

static bool show_case(const td_gfile *f, const td_gcase *c, bool first) {
    case_run run = {.file = f, .c = c, .way = &explained};
    if (!no_times) td__span_collect(f->cx, true);
    bool ok = case_run_all(&run);
    if (!no_times) td__span_collect(f->cx, false);
    show(f->cx, "case", c->name, first);
    return ok;
}

/* Compiles a function that no case calls, for the types of its inputs. */
static bool show_function(const td_gfile *f, const td_graph *g, bool first) {
    td_value *in = td__zalloc(sizeof *in * ((size_t)g->inputs.n + 1));
    bool      ok = in || td__fail_memory(f->cx);
    td_scope_begin(f->cx, NULL);
    ok = ok && td__inputs_like(g, in) && fn_of(g) &&
         td__fn_prepare(fn_of(g), (td_values){in, g->inputs.n});
    td_scope_end(f->cx, NULL, NULL);
    td__free(in);
    show(f->cx, "function", g->name, first);
    return ok;
}

static int show_file(const td_gfile *f) {
    td_buf name = {0};
    int    shown = 0, bad = 0;
    td__json_string(&name, f->name);
    if (json) printf("{\"file\":%s,\"explained\":[", td__buf_str(&name));
    td__buf_free(&name);
    for (int i = 0; i < f->graphs.n && !only; i++)
        if (!case_calls(f, f->graphs.v[i]))
            bad += !show_function(f, f->graphs.v[i], shown++ == 0);
    for (int i = 0; i < f->cases.n; i++)
        if (!only || strstr(f->cases.v[i]->name, only))
            bad += !show_case(f, f->cases.v[i], shown++ == 0);
    if (json) puts("]}");
    if (!shown)
        return cli_misuse("explain",
                          only ? "no case of %s has \"%s\" in its name"
                               : "%s has neither functions nor cases",
                          f->name, only);
    return bad ? CLI_FAILED : CLI_OK;
}

static int run(int argc, char **argv) {
    const char *path;
    int         status;
    json = graphs = no_times = false, only = NULL;
    if (!cli_parse(&cli_explain, argc, argv, &path, &status)) return status;
    if (!path) return cli_misuse("explain", "FILE is missing");
    return case_file("explain", path, show_file);
}

const cli_command cli_explain = {
    .name = "explain",
    .operand = "FILE",
    .summary = "explain how the functions of a .td file are compiled",
    .about =
        "Runs each case of FILE with compiled functions and prints what was compiled:\n"
        "captured ops, writes to inputs, which results are views of which tensors,\n"
        "incoming and outgoing gradients, which values are saved for backward or\n"
        "recomputed and why, memory, guards, and the time of each stage. Functions\n"
        "that no case calls are compiled for the types of their inputs.\n"
        "docs/explain.md explains a report line by line and lists the fields of "
        "--json.\n"
        "\n"
        "Settings come from the environment: TD_PARTITION=default tandem explain "
        "f.td.\n"
        "\n"
        "The exit status is 1 if a case fails, 2 if FILE cannot be read.\n",
    .examples = "tandem explain f.td\n"
                "tandem explain --graphs --case=batch f.td\n"
                "tandem explain --json f.td | jq '.explained[].functions[].function'\n",
    .options = options,
    .run = run,
};
