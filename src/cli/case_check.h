/* cli/case_check.h -- is a case the same, run eagerly and in another way? Both runs
 * build their inputs from scratch and go on step by step; after each step everything
 * that can be seen is compared. Then each output of the last call is written in place,
 * in runs of its own, and everything compared again: that shows who shares bytes. */
#ifndef TD_CASE_CHECK_H
#define TD_CASE_CHECK_H

#include "cli/case_run.h"

typedef enum case_result {
    CASE_EQUAL,
    CASE_DIFFERS,
    CASE_REFUSED,   /* the way cannot do it, and says so before doing anything */
    CASE_BOTH_FAIL, /* at the same step, with the same code */
    CASE_GOES_ON    /* a backward of one only: see goes_on */
} case_result;

typedef struct case_verdict {
    case_result result;
    int         differences; /* found; `why` has the first few */
    bool        vain;        /* a gradient has history in one run, and to no effect */
    double      off; /* how far elements are apart, relative to the larger or 1 */
    td_buf      why; /* one line; free it */
} case_verdict;

/* Leaves the context as it was: error cleared, mode, generator and scopes. Running
 * out of memory is a failure like any other. */
case_result case_check(const td_gfile *f, const td_gcase *c, const case_way *way,
                       case_verdict *v);

/* ---- case_compare.c, for case_check.c ----------------------------------- */

/* Two runs of one case at the same step. */
typedef struct case_pair {
    case_run     *eager, *other;
    bool          gradient; /* the value compared is one */
    int           line;     /* of the step */
    const char   *written;  /* the output written since; NULL: none */
    case_verdict *v;
} case_pair;

/* Compares every value of the case and the consts it met. */
void        case_compare(case_pair *p);
/* One difference more. */
void        case_differ(const case_pair *p, const char *fmt, ...) TD_PRINTF(2, 3);
const char *case_value_name(const td_gcase *c, int id); /* without %; "?": no name */

#endif
