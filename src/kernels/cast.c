/* cast.c -- copies and fills as elementwise runs of one operand. */
#include "ops/cast.h"

#include "kernels/iter.h"
#include "rules/geom.h"

#include <string.h>

/* Bytes [begin, end) of a plain copy; arg is {destination, source}. */
static void copy_parts(void *arg, int64_t begin, int64_t end) {
    char *const *two = arg;
    memcpy(two[0] + begin, two[1] + begin, (size_t)(end - begin));
}

/* Both row-major with the same elements in the same order: a copy is one memcpy. */
static bool both_dense(const td_tensor *a, const td_tensor *b) {
    return a->numel == b->numel && a->rank == b->rank &&
           td__is_dense(a->rank, a->size, a->stride) &&
           td__is_dense(b->rank, b->size, b->stride);
}

/* dst and src without the dims along which dst stands still: the last element along
 * such a dim is the one that stays. */
static void drop_still_dims(const td_tensor *dst, const td_tensor *src, td_meta *to,
                            td_meta *from) {
    *to = (td_meta){.dtype = (td_dtype)dst->dtype, .strided = true};
    *from = (td_meta){.dtype = (td_dtype)src->dtype, .strided = true};
    to->offset = dst->offset;
    from->offset = src->offset;
    for (int d = 0; d < dst->rank; d++) {
        int64_t n = dst->size[d];
        if (dst->stride[d] == 0) from->offset += (n - 1) * src->stride[d];
        if (dst->stride[d] == 0 || n == 1) continue;
        to->size[to->rank] = from->size[to->rank] = n;
        to->stride[to->rank] = dst->stride[d];
        from->stride[to->rank++] = src->stride[d];
    }
    from->rank = to->rank;
}

/* Row `row` of m, counted over all dims but the last. */
static td_tensor *row_of(td_window *w, const td_tensor *t, const td_meta *m,
                         int64_t row) {
    int     last = m->rank - 1;
    td_meta one = {.dtype = m->dtype, .rank = 1, .strided = true};
    one.offset = m->offset;
    one.size[0] = m->size[last];
    one.stride[0] = m->stride[last];
    for (int d = last - 1; d >= 0; row /= m->size[d--])
        one.offset += row % m->size[d] * m->stride[d];
    return td__window(w, t, &one);
}

/* Elements of dst share places: rows are copied one after the other, so that of those
 * that share a place the last in row-major order stays. */
static bool copy_in_order(const td_tensor *dst, const td_tensor *src) {
    td_window to, from;
    td_meta   d, s;
    drop_still_dims(dst, src, &d, &s);
    td_tensor *part = td__window(&to, dst, &d);
    if (!td__may_share_places(part))
        return td__copy_into(part, td__window(&from, src, &s));
    int64_t rows = part->numel / d.size[d.rank - 1];
    for (int64_t i = 0; i < rows; i++)
        if (!td__copy_into(row_of(&to, dst, &d, i), row_of(&from, src, &s, i)))
            return false;
    return true;
}

/* The general case runs without a loop: the conversion itself moves the elements. */
bool td__copy_into(td_tensor *dst, const td_tensor *src) {
    td_dtype to = (td_dtype)dst->dtype, from = (td_dtype)src->dtype;
    uint8_t  bytes = td__dtype_bytes[to];
    if (dst->numel == 0) return true;
    if (TD_UNLIKELY(dst->st->device | src->st->device))
        return td__copy_on_device(dst, src);
    if (to == from && both_dense(dst, src)) {
        char *two[2] = {td__ptr(dst), td__ptr(src)};
        if (two[0] != two[1])
            td__pool_run(dst->numel * bytes, (int64_t)TD_RUN_GRAIN * 4, copy_parts,
                         two);
        return true;
    }
    if (td__may_share_places(dst)) return copy_in_order(dst, src);
    td_run r;
    r.loop = NULL;
    r.isa = td__isa();
    r.side[0] = (td_side){.same = true, .mem = bytes, .loop = bytes};
    r.side[1] = (td_side){.convert = r.isa->convert[from][to],
                          .same = to == from,
                          .mem = td__dtype_bytes[from],
                          .loop = bytes};
    td__iter_build(&r.it, (const td_tensor *const[]){dst, src}, 2);
    td__run(&r);
    return true;
}

/* A copy from one number, which has stride 0 in every dim. */
bool td__fill(td_tensor *t, td_value number) {
    td_dtype dt = (td_dtype)t->dtype;
    uint8_t  bytes = td__dtype_bytes[dt];
    td_run   r;
    if (t->numel == 0) return true;
    if (TD_UNLIKELY(t->st->device)) return td__fill_on_device(t, number);
    r.loop = NULL;
    r.isa = td__isa();
    r.side[0] = r.side[1] = (td_side){.convert = r.isa->convert[dt][dt],
                                      .same = true,
                                      .mem = bytes,
                                      .loop = bytes};
    td__store_value(dt, &r.number[1], number);
    td__iter_build(&r.it, (const td_tensor *const[]){t, NULL}, 2);
    r.it.ptr[1] = (char *)&r.number[1];
    td__run(&r);
    return true;
}

/* One call of the conversion for the two dtypes. */
void td__cast_run(int64_t n, td_dtype to, void *dst, td_dtype from, const void *src) {
    td__isa()->convert[from][to](n, dst, td__dtype_bytes[to], src,
                                 td__dtype_bytes[from]);
}
