/* build/remote.h -- the remote cache: entries of the disk cache on a store that several
 * machines share. A value is a payload, a text (what the entry depends on, its name, a
 * note) and a tail with a signature. docs/cache.md describes what is stored and
 * trusted, and the bounds on time. */
#ifndef TD_REMOTE_H
#define TD_REMOTE_H

#include "build/disk.h"
#include "tandem/cache.h"

/* ---- signatures (remote_seal.c) ------------------------------------------- */

enum { TD_SEAL_LEAST = 32, TD_SEAL_MOST = 4096, TD_SEAL_MAC = 32 };

/* How values are signed. */
typedef struct td_seal {
    bool    keyed; /* HMAC-SHA256 under the key; else a checksum */
    char    id[20];
    uint8_t key[TD_SEAL_MOST];
    size_t  n;
} td_seal;

/* Reads the key file; "": no key. id becomes the key's fingerprint, or "plain". NULL,
 * or why the key cannot be used. */
const char *td__seal_open(td_seal *s, const char *path);
/* The signature of n bytes. */
void        td__seal_mac(const td_seal *s, const char *bytes, size_t n,
                         uint8_t out[TD_SEAL_MAC]);
/* Appends text and tail to the payload in b. False: out of memory. */
bool        td__seal_add(const td_seal *s, td_buf *b, const char *name, const char *key,
                         const char *note);

/* A verified value. */
typedef struct td_sealed {
    const char *payload, *note; /* note: the rest of the text, not terminated */
    size_t      n, n_note;
} td_sealed;

/* NULL if the bytes are the entry `name` made from `key`, else what is wrong. */
const char *td__seal_check(const td_seal *s, const char *bytes, size_t n,
                           const char *name, const char *key, td_sealed *to);

/* ---- the Redis client (redis.c) ------------------------------------------- */

/* Fills *to with a client of "redis://[user:password@]host[:port][/db]", which
 * connects when it is first used. label: the address without the password. *why: set
 * by requests that fail; valid as long as the client. NULL, or why the URL cannot be
 * used. */
const char *td__redis_open(const char *url, td_cache_store *to, char *label, size_t cap,
                           const char **why);

/* ---- the store of a context (remote.c) ------------------------------------ */

/* Reads entry `name` from the remote store, if there is one and entries of this kind
 * are shared, and verifies it. False: a miss, logged. *bytes owns what *v refers to;
 * td__buf_free in any case. */
bool td__remote_get(td_disk *d, const char *name, const char *key, td_buf *bytes,
                    td_sealed *v);

/* An entry to store: name, payload and note; all with the same key. */
typedef struct td_remote_item {
    const char *name, *note, *bytes;
    size_t      n;
} td_remote_item;
/* Stores entries in one request. Failures are logged. */
void td__remote_put(td_disk *d, const char *key, const td_remote_item *item, int n);

/* The state of the remote cache, for `tandem doctor` and `tandem cache`. Sends one
 * request. */
typedef struct td_remote_state {
    bool   on, reached, keyed;
    char   name[200]; /* of the store */
    char   id[20];    /* of the key */
    char   why[200];  /* why it is not reached */
    double ms;        /* time of a request, with connecting */
} td_remote_state;
void td__remote_state(td_ctx *cx, td_remote_state *to);
/* The state as one line: "redis://host:6379/0, reached in 0.3 ms, ...". */
void td__remote_text(const td_remote_state *s, char *out, size_t cap);

#endif
