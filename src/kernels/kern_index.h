/* kernels/kern_index.h -- how the kernels of the index family describe their walks;
 * shared by kern_index.c and kern_scatter.c. */
#ifndef TD_KERN_INDEX_H
#define TD_KERN_INDEX_H

#include "kernels/index_walk.h"

/* An empty walk over these operands; index or other may be NULL. */
void td__spots_start(td_spots *s, const td_tensor *index, const td_tensor *data,
                     const td_tensor *other);
/* One more inner dim: its size and the three operands' strides. */
void td__spots_dim(td_spots *s, int64_t size, int64_t index, int64_t data,
                   int64_t other);
/* index has the sizes of the walk (gather, scatter). other NULL: stands still. */
void td__spots_elements(td_spots *s, const td_tensor *index, const td_tensor *data,
                        const td_tensor *other, int dim);
/* index names whole entries of data along dim (index_select, index_add). */
void td__spots_entries(td_spots *s, const td_tensor *index, const td_tensor *data,
                       const td_tensor *other, int dim);

/* The index tensors of index and index_put, checked and ready to walk. */
typedef struct td_indices {
    td_index_plan    plan;
    const td_tensor *single; /* the only index, walked in place; else NULL */
    int64_t         *off;    /* offsets into data, by position; NULL with single */
    size_t           bytes;  /* of off */
} td_indices;
bool td__indices_open(td_opcall *c, td_indices *x, const td_tensor *data);
void td__indices_close(td_indices *x);
void td__indices_spots(const td_indices *x, td_spots *s, const td_tensor *data,
                       const td_tensor *other, const int64_t *stride);

#endif
