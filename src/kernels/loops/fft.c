/* fft.c -- tiles of Fourier transforms of one CPU level. */
#include "kernels/loops/fft.h"

#include "kernels/loops/loops.h"

#include <string.h>

/* Rows of at most so many elements are too short for the CPU to read ahead in them: the
 * next tile is fetched. */
#define NEAR_ROWS 256

#if defined __AVX512F__
#define BYTES 64
#elif defined __AVX__
#define BYTES 32
#else
#define BYTES 16
#endif

/* clang-format off */
#define EVEN_16 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_16 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LO_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HI_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define PAIRS_LO_16 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23
#define PAIRS_HI_16 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31
#define EVEN_8 0, 2, 4, 6, 8, 10, 12, 14
#define ODD_8 1, 3, 5, 7, 9, 11, 13, 15
#define LO_8 0, 8, 1, 9, 2, 10, 3, 11
#define HI_8 4, 12, 5, 13, 6, 14, 7, 15
#define PAIRS_LO_8 0, 1, 8, 9, 2, 3, 10, 11
#define PAIRS_HI_8 4, 5, 12, 13, 6, 7, 14, 15
#define EVEN_4 0, 2, 4, 6
#define ODD_4 1, 3, 5, 7
#define LO_4 0, 4, 1, 5
#define HI_4 2, 6, 3, 7
#define PAIRS_LO_4 0, 1, 4, 5
#define PAIRS_HI_4 2, 3, 6, 7
#define EVEN_2 0, 2
#define ODD_2 1, 3
#define LO_2 0, 2
#define HI_2 1, 3
#define PAIRS_LO_2 0, 1
#define PAIRS_HI_2 2, 3
/* clang-format on */

#define OF2(name, w) name##_##w
#define OF(name, w) OF2(name, w)
#define SHUFFLE_EVEN OF(EVEN, W)
#define SHUFFLE_ODD OF(ODD, W)
#define SHUFFLE_LO OF(LO, W)
#define SHUFFLE_HI OF(HI, W)
#define SHUFFLE_PAIRS_LO OF(PAIRS_LO, W)
#define SHUFFLE_PAIRS_HI OF(PAIRS_HI, W)

#if BYTES == 64
#define W_F32 16
#define W_F64 8
#elif BYTES == 32
#define W_F32 8
#define W_F64 4
#else
#define W_F32 4
#define W_F64 2
#endif

#define T float
#define V v_f32
#define W W_F32
#define NAME(x) x##_f32
#include "kernels/loops/fft.inc"
#undef T
#undef V
#undef W
#undef NAME

#define T double
#define V v_f64
#define W W_F64
#define NAME(x) x##_f64
#include "kernels/loops/fft.inc"

const td_fft_loops TD_ISA_NAME(td__fft)[2] = {{W_F32, tile_f32, multiply_f32},
                                              {W_F64, tile_f64, multiply_f64}};
