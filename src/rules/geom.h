/* rules/geom.h -- geometry shared by view rules, their inverses and their kernels.
 * A `part` function narrows a meta to what the view of the same name shows; it is
 * used on `self` by the view and on the result by its inverse and its backward. */
#ifndef TD_GEOM_H
#define TD_GEOM_H

#include "ops/ops.h"

/* Sizes asked for with at most one -1, which is replaced; false after td__fail. */
bool td__infer_sizes(td_opcall *c, const td_value *want, int64_t numel, int64_t *size);

/* A new dim of size 1 at `dim`, for which there must be room. */
void td__insert_dim(td_meta *m, int dim);

/* How many bytes the storage of t has for a geometry over it: INT64_MAX where that is
 * checked when the program runs. */
int64_t td__storage_room(const td_tensor *t);

/* Narrow m to what the view shows. args: as in the schema of the view, after `self`.
 * False after td__fail. */
bool td__select_part(td_opcall *c, td_meta *m, int64_t dim, int64_t index);
bool td__slice_part(td_opcall *c, td_meta *m, const td_value *args);
bool td__diagonal_part(td_opcall *c, td_meta *m, const td_value *args);
/* ... over a storage of so many bytes. */
bool td__as_strided_part(td_opcall *c, td_meta *m, const td_value *args, int64_t bytes);

/* A tensor struct on the stack that shows part of t's storage, for td__copy_into and
 * td__fill inside kernels. It owns nothing, is in no scope and must not leave the
 * kernel. */
typedef struct td_window {
    td_tensor t;
    int64_t   dims[2 * TD_MAX_RANK];
} td_window;
td_tensor *td__window(td_window *w, const td_tensor *t, const td_meta *m);

/* Does (size, stride) walk channels fastest, as ATen's channels_last? */
bool td__is_channels_last(const td_tensor *t);
void td__strides_channels_last(int rank, const int64_t *size, int64_t *stride);

#endif
