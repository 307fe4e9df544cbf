/* bench.h -- timing shared by the bench programs: medians of batches, one JSON
 * line per figure. Included by each program; not part of the library. */
#ifndef BENCH_H
#define BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef void bench_fn(void *env, long reps);

static int bench_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of one repetition: the median of 9 batches of about 20 ms each. */
static inline double bench_time(bench_fn *fn, void *env) {
    double batch[9];
    long   reps = 1;
    for (double t = 0; t < 0.02; reps *= 2) {
        double start = bench_now();
        fn(env, reps);
        t = bench_now() - start;
        if (t >= 0.02) break;
    }
    for (int i = 0; i < 9; i++) {
        double start = bench_now();
        fn(env, reps);
        batch[i] = (bench_now() - start) / (double)reps;
    }
    qsort(batch, 9, sizeof batch[0], bench_compare);
    return batch[4];
}

static inline void bench_print(const char *name, double value, const char *unit) {
    printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", name, value, unit);
    fflush(stdout);
}

#endif
