/* aot/pack_int.h -- private to the files that compile hooks on saved values and move
 * them to a store: pack_saved.c, pack_types.c, offload_saved.c. */
#ifndef TD_PACK_INT_H
#define TD_PACK_INT_H

#include "aot/aot.h"

/* Saved values while pack and unpack are traced. */
typedef struct td_packing_trace {
    const td_fn      *f;
    const td_packing *by;  /* pack NULL: nothing is packed */
    const td_offload *off; /* store NULL: nothing is offloaded */
    const td_halves  *h;
    td_arena          arena;
    int               n;      /* values that are packed or offloaded, */
    int              *which;  /* ...by index of td_halves.saved */
    td_saved_at      *at;     /* ...with what hooks are told about each, */
    int              *count;  /* ...how many values pack made of it; 0: none; */
    bool             *packs;  /* ...is it offered to pack? */
    bool             *stores; /* ...does it go to the store? */
    bool             *as_is;  /* ...does it, without pack and unpack? */
    int               first;  /* the input of the traced graph that is the first of
                                 them, or the first packed value */
} td_packing_trace;

/* ---- pack_types.c ------------------------------------------------------- */

/* Saved value i in the forward graph. */
td_gval *td__saved_in_fwd(const td_halves *h, int i);
/* Adds inputs to an empty graph: for pack, those of forward, which have all symbolic
 * sizes, then the values; for unpack, what the packed partition saves. False after
 * td__fail. */
bool     td__pack_types(const td_packing_trace *t, td_graph *g);
bool     td__unpack_types(const td_packing_trace *t, td_graph *g, const td_graph *pack);
/* Adds an integer input to g for each symbolic size that `by` reads and no other input
 * shows. False after td__fail. */
bool     td__add_symbols(td_graph *g, const td_graph *by);

/* ---- offload_saved.c ---------------------------------------------------- */

/* Does the value go to the store, by its size and the user's choice? False also after
 * td__fail. */
bool td__offload_wants(const td_packing_trace *t, const td_saved_at *at);
/* Adds the nodes that store results of pack and fetch inputs of unpack. False after
 * td__fail. */
bool td__offload_join(const td_packing_trace *t, td_graph *pack, td_graph *unpack);

#endif
