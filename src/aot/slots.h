/* aot/slots.h -- inputs and outputs of a graph by descriptor. Results without one
 * count from 0, the loss among them. */
#ifndef TD_SLOTS_H
#define TD_SLOTS_H

#include "graph/graph.h"
#include "tandem/aot.h"

td_slot td__slot_in(const td_graph *g, int i);
td_slot td__slot_out(const td_graph *g, int i);

#endif
