/* device/device_int.h -- kernels of devices: from an op call to a loop nest
 * (call_nest.c), from a nest to the text of a kernel (device_text.c), from a text to a
 * kernel that runs (device_run.c). docs/cuda.md describes the text.
 *
 * A nest has its sizes, strides and number operands as parameters, so that one kernel
 * serves every shape: only strides 0 and 1 are constants of the text. */
#ifndef TD_DEVICE_INT_H
#define TD_DEVICE_INT_H

#include "backend/nest.h"
#include "core/device.h"

enum { TD_DEVICE_PTRS = 8, TD_DEVICE_SIZES = 64, TD_DEVICE_GIVEN = 8 };

/* The argument of a kernel; the text declares the same struct. */
typedef struct td_device_run {
    void   *ptr[TD_DEVICE_PTRS];
    int64_t size[TD_DEVICE_SIZES];
    int64_t given[TD_DEVICE_GIVEN];
    int64_t zero; /* always 0, unknown to the compiler */
} td_device_run;

/* A nest without COLUMNs and DRAWs, with its operands. */
typedef struct td_call_nest {
    td_nest       nest;
    td_device_run run;
    td_extent     strides[16][TD_NEST_DIMS]; /* of its statements */
    td_scalars    scalars;
    int           n_strides;
    int64_t       rows, inside; /* their numbers in this call */
    bool          failed;       /* beyond a limit, or out of memory */
} td_call_nest;

/* Fills t for the call. False: no nest computes it. Free it in any case. */
bool td__call_nest(td_call_nest *t, td_opcall *c);
/* The same for a copy. */
bool td__copy_nest(td_call_nest *t, td_tensor *dst, const td_tensor *src);
/* The same for a number in every element. */
bool td__fill_nest(td_call_nest *t, td_tensor *dst, td_value number);
void td__call_nest_free(td_call_nest *t);

/* ---- kernels and launches (device_run.c) -------------------------------- */

/* How the text of a kernel named KERNEL is written; equal hashes have equal texts. */
typedef struct td_device_source {
    bool (*write)(td_buf *to, const void *of);
    const void *of;
} td_device_source;

/* The kernel with this hash, built at its first use. NULL: it cannot be built. */
void          *td__device_find(td_ctx *cx, td_device_state *d, td_hash128 hash,
                               const td_device_source *from);
/* The grid of a launch. A thread computes one element of `inside`, or several if
 * there are many. by_rows: rows are divided among blocks, with as many threads as a
 * row can use. */
td_device_grid td__device_grid(int64_t inside, int64_t rows, bool by_rows);
/* False after td__fail. */
bool           td__device_launch(td_ctx *cx, td_device_state *d, void *kernel,
                                 td_device_grid grid, td_device_run *run);

/* out = alpha a b + beta out + bias, of matrices or of stacks of them. */
typedef struct td_product {
    const td_tensor *a, *b, *out;
    double           alpha, beta;
    const td_tensor *bias; /* of one dim, for each row; NULL: none */
} td_product;

/* Computes it by the plugin's library, for floats whose operands are row- or
 * column-major. False: not offered; else *ok is false after td__fail. */
bool td__device_product(td_opcall *c, td_device_state *d, const td_product *of,
                        bool *ok);

/* A copy of whole vectors. False: it is none, or there is no kernel; else *ok is false
 * after td__fail. */
bool td__op_copy_vectors(td_tensor *dst, const td_tensor *src, td_device_state *d,
                         bool *ok);

/* ---- ops with a text of their own (device_ops.c) ------------------------ */

/* Computes the call, if the op is one of those; see td__device_kernel. */
bool td__device_op(td_opcall *c, td_device_state *d, bool *ok);

/* The text of the kernel KERNEL, with the functions it uses. False: out of memory, or a
 * function has no text. */
bool td__device_text(td_buf *to, const td_nest *n);

#endif
