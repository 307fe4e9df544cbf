/* kernels/lapack.h -- LAPACK as OpenBLAS has it, and what kernels over stacks of
 * matrices share. Matrices are column-major; sizes are 32-bit. */
#ifndef TD_LAPACK_H
#define TD_LAPACK_H

#include "ops/ops.h"

#include <stddef.h>

/* Fortran routines of real and complex dtypes. Every string argument has its length at
 * the end. */
#define TD_LAPACK_ALL_ROUTINES(p)                                                      \
    void p##geqrf_(const int *m, const int *n, void *a, const int *lda, void *tau,     \
                   void *work, const int *lwork, int *info);                           \
    void p##potrf_(const char *uplo, const int *n, void *a, const int *lda, int *info, \
                   size_t);                                                            \
    void p##getrf_(const int *m, const int *n, void *a, const int *lda, int *pivots,   \
                   int *info);                                                         \
    void p##getri_(const int *n, void *a, const int *lda, const int *pivots,           \
                   void *work, const int *lwork, int *info);                           \
    void p##getrs_(const char *trans, const int *n, const int *k, const void *a,       \
                   const int *lda, const int *pivots, void *b, const int *ldb,         \
                   int *info, size_t);
TD_LAPACK_ALL_ROUTINES(s)
TD_LAPACK_ALL_ROUTINES(d)
TD_LAPACK_ALL_ROUTINES(c)
TD_LAPACK_ALL_ROUTINES(z)
#undef TD_LAPACK_ALL_ROUTINES

/* Those of real dtypes. */
#define TD_LAPACK_ROUTINES(p)                                                         \
    void p##orgqr_(const int *m, const int *n, const int *k, void *a, const int *lda, \
                   const void *tau, void *work, const int *lwork, int *info);         \
    void p##ormqr_(const char *side, const char *trans, const int *m, const int *n,   \
                   const int *k, const void *a, const int *lda, const void *tau,      \
                   void *c, const int *ldc, void *work, const int *lwork, int *info,  \
                   size_t, size_t);                                                   \
    void p##syevd_(const char *job, const char *uplo, const int *n, void *a,          \
                   const int *lda, void *w, void *work, const int *lwork, int *iwork, \
                   const int *liwork, int *info, size_t, size_t);                     \
    void p##gesdd_(const char *job, const int *m, const int *n, void *a,              \
                   const int *lda, void *s, void *u, const int *ldu, void *vt,        \
                   const int *ldvt, void *work, const int *lwork, int *iwork,         \
                   int *info, size_t);                                                \
    void p##sytrf_(const char *uplo, const int *n, void *a, const int *lda,           \
                   int *pivots, void *work, const int *lwork, int *info, size_t);     \
    void p##sytrs_(const char *uplo, const int *n, const int *k, const void *a,       \
                   const int *lda, const int *pivots, void *b, const int *ldb,        \
                   int *info, size_t);                                                \
    void p##gels_(const char *trans, const int *m, const int *n, const int *k,        \
                  void *a, const int *lda, void *b, const int *ldb, void *work,       \
                  const int *lwork, int *info, size_t);                               \
    void p##gelsy_(const int *m, const int *n, const int *k, void *a, const int *lda, \
                   void *b, const int *ldb, int *jpvt, const void *rcond, int *rank,  \
                   void *work, const int *lwork, int *info);                          \
    void p##gelss_(const int *m, const int *n, const int *k, void *a, const int *lda, \
                   void *b, const int *ldb, void *s, const void *rcond, int *rank,    \
                   void *work, const int *lwork, int *info);                          \
    void p##gelsd_(const int *m, const int *n, const int *k, void *a, const int *lda, \
                   void *b, const int *ldb, void *s, const void *rcond, int *rank,    \
                   void *work, const int *lwork, int *iwork, int *info);
TD_LAPACK_ROUTINES(s)
TD_LAPACK_ROUTINES(d)
#undef TD_LAPACK_ROUTINES

/* The eigenvalues of a real matrix are two lists, real parts and imaginary parts. */
#define TD_LAPACK_EIG_ROUTINES(p)                                                     \
    void p##geev_(const char *left, const char *right, const int *n, void *a,         \
                  const int *lda, void *wr, void *wi, void *vl, const int *ldvl,      \
                  void *vr, const int *ldvr, void *work, const int *lwork, int *info, \
                  size_t, size_t);
TD_LAPACK_EIG_ROUTINES(s)
TD_LAPACK_EIG_ROUTINES(d)
#undef TD_LAPACK_EIG_ROUTINES

/* Those of complex dtypes: what orgqr, syevd, gesdd and geev are for real ones. */
#define TD_LAPACK_COMPLEX_ROUTINES(p)                                                  \
    void p##gesdd_(const char *job, const int *m, const int *n, void *a,               \
                   const int *lda, void *s, void *u, const int *ldu, void *vt,         \
                   const int *ldvt, void *work, const int *lwork, void *rwork,         \
                   int *iwork, int *info, size_t);                                     \
    void p##geev_(const char *left, const char *right, const int *n, void *a,          \
                  const int *lda, void *w, void *vl, const int *ldvl, void *vr,        \
                  const int *ldvr, void *work, const int *lwork, void *rwork,          \
                  int *info, size_t, size_t);                                          \
    void p##ungqr_(const int *m, const int *n, const int *k, void *a, const int *lda,  \
                   const void *tau, void *work, const int *lwork, int *info);          \
    void p##heevd_(const char *job, const char *uplo, const int *n, void *a,           \
                   const int *lda, void *w, void *work, const int *lwork, void *rwork, \
                   const int *lrwork, int *iwork, const int *liwork, int *info,        \
                   size_t, size_t);
TD_LAPACK_COMPLEX_ROUTINES(c)
TD_LAPACK_COMPLEX_ROUTINES(z)
#undef TD_LAPACK_COMPLEX_ROUTINES

/* Calls the routine for dt, which may be complex. */
#define TD_LAPACK_ALL(dt, name, ...)                      \
    do {                                                  \
        if ((dt) == TD_C128) z##name##_(__VA_ARGS__);     \
        else if ((dt) == TD_C64) c##name##_(__VA_ARGS__); \
        else if ((dt) == TD_F64) d##name##_(__VA_ARGS__); \
        else s##name##_(__VA_ARGS__);                     \
    } while (0)

/* Calls the routine for a real dt. */
#define TD_LAPACK(dt, name, ...)                     \
    do {                                             \
        if ((dt) == TD_F64) d##name##_(__VA_ARGS__); \
        else s##name##_(__VA_ARGS__);                \
    } while (0)

/* Calls the routine for a complex dt. */
#define TD_LAPACK_COMPLEX(dt, name, ...)              \
    do {                                              \
        if ((dt) == TD_C128) z##name##_(__VA_ARGS__); \
        else c##name##_(__VA_ARGS__);                 \
    } while (0)

/* ---- stacks of matrices (matrix_stack.c) --------------------------------- */

/* How many matrices t has: the product of all sizes but the last two. */
int64_t    td__stack_count(const td_tensor *t);
/* The address of the matrix of t that belongs to matrix i of `of`, whose leading sizes
 * those of t broadcast to. The last `tail` dims of t are one entry of it. */
char      *td__stack_at(const td_tensor *t, int tail, const td_tensor *of, int64_t i);
/* t itself if its matrices are column-major and dense, else such a copy, which *own
 * then names for td_drop. NULL: no memory. */
td_tensor *td__columns_of(td_opcall *c, td_tensor *t, td_tensor **own);
/* A dense copy of t with the dtype it has, or t; as above. */
td_tensor *td__dense_of(td_opcall *c, td_tensor *t, td_tensor **own);
/* An uninitialized column-major tensor with the sizes of t, to be dropped. */
td_tensor *td__columns_copy(td_opcall *c, const td_tensor *t);
/* Do the sizes of t fit LAPACK's integers? False after td__op_fail. */
bool       td__fits_lapack(td_opcall *c, const td_tensor *t);

/* Computes matrix i of a job; false: no memory. Runs on any thread. */
typedef bool td_matrix_fn(void *job, int64_t i);
/* Runs fn for each of `count` matrices of about `work` multiply-adds, on the pool, with
 * OpenBLAS on one thread each. False after td__fail_memory. */
bool         td__each_matrix(td_opcall *c, int64_t count, double work, td_matrix_fn *fn,
                             void *job);
/* Fails for the first matrix whose info is not 0: "matrix 3 of A f32[4,2,2]: RULE
 * INFO". */
bool         td__check_infos(td_opcall *c, const int32_t *info, int64_t count,
                             const char *rule);

/* The workspace a query returned in its first element. */
int   td__lapack_work(td_dtype dt, const void *answer);
/* A block of `n` elements of dt and `ints` integers, and its bytes for td__block_free;
 * NULL: no memory. */
void *td__lapack_block(td_dtype dt, int64_t n, int64_t ints, size_t *bytes);

#endif
