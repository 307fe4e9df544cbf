/* func/func.h -- functionalization. A mode replaces writes by new values. The body
 * works on outer tensors, which have eager's metadata and aliasing but no bytes; for
 * each outer tensor the mode has an inner tensor, its value, which pure ops below the
 * mode compute. A recorder below it records the functional graph; the tape above it
 * gives the outer tensors eager's flags and histories. */
#ifndef TD_FUNC_H
#define TD_FUNC_H

#include "trace/trace.h"

typedef struct td_func  td_func;
typedef struct td_fval  td_fval;  /* the record of an outer tensor */
typedef struct td_group td_group; /* outer tensors that may share elements */

/* An argument as it was passed, to find out how the program changed it. */
typedef struct td_func_in {
    td_tensor  *t;     /* outer: an alias with its metadata at the call, referenced */
    td_fval    *given; /* the record it had at the call */
    td_tensor  *inner; /* referenced: its value at the call */
    td_storage *st;    /* referenced: its storage at the call */
    size_t      bytes; /* of st then */
} td_func_in;

struct td_func {
    td_mode   mode; /* first: the mode is this */
    td_ctx   *cx;
    td_arena  arena;
    td_ptrmap groups; /* by outer storage: its first group */
    td_fval  *all;    /* every record; they reference inner values */
    TD_VEC(td_storage *)
    storages; /* referenced, so that their addresses are not reused */
    TD_VEC(td_func_in) in;
};

/* Begins a trace into g, with gradients off: the mode stack becomes tape, functional
 * mode, recorder. */
void       td__func_record(td_func *f, td_ctx *cx, td_record *rec, td_graph *g);
/* Frees all records; outer tensors that live on are ordinary fake ones. */
void       td__func_end(td_func *f);
/* `outer`, a tensor without bytes, becomes an argument with the value `inner`. Call it
 * for all arguments before the first op; overlapping arguments are one group. */
bool       td__func_give(td_func *f, td_tensor *outer, td_tensor *inner);
/* Makes the inner tensors of a recorded input t of a type values of the graph, by
 * _inner nodes: the recorder records what the type computes with them
 * (typed_values.c). */
bool       td__func_unwrap(td_record *rec, td_tensor *t);
/* The current value of an outer tensor; NULL after td__fail. */
td_tensor *td__func_value(td_func *f, td_tensor *outer);
/* `value`, of a new tensor of geometry g, with the strides of g that are symbols, also
 * where a dim has at most one element; NULL after td__fail. */
td_tensor *td__func_result(td_func *f, td_tensor *value, const td_geom *g);

/* Is it an argument, or a tensor that an op of the run made? */
bool td__func_knows(const td_func *f, const td_tensor *outer);

/* ---- changes of argument nr --------------------------------------------- */

int td__func_writes(const td_func *f, int nr);       /* of its elements */
int td__func_quiet_writes(const td_func *f, int nr); /* of those, under no_grad */
/* Its current elements, in the geometry it was passed with; NULL after td__fail. */
td_tensor *td__func_given_value(td_func *f, int nr);

#endif
