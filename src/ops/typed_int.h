/* ops/typed_int.h -- for typed.c: results of ops on tensors of a type
 * (typed_layout.c). */
#ifndef TD_TYPED_INT_H
#define TD_TYPED_INT_H

#include "ops/call.h"

/* All of these give nil after td__fail. */

/* t, or a copy where it, or an inner tensor, shares a storage with an argument. */
td_tensor *td__typed_owned(td_opcall *c, td_tensor *t);
/* A result in the strides of the op's rule, which traces rely on. */
td_tensor *td__typed_in_rule(td_tensor *t, const td_meta *m);
/* A copy with copies of the inner tensors. */
td_tensor *td__typed_copied(td_tensor *t);
/* Is the call a copy of a tensor of the same type, metadata and sizes? Whatever the
 * type computes of it, the copy has the inner tensors of the source. */
bool       td__typed_is_same_copy(const td_opcall *c);
/* Fails: the type of a viewed tensor gives no view of the type. */
bool       td__typed_no_view(td_opcall *c, const td_type *type);

#endif
