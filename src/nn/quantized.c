/* quantized.c -- a Linear for inference whose weight has 8 or 4 bits. */
#include "nn/nn.h"

/* bits 8: weight i8[out,in], scales[out]; 4: weight u8[out,in/2], scales
 * [in/group,out,2], of scale and zero. */
typedef struct quantized {
    td_tensor *weight, *scales, *bias;
    int        bits;
    int64_t    group;
} quantized;

/* The products take matrices: other dims become rows. */
static bool quantized_forward(td_module *m, td_call *c) {
    const quantized *q = td_module_state(m);
    td_tensor       *x = td__nn_arg(m, c);
    td_ints          size = td_sym_sizes(x);
    int64_t          out[TD_MAX_RANK];
    if (td_is_nil(x)) return false;
    if (size.n < 1)
        return td_fail(
                   td_ctx_of(x), TD_E_SHAPE,
                   "QuantizedLinear: the input has no dims; its last must be of the "
                   "layer's input size"),
               false;
    td_tensor *rows = size.n == 1   ? td_unsqueeze(x, 0)
                      : size.n == 2 ? x
                                    : td_flatten(x, 0, -2);
    td_tensor *y = q->bits == 8
                       ? td_weight_int8pack_mm(rows, q->weight, q->scales)
                       : td_weight_int4pack_mm(rows, q->weight, q->group, q->scales);
    if (q->bias) y = td_add(y, q->bias);
    for (int i = 0; i < size.n; i++) out[i] = size.v[i];
    out[size.n - 1] = td_size(q->weight, 0);
    return td_return(c, size.n == 2 ? y : td_view(y, TD_SHAPE_OF(out, size.n)));
}

static const td_module_type quantized_type = {.name = "QuantizedLinear",
                                              .bytes = sizeof(quantized),
                                              .forward = quantized_forward};

/* Each row has the scale that maps its largest magnitude to 127. */
static td_tensor *to_8_bits(td_tensor *w, td_tensor **scales) {
    td_tensor *s = td_amax(td_abs(w), TD_DIMS(1), true);
    s = td_div(td_clamp_min(s, 1e-30), 127);
    *scales = td_squeeze_dim(s, 1);
    return td_to(td_round(td_div(w, s)), TD_I8);
}

/* Each group of a row has the scale and the zero that map its range to 0 .. 15. */
static td_tensor *to_4_bits(td_tensor *w, int64_t group, td_tensor **scales) {
    int64_t    n = td_size(w, 0), k = td_size(w, 1);
    td_tensor *g = td_view(w, TD_SHAPE(n, k / group, group));
    td_tensor *low = td_amin(g, TD_DIMS(2), true);
    td_tensor *s = td_sub(td_amax(g, TD_DIMS(2), true), low);
    s = td_div(td_clamp_min(s, 1e-30), 15);
    td_tensor *q = td_clamp(td_round(td_div(td_sub(g, low), s)), 0, 15);
    td_tensor *both[] = {td_t(td_squeeze_dim(s, 2)),
                         td_t(td_squeeze_dim(td_add(low, td_mul(s, 8)), 2))};
    *scales = td_stack(td__nn_list(both, 2), 2);
    return td_convert_weight_to_int4pack(td_to(td_view(q, TD_SHAPE(n, k)), TD_I32));
}

/* False after td__fail. */
static bool fits(td_ctx *cx, td_tensor *w, int bits, int64_t group) {
    static const char who[] = "QuantizedLinear";
    if (td_is_nil(w) || td_rank(w) != 2)
        return td_fail(cx, TD_E_ARG, "%s: the module has no matrix `weight`", who),
               false;
    if (bits != 8 && bits != 4)
        return td_fail(cx, TD_E_ARG, "%s: bits is %d; it must be 8 or 4", who, bits),
               false;
    if (bits == 4 && group != 32 && group != 64 && group != 128 && group != 256)
        return td_fail(cx, TD_E_ARG, "%s: group is %lld; it must be 32, 64, 128 or 256",
                       who, (long long)group),
               false;
    if (bits == 4 && (td_size(w, 0) % 16 || td_size(w, 1) % group))
        return td_fail(cx, TD_E_SHAPE,
                       "%s: a weight of 4 bits must have a multiple of 16 rows and of "
                       "%lld columns, got [%lld, %lld]; use 8 bits",
                       who, (long long)group, (long long)td_size(w, 0),
                       (long long)td_size(w, 1)),
               false;
    return true;
}

td_module *td_nn_quantized_linear(td_ctx *cx, td_module *linear, int bits,
                                  int64_t group) {
    td_tensor *w = td_module_get(linear, "weight"), *scales = NULL;
    if (!td_ok(cx) || !fits(cx, w, bits, group)) return TD_NIL(cx, MODULE);
    td_tensor *bias = td_module_get(linear, "bias");
    td_making  k = td__nn_begin(cx, &quantized_type);
    quantized *q = k.m ? td_module_state(k.m) : NULL;
    w = bits == 8 ? to_8_bits(w, &scales) : to_4_bits(w, group, &scales);
    if (q) {
        q->bits = bits;
        q->group = group;
        td__nn_buffer(&k, "weight", w, &q->weight);
        td__nn_buffer(&k, "scales", scales, &q->scales);
        td__nn_buffer(&k, "bias", bias ? td_clone(td_detach(bias)) : NULL, &q->bias);
    }
    return td__nn_end(&k);
}
