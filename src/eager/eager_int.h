/* eager_int.h -- tensor states, hooks and the context's autograd state. Private to
 * the room. */
#ifndef TD_EAGER_INT_H
#define TD_EAGER_INT_H

#include "eager/node.h"

/* A tensor's autograd state. */
struct td_autograd {
    td_node     *fn; /* held; NULL: a leaf */
    int32_t      nr;
    bool         wants;   /* a leaf that requires grad */
    bool         retains; /* no leaf, but its gradient is stored */
    bool         borrows; /* accum is another leaf's, and held */
    uint8_t      use;     /* TD_GRAD_...: what was done with `grad` */
    td_tensor   *grad;    /* held */
    td_node     *accum;   /* not held, its own; NULL until an op reads the leaf */
    td_hookrec  *hooks;   /* of a leaf */
    td_autograd *next;    /* free list */
};

typedef enum td_hook_kind {
    TD_HOOK_GRAD,
    TD_HOOK_RETAIN,
    TD_HOOK_LEAF,
    TD_HOOK_PRE,
    TD_HOOK_POST
} td_hook_kind;

/* One hook, in the list of its owner and in that of the context. */
struct td_hookrec {
    td_hookrec  *next;           /* of the owner, in order of registration */
    td_hookrec  *before, *after; /* of the context */
    td_hookrec **owner;
    uint64_t     id;
    uint64_t     gone; /* when it was removed, in the same count; 0: it is there */
    td_hook_kind kind;
    int32_t      nr; /* which result of the node */
    td_tensor   *t;  /* RETAIN: not held */
    void        *env;
    union {
        td_grad_hook *grad;
        td_leaf_hook *leaf;
        td_pre_hook  *pre;
        td_post_hook *post;
    } fn;
};

#define TD_NODE_CLASSES 17

/* Lists of a backward walk (engine.c). */
typedef struct td_walk_room {
    TD_VEC(td_rec *) recs;  /* all */
    TD_VEC(td_rec *) ready; /* a heap: those that may run */
    TD_VEC(td_rec *) path;  /* while exploring */
} td_walk_room;
void td__walk_room_free(td_walk_room *room);

typedef struct td_eager {
    td_mode         mode; /* the tape */
    td_ctx         *cx;
    uint64_t        seq;
    td_node        *pool[TD_NODE_CLASSES]; /* free nodes by 64 byte units */
    td_autograd    *states;                /* free states */
    td_node        *dying;                 /* td__node_drop's work list */
    bool            burying;
    td_hookrec     *hooks; /* all of the context */
    int             hooks_running;
    bool            hooks_removed;
    uint64_t        last_hook; /* counts registrations, and removals while hooks run */
    td_arena        walks;     /* records of backward walks, nested ones on top */
    td_walk_room    idle;      /* of the last walk, for the next */
    const td_opdef *resize;
    td_listener     listener; /* functions NULL: none */
} td_eager;

static inline td_eager *td__eager(const td_ctx *cx) { return cx->eager; }

/* ---- tape.c: the mode --------------------------------------------------- */

bool td__tape_call(td_mode *m, td_opcall *c);

/* ---- gradmode.c, inplace.c: the tape's part of td_set_requires_grad, td_detach_ -- */

bool       td__heard(const td_ctx *cx); /* are there modes above the tape? */
td_tensor *td__set_requires_grad(td_tensor *t, bool on);
td_tensor *td__detach_in_place(td_tensor *t);
/* td_saved_hooks_push, also during a capture. */
bool       td__saved_hooks_push(td_ctx *cx, const td_saved_hooks *hooks);

/* ---- inplace.c ---------------------------------------------------------- */

bool           td__check_write(td_opcall *c, td_tensor *t);
bool           td__regenerate(td_tensor *t); /* a view behind its storage */
/* `data`, elements that the writer of a copy_slices node gave, as a view of what that
 * node gives. NULL after td__fail. */
td_tensor     *td__slices_view(td_node *n, td_tensor *data);
const td_node *td__slices_writer(const td_node *n);
/* A copy of g with the strides of the note. nil on failure. */
td_tensor     *td__copy_like(td_ctx *cx, td_tensor *g, const td_note *like);

/* ---- autocast.c --------------------------------------------------------- */

void             td__autocast_close(td_ctx *cx);
td_autocast_mode td__autocast_resume(td_ctx *cx, int state); /* of td__autocast_state */

/* ---- hooks.c ------------------------------------------------------------ */

/* False after td__fail: a hook sees a gradient that td__grad_whole refuses. */
bool td__hooks_whole(const td_node *n, const td_hookrec *list, td_tensor *const *g);
/* Is g[nr] all that eager would send to result nr of n, whose kind has `passes`? False
 * after td__fail. (engine.c) */
bool td__grad_whole(const td_node *n, td_tensor *const *g, int nr);
bool td__hooks_grad(td_ctx *cx, td_hookrec *list, td_tensor **g, int n);
bool td__hooks_pre(td_ctx *cx, td_hookrec *list, td_tensor **g, int n);
bool td__hooks_post(td_ctx *cx, td_hookrec *list, td_tensor **made, int n_made,
                    td_tensor *const *g, int n);
bool td__hooks_leaf(td_tensor *t);
void td__hooks_free(td_ctx *cx, td_hookrec **list);
/* The retained gradient of t moves from node `from` to `to`, result nr. */
bool td__retain_move(td_tensor *t, td_node *from, td_node *to, int nr);

/* ---- engine.c ----------------------------------------------------------- */

extern const td_node_kind td__accumulate_kind, td__op_kind, td__slices_kind;
/* Takes over one reference to g. */
bool                      td__grad_accumulate(td_tensor *leaf, td_tensor *g);
/* Will g become the gradient of leaf, which has a state, as it is? */
bool                      td__grad_fits(const td_tensor *leaf, const td_tensor *g);

/* ---- small helpers (node.c) --------------------------------------------- */

/* Calls an op with two arguments at most; nil on failure. */
td_tensor            *td__op1(td_ctx *cx, td_op op, td_tensor *a);
td_tensor            *td__op2(td_ctx *cx, td_op op, td_tensor *a, td_value b);
static inline td_ints td__note_sizes(const td_note *n) {
    return (td_ints){n->dims, n->rank};
}

#endif
