/* cli/case_check.h -- does a case behave the same eagerly and in another way? Both
 * runs build their inputs anew and proceed step by step; after each step everything
 * observable is compared. Then each output of the last call is written in place, in
 * runs of its own, and everything is compared again: that reveals shared storage. */
#ifndef TD_CASE_CHECK_H
#define TD_CASE_CHECK_H

#include "cli/case_run.h"

typedef enum case_result {
    CASE_EQUAL,
    CASE_DIFFERS,
    CASE_REFUSED,   /* the way does not support it, and fails with a reason */
    CASE_BOTH_FAIL, /* at the same step, with the same code */
    CASE_GOES_ON,   /* only eager's backward fails, correctly: only_eager_fails */
    CASE_SKIPPED    /* finite differences decide nothing (case_differences.h) */
} case_result;

/* The outcome of a check. */
typedef struct case_verdict {
    case_result result;
    int         differences; /* number found; `why` describes the first few */
    bool        vain; /* a gradient has history in one run only, without effect */
    double      off;  /* largest difference of elements, relative to the larger or 1 */
    td_buf      why;  /* one line; free it */
} case_verdict;

/* Restores the context: error, modes, generator and scopes. Out of memory is a
 * failure like any other. */
case_result case_check(const td_gfile *f, const td_gcase *c, const case_way *way,
                       case_verdict *v);

/* What ops with effects have done, as far as it is compared: each run of a case has a
 * record of its own, which the kernels of such ops change. */
typedef struct case_effects {
    uint64_t calls; /* how many */
    uint64_t hash;  /* of what they noted, in order */
} case_effects;

/* Of the program, in the run that is under way; NULL: no op has effects. */
extern case_effects *case_effects_now;

/* ---- case_compare.c, for case_check.c ----------------------------------- */

/* Two runs of a case at the same step. */
typedef struct case_pair {
    case_run     *eager, *other;
    bool          gradient; /* the current value is a gradient */
    int           line;     /* of the step */
    const char   *written; /* name of the output written after the last step; or NULL */
    case_verdict *v;
} case_pair;

/* Compares every value of the case and the consts of its functions. */
void case_compare(case_pair *p);
/* Has a leaf of eager taken over a tangent of backward s as its .grad, and the other
 * leaf a copy, because the tangent has another layout than traced? What follows depends
 * on it (docs/beyond.md). */
bool case_took_tangent(const case_pair *p, const td_gstep *s);
/* Moves to the next element of two tensors of the same sizes, in row-major order; at[]
 * is the index, *a and *b are offsets. */
void case_advance(const td_tensor *x, const td_tensor *y, int64_t *at, int64_t *a,
                  int64_t *b);
/* Records a difference. */
void case_differ(const case_pair *p, const char *fmt, ...) TD_PRINTF(2, 3);
const char *case_value_name(const td_gcase *c, int id); /* without %; "?": no name */

#endif
