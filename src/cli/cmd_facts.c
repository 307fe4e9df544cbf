/* cmd_facts.c -- `tandem facts FILE`: what each function does to its inputs and what
 * its outputs are, for the inputs of every case. */
#include "aot/facts.h"
#include "cli/case_run.h"
#include "cli/cli.h"
#include "trace/sym_args.h"

#include <string.h>

static bool        keep, dynamic;
static const char *only;
static td_buf      text; /* of the case being run */

static const cli_option options[] = {
    {"keep-mutations", NULL, "Leave writes to inputs in the graph where possible.",
     CLI_FLAG, &keep, 0, 0, NULL},
    {"dynamic", NULL, "Use symbolic sizes and print the guards.", CLI_FLAG, &dynamic, 0,
     0, NULL},
    {"case", "WORD", "Only the cases whose name contains WORD.", CLI_WORD, &only, 0, 0,
     NULL},
    {0}};

static bool static_facts(const td_graph *fn, const td_value *in) {
    td_facts *f = td__facts(fn, in, keep);
    bool      ok = f && td__facts_print(&text, f);
    td__facts_drop(f);
    return ok;
}

/* Facts with symbolic sizes, printed while the symbols exist. */
static bool dynamic_facts(const td_graph *fn, const td_value *in) {
    td_symplan plan = {.dynamic = TD_DYNAMIC_ALL, .named_as = fn};
    td_symenv *e = td__symenv_make(fn->cx);
    td_symargs a;
    if (!e) return false;
    td__symenv_begin(e);
    bool ok = td__symargs_make(&a, e, (td_values){in, fn->inputs.n}, plan) &&
              static_facts(fn, a.v);
    td__symargs_drop(&a);
    if (ok) {
        td_buf guards = {0};
        td__guards_print(e, &guards);
        td__buf_printf(&text, "guards: %s\n", td__buf_str(&guards));
        td__buf_free(&guards);
    }
    td__symenv_end(e);
    td__symenv_drop(e);
    return ok;
}

static bool add_facts(const td_graph *fn, const td_value *in) {
    return dynamic ? dynamic_facts(fn, in) : static_facts(fn, in);
}

/* Executes a call of the case: prints its facts, then runs it eagerly. */
static bool print_facts_and_call(case_run *run, const td_graph *fn, const td_value *in,
                                 td_value *out) {
    (void)run;
    return add_facts(fn, in) && td__graph_replay(fn, in, out);
}

static const case_way facts_way = {.name = "facts", .call = print_facts_and_call};

static void show(const char *title, const char *name) {
    printf("%s%s\n%s\n", title, name, td__buf_str(&text));
    td__buf_free(&text);
    text = (td_buf){0};
}

static bool show_case(const td_gfile *f, const td_gcase *c) {
    case_run run = {.file = f, .c = c, .way = &facts_way};
    bool     ok = case_run_all(&run);
    show("# case ", c->name);
    if (!ok) printf("error: %s\n\n", td_message(f->cx));
    td_clear(f->cx);
    return ok;
}

/* Analyzes a function that no case calls, for the types of its inputs. */
static bool show_function(const td_gfile *f, const td_graph *g) {
    td_value *in = td__zalloc(sizeof *in * ((size_t)g->inputs.n + 1));
    bool      ok = in || td__fail_memory(f->cx);
    td_scope_begin(f->cx, NULL);
    ok = ok && td__inputs_like(g, in) && add_facts(g, in);
    td_scope_end(f->cx, NULL, NULL);
    td__free(in);
    show("# function @", g->name);
    if (!ok) printf("error: %s\n\n", td_message(f->cx));
    td_clear(f->cx);
    return ok;
}

static int show_file(const td_gfile *f) {
    int shown = 0, bad = 0;
    for (int i = 0; i < f->graphs.n && !only; i++)
        if (!case_calls(f, f->graphs.v[i])) {
            bad += !show_function(f, f->graphs.v[i]);
            shown++;
        }
    for (int i = 0; i < f->cases.n; i++) {
        if (only && !strstr(f->cases.v[i]->name, only)) continue;
        bad += !show_case(f, f->cases.v[i]);
        shown++;
    }
    if (!shown)
        return cli_misuse("facts",
                          only ? "no case of %s has \"%s\" in its name"
                               : "%s has neither functions nor cases",
                          f->name, only);
    return bad ? CLI_FAILED : CLI_OK;
}

static int run(int argc, char **argv) {
    const char *path;
    int         status;
    keep = dynamic = false, only = NULL;
    if (!cli_parse(&cli_facts, argc, argv, &path, &status)) return status;
    if (!path) return cli_misuse("facts", "FILE is missing");
    return case_file("facts", path, show_file);
}

const cli_command cli_facts = {
    .name = "facts",
    .operand = "FILE",
    .summary = "print what functions do to inputs and what their outputs are",
    .about =
        "Traces the function of every call in FILE once on fake tensors and prints:\n"
        "which inputs are written or change sizes, strides or offset, where, and "
        "under\n"
        "which grad mode; which outputs are inputs, views of inputs or views of\n"
        "intermediates, and by which view ops; which intermediates must become\n"
        "outputs; which tangents the backward takes, in which order and layout; and\n"
        "whether random numbers are drawn. Functions that no case calls are traced "
        "for\n"
        "the types of their inputs.\n"
        "\n"
        "The exit status is 1 if a case fails, 2 if FILE cannot be read.\n",
    .examples = "tandem facts tests/cases/func/views.td\n"
                "tandem facts --keep-mutations --case=batch f.td\n",
    .options = options,
    .run = run,
};
