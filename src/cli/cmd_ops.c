/* cmd_ops.c -- `tandem ops`: the op table, as text and as JSON. */
#include "cli/cli.h"
#include "ops/ops.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static bool json;

static const cli_option options[] = {{"json", NULL, "Print one JSON array of objects.",
                                      CLI_FLAG, &json, 0, 0, NULL},
                                     {0}};

/* ---- properties of a row ------------------------------------------------ */

typedef struct flag_name {
    uint32_t    bits;
    const char *name;
} flag_name;

static const flag_name flag_names[] = {
    {TD_OPF_POINTWISE, "pointwise"},
    {TD_OPF_VIEW, "view"},
    {TD_OPF_COMMUTES, "commutes"},
    {TD_OPF_RANDOM, "random"},
    {TD_OPF_DYNAMIC, "sizes-from-values"},
    {TD_OPF_META, "writes-geometry"},
    {TD_OPF_DETACH | TD_OPF_CUTS, "cuts-history"},
    {TD_OPF_PLACES, "counts-from-storage-start"},
    {TD_OPF_TAPE, "done-by-tape"},
    {TD_OPF_CREATE, "creates"},
    {TD_OPF_MULTI, "list-of-views"},
    {TD_OPF_INTERNAL, "internal"},
    {TD_OPF_CHEAP, "cheap"},
};

static const flag_name dtype_names[] = {
    {TD_DT_BOOL_OUT, "bool-result"},       {TD_DT_FLOAT, "integers-become-float"},
    {TD_DT_INT_ONLY, "integers-only"},     {TD_DT_NO_BOOL, "no-bool"},
    {TD_DT_FLOAT_ONLY, "floats-only"},     {TD_DT_FIRST, "dtype-of-first"},
    {TD_DT_SATURATES, "numbers-saturate"},
};

/* The op's schema; for an in-place op without one, its functional twin's with the
 * first argument written. */
static void schema_text(td_op op, char *out, size_t cap) {
    const td_opdef *def = td__row(op);
    if (def->schema) {
        snprintf(out, cap, "%s", def->schema);
        return;
    }
    const char *twin = strchr(td__row(td__opinfo(op)->pure)->schema, '(') + 1;
    const char *rest = twin + strcspn(twin, ",)"), *end = strstr(rest, ") -> ");
    const char *self = td__opinfo(op)->s.in[0].name;
    snprintf(out, cap, "%s(Tensor(a!) %s%.*s) -> Tensor(a!)", def->name, self,
             end ? (int)(end - rest) : 0, rest);
}

/* How the op is computed; the words are explained in the help text. */
static const char *computed_by(const td_opdef *def) {
    if (def->expr) return "expression";
    if (def->cpu) return "kernel";
    if (def->decomp || def->decomp_fn) return "decomposition";
    if (def->pure) return "twin";
    return "view";
}

static const char *derivative_kind(const td_opdef *def) {
    if (def->vjp_fn) return "function";
    if (!def->vjp) return "none";
    if (def->vjp[0] == '!') return "none";
    if (!strcmp(def->vjp, TD_ZERO_GRAD)) return "zero";
    if (!strcmp(def->vjp, TD_VIA_DECOMP)) return "decomposition";
    if (!strcmp(def->vjp, TD_VIA_PURE)) return "twin";
    return "formula";
}

/* The formula, or why there is no derivative; NULL: neither is written in the row. */
static const char *derivative_text(const td_opdef *def) {
    if (!def->vjp) return NULL;
    if (def->vjp[0] == '!') return def->vjp + 1;
    return strcmp(derivative_kind(def), "formula") ? NULL : def->vjp;
}

/* ---- JSON --------------------------------------------------------------- */

/* Runs of blanks, which rows use for alignment, become one. */
static bool add_text(cJSON *to, const char *key, const char *text) {
    char   one[1024];
    size_t n = 0;
    if (!text) return true;
    for (const char *p = text; *p && n + 1 < sizeof one; p++)
        if (*p != ' ' || p[1] != ' ') one[n++] = *p;
    one[n] = 0;
    return cJSON_AddStringToObject(to, key, one);
}

/* Adds the name of each entry that has a bit of `bits`. */
static bool add_names(cJSON *list, const flag_name *names, int n, uint32_t bits) {
    for (int i = 0; list && i < n; i++) {
        if (!(bits & names[i].bits)) continue;
        cJSON *s = cJSON_CreateString(names[i].name);
        if (!s || !cJSON_AddItemToArray(list, s)) return false;
    }
    return list != NULL;
}

static bool add_flags(cJSON *to, const td_opdef *def) {
    cJSON *list = cJSON_AddArrayToObject(to, "flags");
    return add_names(list, flag_names, TD_COUNT(flag_names), def->flags) &&
           add_names(list, dtype_names, TD_COUNT(dtype_names), def->dtypes);
}

static bool add_row(cJSON *list, td_op op) {
    const td_opdef *def = td__row(op);
    cJSON          *row = cJSON_CreateObject();
    char            schema[512];
    if (!row || !cJSON_AddItemToArray(list, row)) return cJSON_Delete(row), false;
    schema_text(op, schema, sizeof schema);
    bool ok = add_text(row, "name", def->name) && add_text(row, "schema", schema) &&
              add_text(row, "doc", def->doc) &&
              add_text(row, "computed_by", computed_by(def)) &&
              add_text(row, "expression", def->expr) &&
              add_text(row, "decomposition", def->decomp) &&
              add_text(row, "twin", def->pure) &&
              add_text(row, "inverse", def->inverse);
    cJSON *d = cJSON_AddObjectToObject(row, "derivative");
    return ok && d && add_text(d, "kind", derivative_kind(def)) &&
           add_text(d, "text", derivative_text(def)) && add_flags(row, def);
}

static int print_json(const td_op *ops, int n) {
    cJSON *list = cJSON_CreateArray();
    bool   ok = list != NULL;
    for (int i = 0; ok && i < n; i++) ok = add_row(list, ops[i]);
    char *text = ok ? cJSON_Print(list) : NULL;
    cJSON_Delete(list);
    if (!text) {
        fprintf(stderr, "tandem ops: memory is exhausted\n");
        return CLI_FAILED;
    }
    puts(text);
    cJSON_free(text);
    return CLI_OK;
}

/* ---- text --------------------------------------------------------------- */

/* Wraps text at blanks; lines after the first are indented by `hang`. */
static void wrapped(const cli_term *t, const char *text, int indent, int hang) {
    int width = t->width > 100 ? 100 : t->width, at = 0;
    while (*text) {
        int n = (int)strcspn(text, " "), gap = at ? 1 : indent;
        if (at && at + 1 + n > width) {
            fputc('\n', t->out);
            at = 0, gap = hang;
        }
        fprintf(t->out, "%*s%.*s", gap, "", n, text);
        at += gap + n;
        text += n + (int)strspn(text + n, " ");
    }
    fputc('\n', t->out);
}

static void print_line(const cli_term *t, td_op op) {
    char schema[512];
    schema_text(op, schema, sizeof schema);
    fputs(cli_ink_on(t, CLI_LINE), t->out);
    wrapped(t, schema, 0, 8);
    fputs(cli_ink_on(t, CLI_PLAIN), t->out);
    wrapped(t, td__row(op)->doc, 4, 4);
}

static bool has_name(const flag_name *names, int n, uint32_t bits) {
    bool any = false;
    for (int i = 0; i < n; i++) any |= (bits & names[i].bits) != 0;
    return any;
}

static void print_names(const cli_term *t, const flag_name *names, int n,
                        uint32_t bits) {
    for (int i = 0; i < n; i++)
        if (bits & names[i].bits) fprintf(t->out, " %s", names[i].name);
}

static void print_row(const cli_term *t, td_op op) {
    const td_opdef *def = td__row(op);
    const char     *kind = derivative_kind(def), *text = derivative_text(def);
    print_line(t, op);
    fprintf(t->out, "\n    computed by  %s", computed_by(def));
    if (def->expr) fprintf(t->out, ", %s", def->expr);
    if (def->decomp) fprintf(t->out, ", %s", def->decomp);
    if (def->pure) fprintf(t->out, ", %s", def->pure);
    fprintf(t->out, "\n    derivative   %s\n", kind);
    if (text) wrapped(t, text, 17, 17);
    if (def->inverse) fprintf(t->out, "    inverse      %s\n", def->inverse);
    bool any = has_name(flag_names, TD_COUNT(flag_names), def->flags) ||
               has_name(dtype_names, TD_COUNT(dtype_names), def->dtypes);
    if (any) fprintf(t->out, "    flags       ");
    print_names(t, flag_names, TD_COUNT(flag_names), def->flags);
    print_names(t, dtype_names, TD_COUNT(dtype_names), def->dtypes);
    if (any) fputc('\n', t->out);
}

/* ---- the command -------------------------------------------------------- */

/* The op of that name, else every op whose name contains it; all for NULL. */
static int choose(const char *name, td_op *ops) {
    int n = 0;
    if (name && td__op_find(name) != TD_OP_COUNT) {
        ops[0] = td__op_find(name);
        return 1;
    }
    for (int op = 0; op < TD_OP_COUNT; op++)
        if (!name || (*name && strstr(td__row(op)->name, name))) ops[n++] = (td_op)op;
    return n;
}

static int unknown(const char *name) {
    const char *near = td__op_near(name);
    fprintf(stderr, "tandem ops: no op \"%s\"", name);
    if (near) fprintf(stderr, "; did you mean %s?", near);
    fputc('\n', stderr);
    return CLI_FAILED;
}

static int run(int argc, char **argv) {
    static td_op ops[TD_OP_COUNT];
    const char  *name;
    int          status;
    json = false;
    if (!cli_parse(&cli_ops, argc, argv, &name, &status)) return status;
    if (!td__table_init()) {
        fprintf(stderr, "tandem ops: %s\n", td__table_why());
        return CLI_FAILED;
    }
    int n = choose(name, ops);
    if (n == 0) return unknown(name);
    if (json) return print_json(ops, n);
    cli_term t = cli_term_open(stdout, "auto");
    if (n == 1) print_row(&t, ops[0]);
    else
        for (int i = 0; i < n; i++) print_line(&t, ops[i]);
    return CLI_OK;
}

const cli_command cli_ops = {
    .name = "ops",
    .operand = "NAME",
    .summary = "list all ops, or describe one",
    .about =
        "Prints the schema and the meaning of every op. With NAME, prints that op "
        "with\n"
        "its computation, derivative and flags; if there is no such op, those whose\n"
        "names contain NAME.\n"
        "\n"
        "In a schema, Tensor(a) shares storage with the other a, Tensor(a!) is "
        "written,\n"
        "Operand is a tensor or a number, and ? marks an optional argument. In a\n"
        "derivative, g is the incoming gradient and out the result.\n"
        "\n"
        "A twin is the functional op of an in-place op: mul for mul_.\n"
        "\n"
        "With --json every op is an object: name, schema, doc, computed_by (kernel,\n"
        "expression, view, decomposition or twin), derivative (kind and text), flags,\n"
        "and where they apply expression, decomposition, twin and inverse.\n",
    .examples = "tandem ops | less\n"
                "tandem ops tanh\n"
                "tandem ops --json | jq -r '.[] | select(.derivative.kind==\"none\") | "
                ".name'\n",
    .options = options,
    .run = run,
};
