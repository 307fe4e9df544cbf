/* call_image.c -- pools, convolutions and batch norm on a device. Convolutions go to
 * the plugin's library where it offers them; else, and for all else, to the kernels
 * of text/image.h. */
#include "device/op_kernel.h"
#include "ops/cast.h"
#include "rules/conv_args.h"
#include "rules/shape_rules.h"
#include "rules/windows.h"

#include <stdio.h>
#include <string.h>

static bool is_plain(const td_tensor *t) {
    return td__is_dense(t->rank, t->size, t->stride);
}

/* A row-major tensor like result i: itself, or one that is copied there at the end. */
static td_tensor *result(td_opcall *c, int i) {
    td_meta m;
    if (is_plain(c->out[i])) return c->out[i];
    td__meta_dense(&m, (td_dtype)c->out[i]->dtype, c->out[i]->rank, c->out[i]->size);
    return td__op_make(c, &m);
}

static bool finish(td_opcall *c, int i, const td_tensor *made) {
    return made == c->out[i] || td__copy_into(c->out[i], made);
}

/* ---- pools -------------------------------------------------------------- */

static void set_planes(td_op_kernel *k, const td_planes *p) {
    const int64_t *from = &p->d;
    memcpy(k->run.size, from, 18 * sizeof *from);
}

/* One pool: reads `from`, and, of a maximum's gradient, the indices. */
static bool pool(td_opcall *c, td_device_state *d, td_op_kernel *k, const td_planes *p,
                 td_tensor *index, bool *ok) {
    td_tensor *x = td__in(c, 0), *out = c->out[0];
    if (out->numel == 0 || x->numel == 0) return false;
    bool writes = index && index == c->out[1];
    if (writes && !is_plain(index)) return false;
    if (!(x = td__op_dense(c, x)) || !(out = result(c, 0)) ||
        (index && !writes && !(index = td__op_dense(c, index))))
        return *ok = false, true;
    set_planes(k, p);
    td__op_ptr(k, x);
    if (writes || !index) td__op_ptr(k, out);
    if (index) td__op_ptr(k, index);
    if (!writes && index) td__op_ptr(k, out);
    k->run.given[0] = out->numel;
    if (!td__op_start(k, d, out->numel, 0, ok)) return false;
    if (*ok) *ok = finish(c, 0, out);
    return true;
}

bool td__op_max_pool(td_opcall *c, td_device_state *d, bool *ok) {
    td_planes    p = {0};
    td_op_kernel k = {.name = "td_k_max_pool", .c = c};
    td_dtype     dt = (td_dtype)c->out[0]->dtype;
    bool         deep = c->def->cpu == td__row(TD_OP_max_pool3d_with_indices)->cpu;
    static const int64_t least[] = {
        [TD_I64] = INT64_MIN, [TD_I32] = INT32_MIN, [TD_I16] = INT16_MIN,
        [TD_I8] = INT8_MIN,   [TD_U8] = 0,          [TD_BOOL] = 0};
    if (!td__planes_window(c, 1, deep ? 3 : 2, true, &p)) return *ok = false, true;
    k.defines = td__is_float(dt) ? "#define LEAST(x) (-(A0)__builtin_inf())\n"
                                 : "#define LEAST(x) (x)\n";
    k.run.given[1] = td__is_float(dt) ? 0 : least[dt];
    return pool(c, d, &k, &p, c->out[1], ok);
}

/* in: grad_output, self, window arguments, indices. */
bool td__op_max_pool_backward(td_opcall *c, td_device_state *d, bool *ok) {
    td_planes    p = {0};
    td_op_kernel k = {.name = "td_k_max_pool_grad", .c = c, .picky = true};
    if (!td__planes_window(c, 2, 2, true, &p)) return *ok = false, true;
    k.run.given[1] = td__op_mark(c);
    return pool(c, d, &k, &p, td__in(c, 7), ok);
}

static bool is_deep(const td_opcall *c) {
    return strstr(c->info->s.name, "3d") != NULL;
}

static bool average(td_opcall *c, td_device_state *d, int at, bool back, bool *ok) {
    td_planes    p = {.dd = 1, .dh = 1, .dw = 1};
    td_op_kernel k = {.name = back ? "td_k_avg_pool_grad" : "td_k_avg_pool", .c = c};
    if (!td__is_float((td_dtype)c->out[0]->dtype)) return false;
    if (!td__planes_window(c, at, is_deep(c) ? 3 : 2, false, &p))
        return *ok = false, true;
    p.dd = p.dh = p.dw = 1;
    k.run.given[1] = td__in_bool(c, at + 4);
    k.run.given[2] = td__in_none(c, at + 5) ? 0 : td__in_int(c, at + 5);
    return pool(c, d, &k, &p, NULL, ok);
}

bool td__op_avg_pool(td_opcall *c, td_device_state *d, bool *ok) {
    return average(c, d, 1, false, ok);
}

bool td__op_avg_pool_backward(td_opcall *c, td_device_state *d, bool *ok) {
    return average(c, d, 2, true, ok);
}

static bool adaptive(td_opcall *c, td_device_state *d, bool back, bool *ok) {
    td_planes        p = {0};
    int              spatial = is_deep(c) ? 3 : 2;
    const td_tensor *small = back ? td__in(c, 0) : c->out[0];
    td_op_kernel     k = {.name = back ? "td_k_avg_pool_grad" : "td_k_avg_pool",
                          .c = c,
                          .way = 1};
    if (!td__is_float((td_dtype)c->out[0]->dtype)) return false;
    td__planes_of(td__in(c, back), spatial, small->size + small->rank - spatial, &p);
    return pool(c, d, &k, &p, NULL, ok);
}

bool td__op_adaptive_pool(td_opcall *c, td_device_state *d, bool *ok) {
    return adaptive(c, d, false, ok);
}

bool td__op_adaptive_pool_backward(td_opcall *c, td_device_state *d, bool *ok) {
    return adaptive(c, d, true, ok);
}

/* ---- convolutions ------------------------------------------------------- */

/* Dense operands of one convolution; WAY of td_k_convolution says which is made. */
typedef struct conv {
    td_conv    p;
    int        way;
    td_tensor *x, *w, *y, *bias;
} conv;

/* By the plugin's library. */
static bool by_library(td_opcall *c, td_device_state *d, const conv *v, bool *ok) {
    const td_conv        *p = &v->p;
    td_device_convolution q = {.n = p->n,
                               .c = p->c,
                               .h = p->h,
                               .w = p->w,
                               .o = p->o,
                               .kh = p->kh,
                               .kw = p->kw,
                               .oh = td__conv_out_h(p),
                               .ow = td__conv_out_w(p),
                               .stride = {p->stride_h, p->stride_w},
                               .pad = {p->pad_h, p->pad_w},
                               .dilation = {p->dil_h, p->dil_w},
                               .groups = p->groups,
                               .makes = (td_device_conv_part)v->way,
                               .x = td__ptr(v->x),
                               .weight = td__ptr(v->w),
                               .y = td__ptr(v->y),
                               .dtype = (td_dtype)c->out[0]->dtype};
    if (!d->plugin->convolution || p->kd != 1 || p->d != 1) return false;
    pthread_mutex_lock(&d->lock);
    int how = d->plugin->convolution(d->dev, &q);
    d->launches += how != 1;
    pthread_mutex_unlock(&d->lock);
    if (how == 1) return false;
    *ok = how == 0 || td__op_fail(c, TD_E_UNSUPPORTED, "%s: the convolution failed: %s",
                                  td__device_str(d->code), d->plugin->error(d->dev));
    if (!*ok || !v->bias) return true;
    td_tensor   *made = v->way ? v->x : v->y;
    int64_t      channels = v->way ? p->c : p->o;
    td_op_kernel k = {.name = "td_k_add_bias", .c = c};
    td__op_ptr(&k, made);
    td__op_ptr(&k, v->bias);
    k.run.given[0] = made->numel;
    k.run.given[1] = channels;
    k.run.given[2] = made->numel / p->n / channels;
    return td__op_start(&k, d, made->numel, 0, ok);
}

static bool by_kernel(td_opcall *c, td_device_state *d, const conv *v, bool *ok) {
    const td_conv *p = &v->p;
    td_op_kernel   k = {.name = "td_k_convolution", .c = c, .way = v->way};
    int64_t        size[] = {p->n,
                             p->c,
                             p->o,
                             p->groups,
                             p->d,
                             p->h,
                             p->w,
                             td__conv_out_d(p),
                             td__conv_out_h(p),
                             td__conv_out_w(p),
                             p->kd,
                             p->kh,
                             p->kw,
                             p->stride_d,
                             p->stride_h,
                             p->stride_w,
                             p->pad_d,
                             p->pad_h,
                             p->pad_w,
                             p->dil_d,
                             p->dil_h,
                             p->dil_w};
    td_tensor     *made = v->way == 0 ? v->y : v->way == 1 ? v->x : v->w;
    memcpy(k.run.size, size, sizeof size);
    td__op_ptr(&k, v->x);
    td__op_ptr(&k, v->w);
    td__op_ptr(&k, v->y);
    td__op_ptr(&k, v->bias);
    k.run.given[0] = made->numel;
    return td__op_start(&k, d, made->numel, 0, ok);
}

static bool run(td_opcall *c, td_device_state *d, conv *v, bool *ok) {
    td_tensor **made = v->way == 0 ? &v->y : v->way == 1 ? &v->x : &v->w;
    td_tensor **in[3] = {&v->x, &v->w, &v->y};
    for (int i = 0; i < 3; i++)
        if (in[i] != made && !(*in[i] = td__op_dense(c, *in[i])))
            return *ok = false, true;
    if (v->bias && !(v->bias = td__op_dense(c, v->bias))) return *ok = false, true;
    if (!(*made = result(c, 0))) return *ok = false, true;
    if (!by_library(c, d, v, ok) && !by_kernel(c, d, v, ok)) return false;
    if (*ok) *ok = finish(c, 0, *made);
    return true;
}

/* in: input, weight, bias, options. */
bool td__op_convolution(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *x = td__in(c, 0), *w = td__in(c, 1);
    int64_t    made[5];
    bool       transposed = td__in_bool(c, TD_CONV_DILATION + 1);
    conv       v = {.way = transposed, .x = x, .w = w, .y = x, .bias = td__in(c, 2)};
    if (x->numel == 0 || w->numel == 0 || !td__is_float((td_dtype)x->dtype))
        return false;
    if (!(transposed ? td__conv_transposed(c, &v.p, made)
                     : td__conv_sizes(c, &v.p, x->rank, x->size, w->size)))
        return *ok = false, true;
    return run(c, d, &v, ok);
}

/* in: grad, weight, input_sizes, options. */
bool td__op_conv_data_grad(td_opcall *c, td_device_state *d, bool *ok) {
    conv v = {.way = 1, .w = td__in(c, 1), .y = td__in(c, 0)};
    if (v.y->numel == 0 || v.w->numel == 0) return false;
    if (!td__conv_sizes(c, &v.p, (int)c->in[2].n, c->in[2].u.ints, v.w->size))
        return *ok = false, true;
    return run(c, d, &v, ok);
}

/* in: grad, input, weight_sizes, options. */
bool td__op_conv_weight_grad(td_opcall *c, td_device_state *d, bool *ok) {
    conv v = {.way = 2, .x = td__in(c, 1), .y = td__in(c, 0)};
    if (v.y->numel == 0 || v.x->numel == 0) return false;
    if (!td__conv_sizes(c, &v.p, (int)c->in[2].n, v.x->size, c->in[2].u.ints))
        return *ok = false, true;
    return run(c, d, &v, ok);
}

/* ---- batch norm --------------------------------------------------------- */

/* [n, c, s] of a tensor whose dim 1 has the channels. */
static void set_channels(td_op_kernel *k, const td_tensor *x, bool all) {
    int64_t n = x->size[0], c = x->size[1];
    k->run.given[0] = all ? x->numel : n;
    k->run.given[1] = c;
    k->run.given[2] = x->numel / (n * c);
}

/* (x - mean) rstd w + b. way 1: rstd is a variance. */
static bool apply(td_opcall *c, td_device_state *d, int way, td_tensor *const t[5],
                  double eps, bool *ok) {
    td_op_kernel k = {.name = "td_k_batch_apply", .c = c, .way = way, .math = true};
    td_tensor   *out = result(c, 0);
    if (!out) return *ok = false, true;
    for (int i = 0; i < 5; i++) td__op_ptr(&k, t[i]);
    td__op_ptr(&k, out);
    set_channels(&k, t[0], true);
    k.run.given[3] = td__double_bits(eps);
    if (!td__op_start(&k, d, out->numel, 0, ok)) return false;
    if (*ok) *ok = finish(c, 0, out);
    return true;
}

static bool dense_all(td_opcall *c, td_tensor **t, int n) {
    for (int i = 0; i < n; i++)
        if (t[i] && !(t[i] = td__op_dense(c, t[i]))) return false;
    return true;
}

/* in: input, weight, bias, running_mean, running_var, momentum, eps. */
bool td__op_batch_norm_train(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *t[5] = {td__in(c, 0), c->out[1], c->out[2], td__in(c, 1), td__in(c, 2)};
    td_tensor *moved[2] = {td__in(c, 3), td__in(c, 4)};
    td_op_kernel k = {.name = "td_k_batch_stats", .c = c, .math = true};
    for (int i = 0; i < 2; i++)
        if ((moved[i] && !is_plain(moved[i])) || !is_plain(c->out[1 + i])) return false;
    if (t[0]->numel == 0 || t[0]->rank < 2 || (moved[0] && moved[0] == moved[1]))
        return false;
    if (!dense_all(c, t, 5)) return *ok = false, true;
    for (int i = 0; i < 3; i++) td__op_ptr(&k, t[i]);
    for (int i = 0; i < 2; i++) td__op_ptr(&k, moved[i]);
    set_channels(&k, t[0], false);
    k.run.given[3] = td__double_bits(td__in_f(c, 6));
    k.run.given[4] = td__double_bits(td__in_f(c, 5));
    if (!td__op_start(&k, d, t[0]->numel / t[0]->size[1], t[0]->size[1], ok))
        return false;
    return !*ok || apply(c, d, 0, t, 0, ok);
}

/* in: input, weight, bias, running_mean, running_var, eps. */
bool td__op_batch_norm_eval(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor *t[5] = {td__in(c, 0), td__in(c, 3), td__in(c, 4), td__in(c, 1),
                       td__in(c, 2)};
    if (t[0]->numel == 0 || t[0]->rank < 2) return false;
    if (!dense_all(c, t, 5)) return *ok = false, true;
    return apply(c, d, 1, t, td__in_f(c, 5), ok);
}

/* in: grad_out, input, mean, rstd, weight, output_mask. */
bool td__op_batch_norm_backward(td_opcall *c, td_device_state *d, bool *ok) {
    td_tensor     *t[5] = {td__in(c, 0), td__in(c, 1), td__in(c, 2), td__in(c, 3),
                           td__in(c, 4)};
    const int64_t *mask = c->in[5].u.ints;
    if (t[1]->numel == 0 || t[1]->rank < 2) return false;
    int64_t      channels = t[1]->size[1];
    td_op_kernel k = {.name = "td_k_batch_sums", .c = c}, g;
    td_dtype     dt = t[0]->dtype == TD_F64 ? TD_F64 : TD_F32;
    td_tensor   *sums = td__op_room(c, dt, 2 * channels);
    if (!sums || !dense_all(c, t, 5)) return *ok = false, true;
    for (int i = 0; i < 4; i++) td__op_ptr(&k, t[i]);
    td__op_ptr(&k, sums);
    set_channels(&k, t[1], false);
    if (!td__op_start(&k, d, t[1]->numel / channels, channels, ok)) return false;
    for (int i = 0; i < 2 && *ok; i++) {
        td_op_kernel f = {.name = "td_k_fold_parts", .c = c};
        int64_t      given[] = {channels, 1, channels, i ? 0 : channels, 1};
        if (!mask[1 + i]) continue;
        if (!is_plain(c->out[1 + i])) return false;
        td__op_ptr(&f, sums);
        td__op_ptr(&f, c->out[1 + i]);
        memcpy(f.run.given, given, sizeof given);
        if (!td__op_start(&f, d, channels, 0, ok)) return false;
    }
    if (!*ok || !mask[0]) return true;
    td_tensor *dx = result(c, 0);
    if (!dx) return *ok = false, true;
    g = (td_op_kernel){.name = "td_k_batch_grad", .c = c};
    for (int i = 0; i < 4; i++) td__op_ptr(&g, t[i]);
    td__op_ptr(&g, sums);
    td__op_ptr(&g, dx);
    td__op_ptr(&g, t[4]);
    set_channels(&g, t[1], true);
    g.run.given[3] = t[1]->numel / channels;
    if (!td__op_start(&g, d, dx->numel, 0, ok)) return false;
    if (*ok) *ok = finish(c, 0, dx);
    return true;
}
