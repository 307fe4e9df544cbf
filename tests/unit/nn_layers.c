/* nn_layers.c -- layers: first values, modes, wrong options, ownership, copies. */
#include "nn_help.h"

#include "core/core.h"

static bool says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

static double most(td_tensor *t) { return td_item(td_amax(td_abs(t), TD_ALL)); }

static int living(const td_ctx *cx) {
    int n = 0;
    for (const td_tensor *t = cx->all; t; t = t->next) n++;
    return n;
}

/* ---- first values ------------------------------------------------------- */

/* Of 10,000 draws the largest is within 1 % of the bound, and the variance a third of
 * its square. */
static void check_uniform(td_tensor *t, double bound) {
    double largest = most(t), var = td_item(td_mean(td_square(t)));
    CHECK(largest <= bound && largest > 0.99 * bound);
    CHECK_NEAR(var, bound * bound / 3, 0.04 * bound * bound / 3);
}

TEST(layers_begin_with_pytorchs_bounds) {
    td_ctx *cx = td_open();
    td_seed(cx, 3);
    td_nn_conv_opts grouped = {TD_NN_CONV_OPTS, .groups = 4};
    td_module      *l = td_nn_linear(cx, 100, 200, NULL);
    td_module      *c = td_nn_conv2d(cx, 16, 128, TD_DIMS(5, 5), &grouped);
    td_module      *a = td_nn_multihead_attention(cx, 64, 4, NULL);
    td_module      *r = td_nn_lstm(cx, 64, 49, NULL);
    td_module      *e = td_nn_embedding(cx, 100, 100, NULL);

    check_uniform(td_module_get(l, "weight"), 0.1);
    CHECK(most(td_module_get(l, "bias")) <= 0.1);
    check_uniform(td_module_get(c, "weight"), 0.1);
    check_uniform(td_module_get(a, "in_proj_weight"), sqrt(6.0 / 256));
    CHECK(most(td_module_get(a, "in_proj_bias")) == 0);
    CHECK(most(td_module_get(a, "out_proj.weight")) <= 0.125);
    CHECK(most(td_module_get(a, "out_proj.bias")) == 0);
    check_uniform(td_module_get(r, "weight_ih_l0"), 1.0 / 7);
    CHECK_NEAR(td_item(td_std(td_module_get(e, "weight"))), 1, 0.03);
    CHECK_OK(cx);
    td_module *all[] = {l, c, a, r, e};
    for (int i = 0; i < 5; i++) td_module_free(all[i]);
    td_close(cx);
}

TEST(first_values_have_the_spread_they_are_asked_for) {
    td_ctx    *cx = td_open();
    td_tensor *t = td_requires_grad_(td_empty(cx, TD_SHAPE(100, 25, 4)));
    td_seed(cx, 1);

    check_uniform(td_init_xavier_uniform(t, 2), 2 * sqrt(6.0 / 500));
    td_init_xavier_normal(t, 1);
    CHECK_NEAR(td_item(td_std(t)), sqrt(2.0 / 500), 2e-3);
    check_uniform(td_init_kaiming_uniform(t, td_init_gain("relu", 0), TD_FAN_IN),
                  sqrt(6.0 / 100));
    td_init_kaiming_normal(t, td_init_gain("leaky_relu", 1), TD_FAN_OUT);
    CHECK_NEAR(td_item(td_std(t)), 0.05, 2e-3);
    td_init_trunc_normal(t, 1, 0.5);
    CHECK(most(td_sub(t, 1.0)) <= 1.0 && most(td_sub(t, 1.0)) > 0.98);
    CHECK_NEAR(td_item(td_std(t)), 0.88 * 0.5, 5e-3); /* of what is left */
    CHECK(td_item(td_sum(td_init_constant(t, 0.25))) == 2500);
    CHECK(most(td_init_zeros(t)) == 0 && most(td_init_ones(t)) == 1);
    CHECK(td_is_leaf(t) && td_requires_grad(t) && isnan(td_init_gain("none", 0)));
    CHECK(td_is_nil(td_init_xavier_normal(td_ones(cx, TD_SHAPE(3)), 1)));
    CHECK(says(cx, TD_E_SHAPE, "td_init_xavier_normal: tensor is f32[3]; fan in"));
    td_close(cx);
}

TEST(orthogonal_rows_or_columns) {
    td_ctx    *cx = td_open();
    td_tensor *wide = td_init_orthogonal(td_empty(cx, TD_SHAPE(5, 3, 4)), 2);
    td_tensor *tall = td_init_orthogonal(td_empty(cx, TD_SHAPE(9, 4)), 1);

    td_tensor *w = td_flatten(wide, 1);
    CHECK(most(td_sub(td_matmul(w, td_t(w)), td_mul(td_eye(cx, 5), 4.0))) < 1e-5);
    CHECK(most(td_sub(td_matmul(td_t(tall), tall), td_eye(cx, 4))) < 1e-5);
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- modes -------------------------------------------------------------- */

TEST(dropout_and_batch_norm_change_with_the_mode) {
    td_ctx    *cx = td_open();
    td_module *m = td_nn_sequential(cx, TD_MODULES(td_nn_batch_norm1d(cx, 3, NULL),
                                                   td_nn_dropout(cx, 0.5)));
    td_tensor *x = td_randn(cx, TD_SHAPE(64, 3));

    td_tensor *y = td_module_call(m, TD_ARGS(x));
    CHECK(td_item(td_sum(td_eq(y, 0))) > 40);
    CHECK(td_item_int(td_module_get(m, "0.num_batches_tracked")) == 1);
    td_module_train(m, false);
    y = td_module_call(m, TD_ARGS(x));
    CHECK(td_item(td_sum(td_eq(y, 0))) == 0);
    CHECK(td_item_int(td_module_get(m, "0.num_batches_tracked")) == 1);
    CHECK_OK(cx);
    td_module_free(m);
    td_close(cx);
}

TEST(batch_norm_without_statistics_uses_those_of_the_batch_always) {
    td_ctx    *cx = td_open();
    td_module *m = bn_bare(cx);
    td_tensor *x = td_randn(cx, TD_SHAPE(8, 3)), *y = td_module_call(m, TD_ARGS(x));

    td_module_train(m, false);
    CHECK(nn_apart(td_module_call(m, TD_ARGS(x)), y) == 0);
    CHECK_OK(cx);
    td_module_free(m);
    td_close(cx);
}

static td_tensor *twice(td_tensor *x) { return td_mul(x, 2.0); }

TEST(layers_without_parameters_do_what_their_op_does) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_reshape(td_tensor1(cx, -8, -1, 0.5, 9), TD_SHAPE(1, 1, 2, 2));
    struct {
        td_module *m;
        td_tensor *want;
    } row[] = {{td_nn_relu(cx), td_relu(x)},
               {td_nn_relu6(cx), td_relu6(x)},
               {td_nn_leaky_relu(cx, 0.1), td_leaky_relu(x, 0.1)},
               {td_nn_elu(cx, 0.5), td_elu(x, 0.5)},
               {td_nn_gelu(cx), td_gelu(x)},
               {td_nn_gelu_tanh(cx), td_gelu(x, "tanh")},
               {td_nn_silu(cx), td_silu(x)},
               {td_nn_mish(cx), td_mish(x)},
               {td_nn_tanh(cx), td_tanh(x)},
               {td_nn_sigmoid(cx), td_sigmoid(x)},
               {td_nn_softplus(cx), td_softplus(x)},
               {td_nn_hardswish(cx), td_hardswish(x)},
               {td_nn_selu(cx), td_selu(x)},
               {td_nn_celu(cx, 0.5), td_celu(x, 0.5)},
               {td_nn_log_sigmoid(cx), td_log_sigmoid(x)},
               {td_nn_softsign(cx), td_softsign(x)},
               {td_nn_tanhshrink(cx), td_tanhshrink(x)},
               {td_nn_hardsigmoid(cx), td_hardsigmoid(x)},
               {td_nn_hardtanh(cx, -1, 2), td_hardtanh(x, -1, 2)},
               {td_nn_hardshrink(cx, 0.6), td_hardshrink(x, 0.6)},
               {td_nn_softshrink(cx, 0.6), td_softshrink(x, 0.6)},
               {td_nn_threshold(cx, 0.6, 3), td_threshold(x, 0.6, 3)},
               {td_nn_softmin(cx, -1), td_softmax(td_neg(x), -1)},
               {td_nn_pixel_unshuffle(cx, 2), td_pixel_unshuffle(x, 2)},
               {td_nn_softmax(cx, -1), td_softmax(x, -1)},
               {td_nn_log_softmax(cx, 2), td_log_softmax(x, 2)},
               {td_nn_identity(cx), x},
               {td_nn_flatten(cx, 1, -1), td_flatten(x, 1)},
               {td_nn_function(cx, twice), td_mul(x, 2.0)},
               {td_nn_max_pool2d(cx, TD_DIMS(2), TD_ALL, TD_ALL),
                td_max_pool2d(x, TD_DIMS(2))},
               {td_nn_avg_pool2d(cx, TD_DIMS(2, 1), TD_DIMS(1), TD_ALL),
                td_avg_pool2d(x, TD_DIMS(2, 1), TD_DIMS(1))},
               {td_nn_adaptive_avg_pool2d(cx, TD_DIMS(1)),
                td_adaptive_avg_pool2d(x, TD_DIMS(1, 1))}};

    td_module *back = td_nn_pixel_shuffle(cx, 2);
    CHECK(nn_apart(td_module_call(back, TD_ARGS(td_pixel_unshuffle(x, 2))), x) == 0);
    td_module_free(back);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        td_tensor *y = td_module_call(row[i].m, TD_ARGS(x));
        CHECK_OK(cx);
        CHECK(td_rank(y) == td_rank(row[i].want) && nn_apart(y, row[i].want) == 0);
        td_module_free(row[i].m);
    }
    td_close(cx);
}

/* PyTorch's gradient of CTC holds for log-softmax of something only
 * (docs/differences.md), so this one is no row of tests/nn. */
TEST(a_ctc_layer_is_the_op_with_its_options) {
    td_ctx         *cx = td_open();
    td_nn_loss_opts o = {TD_NN_LOSS_OPTS, .blank = 1, .zero_infinity = true,
                         .reduction = "sum"};
    td_module      *m = td_nn_ctc_loss(cx, &o);
    td_tensor      *p = td_log_softmax(td_randn(cx, TD_SHAPE(6, 2, 4)), 2);
    td_tensor      *t =
        td_reshape(td_to(td_tensor1(cx, 0, 2, 3, 2, 2, 0), TD_I64), TD_SHAPE(2, 3));
    td_tensor *in = td_to(td_tensor1(cx, 6, 5), TD_I64);
    td_tensor *n = td_to(td_tensor1(cx, 3, 2), TD_I64);
    td_tensor *y = td_module_call(m, TD_ARGS(p, t, in, n));
    CHECK(nn_apart(y, td_ctc_loss(p, t, in, n, 1, "sum", true)) == 0);
    CHECK_OK(cx);
    td_module_free(m);
    td_close(cx);
}

TEST(random_layers_draw_in_training_only) {
    td_ctx               *cx = td_open();
    td_nn_fractional_opts f = {TD_NN_FRACTIONAL_OPTS, .output_size = TD_DIMS(4)};
    td_tensor            *x = td_randn(cx, TD_SHAPE(2, 8, 9, 9));
    td_module            *row[] = {td_nn_dropout1d(cx, 0.5),
                                   td_nn_dropout2d(cx, 0.5),
                                   td_nn_dropout3d(cx, 0.5),
                                   td_nn_alpha_dropout(cx, 0.5),
                                   td_nn_feature_alpha_dropout(cx, 0.5),
                                   td_nn_rrelu(cx, 0.1, 0.3)};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        td_tensor *in = i == 0 ? td_select(x, 0, 0) : i == 2 ? td_unsqueeze(x, 0) : x;
        CHECK(nn_apart(td_module_call(row[i], TD_ARGS(in)), in) > 0.1);
        td_module_train(row[i], false);
        td_tensor *want = i == 5 ? td_leaky_relu(in, 0.2) : in;
        CHECK(nn_apart(td_module_call(row[i], TD_ARGS(in)), want) < 1e-6);
        td_module_free(row[i]);
    }
    td_module *m = td_nn_fractional_max_pool2d(cx, TD_SHAPE(2), &f);
    td_tensor *y = td_module_call(m, TD_ARGS(x)), *z = td_module_call(m, TD_ARGS(x));
    CHECK(td_size(y, 2) == 4 && td_size(y, 3) == 4 && nn_apart(y, z) > 0);
    CHECK_OK(cx);
    td_module_free(m);
    td_close(cx);
}

TEST(pads_of_all_kinds_and_dims_are_those_of_the_op) {
    typedef td_module *pad_fn(td_ctx * cx, td_ints by);
    static const struct {
        const char *mode;
        pad_fn     *make[3];
    } row[] = {
        {"constant", {td_nn_zero_pad1d, td_nn_zero_pad2d, td_nn_zero_pad3d}},
        {"reflect",
         {td_nn_reflection_pad1d, td_nn_reflection_pad2d, td_nn_reflection_pad3d}},
        {"replicate",
         {td_nn_replication_pad1d, td_nn_replication_pad2d, td_nn_replication_pad3d}},
        {"circular",
         {td_nn_circular_pad1d, td_nn_circular_pad2d, td_nn_circular_pad3d}}};
    td_ctx       *cx = td_open();
    const int64_t by[6] = {1, 2, 0, 1, 2, 1};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int d = 1; d <= 3; d++) {
            int64_t    size[5] = {2, 3, 4, 5, 3};
            td_tensor *x = td_randn(cx, ((td_ints){size, d + 2}));
            td_module *m = row[i].make[d - 1](cx, (td_ints){by, 2 * d});
            td_tensor *want = td_pad(x, ((td_ints){by, 2 * d}), row[i].mode);
            CHECK(nn_apart(td_module_call(m, TD_ARGS(x)), want) == 0);
            td_module_free(m);
        }
    td_module *m = td_nn_constant_pad3d(cx, TD_SHAPE(1), 2);
    td_tensor *y = td_module_call(m, TD_ARGS(td_zeros(cx, TD_SHAPE(1, 1, 1, 1))));
    CHECK(td_numel(y) == 27 && td_item(td_sum(y)) == 52);
    td_module_free(m);
    m = td_nn_constant_pad2d(cx, TD_SHAPE(1), 2);
    y = td_module_call(m, TD_ARGS(td_zeros(cx, TD_SHAPE(1, 1, 1))));
    CHECK(td_numel(y) == 9 && td_item(td_sum(y)) == 16);
    CHECK_OK(cx);
    td_module_free(m);
    td_close(cx);
}

TEST(adaptive_softmax_has_all_log_probabilities) {
    td_ctx    *cx = td_open();
    td_module *m =
        td_nn_adaptive_log_softmax_with_loss(cx, 16, 10, TD_SHAPE(2, 5), NULL);
    td_tensor *x = td_randn(cx, TD_SHAPE(4, 16)), *p = td_nn_adaptive_log_prob(m, x);
    td_tensor *t = td_to(td_tensor1(cx, 0, 9, 3, 5), TD_I64);
    CHECK(td_size(p, 1) == 10);
    CHECK(nn_apart(td_sum(td_exp(p), TD_SHAPE(1)), td_ones(cx, TD_SHAPE(4))) < 1e-5);
    td_tensor *y = td_module_call(m, TD_ARGS(x, t));
    CHECK(nn_apart(y, td_squeeze_dim(td_gather(p, 1, td_unsqueeze(t, 1)), 1)) < 1e-6);
    CHECK(nn_apart(td_nn_adaptive_predict(m, x), td_argmax(p, 1)) == 0);
    CHECK_OK(cx);
    td_tensor *far = td_to(td_tensor1(cx, 0, 1, 10, 2), TD_I64);
    CHECK(td_is_nil(td_module_call(m, TD_ARGS(x, far))) && td_error(cx) == TD_E_INDEX);
    td_clear(cx);
    CHECK(td_is_nil(td_module_call(m, TD_ARGS(t, t))) &&
          says(cx, TD_E_SHAPE, "AdaptiveLogSoftmaxWithLoss: the input is i64[4]"));
    td_module_free(m);
    CHECK(td_is_nil(
        td_nn_adaptive_log_softmax_with_loss(cx, 16, 10, TD_SHAPE(5, 5), NULL)));
    CHECK(says(cx, TD_E_ARG, "cutoff 1 is 5; cutoffs must ascend"));
    td_close(cx);
}

TEST(dicts_and_lists_of_parameters_hold_names) {
    td_ctx    *cx = td_open();
    td_module *m = td_nn_dict(cx);
    td_nn_add(m, "up", td_nn_linear(cx, 2, 3, NULL));
    td_nn_add(m, "scales",
              td_nn_parameters(cx, TD_LIST(td_ones(cx, TD_SHAPE(2)),
                                           td_zeros(cx, TD_SHAPE(3)))));
    CHECK(td_size(td_module_get(m, "scales.1"), 0) == 3);
    CHECK(td_module_parameters(m, NULL, 0) == 4);
    CHECK_OK(cx);
    td_module_free(m);
    td_close(cx);
}

/* ---- mistakes ----------------------------------------------------------- */

TEST(wrong_options_are_refused_with_the_layers_name) {
    td_ctx              *cx = td_open();
    td_nn_conv_opts      uneven = {TD_NN_CONV_OPTS, .groups = 2};
    td_nn_conv_opts      lists = {TD_NN_CONV_OPTS, .stride = TD_DIMS(1, 1, 1)};
    td_nn_embedding_opts far = {TD_NN_EMBEDDING_OPTS, .padded = true, .padding_idx = 5};
    td_nn_norm_opts      norm = {TD_NN_NORM_OPTS, .eps = -1};
    td_nn_rnn_opts       deep = {TD_NN_RNN_OPTS, .layers = 99};

    CHECK(td_is_nil(td_nn_linear(cx, 0, 3, NULL)));
    CHECK(says(cx, TD_E_ARG, "Linear: in is 0; it must be at least 1"));
    CHECK(td_is_nil(td_nn_conv2d(cx, 4, 3, TD_DIMS(3), &uneven)));
    CHECK(says(cx, TD_E_ARG,
               "Conv2d: in is 4 and out 3; both must be divisible by groups, 2"));
    CHECK(td_is_nil(td_nn_conv1d(cx, 4, 3, 0, NULL)));
    CHECK(says(cx, TD_E_ARG, "Conv1d: kernel is 0; it must be at least 1"));
    CHECK(td_is_nil(td_nn_conv2d(cx, 4, 3, TD_DIMS(3), &lists)));
    CHECK(says(cx, TD_E_ARG, "Conv2d: stride has 3 entries; it must have 1 or 2"));
    CHECK(td_is_nil(td_nn_embedding(cx, 5, 2, &far)));
    CHECK(says(cx, TD_E_INDEX, "Embedding: padding_idx is 5; it must be a row"));
    CHECK(td_is_nil(td_nn_layer_norm(cx, TD_SHAPE(3), &norm)));
    CHECK(says(cx, TD_E_ARG, "LayerNorm: eps is -1"));
    CHECK(td_is_nil(td_nn_group_norm(cx, 3, 4, NULL)));
    CHECK(says(cx, TD_E_ARG, "GroupNorm: channels is 4, not divisible by groups, 3"));
    CHECK(td_is_nil(td_nn_multihead_attention(cx, 6, 4, NULL)));
    CHECK(says(cx, TD_E_ARG, "dim is 6, not divisible by 4 heads"));
    CHECK(td_is_nil(td_nn_dropout(cx, NAN)) && says(cx, TD_E_ARG, "Dropout: p is nan"));
    CHECK(td_is_nil(td_nn_gru(cx, 1, 1, &deep)) &&
          says(cx, TD_E_ARG, "GRU: layers is 99"));
    CHECK(td_is_nil(td_nn_max_pool2d(cx, TD_DIMS(1, 2, 3), TD_ALL, TD_ALL)));
    CHECK(says(cx, TD_E_ARG, "MaxPool2d: kernel has 3 entries; it must have 1 or 2"));
    td_nn_pool_opts       wide = {TD_NN_POOL_OPTS, .padding = TD_DIMS(1, 2, 3)};
    td_nn_upsample_opts   both = {TD_NN_UPSAMPLE_OPTS, .output_size = TD_DIMS(3),
                                  .scale_factor = 2};
    td_nn_upsample_opts   mode = {TD_NN_UPSAMPLE_OPTS, .scale_factor = 2,
                                  .mode = "cubic"};
    td_nn_fractional_opts ratio = {TD_NN_FRACTIONAL_OPTS, .output_ratio = {1.5}};
    td_nn_rnn_opts        proj = {TD_NN_RNN_OPTS, .proj_size = 4};
    td_nn_embedding_opts  bag = {TD_NN_EMBEDDING_OPTS, .mode = "min"};
    td_nn_loss_opts       reduce = {TD_NN_LOSS_OPTS, .reduction = "all"};
    td_nn_loss_opts       batch = {TD_NN_LOSS_OPTS, .reduction = "batchmean"};
    CHECK(td_is_nil(td_nn_unfold(cx, TD_SHAPE(2), &wide)));
    CHECK(says(cx, TD_E_ARG, "Unfold: padding has 3 entries; it must have 1 or 2"));
    CHECK(td_is_nil(td_nn_upsample(cx, &both)));
    CHECK(says(cx, TD_E_ARG, "Upsample: pass either a size of 1 to 3 numbers, or a"));
    CHECK(td_is_nil(td_nn_upsample(cx, &mode)));
    CHECK(says(cx, TD_E_ARG, "Upsample: mode is \"cubic\"; it must be nearest"));
    CHECK(td_is_nil(td_nn_zero_pad2d(cx, TD_SHAPE(1, 2))));
    CHECK(says(cx, TD_E_ARG, "ZeroPad2d: padding has 2 entries; it must have 1 or 4"));
    CHECK(td_is_nil(td_nn_fractional_max_pool3d(cx, TD_SHAPE(2), &ratio)));
    CHECK(says(cx, TD_E_ARG, "FractionalMaxPool3d: output_ratio is 1.5; it must be"));
    CHECK(td_is_nil(td_nn_fractional_max_pool2d(cx, TD_SHAPE(2), NULL)));
    CHECK(says(cx, TD_E_ARG, "pass either output_size or output_ratio; neither is"));
    CHECK(td_is_nil(td_nn_lstm(cx, 3, 4, &proj)));
    CHECK(says(cx, TD_E_ARG, "LSTM: proj_size is 4; it must be 0 to 3, less than"));
    proj.proj_size = 2;
    CHECK(td_is_nil(td_nn_gru(cx, 3, 4, &proj)));
    CHECK(says(cx, TD_E_ARG, "GRU: proj_size is for LSTM layers only"));
    CHECK(td_is_nil(td_nn_embedding_bag(cx, 3, 4, &bag)));
    CHECK(says(cx, TD_E_ARG, "EmbeddingBag: mode is \"min\"; it must be mean, sum"));
    CHECK(td_is_nil(td_nn_mse_loss(cx, &reduce)));
    CHECK(says(cx, TD_E_ARG, "MSELoss: reduction is \"all\"; it must be mean, sum or"));
    CHECK(td_is_nil(td_nn_nll_loss(cx, &batch)));
    CHECK(says(cx, TD_E_ARG, "NLLLoss: reduction is \"batchmean\"; it must be mean"));
    CHECK(td_is_nil(td_nn_channel_shuffle(cx, 0)));
    CHECK(says(cx, TD_E_ARG, "ChannelShuffle: groups is 0; it must be at least 1"));
    CHECK(living(cx) == 0);
    td_close(cx);
}

TEST(wrong_arguments_are_refused_with_the_layers_name) {
    td_ctx    *cx = td_open();
    td_module *m = whole_make(cx);
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3, 3)), *h = td_ones(cx, TD_SHAPE(1, 1, 4));
    CHECK_OK(cx);

    CHECK(td_is_nil(td_module_call(td_module_find(m, "bn2"), TD_ARGS(x))));
    CHECK(says(cx, TD_E_SHAPE,
               "BatchNorm2d: the input must be [N,C,H,W]; it is f32[2,3,3]"));
    CHECK(td_is_nil(td_module_call(td_module_find(m, "self"), TD_ARGS(x))));
    CHECK(says(cx, TD_E_SHAPE, "MultiheadAttention: argument 0 is f32[2,3,3]"));
    CHECK(td_is_nil(td_module_call(td_module_find(m, "lstm_state"), TD_ARGS(x, h))));
    CHECK(says(cx, TD_E_SHAPE,
               "LSTM: an initial state is f32[1,1,4]; it must be f32[1,2,4]"));
    CHECK(td_is_nil(td_module_call(td_module_find(m, "gru"), TD_ARGS(h))));
    CHECK(says(cx, TD_E_SHAPE, "GRU: the input is f32[1,1,4]"));
    CHECK(td_is_nil(td_module_call(td_module_find(m, "net"), TD_ARGS(x))));
    CHECK(td_error(cx) != TD_OK && cx->scopes.n == 0);
    td_clear(cx);
    td_module_free(m);
    td_close(cx);
}

/* ---- ownership ---------------------------------------------------------- */

TEST(what_nests_a_failed_constructor_frees_everything) {
    td_ctx *cx = td_open();

    td_module *m = td_nn_sequential(cx, TD_MODULES(td_nn_linear(cx, 2, 3, NULL),
                                                   td_nn_linear(cx, -1, 2, NULL),
                                                   td_nn_linear(cx, 2, 3, NULL)));
    CHECK(td_is_nil(m) && says(cx, TD_E_ARG, "Linear: in is -1"));
    td_module *shared = td_nn_linear(cx, 2, 2, NULL);
    CHECK(td_is_nil(td_nn_sequential(cx, TD_MODULES(shared, NULL, shared))));
    CHECK(says(cx, TD_E_ARG, "Sequential: module 1 is NULL"));
    shared = td_nn_linear(cx, 2, 2, NULL);
    CHECK(td_is_nil(td_nn_sequential(cx, TD_MODULES(NULL, shared, shared))));
    CHECK(says(cx, TD_E_ARG, "Sequential: module 0 is NULL"));
    CHECK(td_is_nil(td_nn_add(NULL, "x", td_nn_relu(cx))));
    CHECK(says(cx, TD_E_ARG, "td_nn_add: the module is NULL"));
    m = td_nn_list(cx, TD_MODULES(td_nn_linear(cx, 2, 2, NULL)));
    CHECK(td_is_nil(td_nn_add(m, "0", td_nn_relu(cx))) &&
          says(cx, TD_E_ARG, "name is in use"));
    CHECK(td_is_nil(td_nn_append(m, m)) &&
          says(cx, TD_E_ARG, "contains the module itself"));
    CHECK(td_nn_append(m, td_nn_relu(cx)) && td_module_children(m) == 2);
    td_module_free(m);
    CHECK(living(cx) == 0);
    td_close(cx);
}

TEST(a_module_listed_twice_is_one) {
    td_ctx    *cx = td_open();
    td_module *l = td_nn_linear(cx, 2, 2, NULL);
    td_module *m = td_nn_sequential(cx, TD_MODULES(l, td_nn_relu(cx), l));
    td_tensor *x = td_ones(cx, TD_SHAPE(1, 2));

    CHECK(td_module_parameters(m, NULL, 0) == 2);
    td_tensor *y = td_module_call(m, TD_ARGS(x));
    td_tensor *h = td_relu(td_module_call(l, TD_ARGS(x)));
    CHECK(nn_apart(y, td_module_call(l, TD_ARGS(h))) == 0);
    CHECK_OK(cx);
    td_module_free(m);
    td_close(cx);
}

TEST(a_copy_computes_the_same_with_tensors_of_its_own) {
    td_ctx    *cx = td_open();
    td_module *m = whole_make(cx), *copy = td_module_copy(m);
    td_tensor *x = td_randn(cx, TD_SHAPE(5, 2, 3));
    CHECK_OK(cx);
    td_module *a = td_module_find(m, "lstm"), *b = td_module_find(copy, "lstm");

    td_tensor *y = td_module_call(a, TD_ARGS(x));
    CHECK(nn_apart(td_module_call(b, TD_ARGS(x)), y) == 0);
    td_init_zeros(td_module_get(a, "weight_ih_l0"));
    CHECK(nn_apart(td_module_call(b, TD_ARGS(x)), y) == 0);
    CHECK(nn_apart(td_module_call(a, TD_ARGS(x)), y) > 0);
    td_module_free(m);
    CHECK(nn_apart(td_module_call(b, TD_ARGS(x)), y) == 0);
    td_module_free(copy);
    td_close(cx);
}

TEST(constructors_leave_the_grad_mode_and_scopes_as_they_were) {
    td_ctx    *cx = td_open();
    td_module *m = whole_make(cx);

    CHECK(td_grad_enabled(cx) && cx->scopes.n == 0);
    CHECK(living(cx) ==
          td_module_parameters(m, NULL, 0) + td_module_buffers(m, NULL, 0));
    td_module_free(m);
    CHECK(living(cx) == 0);
    td_close(cx);
}

/* ---- sizes that change -------------------------------------------------- */

/* Sizes of x with n where `dim` is. */
static td_tensor *sized(td_ctx *cx, const int64_t *sizes, int rank, int dim,
                        int64_t n) {
    int64_t s[4];
    memcpy(s, sizes, sizeof *s * (size_t)rank);
    s[dim] = n;
    td_ints all = {s, rank};
    return td_randn(cx, all);
}

TEST(a_compiled_layer_serves_batches_of_any_size) {
    static const struct {
        const char *name;
        int64_t     sizes[4];
        int         rank, dim;
    } row[] = {{"linear", {0, 3}, 2, 0},         {"conv2", {0, 3, 5, 4}, 4, 0},
               {"ln", {0, 2, 3}, 3, 0},          {"gn", {0, 4, 3}, 3, 0},
               {"self", {4, 0, 6}, 3, 1},        {"causal_pads", {0, 4, 6}, 3, 0},
               {"causal_pads", {2, 0, 6}, 3, 1}, {"lstm", {3, 0, 3}, 3, 1},
               {"gru_cell", {0, 3}, 2, 0},       {"net", {0, 3}, 2, 0}};
    td_ctx    *cx = td_open();
    td_module *m = whole_make(cx);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        td_module *layer = td_module_find(m, row[i].name);
        td_fn     *f = td_aot_module(layer, NULL);
        for (int n = 3; n < 8; n++) {
            td_tensor *y, *x = sized(cx, row[i].sizes, row[i].rank, row[i].dim, n);
            td_invoke(f, TD_ARGS(x), &y, 1);
            CHECK_OK(cx);
            CHECK(nn_apart(y, td_module_call(layer, TD_ARGS(x))) < 2e-6);
        }
        if (td_fn_specializations(f) > 2) fprintf(stderr, "%s\n", row[i].name);
        CHECK(td_fn_specializations(f) <= 2);
        td_fn_drop(f);
    }
    td_module_free(m);
    td_close(cx);
}
