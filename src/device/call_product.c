/* call_product.c -- products of halves whose rows are not a multiple of 16 bytes apart, such
 * as those with the 50,257 columns of GPT-2's head: libraries compute them several times
 * slower. They are computed on copies whose sizes are padded with zeros. */
#include "device/op_kernel.h"
#include "ops/cast.h"
#include "rules/geom.h"
#include "rules/shape_rules.h"

/* SMALL: multiply-adds below which copies cost more than they save. */
enum { PAD = 64, ALIGNED = 8, SMALL = 1 << 24 };

/* Elements from a row to the next, of what is contiguous along one dim. */
static int64_t row_of(const td_tensor *t) {
    return t->stride[0] == 1 && t->size[1] > 1 ? t->stride[1] : t->stride[0];
}

static bool is_odd(const td_tensor *t) { return row_of(t) % ALIGNED != 0; }

static int64_t padded(int64_t n) { return (n + PAD - 1) / PAD * PAD; }

/* The part of t that begins at (row, col). */
static td_tensor *part(td_window *w, const td_tensor *t, int64_t row, int64_t col,
                       int64_t rows, int64_t cols) {
    td_meta m;
    td__tensor_meta(t, &m);
    m.offset += row * m.stride[0] + col * m.stride[1];
    m.size[0] = rows;
    m.size[1] = cols;
    return td__window(w, t, &m);
}

/* A new tensor of rows x cols; NULL after td__fail. */
static td_tensor *room(td_opcall *c, const td_tensor *like, int64_t rows, int64_t cols) {
    td_meta m;
    int64_t size[2] = {rows, cols};
    td__meta_dense(&m, (td_dtype)like->dtype, 2, size);
    return td__op_make(c, &m);
}

/* t with zeros behind it up to rows x cols, itself if that is its size and its rows are
 * aligned. */
static td_tensor *extended(td_opcall *c, td_tensor *t, int64_t rows, int64_t cols) {
    td_window w;
    int64_t   r = t->size[0], n = t->size[1];
    if (rows == r && cols == n && !is_odd(t)) return t;
    td_tensor *to = room(c, t, rows, cols);
    bool       ok = to && td__copy_into(part(&w, to, 0, 0, r, n), t);
    if (ok && cols > n)
        ok = td__fill(part(&w, to, 0, n, rows, cols - n), td_value_int(0));
    if (ok && rows > r) ok = td__fill(part(&w, to, r, 0, rows - r, n), td_value_int(0));
    return ok ? to : NULL;
}

/* Which sizes are padded: those along which the rows of an odd operand lie. */
bool td__op_padded_product(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1), *out = c->out[0], *to;
    td_window  w;
    if (c->def != td__row(TD_OP_mm) || !td__is_half((td_dtype)out->dtype) ||
        a->dtype != b->dtype || a->dtype != out->dtype)
        return false;
    int64_t m = a->size[0], k = a->size[1], n = b->size[1];
    if (!(is_odd(a) || is_odd(b) || is_odd(out)) || m < ALIGNED || n < ALIGNED ||
        k < ALIGNED || m * n < SMALL / k)
        return false;
    int64_t mp = m % ALIGNED ? padded(m) : m, kp = k % ALIGNED ? padded(k) : k;
    int64_t np = n % ALIGNED ? padded(n) : n;
    to = mp == m && np == n && !is_odd(out) ? out : room(c, out, mp, np);
    if (!to || !(a = extended(c, a, mp, kp)) || !(b = extended(c, b, kp, np)))
        return *ok = false, true;
    if (!td__device_product(c, d, a, b, to, ok)) return false;
    if (*ok && to != out) *ok = td__copy_into(out, part(&w, to, 0, 0, m, n));
    return true;
}
