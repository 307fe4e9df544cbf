/* device_ops.c -- which ops have a kernel of their own on a device, by the function
 * that computes them on the CPU: writers in place share it with their pure twins. */
#include "device/op_kernel.h"
#include "ops/device_kernel.h"
#include "ops/rules_gen.h"

/* NULL: the CPU's function only says which parts of which tensor are copied or filled
 * (ops/cast.h), and those functions work on a device. */
#define ANYWHERE NULL

typedef struct row {
    td_kernel_fn *cpu;
    td_op_fn     *device;
} row;

static const row rows[] = {
    {td__kern_gather, td__op_gather},
    {td__kern_index_select, td__op_index_select},
    {td__kern_embedding, td__op_embedding},
    {td__kern_index, td__op_index},
    {td__kern_scatter, td__op_scatter},
    {td__kern_scatter_value, td__op_scatter_value},
    {td__kern_scatter_add, td__op_scatter_add},
    {td__kern_index_add, td__op_index_add},
    {td__kern_index_copy, td__op_index_copy},
    {td__kern_index_fill, td__op_index_fill},
    {td__kern_index_put, td__op_index_put},
    {td__kern_embedding_dense_backward, td__op_embedding_backward},
    {td__kern_expect_range, td__op_expect_range},
    {td__kern_rand, td__op_rand},
    {td__kern_randn, td__op_randn},
    {td__kern_uniform, td__op_uniform},
    {td__kern_normal, td__op_normal},
    {td__kern_exponential, td__op_exponential},
    {td__kern_randint, td__op_randint},
    {td__kern_randint_like, td__op_randint_like},
    {td__kern_bernoulli, td__op_bernoulli},
    {td__kern_bernoulli_p, td__op_bernoulli_p},
    {td__kern_native_dropout, td__op_dropout},
    {td__kern_multinomial, td__op_multinomial},
    {td__kern_softmax, td__op_softmax},
    {td__kern_log_softmax, td__op_log_softmax},
    {td__kern_softmax_backward, td__op_softmax_backward},
    {td__kern_log_softmax_backward, td__op_log_softmax_backward},
    {td__kern_safe_softmax, td__op_safe_softmax},
    {td__kern_layer_norm, td__op_layer_norm},
    {td__kern_layer_norm_backward, td__op_layer_norm_backward},
    {td__kern_group_norm, td__op_group_norm},
    {td__kern_nll_loss, td__op_nll_loss},
    {td__kern_nll_loss_backward, td__op_nll_loss_backward},
    {td__kern_argmax, td__op_argmax},
    {td__kern_argmin, td__op_argmin},
    {td__kern_max_dim, td__op_max_dim},
    {td__kern_min_dim, td__op_min_dim},
    {td__kern_sort, td__op_sort},
    {td__kern_topk, td__op_topk},
    {td__kern_kthvalue, td__op_kthvalue},
    {td__kern_cumsum, td__op_cumsum},
    {td__kern_cumprod, td__op_cumprod},
    {td__kern_logcumsumexp, td__op_logcumsumexp},
    {td__kern_cummax, td__op_cummax},
    {td__kern_cummin, td__op_cummin},
    {td__kern_sum, td__op_column_sum},
    {td__kern_flash_attention, td__op_attention},
    {td__kern_flash_attention_backward, td__op_attention_backward},
    {td__kern_max_pool2d, td__op_max_pool},
    {td__kern_max_pool3d, td__op_max_pool},
    {td__kern_max_pool2d_backward, td__op_max_pool_backward},
    {td__kern_avg_pool2d, td__op_avg_pool},
    {td__kern_avg_pool3d, td__op_avg_pool},
    {td__kern_avg_pool2d_backward, td__op_avg_pool_backward},
    {td__kern_avg_pool3d_backward, td__op_avg_pool_backward},
    {td__kern_adaptive_pool, td__op_adaptive_pool},
    {td__kern_adaptive_pool3d, td__op_adaptive_pool},
    {td__kern_adaptive_pool_backward, td__op_adaptive_pool_backward},
    {td__kern_adaptive_pool3d_backward, td__op_adaptive_pool_backward},
    {td__kern_convolution, td__op_convolution},
    {td__kern_conv_data_grad, td__op_conv_data_grad},
    {td__kern_conv_weight_grad, td__op_conv_weight_grad},
    {td__kern_batch_norm_train, td__op_batch_norm_train},
    {td__kern_batch_norm_eval, td__op_batch_norm_eval},
    {td__kern_batch_norm_backward, td__op_batch_norm_backward},
    {td__kern_addmm, td__op_addmm},
    {td__kern_baddbmm, td__op_addmm},
    {td__kern_mm, td__op_padded_product},
    {td__kern_norm, td__op_norm},
    {td__kern_tril, td__op_tril},
    {td__kern_triu, td__op_triu},
    {td__kern_arange, td__op_arange},
    {td__kern_eye, td__op_eye},
    {td__kern_reshape_copy, ANYWHERE},
    {td__kern_cat, ANYWHERE},
    {td__kern_stack, ANYWHERE},
    {td__kern_repeat, ANYWHERE},
    {td__kern_flip, ANYWHERE},
    {td__kern_roll, ANYWHERE},
    {td__kern_pad, ANYWHERE},
    {td__kern_fill, ANYWHERE},
    {td__kern_zero, ANYWHERE},
    {td__kern_select_scatter, ANYWHERE},
    {td__kern_slice_scatter, ANYWHERE},
    {td__kern_diagonal_scatter, ANYWHERE},
    {td__kern_select_backward, ANYWHERE},
    {td__kern_slice_backward, ANYWHERE},
    {td__kern_diagonal_backward, ANYWHERE},
};

static const row *find(td_kernel_fn *cpu) {
    for (size_t i = 0; i < TD_COUNT(rows); i++)
        if (rows[i].cpu == cpu) return &rows[i];
    return NULL;
}

/* Are there results, and none of them empty? */
static bool has_results(const td_opcall *c) {
    bool some = false;
    for (int i = 0; i < c->n_out; i++) {
        if (!c->out[i]) return false;
        some |= c->out[i]->numel > 0;
    }
    return some;
}

/* Kernels have no text of complex numbers. */
static bool has_complex(const td_opcall *c) {
    bool some = false;
    for (int i = 0; i < c->n_out; i++)
        some |= c->out[i] && td__is_complex((td_dtype)c->out[i]->dtype);
    for (int i = 0; i < c->n_in; i++)
        some |= td__in(c, i) && td__is_complex((td_dtype)td__in(c, i)->dtype);
    return some;
}

bool td__device_op(td_opcall *c, td_device_state *d, bool *ok) {
    const row *r = c->def->cpu ? find(c->def->cpu) : NULL;
    if (!r || !has_results(c) || has_complex(c)) return false;
    if (!td__scope_push(c->cx)) return false;
    uint8_t was = td__make_on(c->cx, d->code);
    bool    done = true;
    if (r->device) done = r->device(c, d, ok);
    else *ok = c->def->cpu(c);
    td__make_on(c->cx, was);
    td__scope_pop(c->cx, NULL, 0);
    return done;
}

bool td__device_computes(td_op op) {
    const td_opdef  *def = td__row(op);
    const td_opinfo *info = td__opinfo(op);
    unsigned         none = TD_OPF_META | TD_OPF_TAPE | TD_OPF_NESTS | TD_OPF_HOLDS;
    if (!def->cpu || def->flags & none || def->cpu == td__kern_empty) return true;
    if (find(def->cpu) || def->flags & TD_OPF_POINTWISE) return true;
    if (op == TD_OP_bmm || op == TD_OP_to_device || op == TD_OP_random_state)
        return true;
    switch ((td_element)def->element) {
    case TD_EL_CALLED:
    case TD_EL_RANGE:
    case TD_EL_UNIFORM:
    case TD_EL_NORMAL:
    case TD_EL_COIN: break;
    default: return true;
    }
    return (def->simpler_fn || def->simpler) && !info->writes &&
           !(def->flags & TD_OPF_RANDOM);
}
