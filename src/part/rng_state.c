/* rng_state.c -- makes a recomputed random op draw the same numbers: the generator's
 * state is saved before the first run, set before the second and restored after it.
 * All three are random_state nodes, so whatever runs the graph needs no special case.
 */
#include "part/part_int.h"

#include <string.h>

/* A random_state node that is not among the nodes yet; set: the state to set, or
 * NULL. */
static td_gnode *make_node(td_graph *g, td_gval *set) {
    static const int64_t two = 2;
    td_garg              in = set ? td__garg_value(set) : (td_garg){0};
    td_gnode            *n = td__graph_op(g, TD_OP_random_state, &in, set != NULL, 1);
    td_gtype l = {.kind = TD_K_TENSOR, .dtype = TD_I64, .rank = 1, .size = &two};
    if (!n) return NULL;
    g->nodes.n--;
    l.storage = g->n_storages++;
    return (n->out[0]->type = td__graph_type_of(g, l)) ? n : NULL;
}

td_gnode *td__rng_save_node(td_graph *g) { return make_node(g, NULL); }

/* A recomputed random op: set the generator to the saved state, draw, restore. to[] are
 * the three nodes in order. */
bool td__rng_wrap(td_graph *g, td_gnode *n, td_gval *state, td_gnode **to) {
    td_gnode *set = make_node(g, state);
    td_gnode *back = set ? make_node(g, set->out[0]) : NULL;
    if (!back) return false;
    set->origin = back->origin = n->origin;
    to[0] = set;
    to[1] = n;
    to[2] = back;
    return true;
}
