/* rules/vjp_matrix.h -- derivatives of LU factors, which several ops of linear algebra
 * return. */
#ifndef TD_VJP_MATRIX_H
#define TD_VJP_MATRIX_H

#include "ops/ops.h"

/* P x, or P^T x, for the exchanges of rows that linalg_lu_factor made. */
td_tensor *td__permute_rows(td_tensor *x, td_tensor *pivots, bool transposed);
/* The gradient of A from g, that of its LU factors. */
td_tensor *td__lu_grad(td_tensor *lu, td_tensor *pivots, td_tensor *g);

#endif
