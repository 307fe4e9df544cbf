/* core/store.h -- values in a store (tandem/store.h): a queue of jobs, which the
 * store's own thread does in order, and the stored values.
 *
 * A value is stored from a storage, which the queue references until the bytes are
 * read, and fetched into a new storage. The thread only reads and writes bytes: it
 * accesses no context and no reference count, so storages are released by threads of
 * the program, in their next call (reap). */
#ifndef TD_STORE_INT_H
#define TD_STORE_INT_H

#include "core/core.h"
#include "tandem/store.h"

typedef struct td_io_queue td_io_queue;
typedef struct td_stored   td_stored;  /* a value in a store */
typedef struct td_fetched  td_fetched; /* a value that is being fetched */

struct td_store {
    TD_OWNED_FIELDS;
    char         name[32];
    td_io_queue *q;
};

td_store *td__store_named(const td_ctx *cx, const char *name); /* NULL: none is open */
/* The open store of that name. NULL after td__fail. */
td_store *td__store_find(td_ctx *cx, const char *name);

/* store_memory.c, store_file.c. False after td__fail. */
td_store_io td__memory_io(void);
bool        td__file_io(td_ctx *cx, const char *folder, td_store_io *io);

/* ---- store_queue.c ------------------------------------------------------ */

/* Takes over *io. NULL: out of memory. */
td_io_queue   *td__queue_make(const td_store_io *io);
/* Drops the store's reference; values have references of their own. */
void           td__queue_drop(td_io_queue *q);
void           td__queue_limit(td_io_queue *q, size_t bytes);
/* Waits until every job is done. False: a value could not be stored; `why` has the
 * reason. */
bool           td__queue_flush(td_io_queue *q, char why[TD_STORE_WHY]);
td_store_stats td__queue_count(td_io_queue *q);

/* Starts to store n bytes of st, whose elements must not change until they are read;
 * now: waits for that. The caller gets one reference; NULL after td__fail. A value that
 * cannot be stored is reported when it is fetched. */
td_stored  *td__stored_make(td_ctx *cx, td_store *s, td_storage *st, const void *bytes,
                            size_t n, bool now);
void        td__stored_drop(td_stored *v);
/* A number that is unique in the process, at an address, because graphs read it as the
 * element of a tensor. */
int64_t    *td__stored_number(td_stored *v);
/* Starts to fetch it. NULL after td__fail. */
td_fetched *td__stored_fetch(td_ctx *cx, td_stored *v);
/* Waits for the bytes. The storage belongs to the caller; a second call fails. NULL
 * after td__fail. */
td_storage *td__fetched_take(td_ctx *cx, td_fetched *f);
void        td__fetched_drop(td_fetched *f);
int64_t    *td__fetched_number(td_fetched *f);

#endif
