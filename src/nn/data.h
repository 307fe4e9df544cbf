/* nn/data.h -- token files, the order of windows in them, and loaders. */
#ifndef TD_DATA_ROOM_H
#define TD_DATA_ROOM_H

#include "core/files.h"
#include "tandem/data.h"

/* The type of a token in the file. */
typedef enum td_width {
    TD_W_U8,
    TD_W_U16,
    TD_W_U32,
    TD_W_I16,
    TD_W_I32,
    TD_W_I64,
    TD_W_COUNT
} td_width;

/* The tokens of a mapped file. */
typedef struct td_token_file {
    td_mapping    *map; /* owned */
    const uint8_t *at;  /* the first token */
    int64_t        n;   /* tokens */
    td_width       width;
    const char    *path; /* for messages; borrowed */
} td_token_file;

/* Opens the tokens in `map`, which it takes over even on failure. False after
 * td__fail. */
bool    td__tokens_open(td_ctx *cx, td_mapping *map, const char *path,
                        const td_loader_opts *o, td_token_file *out);
/* Reads n tokens from index `from` as i64. Returns the index of the first that is
 * negative or, if vocab is not 0, not below vocab; -1: none. */
int64_t td__tokens_read(const td_token_file *f, int64_t from, int64_t n, int64_t vocab,
                        int64_t *out);

/* Element k of a permutation of 0..n-1 that depends on seed and epoch. */
int64_t  td__order_shuffled(uint64_t seed, int64_t epoch, int64_t k, int64_t n);
/* Element k of a sequence of random numbers in 0..n-1. */
int64_t  td__order_random(uint64_t seed, int64_t epoch, int64_t k, int64_t n);
/* A seed for the random changes of element k. */
uint64_t td__order_seed(uint64_t seed, int64_t epoch, int64_t k);

/* A loader that reads `set`, which it takes over even on failure. `range`: with
 * TD_ORDER_RANDOM indices are below it. nil after td__fail. */
typedef struct td_loading {
    const char     *who; /* the public function */
    td_dataset      set;
    td_dataset_opts o;
    int64_t         tokens, range;
    td_code         code; /* of an item that cannot be read */
} td_loading;
td_loader *td__loader_make(td_ctx *cx, const td_loading *by);

#endif
