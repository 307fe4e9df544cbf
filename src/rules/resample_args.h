/* rules/resample_args.h -- how resampling finds the elements of its results. */
#ifndef TD_RESAMPLE_ARGS_H
#define TD_RESAMPLE_ARGS_H

#include "ops/ops.h"

typedef enum td_resample_mode {
    TD_RESAMPLE_NEAREST,
    TD_RESAMPLE_EXACT,
    TD_RESAMPLE_LINEAR,
    TD_RESAMPLE_CUBIC,
    TD_RESAMPLE_LINEAR_AA,
    TD_RESAMPLE_CUBIC_AA
} td_resample_mode;

/* Reads argument i, a name; false after td__op_fail. */
bool td__resample_mode(td_opcall *c, int i, td_resample_mode *mode);

#endif
