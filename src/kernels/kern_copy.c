/* kern_copy.c -- kernels that move elements from one geometry to another. Bytes
 * and conversions are cast.c's: a kernel only says which window of which tensor
 * goes where. */
#include "ops/cast.h"
#include "rules/geom.h"

#include <string.h>

/* ---- the same elements -------------------------------------------------- */

/* clone, contiguous copies and casts: the result has its own layout and dtype. */
bool td__kern_copy_first(td_opcall *c) {
    return td__copy_into(c->out[0], td__in(c, 0));
}

/* dst and src hold the same elements in the same row-major order. */
bool td__kern_reshape_copy(td_opcall *c) {
    td_meta          m;
    td_window        w;
    const td_tensor *src = td__in(c, 0);
    td__tensor_meta(src, &m);
    m.strided = false;
    m.offset = c->out[0]->offset;
    return td__copy_into(td__window(&w, c->out[0], &m), src);
}

/* src, seen with the sizes of dst. */
static bool copy_broadcast(td_tensor *dst, const td_tensor *src) {
    td_meta   m;
    td_window w;
    td__tensor_meta(dst, &m);
    m.dtype = (td_dtype)src->dtype;
    m.offset = src->offset;
    td__expand_strides(src, m.rank, m.size, m.stride);
    return td__copy_into(dst, td__window(&w, src, &m));
}

/* in: self, src. The result has the strides of self; src is broadcast. */
bool td__kern_copy(td_opcall *c) { return copy_broadcast(c->out[0], td__in(c, 1)); }

/* in: self, value, a number or a 0-dim tensor. */
bool td__kern_fill(td_opcall *c) {
    const td_tensor *v = td__in(c, 1);
    return v ? copy_broadcast(c->out[0], v) : td__fill(c->out[0], c->in[1]);
}

bool td__kern_zero(td_opcall *c) { return td__fill(c->out[0], td_value_int(0)); }

/* ---- joins -------------------------------------------------------------- */

/* A window of the result moves along dim, one piece per tensor; empty vectors are
 * skipped, as in the rule. */
bool td__kern_cat(td_opcall *c) {
    td_value  list = c->in[0];
    td_meta   m;
    td_window w;
    int       dim = td__wrap_dim(td__in_int(c, 1), c->out[0]->rank);
    td__tensor_meta(c->out[0], &m);
    for (uint32_t i = 0; i < list.n; i++) {
        const td_tensor *t = list.u.ts[i];
        if (t->numel == 0 && t->rank == 1) continue;
        m.size[dim] = t->size[dim];
        if (!td__copy_into(td__window(&w, c->out[0], &m), t)) return false;
        m.offset += m.stride[dim] * t->size[dim];
    }
    return true;
}

/* Tensor i is copied to entry i of the new dim. */
bool td__kern_stack(td_opcall *c) {
    td_value  list = c->in[0];
    td_meta   m;
    td_window w;
    int       dim = td__wrap_dim(td__in_int(c, 1), c->out[0]->rank);
    for (uint32_t i = 0; i < list.n; i++) {
        td__tensor_meta(c->out[0], &m);
        td__select_part(c, &m, dim, i);
        if (!td__copy_into(td__window(&w, c->out[0], &m), list.u.ts[i])) return false;
    }
    return true;
}

/* Appends a dim to a geometry. */
static void add_dim(td_meta *m, int64_t size, int64_t stride) {
    m->size[m->rank] = size;
    m->stride[m->rank++] = stride;
}

/* Each repeated dim is two: the repeats, over which src stands still, and the
 * entries. Dims of one repeat or one entry need one, so the rank stays small. */
bool td__kern_repeat(td_opcall *c) {
    const td_tensor *src = td__in(c, 0), *out = c->out[0];
    td_meta          d = {.strided = true}, s = {.strided = true};
    td_window        dw, sw;
    int              add = out->rank - src->rank;
    d.dtype = s.dtype = (td_dtype)src->dtype;
    d.offset = out->offset;
    s.offset = src->offset;
    if (out->numel == 0) return true;
    for (int i = 0; i < out->rank; i++) {
        int64_t r = c->in[1].u.ints[i], n = i < add ? 1 : src->size[i - add];
        if (d.rank + 2 > TD_MAX_RANK)
            return td__op_fail(
                c, TD_E_UNSUPPORTED,
                "unsupported: sizes and repeats above 1 make more than %d dims",
                TD_MAX_RANK);
        if (r > 1) {
            add_dim(&d, r, n * out->stride[i]);
            add_dim(&s, r, 0);
        }
        if (n > 1) {
            add_dim(&d, n, out->stride[i]);
            add_dim(&s, n, src->stride[i - add]);
        }
    }
    return td__copy_into(td__window(&dw, out, &d), td__window(&sw, src, &s));
}

/* ---- elsewhere ---------------------------------------------------------- */

typedef uint32_t four __attribute__((vector_size(16)));

/* 64 bytes of elements of four or eight bytes, in reverse order. */
static inline void reverse_line(char *to, const char *from, int64_t item) {
    four x[4];
    memcpy(x, from, sizeof x);
    for (int k = 0; k < 4; k++) {
        four y = item == 4 ? __builtin_shufflevector(x[3 - k], x[3 - k], 3, 2, 1, 0)
                           : __builtin_shufflevector(x[3 - k], x[3 - k], 2, 3, 0, 1);
        memcpy(to + 16 * k, &y, sizeof y);
    }
}

/* `bytes` of elements of four, eight or sixteen bytes, in reverse order. */
static void reverse_part(char *to, const char *from, int64_t bytes, int64_t item) {
    int64_t at = 0, lines = bytes - bytes % 64;
    if (item == 4)
        for (; at < lines; at += 64) reverse_line(to + bytes - at - 64, from + at, 4);
    else if (item == 8)
        for (; at < lines; at += 64) reverse_line(to + bytes - at - 64, from + at, 8);
    for (; at < bytes; at += item)
        memcpy(to + bytes - at - item, from + at, (size_t)item);
}

/* The same in the order of `to`. */
static void reverse_back(char *to, const char *from, int64_t bytes, int64_t item) {
    const char *end = from + bytes;
    int64_t     at = 0, lines = bytes - bytes % 64;
    if (item == 4)
        for (; at < lines; at += 64) reverse_line(to + at, end - at - 64, 4);
    else if (item == 8)
        for (; at < lines; at += 64) reverse_line(to + at, end - at - 64, 8);
    for (; at < bytes; at += item) memcpy(to + at, end - at - item, (size_t)item);
}

/* n elements from the last at `from` back to the first. A row of a few pages, of rows
 * that ascend, goes by way of a buffer: memory is read and written in ascending order,
 * which processors follow better. Another is read backwards. */
static void reverse_row(char *to, const char *from, int64_t n, int64_t item,
                        bool ascend) {
    char        buf[8192];
    const char *first = from - (n - 1) * item;
    if (!ascend || n * item > (int64_t)sizeof buf) {
        reverse_back(to, first, n * item, item);
        return;
    }
    reverse_part(buf, first, n * item, item);
    memcpy(to, buf, (size_t)(n * item));
}

/* A flip whose last dim is read backwards. */
typedef struct mirror {
    char          *to;
    const char    *from;
    const td_meta *m; /* how `from` is walked, the last dim by -1 */
    int64_t        item;
} mirror;

/* Rows [begin, end) of a flip whose last dim is reversed. */
static void reverse_rows(void *arg, int64_t begin, int64_t end) {
    const mirror *f = arg;
    int           last = f->m->rank - 1;
    int64_t       n = f->m->size[last];
    for (int64_t row = begin; row < end; row++) {
        int64_t at = 0, rest = row;
        for (int d = last - 1; d >= 0; d--) {
            at += rest % f->m->size[d] * f->m->stride[d];
            rest /= f->m->size[d];
        }
        reverse_row(f->to + row * n * f->item, f->from + at * f->item, n, f->item,
                    last == 0 || f->m->stride[last - 1] > 0);
    }
}

/* Long rows that are written in order and read backwards. */
static bool flip_rows(const td_tensor *out, const td_tensor *src, const td_meta *m) {
    int64_t item = td__dtype_bytes[src->dtype];
    int     last = m->rank - 1;
    if (last < 0 || m->stride[last] != -1 || m->size[last] < 16 || item < 4 ||
        src->st->device || !td__is_dense(out->rank, out->size, out->stride))
        return false;
    mirror f = {td__ptr(out), td__ptr(src) + (m->offset - src->offset) * item, m, item};
    td__pool_run(out->numel / m->size[last], 1 + 32768 / m->size[last], reverse_rows,
                 &f);
    return true;
}

/* src is walked backwards: from the last entry with negative strides. */
bool td__kern_flip(td_opcall *c) {
    const td_tensor *src = td__in(c, 0);
    td_meta          m;
    td_window        w;
    td__tensor_meta(src, &m);
    if (src->numel == 0) return true;
    for (uint32_t k = 0; k < c->in[1].n && src->rank > 0; k++) {
        int d = td__wrap_dim(c->in[1].u.ints[k], src->rank);
        m.offset += (m.size[d] - 1) * m.stride[d];
        m.stride[d] = -m.stride[d];
    }
    return flip_rows(c->out[0], src, &m) ||
           td__copy_into(c->out[0], td__window(&w, src, &m));
}

/* Copies src to dst, each dim rotated by shift[d] (0 <= shift < size): every
 * rotated dim is cut in two and the blocks change places. */
static bool rotate(const td_tensor *out, const td_tensor *in, td_meta *d, td_meta *s,
                   const int64_t *shift, int dim) {
    td_window dw, sw;
    while (dim < d->rank && shift[dim] == 0) dim++;
    if (dim == d->rank)
        return td__copy_into(td__window(&dw, out, d), td__window(&sw, in, s));
    int64_t n = d->size[dim], by = shift[dim], at_d = d->offset, at_s = s->offset;
    for (int half = 0; half < 2; half++) {
        d->size[dim] = s->size[dim] = half ? by : n - by;
        d->offset = at_d + (half ? 0 : by) * d->stride[dim];
        s->offset = at_s + (half ? n - by : 0) * s->stride[dim];
        if (!rotate(out, in, d, s, shift, dim + 1)) return false;
    }
    d->size[dim] = s->size[dim] = n;
    d->offset = at_d;
    s->offset = at_s;
    return true;
}

/* The shift as 0 <= r < n. */
static int64_t wrap_shift(int64_t shift, int64_t n) {
    int64_t r = n ? shift % n : 0;
    return r < 0 ? r + n : r;
}

/* Over all elements: both sides seen as one row-major dim. */
static bool roll_flat(td_opcall *c, td_meta *d, td_meta *s, td_tensor *in) {
    td_tensor *out = c->out[0], *dense = in;
    int64_t    shift[1];
    if (!td__is_dense(in->rank, in->size, in->stride)) {
        td_meta m = *s;
        m.strided = false;
        dense = td__tensor_make(c->cx, &m, false);
        if (!dense || !td__copy_into(dense, in)) return false;
    }
    d->rank = s->rank = 1;
    d->size[0] = s->size[0] = out->numel;
    d->stride[0] = s->stride[0] = 1;
    s->offset = dense->offset;
    shift[0] = wrap_shift(c->in[1].u.ints[0], out->numel);
    bool ok = rotate(out, dense, d, s, shift, 0);
    if (dense != in) td_drop(dense);
    return ok;
}

/* Rows of n bytes, each rotated by `by`. */
typedef struct turns {
    char       *to;
    const char *from;
    size_t      n, by;
} turns;

/* By way of a buffer: the two sides are seldom aligned alike, and where they are a
 * few bytes apart but for whole pages, loads would wait for stores. */
static void turn_row(const turns *t, char *to, const char *from) {
    char buf[4096];
    for (size_t at = 0, n; at < t->n; at += n) {
        n = t->n - at < sizeof buf ? t->n - at : sizeof buf;
        size_t tail = at < t->by ? t->by - at : 0;
        if (tail > n) tail = n;
        if (tail) memcpy(buf, from + t->n - t->by + at, tail);
        if (n > tail) memcpy(buf + tail, from + at + tail - t->by, n - tail);
        memcpy(to + at, buf, n);
    }
}

/* Rows [begin, end); short ones by bytes, which costs less than calls. */
static void turn_rows(void *arg, int64_t begin, int64_t end) {
    const turns *t = arg;
    size_t       few = t->n - t->by;
    for (int64_t i = begin; i < end && t->n <= 16; i++) {
        char       *to = t->to + (size_t)i * t->n;
        const char *from = t->from + (size_t)i * t->n;
        for (size_t k = 0; k < t->by; k++) to[k] = from[few + k];
        for (size_t k = 0; k < few; k++) to[t->by + k] = from[k];
    }
    for (int64_t i = begin; i < end && t->n > 16; i++)
        turn_row(t, t->to + (size_t)i * t->n, t->from + (size_t)i * t->n);
}

/* One dim of a dense tensor: whole rows at once, each read and written in order. */
static bool roll_rows(const td_tensor *out, const td_tensor *in, const int64_t *shift) {
    int     dim = -1;
    int64_t rows = 1, item = td__dtype_bytes[in->dtype];
    if (in->st->device || !td__is_dense(in->rank, in->size, in->stride) ||
        !td__is_dense(out->rank, out->size, out->stride))
        return false;
    for (int d = 0; d < in->rank; d++) {
        if (shift[d] == 0) continue;
        if (dim >= 0) return false;
        dim = d;
    }
    for (int d = 0; d < dim; d++) rows *= in->size[d];
    if (dim < 0 || rows < 16) return false; /* too few for threads */
    int64_t n = in->numel / rows * item;
    turns   t = {td__ptr(out), td__ptr(in), (size_t)n,
                 (size_t)(n / in->size[dim] * shift[dim])};
    td__pool_run(rows, 1 + (1 << 17) / n, turn_rows, &t);
    return true;
}

/* in: self, shifts, dims. Shifts of one dim add up. */
bool td__kern_roll(td_opcall *c) {
    td_tensor *in = td__in(c, 0);
    td_meta    d, s;
    int64_t    shift[TD_MAX_RANK] = {0};
    td__tensor_meta(c->out[0], &d);
    td__tensor_meta(in, &s);
    if (in->numel == 0) return true;
    if (c->in[2].n == 0) return roll_flat(c, &d, &s, in);
    for (uint32_t k = 0; k < c->in[2].n; k++) {
        int dim = td__wrap_dim(c->in[2].u.ints[k], in->rank);
        shift[dim] =
            wrap_shift(shift[dim] + wrap_shift(c->in[1].u.ints[k], in->size[dim]),
                       in->size[dim]);
    }
    return roll_rows(c->out[0], in, shift) || rotate(c->out[0], in, &d, &s, shift, 0);
}

/* in: self, pad, value. Fills, then copies what remains of self into its window;
 * negative numbers shorten the window of self. */
bool td__kern_pad(td_opcall *c) {
    const td_tensor *in = td__in(c, 0);
    td_value         pad = c->in[1];
    td_meta          d, s;
    td_window        dw, sw;
    td__tensor_meta(c->out[0], &d);
    td__tensor_meta(in, &s);
    if (c->out[0]->numel == 0) return true;
    for (uint32_t k = 0; k < pad.n; k += 2) {
        int     dim = in->rank - 1 - (int)(k / 2);
        int64_t before = pad.u.ints[k], after = pad.u.ints[k + 1];
        int64_t skip_s = before < 0 ? -before : 0, skip_d = before > 0 ? before : 0;
        int64_t n = s.size[dim] - skip_s + (after < 0 ? after : 0);
        d.offset += skip_d * d.stride[dim];
        s.offset += skip_s * s.stride[dim];
        d.size[dim] = s.size[dim] = n;
    }
    return td__fill(c->out[0], c->in[2]) &&
           td__copy_into(td__window(&dw, c->out[0], &d), td__window(&sw, in, &s));
}

/* ---- triangles ---------------------------------------------------------- */

/* Zeroes columns first..end of one row. */
static void zero_row(char *row, int64_t first, int64_t end, int64_t step, size_t item) {
    if (step == 1 && end > first)
        memset(row + first * (int64_t)item, 0, (size_t)(end - first) * item);
    else
        for (int64_t j = first; j < end; j++)
            memset(row + j * step * (int64_t)item, 0, item);
}

/* v limited to 0..n. */
static int64_t clamp(int64_t v, int64_t n) { return v < 0 ? 0 : v > n ? n : v; }

/* Zeroes the elements above (lower) or below diagonal k of one matrix. */
static void zero_matrix(const td_tensor *t, char *at, int64_t k, bool lower) {
    int     r = t->rank - 2, q = t->rank - 1;
    size_t  item = td__dtype_bytes[t->dtype];
    int64_t cols = t->size[q];
    k = k > cols ? cols : k < -t->size[r] ? -t->size[r] : k;
    for (int64_t i = 0; i < t->size[r]; i++) {
        char *row = at + i * t->stride[r] * (int64_t)item;
        if (lower) zero_row(row, clamp(i + k + 1, cols), cols, t->stride[q], item);
        else zero_row(row, 0, clamp(i + k, cols), t->stride[q], item);
    }
}

/* in: self, diagonal. Copies, then zeroes the other triangle of every matrix of the
 * stack. */
static bool triangle(td_opcall *c, bool lower) {
    td_tensor *t = c->out[0];
    int64_t    at[TD_MAX_RANK] = {0}, off = 0, item = td__dtype_bytes[t->dtype];
    if (t != td__in(c, 0) && !td__copy_into(t, td__in(c, 0))) return false;
    if (t->numel == 0) return true;
    for (int d = 0; d >= 0;) {
        zero_matrix(t, td__ptr(t) + off * item, td__in_int(c, 1), lower);
        for (d = t->rank - 3; d >= 0; d--) {
            off += t->stride[d];
            if (++at[d] < t->size[d]) break;
            off -= at[d] * t->stride[d];
            at[d] = 0;
        }
    }
    return true;
}

bool td__kern_tril(td_opcall *c) { return triangle(c, true); }
bool td__kern_triu(td_opcall *c) { return triangle(c, false); }
