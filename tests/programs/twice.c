/* twice.c -- every case of tests/cases and every kept program of tests/corpus compiled
 * twice over one cache: the second time all is found, and both times all is as eager
 * has it. The interpreter runs them all, native code some; what the program `native`
 * has left serves that. `twice WORD` takes the files whose path contains WORD. */
#include "cli/case_check.h"
#include "tandem/tandem.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;

/* What the cache did while a case was checked. */
typedef struct heard {
    int  hits, stored;
    char first[200]; /* of what was stored */
} heard;

static void hear(void *env, const char *topic, const char *text) {
    heard *h = env;
    if (strcmp(topic, "cache")) return;
    h->hits += !strncmp(text, "hit: ", 5);
    if (strncmp(text, "stored", 6)) return;
    if (!h->stored++) snprintf(h->first, sizeof h->first, "%s", text);
}

static int hits;

/* One case in one way, once. False: something is other than it should be. */
static bool once(const td_gfile *f, const td_gcase *c, const case_way *way, int nr) {
    heard        h = {0};
    case_verdict v = {0};
    td_log_to(f->cx, hear, &h);
    bool ok = case_check(f, c, way, &v) != CASE_DIFFERS;
    td_log_to(f->cx, NULL, NULL);
    if (!ok)
        printf("FAIL %s, %s: %s, time %d: %s\n", f->name, c->name, way->name, nr,
               td__buf_str(&v.why));
    else if (nr == 2 && h.stored) {
        ok = false;
        printf("FAIL %s, %s: %s: not found the second time: %s\n", f->name, c->name,
               way->name, h.first);
    }
    if (nr == 2) hits += h.hits;
    td__buf_free(&v.why);
    return ok;
}

/* Compiled, and with all that may vary varied. */
static void check_case(const td_gfile *f, const td_gcase *c) {
    const case_way *ways[] = {&case_compiled[0], &case_compiled[5]};
    bool            ok = true;
    for (int w = 0; w < TD_COUNT(ways); w++)
        for (int nr = 1; nr <= 2; nr++) ok = once(f, c, ways[w], nr) && ok;
    passed += ok;
    failed += !ok;
}

static void check_file(const char *path, const char *backend) {
    td_ctx   *cx = td_open();
    td_gfile *f = cx ? td__gfile_read(cx, path) : NULL;
    if (f) {
        td_config_set(cx, "log", "cache");
        td_config_set(cx, "backend", backend);
        for (int i = 0; i < f->cases.n; i++) check_case(f, f->cases.v[i]);
    } else {
        printf("FAIL %s: %s\n", path, cx ? td_message(cx) : "no memory");
        failed++;
    }
    td__gfile_drop(f);
    td_close(cx);
}

static void check_all(const char *pattern, const char *word, const char *backend) {
    glob_t g;
    if (glob(pattern, 0, NULL, &g)) return;
    for (size_t i = 0; i < g.gl_pathc; i++)
        if (strstr(g.gl_pathv[i], word)) check_file(g.gl_pathv[i], backend);
    globfree(&g);
}

int main(int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : "";
    check_all("tests/cases/*/*.td", word, "interp");
    check_all("tests/corpus/*/*.td", word, "interp");
    check_all("tests/cases/aot/*.td", word, "native");
    check_all("tests/cases/sym/*.td", word, "native");
    if (!*word && hits == 0) printf("FAIL nothing was found\n"), failed++;
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
