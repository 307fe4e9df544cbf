/* shape_attention.c -- sizes, dtypes and argument checks of blocked attention. query is
 * [B,H,T,D], key and value [B,H,S,D]; the mask broadcasts to [B,H,T,S]. */
#include "rules/shape_rules.h"

/* Argument i has these sizes and this dtype. */
static bool is_like(td_opcall *c, int i, td_dtype dt, int rank, const int64_t *size) {
    td_tensor *t = td__in(c, i);
    bool       same = t->rank == rank && (td_dtype)t->dtype == dt;
    for (int d = 0; same && d < rank; d++) same = td__dim_eq(t->size[d], size[d]);
    return same ||
           td__op_fail(c, TD_E_SHAPE, "%s must be %s%s, got %s", c->info->s.in[i].name,
                       td_dtype_name(dt), td__sizes_str(rank, size), td__type_str(t));
}

/* The mask, or none, has the dtype of q and broadcasts to [B,H,T,keys] without
 * enlarging it. */
static bool mask_fits(td_opcall *c, int at, const td_tensor *q, int64_t keys) {
    td_tensor *m = td__in(c, at);
    int64_t    size[TD_MAX_RANK] = {q->size[0], q->size[1], q->size[2], keys};
    int        rank = 4;
    if (!m) return true;
    bool ok = m->dtype == q->dtype && m->rank <= 4 &&
              td__broadcast(&rank, size, m->rank, m->size);
    for (int i = 0; ok && i < 3; i++) ok = td__dim_eq(size[i], q->size[i]);
    if (ok && td__dim_eq(size[3], keys)) return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "attn_mask must be of the query's dtype and broadcast to "
                       "[B,H,T,S], got %s for %s",
                       td__type_str(m), td__type_str(q));
}

/* query, key, value and the mask are arguments first and on. */
static bool heads_fit(td_opcall *c, int first) {
    td_tensor *q = td__in(c, first), *k = td__in(c, first + 1);
    if (q->rank != 4 || !td__is_float((td_dtype)q->dtype) || k->rank != 4)
        return td__op_fail(c, TD_E_SHAPE,
                           "query and key must be floating [B,H,T,D], got %s and %s",
                           td__type_str(q), td__type_str(k));
    if (!td__dim_lt(0, k->size[2]) || !td__dim_lt(0, q->size[3]))
        return td__op_fail(c, TD_E_SHAPE,
                           "needs at least one key, and heads of one element, got %s "
                           "for %s",
                           td__type_str(k), td__type_str(q));
    int64_t size[4] = {q->size[0], q->size[1], k->size[2], q->size[3]};
    for (int i = first + 1; i < first + 3; i++)
        if (!is_like(c, i, (td_dtype)q->dtype, 4, size)) return false;
    return mask_fits(c, first + 3, q, k->size[2]);
}

/* In the order of t's dims, the elements of a row side by side. */
static void meta_rows(td_meta *m, const td_tensor *t) {
    td__meta_like(m, t);
    if (!td__dim_eq(m->stride[3], 1))
        td__meta_dense(m, (td_dtype)t->dtype, t->rank, t->size);
}

/* lse is f32 for halves and f32: it is compared in exponents, where a half would be too
 * coarse. */
static td_dtype sum_dtype(const td_tensor *q) {
    return q->dtype == TD_F64 ? TD_F64 : TD_F32;
}

/* Results: [B,H,T,D] in the layout of q, and lse [B,H,T]. */
bool td__shape_flash_attention(td_opcall *c) {
    td_tensor *q = td__in(c, 0);
    if (!heads_fit(c, 0)) return false;
    meta_rows(&c->meta[0], q);
    for (int i = 1; i < 3; i++) /* as in ATen */
        if (!td__dim_eq(td__in(c, i)->stride[3], 1))
            td__meta_dense(&c->meta[0], (td_dtype)q->dtype, 4, q->size);
    td__meta_dense(&c->meta[1], sum_dtype(q), 3, q->size);
    return true;
}

/* Results: gradients in the layouts of query, key and value. */
bool td__shape_flash_attention_backward(td_opcall *c) {
    td_tensor *q = td__in(c, 1);
    if (!heads_fit(c, 1) || !is_like(c, 0, (td_dtype)q->dtype, 4, q->size) ||
        !is_like(c, 5, (td_dtype)q->dtype, 4, q->size) ||
        !is_like(c, 6, sum_dtype(q), 3, q->size) ||
        (td__in(c, 7) && !is_like(c, 7, sum_dtype(q), 3, q->size)))
        return false;
    for (int i = 0; i < 3; i++) meta_rows(&c->meta[i], td__in(c, 1 + i));
    return true;
}

/* in: self, dim. */
bool td__shape_safe_softmax(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (!td__is_float((td_dtype)t->dtype))
        return td__op_fail(c, TD_E_DTYPE, "self must be floating, got %s",
                           td__type_str(t));
    if (td__op_dim(c, td__in_int(c, 1), t->rank) < 0) return false;
    td__meta_dense(&c->meta[0], (td_dtype)t->dtype, t->rank, t->size);
    return true;
}
