/* faults.h -- fails every allocation of a small program in turn, one failure and
 * failure from there on. Each time the program must either report out of memory or
 * have done without that block and come to the same result; nothing may leak, and
 * the same context must run the program right afterwards. */
#ifndef TD_FAULTS_H
#define TD_FAULTS_H

#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem/tandem.h>

#include "../test_part.h"

/* Computes something in the context and sums it up in a number. */
typedef double td_fault_program(td_ctx *cx);

typedef struct td_fault_case {
    const char       *name;
    td_fault_program *run;
    bool              io;   /* file calls fail in turn as well: TD_E_IO is right too */
    bool              slow; /* takes one failure in 23, unless TD_TEST_WHOLE is set */
    void (*before)(void);   /* brings files to where each run begins; or NULL */
} td_fault_case;

static inline double fault_run(const td_fault_case *p, td_ctx *cx) {
    td_seed(cx, 1);
    td_scope_begin(cx, "fault");
    double sum = p->run(cx);
    td_scope_end(cx, "fault", NULL);
    return sum;
}

static inline bool fault_says(const td_fault_case *p, int64_t n, const char *what) {
    printf("%s: allocation %lld: %s\n", p->name, (long long)n, what);
    return false;
}

/* Up to rounding: without a block another way may have been taken. */
static inline bool fault_same(double a, double b) {
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-5 * (1 + fabs(b));
}

/* The program after the failure, in the same context, without one. */
static inline bool fault_again(const td_fault_case *p, td_ctx *cx, int64_t n,
                               double want) {
    td_clear(cx);
    td_set_grad_enabled(cx, true);
    if (p->before) p->before();
    double sum = fault_run(p, cx);
    if (!td_ok(cx)) return fault_says(p, n, td_message(cx));
    return fault_same(sum, want) || fault_says(p, n, "another result afterwards");
}

/* Fails allocation n. *done: the program needs fewer. */
static inline bool fault_try(const td_fault_case *p, int64_t n, bool sticky,
                             double want, bool *done) {
    size_t  live = td_memory_live();
    td_ctx *cx = td_open();
    if (!cx) return fault_says(p, n, "no context");
    if (p->before) p->before();
    td__fault_arm(n, sticky);
    double sum = fault_run(p, cx);
    *done = td__fault_count() <= n;
    td__fault_arm(-1, false);
    bool ok = true;
    if (td_ok(cx))
        ok = fault_same(sum, want) || fault_says(p, n, "a wrong result and no error");
    else if (*done ||
             (td_error(cx) != TD_E_MEMORY && !(p->io && td_error(cx) == TD_E_IO)))
        ok = fault_says(p, n, td_message(cx));
    ok = fault_again(p, cx, n, want) && ok;
    td_close(cx);
    if (td_memory_live() == live) return ok;
    return fault_says(p, n, "bytes were leaked");
}

static inline bool fault_check(const td_fault_case *p) {
    bool    ok = true, done = false;
    int     step = p->slow && !getenv("TD_TEST_WHOLE") ? 23 : 1;
    td_ctx *cx = td_open();
    double  want = fault_run(p, cx);
    if (!td_ok(cx)) ok = fault_says(p, -1, td_message(cx));
    td_close(cx);
    for (int sticky = 0; sticky < 2; sticky++, done = false)
        for (int64_t n = sticky * step / 2; ok && !done && n < 100000; n += step)
            ok = fault_try(p, n, sticky, want, &done);
    return ok;
}

/* For main: all cases whose name contains the word, or a part of them (test_part.h). */
static inline int fault_main(const td_fault_case *cases, int n, int argc, char **argv) {
    int passed = 0, failed = 0, part, parts, nr = 0;
    if (!test_part(&part, &parts)) return 2;
    for (int i = 0; i < n; i++) {
        if (argc > 1 && !strstr(cases[i].name, argv[1])) continue;
        if (nr++ % parts != part - 1) continue;
        if (fault_check(&cases[i])) passed++;
        else failed++;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

#endif
