/* reshape.c -- layers without parameters that move elements: pads, folds, upsampling,
 * shuffles of channels, unflatten; and distances of two inputs. */
#include "nn/plain.h"

#include <string.h>

#define LIST(v) ((td_ints){(v), p->dims})

/* ---- functions --------------------------------------------------------------- */

static td_tensor *pad(const td_plain *p, td_tensor *x) {
    td_value value = TD_NONE;
    if (strcmp(p->mode, "constant") == 0) value = TD_V(p->a);
    return td_pad(x, ((td_ints){p->list, 2 * p->dims}), p->mode, value);
}
static td_tensor *unflatten(const td_plain *p, td_tensor *x) {
    return td_unflatten(x, p->i, ((td_ints){p->list, p->n}));
}
static td_tensor *channel_shuffle(const td_plain *p, td_tensor *x) {
    return td_channel_shuffle(x, p->i);
}
static td_tensor *local_response(const td_plain *p, td_tensor *x) {
    return td_local_response_norm(x, p->i, p->a, p->b, p->c);
}
static td_tensor *unfold(const td_plain *p, td_tensor *x) {
    return td_im2col(x, LIST(p->kernel), LIST(p->dilation), LIST(p->padding),
                     LIST(p->stride));
}
static td_tensor *fold(const td_plain *p, td_tensor *x) {
    return td_fold(x, LIST(p->list), LIST(p->kernel), LIST(p->dilation),
                   LIST(p->padding), LIST(p->stride));
}
/* list: the sizes, n of them; none: a is the factor. */
static td_tensor *upsample(const td_plain *p, td_tensor *x) {
    td_value factor = TD_NONE;
    td_ints  sizes = p->n ? (td_ints){p->list, p->n} : TD_ALL;
    if (!p->n) factor = TD_V(p->a);
    int64_t each[3];
    if (p->n == 1 && td_rank(x) >= 3 && td_rank(x) <= 5) { /* one size for all dims */
        for (int i = 0; i < td_rank(x) - 2; i++) each[i] = p->list[0];
        sizes = (td_ints){each, td_rank(x) - 2};
    }
    return td_interpolate(x, sizes, factor, p->mode, p->flag, p->i != 0);
}

/* ---- two inputs ---------------------------------------------------------------- */

static bool similarity_forward(td_module *m, td_call *c) {
    const td_plain *p = td_module_state(m);
    if (!td__nn_takes(m, c, 2)) return false;
    return td_return(c, td_cosine_similarity(td_arg(c, 0), td_arg(c, 1), p->i, p->a));
}

static bool distance_forward(td_module *m, td_call *c) {
    const td_plain *p = td_module_state(m);
    if (!td__nn_takes(m, c, 2)) return false;
    return td_return(c, td_pairwise_distance(td_arg(c, 0), td_arg(c, 1), p->a, p->b,
                                             p->flag));
}

/* ---- rows ---------------------------------------------------------------------- */

/* Kinds of pads; each has rows for 1, 2 and 3 dims. */
typedef enum pad_kind {
    CONSTANT,
    ZERO,
    REFLECTION,
    REPLICATION,
    CIRCULAR,
    PADS
} pad_kind;
static const char *const pad_modes[PADS] = {"constant", "constant", "reflect",
                                            "replicate", "circular"};
#define ROWS(name) \
    { TD_PLAIN(name "1d", pad), TD_PLAIN(name "2d", pad), TD_PLAIN(name "3d", pad) }
static const td_plain_row pads[PADS][3] = {
    ROWS("ConstantPad"),    ROWS("ZeroPad"),     ROWS("ReflectionPad"),
    ROWS("ReplicationPad"), ROWS("CircularPad"),
};

static const td_plain_row unflatten_row = TD_PLAIN("Unflatten", unflatten);
static const td_plain_row shuffle_row = TD_PLAIN("ChannelShuffle", channel_shuffle);
static const td_plain_row lrn_row = TD_PLAIN("LocalResponseNorm", local_response);
static const td_plain_row unfold_row = TD_PLAIN("Unfold", unfold);
static const td_plain_row fold_row = TD_PLAIN("Fold", fold);
static const td_plain_row upsample_row = TD_PLAIN("Upsample", upsample);
static const td_plain_row nearest_row = TD_PLAIN("UpsamplingNearest2d", upsample);
static const td_plain_row bilinear_row = TD_PLAIN("UpsamplingBilinear2d", upsample);
static const td_plain_row similarity_row =
    TD_PLAIN_BY("CosineSimilarity", similarity_forward, NULL);
static const td_plain_row distance_row =
    TD_PLAIN_BY("PairwiseDistance", distance_forward, NULL);

/* ---- pads ---------------------------------------------------------------------- */

/* by: one entry for all sides, or two for each dim, the last dim first. */
static td_module *make_pad(td_ctx *cx, pad_kind kind, int dims, td_ints by,
                           double value) {
    const td_plain_row *row = &pads[kind][dims - 1];
    td_plain            p = {.dims = dims, .mode = pad_modes[kind], .a = value};
    td_plain_list       list = {"padding", by, NULL, INT64_MIN};
    if (!td__plain_list(cx, row->type.name, list, 2 * dims, p.list))
        return TD_NIL(cx, MODULE);
    return td__plain_make(cx, row, p);
}

#define PADS_OVER(n)                                                            \
    td_module *td_nn_constant_pad##n##d(td_ctx *cx, td_ints by, double value) { \
        return make_pad(cx, CONSTANT, n, by, value);                            \
    }                                                                           \
    td_module *td_nn_zero_pad##n##d(td_ctx *cx, td_ints by) {                   \
        return make_pad(cx, ZERO, n, by, 0);                                    \
    }                                                                           \
    td_module *td_nn_reflection_pad##n##d(td_ctx *cx, td_ints by) {             \
        return make_pad(cx, REFLECTION, n, by, 0);                              \
    }                                                                           \
    td_module *td_nn_replication_pad##n##d(td_ctx *cx, td_ints by) {            \
        return make_pad(cx, REPLICATION, n, by, 0);                             \
    }                                                                           \
    td_module *td_nn_circular_pad##n##d(td_ctx *cx, td_ints by) {               \
        return make_pad(cx, CIRCULAR, n, by, 0);                                \
    }
PADS_OVER(1)
PADS_OVER(2)
PADS_OVER(3)

/* ---- folds --------------------------------------------------------------------- */

static td_module *make_fold(td_ctx *cx, const td_plain_row *row, td_plain p,
                            td_ints kernel, const td_nn_pool_opts *opts) {
    static const int64_t zero[3] = {0, 0, 0}, one[3] = {1, 1, 1};
    const char          *who = row->type.name;
    td_nn_pool_opts      o;
    if (!td__opts_take(td__ctx_of_any(cx), who, &o, sizeof o, opts, "TD_NN_POOL_OPTS"))
        return TD_NIL(cx, MODULE);
    td_plain_list size = {"kernel", kernel, NULL, 1},
                  stride = {"stride", o.stride, one, 1},
                  padding = {"padding", o.padding, zero, 0},
                  dilation = {"dilation", o.dilation, one, 1};
    if (!td__plain_list(cx, who, size, 2, p.kernel) ||
        !td__plain_list(cx, who, stride, 2, p.stride) ||
        !td__plain_list(cx, who, padding, 2, p.padding) ||
        !td__plain_list(cx, who, dilation, 2, p.dilation))
        return TD_NIL(cx, MODULE);
    return td__plain_make(cx, row, p);
}

td_module *td_nn_unfold(td_ctx *cx, td_ints kernel, const td_nn_pool_opts *opts) {
    return make_fold(cx, &unfold_row, (td_plain){.dims = 2}, kernel, opts);
}

td_module *td_nn_fold(td_ctx *cx, td_ints output_size, td_ints kernel,
                      const td_nn_pool_opts *opts) {
    td_plain      p = {.dims = 2};
    td_plain_list size = {"output_size", output_size, NULL, 1};
    if (!td__plain_list(cx, "Fold", size, 2, p.list)) return TD_NIL(cx, MODULE);
    return make_fold(cx, &fold_row, p, kernel, opts);
}

/* ---- upsampling ---------------------------------------------------------------- */

/* The text of a mode, which outlives the caller's; NULL after td__fail. */
static const char *read_mode(td_ctx *cx, const char *mode) {
    static const char *const known[] = {"nearest",  "nearest-exact", "linear",
                                        "bilinear", "trilinear",     "bicubic",
                                        "area"};
    for (size_t i = 0; mode && i < sizeof known / sizeof *known; i++)
        if (!strcmp(mode, known[i])) return known[i];
    if (!mode) return known[0];
    td__fail(cx, TD_E_ARG,
             "Upsample: mode is \"%.40s\"; it must be nearest, nearest-exact, linear, "
             "bilinear, trilinear, bicubic or area",
             mode);
    return NULL;
}

static td_module *make_upsample(td_ctx *cx, const td_plain_row *row, td_plain p,
                                td_ints size, double factor) {
    const char *who = row->type.name;
    if ((size.v != NULL) == (factor != 0) || (size.v && (size.n < 1 || size.n > 3))) {
        td__fail(cx, TD_E_ARG,
                 "%s: pass either a size of 1 to 3 numbers, or a factor; size has %d "
                 "entries and the factor is %g",
                 who, size.v ? size.n : 0, factor);
        return TD_NIL(cx, MODULE);
    }
    p.n = size.v ? size.n : 0;
    p.a = factor;
    if (p.n) memcpy(p.list, size.v, sizeof *size.v * (size_t)size.n);
    return td__plain_make(cx, row, p);
}

td_module *td_nn_upsample(td_ctx *cx, const td_nn_upsample_opts *opts) {
    td_nn_upsample_opts o;
    if (!td__opts_take(td__ctx_of_any(cx), "Upsample", &o, sizeof o, opts,
                       "TD_NN_UPSAMPLE_OPTS"))
        return TD_NIL(cx, MODULE);
    td_plain p = {.mode = read_mode(cx, o.mode),
                  .flag = o.align_corners,
                  .i = o.recompute_scale_factor};
    if (!p.mode) return TD_NIL(cx, MODULE);
    return make_upsample(cx, &upsample_row, p, o.output_size, o.scale_factor);
}

td_module *td_nn_upsampling_nearest2d(td_ctx *cx, td_ints size, double scale_factor) {
    return make_upsample(cx, &nearest_row, (td_plain){.mode = "nearest"}, size,
                         scale_factor);
}
td_module *td_nn_upsampling_bilinear2d(td_ctx *cx, td_ints size, double scale_factor) {
    td_plain p = {.mode = "bilinear", .flag = true};
    return make_upsample(cx, &bilinear_row, p, size, scale_factor);
}

/* ---- others -------------------------------------------------------------------- */

td_module *td_nn_unflatten(td_ctx *cx, int64_t dim, td_ints sizes) {
    td_plain p = {.i = dim, .n = sizes.n};
    if (!sizes.v || sizes.n < 1 || sizes.n > TD_MAX_RANK) {
        td__fail(cx, TD_E_ARG, "Unflatten: sizes has %d entries; it must have 1 to %d",
                 sizes.v ? sizes.n : 0, TD_MAX_RANK);
        return TD_NIL(cx, MODULE);
    }
    memcpy(p.list, sizes.v, sizeof *sizes.v * (size_t)sizes.n);
    return td__plain_make(cx, &unflatten_row, p);
}
td_module *td_nn_channel_shuffle(td_ctx *cx, int64_t groups) {
    if (!td__nn_positive(cx, "ChannelShuffle", "groups", groups))
        return TD_NIL(cx, MODULE);
    return td__plain_make(cx, &shuffle_row, (td_plain){.i = groups});
}
td_module *td_nn_local_response_norm(td_ctx *cx, int64_t size, double alpha,
                                     double beta, double k) {
    if (!td__nn_positive(cx, "LocalResponseNorm", "size", size))
        return TD_NIL(cx, MODULE);
    td_plain p = {.i = size, .a = alpha, .b = beta, .c = k};
    return td__plain_make(cx, &lrn_row, p);
}
td_module *td_nn_cosine_similarity(td_ctx *cx, int64_t dim, double eps) {
    return td__plain_make(cx, &similarity_row, (td_plain){.i = dim, .a = eps});
}
td_module *td_nn_pairwise_distance(td_ctx *cx, double p, double eps, bool keepdim) {
    td_plain state = {.a = p, .b = eps, .flag = keepdim};
    return td__plain_make(cx, &distance_row, state);
}
