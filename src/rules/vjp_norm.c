/* vjp_norm.c -- derivatives of the norm layers and of their backward ops.
 *
 * All norms are one function seen through a *frame*: a reshaped input x with
 * statistics and parameters that broadcast to it, the dims the statistics are
 * taken over, and those the parameters are shared over. With h = (x - mean) rstd:
 *
 *   out = h w + b
 *   dx  = rstd (gw - mean(gw) - h mean(gw h)),  gw = g w
 *   dw  = sum(g h),  db = sum(g)
 *
 * The backward ops take mean and rstd as independent inputs. Their own effect on
 * x comes from the derivatives of the forward op's results:
 *   d mean / dx = 1/n,  d rstd / dx = -rstd^3 (x - mean) / n. */
#include "rules/norm_frame.h"

/* The dims and sizes of a frame of `rank` dims: stats over those in the mask. */
static void set_dims(td_norm_frame *f, int rank, const bool *stats,
                     const bool *shared) {
    int64_t *s = f->dims, *p = f->dims + TD_MAX_RANK;
    f->n = 1;
    for (int i = 0; i < rank; i++) {
        if (stats[i]) *s++ = i, f->n = td__dim_mul(f->n, f->size[i]);
        if (shared[i]) *p++ = i;
        f->stat_size[i] = stats[i] ? 1 : f->size[i];
        f->w_size[i] = shared[i] ? 1 : f->size[i];
    }
    f->stats = (td_ints){f->dims, (int)(s - f->dims)};
    f->shared = (td_ints){f->dims + TD_MAX_RANK, (int)(p - f->dims - TD_MAX_RANK)};
}

/* Layer norm: statistics over the last k dims, parameters shared over the others.
 * Group norm: x as [N, groups, C / groups, rest]. Batch norm: statistics over all
 * dims but 1. */
void td__norm_frame(td_norm_frame *f, td_norm_kind kind, const td_tensor *x,
                    int64_t k) {
    bool stats[TD_MAX_RANK] = {false}, shared[TD_MAX_RANK] = {false};
    int  rank = kind == TD_NORM_GROUP ? 4 : x->rank;
    for (int i = 0; i < rank && kind != TD_NORM_GROUP; i++) f->size[i] = x->size[i];
    if (kind == TD_NORM_GROUP) { /* [N, groups, channels of one, the rest] */
        f->size[0] = x->size[0];
        f->size[1] = k;
        f->size[2] = td__dim_div(x->size[1], k);
        f->size[3] = 1;
        for (int i = 2; i < x->rank; i++)
            f->size[3] = td__dim_mul(f->size[3], x->size[i]);
    }
    for (int i = 0; i < rank; i++) {
        stats[i] = kind == TD_NORM_LAYER   ? i >= rank - k
                   : kind == TD_NORM_GROUP ? i > 1
                                           : i != 1;
        shared[i] = kind == TD_NORM_LAYER   ? i < rank - k
                    : kind == TD_NORM_GROUP ? i == 0 || i == 3
                                            : i != 1;
    }
    set_dims(f, rank, stats, shared);
}

void td__norm_frame_tensors(td_norm_frame *f, td_norm_kind kind, td_tensor *x,
                            td_tensor *const *mrw) {
    int rank = kind == TD_NORM_GROUP ? 4 : x->rank;
    f->x = kind == TD_NORM_GROUP ? t_shaped(x, f->size, rank) : x;
    f->mean = t_shaped(mrw[0], f->stat_size, rank);
    f->rstd = t_shaped(mrw[1], f->stat_size, rank);
    f->w = t_shaped(mrw[2], f->w_size, rank);
}

/* t with the sizes of m. */
static td_tensor *like(td_tensor *t, const td_meta *m) {
    return td_op_reshape(t, (td_ints){m->size, m->rank});
}

/* ---- forward ops ------------------------------------------------------- */

/* What the gradients of the mean and of rstd add to dx. */
static td_tensor *stats_grad(const td_norm_frame *f, td_tensor *dx, td_tensor *gm,
                             td_tensor *gr) {
    int rank = f->x->rank;
    if (gm) {
        td_tensor *t = t_share(t_shaped(gm, f->stat_size, rank), f->n);
        dx = t_join(dx, td_op_expand(t, (td_ints){f->size, rank}));
    }
    if (gr) {
        td_tensor *r3 = t_mul(t_mul(f->rstd, f->rstd), f->rstd);
        td_tensor *k = t_share(t_mul(t_shaped(gr, f->stat_size, rank), r3), f->n);
        dx = t_join(dx, t_mul(k, t_sub(f->mean, f->x)));
    }
    return dx;
}

/* Hands out dx, dw, db to arguments x, w and b = w + 1. */
static bool give_forward(td_vjp *v, const td_norm_frame *f, td_tensor *const *d,
                         int w) {
    if (v->need[0]) { /* else d[0] is empty */
        td_tensor *dx = d[0] ? t_shaped(d[0], f->size, f->x->rank) : NULL;
        dx = stats_grad(f, dx, v->g[1], v->g[2]);
        if (dx) v->grad[0] = like(dx, v->in_meta[0]);
    }
    if (v->need[w] && d[1]) v->grad[w] = d[1];
    if (v->need[w + 1] && d[2]) v->grad[w + 1] = d[2];
    for (int i = 0; i < v->info->s.n_in; i++)
        if (v->grad[i] && td_is_nil(v->grad[i])) return false;
    return true;
}

/* Argument i as it was saved; NULL: it was not a tensor. */
static td_tensor *saved(td_vjp *v, int i) {
    return v->in[i].kind == TD_K_TENSOR ? v->in[i].u.t : NULL;
}

/* in: input, normalized_shape, weight, bias, eps. The results mean and rstd are saved;
 * their own gradients arrive in g[1] and g[2]. */
bool td__vjp_layer_norm(td_vjp *v) {
    td_tensor    *x = saved(v, 0), *w = saved(v, 2), *d[3] = {NULL, NULL, NULL};
    td_ints       norm = t_ints(v->in[1]);
    td_ints       mask = TD_DIMS(v->need[0], v->need[2], v->need[3]);
    td_norm_frame f;
    if (v->g[0])
        d[0] = td_op_native_layer_norm_backward(v->g[0], x, norm, v->out[1], v->out[2],
                                                w, mask, &d[1], &d[2]);
    td__norm_frame(&f, TD_NORM_LAYER, x, norm.n);
    td__norm_frame_tensors(&f, TD_NORM_LAYER, x,
                           (td_tensor *[]){v->out[1], v->out[2], w});
    return give_forward(v, &f, d, 2);
}

/* in: input, weight, bias, N, C, HxW, group, eps. */
bool td__vjp_group_norm(td_vjp *v) {
    td_tensor    *x = saved(v, 0), *w = saved(v, 1), *d[3] = {NULL, NULL, NULL};
    td_ints       mask = TD_DIMS(v->need[0], v->need[1], v->need[2]);
    td_norm_frame f;
    if (v->g[0])
        d[0] =
            td_op_native_group_norm_backward(v->g[0], x, v->out[1], v->out[2], w,
                                             v->in[3].u.i, v->in[4].u.i, v->in[5].u.i,
                                             v->in[6].u.i, mask, &d[1], &d[2]);
    td__norm_frame(&f, TD_NORM_GROUP, x, v->in[6].u.i);
    td__norm_frame_tensors(&f, TD_NORM_GROUP, x,
                           (td_tensor *[]){v->out[1], v->out[2], w});
    return give_forward(v, &f, d, 1);
}

/* in: input, weight, bias, running_mean, running_var, momentum, eps. Running statistics
 * have no derivative. */
bool td__vjp_batch_norm_train(td_vjp *v) {
    td_tensor    *x = saved(v, 0), *w = saved(v, 1), *d[3] = {NULL, NULL, NULL};
    td_ints       mask = TD_DIMS(v->need[0], v->need[1], v->need[2]);
    td_norm_frame f;
    if (v->g[0])
        d[0] = td_op__batch_norm_backward(v->g[0], x, v->out[1], v->out[2], w, mask,
                                          &d[1], &d[2]);
    td__norm_frame(&f, TD_NORM_BATCH, x, 0);
    td__norm_frame_tensors(&f, TD_NORM_BATCH, x,
                           (td_tensor *[]){v->out[1], v->out[2], w});
    return give_forward(v, &f, d, 1);
}

/* out = (x - mean) r w + b with constant statistics. */
bool td__vjp_batch_norm_eval(td_vjp *v) {
    td_tensor *x = t_wide(saved(v, 0)), *w = t_wide(saved(v, 1)), *g = t_wide(v->g[0]);
    td_tensor *var = td_op_add(t_wide(saved(v, 4)), v->in[5], td_value_int(1));
    td_norm_frame f;
    td__norm_frame(&f, TD_NORM_BATCH, x, 0);
    td__norm_frame_tensors(&f, TD_NORM_BATCH, x,
                           (td_tensor *[]){t_wide(saved(v, 3)), td_op_rsqrt(var), w});
    if (v->need[0]) v->grad[0] = t_mul(g, f.w ? t_mul(f.rstd, f.w) : f.rstd);
    if (v->need[1])
        v->grad[1] = t_sum(t_mul(g, t_mul(t_sub(x, f.mean), f.rstd)), f.shared, false);
    if (v->need[2]) v->grad[2] = t_sum(g, f.shared, false);
    for (int i = 0; i < 3; i++) {
        if (!v->grad[i]) continue;
        v->grad[i] = t_as(v->grad[i], v->in_meta[i]->dtype);
        if (td_is_nil(v->grad[i])) return false;
    }
    return true;
}

/* ---- backward ops ------------------------------------------------------ */

/* Argument indices of a backward op: grad_out, input, mean, rstd, weight. */
typedef struct places {
    int g, x, mean, rstd, w;
} places;

/* Cotangents of a backward op's inputs, in the frame. */
typedef struct cotangents {
    td_tensor *g, *gw, *h, *rstd;
} cotangents;

/* From the cotangent q of dx = rstd (gw - m1 - h m2). With c = q rstd, the part
 * in gw is self-adjoint; h takes -(c m2 + gw mean(c h)). */
static void from_dx(const td_norm_frame *f, td_tensor *gw, td_tensor *h, td_tensor *q,
                    cotangents *k) {
    /* means over the normalized dims, kept with size 1 */
    td_tensor *m1 = t_mean(gw, f->stats, true);
    td_tensor *m2 = t_mean(t_mul(gw, h), f->stats, true);
    td_tensor *c = t_mul(q, f->rstd);
    td_tensor *mch = t_mean(t_mul(c, h), f->stats, true);
    k->gw = t_sub(t_sub(c, t_mean(c, f->stats, true)), t_mul(h, mch));
    k->h = td_op_neg(t_add(t_mul(c, m2), t_mul(gw, mch)));
    k->rstd = t_mul(q, t_sub(t_sub(gw, m1), t_mul(h, m2)));
    k->g = f->w ? t_mul(k->gw, f->w) : k->gw;
}

/* An empty list of dims would mean all of them. */
static td_tensor *over_shared(const td_norm_frame *f, td_tensor *t) {
    return f->shared.n ? t_sum(t, f->shared, true) : t;
}

/* Fills the gradients of a backward op from those of its three results. */
static bool backward_of(td_vjp *v, const td_norm_frame *f, const places *at) {
    int        rank = f->x->rank;
    td_tensor *g = t_shaped(saved(v, at->g), f->size, rank);
    td_tensor *gw = f->w ? t_mul(g, f->w) : g;
    /* h depends on x, mean and rstd, which are independent inputs of this op */
    td_tensor *dev = t_sub(f->x, f->mean), *h = t_mul(dev, f->rstd);
    cotangents k = {NULL, NULL, NULL, NULL};
    if (v->g[0]) from_dx(f, gw, h, t_shaped(v->g[0], f->size, rank), &k);
    if (v->g[1]) {
        td_tensor *q = t_shaped(v->g[1], f->w_size, rank);
        k.g = t_join(k.g, t_mul(h, q));
        k.h = t_join(k.h, t_mul(g, q));
    }
    if (v->g[2])
        k.g = t_join(k.g, td_op_expand(t_shaped(v->g[2], f->w_size, rank),
                                       (td_ints){f->size, rank}));
    if (v->need[at->g] && k.g) v->grad[at->g] = like(k.g, v->in_meta[at->g]);
    if (v->need[at->w] && k.gw)
        v->grad[at->w] = like(over_shared(f, t_mul(g, k.gw)), v->in_meta[at->w]);
    if (!k.h) return true;
    td_tensor *dx = t_mul(k.h, f->rstd);
    if (v->need[at->x]) v->grad[at->x] = like(dx, v->in_meta[at->x]);
    if (v->need[at->mean])
        v->grad[at->mean] =
            like(td_op_neg(t_sum(dx, f->stats, true)), v->in_meta[at->mean]);
    if (v->need[at->rstd])
        v->grad[at->rstd] = like(t_sum(t_join(k.rstd, t_mul(k.h, dev)), f->stats, true),
                                 v->in_meta[at->rstd]);
    return true;
}

/* Builds the frame of the saved tensors and fills the gradients; k as in
 * td__norm_frame. */
static bool backward_rule(td_vjp *v, td_norm_kind kind, int64_t k, const places *at) {
    td_tensor    *x = saved(v, at->x);
    td_norm_frame f;
    td__norm_frame(&f, kind, x, k);
    td__norm_frame_tensors(&f, kind, x,
                           (td_tensor *[]){saved(v, at->mean), saved(v, at->rstd),
                                           saved(v, at->w)});
    if (!backward_of(v, &f, at)) return false;
    for (int i = 0; i < v->info->s.n_in; i++)
        if (v->grad[i] && td_is_nil(v->grad[i])) return false;
    return true;
}

bool td__vjp_layer_norm_backward(td_vjp *v) {
    return backward_rule(v, TD_NORM_LAYER, v->in[2].n, &(places){0, 1, 3, 4, 5});
}
bool td__vjp_group_norm_backward(td_vjp *v) {
    return backward_rule(v, TD_NORM_GROUP, v->in[8].u.i, &(places){0, 1, 2, 3, 4});
}
bool td__vjp_batch_norm_backward(td_vjp *v) {
    return backward_rule(v, TD_NORM_BATCH, 0, &(places){0, 1, 2, 3, 4});
}
