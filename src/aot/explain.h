/* aot/explain.h -- what a compiled call does to which tensor, read off its epilogue.
 * A tensor is a value of td_joint.epilogue: an input, a result of `_made` (a new
 * tensor) or the result of a view op. */
#ifndef TD_EXPLAIN_H
#define TD_EXPLAIN_H

#include "aot/aot.h"

/* ---- tensors of an epilogue (explain_epilogue.c) ------------------------ */

typedef enum td_named_as {
    TD_NAMED_INPUT,
    TD_NAMED_RESULT,
    TD_NAMED_BASE, /* a new tensor that is no result; numbered in program order */
    TD_NAMED_VIEW  /* a view that is no result */
} td_named_as;

/* What the caller knows a tensor as. A result that is an input counts as the input. */
typedef struct td_named {
    td_named_as as;
    int         index; /* -1 for TD_NAMED_VIEW */
} td_named;

td_named       td__epi_name(const td_joint *j, const td_gval *v);
/* "input 0", "result 1", "base 0", "a view of input 0". */
void           td__epi_name_print(td_buf *b, const td_joint *j, const td_gval *v);
int            td__epi_n_bases(const td_joint *j);
const td_gval *td__epi_base(const td_joint *j, int nr);
/* The index of the forward output that a new tensor consists of; -1: v is no new
 * tensor. */
int            td__epi_made_of(const td_joint *j, const td_gval *v);
/* Follows view ops up from v to an input, a result or a base. NULL: v is no view. */
const td_gval *td__epi_origin(const td_joint *j, const td_gval *v);
const td_gval *td__epi_viewed(const td_gval *v); /* NULL: v is no view */
/* Called with a line of text; NULL: out of memory. */
typedef void   td_line_fn(void *env, const char *line); /* NULL: no memory */
/* Calls fn with each view op from `of` to v, in order, as "select(0, 1)". */
void           td__epi_views(const td_joint *j, const td_gval *v, const td_gval *of,
                             td_line_fn *fn, void *env);
void           td__epi_views_print(td_buf *b, const td_joint *j, const td_gval *v,
                                   const td_gval *of);
/* For td__epi_join, a td_line_fn that appends lines with commas between them. */
typedef struct td_lines {
    td_buf *b;
    bool    any;
} td_lines;
void            td__epi_join(void *lines, const char *line);
/* Is one of the view ops between v and its origin detach, so that they do not share
 * history? */
bool            td__epi_is_detached(const td_joint *j, const td_gval *v);
/* Is result i a tensor that is neither an input nor an earlier result? */
bool            td__epi_is_new(const td_joint *j, int i);
/* Appends v's type when the call returns. */
void            td__epi_type(td_buf *b, const td_joint *j, const td_gval *v);
/* By how much the call advances the version of the storage that input i has at its
 * start. */
int64_t         td__epi_versions(const td_joint *j, int i);
/* The node that makes a tensor from forward output k, or writes it to one; NULL:
 * none. */
const td_gnode *td__epi_user(const td_joint *j, int k);
/* The tensor that becomes a leaf in the call and gets the gradients of target i;
 * NULL: none. */
const td_gval  *td__epi_leaf(const td_joint *j, int i);
/* Does the forward code itself write input i? */
bool            td__epi_code_writes(const td_joint *j, int i);
/* Is the node inside a no_grad or inference region? Outside of all regions the
 * caller's modes apply. */
bool            td__epi_is_no_grad(const td_joint *j, const td_gnode *n);
bool            td__epi_is_inference(const td_joint *j, const td_gnode *n);
/* The epilogue line by line, without types. */
void            td__epi_lines(const td_joint *j, td_line_fn *fn, void *env);

/* ---- regions (explain_regions.c) ----------------------------------------- */

/* Appends the graphs that g calls, and how often: nothing if there are none. */
void td__explain_regions(td_buf *b, const td_graph *g);

/* ---- effects on one tensor (explain_effects.c) --------------------------- */

typedef enum td_effect_kind {
    TD_EFFECT_WRITE,    /* elements of it, or of a view of it, are written */
    TD_EFFECT_GEOMETRY, /* metadata write: sizes, strides or offset change */
    TD_EFFECT_MOVE,     /* set_ gives it another storage */
    TD_EFFECT_DETACH,   /* detach_ */
    TD_EFFECT_GRAD_ON,  /* requires_grad_(true) */
    TD_EFFECT_GRAD_OFF, /* requires_grad_(false) */
    TD_EFFECT_REFRESH,  /* a stale view recomputes its grad_fn from its base */
    TD_EFFECT_GIVE,     /* a custom function becomes its grad_fn */
    TD_EFFECT_COUNT     /* none: read, or only its version advances */
} td_effect_kind;

typedef struct td_effect {
    td_effect_kind  kind;
    const td_gnode *n;
    bool            history; /* WRITE, GIVE: it is differentiated */
    bool            no_grad; /* it happens under no_grad */
} td_effect;

/* Called for each effect on v, in program order. */
typedef void td_effect_fn(void *env, const td_effect *e);
void td__epi_effects(const td_joint *j, const td_gval *v, td_effect_fn *fn, void *env);
/* The same, each effect as a line of text. */
void td__epi_effect_lines(const td_joint *j, const td_gval *v, td_line_fn *fn,
                          void *env);

/* All effects on a tensor, combined. */
typedef struct td_effect_sum {
    bool           any, written, history, geometry, detached;
    bool           requires_grad; /* the last requires_grad_ set it */
    const td_gval *moved_to;      /* argument of the last set_; NULL: same storage */
} td_effect_sum;
td_effect_sum td__epi_sum(const td_joint *j, const td_gval *v);

/* ---- as text (explain_parts.c) ------------------------------------------- */

/* Append one line each, without a newline. */
void td__explain_input(td_buf *b, const td_joint *j, int i); /* "" if only read */
void td__explain_result(td_buf *b, const td_joint *j, int i);
void td__explain_base(td_buf *b, const td_joint *j, int i);
/* "result 0", "input 1, written through select(0, 1)". */
void td__explain_tangent(td_buf *b, const td_joint *j, int i);
void td__explain_target(td_buf *b, const td_joint *j, int i);

#endif
