/* plain.c -- layers without parameters: activations, dropout, reshaping. */
#include "nn/plain.h"

bool td__plain_forward(td_module *m, td_call *c) {
    td_plain   p = *(const td_plain *)td_module_state(m);
    td_tensor *x = td__nn_arg(m, c);
    p.training = td_module_training(m);
    return td_return(c, td_is_nil(x) ? x : p.fn(&p, x));
}

/* ---- functions --------------------------------------------------------------- */

static td_tensor *identity(const td_plain *p, td_tensor *x) { return (void)p, x; }
static td_tensor *own(const td_plain *p, td_tensor *x) { return p->own(x); }
static td_tensor *relu(const td_plain *p, td_tensor *x) { return (void)p, td_relu(x); }
static td_tensor *relu6(const td_plain *p, td_tensor *x) {
    return (void)p, td_relu6(x);
}
static td_tensor *leaky_relu(const td_plain *p, td_tensor *x) {
    return td_leaky_relu(x, p->a);
}
static td_tensor *elu(const td_plain *p, td_tensor *x) { return td_elu(x, p->a); }
static td_tensor *gelu(const td_plain *p, td_tensor *x) { return (void)p, td_gelu(x); }
static td_tensor *gelu_tanh(const td_plain *p, td_tensor *x) {
    return (void)p, td_gelu(x, "tanh");
}
static td_tensor *silu(const td_plain *p, td_tensor *x) { return (void)p, td_silu(x); }
static td_tensor *mish(const td_plain *p, td_tensor *x) { return (void)p, td_mish(x); }
static td_tensor *tanh_(const td_plain *p, td_tensor *x) { return (void)p, td_tanh(x); }
static td_tensor *sigmoid(const td_plain *p, td_tensor *x) {
    return (void)p, td_sigmoid(x);
}
static td_tensor *softplus(const td_plain *p, td_tensor *x) {
    return (void)p, td_softplus(x);
}
static td_tensor *hardswish(const td_plain *p, td_tensor *x) {
    return (void)p, td_hardswish(x);
}
static td_tensor *selu(const td_plain *p, td_tensor *x) { return (void)p, td_selu(x); }
static td_tensor *celu(const td_plain *p, td_tensor *x) { return td_celu(x, p->a); }
static td_tensor *log_sigmoid(const td_plain *p, td_tensor *x) {
    return (void)p, td_log_sigmoid(x);
}
static td_tensor *softsign(const td_plain *p, td_tensor *x) {
    return (void)p, td_softsign(x);
}
static td_tensor *tanhshrink(const td_plain *p, td_tensor *x) {
    return (void)p, td_tanhshrink(x);
}
static td_tensor *hardsigmoid(const td_plain *p, td_tensor *x) {
    return (void)p, td_hardsigmoid(x);
}
static td_tensor *hardtanh(const td_plain *p, td_tensor *x) {
    return td_hardtanh(x, p->a, p->b);
}
static td_tensor *hardshrink(const td_plain *p, td_tensor *x) {
    return td_hardshrink(x, p->a);
}
static td_tensor *softshrink(const td_plain *p, td_tensor *x) {
    return td_softshrink(x, p->a);
}
static td_tensor *threshold(const td_plain *p, td_tensor *x) {
    return td_threshold(x, p->a, p->b);
}
static td_tensor *softmin(const td_plain *p, td_tensor *x) {
    return td_softmax(td_neg(x), p->i);
}
static td_tensor *pixel_shuffle(const td_plain *p, td_tensor *x) {
    return td_pixel_shuffle(x, p->i);
}
static td_tensor *pixel_unshuffle(const td_plain *p, td_tensor *x) {
    return td_pixel_unshuffle(x, p->i);
}
static td_tensor *softmax(const td_plain *p, td_tensor *x) {
    return td_softmax(x, p->i);
}
static td_tensor *log_softmax(const td_plain *p, td_tensor *x) {
    return td_log_softmax(x, p->i);
}
static td_tensor *flatten(const td_plain *p, td_tensor *x) {
    return td_flatten(x, p->i, p->j);
}
static td_tensor *dropout(const td_plain *p, td_tensor *x) {
    return td_dropout(x, p->a, p->training);
}
static td_tensor *dropout1d(const td_plain *p, td_tensor *x) {
    return td_dropout1d(x, p->a, p->training);
}
static td_tensor *dropout2d(const td_plain *p, td_tensor *x) {
    return td_dropout2d(x, p->a, p->training);
}
static td_tensor *dropout3d(const td_plain *p, td_tensor *x) {
    return td_dropout3d(x, p->a, p->training);
}
static td_tensor *alpha_dropout(const td_plain *p, td_tensor *x) {
    return td_alpha_dropout(x, p->a, p->training);
}
static td_tensor *feature_alpha(const td_plain *p, td_tensor *x) {
    return td_feature_alpha_dropout(x, p->a, p->training);
}
static td_tensor *rrelu(const td_plain *p, td_tensor *x) {
    return td_rrelu(x, p->a, p->b, p->training);
}
/* Over the channels of [N,C,H,W] or [C,H,W]. */
static td_tensor *softmax2d(const td_plain *p, td_tensor *x) {
    (void)p;
    if (td_rank(x) == 3 || td_rank(x) == 4) return td_softmax(x, -3);
    return td_fail(td_ctx_of(x), TD_E_SHAPE,
                   "Softmax2d: the input is %s; it must be [N,C,H,W] or [C,H,W]",
                   td__type_str(x));
}
static td_tensor *glu(const td_plain *p, td_tensor *x) { return td_glu(x, p->i); }

/* One row per layer, with PyTorch's name. */
enum {
    IDENTITY,
    OWN,
    RELU,
    RELU6,
    LEAKY_RELU,
    ELU,
    GELU,
    GELU_TANH,
    SILU,
    MISH,
    TANH,
    SIGMOID,
    SOFTPLUS,
    HARDSWISH,
    SELU,
    CELU,
    LOG_SIGMOID,
    SOFTSIGN,
    TANHSHRINK,
    HARDSIGMOID,
    HARDTANH,
    HARDSHRINK,
    SOFTSHRINK,
    THRESHOLD,
    SOFTMIN,
    PIXEL_SHUFFLE,
    PIXEL_UNSHUFFLE,
    SOFTMAX,
    LOG_SOFTMAX,
    FLATTEN,
    DROPOUT,
    DROPOUT1D,
    DROPOUT2D,
    DROPOUT3D,
    ALPHA_DROPOUT,
    FEATURE_ALPHA,
    RRELU,
    SOFTMAX2D,
    GLU
};

static const td_plain_row rows[] = {
    [IDENTITY] = TD_PLAIN("Identity", identity),
    [OWN] = TD_PLAIN("Function", own),
    [RELU] = TD_PLAIN("ReLU", relu),
    [RELU6] = TD_PLAIN("ReLU6", relu6),
    [LEAKY_RELU] = TD_PLAIN("LeakyReLU", leaky_relu),
    [ELU] = TD_PLAIN("ELU", elu),
    [GELU] = TD_PLAIN("GELU", gelu),
    [GELU_TANH] = TD_PLAIN("GELU", gelu_tanh),
    [SILU] = TD_PLAIN("SiLU", silu),
    [MISH] = TD_PLAIN("Mish", mish),
    [TANH] = TD_PLAIN("Tanh", tanh_),
    [SIGMOID] = TD_PLAIN("Sigmoid", sigmoid),
    [SOFTPLUS] = TD_PLAIN("Softplus", softplus),
    [HARDSWISH] = TD_PLAIN("Hardswish", hardswish),
    [SELU] = TD_PLAIN("SELU", selu),
    [CELU] = TD_PLAIN("CELU", celu),
    [LOG_SIGMOID] = TD_PLAIN("LogSigmoid", log_sigmoid),
    [SOFTSIGN] = TD_PLAIN("Softsign", softsign),
    [TANHSHRINK] = TD_PLAIN("Tanhshrink", tanhshrink),
    [HARDSIGMOID] = TD_PLAIN("Hardsigmoid", hardsigmoid),
    [HARDTANH] = TD_PLAIN("Hardtanh", hardtanh),
    [HARDSHRINK] = TD_PLAIN("Hardshrink", hardshrink),
    [SOFTSHRINK] = TD_PLAIN("Softshrink", softshrink),
    [THRESHOLD] = TD_PLAIN("Threshold", threshold),
    [SOFTMIN] = TD_PLAIN("Softmin", softmin),
    [PIXEL_SHUFFLE] = TD_PLAIN("PixelShuffle", pixel_shuffle),
    [PIXEL_UNSHUFFLE] = TD_PLAIN("PixelUnshuffle", pixel_unshuffle),
    [SOFTMAX] = TD_PLAIN("Softmax", softmax),
    [LOG_SOFTMAX] = TD_PLAIN("LogSoftmax", log_softmax),
    [FLATTEN] = TD_PLAIN("Flatten", flatten),
    [DROPOUT] = TD_PLAIN("Dropout", dropout),
    [DROPOUT1D] = TD_PLAIN("Dropout1d", dropout1d),
    [DROPOUT2D] = TD_PLAIN("Dropout2d", dropout2d),
    [DROPOUT3D] = TD_PLAIN("Dropout3d", dropout3d),
    [ALPHA_DROPOUT] = TD_PLAIN("AlphaDropout", alpha_dropout),
    [FEATURE_ALPHA] = TD_PLAIN("FeatureAlphaDropout", feature_alpha),
    [RRELU] = TD_PLAIN("RReLU", rrelu),
    [SOFTMAX2D] = TD_PLAIN("Softmax2d", softmax2d),
    [GLU] = TD_PLAIN("GLU", glu),
};

/* ---- making ------------------------------------------------------------- */

td_module *td__plain_make(td_ctx *cx, const td_plain_row *row, td_plain p) {
    td_making k = td__nn_begin(cx, &row->type);
    p.fn = row->fn;
    if (k.m) *(td_plain *)td_module_state(k.m) = p;
    return td__nn_end(&k);
}

static td_module *make(td_ctx *cx, int row, td_plain p) {
    return td__plain_make(cx, &rows[row], p);
}

td_module *td_nn_identity(td_ctx *cx) { return make(cx, IDENTITY, (td_plain){0}); }
td_module *td_nn_relu(td_ctx *cx) { return make(cx, RELU, (td_plain){0}); }
td_module *td_nn_relu6(td_ctx *cx) { return make(cx, RELU6, (td_plain){0}); }
td_module *td_nn_gelu(td_ctx *cx) { return make(cx, GELU, (td_plain){0}); }
td_module *td_nn_gelu_tanh(td_ctx *cx) { return make(cx, GELU_TANH, (td_plain){0}); }
td_module *td_nn_silu(td_ctx *cx) { return make(cx, SILU, (td_plain){0}); }
td_module *td_nn_mish(td_ctx *cx) { return make(cx, MISH, (td_plain){0}); }
td_module *td_nn_tanh(td_ctx *cx) { return make(cx, TANH, (td_plain){0}); }
td_module *td_nn_sigmoid(td_ctx *cx) { return make(cx, SIGMOID, (td_plain){0}); }
td_module *td_nn_softplus(td_ctx *cx) { return make(cx, SOFTPLUS, (td_plain){0}); }
td_module *td_nn_hardswish(td_ctx *cx) { return make(cx, HARDSWISH, (td_plain){0}); }

td_module *td_nn_selu(td_ctx *cx) { return make(cx, SELU, (td_plain){0}); }
td_module *td_nn_log_sigmoid(td_ctx *cx) {
    return make(cx, LOG_SIGMOID, (td_plain){0});
}
td_module *td_nn_softsign(td_ctx *cx) { return make(cx, SOFTSIGN, (td_plain){0}); }
td_module *td_nn_tanhshrink(td_ctx *cx) { return make(cx, TANHSHRINK, (td_plain){0}); }
td_module *td_nn_hardsigmoid(td_ctx *cx) {
    return make(cx, HARDSIGMOID, (td_plain){0});
}

td_module *td_nn_celu(td_ctx *cx, double alpha) {
    return make(cx, CELU, (td_plain){.a = alpha});
}
td_module *td_nn_hardtanh(td_ctx *cx, double least, double most) {
    return make(cx, HARDTANH, (td_plain){.a = least, .b = most});
}
td_module *td_nn_hardshrink(td_ctx *cx, double lambd) {
    return make(cx, HARDSHRINK, (td_plain){.a = lambd});
}
td_module *td_nn_softshrink(td_ctx *cx, double lambd) {
    return make(cx, SOFTSHRINK, (td_plain){.a = lambd});
}
td_module *td_nn_threshold(td_ctx *cx, double threshold_at, double value) {
    return make(cx, THRESHOLD, (td_plain){.a = threshold_at, .b = value});
}
td_module *td_nn_softmin(td_ctx *cx, int64_t dim) {
    return make(cx, SOFTMIN, (td_plain){.i = dim});
}
td_module *td_nn_pixel_shuffle(td_ctx *cx, int64_t factor) {
    return make(cx, PIXEL_SHUFFLE, (td_plain){.i = factor});
}
td_module *td_nn_pixel_unshuffle(td_ctx *cx, int64_t factor) {
    return make(cx, PIXEL_UNSHUFFLE, (td_plain){.i = factor});
}
td_module *td_nn_leaky_relu(td_ctx *cx, double slope) {
    return make(cx, LEAKY_RELU, (td_plain){.a = slope});
}
td_module *td_nn_elu(td_ctx *cx, double alpha) {
    return make(cx, ELU, (td_plain){.a = alpha});
}
td_module *td_nn_softmax(td_ctx *cx, int64_t dim) {
    return make(cx, SOFTMAX, (td_plain){.i = dim});
}
td_module *td_nn_log_softmax(td_ctx *cx, int64_t dim) {
    return make(cx, LOG_SOFTMAX, (td_plain){.i = dim});
}
td_module *td_nn_flatten(td_ctx *cx, int64_t from, int64_t to) {
    return make(cx, FLATTEN, (td_plain){.i = from, .j = to});
}
td_module *td_nn_function(td_ctx *cx, td_tensor *(*fn)(td_tensor *x)) {
    if (!td__has(td__ctx_of_any(cx), "td_nn_function", "the function", fn))
        return TD_NIL(cx, MODULE);
    return make(cx, OWN, (td_plain){.own = fn});
}
static td_module *make_dropout(td_ctx *cx, int row, double p) {
    if (!td__nn_fraction(cx, rows[row].type.name, "p", p)) return TD_NIL(cx, MODULE);
    return make(cx, row, (td_plain){.a = p});
}
td_module *td_nn_dropout(td_ctx *cx, double p) { return make_dropout(cx, DROPOUT, p); }
td_module *td_nn_dropout1d(td_ctx *cx, double p) {
    return make_dropout(cx, DROPOUT1D, p);
}
td_module *td_nn_dropout2d(td_ctx *cx, double p) {
    return make_dropout(cx, DROPOUT2D, p);
}
td_module *td_nn_dropout3d(td_ctx *cx, double p) {
    return make_dropout(cx, DROPOUT3D, p);
}
td_module *td_nn_alpha_dropout(td_ctx *cx, double p) {
    return make_dropout(cx, ALPHA_DROPOUT, p);
}
td_module *td_nn_feature_alpha_dropout(td_ctx *cx, double p) {
    return make_dropout(cx, FEATURE_ALPHA, p);
}
td_module *td_nn_rrelu(td_ctx *cx, double lower, double upper) {
    return make(cx, RRELU, (td_plain){.a = lower, .b = upper});
}
td_module *td_nn_softmax2d(td_ctx *cx) { return make(cx, SOFTMAX2D, (td_plain){0}); }

td_module *td_nn_glu(td_ctx *cx, int64_t dim) {
    return make(cx, GLU, (td_plain){.i = dim});
}
