/* tokenizer.h -- GPT-2's tokenizer: bytes to tokens and back, by its two files. */
#ifndef GPT2_TOKENIZER_H
#define GPT2_TOKENIZER_H

#include <tandem/tandem.h>

typedef struct gpt2_tokenizer gpt2_tokenizer;

/* Reads vocab.json and merges.txt below dir, or encoder.json and vocab.bpe, the names
 * of the first release. NULL after a failure, of which td_message tells. */
gpt2_tokenizer *gpt2_tokenizer_open(td_ctx *cx, const char *dir);
void            gpt2_tokenizer_close(gpt2_tokenizer *t); /* NULL is fine */
int64_t         gpt2_tokenizer_count(const gpt2_tokenizer *t);

/* Appends the tokens of n bytes to `to`. Any bytes will do; what is no UTF-8 is
 * kept as it is. "<|endoftext|>" is the token of that name if there is one. */
typedef struct gpt2_tokens {
    uint32_t *v; /* the caller's to free */
    size_t    n, cap;
} gpt2_tokens;
bool gpt2_encode(gpt2_tokenizer *t, const char *text, size_t n, gpt2_tokens *to);

/* The bytes of a token, *n of them; none for one that there is not. */
const char *gpt2_decode(const gpt2_tokenizer *t, int64_t token, size_t *n);

#endif
