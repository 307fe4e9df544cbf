/* layers.c -- Linear, PReLU, Bilinear: PyTorch's parameter names, shapes and initial
 * distributions. */
#include "nn/nn.h"

/* ---- Linear ------------------------------------------------------------- */

/* weight [out, in], bias [out] or NULL. */
typedef struct linear {
    td_tensor *weight, *bias;
} linear;

static bool linear_forward(td_module *m, td_call *c) {
    const linear *l = td_module_state(m);
    return td_return(c, td_linear(td__nn_arg(m, c), l->weight, l->bias));
}

static const td_module_type linear_type = {.name = "Linear",
                                           .bytes = sizeof(linear),
                                           .forward = linear_forward};

td_module *td_nn_linear(td_ctx *cx, int64_t in, int64_t out,
                        const td_nn_linear_opts *opts) {
    td_nn_linear_opts o;
    if (!td__opts_take(td__ctx_of_any(cx), "Linear", &o, sizeof o, opts,
                       "TD_NN_LINEAR_OPTS"))
        return TD_NIL(cx, MODULE);
    if (!td__nn_positive(cx, "Linear", "in", in) ||
        !td__nn_positive(cx, "Linear", "out", out))
        return TD_NIL(cx, MODULE);
    td_making  k = td__nn_begin(cx, &linear_type);
    linear    *l = k.m ? td_module_state(k.m) : NULL;
    td_tensor *weight = td__nn_uniform(cx, TD_SHAPE(out, in), in);
    td_tensor *bias = o.no_bias ? NULL : td__nn_uniform(cx, TD_SHAPE(out), in);
    if (l) {
        td__nn_param(&k, "weight", weight, &l->weight);
        td__nn_param(&k, "bias", bias, &l->bias);
    }
    return td__nn_end(&k);
}

/* ---- PReLU -------------------------------------------------------------- */

/* weight [1] or [channels]: slopes of negative elements. */
typedef struct prelu {
    td_tensor *weight;
} prelu;

static bool prelu_forward(td_module *m, td_call *c) {
    const prelu *p = td_module_state(m);
    return td_return(c, td_prelu(td__nn_arg(m, c), p->weight));
}

static const td_module_type prelu_type = {.name = "PReLU",
                                          .bytes = sizeof(prelu),
                                          .forward = prelu_forward};

td_module *td_nn_prelu(td_ctx *cx, int64_t channels, double slope) {
    if (!td__nn_positive(cx, "PReLU", "channels", channels)) return TD_NIL(cx, MODULE);
    td_making  k = td__nn_begin(cx, &prelu_type);
    prelu     *p = k.m ? td_module_state(k.m) : NULL;
    td_tensor *weight = td_full(cx, TD_SHAPE(channels), slope, TD_F32);
    if (p) td__nn_param(&k, "weight", weight, &p->weight);
    return td__nn_end(&k);
}

/* ---- Bilinear ----------------------------------------------------------- */

/* weight [out, in1, in2], bias [out] or NULL. */
static bool bilinear_forward(td_module *m, td_call *c) {
    const linear *l = td_module_state(m);
    if (!td__nn_takes(m, c, 2)) return false;
    return td_return(c, td_bilinear(td_arg(c, 0), td_arg(c, 1), l->weight, l->bias));
}

static const td_module_type bilinear_type = {.name = "Bilinear",
                                             .bytes = sizeof(linear),
                                             .forward = bilinear_forward};

td_module *td_nn_bilinear(td_ctx *cx, int64_t in1, int64_t in2, int64_t out,
                          const td_nn_linear_opts *opts) {
    td_nn_linear_opts o;
    if (!td__opts_take(td__ctx_of_any(cx), "Bilinear", &o, sizeof o, opts,
                       "TD_NN_LINEAR_OPTS"))
        return TD_NIL(cx, MODULE);
    if (!td__nn_positive(cx, "Bilinear", "in1", in1) ||
        !td__nn_positive(cx, "Bilinear", "in2", in2) ||
        !td__nn_positive(cx, "Bilinear", "out", out))
        return TD_NIL(cx, MODULE);
    td_making  k = td__nn_begin(cx, &bilinear_type);
    linear    *l = k.m ? td_module_state(k.m) : NULL;
    td_tensor *weight = td__nn_uniform(cx, TD_SHAPE(out, in1, in2), in1);
    td_tensor *bias = o.no_bias ? NULL : td__nn_uniform(cx, TD_SHAPE(out), in1);
    if (l) {
        td__nn_param(&k, "weight", weight, &l->weight);
        td__nn_param(&k, "bias", bias, &l->bias);
    }
    return td__nn_end(&k);
}
