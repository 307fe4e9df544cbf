/* build/kernel.h -- from the text of a kernel to code that runs: how emitted code is
 * called, the helper functions it uses, and loading it. */
#ifndef TD_KERNEL_H
#define TD_KERNEL_H

#include "core/core.h"

/* What a nest gets when it runs. Pointers are at the element of index 0. */
typedef struct td_nest_run {
    char *const   *ptr;
    const int64_t *size;  /* numbers of td_extent.p */
    const int64_t *given; /* 8 bytes each, the C type of the value at its start */
    char          *parts; /* room for COLUMNs: part_bytes of each part */
    int64_t        part_bytes;
    int64_t        zero; /* is 0, which the compiler cannot know */
} td_nest_run;

/* Does rows [begin, end): with n_outer 0 and one dim it is elements of that dim. Where
 * there are COLUMNs `part` says whose; each part is one call. */
typedef void td_nest_fn(const td_nest_run *r, int64_t part, int64_t begin, int64_t end);
/* After all parts: combines them in order for [begin, end) of the inside, flattened. */
typedef void td_nest_end_fn(const td_nest_run *r, int64_t parts, int64_t begin,
                            int64_t end);

/* Appends the definitions of helper functions and all they use, in a good order, each
 * once; names as above. False: no memory, or a name that is not there. */
bool td__helpers_text(td_buf *b, const char *names);

/* ---- compiled code (unit.c) --------------------------------------------- */

/* A kernel to be compiled; `run` and `end` are filled in. */
typedef struct td_kernel {
    const char     *text, *helpers; /* of td_nest_code */
    const char     *note;           /* a comment above it, not part of what it is */
    bool            has_end;
    const char     *name; /* filled in: what finds it again */
    td_nest_fn     *run;
    td_nest_end_fn *end;
} td_kernel;

/* Compiles and loads those that are not loaded yet. Equal texts are one, in the
 * process and in the cache on disk. Loaded code stays as long as the process. False
 * after td__fail: TD_E_UNSUPPORTED, no compiler or it refuses; TD_E_IO. */
bool td__kernels_load(td_ctx *cx, td_kernel *k, int n);
/* The same by name and has_end, without texts: what is loaded, or on disk. False: one
 * is not there, or no memory; that is no failure. */
bool td__kernels_find(td_ctx *cx, td_kernel *k, int n);

/* For tests that need thousands of kernels: between hold and release td__kernels_load
 * notes what it is asked for and leaves `run` NULL, and graphs made of such kernels
 * are replayed. Release compiles all that was noted in one go, where later calls find
 * it. One thread at a time; false after td__fail. */
void td__kernels_hold(void);
int  td__kernels_loaded(void); /* how many different ones there are */
bool td__kernels_release(td_ctx *cx);

#endif
