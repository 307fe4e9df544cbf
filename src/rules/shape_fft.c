/* shape_fft.c -- results of Fourier transforms. Their strides are ATen's: dims that are
 * not transformed are outermost, in the order of their strides, the others follow. */
#include "rules/shape_rules.h"

#include <string.h>

/* Dims from..to, those with larger strides first; equal ones keep their order. */
static void sort_dims(const int64_t *stride, int *dim, int n) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && td__dim_seems_lt(stride[dim[k - 1]], stride[dim[k]]);
             k--) {
            int d = dim[k];
            dim[k] = dim[k - 1];
            dim[k - 1] = d;
        }
}

/* Reads argument 1, dims that are not negative, each once. How many; -1 after
 * td__fail. */
static int read_dims(td_opcall *c, int *dim) {
    const td_tensor *t = td__in(c, 0);
    td_value         v = c->in[1];
    uint64_t         seen = 0;
    for (uint32_t i = 0; i < v.n; i++) {
        int64_t d = v.u.ints[i];
        bool    fits = d >= 0 && d < t->rank && !(seen >> d & 1);
        if (!fits)
            return td__op_fail(c, TD_E_ARG,
                               "dim %s must name dims of self %s, each once",
                               td__sizes_str((int)v.n, v.u.ints), td__type_str(t)),
                   -1;
        seen |= (uint64_t)1 << d;
        dim[i] = (int)d;
    }
    return (int)v.n;
}

/* The dims of a rank that are not in `over`, in the order in which C++'s std::partition
 * leaves them, which decides among equal strides. How many. */
static int other_dims(int rank, uint64_t over, int *order) {
    int first = 0, last = rank;
    for (int d = 0; d < rank; d++) order[d] = d;
    for (;;) {
        while (first < last && !(over >> order[first] & 1)) first++;
        if (first == last) return first;
        last--;
        while (first < last && over >> order[last] & 1) last--;
        if (first == last) return first;
        int d = order[first];
        order[first++] = order[last];
        order[last] = d;
    }
}

static bool is_empty(const td_meta *m) {
    for (int d = 0; d < m->rank; d++)
        if (td__dim_seems_eq(m->size[d], 0)) return true;
    return false;
}

/* Strides of m, whose sizes are set, for a transform of dims of a tensor with `stride`.
 * The last of `dim` stays last. */
static void lay_out(td_meta *m, const int64_t *stride, const int *dim, int n) {
    int      order[TD_MAX_RANK];
    uint64_t over = 0;
    int64_t  step = 1, from[TD_MAX_RANK];
    m->strided = !is_empty(m);
    if (!m->strided) return;
    memcpy(from, stride, sizeof(int64_t) * (size_t)m->rank);
    for (int i = 0; i < n; i++) over |= (uint64_t)1 << dim[i];
    int k = other_dims(m->rank, over, order);
    sort_dims(from, order, k);
    for (int i = 0; i < n; i++) order[k + i] = dim[i];
    for (int i = m->rank - 1; i >= 0; i--) {
        m->stride[order[i]] = step;
        step = td__dim_mul(step, m->size[order[i]]);
    }
}

/* Meta 0: the sizes of self. */
static void start(td_opcall *c, td_dtype dt) {
    const td_tensor *t = td__in(c, 0);
    td__meta_dense(&c->meta[0], dt, t->rank, t->size);
}

static bool want_real(td_opcall *c) {
    td_dtype dt = (td_dtype)td__in(c, 0)->dtype;
    return dt == TD_F32 || dt == TD_F64 ||
           td__op_fail(c, TD_E_DTYPE, "self must be f32 or f64, got %s",
                       td__type_str(td__in(c, 0)));
}
static bool want_complex(td_opcall *c) {
    return td__is_complex((td_dtype)td__in(c, 0)->dtype) ||
           td__op_fail(c, TD_E_DTYPE, "self must be c64 or c128, got %s",
                       td__type_str(td__in(c, 0)));
}

/* in: self, dim, normalization, forward. Without dims a clone. */
bool td__shape_fft_c2c(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    int              dim[TD_MAX_RANK], n;
    if (!want_complex(c) || (n = read_dims(c, dim)) < 0) return false;
    if (n == 0) {
        td__meta_like(&c->meta[0], t);
        return true;
    }
    start(c, (td_dtype)t->dtype);
    sort_dims(t->stride, dim, n);
    lay_out(&c->meta[0], t->stride, dim, n);
    return true;
}

static bool want_dims(td_opcall *c, int n) {
    return n > 0 || (n == 0 && td__op_fail(c, TD_E_ARG, "dim must name a dim"));
}

/* in: self, dim, normalization, onesided, whose result has one number at least. */
bool td__shape_fft_r2c(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    int              dim[TD_MAX_RANK], n;
    if (!want_real(c) || !want_dims(c, n = read_dims(c, dim))) return false;
    start(c, td__complex_of((td_dtype)t->dtype));
    int64_t *last = &c->meta[0].size[dim[n - 1]];
    bool     half = td__in_bool(c, 3);
    if (half && td__dim_lt(*last, 1))
        return td__op_fail(c, TD_E_SHAPE,
                           "dim %d of self %s, the last of dim, must have elements: a "
                           "onesided result has one at least",
                           dim[n - 1], td__type_str(t));
    if (half) *last = td__dim_add(td__dim_div(*last, 2), 1);
    sort_dims(t->stride, dim, n - 1);
    lay_out(&c->meta[0], t->stride, dim, n);
    return true;
}

/* in: self, dim, normalization, last_dim_size: the complex transform of all dims but
 * the last, then that of the last. */
bool td__shape_fft_c2r(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    int              dim[TD_MAX_RANK], n;
    int64_t          size = td__in_int(c, 3);
    if (!want_complex(c) || !want_dims(c, n = read_dims(c, dim))) return false;
    int last = dim[n - 1];
    if (td__dim_lt(size, 1) ||
        !td__dim_eq(t->size[last], td__dim_add(td__dim_div(size, 2), 1)))
        return td__op_fail(
            c, TD_E_SHAPE,
            "dim %d of self %s must have last_dim_size / 2 + 1 elements, "
            "and last_dim_size is %lld",
            last, td__type_str(t), (long long)td__dim_now(size));
    start(c, td__real_of((td_dtype)t->dtype));
    td_meta       *m = &c->meta[0];
    const int64_t *from = t->stride;
    if (n > 1) {
        sort_dims(t->stride, dim, n - 1);
        lay_out(m, t->stride, dim, n - 1);
        if (m->strided) from = m->stride;
    }
    m->size[last] = size;
    lay_out(m, from, &last, 1);
    return true;
}

bool td__shape_istft_divisor(td_opcall *c) {
    td__meta_like(&c->meta[0], td__in(c, 0));
    return true;
}
