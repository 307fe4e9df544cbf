/* base/words.h -- lists of words in one string, separated by blanks: "auto on off". */
#ifndef TD_BASE_WORDS_H
#define TD_BASE_WORDS_H

#include <stddef.h>

/* The index in `words` of the word that consists of the first n characters of `word`;
 * -1: it is not in the list, or n is 0. */
int td__word_index(const char *words, const char *word, size_t n);

#endif
