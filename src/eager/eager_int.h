/* eager_int.h -- the autograd state of tensors and of the context, and hooks.
 * Private to this directory. */
#ifndef TD_EAGER_INT_H
#define TD_EAGER_INT_H

#include "eager/node.h"

/* The autograd state of one tensor (td_tensor.ag); made on first use. */
struct td_autograd {
    td_node     *fn;      /* grad_fn, one reference; NULL: a leaf */
    int32_t      nr;      /* which result of fn the tensor is */
    bool         wants;   /* a leaf with requires_grad set */
    bool         retains; /* td_retain_grad: a non-leaf whose gradient is stored */
    bool         borrows; /* accum belongs to another leaf and is referenced */
    uint8_t      use;     /* td_grad_use: how `grad` was used */
    td_tensor   *grad;    /* .grad, one reference */
    td_node     *accum;   /* accumulation node, weak; NULL until an op reads the leaf */
    td_hookrec  *hooks;   /* hooks of a leaf */
    td_autograd *next;    /* in the free list */
};

typedef enum td_hook_kind {
    TD_HOOK_GRAD,   /* td_on_grad: may replace a gradient */
    TD_HOOK_RETAIN, /* td_retain_grad */
    TD_HOOK_LEAF,   /* td_on_accumulated */
    TD_HOOK_PRE,    /* td_on_node_pre */
    TD_HOOK_POST    /* td_on_node_post */
} td_hook_kind;

/* One hook. It is in two lists: its owner's (a node or a leaf) and the context's. */
struct td_hookrec {
    td_hookrec           *next; /* in the owner's list, in order of registration */
    td_hookrec           *before, *after; /* in the context's list */
    td_hookrec          **owner;          /* head of the owner's list */
    uint64_t              id;   /* the td_hook the user holds; grows over time */
    uint64_t              gone; /* when it was removed, on the scale of id; 0: active */
    td_hook_kind          kind;
    int32_t               nr; /* which result of the node */
    td_tensor            *t;  /* RETAIN: the tensor; not referenced */
    void                 *env;
    struct td_hook_graph *graph; /* GRAD: a graph is the hook, and its env; owned */
    union {
        td_grad_hook *grad;
        td_leaf_hook *leaf;
        td_pre_hook  *pre;
        td_post_hook *post;
    } fn;
};

#define TD_NODE_CLASSES 17

/* Work lists of a backward walk (engine.c), reused by the next one. */
typedef struct td_walk_lists {
    TD_VEC(td_rec *) recs;  /* all nodes of the walk */
    TD_VEC(td_rec *) ready; /* heap of nodes that may run, by sequence number */
    TD_VEC(td_rec *) path;  /* stack of the depth-first exploration */
} td_walk_lists;
void td__walk_lists_free(td_walk_lists *lists);

/* The autograd state of a context (td_ctx.eager). */
typedef struct td_eager {
    td_mode         mode; /* the tape; first */
    td_ctx         *cx;
    uint64_t        seq;                   /* sequence number of the last node */
    td_node        *pool[TD_NODE_CLASSES]; /* free nodes by size in 64-byte units */
    td_autograd    *states;                /* free list */
    td_node        *dying;         /* nodes to free; td__node_drop's work list */
    bool            burying;       /* td__node_drop is emptying it */
    td_hookrec     *hooks;         /* all hooks of the context */
    int             hooks_running; /* nesting of running hook lists */
    bool            hooks_removed; /* a hook was removed while others ran */
    td_fcall       *stashers;      /* of traces: calls that stashed (custom.c) */
    td_arena        walks;         /* records of backward walks; nested ones on top */
    td_walk_lists   idle;          /* work lists of the last walk */
    const td_opdef *resize;        /* the row of resize_, which autograd refuses */
    td_history     *traced;        /* a walk over real nodes is being traced; or NULL */
} td_eager;

static inline td_eager *td__eager(const td_ctx *cx) { return cx->eager; }

/* ---- tape.c ------------------------------------------------------------- */

/* td_mode.call of the tape. */
bool td__tape_call(td_mode *m, td_opcall *c);

/* ---- gradmode.c, inplace.c: the tape's part of td_set_requires_grad, td_detach_ -- */

/* Are there modes above the tape, which must see flag changes as op calls? */
bool       td__is_intercepted(const td_ctx *cx);
/* What the public functions do when there are none. nil after td__fail. */
td_tensor *td__set_requires_grad(td_tensor *t, bool on);
td_tensor *td__detach_in_place(td_tensor *t);
/* td_saved_hooks_push, also during a capture. */
bool       td__saved_hooks_push(td_ctx *cx, const td_saved_hooks *hooks);

/* ---- inplace.c ---------------------------------------------------------- */

/* May t be written by call c, which records history? Fails as eager PyTorch does. */
bool           td__check_write(td_opcall *c, td_tensor *t);
/* Gives a stale view a new grad_fn: as_strided of its base's. */
bool           td__regenerate(td_tensor *t);
/* `data` is a saved result of a write into a view; n is the copy_slices node of that
 * write. Returns it as a view of n's result, with history. If `unpacked`, data is what
 * hooks gave for it, in any layout: the history is that of the written view. NULL after
 * td__fail. */
td_tensor     *td__slices_view(td_node *n, td_tensor *data, bool unpacked);
const td_node *td__slices_writer(const td_node *n);
/* A copy of g with the strides recorded in `like`. nil on failure. */
td_tensor     *td__copy_like(td_ctx *cx, td_tensor *g, const td_geom *like);

/* ---- autocast.c --------------------------------------------------------- */

void             td__autocast_close(td_ctx *cx);
td_autocast_mode td__autocast_resume(td_ctx *cx, int state); /* of td__autocast_state */

/* ---- hooks.c ------------------------------------------------------------ */

/* Fails if a hook would observe a gradient that is incomplete (td__grad_whole). */
bool td__hooks_whole(const td_node *n, const td_hookrec *list, td_tensor *const *g);
/* For a compiled call's node: is g[nr] the whole gradient that eager would send
 * to result nr? In eager, gradients of other results computed from it pass
 * through it too. Fails if one of these arrived. */
bool td__grad_whole(const td_node *n, td_tensor *const *g, int nr);
/* Run the hooks of one kind in a list. g[0..n) are gradients of the node's results,
 * referenced by the caller; a hook's replacement takes over that reference. False
 * after td__fail. */
bool td__hooks_grad(td_ctx *cx, td_hookrec *list, td_tensor **g, int n);
bool td__hooks_pre(td_ctx *cx, td_hookrec *list, td_tensor **g, int n);
bool td__hooks_post(td_ctx *cx, td_hookrec *list, td_tensor **made, int n_made,
                    td_tensor *const *g, int n);
bool td__hooks_leaf(td_tensor *t);
/* Registers a gradient hook on t; NULL after td__fail. who: the user's call. */
td_hookrec *td__hook_add(td_tensor *t, td_grad_hook *fn, void *env, const char *who);
void        td__hooks_free(td_ctx *cx, td_hookrec **list);
/* Moves td_retain_grad of t from node `from` to result nr of `to`; to NULL:
 * ends it. */
bool        td__retain_move(td_tensor *t, td_node *from, td_node *to, int nr);

/* ---- hook_graph.c ------------------------------------------------------- */

void td__hook_graph_free(struct td_hook_graph *h);
/* At the end of a trace: releases the tensors that its hooks read. A hook that reads a
 * value computed from the tensor it is on is part of a cycle of references. */
void td__hook_graphs_release(td_ctx *cx);

/* ---- engine.c ----------------------------------------------------------- */

extern const td_node_kind td__op_kind, td__slices_kind;
/* Adds g to the .grad of a leaf; takes over one reference to g. */
bool                      td__grad_accumulate(td_tensor *leaf, td_tensor *g);
/* Can g itself become the leaf's first .grad, without a copy? The leaf has a
 * state. */
bool                      td__grad_fits(const td_tensor *leaf, const td_tensor *g);

/* ---- small helpers (node.c) --------------------------------------------- */

/* Calls an op with two arguments at most; nil on failure. */
td_tensor *td__op1(td_ctx *cx, td_op op, td_tensor *a);
td_tensor *td__op2(td_ctx *cx, td_op op, td_tensor *a, td_value b);

#endif
