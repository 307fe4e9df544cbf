/* tandem/tree.h -- nested lists, tuples and named dictionaries of values. A tree is
 * built once and read from then on; flat, it is its leaves in order and a spec, a
 * line of text that says how they hang together:
 *
 *     {bias: *, weight: *, steps: [*, (*, *)]}
 *
 * Two trees with equal specs have the same shape, and a spec with as many values is a
 * tree again. */
#ifndef TANDEM_TREE_H
#define TANDEM_TREE_H

#include "tandem/capture.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_tree td_tree;

typedef enum td_tree_kind {
    TD_TREE_LEAF,
    TD_TREE_LIST,
    TD_TREE_TUPLE,
    TD_TREE_DICT
} td_tree_kind;

/* An empty tree; nil after a failure. It keeps its tensors alive. td_close drops it
 * if td_tree_drop did not. */
TD_API td_tree *td_tree_make(td_ctx *cx);
TD_API void     td_tree_drop(td_tree *t); /* NULL is allowed */

/* ---- building: in the order of the leaves ------------------------------- */

/* key names the entry inside a dictionary, where keys are unique; elsewhere it is
 * NULL. At the top a tree has one entry. False after a failure. */
TD_API bool td_tree_begin(td_tree *t, td_tree_kind kind, const char *key);
TD_API bool td_tree_end(td_tree *t);
TD_API bool td_tree_put(td_tree *t, const char *key, td_value leaf);
#define td_tree_add(t, key, x) td_tree_put((t), (key), TD_V(x))

/* ---- flat and back ------------------------------------------------------ */

/* Both are borrowed from the tree; NULL and no values if the tree is not complete. */
TD_API const char *td_tree_spec(td_tree *t);
TD_API td_values   td_tree_leaves(td_tree *t);
/* nil after a failure: TD_E_ARG names the column of a wrong spec, or both counts. */
TD_API td_tree    *td_tree_from(td_ctx *cx, const char *spec, td_values leaves);

/* ---- reading ------------------------------------------------------------ */

/* Entries are numbers, the top is 0. A path like "layers.2.weight" leads to one;
 * "" is the top; -1 when there is none. A key with a dot in it is not found so. */
TD_API int          td_tree_find(const td_tree *t, const char *path);
TD_API td_tree_kind td_tree_kind_of(const td_tree *t, int at);
TD_API int          td_tree_length(const td_tree *t, int at);       /* entries of it */
TD_API int          td_tree_entry(const td_tree *t, int at, int i); /* -1: none */
TD_API const char  *td_tree_key(const td_tree *t, int at);   /* NULL: not in a dict */
TD_API td_value     td_tree_value(const td_tree *t, int at); /* of a leaf, or absent */

#ifdef __cplusplus
}
#endif

#endif
