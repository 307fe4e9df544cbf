/* tandem/cache.h -- a store that several machines share, behind the cache on disk.
 *
 * TD_CACHE_REMOTE=redis://host:port/db uses a Redis server; td_cache_remote attaches
 * a store of the program's own to a context instead. A store gets and puts bytes by
 * name and may fail, lose values or return wrong ones: every value is verified before
 * use, and no failure fails a call. docs/cache.md has the threat model, what is stored
 * with and without a shared key (TD_CACHE_REMOTE_KEY), and the bounds on time. */
#ifndef TANDEM_CACHE_H
#define TANDEM_CACHE_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* No value is longer; longer ones are neither stored nor used. */
#define TD_CACHE_MOST_BYTES ((size_t)16 << 20)

typedef enum td_cache_answer {
    TD_CACHE_FAILED,  /* no answer: the store is left alone for a while */
    TD_CACHE_REFUSED, /* of put: the store takes no values now, but may be read */
    TD_CACHE_NONE,    /* of get: there is no such value */
    TD_CACHE_OK       /* found, or stored */
} td_cache_answer;

/* A value and its name, a text of at most 120 letters, digits, ':', '_' and '-'. */
typedef struct td_cache_item {
    const char *name  TD_0;
    const void *bytes TD_0;
    size_t n          TD_0;
} td_cache_item;

/* Receives the value that `get` found; `bytes` is copied. False: it is too long, or
 * memory is exhausted. */
typedef bool td_cache_take(void *to, const void *bytes, size_t n);

/* A store. The functions run on the thread of their context, inside a call of the
 * library, and must not use the context. `ms` is how long they may take; the library
 * cannot enforce it. */
typedef struct td_cache_store {
    const char *name TD_0; /* for messages; NULL: "store"; copied */
    void *env        TD_0;
    /* Finds the value `name` and passes it to take(to, bytes, n). */
    td_cache_answer (*get)(void *env, const char *name, int64_t ms, td_cache_take *take,
                           void *to) TD_0;
    /* Stores n values; those that were stored before a failure remain. */
    td_cache_answer (*put)(void *env, const td_cache_item *items, int n,
                           int64_t ms) TD_0;
    void (*close)(void *env) TD_0; /* may be NULL */
} td_cache_store;

/* Attaches a store to the context, in place of the setting cache_remote and of a store
 * attached before, which is closed. NULL: closes the attached store; the setting
 * holds again. The store is closed once: here, or by td_close. False after a failure,
 * when the caller still owns the store.
 *
 *   fails  TD_E_ARG  get or put is NULL
 *   since  0.1 */
TD_API bool td_cache_remote(td_ctx *cx, const td_cache_store *store);

#ifdef __cplusplus
}
#endif

#endif
