/* cmd_run.c -- `tandem run FILE`: executes every case of a .td file eagerly. */
#include "cli/cli.h"
#include "cli/case_run.h"

#include <string.h>

static bool        json, clean;
static const char *only;

static const cli_option options[] = {
    {"json", NULL, "Print inputs, outputs, gradients and flags as one JSON object.",
     CLI_FLAG, &json, 0, 0, NULL},
    {"clean", NULL, "Clean up every function first: views, constants, dead code...",
     CLI_FLAG, &clean, 0, 0, NULL},
    {"case", "WORD", "Only the cases whose name contains WORD.", CLI_WORD, &only, 0, 0,
     NULL},
    {0}};

/* Runs one case and prints its report. */
static bool run_case(const td_gfile *f, const td_gcase *c, bool first) {
    td_buf   out = {0};
    case_run run = {.file = f, .c = c, .way = &case_eager, .out = &out, .json = json};
    bool     ok = case_run_all(&run);
    if (json) fputs(first ? "\n" : ",\n", stdout);
    fputs(td__buf_str(&out), stdout);
    td__buf_free(&out);
    td_clear(f->cx);
    return ok;
}

static int run_file(const td_gfile *f) {
    td_buf name = {0};
    int    ran = 0, bad = 0;
    td__json_string(&name, f->name);
    if (json) printf("{\"file\":%s,\n \"cases\":[", td__buf_str(&name));
    td__buf_free(&name);
    for (int i = 0; i < f->cases.n; i++) {
        const td_gcase *c = f->cases.v[i];
        if (only && !strstr(c->name, only)) continue;
        bad += !run_case(f, c, ran == 0);
        ran++;
    }
    if (json) puts("]}");
    if (ran == 0)
        return cli_misuse("run",
                          only ? "no case of %s has \"%s\" in its name"
                               : "%s has no cases",
                          f->name, only);
    return bad ? CLI_FAILED : CLI_OK;
}

static int run(int argc, char **argv) {
    const char *path;
    int         status;
    json = clean = false, only = NULL;
    if (!cli_parse(&cli_run, argc, argv, &path, &status)) return status;
    if (!path) return cli_misuse("run", "FILE is missing");
    td_ctx *cx = td_open();
    if (!cx) return CLI_FAILED;
    td_gfile *f = td__gfile_read(cx, path);
    if (f && (!clean || case_clean(f))) status = run_file(f);
    else {
        fprintf(stderr, "tandem run: %s\n", td_message(cx));
        status = CLI_MISUSED;
    }
    td__gfile_drop(f);
    td_close(cx);
    return status;
}

const cli_command cli_run = {
    .name = "run",
    .operand = "FILE",
    .summary = "run the cases of a .td file eagerly",
    .about =
        "Executes every case of FILE in order and prints the outputs of each call and\n"
        "the gradients after each backward. docs/text-format.md describes the format.\n"
        "\n"
        "With --json one object is printed: file, and cases, each with case (its\n"
        "name), way (eager), steps, ok, and error where there is one. A call has\n"
        "inputs, outputs, draws (results of random ops since the last call, if any),\n"
        "aliases, generator (seed and offset after the call), grad_enabled, inference\n"
        "and inputs_after; a backward has tangents and gradients. A tensor has name,\n"
        "dtype, sizes, strides, offset, storage (equal numbers share one), version,\n"
        "requires_grad, is_leaf, is_view, is_inference, grad_fn and elements in\n"
        "row-major order; is_leaf and grad_fn are null for a stale view. Numbers are\n"
        "printed exactly; inf and nan are strings.\n"
        "\n"
        "With --clean every function goes through the clean-up passes first. They may\n"
        "change only names in grad_fn and, after a failing op, random results.\n"
        "\n"
        "The exit status is 1 if a case fails, 2 if FILE cannot be read.\n",
    .examples = "tandem run tests/cases/views.td\n"
                "tandem run --json f.td | jq '.cases[].steps[].outputs[].elements'\n",
    .options = options,
    .run = run,
};
