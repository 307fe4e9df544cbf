/* device_ops.c -- which ops have a kernel of their own on a device, by the function
 * that computes them on the CPU: writers in place share it with their pure twins. */
#include "device/op_kernel.h"
#include "ops/device_kernel.h"
#include "ops/rules_gen.h"

/* NULL: the CPU's function only says which parts of which tensor are copied or filled
 * (ops/cast.h), and those functions work on a device. */
#define ANYWHERE NULL

#define TD_ROWS                                                                        \
    TD_ROW(gather, td__op_gather)                                                      \
    TD_ROW(index_select, td__op_index_select)                                          \
    TD_ROW(embedding, td__op_embedding)                                                \
    TD_ROW(index, td__op_index)                                                        \
    TD_ROW(scatter, td__op_scatter)                                                    \
    TD_ROW(scatter_value, td__op_scatter_value)                                        \
    TD_ROW(scatter_add, td__op_scatter_add)                                            \
    TD_ROW(index_add, td__op_index_add)                                                \
    TD_ROW(index_copy, td__op_index_copy)                                              \
    TD_ROW(index_fill, td__op_index_fill)                                              \
    TD_ROW(index_put, td__op_index_put)                                                \
    TD_ROW(embedding_dense_backward, td__op_embedding_backward)                        \
    TD_ROW(rand, td__op_rand)                                                          \
    TD_ROW(randn, td__op_randn)                                                        \
    TD_ROW(uniform, td__op_uniform)                                                    \
    TD_ROW(normal, td__op_normal)                                                      \
    TD_ROW(exponential, td__op_exponential)                                            \
    TD_ROW(randint, td__op_randint)                                                    \
    TD_ROW(randint_like, td__op_randint_like)                                          \
    TD_ROW(bernoulli, td__op_bernoulli)                                                \
    TD_ROW(bernoulli_p, td__op_bernoulli_p)                                            \
    TD_ROW(native_dropout, td__op_dropout)                                             \
    TD_ROW(multinomial, td__op_multinomial)                                            \
    TD_ROW(softmax, td__op_softmax)                                                    \
    TD_ROW(log_softmax, td__op_log_softmax)                                            \
    TD_ROW(softmax_backward, td__op_softmax_backward)                                  \
    TD_ROW(log_softmax_backward, td__op_log_softmax_backward)                          \
    TD_ROW(safe_softmax, td__op_safe_softmax)                                          \
    TD_ROW(layer_norm, td__op_layer_norm)                                              \
    TD_ROW(layer_norm_backward, td__op_layer_norm_backward)                            \
    TD_ROW(group_norm, td__op_group_norm)                                              \
    TD_ROW(nll_loss, td__op_nll_loss)                                                  \
    TD_ROW(nll_loss_backward, td__op_nll_loss_backward)                                \
    TD_ROW(argmax, td__op_argmax)                                                      \
    TD_ROW(argmin, td__op_argmin)                                                      \
    TD_ROW(max_dim, td__op_max_dim)                                                    \
    TD_ROW(min_dim, td__op_min_dim)                                                    \
    TD_ROW(sort, td__op_sort)                                                          \
    TD_ROW(topk, td__op_topk)                                                          \
    TD_ROW(kthvalue, td__op_kthvalue)                                                  \
    TD_ROW(cumsum, td__op_cumsum)                                                      \
    TD_ROW(cumprod, td__op_cumprod)                                                    \
    TD_ROW(logcumsumexp, td__op_logcumsumexp)                                          \
    TD_ROW(cummax, td__op_cummax)                                                      \
    TD_ROW(cummin, td__op_cummin)                                                      \
    TD_ROW(sum, td__op_column_sum)                                                     \
    TD_ROW(flash_attention, td__op_attention)                                          \
    TD_ROW(flash_attention_backward, td__op_attention_backward)                        \
    TD_ROW(max_pool2d, td__op_max_pool)                                                \
    TD_ROW(max_pool3d, td__op_max_pool)                                                \
    TD_ROW(max_pool2d_backward, td__op_max_pool_backward)                              \
    TD_ROW(avg_pool2d, td__op_avg_pool)                                                \
    TD_ROW(avg_pool3d, td__op_avg_pool)                                                \
    TD_ROW(avg_pool2d_backward, td__op_avg_pool_backward)                              \
    TD_ROW(avg_pool3d_backward, td__op_avg_pool_backward)                              \
    TD_ROW(adaptive_pool, td__op_adaptive_pool)                                        \
    TD_ROW(adaptive_pool3d, td__op_adaptive_pool)                                      \
    TD_ROW(adaptive_pool_backward, td__op_adaptive_pool_backward)                      \
    TD_ROW(adaptive_pool3d_backward, td__op_adaptive_pool_backward)                    \
    TD_ROW(convolution, td__op_convolution)                                            \
    TD_ROW(conv_data_grad, td__op_conv_data_grad)                                      \
    TD_ROW(conv_weight_grad, td__op_conv_weight_grad)                                  \
    TD_ROW(batch_norm_train, td__op_batch_norm_train)                                  \
    TD_ROW(batch_norm_eval, td__op_batch_norm_eval)                                    \
    TD_ROW(batch_norm_backward, td__op_batch_norm_backward)                            \
    TD_ROW(addmm, td__op_addmm)                                                        \
    TD_ROW(baddbmm, td__op_addmm)                                                      \
    TD_ROW(mm, td__op_padded_product) TD_ROW(norm, td__op_norm)                        \
        TD_ROW(tril, td__op_tril) TD_ROW(triu, td__op_triu)                            \
            TD_ROW(arange, td__op_arange) TD_ROW(eye, td__op_eye) TD_ROW(reshape_copy, \
                                                                         ANYWHERE)     \
                TD_ROW(cat, ANYWHERE) TD_ROW(stack, ANYWHERE) TD_ROW(repeat, ANYWHERE) \
                    TD_ROW(flip, ANYWHERE) TD_ROW(roll, ANYWHERE)                      \
                        TD_ROW(pad, ANYWHERE) TD_ROW(fill, ANYWHERE)                   \
                            TD_ROW(zero, ANYWHERE) TD_ROW(select_scatter, ANYWHERE)    \
                                TD_ROW(slice_scatter, ANYWHERE)                        \
                                    TD_ROW(diagonal_scatter, ANYWHERE)                 \
                                        TD_ROW(select_backward, ANYWHERE)              \
                                            TD_ROW(slice_backward, ANYWHERE)           \
                                                TD_ROW(diagonal_backward, ANYWHERE)

typedef struct row {
    td_kernel_fn *cpu;
    td_op_fn     *device;
} row;

static const row *find(td_kernel_fn *cpu) {
#define TD_ROW(name, fn) {td__kern_##name, fn},
    static const row rows[] = {TD_ROWS};
#undef TD_ROW
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

bool td__device_op(td_opcall *c, td_device_state *d, bool *ok) {
    const row *r = c->def->cpu ? find(c->def->cpu) : NULL;
    if (!r || !has_results(c) || !td__scope_push(c->cx)) return false;
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
