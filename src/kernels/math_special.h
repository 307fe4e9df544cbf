/* math_special.h: all special functions. Scalar code in f64, compiled once per file and
 * called per element; the vectorized elementary functions are math.h. */
#ifndef TD_OPS_MATH_SPECIAL_H
#define TD_OPS_MATH_SPECIAL_H

#include "kernels/math_bessel.h"
#include "kernels/math_error.h"
#include "kernels/math_gamma.h"
#include "kernels/math_poly.h"
#include "kernels/math_waves.h"

#endif
