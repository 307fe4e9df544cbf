/* ops_native.c -- the samples of tests/ops as functions of the native backend, against
 * eager (`ops-test --native`). `make test` takes every fourth, those that run under a
 * sanitizer every sixteenth, TD_TEST_WHOLE=1 all; compiled without optimization, where
 * TD_CC_FLAGS does not say otherwise. `ops_native WORD` takes the samples that contain
 * WORD. The program is looked for beside this one. */
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
    setenv("TD_BACKEND", "native", 1);
    setenv("TD_CC_FLAGS", "-O0", 0);
    setenv("TD_CACHE_DISK_MB", "0", 1);
    execl(path, path, "--native", word ? word : every, NULL);
    perror(path);
    return 1;
}
