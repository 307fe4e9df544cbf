/* part/flops.h -- how much an op computes. */
#ifndef TD_FLOPS_H
#define TD_FLOPS_H

#include "graph/graph.h"

/* Multiplications and additions of an op whose row counts them (.work), for sizes
 * bound[]; 0 of others. Sizes that are not known are taken to be ordinary. */
double td__node_flops(const td_graph *g, const td_gnode *n, const int64_t *bound);

#endif
