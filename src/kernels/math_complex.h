/* math_complex.h: functions of complex numbers for the loops of rows with .complex.
 *
 * Each exists for float _Complex (c64) and double _Complex (c128). Products and
 * quotients are the plain formulas, as in ATen; an infinite operand can give NaN.
 * Elementary functions are those of the C library, which handles signed zeros,
 * infinities and branch cuts as Annex G of C11 says. */
#ifndef TD_MATH_COMPLEX_H
#define TD_MATH_COMPLEX_H

#include "kernels/math.h"

#include <stdbool.h>

#define Z float _Complex
#define R float
#define FN(name) td_m_##name##_c64
#define LIB(name) __builtin_##name##f
#include "kernels/math_complex.inc"
#undef Z
#undef R
#undef FN
#undef LIB

#define Z double _Complex
#define R double
#define FN(name) td_m_##name##_c128
#define LIB(name) __builtin_##name
#include "kernels/math_complex.inc"
#undef Z
#undef R
#undef FN
#undef LIB

#endif
