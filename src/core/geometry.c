/* geometry.c -- geometry: copies, comparisons, what covers what. */
#include "core/geometry.h"

#include <string.h>

/* ---- copies ------------------------------------------------------------- */

bool td__geom_copy(td_ctx *cx, td_arena *arena, td_geom *g, const td_tensor *t) {
    int64_t *dims = td__arena_alloc(arena, sizeof *dims * 2 * (size_t)(t->rank + 1));
    if (!dims) return td__fail_memory(cx);
    memcpy(dims, t->size, sizeof *dims * t->rank);
    memcpy(dims + t->rank, t->stride, sizeof *dims * t->rank);
    *g = (td_geom){t->dtype, t->rank, t->st->device, t->offset, dims, dims + t->rank};
    return true;
}

void td__geom_to_meta(const td_geom *g, td_meta *m) {
    m->dtype = (td_dtype)g->dtype;
    m->rank = g->rank;
    m->strided = g->stride != NULL;
    m->device = g->device;
    m->offset = g->offset;
    for (int d = 0; d < g->rank; d++) m->size[d] = g->size[d];
    for (int d = 0; g->stride && d < g->rank; d++) m->stride[d] = g->stride[d];
}

td_meta td__geom_meta(const td_geom *g) {
    td_meta m;
    td__geom_to_meta(g, &m);
    return m;
}

/* ---- comparisons -------------------------------------------------------- */

bool td__geom_is_symbolic(const td_geom *g) {
    return td__dim_is_sym(g->offset) || td__dims_any_sym(g->size, g->rank) ||
           (g->stride && td__dims_any_sym(g->stride, g->rank));
}

bool td__sizes_eq(const td_geom *a, const td_geom *b) {
    return a->rank == b->rank && td__dims_eq(a->size, b->size, a->rank);
}

bool td__sizes_same(const td_geom *a, const td_geom *b) {
    return a->rank == b->rank && td__dims_same(a->size, b->size, a->rank);
}

bool td__sizes_identical(const td_geom *a, const td_geom *b) {
    return a->rank == b->rank && td__dims_identical(a->size, b->size, a->rank);
}

bool td__geom_same(const td_geom *a, const td_geom *b) {
    return a->dtype == b->dtype && a->device == b->device && td__sizes_same(a, b) &&
           td__dim_same(a->offset, b->offset) &&
           td__dims_same(a->stride, b->stride, a->rank);
}

bool td__geom_seems_eq(const td_geom *a, const td_geom *b) {
    return a->dtype == b->dtype && a->device == b->device && a->rank == b->rank &&
           td__dim_seems_eq(a->offset, b->offset) &&
           td__dims_seem_eq(a->size, b->size, a->rank) &&
           td__dims_seem_eq(a->stride, b->stride, a->rank);
}

bool td__geom_identical(const td_geom *a, const td_geom *b) {
    return a->dtype == b->dtype && a->device == b->device && a->offset == b->offset &&
           td__sizes_identical(a, b) &&
           td__dims_identical(a->stride, b->stride, a->rank);
}

/* ---- which geometry covers which ------------------------------------------ */

bool td__geom_is_list(const td_geom *g) {
    return g->rank == 1 && td__dim_eq(g->offset, 0) && td__dim_eq(g->stride[0], 1);
}

/* Does the contiguous range of a contain all bytes of b? Only packed or flat a can. */
bool td__geom_covers_bytes(const td_geom *a, const td_geom *b) {
    int64_t n = td__numel(a->rank, a->size);
    int64_t item = td__dtype_bytes[a->dtype], other = td__dtype_bytes[b->dtype];
    if (!td__geom_is_list(a) && !td__is_packed(a->rank, a->size, a->stride))
        return false;
    if (td__dim_eq(td__numel(b->rank, b->size), 0)) return true;
    return td__dim_le(td__dim_mul(a->offset, item), td__dim_mul(b->offset, other)) &&
           td__dim_le(td__dim_mul(td__dim_add(td__geom_last(b), 1), other),
                      td__dim_mul(td__dim_add(a->offset, n), item));
}

bool td__geom_covers(const td_geom *a, const td_geom *b) {
    return a->dtype == b->dtype && td__geom_covers_bytes(a, b);
}

int64_t td__geom_last(const td_geom *g) {
    int64_t last = g->offset;
    for (int d = 0; d < g->rank; d++)
        last = td__dim_add(last, td__dim_mul(td__dim_sub(g->size[d], 1), g->stride[d]));
    return last;
}
