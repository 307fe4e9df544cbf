/* tandem/data.h -- batches: of tokens from a file, for language models, and of the
 * items of any dataset.
 *
 *     td_loader_opts how = {TD_LOADER_OPTS, .type = TD_TOKENS_U16, .batch = 8,
 *                           .window = 256, .seed = 1};
 *     td_loader *l = td_loader_open(cx, "train.bin", &how);
 *     while (td_loader_next(l, &x, &y)) ...     x, y: i64[8,256]
 *
 * The tokens are divided into windows; y is x shifted by one token. The windows of a
 * batch depend on seed, epoch and the number of the batch only. The file is
 * memory-mapped, and a thread reads ahead. While it is open the file may be replaced,
 * but must not be truncated. */
#ifndef TANDEM_DATA_H
#define TANDEM_DATA_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The type of a file. Numbers are little-endian. */
typedef enum td_tokens {
    TD_TOKENS_NPY, /* a .npy file of one dim: u1, u2, u4, i2, i4 or i8 */
    TD_TOKENS_U8,  /* any file: bytes */
    TD_TOKENS_U16,
    TD_TOKENS_U32
} td_tokens;

typedef enum td_order {
    TD_ORDER_SHUFFLED,   /* every window once per epoch, in a new order each time */
    TD_ORDER_SEQUENTIAL, /* in file order, in each epoch */
    TD_ORDER_RANDOM      /* windows at random positions */
} td_order;

/* Options carry their size: write {TD_LOADER_OPTS, .batch = 8, ...}. */
typedef struct td_loader_opts {
    TD_SIZE(td_loader_opts);
    td_tokens type TD_0;
    int64_t batch TD_0, window TD_0; /* at least 1 each */
    td_order order TD_0;
    uint64_t seed  TD_0;
    int64_t vocab  TD_0; /* tokens must be below it; 0: not checked */
    int64_t first  TD_0,
        count      TD_0; /* part of the file to use; count 0: all from first on */
    int ahead      TD_0; /* batches read ahead; 0: two; -1: no thread */
} td_loader_opts;
#define TD_LOADER_OPTS .td_loader_opts_size = sizeof(td_loader_opts)

typedef struct td_loader td_loader;

/* nil after a failure; td_close closes it if nobody did.
 *
 *   fails  TD_E_IO   no such file; its size is not a whole number of tokens; a
 *                    malformed .npy; fewer tokens than one batch wants
 *          TD_E_ARG  an option is out of its range */
TD_API td_loader *td_loader_open(td_ctx *cx, const char *path,
                                 const td_loader_opts *opts);
/* The same over bytes in memory, which must outlive the loader. */
TD_API td_loader *td_loader_over(td_ctx *cx, const void *bytes, size_t n,
                                 const td_loader_opts *opts);
TD_API void       td_loader_close(td_loader *l); /* NULL is allowed */

/* ---- datasets ----------------------------------------------------------- */

/* A tensor of each item: all items have these sizes. */
typedef struct td_field {
    td_dtype dtype;
    td_ints  size; /* TD_SHAPE() of a number */
} td_field;

/* An item that is to be read. */
typedef struct td_sample {
    int64_t      index; /* from 0 to length - 1 */
    uint64_t     seed;  /* of its random changes: of seed, epoch and position */
    void *const *out;   /* its bytes by field, row by row, to be written */
    char        *why;   /* why it failed, for the message */
    size_t       why_size;
} td_sample;
/* Reads an item. Called by the thread that reads ahead, one item at a time, so it calls
 * no function of a td_ctx. False, and `why`, after a failure. */
typedef bool td_sample_fn(void *env, const td_sample *item);

typedef struct td_dataset {
    int64_t       length; /* items */
    td_field      fields[8];
    int           n_fields; /* 1 to 8 */
    td_sample_fn *read;
    void         *env;            /* of read; outlives the loader */
    void (*drop)(void *env) TD_0; /* frees env when the loader is closed; may be NULL */
} td_dataset;

typedef struct td_dataset_opts {
    TD_SIZE(td_dataset_opts);
    int64_t batch  TD_0; /* 0: 1 */
    td_order order TD_0;
    uint64_t seed  TD_0;
    bool drop_last TD_0; /* leave out the items that do not fill a batch */
    int ahead      TD_0; /* batches read ahead; 0: two; -1: no thread */
} td_dataset_opts;
#define TD_DATASET_OPTS .td_dataset_opts_size = sizeof(td_dataset_opts)

/* A loader of batches of items, stacked in a new first dim. The items of a batch depend
 * on seed, epoch and the number of the batch only. set->drop is called after a failure
 * too. */
TD_API td_loader *td_loader_dataset(td_ctx *cx, const td_dataset *set,
                                    const td_dataset_opts *opts);
/* The next batch of any loader: one tensor for each field; n is their number. Fails as
 * td_loader_next; TD_E_IO: an item cannot be read. The next call tries it again. */
TD_API bool       td_loader_next_fields(td_loader *l, td_tensor **out, int n);
TD_API int64_t    td_loader_items(const td_loader *l); /* or windows, per epoch */

/* ---- places ------------------------------------------------------------- */

TD_API int64_t td_loader_tokens(const td_loader *l); /* of a dataset: 0 */
/* Batches per epoch. Windows that do not fill a batch are left out of the epoch. */
TD_API int64_t td_loader_batches(const td_loader *l);

/* The next batch, i64[batch,window] each, in the innermost scope; epochs follow one
 * another without end. False after a failure. Of a dataset: its two fields.
 *
 *   fails  TD_E_INDEX  a token is negative, or not below vocab */
TD_API bool td_loader_next(td_loader *l, td_tensor **x, td_tensor **y);

/* A position: the next batch. Save it and seek to it to resume training. */
typedef struct td_loader_place {
    int64_t epoch, batch; /* both from 0 */
} td_loader_place;
TD_API td_loader_place td_loader_tell(const td_loader *l);
TD_API bool            td_loader_seek(td_loader *l, td_loader_place to);

#ifdef __cplusplus
}
#endif

#endif
