/* core/place.h -- source lines with the calls around them, as nodes of graphs and of
 * histories have them. C has no frames to walk without debug information; a call is
 * known where the library calls the user's code back (a body, a region, a module's
 * forward, a checkpoint), and where the user begins a scope. */
#ifndef TD_PLACE_H
#define TD_PLACE_H

#include "core/core.h"

/* A call, and the calls around it. Equal ones are one object, which belongs to the
 * process. */
typedef struct td_place {
    td_where               here;
    const struct td_place *up; /* NULL: the outermost */
} td_place;

enum { TD_STACK_MOST = 16 }; /* calls of a stack; those further out are left out */

/* The calls of a node that has none. */
extern const td_place td__no_stack;

/* `here` inside of `up`; `up` if memory or the bound on places is exhausted. */
const td_place *td__place_in(td_where here, const td_place *up);
/* The calls around the current op, innermost first, without the op's own line. Returns
 * their number, at most `most`. Allocates nothing. */
int             td__stack_list(const td_ctx *cx, td_where *to, int most);
/* The same as a place; NULL: none. */
const td_place *td__stack_now(const td_ctx *cx);
/* `stack` without its innermost calls whose line is `here`. */
const td_place *td__stack_beyond(const td_place *stack, td_where here);
bool            td__same_where(td_where a, td_where b);
/* " < model.c:12 < train.c:80" */
void            td__stack_text(const td_place *stack, td_buf *b);

#endif
