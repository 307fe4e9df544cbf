/* kernels.c -- the table of native code: kernels with their loops and C, and called
 * ops. Equal labels share a row. Rows are sorted by time if it was measured (spans),
 * else by bytes moved. */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

/* All parts with one label. */
typedef struct row {
    td_native_part part; /* the first of them */
    int            first, count;
    int64_t        ns;    /* time in one run of the code; 0: not measured */
    int64_t        bytes; /* read and written in one run of the code */
} row;

typedef TD_VEC(row) rows;

static int64_t bytes_of(const td_native_part *p) {
    return p->read < 0 || p->written < 0 ? 0 : p->read + p->written;
}

/* Adds part i to the row of its label. False: out of memory. */
static bool add_part(rows *to, const td_runner *r, int i) {
    td_native_part p = td__native_part(r, i);
    for (int k = 0; k < to->n; k++) {
        if (strcmp(to->v[k].part.label, p.label)) continue;
        to->v[k].count++;
        to->v[k].bytes += bytes_of(&p);
        return true;
    }
    row x = {.part = p, .first = i, .count = 1, .bytes = bytes_of(&p)};
    return td__vec_push(to, x);
}

static int by_cost(const void *a, const void *b) {
    const row *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->first - y->first;
}

/* A span with a row's label counts all runs of all its parts. */
static void add_times(rows *all, const td_ctx *cx) {
    for (int i = 0; i < all->n; i++) {
        row          *x = &all->v[i];
        td_span_total t = td__span_total(cx, x->part.label);
        if (t.count) x->ns = t.self_ns / t.count * x->count;
    }
    if (all->n) qsort(all->v, (size_t)all->n, sizeof *all->v, by_cost);
}

/* ---- a row -------------------------------------------------------------- */

/* Has an earlier part of the row the same code? */
static bool is_shown_before(const td_runner *r, const row *x, int i) {
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
    td__report_text(b, td__buf_str(&nest));
    td__buf_add(b, "</pre></details>\n<pre class=\"c-code\">");
    td__report_text(b, td__native_part(r, i).code);
    td__buf_add(b, "</pre>\n");
    td__buf_free(&nest);
    return ok;
}

/* The codes of all different kernels of a row; they mostly differ in sizes. */
static bool texts(td_buf *b, const td_runner *r, const row *x) {
    bool ok = true;
    if (!x->part.code)
        td__buf_add(b, "<p class=\"dim\">A call of the library's own kernel, the same "
                       "as in eager mode.</p>\n");
    for (int i = x->first; x->part.code && ok && i < td__native_parts(r); i++)
        if (!strcmp(td__native_part(r, i).label, x->part.label) &&
            !is_shown_before(r, x, i))
            ok = kernel_text(b, r, i);
    return ok;
}

/* One row with a bar relative to the first row; time and share if measured, else
 * bytes. */
static bool add_row(td_buf *b, const td_runner *r, const row *x, const row *most,
                    int64_t total) {
    bool   timed = most->ns > 0;
    double part = timed ? (double)x->ns / (double)most->ns
                        : (double)x->bytes / (double)(most->bytes ? most->bytes : 1);
    char   size[32];
    td__buf_printf(b,
                   "<details class=\"kernel%s\"><summary><span class=\"bar\"><i "
                   "style=\"width:%.1f%%\"></i></span><code>",
                   x->part.code ? "" : " call", 100 * part);
    td__report_text(b, x->part.label);
    td__buf_printf(b, "</code><span class=\"n dim opt\">\u00d7%d</span>", x->count);
    if (timed)
        td__buf_printf(
            b, "<span class=\"n opt\">%.3f ms</span><span class=\"n\">%.1f %%</span>",
            (double)x->ns * 1e-6, 100 * (double)x->ns / (double)total);
    else
        td__buf_printf(b, "<span class=\"n opt\"></span><span class=\"n\">%s</span>",
                       x->bytes ? td__size_text(size, x->bytes) : "");
    td__buf_add(b, "</summary>\n");
    bool ok = texts(b, r, x);
    td__buf_add(b, "</details>\n");
    return ok;
}

/* ---- all ---------------------------------------------------------------- */

/* The line above the table; returns the total time. */
static int64_t summary(td_buf *b, const rows *all) {
    int     kernels = 0, calls = 0;
    int64_t in_kernels = 0, in_calls = 0;
    for (int i = 0; i < all->n; i++) {
        const row *x = &all->v[i];
        *(x->part.code ? &kernels : &calls) += x->count;
        *(x->part.code ? &in_kernels : &in_calls) += x->ns;
    }
    int64_t total = in_kernels + in_calls;
    td__buf_printf(b,
                   "<p><span class=\"fwd\">%d kernel%s</span>, <span class=\"bwd\">%d "
                   "call%s</span>",
                   kernels, kernels == 1 ? "" : "s", calls, calls == 1 ? "" : "s");
    if (total)
        td__buf_printf(b, ": %.2f ms in kernels, %.2f ms in calls.",
                       (double)in_kernels * 1e-6, (double)in_calls * 1e-6);
    else
        td__buf_add(b, ", by the bytes they move. Calls between td_trace_start and "
                       "td_trace_stop are timed, and then the page shows times.");
    td__buf_add(b, " <button class=\"all\">unfold all</button></p>\n");
    return total;
}

/* Kernels by time; equal lists of ops share a row. */
bool td__report_kernels(td_buf *b, td_ctx *cx, const td_runner *code) {
    rows all = {0};
    bool ok = true;
    for (int i = 0; ok && i < td__native_parts(code); i++)
        ok = add_part(&all, code, i) || td__fail_memory(cx);
    if (!all.n)
        td__buf_add(b,
                    "<p>There is no native code here: the graph is interpreted.</p>\n");
    add_times(&all, cx);
    int64_t total = all.n ? summary(b, &all) : 0;
    td__buf_add(b, "<div class=\"kernels\">\n");
    for (int i = 0; ok && i < all.n; i++)
        ok = add_row(b, code, &all.v[i], &all.v[0], total);
    td__buf_add(b, "</div>\n");
    td__vec_free(&all);
    return ok;
}
