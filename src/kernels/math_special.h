/* math_special.h: all special functions. Those of f64 are scalar code, compiled once
 * per file and called per element; most of f32 are vectors, as the elementary functions
 * of math.h. */
#ifndef TD_OPS_MATH_SPECIAL_H
#define TD_OPS_MATH_SPECIAL_H

#include "kernels/math_bessel.h"
#include "kernels/math_error.h"
#include "kernels/math_gamma.h"
#include "kernels/math_poly.h"
#include "kernels/math_special_f32.h"
#include "kernels/math_waves.h"

#endif
