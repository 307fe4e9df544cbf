/* cli/case_run.h -- runs the cases of a .td file and says what came of them. */
#ifndef TD_CASE_RUN_H
#define TD_CASE_RUN_H

#include "graph/graph.h"

/* How a function is executed: eagerly by td__graph_replay, or otherwise. */
typedef bool case_call_fn(const td_graph *fn, const td_value *in, td_value *out);

typedef struct case_run {
    const td_gfile *file;
    const td_gcase *c;
    case_call_fn   *call;
    td_replay       r;              /* the case's values */
    const td_gstep *last;           /* the last call, whose outputs go backward */
    TD_VEC(const td_gval *) leaves; /* values that require grad, in order */
    TD_VEC(td_storage *) storages;  /* met so far: their numbers in reports */
    td_buf *out;                    /* the report */
    bool    json;
    bool    open; /* JSON: a step is begun and not closed */
} case_run;

/* Runs the case inside a scope of its own, reporting as it goes. False: it failed
 * and the context says why; td_here is the place. */
bool case_run_all(case_run *run);

/* case_report.c: parts of a report, in this order. */
void case_report_begin(case_run *run);
void case_report_end(case_run *run, bool ok);
void case_report_call(case_run *run, const td_gstep *s);
void case_report_inputs(case_run *run, const td_gstep *s, const char *key);
void case_report_outputs(case_run *run, const td_gstep *s);
void case_report_backward(case_run *run, const td_gstep *s, const td_tensors *roots,
                          const td_tensors *grads);

#endif
