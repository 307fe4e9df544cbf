/* kernels/blas_setup.h -- oneDNN and OpenBLAS at the instruction level in use
 * (cpu.h). */
#ifndef TD_BLAS_SETUP_H
#define TD_BLAS_SETUP_H

#include "kernels/dnnl_primitive.h"

#if TD_HAVE_DNNL
/* Bounds what oneDNN dispatches to. Before the first use of oneDNN in the process: a
 * program that used oneDNN before keeps the level it has. */
void        td__dnnl_bound(void);
/* What oneDNN dispatches to, for people. */
const char *td__dnnl_level(void);
#endif

/* Once, before the first product: OpenBLAS runs on the calling thread alone. */
void td__blas_start(void);

#endif
