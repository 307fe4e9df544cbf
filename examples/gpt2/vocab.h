/* vocab.h -- what GPT-2's two files say: the bytes of each token, and which pairs of
 * tokens become one, in which order. Between vocab.c, which reads them, and
 * tokenizer.c, which merges. */
#ifndef GPT2_VOCAB_H
#define GPT2_VOCAB_H

#include <tandem/tandem.h>

enum { GPT2_NONE = -1 };

/* Two tokens that become one. Those with a lower rank go first. */
typedef struct gpt2_pair {
    uint64_t both; /* left << 32 | right */
    uint32_t rank, token;
} gpt2_pair;

typedef struct gpt2_vocab {
    td_ctx    *cx;
    uint32_t   n;     /* tokens */
    char      *bytes; /* of all tokens */
    uint32_t  *at;    /* n + 1: where those of each begin */
    int64_t   *table; /* from bytes to tokens; GPT2_NONE is free */
    gpt2_pair *pairs; /* from both to the rest; rank UINT32_MAX is free */
    uint32_t   table_mask, pairs_mask;
    uint32_t   byte[256]; /* the tokens of single bytes */
    int64_t    end_of_text;
} gpt2_vocab;

bool gpt2_vocab_read(gpt2_vocab *v, td_ctx *cx, const char *dir);
void gpt2_vocab_free(gpt2_vocab *v);

/* The token of these bytes, or GPT2_NONE. */
int64_t          gpt2_vocab_find(const gpt2_vocab *v, const char *p, size_t n);
/* What two tokens become; NULL when they stay two. */
const gpt2_pair *gpt2_vocab_pair(const gpt2_vocab *v, uint32_t left, uint32_t right);

#endif
