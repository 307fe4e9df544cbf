/* bench.h -- timing shared by the bench programs: the least of many batches, one
 * JSON line per figure. Included by each program; not part of the library. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Seconds; of this process alone, all its threads together, with BENCH_CLOCK=cpu. */
static inline double bench_now(void) {
    struct timespec t;
    const char     *clock = getenv("BENCH_CLOCK");
    bool            cpu = clock && !strcmp(clock, "cpu");
    clock_gettime(cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef void bench_fn(void *env, long reps);

/* Seconds of one repetition: the least of many batches of about 1 ms, for so many
 * seconds and three times at least. Whatever else runs on the machine only adds, and
 * seldom to all of them. */
static inline double bench_time_for(bench_fn *fn, void *env, double seconds) {
    double best = 1e9, t = 0, end;
    long   reps = 1;
    int    left = 3;
    for (fn(env, 1); t < 1e-3; reps *= 2) {
        double start = bench_now();
        fn(env, reps);
        t = bench_now() - start;
        if (t >= 1e-3) break;
    }
    end = bench_now() + seconds;
    do {
        double start = bench_now();
        fn(env, reps);
        t = (bench_now() - start) / (double)reps;
        if (t < best) best = t;
    } while (--left > 0 || bench_now() < end);
    return best;
}

static inline double bench_time(bench_fn *fn, void *env) {
    return bench_time_for(fn, env, 0.2);
}

static inline void bench_print(const char *name, double value, const char *unit) {
    printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", name, value,
           unit);
    fflush(stdout);
}

/* The same of one of several that are compared under one name. */
static inline void bench_print_who(const char *name, const char *who, double value,
                                   const char *unit) {
    printf("{\"name\": \"%s\", \"who\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n",
           name, who, value, unit);
    fflush(stdout);
}

/* And a point of a curve. */
static inline void bench_print_at(const char *name, const char *who, long size,
                                  double value, const char *unit) {
    printf("{\"name\": \"%s\", \"who\": \"%s\", \"size\": %ld, \"value\": %.6g, "
           "\"unit\": \"%s\"}\n",
           name, who, size, value, unit);
    fflush(stdout);
}

#endif
