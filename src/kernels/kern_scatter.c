/* kern_scatter.c -- writing by index. Every kernel may run with its result being
 * self: it checks all index values first, then copies self unless it is there
 * already, then places elements in row-major order. */
#include "ops/cast.h"
#include "kernels/kern_index.h"
#include "kernels/loops/loops.h"
#include "rules/shape_rules.h"

#include <math.h>
#include <string.h>

/* self into the result, unless they are one. */
static bool begin(td_opcall *c) {
    return c->out[0] == td__in(c, 0) || td__copy_into(c->out[0], td__in(c, 0));
}

/* A row-major f32 copy: sums of f16 and bf16 are rounded once, at the end. */
static td_tensor *widen(td_opcall *c, const td_tensor *t) {
    td_meta m;
    td__meta_dense(&m, TD_F32, t->rank, t->size);
    td_tensor *wide = td__tensor_make(c->cx, &m, false);
    return wide && td__copy_into(wide, t) ? wide : NULL;
}

/* td__spots_elements or td__spots_entries. */
typedef void walk_fn(td_spots *s, const td_tensor *index, const td_tensor *data,
                     const td_tensor *other, int dim);

/* Walks out and src as they are, or as wide copies whose result is cast back. */
static bool reduce_into(td_opcall *c, walk_fn *walk, td_spot_op op, td_value alpha) {
    td_tensor *out = c->out[0], *data = out, *src = td__in(c, 3);
    int        dim = td__wrap_dim(td__in_int(c, 1), out->rank);
    bool       wide = td__is_half((td_dtype)out->dtype) && op != TD_SPOT_PUT;
    td_spots   s;
    if (wide && (!(data = widen(c, out)) || !(src = widen(c, src)))) return false;
    walk(&s, td__in(c, 2), data, src, dim);
    s.alpha = alpha;
    td__spots_run(&s, op);
    if (!wide) return true;
    td__copy_into(out, data);
    td_drop(data);
    td_drop(src);
    return true;
}

/* Points `other` at one number in the dtype of data, for every element. */
static void use_number(td_spots *s, td_value number, td_element_bits *bytes) {
    td__store_value(s->dtype, bytes, number);
    s->ptr[TD_SPOT_OTHER] = (char *)bytes;
}

/* ---- element by element ------------------------------------------------- */

/* in: self, dim, index, src or value. src NULL: the value. */
static bool scatter(td_opcall *c, const td_tensor *src, td_spot_op op) {
    const td_tensor *index = td__in(c, 2);
    int              dim = td__wrap_dim(td__in_int(c, 1), c->out[0]->rank);
    td_element_bits  bytes;
    td_spots         s;
    if (!td__index_check(c, index, td__size1(c->out[0], dim), false, dim)) return false;
    if (!begin(c) || index->numel == 0) return c->out[0]->st != NULL;
    if (src) return reduce_into(c, td__spots_elements, op, td_value_int(1));
    td__spots_elements(&s, index, c->out[0], NULL, dim);
    use_number(&s, c->in[3], &bytes);
    td__spots_run(&s, op);
    return true;
}

bool td__kern_scatter(td_opcall *c) { return scatter(c, td__in(c, 3), TD_SPOT_PUT); }
bool td__kern_scatter_value(td_opcall *c) { return scatter(c, NULL, TD_SPOT_PUT); }
bool td__kern_scatter_add(td_opcall *c) {
    return scatter(c, td__in(c, 3), TD_SPOT_ADD);
}

/* What leaves any value unchanged under the reduction. */
static td_value neutral(td_spot_op op, td_dtype dt) {
    static const int64_t most[] = {
        [TD_I64] = INT64_MAX, [TD_I32] = INT32_MAX, [TD_I16] = INT16_MAX,
        [TD_I8] = INT8_MAX,   [TD_U8] = UINT8_MAX,  [TD_BOOL] = 1};
    if (op == TD_SPOT_ADD) return td_value_int(0);
    if (op == TD_SPOT_MUL) return td_value_int(1);
    if (td__is_float(dt))
        return td_value_float(op == TD_SPOT_MAX ? -(double)INFINITY : (double)INFINITY);
    if (op == TD_SPOT_MIN) return td_value_int(most[dt]);
    return td_value_int(dt == TD_U8 || dt == TD_BOOL ? 0 : -most[dt] - 1);
}

/* Divides element p of t, which is at `at`, by how many were added to it; integers
 * round down. */
static void divide_one(td_dtype dt, char *at, int64_t n) {
    if (n < 2) return;
    if (td__is_float(dt)) td__store_f(dt, at, td__load_f(dt, at) / (double)n);
    else td__store_i(dt, at, td__dim_div(td__load_i(dt, at), n));
}

/* count is row-major. */
static void divide(td_tensor *t, const td_tensor *count) {
    const int64_t *n = (const int64_t *)(const void *)td__ptr(count);
    int64_t        item = td__dtype_bytes[t->dtype];
    td_dtype       dt = (td_dtype)t->dtype;
    bool           dense = td__is_dense(t->rank, t->size, t->stride);
    float         *f = (float *)(void *)td__ptr(t);
    for (int64_t p = 0; p < t->numel && dense && dt == TD_F32; p++)
        if (n[p] > 1) f[p] = (float)((double)f[p] / (double)n[p]);
    for (int64_t p = 0; p < t->numel && !(dense && dt == TD_F32); p++) {
        int64_t off = dense ? p : 0, rest = dense ? 0 : p;
        for (int d = t->rank - 1; d >= 0 && !dense; d--) {
            off += rest % t->size[d] * t->stride[d];
            rest /= t->size[d];
        }
        divide_one(dt, td__ptr(t) + off * item, n[p]);
    }
}

/* How many elements go to each place of self, self included when asked. */
static td_tensor *count_places(td_opcall *c, int dim) {
    td_meta         m;
    td_spots        s;
    td_element_bits bytes;
    td__meta_dense(&m, TD_I64, c->out[0]->rank, c->out[0]->size);
    td_tensor *count = td__tensor_make(c->cx, &m, false);
    if (!count || !td__fill(count, td_value_int(td__in_bool(c, 5)))) return NULL;
    td__spots_elements(&s, td__in(c, 2), count, NULL, dim);
    use_number(&s, td_value_int(1), &bytes);
    td__spots_run(&s, TD_SPOT_ADD);
    return count;
}

/* in: self, dim, index, src, reduce, include_self. Without self, touched elements start
 * from the neutral value. */
bool td__kern_scatter_reduce(td_opcall *c) {
    const char      *how = c->in[4].u.s;
    td_spot_op       op = !strcmp(how, "prod")   ? TD_SPOT_MUL
                          : !strcmp(how, "amax") ? TD_SPOT_MAX
                          : !strcmp(how, "amin") ? TD_SPOT_MIN
                                                 : TD_SPOT_ADD;
    bool             mean = !strcmp(how, "mean");
    int              dim = td__wrap_dim(td__in_int(c, 1), c->out[0]->rank);
    const td_tensor *index = td__in(c, 2);
    td_tensor       *count = NULL;
    td_spots         s;
    td_element_bits  bytes;
    if (!td__index_check(c, index, td__size1(c->out[0], dim), false, dim)) return false;
    if (mean && index->numel > 0 && !(count = count_places(c, dim))) return false;
    if (!begin(c) || index->numel == 0) return c->out[0]->st != NULL;
    if (!td__in_bool(c, 5)) {
        td__spots_elements(&s, index, c->out[0], NULL, dim);
        use_number(&s, neutral(op, s.dtype), &bytes);
        td__spots_run(&s, TD_SPOT_PUT);
    }
    if (!reduce_into(c, td__spots_elements, op, td_value_int(1))) return false;
    if (!mean) return true;
    divide(c->out[0], count);
    td_drop(count);
    return true;
}

/* ---- whole entries ------------------------------------------------------ */

/* Entries without elements are not looked at, nor are their indices. */
static bool entries_checked(td_opcall *c, bool negative) {
    const td_tensor *out = c->out[0];
    int              dim = td__wrap_dim(td__in_int(c, 1), out->rank);
    bool             some = true;
    for (int d = 0; d < out->rank; d++) some = some && (d == dim || out->size[d] > 0);
    return !some ||
           td__index_check(c, td__in(c, 2), td__size1(out, dim), negative, dim);
}

/* Sums of f16 and bf16 along an outer or inner dim of several are rounded once at
 * the end, others at every step, as ATen does. */
bool td__kern_index_add(td_opcall *c) {
    int      dim = td__wrap_dim(td__in_int(c, 1), c->out[0]->rank);
    bool     ends = dim == 0 || dim == c->out[0]->rank - 1;
    bool     once = c->out[0]->rank > 1 && ends && td__value_f(c->in[4]) == 1;
    td_spots s;
    if (c->out[0]->rank > 1 && c->out[0]->numel == 0) return true;
    if (!entries_checked(c, false) || !begin(c)) return false;
    if (once) return reduce_into(c, td__spots_entries, TD_SPOT_ADD, c->in[4]);
    td__spots_entries(&s, td__in(c, 2), c->out[0], td__in(c, 3), dim);
    s.alpha = c->in[4];
    if (s.dtype == TD_BOOL) s.alpha = td_value_int(td__value_f(c->in[4]) != 0);
    td__spots_run(&s, TD_SPOT_ADD);
    return true;
}

/* in: self, dim, index, source. The last of equal indices wins. */
bool td__kern_index_copy(td_opcall *c) {
    return entries_checked(c, false) && begin(c) &&
           reduce_into(c, td__spots_entries, TD_SPOT_PUT, td_value_int(1));
}

/* in: self, dim, index, value. Negative indices count from the end. */
bool td__kern_index_fill(td_opcall *c) {
    const td_tensor *index = td__in(c, 2), *v = td__in(c, 3);
    int              dim = td__wrap_dim(td__in_int(c, 1), c->out[0]->rank);
    td_value         number = c->in[3];
    td_element_bits  bytes;
    td_spots         s;
    if (!entries_checked(c, true) || !begin(c)) return false;
    if (v)
        number = td__is_float((td_dtype)v->dtype)
                     ? td_value_float(td__load_f((td_dtype)v->dtype, td__ptr(v)))
                     : td_value_int(td__load_i((td_dtype)v->dtype, td__ptr(v)));
    td__spots_entries(&s, index, c->out[0], NULL, dim);
    use_number(&s, number, &bytes);
    if (v && td__is_complex((td_dtype)v->dtype)) /* of the dtype of self */
        memcpy(&bytes, td__ptr(v), td__dtype_bytes[v->dtype]);
    td__spots_run(&s, TD_SPOT_PUT);
    return true;
}

/* ---- along several dims ------------------------------------------------- */

/* in: self, indices, values, accumulate. */
bool td__kern_index_put(td_opcall *c) {
    const td_tensor *values = td__in(c, 2);
    td_tensor       *out = c->out[0];
    td_meta          part;
    int64_t          stride[TD_MAX_RANK];
    td_indices       x;
    td_spots         s;
    if (!td__index_part(c, &part)) return false;
    if (td__numel(part.rank, part.size) == 0)
        return begin(c); /* nothing is looked at */
    if (!td__indices_open(c, &x, out)) return false;
    bool ok = begin(c);
    if (ok) {
        td__expand_strides(values, part.rank, part.size, stride);
        td__indices_spots(&x, &s, out, values, stride);
        td__spots_run(&s, td__in_bool(c, 3) ? TD_SPOT_ADD : TD_SPOT_PUT);
    }
    td__indices_close(&x);
    return ok;
}

/* ---- tables ------------------------------------------------------------- */

/* Adds row p of g to row k of the table, scaled. */
static void add_row(td_tensor *table, const td_tensor *g, int64_t p, int64_t k,
                    double scale) {
    static const int64_t zero = 0;
    td_spots             s;
    int64_t              off = 0, rest = p, item = td__dtype_bytes[g->dtype];
    for (int d = g->rank - 2; d >= 0; d--) {
        off += rest % g->size[d] * g->stride[d];
        rest /= g->size[d];
    }
    td__spots_start(&s, NULL, table, g);
    td__spots_dim(&s, g->size[g->rank - 1], 0, table->stride[1],
                  g->stride[g->rank - 1]);
    s.ptr[TD_SPOT_INDEX] = (char *)(uintptr_t)&zero;
    s.ptr[TD_SPOT_DATA] += k * table->stride[0] * item;
    s.ptr[TD_SPOT_OTHER] += off * item;
    s.alpha = td_value_float(scale);
    td__spots_run(&s, TD_SPOT_ADD);
}

/* The gradient of a table from those of its rows. */
typedef struct table_rows {
    td_tensor       *table;
    const td_tensor *g, *indices;
    int64_t          pad;   /* a row that gets nothing */
    const int64_t   *count; /* how often each row was read, to divide by; NULL */
    int64_t          shares;
} table_rows;

/* Are both row-major, and the sums those of a vector loop? */
static bool rows_are_plain(const table_rows *r) {
    td_dtype dt = (td_dtype)r->g->dtype;
    return (dt == TD_F32 || dt == TD_F64) &&
           td__is_dense(r->g->rank, r->g->size, r->g->stride) &&
           td__is_dense(2, r->table->size, r->table->stride);
}

/* As add_row, for plain rows. */
static void add_plain_row(const table_rows *r, int64_t p, int64_t k, double by) {
    td_dtype    dt = (td_dtype)r->g->dtype;
    int64_t     n = r->table->size[1], bytes = n * td__dtype_bytes[dt];
    char       *to = td__ptr(r->table) + k * bytes;
    const void *in[] = {to, td__ptr(r->g) + p * bytes};
    td_scalars  alpha = {.f = {by}};
    int         type = dt == TD_F32 ? TD_COMPUTE_F32 : TD_COMPUTE_F64;
    td__isa()->loops[type][TD_OP_add](n, to, in, &alpha);
}

/* Shares begin..end of the table, each every `shares`-th row: one thread adds all that
 * a row gets, in the order of the indices. */
static void add_rows(void *arg, int64_t begin, int64_t end) {
    const table_rows *r = arg;
    bool              plain = rows_are_plain(r);
    for (int64_t p = 0; p < r->indices->numel; p++) {
        int64_t k = td__index_at(r->indices, p), share = k % r->shares;
        if (k == r->pad || share < begin || share >= end) continue;
        double by = r->count ? 1.0 / (double)r->count[k] : 1.0;
        if (plain) add_plain_row(r, p, k, by);
        else add_row(r->table, r->g, p, k, by);
    }
}

/* An estimate of a row's sum: one of 256 elements took 340 ns on a Zen 5 core. */
enum { ROW_NS = 200, ELEMENT_PS = 500 };

/* in: grad, indices, num_weights, padding_idx, scale_grad_by_freq. */
bool td__kern_embedding_dense_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0), *indices = td__in(c, 1);
    int64_t          rows = td__in_int(c, 2);
    bool             by_freq = td__in_bool(c, 4);
    size_t           bytes = sizeof(int64_t) * (size_t)(rows + 1);
    int64_t         *count = NULL;
    if (!td__index_check(c, indices, rows, false, 0)) return false;
    if (by_freq) {
        if (!(count = td__block_alloc(bytes))) return td__fail_memory(c->cx);
        memset(count, 0, bytes);
        for (int64_t p = 0; p < indices->numel; p++) count[td__index_at(indices, p)]++;
    }
    td__fill(c->out[0], td_value_int(0));
    table_rows r = {c->out[0], g, indices, td__in_int(c, 3), count, 1};
    double ns = ROW_NS * (double)indices->numel + ELEMENT_PS * 1e-3 * (double)g->numel;
    r.shares = td__pool_threads(ns, rows);
    if (g->numel > 0) td__pool_run(r.shares, 1, add_rows, &r);
    if (count) td__block_free(count, bytes);
    return true;
}
