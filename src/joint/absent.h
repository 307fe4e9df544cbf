/* joint/absent.h -- a backward graph for tangents that do not all arrive. */
#ifndef TD_ABSENT_H
#define TD_ABSENT_H

#include "joint/joint.h"

/* A copy of g, a backward half, in which the tangents of the set `missing` (by k of
 * <tangent k>) are no gradient rather than zero: what only they flow into is NONE, sums
 * keep their other terms, and gradients to[] that only they lead to are NONE too; to
 * NULL: those outputs are not looked at, and g may be a joint graph. Inputs keep their
 * places. NULL after td__fail. */
td_graph *td__graph_without(const td_graph *g, const uint64_t *missing,
                            const td_target *to, int n_tangents);

#endif
