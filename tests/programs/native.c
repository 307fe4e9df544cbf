/* native.c -- every case of tests/cases and every kept program of tests/corpus,
 * compiled by the native backend in every way `tandem check` knows, against eager.
 * `native WORD` takes the files whose path contains WORD. The cases, and the kept
 * programs about kernels, are compiled with the flags that users get; other kept
 * programs without optimization, which changes no bit, unless TD_CC_FLAGS or
 * TD_TEST_WHOLE is set.
 *
 * The files of a batch run twice in one process: first with compilation deferred, which
 * collects their kernels, then, after one build of all of them, with the comparison.
 * One call of the compiler for each file would take ten times as long. */
#include "build/kernel.h"
#include "cli/case_check.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 1500 };

/* Shared with the process of a batch, which may crash. */
typedef struct progress {
    int  passed, failed;
    char path[512]; /* the current file */
} progress;

static progress *now;

/* Runs all cases of a file in all ways. `counts`: prints and counts what differs; a
 * refused case is no failure. */
static void check_file(const char *path, bool counts) {
    td_ctx *cx = td_open();
    snprintf(now->path, sizeof now->path, "%s", path);
    td_gfile *f = cx ? td__gfile_read(cx, path) : NULL;
    if (!f || td_is_nil(f)) {
        printf("%s: %s\n", path, cx ? td_message(cx) : "no memory");
        now->failed += counts;
    }
    for (int i = 0; f && !td_is_nil(f) && i < f->cases.n; i++) {
        bool ok = true;
        for (int w = 0; case_ways[w]; w++) {
            case_verdict v;
            if (case_check(f, f->cases.v[i], case_ways[w], &v) == CASE_DIFFERS) {
                if (counts)
                    printf("FAIL %s: %s: %s: %s\n", path, f->cases.v[i]->name,
                           case_ways[w]->name, td__buf_str(&v.why));
                ok = false;
            }
            td__buf_free(&v.why);
        }
        now->passed += counts && ok;
        now->failed += counts && !ok;
    }
    if (f && !td_is_nil(f)) td__gfile_drop(f);
    if (cx) td_close(cx);
}

/* Returns the exit status of the process of a batch. */
static int check_batch(char **path, size_t n) {
    td__kernels_defer();
    for (size_t i = 0; i < n; i++) check_file(path[i], false);
    td_ctx *cx = td_open();
    bool    ok = cx && td__kernels_build_deferred(cx);
    if (!ok) printf("the kernels are not built: %s\n", cx ? td_message(cx) : "");
    if (cx) td_close(cx);
    for (size_t i = 0; i < n && ok; i++) check_file(path[i], true);
    fflush(stdout);
    return !ok;
}

/* Runs a batch in a process of its own. A process that ends early is a failure. */
static void fork_batch(char **path, size_t n) {
    int end = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) exit(check_batch(path, n));
    if (child > 0 && waitpid(child, &end, 0) == child && WIFEXITED(end) &&
        WEXITSTATUS(end) == 0)
        return;
    printf("FAIL %s: does not run to its end (status %d)\n", now->path, end);
    now->failed++;
}

static bool is_about_kernels(const char *path) {
    return strstr(path, "tests/cases/") == path || strstr(path, "/kernels/") ||
           strstr(path, "/native/");
}

/* Runs the files of g that are wanted, with the flags that users get or not. */
static void run_files(const glob_t *g, const char *word, bool as_users) {
    char **path = calloc(g->gl_pathc, sizeof *path);
    bool   plain = !as_users && !getenv("TD_CC_FLAGS");
    size_t n = 0;
    for (size_t k = 0; path && k < g->gl_pathc; k++)
        if (strstr(g->gl_pathv[k], word) &&
            (is_about_kernels(g->gl_pathv[k]) || getenv("TD_TEST_WHOLE")) == as_users)
            path[n++] = g->gl_pathv[k];
    if (plain) setenv("TD_CC_FLAGS", "-O0", 1);
    for (size_t k = 0; k < n; k += BATCH)
        fork_batch(path + k, n - k < BATCH ? n - k : BATCH);
    if (plain) unsetenv("TD_CC_FLAGS");
    now->failed += !path;
    free(path);
}

int main(int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : "";
    glob_t      g;
    now = mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
               -1, 0);
    if (now == MAP_FAILED) return 1;
    setenv("TD_BACKEND", "native", 1);
    setenv("TD_CACHE_DISK_MB", "0", 1);
    if (glob("tests/cases/*/*.td", 0, NULL, &g) ||
        glob("tests/corpus/*/*.td", GLOB_APPEND, NULL, &g))
        return puts("no files"), 1;
    run_files(&g, word, true);
    run_files(&g, word, false);
    globfree(&g);
    printf("%d passed, %d failed\n", now->passed, now->failed);
    return now->failed > 0;
}
