/* ops.c -- allocation failures in ops of every family, forward and backward. */
#include "faults.h"

static double total(td_tensor *t) { return td_item(td_sum(td_to(t, TD_F64))); }

/* The sum of y, and of the gradients of y at the leaves. */
static double both(td_tensor *y, td_tensor *a, td_tensor *b) {
    td_backward(td_sum(y));
    double sum = total(y) + total(td_grad_of(a));
    return b ? sum + total(td_grad_of(b)) : sum;
}

static td_tensor *leaf(td_ctx *cx, td_ints size) {
    return td_set_requires_grad(td_randn(cx, size), true);
}

static td_tensor *indices(td_ctx *cx, int64_t n) {
    return td_remainder(td_arange(cx, 0, n), 3);
}

static double pointwise(td_ctx *cx) {
    td_tensor *a = leaf(cx, TD_SHAPE(3, 4)), *b = leaf(cx, TD_SHAPE(4));
    td_tensor *y = td_where(td_gt(a, 0), td_mul(td_exp(a), b), td_pow(td_abs(b), 1.5));
    return both(td_clamp(td_add(td_t(y), 1), td_value_int(0), td_value_int(3)), a, b);
}

static double converting(td_ctx *cx) {
    td_tensor *a = leaf(cx, TD_SHAPE(3, 4)), *h = td_to(a, TD_F16);
    td_tensor *y = td_mul(td_to(td_t(h), TD_F64), td_to(td_arange(cx, 0, 3), TD_I8));
    return both(y, a, NULL);
}

static double reductions(td_ctx *cx) {
    td_tensor *a = leaf(cx, TD_SHAPE(3, 4, 5)), *ix = NULL;
    td_tensor *y = td_add(td_sum(a, TD_DIMS(0, 2)), td_var(a, TD_DIMS(0, 2)));
    y = td_add(y, td_logsumexp(a, TD_DIMS(0, 2)));
    y = td_add(y, td_amax(td_prod_dim(a, 2), TD_DIMS(0)));
    td_tensor *m = td_max_dim(a, 1, false, &ix);
    return both(td_add(td_sum(y), td_sum(td_mul(m, ix))), a, NULL);
}

static double scans(td_ctx *cx) {
    td_tensor *a = leaf(cx, TD_SHAPE(4, 6)), *ix = NULL;
    td_tensor *y = td_add(td_cumsum(a, 1), td_cumprod(a, 0));
    td_tensor *s = td_sort(td_softmax(y, 1), 1, true, true, &ix);
    td_tensor *k = td_topk(td_log_softmax(a, 0), 2, 0, true, true, NULL);
    return both(td_add(td_sum(td_mul(s, ix)), td_sum(k)), a, NULL);
}

static double products(td_ctx *cx) {
    td_tensor *a = leaf(cx, TD_SHAPE(2, 3, 4)), *b = leaf(cx, TD_SHAPE(4, 5));
    td_tensor *y = td_matmul(a, b);
    y = td_add(y, td_einsum("bij,jk->bik", TD_LIST(a, b)));
    y = td_add(y, td_baddbmm(y, td_matmul(a, td_transpose(a, 1, 2)), y));
    td_tensor *z = td_linear(a, td_t(b), td_ones(cx, TD_SHAPE(5)));
    return both(td_add(td_sum(y), td_dot(td_flatten(z), td_flatten(z))), a, b);
}

static double large_products(td_ctx *cx) {
    td_tensor *a = leaf(cx, TD_SHAPE(70, 80)), *h = td_to(a, TD_BF16);
    td_tensor *i = td_to(td_mul(td_detach(a), 10), TD_I32);
    td_tensor *y = td_add(td_mm(a, td_t(a)), td_to(td_mm(h, td_t(h)), TD_F32));
    return both(td_add(y, td_mm(i, td_t(i))), a, NULL);
}

static double transforms(td_ctx *cx) {
    td_tensor *a = leaf(cx, TD_SHAPE(3, 9)), *b = leaf(cx, TD_SHAPE(2, 1021));
    td_tensor *y = td_add(td_sum(td_fft_irfft(td_fft_rfft(a), 12)),
                          td_sum(td_real(td_fft_fftn(a, TD_SHAPE(4, 600)))));
    return both(td_add(y, td_sum(td_abs(td_fft_fft(b)))), a, b);
}

static double views(td_ctx *cx) {
    td_tensor *a = leaf(cx, TD_SHAPE(4, 6)), *parts[4] = {NULL, NULL, NULL, NULL};
    td_split(a, 2, 1, parts, 4);
    td_tensor *y =
        td_cat(TD_LIST(parts[0], td_flip(parts[1], TD_DIMS(0)), parts[2]), 0);
    y = td_unfold(td_reshape(td_t(y), TD_SHAPE(6, 4)), 0, 2, 2);
    y = td_add(td_sum(y), td_sum(td_diagonal(td_pad(a, TD_DIMS(1, 1)), 0, 0, 1)));
    td_tensor *s =
        td_as_strided(td_roll(a, TD_DIMS(1), TD_DIMS(0)), TD_SHAPE(3), TD_DIMS(2));
    return both(td_add(y, td_sum(td_squeeze(td_movedim(s, TD_DIMS(0), TD_DIMS(0))))), a,
                NULL);
}

static double writes(td_ctx *cx) {
    td_tensor *a = leaf(cx, TD_SHAPE(4, 6)), *x = td_mul(a, 1);
    td_add_(td_select(td_t(x), 0, 1), 2);
    td_mul_(td_narrow(td_view(x, TD_SHAPE(2, 12)), 1, 3, 4), 3);
    td_cumsum_(x, 0);
    td_copy_(td_select(x, 0, 0), td_select(a, 0, 1));
    td_masked_fill_(x, td_gt(td_detach(x), 1), 1);
    td_unsqueeze_(td_squeeze_(td_transpose_(x, 0, 1)), 0);
    return both(td_sigmoid_(x), a, NULL);
}

static double indexing(td_ctx *cx) {
    td_tensor *a = leaf(cx, TD_SHAPE(3, 4)), *ix = indices(cx, 5);
    td_tensor *y =
        td_add(td_sum(td_index_select(a, 0, ix)), td_sum(td_index(a, TD_LIST(ix))));
    td_tensor *g = td_gather(a, 0, td_reshape(indices(cx, 8), TD_SHAPE(2, 4)));
    y = td_add(y, td_sum(td_masked_select(a, td_gt(td_detach(a), 0))));
    y = td_add(y, td_sum(td_embedding(a, ix)));
    td_tensor *z = td_index_add(td_zeros(cx, TD_SHAPE(3, 4)), 0, indices(cx, 2), g);
    z = td_index_put(z, TD_LIST(NULL, ix), td_ones(cx, TD_SHAPE(3, 5)), true);
    z = td_scatter_add(z, 1, td_reshape(ix, TD_SHAPE(1, 5)),
                       td_ones(cx, TD_SHAPE(1, 5)));
    return both(td_add(y, td_sum(z)), a, NULL) + total(td_nonzero(ix)) +
           total(td_one_hot(ix, 3));
}

static double networks(td_ctx *cx) {
    td_tensor *x = leaf(cx, TD_SHAPE(2, 4, 6, 6)), *w = leaf(cx, TD_SHAPE(4, 2, 3, 3));
    td_tensor *mean = td_zeros(cx, TD_SHAPE(4)), *var = td_ones(cx, TD_SHAPE(4));
    td_tensor *y = td_conv2d(x, w, mean, TD_DIMS(1), TD_DIMS(1), TD_DIMS(1), 2);
    y = td_batch_norm(y, NULL, NULL, mean, var, true);
    y = td_group_norm(td_max_pool2d(y, TD_DIMS(2)), 2);
    y = td_rms_norm(td_avg_pool2d(y, TD_DIMS(2)), TD_SHAPE(1));
    y = td_dropout(td_interpolate(y, TD_SHAPE(2, 2)), 0.5, true);
    return both(td_layer_norm(td_gelu(y), TD_SHAPE(2, 2)), x, w) + total(mean) +
           total(var);
}

static double strided_convolution(td_ctx *cx) {
    td_tensor *x = leaf(cx, TD_SHAPE(4, 9, 2)), *w = leaf(cx, TD_SHAPE(3, 4, 3));
    td_tensor *y = td_conv1d(td_permute(x, TD_DIMS(2, 0, 1)), td_flip(w, TD_DIMS(2)),
                             NULL, TD_DIMS(2), TD_DIMS(1));
    return both(y, x, w);
}

static double losses(td_ctx *cx) {
    td_tensor *x = leaf(cx, TD_SHAPE(6, 3)), *y = indices(cx, 6);
    td_tensor *w = td_ones(cx, TD_SHAPE(3)), *p = td_sigmoid(td_detach(x));
    td_tensor *l = td_cross_entropy(x, y, w, "mean", -100, 0.1);
    l = td_add(l, td_bce_with_logits(x, p));
    l = td_add(l, td_kl_div(td_log_softmax(x, 1), p, "batchmean"));
    return both(td_add(l, td_smooth_l1_loss(x, p)), x, NULL);
}

static double attention(td_ctx *cx) {
    td_tensor *q = leaf(cx, TD_SHAPE(2, 2, 3, 4)), *k = leaf(cx, TD_SHAPE(2, 2, 3, 4));
    td_tensor *m = td_tril(td_ones(cx, TD_SHAPE(3, 3), TD_BOOL), -1);
    td_tensor *y = td_scaled_dot_product_attention(q, k, k, m);
    return both(td_add(y, td_scaled_dot_product_attention(q, k, q, NULL, 0.2, true)), q,
                k);
}

static double random_numbers(td_ctx *cx) {
    td_tensor *a = td_rand(cx, TD_SHAPE(5, 7)), *b = td_randint(cx, 0, 9, TD_SHAPE(5));
    td_normal_(td_t(a), 1, 2);
    td_bernoulli_(td_select(a, 0, 1), 0.5);
    return total(a) + total(td_randperm(cx, 20)) + total(b) +
           total(td_multinomial(td_abs(a), 3, true));
}

static double second_order(td_ctx *cx) {
    td_tensor   *x = leaf(cx, TD_SHAPE(3, 3)), *g = NULL;
    td_grad_opts opts = {TD_GRAD_OPTS, .create_graph = true};
    td_tensor   *y = td_sum(td_tanh(td_matmul(x, td_exp(x))));
    td_grad((td_tensors){&y, 1}, (td_tensors){&x, 1}, &g, &opts);
    return both(td_square(g), x, NULL);
}

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env, (void)n_in, (void)n_out;
    out[0] = td_dropout(td_tanh(td_mul(in[0], in[0])), 0.3, true);
    return !td_is_nil(out[0]);
}

static td_tensor *double_it(void *env, td_tensor *grad) {
    (void)env;
    return td_mul(grad, 2);
}

static double hooks_and_checkpoints(td_ctx *cx) {
    td_tensor *x = leaf(cx, TD_SHAPE(6)), *y = td_nil(cx), *h = td_mul(x, 3);
    td_on_grad(h, double_it, NULL);
    td_retain_grad(h);
    td_checkpoint(cx, region, NULL, (td_tensors){&h, 1}, &y, 1);
    double sum = both(y, x, NULL);
    return sum + total(td_grad_of(h));
}

static bool cube(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                 int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], td_mul(in[0], in[0]));
    return td_fcall_save(f, (td_tensors){in, 1});
}

static bool cube_back(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                      int n_in) {
    (void)n_out, (void)n_in;
    td_tensor *x = td_fcall_saved(f, 0);
    grad[0] = td_mul(g[0], td_mul(td_mul(x, x), 3));
    return !td_is_nil(grad[0]);
}

static double custom_functions(td_ctx *cx) {
    static const td_function fn = {"cube", cube, cube_back, NULL};
    td_tensor               *x = leaf(cx, TD_SHAPE(5)), *y = td_nil(cx);
    td_function_call(cx, &fn, NULL, (td_tensors){&x, 1}, &y, 1);
    return both(y, x, NULL);
}

static double high_ranks(td_ctx *cx) {
    td_tensor *x = leaf(cx, TD_SHAPE(2, 1, 1, 3, 1, 1, 1, 2));
    td_tensor *y = td_sum(td_mul(td_transpose(x, 0, 7), x), TD_DIMS(3), true);
    return both(td_contiguous(td_squeeze(y)), x, NULL);
}

static double printing(td_ctx *cx) {
    char text[64];
    return (double)td_format(td_ones(cx, TD_SHAPE(3, 40)), text, sizeof text) * 0;
}

static double sharing(td_ctx *cx) {
    double     sum = 0;
    td_ctx    *other = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(4));
    if (!other) return td_fail(cx, TD_E_MEMORY, "out of memory"), 0;
    td_tensor *s = td_share(other, x);
    if (!td_ok(other)) td_fail(cx, td_error(other), "%s", td_message(other));
    else sum = total(s);
    if (!td_ok(other)) td_fail(cx, td_error(other), "%s", td_message(other));
    td_close(other);
    return sum;
}

static const td_fault_case cases[] = {
    {.name = "pointwise", .run = pointwise},
    {.name = "converting", .run = converting},
    {.name = "reductions", .run = reductions},
    {.name = "scans", .run = scans},
    {.name = "products", .run = products},
    {.name = "large_products", .run = large_products},
    {.name = "transforms", .run = transforms},
    {.name = "views", .run = views},
    {.name = "writes", .run = writes},
    {.name = "indexing", .run = indexing},
    {.name = "networks", .run = networks},
    {.name = "strided_convolution", .run = strided_convolution},
    {.name = "losses", .run = losses},
    {.name = "attention", .run = attention},
    {.name = "random_numbers", .run = random_numbers},
    {.name = "second_order", .run = second_order},
    {.name = "hooks_and_checkpoints", .run = hooks_and_checkpoints},
    {.name = "custom_functions", .run = custom_functions},
    {.name = "high_ranks", .run = high_ranks},
    {.name = "printing", .run = printing},
    {.name = "sharing", .run = sharing},
};

int main(int argc, char **argv) {
    return fault_main(cases, TD_COUNT(cases), argc, argv);
}
