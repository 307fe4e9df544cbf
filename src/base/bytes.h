/* base/bytes.h -- numbers and texts as bytes and back, for files of our own. Writing
 * appends to a td_buf. A read beyond the end, or of an invalid value, returns 0 and
 * makes the reader bad for all further reads. */
#ifndef TD_BYTES_H
#define TD_BYTES_H

#include "base/base.h"

void td__put_uint(td_buf *b, uint64_t u); /* seven bits a byte: small ones are short */
void td__put_int(td_buf *b, int64_t i);
void td__put_f64(td_buf *b, double f);
void td__put_text(td_buf *b, const char *s); /* NULL is not "" */

/* Reads bytes that may be anything. Check `bad` once, after the last read. */
typedef struct td_reader {
    const unsigned char *p, *end;
    bool                 bad; /* something was wrong, or there was no memory */
} td_reader;

td_reader   td__reader(const void *bytes, size_t n);
uint64_t    td__get_uint(td_reader *r);
int64_t     td__get_int(td_reader *r);
double      td__get_f64(td_reader *r);
bool        td__get_bool(td_reader *r);
int         td__get_below(td_reader *r, int below);             /* of td__put_uint */
int         td__get_within(td_reader *r, int least, int below); /* of td__put_int */
/* A count of items that follow, each at least one byte long: a count that the bytes
 * cannot hold is bad, so that no reader allocates for it. */
int         td__get_count(td_reader *r);
/* A text in the arena; NULL where NULL was written, and if bad. */
const char *td__get_text(td_reader *r, td_arena *a);
/* Memory for n items, zeroed; NULL: the reader is bad. */
void       *td__get_room(td_reader *r, td_arena *a, int n, size_t item);

#endif
