/* index_walk.c -- the walk behind the index family (kernels/index_walk.h). Dims that
 * step evenly in all operands are joined, so that most walks become one or two loops;
 * the innermost dim is a line, which a typed loop runs. Gathers are split over threads,
 * since no two lines write one element; writes go in row-major order on one thread,
 * because equal indices must meet in that order. Index values are checked here as well,
 * before a kernel writes. */
#include "kernels/index_walk.h"
#include "kernels/loops/loops.h"
#include "rules/geom.h"

#include <math.h>
#include <string.h>

/* One line: n elements with constant steps, in elements. The index of element j is at
 * index[j * index_step]. */
typedef struct line {
    int64_t         n;
    const char     *index;
    int64_t         index_step, data_step, other_step, along, limit;
    bool            wide;
    char           *data, *other;
    const td_spots *s;
} line;
typedef void line_fn(const line *l);

/* The index of element j of a line; a negative one counts from `limit`. */
static inline int64_t pick(const line *l, int64_t j) {
    int64_t i = l->wide ? ((const int64_t *)(const void *)l->index)[j * l->index_step]
                        : ((const int32_t *)(const void *)l->index)[j * l->index_step];
    return i < 0 ? i + l->limit : i;
}

#define T uint8_t
#define NAME(x) x##_1
#define MOVE
#include "kernels/index_loops.h"
#define T uint16_t
#define NAME(x) x##_2
#define MOVE
#include "kernels/index_loops.h"
#define T uint32_t
#define NAME(x) x##_4
#define MOVE
#include "kernels/index_loops.h"
#define T uint64_t /* sums of i64 wrap */
#define NAME(x) x##_8
#define MOVE
#define FACTOR uint64_t
#define ALPHA(l) td__value_i((l)->s->alpha)
#include "kernels/index_loops.h"
#define T float
#define NAME(x) x##_f32
#define ORDERED
#define FACTOR float
#define ALPHA(l) td__value_f((l)->s->alpha)
#include "kernels/index_loops.h"
#define T double
#define NAME(x) x##_f64
#define ORDERED
#define FACTOR double
#define ALPHA(l) td__value_f((l)->s->alpha)
#include "kernels/index_loops.h"

#define T td_element_bits
#define NAME(x) x##_16
#define MOVE
#include "kernels/index_loops.h"
#define T float _Complex
#define NAME(x) x##_c64
#define FACTOR float
#define ALPHA(l) td__value_f((l)->s->alpha)
#include "kernels/index_loops.h"
#define T double _Complex
#define NAME(x) x##_c128
#define FACTOR double
#define ALPHA(l) td__value_f((l)->s->alpha)
#include "kernels/index_loops.h"

/* ---- reductions of any dtype, one element at a time --------------------- */

/* a op b, a being the element that is there. A NaN wins in maxima and minima, whichever
 * side it is on; of two zeros a stays, as in ATen, whatever their signs. */
static double reduce_f(td_spot_op op, double a, double b) {
    switch (op) {
    case TD_SPOT_ADD: return a + b;
    case TD_SPOT_MUL: return a * b;
    case TD_SPOT_MAX: return isnan(a) || a >= b ? a : b;
    case TD_SPOT_MIN: return isnan(a) || a <= b ? a : b;
    default: return b;
    }
}

/* a op b, wrapping; alpha scales b in sums only. */
static int64_t reduce_i(td_spot_op op, int64_t a, int64_t b, int64_t alpha) {
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (op) {
    case TD_SPOT_ADD: return (int64_t)(x + (uint64_t)alpha * y);
    case TD_SPOT_MUL: return (int64_t)(x * y);
    case TD_SPOT_MAX: return a > b ? a : b;
    case TD_SPOT_MIN: return a < b ? a : b;
    default: return b;
    }
}

/* alpha * b, rounded to the dtype as a product of its own. */
static double scale(td_dtype dt, double alpha, double b) {
    char bytes[8];
    if (alpha == 1) return b;
    td__store_f(dt, bytes,
                td__is_half(dt) ? (double)((float)alpha * (float)b) : alpha * b);
    return td__load_f(dt, bytes);
}

/* Reads and writes each element by its dtype: slow, for dtypes and operations without a
 * typed loop. */
static void reduce_line(const line *l, td_spot_op op) {
    td_dtype dt = l->s->dtype;
    int64_t  item = td__dtype_bytes[dt], alpha_i = td__value_i(l->s->alpha);
    double   alpha = td__value_f(l->s->alpha);
    for (int64_t j = 0; j < l->n; j++) {
        char       *at = l->data + (j * l->data_step + pick(l, j) * l->along) * item;
        const char *by = l->other + j * l->other_step * item;
        if (td__is_float(dt))
            td__store_f(dt, at,
                        reduce_f(op, td__load_f(dt, at),
                                 scale(dt, alpha, td__load_f(dt, by))));
        else
            td__store_i(dt, at,
                        reduce_i(op, td__load_i(dt, at), td__load_i(dt, by), alpha_i));
    }
}

static void sum_any(const line *l) { reduce_line(l, TD_SPOT_ADD); }
static void mul_any(const line *l) { reduce_line(l, TD_SPOT_MUL); }
static void max_any(const line *l) { reduce_line(l, TD_SPOT_MAX); }
static void min_any(const line *l) { reduce_line(l, TD_SPOT_MIN); }

/* ---- lines with one index for all ---------------------------------------- */

/* data = data op other by the loop of a pointwise op, whose numbers for NaN and zeros
 * are those of reduce_f. The second tensor is scaled by alpha in sums alone. */
static void by_loop(const line *l, td_op op) {
    td_scalars  p = {.f = {td__value_f(l->s->alpha)}};
    td_dtype    dt = l->s->dtype;
    char       *to = l->data + pick(l, 0) * l->along * td__dtype_bytes[dt];
    const void *in[] = {to, l->other};
    int         type = dt == TD_F32 ? TD_COMPUTE_F32 : TD_COMPUTE_F64;
    td__isa()->loops[type][op](l->n, to, in, &p);
}
static void sum_row(const line *l) { by_loop(l, TD_OP_add); }
static void mul_row(const line *l) { by_loop(l, TD_OP_mul); }
static void max_row(const line *l) { by_loop(l, TD_OP_maximum); }
static void min_row(const line *l) { by_loop(l, TD_OP_minimum); }

/* NULL: not such lines. */
static line_fn *choose_row(const td_spots *s, td_spot_op op) {
    int last = s->rank - 1;
    if (s->stride[TD_SPOT_INDEX][last] != 0 || s->stride[TD_SPOT_DATA][last] != 1 ||
        s->stride[TD_SPOT_OTHER][last] != 1 || s->size[last] < 8 ||
        (s->dtype != TD_F32 && s->dtype != TD_F64))
        return NULL;
    switch (op) {
    case TD_SPOT_ADD: return sum_row;
    case TD_SPOT_MUL: return mul_row;
    case TD_SPOT_MAX: return max_row;
    case TD_SPOT_MIN: return min_row;
    default: return NULL;
    }
}

/* Moves are by item size, sums by dtype. */
static line_fn *choose(td_dtype dt, td_spot_op op) {
    int item = td__dtype_bytes[dt];
    switch (op) {
    case TD_SPOT_GATHER:
        return item == 1   ? gather_1
               : item == 2 ? gather_2
               : item == 4 ? gather_4
               : item == 8 ? gather_8
                           : gather_16;
    case TD_SPOT_PUT:
        return item == 1   ? put_1
               : item == 2 ? put_2
               : item == 4 ? put_4
               : item == 8 ? put_8
                           : put_16;
    case TD_SPOT_ADD:
        return dt == TD_F32    ? sum_f32
               : dt == TD_F64  ? sum_f64
               : dt == TD_I64  ? sum_8
               : dt == TD_C64  ? sum_c64
               : dt == TD_C128 ? sum_c128
                               : sum_any;
    case TD_SPOT_MUL: return dt == TD_F32 ? mul_f32 : dt == TD_F64 ? mul_f64 : mul_any;
    case TD_SPOT_MAX: return dt == TD_F32 ? max_f32 : dt == TD_F64 ? max_f64 : max_any;
    default: return dt == TD_F32 ? min_f32 : dt == TD_F64 ? min_f64 : min_any;
    }
}

/* ---- the walk ----------------------------------------------------------- */

/* Dim d and d+1 step as one in every operand? */
static bool joins(const td_spots *s, int d) {
    for (int k = 0; k < TD_SPOT_OPERANDS; k++)
        if (s->stride[k][d] != s->stride[k][d + 1] * s->size[d + 1]) return false;
    return true;
}

/* Dims after d move up by one. */
static void remove_dim(td_spots *s, int d) {
    for (int i = d; i + 1 < s->rank; i++) {
        s->size[i] = s->size[i + 1];
        for (int k = 0; k < TD_SPOT_OPERANDS; k++)
            s->stride[k][i] = s->stride[k][i + 1];
    }
    s->rank--;
}

/* Drops dims of size 1 and joins neighbours, from the innermost on; a walk keeps at
 * least one dim. */
static void join_dims(td_spots *s) {
    for (int d = s->rank - 1; d >= 0; d--)
        if (s->size[d] == 1) remove_dim(s, d);
    for (int d = s->rank - 2; d >= 0; d--)
        if (joins(s, d)) {
            s->size[d + 1] *= s->size[d];
            remove_dim(s, d);
        }
    if (s->rank > 0) return;
    s->rank = 1;
    s->size[0] = 1;
    for (int k = 0; k < TD_SPOT_OPERANDS; k++) s->stride[k][0] = 0;
}

/* What run_lines does to lines of which walk. */
typedef struct job {
    const td_spots *s;
    line_fn        *fn;
} job;

/* Lines begin..end, all dims but the last counted in row-major order. */
static void run_lines(void *arg, int64_t begin, int64_t end) {
    const td_spots *s = ((job *)arg)->s;
    line_fn        *fn = ((job *)arg)->fn;
    int64_t         at[TD_MAX_RANK], off[TD_SPOT_OPERANDS] = {0}, rest = begin;
    int             last = s->rank - 1;
    int64_t         item = td__dtype_bytes[s->dtype], index_item = s->wide ? 8 : 4;
    for (int d = last - 1; d >= 0; d--) {
        at[d] = rest % s->size[d];
        rest /= s->size[d];
        for (int k = 0; k < TD_SPOT_OPERANDS; k++) off[k] += at[d] * s->stride[k][d];
    }
    line l = {.n = s->size[last],
              .index_step = s->stride[0][last],
              .data_step = s->stride[1][last],
              .other_step = s->stride[2][last],
              .along = s->along,
              .limit = s->limit,
              .wide = s->wide,
              .s = s};
    for (int64_t row = begin; row < end; row++) {
        l.index = s->ptr[0] + off[0] * index_item;
        l.data = s->ptr[1] + off[1] * item;
        l.other = s->ptr[2] + off[2] * item;
        fn(&l);
        for (int d = last - 1; d >= 0; d--) {
            bool carry = ++at[d] == s->size[d];
            for (int k = 0; k < TD_SPOT_OPERANDS; k++)
                off[k] += (carry ? 1 - s->size[d] : 1) * s->stride[k][d];
            if (!carry) break;
            at[d] = 0;
        }
    }
}

/* ---- gathers whose lines all have the same indices ----------------------- */

enum {
    PIECE = 2048,        /* offsets made at a time */
    ROWS_BYTES = 1 << 18 /* lines that go through the pieces together */
};

typedef void take_fn(const line *l, const int64_t *offset);

/* By item size, as a move. */
static take_fn *choose_take(td_dtype dt) {
    int item = td__dtype_bytes[dt];
    return item == 1   ? take_1
           : item == 2 ? take_2
           : item == 4 ? take_4
           : item == 8 ? take_8
                       : take_16;
}

/* Does the index step along the last dim only? Then its offsets are computed once for
 * many lines. */
static bool lines_agree(const td_spots *s) {
    for (int d = 0; d + 1 < s->rank; d++)
        if (s->stride[TD_SPOT_INDEX][d] != 0) return false;
    return s->rank > 1 && s->stride[TD_SPOT_INDEX][s->rank - 1] != 0;
}

/* Offset of a line's first element in an operand, without the index. */
static int64_t line_start(const td_spots *s, int operand, int64_t row) {
    int64_t at = 0;
    for (int d = s->rank - 2; d >= 0; d--) {
        at += row % s->size[d] * s->stride[operand][d];
        row /= s->size[d];
    }
    return at;
}

/* Lines begin..end, a piece of all of them after another. */
static void take_block(const td_spots *s, int64_t begin, int64_t end) {
    take_fn *take = choose_take(s->dtype);
    int      last = s->rank - 1;
    int64_t  offset[PIECE], item = td__dtype_bytes[s->dtype];
    line     l = {.index = s->ptr[TD_SPOT_INDEX],
                  .index_step = s->stride[TD_SPOT_INDEX][last],
                  .other_step = s->stride[TD_SPOT_OTHER][last],
                  .limit = s->limit,
                  .wide = s->wide,
                  .s = s};
    for (int64_t j = 0; j < s->size[last]; j += PIECE) {
        l.n = s->size[last] - j < PIECE ? s->size[last] - j : PIECE;
        for (int64_t k = 0; k < l.n; k++)
            offset[k] =
                (j + k) * s->stride[TD_SPOT_DATA][last] + pick(&l, j + k) * s->along;
        for (int64_t row = begin; row < end; row++) {
            l.data = s->ptr[TD_SPOT_DATA] + line_start(s, TD_SPOT_DATA, row) * item;
            l.other = s->ptr[TD_SPOT_OTHER] +
                      (line_start(s, TD_SPOT_OTHER, row) + j * l.other_step) * item;
            take(&l, offset);
        }
    }
}

/* As many lines at a time as stay in the second-level cache with a piece of the
 * offsets. */
static void take_lines(void *arg, int64_t begin, int64_t end) {
    const td_spots *s = arg;
    int64_t         bytes = s->size[s->rank - 1] * td__dtype_bytes[s->dtype];
    int64_t         rows = 1 + ROWS_BYTES / bytes;
    for (; begin < end; begin += rows)
        take_block(s, begin, end - begin < rows ? end : begin + rows);
}

/* ---- rows that are copied ------------------------------------------------- */

enum {
    AHEAD = 4,         /* rows fetched before they are copied */
    ROW_FETCHED = 2048 /* bytes of each; the processor follows a longer run itself */
};

/* Is the walk one row for each index, dense on both sides? */
static bool copies_rows(const td_spots *s) {
    return s->rank == 2 && s->stride[TD_SPOT_INDEX][1] == 0 &&
           s->stride[TD_SPOT_DATA][0] == 0 && s->stride[TD_SPOT_DATA][1] == 1 &&
           s->stride[TD_SPOT_OTHER][1] == 1;
}

/* The row of data for index number i. */
static const char *picked_row(const td_spots *s, int64_t i) {
    line l = {.index = s->ptr[TD_SPOT_INDEX],
              .index_step = s->stride[TD_SPOT_INDEX][0],
              .limit = s->limit,
              .wide = s->wide};
    return s->ptr[TD_SPOT_DATA] + pick(&l, i) * s->along * td__dtype_bytes[s->dtype];
}

/* Rows begin..end. They lie anywhere in a table that may be larger than the caches. */
static void copy_rows(void *arg, int64_t begin, int64_t end) {
    const td_spots *s = arg;
    int64_t         item = td__dtype_bytes[s->dtype], bytes = s->size[1] * item;
    int64_t         fetched = bytes < ROW_FETCHED ? bytes : ROW_FETCHED;
    for (int64_t i = begin; i < end; i++) {
        if (i + AHEAD < end) {
            const char *next = picked_row(s, i + AHEAD);
            for (int64_t k = 0; k < fetched; k += 64) __builtin_prefetch(next + k);
        }
        memcpy(s->ptr[TD_SPOT_OTHER] + i * s->stride[TD_SPOT_OTHER][0] * item,
               picked_row(s, i), (size_t)bytes);
    }
}

#define GRAIN 16384 /* elements worth a thread */

/* s is changed: its dims are joined. */
void td__spots_run(td_spots *s, td_spot_op op) {
    int64_t rows = 1;
    for (int d = 0; d < s->rank; d++)
        if (s->size[d] == 0) return;
    join_dims(s);
    /* A single long line is cut so that threads can share it. */
    if (op == TD_SPOT_GATHER && s->rank == 1 && s->size[0] >= 2 * GRAIN &&
        s->size[0] % 64 == 0) {
        s->rank = 2;
        s->size[1] = s->size[0] / 64;
        s->size[0] = 64;
        for (int k = 0; k < TD_SPOT_OPERANDS; k++) {
            s->stride[k][1] = s->stride[k][0];
            s->stride[k][0] *= s->size[1];
        }
    }
    for (int d = 0; d + 1 < s->rank; d++) rows *= s->size[d];
    line_fn *row = choose_row(s, op);
    job      j = {s, row ? row : choose(s->dtype, op)};
    int64_t  grain = GRAIN / s->size[s->rank - 1] + 1;
    if (op == TD_SPOT_GATHER && copies_rows(s)) td__pool_run(rows, grain, copy_rows, s);
    else if (op == TD_SPOT_GATHER && rows >= 4 && lines_agree(s))
        td__pool_run(rows, grain, take_lines, s);
    else if (op == TD_SPOT_GATHER && rows > grain)
        td__pool_run(rows, grain, run_lines, &j);
    else run_lines(&j, 0, rows);
}

/* A walk whose index is one 0. */
void td__spots_sum(const td_tensor *dst, const td_tensor *src) {
    static const int64_t zero = 0;
    td_spots             s = {.rank = dst->rank,
                              .wide = true,
                              .dtype = (td_dtype)dst->dtype,
                              .alpha = td_value_int(1)};
    for (int d = 0; d < dst->rank; d++) {
        s.size[d] = dst->size[d];
        s.stride[TD_SPOT_INDEX][d] = 0;
        s.stride[TD_SPOT_DATA][d] = dst->stride[d];
        s.stride[TD_SPOT_OTHER][d] = src->stride[d];
    }
    s.ptr[TD_SPOT_INDEX] = (char *)(uintptr_t)&zero;
    s.ptr[TD_SPOT_DATA] = td__ptr(dst);
    s.ptr[TD_SPOT_OTHER] = td__ptr(src);
    td__spots_run(&s, TD_SPOT_ADD);
}

/* ---- index values ------------------------------------------------------- */

int64_t td__index_at(const td_tensor *index, int64_t p) {
    int64_t off = 0;
    for (int d = index->rank - 1; d >= 0; d--) {
        off += p % index->size[d] * index->stride[d];
        p /= index->size[d];
    }
    return td__load_i((td_dtype)index->dtype,
                      td__ptr(index) + off * td__dtype_bytes[index->dtype]);
}

/* The search for the first index outside [low, high). */
typedef struct scan {
    const td_tensor *index;
    int64_t          low, high;
    _Atomic int64_t  bad; /* first bad position; INT64_MAX: none */
} scan;

/* Threads race for the smallest position; the message then does not depend on how many
 * there are. */
static void note_bad(scan *s, int64_t p) {
    int64_t seen = atomic_load(&s->bad);
    while (p < seen && !atomic_compare_exchange_weak(&s->bad, &seen, p)) {
    }
}

/* Positions [begin, end) of a row-major index. */
static void scan_dense(void *arg, int64_t begin, int64_t end) {
    scan       *s = arg;
    const char *p = td__ptr(s->index);
    for (int64_t i = begin; i < end; i++) {
        int64_t v = s->index->dtype == TD_I64 ? ((const int64_t *)(const void *)p)[i]
                                              : ((const int32_t *)(const void *)p)[i];
        if (v < s->low || v >= s->high) {
            note_bad(s, i);
            return;
        }
    }
}

/* Positions [begin, end) of any index. */
static void scan_strided(void *arg, int64_t begin, int64_t end) {
    scan *s = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t v = td__index_at(s->index, i);
        if (v < s->low || v >= s->high) {
            note_bad(s, i);
            return;
        }
    }
}

/* "[2,0]" for linear position p. */
static const char *place(const td_tensor *t, int64_t p) {
    int64_t at[TD_MAX_RANK];
    for (int d = t->rank - 1; d >= 0; d--) {
        at[d] = p % t->size[d];
        p /= t->size[d];
    }
    return td__sizes_str(t->rank, at);
}

/* Position p of a tensor that has the dims of t along which elements differ, as one
 * of t: the first of its copies. */
static int64_t among_copies(const td_tensor *t, int64_t p) {
    int64_t at = 0, step = 1;
    for (int d = t->rank - 1; d >= 0; step *= t->size[d--]) {
        int64_t n = t->stride[d] == 0 ? 1 : t->size[d];
        at += p % n * step;
        p /= n;
    }
    return at;
}

/* The position of the first index that is not in [least, limit); INT64_MAX: none. An
 * expanded one is looked at once. */
static int64_t first_bad(const td_tensor *index, int64_t least, int64_t limit) {
    td_meta   m;
    td_window w;
    if (index->numel == 0) return INT64_MAX;
    td__tensor_meta(index, &m);
    for (int d = 0; d < m.rank; d++)
        if (m.stride[d] == 0) m.size[d] = 1;
    const td_tensor *once = td__window(&w, index, &m);
    scan             s = {once, least, limit, INT64_MAX};
    bool             dense = td__is_dense(m.rank, m.size, m.stride);
    td__pool_run(td__numel(m.rank, m.size), 65536, dense ? scan_dense : scan_strided,
                 &s);
    int64_t bad = atomic_load(&s.bad);
    return bad == INT64_MAX ? bad : among_copies(index, bad);
}

bool td__class_check(td_opcall *c, const td_tensor *classes, int64_t n) {
    int64_t bad = first_bad(classes, 0, n);
    return bad == INT64_MAX || td__op_fail(c, TD_E_INDEX,
                                           "class %lld at position %s must be from 0 "
                                           "to num_classes - 1 (num_classes is %lld)",
                                           (long long)td__index_at(classes, bad),
                                           place(classes, bad), (long long)n);
}

bool td__index_check(td_opcall *c, const td_tensor *index, int64_t limit, bool negative,
                     int dim) {
    int64_t bad = first_bad(index, negative ? -limit : 0, limit);
    if (bad == INT64_MAX) return true;
    return td__op_fail(
        c, TD_E_INDEX,
        "index %lld at position %s is out of range for dim %d of size %lld",
        (long long)td__index_at(index, bad), place(index, bad), dim, (long long)limit);
}
