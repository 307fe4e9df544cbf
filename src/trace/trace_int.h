/* trace_int.h -- what the files of the recorder share: record.c,
 * record_values.c, record_parts.c, input_grad.c, history_check.c, sym_specialize.c,
 * retrace.c. Private to this directory. */
#ifndef TD_TRACE_INT_H
#define TD_TRACE_INT_H

#include "trace/sym.h"
#include "trace/trace.h"

#include <string.h>

/* ---- record.c ----------------------------------------------------------- */

/* Records the error TD_E_TRACE "who: what" with the user's source line; returns
 * false. */
bool td__record_fail(td_record *r, const char *who, const char *what);

/* ---- sym_specialize.c ---------------------------------------------------------- */

/* Specializes every symbolic size to its hint (td__sym_fix_all) and updates the
 * sizes of all fake tensors. False: nothing was done, or td__fail. */
bool td__record_fix(td_record *r);
/* td__record_fix after a failed call, whose arguments in[] are specialized as
 * well; c is ready to be called again. */
bool td__record_fix_call(td_record *r, td_opcall *c, td_value *in);

/* ---- retrace.c ---------------------------------------------------------- */

/* A graph to replay, and the ops to decompose on the way ("mul,silu"); NULL:
 * none. body not NULL: runs in place of the replay. */
typedef struct td_retrace {
    const td_graph        *g;
    const char            *simpler;
    const td_decompose_by *by; /* the user's decompositions; NULL: none */
    td_body               *body;
    void                  *env;
} td_retrace;
/* Captures the graph by replaying it on these inputs; numbers become constants. */
td_graph *td__retrace(td_retrace *a, const td_value *in);

/* ---- region_capture.c --------------------------------------------------------- */

void      td__regions_free(td_record *r); /* frees the regions of the capture */
/* The graph of the capture that equals g, the body of a region, or g itself, named like
 * `name`. Takes over the reference to g and returns one. NULL after td__fail. */
td_graph *td__region_shared(td_record *r, td_graph *g, const char *name);

/* ---- record_values.c ----------------------------------------------------------- */

/* The tag this recorder put on t; NULL: none. */
td_tag    *td__record_tag(const td_record *r, const td_tensor *t);
/* With symbolic sizes, captures start from fake arguments: the real tensor behind t. */
td_tensor *td__record_real(const td_record *r, td_tensor *t);
/* Puts a tag without a value on t; the value follows when its call has run.
 * NULL after td__fail. */
td_tag    *td__record_new_tag(td_record *r, td_tensor *t);
td_garg    td__record_int(td_record *r, int64_t i);     /* a number, or symbolic */
bool       td__record_place(td_record *r, td_gnode *n); /* source and scope */
/* Turns an argument of a call into a graph argument; a real tensor in *v
 * becomes its fake copy. `who` names the op in errors. */
bool       td__record_arg(td_record *r, td_value *v, td_garg *a, const char *who);
/* Tags the results of call c, whose node is n and whose arguments were in[].
 * hidden: the expansion the node is a part of; -1: a node of the graph. */
bool       td__record_results(td_record *r, const td_opcall *c, const td_value *in,
                              td_gnode *n, int32_t hidden);
/* The body called _wrap. From then on the inner tensors belong to the result: the body
 * may neither write nor return them. Nor may it write or return a result that shares
 * them with an argument or with another tensor of a type. */
void td__record_wrapped(const td_record *r, const td_opcall *c, const td_value *in);

/* ---- nested_graphs.c ----------------------------------------------------------- */

/* Does t share storage with one of the tensors in v[0..n)? */
bool td__shares_storage(const td_tensor *t, const td_value *v, int n);

/* ---- input_grad.c --------------------------------------------------------- */

/* If t is the fake copy of an input's .grad, makes it an input <own_grad> and
 * returns its tag. NULL: it is not one, or td__fail. */
td_tag    *td__own_grad_input(td_record *r, const td_tensor *t);
/* After the body: adds an output <own_grad> for every input whose .grad
 * changed; fails for uses that a program cannot reproduce. */
bool       td__own_grads_end(td_record *r);
/* td_mode.stand_in of the recorder: the fake copy of a real tensor; nil on failure. */
td_tensor *td__record_stand_in(td_mode *m, td_tensor *t);
/* td_mode.cast of the recorder. */
td_tensor *td__record_cast(td_mode *m, td_tensor *t, td_dtype to);
/* td_mode.seen_as of the recorder: the copy of a real tensor whose sizes or
 * flags the body queries, which makes it an input. NULL: the body has not used
 * it. */
td_tensor *td__record_seen_as(const td_mode *m, const td_tensor *t);

/* ---- history_check.c ---------------------------------------------------------- */

/* After the body: fails when a td_grad in it needs a path of the autograd graph
 * that lies outside of the capture. */
bool td__history_check(td_record *r);

/* ---- record_parts.c ----------------------------------------------------------- */

/* Sets up the modes `inside` and `mark`. */
void    td__parts_init(td_record *r);
/* Brackets the execution of a recorded call; `top` is its node, NULL if it failed. */
void    td__parts_begin(td_record *r, td_opcall *c);
bool    td__parts_end(td_record *r, td_gnode *top);
/* Requests the value of a part, so that the parts will replace the call. False:
 * the call that made it failed. */
bool    td__parts_request(td_record *r, const td_tag *tag);
/* Result i of composite n was made by one of its parts, which has `tag`: the
 * tag now denotes the composite's result. Returns tag; NULL after td__fail. */
td_tag *td__parts_adopt(td_record *r, td_tag *tag, td_gnode *n, int i);
/* At the end of the capture: replaces each call with a requested part by its
 * parts. */
bool    td__parts_splice(td_record *r);

#endif
