/* call_rows.c -- ops along a dim on a device: softmax, norms, losses, extremes,
 * sorts and scans (text/rows.h). Sums over rows are made in parts whose number
 * depends on the sizes only, so results repeat to the bit. */
#include "device/op_kernel.h"
#include "ops/cast.h"
#include "rules/geom.h"
#include "rules/reduce_dims.h"

#include <string.h>

/* ---- softmax ------------------------------------------------------------ */

/* y: the result of the forward op, or NULL. */
static bool softmax(td_opcall *c, td_device_state *d, int way, td_tensor *y,
                    int64_t dim, bool *ok) {
    td_tensor   *x = td__in(c, 0), *out = c->out[0];
    td_op_kernel k = {.name = "td_k_softmax", .c = c, .way = way, .math = true};
    if (out->numel == 0 || !td__is_dense(out->rank, out->size, out->stride))
        return false;
    td_lines l = td__op_lines(x, td__wrap_dim(dim, x->rank));
    if (!(x = td__op_dense(c, x)) || (y && !(y = td__op_dense(c, y))))
        return *ok = false, true;
    td__op_ptr(&k, x);
    td__op_ptr(&k, y);
    td__op_ptr(&k, out);
    k.defines =
        l.inner == 1 ? "#define STEP(i) (i)\n" : "#define STEP(i) ((i) * inner)\n";
    int64_t given[] = {l.outer * l.inner, l.n, l.inner};
    memcpy(k.run.given, given, sizeof given);
    return td__op_start(&k, d, l.n, l.outer * l.inner, ok);
}

bool td__op_softmax(td_opcall *c, td_device_state *d, bool *ok) {
    return softmax(c, d, 0, NULL, td__in_int(c, 1), ok);
}

bool td__op_log_softmax(td_opcall *c, td_device_state *d, bool *ok) {
    return softmax(c, d, 1, NULL, td__in_int(c, 1), ok);
}

bool td__op_softmax_backward(td_opcall *c, td_device_state *d, bool *ok) {
    return softmax(c, d, 2, td__in(c, 1), td__in_int(c, 2), ok);
}

bool td__op_log_softmax_backward(td_opcall *c, td_device_state *d, bool *ok) {
    return softmax(c, d, 3, td__in(c, 1), td__in_int(c, 2), ok);
}

bool td__op_safe_softmax(td_opcall *c, td_device_state *d, bool *ok) {
    return softmax(c, d, 4, NULL, td__in_int(c, 1), ok);
}

/* ---- norms -------------------------------------------------------------- */

static bool is_plain(const td_tensor *t) {
    return td__is_dense(t->rank, t->size, t->stride);
}

/* x, weight, bias as dense tensors, then the results. */
static bool norm(td_opcall *c, td_device_state *d, td_op_kernel *k, td_tensor *w,
                 td_tensor *b, int64_t rows, int64_t n, double eps, bool *ok) {
    td_tensor *x = td__in(c, 0);
    for (int i = 0; i < 3; i++)
        if (!is_plain(c->out[i])) return false;
    if (x->numel == 0) return false;
    if (!(x = td__op_dense(c, x)) || (w && !(w = td__op_dense(c, w))) ||
        (b && !(b = td__op_dense(c, b))))
        return *ok = false, true;
    td__op_ptr(k, x);
    td__op_ptr(k, w);
    td__op_ptr(k, b);
    for (int i = 0; i < 3; i++) td__op_ptr(k, c->out[i]);
    k->run.given[0] = rows;
    k->run.given[1] = n;
    k->run.given[2] = td__double_bits(eps);
    return td__op_start(k, d, n, rows, ok);
}

/* The number of elements in the last `dims` dims. */
static int64_t row_length(const td_tensor *x, int dims) {
    return td__numel(dims, x->size + x->rank - dims);
}

/* in: input, normalized_shape, weight, bias, eps. */
bool td__op_layer_norm(td_opcall *c, td_device_state *d, bool *ok) {
    td_op_kernel k = {.name = "td_k_norm", .c = c, .math = true};
    td_tensor   *x = td__in(c, 0);
    int64_t      n = row_length(x, (int)c->in[1].n);
    if (n == 0) return false;
    return norm(c, d, &k, td__in(c, 2), td__in(c, 3), x->numel / n, n, td__in_f(c, 4),
                ok);
}

/* in: input, weight, bias, N, C, HxW, group, eps. */
bool td__op_group_norm(td_opcall *c, td_device_state *d, bool *ok) {
    td_op_kernel k = {.name = "td_k_norm", .c = c, .way = 1, .math = true};
    td_tensor   *x = td__in(c, 0);
    int64_t      groups = td__in_int(c, 6), rows = td__in_int(c, 3) * groups;
    if (x->numel == 0 || groups == 0) return false;
    k.run.given[3] = groups;
    k.run.given[4] = td__in_int(c, 4) / groups;
    k.run.given[5] = td__in_int(c, 5);
    return norm(c, d, &k, td__in(c, 1), td__in(c, 2), rows, x->numel / rows,
                td__in_f(c, 7), ok);
}

/* In how many parts the rows of n columns are summed. */
static int64_t parts_of(int64_t rows, int64_t n) {
    int64_t parts = 1;
    while (parts < 256 && parts * n < 1 << 17 && parts * 8 < rows) parts *= 2;
    return parts;
}

/* Adds the parts [outer][parts][step] from column `first` on, n of them, into `to`. */
static bool fold_parts(td_opcall *c, td_device_state *d, td_tensor *sums, td_tensor *to,
                       const int64_t given[5], bool *ok) {
    td_op_kernel k = {.name = "td_k_fold_parts", .c = c};
    td__op_ptr(&k, sums);
    td__op_ptr(&k, to);
    memcpy(k.run.given, given, 5 * sizeof *given);
    return td__op_start(&k, d, given[0] * given[4], 0, ok);
}

static td_dtype sums_in(td_dtype dt) { return dt == TD_F64 ? TD_F64 : TD_F32; }

/* Gradients of weight and bias. */
static bool norm_sums(td_opcall *c, td_device_state *d, td_tensor *const t[4],
                      int64_t rows, int64_t n, const int64_t *mask, bool *ok) {
    int64_t      parts = parts_of(rows, n);
    td_op_kernel k = {.name = "td_k_norm_sums", .c = c};
    td_tensor   *sums = td__op_room(c, sums_in((td_dtype)t[0]->dtype), 2 * parts * n);
    if (!sums) return *ok = false, true;
    for (int i = 0; i < 4; i++) td__op_ptr(&k, t[i]);
    td__op_ptr(&k, sums);
    int64_t given[] = {rows, n, parts};
    memcpy(k.run.given, given, sizeof given);
    if (!td__op_start(&k, d, n * parts, 0, ok)) return false;
    for (int i = 0; i < 2 && *ok; i++) {
        int64_t all[5] = {n, parts, 2 * n, i * n, 1};
        if (mask[1 + i] && !fold_parts(c, d, sums, c->out[1 + i], all, ok))
            return false;
    }
    return true;
}

/* in: grad_out, input, normalized_shape, mean, rstd, weight, output_mask. */
bool td__op_layer_norm_backward(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor     *t[5] = {td__in(c, 0), td__in(c, 1), td__in(c, 3), td__in(c, 4),
                           td__in(c, 5)};
    const int64_t *mask = c->in[6].u.ints;
    int64_t        n = row_length(t[1], (int)c->in[2].n);
    if (t[1]->numel == 0) return false;
    for (int i = 0; i < 3; i++)
        if (mask[i] && !is_plain(c->out[i])) return false;
    for (int i = 0; i < 5; i++)
        if (t[i] && !(t[i] = td__op_dense(c, t[i]))) return *ok = false, true;
    int64_t      rows = t[1]->numel / n;
    td_op_kernel k = {.name = "td_k_norm_grad", .c = c};
    int          order[5] = {0, 1, 4, 2, 3};
    for (int i = 0; i < 5; i++) td__op_ptr(&k, t[order[i]]);
    td__op_ptr(&k, c->out[0]);
    k.run.given[0] = rows;
    k.run.given[1] = n;
    *ok = true;
    if (mask[0] && !td__op_start(&k, d, n, rows, ok)) return false;
    if (!*ok || !(mask[1] || mask[2])) return true;
    return norm_sums(c, d, t, rows, n, mask, ok);
}

/* ---- sums over outer dims ----------------------------------------------- */

/* A sum over one dim that is not the innermost, of floats, reads rows of columns. in:
 * self, dim, keepdim, dtype. */
bool td__op_column_sum(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *x = td__in(c, 0), *out = c->out[0];
    bool       folded[TD_MAX_RANK + 1];
    int        first = -1, last = -1;
    if (!td__is_float((td_dtype)x->dtype) || x->dtype != out->dtype || x->numel == 0 ||
        !is_plain(x) || !is_plain(out))
        return false;
    td__reduce_mask(&c->in[td__op_arg(c->info->op, "dim")], x->rank, true, folded);
    for (int i = 0; i < x->rank; i++) {
        if (!folded[i]) continue;
        if (last >= 0 && last != i - 1) return false;
        first = first < 0 ? i : first;
        last = i;
    }
    if (first < 0) return false;
    int64_t outer = td__numel(first, x->size);
    int64_t rows = td__numel(last + 1 - first, x->size + first);
    int64_t n = td__numel(x->rank - last - 1, x->size + last + 1);
    int64_t parts = parts_of(rows, n * outer);
    if (n == 1) return td__op_long_sum(c, d, ok);
    if (n < 32 || rows < 2) return false;
    td_op_kernel k = {.name = "td_k_column_sums", .c = c};
    td_dtype     dt = sums_in((td_dtype)x->dtype);
    bool         direct = parts == 1 && dt == (td_dtype)out->dtype;
    td_tensor   *sums = direct ? out : td__op_room(c, dt, outer * parts * n);
    if (!sums) return *ok = false, true;
    td__op_ptr(&k, x);
    td__op_ptr(&k, sums);
    int64_t given[] = {rows, n, parts, outer}, all[5] = {n, parts, n, 0, outer};
    memcpy(k.run.given, given, sizeof given);
    if (!td__op_start(&k, d, outer * parts * n, 0, ok)) return false;
    return direct || !*ok || fold_parts(c, d, sums, out, all, ok);
}

/* ---- losses ------------------------------------------------------------- */

static int64_t reduction(const char *s) {
    return !strcmp(s, "none") ? 0 : !strcmp(s, "mean") ? 1 : 2;
}

/* The walk over the target: its strides, those of the scores without the class dim, and
 * of the gradient of each place. */
static bool places(td_op_kernel *k, const td_tensor *target, const td_tensor *scores,
                   const td_tensor *g) {
    int64_t        of[3][TD_MAX_RANK];
    const int64_t *stride[3] = {of[0], of[1], of[2]};
    for (int d = 0; d < target->rank; d++) {
        of[0][d] = target->stride[d];
        of[1][d] = scores->stride[d > 0 ? d + 1 : 0];
        of[2][d] = g && g->rank == target->rank ? g->stride[d] : 0;
    }
    return td__op_walk(k, 0, target->rank, target->size, stride, g ? 3 : 2);
}

static void set_loss(td_op_kernel *k, const td_tensor *scores, const td_tensor *w,
                     int64_t places, int64_t ignore, const char *how) {
    int     at = scores->rank > 1 ? 1 : 0;
    int64_t given[] = {places,         scores->size[at],  scores->stride[at],  ignore,
                       reduction(how), td__op_mark(k->c), w ? w->stride[0] : 0};
    memcpy(k->run.given, given, sizeof given);
}

/* in: self, target, weight, reduction, ignore_index. */
bool td__op_nll_loss(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor   *x = td__in(c, 0), *target = td__in(c, 1), *w = td__in(c, 2);
    td_op_kernel k = {.name = "td_k_nll", .c = c, .picky = true};
    if (x->numel == 0 || target->numel == 0 || !is_plain(c->out[0])) return false;
    td__op_ptr(&k, x);
    td__op_ptr(&k, target);
    td__op_ptr(&k, w);
    td__op_ptr(&k, c->out[0]);
    td__op_ptr(&k, c->out[1]);
    if (!places(&k, target, x, NULL)) return false;
    set_loss(&k, x, w, target->numel, td__in_int(c, 4), c->in[3].u.s);
    return td__op_start(&k, d, 256, 1, ok);
}

/* in: grad, target, weight, total_weight, sizes, reduction, ignore_index. */
bool td__op_nll_loss_backward(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor   *g = td__in(c, 0), *target = td__in(c, 1), *w = td__in(c, 2);
    td_tensor   *out = c->out[0];
    td_op_kernel k = {.name = "td_k_nll_grad", .c = c, .picky = true};
    if (out->numel == 0 || target->numel == 0) return false;
    td__op_ptr(&k, g);
    td__op_ptr(&k, target);
    td__op_ptr(&k, w);
    td__op_ptr(&k, td__in(c, 3));
    td__op_ptr(&k, out);
    if (!places(&k, target, out, g)) return false;
    set_loss(&k, out, w, target->numel, td__in_int(c, 6), c->in[5].u.s);
    if (!td__fill(out, td_value_int(0))) return *ok = false, true;
    return td__op_start(&k, d, target->numel, 0, ok);
}

/* ---- where the extreme is ----------------------------------------------- */

/* dim: none for all elements. */
static bool extreme(td_opcall *c, td_device_state *d, bool least, td_tensor *values,
                    td_tensor *indices, bool *ok) {
    td_tensor   *x = td__in(c, 0);
    td_lines     l = {1, x->numel, 1};
    td_op_kernel k = {.name = "td_k_extreme", .c = c, .way = least};
    if (x->numel == 0 || !is_plain(indices) || (values && !is_plain(values)))
        return false;
    if (!td__in_none(c, 1))
        l = td__op_lines(x, td__wrap_dim(td__in_int(c, 1), x->rank));
    if (!(x = td__op_dense(c, x))) return *ok = false, true;
    td__op_ptr(&k, x);
    td__op_ptr(&k, values);
    td__op_ptr(&k, indices);
    int64_t given[] = {l.outer * l.inner, l.n, l.inner};
    memcpy(k.run.given, given, sizeof given);
    return td__op_start(&k, d, l.n, l.outer * l.inner, ok);
}

bool td__op_argmax(td_opcall *c, td_device_state *d, bool *ok) {
    return extreme(c, d, false, NULL, c->out[0], ok);
}

bool td__op_argmin(td_opcall *c, td_device_state *d, bool *ok) {
    return extreme(c, d, true, NULL, c->out[0], ok);
}

bool td__op_max_dim(td_opcall *c, td_device_state *d, bool *ok) {
    return extreme(c, d, false, c->out[0], c->out[1], ok);
}

bool td__op_min_dim(td_opcall *c, td_device_state *d, bool *ok) {
    return extreme(c, d, true, c->out[0], c->out[1], ok);
}

/* ---- sorts -------------------------------------------------------------- */

/* Each element counts how many come before it, so the work grows with the square of the
 * length of a line: longer ones are sorted on the host. */
enum { MOST_SORTED = 1 << 16 };

static bool sort(td_opcall *c, td_device_state *d, int64_t dim, int64_t low,
                 int64_t high, bool descending, bool *ok) {
    td_tensor   *x = td__in(c, 0);
    td_lines     l = td__op_lines(x, td__wrap_dim(dim, x->rank));
    td_op_kernel k = {.name = "td_k_rank", .c = c};
    if (high < 0) high = l.n;
    if (x->numel == 0 || l.n > MOST_SORTED || high <= low || !is_plain(c->out[0]) ||
        !is_plain(c->out[1]))
        return false;
    if (!(x = td__op_dense(c, x))) return *ok = false, true;
    td__op_ptr(&k, x);
    td__op_ptr(&k, c->out[0]);
    td__op_ptr(&k, c->out[1]);
    int64_t given[] = {x->numel, l.n, l.inner, low, high, descending};
    memcpy(k.run.given, given, sizeof given);
    return td__op_start(&k, d, x->numel, 0, ok);
}

bool td__op_sort(td_opcall *c, td_device_state *d, bool *ok) {
    return sort(c, d, td__in_int(c, 1), 0, -1, td__in_bool(c, 2), ok);
}

bool td__op_topk(td_opcall *c, td_device_state *d, bool *ok) {
    return sort(c, d, td__in_int(c, 2), 0, td__in_int(c, 1), td__in_bool(c, 3), ok);
}

bool td__op_kthvalue(td_opcall *c, td_device_state *d, bool *ok) {
    int64_t k = td__in_int(c, 1);
    return sort(c, d, td__in_int(c, 2), k - 1, k, false, ok);
}

/* ---- scans -------------------------------------------------------------- */

/* Elements take the dtype of the result first. */
static bool scan(td_opcall *c, td_device_state *d, int way, bool *ok) {
    td_tensor *x = td__in(c, 0), *out = c->out[0], *where = way > 2 ? c->out[1] : NULL;
    td_lines   l = td__op_lines(x, td__wrap_dim(td__in_int(c, 1), x->rank));
    td_op_kernel k = {.name = "td_k_scan", .c = c, .way = way};
    if (x->numel == 0 || x->rank == 0 || !is_plain(out) || (where && !is_plain(where)))
        return false;
    if (x->dtype != out->dtype) {
        td_tensor *cast = td__op_room(c, (td_dtype)out->dtype, x->numel);
        td_meta    m;
        td_window  w;
        td__tensor_meta(out, &m);
        m.offset = 0;
        if (!cast || !td__copy_into(td__window(&w, cast, &m), x))
            return *ok = false, true;
        x = cast;
    } else if (!(x = td__op_dense(c, x))) return *ok = false, true;
    td__op_ptr(&k, x);
    td__op_ptr(&k, out);
    td__op_ptr(&k, where);
    k.defines = td__is_float((td_dtype)out->dtype) ? "#define RUN double\n"
                                                   : "#define RUN int64_t\n";
    int64_t given[] = {l.outer * l.inner, l.n, l.inner};
    memcpy(k.run.given, given, sizeof given);
    return td__op_start(&k, d, l.outer * l.inner, 0, ok);
}

bool td__op_cumsum(td_opcall *c, td_device_state *d, bool *ok) {
    return scan(c, d, 0, ok);
}

bool td__op_cumprod(td_opcall *c, td_device_state *d, bool *ok) {
    return scan(c, d, 1, ok);
}

bool td__op_logcumsumexp(td_opcall *c, td_device_state *d, bool *ok) {
    return scan(c, d, 2, ok);
}

bool td__op_cummax(td_opcall *c, td_device_state *d, bool *ok) {
    return scan(c, d, 3, ok);
}

bool td__op_cummin(td_opcall *c, td_device_state *d, bool *ok) {
    return scan(c, d, 4, ok);
}
