/* call_product.c -- products that are added to a tensor, and products of halves
 * whose rows are not a multiple of 16 bytes apart, such as those with the 50,257
 * columns of GPT-2's head: libraries compute them several times slower. They are
 * computed on copies whose sizes are padded with zeros. */
#include "device/op_kernel.h"
#include "ops/cast.h"
#include "rules/geom.h"
#include "rules/shape_rules.h"

#include <string.h>

/* SMALL: multiply-adds below which copies cost more than they save. */
enum { PAD = 64, ALIGNED = 8, SMALL = 1 << 24 };

/* Elements from a row to the next, of what is contiguous along one dim. */
static int64_t row_of(const td_tensor *t) {
    return t->stride[0] == 1 && t->size[1] > 1 ? t->stride[1] : t->stride[0];
}

static bool is_odd(const td_tensor *t) { return row_of(t) % ALIGNED != 0; }

static int64_t padded(int64_t n) { return (n + PAD - 1) / PAD * PAD; }

/* A matrix in the order of memory: its rows are contiguous and `row` elements apart. */
typedef struct matrix {
    const td_tensor *t;
    int64_t          rows, cols, row;
    bool             transposed; /* t is the transpose of it */
} matrix;

static matrix matrix_of(const td_tensor *t) {
    bool transposed = t->stride[0] == 1 && t->size[1] > 1 && t->stride[1] != 1;
    return (matrix){t, t->size[transposed], t->size[!transposed], row_of(t),
                    transposed};
}

/* Copies m to the start of `to`, a matrix of rows x cols, with zeros behind it. */
static bool extend(td_opcall *c, td_device_state *d, matrix m, td_tensor *to,
                   int64_t rows, int64_t cols, bool *ok) {
    td_op_kernel k = {.name = "td_k_extend", .c = c};
    int64_t      given[] = {rows, cols, m.rows, m.cols, m.row, to->stride[0]};
    td__op_ptr(&k, m.t);
    td__op_ptr(&k, to);
    memcpy(k.run.given, given, sizeof given);
    return td__op_start(&k, d, cols, rows, ok);
}

static td_tensor *room(td_opcall *c, const td_tensor *like, int64_t rows,
                       int64_t cols) {
    td_meta m;
    int64_t size[2] = {rows, cols};
    td__meta_dense(&m, (td_dtype)like->dtype, 2, size);
    return td__op_make(c, &m);
}

/* t with zeros behind it up to rows x cols, itself if that is its size and its rows are
 * aligned; NULL: it cannot be. */
static const td_tensor *extended(td_opcall *c, td_device_state *d, const td_tensor *t,
                                 int64_t rows, int64_t cols, td_window *w) {
    matrix  m = matrix_of(t);
    td_meta seen;
    bool    ok;
    if (rows == t->size[0] && cols == t->size[1] && !is_odd(t)) return t;
    td_tensor *to = room(c, t, m.transposed ? cols : rows, m.transposed ? rows : cols);
    if (!to || !extend(c, d, m, to, to->size[0], to->size[1], &ok) || !ok) return NULL;
    if (!m.transposed) return to;
    td__tensor_meta(to, &seen);
    seen.size[0] = rows, seen.size[1] = cols;
    seen.stride[0] = 1, seen.stride[1] = rows;
    return td__window(w, to, &seen);
}

/* Are the rows or the columns contiguous? */
static bool is_matrix(const td_tensor *t) {
    return t->stride[0] == 1 || t->stride[1] == 1;
}

/* Which sizes are padded: those along which the rows of an odd operand lie. */
bool td__op_padded_product(td_opcall *c, td_device_state *d, bool *ok) {
    const td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    td_tensor       *out = c->out[0], *to;
    td_window        w[2];
    if (c->def != td__row(TD_OP_mm) || !td__is_half((td_dtype)out->dtype) ||
        a->dtype != b->dtype || a->dtype != out->dtype || !is_matrix(a) ||
        !is_matrix(b) || out->stride[1] != 1)
        return false;
    int64_t m = a->size[0], k = a->size[1], n = b->size[1];
    if (!(is_odd(a) || is_odd(b) || is_odd(out)) || m < ALIGNED || n < ALIGNED ||
        k < ALIGNED || m * n < SMALL / k)
        return false;
    int64_t mp = m % ALIGNED ? padded(m) : m, kp = k % ALIGNED ? padded(k) : k;
    int64_t np = n % ALIGNED ? padded(n) : n;
    bool    direct = mp == m && np == n && !is_odd(out);
    if (!(to = direct ? out : room(c, out, mp, np)) ||
        !(a = extended(c, d, a, mp, kp, &w[0])) ||
        !(b = extended(c, d, b, kp, np, &w[1])))
        return !(*ok = td_ok(c->cx));
    td_product p = {a, b, to, 1, 0, NULL};
    if (!td__device_product(c, d, &p, ok)) return false;
    matrix made = {to, mp, np, np, false};
    return direct || !*ok || extend(c, d, made, out, m, n, ok);
}

/* Has self an element for each column of the result, and no rows? */
static bool is_bias(const td_tensor *self, const td_tensor *out) {
    return self->rank == 1 && out->rank == 2 && self->size[0] == out->size[1] &&
           (self->stride[0] == 1 || self->size[0] == 1);
}

/* in: self, a, b, beta, alpha: the product is added to self, broadcast into the result;
 * its simpler form would compute halves in f32. */
bool td__op_addmm(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *self = td__in(c, 0), *out = c->out[0];
    double     beta = td__value_f(c->in[3]), alpha = td__value_f(c->in[4]);
    td_product p = {td__in(c, 1), td__in(c, 2), out, alpha, beta, NULL};
    td_meta    m;
    td_window  w;
    if (!d->plugin->product || !td__is_float((td_dtype)out->dtype) ||
        p.a->dtype != out->dtype || p.b->dtype != out->dtype ||
        self->dtype != out->dtype || p.a->numel == 0 || p.b->numel == 0 ||
        out->stride[out->rank - 1] != 1)
        return false;
    if (beta == 1 && is_bias(self, out)) {
        p.bias = self, p.beta = 0;
        if (td__device_product(c, d, &p, ok)) return true;
        p.bias = NULL, p.beta = 1;
    }
    if (beta != 0 && out != self) {
        td__tensor_meta(out, &m);
        m.offset = self->offset;
        td__expand_strides(self, m.rank, m.size, m.stride);
        if (!td__copy_into(out, td__window(&w, self, &m))) return *ok = false, true;
    }
    return td__device_product(c, d, &p, ok);
}
