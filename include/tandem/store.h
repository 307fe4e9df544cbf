/* tandem/store.h -- stores: where values that forward saves for backward may be in
 * between (td_aot_opts.offload), so that they take no tensor memory there.
 *
 *     td_store   *disk = td_store_file(cx, "disk", "/scratch");
 *     td_aot_opts o = {TD_AOT_OPTS, .offload = {.store = disk}};
 *     td_fn      *f = td_aot_module(net, &o);
 *
 * A store works on a thread of its own: forward starts to store a value and goes on;
 * backward asks for it ahead of its first reader. docs/offload.md has the contract. */
#ifndef TANDEM_STORE_H
#define TANDEM_STORE_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_store td_store;

enum { TD_STORE_WHY = 200 }; /* room for a reason, its end included */

/* How a store of the program's own works. All functions run on the store's thread, one
 * at a time and in the order of the calls, and must not use a context. A function that
 * returns false has written why, at most TD_STORE_WHY bytes, and the value is lost.
 *
 *   put   stores n bytes and sets *handle, which names them from here on
 *   get   copies the n bytes of `handle` to `to`
 *   drop  forgets `handle`; it is not named again
 *   close frees env, after the last of the others; may be NULL */
typedef struct td_store_io {
    bool (*put)(void *env, const void *bytes, size_t n, uint64_t *handle,
                char *why) TD_0;
    bool (*get)(void *env, uint64_t handle, void *to, size_t n, char *why) TD_0;
    void (*drop)(void *env, uint64_t handle) TD_0;
    void (*close)(void *env) TD_0;
    void *env TD_0;
} td_store_io;

/* Opens a store. Its name stands for it in graphs and in the cache on disk: a letter,
 * then letters, digits, '_' and '-', at most 30 in all; no other open store of the
 * context has it.
 *
 *   returns  nil after a failure, when the caller still owns io->env
 *   owns     the caller, until td_store_close or td_close, in any order
 *   fails    TD_E_ARG  the name is none or taken; put, get or drop is NULL
 *   since    0.1 */
TD_API td_store *td_store_open(td_ctx *cx, const char *name, const td_store_io *io);
/* A store in ordinary memory, which td_memory_live does not count. For tests, and for
 * memory of another kind as an example.
 *
 *   since  0.1 */
TD_API td_store *td_store_memory(td_ctx *cx, const char *name);
/* A store in one file in `folder`, which has no name there: it is gone with the store
 * or the process, however that ends.
 *
 *   fails  TD_E_IO  no file can be made in the folder
 *   since  0.1 */
TD_API td_store *td_store_file(td_ctx *cx, const char *name, const char *folder);
/* Values that are in it stay until the history that saved them is gone; compiled
 * functions that offload to it fail from here on. NULL is allowed. */
TD_API void      td_store_close(td_store *s);

/* At most so many bytes wait to be stored; a call that stores more waits. 0: each value
 * is stored before the call goes on. The default is 64 MiB. */
TD_API bool td_store_limit(td_store *s, size_t bytes);
/* Waits until the store has everything that it was given, whose memory is then free.
 * False after td_fail: it could not store a value; backward reports which. */
TD_API bool td_store_flush(td_store *s);

/* What a store has done so far. */
typedef struct td_store_stats {
    int64_t puts, gets;    /* values stored, values fetched */
    int64_t values, bytes; /* there now */
} td_store_stats;
TD_API td_store_stats td_store_count(const td_store *s);

#ifdef __cplusplus
}
#endif

#endif
