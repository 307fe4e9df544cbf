/* tandem/fake.h -- fake tensors: dtype, sizes, strides, aliasing and autograd state,
 * without elements. Ops on them compute the types of their results and no numbers, so a
 * model of any size can be built, called and compiled without its memory.
 * docs/fakes.md has the rules. */
#ifndef TANDEM_FAKE_H
#define TANDEM_FAKE_H

#include "tandem/aot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From begin to end, all tensors are fake: an op that reads no tensor (td_zeros,
 * td_randn) gives a fake one, and a real tensor as an argument of an op is an error. No
 * random numbers are drawn, and the generator does not advance. Pairs nest: end takes
 * what begin gave.
 *   fails  TD_E_TRACE  in a captured body, whose tensors are fake already
 *   since  0.1 */
TD_API bool td_fakes_begin(td_ctx *cx);
TD_API void td_fakes_end(td_ctx *cx, bool was);

/* A fake tensor, inside a pair or not. Outside, its type can be read and it can be an
 * argument of td_fn_precompile.
 *
 *   stride   as many as sizes; none at all: row-major
 *   returns  nil after a failure
 *   owns     the innermost scope
 *   fails    TD_E_SHAPE  a negative size or stride, or too many elements
 *   since    0.1 */
TD_API td_tensor *td_fake(td_ctx *cx, td_ints size, td_ints stride, td_dtype dtype);

/* A fake with the dtype, sizes, strides, offset and requires_grad of t. It is a leaf
 * and shares no storage with t or with other copies. */
TD_API td_tensor *td_fake_like(td_tensor *t);

/* Has t no elements? An error in a captured body, as td_fake and td_fake_like are. */
TD_API bool td_is_fake(const td_tensor *t);

/* Compiles f for such arguments, forward and backward, and runs nothing. A later call
 * with real tensors of these types, flags and aliasing compiles nothing. Arguments may
 * be fake or real; they are not written.
 *
 *   returns  false after a failure
 *   fails    TD_E_UNSUPPORTED  as td_invoke; and where a size depends on values, which
 *                              fakes do not have
 *   since    0.1 */
TD_API bool td_fn_precompile(td_fn *f, td_values args);

#ifdef __cplusplus
}
#endif

#endif
