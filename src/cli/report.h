/* cli/report.h -- the page `tandem demo` writes: one HTML file that needs nothing else.
 * report.c puts it together, report_graph.c draws joint graphs, report_charts.c curves,
 * report_kernels.c lists what native code is made of, report_page.c has style and
 * script. All of them append HTML to a buffer. */
#ifndef TD_REPORT_H
#define TD_REPORT_H

#include "aot/aot.h"
#include "cli/demo.h"

typedef struct report {
    td_ctx           *cx;
    const demo_check *checks; /* [DEMO_CHECKS] */
    demo_gpt         *gpt;    /* trained and measured */
    const float      *loss;   /* [gpt->size.steps] */
    const td_buf     *wrote;
} report;

/* Writes the page; false after a failure, which td_message tells. */
bool report_write(const report *r, const char *path);

/* ---- between the files -------------------------------------------------- */

extern const char *const report_style[], *const report_script[]; /* NULL ends them */

void report_text(td_buf *b, const char *s); /* escaped */
void report_textn(td_buf *b, const char *s, size_t n);
void report_open(td_buf *b, const char *id, const char *title, const char *about);
void report_close(td_buf *b);
/* A text that is folded away. */
void report_folded(td_buf *b, const char *title, const char *text);

/* What was compiled of the function's last specialization; NULL: nothing. */
const td_plan *report_plan(const td_fn *f);

void report_loss(td_buf *b, const float *loss, int n);
/* Bytes alive, node by node: with what was chosen, and with all kept. */
bool report_memory(td_buf *b, const td_halves *chosen, const td_halves *all);

/* A joint graph: forward down the left, backward up the right. */
bool report_joint(td_buf *b, const td_plan *p);
void report_choices(td_buf *b, const td_halves *h);

/* Kernels and calls of the compiled step by time, which is measured here. */
bool report_kernels(td_buf *b, const report *r);

#endif
