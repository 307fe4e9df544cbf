/* plain.c -- layers without parameters: activations, dropout, pooling, reshaping.
 * Each is a function of a tensor and a few numbers, in one table. */
#include "nn/nn.h"

typedef struct plain plain;
typedef td_tensor   *plain_fn(const plain *p, td_tensor *x);

struct plain {
    plain_fn *fn;
    td_tensor *(*own)(td_tensor *x); /* the function of td_nn_function */
    bool    training;
    double  a, b; /* slope, alpha, probability, bound or threshold */
    int64_t i, j; /* dims of softmax and flatten */
    int     dims; /* of a pool */
    int64_t kernel[3], stride[3], padding[3];
};

static bool plain_forward(td_module *m, td_call *c) {
    plain      p = *(const plain *)td_module_state(m);
    td_tensor *x = td__nn_arg(m, c);
    p.training = td_module_training(m);
    return td_return(c, td_is_nil(x) ? x : p.fn(&p, x));
}

/* ---- functions --------------------------------------------------------------- */

#define LIST(v) ((td_ints){(v), p->dims})

static td_tensor *identity(const plain *p, td_tensor *x) { return (void)p, x; }
static td_tensor *own(const plain *p, td_tensor *x) { return p->own(x); }
static td_tensor *relu(const plain *p, td_tensor *x) { return (void)p, td_relu(x); }
static td_tensor *relu6(const plain *p, td_tensor *x) { return (void)p, td_relu6(x); }
static td_tensor *leaky_relu(const plain *p, td_tensor *x) {
    return td_leaky_relu(x, p->a);
}
static td_tensor *elu(const plain *p, td_tensor *x) { return td_elu(x, p->a); }
static td_tensor *gelu(const plain *p, td_tensor *x) { return (void)p, td_gelu(x); }
static td_tensor *gelu_tanh(const plain *p, td_tensor *x) {
    return (void)p, td_gelu(x, "tanh");
}
static td_tensor *silu(const plain *p, td_tensor *x) { return (void)p, td_silu(x); }
static td_tensor *mish(const plain *p, td_tensor *x) { return (void)p, td_mish(x); }
static td_tensor *tanh_(const plain *p, td_tensor *x) { return (void)p, td_tanh(x); }
static td_tensor *sigmoid(const plain *p, td_tensor *x) {
    return (void)p, td_sigmoid(x);
}
static td_tensor *softplus(const plain *p, td_tensor *x) {
    return (void)p, td_softplus(x);
}
static td_tensor *hardswish(const plain *p, td_tensor *x) {
    return (void)p, td_hardswish(x);
}
static td_tensor *selu(const plain *p, td_tensor *x) { return (void)p, td_selu(x); }
static td_tensor *celu(const plain *p, td_tensor *x) { return td_celu(x, p->a); }
static td_tensor *log_sigmoid(const plain *p, td_tensor *x) {
    return (void)p, td_log_sigmoid(x);
}
static td_tensor *softsign(const plain *p, td_tensor *x) {
    return (void)p, td_softsign(x);
}
static td_tensor *tanhshrink(const plain *p, td_tensor *x) {
    return (void)p, td_tanhshrink(x);
}
static td_tensor *hardsigmoid(const plain *p, td_tensor *x) {
    return (void)p, td_hardsigmoid(x);
}
static td_tensor *hardtanh(const plain *p, td_tensor *x) {
    return td_hardtanh(x, p->a, p->b);
}
static td_tensor *hardshrink(const plain *p, td_tensor *x) {
    return td_hardshrink(x, p->a);
}
static td_tensor *softshrink(const plain *p, td_tensor *x) {
    return td_softshrink(x, p->a);
}
static td_tensor *threshold(const plain *p, td_tensor *x) {
    return td_threshold(x, p->a, p->b);
}
static td_tensor *softmin(const plain *p, td_tensor *x) {
    return td_softmax(td_neg(x), p->i);
}
static td_tensor *pixel_shuffle(const plain *p, td_tensor *x) {
    return td_pixel_shuffle(x, p->i);
}
static td_tensor *pixel_unshuffle(const plain *p, td_tensor *x) {
    return td_pixel_unshuffle(x, p->i);
}
static td_tensor *softmax(const plain *p, td_tensor *x) { return td_softmax(x, p->i); }
static td_tensor *log_softmax(const plain *p, td_tensor *x) {
    return td_log_softmax(x, p->i);
}
static td_tensor *flatten(const plain *p, td_tensor *x) {
    return td_flatten(x, p->i, p->j);
}
static td_tensor *dropout(const plain *p, td_tensor *x) {
    return td_dropout(x, p->a, p->training);
}
static td_tensor *glu(const plain *p, td_tensor *x) { return td_glu(x, p->i); }
#define POOLS(dims)                                                      \
    static td_tensor *max_pool##dims(const plain *p, td_tensor *x) {     \
        return td_max_pool##dims##d(x, LIST(p->kernel), LIST(p->stride), \
                                    LIST(p->padding));                   \
    }                                                                    \
    static td_tensor *avg_pool##dims(const plain *p, td_tensor *x) {     \
        return td_avg_pool##dims##d(x, LIST(p->kernel), LIST(p->stride), \
                                    LIST(p->padding));                   \
    }                                                                    \
    static td_tensor *adaptive_avg##dims(const plain *p, td_tensor *x) { \
        return td_adaptive_avg_pool##dims##d(x, LIST(p->kernel));        \
    }                                                                    \
    static td_tensor *adaptive_max##dims(const plain *p, td_tensor *x) { \
        return td_adaptive_max_pool##dims##d(x, LIST(p->kernel), NULL);  \
    }
POOLS(1)
POOLS(2)
POOLS(3)
#undef POOLS

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
    GLU,
    MAX_POOL, /* over 1, 2 and 3 dims; the others likewise */
    AVG_POOL = MAX_POOL + 3,
    ADAPTIVE_AVG = AVG_POOL + 3,
    ADAPTIVE_MAX = ADAPTIVE_AVG + 3
};

#define PLAIN(name_, fn_) \
    { {.name = (name_), .bytes = sizeof(plain), .forward = plain_forward}, (fn_) }
static const struct row {
    td_module_type type;
    plain_fn      *fn;
} rows[] = {
    [IDENTITY] = PLAIN("Identity", identity),
    [OWN] = PLAIN("Function", own),
    [RELU] = PLAIN("ReLU", relu),
    [RELU6] = PLAIN("ReLU6", relu6),
    [LEAKY_RELU] = PLAIN("LeakyReLU", leaky_relu),
    [ELU] = PLAIN("ELU", elu),
    [GELU] = PLAIN("GELU", gelu),
    [GELU_TANH] = PLAIN("GELU", gelu_tanh),
    [SILU] = PLAIN("SiLU", silu),
    [MISH] = PLAIN("Mish", mish),
    [TANH] = PLAIN("Tanh", tanh_),
    [SIGMOID] = PLAIN("Sigmoid", sigmoid),
    [SOFTPLUS] = PLAIN("Softplus", softplus),
    [HARDSWISH] = PLAIN("Hardswish", hardswish),
    [SELU] = PLAIN("SELU", selu),
    [CELU] = PLAIN("CELU", celu),
    [LOG_SIGMOID] = PLAIN("LogSigmoid", log_sigmoid),
    [SOFTSIGN] = PLAIN("Softsign", softsign),
    [TANHSHRINK] = PLAIN("Tanhshrink", tanhshrink),
    [HARDSIGMOID] = PLAIN("Hardsigmoid", hardsigmoid),
    [HARDTANH] = PLAIN("Hardtanh", hardtanh),
    [HARDSHRINK] = PLAIN("Hardshrink", hardshrink),
    [SOFTSHRINK] = PLAIN("Softshrink", softshrink),
    [THRESHOLD] = PLAIN("Threshold", threshold),
    [SOFTMIN] = PLAIN("Softmin", softmin),
    [PIXEL_SHUFFLE] = PLAIN("PixelShuffle", pixel_shuffle),
    [PIXEL_UNSHUFFLE] = PLAIN("PixelUnshuffle", pixel_unshuffle),
    [SOFTMAX] = PLAIN("Softmax", softmax),
    [LOG_SOFTMAX] = PLAIN("LogSoftmax", log_softmax),
    [FLATTEN] = PLAIN("Flatten", flatten),
    [DROPOUT] = PLAIN("Dropout", dropout),
    [GLU] = PLAIN("GLU", glu),
#define POOLS(d)                                                                   \
    [MAX_POOL +                                                                    \
        (d)-1] = PLAIN("MaxPool" #d "d", max_pool##d),                             \
        [AVG_POOL + (d)-1] = PLAIN("AvgPool" #d "d", avg_pool##d),                 \
        [ADAPTIVE_AVG + (d)-1] = PLAIN("AdaptiveAvgPool" #d "d", adaptive_avg##d), \
        [ADAPTIVE_MAX + (d)-1] = PLAIN("AdaptiveMaxPool" #d "d", adaptive_max##d)
    POOLS(1),
    POOLS(2),
    POOLS(3),
#undef POOLS
};

/* ---- making ------------------------------------------------------------- */

/* Makes the layer of a row with these numbers. */
static td_module *make(td_ctx *cx, int row, plain p) {
    td_making k = td__nn_begin(cx, &rows[row].type);
    p.fn = rows[row].fn;
    if (k.m) *(plain *)td_module_state(k.m) = p;
    return td__nn_end(&k);
}

td_module *td_nn_identity(td_ctx *cx) { return make(cx, IDENTITY, (plain){0}); }
td_module *td_nn_relu(td_ctx *cx) { return make(cx, RELU, (plain){0}); }
td_module *td_nn_relu6(td_ctx *cx) { return make(cx, RELU6, (plain){0}); }
td_module *td_nn_gelu(td_ctx *cx) { return make(cx, GELU, (plain){0}); }
td_module *td_nn_gelu_tanh(td_ctx *cx) { return make(cx, GELU_TANH, (plain){0}); }
td_module *td_nn_silu(td_ctx *cx) { return make(cx, SILU, (plain){0}); }
td_module *td_nn_mish(td_ctx *cx) { return make(cx, MISH, (plain){0}); }
td_module *td_nn_tanh(td_ctx *cx) { return make(cx, TANH, (plain){0}); }
td_module *td_nn_sigmoid(td_ctx *cx) { return make(cx, SIGMOID, (plain){0}); }
td_module *td_nn_softplus(td_ctx *cx) { return make(cx, SOFTPLUS, (plain){0}); }
td_module *td_nn_hardswish(td_ctx *cx) { return make(cx, HARDSWISH, (plain){0}); }

td_module *td_nn_selu(td_ctx *cx) { return make(cx, SELU, (plain){0}); }
td_module *td_nn_log_sigmoid(td_ctx *cx) { return make(cx, LOG_SIGMOID, (plain){0}); }
td_module *td_nn_softsign(td_ctx *cx) { return make(cx, SOFTSIGN, (plain){0}); }
td_module *td_nn_tanhshrink(td_ctx *cx) { return make(cx, TANHSHRINK, (plain){0}); }
td_module *td_nn_hardsigmoid(td_ctx *cx) { return make(cx, HARDSIGMOID, (plain){0}); }

td_module *td_nn_celu(td_ctx *cx, double alpha) {
    return make(cx, CELU, (plain){.a = alpha});
}
td_module *td_nn_hardtanh(td_ctx *cx, double least, double most) {
    return make(cx, HARDTANH, (plain){.a = least, .b = most});
}
td_module *td_nn_hardshrink(td_ctx *cx, double lambd) {
    return make(cx, HARDSHRINK, (plain){.a = lambd});
}
td_module *td_nn_softshrink(td_ctx *cx, double lambd) {
    return make(cx, SOFTSHRINK, (plain){.a = lambd});
}
td_module *td_nn_threshold(td_ctx *cx, double threshold_at, double value) {
    return make(cx, THRESHOLD, (plain){.a = threshold_at, .b = value});
}
td_module *td_nn_softmin(td_ctx *cx, int64_t dim) {
    return make(cx, SOFTMIN, (plain){.i = dim});
}
td_module *td_nn_pixel_shuffle(td_ctx *cx, int64_t factor) {
    return make(cx, PIXEL_SHUFFLE, (plain){.i = factor});
}
td_module *td_nn_pixel_unshuffle(td_ctx *cx, int64_t factor) {
    return make(cx, PIXEL_UNSHUFFLE, (plain){.i = factor});
}
td_module *td_nn_leaky_relu(td_ctx *cx, double slope) {
    return make(cx, LEAKY_RELU, (plain){.a = slope});
}
td_module *td_nn_elu(td_ctx *cx, double alpha) {
    return make(cx, ELU, (plain){.a = alpha});
}
td_module *td_nn_softmax(td_ctx *cx, int64_t dim) {
    return make(cx, SOFTMAX, (plain){.i = dim});
}
td_module *td_nn_log_softmax(td_ctx *cx, int64_t dim) {
    return make(cx, LOG_SOFTMAX, (plain){.i = dim});
}
td_module *td_nn_flatten(td_ctx *cx, int64_t from, int64_t to) {
    return make(cx, FLATTEN, (plain){.i = from, .j = to});
}
td_module *td_nn_function(td_ctx *cx, td_tensor *(*fn)(td_tensor *x)) {
    if (!td__has(td__ctx_of_any(cx), "td_nn_function", "the function", fn))
        return TD_NIL(cx, MODULE);
    return make(cx, OWN, (plain){.own = fn});
}
td_module *td_nn_dropout(td_ctx *cx, double p) {
    if (!td__nn_fraction(cx, "Dropout", "p", p)) return TD_NIL(cx, MODULE);
    return make(cx, DROPOUT, (plain){.a = p});
}

td_module *td_nn_glu(td_ctx *cx, int64_t dim) {
    return make(cx, GLU, (plain){.i = dim});
}

/* One entry for all dims, or one for each; a list that is not given is `none`. False
 * after td__fail. */
static bool read_list(td_ctx *cx, int row, int dims, td_ints given, const int64_t *none,
                      int64_t *to) {
    if (given.v && given.n != 1 && given.n != dims)
        return td__fail(
            cx, TD_E_ARG,
            "%s: kernel, stride or padding has %d entries; each must have 1 or %d",
            rows[row].type.name, given.n, dims);
    for (int i = 0; i < dims; i++)
        to[i] = given.v ? given.v[given.n == 1 ? 0 : i] : none[i];
    return true;
}

/* kind: the row of pools over one dim. The op checks the numbers when it is called. */
static td_module *pool_make(td_ctx *cx, int kind, plain p, td_ints kernel,
                            td_ints stride, td_ints padding) {
    static const int64_t zero[3] = {0, 0, 0};
    int                  row = kind + p.dims - 1;
    if (!read_list(cx, row, p.dims, kernel, zero, p.kernel) ||
        !read_list(cx, row, p.dims, stride, p.kernel, p.stride) ||
        !read_list(cx, row, p.dims, padding, zero, p.padding))
        return TD_NIL(cx, MODULE);
    return make(cx, row, p);
}

#define POOLS(n)                                                                       \
    td_module *td_nn_max_pool##n##d(td_ctx *cx, td_ints kernel, td_ints stride,        \
                                    td_ints padding) {                                 \
        return pool_make(cx, MAX_POOL, (plain){.dims = (n)}, kernel, stride, padding); \
    }                                                                                  \
    td_module *td_nn_avg_pool##n##d(td_ctx *cx, td_ints kernel, td_ints stride,        \
                                    td_ints padding) {                                 \
        return pool_make(cx, AVG_POOL, (plain){.dims = (n)}, kernel, stride, padding); \
    }                                                                                  \
    td_module *td_nn_adaptive_avg_pool##n##d(td_ctx *cx, td_ints out) {                \
        return pool_make(cx, ADAPTIVE_AVG, (plain){.dims = (n)}, out, TD_ALL, TD_ALL); \
    }                                                                                  \
    td_module *td_nn_adaptive_max_pool##n##d(td_ctx *cx, td_ints out) {                \
        return pool_make(cx, ADAPTIVE_MAX, (plain){.dims = (n)}, out, TD_ALL, TD_ALL); \
    }
POOLS(1)
POOLS(2)
POOLS(3)
#undef POOLS
