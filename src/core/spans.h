/* core/spans.h -- named time spans: when each stage of the compiler runs. They are
 * written to a trace file if one is open, and summed by name while a collection is on;
 * otherwise a span costs one branch. */
#ifndef TD_CORE_SPANS_H
#define TD_CORE_SPANS_H

#include "base/base.h"
#include "tandem/tensor.h"

#define TD_SPAN_ARGS 6

typedef struct td_trace_file td_trace_file;

/* All spans of one name. */
typedef struct td_span_total {
    const char *name;
    int64_t     count, ns;
    int64_t     self_ns; /* without the spans inside */
} td_span_total;

typedef struct td_open_span {
    const char *name;
    int64_t     start, inner; /* ns; inner: spent in spans inside */
    bool        written;      /* its begin event is in the file */
    int         n_args;
    const char *key[TD_SPAN_ARGS];
    int64_t     arg[TD_SPAN_ARGS];
} td_open_span;

/* A context's part. */
typedef struct td_spans {
    bool           on;         /* file, or collecting */
    int            collecting; /* number of open td__span_collect */
    td_trace_file *file;       /* NULL: none */
    TD_VEC(td_open_span) open;
    TD_VEC(td_span_total) totals;
} td_spans;

/* The inline functions of core.h call these when spans are on. */
void td__span_open(td_ctx *cx, const char *name);
void td__span_close(td_ctx *cx, const char *name);
void td__span_note(td_ctx *cx, const char *key, int64_t value);

/* Starts or stops summing; calls nest. */
void                 td__span_collect(td_ctx *cx, bool on);
void                 td__span_reset(td_ctx *cx); /* all totals to nothing */
td_span_total        td__span_total(const td_ctx *cx, const char *name);
/* All totals, in the order in which the first span of each name ended. */
const td_span_total *td__span_totals(const td_ctx *cx, int *n);

/* Writes to that file from now on; "": to none. Warns if it cannot. */
void td__spans_to(td_ctx *cx, const char *path);
void td__spans_free(td_ctx *cx);

#endif
