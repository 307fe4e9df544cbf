/* kernels/index_walk.h -- the one engine of the index family. Gather, scatter, index,
 * embedding and the rest are the same walk over three operands: an index, the tensor it
 * points into (data), and the elements that are moved there or from there (other). The
 * kernels differ in the strides they pass only. */
#ifndef TD_INDEX_WALK_H
#define TD_INDEX_WALK_H

#include "rules/index_args.h"

enum { TD_SPOT_INDEX, TD_SPOT_DATA, TD_SPOT_OTHER, TD_SPOT_OPERANDS };

typedef enum td_spot_op {
    TD_SPOT_GATHER, /* other = data */
    TD_SPOT_PUT,    /* data = other */
    TD_SPOT_ADD,    /* data += alpha * other */
    TD_SPOT_MUL,
    TD_SPOT_MAX,
    TD_SPOT_MIN
} td_spot_op;

/* A walk over `size`. Element p touches data at its own place plus `along` times
 * the index at p. Strides in elements; an index of int64_t or int32_t. */
typedef struct td_spots {
    int      rank;
    int64_t  size[TD_MAX_RANK];
    int64_t  stride[TD_SPOT_OPERANDS][TD_MAX_RANK];
    char    *ptr[TD_SPOT_OPERANDS];
    int64_t  along;
    int64_t  limit; /* added to negative indices */
    bool     wide;  /* the index is int64_t */
    td_dtype dtype; /* of data and other */
    td_value alpha; /* of ADD */
} td_spots;

/* Indices must have been checked. GATHER may use threads; the others go in order. */
void td__spots_run(td_spots *s, td_spot_op op);

/* Are all values within 0..limit, or -limit..limit? False after td__fail, naming
 * the first bad one and where it is. */
bool td__index_check(td_opcall *c, const td_tensor *index, int64_t limit, bool negative,
                     int dim);
/* The value at linear position p of a checked index, for slow paths. */
int64_t td__index_at(const td_tensor *index, int64_t p);

/* dst += src, same dtype and sizes, in row-major order. */
void td__spots_sum(const td_tensor *dst, const td_tensor *src);

#endif
