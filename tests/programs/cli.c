/* cli.c -- the `tandem` command as a person or a script meets it: output, exit status,
 * and one line on stderr for every misuse. It is looked for beside this program. */
#include "tandem/tandem.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char command[1024];
static int  passed, failed;

/* Output and status of a run; stderr after stdout. */
typedef struct result {
    char text[1 << 20];
    int  status;
} result;

static result *run(const char *env, const char *args) {
    static result r;
    char          line[2048];
    snprintf(line, sizeof line, "%s %s %s 2>&1", env, command, args);
    memset(&r, 0, sizeof r);
    FILE *f = popen(line, "r");
    if (f) {
        size_t n = fread(r.text, 1, sizeof r.text - 1, f);
        r.text[n] = 0;
        int end = pclose(f);
        r.status = WIFEXITED(end) ? WEXITSTATUS(end) : -1;
    } else r.status = -1;
    return &r;
}

static void check(bool ok, const char *what, const char *args, const result *r) {
    if (ok) {
        passed++;
        return;
    }
    failed++;
    printf("FAIL tandem %s: %s; status %d, output:\n%.2000s\n", args, what, r->status,
           r->text);
}

/* Ends well and says all of the words, which are separated by |. */
static void says(const char *env, const char *args, const char *words) {
    char    copy[512], *rest = copy;
    result *r = run(env, args);
    check(r->status == 0, "should end with status 0", args, r);
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word; (word = strsep(&rest, "|"));)
        check(strstr(r->text, word) != NULL, word, args, r);
}

static void refuses(const char *args, int status, const char *line) {
    result *r = run("", args);
    char    want[256];
    snprintf(want, sizeof want, "%s\n", line);
    check(r->status == status && !strcmp(r->text, want), line, args, r);
}

static void test_help(void) {
    says("", "", "NAME|SYNOPSIS|COMMANDS|EXIT STATUS");
    says("", "--help", "demo|ops|doctor");
    says("", "--version", "tandem " TD_VERSION_STRING);
    says("", "help demo", "--steps=N|--seed=N|EXAMPLES");
    says("", "demo --help", "--steps=N|EXAMPLES");
    says("", "help ops", "--json|[NAME]");
    says("", "doctor", "compiler|threads|self-test  fine");
    result *r = run("", "doctor");
    check(!strstr(r->text, "td_close"), "should handle its errors", "doctor", r);
    says("TD_NUM_THREADS=1 TD_ISA=base", "doctor", "level      base of|threads    1");
}

static void test_misuse(void) {
    refuses("dmeo", 2, "tandem: no command \"dmeo\"; did you mean demo? (tandem help)");
    refuses("nonsense", 2, "tandem: no command \"nonsense\" (tandem help)");
    refuses("--nonsense", 2, "tandem: no option \"--nonsense\" (tandem help)");
    refuses("demo --nonsense", 2,
            "tandem demo: no option \"--nonsense\" (tandem help demo)");
    refuses("demo --steps=0", 2,
            "tandem demo: --steps must be a number from 1 to 1000000, not \"0\" "
            "(tandem help demo)");
    refuses("demo --steps=9e9", 2,
            "tandem demo: --steps must be a number from 1 to 1000000, not \"9e9\" "
            "(tandem help demo)");
    refuses("demo --steps", 2, "tandem demo: --steps needs a value (tandem help demo)");
    refuses("demo --color=red", 2,
            "tandem demo: --color must be one of: auto always never; not \"red\" "
            "(tandem help demo)");
    refuses(
        "demo --color='auto always'", 2,
        "tandem demo: --color must be one of: auto always never; not \"auto always\" "
        "(tandem help demo)");
    refuses("demo more", 2,
            "tandem demo: unexpected argument \"more\" (tandem help demo)");
    refuses("ops --json=1", 2, "tandem ops: --json takes no value (tandem help ops)");
    refuses("ops tahn", 1, "tandem ops: no op \"tahn\"; did you mean tanh?");
    refuses("ops nonsense", 1, "tandem ops: no op \"nonsense\"");
}

static const char *text_of(const cJSON *row, const char *key) {
    const cJSON *v = cJSON_GetObjectItem(row, key);
    return cJSON_IsString(v) ? v->valuestring : "";
}

static void test_ops(void) {
    says("", "ops add_", "add_(Tensor(a!) a, Operand b|computed by  twin, add");
    says("", "ops pool2d", "max_pool2d(Tensor self|avg_pool2d(Tensor self");
    result *r = run("", "ops --json");
    cJSON  *list = cJSON_Parse(r->text);
    int     bad = 0;
    check(cJSON_IsArray(list), "should be a JSON array", "ops --json", r);
    for (const cJSON *row = list ? list->child : NULL; row; row = row->next) {
        size_t n = strlen(text_of(row, "name"));
        bad += n == 0 || strncmp(text_of(row, "schema"), text_of(row, "name"), n) ||
               !*text_of(row, "doc") || !*text_of(row, "computed_by") ||
               !*text_of(cJSON_GetObjectItem(row, "derivative"), "kind");
    }
    check(cJSON_GetArraySize(list) > 300 && bad == 0, "every row should be whole",
          "ops --json", r);
    cJSON_Delete(list);
}

/* What a report asks of a tensor is no part of the case. */
static void test_run(void) {
    const char *file = "run --json tests/cases/func/stale.td";
    result     *r = run("", file);
    cJSON      *all = cJSON_Parse(r->text), *c = cJSON_GetObjectItem(all, "cases");
    check(cJSON_IsTrue(cJSON_GetObjectItem(cJSON_GetArrayItem(c, 0), "ok")) &&
              strstr(r->text, "\"is_leaf\":null"),
          "a view that is out of date should be told of as such", file, r);
    cJSON_Delete(all);
    says("", "run tests/cases/func/stale.td", "case \"a no_grad view|gradients");
}

static void test_config(void) {
    const char *args = "config --json";
    says("", "config", "memory_budget         1  (default)|TD_LOG: text|Topics of the");
    says("TD_MEMORY_BUDGET=0.25", "config memory_budget",
         "0.25  (TD_MEMORY_BUDGET; default 1)");
    says("TD_CSE=maybe", "config cse",
         "tandem: warning: TD_CSE=\"maybe\" is not on or off; the default is used: "
         "on|cse                   on  (default)");
    refuses("config memory_bugdet", 1,
            "tandem config: no setting \"memory_bugdet\"; did you mean memory_budget?");
    result *r = run("TD_KNAPSACK=greedy", args);
    cJSON  *all = cJSON_Parse(r->text), *rows = cJSON_GetObjectItem(all, "settings");
    cJSON  *row;
    int     bad = 0, set = 0;
    cJSON_ArrayForEach(row, rows) {
        bad += !*text_of(row, "name") || !*text_of(row, "variable") ||
               !*text_of(row, "type") || !*text_of(row, "doc");
        set += !strcmp(text_of(row, "from"), "TD_KNAPSACK") &&
               !strcmp(text_of(row, "value"), "greedy");
    }
    check(cJSON_GetArraySize(rows) > 25 && !bad && set == 1, "every row whole", args,
          r);
    cJSON_Delete(all);
}

static void test_demo(void) {
    const char *args = "demo --quick --steps=20 --report=/dev/null";
    says("LC_ALL=C", args,
         "20/20 steps|a whole GPT|agree|What it writes|eager|compiled");
    says("LC_ALL=C.UTF-8", args, "\u2514\u2500|agree");
    result *r = run("", args);
    check(!strchr(r->text, '\x1b'), "a pipe should get no escapes", args, r);
    r = run("", "demo --quick --steps=1 --report=/nowhere/r.html");
    check(r->status == 1 && strstr(r->text, "cannot write /nowhere/r.html"),
          "should say that it cannot write", args, r);
    check(!strstr(r->text, "DIFFER"), "gradients should agree", args, r);
    says("NO_COLOR=1", "demo --quick --steps=1 --report=/dev/null --color=always",
         "\x1b[1m");
}

/* build/programs/cli: the command is build/tandem. */
int main(int argc, char **argv) {
    (void)argc;
    char *end = strrchr(argv[0], '/');
    snprintf(command, sizeof command, "%.*s/../tandem", end ? (int)(end - argv[0]) : 1,
             end ? argv[0] : ".");
    test_help();
    test_misuse();
    test_ops();
    test_run();
    test_config();
    test_demo();
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
