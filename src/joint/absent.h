/* joint/absent.h -- a backward graph for tangents that do not all arrive. */
#ifndef TD_ABSENT_H
#define TD_ABSENT_H

#include "joint/joint.h"

/* A copy of g, the joint graph or backward half of j, in which the tangents of the set
 * `missing` (by k of <tangent k>) are no gradient rather than zero: what only they flow
 * into is NONE, sums keep their other terms, and gradients that only they lead to are
 * NONE too. The last outputs of g are the gradients of j. Inputs keep their places.
 * NULL after td__fail. */
td_graph *td__graph_without(const td_graph *g, const uint64_t *missing,
                            const td_joint *j);

#endif
