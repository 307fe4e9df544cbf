/* rules/matrix_args.h -- checks and layouts shared by the rules of linear algebra, and
 * short names for products of stacks of matrices. */
#ifndef TD_MATRIX_ARGS_H
#define TD_MATRIX_ARGS_H

#include "rules/rule_arith.h"

/* Argument i has at least two dims, and for LAPACK's sake f32, f64 or a complex dtype,
 * which only reaches rows that take it. */
bool td__want_matrix(td_opcall *c, int i);
bool td__want_matrix_dims(td_opcall *c, int i); /* of any dtype */
/* ... and the last two sizes are equal. */
bool td__want_square(td_opcall *c, int i);
/* Arguments i and k have one dtype. */
bool td__want_same_dtype(td_opcall *c, int i, int k);
/* The string argument i is one of the words; false after td__op_fail. */
bool td__want_word(td_opcall *c, int i, const char *const *words, int n);

/* A fresh stack of column-major matrices. */
void td__meta_columns(td_meta *m, td_dtype dt, int rank, const int64_t *size);
/* A fresh empty vector, for results that are not computed. */
void td__meta_none(td_meta *m, td_dtype dt);

/* Is B, an argument of linalg_solve, a stack of vectors? If it has one dim, or the
 * sizes of A without the last. */
bool td__is_vector_rhs(const td_tensor *a, const td_tensor *b);

/* max(atol, rtol * the greatest) of singular values s, in: self, atol, rtol: with the
 * defaults of linalg_matrix_rank and linalg_pinv. Singular values above it count. */
td_tensor *td__rank_tolerance(td_opcall *c, td_tensor *s);

/* Transposes of stacks, and products of them. Nil gives nil. */
static inline td_tensor *t_mT(td_tensor *t) { return td_op_transpose(t, -2, -1); }
/* Conjugate transposes; of real tensors transposes. */
static inline td_tensor *t_mH(td_tensor *t) {
    bool complex = td__is_complex((td_dtype)t->dtype);
    return complex ? td_op_conj(t_mT(t)) : t_mT(t);
}
static inline td_tensor *t_mm(td_tensor *a, td_tensor *b) { return td_op_matmul(a, b); }
static inline td_tensor *t_neg(td_tensor *t) { return td_op_neg(t); }
/* v [.., n] as a row of the columns of a stack [.., m, n], or as a column of rows. */
static inline td_tensor *t_row(td_tensor *v) { return td_op_unsqueeze(v, -2); }
static inline td_tensor *t_col(td_tensor *v) { return td_op_unsqueeze(v, -1); }

#endif
