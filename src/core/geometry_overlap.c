/* geometry_overlap.c -- do elements share bytes? Exact if elements are few or their
 * strides nest; in all other cases the answer is that they may. */
#include "core/geometry.h"

enum { FEW = 1 << 16 }; /* elements, and addresses that they span */

/* Do strides nest: sorted by stride, is each one larger than the extent of the dims
 * with smaller strides? */
static bool in_order(const td_geom *g) {
    int     order[TD_MAX_RANK], n = 0;
    int64_t reach = 0;
    for (int i = 0; i < g->rank; i++) {
        if (td__dim_same(g->size[i], 1)) continue;
        int k = n++;
        for (; k > 0 && td__dim_seems_lt(g->stride[i], g->stride[order[k - 1]]); k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int i = 0; i < n; i++) {
        int d = order[i];
        if (td__dim_le(g->stride[d], reach)) return false;
        reach =
            td__dim_add(reach, td__dim_mul(td__dim_sub(g->size[d], 1), g->stride[d]));
    }
    return true;
}

/* Marks the addresses of g, counted from `from`; true if one was marked before. */
static bool mark(const td_geom *g, int64_t from, uint8_t *marks) {
    int64_t where[TD_MAX_RANK] = {0}, at = g->offset - from;
    int     d;
    do {
        if (marks[at]) return true;
        marks[at] = 1;
        for (d = g->rank - 1; d >= 0; d--) {
            at += g->stride[d];
            if (++where[d] < g->size[d]) break;
            at -= g->size[d] * g->stride[d];
            where[d] = 0;
        }
    } while (d >= 0);
    return false;
}

/* Do elements share addresses? Marks all of them; b may be NULL. True also if out of
 * memory. */
static bool share_places(const td_geom *a, const td_geom *b) {
    int64_t first = a->offset, last = td__geom_last(a), n = td__numel(a->rank, a->size);
    if (b) {
        first = b->offset < first ? b->offset : first;
        last = td__geom_last(b) > last ? td__geom_last(b) : last;
        n += td__numel(b->rank, b->size);
    }
    if (n > FEW || last - first >= FEW) return true;
    uint8_t *marks = td__zalloc((size_t)(last - first + 1));
    bool     found = !marks || mark(a, first, marks) || (b && mark(b, first, marks));
    td__free(marks);
    return found;
}

bool td__geom_overlaps_itself(const td_geom *g) {
    if (td__dim_seems_lt(td__numel(g->rank, g->size), 2) || in_order(g)) return false;
    return td__geom_is_symbolic(g) || share_places(g, NULL);
}

/* Are a and b columns of one matrix, with a common row stride, that do not overlap? */
static bool lie_in_columns(const td_geom *a, const td_geom *b) {
    int64_t        row = 0, reach[2] = {0, 0}, at[2] = {a->offset, b->offset};
    const td_geom *g[2] = {a, b};
    for (int i = 0; i < a->rank; i++)
        if (a->size[i] > 1 && a->stride[i] > row) row = a->stride[i];
    for (int k = 0; k < 2 && row; k++) {
        for (int i = 0; i < g[k]->rank; i++)
            if (g[k]->stride[i] % row)
                reach[k] += (g[k]->size[i] - 1) * g[k]->stride[i];
        at[k] %= row;
        if (at[k] + reach[k] >= row) return false;
    }
    return row && (at[0] + reach[0] < at[1] || at[1] + reach[1] < at[0]);
}

/* May the two share a byte of one storage? For different dtypes and symbolic sizes only
 * the byte ranges are compared. */
bool td__geom_overlap(const td_geom *a, const td_geom *b) {
    int64_t item = td__dtype_bytes[a->dtype], other = td__dtype_bytes[b->dtype];
    if (td__dim_eq(td__numel(a->rank, a->size), 0) ||
        td__dim_eq(td__numel(b->rank, b->size), 0))
        return false;
    if (td__dim_le(td__dim_mul(td__dim_add(td__geom_last(a), 1), item),
                   td__dim_mul(b->offset, other)) ||
        td__dim_le(td__dim_mul(td__dim_add(td__geom_last(b), 1), other),
                   td__dim_mul(a->offset, item)))
        return false;
    if (item != other || td__geom_is_symbolic(a) || td__geom_is_symbolic(b))
        return true;
    if (lie_in_columns(a, b)) return false;
    return td__geom_overlaps_itself(a) || td__geom_overlaps_itself(b) ||
           share_places(a, b);
}
