/* aot/cache_int.h -- between the files that keep specializations on disk. */
#ifndef TD_KEEP_INT_H
#define TD_KEEP_INT_H

#include "aot/aot.h"
#include "graph/image.h"

/* ---- cache_joint.c, cache_joint_read.c: joint graphs and halves as bytes - */

bool       td__put_joint(td_image *m, const td_joint *j);
bool       td__put_halves(td_image *m, const td_halves *h);
/* NULL: the reader is bad. Every number of what comes is within its bounds, and inputs
 * have the types of `in`, by input of the program; NONE says nothing. */
td_joint  *td__get_joint(td_reader *r, td_ctx *cx, const td_graph *program,
                         const td_value *in);
td_halves *td__get_halves(td_reader *r, const td_joint *j, const td_graph *program);

/* ---- keep_guards.c ------------------------------------------------------ */

/* Places are those of the program's nodes: whoever reads has a program of its own, with
 * other files and lines. */
void td__put_guards(td_buf *b, const struct td_guard_prog *p, const td_graph *program);
/* For calls on arguments like these. NULL: the reader is bad. */
struct td_guard_prog *td__get_guards(td_reader *r, td_values args,
                                     const td_graph *program);

#endif
