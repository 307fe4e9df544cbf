/* decomp_attention.c -- scaled dot product attention: blocked where the kernel takes
 * it, else in plain products, which are also the simpler forms of the blocked ops. */
#include "rules/attention.h"

#include <math.h>

/* A bool mask as a number to add: 0 and -inf. */
static td_tensor *additive(td_ctx *cx, td_tensor *mask, td_dtype dt) {
    if (!mask || mask->dtype != TD_BOOL) return mask;
    td_tensor *zero = td_op_zeros(cx, td__sizes(mask), dt);
    return td_op_masked_fill(zero, td_op_logical_not(mask), td_value_float(-INFINITY));
}

/* Has the mask, broadcast, the sizes of the scores? */
static bool mask_fits(const td_attention *a, const td_tensor *scores) {
    int64_t size[TD_MAX_RANK];
    int     rank = scores->rank;
    for (int i = 0; i < rank; i++) size[i] = scores->size[i];
    bool ok = td__broadcast(&rank, size, a->mask->rank, a->mask->size) &&
              rank == scores->rank;
    for (int i = 0; ok && i < rank; i++) ok = td__dim_eq(size[i], scores->size[i]);
    return ok || td__fail(a->cx, TD_E_SHAPE,
                          "scaled_dot_product_attention: attn_mask %s does not "
                          "broadcast to %s",
                          td__type_str(a->mask), td__type_str(scores));
}

/* Both sides are scaled by the root: less overflow in f16. */
td_tensor *td__attention_scores(const td_attention *a) {
    td_tensor *q = a->q, *k = a->k;
    double     half = sqrt(fabs(a->scale));
    td_tensor *p = td_op_matmul(t_scale(q, a->scale < 0 ? -half : half),
                                t_transposed(t_scale(k, half)));
    if (a->mask && !td_is_nil(p) && !mask_fits(a, p)) return td_nil(a->cx);
    if (a->mask) p = t_add(p, a->mask);
    if (a->causal) {
        td_tensor *all =
            td_op_ones(a->cx, TD_SHAPE(q->size[q->rank - 2], k->size[k->rank - 2]),
                       TD_BOOL);
        p = t_add(p, additive(a->cx, td_op_tril(all, 0), (td_dtype)q->dtype));
    }
    return p;
}

td_tensor *td__attention_weights(const td_attention *a, td_tensor *lse) {
    return td_op_exp(t_sub(td__attention_scores(a), t_column(lse)));
}

/* The row sum of g * out replaces the row sum of weights times their gradient, which
 * softmax's derivative subtracts: both are equal, and this one needs no [.., T, S]
 * tensor. */
td_tensor *td__attention_pull(const td_attention_grad *d) {
    td_tensor *delta = t_sum(t_mul(d->g, d->out), TD_DIMS(-1), true);
    if (d->g_lse) delta = t_sub(delta, t_column(d->g_lse));
    return t_sub(td_op_matmul(d->g, t_transposed(d->v)), delta);
}

/* ---- the blocked ops in plain products ----------------------------------- */

/* The log of the sum of exponentials of each row, 0 where all scores are -inf, as after
 * a mask that hides all: such a row of weights is 0. */
static td_tensor *log_sums(td_tensor *s) {
    td_tensor *most = td_op_amax(s, TD_DIMS(-1), true);
    td_tensor *dead = td_op_eq(most, td_value_float(-INFINITY));
    td_tensor *live = td_op_masked_fill(s, dead, td_value_int(0));
    return td_op_masked_fill(td_op_logsumexp(live, TD_DIMS(-1), false),
                             td_op_squeeze_dim(dead, -1), td_value_int(0));
}

/* in: query, key, value, attn_mask, is_causal, scale. Results: attention [B,H,T,D] and
 * lse [B,H,T]. */
bool td__simpler_flash_attention(td_opcall *c) {
    td_attention a = {c->cx,        td__in(c, 0),      td__in(c, 1),
                      td__in(c, 3), td__in_bool(c, 4), td__in_f(c, 5)};
    td_tensor   *s = td__attention_scores(&a);
    c->out[0] = td_op_matmul(td_op__safe_softmax(s, -1), td__in(c, 2));
    c->out[1] = log_sums(s);
    return true;
}

/* in: grad, query, key, value, attn_mask, out, lse, grad_lse, is_causal, scale.
 * Results: gradients of query, key and value. The formulas are derived at the top of
 * vjp_attention.c. */
bool td__simpler_flash_attention_backward(td_opcall *c) {
    td_attention      a = {c->cx,        td__in(c, 1),      td__in(c, 2),
                           td__in(c, 4), td__in_bool(c, 8), td__in_f(c, 9)};
    td_attention_grad d = {td__in(c, 0), td__in(c, 3), td__in(c, 5), td__in(c, 7)};
    td_tensor        *p = td__attention_weights(&a, td__in(c, 6));
    td_tensor        *ds = t_mul(p, td__attention_pull(&d));
    c->out[0] = t_scale(td_op_matmul(ds, a.k), a.scale);
    c->out[1] = t_scale(td_op_matmul(t_transposed(ds), a.q), a.scale);
    c->out[2] = td_op_matmul(t_transposed(p), d.g);
    return true;
}

/* ---- the composite op ---------------------------------------------------- */

/* Is t [.., n, D] with D as in q, and leading dims that equal those of q or are 1? Then
 * the kernel reads t with stride 0 along the repeated dims. */
static bool beside(const td_tensor *t, const td_tensor *q, int64_t n) {
    int  r = q->rank;
    bool ok = t->rank == r && td__dim_eq(t->size[r - 2], n) &&
              td__dim_eq(t->size[r - 1], q->size[r - 1]);
    for (int i = 0; ok && i < r - 2; i++)
        ok = td__dim_eq(t->size[i], 1) || td__dim_eq(t->size[i], q->size[i]);
    return ok;
}

/* Can the mask, or none, be read by the kernel: bool or of q's dtype, each dim equal to
 * that of the scores [.., T, keys] or 1? */
static bool mask_beside(const td_tensor *m, const td_tensor *q, int64_t keys) {
    int  r = q->rank, lead = m ? r - m->rank : 0;
    bool ok = !m || (lead >= 0 && (m->dtype == TD_BOOL || m->dtype == q->dtype));
    for (int i = 0; m && ok && i < m->rank; i++) {
        int64_t n = lead + i == r - 1 ? keys : q->size[lead + i];
        ok = td__dim_eq(m->size[i], 1) || td__dim_eq(m->size[i], n);
    }
    return ok;
}

/* The blocked kernel takes 3 or 4 dims, floats, no dropout, and at least one query and
 * one key. All else is computed in plain products. */
static bool is_blocked(td_opcall *c) {
    td_tensor *q = td__in(c, 0), *k = td__in(c, 1);
    int        r = q->rank;
    return (r == 3 || r == 4) && k->rank == r && td__in_f(c, 4) == 0 &&
           td__is_float((td_dtype)q->dtype) && td__dim_lt(0, q->numel) &&
           td__dim_lt(0, k->numel) && beside(k, q, k->size[r - 2]) &&
           beside(td__in(c, 2), q, k->size[r - 2]) &&
           mask_beside(td__in(c, 3), q, k->size[r - 2]);
}

/* t, whose leading dims may be 1 where q's are not, as [B,H,n,D]. */
static td_tensor *as_heads(td_tensor *t, const td_tensor *q) {
    int64_t size[TD_MAX_RANK];
    bool    same = true;
    int     r = q->rank;
    for (int i = 0; i < r; i++) {
        size[i] = i < r - 2 ? q->size[i] : t->size[i];
        same = same && td__dim_eq(size[i], t->size[i]);
    }
    if (!same) t = td_op_expand(t, (td_ints){size, r});
    return r == 3 ? td_op_unsqueeze(t, 0) : t;
}

/* Whether all leading dims of t are those of q, none being repeated. */
static bool leads_alike(const td_tensor *t, const td_tensor *q) {
    return td__dims_eq(t->size, q->size, q->rank - 2);
}

/* The gradient of keys or values that several heads share is a sum over these; of
 * halves it is added up in f32, and so is all else. */
static td_tensor *blocked(td_opcall *c, double scale) {
    td_tensor *in[4], *lse;
    td_dtype   dt = (td_dtype)td__in(c, 0)->dtype;
    for (int i = 0; i < 4; i++) in[i] = td__in(c, i);
    if (!leads_alike(in[1], in[0]) || !leads_alike(in[2], in[0]))
        for (int i = 0; i < 4; i++) in[i] = t_wide(in[i]);
    td_tensor *q = in[0];
    td_tensor *y =
        td_op__flash_attention(as_heads(q, q), as_heads(in[1], q), as_heads(in[2], q),
                               additive(c->cx, in[3], (td_dtype)q->dtype),
                               td__in_bool(c, 5), scale, &lse);
    return t_as(q->rank == 4 ? y : td_op_squeeze_dim(y, 0), dt);
}

/* In plain products, for what the kernel does not take. Halves are computed in f32 and
 * rounded once, like the kernel does. */
static td_tensor *unblocked(td_opcall *c, double scale) {
    td_tensor *in[4];
    td_dtype   dt = (td_dtype)td__in(c, 0)->dtype;
    bool       half = td__is_half(dt);
    for (int i = 0; i < 4; i++) {
        in[i] = td__in(c, i);
        if (half && in[i] && in[i]->dtype == dt) in[i] = td_op_to(in[i], TD_F32, false);
    }
    td_attention a = {c->cx, in[0], in[1], NULL, td__in_bool(c, 5), scale};
    a.mask = additive(c->cx, in[3], half ? TD_F32 : dt);
    /* [.., T, S]; a row that the mask hides entirely has weights 0, not NaN */
    td_tensor *p = td_op__safe_softmax(td__attention_scores(&a), -1);
    if (td__in_f(c, 4) > 0) p = td_op_dropout(p, td__in_f(c, 4), true);
    p = td_op_matmul(p, in[2]);
    return half ? td_op_to(p, dt, false) : p;
}

/* Is there no query row, or no element of value? Then no score is computed. */
static bool is_empty(const td_tensor *q, const td_tensor *v) {
    return td__is_float((td_dtype)q->dtype) &&
           (td__dim_eq(q->size[q->rank - 2], 0) || !td__dim_lt(0, v->numel));
}

/* ATen's result without scores: zeros of query's leading sizes, to which the sums of
 * query, key and value are added, times 0. Their gradients are zeros that depend on no
 * argument, and NaN in an argument makes the result NaN. */
static td_tensor *empty(td_opcall *c) {
    td_tensor *q = td__in(c, 0), *v = td__in(c, 2);
    int64_t    size[TD_MAX_RANK];
    for (int i = 0; i < q->rank; i++) size[i] = q->size[i];
    size[q->rank - 1] = v->size[v->rank - 1];
    td_tensor *sum = t_sum(q, TD_ALL, false);
    for (int i = 1; i < 3; i++) sum = t_add(sum, t_sum(td__in(c, i), TD_ALL, false));
    return t_add(td_op_zeros(c->cx, (td_ints){size, q->rank}, (td_dtype)q->dtype),
                 td_op_mul(sum, td_value_int(0)));
}

/* The sizes must make two products: query @ key^T and weights @ value. */
static bool sizes_fit(td_opcall *c) {
    const td_tensor *q = td__in(c, 0), *k = td__in(c, 1), *v = td__in(c, 2);
    if (!td__dim_eq(q->size[q->rank - 1], k->size[k->rank - 1]))
        return td__op_fail(c, TD_E_SHAPE,
                           "query %s and key %s must have the same last size",
                           td__type_str(q), td__type_str(k));
    if (!td__dim_eq(k->size[k->rank - 2], v->size[v->rank - 2]))
        return td__op_fail(
            c, TD_E_SHAPE,
            "key %s and value %s must have the same size before the last",
            td__type_str(k), td__type_str(v));
    return true;
}

/* t [.., h, S, E] with each head repeated until there are as many as q has; NULL after
 * td__op_fail. */
static td_tensor *repeat_heads(td_opcall *c, int arg) {
    td_tensor *q = td__in(c, 0), *t = td__in(c, arg);
    if (q->rank < 3 || t->rank < 3 || td__dim_eq(t_last(t, 3), 0) ||
        !td__dim_eq(td__dim_mod(t_last(q, 3), t_last(t, 3)), 0)) {
        td__op_fail(
            c, TD_E_SHAPE,
            "enable_gqa needs query [.., H, T, E] whose heads are a multiple of "
            "those of %s, got %s and %s",
            c->info->s.in[arg].name, td__type_str(q), td__type_str(t));
        return NULL;
    }
    int64_t times = td__dim_div(t_last(q, 3), t_last(t, 3));
    return td_op_repeat_interleave(t, td_value_int(times), td_value_int(-3),
                                   td_value_none());
}

/* Attention of key and value with as many heads as query. */
static bool grouped(td_opcall *c) {
    td_tensor *k = repeat_heads(c, 1), *v = k ? repeat_heads(c, 2) : NULL;
    if (!v) return false;
    c->out[0] = td_op_scaled_dot_product_attention(td__in(c, 0), k, v, td__in(c, 3),
                                                   td__in_f(c, 4), td__in_bool(c, 5),
                                                   c->in[6], false);
    return true;
}

/* in: query [.., T, E], key [.., S, E], value [.., S, Ev], attn_mask, dropout_p,
 * is_causal, scale, enable_gqa. scale is 1 / sqrt(E) unless given. */
bool td__decomp_attention(td_opcall *c) {
    td_tensor *q = td__in(c, 0), *k = td__in(c, 1), *v = td__in(c, 2);
    if (q->rank < 2 || k->rank < 2 || v->rank < 2)
        return td__op_fail(c, TD_E_SHAPE,
                           "query, key and value need [.., T, E], got %s, %s, %s",
                           td__type_str(q), td__type_str(k), td__type_str(v));
    if (q->dtype != k->dtype || q->dtype != v->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "query, key and value must have one dtype, got %s, %s, %s",
                           td__type_str(q), td__type_str(k), td__type_str(v));
    const td_tensor *mask = td__in(c, 3);
    if (mask && mask->dtype != TD_BOOL && mask->dtype != TD_F32 &&
        mask->dtype != q->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "attn_mask must be bool, f32 or of query's dtype, got %s",
                           td__type_str(mask));
    if (!sizes_fit(c)) return false;
    if (td__in_bool(c, 7)) return grouped(c);
    double p = td__in_f(c, 4);
    if (!(p >= 0 && p <= 1))
        return td__op_fail(c, TD_E_ARG, "dropout_p must be from 0 to 1, got %g", p);
    if (td__in(c, 3) && td__in_bool(c, 5))
        return td__op_fail(c, TD_E_ARG, "give attn_mask or is_causal, not both");
    double scale = td__in_none(c, 6)
                       ? 1 / sqrt((double)td__dim_fixed(q->size[q->rank - 1]))
                       : td__in_f(c, 6);
    c->out[0] = is_empty(q, v)  ? empty(c)
                : is_blocked(c) ? blocked(c, scale)
                                : unblocked(c, scale);
    return true;
}
