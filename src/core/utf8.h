/* core/utf8.h -- text from outside may contain any bytes; text that the library writes
 * is UTF-8. */
#ifndef TD_UTF8_H
#define TD_UTF8_H

#include "base/base.h"

/* Length of the UTF-8 sequence at p, 0 when there is none. */
int  td__utf8_length(const uint8_t *p, const uint8_t *end);
/* The same of a string that ends with NUL; of "" too it is 0. */
int  td__utf8_step(const char *s);
/* Appends s, with \xHH for each byte that is not part of UTF-8. */
void td__utf8_add(td_buf *b, const char *s);

#endif
