/* cmd_config.c -- `tandem config`: every setting, its value and where the value comes
 * from. */
#include "cli/cli.h"
#include "core/core.h"
#include "tandem/tandem.h"

#include <cjson/cJSON.h>
#include <string.h>

static bool             json;
static const cli_option options[] = {
    {.name = "json", .doc = "Print a JSON object.", .kind = CLI_FLAG, .to = &json},
    {0}};

static const char *const kinds[] = {"bool", "int", "real", "word", "text"};

/* Where the value comes from: "default", the environment variable, or "call". */
static const char *source(td_ctx *cx, int nr) {
    static const char *const names[] = {"default", NULL, "call"};
    td_knob_from             from = td__knob_from(cx, nr);
    return from == TD_FROM_ENV ? td__knobs[nr].env : names[from];
}

/* ---- JSON --------------------------------------------------------------- */

static bool add_range(cJSON *row, const td_knob *k) {
    if (k->kind == TD_KNOB_INT || k->kind == TD_KNOB_REAL)
        return cJSON_AddNumberToObject(row, "least", k->least) &&
               cJSON_AddNumberToObject(row, "most", k->most);
    if (k->kind != TD_KNOB_WORD) return true;
    cJSON *list = cJSON_AddArrayToObject(row, "words");
    char   word[40];
    for (const char *p = k->words; list && *p; p += *p == ' ') {
        size_t n = strcspn(p, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        cJSON *s = cJSON_CreateString(word);
        if (!s || !cJSON_AddItemToArray(list, s)) return cJSON_Delete(s), false;
        p += n;
    }
    return list != NULL;
}

static bool add_row(td_ctx *cx, cJSON *list, int nr) {
    const td_knob *k = &td__knobs[nr];
    char           value[4096];
    cJSON         *row = cJSON_CreateObject();
    if (!row || !cJSON_AddItemToArray(list, row)) return cJSON_Delete(row), false;
    td__knob_text(cx, nr, value, sizeof value);
    return cJSON_AddStringToObject(row, "name", k->name) &&
           cli_json_text(row, "value", value) &&
           cJSON_AddStringToObject(row, "from", source(cx, nr)) &&
           cJSON_AddStringToObject(row, "variable", k->env) &&
           cJSON_AddStringToObject(row, "type", kinds[k->kind]) &&
           cJSON_AddStringToObject(row, "default", k->normal) && add_range(row, k) &&
           cJSON_AddBoolToObject(row, "of_process", k->fixed) &&
           cJSON_AddStringToObject(row, "doc", k->doc);
}

static bool add_topics(cJSON *all) {
    cJSON *list = cJSON_AddArrayToObject(all, "topics");
    for (int i = 0; list && i < TD_TOPIC_COUNT; i++) {
        cJSON *row = cJSON_CreateObject();
        if (!row || !cJSON_AddItemToArray(list, row)) return cJSON_Delete(row), false;
        if (!cJSON_AddStringToObject(row, "name", td__topics[i].name) ||
            !cJSON_AddStringToObject(row, "doc", td__topics[i].doc))
            return false;
    }
    return list != NULL;
}

static int print_json(td_ctx *cx, const int *rows, int n) {
    cJSON *all = cJSON_CreateObject();
    cJSON *list = all ? cJSON_AddArrayToObject(all, "settings") : NULL;
    bool   ok = list != NULL;
    for (int i = 0; ok && i < n; i++) ok = add_row(cx, list, rows[i]);
    char *text = ok && add_topics(all) ? cJSON_Print(all) : NULL;
    cJSON_Delete(all);
    if (!text) {
        fprintf(stderr, "tandem config: memory is exhausted\n");
        return CLI_FAILED;
    }
    puts(text);
    cJSON_free(text);
    return CLI_OK;
}

/* ---- text --------------------------------------------------------------- */

static void print_row(const cli_term *t, td_ctx *cx, int nr) {
    const td_knob *k = &td__knobs[nr];
    char           value[4096], takes[200];
    bool           set = td__knob_from(cx, nr) != TD_FROM_DEFAULT;
    td__knob_text(cx, nr, value, sizeof value);
    fprintf(t->out, "%s%-21s%s %s%s%s  (%s", cli_ink_on(t, CLI_LINE), k->name,
            cli_ink_on(t, CLI_PLAIN), cli_ink_on(t, set ? CLI_BOLD : CLI_PLAIN),
            *value ? value : "-", cli_ink_on(t, CLI_PLAIN), source(cx, nr));
    if (set) fprintf(t->out, "; default %s", *k->normal ? k->normal : "-");
    fprintf(t->out, ")\n    %s\n    %s%s: %s%s\n", k->doc, cli_ink_on(t, CLI_DIM),
            k->env, td__knob_takes(k, takes, sizeof takes), cli_ink_on(t, CLI_PLAIN));
}

static int print_text(td_ctx *cx, const int *rows, int n) {
    cli_term t = cli_term_open(stdout, "auto");
    for (int i = 0; i < n; i++) print_row(&t, cx, rows[i]);
    if (n < TD_KNOB_COUNT) return CLI_OK;
    fprintf(t.out, "\nTopics of the log\n");
    for (int i = 0; i < TD_TOPIC_COUNT; i++)
        fprintf(t.out, "    %s%-10s%s %s\n", cli_ink_on(&t, CLI_LINE),
                td__topics[i].name, cli_ink_on(&t, CLI_PLAIN), td__topics[i].doc);
    return CLI_OK;
}

/* ---- the command -------------------------------------------------------- */

/* Reports an unknown setting, with a suggestion if one is similar. */
static int unknown(const char *name) {
    for (int i = 0; i < TD_KNOB_COUNT; i++)
        if (td__is_typo(name, td__knobs[i].name)) {
            fprintf(stderr, "tandem config: no setting \"%s\"; did you mean %s?\n",
                    name, td__knobs[i].name);
            return CLI_FAILED;
        }
    fprintf(stderr, "tandem config: no setting \"%s\"\n", name);
    return CLI_FAILED;
}

static int run(int argc, char **argv) {
    int         rows[TD_KNOB_COUNT], n = 0, status;
    const char *name;
    json = false;
    if (!cli_parse(&cli_config, argc, argv, &name, &status)) return status;
    for (int i = 0; i < TD_KNOB_COUNT; i++)
        if (!name || !strcmp(name, td__knobs[i].name)) rows[n++] = i;
    if (n == 0) return unknown(name);
    td_ctx *cx = td_open();
    if (!cx) {
        fprintf(stderr, "tandem config: memory is exhausted\n");
        return CLI_FAILED;
    }
    status = json ? print_json(cx, rows, n) : print_text(cx, rows, n);
    td_close(cx);
    return status;
}

const cli_command cli_config = {
    .name = "config",
    .operand = "NAME",
    .summary = "list all settings, their values and where these come from",
    .about =
        "Prints every setting of the library with its value, the source of the value\n"
        "(the default or an environment variable), its meaning and its range. With\n"
        "NAME, prints that setting only. An environment variable with an invalid "
        "value\n"
        "is reported on stderr, and the default is used.\n"
        "\n"
        "In a program: td_config_get, td_config_put and td_config_set.\n",
    .examples =
        "tandem config\n"
        "TD_MEMORY_BUDGET=0.5 tandem config memory_budget\n"
        "tandem config --json | jq -r '.settings[] | select(.from!=\"default\") "
        "| .name'\n",
    .options = options,
    .run = run,
};
