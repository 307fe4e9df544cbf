/* devices.c -- the cases of tests/cases and tests/corpus, and samples of all ops, with
 * every tensor on the device for tests: compiled functions agree with eager ones there,
 * and eager ones with PyTorch; and that with kernels of the device. `devices WORD` runs
 * those whose command contains WORD. The programs are looked for in the folder above
 * this one's. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;

/* `how`: variables of the environment. */
static void run(const char *dir, const char *word, const char *how,
                const char *command) {
    char line[2048];
    if (!strstr(command, word)) return;
    snprintf(line, sizeof line, "TD_DEVICE_PATH=%s %s %s/%s", dir, how, dir, command);
    if (system(line) == 0) passed++;
    else failed++, printf("FAIL %s\n", line);
}

int main(int argc, char **argv) {
    char        dir[1024];
    const char *slash = strrchr(argv[0], '/'), *word = argc > 1 ? argv[1] : "";
    bool        quick = getenv("TD_TEST_QUICK") != NULL;
    snprintf(dir, sizeof dir, "%.*s/..", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    run(dir, word, "", "tandem check --device=test:0 --quiet tests/cases");
    run(dir, word, "", "fuzz/programs --device=test:0 --replay tests/corpus/*/*.td");
    run(dir, word, "",
        quick ? "ops-test --device=test:0 --every=64"
              : "ops-test --device=test:0 --every=4");
    /* with kernels, which the C compiler builds, and NVRTC where it is */
    run(dir, word, "TD_TEST_KERNELS=1",
        quick ? "ops-test --device=test:0 -q --every=400"
              : "ops-test --device=test:0 -q --every=80");
    run(dir, word, "TD_TEST_KERNELS=1 TD_TEST_NVRTC=1",
        "ops-test --device=test:0 -q --every=700");
    /* and compiled code, whose nests become kernels; NVRTC sees those that are built */
    run(dir, word, "TD_TEST_KERNELS=1",
        quick ? "tandem check --device=test:0 --quiet --allow-refused tests/cases/aot"
              : "tandem check --device=test:0 --quiet --allow-refused tests/cases");
    run(dir, word, "TD_TEST_KERNELS=1 TD_TEST_NVRTC=1 TD_CACHE_DISK_MB=0",
        "tandem check --device=test:0 --quiet --case=two tests/cases/aot/steps.td");
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
