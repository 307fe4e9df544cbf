/* replay.c -- every fuzz target on its kept inputs, with any compiler: `make test` runs
 * it, so that what a fuzzer once found stays found. The Makefile renames the entry of
 * each target and lists them in TARGETS. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int entry(const uint8_t *data, size_t size);
#define TARGET(name) entry name;
TARGETS
#undef TARGET

static const struct {
    const char *name;
    entry      *run;
} targets[] = {
#define TARGET(name) {#name, name},
    TARGETS
#undef TARGET
};

/* The whole file, in a block of exactly its size, so that sanitizers see its end. */
static uint8_t *read_file(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) return NULL;
    long end = ftell(f);
    rewind(f);
    uint8_t *bytes = end >= 0 ? malloc((size_t)end ? (size_t)end : 1) : NULL;
    *n = bytes ? fread(bytes, 1, (size_t)end, f) : 0;
    fclose(f);
    return bytes;
}

/* Runs all inputs of target i. How many; 0 is a failure. */
static int replay(int i) {
    char path[512];
    int  ran = 0;
    snprintf(path, sizeof path, "tests/fuzz/corpus/%s", targets[i].name);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t n = 0;
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "tests/fuzz/corpus/%s/%s", targets[i].name,
                 e->d_name);
        uint8_t *bytes = read_file(path, &n);
        if (!bytes) continue;
        printf("%s\n", path); /* the last one, where it crashes */
        fflush(stdout);
        targets[i].run(bytes, n);
        free(bytes);
        ran++;
    }
    if (d) closedir(d);
    if (!ran) printf("FAIL %s has no kept inputs\n", targets[i].name);
    return ran;
}

int main(int argc, char **argv) {
    int passed = 0, failed = 0;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        if (argc > 1 && !strstr(targets[i].name, argv[1])) continue;
        int ran = replay((int)i);
        passed += ran;
        failed += !ran;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
