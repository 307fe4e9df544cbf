/* engine.h -- one backward walk, between engine.c and backward.c. */
#ifndef TD_ENGINE_H
#define TD_ENGINE_H

#include "eager/eager_int.h"

#include <stdio.h>

typedef struct td_walk td_walk;

/* A gradient asked for: that of result nr goes to *to, held. */
typedef struct td_capture {
    struct td_capture *next;
    int                nr;
    td_tensor        **to;
} td_capture;

/* A node in one walk; lives in the walks' arena and holds its node. */
struct td_rec {
    td_node    *node;
    td_walk    *walk;
    td_rec     *hides;      /* the node's record in an outer walk */
    int32_t     deps;       /* gradients still to arrive */
    int32_t     next;       /* the edge to explore next */
    bool        seen;       /* explored, or being so */
    bool        wanted;     /* has to run */
    bool        reached;    /* from a root, by whatever came */
    td_capture *capture;    /* gradients of its results that are asked for */
    td_tensor  *one, **buf; /* gradients of its results so far, held */
};

struct td_walk {
    td_ctx      *cx;
    bool         keep;      /* saved values stay */
    bool         create;    /* gradients are recorded */
    bool         some;      /* only what leads to the captures runs */
    bool         stop;      /* gradients go no further than where they are asked for */
    bool         explained; /* the failure names its forward op */
    td_walk_room room;
};

void    td__walk_begin(td_walk *w);
td_rec *td__walk_enter(td_walk *w, td_node *n); /* NULL after td__fail */
bool    td__walk_explore(td_walk *w, td_rec *root);
bool    td__walk_add(td_walk *w, td_rec *r, int nr, td_tensor *g);
bool    td__walk_arrive(td_walk *w, td_rec *r);
bool    td__walk_run(td_walk *w);
void    td__walk_end(td_walk *w);

#endif
