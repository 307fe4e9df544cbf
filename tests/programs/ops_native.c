/* ops_native.c -- the samples of tests/ops as functions of the native backend, against
 * eager (`ops-test --native`); compiled without optimization, where TD_CC_FLAGS does
 * not say otherwise. */
#include "samples.h"

int main(int argc, char **argv) {
    setenv("TD_BACKEND", "native", 1);
    setenv("TD_CC_FLAGS", "-O0", 0);
    setenv("TD_CACHE_DISK_MB", "0", 1);
    return run_samples(argc, argv, "--native");
}
