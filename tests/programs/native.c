/* native.c -- every case of tests/cases and every kept program of tests/corpus,
 * compiled by the native backend in every way `tandem check` knows, against eager.
 * `native WORD` takes the files whose path contains WORD. The command is looked for
 * beside this program. */
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static int passed, failed;

/* The last line says how many cases differ; what is refused is no failure. */
static void check(const char *command, const char *path) {
    char line[4096], last[4096] = "";
    int  cases = 0, differ = 0;
    snprintf(line, sizeof line, "%s check %s 2>&1", command, path);
    FILE *f = popen(line, "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strstr(line, " FAIL ")) fputs(line, stdout);
        snprintf(last, sizeof last, "%s", line);
    }
    int   end = f ? pclose(f) : -1;
    char *at = strstr(last, "differ");
    while (at && at > last && at[-1] != ',') at--;
    if (at) differ = atoi(at);
    bool ran = sscanf(last, "1 file, %d case", &cases) == 1 && WIFEXITED(end);
    if (!ran) printf("%s: does not run to its end: %s\n", path, last);
    failed += ran ? differ : 1;
    passed += ran ? cases - differ : 0;
}

int main(int argc, char **argv) {
    static const char *const where[] = {"tests/cases/*/*.td", "tests/corpus/*/*.td"};
    char                     command[1024];
    const char              *slash = strrchr(argv[0], '/');
    const char              *word = argc > 1 ? argv[1] : "";
    snprintf(command, sizeof command, "%.*s/../tandem",
             slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
    setenv("TD_BACKEND", "native", 1);
    for (int i = 0; i < 2; i++) {
        glob_t g;
        if (glob(where[i], 0, NULL, &g)) continue;
        for (size_t k = 0; k < g.gl_pathc; k++)
            if (strstr(g.gl_pathv[k], word)) check(command, g.gl_pathv[k]);
        globfree(&g);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
