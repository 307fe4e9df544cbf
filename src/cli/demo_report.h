/* cli/demo_report.h -- the page `tandem demo` writes, made of the pieces of report/. */
#ifndef TD_DEMO_REPORT_H
#define TD_DEMO_REPORT_H

#include "cli/demo.h"
#include "report/report.h"

typedef struct report {
    td_ctx           *cx;
    const demo_check *checks; /* [DEMO_CHECKS] */
    demo_gpt         *gpt;    /* trained and measured */
    const float      *loss;   /* [gpt->size.steps] */
    const td_buf     *wrote;
} report;

/* Writes the page; false after a failure, which td_message tells. */
bool report_write(const report *r, const char *path);

/* The plan of the function's last specialization; NULL: it has none. */
const td_plan *report_plan(const td_fn *f);

#endif
