/* cli/demo_report.h -- the HTML report of `tandem demo`, made with src/report. */
#ifndef TD_DEMO_REPORT_H
#define TD_DEMO_REPORT_H

#include "cli/demo.h"
#include "report/report.h"

/* The contents of the report. */
typedef struct report {
    td_ctx           *cx;
    const demo_check *checks; /* [DEMO_CHECKS] */
    demo_gpt         *gpt;    /* trained and measured */
    const float      *loss;   /* [gpt->size.steps] */
    const td_buf     *wrote;
} report;

/* Writes the report; false after td__fail. */
bool report_write(const report *r, const char *path);

/* The plan of the function's last specialization; NULL: none. */
const td_plan *report_plan(const td_fn *f);

#endif
