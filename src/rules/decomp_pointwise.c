/* decomp_pointwise.c -- composite pointwise rows with a check that a formula cannot
 * state. */
#include "ops/ops.h"

/* celu(a, alpha) = elu(a, alpha, 1, 1 / alpha). */
bool td__decomp_celu(td_opcall *c) {
    double alpha = td__in_f(c, 1);
    if (alpha == 0.0) return td__op_fail(c, TD_E_ARG, "alpha must not be 0");
    c->out[0] =
        td_op_elu(td__in(c, 0), c->in[1], td_value_int(1), td_value_float(1.0 / alpha));
    return true;
}
