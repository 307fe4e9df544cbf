/* spans.c -- time spans of a context: which are open, totals by name, and the
 * trace file they are written to. Out of memory loses a span and nothing else. */
#include "core/trace_file.h"

#include <string.h>
#include <time.h>

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static bool same_name(const char *a, const char *b) { return a == b || !strcmp(a, b); }

/* ---- one span ----------------------------------------------------------- */

/* Stops writing to the trace file. */
static void file_lost(td_ctx *cx) {
    td__trace_close(cx->spans.file);
    cx->spans.file = NULL;
    cx->spans.on = cx->spans.collecting > 0;
}

void td__span_open(td_ctx *cx, const char *name) {
    td_spans    *s = &cx->spans;
    td_open_span span = {.name = name, .start = now_ns(), .written = s->file != NULL};
    if (!td__vec_push(&s->open, span)) return;
    if (s->file && !td__trace_begin(cx, s->file, &span)) file_lost(cx);
}

static void add_up(td_ctx *cx, const td_open_span *span, int64_t ns) {
    td_spans     *s = &cx->spans;
    td_span_total fresh = {.name = span->name};
    int           i = 0;
    while (i < s->totals.n && !same_name(s->totals.v[i].name, span->name)) i++;
    if (i == s->totals.n && !td__vec_push(&s->totals, fresh)) return;
    s->totals.v[i].count++;
    s->totals.v[i].ns += ns;
    s->totals.v[i].self_ns += ns - span->inner;
}

static void close_top(td_ctx *cx, int64_t now) {
    td_spans    *s = &cx->spans;
    td_open_span span = s->open.v[--s->open.n];
    if (s->open.n) s->open.v[s->open.n - 1].inner += now - span.start;
    if (s->collecting) add_up(cx, &span, now - span.start);
    if (s->file && span.written && !td__trace_end(cx, s->file, &span, now))
        file_lost(cx);
}

/* Also ends spans left open inside it. A span that is not open (it began before
 * tracing) ends nothing. */
void td__span_close(td_ctx *cx, const char *name) {
    td_spans *s = &cx->spans;
    int       at = s->open.n - 1;
    int64_t   now = now_ns();
    while (at >= 0 && !same_name(s->open.v[at].name, name)) at--;
    while (at >= 0 && s->open.n > at) close_top(cx, now);
}

void td__span_note(td_ctx *cx, const char *key, int64_t value) {
    td_spans *s = &cx->spans;
    if (!s->open.n) return;
    td_open_span *span = &s->open.v[s->open.n - 1];
    if (span->n_args == TD_SPAN_ARGS) return;
    span->key[span->n_args] = key;
    span->arg[span->n_args++] = value;
}

/* ---- totals ------------------------------------------------------------- */

void td__span_collect(td_ctx *cx, bool on) {
    td_spans *s = &cx->spans;
    s->collecting += on ? 1 : -1;
    TD_ASSERT(s->collecting >= 0);
    s->on = s->file || s->collecting;
}

void td__span_reset(td_ctx *cx) { cx->spans.totals.n = 0; }

td_span_total td__span_total(const td_ctx *cx, const char *name) {
    for (int i = 0; i < cx->spans.totals.n; i++)
        if (same_name(cx->spans.totals.v[i].name, name)) return cx->spans.totals.v[i];
    return (td_span_total){.name = name};
}

const td_span_total *td__span_totals(const td_ctx *cx, int *n) {
    *n = cx->spans.totals.n;
    return cx->spans.totals.v;
}

/* ---- the file ----------------------------------------------------------- */

/* Ends all open spans in the file and closes it. */
static void leave_file(td_ctx *cx) {
    td_spans *s = &cx->spans;
    int64_t   now = now_ns();
    for (int i = s->open.n - 1; s->file && i >= 0; i--) {
        if (s->open.v[i].written && !td__trace_end(cx, s->file, &s->open.v[i], now))
            file_lost(cx);
        s->open.v[i].written = false;
    }
    if (s->file) file_lost(cx);
}

void td__spans_to(td_ctx *cx, const char *path) {
    td_spans *s = &cx->spans;
    leave_file(cx);
    if (*path) s->file = td__trace_open(cx, path);
    s->on = s->file || s->collecting;
}

void td__spans_free(td_ctx *cx) {
    leave_file(cx);
    td__vec_free(&cx->spans.open);
    td__vec_free(&cx->spans.totals);
}

bool td_trace_start(td_ctx *cx, const char *path) {
    if (!TD_ENTER_CTX(cx)) return false;
    if (!td__may_change(cx, "td_trace_start", "the trace file")) return false;
    return td_config_set(cx, "trace_file", path ? path : "") && cx->spans.file;
}

void td_trace_stop(td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return;
    if (!td__may_change(cx, "td_trace_stop", "the trace file")) return;
    td_config_set(cx, "trace_file", "");
}
