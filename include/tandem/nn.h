/* tandem/nn.h -- layers: modules (module.h) whose parameters, names, files, defaults
 * and arithmetic are those of torch.nn in PyTorch. docs/training.md has the whole.
 *
 *     td_module *net = td_nn_sequential(
 *         cx, TD_MODULES(td_nn_linear(cx, 784, 64, NULL), td_nn_relu(cx),
 *                        td_nn_linear(cx, 64, 10, NULL)));
 *     td_tensor *y = td_module_call(net, TD_ARGS(x));
 *     td_module_free(net);
 *
 * A constructor returns nil after a failure. Parameters are f32 (td_module_to converts
 * them) with PyTorch's initial distributions, drawn from the context's generator.
 * Options may be NULL; a zero field means PyTorch's default. */
#ifndef TANDEM_NN_H
#define TANDEM_NN_H

#include "tandem/module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- containers -------------------------------------------------------------- */

typedef struct td_modules {
    td_module *const *v;
    int               n;
} td_modules;
#ifndef __cplusplus
#define TD_MODULES(...) \
    td__modules_until((td_module *const[]){__VA_ARGS__, TD__END(td_module)})
TD__OUTLINE td_modules td__modules_until(td_module *const *v) {
    td_modules list = {v, 0};
    while (v[list.n] != TD__END(td_module)) list.n++;
    return list;
}
#endif

/* Containers take over the modules, also when they fail: then all are freed. They
 * fail if one is NULL or nil, the result of a constructor that failed.
 *
 * Children "0", "1", ...; each gets the result of the previous one. */
TD_API td_module *td_nn_sequential(td_ctx *cx, td_modules of);
/* Children "0", "1", ... without a forward. */
TD_API td_module *td_nn_list(td_ctx *cx, td_modules of);
/* Appends a child to a Sequential or ModuleList. Returns the child; nil after a
 * failure. */
TD_API td_module *td_nn_append(td_module *list, td_module *child);
/* An empty ModuleDict: td_nn_add gives it children. */
TD_API td_module *td_nn_dict(td_ctx *cx);
/* Parameters "0", "1", ... without a forward; td_module_param adds more, under any
 * names (ParameterDict). */
TD_API td_module *td_nn_parameters(td_ctx *cx, td_tensors params);
/* td_module_child for nested constructors: a child that cannot be added is freed. m
 * may be nil after a failure. */
TD_API td_module *td_nn_add(td_module *m, const char *name, td_module *child);

/* ---- linear maps and tables --------------------------------------------- */

/* Options carry their size: write {TD_NN_LINEAR_OPTS, .no_bias = true}. */
typedef struct td_nn_linear_opts {
    TD_SIZE(td_nn_linear_opts);
    bool no_bias TD_0;
} td_nn_linear_opts;
#define TD_NN_LINEAR_OPTS .td_nn_linear_opts_size = sizeof(td_nn_linear_opts)
/* weight [out,in], bias [out]. */
TD_API td_module *td_nn_linear(td_ctx *cx, int64_t in, int64_t out,
                               const td_nn_linear_opts *opts);

/* A Linear for inference with the weight of `linear`, which stays as it is, in 8 bits
 * (i8[out,in], a scale for each row) or 4 (two to a byte, a scale and a zero for each
 * `group` of a row: 32, 64, 128 or 256; 8 bits: ignored). Called with few rows it is
 * bound by the bytes of the weight (docs/dtypes.md). `linear` is a Linear or any
 * module with `weight` and `bias`.
 *   fails  TD_E_ARG    other bits, another group
 *          TD_E_SHAPE  4 bits: out is no multiple of 16, or in none of group */
TD_API td_module *td_nn_quantized_linear(td_ctx *cx, td_module *linear, int bits,
                                         int64_t group);

typedef struct td_nn_embedding_opts {
    TD_SIZE(td_nn_embedding_opts);
    bool padded              TD_0; /* row padding_idx is zero and gets no gradient */
    int64_t padding_idx      TD_0; /* negative: from the end */
    double max_norm          TD_0; /* rows that are read are shortened to it; 0: none */
    double norm_type         TD_0; /* of max_norm; 0: 2 */
    bool scale_grad_by_freq  TD_0;
    const char *mode         TD_0; /* EmbeddingBag: "mean" (NULL), "sum" or "max" */
    bool include_last_offset TD_0; /* EmbeddingBag */
    bool sparse TD_0; /* the gradient of weight is sparse (docs/sparse.md) */
} td_nn_embedding_opts;
#define TD_NN_EMBEDDING_OPTS .td_nn_embedding_opts_size = sizeof(td_nn_embedding_opts)
/* weight [count,dim]; the input is a tensor of integers of any shape. */
TD_API td_module *td_nn_embedding(td_ctx *cx, int64_t count, int64_t dim,
                                  const td_nn_embedding_opts *opts);

/* weight [count,dim]. Called with (indices, offsets, per_sample_weights): bags are the
 * rows of indices [B,N], without offsets, or of indices [N] begin at offsets [B]. */
TD_API td_module *td_nn_embedding_bag(td_ctx *cx, int64_t count, int64_t dim,
                                      const td_nn_embedding_opts *opts);

/* weight [channels], each `slope`, PyTorch's 0.25; 1 channel serves all. */
TD_API td_module *td_nn_prelu(td_ctx *cx, int64_t channels, double slope);
/* weight [out,in1,in2], bias [out]. Called with two inputs. */
TD_API td_module *td_nn_bilinear(td_ctx *cx, int64_t in1, int64_t in2, int64_t out,
                                 const td_nn_linear_opts *opts);

/* ---- memory formats -------------------------------------------------------- */

/* The order of dims in memory: row-major, or channels last, of images [n,c,h,w] and of
 * volumes [n,c,d,h,w]. Ops keep the order of their arguments as PyTorch's do. */
typedef enum td_memory_format {
    TD_CONTIGUOUS_FORMAT,
    TD_CHANNELS_LAST,
    TD_CHANNELS_LAST_3D
} td_memory_format;
/* x with its elements in that order: x itself if it has it, else a copy with its
 * history. PyTorch's x.contiguous(memory_format=f).
 *   fails  TD_E_SHAPE  channels last of a tensor without 4 (3d: 5) dims */
TD_API td_tensor *td_to_memory_format(td_tensor *x, td_memory_format f);
/* Has x that order, without gaps? Strides of dims of size 1 do not count. */
TD_API bool       td_is_memory_format(td_tensor *x, td_memory_format f);

/* ---- convolutions ------------------------------------------------------- */

/* Lists have one entry per dim, or one for all dims. */
typedef struct td_nn_conv_opts {
    TD_SIZE(td_nn_conv_opts);
    td_int_list stride TD_0, padding TD_0, dilation TD_0; /* none: 1, 0, 1 */
    int64_t groups             TD_0;                      /* 0: 1 */
    bool no_bias               TD_0;
    td_int_list output_padding TD_0; /* transposed: more at one end; none: 0 */
} td_nn_conv_opts;
#define TD_NN_CONV_OPTS .td_nn_conv_opts_size = sizeof(td_nn_conv_opts)
/* weight [out,in/groups,K], [out,in/groups,KH,KW] or [out,in/groups,KD,KH,KW], bias
 * [out]. */
TD_API td_module *td_nn_conv1d(td_ctx *cx, int64_t in, int64_t out, int64_t kernel,
                               const td_nn_conv_opts *opts);
TD_API td_module *td_nn_conv2d(td_ctx *cx, int64_t in, int64_t out, td_ints kernel,
                               const td_nn_conv_opts *opts);
TD_API td_module *td_nn_conv3d(td_ctx *cx, int64_t in, int64_t out, td_ints kernel,
                               const td_nn_conv_opts *opts);
/* weight [in,out/groups,...], bias [out]. */
TD_API td_module *td_nn_conv_transpose1d(td_ctx *cx, int64_t in, int64_t out,
                                         int64_t kernel, const td_nn_conv_opts *opts);
TD_API td_module *td_nn_conv_transpose2d(td_ctx *cx, int64_t in, int64_t out,
                                         td_ints kernel, const td_nn_conv_opts *opts);
TD_API td_module *td_nn_conv_transpose3d(td_ctx *cx, int64_t in, int64_t out,
                                         td_ints kernel, const td_nn_conv_opts *opts);

/* ---- norms -------------------------------------------------------------- */

typedef struct td_nn_norm_opts {
    TD_SIZE(td_nn_norm_opts);
    double eps      TD_0; /* 0: 1e-5; for RMSNorm: machine epsilon of the dtype */
    bool no_affine  TD_0; /* neither weight nor bias */
    bool no_bias    TD_0; /* LayerNorm: a weight only */
    double momentum TD_0; /* BatchNorm: of the running statistics; 0: 0.1 */
    bool no_stats   TD_0; /* BatchNorm: no running statistics, always the batch's */
    bool affine TD_0, track_stats TD_0; /* InstanceNorm has neither without these */
} td_nn_norm_opts;
#define TD_NN_NORM_OPTS .td_nn_norm_opts_size = sizeof(td_nn_norm_opts)
/* Normalizes over the last dims, whose sizes are `shape`; weight and bias have that
 * shape. */
TD_API td_module *td_nn_layer_norm(td_ctx *cx, td_ints shape,
                                   const td_nn_norm_opts *opts);
TD_API td_module *td_nn_rms_norm(td_ctx *cx, td_ints shape,
                                 const td_nn_norm_opts *opts);
/* weight, bias [channels]. */
TD_API td_module *td_nn_group_norm(td_ctx *cx, int64_t groups, int64_t channels,
                                   const td_nn_norm_opts *opts);
/* weight, bias, running_mean, running_var [channels] and num_batches_tracked, which
 * training updates. Input: [N,C] or [N,C,L]; [N,C,H,W] for 2d, [N,C,D,H,W] for 3d. */
TD_API td_module *td_nn_batch_norm1d(td_ctx *cx, int64_t channels,
                                     const td_nn_norm_opts *opts);
TD_API td_module *td_nn_batch_norm2d(td_ctx *cx, int64_t channels,
                                     const td_nn_norm_opts *opts);
TD_API td_module *td_nn_batch_norm3d(td_ctx *cx, int64_t channels,
                                     const td_nn_norm_opts *opts);
/* The same names, where the options ask for them; input also without N. */
TD_API td_module *td_nn_instance_norm1d(td_ctx *cx, int64_t channels,
                                        const td_nn_norm_opts *opts);
TD_API td_module *td_nn_instance_norm2d(td_ctx *cx, int64_t channels,
                                        const td_nn_norm_opts *opts);
TD_API td_module *td_nn_instance_norm3d(td_ctx *cx, int64_t channels,
                                        const td_nn_norm_opts *opts);

/* ---- attention ---------------------------------------------------------- */

typedef struct td_nn_attention_opts {
    TD_SIZE(td_nn_attention_opts);
    double dropout TD_0; /* of the weights, in training */
    bool no_bias TD_0, batch_first TD_0;
    bool causal TD_0; /* a position attends to itself and earlier ones only */
} td_nn_attention_opts;
#define TD_NN_ATTENTION_OPTS .td_nn_attention_opts_size = sizeof(td_nn_attention_opts)
/* in_proj_weight [3*dim,dim], in_proj_bias, out_proj.weight, out_proj.bias.
 *
 * Called with (query), or (query, key, value, mask, padding), where all but the query
 * may be absent: key is the query then, value the key. They are [T,B,dim], with
 * batch_first [B,T,dim], or [T,dim]. mask [T,S] or [B*heads,T,S] and padding [B,S] are
 * true where not to look, or floats to be added. One result; weights are not kept. */
TD_API td_module *td_nn_multihead_attention(td_ctx *cx, int64_t dim, int64_t heads,
                                            const td_nn_attention_opts *opts);

/* ---- recurrence --------------------------------------------------------- */

typedef struct td_nn_rnn_opts {
    TD_SIZE(td_nn_rnn_opts);
    int64_t layers TD_0; /* 0: 1 */
    double dropout TD_0; /* between layers, in training */
    bool no_bias TD_0, batch_first TD_0, bidirectional TD_0;
    bool relu         TD_0; /* RNN: nonlinearity="relu", not tanh */
    int64_t proj_size TD_0; /* LSTM: size of h, less than hidden; 0: hidden */
} td_nn_rnn_opts;
#define TD_NN_RNN_OPTS .td_nn_rnn_opts_size = sizeof(td_nn_rnn_opts)
/* weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, with proj_size weight_hr_l0,
 * ..._l0_reverse, ..._l1, ...
 *
 * Called with (input, h, c, lengths), GRU and RNN without c; absent states are zeros.
 * input is [T,B,in], with batch_first [B,T,in], or [T,in]. Results: the last layer's
 * output, h, and c. lengths, i64[B], does what packed sequences do: steps of sequence b
 * after lengths[b] change no state and have output 0. */
TD_API td_module *td_nn_lstm(td_ctx *cx, int64_t in, int64_t hidden,
                             const td_nn_rnn_opts *opts);
TD_API td_module *td_nn_gru(td_ctx *cx, int64_t in, int64_t hidden,
                            const td_nn_rnn_opts *opts);
TD_API td_module *td_nn_rnn(td_ctx *cx, int64_t in, int64_t hidden,
                            const td_nn_rnn_opts *opts);
/* One time step: weight_ih, weight_hh, bias_ih, bias_hh. (input, h, c) returns h and
 * c; GRU and RNN take (input, h) and return h. Of opts no_bias and relu are used. */
TD_API td_module *td_nn_lstm_cell(td_ctx *cx, int64_t in, int64_t hidden,
                                  const td_nn_rnn_opts *opts);
TD_API td_module *td_nn_gru_cell(td_ctx *cx, int64_t in, int64_t hidden,
                                 const td_nn_rnn_opts *opts);

TD_API td_module *td_nn_rnn_cell(td_ctx *cx, int64_t in, int64_t hidden,
                                 const td_nn_rnn_opts *opts);

/* ---- transformers ------------------------------------------------------- */

typedef struct td_nn_transformer_opts {
    TD_SIZE(td_nn_transformer_opts);
    int64_t feedforward TD_0; /* 0: 2048 */
    double dropout      TD_0; /* 0: 0.1 */
    double eps          TD_0; /* of the norms; 0: 1e-5 */
    bool no_dropout TD_0, no_bias TD_0, batch_first TD_0;
    bool norm_first TD_0;
    bool gelu       TD_0; /* activation="gelu", not relu */
} td_nn_transformer_opts;
#define TD_NN_TRANSFORMER_OPTS \
    .td_nn_transformer_opts_size = sizeof(td_nn_transformer_opts)
/* self_attn, linear1, linear2, norm1, norm2. Called with (x, mask, padding) as the
 * attention layer. */
TD_API td_module *td_nn_transformer_encoder_layer(td_ctx *cx, int64_t dim,
                                                  int64_t                       heads,
                                                  const td_nn_transformer_opts *opts);
/* self_attn, multihead_attn, linear1, linear2, norm1, norm2, norm3. Called with (x,
 * memory, mask, memory_mask, padding, memory_padding). */
TD_API td_module *td_nn_transformer_decoder_layer(td_ctx *cx, int64_t dim,
                                                  int64_t                       heads,
                                                  const td_nn_transformer_opts *opts);
/* layers.0 is `layer`, the others are copies; norm may be NULL. Called as the layer.
 * Both modules are taken over, also on failure. */
TD_API td_module *td_nn_transformer_encoder(td_ctx *cx, td_module *layer, int64_t n,
                                            td_module *norm);
TD_API td_module *td_nn_transformer_decoder(td_ctx *cx, td_module *layer, int64_t n,
                                            td_module *norm);
/* encoder, decoder. Called with (source, target, source_mask, target_mask, memory_mask,
 * source_padding, target_padding, memory_padding); the masks may be absent. */
TD_API td_module *td_nn_transformer(td_ctx *cx, int64_t dim, int64_t heads,
                                    int64_t encoders, int64_t decoders,
                                    const td_nn_transformer_opts *opts);

/* ---- without parameters ------------------------------------------------- */

TD_API td_module *td_nn_dropout(td_ctx *cx, double p);   /* in training only */
TD_API td_module *td_nn_dropout1d(td_ctx *cx, double p); /* of whole channels */
TD_API td_module *td_nn_dropout2d(td_ctx *cx, double p);
TD_API td_module *td_nn_dropout3d(td_ctx *cx, double p);
TD_API td_module *td_nn_alpha_dropout(td_ctx *cx, double p);
TD_API td_module *td_nn_feature_alpha_dropout(td_ctx *cx, double p);
TD_API td_module *td_nn_identity(td_ctx *cx);
TD_API td_module *td_nn_flatten(td_ctx *cx, int64_t from, int64_t to); /* 1, -1 */
/* Lists have one entry per dim, or one for all. TD_ALL: the kernel, 0. */
TD_API td_module *td_nn_max_pool1d(td_ctx *cx, td_ints kernel, td_ints stride,
                                   td_ints padding);
TD_API td_module *td_nn_max_pool2d(td_ctx *cx, td_ints kernel, td_ints stride,
                                   td_ints padding);
TD_API td_module *td_nn_max_pool3d(td_ctx *cx, td_ints kernel, td_ints stride,
                                   td_ints padding);
TD_API td_module *td_nn_avg_pool1d(td_ctx *cx, td_ints kernel, td_ints stride,
                                   td_ints padding);
TD_API td_module *td_nn_avg_pool2d(td_ctx *cx, td_ints kernel, td_ints stride,
                                   td_ints padding);
TD_API td_module *td_nn_avg_pool3d(td_ctx *cx, td_ints kernel, td_ints stride,
                                   td_ints padding);
TD_API td_module *td_nn_adaptive_avg_pool1d(td_ctx *cx, td_ints out);
TD_API td_module *td_nn_adaptive_avg_pool2d(td_ctx *cx, td_ints out);
TD_API td_module *td_nn_adaptive_avg_pool3d(td_ctx *cx, td_ints out);
TD_API td_module *td_nn_adaptive_max_pool1d(td_ctx *cx, td_ints out);
TD_API td_module *td_nn_adaptive_max_pool2d(td_ctx *cx, td_ints out);
TD_API td_module *td_nn_adaptive_max_pool3d(td_ctx *cx, td_ints out);

typedef struct td_nn_pool_opts {
    TD_SIZE(td_nn_pool_opts);
    td_int_list stride TD_0, padding TD_0, dilation TD_0; /* none: kernel, 0, 1 */
    bool ceil_mode           TD_0;
    bool return_indices      TD_0; /* MaxPool: places are a second result */
    bool exclude_pad         TD_0; /* AvgPool: count_include_pad=False */
    int64_t divisor_override TD_0; /* AvgPool2d, 3d; 0: none */
} td_nn_pool_opts;
#define TD_NN_POOL_OPTS .td_nn_pool_opts_size = sizeof(td_nn_pool_opts)
/* The pools above with all of PyTorch's options. */
TD_API td_module *td_nn_max_pool1d_with(td_ctx *cx, td_ints kernel,
                                        const td_nn_pool_opts *opts);
TD_API td_module *td_nn_max_pool2d_with(td_ctx *cx, td_ints kernel,
                                        const td_nn_pool_opts *opts);
TD_API td_module *td_nn_max_pool3d_with(td_ctx *cx, td_ints kernel,
                                        const td_nn_pool_opts *opts);
TD_API td_module *td_nn_avg_pool1d_with(td_ctx *cx, td_ints kernel,
                                        const td_nn_pool_opts *opts);
TD_API td_module *td_nn_avg_pool2d_with(td_ctx *cx, td_ints kernel,
                                        const td_nn_pool_opts *opts);
TD_API td_module *td_nn_avg_pool3d_with(td_ctx *cx, td_ints kernel,
                                        const td_nn_pool_opts *opts);
/* LPPool: stride and ceil_mode of the options. */
TD_API td_module *td_nn_lp_pool1d(td_ctx *cx, double norm_type, td_ints kernel,
                                  const td_nn_pool_opts *opts);
TD_API td_module *td_nn_lp_pool2d(td_ctx *cx, double norm_type, td_ints kernel,
                                  const td_nn_pool_opts *opts);
TD_API td_module *td_nn_lp_pool3d(td_ctx *cx, double norm_type, td_ints kernel,
                                  const td_nn_pool_opts *opts);
/* Called with (maxima, places), or (maxima, places, like): the result has the last
 * sizes of `like`, PyTorch's output_size. */
TD_API td_module *td_nn_max_unpool1d(td_ctx *cx, td_ints kernel, td_ints stride,
                                     td_ints padding);
TD_API td_module *td_nn_max_unpool2d(td_ctx *cx, td_ints kernel, td_ints stride,
                                     td_ints padding);
TD_API td_module *td_nn_max_unpool3d(td_ctx *cx, td_ints kernel, td_ints stride,
                                     td_ints padding);

typedef struct td_nn_fractional_opts {
    TD_SIZE(td_nn_fractional_opts);
    td_int_list output_size TD_0;
    double              output_ratio[3] TD_0; /* instead of sizes; 0: as the first */
    bool return_indices TD_0;
    td_tensor *random_samples TD_0; /* f32[N,C,dims]; NULL: drawn in each call */
} td_nn_fractional_opts;
#define TD_NN_FRACTIONAL_OPTS \
    .td_nn_fractional_opts_size = sizeof(td_nn_fractional_opts)
TD_API td_module *td_nn_fractional_max_pool2d(td_ctx *cx, td_ints kernel,
                                              const td_nn_fractional_opts *opts);
TD_API td_module *td_nn_fractional_max_pool3d(td_ctx *cx, td_ints kernel,
                                              const td_nn_fractional_opts *opts);

/* Pads: one number for all sides, or two for each dim, the last dim first. */
TD_API td_module *td_nn_constant_pad1d(td_ctx *cx, td_ints by, double value);
TD_API td_module *td_nn_constant_pad2d(td_ctx *cx, td_ints by, double value);
TD_API td_module *td_nn_constant_pad3d(td_ctx *cx, td_ints by, double value);
TD_API td_module *td_nn_zero_pad1d(td_ctx *cx, td_ints by);
TD_API td_module *td_nn_zero_pad2d(td_ctx *cx, td_ints by);
TD_API td_module *td_nn_zero_pad3d(td_ctx *cx, td_ints by);
TD_API td_module *td_nn_reflection_pad1d(td_ctx *cx, td_ints by);
TD_API td_module *td_nn_reflection_pad2d(td_ctx *cx, td_ints by);
TD_API td_module *td_nn_reflection_pad3d(td_ctx *cx, td_ints by);
TD_API td_module *td_nn_replication_pad1d(td_ctx *cx, td_ints by);
TD_API td_module *td_nn_replication_pad2d(td_ctx *cx, td_ints by);
TD_API td_module *td_nn_replication_pad3d(td_ctx *cx, td_ints by);
TD_API td_module *td_nn_circular_pad1d(td_ctx *cx, td_ints by);
TD_API td_module *td_nn_circular_pad2d(td_ctx *cx, td_ints by);
TD_API td_module *td_nn_circular_pad3d(td_ctx *cx, td_ints by);

/* Unfold (im2col) and its inverse; of the options stride, 1 by default, padding and
 * dilation. */
TD_API td_module *td_nn_unfold(td_ctx *cx, td_ints kernel, const td_nn_pool_opts *opts);
TD_API td_module *td_nn_fold(td_ctx *cx, td_ints output_size, td_ints kernel,
                             const td_nn_pool_opts *opts);

typedef struct td_nn_upsample_opts {
    TD_SIZE(td_nn_upsample_opts);
    td_int_list output_size TD_0; /* either `size`, one for all dims or one for each, */
    double scale_factor     TD_0; /* or a factor of all dims */
    const char *mode   TD_0; /* "nearest" (NULL), "nearest-exact", "linear", "bilinear",
                                 "trilinear", "bicubic", "area" */
    bool align_corners TD_0, recompute_scale_factor TD_0;
} td_nn_upsample_opts;
#define TD_NN_UPSAMPLE_OPTS .td_nn_upsample_opts_size = sizeof(td_nn_upsample_opts)
TD_API td_module *td_nn_upsample(td_ctx *cx, const td_nn_upsample_opts *opts);
/* TD_ALL: by the factor; 0: to the size. */
TD_API td_module *td_nn_upsampling_nearest2d(td_ctx *cx, td_ints size,
                                             double scale_factor);
TD_API td_module *td_nn_upsampling_bilinear2d(td_ctx *cx, td_ints size,
                                              double scale_factor);

TD_API td_module *td_nn_unflatten(td_ctx *cx, int64_t dim, td_ints sizes);
TD_API td_module *td_nn_channel_shuffle(td_ctx *cx, int64_t groups);
/* PyTorch's: 1e-4, 0.75, 1. */
TD_API td_module *td_nn_local_response_norm(td_ctx *cx, int64_t size, double alpha,
                                            double beta, double k);
/* Called with two inputs. PyTorch's: dim 1, eps 1e-8; p 2, eps 1e-6, false. */
TD_API td_module *td_nn_cosine_similarity(td_ctx *cx, int64_t dim, double eps);
TD_API td_module *td_nn_pairwise_distance(td_ctx *cx, double p, double eps,
                                          bool keepdim);
TD_API td_module *td_nn_glu(td_ctx *cx, int64_t dim); /* PyTorch's: -1 */

TD_API td_module *td_nn_relu(td_ctx *cx);
TD_API td_module *td_nn_relu6(td_ctx *cx);
TD_API td_module *td_nn_leaky_relu(td_ctx *cx, double slope); /* PyTorch's: 0.01 */
TD_API td_module *td_nn_elu(td_ctx *cx, double alpha);        /* PyTorch's: 1 */
TD_API td_module *td_nn_gelu(td_ctx *cx);
TD_API td_module *td_nn_gelu_tanh(td_ctx *cx); /* GELU(approximate="tanh") */
TD_API td_module *td_nn_silu(td_ctx *cx);
TD_API td_module *td_nn_mish(td_ctx *cx);
TD_API td_module *td_nn_tanh(td_ctx *cx);
TD_API td_module *td_nn_sigmoid(td_ctx *cx);
TD_API td_module *td_nn_softplus(td_ctx *cx);
TD_API td_module *td_nn_hardswish(td_ctx *cx);
TD_API td_module *td_nn_selu(td_ctx *cx);
TD_API td_module *td_nn_celu(td_ctx *cx, double alpha); /* PyTorch's: 1 */
TD_API td_module *td_nn_log_sigmoid(td_ctx *cx);
TD_API td_module *td_nn_softsign(td_ctx *cx);
TD_API td_module *td_nn_tanhshrink(td_ctx *cx);
TD_API td_module *td_nn_hardsigmoid(td_ctx *cx);
TD_API td_module *td_nn_hardtanh(td_ctx *cx, double least, double most); /* -1, 1 */
TD_API td_module *td_nn_hardshrink(td_ctx *cx, double lambd);            /* 0.5 */
TD_API td_module *td_nn_softshrink(td_ctx *cx, double lambd);            /* 0.5 */
/* An element is kept above the threshold, else it is `value`. */
TD_API td_module *td_nn_threshold(td_ctx *cx, double threshold, double value);
TD_API td_module *td_nn_rrelu(td_ctx *cx, double lower, double upper); /* 1/8, 1/3 */
TD_API td_module *td_nn_softmin(td_ctx *cx, int64_t dim);
TD_API td_module *td_nn_softmax2d(td_ctx *cx); /* over channels */
TD_API td_module *td_nn_pixel_shuffle(td_ctx *cx, int64_t factor);
TD_API td_module *td_nn_pixel_unshuffle(td_ctx *cx, int64_t factor);
TD_API td_module *td_nn_softmax(td_ctx *cx, int64_t dim);
TD_API td_module *td_nn_log_softmax(td_ctx *cx, int64_t dim);
/* A C function as a module. */
TD_API td_module *td_nn_function(td_ctx *cx, td_tensor *(*fn)(td_tensor *x));

/* ---- initial values --------------------------------------------------------- */

/* Each writes t under no_grad and returns it; nil after a failure. Fan in (out) of a
 * weight [out,in,...] is in (out) times the number of elements of the remaining dims.
 */
TD_API td_tensor *td_init_zeros(td_tensor *t);
TD_API td_tensor *td_init_ones(td_tensor *t);
TD_API td_tensor *td_init_constant(td_tensor *t, double value);
TD_API td_tensor *td_init_uniform(td_tensor *t, double from, double to);
TD_API td_tensor *td_init_normal(td_tensor *t, double mean, double std);
/* Normal numbers, restricted to mean +- 2 std. */
TD_API td_tensor *td_init_trunc_normal(td_tensor *t, double mean, double std);
TD_API td_tensor *td_init_xavier_uniform(td_tensor *t, double gain);
TD_API td_tensor *td_init_xavier_normal(td_tensor *t, double gain);
typedef enum td_fan { TD_FAN_IN, TD_FAN_OUT } td_fan;
/* gain: of the nonlinearity that follows, td_init_gain("relu", 0). */
TD_API td_tensor *td_init_kaiming_uniform(td_tensor *t, double gain, td_fan fan);
TD_API td_tensor *td_init_kaiming_normal(td_tensor *t, double gain, td_fan fan);
/* Orthogonal rows, or columns if there are fewer, of length gain. */
TD_API td_tensor *td_init_orthogonal(td_tensor *t, double gain);
/* "linear", "sigmoid", "tanh", "relu", "leaky_relu" (a its slope), "selu". NaN for
 * others. */
TD_API double     td_init_gain(const char *what, double a);

#ifdef __cplusplus
} /* extern "C" */

template <std::size_t N>
constexpr td__list<td_modules, td_module *, (int)N> td__modules(
    td_module *const (&&v)[N]) {
    return td__list_of<td_modules, td_module *>(v);
}
constexpr td__list<td_modules, td_module *, 0> td__modules(td__no_entries) {
    return {{nullptr}};
}
#define TD_MODULES(...) td__modules({__VA_ARGS__})
#endif

#endif
