/* explained.c -- `tandem explain` on every case, with TD_TEST_WHOLE=1 on every kept
 * program too, as text and as JSON, with graphs: both tell the same steps of each
 * input, the same kind of each result, and the same guards. `explained WORD` takes the
 * files whose path contains WORD. The command is looked for beside this program. */
#include <cjson/cJSON.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int  passed, failed;
static long said; /* lines that both say */

/* All that a command prints; the caller's to free. */
static char *output(const char *command, const char *how, const char *path) {
    char   line[2048], *all = NULL;
    size_t n = 0, got;
    snprintf(line, sizeof line, "%s explain --graphs --no-times %s %s 2>/dev/null",
             command, how, path);
    FILE *to = open_memstream(&all, &n), *f = popen(line, "r");
    while (to && f && (got = fread(line, 1, sizeof line, f)) > 0)
        fwrite(line, 1, got, to);
    if (f) pclose(f);
    if (to) fclose(to);
    return all;
}

/* ---- what both say ---------------------------------------------------------- */

/* What a line of a table says of an input or a result: its last column. */
static const char *last_column(const char *line) {
    for (const char *next; (next = strstr(line, "  "));) line = next + 2;
    return line + strspn(line, " ");
}

/* The steps of an input, without what JSON has as numbers and flags. */
static void say_steps_of_text(FILE *to, int nr, char *line) {
    static const char *const none[] = {"only ", "written through another input",
                                       "the same tensor as input "};
    char                    *end = strstr(line, "; requires grad");
    const char              *words;
    fprintf(to, "input %d%s", nr, end ? ", requires grad" : "");
    if (end) *end = 0;
    if ((end = strstr(line, ", version +"))) *end = 0;
    words = last_column(line);
    for (int i = 0; i < 3; i++)
        if (!strncmp(words, none[i], strlen(none[i]))) words = "";
    fprintf(to, ": %s\n", words);
}

static void say_of_text(FILE *to, const char *text) {
    char        part = 0, line[4096];
    const char *next;
    for (; *text; text = next) {
        size_t n = strcspn(text, "\n");
        int    nr = 0, at = 0;
        next = text + n + (text[n] == '\n');
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        if (!strncmp(line, "specialization ", 15)) fprintf(to, "%s\n", line);
        if (line[0] != ' ' || line[1] != ' ' || line[2] == ' ') {
            if (strncmp(line, "    ", 4)) part = 0;
        } else
            part = !strcmp(line + 2, "inputs")    ? 'i'
                   : !strcmp(line + 2, "results") ? 'r'
                   : !strcmp(line + 2, "guards")  ? 'g'
                                                  : 0;
        if (part == 'g' && line[2] == ' ') fprintf(to, "guard %s\n", line + 4);
        if (sscanf(line, "    %d  %n", &nr, &at) != 1 || !at) continue;
        const char *words = last_column(line);
        if (part == 'r')
            fprintf(to, "result %d: %.*s\n", nr, (int)strcspn(words, " ,"), words);
        if (part == 'i') say_steps_of_text(to, nr, line);
    }
}

static bool is(const cJSON *o, const char *key) {
    return cJSON_IsTrue(cJSON_GetObjectItem(o, key));
}

static const char *string(const cJSON *o, const char *key) {
    const char *s = cJSON_GetStringValue(cJSON_GetObjectItem(o, key));
    return s ? s : "";
}

static void say_steps_of_json(FILE *to, int nr, const cJSON *input) {
    const cJSON *u = cJSON_GetObjectItem(input, "update"), *e;
    bool         any = !strcmp(string(u, "written"), "graph");
    fprintf(to, "input %d%s: %s", nr,
            is(input, "requires_grad") ? ", requires grad" : "",
            any ? "written by the compiled code, without history" : "");
    cJSON_ArrayForEach(e, cJSON_GetObjectItem(u, "steps")) {
        fprintf(to, "%s%s", any ? ", " : "", cJSON_GetStringValue(e));
        any = true;
    }
    fprintf(to, "\n");
}

/* The first word of the text for a kind of result. */
static const char *word_of(const char *kind) {
    static const char *const words[][2] = {{"value", "computed"},    {"input", "input"},
                                           {"duplicate", "result"},  {"view", "view"},
                                           {"detached", "detached"}, {"number", "a"}};
    for (int i = 0; i < 6; i++)
        if (!strcmp(kind, words[i][0])) return words[i][1];
    return kind;
}

static void say_of_one(FILE *to, const cJSON *s) {
    const char  *kind = cJSON_GetStringValue(cJSON_GetObjectItem(s, "kind"));
    const cJSON *e;
    int          i = 0;
    fprintf(to, "specialization %d: %s\n",
            (int)cJSON_GetNumberValue(cJSON_GetObjectItem(s, "nr")),
            !strcmp(kind, "training")    ? "forward and backward"
            : !strcmp(kind, "inference") ? "forward only"
                                         : kind);
    cJSON_ArrayForEach(e, cJSON_GetObjectItem(s, "inputs"))
        say_steps_of_json(to, i++, e);
    i = 0;
    cJSON_ArrayForEach(e, cJSON_GetObjectItem(s, "results"))
        fprintf(to, "result %d: %s\n", i++, word_of(string(e, "kind")));
    cJSON_ArrayForEach(e, cJSON_GetObjectItem(s, "guards"))
        fprintf(to, "guard %s\n", cJSON_GetStringValue(e));
}

static bool say_of_json(FILE *to, const char *text) {
    const cJSON *c, *f, *s;
    cJSON       *all = cJSON_Parse(text);
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(all, "explained"))
        cJSON_ArrayForEach(f, cJSON_GetObjectItem(c, "functions"))
            cJSON_ArrayForEach(s, cJSON_GetObjectItem(f, "specializations"))
                say_of_one(to, s);
    bool ok = cJSON_GetObjectItem(all, "explained") != NULL;
    cJSON_Delete(all);
    return ok;
}

/* ---- files ------------------------------------------------------------------ */

/* The first line that differs. */
static void show(const char *path, const char *a, const char *b) {
    while (*a && *b && strcspn(a, "\n") == strcspn(b, "\n") &&
           !strncmp(a, b, strcspn(a, "\n"))) {
        a += strcspn(a, "\n") + (a[strcspn(a, "\n")] == '\n');
        b += strcspn(b, "\n") + (b[strcspn(b, "\n")] == '\n');
    }
    printf("FAIL %s: text says `%.*s`, JSON `%.*s`\n", path, (int)strcspn(a, "\n"), a,
           (int)strcspn(b, "\n"), b);
}

static void check(const char *command, const char *path) {
    char  *text = output(command, "", path), *json = output(command, "--json", path);
    char  *a = NULL, *b = NULL;
    size_t n, m;
    FILE  *x = open_memstream(&a, &n), *y = open_memstream(&b, &m);
    if (!text || !json || !x || !y) exit(2);
    say_of_text(x, text);
    bool ok = say_of_json(y, json);
    fclose(x), fclose(y);
    if (!ok) printf("FAIL %s: no JSON\n", path);
    else if (strcmp(a, b)) show(path, a, b), ok = false;
    for (const char *p = a; *p; p++) said += *p == '\n';
    if (strstr(text, "(null)") || strstr(json, "(null)"))
        printf("FAIL %s: (null)\n", path), ok = false;
    passed += ok, failed += !ok;
    free(text), free(json), free(a), free(b);
}

int main(int argc, char **argv) {
    static const char *const where[] = {"tests/cases/*/*.td", "tests/corpus/*/*.td"};
    bool                     whole = getenv("TD_TEST_WHOLE") || argc > 1;
    char                     command[1024];
    const char              *slash = strrchr(argv[0], '/');
    const char              *word = argc > 1 ? argv[1] : "";
    snprintf(command, sizeof command, "%.*s/../tandem",
             slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
    for (int i = 0; i < (whole ? 2 : 1); i++) {
        glob_t g;
        if (glob(where[i], 0, NULL, &g)) continue;
        for (size_t k = 0; k < g.gl_pathc; k++)
            if (strstr(g.gl_pathv[k], word)) check(command, g.gl_pathv[k]);
        globfree(&g);
    }
    printf("%d passed, %d failed\n", passed, failed);
    if (argc < 2 && said < 2000) return printf("only %ld lines said\n", said), 1;
    return failed > 0 || passed == 0;
}
