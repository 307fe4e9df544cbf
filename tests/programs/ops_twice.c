/* ops_twice.c -- gradients of gradients of the samples of tests/ops, inside and
 * outside of compiled functions (`ops-test --twice`). `make test` takes every fourth,
 * those that run under a sanitizer every sixteenth, TD_TEST_WHOLE=1 all. `ops_twice
 * WORD` takes the samples that contain WORD. The program is looked for beside this
 * one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char        path[1024];
    const char *slash = strrchr(argv[0], '/');
    const char *every = getenv("TD_TEST_WHOLE")   ? "--every=1"
                        : getenv("TD_TEST_QUICK") ? "--every=16"
                                                  : "--every=4";
    const char *word = argc > 1 ? argv[1] : NULL;
    snprintf(path, sizeof path, "%.*s/../ops-test", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    setenv("TD_BACKEND", "interp", 1);
    execl(path, path, "--twice", word ? word : every, NULL);
    perror(path);
    return 1;
}
