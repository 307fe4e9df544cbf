/* part/part.h -- cuts a joint graph into a forward and a backward half and decides
 * what the first keeps for the second and what the second computes again. */
#ifndef TD_PART_H
#define TD_PART_H

#include "joint/joint.h"

typedef enum td_saved_from {
    TD_SAVED_PRIMAL, /* an input of the forward half: `index` */
    TD_SAVED_OUTPUT, /* also forward output `index` */
    TD_SAVED_FRESH   /* made for backward only */
} td_saved_from;

/* A value kept between the halves. */
typedef struct td_kept {
    td_saved_from from;
    int           index;
    int64_t       bytes; /* of its elements; by hints where sizes are symbolic */
} td_kept;

/* What became of a value of the joint graph, for reports. */
typedef struct td_part_note {
    const char *value; /* its name */
    const char *op;
    const char *why; /* "cheap: pointwise, 1 read", "matmul is never repeated" ... */
    int64_t     bytes;
    bool        saved, recomputed;
} td_part_note;

/* Forward: primals in; n_fwd outputs, then the kept values (<saved i>), tensors
 * before symbolic sizes. Backward: kept values (<saved i>), then tangents; out come
 * the gradients in target order, NONE where there is none. */
typedef struct td_halves {
    td_ctx       *cx;
    td_arena      arena;
    td_graph     *fwd, *bwd;
    int           n_fwd;  /* outputs before the kept ones */
    int           n_kept; /* all; the last n_kept_syms are integers */
    int           n_kept_syms;
    td_kept      *kept;
    int           n_notes;
    td_part_note *notes;
    int64_t       bytes_kept; /* fresh ones and outputs, not primals */
    int64_t       bytes_most; /* what keeping everything backward reads would take */
} td_halves;

/* semantics of the knobs: docs/partition.md. Zero-initialized is not valid: start from
 * td__part_defaults. */
typedef struct td_part_opts {
    double      budget;          /* 0..1 of what min-cut would keep */
    bool        cse;             /* equal nodes become one before cutting */
    bool        recompute_views; /* views are never kept when their base is */
    bool        aggressive;      /* everything but random and heavy ops may repeat */
    bool        ban_far_apart, ban_long_chains, ban_materialized, ban_reductions;
    bool        free_params; /* keeping a parameter costs nothing */
    td_knapsack knapsack;
    /* Seconds (or any unit) one run of the node takes; NULL: by flops and bytes. */
    double (*cost)(void *env, const td_graph *g, const td_gnode *n);
    void *env;
} td_part_opts;
td_part_opts td__part_defaults(void);

/* Both take the joint graph apart and leave it as it was; NULL after td__fail. */
td_halves *td__part_default(const td_joint *j, const td_part_opts *opts);
td_halves *td__part_mincut(const td_joint *j, const td_part_opts *opts);
void       td__halves_drop(td_halves *h); /* NULL is fine */
/* The table of notes as text. */
bool       td__halves_report(td_buf *b, const td_halves *h);

#endif
