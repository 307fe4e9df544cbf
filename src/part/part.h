/* part/part.h -- cuts a joint graph into a forward and a backward half and decides
 * what the first keeps for the second and what the second computes again. How it
 * decides: docs/partition.md. */
#ifndef TD_PART_H
#define TD_PART_H

#include "joint/joint.h"
#include "tandem/config.h"

typedef enum td_saved_from {
    TD_SAVED_PRIMAL, /* an input of the forward half */
    TD_SAVED_OUTPUT, /* one of its n_fwd outputs, which the caller gets as well */
    TD_SAVED_FRESH   /* an output behind those, made for backward only */
} td_saved_from;

/* A value kept between the halves. */
typedef struct td_kept {
    td_saved_from from;
    int           index; /* of the forward half's input, or of its output */
    int64_t       bytes; /* of its elements; by hints where sizes are symbolic */
} td_kept;

/* What became of a value of the joint graph, for reports. */
typedef struct td_part_note {
    const char *value; /* its name */
    const char *op;    /* "input" for primals */
    const char *why;
    int64_t     bytes;
    bool        saved, recomputed;
} td_part_note;

/* Forward: primals in; out come n_fwd outputs, then the fresh kept values as
 * <saved i>, tensors before symbolic sizes; the last of the tensors are states of the
 * generator, for random ops that backward does again. Backward: all kept values
 * (<saved i>, i counts in `kept`), then the tangents; out come the gradients in target
 * order, NONE where there is none. Nodes of the backward half whose origin is forward
 * are done a second time. A graph with neither tangents nor gradients has no backward
 * half. */
typedef struct td_halves {
    td_ctx       *cx;
    td_arena      arena;
    td_graph     *fwd, *bwd; /* bwd NULL: nothing to differentiate */
    int           n_fwd;     /* outputs before the kept ones */
    int           n_kept;    /* all; the last n_kept_syms are symbolic sizes */
    int           n_kept_syms;
    td_kept      *kept;
    int           n_draws; /* states of the generator among the tensors kept */
    int           n_notes;
    td_part_note *notes;
    int64_t       bytes_kept; /* fresh ones and outputs, not primals */
    int64_t       bytes_most; /* what the default partition would keep */
    int64_t       peak;       /* td__peak_bytes of these halves */
    int64_t       peak_most;  /* of the default partition's */
    double        cost_again; /* of what is computed a second time */
    bool          fell_back;  /* the cut was dropped: its peak was the higher one */
} td_halves;

/* Zero-initialized is not valid: start from td__part_defaults. */
typedef struct td_part_opts {
    double      budget;          /* 0..1 of what min-cut would keep */
    bool        cse;             /* equal nodes become one before cutting */
    bool        recompute_views; /* views are never kept, what they view is */
    bool        aggressive;      /* everything but random and heavy ops may repeat */
    bool        ban_far_apart, ban_long_chains, ban_materialized, ban_reductions;
    bool        free_params; /* keeping a parameter costs nothing */
    bool        keep_notes;  /* for the report; they take time and memory */
    td_knapsack knapsack;
    /* Seconds (or any unit) one run of the node takes; NULL: by flops and bytes. */
    double (*cost)(void *env, const td_graph *g, const td_gnode *n);
    /* What a symbol of the graph is likely to be; NULL: 64 for all. */
    int64_t (*hint)(void *env, const td_graph *g, int64_t symbol);
    void *env;
} td_part_opts;
td_part_opts td__part_defaults(void);

/* Both take the joint graph apart and leave it as it was; NULL after td__fail. */
td_halves *td__part_default(const td_joint *j, const td_part_opts *opts);
td_halves *td__part_mincut(const td_joint *j, const td_part_opts *opts);
struct td_chooser;
/* What backward gets the user's function says. */
td_halves *td__part_given(const td_joint *j, const td_part_opts *opts,
                          const struct td_chooser *chooser);
void       td__halves_drop(td_halves *h); /* NULL is fine */
/* A backward half for j, the same program joined with other tangents missing, that
 * reads what the forward half of h saves: its inputs are those of h->bwd. The two
 * graphs went through the same passes. NULL after td__fail. */
td_graph  *td__part_reuse(const td_halves *h, const td_joint *j);
/* The table of notes as text. */
bool       td__halves_report(td_buf *b, const td_halves *h);

/* Of a graph without tangents, a training step, say: decides for each backward inside
 * what of the forward before it is computed once more where the backward reads it,
 * as checkpoint regions and the budget ask, and changes j->g accordingly. *said is
 * what was decided, in a td_halves without halves; NULL: there was nothing to decide.
 * False after td__fail. */
bool td__part_step(td_joint *j, const td_part_opts *opts, td_halves **said);

/* A joint graph as its descriptors say: <tangent> inputs last, <grad> outputs last.
 * *j borrows g, owns nothing and does not say what the caller does. False after
 * td__fail. */
bool td__joint_over(td_graph *g, td_joint *j);

/* The most bytes alive at once when the halves run node by node, each storage let go
 * after its last use. Inputs and tangents are the caller's and not counted; forward
 * outputs stay alive to the end. */
typedef struct td_peak {
    int64_t fwd, bwd, most; /* most: the larger one */
} td_peak;
bool         td__peak_bytes(const td_halves *h, const td_part_opts *opts, td_peak *out);
/* The same, and each is told the bytes that are alive while a node runs. */
typedef void td_peak_fn(void *env, const td_gnode *n, bool bwd, int64_t alive);
bool         td__peak_walk(const td_halves *h, const td_part_opts *opts, td_peak *out,
                           td_peak_fn *each, void *env);

#endif
