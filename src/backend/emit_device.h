/* backend/emit_device.h -- the parts of loops in kernels of devices, private to the
 * files that write them. */
#ifndef TD_EMIT_DEVICE_H
#define TD_EMIT_DEVICE_H

#include "backend/emit.h"

/* Most threads of a block. */
enum { TD_LOOP_THREADS = 256 };

static inline const td_stmt *td__loop_stmt(const td_emit *e, int i) {
    return &e->n->stmt.v[i];
}

/* Elements that a thread takes at once. */
static inline int64_t td__loop_width(const td_emit *e) {
    return e->vector ? e->vector : 1;
}

/* int32_t if every index of the nest fits, as GPUs divide 64-bit numbers slowly. */
const char *td__loop_index_type(const td_nest *n);
/* Declares the indices of dims first..end, of which the last is fastest, from `from`.
 */
void td__loop_split_index(td_emit *e, const char *from, int first, int end, char name);
/* Declares a count of points: the product of the sizes of dims first..end. */
void td__loop_count(td_emit *e, const char *name, int first, int end);
/* A line that opens a block, and the brace that closes it. */
void td__loop_open(td_emit *e, const char *line);
void td__loop_close(td_emit *e);
/* Stores a value that is equal along some dims at their first index only. */
void td__loop_store_first(td_emit *e, int i);
/* The C type of the accumulator of a fold, and its declaration. */
const char *td__loop_acc_text(const td_stmt *s);
void        td__loop_declare_acc(td_emit *e, int i);
/* Folds `x` into `to`. */
void        td__loop_fold_into(td_emit *e, int i, const char *to, const char *x);
/* Declares v<i> from its accumulator. */
void        td__loop_declare_fold(td_emit *e, int i);
/* Folds acc<i> over the threads of a block; every thread then has v<i>. */
void        td__loop_fold_block(td_emit *e, int i);
/* The same for two folds, whose threads wait for each other once. */
void        td__loop_fold_two(td_emit *e, int i, int k);
/* The accumulators of COLUMN i in a part, as text: `inside` of them, or one. */
void        td__loop_part_text(const td_emit *e, int i, char *out, size_t cap);
bool        td__loop_is_column(const td_emit *e, int i, bool wide);
/* Names of the accumulators, and of the rows of a part. */
void        td__loop_parts(td_emit *e);
void        td__loop_part_rows(td_emit *e);
/* The elements of a vector of at most 16 bytes, if the nest has any; 0: none. A long
 * row may end with elements that are taken one by one. */
int         td__loop_vector_of(const td_nest *n, bool rows);
/* The same for what the first kernel accesses. */
int         td__loop_vector_of_main(const td_emit *e);
/* The types of vectors that the nest accesses. */
void        td__loop_declare_vectors(const td_emit *e, td_buf *to);
/* Stores and wide COLUMNs of this loop. */
bool        td__loop_ends_here(const td_emit *e, int i);
/* Declares the vectors of a loop, and reads those that it loads; stores them. */
void        td__loop_load_vectors(td_emit *e);
void        td__loop_store_vectors(td_emit *e);
/* Is statement i a vector that is read a row ahead? Where it is read. */
bool        td__loop_is_ahead(const td_emit *e, int i);
void        td__loop_fetch(td_emit *e, int i);

/* ---- emit_device_row.c */

/* Declares v<i>, a sum of one element. */
void td__row_one(td_emit *e, int i);
/* May what such sums read before this loop be written in it? */
bool td__row_needs_barrier(const td_emit *e, int stage);
/* Decides which rows are kept in so many bytes of shared memory; what they take. */
int  td__row_keep(td_emit *e, int64_t bytes);
/* Declares the memory of rows that are kept, and brings the row of that name. */
void td__row_declare_kept(td_emit *e);
void td__row_bring_first(td_emit *e, const char *row, const char *end);
/* Waits for them. */
void td__row_arrived(td_emit *e);
/* Brings the vectors of row `next`, which is before `end`, whose places this loop has
 * read last. */
void td__row_bring_next(td_emit *e, const char *next, const char *end);
bool td__row_is_kept(const td_emit *e, int i);

#endif
