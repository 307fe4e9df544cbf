/* ops_twice.c -- gradients of gradients of the samples of tests/ops, inside and
 * outside of compiled functions (`ops-test --twice`). */
#include "samples.h"

int main(int argc, char **argv) {
    setenv("TD_BACKEND", "interp", 1);
    return run_samples(argc, argv, "--twice");
}
