/* pool_tap.c -- windows of a maximum pool, a row of them at a time. Selecting instead
 * of branching: which element is larger cannot be foretold. */
#include "kernels/loops/loops.h"

#define T float
#define NAME max_tap_f32
#include "kernels/loops/pool_tap.inc"
#define T double
#define NAME max_tap_f64
#include "kernels/loops/pool_tap.inc"
#define T int64_t
#define NAME max_tap_i64
#include "kernels/loops/pool_tap.inc"

td_tap_fn *const TD_ISA_NAME(td__max_tap)[3] = {max_tap_f32, max_tap_f64, max_tap_i64};
