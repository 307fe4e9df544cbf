/* tandem/sparse.h -- properties of sparse tensors. A sparse tensor is a tensor of one
 * of two types (tandem/type.h): sparse_coo has the indices and values of its entries,
 * sparse_csr those of the rows of a matrix. Ops make, convert and compute with them
 * (tandem/ops.h): td_sparse_coo_tensor, td_sparse_csr_tensor, td_to_sparse,
 * td_to_sparse_csr, td_to_dense, td_coalesce, td_indices, td_values, td_crow_indices,
 * td_col_indices, td_sparse_mask, td_sparse_mm, td_sparse_addmm,
 * td_sparse_sampled_addmm, td_sparse_sum; td_embedding gives sparse gradients.
 *
 *     int64_t    at[] = {0, 1, 1, 2, 0, 2};
 *     td_tensor *i = td_from(cx, TD_I64, TD_SHAPE(2, 3), at);
 *     td_tensor *v = td_tensor1(cx, 3, 4, 5);
 *     td_tensor *a = td_sparse_coo_tensor(i, v, TD_SHAPE(2, 3));
 *     td_tensor *y = td_sparse_mm(a, x);
 *
 * docs/sparse.md is the guide. */
#ifndef TANDEM_SPARSE_H
#define TANDEM_SPARSE_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

TD_API bool    td_is_sparse(const td_tensor *t);     /* a sparse_coo tensor */
TD_API bool    td_is_sparse_csr(const td_tensor *t); /* a sparse_csr tensor */
/* A sparse_coo tensor whose entries are sorted and each at a place of its own? */
TD_API bool    td_is_coalesced(const td_tensor *t);
/* How many leading dims have indices: 2 of a sparse_csr tensor, 0 of a plain one. */
TD_API int     td_sparse_dim(const td_tensor *t);
/* How many entries it has; 0 of a plain tensor. In a captured body a number, for which
 * the code is specialized. */
TD_API int64_t td_nnz(const td_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
