/* runtime/node_frame.h -- what a compiled node stores besides its saved values; private
 * to this directory. */
#ifndef TD_NODE_FRAME_H
#define TD_NODE_FRAME_H

#include "runtime/plan.h"

/* Part of the node's allocation, before its dims. */
typedef struct td_frame {
    td_plan  *p;     /* referenced */
    td_now   *sizes; /* referenced; NULL: all are numbers */
    uint64_t  seed, offset;
    /* Sets of tangents behind it: those that arrived last, those that did not, and all
     * whose saved values are gone. */
    uint64_t *now, *missing, *spent;
} td_frame;
enum { TD_FRAME_INTS = sizeof(td_frame) / sizeof(int64_t) };

static inline int td__frame_words(const td_plan *p) {
    return td__set_words(p->j->n_tangents);
}

/* The geometry of tangent i in the call. */
static inline const td_geom *td__tangent_geom(const td_plan *p, const td_now *sizes,
                                              int i) {
    return sizes ? &sizes->tangents[i] : &p->j->tangents[i].geom;
}

/* ---- layout.c ----------------------------------------------------------- */

/* Uninitialized, with these sizes and strides; nil on failure. */
td_tensor *td__empty_as(td_ctx *cx, const td_geom *g);
/* For an input whose elements are not read: a tensor of this type, uninitialized, whose
 * sizes bind symbols. g NULL, or without sizes: none is needed. False after td__fail.
 * */
bool       td__size_stand_in(td_ctx *cx, const td_geom *g, td_value *to);
/* Value i of the node, unpacked, in the layout compiled code was made for: a copy where
 * t has another. `of`: what one of a type consists of, NULL: a plain one. `beside`: the
 * code reads more of its storage than t shows. NULL after td__fail, also where dtype,
 * sizes or type differ, or that storage is not there. */
td_tensor *td__fit_unpacked(td_node *n, int i, td_tensor *t, const td_geom *want,
                            const td_gtyped *of, bool beside);
/* Has t this dtype and these sizes? */
bool       td__is_type(const td_tensor *t, const td_geom *want);
/* A copy of t, for value i of the node, in this layout; NULL after td__fail. */
td_tensor *td__copy_laid_out(td_node *n, int i, td_tensor *t, const td_geom *want);
/* A tangent in the layout the graph was made for, at the start of its storage. */
td_tensor *td__fit_tangent(td_ctx *cx, td_tensor *g, const td_geom *want);
/* Code wrote the tangent g as `fitted`, as a custom backward may: copies it back where
 * that is a copy. */
bool       td__write_tangent(td_tensor *g, td_tensor *fitted);

/* ---- donate.c ----------------------------------------------------------- */

void td__frame_release(td_node *n); /* frees saved values that no backward can read */
/* Before the backward code runs: counts the values its tangents read as used up. False:
 * retain_graph, another backward may read them. */
bool td__frame_spend(td_node *n);
/* Moves saved value i, unpacked as v, from the node to the innermost scope, if nobody
 * else can look at it or its storage: then the code may drop it. False: it stays, or
 * after td__fail. */
bool td__frame_donate(td_node *n, int i, const td_value *v);

/* ---- create_graph.c ----------------------------------------------------- */

/* The backward of a node that records a history (create_graph). */
bool td__node_run_next(td_node *n, td_tensor *const *g, const bool *need,
                       td_tensor **grads);

/* Does t have the wanted strides and offset, so that compiled code may read it? */
bool       td__has_layout(const td_tensor *t, const td_geom *want);
/* Tangent g of result i as one of the type that backward code was made for; `of` NULL:
 * a plain tensor. NULL after td__fail (typed_tangent.c). */
td_tensor *td__fit_typed(td_node *n, int i, td_tensor *g, const td_gtyped *of);
/* Has g that type, metadata and inner sizes? */
bool       td__is_of_type(const td_tensor *g, const td_gtyped *of);
/* Is it of that type, or does its own type convert it? */
bool       td__may_fit_typed(td_tensor *g, const td_gtyped *of);
/* The same of saved value i, unpacked; its type must be that of the saved one. */
td_tensor *td__fit_saved_typed(td_node *n, int i, td_tensor *t, const td_gtyped *of);
/* Tangent g of result i, NULL: a missing one, as code of graph `of` takes it. False
 * after td__fail (compiled_node.c). */
bool       td__take_tangent(td_node *n, const td_graph *of, int i, td_tensor *g,
                            td_value *to);
/* The type that the tangent of result i was traced with, in the sizes of the call;
 * NULL: a plain tensor. */
static inline const td_gtyped *td__tangent_typed(const td_plan *p, const td_now *sizes,
                                                 int i) {
    if (sizes) return sizes->typed[i];
    const td_gtype *l = p->j->g->inputs.v[p->j->n_primals + i]->type;
    return l ? l->of : NULL;
}

#endif
