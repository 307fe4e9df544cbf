/* kernels/sort_keys.h -- keys of elements, whose unsigned order is the order of sort,
 * and sorting of keys with their indices (kern_sort.c). */
#ifndef TD_SORT_KEYS_H
#define TD_SORT_KEYS_H

#include "core/core.h"

#include <string.h>

/* An element as its key, with the index it had. */
typedef struct td_sort_item {
    uint64_t key;
    int64_t  index;
} td_sort_item;

/* Sign and magnitude to an unsigned order; NaN to the top. */
static inline uint64_t td__sort_key_float(uint64_t bits, uint64_t sign, uint64_t inf) {
    uint64_t mag = bits & (sign - 1);
    if (mag > inf) return sign * 2 - 1;
    return bits & sign ? sign - mag : sign + mag;
}

/* The key of an element: unsigned order of keys is the ascending order of values, NaN
 * after all numbers. A loop over one dtype calls it with a constant. */
static inline uint64_t td__sort_key(td_dtype dt, const char *p) {
    uint64_t u = 0;
    memcpy(&u, p, td__dtype_bytes[dt]);
    switch (dt) {
    case TD_F64: {
        uint64_t sign = (uint64_t)1 << 63, mag = u & (sign - 1);
        if (mag > (uint64_t)0x7ff << 52) return UINT64_MAX;
        return u & sign ? sign - mag : sign + mag;
    }
    case TD_F32: {
        uint32_t v;
        memcpy(&v, p, sizeof v);
        return td__sort_key_float(v, (uint64_t)1 << 31, (uint64_t)0x7f800000);
    }
    case TD_F16: return td__sort_key_float(u, (uint64_t)1 << 15, 0x7c00);
    case TD_BF16: return td__sort_key_float(u, (uint64_t)1 << 15, 0x7f80);
    case TD_I64: return u ^ (uint64_t)1 << 63;
    case TD_I32: return u ^ (uint64_t)1 << 31;
    case TD_I16: return u ^ (uint64_t)1 << 15;
    case TD_I8: return u ^ (uint64_t)1 << 7;
    default: return u;
    }
}
/* The greatest key of a dtype: NaN's, for floats. */
uint64_t td__sort_key_top(td_dtype dt);
/* Keys of n elements, `step` elements apart, each with its index. */
void td__sort_load(td_dtype dt, const char *p, int64_t n, int64_t step, uint64_t flip,
                   td_sort_item *to);
/* Stable; by the `bytes` low digits of the keys. spare has room for n items. */
void td__sort_items(td_sort_item *v, td_sort_item *spare, int64_t n, int bytes);

/* ---- some ranks of a line (kern_ranks.c) -------------------------------- */

/* n elements, `step` elements apart. */
typedef struct td_line {
    td_dtype    dt;
    const char *p;
    int64_t     n, step;
} td_line;

typedef struct td_ranks td_ranks;
td_ranks *td__ranks_begin(int64_t n); /* for lines of n elements; NULL: no memory */
void      td__ranks_end(td_ranks *r);
/* Sorts what is needed of a line for td__ranks_at to find the `count` ranks given. */
void      td__ranks_line(td_ranks *r, const td_line *l, const int64_t *rank,
                         int64_t rank_step, int64_t count);
/* The index in the line of the element with that rank. */
int64_t   td__ranks_at(const td_ranks *r, int64_t rank);
/* How many elements are not NaN. */
int64_t   td__line_numbers(const td_line *l);

#endif
