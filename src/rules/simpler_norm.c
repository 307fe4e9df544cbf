/* simpler_norm.c -- norm layers and their gradients in terms of pointwise ops and
 * reductions, through the frame of vjp_norm.c. */
#include "rules/norm_frame.h"

/* ---- forward ------------------------------------------------------------ */

/* (x - mean) rstd w + b in the frame; x's own sizes afterwards. */
static td_tensor *normalized(const td_norm_frame *f, const td_tensor *x, td_tensor *b) {
    td_tensor *y = t_mul(t_sub(f->x, f->mean), f->rstd);
    if (f->w) y = t_mul(y, f->w);
    if (b) y = t_add(y, t_shaped(b, f->w_size, f->x->rank));
    return t_shaped(y, x->size, x->rank);
}

/* 1 / sqrt(var + eps). */
static td_tensor *root(td_tensor *var, double eps) {
    return td_op_rsqrt(td_op_add(var, td_value_float(eps), td_value_int(1)));
}

/* Mean and variance over n of x in the frame. The first mean m is rounded; the mean c
 * of the deviations d = x - m corrects it: mean = m + c, var = mean(d^2) - c^2. The
 * kernel (loops/norm.inc) does the same, so that equal elements give exactly 0. As in
 * PyTorch, the mean of infinite elements is infinite in batch norm and else NaN. */
static td_tensor *moments(const td_norm_frame *f, td_norm_kind kind, td_tensor **var) {
    td_tensor *m = t_mean(f->x, f->stats, true), *d = t_sub(f->x, m);
    td_tensor *c = t_mean(d, f->stats, true);
    *var = t_sub(t_mean(t_mul(d, d), f->stats, true), t_mul(c, c));
    *var = td_op_clamp_min(*var, td_value_int(0));
    td_tensor *mean = t_add(m, c);
    if (kind != TD_NORM_BATCH) return mean;
    return td_op_where(td_op_isinf(m), td_value_tensor(m), td_value_tensor(mean));
}

/* out, mean and rstd of arguments x, w and b = w + 1; *var is over n. */
static bool forward(td_opcall *c, td_norm_kind kind, int64_t k, int w, double eps,
                    td_tensor **var) {
    td_tensor    *x = td__in(c, 0);
    td_norm_frame f;
    td__norm_frame(&f, kind, x, k);
    td__norm_frame_tensors(&f, kind, x, (td_tensor *[]){NULL, NULL, td__in(c, w)});
    f.mean = moments(&f, kind, var);
    f.rstd = root(*var, eps);
    c->out[0] = normalized(&f, x, td__in(c, w + 1));
    c->out[1] = t_shaped(f.mean, c->meta[1].size, c->meta[1].rank);
    c->out[2] = t_shaped(f.rstd, c->meta[2].size, c->meta[2].rank);
    return true;
}

/* in: input, normalized_shape, weight, bias, eps. */
bool td__simpler_layer_norm(td_opcall *c) {
    td_tensor *var;
    return forward(c, TD_NORM_LAYER, c->in[1].n, 2, td__in_f(c, 4), &var);
}

/* in: input, weight, bias, N, C, HxW, group, eps. */
bool td__simpler_group_norm(td_opcall *c) {
    td_tensor *var;
    return forward(c, TD_NORM_GROUP, td__in_int(c, 6), 1, td__in_f(c, 7), &var);
}

/* momentum * stat + (1 - momentum) * running */
static td_tensor *moved(td_tensor *running, td_tensor *stat, double momentum) {
    td_tensor *by = t_scale(t_shaped(stat, running->size, 1), momentum);
    return td_op_detach(t_add(by, t_scale(running, 1 - momentum)));
}

/* Arguments 3 and 4 are the running statistics; news gets their new values. */
static bool batch_norm(td_opcall *c, td_tensor **news) {
    td_tensor *x = td__in(c, 0), *var;
    double     momentum = td__in_f(c, 5);
    if (!forward(c, TD_NORM_BATCH, 0, 1, td__in_f(c, 6), &var)) return false;
    int64_t n = 1;
    for (int i = 0; i < x->rank; i++)
        if (i != 1) n = td__dim_mul(n, x->size[i]);
    /* running_var gets the unbiased variance, over n - 1 */
    var = t_share(td_op_mul(var, td_value_int(n)), td__dim_sub(n, 1));
    td_tensor *stat[2] = {c->out[1], var};
    for (int i = 0; i < 2; i++) {
        td_tensor *running = td__in(c, 3 + i);
        news[i] =
            !running || td__dim_eq(n, 0) ? running : moved(running, stat[i], momentum);
    }
    return true;
}

/* in: input, weight, bias, running_mean, running_var, momentum, eps. Running statistics
 * that were not given become empty tensors, as the kernel returns them. */
bool td__simpler_batch_norm_functional(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    if (!batch_norm(c, &c->out[3])) return false;
    for (int i = 3; i < 5; i++)
        if (!c->out[i]) c->out[i] = td_op_new_empty(x, TD_SHAPE(0), TD_DTYPE_NONE);
    return true;
}

/* The same with writes of the running statistics. */
bool td__simpler_batch_norm_train(td_opcall *c) {
    td_tensor *news[2];
    bool       ok = batch_norm(c, news);
    for (int i = 0; i < 2 && ok; i++) {
        td_tensor *to = td__in(c, 3 + i);
        if (to && news[i] != to) ok = !td_is_nil(td_op_copy_(to, news[i], false));
    }
    return ok;
}

/* in: input, weight, bias, running_mean, running_var, eps. */
bool td__simpler_batch_norm_eval(td_opcall *c) {
    td_tensor    *x = td__in(c, 0), *rstd = root(td__in(c, 4), td__in_f(c, 5));
    td_norm_frame f;
    td__norm_frame(&f, TD_NORM_BATCH, x, 0);
    td__norm_frame_tensors(&f, TD_NORM_BATCH, x,
                           (td_tensor *[]){td__in(c, 3), rstd, td__in(c, 1)});
    c->out[0] = normalized(&f, x, td__in(c, 2));
    return true;
}

/* ---- gradients ---------------------------------------------------------- */

/* Argument indices of a backward op: grad_out, input, mean, rstd, weight,
 * output_mask. */
typedef struct places {
    int g, x, mean, rstd, w, mask;
} places;

/* Sums over the dims that a parameter is shared over; m has the sizes of the
 * parameter. */
static td_tensor *over_shared(const td_norm_frame *f, td_tensor *t, const td_meta *m) {
    if (f->shared.n) t = t_sum(t, f->shared, true); /* no dims would mean all */
    return t_shaped(t, m->size, m->rank);
}

/* dx = rstd (gw - mean(gw) - h mean(gw h)), dw = sum(g h), db = sum(g). */
static bool backward(td_opcall *c, td_norm_kind kind, int64_t k, places at) {
    td_tensor     *x = td__in(c, at.x);
    const int64_t *mask = c->in[at.mask].u.ints;
    td_norm_frame  f;
    td__norm_frame(&f, kind, x, k);
    td__norm_frame_tensors(&f, kind, x,
                           (td_tensor *[]){td__in(c, at.mean), td__in(c, at.rstd),
                                           td__in(c, at.w)});
    td_tensor *g = t_shaped(td__in(c, at.g), f.size, f.x->rank);
    td_tensor *gw = f.w ? t_mul(g, f.w) : g;
    td_tensor *h = t_mul(t_sub(f.x, f.mean), f.rstd);
    for (int i = 0; i < 3; i++)
        if (!mask[i]) c->out[i] = td_op_new_empty(x, TD_SHAPE(0), TD_DTYPE_NONE);
    if (mask[0]) {
        td_tensor *m1 = t_mean(gw, f.stats, true);
        td_tensor *m2 = t_mean(t_mul(gw, h), f.stats, true);
        td_tensor *dx = t_mul(f.rstd, t_sub(t_sub(gw, m1), t_mul(h, m2)));
        c->out[0] = t_shaped(dx, x->size, x->rank);
    }
    if (mask[1]) c->out[1] = over_shared(&f, t_mul(g, h), &c->meta[1]);
    if (mask[2]) c->out[2] = over_shared(&f, g, &c->meta[2]);
    return true;
}

bool td__simpler_layer_norm_backward(td_opcall *c) {
    return backward(c, TD_NORM_LAYER, c->in[2].n, (places){0, 1, 3, 4, 5, 6});
}
bool td__simpler_group_norm_backward(td_opcall *c) {
    return backward(c, TD_NORM_GROUP, td__in_int(c, 8), (places){0, 1, 2, 3, 4, 9});
}
bool td__simpler_batch_norm_backward(td_opcall *c) {
    return backward(c, TD_NORM_BATCH, 0, (places){0, 1, 2, 3, 4, 5});
}
