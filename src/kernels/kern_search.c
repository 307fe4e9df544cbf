/* kern_search.c -- searchsorted: binary searches, LANES of them side by side so that
 * their reads of memory overlap. The middle is chosen as in ATen, so that an unsorted
 * sequence gives ATen's result. */
#include "kernels/dense_as.h"
#include "kernels/index_walk.h"
#include "ops/cast.h"
#include "rules/shape_rules.h"

#include <string.h>

enum { LANES = 8, GRAIN = 4096 };

/* ---- row-major copies --------------------------------------------------- */

td_dtype td__wide_dtype(td_dtype dt) {
    if (dt == TD_F64) return TD_F64;
    return td__is_float(dt) ? TD_F32 : TD_I64;
}

td_tensor *td__dense_as(td_tensor *t, td_dtype dt) {
    td_meta m;
    if ((td_dtype)t->dtype == dt && td__is_dense(t->rank, t->size, t->stride)) return t;
    td__meta_dense(&m, dt, t->rank, t->size);
    td_tensor *copy = td__tensor_make(t->cx, &m, false);
    if (copy) td__copy_into(copy, t);
    return copy;
}

void td__dense_drop(td_tensor *copy, const td_tensor *t) {
    if (copy && copy != t) td_drop(copy);
}

/* ---- searches ----------------------------------------------------------- */

/* at[k]: the index in seq at which val[k] belongs, of LANES values. `name` takes a
 * sequence of any order and chooses the middle as ATen does: an interval of n elements
 * is empty after as many steps as n has bits. name##_sorted halves all intervals alike,
 * which is faster and gives the same for a sorted sequence. */
#define SEARCH(name, T, BEFORE)                                                  \
    static void name(const void *of, int64_t n, const void *vals, int64_t *at) { \
        const T *seq = of, *val = vals;                                          \
        int64_t  high[LANES];                                                    \
        for (int k = 0; k < LANES; k++) at[k] = 0, high[k] = n;                  \
        for (int64_t left = n; left > 0; left >>= 1)                             \
            for (int k = 0; k < LANES; k++) {                                    \
                int64_t mid = at[k] + ((high[k] - at[k]) >> 1);                  \
                bool    open = at[k] < high[k];                                  \
                T       x = seq[open ? mid : 0], v = val[k];                     \
                bool    up = BEFORE;                                             \
                at[k] = open && up ? mid + 1 : at[k];                            \
                high[k] = open && !up ? mid : high[k];                           \
            }                                                                    \
    }                                                                            \
    static void name##_sorted(const void *of, int64_t n, const void *vals,       \
                              int64_t *at) {                                     \
        const T *seq = of, *val = vals;                                          \
        const T *p[LANES];                                                       \
        for (int k = 0; k < LANES; k++) p[k] = seq;                              \
        for (int64_t left = n; left > 1; left -= left >> 1)                      \
            for (int k = 0; k < LANES; k++) {                                    \
                const T *next = p[k] + (left >> 1);                              \
                T        x = next[-1], v = val[k];                               \
                p[k] = (BEFORE) ? next : p[k];                                   \
            }                                                                    \
        for (int k = 0; k < LANES; k++) {                                        \
            T x = n > 0 ? *p[k] : 0, v = val[k];                                 \
            at[k] = p[k] - seq + (n > 0 && (BEFORE));                            \
        }                                                                        \
    }

/* A NaN counts as greater than all numbers. */
SEARCH(left_f32, float, !(x >= v))
SEARCH(left_f64, double, !(x >= v))
SEARCH(left_i64, int64_t, x < v)
SEARCH(right_f32, float, !(x > v))
SEARCH(right_f64, double, !(x > v))
SEARCH(right_i64, int64_t, x <= v)

typedef void search_fn(const void *seq, int64_t n, const void *val, int64_t *at);

/* By dtype, side, and whether the sequences are sorted. */
static search_fn *search_for(td_dtype dt, bool right, bool sorted) {
    static search_fn *const all[3][2][2] = {
        {{left_f32, left_f32_sorted}, {right_f32, right_f32_sorted}},
        {{left_f64, left_f64_sorted}, {right_f64, right_f64_sorted}},
        {{left_i64, left_i64_sorted}, {right_i64, right_i64_sorted}}};
    return all[dt == TD_F32 ? 0 : dt == TD_F64 ? 1 : 2][right][sorted];
}

/* Does each of the rows of n elements ascend, without NaN? */
static bool rows_ascend(const td_tensor *t, int64_t n) {
    const float   *f = (const float *)(const void *)td__ptr(t);
    const double  *d = (const double *)(const void *)td__ptr(t);
    const int64_t *i = (const int64_t *)(const void *)td__ptr(t);
    bool           ok = true;
    for (int64_t k = 0; ok && k < t->numel; k++) {
        bool    head = k % n == 0; /* compared with itself, where a NaN fails */
        int64_t b = head ? k : k - 1;
        ok = t->dtype == TD_F32   ? f[b] <= f[k]
             : t->dtype == TD_F64 ? d[b] <= d[k]
                                  : i[b] <= i[k];
    }
    return ok;
}

/* A call: rows of sequences, and as many rows of values. */
typedef struct searching {
    search_fn  *search;
    const char *seq, *val;
    int64_t     n, seq_step; /* elements of a sequence; 0: all rows have one */
    int64_t     row;         /* values in a row */
    int64_t     item;        /* bytes of an element */
    void       *out;
    bool        out_i32;
} searching;

/* Values [begin, end). */
static void search_range(void *arg, int64_t begin, int64_t end) {
    const searching *s = arg;
    for (int64_t i = begin, count; i < end; i += count) {
        int64_t     at[LANES], row = i / s->row, rest = (row + 1) * s->row - i;
        const char *val = s->val + i * s->item;
        char        few[LANES * 8] = {0};
        count = end - i < rest ? end - i : rest;
        if (count > LANES) count = LANES;
        if (count < LANES) val = memcpy(few, val, (size_t)(count * s->item));
        s->search(s->seq + row * s->seq_step * s->item, s->n, val, at);
        for (int64_t k = 0; k < count && s->out_i32; k++)
            ((int32_t *)s->out)[i + k] = (int32_t)at[k];
        for (int64_t k = 0; k < count && !s->out_i32; k++)
            ((int64_t *)s->out)[i + k] = at[k];
    }
}

/* The elements of each row of seq in the order that sorter, of its sizes, gives. */
static td_tensor *in_order(td_opcall *c, td_tensor *seq, td_tensor *sorter) {
    int64_t    n = seq->size[seq->rank - 1], item = td__dtype_bytes[seq->dtype];
    td_tensor *index = NULL, *out = NULL;
    td_meta    m;
    if (!td__index_check(c, sorter, n, false, seq->rank - 1)) return NULL;
    td__meta_dense(&m, (td_dtype)seq->dtype, seq->rank, seq->size);
    if (!(out = td__tensor_make(c->cx, &m, false))) return NULL;
    if (!(index = td__dense_as(sorter, TD_I64))) return NULL;
    const int64_t *at = (const int64_t *)(const void *)td__ptr(index);
    for (int64_t i = 0; i < seq->numel; i++) {
        int64_t from = i / n * n + at[i];
        memcpy(td__ptr(out) + i * item, td__ptr(seq) + from * item, (size_t)item);
    }
    td__dense_drop(index, sorter);
    return out;
}

/* in: sorted_sequence, self, out_int32, right, sorter. */
bool td__kern_searchsorted(td_opcall *c) {
    td_tensor *seq = td__in(c, 0), *val = td__in(c, 1), *sorter = td__in(c, 4);
    td_dtype   dt = td__wide_dtype((td_dtype)seq->dtype);
    bool       right = td__in_bool(c, 3);
    if (val->numel == 0) return true;
    td_tensor *s = td__dense_as(seq, dt), *v = td__dense_as(val, dt), *sorted = s;
    if (s && v && sorter) sorted = in_order(c, s, sorter);
    if (s && v && sorted) {
        int64_t   n = seq->size[seq->rank - 1];
        bool      many = val->numel > seq->numel / 8; /* a check of the order pays */
        bool      plain = many && rows_ascend(sorted, n);
        searching job = {.search = search_for(dt, right, plain),
                         .seq = td__ptr(sorted),
                         .val = td__ptr(v),
                         .n = n,
                         .seq_step = seq->rank > 1 ? n : 0,
                         .row = val->rank > 0 ? val->size[val->rank - 1] : 1,
                         .item = td__dtype_bytes[dt],
                         .out = td__ptr(c->out[0]),
                         .out_i32 = td__in_bool(c, 2)};
        td__pool_run(val->numel, GRAIN, search_range, &job);
    }
    bool ok = s && v && sorted;
    if (sorted != s) td__dense_drop(sorted, seq);
    td__dense_drop(s, seq);
    td__dense_drop(v, val);
    return ok;
}

/* ---- segments ----------------------------------------------------------- */

/* in: lengths, n, unsafe. Running sums of each row, from 0. */
bool td__kern_segment_offsets(td_opcall *c) {
    const td_tensor *lengths = td__in(c, 0);
    int64_t          per_row = lengths->size[lengths->rank - 1], n = td__in_int(c, 1);
    int64_t         *to = (int64_t *)(void *)td__ptr(c->out[0]);
    int64_t          rows = c->out[0]->numel / (per_row + 1);
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = 0;
        *to++ = 0;
        for (int64_t i = 0; i < per_row; i++) {
            int64_t length = td__index_at(lengths, row * per_row + i);
            if (length < 0)
                return td__op_fail(
                    c, TD_E_ARG,
                    "lengths must not be negative, and entry %lld of row "
                    "%lld is %lld",
                    (long long)i, (long long)row, (long long)length);
            *to++ = at = td__dim_add(at, length);
        }
        if (at != n && !td__in_bool(c, 2))
            return td__op_fail(c, TD_E_ARG,
                               "the lengths of row %lld add up to %lld; they must fill "
                               "the %lld entries of data. Pass unsafe=true to allow it",
                               (long long)row, (long long)at, (long long)n);
    }
    return true;
}
