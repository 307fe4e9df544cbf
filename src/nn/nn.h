/* nn/nn.h -- what layers, optimizers and loaders share. The room stands on the public
 * interface; from other rooms it takes memory (base), mapped files (core) and, for
 * optimizers, what a capture depends on (module/deps.h). */
#ifndef TD_NN_ROOM_H
#define TD_NN_ROOM_H

#include "core/core.h"
#include "tandem/grad.h"
#include "tandem/nn.h"
#include "tandem/ops.h"

/* A module in the making, inside a scope and without gradients; m is NULL after a
 * failure, and every call below is then inert. */
typedef struct td_making {
    td_ctx      *cx;
    td_module   *m;
    const char  *label; /* of the scope */
    td_grad_mode was;
} td_making;

td_making  td__nn_begin(td_ctx *cx, const td_module_type *type);
/* Gives the module, or frees it and gives nil when anything has failed. */
td_module *td__nn_end(td_making *k);
/* Registers a tensor, NULL for an absent one, and follows it in *slot. */
void       td__nn_param(td_making *k, const char *name, td_tensor *t, td_tensor **slot);
void td__nn_buffer(td_making *k, const char *name, td_tensor *t, td_tensor **slot);
/* Takes the child over. */
void td__nn_child(td_making *k, const char *name, td_module *child, td_module **slot);

/* "Linear: out is 0, and must be at least 1". False after td__fail. */
bool td__nn_positive(td_ctx *cx, const char *who, const char *what, int64_t v);
/* A number in [0, 1]. */
bool td__nn_fraction(td_ctx *cx, const char *who, const char *what, double v);

/* Is the module called with at most this many arguments? False after td__fail. */
bool       td__nn_takes(td_module *m, td_call *c, int most);
/* The one argument of a layer that takes one; nil after td__fail. */
td_tensor *td__nn_arg(td_module *m, td_call *c);

/* A list made elsewhere, inside the sugar of ops. */
static inline td_tensors td__nn_list(td_tensor *const *v, int n) {
    return (td_tensors){v, n};
}

/* Uniform in +-1/sqrt(fan): what PyTorch's layers begin with. */
td_tensor *td__nn_uniform(td_ctx *cx, td_ints shape, int64_t fan);

#endif
