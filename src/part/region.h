/* part/region.h -- a region: a body that a program calls many times (td_call_region),
 * with one forward and one backward graph for all calls on operands of the same
 * types. */
#ifndef TD_REGION_H
#define TD_REGION_H

#include "part/part.h"

/* The backward graph for one set of arriving gradients, and for their types. */
typedef struct td_region_back {
    struct td_region_back *next;
    uint64_t              *missing; /* a set: tangents that do not arrive */
    td_graph              *g;       /* inputs: saved values, then all tangents */
    int64_t               *grads;   /* by operand, as in op call_forward */
} td_region_back;

/* The graphs made from a body for operands of given types, in given modes. */
typedef struct td_region_parts {
    struct td_region_parts *next; /* of the same body */
    td_graph               *body; /* which owns this */
    td_arena                arena;
    int64_t                *key; /* types and modes */
    int                     n_key;
    bool                    branch; /* a graph of cond, which is one node in any case */
    const char *
        inlined; /* the reason why the ops of the body are called; NULL: they are not */
    td_joint           *j;
    td_halves          *h; /* NULL: nothing requires grad */
    td_graph           *forward;
    td_region_back     *back; /* of all tangents first */
    int64_t            *saved, *checks;
    int64_t            *tangents; /* the results that have one */
    int                 n_checks;
    /* Of branch yes: the values that both pass to backward (branch.c); NULL: not
     * made. */
    struct td_handover *hand;
} td_region_parts;

void                  td__handover_drop(struct td_handover *h); /* NULL is fine */
/* The region of this body for these operands in the context's modes; found or made.
 * branch: the body is a graph of cond. NULL after td__fail. */
td_region_parts      *td__region_for(td_graph *body, td_tensors operands, bool branch);
/* The backward graph for the gradients g that arrive, by tangent; NULL after
 * td__fail. */
const td_region_back *td__region_back(td_region_parts *r, td_tensor *const *g);
/* The region whose forward graph this is; NULL: none, as for a graph read from text. */
td_region_parts      *td__region_of(const td_graph *body, const td_graph *forward);
/* Has an operand a gradient? grad: its entry in td_region_back.grads. */
static inline bool    td__region_gives(int64_t grad) {
       return grad >= 0 || grad <= TD_GRAD_INPUT;
}
/* t, or a copy of it with the strides of type l. */
td_tensor *td__lay_out(td_tensor *t, const td_gtype *l);

#endif
