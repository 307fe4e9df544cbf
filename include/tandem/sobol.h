/* tandem/sobol.h -- Sobol sequences: points that fill the unit cube more evenly than
 * random ones, with the numbers of torch.quasirandom.SobolEngine.
 *
 *     td_sobol   s = {.dim = 3};
 *     td_tensor *x = td_sobol_draw(cx, &s, 64, TD_F32);    f32[64,3], from [0, 1)
 *     td_tensor *y = td_sobol_draw(cx, &s, 64, TD_F32);    the next 64 */
#ifndef TANDEM_SOBOL_H
#define TANDEM_SOBOL_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TD_SOBOL_DIMS = 1111 }; /* PyTorch: 21201 */

/* A sequence and its position, which is all its state: save `generated` and continue
 * there, set it to 0 (reset) or add to it (fast_forward). */
typedef struct td_sobol {
    int64_t  dim;      /* 1 to TD_SOBOL_DIMS */
    bool     scramble; /* by random matrices and shifts, which depend on seed only */
    uint64_t seed;
    int64_t  generated; /* points drawn, at most 2^30 */
} td_sobol;

/* The next n points [n,dim] of dtype f32 or f64, and moves on. Unscrambled ones are
 * PyTorch's to the last bit; scrambling is the same method with other random numbers.
 * nil after a failure. */
TD_API td_tensor *td_sobol_draw(td_ctx *cx, td_sobol *s, int64_t n, td_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
