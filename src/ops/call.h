/* call.h -- between call.c and exec.c, and for modes that run a call themselves. */
#ifndef TD_CALL_H
#define TD_CALL_H

#include "ops/ops.h"

/* Runs one non-composite op below all modes: shape rule, results, kernel. */
bool td__exec(td_opcall *c);
/* May t be written in the mode that holds, if it is an inference tensor? False after
 * td__fail. Asked by the tape, and by who records a program without one. */
bool td__may_write_inference(td_opcall *c, const td_tensor *t);
/* Are there no bytes to compute with, or none wanted? */
bool td__call_is_fake(const td_opcall *c);

/* The op the user called: c's, or the composite it is a part of (cx->composite). While
 * the parts of a composite run, errors name it, and the part in brackets. */
const char *td__op_name(const td_opcall *c);

/* ---- composite.c ------------------------------------------------------------ */

/* Calls the parts of a composite; they pass the modes from cx->top on. */
bool td__call_parts(td_opcall *c);
/* The same for any op whose row has_simpler, and for the modes from m on: results look
 * as the op's own do. */
bool td__call_simpler(td_mode *m, td_opcall *c);
/* In a captured body, real tensors among the arguments become the copies the recorder
 * below m has of them: those have the sizes, flags and versions the body has made. */
bool td__call_as_recorded(td_mode *m, td_opcall *c);

/* ---- assumed_copy.c ------------------------------------------------------------ */

/* `copy` was made of `from` for its layout: where a size is 0 or 1, none would be. */
void td__copy_by_layout(const td_tensor *from, const td_tensor *copy);
/* Behind the op the user called, if that was `ok`: is its result such a copy of its
 * argument? False after td__fail. */
bool td__copy_noted(td_opcall *c, bool ok);
/* Before a write: may what it writes be another's copy, or have one? */
bool td__copies_written(td_opcall *c);
/* Results of a body: the same of any two of them. */
bool td__copies_returned(td_ctx *cx, const td_value *out, int n);

#endif
