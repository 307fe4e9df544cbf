/* loss_args.h -- what losses share: the word `reduction` and checks of arguments. */
#ifndef TD_LOSS_ARGS_H
#define TD_LOSS_ARGS_H

#include "rules/rule_arith.h"

#include <string.h>

/* A tensor as an operand. */
static inline td_value   T(td_tensor *t) { return td_value_tensor(t); }
static inline td_tensor *sum_all(td_tensor *a) { return t_sum(a, TD_ALL, false); }

/* Checks the reduction word in argument i; `batchmean` is kl_div's alone. */
static inline bool check_reduction(td_opcall *c, int i, bool batchmean) {
    const char *r = c->in[i].u.s;
    if (!strcmp(r, "mean") || !strcmp(r, "sum") || !strcmp(r, "none")) return true;
    if (batchmean && !strcmp(r, "batchmean")) return true;
    return td__op_fail(c, TD_E_ARG, "reduction must be mean, sum or none%s, got \"%s\"",
                       batchmean ? " or batchmean" : "", r);
}

/* Applies the word that check_reduction has accepted. */
static inline td_tensor *reduce(td_tensor *t, const char *how) {
    if (!strcmp(how, "mean")) return t_mean(t, TD_ALL, false);
    if (!strcmp(how, "sum")) return sum_all(t);
    return t;
}

/* Refuses argument i unless it is floating point. */
static inline bool check_float(td_opcall *c, int i) {
    const td_tensor *t = td__in(c, i);
    return td__is_float((td_dtype)t->dtype) ||
           td__op_fail(c, TD_E_DTYPE, "%s must be floating point, got %s",
                       c->info->s.in[i].name, td__type_str(t));
}

/* Refuses argument i unless it has the sizes of argument 0. */
static inline bool check_sizes(td_opcall *c, int i) {
    const td_tensor *x = td__in(c, 0), *t = td__in(c, i);
    return td__same_sizes(x, t) ||
           td__op_fail(c, TD_E_SHAPE, "%s %s must have the sizes of %s %s",
                       c->info->s.in[i].name, td__type_str(t), c->info->s.in[0].name,
                       td__type_str(x));
}

#endif
