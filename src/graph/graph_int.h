/* graph/graph_int.h -- what the files of this room share: words of the text form,
 * labels of values, facts passes ask for. */
#ifndef TD_GRAPH_INT_H
#define TD_GRAPH_INT_H

#include "graph/graph.h"

#include <string.h>

/* Lists and nested graphs in arguments go no deeper, so walks may recurse. */
enum { TD_NEST_LIMIT = 32 };

/* ---- words (words.c) ---------------------------------------------------- */

extern const char *const td__region_words[TD_R_COUNT];
extern const char *const td__rel_signs[TD_DIM_RELS];
extern const char *const td__desc_words[TD_D_COUNT];
extern const char *const td__policy_words[TD_MUST_RECOMPUTE + 1];
td_dtype td__dtype_word(const char *s, size_t n); /* TD_DTYPE_NONE: no dtype */

/* Text that reads back as the same number: shortest digits, always with a point,
 * an exponent, or inf, -inf, nan. */
void   td__text_float(td_buf *b, double f);
/* ...the same when stored as dt, which needs fewer digits. */
void   td__text_float_as(td_buf *b, td_dtype dt, double f);
double td__text_to_float(const char *s); /* whatever the locale is */
void   td__text_string(td_buf *b, const char *s);
void   td__text_name(td_buf *b, const char *name); /* @f, or @"any text" */
void   td__text_dim(td_buf *b, const td_graph *g, int64_t dim);
void   td__text_desc(td_buf *b, const td_desc *d); /* "<param \"w\">"; plain: nothing */
/* All elements in row-major order, flat, with commas; true when it has bytes. */
bool   td__text_elements(td_buf *b, const td_tensor *t);

/* ---- printing (graph_print.c) ------------------------------------------- */

/* How values and storages are called in one printing of one graph. */
typedef struct td_labels {
    const td_graph *g;
    td_arena        arena;
    int             indent;  /* of the statement being printed */
    const char    **name;    /* by value id */
    int32_t        *storage; /* by number: how it prints, -1: not shared */
    bool           *read;    /* by value id: somebody reads it */
} td_labels;
bool td__labels_make(td_labels *l, const td_graph *g, bool bare);
void td__labels_free(td_labels *l);
void td__text_look(td_buf *b, const td_labels *l, const td_look *look);
void td__text_arg(td_buf *b, const td_labels *l, const td_garg *a, unsigned how);
void td__text_node(td_buf *b, const td_labels *l, const td_gnode *n, unsigned how);
bool td__is_const_input(const td_graph *g, int i); /* one whose bytes the graph holds */

/* ---- facts for passes (effects.c) --------------------------------------- */

/* By value id, from one walk backwards along what results may share with arguments. */
typedef struct td_effects {
    bool *written;  /* it, or what it shares storage with, is written in the graph */
    bool *escapes;  /* it, or a view of it, is an output */
    bool *returned; /* it is itself an output */
    bool *moved;    /* its geometry is written: its look holds for a while only */
} td_effects;
bool td__effects_make(td_effects *e, const td_graph *g, td_arena *a);

/* A size that depends on values is known from the result that has it, and others may
 * count by it where nobody reads the result. */
bool td__gnode_shows(const td_gnode *n);

/* Room that dies with a pass. NULL after td__fail_memory. */
void *td__pass_room(td_graph *g, td_arena *a, size_t n, size_t item);

#endif
