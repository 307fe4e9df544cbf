/* part/flops.h -- how much an op computes. */
#ifndef TD_FLOPS_H
#define TD_FLOPS_H

#include "graph/graph.h"

/* The floating-point operations of an op whose row has .work, for sizes bound[]; 0
 * for other ops. Unknown sizes count as 64. */
double td__node_flops(const td_graph *g, const td_gnode *n, const int64_t *bound);

#endif
