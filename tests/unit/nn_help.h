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

/* Tables, upsampling, folds, pads, distances. */
static inline void add_reshaping(td_module *m) {
    td_ctx              *cx = td_module_ctx(m);
    td_nn_embedding_opts sum = {TD_NN_EMBEDDING_OPTS, .mode = "sum", .padded = true,
                                .padding_idx = 2, .include_last_offset = true};
    td_nn_embedding_opts max = {TD_NN_EMBEDDING_OPTS, .mode = "max"};
    td_nn_embedding_opts shorter = {TD_NN_EMBEDDING_OPTS, .max_norm = 0.5,
                                    .scale_grad_by_freq = true};
    td_nn_rnn_opts       proj = {TD_NN_RNN_OPTS, .layers = 2, .bidirectional = true,
                                 .proj_size = 2};
    td_nn_upsample_opts  twice = {TD_NN_UPSAMPLE_OPTS, .scale_factor = 2,
                                  .mode = "bilinear"};
    td_nn_upsample_opts  five = {TD_NN_UPSAMPLE_OPTS, .output_size = TD_DIMS(5)};
    td_nn_upsample_opts  corners = {TD_NN_UPSAMPLE_OPTS, .mode = "trilinear",
                                    .output_size = TD_DIMS(5, 2, 3),
                                    .align_corners = true};
    td_nn_pool_opts      windows = {TD_NN_POOL_OPTS, .dilation = TD_DIMS(1, 2),
                                    .padding = TD_DIMS(1), .stride = TD_DIMS(2, 1)};
    td_nn_pool_opts      padding = {TD_NN_POOL_OPTS, .padding = TD_DIMS(1, 0)};
    td_nn_add(m, "bag", td_nn_embedding_bag(cx, 6, 3, NULL));
    td_nn_add(m, "bag_sum", td_nn_embedding_bag(cx, 6, 3, &sum));
    td_nn_add(m, "bag_max", td_nn_embedding_bag(cx, 6, 3, &max));
    td_nn_add(m, "short_rows", td_nn_embedding(cx, 5, 3, &shorter));
    td_nn_add(m, "lstm_proj", td_nn_lstm(cx, 3, 5, &proj));
    td_nn_add(m, "upsample", td_nn_upsample(cx, &twice));
    td_nn_add(m, "upsample_size", td_nn_upsample(cx, &five));
    td_nn_add(m, "upsample_corners", td_nn_upsample(cx, &corners));
    td_nn_add(m, "nearest", td_nn_upsampling_nearest2d(cx, TD_ALL, 2));
    td_nn_add(m, "bilinear2", td_nn_upsampling_bilinear2d(cx, TD_SHAPE(5, 3), 0));
    td_nn_add(m, "unfold", td_nn_unfold(cx, TD_SHAPE(2, 3), &windows));
    td_nn_add(m, "fold", td_nn_fold(cx, TD_SHAPE(4, 5), TD_SHAPE(2), &padding));
    td_nn_add(m, "constant", td_nn_constant_pad1d(cx, TD_SHAPE(1, 2), 3.5));
    td_nn_add(m, "zero", td_nn_zero_pad2d(cx, TD_SHAPE(1, 0, 2, -1)));
    td_nn_add(m, "reflect", td_nn_reflection_pad3d(cx, TD_SHAPE(1)));
    td_nn_add(m, "replicate", td_nn_replication_pad2d(cx, TD_SHAPE(3, 1, 2, 0)));
    td_nn_add(m, "circular", td_nn_circular_pad2d(cx, TD_SHAPE(1, 2, 0, 1)));
    td_nn_add(m, "lrn", td_nn_local_response_norm(cx, 3, 0.1, 0.5, 2));
    td_nn_add(m, "similar", td_nn_cosine_similarity(cx, 2, 1e-8));
    td_nn_add(m, "apart", td_nn_pairwise_distance(cx, 3, 1e-6, true));
    td_nn_add(m, "shuffle", td_nn_channel_shuffle(cx, 2));
    td_nn_add(m, "unflatten", td_nn_unflatten(cx, 1, TD_SHAPE(2, 3)));
    td_nn_add(m, "softmax2d", td_nn_softmax2d(cx));
}

/* Pools with options. */
static inline void add_pools(td_module *m) {
    td_ctx         *cx = td_module_ctx(m);
    td_nn_pool_opts ceil = {TD_NN_POOL_OPTS, .ceil_mode = true};
    td_nn_pool_opts strided = {TD_NN_POOL_OPTS, .stride = TD_DIMS(2, 1)};
    td_nn_pool_opts all = {TD_NN_POOL_OPTS, .stride = TD_DIMS(2), .padding = TD_DIMS(1),
                           .ceil_mode = true, .return_indices = true};
    td_nn_pool_opts dilated = {TD_NN_POOL_OPTS, .stride = TD_DIMS(1),
                               .dilation = TD_DIMS(2)};
    td_nn_pool_opts inside = {TD_NN_POOL_OPTS, .stride = TD_DIMS(2),
                              .padding = TD_DIMS(1), .ceil_mode = true,
                              .exclude_pad = true};
    td_nn_pool_opts by = {TD_NN_POOL_OPTS, .stride = TD_DIMS(1), .divisor_override = 3};
    td_nn_fractional_opts ratio = {TD_NN_FRACTIONAL_OPTS, .output_ratio = {0.7, 0.5},
                                   .return_indices = true};
    td_nn_fractional_opts sizes = {TD_NN_FRACTIONAL_OPTS,
                                   .output_size = TD_DIMS(2, 3, 2)};
    ratio.random_samples = td_zeros(cx, TD_SHAPE(2, 3, 2));
    sizes.random_samples = td_zeros(cx, TD_SHAPE(1, 2, 3));
    td_nn_add(m, "lp1", td_nn_lp_pool1d(cx, 3, TD_SHAPE(2), &ceil));
    td_nn_add(m, "lp2", td_nn_lp_pool2d(cx, 2, TD_SHAPE(3, 2), &strided));
    td_nn_add(m, "lp3", td_nn_lp_pool3d(cx, 1.5, TD_SHAPE(2), NULL));
    td_nn_add(m, "max_all", td_nn_max_pool2d_with(cx, TD_SHAPE(3), &all));
    td_nn_add(m, "max_dilated", td_nn_max_pool1d_with(cx, TD_SHAPE(2), &dilated));
    td_nn_add(m, "avg_ceil", td_nn_avg_pool2d_with(cx, TD_SHAPE(3), &inside));
    td_nn_add(m, "avg_by", td_nn_avg_pool3d_with(cx, TD_SHAPE(2), &by));
    td_nn_add(m, "unpool", td_nn_max_unpool2d(cx, TD_SHAPE(2), TD_ALL, TD_ALL));
    td_nn_add(m, "unpool_like",
              td_nn_max_unpool1d(cx, TD_SHAPE(2), TD_SHAPE(2), TD_ALL));
    td_nn_add(m, "fraction", td_nn_fractional_max_pool2d(cx, TD_SHAPE(2), &ratio));
    td_nn_add(m, "fraction3",
              td_nn_fractional_max_pool3d(cx, TD_SHAPE(2, 2, 3), &sizes));
    td_drop(ratio.random_samples);
    td_drop(sizes.random_samples);
}

static inline td_tensor *squared_distance(void *env, td_tensor *a, td_tensor *b) {
    (void)env;
    return td_sum(td_square(td_sub(a, b)), TD_SHAPE(-1));
}

/* A loss with weights of n classes or elements, which the files fill. */
typedef td_module *loss_maker(td_ctx *cx, const td_nn_loss_opts *o);
static inline void add_weighted(td_module *m, const char *name, loss_maker *make,
                                int64_t n, td_nn_loss_opts o) {
    td_ctx *cx = td_module_ctx(m);
    o.weight = td_zeros(cx, TD_SHAPE(n));
    if (make == td_nn_bce_with_logits_loss) o.pos_weight = td_zeros(cx, TD_SHAPE(n));
    td_nn_add(m, name, make(cx, &o));
    td_drop(o.weight);
    td_drop(o.pos_weight);
}

static inline td_module *multi_margin(td_ctx *cx, const td_nn_loss_opts *o) {
    return td_nn_multi_margin_loss(cx, 2, 0.8, o);
}
static inline td_module *linear_ce(td_ctx *cx, const td_nn_loss_opts *loss) {
    td_nn_linear_ce_opts o = {TD_NN_LINEAR_CE_OPTS, .bias = true,
                              .out_features = TD_DIMS(3, 2), .loss = *loss};
    return td_nn_linear_cross_entropy_loss(cx, 5, 4, &o);
}

static inline void add_losses(td_module *m) {
    td_ctx         *cx = td_module_ctx(m);
    td_nn_loss_opts none = {TD_NN_LOSS_OPTS, .reduction = "none"};
    td_nn_loss_opts sum = {TD_NN_LOSS_OPTS, .reduction = "sum"};
    td_nn_loss_opts ce = {TD_NN_LOSS_OPTS, .ignored = true, .label_smoothing = 0.1};
    td_nn_loss_opts kl = {TD_NN_LOSS_OPTS, .reduction = "batchmean",
                          .log_target = true};
    td_nn_loss_opts counts = {TD_NN_LOSS_OPTS, .no_log_input = true, .full = true,
                              .eps = 1e-3};
    td_nn_loss_opts full = {TD_NN_LOSS_OPTS, .full = true};
    td_nn_loss_opts swap = {TD_NN_LOSS_OPTS, .p = 1, .swap = true};
    td_nn_loss_opts swap_sum = {TD_NN_LOSS_OPTS, .swap = true, .reduction = "sum"};
    td_nn_adaptive_softmax_opts clusters = {TD_NN_ADAPTIVE_SOFTMAX_OPTS,
                                            .div_value = 1.5, .head_bias = true};
    td_nn_loss_opts             plain = {TD_NN_LOSS_OPTS, .reduction = NULL};
    add_weighted(m, "ce", td_nn_cross_entropy_loss, 4, ce);
    td_nn_add(m, "ce_none", td_nn_cross_entropy_loss(cx, &none));
    add_weighted(m, "nll", td_nn_nll_loss, 4, plain);
    td_nn_add(m, "l1", td_nn_l1_loss(cx, NULL));
    td_nn_add(m, "mse", td_nn_mse_loss(cx, &sum));
    td_nn_add(m, "smooth", td_nn_smooth_l1_loss(cx, 0.5, NULL));
    td_nn_add(m, "huber", td_nn_huber_loss(cx, 0.7, NULL));
    add_weighted(m, "bce", td_nn_bce_loss, 3, plain);
    add_weighted(m, "bce_logits", td_nn_bce_with_logits_loss, 3, plain);
    td_nn_add(m, "kl", td_nn_kl_div_loss(cx, &kl));
    td_nn_add(m, "poisson", td_nn_poisson_nll_loss(cx, &counts));
    td_nn_add(m, "gaussian", td_nn_gaussian_nll_loss(cx, &full));
    td_nn_add(m, "ranking", td_nn_margin_ranking_loss(cx, 0.5, NULL));
    td_nn_add(m, "hinge", td_nn_hinge_embedding_loss(cx, 0.7, NULL));
    td_nn_add(m, "soft_margin", td_nn_soft_margin_loss(cx, NULL));
    add_weighted(m, "multi_margin", multi_margin, 4, plain);
    td_nn_add(m, "multilabel", td_nn_multilabel_margin_loss(cx, NULL));
    add_weighted(m, "multilabel_soft", td_nn_multilabel_soft_margin_loss, 4, plain);
    td_nn_add(m, "triplet", td_nn_triplet_margin_loss(cx, 0.7, &swap));
    td_nn_add(m, "triplet_by",
              td_nn_triplet_margin_with_distance_loss(cx, squared_distance, NULL, 2,
                                                      &swap_sum));
    td_nn_add(m, "cosine", td_nn_cosine_embedding_loss(cx, 0.2, NULL));
    add_weighted(m, "linear_ce", linear_ce, 4, plain);
    td_nn_add(m, "adaptive",
              td_nn_adaptive_log_softmax_with_loss(cx, 6, 12, TD_SHAPE(3, 7, 9),
                                                   &clusters));
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
    add_reshaping(m);
    add_pools(m);
    add_losses(m);
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
