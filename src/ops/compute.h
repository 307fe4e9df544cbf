/* ops/compute.h -- what a loop of a pointwise row has: operands, numbers, a type to
 * compute in. Shared by the generator of loops, their callers and the emitter. */
#ifndef TD_COMPUTE_H
#define TD_COMPUTE_H

enum { TD_LOOP_INPUTS = 5, TD_LOOP_SCALARS = 6 };

/* The types loops compute in; the others are converted on the way in and out. */
typedef enum td_compute {
    TD_COMPUTE_F32,
    TD_COMPUTE_F64,
    TD_COMPUTE_I32,
    TD_COMPUTE_I64,
    TD_COMPUTE_C64,
    TD_COMPUTE_C128,
    TD_COMPUTE_COUNT
} td_compute;

#endif
