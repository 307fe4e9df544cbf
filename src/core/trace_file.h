/* core/trace_file.h -- trace-event files (Chrome's JSON form, read by Perfetto). */
#ifndef TD_TRACE_FILE_H
#define TD_TRACE_FILE_H

#include "core/core.h"

/* The file at path; all contexts of the process that write there share it. NULL after a
 * warning, which is printed once for each reason. */
td_trace_file *td__trace_open(td_ctx *cx, const char *path);
void           td__trace_close(td_trace_file *f);
/* One event. False, after a warning, when the file cannot be written any more. */
bool           td__trace_begin(td_ctx *cx, td_trace_file *f, const td_open_span *s);
bool td__trace_end(td_ctx *cx, td_trace_file *f, const td_open_span *s, int64_t now);

#endif
