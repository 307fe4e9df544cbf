/* graph/image.h -- a graph as bytes: what its text says, in a form that is read many
 * times faster. For files of our own, which one build of the library writes and reads;
 * text is for all else. Nothing is believed of what is read: every number is checked.
 *
 * An image leaves out what its reader has: places in the user's source are those of the
 * nodes of `from`, a graph that it was made of, and tensors are that graph's consts. */
#ifndef TD_IMAGE_H
#define TD_IMAGE_H

#include "base/bytes.h"
#include "graph/graph.h"

typedef struct td_image {
    td_buf         *b;
    const td_graph *from; /* NULL: all is written out */
    bool            bare; /* to be compared: no names but inputs', no places */
    int32_t        *slot; /* by place: 1 + the node of `from` */
    uint32_t        mask;
    const char     *why; /* it cannot be written; NULL: no memory */
    int             deep;
    int32_t        *nr; /* by id of the graph at work: its number in the image */
} td_image;

/* False: no memory. Needs _end either way. */
bool           td__image_begin(td_image *m, td_buf *b, const td_graph *from, bool bare);
void           td__image_end(td_image *m);
bool           td__image_graph(td_image *m, const td_graph *g);
/* NULL: the reader is bad; what is said in the context then means nothing. */
td_graph      *td__image_read(td_reader *r, td_ctx *cx, const td_graph *from);
/* A number, or a symbolic size of g. */
int64_t        td__get_dim(td_reader *r, const td_graph *g);
/* n of them, in the arena. */
const int64_t *td__get_dims(td_reader *r, td_arena *a, const td_graph *g, int n);

#endif
