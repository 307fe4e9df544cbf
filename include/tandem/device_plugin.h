/* tandem/device_plugin.h -- what a device offers to the library: memory, copies, and
 * kernels from text. A plugin is a shared library, libtandem-KIND.so, that exports one
 * function, td_device_plugin_get. It knows no ops: the library decides what runs,
 * writes kernels as text and describes products; the plugin compiles and launches.
 *
 * The library opens a device once in a process and never closes it. Calls on one device
 * come from any thread, one at a time. Work on a device runs in the order in which it
 * was started; only copy_out, sync and failures wait for it. Addresses are opaque: the
 * library adds offsets to them and reads nothing through them. */
#ifndef TANDEM_DEVICE_PLUGIN_H
#define TANDEM_DEVICE_PLUGIN_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TD_DEVICE_PLUGIN_VERSION 4

/* A grid of blocks of threads. */
typedef struct td_device_grid {
    uint32_t blocks, threads;
    uint32_t shared; /* bytes of shared memory that the launch adds */
    uint32_t bytes;  /* of the argument, if there is one; 0: not said */
} td_device_grid;

/* C[b] = alpha * A[b] B[b] + beta * C[b]: row-major matrices, m by k, k by n and m by
 * n. A transposed operand is stored as the transpose of what the formula reads. Strides
 * count elements. A bias, n elements, is added to every row before the result is
 * rounded; then beta is 0. */
typedef struct td_device_product {
    int64_t     m, n, k, batch;
    const void *a, *b;
    void       *c;
    const void *bias;                      /* NULL: none */
    int64_t     row_a, row_b, row_c;       /* elements from a row to the next */
    int64_t     batch_a, batch_b, batch_c; /* elements from a matrix to the next */
    bool        transposed_a, transposed_b;
    td_dtype    dtype; /* of all */
    double      alpha, beta;
} td_device_product;

/* Attention of [batch, heads, queries, dim] on keys and values [batch, heads, keys,
 * dim]; the last dim is contiguous. Operands by role: query, key, value, out, and
 * lse, which is f32 [batch, heads, queries]; backward reads them and the gradient of
 * out, and writes the gradients of query, key and value. */
typedef struct td_device_attention {
    int64_t  batch, heads, queries, keys, dim;
    void    *at[9];
    int64_t  stride[9][3]; /* of batch, heads, rows; of lse none */
    double   scale;
    td_dtype dtype; /* of all but lse */
    bool     causal, backward;
} td_device_attention;

/* A convolution of x [n,c,h,w] with weight [o,c/groups,kh,kw] gives y [n,o,oh,ow];
 * all are row-major. Makes y, or, from the other two, what x or the weight has as
 * its gradient. */
typedef enum td_device_conv_part {
    TD_CONV_Y,
    TD_CONV_X,
    TD_CONV_W
} td_device_conv_part;
typedef struct td_device_convolution {
    int64_t             n, c, h, w, o, kh, kw, oh, ow;
    int64_t             stride[2], pad[2], dilation[2], groups;
    void               *x, *weight, *y;
    td_dtype            dtype;
    td_device_conv_part makes;
} td_device_convolution;

/* What the plugin counts; the library counts the rest of td_device_counts. */
typedef struct td_device_memory {
    uint64_t bytes, peak;
} td_device_memory;

/* The functions of a plugin. `dev` is what open gave. A function that fails stores the
 * reason for `error`. */
typedef struct td_device_plugin {
    int         version; /* TD_DEVICE_PLUGIN_VERSION */
    const char *name;    /* of the kind: "cuda" */

    /* How many devices there are. 0: none, and `why` says what is missing and how to
     * get it. */
    int (*count)(char *why, size_t cap);
    /* NULL: it cannot be used, and why. */
    void *(*open)(int index, char *why, size_t cap);
    /* One line: the product's name, memory, architecture. */
    void (*describe)(void *dev, char *out, size_t cap);

    /* NULL: out of memory, after caches were released. Aligned to 256 bytes. */
    void *(*alloc)(void *dev, size_t bytes);
    void (*release)(void *dev, void *memory, size_t bytes);
    /* Copies between host and device, and within the device, where the two ranges do
     * not overlap. copy_in may return before the bytes have arrived, but has read
     * `from` by then; copy_out waits for them. */
    bool (*copy_in)(void *dev, void *to, const void *from, size_t bytes);
    bool (*copy_out)(void *dev, void *to, const void *from, size_t bytes);
    bool (*copy)(void *dev, void *to, const void *from, size_t bytes);
    bool (*fill)(void *dev, void *to, int byte, size_t bytes);
    bool (*sync)(void *dev);
    /* Why the last function failed; "" if none did. */
    const char *(*error)(void *dev);
    void (*memory)(void *dev, td_device_memory *out);

    /* Kernels. NULL, all three: the device has none, and every op runs on the host. */

    /* Compiles text whose function `entry` is a kernel; NULL: it cannot. The kernel
     * belongs to the device. */
    void *(*build)(void *dev, const char *text, const char *entry);
    /* The same in two steps, with machine code that the library keeps on disk; NULL,
     * all three: only build. compile: the code, from malloc, and its size; NULL: it
     * cannot; several threads may call it at the same time. load takes the code of the
     * same target; NULL: it cannot. target: one line that names everything the code
     * depends on beside the text. */
    void *(*compile)(void *dev, const char *text, size_t *bytes);
    void *(*load)(void *dev, const void *code, size_t bytes, const char *entry);
    void (*target)(void *dev, char *out, size_t cap);
    /* Bytes of shared memory that the blocks of one processor have together; NULL: no
     * kernel uses any. */
    int64_t (*shared)(void *dev);
    /* Starts a kernel; args are addresses of its arguments, which it copies. */
    bool (*launch)(void *dev, void *kernel, td_device_grid grid, void **args);
    /* Recordings. NULL, all of them: none. After record, work of this thread is kept
     * instead of started, until recorded, which returns it; NULL: something had to be
     * started (a copy to or from the host; all before it was started, in order), or it
     * failed. Memory is allocated and released as ever. replay starts all of it.
     * last is the number of the last launch so far, for change, which gives one launch
     * of a recording another argument; -1, false: it cannot be changed. */
    bool (*record)(void *dev);
    void *(*recorded)(void *dev);
    int (*last)(void *dev);
    bool (*change)(void *dev, void *recording, int launch, void **args);
    bool (*replay)(void *dev, void *recording);
    void (*forget)(void *dev, void *recording);
    /* Memory that the functions below may use as a workspace, until the next call of
     * this one; bytes 0: none. NULL: they use their own. */
    void (*lend)(void *dev, void *memory, size_t bytes);
    /* A product; NULL: none. 0: started; 1: not offered for these types; -1: failed. */
    int (*product)(void *dev, const td_device_product *p);
    /* Attention; the same. */
    int (*attention)(void *dev, const td_device_attention *a);
    /* A convolution; the same. */
    int (*convolution)(void *dev, const td_device_convolution *c);
} td_device_plugin;

/* The function that a plugin exports under the name "td_device_plugin_get". */
typedef const td_device_plugin *td_device_plugin_fn(void);

#ifdef __cplusplus
}
#endif

#endif
