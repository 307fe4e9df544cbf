/* report/report.h -- a page about a compiled function: one HTML file that needs nothing
 * else. report.c is td_report and the frame of a page, joint_graph.c draws joint
 * graphs, charts.c curves, kernels.c lists native code, page.c has style and script.
 * All of them append HTML to a buffer. `tandem demo` writes its page with the same
 * pieces. */
#ifndef TD_REPORT_H
#define TD_REPORT_H

#include "aot/aot.h"

/* ---- pieces of HTML (report.c) ------------------------------------------ */

void td__report_text(td_buf *b, const char *s); /* escaped */
void td__report_textn(td_buf *b, const char *s, size_t n);
void td__report_card(td_buf *b, const char *figure, const char *what);
void td__report_open(td_buf *b, const char *id, const char *title, const char *about);
void td__report_close(td_buf *b);
/* A text that is folded away. */
void td__report_folded(td_buf *b, const char *title, const char *text);
void td__report_graph_text(td_buf *b, const char *title, const td_graph *g);
/* The text of td_explain, folded away. */
void td__report_explained(td_buf *b, const td_fn *f);

/* A page: its head with style, version and machine; `about` and `nav` are HTML. */
void td__report_begin(td_buf *b, const char *title, const char *about, const char *nav);
void td__report_end(td_buf *b, const char *by);
/* Writes the page whole or not at all; false after td__fail, naming `who`. */
bool td__report_save(td_ctx *cx, const char *who, const td_buf *b, const char *path);

extern const char *const td__report_style[]; /* NULL ends it */
extern const char *const td__report_script[];

/* ---- pictures and tables ------------------------------------------------ */

void td__report_loss(td_buf *b, const float *loss, int n);
/* Bytes alive, node by node; `all`: the same with all saved, NULL to leave it out. */
bool td__report_memory(td_buf *b, const td_halves *chosen, const td_halves *all);
/* A joint graph: forward down the left, backward up the right. */
bool td__report_joint(td_buf *b, const td_plan *p);
void td__report_choices(td_buf *b, const td_halves *h);
/* Kernels and calls of native code, with times where spans were collected. */
bool td__report_kernels(td_buf *b, td_ctx *cx, const td_runner *code);

#endif
