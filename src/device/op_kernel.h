/* device/op_kernel.h -- kernels whose text is written by hand (text/NAME.h): what a
 * call of one needs, and how it is started. */
#ifndef TD_OP_KERNEL_H
#define TD_OP_KERNEL_H

#include "device/device_int.h"

/* Where text/index.h expects the walk over the serial dims. */
enum { TD_WALK_AT = 32 };

/* One start of a kernel. Pointer TD_DEVICE_PTRS - 1 is the status word of the
 * device. */
typedef struct td_op_kernel {
    const char   *name;
    td_opcall    *c;
    td_device_run run;
    uint8_t       dtype[TD_DEVICE_PTRS]; /* of the pointers */
    int           ptrs;
    int           way;     /* WAY in the text */
    const char   *defines; /* further lines; NULL: none */
    const char   *uses;  /* functions that only the defines name, one per line; NULL */
    bool          math;  /* uses td_m_exp_M0 and others of the type of pointer 0 */
    bool          picky; /* it may find a value out of range */
} td_op_kernel;

/* Appends a pointer to the elements of t; NULL for none, which has the dtype of pointer
 * 0. */
void td__op_ptr(td_op_kernel *k, const td_tensor *t);
/* Stores the dims of a walk at run.size[at]: those of t and its strides, then `more`
 * operands with their strides. False: there are too many. */
bool td__op_walk(td_op_kernel *k, int at, int rank, const int64_t *size,
                 const int64_t *const *stride, int operands);
/* Starts it on device d: over `elements`, or, with rows > 0, rows of so many elements.
 * False: there is no kernel; else *ok is false after td__fail. */
bool td__op_start(td_op_kernel *k, td_device_state *d, int64_t elements, int64_t rows,
                  bool *ok);

/* What a picky kernel leaves in the status word: the name of the op, which lives as
 * long as the process. */
int64_t td__op_mark(const td_opcall *c);

/* The bits of a double, for given[]. */
int64_t td__double_bits(double x);

/* A new tensor on the device of the call; NULL after td__fail. */
td_tensor *td__op_make(td_opcall *c, td_meta *m);
/* A tensor that is t if its elements lie row-major without gaps, else a copy; NULL
 * after td__fail. Belongs to the innermost scope. */
td_tensor *td__op_dense(td_opcall *c, td_tensor *t);
/* A new tensor of one dim on the device; NULL after td__fail. */
td_tensor *td__op_room(td_opcall *c, td_dtype dt, int64_t n);

/* Sizes before, at and after a dim. */
typedef struct td_lines {
    int64_t outer, n, inner;
} td_lines;
td_lines td__op_lines(const td_tensor *t, int dim);

/* Computes a call. False: not these arguments, and nothing has been done; else *ok is
 * false after td__fail. */
typedef bool td_op_fn(td_opcall *c, td_device_state *d, bool *ok);

td_op_fn td__op_gather, td__op_index_select, td__op_embedding, td__op_index,
    td__op_scatter, td__op_scatter_value, td__op_scatter_add, td__op_index_add,
    td__op_index_copy, td__op_index_fill, td__op_index_put, td__op_embedding_backward,
    td__op_expect_range;
td_op_fn td__op_rand, td__op_randn, td__op_uniform, td__op_normal, td__op_exponential,
    td__op_randint, td__op_randint_like, td__op_bernoulli, td__op_bernoulli_p,
    td__op_dropout, td__op_multinomial;
td_op_fn td__op_softmax, td__op_log_softmax, td__op_softmax_backward,
    td__op_log_softmax_backward, td__op_safe_softmax, td__op_layer_norm,
    td__op_layer_norm_backward, td__op_group_norm, td__op_nll_loss,
    td__op_nll_loss_backward, td__op_argmax, td__op_argmin, td__op_max_dim,
    td__op_min_dim, td__op_sort, td__op_topk, td__op_kthvalue, td__op_cumsum,
    td__op_cumprod, td__op_logcumsumexp, td__op_cummax, td__op_cummin,
    td__op_column_sum;
td_op_fn td__op_norm, td__op_long_sum, td__op_tril, td__op_triu, td__op_arange,
    td__op_eye;
td_op_fn td__op_addmm, td__op_padded_product, td__op_attention,
    td__op_attention_backward;
td_op_fn td__op_max_pool, td__op_max_pool_backward, td__op_avg_pool,
    td__op_avg_pool_backward, td__op_adaptive_pool, td__op_adaptive_pool_backward,
    td__op_convolution, td__op_conv_data_grad, td__op_conv_weight_grad,
    td__op_batch_norm_train, td__op_batch_norm_eval, td__op_batch_norm_backward;

#endif
