/* kern_complex.c -- kernels of complex numbers that are no pointwise loops: joining
 * real and imaginary parts, products and linear recurrences along dims. */
#include "kernels/kern_complex.h"

#include "ops/cast.h"
#include "rules/geom.h"

/* Copies t, broadcast, to part `which` of every element of out, which is dense. */
static bool put_part(td_tensor *out, const td_tensor *t, int which) {
    td_meta   to, from;
    td_window w, x;
    td__tensor_meta(out, &to);
    from = to;
    from.dtype = to.dtype = td__real_of(to.dtype);
    to.strided = from.strided = true;
    for (int d = 0; d < to.rank; d++) to.stride[d] = 2 * out->stride[d];
    to.offset = 2 * out->offset + which;
    from.offset = t->offset;
    td__expand_strides(t, from.rank, from.size, from.stride);
    return td__copy_into(td__window(&w, out, &to), td__window(&x, t, &from));
}

/* in: real, imag. */
bool td__kern_complex(td_opcall *c) {
    return put_part(c->out[0], td__in(c, 0), 0) && put_part(c->out[0], td__in(c, 1), 1);
}

/* ---- products ------------------------------------------------------------ */

/* A complex number; f32 parts are multiplied in f64 and rounded at the end. */
typedef struct number {
    double re, im;
} number;

static number load(td_dtype dt, const char *p) {
    return (number){td__load_f(dt, p), td__load_imag(dt, p)};
}

static void store(td_dtype dt, char *p, number z) {
    td_dtype re = td__real_of(dt);
    td__store_f(re, p, z.re);
    td__store_f(re, p + td__dtype_bytes[re], z.im);
}

static number times(number a, number b) {
    return (number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

bool td__complex_prod(const td_reduction *r) {
    int64_t from = td__dtype_bytes[r->in], to = td__dtype_bytes[r->out];
    for (int64_t place = 0; place < r->w.outs; place++) {
        const char *p = r->src + td__walk_in(&r->w, place) * from;
        number      all = {1, 0};
        for (int64_t i = 0; i < r->w.reds; i++)
            all = times(all, load(r->in, p + td__walk_red(&r->w, i) * from));
        store(r->out, r->dst + td__walk_out(&r->w, place) * to, all);
    }
    return true;
}

/* Offset of line l of t: an index over its dims but `dim`, in row-major order. */
static int64_t line_at(const td_tensor *t, int dim, int64_t l) {
    int64_t at = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (d == dim) continue;
        at += l % t->size[d] * t->stride[d];
        l /= t->size[d];
    }
    return at;
}

/* Address of element i of line l. */
static char *element(const td_tensor *t, int dim, int64_t l, int64_t i) {
    int64_t at = line_at(t, dim, l) + (t->rank ? i * t->stride[dim] : 0);
    return td__ptr(t) + at * td__dtype_bytes[t->dtype];
}

/* in: self, dim. */
bool td__complex_cumprod(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td_tensor       *out = c->out[0];
    int              dim = td__wrap_dim(td__in_int(c, 1), t->rank);
    int64_t          n = t->rank ? t->size[dim] : 1;
    for (int64_t l = 0; out->numel && l < out->numel / n; l++) {
        number run = {1, 0};
        for (int64_t i = 0; i < n; i++) {
            run = times(run, load((td_dtype)t->dtype, element(t, dim, l, i)));
            store((td_dtype)out->dtype, element(out, dim, l, i), run);
        }
    }
    return true;
}

/* in: a, b, dim, reverse, as kern_linear_scan of real numbers. */
bool td__complex_linear_scan(td_opcall *c) {
    const td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    td_tensor       *out = c->out[0];
    td_dtype         dt = (td_dtype)out->dtype;
    bool             back = td__in_bool(c, 3);
    int              dim = td__wrap_dim(td__in_int(c, 2), b->rank);
    int64_t          n = b->rank ? b->size[dim] : 1;
    for (int64_t l = 0; out->numel && l < out->numel / n; l++) {
        number run = {0, 0};
        for (int64_t k = 0; k < n; k++) {
            int64_t i = back ? n - 1 - k : k, j = back ? i + 1 : i;
            number  f = {0, 0}, add = load(dt, element(b, dim, l, i));
            if (k > 0) f = load(dt, element(a, dim, l, j));
            run = times(run, f);
            run = (number){run.re + add.re, run.im + add.im};
            store(dt, element(out, dim, l, i), run);
        }
    }
    return true;
}
