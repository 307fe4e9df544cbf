/* nn/nn.h -- shared by layers, optimizers and loaders. This directory uses the public
 * interface; beyond it only memory (base), mapped files (core) and, for optimizers,
 * dependences of captures (module/deps.h). */
#ifndef TD_NN_ROOM_H
#define TD_NN_ROOM_H

#include "core/core.h"
#include "tandem/grad.h"
#include "tandem/nn.h"
#include "tandem/ops.h"

/* A module under construction, inside a scope and under no_grad. m is NULL after a
 * failure; every call below does nothing then. */
typedef struct td_making {
    td_ctx      *cx;
    td_module   *m;
    const char  *label; /* of the scope */
    td_grad_mode was;
} td_making;

td_making  td__nn_begin(td_ctx *cx, const td_module_type *type);
/* Returns the module; or frees it and returns nil if anything failed. */
td_module *td__nn_end(td_making *k);
/* Registers a tensor (NULL: absent) under `name`; *slot always points to the current
 * one. */
void       td__nn_param(td_making *k, const char *name, td_tensor *t, td_tensor **slot);
void td__nn_buffer(td_making *k, const char *name, td_tensor *t, td_tensor **slot);
/* Registers a child module, which it takes over. */
void td__nn_child(td_making *k, const char *name, td_module *child, td_module **slot);

/* Fails unless v is at least 1: "Linear: out is 0; it must be at least 1". */
bool td__nn_positive(td_ctx *cx, const char *who, const char *what, int64_t v);
/* Fails unless v is in [0, 1]. */
bool td__nn_fraction(td_ctx *cx, const char *who, const char *what, double v);

/* Is the module called with at most `most` arguments? False after td__fail. */
bool       td__nn_takes(td_module *m, td_call *c, int most);
/* The argument of a layer that takes one; nil after td__fail. */
td_tensor *td__nn_arg(td_module *m, td_call *c);

/* A list for macros of ops, which take compound literals. */
static inline td_tensors td__nn_list(td_tensor *const *v, int n) {
    return (td_tensors){v, n};
}

/* Uniform in +-1/sqrt(fan), PyTorch's initial distribution of layers. */
td_tensor *td__nn_uniform(td_ctx *cx, td_ints shape, int64_t fan);

#endif
