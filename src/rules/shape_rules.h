/* rules/shape_rules.h -- what shape rules share, and kernels that make tensors of their
 * own: metas of fresh results, type promotion, and numbers that a dtype represents. */
#ifndef TD_SHAPE_RULES_H
#define TD_SHAPE_RULES_H

#include "ops/ops.h"

/* Result 0: fresh, row-major, of the sizes given. */
void     td__meta_dense(td_meta *m, td_dtype dt, int rank, const int64_t *size);
void     td__meta_like(td_meta         *m,
                       const td_tensor *t); /* sizes, dtype and dim order of t */
/* dtype of an operation on these arguments: tensors, 0-dim tensors and numbers
 * weigh as in ATen. */
td_dtype td__result_type(td_ctx *cx, const td_value *in, int n);
/* May elements of t be stored as dt? Not complex ones as real: false after td__fail. */
bool     td__can_keep(td_opcall *c, const td_tensor *t, td_dtype dt);

/* Can dt represent v? Finite floats beyond its range, integers beyond it, and NaN or
 * infinity in an integer cannot be converted; a negative integer may wrap in u8, and a
 * symbolic one is checked when it is known. ATen refuses the same conversions. */
bool td__dtype_holds(td_dtype dt, td_value v);
/* Refuses number argument i when dt does not hold it; tensors and none pass. */
bool td__number_fits(td_opcall *c, int i, td_dtype dt);
/* Refuses a probability p unless it is from 0 to 1; NaN is neither. */
bool td__check_probability(td_opcall *c, double p);
/* Refuses argument i, alpha or beta, if it does not suit the dtype that it multiplies:
 * a bool for other than bool tensors, a fraction for integers. */
bool td__factor_suits(td_opcall *c, int i, td_dtype dt);

#endif
