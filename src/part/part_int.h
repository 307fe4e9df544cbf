/* part/part_int.h -- shared by the files of this directory: the working copy of a joint
 * graph as flat arrays, properties of its nodes, and the choice being made. */
#ifndef TD_PART_INT_H
#define TD_PART_INT_H

#include "part/part.h"

/* Why a node is not recomputed; TD_REASON_FREE: it may be. No budget overrides
 * reasons up to TD_REASON_FIRM. */
typedef enum td_reason {
    TD_REASON_FREE,
    TD_REASON_EFFECT,    /* it writes, or reads an input that is written */
    TD_REASON_MUST_SAVE, /* by checkpoint policy */
    TD_REASON_SEAM,      /* a value that one checkpoint region passes to another */
    TD_REASON_FIRM = TD_REASON_SEAM,
    TD_REASON_PREFER_SAVE,
    TD_REASON_RANDOM, /* random numbers are expensive */
    TD_REASON_HEAVY,
    TD_REASON_NOT_CHEAP,
    TD_REASON_MATERIALIZED, /* an op that cannot fuse reads it in backward */
    TD_REASON_REDUCTION,    /* much smaller than its operands */
    TD_REASON_FAR_APART,    /* its readers cannot be fused with each other */
    TD_REASON_LONG_CHAIN,
    TD_REASON_COUNT
} td_reason;

enum { TD_FAR = 1000000000 }; /* the distance of values that backward does not need */

/* A partition under construction. Arrays by node are [n_nodes], by value [n_values];
 * both are indexed by id. */
typedef struct td_part {
    td_ctx             *cx;
    const td_joint     *j;
    const td_part_opts *o;
    td_graph           *g; /* working copy, owned; node ids are indices */
    td_arena            arena;
    int                 n_values, n_nodes, n_primals;
    /* A backward inside a training step (step_partition.c): its first node, and the
     * nodes that count for its peak. Nodes before `from` are forward; from < 0: a joint
     * graph. */
    int                 from, first, last;

    /* flat.c */
    int32_t *maker;            /* by value: its node; -1: an input */
    int32_t *read_at, *reads;  /* by node: the values it reads */
    int32_t *user_at, *users;  /* by value: the nodes that read it, in order */
    int32_t *root;             /* by value: the value it is a view of, or itself */
    int64_t *bytes;            /* by value; symbolic sizes by hints */
    int64_t *bound;            /* by symbolic size: its hint */
    double  *cost;             /* by node: of recomputing it */
    bool    *is_out, *is_grad; /* by value: a forward output, a gradient */

    /* sets.c */
    bool    *bwd_only;       /* by node: depends on tangents, or must run in backward */
    bool    *bwd_only_v;     /* the same by value */
    bool    *fw;             /* by node: forward outputs or effects need it */
    bool    *view;           /* by node: shares storage, so it is never saved itself */
    bool    *must_recompute; /* by node: a checkpoint policy demands it */
    uint8_t *firm;           /* by node: td_reason up to TD_REASON_RANDOM, or FREE */
    bool    *written;        /* by input: forward changes its elements */
    bool    *fuses, *gathers; /* by node: see td__part_fuse */
    int32_t *dist;            /* by value: nodes to the nearest backward node */

    /* the choice */
    bool     all;    /* everything is saved: the default partition */
    uint8_t *reason; /* by node: td_reason */
    bool    *saved;  /* by value: chosen to be saved */
    bool    *in_bwd; /* by node: runs in backward; set by td__part_walk */
    bool    *in_fwd; /* by node: runs in forward; set by td__part_walk_forward */
    bool    *passed; /* by value: saved and needed; set by td__part_walk */
    int64_t  saved_bytes;
    double   recompute_cost;
} td_part;

/* ---- flat.c ------------------------------------------------------------- */

/* Copies and flattens j->g. run: 0, or the number of a backward inside a step, from
 * 1. False after td__fail; td__part_close in any case. */
bool       td__part_open(td_part *p, const td_joint *j, const td_part_opts *o, int run);
void       td__part_close(td_part *p);
/* The value whose storage the node's results share; -1: they have their own. */
int        td__part_shares(const td_gnode *n);
/* n zeroed items in p's arena. NULL after td__fail. */
void      *td__part_alloc(td_part *p, size_t n, size_t item);
/* Empties the graph's list of nodes and returns them, to be added in another order.
 * NULL after td__fail. */
td_gnode **td__part_take_nodes(td_part *p);

/* ---- cost.c ------------------------------------------------------------- */

/* Fills bytes[] by value; symbolic sizes by hints, which go to bound[g->dims.n]. */
void   td__part_sizes(const td_graph *g, const td_part_opts *o, int64_t *bound,
                      int64_t *bytes);
double td__part_cost(const td_part *p, int node);

/* ---- step_partition.c --------------------------------------------------- */

/* Sets from, first and last for the run-th backward; false: there are fewer. */
bool td__part_find_run(td_part *p, int run);

/* ---- part.c ------------------------------------------------------------- */

/* Saves everything except what checkpoint policies recompute. */
void td__part_save_all(td_part *p);
/* Computes all consequences of p->saved and the peak. False after td__fail. */
bool td__part_measure(td_part *p, int64_t *peak);

/* ---- sets.c, tags.c ----------------------------------------------------- */

bool               td__part_sets(td_part *p);
void               td__part_tags(td_part *p);
/* Can b's loop read a's elements while a computes them? */
static inline bool td__part_fuse(const td_part *p, int a, int b) {
    return p->gathers[b] || (p->fuses[a] && p->fuses[b]);
}
/* The index of the last forward node by position. */
int td__part_last_forward(const td_part *p);

/* ---- bans.c ------------------------------------------------------------- */

typedef struct td_bans {
    bool aggressive, far_apart, long_chains, materialized, reductions;
} td_bans;
td_bans td__part_usual_bans(const td_part_opts *o);
bool    td__part_bans(td_part *p, td_bans b); /* fills reason; false after td__fail */

/* ---- flow.c ------------------------------------------------------------- */

#define TD_FLOW_INF ((int64_t)1 << 60)

/* A flow network on flat arrays. Vertices are numbered from 0; an edge e and its
 * reverse e ^ 1 are adjacent. */
typedef struct td_flow {
    int      n, n_edges, cap;
    int32_t *from, *to;         /* by edge */
    int64_t *residual;          /* by edge: remaining capacity */
    int32_t *first, *at, *list; /* edges by vertex, after td__flow_run */
    int32_t *level, *queue, *path;
} td_flow;
bool    td__flow_begin(td_flow *f, int n_vertices);
bool    td__flow_edge(td_flow *f, int from, int to, int64_t cap); /* false: memory */
/* The value of the maximal flow; at least TD_FLOW_INF if there is a path of infinite
 * edges; -1: out of memory. Afterwards level[v] >= 0 means that v is on the source's
 * side of the minimal cut nearest to the source. */
int64_t td__flow_run(td_flow *f, int source, int sink);
void    td__flow_free(td_flow *f);

/* ---- cut.c -------------------------------------------------------------- */

/* The cost of saving the value; TD_FLOW_INF: it cannot be saved. */
int64_t td__part_weight(const td_part *p, int v);
bool    td__part_cut(td_part *p); /* from reason; fills saved; false after td__fail */
/* Walks from the gradients back to saved values: fills in_bwd, passed and both sums. */
void    td__part_walk(td_part *p);
/* Walks from forward outputs and passed values: fills in_fwd. */
void    td__part_walk_forward(td_part *p);

/* ---- budget.c, knapsack.c ----------------------------------------------- */

/* Looks for a choice that saves less than p->saved, with a peak of at most `peak`; in
 * a training step, for a lower peak. False after td__fail. */
bool td__part_budget(td_part *p, int64_t peak);

/* A knapsack: which of n items to take, for every bound on their weight up to cap at
 * once. */
typedef struct td_sack {
    int            n, cap;
    const int32_t *weight;
    const double  *value;
    double        *best;  /* by bound: the largest value */
    uint8_t       *taken; /* bits: item * (cap + 1) + bound */
} td_sack;
bool td__sack_fill(td_sack *s, td_arena *a); /* false: out of memory */
void td__sack_pick(const td_sack *s, int bound, bool *take);
/* Items by value per weight, best first. False: out of memory. */
bool td__sack_order(const td_sack *s, int32_t *order, td_arena *a);

/* ---- extract.c, symbols.c, order_bwd.c, rng_state.c, part_report.c ------- */

/* Makes the two graphs; consumes p->g. Needs both walks of cut.c. NULL after
 * td__fail. */
td_halves *td__part_extract(td_part *p);
/* Only the backward half, for the saved values of h; the forward outputs of p->g are
 * the outputs of the forward half. NULL after td__fail: it needs another value. */
td_graph  *td__part_extract_backward(td_part *p, const td_halves *h);
bool       td__part_peak(td_part *p, int64_t *peak); /* of the choice */
bool       td__part_notes(const td_part *p, td_halves *h);
/* Fills order[] with the backward graph's nodes, each recomputed node just before its
 * first reader. Returns their number; -1 after td__fail. */
int        td__part_order(td_part *p, int32_t *order);
/* A node that reads the generator's state, not yet among the nodes; NULL after
 * td__fail. */
td_gnode  *td__rng_save_node(td_graph *g);
/* Puts n in to[1] between a node that sets the generator to `state` and one that
 * restores it (to[0], to[2]). False after td__fail. */
bool       td__rng_wrap(td_graph *g, td_gnode *n, td_gval *state, td_gnode **to);
/* Lists symbols that the backward graph reads and that no tensor input determines, as
 * tags of g. Returns their number; -1 after td__fail. */
int        td__part_symbols(td_part *p, int64_t **syms);

#endif
