/* trace_int.h -- between record.c, values.c and hidden.c. Private to the room. */
#ifndef TD_TRACE_INT_H
#define TD_TRACE_INT_H

#include "trace/sym.h"
#include "trace/trace.h"

#include <string.h>

/* ---- record.c ----------------------------------------------------------- */

/* TD_E_TRACE "who: what (file:line)"; false. */
bool td__record_fail(td_record *r, const char *who, const char *what);

/* ---- sym_fix.c ---------------------------------------------------------- */

/* td__sym_fix_all, and every copy there is has numbers for sizes. */
bool td__record_fix(td_record *r);
/* The same for a call that failed, of arguments in[], which is ready to be made once
 * more. */
bool td__record_fix_call(td_record *r, td_opcall *c, td_value *in);

/* ---- retrace.c ---------------------------------------------------------- */

/* What is replayed, and which ops by simpler ones; NULL: none. */
typedef struct td_retrace {
    const td_graph *g;
    const char     *simpler;
} td_retrace;
/* The graph captured again for these inputs; numbers become part of it. */
td_graph *td__retrace(td_retrace *a, const td_value *in);

/* ---- values.c ----------------------------------------------------------- */

td_tag    *td__record_tag(const td_record *r, const td_tensor *t); /* NULL: none */
/* What t, a tensor of the outside for r, stands for where sizes are symbols. */
td_tensor *td__record_real(const td_record *r, td_tensor *t);
/* A tag that waits for its value. NULL after td__fail. */
td_tag    *td__record_new_tag(td_record *r, td_tensor *t);
td_garg    td__record_int(td_record *r, int64_t i);     /* a number, or symbolic */
bool       td__record_place(td_record *r, td_gnode *n); /* source and scope */
/* An argument of a call; a real tensor in v becomes its copy. */
bool       td__record_arg(td_record *r, td_value *v, td_garg *a, const char *who);
/* Tags the results of a call of which n is the node. */
bool       td__record_results(td_record *r, const td_opcall *c, const td_value *in,
                              td_gnode *n, int32_t hidden);

/* ---- own_grad.c --------------------------------------------------------- */

/* t, a copy, as the gradient that an input came with: an input too. NULL: it is none,
 * or after td__fail. */
td_tag    *td__own_grad_input(td_record *r, const td_tensor *t);
/* Behind the body: what became of the gradients inputs came with. */
bool       td__own_grads_end(td_record *r);
td_tensor *td__record_stand_in(td_mode *m, td_tensor *t); /* of the recorder */
/* The copy of a real tensor in this capture; NULL: the body has not used it. */
td_tensor *td__record_seen_as(const td_mode *m, const td_tensor *t);

/* ---- history.c ---------------------------------------------------------- */

/* Behind the body: false when a td_grad in it would have gone on through what was
 * computed outside. */
bool td__history_check(td_record *r);

/* ---- hidden.c ----------------------------------------------------------- */

void    td__hidden_init(td_record *r);
void    td__hidden_begin(td_record *r, td_opcall *c); /* around the call below */
bool    td__hidden_end(td_record *r, td_gnode *top);
/* A hidden value is asked for; false: the call that made it failed. */
bool    td__hidden_show(td_record *r, const td_tag *tag);
/* Result i of the call is what a part of it made: from now on it is n's. */
td_tag *td__hidden_reveal(td_record *r, td_tag *tag, td_gnode *n, int i);
/* Puts wanted parts in the place of their wholes. */
bool    td__hidden_splice(td_record *r);

#endif
