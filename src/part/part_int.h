/* part/part_int.h -- what the files of this room share: the working copy of a joint
 * graph as flat arrays, the sets its nodes are in, and the choice being made. */
#ifndef TD_PART_INT_H
#define TD_PART_INT_H

#include "part/part.h"

/* Why a node is not done twice; 0: it may be. Order matters: up to TD_WHY_FIRM no
 * budget can change it. */
typedef enum td_why {
    TD_WHY_FREE,
    TD_WHY_EFFECT,    /* it writes, or reads an input that is written */
    TD_WHY_MUST_SAVE, /* a checkpoint policy says so */
    TD_WHY_SEAM,      /* between two checkpoint regions */
    TD_WHY_FIRM = TD_WHY_SEAM,
    TD_WHY_PREFER_SAVE,
    TD_WHY_RANDOM, /* drawing takes long */
    TD_WHY_HEAVY,
    TD_WHY_NOT_CHEAP,
    TD_WHY_MATERIALIZED, /* backward reads it whole from memory */
    TD_WHY_REDUCTION,    /* much smaller than what it is made of */
    TD_WHY_FAR_APART,    /* its reader cannot be fused with the one before */
    TD_WHY_LONG_CHAIN,
    TD_WHY_COUNT
} td_why;

enum { TD_FAR = 1000000000 }; /* distance of what backward does not need */

typedef struct td_part {
    td_ctx             *cx;
    const td_joint     *j;
    const td_part_opts *o;
    td_graph           *g; /* working copy, packed: node ids are positions */
    td_arena            room;
    int                 n_values, n_nodes, n_primals;
    /* Of a backward inside a step (step.c): its first node, and what counts for the
     * peak. What stands before `from` is forward. from < 0: it is a joint graph. */
    int                 from, first, last;

    /* flat.c */
    int32_t *maker;            /* by value: its node, -1: an input */
    int32_t *read_at, *reads;  /* by node: the values it reads */
    int32_t *user_at, *users;  /* by value: the nodes that read it, in order */
    int32_t *root;             /* by value: the one it is a view of, or itself */
    int64_t *bytes;            /* by value, at hints */
    int64_t *bound;            /* by symbolic size: its hint */
    double  *cost;             /* by node: of doing it once more */
    bool    *is_out, *is_grad; /* by value: a forward output, a gradient */

    /* sets.c */
    bool    *late;    /* by node: depends on tangents, or must be in backward */
    bool    *late_v;  /* by value */
    bool    *fw;      /* by node: forward outputs or effects need it */
    bool    *view;    /* by node: shares storage, never kept itself */
    bool    *again;   /* by node: a checkpoint wants it done twice */
    uint8_t *firm;    /* by node: td_why up to TD_WHY_RANDOM, or FREE */
    bool    *written; /* by input: its elements are others once forward has run */
    bool    *fuses, *gathers; /* by node: see td__part_fuse */
    int32_t *dist;            /* by value: steps to the nearest backward node */

    /* the choice */
    bool     all;    /* the default one: nothing was weighed */
    uint8_t *why;    /* by node: td_why */
    bool    *saved;  /* by value */
    bool    *in_bwd; /* by node, after td__part_walk */
    bool    *in_fwd;
    bool    *kept; /* by value, after td__part_walk: saved and needed */
    int64_t  kept_bytes;
    double   again_cost;
} td_part;

/* ---- flat.c ------------------------------------------------------------- */

/* run: 0, or which backward inside a step, from 1. */
bool       td__part_open(td_part *p, const td_joint *j, const td_part_opts *o, int run);
void       td__part_close(td_part *p);
/* The value a node's results lie in; -1: they are fresh. */
int        td__part_shares(const td_gnode *n);
/* Zeroed, lives as long as p. NULL after td__fail_memory. */
void      *td__part_room(td_part *p, size_t n, size_t item);
/* The working graph's nodes, out of it, to be put back in another order. NULL after
 * td__fail. */
td_gnode **td__part_take_nodes(td_part *p);

/* ---- cost.c ------------------------------------------------------------- */

/* bytes[v] for every value, sizes at hints; bound has room for g->dims. */
void   td__part_sizes(const td_graph *g, const td_part_opts *o, int64_t *bound,
                      int64_t *bytes);
double td__part_cost(const td_part *p, int node);

/* ---- step.c ------------------------------------------------------------- */

/* Fills in from, first and last; false: there are not so many runs. */
bool td__part_find_run(td_part *p, int run);

/* ---- part.c ------------------------------------------------------------- */

/* Everything is kept that no checkpoint wants again. */
void td__part_keep_all(td_part *p);
/* What follows from p->saved. */
bool td__part_measure(td_part *p, int64_t *peak);

/* ---- sets.c, tags.c ----------------------------------------------------- */

bool               td__part_sets(td_part *p);
void               td__part_tags(td_part *p);
/* May b's loop read a's elements while a makes them? */
static inline bool td__part_fuse(const td_part *p, int a, int b) {
    return p->gathers[b] || (p->fuses[a] && p->fuses[b]);
}
/* Nodes that are not late and up to the last forward one are forward by placement. */
int td__part_last_forward(const td_part *p);

/* ---- bans.c ------------------------------------------------------------- */

typedef struct td_bans {
    bool aggressive, far_apart, long_chains, materialized, reductions;
} td_bans;
td_bans td__part_usual_bans(const td_part_opts *o);
bool    td__part_bans(td_part *p, td_bans b); /* fills why */

/* ---- flow.c ------------------------------------------------------------- */

#define TD_FLOW_INF ((int64_t)1 << 60)

/* A flow network on flat arrays. Vertices count from 0; an edge and its way back are
 * neighbours: e and e ^ 1. */
typedef struct td_flow {
    int      n, n_edges, cap;
    int32_t *from, *to;         /* by edge */
    int64_t *room;              /* by edge: capacity that is left */
    int32_t *first, *at, *list; /* edges by vertex, after td__flow_run */
    int32_t *level, *queue, *path;
} td_flow;
bool    td__flow_begin(td_flow *f, int n_vertices);
bool    td__flow_edge(td_flow *f, int from, int to, int64_t cap); /* false: memory */
/* The value of a maximal flow; at least TD_FLOW_INF: there is a way of endless edges.
 * -1: no memory. Afterwards level[v] >= 0 says that v lies on the source's side of
 * the minimal cut nearest to it. */
int64_t td__flow_run(td_flow *f, int source, int sink);
void    td__flow_free(td_flow *f);

/* ---- cut.c -------------------------------------------------------------- */

/* What keeping the value costs in the cut; TD_FLOW_INF: it cannot be kept. */
int64_t td__part_weight(const td_part *p, int v);
bool    td__part_cut(td_part *p); /* by why; fills saved */
/* From the gradients back to what is saved: fills in_bwd, kept, the two sums. */
void    td__part_walk(td_part *p);
/* From the forward outputs and what is kept: fills in_fwd. */
void    td__part_walk_forward(td_part *p);

/* ---- budget.c, knapsack.c ----------------------------------------------- */

/* Looks for less than the choice at hand keeps, without a peak above `peak`; in a step
 * for less than that peak. */
bool td__part_budget(td_part *p, int64_t peak);

/* Which of n things to take, for every bound on their weight up to cap at once. */
typedef struct td_sack {
    int            n, cap;
    const int32_t *weight;
    const double  *value;
    double        *best;  /* by bound */
    uint8_t       *taken; /* bits: item * (cap + 1) + bound */
} td_sack;
bool td__sack_fill(td_sack *s, td_arena *a); /* false: no memory */
void td__sack_pick(const td_sack *s, int bound, bool *take);
/* Items by value per weight, best first. */
bool td__sack_order(const td_sack *s, int32_t *order, td_arena *a);

/* ---- extract.c, symbols.c, order_bwd.c, redraw.c, report.c -------------- */

/* Takes p->g apart. Both need the walks of cut.c done. */
td_halves *td__part_extract(td_part *p);
/* The backward half alone, on what h keeps: forward outputs of p->g are the outputs of
 * the forward half. NULL after td__fail: it needs something else, too. */
td_graph  *td__part_extract_backward(td_part *p, const td_halves *h);
bool       td__part_peak(td_part *p, int64_t *peak); /* of the choice */
bool       td__part_notes(const td_part *p, td_halves *h);
/* Positions of the backward half's nodes, in an order in which what is computed
 * again stands just before its first reader. How many, -1: no memory. */
int        td__part_order(td_part *p, int32_t *order);
/* The node that notes the generator's state, to be put somewhere; NULL: td__fail. */
td_gnode  *td__redraw_note(td_graph *g);
/* Node n between two others, so that it draws from that state; to[3]. */
bool       td__redraw_put(td_graph *g, td_gnode *n, td_gval *state, td_gnode **to);
/* Symbols the backward half reads and its tensors do not show: how many, into syms
 * as tags of g. -1: no memory. */
int        td__part_symbols(td_part *p, int64_t **syms);

#endif
