/* shape_special.c -- what special functions and heaviside accept beyond the rule of all
 * pointwise ops. */
#include "rules/pointwise_args.h"
#include "rules/shape_rules.h"

/* in: a, values, of one dtype: ATen promotes nothing here. */
bool td__shape_heaviside(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *values = td__in(c, 1);
    if (a->dtype != values->dtype)
        return td__op_fail(
            c, TD_E_DTYPE,
            "a is %s and values is %s; both must have one dtype, convert "
            "one with td_to",
            td__type_str(a), td__type_str(values));
    return td__shape_pointwise(c);
}

/* Two operands, of which at least one is a tensor. */
bool td__shape_operands(td_opcall *c) {
    if (!td__in(c, 0) && !td__in(c, 1))
        return td__op_fail(c, TD_E_ARG, "at least one argument must be a tensor");
    return td__shape_pointwise(c);
}

/* in: order, a. */
bool td__shape_polygamma(td_opcall *c) {
    int64_t order = td__in_number(c, 0);
    if (order < 0)
        return td__op_fail(c, TD_E_ARG, "order is %lld; it must be at least 0",
                           (long long)order);
    return td__shape_pointwise(c);
}
