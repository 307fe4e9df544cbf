/* joint/event_log.h -- the events of a program: all its effects apart from the values
 * it computes. A mode above the tape records them in program order while the program is
 * replayed on fake tensors: a tensor is made, viewed or written, its metadata or flags
 * change, a stale view recomputes its grad_fn. epilogue.c makes the epilogue of a call
 * from them. */
#ifndef TD_EVENT_LOG_H
#define TD_EVENT_LOG_H

#include "eager/node.h"
#include "func/func.h"

/* How an epilogue performs a write (merge.c). */
typedef enum td_write_how {
    TD_HOW_COPY,   /* by copy_, as in eager */
    TD_HOW_ASSIGN, /* replaces elements and grad_fn of `to`, which is not a view */
    TD_HOW_BUMP    /* increases the version of `to`; another step writes elements */
} td_write_how;

typedef enum td_event_kind {
    TD_EV_MADE,  /* an op made `t`, a tensor with its own storage */
    TD_EV_VIEW,  /* a view op made out[] */
    TD_EV_WRITE, /* elements of `t` were written */
    TD_EV_META,  /* sizes, strides, offset or storage of `t` were written */
    TD_EV_FLAG,  /* requires_grad_ or detach_ of `t` */
    TD_EV_TOUCH, /* `t`, a stale view, recomputed its grad_fn from its base */
    TD_EV_GIVEN  /* a custom function set the grad_fn of `t`, an existing tensor */
} td_event_kind;

/* Tensors are those of the run (outer ones), referenced. */
typedef struct td_event {
    uint8_t     kind;      /* td_event_kind */
    bool        grad;      /* modes at the event */
    bool        inference; /* ... */
    bool        recorded;  /* the tape recorded it */
    bool        late;   /* META: changes the sizes of a leaf that has an accumulator */
    bool        leaf;   /* after it, the tensor is a leaf that requires grad */
    bool        shares; /* WRITE: elements of t overlap in memory */
    bool        whole_shares; /* WRITE: elements of its base overlap */
    bool        in_place;     /* GIVEN: `t` is an input that the function wrote */
    bool        idle;         /* FLAG: it changes nothing */
    td_op       op;           /* VIEW, META, FLAG */
    int         n_in, n_out;
    td_value   *in;
    td_tensor **out; /* VIEW */
    td_tensor  *t;
    td_tensor  *value;      /* MADE, WRITE: inner, its elements after the event */
    td_tensor  *root;       /* if recorded: an alias of t with its new grad_fn */
    td_tensor  *whole;      /* WRITE of a view: value and root of its base, */
    td_tensor  *whole_root; /* ...if the base covers all of t */
    td_storage *was, *st;   /* of t before and after */
    td_node *accum; /* META: the accumulator of t before, referenced; NULL: none yet */
    td_where here;
    td_geom  geom;     /* MADE, META: of t after the event */
    uint8_t  creation; /* GIVEN: td_creation of t after it */
    /* merge.c: value, grad_fn and target of the epilogue's step; not owned */
    uint8_t  how; /* td_write_how */
    td_tensor *to, *put, *hist;
    td_tensor *touch; /* a view whose grad_fn the epilogue then recomputes */
    /* epilogue.c: */
    bool       live;   /* its effect can be observed after the call */
    int        out_nr; /* the forward output that is its value; -1: none */
} td_event;

typedef struct td_log {
    td_mode  mode; /* first: the mode is this */
    td_ctx  *cx;
    td_func *f; /* for values of tensors */
    td_arena arena;
    TD_VEC(td_event) all;
    td_listener        listener; /* for the tape */
    const td_listener *was;      /* the tape's listener before */
} td_log;

/* Inserts the mode right above the tape and listens to the tape; ends before f does. */
void td__log_begin(td_log *l, td_ctx *cx, td_func *f);
void td__log_end(td_log *l);
/* Adds the event that t, a tensor from before the log, was made. */
bool td__log_made(td_log *l, td_tensor *t);
/* Frees all events. */
void td__log_free(td_log *l);

#endif
