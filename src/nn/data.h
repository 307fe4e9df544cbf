/* nn/data.h -- token files, and the order windows come in. */
#ifndef TD_DATA_ROOM_H
#define TD_DATA_ROOM_H

#include "core/files.h"
#include "tandem/data.h"

/* How a token lies in the file. */
typedef enum td_width {
    TD_W_U8,
    TD_W_U16,
    TD_W_U32,
    TD_W_I16,
    TD_W_I32,
    TD_W_I64,
    TD_W_COUNT
} td_width;

/* A row of tokens in mapped bytes. */
typedef struct td_token_file {
    td_mapping    *map; /* held */
    const uint8_t *at;  /* the first token */
    int64_t        n;   /* tokens */
    td_width       width;
    const char    *path; /* for messages; the caller's */
} td_token_file;

/* Takes the mapping over. False after td__fail. */
bool    td__tokens_open(td_ctx *cx, td_mapping *map, const char *path,
                        const td_loader_opts *o, td_token_file *out);
/* Tokens from..from+n as i64. Gives the first that is negative or, with a vocab, not
 * below it; -1: none. */
int64_t td__tokens_read(const td_token_file *f, int64_t from, int64_t n, int64_t vocab,
                        int64_t *out);

/* The k-th number of a permutation of 0..n-1 that depends on seed and epoch. */
int64_t td__order_shuffled(uint64_t seed, int64_t epoch, int64_t k, int64_t n);
/* The k-th of a row of random numbers in 0..n-1. */
int64_t td__order_random(uint64_t seed, int64_t epoch, int64_t k, int64_t n);

#endif
