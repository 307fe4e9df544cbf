/* joint/event_log.h -- the events of a program: everything it does besides computing
 * values. A mode above the tape records them in program order while the program is
 * replayed on tensors without bytes: which tensors are made, viewed, written, given
 * other metadata or flags, and which stale views look up their history. The epilogue of
 * a call (epilogue.c) is made of them. */
#ifndef TD_EVENT_LOG_H
#define TD_EVENT_LOG_H

#include "eager/node.h"
#include "func/func.h"

/* How an epilogue does a write (merge.c). */
typedef enum td_write_how {
    TD_HOW_COPY,   /* copy_, as eager: through views and regions */
    TD_HOW_ASSIGN, /* elements and history of `to`, which is no view, are replaced */
    TD_HOW_BUMP    /* others bring the elements: the version counter of `to` moves */
} td_write_how;

typedef enum td_event_kind {
    TD_EV_MADE,  /* an op gave `t`, a tensor with a storage of its own */
    TD_EV_VIEW,  /* a view op gave out[] */
    TD_EV_WRITE, /* elements of `t` were written */
    TD_EV_META,  /* sizes, strides, offset or storage of `t` were written */
    TD_EV_FLAG,  /* requires_grad_ or detach_ of `t` */
    TD_EV_TOUCH, /* `t`, a stale view, looked up its history */
    TD_EV_GIVEN  /* a custom function gave `t`, which exists, its history */
} td_event_kind;

/* Tensors are those of the run (outer ones), referenced. */
typedef struct td_event {
    uint8_t     kind;         /* td_event_kind */
    bool        grad;         /* modes it happened in */
    bool        inference;    /* ... */
    bool        recorded;     /* the tape made it part of a history */
    bool        late;         /* META: of a leaf that an op read with other sizes */
    bool        leaf;         /* the tensor is a leaf that requires grad behind it */
    bool        shares;       /* WRITE: elements of t share places, */
    bool        whole_shares; /* ...of what it is a view of */
    bool        in_place;     /* GIVEN: `t` is an input the function wrote */
    bool        idle;         /* FLAG: it changes nothing */
    td_op       op;           /* VIEW, META, FLAG */
    int         n_in, n_out;
    td_value   *in;
    td_tensor **out; /* VIEW */
    td_tensor  *t;
    td_tensor  *value; /* MADE, WRITE: inner, its elements then */
    td_tensor  *root;  /* recorded: an alias of t with the history it got */
    td_tensor  *whole; /* WRITE of a view: value and root of what it is a view of, */
    td_tensor  *whole_root; /* ...where that shows all of t */
    td_storage *was, *st;   /* of t before and after */
    td_node *accum; /* META: the accumulator of t before, referenced; NULL: none yet */
    td_where here;
    td_geom  geom;     /* MADE, META: of t then */
    uint8_t  creation; /* GIVEN: td_creation of t then */
    /* merge.c: what the epilogue writes, and where; not owned */
    uint8_t  how; /* td_write_how */
    td_tensor *to, *put, *hist;
    td_tensor *touch; /* a view that has its history from there, brought up to date */
    /* epilogue.c: */
    bool       live;   /* its effect can be observed after the call */
    int        out_nr; /* the forward output that is its value; -1: none */
} td_event;

typedef struct td_log {
    td_mode  mode; /* first: the mode is this */
    td_ctx  *cx;
    td_func *f; /* knows values */
    td_arena arena;
    TD_VEC(td_event) all;
    td_listener        listener; /* for the tape */
    const td_listener *was;      /* the tape's listener before */
} td_log;

/* Puts the mode right above the tape and listens to that; it must end before f does. */
void td__log_begin(td_log *l, td_ctx *cx, td_func *f);
void td__log_end(td_log *l);
/* Adds the event that t, a tensor from before the log began, was made. */
bool td__log_made(td_log *l, td_tensor *t);
/* Lets go of all events. */
void td__log_free(td_log *l);

#endif
