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

/* ---- spec_image.c: specializations as bytes ------------------------------ */

/* Appends what identifies this build of the library: only it reads what it wrote.
 * False: out of memory. */
bool td__image_library(td_buf *b);
/* Append a specialization: its flags and key (the head), which are known last, then
 * the program, guards, s->j and s->h (NULL: none), which the plan modifies.
 * program: the reader has none of its own. False: out of memory, or *why says what
 * cannot be written. */
bool td__put_spec_head(td_buf *b, const td_spec *s);
bool td__put_spec(td_buf *b, const td_fn *f, const td_spec *s, bool program,
                  const char **why);
/* Reads flags, key and program into s. False: the bytes are unusable; call
 * td__spec_discard. */
bool td__get_spec_program(td_reader *r, td_fn *f, td_spec *s);
/* Reads the rest, for a call with s->cache.args. */
bool td__get_spec_graphs(td_reader *r, td_fn *f, td_spec *s);
/* Does the setting influence graphs? */
bool td__knob_in_graphs(int knob);
/* Does its key fit this call, and do its guards pass? */
bool td__spec_fits_call(td_fn *f, td_spec *s);
/* Frees everything that td__get_spec set, and clears the error. captured: s had a
 * program before. */
void td__spec_discard(td_fn *f, td_spec *s, bool captured);

/* ---- cache_guards.c ----------------------------------------------------- */

/* Source lines are written as nodes of the program: the process that reads has
 * captured its own program, with its own files and lines. */
void td__put_guards(td_buf *b, const struct td_guard_prog *p, const td_graph *program);
/* Guards for calls with arguments like these. NULL: the reader is bad. */
struct td_guard_prog *td__get_guards(td_reader *r, td_values args,
                                     const td_graph *program);

#endif
