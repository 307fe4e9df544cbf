/* export/c_model.h -- shared by the files of td_export_c: a graph with its memory plan,
 * from which C files are written (docs/artefact.md).
 *
 * c_graph.c makes one graph of what was traced, c_plan.c finds inputs, results and
 * offsets, c_calls.c writes calls of ops, c_source.c model.c, c_files.c the others. */
#ifndef TD_C_MODEL_H
#define TD_C_MODEL_H

#include "backend/native.h"
#include "export/export_int.h"

/* An input or a result of the artefact. */
typedef struct td_c_slot {
    const td_gval   *v;
    char             name[72]; /* a C identifier */
    const char      *given;    /* the name in the program; NULL: none */
    bool             state;    /* input: belongs to the model, not to the caller */
    bool             written;  /* input: the function writes it */
    bool             copied;   /* result: copied to the caller after the last step */
    const td_tensor *value;    /* of state: its elements at the export */
    int64_t          bytes;    /* from its first element to the end of the last */
    int64_t          at;       /* of state: offset in the memory, or in the weights */
} td_c_slot;

/* A graph that becomes an artefact. */
typedef struct td_c_model {
    td_ctx         *cx;
    td_native      *n;        /* steps and kernel texts of its simplified graph */
    const td_graph *g;        /* n->g */
    const char     *name;     /* prefix of all names */
    const char     *function; /* "forward", "forward_backward" or "step" */
    bool            file;     /* weights are in weights.bin, not in weights.c */
    td_c_slot      *in, *out;
    int             n_in, n_out;
    td_live_range  *range; /* those of n->mem, then one per workspace */
    int             n_range;
    int            *to_result; /* [n_range]: the result it is; -1: none */
    int            *work;      /* [steps]: the range of its workspace; -1: none */
    int64_t         state_bytes, bytes; /* of the state, and of the whole memory */
    int64_t         weight_bytes;
    bool            draws; /* random numbers */
    td_arena        arena;
} td_c_model;

/* ---- c_graph.c ---- */

/* One graph: outputs are results and gradients, writes are copy_ nodes at its end. *t
 * keeps its graphs. False after td__fail. */
bool td__c_merge(td_traced *t);

/* ---- c_plan.c ---- */

/* Fills everything after n and g. False after td__fail. */
bool    td__c_plan(td_c_model *m, const td_traced *t);
/* Appends the address of a root's first byte plus `at` bytes, a char *. */
void    td__c_address(const td_c_model *m, td_buf *b, const td_gval *root, int64_t at);
/* Bytes of the root's memory. */
int64_t td__c_bytes(const td_c_model *m, const td_gval *root);
/* Rows, elements of a row and parts of a launch, as native_run.c computes them. */
typedef struct td_c_shape {
    int64_t rows, inside, parts, part_bytes;
} td_c_shape;
td_c_shape td__c_shape(const td_launch *k);

/* ---- c_calls.c ---- */

/* Does the op have a C function for these dtypes? */
bool td__c_has_call(const td_graph *g, const td_gnode *n);
/* Is the node nothing at run time: a view, new memory, or results without elements? */
bool td__c_is_nothing(const td_gnode *n);
/* Appends the call "td_c_mm_f32(...)"; adds the function's name to `helpers`. */
void td__c_call(const td_c_model *m, const td_gnode *n, td_buf *b, td_buf *helpers);
/* Does the call take seed and offset of the generator? Two elements share a block. */
bool td__c_draws(const td_gnode *n);
/* Appends a td_c_array literal for v. */
void td__c_array(const td_c_model *m, td_buf *b, const td_gval *v);

/* ---- c_source.c, c_files.c ---- */

bool td__c_source(const td_c_model *m, td_buf *b); /* model.c; false after td__fail */
void td__c_header(const td_c_model *m, td_buf *b); /* model.h */
void td__c_main(const td_c_model *m, td_buf *b);
void td__c_makefile(const td_c_model *m, td_buf *b);
void td__c_weights(const td_c_model *m, td_buf *b);      /* weights.c */
void td__c_weight_bytes(const td_c_model *m, td_buf *b); /* weights.bin */
/* The parameters of the function, "(model *m, const float *x, ...)". */
void td__c_parameters(const td_c_model *m, td_buf *b);
/* Appends a name that may be any text, such that it can be part of a comment. */
void td__c_plain(td_buf *b, const char *name);

#endif
