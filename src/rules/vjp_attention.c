/* vjp_attention.c -- derivatives of blocked attention and of its backward op.
 *
 * With P = exp(S - lse), S = scale Q K^T + mask, D = G V^T - delta, delta =
 * sum(G * out) - g_lse:
 *
 *   dV = P^T G,  dS = P D,  dQ = scale dS K,  dK = scale dS^T Q
 *
 * Cotangents a, b, c of dQ, dK, dV give U = scale (a K^T + Q b^T) for dS, R = P U
 * for D and Z = P (U D + G c^T) for S; out and lse are inputs like the others. */
#include "rules/attention.h"

/* Argument i as it was saved; NULL: it was not a tensor. */
static td_tensor *saved(td_vjp *v, int i) {
    return v->in[i].kind == TD_K_TENSOR ? v->in[i].u.t : NULL;
}

/* False when a gradient is nil, after td__fail. */
static bool all_made(td_vjp *v) {
    for (int i = 0; i < v->info->s.n_in; i++)
        if (v->grad[i] && td_is_nil(v->grad[i])) return false;
    return true;
}

/* in: query, key, value, attn_mask, is_causal, scale. */
bool td__vjp_flash_attention(td_vjp *v) {
    td_tensor *q = saved(v, 0), *k = saved(v, 1), *val = saved(v, 2);
    td_tensor *mask = saved(v, 3), *out = v->out[0], *lse = v->out[1];
    bool       causal = v->in[4].u.i != 0;
    double     scale = td__value_f(v->in[5]);
    td_tensor *g = v->g[0] ? v->g[0] : td_op_zeros_like(out, TD_DTYPE_NONE);
    if (v->need[0] || v->need[1] || v->need[2]) {
        td_tensor *d[3];
        d[0] = td_op__flash_attention_backward(g, q, k, val, mask, out, lse, v->g[1],
                                               causal, scale, &d[1], &d[2]);
        for (int i = 0; i < 3; i++)
            if (v->need[i]) v->grad[i] = d[i];
    }
    if (v->need[3]) {
        td_attention a = {v->cx, t_wide(q), t_wide(k), t_wide(mask), causal, scale};
        td_tensor   *p = td__attention_weights(&a, lse);
        td_attention_grad d = {t_wide(g), t_wide(val), out, v->g[1]};
        if (d.v != val) d.out = td_op_matmul(p, d.v); /* not rounded to a half */
        v->grad[3] = t_mul(p, td__attention_pull(&d));
    }
    return all_made(v);
}

/* Arguments of the backward op. */
enum { GRAD, QUERY, KEY, VALUE, MASK, OUT, LSE, GRAD_LSE, CAUSAL, SCALE };

/* Adds t to the gradient of argument i, if that is needed. */
static void give(td_vjp *v, int i, td_tensor *t) {
    if (v->need[i]) v->grad[i] = t_join(v->grad[i], t);
}

/* scale (a K^T + Q b^T); NULL when neither came. */
static td_tensor *score_pull(const td_attention *s, td_tensor *a, td_tensor *b) {
    td_tensor *u = NULL;
    if (a) u = td_op_matmul(a, t_transposed(s->k));
    if (b) u = t_join(u, td_op_matmul(s->q, t_transposed(b)));
    return u ? t_scale(u, s->scale) : NULL;
}

/* The parts of G, out, V and g_lse in D, of which r is the cotangent. */
static void through_pull(td_vjp *v, const td_attention_grad *d, td_tensor *r) {
    td_tensor *sum = t_sum(r, TD_DIMS(-1), true);
    give(v, GRAD, t_sub(td_op_matmul(r, d->v), t_mul(sum, d->out)));
    give(v, OUT, td_op_neg(t_mul(sum, d->g)));
    give(v, VALUE, td_op_matmul(t_transposed(r), d->g));
    if (d->g_lse) give(v, GRAD_LSE, td_op_squeeze_dim(sum, -1));
}

/* Those of Q, K, the mask and lse in S, of which z is. */
static void through_scores(td_vjp *v, const td_attention *s, td_tensor *z) {
    give(v, QUERY, t_scale(td_op_matmul(z, s->k), s->scale));
    give(v, KEY, t_scale(td_op_matmul(t_transposed(z), s->q), s->scale));
    give(v, MASK, z);
    give(v, LSE, td_op_neg(t_sum(z, TD_DIMS(-1), false)));
}

/* g: cotangents a, b, c of dQ, dK, dV, each of which may be missing; see the top of the
 * file. */
bool td__vjp_flash_attention_backward(td_vjp *v) {
    td_tensor        *a = t_wide(v->g[0]), *b = t_wide(v->g[1]), *c = t_wide(v->g[2]);
    td_attention      s = {v->cx,
                           t_wide(saved(v, QUERY)),
                           t_wide(saved(v, KEY)),
                           t_wide(saved(v, MASK)),
                           v->in[CAUSAL].u.i != 0,
                           td__value_f(v->in[SCALE])};
    td_attention_grad d = {t_wide(saved(v, GRAD)), t_wide(saved(v, VALUE)),
                           t_wide(saved(v, OUT)), saved(v, GRAD_LSE)};
    td_tensor        *p = td__attention_weights(&s, saved(v, LSE)), *y = NULL;
    td_tensor        *u = score_pull(&s, a, b);
    if (u) {
        td_tensor *pull = td__attention_pull(&d), *ds = t_mul(p, pull);
        if (a) give(v, KEY, t_scale(td_op_matmul(t_transposed(ds), a), s.scale));
        if (b) give(v, QUERY, t_scale(td_op_matmul(ds, b), s.scale));
        through_pull(v, &d, t_mul(p, u));
        y = t_mul(u, pull);
    }
    if (c) {
        give(v, GRAD, td_op_matmul(p, c));
        y = t_join(y, td_op_matmul(d.g, t_transposed(c)));
    }
    if (y) through_scores(v, &s, t_mul(p, y));
    return all_made(v);
}
