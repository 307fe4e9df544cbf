/* report_kernels.c -- what the compiled step is made of, by time: kernels with their
 * loops and their C, and ops that are called as they are. */
#include "cli/cli.h"
#include "cli/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All parts of one label: they share a span. */
typedef struct row {
    td_native_part part; /* the first */
    int            first, count;
    int64_t        ns; /* a step */
} row;

typedef TD_VEC(row) rows;

static bool add_part(rows *to, const td_runner *r, int i) {
    td_native_part p = td__native_part(r, i);
    for (int k = 0; k < to->n; k++)
        if (!strcmp(to->v[k].part.label, p.label)) return to->v[k].count++, true;
    row x = {.part = p, .first = i, .count = 1};
    return td__vec_push(to, x);
}

static int by_time(const void *a, const void *b) {
    const row *x = a, *y = b;
    return x->ns == y->ns ? x->first - y->first : x->ns < y->ns ? 1 : -1;
}

/* Runs some steps and looks at the spans. Nanoseconds of a step, -1 after a failure. */
static double measure(const report *r, rows *to) {
    const int n = 10;
    double    begun = cli_now();
    bool      ok = true;
    td__span_reset(r->cx);
    td__span_collect(r->cx, true);
    for (int i = 0; i < n && ok; i++) ok = !isnan(demo_gpt_idle(r->gpt, true));
    double ns = (cli_now() - begun) / n * 1e9;
    for (int i = 0; i < to->n; i++)
        to->v[i].ns = td__span_total(r->cx, to->v[i].part.label).self_ns / n;
    td__span_collect(r->cx, false);
    if (to->n) qsort(to->v, (size_t)to->n, sizeof *to->v, by_time);
    return ok ? ns : -1;
}

/* ---- a row -------------------------------------------------------------- */

static bool told_before(const td_runner *r, const row *x, int i) {
    const char *code = td__native_part(r, i).code;
    for (int k = x->first; k < i; k++) {
        td_native_part p = td__native_part(r, k);
        if (!strcmp(p.label, x->part.label) && p.code && !strcmp(p.code, code))
            return true;
    }
    return false;
}

static bool kernel_text(td_buf *b, const td_runner *r, int i) {
    td_buf nest = {0};
    bool   ok = td__native_nest(&nest, r, i);
    td__buf_add(b, "<details><summary class=\"dim\">the loops it came from</summary>"
                   "<pre>");
    report_text(b, td__buf_str(&nest));
    td__buf_add(b, "</pre></details>\n<pre class=\"c-code\">");
    report_text(b, td__native_part(r, i).code);
    td__buf_add(b, "</pre>\n");
    td__buf_free(&nest);
    return ok;
}

/* Kernels of one label that differ, in sizes most often, are shown in turn. */
static bool texts(td_buf *b, const td_runner *r, const row *x) {
    bool ok = true;
    if (!x->part.code)
        td__buf_add(b,
                    "<p class=\"dim\">Called as it is: the library's own kernel, the "
                    "same as in eager mode.</p>\n");
    for (int i = x->first; x->part.code && ok && i < td__native_parts(r); i++)
        if (!strcmp(td__native_part(r, i).label, x->part.label) &&
            !told_before(r, x, i))
            ok = kernel_text(b, r, i);
    return ok;
}

/* Bars are against the longest, `most` ns. */
static bool add_row(td_buf *b, const td_runner *r, const row *x, double step,
                    int64_t most) {
    double share = (double)x->ns / step;
    td__buf_printf(b,
                   "<details class=\"kernel%s\"><summary><span class=\"bar\"><i "
                   "style=\"width:%.1f%%\"></i></span><code>",
                   x->part.code ? "" : " call",
                   most > 0 ? 100 * (double)x->ns / (double)most : 0);
    report_text(b, x->part.label);
    td__buf_printf(b,
                   "</code><span class=\"n dim opt\">\u00d7%d</span><span class=\"n "
                   "opt\">%.3f ms</span><span class=\"n\">%.1f %%</span></summary>\n",
                   x->count, (double)x->ns * 1e-6, 100 * share);
    bool ok = texts(b, r, x);
    td__buf_add(b, "</details>\n");
    return ok;
}

/* ---- all ---------------------------------------------------------------- */

static void summary(td_buf *b, const rows *all, double step) {
    int     kernels = 0, calls = 0;
    int64_t in_kernels = 0, in_calls = 0;
    for (int i = 0; i < all->n; i++) {
        const row *x = &all->v[i];
        *(x->part.code ? &kernels : &calls) += x->count;
        *(x->part.code ? &in_kernels : &in_calls) += x->ns;
    }
    td__buf_printf(
        b,
        "<p>A step takes %.2f ms: <span class=\"fwd\">%d kernels %.0f "
        "%%</span>, <span class=\"bwd\">%d calls %.0f %%</span>, the rest is "
        "around them. <button id=\"all\">unfold all</button></p>\n",
        step * 1e-6, kernels, 100 * (double)in_kernels / step, calls,
        100 * (double)in_calls / step);
}

bool report_kernels(td_buf *b, const report *r) {
    const td_plan *p = report_plan(r->gpt->step);
    rows           all = {0};
    bool           ok = true;
    for (int i = 0; p && ok && i < td__native_parts(&p->fwd); i++)
        ok = add_part(&all, &p->fwd, i) || td__fail_memory(r->cx);
    if (!all.n) {
        td__buf_add(b,
                    "<p>There is no native code here: graphs were interpreted.</p>\n");
        return ok;
    }
    double step = ok ? measure(r, &all) : -1;
    if (step > 0) summary(b, &all, step);
    for (int i = 0; step > 0 && ok && i < all.n; i++)
        ok = add_row(b, &p->fwd, &all.v[i], step, all.v[0].ns);
    td__vec_free(&all);
    return ok && step > 0;
}
