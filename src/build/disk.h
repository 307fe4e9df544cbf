/* build/disk.h -- the cache on disk. Entries: libraries of kernels (k_), found by the
 * names of their kernels, which are hashes of everything their code depends on
 * (unit.h); native code of graphs (n_) and whole specializations (f_), found by a
 * hash of their sources, like the code of users' backends (u_); compilers that were
 * used (c_).
 *
 * A file is a payload and a footer: what it was compiled from, as text, then a tail
 * of fixed size with a message authentication code (MAC) of everything before it,
 * under a secret in the cache directory. A library has one hard link per kernel in
 * it. Files appear complete, by rename, and are never changed. A killed process
 * leaves at most a temporary file, which is removed later. docs/cache.md gives the
 * reasons and what the cache trusts. */
#ifndef TD_DISK_H
#define TD_DISK_H

#include "core/core.h"
#include "core/files.h"

#include <sys/types.h>

/* ---- the directory (disk_dir.c) ----------------------------------------- */

/* The cache directory, opened for one use. All access goes through `fd`. */
typedef struct td_disk {
    td_ctx *cx;
    int     fd;        /* of the directory; -1: there is no cache */
    bool    signs;     /* `secret` is valid */
    bool    bound;     /* thread cancellation is disabled until td__disk_close */
    int     cancel;    /* the state of cancellation before */
    double  waited;    /* seconds spent on the remote store since td__disk_open */
    char    dir[1024]; /* "" if there is none */
    uint8_t secret[TD_SECRET_BYTES];
} td_disk;

/* Opens the directory of the settings; make: creates it and its secret if missing. If
 * another user could change the directory, warns once and opens nothing (fd is -1).
 * td__disk_close in any case. */
void td__disk_open(td_disk *d, td_ctx *cx, bool make);
void td__disk_close(td_disk *d);
/* Warns, once per process and text: "what dir: why; then". */
void td__disk_warn(td_ctx *cx, const char *what, const char *dir, const char *why,
                   const char *then);
/* NULL if only root and this user can replace the open directory or a file in it;
 * else the reason. Checks the directory and all its parents. */
const char *td__dir_danger(int fd);
bool        td__write_all(int fd, const void *bytes, size_t n);
/* Reads exactly n bytes. False: errno says why. */
bool        td__read_all(int fd, void *bytes, size_t n);
/* A unique file name, also among machines that share the directory. */
void        td__temp_name(char *out, size_t cap);

/* ---- libraries in memory (load_bytes.c) --------------------------------- */

/* Loads n bytes as a shared library: exactly these bytes, whatever happens to files.
 * `label` names it in memory maps. NULL: *why has the reason. */
void *td__load_bytes(td_ctx *cx, const char *label, const void *bytes, size_t n,
                     char *why, size_t cap);

/* ---- files (disk.c) ----------------------------------------------------- */

/* Loads the library that contains `name` and was compiled from `key`. NULL: a miss,
 * logged. Counts as a use. */
void *td__disk_load(td_disk *d, const char *name, const char *key);
/* Stores a library under n names and evicts old files. A failure is a warning, once. */
void  td__disk_store(td_disk *d, const td_buf *library, const char *key,
                     const char *const *names, int n);

/* A file of the cache, read into memory and verified. */
typedef struct td_disk_entry {
    int    fd;
    char  *bytes;   /* owned */
    size_t n;       /* size of the file */
    size_t payload; /* bytes before the footer */
} td_disk_entry;

/* Reads and verifies the file `name` compiled from `key`: NULL, or why it is
 * unusable, which is not logged. Counts as a use. td__disk_entry_free in any case. */
const char *td__disk_read(td_disk *d, const char *name, const char *key,
                          td_disk_entry *e);
void        td__disk_entry_free(td_disk_entry *e);
/* Stores bytes under one name; `note` is a further line of the footer. Failures as
 * for td__disk_store. */
void        td__disk_store_entry(td_disk *d, const char *name, const char *key,
                                 const char *note, const td_buf *bytes);

/* A file to be stored: its names, one unless they are kernels of a library. */
typedef struct td_disk_item {
    const char *const *name;
    int                n;
    const char        *note; /* the last line of its footer */
    const char        *bytes;
    size_t             size;
} td_disk_item;
/* Stores on this machine only. Failures as for td__disk_store. */
void td__disk_store_local(td_disk *d, const td_disk_item *item, const char *key);

/* ---- the remote cache (disk_remote.c) ------------------------------------- */

/* Stores the entry on the remote store, if there is one and its kind is shared. */
void td__disk_share(td_disk *d, const td_disk_item *item, const char *key);
/* Copies the entry from the remote store to the directory. False: it is not there. */
bool td__disk_fetch(td_disk *d, const char *name, const char *key);

/* ---- listing and evicting (disk_files.c) ---------------------------------- */

typedef struct td_disk_file {
    char    name[64];
    ino_t   inode; /* entries with one inode are one file with several names */
    dev_t   device;
    off_t   bytes;
    int64_t used; /* time of last use, seconds since 1970 */
    bool    temp; /* unfinished: being written, or abandoned */
} td_disk_file;

typedef TD_VEC(td_disk_file) td_disk_files;

/* All files of the cache, last used first. False: out of memory, or unreadable. */
bool    td__disk_list(const td_disk *d, td_disk_files *list);
int64_t td__disk_bytes(const td_disk_files *list); /* each inode counted once */
/* Is the file intact? *key gets the text of its footer; false: *why has the reason. */
bool    td__disk_check(const td_disk *d, const char *name, td_buf *key, char *why,
                       size_t cap);
/* Removes least recently used files until at most `most` bytes are left, and
 * unfinished files older than an hour. Returns the number of files removed. */
int     td__disk_evict(const td_disk *d, int64_t most);
/* Removes all files and the secret. Returns the number of files, without the secret. */
int     td__disk_clear(const td_disk *d);

#endif
