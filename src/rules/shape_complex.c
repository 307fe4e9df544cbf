/* shape_complex.c -- shape rules of complex numbers. */
#include "rules/pointwise_args.h"
#include "rules/shape_rules.h"

/* c[...] with strides s becomes f[..., 2] with strides 2 s and 1. */
bool td__shape_view_as_real(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td_meta         *m = &c->meta[0];
    if (!td__is_complex((td_dtype)t->dtype))
        return td__op_fail(c, TD_E_DTYPE, "self must be c64 or c128, got %s",
                           td__type_str(t));
    if (t->rank == TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE, "self has %d dims, the most there can be",
                           t->rank);
    td__tensor_meta(t, m);
    m->dtype = td__real_of(m->dtype);
    m->strided = true;
    for (int d = 0; d < m->rank; d++) m->stride[d] = td__dim_mul(m->stride[d], 2);
    m->offset = td__dim_mul(m->offset, 2);
    m->size[m->rank] = 2;
    m->stride[m->rank++] = 1;
    return true;
}

/* Is it a whole number of pairs? */
static bool is_even(int64_t n) {
    return td__dim_eq(td__dim_mul(td__dim_div(n, 2), 2), n);
}

/* f[..., 2] with the last stride 1 and even strides becomes c[...]. */
bool td__shape_view_as_complex(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td_meta         *m = &c->meta[0];
    int              last = t->rank - 1;
    if (t->dtype != TD_F32 && t->dtype != TD_F64)
        return td__op_fail(c, TD_E_DTYPE, "self must be f32 or f64, got %s",
                           td__type_str(t));
    if (last < 0 || !td__dim_eq(t->size[last], 2))
        return td__op_fail(c, TD_E_SHAPE,
                           "the last dim must be 2, real and imaginary part, got %s",
                           td__type_str(t));
    if (!td__dim_eq(t->stride[last], 1))
        return td__op_fail(c, TD_E_SHAPE,
                           "the last stride must be 1, got %lld; call contiguous first",
                           (long long)t->stride[last]);
    td__tensor_meta(t, m);
    m->dtype = td__complex_of(m->dtype);
    m->strided = true;
    m->rank = last;
    for (int d = 0; d < last; d++) {
        if (!is_even(t->stride[d]))
            return td__op_fail(c, TD_E_SHAPE,
                               "stride %lld of dim %d must be even; call contiguous "
                               "first",
                               (long long)t->stride[d], d);
        m->stride[d] = td__dim_div(t->stride[d], 2);
    }
    if (!is_even(t->offset))
        return td__op_fail(c, TD_E_SHAPE,
                           "the storage offset %lld must be even; clone first",
                           (long long)t->offset);
    m->offset = td__dim_div(t->offset, 2);
    return true;
}

/* Has t the sizes of the result? */
static bool has_sizes(const td_tensor *t, int rank, const int64_t *size) {
    return t->rank == rank && td__dims_seem_eq(t->size, size, rank);
}

/* in: real, imag. In the broadcast sizes, and in the order of dims of the first of the
 * two that has them. */
bool td__shape_complex(td_opcall *c) {
    const td_tensor *re = td__in(c, 0), *im = td__in(c, 1);
    int64_t          size[TD_MAX_RANK];
    int              rank = re->rank;
    if ((re->dtype != TD_F32 && re->dtype != TD_F64) || re->dtype != im->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "real and imag must both be f32 or both f64, got %s and %s",
                           td__type_str(re), td__type_str(im));
    for (int d = 0; d < rank; d++) size[d] = re->size[d];
    if (!td__broadcast(&rank, size, im->rank, im->size))
        return td__op_fail(c, TD_E_SHAPE, "cannot broadcast real %s with imag %s",
                           td__type_str(re), td__type_str(im));
    td__meta_dense(&c->meta[0], td__complex_of((td_dtype)re->dtype), rank, size);
    const td_tensor *like = has_sizes(re, rank, size) ? re : im;
    if (!has_sizes(like, rank, size)) return true;
    td__meta_like(&c->meta[0], like);
    c->meta[0].dtype = td__complex_of((td_dtype)re->dtype);
    return true;
}

/* Of complex tensors row-major whatever the layout, as ATen's. */
bool td__shape_angle(td_opcall *c) {
    if (!td__shape_pointwise(c)) return false;
    if (td__is_complex((td_dtype)td__in(c, 0)->dtype)) c->meta[0].strided = false;
    return true;
}
