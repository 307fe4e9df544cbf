/* nn_help.h -- one of each layer, as tools/oracle/nn.py has them. */
#ifndef TD_NN_HELP_H
#define TD_NN_HELP_H

#include "td_test.h"

#include <tandem/tandem.h>

static inline td_module *bare(td_ctx *cx) {
    td_nn_linear_opts o = {TD_NN_LINEAR_OPTS, .no_bias = true};
    return td_nn_linear(cx, 3, 4, &o);
}
static inline td_module *padded(td_ctx *cx) {
    td_nn_embedding_opts o = {TD_NN_EMBEDDING_OPTS, .padded = true, .padding_idx = -4};
    return td_nn_embedding(cx, 5, 3, &o);
}
static inline td_module *conv1(td_ctx *cx) {
    td_nn_conv_opts o = {TD_NN_CONV_OPTS, .stride = TD_DIMS(2), .padding = TD_DIMS(1),
                         .groups = 2};
    return td_nn_conv1d(cx, 4, 6, 3, &o);
}
static inline td_module *conv2(td_ctx *cx) {
    td_nn_conv_opts o = {TD_NN_CONV_OPTS, .padding = TD_DIMS(1, 0),
                         .dilation = TD_DIMS(1, 2), .no_bias = true};
    return td_nn_conv2d(cx, 3, 2, TD_DIMS(3, 2), &o);
}
static inline td_module *ln_weight(td_ctx *cx) {
    td_nn_norm_opts o = {TD_NN_NORM_OPTS, .no_bias = true, .eps = 1e-3};
    return td_nn_layer_norm(cx, TD_SHAPE(3), &o);
}
static inline td_module *bn2(td_ctx *cx) {
    td_nn_norm_opts o = {TD_NN_NORM_OPTS, .momentum = 0.3};
    return td_nn_batch_norm2d(cx, 3, &o);
}
static inline td_module *bn_bare(td_ctx *cx) {
    td_nn_norm_opts o = {TD_NN_NORM_OPTS, .no_affine = true, .no_stats = true};
    return td_nn_batch_norm1d(cx, 3, &o);
}
static inline td_module *cross(td_ctx *cx) {
    td_nn_attention_opts o = {TD_NN_ATTENTION_OPTS, .no_bias = true,
                              .batch_first = true};
    return td_nn_multihead_attention(cx, 6, 3, &o);
}
static inline td_module *causal(td_ctx *cx, bool batch_first) {
    td_nn_attention_opts o = {TD_NN_ATTENTION_OPTS, .causal = true,
                              .batch_first = batch_first};
    return td_nn_multihead_attention(cx, 6, 1, &o);
}
static inline td_module *lstm(td_ctx *cx) {
    td_nn_rnn_opts o = {TD_NN_RNN_OPTS, .layers = 2, .bidirectional = true};
    return td_nn_lstm(cx, 3, 4, &o);
}
static inline td_module *lstm_state(td_ctx *cx) {
    td_nn_rnn_opts o = {TD_NN_RNN_OPTS, .batch_first = true, .no_bias = true};
    return td_nn_lstm(cx, 3, 4, &o);
}
static inline td_module *gru(td_ctx *cx) {
    td_nn_rnn_opts o = {TD_NN_RNN_OPTS, .layers = 2};
    return td_nn_gru(cx, 3, 4, &o);
}
static inline td_module *gru_single(td_ctx *cx) {
    td_nn_rnn_opts o = {TD_NN_RNN_OPTS, .bidirectional = true};
    return td_nn_gru(cx, 3, 2, &o);
}
static inline td_module *rnn(td_ctx *cx) {
    td_nn_rnn_opts o = {TD_NN_RNN_OPTS, .layers = 2, .bidirectional = true,
                        .relu = true};
    return td_nn_rnn(cx, 3, 4, &o);
}
static inline td_module *rnn_tanh(td_ctx *cx) {
    td_nn_rnn_opts o = {TD_NN_RNN_OPTS, .batch_first = true};
    return td_nn_rnn(cx, 3, 4, &o);
}
static inline td_module *gru_packed(td_ctx *cx) {
    td_nn_rnn_opts o = {TD_NN_RNN_OPTS, .bidirectional = true, .batch_first = true};
    return td_nn_gru(cx, 3, 4, &o);
}
static const td_nn_transformer_opts small_block = {TD_NN_TRANSFORMER_OPTS,
                                                   .feedforward = 8,
                                                   .no_dropout = true};

static inline td_module *encoder(td_ctx *cx) {
    td_module *layer = td_nn_transformer_encoder_layer(cx, 6, 2, &small_block);
    return td_nn_transformer_encoder(cx, layer, 2,
                                     td_nn_layer_norm(cx, TD_SHAPE(6), NULL));
}
static inline td_module *encoder_gelu(td_ctx *cx) {
    td_nn_transformer_opts o = small_block;
    o.gelu = o.batch_first = o.norm_first = o.no_bias = true;
    return td_nn_transformer_encoder_layer(cx, 6, 3, &o);
}
static inline td_module *decoder(td_ctx *cx) {
    td_module *layer = td_nn_transformer_decoder_layer(cx, 6, 2, &small_block);
    return td_nn_transformer_decoder(cx, layer, 2, NULL);
}
static inline td_module *transformer(td_ctx *cx) {
    td_nn_transformer_opts o = small_block;
    o.batch_first = true;
    return td_nn_transformer(cx, 6, 2, 1, 2, &o);
}
static inline td_module *net(td_ctx *cx) {
    return td_nn_sequential(cx, TD_MODULES(td_nn_linear(cx, 3, 4, NULL), td_nn_gelu(cx),
                                           td_nn_batch_norm1d(cx, 4, NULL),
                                           td_nn_linear(cx, 4, 2, NULL)));
}

/* Convolutions, norms and pools over 1 to 3 dims, and slopes. */
static inline void add_planes(td_module *m) {
    td_ctx         *cx = td_module_ctx(m);
    td_nn_conv_opts conv3 = {TD_NN_CONV_OPTS, .stride = TD_DIMS(1, 2, 1),
                             .padding = TD_DIMS(1), .groups = 2};
    td_nn_conv_opts up1 = {TD_NN_CONV_OPTS, .stride = TD_DIMS(2), .padding = TD_DIMS(1),
                           .groups = 2, .output_padding = TD_DIMS(1)};
    td_nn_conv_opts up2 = {TD_NN_CONV_OPTS, .dilation = TD_DIMS(1, 2), .no_bias = true};
    td_nn_conv_opts up3 = {TD_NN_CONV_OPTS, .stride = TD_DIMS(2)};
    td_nn_norm_opts all = {TD_NN_NORM_OPTS, .affine = true, .track_stats = true};
    td_nn_norm_opts affine = {TD_NN_NORM_OPTS, .affine = true};
    td_nn_add(m, "conv3", td_nn_conv3d(cx, 2, 4, TD_SHAPE(2, 1, 3), &conv3));
    td_nn_add(m, "up1", td_nn_conv_transpose1d(cx, 4, 6, 3, &up1));
    td_nn_add(m, "up2", td_nn_conv_transpose2d(cx, 2, 3, TD_SHAPE(3, 2), &up2));
    td_nn_add(m, "up3", td_nn_conv_transpose3d(cx, 2, 2, TD_SHAPE(2), &up3));
    td_nn_add(m, "bn3", td_nn_batch_norm3d(cx, 2, NULL));
    td_nn_add(m, "in1", td_nn_instance_norm1d(cx, 3, NULL));
    td_nn_add(m, "in2", td_nn_instance_norm2d(cx, 3, &all));
    td_nn_add(m, "in3", td_nn_instance_norm3d(cx, 2, &affine));
    td_nn_add(m, "prelu", td_nn_prelu(cx, 1, 0.25));
    td_nn_add(m, "prelu3", td_nn_prelu(cx, 3, 0.1));
    td_nn_add(m, "bilinear", td_nn_bilinear(cx, 3, 2, 4, NULL));
    td_nn_add(m, "glu", td_nn_glu(cx, 1));
    td_nn_add(m, "max1", td_nn_max_pool1d(cx, TD_SHAPE(2), TD_ALL, TD_ALL));
    td_nn_add(m, "max3",
              td_nn_max_pool3d(cx, TD_SHAPE(2, 1, 2), TD_SHAPE(1), TD_SHAPE(1, 0, 0)));
    td_nn_add(m, "avg1", td_nn_avg_pool1d(cx, TD_SHAPE(3), TD_SHAPE(2), TD_SHAPE(1)));
    td_nn_add(m, "avg3", td_nn_avg_pool3d(cx, TD_SHAPE(2), TD_ALL, TD_ALL));
    td_nn_add(m, "grid1", td_nn_adaptive_avg_pool1d(cx, TD_SHAPE(3)));
    td_nn_add(m, "grid3", td_nn_adaptive_avg_pool3d(cx, TD_SHAPE(2, 1, 3)));
    td_nn_add(m, "peaks1", td_nn_adaptive_max_pool1d(cx, TD_SHAPE(3)));
    td_nn_add(m, "peaks2", td_nn_adaptive_max_pool2d(cx, TD_SHAPE(2, 3)));
    td_nn_add(m, "peaks3", td_nn_adaptive_max_pool3d(cx, TD_SHAPE(2)));
}

/* All of them under the names of the files; NULL after a failure. */
static inline td_module *whole_make(td_ctx *cx) {
    td_module *m = td_nn_list(cx, (td_modules){NULL, 0});
    td_nn_add(m, "linear", td_nn_linear(cx, 3, 4, NULL));
    td_nn_add(m, "bare", bare(cx));
    td_nn_add(m, "table", td_nn_embedding(cx, 5, 3, NULL));
    td_nn_add(m, "padded", padded(cx));
    td_nn_add(m, "conv1", conv1(cx));
    td_nn_add(m, "conv2", conv2(cx));
    td_nn_add(m, "ln", td_nn_layer_norm(cx, TD_SHAPE(2, 3), NULL));
    td_nn_add(m, "ln_weight", ln_weight(cx));
    td_nn_add(m, "rms", td_nn_rms_norm(cx, TD_SHAPE(5), NULL));
    td_nn_add(m, "gn", td_nn_group_norm(cx, 2, 4, NULL));
    td_nn_add(m, "bn1", td_nn_batch_norm1d(cx, 3, NULL));
    td_nn_add(m, "bn2", bn2(cx));
    td_nn_add(m, "bn_bare", bn_bare(cx));
    td_nn_add(m, "self", td_nn_multihead_attention(cx, 6, 2, NULL));
    td_nn_add(m, "cross", cross(cx));
    td_nn_add(m, "causal", causal(cx, false));
    td_nn_add(m, "causal_pads", causal(cx, true));
    td_nn_add(m, "lstm", lstm(cx));
    td_nn_add(m, "lstm_state", lstm_state(cx));
    td_nn_add(m, "gru", gru(cx));
    td_nn_add(m, "gru_single", gru_single(cx));
    td_nn_add(m, "lstm_cell", td_nn_lstm_cell(cx, 3, 4, NULL));
    td_nn_add(m, "gru_cell", td_nn_gru_cell(cx, 3, 4, NULL));
    td_nn_add(m, "rnn", rnn(cx));
    td_nn_add(m, "rnn_tanh", rnn_tanh(cx));
    td_nn_add(m, "rnn_cell", td_nn_rnn_cell(cx, 3, 4, NULL));
    td_nn_add(m, "lstm_packed", lstm(cx));
    td_nn_add(m, "gru_packed", gru_packed(cx));
    td_nn_add(m, "encoder", encoder(cx));
    td_nn_add(m, "encoder_gelu", encoder_gelu(cx));
    td_nn_add(m, "decoder", decoder(cx));
    td_nn_add(m, "transformer", transformer(cx));
    td_nn_add(m, "net", net(cx));
    add_planes(m);
    if (td_ok(cx)) return m;
    td_module_free(m);
    return NULL;
}

/* The largest difference, over the larger of 1 and the largest value; NaN counts as
 * infinite. */
static inline double nn_apart(td_tensor *a, td_tensor *b) {
    td_grad_mode was = td_no_grad_begin(td_ctx_of(a));
    td_tensor   *x = td_to(a, TD_F64), *y = td_to(b, TD_F64);
    double       d = td_item(td_amax(td_abs(td_sub(x, y)), TD_ALL));
    double       m = td_item(td_amax(td_abs(y), TD_ALL));
    td_no_grad_end(td_ctx_of(a), was);
    return isnan(d) ? INFINITY : d / (m > 1 ? m : 1);
}

#endif
