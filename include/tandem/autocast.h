/* tandem/autocast.h -- mixed precision: inside a region, ops choose the dtype they
 * compute in. Matrix products and convolutions take bf16 or f16, ops that need range
 * and precision (losses, prod) take f32, ops on several tensors (cat) take the widest
 * dtype of theirs; all others compute in the dtype of their arguments. docs/ops.md
 * lists the ops; they are those of PyTorch's autocast for CPUs. f64 is never cast.
 *
 *     td_autocast_mode was = td_autocast_begin(cx, TD_BF16);
 *     td_tensor *loss = td_mse_loss(td_linear(x, w), y);
 *     td_autocast_end(cx, was);
 *     td_backward(loss);             the gradient of an f32 weight is f32
 *
 * A leaf of f32 that requires grad is cast once in the outermost region, as long as
 * nobody writes it. Run backward outside: it computes in the dtypes of the forward. */
#ifndef TANDEM_AUTOCAST_H
#define TANDEM_AUTOCAST_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The state before a _begin, which its _end restores. Regions nest. */
typedef struct td_autocast_mode {
    bool     on;
    td_dtype dtype;
    int      depth; /* number of enclosing regions */
} td_autocast_mode;

/* dtype must be TD_BF16 or TD_F16; any other is an error and changes nothing. */
TD_API td_autocast_mode td_autocast_begin(td_ctx *cx, td_dtype dtype);
/* A region in which nothing is cast. */
TD_API td_autocast_mode td_autocast_off_begin(td_ctx *cx);
TD_API void             td_autocast_end(td_ctx *cx, td_autocast_mode was);
TD_API bool             td_autocast_enabled(const td_ctx *cx);
TD_API td_dtype         td_autocast_dtype(const td_ctx *cx); /* TD_DTYPE_NONE: off */

#ifdef __cplusplus
}
#endif

#endif
