/* saved_help.h -- programs that save values for backward, for tests of what becomes of
 * these: packed, or in a store. */
#ifndef TD_SAVED_HELP_H
#define TD_SAVED_HELP_H

#include "aot_help.h"

static inline bool deep(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    for (int i = 1; i < td_arg_count(c); i++) x = td_tanh(td_matmul(x, td_arg(c, i)));
    return td_return(c, td_sum(td_exp(x)));
}

static inline bool pair(td_call *c) {
    td_tensor *a = td_exp(td_arg(c, 0)), *b = td_sin(td_mul(a, td_arg(c, 1)));
    return td_return(c, td_sum(a), td_sum(td_mul(b, b)));
}

#endif
