/* cases.c -- the cases of tests/cases/sem, three times over: what they do eagerly is
 * what PyTorch did (expected/NAME.json, written by tools/oracle/cases.py), every other
 * way of execution does the same (`tandem check`), and their facts are as pinned down
 * (expected/NAME.facts). `cases WORD` runs those whose file or name contains WORD;
 * `cases --bless` rewrites the facts. The command is looked for beside this program. */
#include <cjson/cJSON.h>
#include <glob.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char        command[1024];
static const char *word = "";
static bool        bless;
static int         passed, failed;

/* ---- text --------------------------------------------------------------- */

/* All of a stream, to be freed. */
static char *read_all(FILE *f) {
    size_t n = 0, cap = 1 << 16;
    char  *text = malloc(cap);
    while (text && f && (n += fread(text + n, 1, cap - n - 1, f)) == cap - 1)
        text = realloc(text, cap *= 2);
    if (!text) exit(1);
    text[n] = 0;
    return text;
}

static char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = read_all(f);
    if (f) fclose(f);
    return text;
}

static char *run(const char *what, const char *path, int *status) {
    char line[2048];
    snprintf(line, sizeof line, "%s %s %s 2>&1", command, what, path);
    FILE *f = popen(line, "r");
    char *text = read_all(f);
    int   end = f ? pclose(f) : -1;
    *status = WIFEXITED(end) ? WEXITSTATUS(end) : -1;
    return text;
}

/* tests/cases/sem/NAME.td and the file beside it with another end. */
static const char *beside(const char *path, const char *end) {
    static char out[1024];
    const char *slash = strrchr(path, '/');
    int         n = (int)(slash - path), stem = (int)strlen(slash) - 3;
    snprintf(out, sizeof out, "%.*s/expected%.*s%s", n, path, stem, slash, end);
    return out;
}

/* ---- what PyTorch did --------------------------------------------------- */

static char where[256], why[512];

static bool differ(const char *what) {
    snprintf(why, sizeof why, "%.250s %.250s", where, what);
    return false;
}

static const char *text_of(const cJSON *v) {
    return cJSON_IsString(v) ? v->valuestring : "";
}

static double number(const cJSON *v) {
    return cJSON_IsString(v) ? strtod(v->valuestring, NULL)
           : cJSON_IsBool(v) ? (double)cJSON_IsTrue(v)
                             : v->valuedouble;
}

static double unit_of(const char *dtype) {
    if (!strcmp(dtype, "f64")) return ldexp(1, -52);
    if (!strcmp(dtype, "f32")) return ldexp(1, -23);
    if (!strcmp(dtype, "f16")) return ldexp(1, -10);
    return strcmp(dtype, "bf16") == 0 ? ldexp(1, -7) : 0;
}

/* Printed numbers read back exactly in their own dtype, so f32 is compared as f32. */
static bool near(double a, double b, const char *dtype, bool close) {
    double unit = unit_of(dtype);
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (!strcmp(dtype, "f32")) a = (float)a, b = (float)b;
    if (a == b) return true;
    double ulps = close ? 64 : unit > ldexp(1, -23) ? 0.5 : 0;
    return fabs(a - b) <= ulps * unit * fmax(1, fmax(fabs(a), fabs(b)));
}

static bool same_elements(const cJSON *want, const cJSON *got, const char *dtype,
                          bool close) {
    const cJSON *a = want->child, *b = got->child;
    char         text[128];
    for (int i = 0; a && b; a = a->next, b = b->next, i++) {
        if (near(number(a), number(b), dtype, close)) continue;
        snprintf(text, sizeof text, "element %d is %.9g, not %.9g", i, number(b),
                 number(a));
        return differ(text);
    }
    return (!a && !b) || differ("has another number of elements");
}

/* Strides of dims with one element, or of none, are free. */
static bool same_strides(const cJSON *want, const cJSON *got, const cJSON *sizes) {
    const cJSON *s;
    cJSON_ArrayForEach(s, sizes) {
        if (s->valueint == 0) return true;
    }
    const cJSON *a = want->child, *b = got->child;
    for (s = sizes->child; s && a && b; s = s->next, a = a->next, b = b->next)
        if (s->valueint != 1 && a->valueint != b->valueint)
            return differ("has other strides");
    return true;
}

static bool same_value(const cJSON *want, const cJSON *got, bool close);

/* Everything PyTorch says of it; true for a name means that there is one. */
static bool same_entry(const cJSON *want, const cJSON *of, const cJSON *got,
                       bool close) {
    const cJSON *mine = cJSON_GetObjectItem(of, want->string);
    char         text[300];
    if (!mine) return differ("lacks something");
    if (!strcmp(want->string, "elements"))
        return same_elements(want, mine, text_of(cJSON_GetObjectItem(got, "dtype")),
                             close);
    if (!strcmp(want->string, "strides"))
        return same_strides(want, mine, cJSON_GetObjectItem(got, "sizes"));
    if (!strcmp(want->string, "grad_fn") && cJSON_IsTrue(want))
        return *text_of(mine) || differ("has no history");
    if (cJSON_IsObject(want) || cJSON_IsArray(want)) {
        size_t n = strlen(where);
        snprintf(where + n, sizeof where - n, " %.40s", want->string);
        bool same = same_value(want, mine, close);
        where[n] = 0;
        return same;
    }
    if (cJSON_Compare(want, mine, true)) return true;
    char *a = cJSON_PrintUnformatted(want), *b = cJSON_PrintUnformatted(mine);
    snprintf(text, sizeof text, "%.40s is %.80s, not %.80s", want->string, b, a);
    free(a);
    free(b);
    return differ(text);
}

static bool same_list(const cJSON *want, const cJSON *got, bool close) {
    const cJSON *a = want->child, *b = got->child;
    size_t       n = strlen(where);
    for (int i = 0; a && b; a = a->next, b = b->next, i++) {
        snprintf(where + n, sizeof where - n, "[%d]", i);
        if (!same_value(a, b, close)) return false;
        where[n] = 0;
    }
    return (!a && !b) || differ("has another length");
}

static bool same_value(const cJSON *want, const cJSON *got, bool close) {
    const cJSON *v;
    if (cJSON_IsArray(want)) return same_list(want, got, close);
    if (!cJSON_IsObject(want))
        return cJSON_Compare(want, got, true) || differ("differs");
    cJSON_ArrayForEach(v, want) {
        if (strcmp(v->string, "torch_says") != 0 && strcmp(v->string, "close") != 0 &&
            !same_entry(v, got, want, close))
            return false;
    }
    return true;
}

static void report(bool ok, const char *path, const char *name) {
    passed += ok;
    failed += !ok;
    if (!ok) printf("FAIL %s: %s\n     %s\n", path, name, why);
}

static void check_expected(const char *path) {
    int          status;
    char        *got = run("run --json", path, &status);
    char        *want = read_file(beside(path, ".json"));
    cJSON       *a = cJSON_Parse(want), *b = cJSON_Parse(got);
    const cJSON *c = a ? cJSON_GetObjectItem(a, "cases") : NULL;
    const cJSON *d = b ? cJSON_GetObjectItem(b, "cases") : NULL;
    bool         both = c && d && cJSON_GetArraySize(c) == cJSON_GetArraySize(d);
    snprintf(why, sizeof why, "its cases are others than those of %.400s",
             beside(path, ".json"));
    if (!both) report(false, path, "run tools/oracle/cases.py");
    for (c = both ? c->child : NULL, d = both ? d->child : NULL; c && d;
         c = c->next, d = d->next) {
        const char *name = text_of(cJSON_GetObjectItem(c, "case"));
        bool        close = cJSON_IsTrue(cJSON_GetObjectItem(c, "close"));
        where[0] = 0;
        if (strstr(path, word) || strstr(name, word))
            report(same_value(c, d, close), path, name);
    }
    cJSON_Delete(a);
    cJSON_Delete(b);
    free(want);
    free(got);
}

/* ---- the other ways, and facts ------------------------------------------ */

static void check_ways(const char *path) {
    int   status;
    char *got = run("check --quiet", path, &status);
    snprintf(why, sizeof why, "%.400s", got);
    report(status == 0, path, "tandem check");
    free(got);
}

static void check_facts(const char *path) {
    int   status, line = 1;
    char *got = run("facts", path, &status), *want = read_file(beside(path, ".facts"));
    const char *a = got, *b = want;
    for (; *a && *a == *b; a++, b++) line += *a == '\n';
    snprintf(why, sizeof why, "line %d of %.300s: ...%.60s\n  is not ...%.60s", line,
             beside(path, ".facts"), a, b);
    if (bless && status <= 1 && strcmp(got, want) != 0) {
        FILE *f = fopen(beside(path, ".facts"), "wb");
        if (f) fputs(got, f), fclose(f);
        printf("blessed %s\n", beside(path, ".facts"));
    } else report(!strcmp(got, want), path, "facts");
    free(got);
    free(want);
}

int main(int argc, char **argv) {
    char  *end = strrchr(argv[0], '/');
    glob_t found;
    snprintf(command, sizeof command, "%.*s/../tandem", end ? (int)(end - argv[0]) : 1,
             end ? argv[0] : ".");
    bless = argc > 1 && !strcmp(argv[1], "--bless");
    if (argc > 1 + bless) word = argv[1 + bless];
    if (glob("tests/cases/sem/*.td", 0, NULL, &found) != 0) {
        fprintf(stderr, "cases: no tests/cases/sem/*.td here\n");
        return 1;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        check_expected(path);
        if (!strstr(path, word)) continue;
        check_ways(path);
        check_facts(path);
    }
    globfree(&found);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
