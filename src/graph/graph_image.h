/* graph/graph_image.h -- a graph in binary form, which is read many times faster than
 * text. For the disk cache, written and read by the same build of the library.
 * The reader trusts nothing: every number is checked.
 *
 * An image omits what its reader has: source lines are those of the nodes of
 * `from`, the program the graph was made of, and consts are that graph's. */
#ifndef TD_IMAGE_H
#define TD_IMAGE_H

#include "base/bytes.h"
#include "graph/graph.h"

/* A writer. */
typedef struct td_image {
    td_buf         *b;
    const td_graph *from; /* NULL: everything is written out */
    bool            bare; /* for comparison: only names of inputs, no source lines */
    int32_t        *slot; /* hash table of source lines: 1 + node of `from`; 0: free */
    uint32_t        mask; /* slots - 1 */
    const char     *why;  /* reason it cannot be written; NULL: out of memory */
    int             deep; /* nesting of the graph being written */
    TD_VEC(const td_graph *) done; /* nested graphs of the outermost one so far */
    int32_t *nr; /* by value id of that graph: its number in the image */
} td_image;

/* False: out of memory. Call td__image_end in either case. */
bool           td__image_begin(td_image *m, td_buf *b, const td_graph *from, bool bare);
void           td__image_end(td_image *m);
bool           td__image_graph(td_image *m, const td_graph *g);
/* NULL: the image is invalid and r->bad is set; an error in the context is
 * meaningless. */
td_graph      *td__image_read(td_reader *r, td_ctx *cx, const td_graph *from);
/* A size: a number, or a valid symbolic size of g. */
int64_t        td__get_dim(td_reader *r, const td_graph *g);
/* n of them, in the arena. */
const int64_t *td__get_dims(td_reader *r, td_arena *a, const td_graph *g, int n);

#endif
