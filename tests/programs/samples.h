/* samples.h -- runs ops-test on the samples of tests/ops in another way (`how`). `make
 * test` takes every fourth sample, tests under a sanitizer every sixteenth,
 * TD_TEST_WHOLE=1 all; a WORD as argument takes those that contain it. The program
 * ops-test is looked for in the folder above this one's. */
#ifndef TD_SAMPLES_H
#define TD_SAMPLES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline int run_samples(int argc, char **argv, const char *how) {
    char        path[1024];
    const char *slash = strrchr(argv[0], '/');
    const char *every = getenv("TD_TEST_WHOLE")   ? "--every=1"
                        : getenv("TD_TEST_QUICK") ? "--every=16"
                                                  : "--every=4";
    snprintf(path, sizeof path, "%.*s/../ops-test", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    execl(path, path, how, argc > 1 ? argv[1] : every, NULL);
    perror(path);
    return 1;
}

#endif
