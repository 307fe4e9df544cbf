/* part/part.h -- partitions a joint graph into a forward and a backward graph:
 * decides which values the forward saves for the backward and which the backward
 * recomputes. docs/partition.md explains the algorithm. */
#ifndef TD_PART_H
#define TD_PART_H

#include "joint/joint.h"
#include "tandem/config.h"

typedef enum td_saved_from {
    TD_SAVED_PRIMAL, /* an input of the forward graph */
    TD_SAVED_OUTPUT, /* one of its n_fwd outputs, which the caller gets as well */
    TD_SAVED_FRESH   /* a further output, for backward only */
} td_saved_from;

/* A value that the forward graph saves for the backward graph. */
typedef struct td_saved_value {
    td_saved_from from;
    int           index; /* of the forward graph's input or output */
    int64_t       bytes; /* of its elements; symbolic sizes by hints */
} td_saved_value;

/* The decision about a value of the joint graph, for reports. */
typedef struct td_part_note {
    const char *value; /* its name */
    const char *op;    /* "input" for primals */
    const char *why;
    int64_t     bytes;
    bool        saved, recomputed;
} td_part_note;

/* A partition.
 *
 * Forward: inputs are the primals; outputs are n_fwd results, then the fresh saved
 * values (<saved i>), tensors before symbolic sizes. The last n_draws tensors are
 * generator states for random ops that backward recomputes. Backward: inputs are all
 * saved values (<saved i>, i is the index in `saved`), then the tangents; outputs are
 * the gradients in target order, NONE where there is none. Its nodes with origin
 * FORWARD are recomputed. A graph without tangents and gradients has no backward. */
typedef struct td_halves {
    td_ctx           *cx;
    td_arena          arena;
    td_graph         *fwd, *bwd; /* bwd NULL: nothing to differentiate */
    int               n_fwd;     /* outputs before the saved ones */
    int               n_saved;   /* of which the last n_saved_syms are symbolic sizes */
    int               n_saved_syms;
    td_saved_value   *saved;
    int               n_draws; /* generator states among the saved tensors */
    int               n_notes;
    td_part_note     *notes;
    int64_t           bytes_saved;    /* saved outputs and fresh values, not primals */
    int64_t           bytes_most;     /* the same for the default partition */
    int64_t           peak;           /* td__peak_bytes of this partition */
    int64_t           peak_most;      /* the same for the default partition */
    double            cost_recompute; /* of all recomputation, see td_part_opts.cost */
    bool              fell_back; /* the default was used: min-cut had a higher peak */
    /* Of a partition whose saved values are packed: the one before, what pack and
     * unpack do as graphs; all owned. NULL: they are saved as they are. */
    struct td_halves *plain;
    td_graph         *pack, *unpack;
} td_halves;

/* Options. Zero-initialized is not valid: start from td__part_defaults. */
typedef struct td_part_opts {
    double      budget;          /* 0..1 of the bytes that min-cut saves */
    bool        cse;             /* common subexpression elimination first */
    bool        recompute_views; /* never save a view, but its base */
    bool        aggressive;      /* recompute anything but random and heavy ops */
    bool        ban_far_apart, ban_long_chains, ban_materialized, ban_reductions;
    bool        free_params; /* saving a parameter costs nothing */
    bool        make_notes;  /* fill td_halves.notes, at some cost */
    td_knapsack knapsack;
    /* The cost of running the node, in any unit; NULL: estimated by flops and bytes. */
    double (*cost)(void *env, const td_graph *g, const td_gnode *n);
    /* A likely value of a symbolic size; NULL: 64 for all. */
    int64_t (*hint)(void *env, const td_graph *g, int64_t symbol);
    void *env;
} td_part_opts;
td_part_opts td__part_defaults(void);

/* Partition the joint graph, which stays as it is. NULL after td__fail. */
td_halves *td__part_default(const td_joint *j, const td_part_opts *opts);
td_halves *td__part_mincut(const td_joint *j, const td_part_opts *opts);
struct td_chooser;
/* The user's function chooses the saved values (user_partition.c). */
td_halves *td__part_given(const td_joint *j, const td_part_opts *opts,
                          const struct td_chooser *chooser);
void       td__halves_drop(td_halves *h); /* NULL is allowed */
/* A backward graph for j, the same program joined with other missing tangents, that
 * reads the values that the forward graph of h saves: its inputs are those of h->bwd.
 * Both joint graphs must have gone through the same passes. NULL after td__fail. */
td_graph  *td__part_reuse(const td_halves *h, const td_joint *j);
/* Joins the user's pack and unpack to a partition (td_aot_opts.saved).
 *
 *   pack    inputs: those of forward, then any of its saved values (<saved i>).
 *           Outputs: values saved in place of value i, with its descriptor, in order
 *           of i
 *   unpack  inputs: what the new partition saves, in order: outputs of pack, the other
 *           saved values of `plain`, and integers for sizes that none of them shows.
 *           Outputs: the values, with their descriptors <saved i>
 *
 * Takes over all three, also on failure. NULL after td__fail: a value that unpack
 * computes has another type. */
td_halves *td__part_pack(td_halves *plain, td_graph *pack, td_graph *unpack,
                         const td_part_opts *o);
/* A backward graph for h->plain as one for h, which unpacks first. NULL after td__fail.
 */
td_graph  *td__part_unpacked(const td_halves *h, const td_graph *bwd);
/* The table of notes as text. */
bool       td__halves_report(td_buf *b, const td_halves *h);

/* For a graph without tangents and with backwards inside, such as a training step:
 * decides for each backward which forward values are recomputed, as checkpoint regions
 * and the budget require, and rewrites j->g. *said is a report without graphs, owned by
 * the caller; NULL: there was nothing to decide. False after td__fail. */
bool td__part_step(td_joint *j, const td_part_opts *opts, td_halves **said);

/* A joint graph from its descriptors: <tangent> inputs last, <grad> outputs last. *j
 * borrows g, owns nothing and has no epilogue. False after td__fail. */
bool td__joint_over(td_graph *g, td_joint *j);

/* The peak of live bytes when the graphs run node by node and each storage is freed
 * after its last use. Inputs and tangents belong to the caller and are not counted;
 * forward outputs live to the end. */
typedef struct td_peak {
    int64_t fwd, bwd, most; /* most: the larger of the two */
} td_peak;
bool         td__peak_bytes(const td_halves *h, const td_part_opts *opts, td_peak *out);
/* The same; calls `each` for every node with the bytes that are live while it runs. */
typedef void td_peak_fn(void *env, const td_gnode *n, bool bwd, int64_t alive);
bool         td__peak_walk(const td_halves *h, const td_part_opts *opts, td_peak *out,
                           td_peak_fn *each, void *env);

#endif
