/* joint/joint.h -- the joint graph: what a program computes and what its backward
 * computes, in one pure graph. It is made by running the program once more, on
 * tensors without bytes, under tape, functional mode and recorder, and then asking
 * the ordinary engine for the gradients: what eager autograd does, written down.
 *
 * Inputs, in order: the program's inputs (its consts too), then one tangent for each
 * td_facts.tangents entry. Outputs, in order: n_fwd forward outputs (updates of
 * written inputs, then results of the program, then intermediate bases), then one
 * gradient (<grad k>) for each target, NONE where it is known to be none. Nodes the
 * engine made have origin TD_FROM_BACKWARD and the place of the op they are the
 * derivative of. A program without anything to differentiate has neither tangents nor
 * targets: then this is its inference graph. */
#ifndef TD_JOINT_H
#define TD_JOINT_H

#include "func/func.h"

/* Where a gradient goes: to the edge of an input, or to that of the tensor it is a
 * view of, when several inputs are views of it and one was written. */
typedef struct td_target {
    int  input;
    bool base;
} td_target;

/* What the caller of the forward graph does with a written input. */
typedef struct td_update {
    int     input;
    int     data;       /* forward output with its elements, as it came; -1: none */
    int     now;        /* forward output with its elements as it ends; -1: none */
    bool    meta;       /* sizes, strides or offset become those of `end` */
    bool    storage;    /* it ends on other bytes: those of result or input `home` */
    bool    quiet;      /* history stays: written with gradients off, or detached */
    bool    in_graph;   /* the graph itself writes it (copy_ at its end) */
    int64_t versions;   /* how far its version counter moves */
    td_geom end;
} td_update;

typedef struct td_joint {
    td_ctx    *cx;
    td_arena   arena;
    td_graph  *g;
    td_facts  *facts; /* owned */
    int        n_primals, n_tangents, n_fwd;
    int        n_updates, n_targets;
    td_update *updates;
    td_target *targets; /* outputs n_fwd.. of g, in order */
    int       *result;  /* by result: forward output with it; -1: rebuilt outside */
    int       *base;    /* by intermediate base: forward output with it */
} td_joint;

void td__joint_drop(td_joint *j); /* NULL is fine */

#endif
