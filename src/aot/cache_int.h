/* aot/cache_int.h -- shared by the files that write specializations to disk and read
 * them. */
#ifndef TD_KEEP_INT_H
#define TD_KEEP_INT_H

#include "aot/aot.h"
#include "graph/graph_image.h"

/* ---- cache_joint.c, cache_joint_read.c: joint graphs and halves as bytes - */

/* Append to the image; false: out of memory, or m->why says what cannot be written. */
bool       td__put_joint(td_image *m, const td_joint *j);
bool       td__put_halves(td_image *m, const td_halves *h);
/* Read from r. in: this call's arguments by input of the program; NONE: not known.
 * Every index is checked to be in range, and inputs to have the types of `in`. NULL:
 * the reader is bad. */
td_joint  *td__get_joint(td_reader *r, td_ctx *cx, const td_graph *program,
                         const td_value *in);
td_halves *td__get_halves(td_reader *r, const td_joint *j, const td_graph *program);

/* ---- cache_guards.c ----------------------------------------------------- */

/* Source lines are written as nodes of the program: the process that reads has
 * captured its own program, with its own files and lines. */
void td__put_guards(td_buf *b, const struct td_guard_prog *p, const td_graph *program);
/* Guards for calls with arguments like these. NULL: the reader is bad. */
struct td_guard_prog *td__get_guards(td_reader *r, td_values args,
                                     const td_graph *program);

#endif
