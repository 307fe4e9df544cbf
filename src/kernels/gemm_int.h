/* kernels/gemm_int.h -- the inner loops of integer products, one set per CPU level. */
#ifndef TD_GEMM_INT_H
#define TD_GEMM_INT_H

#include <stdbool.h>
#include <stdint.h>

enum { TD_GEMM_STRIP = 32 }; /* columns in a register block */

/* Packed words, all row-major: A is m x k, B is k x ld, C is m x ld, with ld a
 * multiple of TD_GEMM_STRIP. Columns past n hold anything. */
typedef struct td_gemm_tile {
    const void *a, *b;
    void       *c;
    int64_t     k, ld;
    bool        add; /* to what C holds */
} td_gemm_tile;

/* Rows [begin,end) of C, the words wrapping. */
typedef void td_gemm_rows(void *tile, int64_t begin, int64_t end);

#define TD_GEMM_DECLARE(isa)              \
    td_gemm_rows td__gemm_rows_u32_##isa; \
    td_gemm_rows td__gemm_rows_u64_##isa

TD_GEMM_DECLARE(base);
TD_GEMM_DECLARE(avx2);
TD_GEMM_DECLARE(avx512);

#endif
