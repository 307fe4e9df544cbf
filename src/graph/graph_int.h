/* graph/graph_int.h -- shared by the files of this directory: tokens of the
 * text form, labels of values, alias facts for passes. */
#ifndef TD_GRAPH_INT_H
#define TD_GRAPH_INT_H

#include "graph/graph.h"

#include <string.h>

/* Maximum nesting of lists in arguments, so that functions over them may recurse. */
enum { TD_NEST_LIMIT = 32 };

/* ---- text of tokens (text_tokens.c) --------------------------------------- */

extern const char *const td__region_words[TD_R_COUNT];
extern const char *const td__rel_signs[TD_DIM_RELS];
extern const char *const td__desc_words[TD_D_COUNT];
extern const char *const td__policy_words[TD_MUST_OFFLOAD + 1];
td_dtype td__dtype_word(const char *s, size_t n); /* TD_DTYPE_NONE: no dtype */

/* Text that reads back as the same number: shortest digits, with a point or an
 * exponent; inf, -inf, nan. */
void   td__text_float(td_buf *b, double f);
/* ...the same when stored as dt, which needs fewer digits. */
void   td__text_float_as(td_buf *b, td_dtype dt, double f);
double td__text_to_float(const char *s); /* whatever the locale is */
void   td__text_string(td_buf *b, const char *s);
void   td__text_name(td_buf *b, const char *name); /* @f, or @"any text" */
void   td__text_dim(td_buf *b, const td_graph *g, int64_t dim);
void   td__text_desc(td_buf *b, const td_desc *d); /* "<param \"w\">"; plain: nothing */
/* All elements in row-major order, separated by commas; false: t has no bytes. */
bool   td__text_elements(td_buf *b, const td_tensor *t);

/* ---- printing (graph_print.c) ------------------------------------------- */

/* Nested graphs that a printout has defined so far, in order of the text. */
typedef TD_VEC(const td_graph *) td_defined;

/* How values and storages are named in one printout of a graph. */
typedef struct td_labels {
    const td_graph *g;
    td_defined     *defined; /* NULL: nested graphs are printed at each use */
    td_arena        arena;
    int             indent;  /* indentation of the current statement */
    const char    **name;    /* by value id */
    int32_t        *storage; /* by storage number: printed number; -1: not shared */
    bool           *read;    /* by value id: some node or output reads it */
} td_labels;
bool td__labels_make(td_labels *l, const td_graph *g, unsigned how);
void td__labels_free(td_labels *l);
void td__text_type(td_buf *b, const td_labels *l, const td_gtype *type);
void td__text_arg(td_buf *b, const td_labels *l, const td_garg *a, unsigned how);
void td__text_node(td_buf *b, const td_labels *l, const td_gnode *n, unsigned how);
bool td__is_const_input(const td_graph *g, int i); /* one whose bytes the graph holds */
/* ...that is printed with its elements: a tensor of a type has none of its own, and is
 * printed as an input. */
bool td__is_literal(const td_graph *g, int i);

/* ---- tokens (tokens.c, tokens_nested.c) --------------------------------- */

td_gval *td__token_input(td_graph *g, int chain); /* appends an input <token chain> */
/* A new result `at` of n, a token; NULL after td__fail. */
td_gval *td__token_result(td_graph *g, td_gnode *n, int at);
/* Threads the calls of g, beginning with token *last, which becomes that of the end. */
bool     td__tokens_thread(td_graph *g, td_gval **last, int chain);
/* The reverse, without inputs and outputs; sets *any if there is a call. */
bool     td__tokens_unthread(td_graph *g, bool *any);
/* Gives n, a branch or loop that takes a token, the token `last`. Returns the one
 * behind it; NULL after td__fail. */
td_gval *td__token_nested(td_graph *g, td_gnode *n, td_gval *last, int chain);
bool     td__token_is_nested(const td_gnode *n); /* has a branch or loop a token? */
bool     td__token_unnest(td_graph *g, td_gnode *n);

/* ---- facts for passes (effects.c) --------------------------------------- */

/* Alias facts by value id, from one backward pass over what results may share
 * with arguments. */
typedef struct td_effects {
    bool *written;  /* its storage is written in the graph */
    bool *escapes;  /* it, or a view of it, is an output */
    bool *returned; /* it is an output itself */
    bool *moved;    /* its metadata is written, so its type holds only until then */
} td_effects;
bool td__effects_make(td_effects *e, const td_graph *g, td_arena *a);

/* Zeroed memory for a pass, in its arena. NULL after td__fail. */
void *td__pass_alloc(td_graph *g, td_arena *a, size_t n, size_t item);

#endif
