/* math.h: elementwise arithmetic for eager kernels and for emitted C.
 *
 * Every function is a static inline scalar in plain C11. The inline forms use
 * selects instead of branches, so a loop over them under `#pragma omp simd`
 * vectorizes with gcc and clang at -O2 -fno-math-errno -fno-trapping-math.
 * Build with -ffp-contract=off and never with -ffast-math: the magic-number
 * rounding and the two-part constants need the arithmetic as written.
 *
 * The text is also pasted into emitted files, in the include order below;
 * <stdint.h> is the only system header and libm is reached through builtins.
 * Measured errors and speeds are in docs/numerics.md, tests/unit/math.c holds
 * the bounds. Include it as "kernels/math.h"; do not put src/ops on the search path
 * of <...> includes, where it would hide the C library's header. */
#ifndef TD_OPS_MATH_H
#define TD_OPS_MATH_H

#include "kernels/math_bits.h"
#include "kernels/math_f64.h"
#include "kernels/math_f32.h"

#endif
