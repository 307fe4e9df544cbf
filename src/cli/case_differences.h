/* cli/case_differences.h -- compares gradients with finite differences: a case runs
 * eagerly with its leaves moved a little along random directions, and the change of the
 * roots of its backwards is compared with the gradients. */
#ifndef TD_CASE_DIFFERENCES_H
#define TD_CASE_DIFFERENCES_H

#include "cli/case_check.h"

/* case_f64.c: replaces f32 by f64 in all functions and cases of the file: types,
 * literals, dtype arguments. Read the file with f64 as default dtype, for literals
 * without one. False after td__fail. */
bool case_to_f64(const td_gfile *f);

/* case_stops.c: the first op of an eager run at which gradients end by intention. */
typedef struct case_stops {
    td_ctx      *cx;
    td_mode_hook watch;
    char         at[160]; /* "detach (line 3)"; "": nowhere so far */
} case_stops;
/* Between these, op calls are watched. False after td__fail. */
bool case_stops_begin(case_stops *k, td_ctx *cx);
void case_stops_end(case_stops *k);
/* Notes a reason of another kind; line 0: none. Only the first counts. */
void case_stops_note(case_stops *k, const char *what, int line);

/* Checks every backward of a case in f64, with f64 as the default dtype during the
 * runs. CASE_EQUAL: each gradient agrees. CASE_DIFFERS: `why` names leaf and line.
 * CASE_SKIPPED: `why` has the reason why differences decide nothing. Restores the
 * context. */
case_result case_differences(const td_gfile *f, const td_gcase *c, case_verdict *v);

#endif
