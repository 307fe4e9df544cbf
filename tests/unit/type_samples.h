/* type_samples.h -- four types of tensors for tests: a pair, of which both are
 * computed; int8 weights with a scale, which train through; a diagonal matrix with a
 * product of its own; a wrapper that counts ops. */
#ifndef TD_TYPE_SAMPLES_H
#define TD_TYPE_SAMPLES_H

#include "td_test.h"

#include "tandem/tandem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const td_type *pair_type(td_ctx *cx);
/* A gradient of metadata "converts" becomes what is expected of it. */
td_tensor     *make_pair(td_tensor *a, td_tensor *b, const char *metadata);
td_tensor     *make_int8(td_tensor *w);
td_tensor     *make_diag(td_tensor *d);
const td_type *counted_type(td_ctx *cx); /* without a version */
td_tensor     *make_counted(td_tensor *x);
extern int     n_counted; /* calls of the function of that type */

#endif
