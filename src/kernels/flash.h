/* flash.h -- attention by blocks, shared by its forward and backward kernels.
 *
 * Scores are computed transposed: a block has a row for each key and a column for
 * each query, S^T = K Q^T. Then every product reads its operands in place, only
 * the few queries of a block are transposed, and what softmax keeps per query is
 * a vector along the columns. Halves are converted to f32 by blocks. */
#ifndef TD_FLASH_H
#define TD_FLASH_H

#include "kernels/reduce.h"

/* TD_FLASH_TASK: multiply-adds below which a second thread does not pay. */
enum {
    TD_FLASH_QUERIES = TD_ATTEND_COLS, /* of a block */
    TD_FLASH_TASK = 1 << 17
};

/* One call. Tensors are [B,H,T,D], with S keys; the mask broadcasts to [B,H,T,S]. */
typedef struct td_flash {
    td_acc                 acc;   /* what it computes in: f32 or f64 */
    td_dtype               dtype; /* the same */
    int64_t                size;  /* of an element of it */
    const td_reduce_loops *loops;
    const td_float_loops  *f;
    const td_tensor       *q, *k, *v, *mask; /* mask may be NULL */
    bool                   causal;
    double                 scale;
    int64_t                heads; /* B*H */
    int64_t                t, s, d;
    int64_t                keys; /* of a block */
    int64_t                mask_step[4];
} td_flash;

/* Rows of D elements each, in the dtype of computation, ld elements apart. */
typedef struct td_flash_rows {
    char   *p; /* those of arguments are only read */
    int64_t ld;
} td_flash_rows;

/* A block of scores: queries [i, i+n) against keys [j, j+m). */
typedef struct td_flash_block {
    int64_t head, i, n, j, m;
} td_flash_block;

/* Takes q, k, v and the mask from arguments first .. first+3, and is_causal and
 * scale from last and last+1. */
void td__flash_init(td_flash *f, const td_opcall *c, int first, int last);

/* Cuts one thread's working memory into n pieces of these numbers of elements, from
 * p on; how many bytes they take. With p NULL nothing is set. */
int64_t td__flash_cut(const td_flash *f, char *p, const int64_t *counts,
                      char **const *to, int n);

/* Rows [r, r+n) of head h of t, given as {h, r, n}. */
typedef struct td_flash_span {
    int64_t head, row, n;
} td_flash_span;
char *td__flash_at(const td_flash *f, const td_tensor *t, int64_t head, int64_t row);
/* Can a library use n such rows where they are? */
bool  td__flash_in_place(const td_flash *f, const td_tensor *t, int64_t n);
/* In place, or in buf. */
td_flash_rows td__flash_rows(const td_flash *f, const td_tensor *t, td_flash_span s,
                             void *buf);
/* Writes finished rows, D elements each, to t. */
void          td__flash_store(const td_flash *f, const td_tensor *t, td_flash_span s,
                              const char *rows);
/* to[d][i] = rows[i][d] for n rows. */
void td__flash_transpose(const td_flash *f, td_flash_rows rows, int64_t n, void *to);

/* How many keys the queries before i can see. */
int64_t td__flash_seen(const td_flash *f, int64_t i);
/* to = A B^T for a block: A has a row per key, `transposed` is B^T and has a column per
 * query. */
void    td__flash_product(const td_flash *f, td_flash_block b, td_flash_rows a,
                          const void *transposed, double scale, void *to);
/* to = scale * K Q^T + mask, hidden scores being -inf; buf has room for a block. */
void    td__flash_scores(const td_flash *f, td_flash_block b, td_flash_rows k,
                         const void *transposed, void *to, void *buf);
/* to (+)= X^T rows for a block X: a row per query of the keys' rows. */
void    td__flash_gather(const td_flash *f, td_flash_block b, const void *x,
                         td_flash_rows rows, bool add, void *to);

#endif
