/* aot/slots.h -- describes inputs and outputs of a graph as td_slot. An output
 * without a descriptor is a plain result; results are numbered from 0, the loss among
 * them. Index out of range: a slot with index -1. */
#ifndef TD_SLOTS_H
#define TD_SLOTS_H

#include "graph/graph.h"
#include "tandem/aot.h"

td_slot td__slot_in(const td_graph *g, int i);
td_slot td__slot_out(const td_graph *g, int i);

#endif
