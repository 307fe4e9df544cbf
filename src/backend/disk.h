/* backend/disk.h -- the cache on disk: libraries of kernels (k_), found by the names of
 * the kernels in them, which say all that they are (unit.h); the steps of compiled
 * graphs (n_) and whole specializations (f_), found by what they were made of.
 *
 * A file of the cache is what it keeps with a footer behind it, which a loader of
 * libraries does not look at: what it was made of, as text, then a tail of fixed size
 * with a checksum of all. A library lies there under the name of each of its kernels,
 * by hard links.
 * Files appear complete, by rename, and are never changed; who is killed at any moment
 * leaves a file under another name, which is swept up later. docs/cache.md says why. */
#ifndef TD_DISK_H
#define TD_DISK_H

#include "core/core.h"

#include <sys/types.h>

/* The directory, opened by who uses it. */
typedef struct td_disk {
    td_ctx *cx;
    int     fd;        /* of the directory; -1: there is no cache */
    char    dir[1024]; /* "" where none is set */
} td_disk;

/* Finds the directory of the settings, and makes it where `make`. One that is not safe
 * is a warning, once, and then there is no cache. Needs td__disk_close either way. */
void td__disk_open(td_disk *d, td_ctx *cx, bool make);
void td__disk_close(td_disk *d);

/* The library that has `name` and was made of `key`, by dlopen; NULL: a miss, whose
 * reason is logged. Counts as a use. */
void *td__disk_load(td_disk *d, const char *name, const char *key);
/* Keeps the library at `path` under n names, and bounds the size of the cache. What
 * fails is a warning, once. */
void  td__disk_store(td_disk *d, const char *path, const char *key,
                     const char *const *names, int n);

/* A file that is kept, in memory. */
typedef struct td_disk_map {
    int         fd;
    size_t      n; /* bytes of the file */
    const char *bytes;
    size_t      kept; /* bytes before the footer */
} td_disk_map;

/* The file `name` that was made of `key`: NULL, or why there is none, which is not
 * logged. Counts as a use. Needs td__disk_unmap either way. */
const char *td__disk_map(td_disk *d, const char *name, const char *key, td_disk_map *m);
void        td__disk_unmap(td_disk_map *m);
/* Keeps bytes under one name; `note` is one more line behind the key. As
 * td__disk_store. */
void td__disk_keep(td_disk *d, const char *name, const char *key, const char *note,
                   const td_buf *bytes);

/* ---- looking at it (disk_files.c) --------------------------------------- */

typedef struct td_disk_file {
    char    name[64];
    ino_t   inode; /* files of one inode are one, under several names */
    dev_t   device;
    off_t   bytes;
    int64_t used; /* seconds since 1970 */
    bool    temp; /* left behind, or being written now */
} td_disk_file;

typedef TD_VEC(td_disk_file) td_disk_files;

/* All files of the cache, last used first. False: no memory, or it cannot be read. */
bool    td__disk_list(const td_disk *d, td_disk_files *list);
int64_t td__disk_bytes(const td_disk_files *list); /* each file once */
/* Is that file whole? *key gets the text of its footer where it is. False: why not. */
bool    td__disk_check(const td_disk *d, const char *name, td_buf *key, char *why,
                       size_t cap);
/* Removes least recently used files until `most` bytes are left, and what was left
 * behind unfinished over an hour ago. How many files went. */
int     td__disk_evict(const td_disk *d, int64_t most);
int     td__disk_clear(const td_disk *d); /* all of them */

#endif
