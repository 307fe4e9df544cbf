/* engine.h -- one backward walk: what engine.c and backward.c share. */
#ifndef TD_ENGINE_H
#define TD_ENGINE_H

#include "eager/eager_int.h"

#include <stdio.h>

typedef struct td_walk td_walk;

/* A request for a gradient: that of result nr is stored in *to, with a
 * reference. */
typedef struct td_capture {
    struct td_capture *next;
    int                nr;
    td_tensor        **to;
} td_capture;

/* A node's record in one walk. In the arena td_eager.walks; references its
 * node. */
struct td_rec {
    td_node    *node;
    td_walk    *walk;
    td_rec     *hides;   /* the node's record in an outer walk; restored at the end */
    int32_t     deps;    /* edges into the node that have not delivered yet */
    int32_t     next;    /* the edge to explore next */
    bool        seen;    /* exploration reached it */
    bool        wanted;  /* must run: it leads to a requested gradient */
    bool        reached; /* an edge delivered, with a gradient or without */
    td_capture *capture; /* requested gradients of its results */
    td_tensor  *one, **buf; /* sums of gradients by result, referenced */
};

struct td_walk {
    td_ctx       *cx;
    bool          keep;      /* retain_graph: saved values stay */
    bool          create;    /* create_graph: the backward itself is recorded */
    bool          some;      /* run only nodes that lead to requested gradients */
    bool          holes;     /* a NULL gradient of a root is absent, not 1 */
    bool          stop;      /* do not continue beyond requested gradients */
    bool          explained; /* the error message names its forward op already */
    td_walk_lists lists;     /* work lists */
};

/* A walk: begin; enter and explore each root; add and arrive each root's gradient; run;
 * end. Functions return false after td__fail; td__walk_end is called in any case. */
void    td__walk_begin(td_walk *w);
/* The record of n in this walk, made on first use. */
td_rec *td__walk_enter(td_walk *w, td_node *n); /* NULL after td__fail */
/* Finds all nodes reachable from a root, counts their dependencies and marks those
 * that must run. */
bool    td__walk_explore(td_walk *w, td_rec *root);
/* Adds g to the gradient of result nr; takes over one reference. */
bool    td__walk_add(td_walk *w, td_rec *r, int nr, td_tensor *g);
/* One edge into r has delivered; the last one makes r ready. */
bool    td__walk_arrive(td_walk *w, td_rec *r);
/* Runs ready nodes, latest first, until none is left. */
bool    td__walk_run(td_walk *w);
void    td__walk_end(td_walk *w);

#endif
