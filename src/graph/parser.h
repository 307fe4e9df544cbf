/* graph/parser.h -- what the files of the parser share. All functions return
 * false (NULL) after an error, which the lexer has recorded. */
#ifndef TD_PARSER_H
#define TD_PARSER_H

#include "core/typed.h"
#include "graph/lexer.h"

/* A list result, `%p... = split(...)`: %p.0, %p.1... are added to the node when
 * they are first read, because the text does not say how many there are. */
typedef struct td_open_list {
    td_gnode *node;
    int       cap;
} td_open_list;

/* The function or case being read. */
typedef struct td_pbody {
    td_graph   *g;
    td_map      names;         /* of values */
    td_map      lists;         /* %p...: name to td_open_list */
    const char *file;          /* in the arena of g, for places */
    int         regions;       /* open regions */
    TD_VEC(td_gtype *) shared; /* types with @N; N is renumbered at the end */
    td_gcase *in_case;         /* NULL in a function */
    td_gstep  step;            /* in a case: options of the current statement */
} td_pbody;

typedef struct td_parser {
    td_lexer  lx;
    td_gfile *file;
    td_pbody *body;             /* the innermost */
    int       deep;             /* nested functions */
    int       typed;            /* nested types of the type being read */
    TD_VEC(td_graph *) defined; /* nested functions of this one that are complete */
} td_parser;

/* parse_args.c */
bool     td__parse_dim(td_parser *ps, int64_t *dim);
bool     td__parse_type(td_parser *ps, const td_gtype **type);
bool     td__parse_arg(td_parser *ps, td_garg *a);
bool     td__parse_integer(td_parser *ps, int64_t *i);
bool     td__parse_bool(td_parser *ps, bool *on);
td_gval *td__parse_read(td_parser *ps);               /* %x: a defined value */
td_desc  td__parse_desc(td_parser *ps);               /* <...>, or plain */
bool     td__parse_nested(td_parser *ps, td_garg *a); /* func (...) {...} */
bool     td__parse_defined(td_parser *ps,
                           td_garg   *a); /* @f, a nested function defined before */

/* parse_call.c */
typedef struct td_results {
    TD_VEC(const char *) names; /* in the graph's arena */
    bool more;                  /* one name, for a list */
} td_results;
bool td__parse_results(td_parser *ps, td_results *r); /* %a, %b =; or nothing */
bool td__parse_call(td_parser *ps, const td_results *r, td_gnode **out);
bool td__parse_name(td_parser *ps, td_gval *v, const char *name);
/* Reads a literal after the word `tensor`; the caller owns a reference to *t. */
bool td__parse_literal(td_parser *ps, td_tensor **t);
bool td__parse_statement(td_parser *ps); /* in a function or a case */
bool td__parse_line_end(td_parser *ps);

/* case_parse.c */
bool td__parse_case(td_parser *ps);
/* A statement only cases have; *done: it was one. */
bool td__parse_case_step(td_parser *ps, const td_results *r, bool *done);
bool td__parse_add_step(td_parser *ps, td_gstep step);

/* case_options.c */
bool td__parse_step_option(td_parser *ps, bool *done); /* seed=3 ... */
bool td__parse_options(td_parser *ps, td_gstep *s);    /* those behind s, if any */
void td__text_options(td_buf *b, const td_gstep *s, const char *before);

/* graph_parse.c */
bool td__body_begin(td_parser *ps, td_pbody *b, const char *name);
bool td__body_finish(td_parser *ps); /* regions closed, storages numbered */
void td__body_end(td_parser *ps, td_pbody *b, td_pbody *outer);

#endif
