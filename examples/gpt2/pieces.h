/* pieces.h -- cutting a text into the pieces within which GPT-2's tokenizer merges. */
#ifndef GPT2_PIECES_H
#define GPT2_PIECES_H

#include <stddef.h>
#include <stdint.h>

/* The bytes of the character at p, at most n, which is not 0; *code is what it is.
 * A byte that belongs to no character of UTF-8 is one by itself, of no Unicode code. */
size_t gpt2_char(const char *p, size_t n, uint32_t *code);

/* The bytes of the first piece of a text of n, which is not 0: what the pattern
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * matches there. Bytes that are no UTF-8 count as characters of no class. */
size_t gpt2_piece(const char *p, size_t n);

#endif
