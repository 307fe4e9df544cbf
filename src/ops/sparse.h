/* ops/sparse.h -- sparse tensors (docs/sparse.md): two types of tensors of the library.
 *
 * sparse_coo: indices i64[sparse dims, nnz], values [nnz, dense dims]; the metadata is
 * "coalesced" if places are sorted and differ, else "". Entries of one place add up.
 * sparse_csr: crow i64[rows + 1], col i64[nnz], values [nnz]; rows of a matrix.
 *
 * A gradient of a sparse tensor has each place once: where entries share one, the first
 * of them has the gradient, and the others zero. So the sizes of inner tensors follow
 * from those of the arguments, except in to_sparse and coalesce. */
#ifndef TD_SPARSE_H
#define TD_SPARSE_H

#include "core/typed.h"
#include "ops/ops.h"

enum { TD_COO_INDICES, TD_COO_VALUES, TD_COO_PARTS };
enum { TD_CSR_CROW, TD_CSR_COL, TD_CSR_VALUES, TD_CSR_PARTS };

/* Registers both types. False: out of memory. Idempotent; called by td__table_init. */
bool td__sparse_init(void);

bool td__is_coo(const td_tensor *t);
bool td__is_csr(const td_tensor *t);
bool td__is_sparse(const td_tensor *t); /* either */
/* Has each place one entry, in order? Also true of a sparse_csr tensor. */
bool td__is_coalesced(const td_tensor *t);
/* How many leading dims have indices. */
int  td__sparse_dims(const td_tensor *t);

/* All of these give nil after td__fail. Parts are inner tensors, for reading. */
td_tensor *td__sparse_part(td_tensor *t, int i);
td_tensor *td__sparse_values(td_tensor *t);
td_tensor *td__sparse_indices(td_tensor *t); /* [sparse dims, nnz], of CSR computed */
/* One index tensor for each sparse dim; how many, 0 after td__fail. */
int        td__sparse_places(td_tensor *t, td_tensor *to[TD_MAX_RANK]);
/* The row-major position of each entry in the sparse dims. */
td_tensor *td__sparse_flat(td_tensor *t);

/* Takes the parts as they are, unchecked. */
td_tensor *td__coo_wrap(td_tensor *indices, td_tensor *values, td_ints size,
                        bool coalesced);
td_tensor *td__csr_wrap(td_tensor *crow, td_tensor *col, td_tensor *values,
                        td_ints size);
/* The entries of t with other values, of their dtype. */
td_tensor *td__sparse_with(td_tensor *t, td_tensor *values);

/* On plain tensors or sparse ones, below autograd (sparse_arith.c). */
td_tensor *td__sparse_to_dense(td_tensor *t);
td_tensor *td__sparse_t(td_tensor *t);
td_tensor *td__sparse_as_coo(td_tensor *t);
/* The elements of g at the entries of `at`. */
td_tensor *td__sparse_values_at(td_tensor *g, td_tensor *at);
/* The values, but zero where an earlier entry has the place. */
td_tensor *td__sparse_once(td_tensor *t, td_tensor *values);
/* The plain product; one of the two is plain. */
td_tensor *td__sparse_product(td_opcall *c, td_tensor *a, td_tensor *b);

/* td_type_opts.call of both types: the ops of the table that sparse tensors have
 * (sparse_type.c). */
bool td__sparse_call(void *env, td_mode_call *h);

#endif
