/* aot/explain.h -- reads off the epilogue of a compiled call what it does to which
 * tensor. A tensor is a value of td_joint.epilogue: an input, a result of `_made` (a
 * new tensor) or a result of a view op. */
#ifndef TD_EXPLAIN_H
#define TD_EXPLAIN_H

#include "aot/aot.h"

/* ---- tensors of an epilogue (explain_after.c) --------------------------- */

typedef enum td_named_as {
    TD_NAMED_INPUT,
    TD_NAMED_RESULT,
    TD_NAMED_BASE, /* a new tensor that is no result; counted in program order */
    TD_NAMED_VIEW  /* a view that is no result */
} td_named_as;

/* What the caller knows a tensor as; an input that is a result is an input. */
typedef struct td_named {
    td_named_as as;
    int         index; /* -1: of a view */
} td_named;

td_named       td__after_name(const td_joint *j, const td_gval *v);
/* "input 0", "result 1", "base 0", "a view of input 0". */
void           td__after_name_print(td_buf *b, const td_joint *j, const td_gval *v);
int            td__after_n_bases(const td_joint *j);
const td_gval *td__after_base(const td_joint *j, int nr);
/* The forward output a new tensor is made of; -1: v is no new tensor. */
int            td__after_made_of(const td_joint *j, const td_gval *v);
/* What a view was made of, view op by view op, up to an input, a result or a base.
 * NULL: v is no view. */
const td_gval *td__after_origin(const td_joint *j, const td_gval *v);
const td_gval *td__after_viewed(const td_gval *v); /* NULL: v is no view */
/* The view ops that make v of `of`, the first one first, each as "select(0, 1)". */
typedef void   td_line_fn(void *env, const char *line); /* NULL: no memory */
void           td__after_views(const td_joint *j, const td_gval *v, const td_gval *of,
                               td_line_fn *fn, void *env);
void           td__after_views_print(td_buf *b, const td_joint *j, const td_gval *v,
                                     const td_gval *of);
/* A td_line_fn: appends lines with commas between them. */
typedef struct td_lines {
    td_buf *b;
    bool    any;
} td_lines;
void            td__after_join(void *lines, const char *line);
/* Is an op between v and its origin detach, so that histories go separate ways? */
bool            td__after_is_detached(const td_joint *j, const td_gval *v);
/* Is result i a tensor that is neither an input nor an earlier result? */
bool            td__after_is_new(const td_joint *j, int i);
/* Its type when the call returns. */
void            td__after_type(td_buf *b, const td_joint *j, const td_gval *v);
/* How far the version counter of the storage moves that input i came in. */
int64_t         td__after_versions(const td_joint *j, int i);
/* The node that makes a tensor of forward output k, or writes it; NULL: none. */
const td_gnode *td__after_user(const td_joint *j, int k);
/* The tensor that takes the gradients of target i from the epilogue; NULL: none. */
const td_gval  *td__after_leaf(const td_joint *j, int i);
/* Does the forward code itself write input i? */
bool            td__after_code_writes(const td_joint *j, int i);
/* Is the node in a region without gradients, or in inference mode? Outside of all
 * regions the modes are the caller's. */
bool            td__after_is_no_grad(const td_joint *j, const td_gnode *n);
bool            td__after_is_inference(const td_joint *j, const td_gnode *n);
/* The epilogue line by line, without types. */
void            td__after_lines(const td_joint *j, td_line_fn *fn, void *env);

/* ---- what is done to one of them (explain_effects.c) -------------------- */

typedef enum td_effect_kind {
    TD_EFFECT_WRITE,    /* its elements are written, or those of a view of it */
    TD_EFFECT_GEOMETRY, /* sizes, strides or offset change */
    TD_EFFECT_MOVE,     /* set_: another storage */
    TD_EFFECT_DETACH,   /* detach_ */
    TD_EFFECT_BEGIN,    /* requires_grad_ */
    TD_EFFECT_CEASE,    /* requires_grad_(false) */
    TD_EFFECT_REFRESH,  /* a view: its history is derived from its base's once more */
    TD_EFFECT_GIVE,     /* a custom function gives it a history */
    TD_EFFECT_COUNT     /* none: only its version counter moves, or it is read */
} td_effect_kind;

typedef struct td_effect {
    td_effect_kind  kind;
    const td_gnode *n;
    bool            history; /* WRITE, GIVE: gradients flow through it */
    bool            no_grad; /* it is in a region without gradients */
} td_effect;

/* In program order. */
typedef void td_effect_fn(void *env, const td_effect *e);
void         td__after_effects(const td_joint *j, const td_gval *v, td_effect_fn *fn,
                               void *env);
/* The same in words, a line each. */
void         td__after_effect_lines(const td_joint *j, const td_gval *v, td_line_fn *fn,
                                    void *env);

/* All of them. */
typedef struct td_effect_sum {
    bool           any, written, history, geometry, detached;
    bool           requires_grad; /* in the end, by requires_grad_ */
    const td_gval *moved_to; /* argument of the last set_; NULL: it has not moved */
} td_effect_sum;
td_effect_sum td__after_sum(const td_joint *j, const td_gval *v);

/* ---- in words (explain_parts.c) ----------------------------------------- */

/* One line each, without an end. */
void td__explain_input(td_buf *b, const td_joint *j, int i); /* "" if left alone */
void td__explain_result(td_buf *b, const td_joint *j, int i);
void td__explain_base(td_buf *b, const td_joint *j, int i);
/* "result 0", "input 1, written through select(0, 1)". */
void td__explain_tangent(td_buf *b, const td_joint *j, int i);
void td__explain_target(td_buf *b, const td_joint *j, int i);

#endif
