/* call_fold.c -- folds of long rows, which many blocks share; triangles and
 * sequences. */
#include "device/op_kernel.h"
#include "ops/cast.h"
#include "rules/geom.h"
#include "rules/reduce_dims.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* WAY of td_k_power. */
enum { PLAIN, SIZES, SQUARES, POWERS, NONZERO, MOST, LEAST };

static bool is_plain(const td_tensor *t) {
    return td__is_dense(t->rank, t->size, t->stride);
}

/* The rows of a reduction over the last dims of a dense tensor; false: other dims. */
static bool rows_of(const td_tensor *x, const td_value *dims, int64_t *rows,
                    int64_t *n) {
    bool folded[TD_MAX_RANK + 1];
    int  d = x->rank;
    td__reduce_mask(dims, x->rank, true, folded);
    while (d > 0 && folded[d - 1]) d--;
    for (int i = 0; i < d; i++)
        if (folded[i] && x->size[i] > 1) return false;
    *rows = td__numel(d, x->size);
    *n = td__numel(x->rank - d, x->size + d);
    return true;
}

/* In how many parts a row is folded; depends on the sizes only. */
static int64_t parts_of(int64_t rows, int64_t n) {
    int64_t parts = 1;
    while (parts < 512 && rows * parts < 512 && n / parts > 8192) parts *= 2;
    return parts;
}

/* root: 0 none, 1 the square root, 2 that of p. */
static bool fold(td_opcall *c, td_device_state *d, int way, double p, int root,
                 int64_t rows, int64_t n, bool *ok) {
    td_tensor   *x = td__in(c, 0), *out = c->out[0];
    int64_t      parts = parts_of(rows, n);
    td_dtype     dt = x->dtype == TD_F64 ? TD_F64 : TD_F32;
    td_tensor   *room = td__op_room(c, dt, rows * parts);
    td_op_kernel k = {.name = "td_k_row_parts", .c = c, .way = way}, end;
    if (!room) return *ok = false, true;
    k.defines = dt == TD_F64 ? "#define SUM double\n" : "#define SUM float\n";
    td__op_ptr(&k, x);
    td__op_ptr(&k, room);
    int64_t given[] = {rows * parts, n, parts, td__double_bits(p)};
    memcpy(k.run.given, given, sizeof given);
    if (!td__op_start(&k, d, (n + parts - 1) / parts, rows * parts, ok)) return false;
    if (!*ok) return true;
    end = (td_op_kernel){.name = "td_k_row_end",
                         .c = c,
                         .way = way,
                         .defines = k.defines};
    td__op_ptr(&end, room);
    td__op_ptr(&end, out);
    int64_t last[] = {rows, parts, root, td__double_bits(1 / p)};
    memcpy(end.run.given, last, sizeof last);
    return td__op_start(&end, d, rows, 0, ok);
}

/* in: self, p, dim, keepdim, dtype. */
bool td__op_norm(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *x = td__in(c, 0), *out = c->out[0];
    double     p = td__in_f(c, 1);
    int64_t    rows, n;
    if (!td__is_float((td_dtype)x->dtype) || x->dtype != out->dtype || x->numel == 0 ||
        !is_plain(x) || !is_plain(out) || !rows_of(x, &c->in[2], &rows, &n))
        return false;
    int way = isinf(p)                           ? (p > 0 ? MOST : LEAST)
              : p == 0                           ? NONZERO
              : p == 1 || x->numel == out->numel ? SIZES
              : p == 2                           ? SQUARES
                                                 : POWERS;
    int root = way == SQUARES ? 1 : way == POWERS ? 2 : 0;
    return fold(c, d, way, p, root, rows, n, ok);
}

/* Sums of few long rows. in: self, and dims. */
bool td__op_long_sum(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *x = td__in(c, 0), *out = c->out[0];
    int64_t    rows, n;
    if (!td__is_float((td_dtype)x->dtype) || x->dtype != out->dtype || x->numel == 0 ||
        !is_plain(x) || !is_plain(out) ||
        !rows_of(x, &c->in[td__op_arg(c->info->op, "dim")], &rows, &n) ||
        parts_of(rows, n) == 1)
        return false;
    return fold(c, d, PLAIN, 1, 0, rows, n, ok);
}

/* ---- triangles ---------------------------------------------------------- */

static bool triangle(td_opcall *c, td_device_state *d, bool lower, bool *ok) {
    td_tensor     *t = c->out[0];
    int            r = t->rank - 2;
    const int64_t *stride[1] = {t->stride};
    td_op_kernel   k = {.name = "td_k_triangle", .c = c};
    if (td__may_share_places(t)) return false;
    td__op_ptr(&k, t);
    if (!td__op_walk(&k, 0, r, t->size, stride, 1)) return false;
    if (t != td__in(c, 0) && !td__copy_into(t, td__in(c, 0))) return *ok = false, true;
    int64_t given[] = {t->numel,         t->size[r],       t->size[r + 1], t->stride[r],
                       t->stride[r + 1], td__in_int(c, 1), lower};
    int64_t most = t->size[r] + t->size[r + 1]; /* beyond: all of it, or nothing */
    if (given[5] > most) given[5] = most;
    if (given[5] < -most) given[5] = -most;
    memcpy(k.run.given, given, sizeof given);
    return td__op_start(&k, d, t->numel, 0, ok);
}

bool td__op_tril(td_opcall *c, td_device_state *d, bool *ok) {
    return triangle(c, d, true, ok);
}

bool td__op_triu(td_opcall *c, td_device_state *d, bool *ok) {
    return triangle(c, d, false, ok);
}

/* ---- sequences ---------------------------------------------------------- */

/* in: start, end, step, dtype. */
bool td__op_arange(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor   *t = c->out[0];
    td_dtype     dt = (td_dtype)t->dtype;
    td_op_kernel k = {.name = td__is_float(dt) ? "td_k_range" : "td_k_integers",
                      .c = c};
    td__op_ptr(&k, t);
    k.defines = td__is_half(dt) ? "#define LANES 16\n"
                : dt == TD_F64  ? "#define LANES 4\n"
                                : "#define LANES 8\n";
    k.run.given[0] = t->numel;
    if (td__is_float(dt)) {
        k.run.given[1] = td__double_bits(td__in_f(c, 0));
        k.run.given[2] = td__double_bits(td__in_f(c, 2));
    } else {
        k.run.given[1] = td__value_i(c->in[0]);
        k.run.given[2] = td__value_i(c->in[2]);
    }
    return td__op_start(&k, d, t->numel, 0, ok);
}

/* Zeros, and ones at every step of columns + 1. */
bool td__op_eye(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *t = c->out[0];
    td_meta    m;
    td_window  w;
    (void)d;
    td__tensor_meta(t, &m);
    m.rank = 1;
    m.stride[0] = t->size[1] + 1;
    m.size[0] = t->size[0] < t->size[1] ? t->size[0] : t->size[1];
    *ok = td__fill(t, td_value_int(0)) &&
          td__fill(td__window(&w, t, &m), td_value_int(1));
    return true;
}
