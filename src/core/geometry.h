/* core/geometry.h -- geometry: the dtype, sizes, strides and offset of a tensor, apart
 * from the bytes it addresses. td_geom is the one type for it: graph values, nodes of
 * the tape and plans store one each; td__geom_of and td__meta_geom make one of a tensor
 * and of the result of a shape rule. It does not own its lists: they belong to a
 * tensor, a graph or an arena.
 *
 * Sizes may be symbolic, and there are four ways to compare them (dim.h):
 *
 *   _eq         equal here; of symbols the answer is guarded
 *   _same       known to be equal whatever the symbols are; guards nothing
 *   _seem_eq    equal for questions of layout
 *   _identical  the same numbers or the same symbols; the only one for graphs, whose
 *               symbols are not those of a trace */
#ifndef TD_GEOMETRY_H
#define TD_GEOMETRY_H

#include "core/core.h"

/* In a union with td_geom these make the fields of a struct that adds to it. */
#define TD_GEOM_FIELDS                       \
    uint8_t        dtype; /* td_dtype */     \
    uint8_t        rank;                     \
    uint8_t        device; /* its code */    \
    int64_t        offset; /* in elements */ \
    const int64_t *size;   /* [rank] */      \
    const int64_t *stride; /* [rank]; NULL: not known, or those of a fresh tensor */

typedef struct td_geom {
    TD_GEOM_FIELDS
} td_geom;

/* Valid as long as t keeps its geometry. */
static inline td_geom td__geom_of(const td_tensor *t) {
    return (td_geom){t->dtype, t->rank, t->st->device, t->offset, t->size, t->stride};
}
/* Valid as long as m is. */
static inline td_geom td__meta_geom(const td_meta *m) {
    return (td_geom){(uint8_t)m->dtype, (uint8_t)m->rank,
                     m->device,         m->offset,
                     m->size,           m->strided ? m->stride : NULL};
}
static inline td_ints td__geom_sizes(const td_geom *g) {
    return (td_ints){g->size, g->rank};
}

/* The meta from which td__tensor_make makes a tensor of this geometry. */
td_meta td__geom_meta(const td_geom *g);
void    td__geom_to_meta(const td_geom *g, td_meta *m);
/* t's geometry with lists of its own. False after td__fail. */
bool    td__geom_copy(td_ctx *cx, td_arena *arena, td_geom *g, const td_tensor *t);

/* Is any size, stride or the offset a symbol? */
bool td__geom_is_symbolic(const td_geom *g);
bool td__sizes_eq(const td_geom *a, const td_geom *b);
bool td__sizes_same(const td_geom *a, const td_geom *b);
bool td__sizes_identical(const td_geom *a, const td_geom *b);
/* dtype, sizes, strides and offset. */
bool td__geom_same(const td_geom *a, const td_geom *b);
bool td__geom_seems_eq(const td_geom *a, const td_geom *b);
bool td__geom_identical(const td_geom *a, const td_geom *b);

/* One dim, from the start of the storage, without gaps. */
bool    td__geom_is_list(const td_geom *g);
/* The index of the last element in the storage; of a geometry that is not empty. */
int64_t td__geom_last(const td_geom *g);
/* Does a, which has no gaps, address every element of b? */
bool    td__geom_covers(const td_geom *a, const td_geom *b);
bool    td__geom_covers_bytes(const td_geom *a, const td_geom *b); /* of any dtypes */
/* May elements share bytes? Exact if elements are few or strides nest. */
bool    td__geom_overlaps_itself(const td_geom *g);
bool    td__geom_overlap(const td_geom *a, const td_geom *b); /* of one storage */

#endif
