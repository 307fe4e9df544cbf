/* build/kernel.h -- how generated kernels are called, the helper functions they use,
 * and loading them. */
#ifndef TD_KERNEL_H
#define TD_KERNEL_H

#include "core/core.h"

/* The arguments of a kernel. Pointers address the element of index 0. */
typedef struct td_nest_run {
    char *const   *ptr;
    const int64_t *size;  /* symbolic sizes, by td_extent.p */
    const int64_t *given; /* 8 bytes each, the C type of the value at its start */
    char          *parts; /* accumulators of COLUMNs: part_bytes per part */
    int64_t        part_bytes;
    int64_t        zero; /* always 0, unknown to the compiler */
} td_nest_run;

/* Computes rows [begin, end); if n_outer is 0 and there is one dim, elements of that
 * dim. `part` selects the accumulators of COLUMNs; each part is one call. */
typedef void td_nest_fn(const td_nest_run *r, int64_t part, int64_t begin, int64_t end);
/* After all parts: combines them in order, for elements [begin, end) of the inside. */
typedef void td_nest_end_fn(const td_nest_run *r, int64_t parts, int64_t begin,
                            int64_t end);

/* Appends the definitions of the named helper functions (one name per line) and
 * everything they use, each once, in order. False: out of memory, or an unknown name.
 */
bool td__helpers_text(td_buf *b, const char *names);

/* ---- compiled code (unit.c) --------------------------------------------- */

/* A kernel to be compiled; td__kernels_load sets name, run and end. */
typedef struct td_kernel {
    const char     *text, *helpers; /* of td_nest_code */
    const char     *note;           /* a comment in the source; not part of its hash */
    bool            has_end;
    const char     *name; /* set by loading; for td__kernels_find */
    td_nest_fn     *run;
    td_nest_end_fn *end;
} td_kernel;

/* Compiles and loads kernels that are not loaded yet. Equal texts are one kernel, in
 * the process and on disk. Loaded code stays until the process ends. False after
 * td__fail: TD_E_UNSUPPORTED (no compiler, or it failed) or TD_E_IO. */
bool td__kernels_load(td_ctx *cx, td_kernel *k, int n);
/* Loads kernels by name and has_end from the process or the disk, without compiling.
 * False: one is missing, or out of memory; the context has no error then. */
bool td__kernels_find(td_ctx *cx, td_kernel *k, int n);

/* For tests that need thousands of kernels: after td__kernels_defer, td__kernels_load
 * only records kernels and leaves `run` NULL; graphs with such kernels are
 * interpreted. td__kernels_build_deferred compiles all of them at once. One thread at
 * a time; false after td__fail. */
void td__kernels_defer(void);
int  td__kernels_loaded(void); /* number of distinct kernels */
bool td__kernels_build_deferred(td_ctx *cx);

#endif
