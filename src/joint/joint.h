/* joint/joint.h -- the joint graph: what a program computes and what its backward
 * computes, in one pure graph. It is made by running the program once more, on
 * tensors without bytes, under tape, functional mode and recorder, and then asking
 * the ordinary engine for the gradients: what eager autograd does, written down.
 *
 * Inputs, in order: the program's inputs (its consts too), then the tangents
 * (<tangent k>). Outputs, in order: n_fwd forward outputs (values that become tensors
 * of the caller's or are written into some, in program order), then one gradient
 * (<grad k>) for each target, NONE where it is known to be none. Nodes the engine made
 * have origin TD_FROM_BACKWARD and the place of the op they are the derivative of. A
 * program without anything to differentiate has neither tangents nor targets: then this
 * is its inference graph.
 *
 * The rest says what the caller of the compiled halves does outside: which inputs
 * it writes, which results it makes views of what. */
#ifndef TD_JOINT_H
#define TD_JOINT_H

#include "func/facts.h"

/* Sets of tangents: a bit each, in words (td__set_words of all tangents there are). */
static inline int  td__set_words(int n_tangents) { return n_tangents / 64 + 1; }
static inline bool td__set_has(const uint64_t *s, int i) {
    return s[i / 64] >> i % 64 & 1;
}
static inline void td__set_add(uint64_t *s, int i) {
    s[i / 64] |= (uint64_t)1 << i % 64;
}
static inline bool td__set_any(const uint64_t *s, int words) {
    for (int w = 0; w < words; w++)
        if (s[w]) return true;
    return false;
}
static inline void td__set_join(uint64_t *s, const uint64_t *with, int words) {
    for (int w = 0; w < words; w++) s[w] |= with[w];
}
/* Is one of s in `of`, or one of them not? */
static inline bool td__set_meets(const uint64_t *s, const uint64_t *of, int words) {
    for (int w = 0; w < words; w++)
        if (s[w] & of[w]) return true;
    return false;
}
static inline bool td__set_leaves(const uint64_t *s, const uint64_t *of, int words) {
    for (int w = 0; w < words; w++)
        if (s[w] & ~of[w]) return true;
    return false;
}

/* Where a gradient goes: to the edge of an input, or to that of the tensor it is a
 * view of, when several inputs are views of it and one was written. */
typedef struct td_target {
    int       input;
    bool      base;
    bool      leaf;  /* that it is, at least for a while, in the program only */
    int       event; /* leaf: the event that makes it one */
    uint64_t *from;  /* a set: tangents whose history leads to it */
} td_target;

/* What an input was before the call, where it is not a tensor of its own. */
typedef struct td_relation {
    int         same;   /* the first input that is the same tensor */
    bool        shared; /* another tensor among the inputs lies in its bytes */
    int         base;   /* the input it is a view of; -1: none, or that is not passed */
    int         n_views;
    td_view_op *views; /* that make it of that one */
} td_relation;

typedef struct td_tangent {
    int         index;  /* the forward output it is that of */
    td_geom     geom;   /* sizes, and the strides the graph was made for */
    uint8_t    *order;  /* dims by those strides, outermost first */
    td_code     code;   /* eager's backward from there fails with this, */
    const char *broken; /* ...and says this; NULL: it works */
    uint64_t   *clash;  /* a set: whose backward uses up what this one's needs */
    uint64_t   *feeds;  /* a set: tangents of what was computed from it inside */
} td_tangent;

/* A forward output, which the epilogue makes a tensor of or writes into one. */
typedef struct td_fwd {
    bool    made;         /* it is a tensor of the caller's, and not only copied */
    bool    written;      /* the epilogue writes into it: nothing else may read it */
    bool    meta_written; /* the epilogue changes its geometry */
    int     tangent; /* its history is this result of the compiled node; -1: none */
    int     input, result; /* what it becomes or is written into, the first; -1 */
    int     event;         /* the event of the log that gave it its history */
    bool    whole;         /* ...a write through a view; the history is its base's */
    td_geom geom;          /* made: eager's */
} td_fwd;

/* One that the epilogue does not read. */
#define TD_FWD_UNREAD ((td_fwd){.input = -1, .result = -1, .tangent = -1, .event = -1})

/* What the program leaves of an input, for who runs the graph without the epilogue. */
typedef struct td_end {
    int     out;     /* forward output: elements where they came; -1: none is new */
    int     now;     /* ...elements as it ends, if that is elsewhere; -1: none */
    bool    meta;    /* sizes, strides, offset or bytes are others: those of `geom` */
    bool    shares;  /* ...bytes that another input came in (set_) */
    bool    flagged; /* it begins or ceases to require grad */
    td_geom geom;
} td_end;

typedef struct td_ends {
    td_end *in;  /* by input; of those that are one tensor only the first is told of */
    int    *out; /* by result: forward output; -1: it is no value of its own */
} td_ends;

/* Strides without gaps for these sizes, in the tangent's order of dims. */
void td__tangent_strides(const td_tangent *t, const int64_t *size, int64_t *stride);

typedef struct td_joint {
    td_ctx      *cx;
    td_arena     arena;
    td_graph    *g;
    /* What the call does behind the forward code. Its inputs are the program's, then
     * the forward outputs, then, where it binds leaves, one of the compiled node. */
    td_graph    *epilogue;
    td_fwd      *fwd;   /* by forward output */
    bool        *feeds; /* by result that is a view: what has a tangent was computed
                              from it inside */
    int          n_primals, n_fwd;
    int          n_results, n_tangents, n_targets;
    td_relation *related;  /* by input */
    td_tangent  *tangents; /* inputs n_primals.. of g, in order */
    td_target   *targets;  /* outputs n_fwd.. of g, in order */
    bool        *written;  /* by input: its elements change, also by another tensor */
    bool        *touched;  /* by input: ...or its geometry or flags, or its storage's */
    int          left;     /* grad mode it leaves: td_graph.left of the program */
    bool         random;
    bool         releases; /* an input no longer requires grad */
    bool         detaches; /* an op cuts a history, perhaps inside a composite */
} td_joint;

typedef struct td_joint_opts {
    bool     keep_mutations; /* writes without history stay in the graph */
    bool     merge_writes;   /* merge.c's passes: writes of one run become one, */
    bool     merge_made;     /* ...those of a new tensor none, */
    bool     assign_writes;  /* ...those of no view no copy_ */
    bool     train;          /* false: an inference graph, whatever requires grad */
    td_ends *ends; /* filled in, what it says lies in td_joint.arena; NULL: no need */
    /* A set of tangents that do not arrive: the engine starts at the other roots alone,
     * as eager's does. Tangents and targets are numbered as without it. NULL: none. */
    const uint64_t *missing;
    int             loss; /* 1 + the result whose tangent alone arrives, by ends; 0 */
} td_joint_opts;

/* For a call of the program on inputs like these (by input, NONE takes a const), in the
 * context's grad mode. NULL after td__fail. */
td_joint *td__joint(const td_graph *program, const td_value *in,
                    const td_joint_opts *opts);
void      td__joint_drop(td_joint *j); /* NULL is fine */
/* The functional form: td__joint with train off. guards: sizes of inputs are symbols,
 * and the text of their guards is added to it. */
td_joint *td__functional_form(const td_graph *program, const td_value *in,
                              td_buf *guards);
/* The facts of that trace alone, which ends when the program has run. NULL after
 * td__fail. */
td_facts *td__facts(const td_graph *program, const td_value *in, bool keep_mutations);
/* Every forward output that is returned as it is gets bytes of its own: no input's,
 * no other output's. Passes that merge values call for it. */
bool      td__joint_separate(td_joint *j);
/* With symbolic sizes: *to is j with the numbers they have for these inputs, by input
 * of the program; what it adds lies in `a`. The geometry of tangents is left to the
 * caller, who sees what they are tangents of. False after td__fail. */
bool td__joint_at(const td_joint *j, const td_value *in, td_arena *a, td_joint *to);
/* The input of a program that a writer writes, as such and not through a view; NULL:
 * none. */
const td_gval     *td__joint_written(const td_gnode *n);
/* The same for the views of one relation, which are left out there. */
bool               td__relation_at(const td_joint *j, const td_value *in, td_arena *a,
                                   td_relation *to);
/* Does it say that a tensor no longer requires grad? */
static inline bool td__gnode_lets_go(const td_gnode *n) {
    return n->kind == TD_N_OP && n->op == TD_OP_requires_grad_ && n->n_in > 1 &&
           !n->in[1].u.i;
}
/* Is it the copy through which an input that is written is read? */
bool td__joint_is_shield(const td_gnode *n);
/* Undoes in a forward half what shields written inputs, where nothing needs it. */
bool td__half_unshield(td_graph *g);
/* Views lie in the storage of what they view, also where that is another value now. */
bool td__graph_fix_storages(td_graph *g);
/* Dead code, equal nodes unless cse is off, views: what needs no decision. The graph
 * is still one that a person would have written, and it can be done again. */
bool td__joint_tidy(td_joint *j, bool cse);
/* The same, and then once, before the graph is taken apart: copies that keep results
 * and written inputs apart. */
bool td__joint_clean(td_joint *j, bool cse);

#endif
