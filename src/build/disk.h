/* build/disk.h -- the cache on disk: libraries of kernels (k_), found by the names of
 * the kernels in them, which are hashes of all that decides about their code (unit.h);
 * the steps of compiled graphs (n_) and whole specializations (f_), found by a hash of
 * what they were compiled from; compilers that were used (c_).
 *
 * A file of the cache is a payload followed by a footer: what it was compiled from, as
 * text, then a tail of fixed size with a message authentication code of everything
 * before it, under a secret that the cache directory holds. A library is in the
 * directory under the name of each of its kernels, by hard links.
 * Files appear complete, by rename, and are never changed. A process that is killed
 * leaves at most a file under a temporary name, which is removed later. docs/cache.md
 * says why, and what the cache trusts. */
#ifndef TD_DISK_H
#define TD_DISK_H

#include "core/core.h"

#include <sys/types.h>

/* ---- the directory (disk_dir.c) ----------------------------------------- */

/* The directory, opened for one use. All access goes through `fd`. */
typedef struct td_disk {
    td_ctx *cx;
    int     fd;        /* of the directory; -1: there is no cache */
    bool    signs;     /* `secret` is there */
    bool    bound;     /* the thread cannot be cancelled until it is closed */
    int     cancel;    /* ...and its state of cancellation before */
    char    dir[1024]; /* "" where none is set */
    uint8_t secret[TD_SECRET_BYTES];
} td_disk;

/* Opens the directory of the settings, and creates it and its secret where `make`. A
 * directory that another user could change is a warning, once, and then there is no
 * cache. Needs td__disk_close either way. */
void td__disk_open(td_disk *d, td_ctx *cx, bool make);
void td__disk_close(td_disk *d);
/* A warning, once in a process for each text: what, dir, why, what follows from it. */
void td__disk_warn(td_ctx *cx, const char *what, const char *dir, const char *why,
                   const char *then);
/* Can somebody else replace the open directory, or a file in it? NULL: only root and
 * this user can; else why not. Looks at the directory and at all its parents. */
const char *td__dir_danger(int fd);
/* Makes the next file call fail, when a test asked for it. */
bool        td__io_fault(void);
bool        td__write_all(int fd, const void *bytes, size_t n);
/* Reads exactly n bytes. */
bool        td__read_all(int fd, void *bytes, size_t n);
/* A name nobody else writes to, also on another machine that shares the directory. */
void        td__temp_name(char *out, size_t cap);

/* ---- libraries in memory (load_bytes.c) --------------------------------- */

/* Loads n bytes as a shared library: exactly these, whatever happens to files
 * meanwhile. `label` names it in memory maps. NULL: *why says it. */
void *td__load_bytes(td_ctx *cx, const char *label, const void *bytes, size_t n,
                     char *why, size_t cap);

/* ---- files (disk.c) ----------------------------------------------------- */

/* The library that has `name` and was compiled from `key`, loaded; NULL: a miss, whose
 * reason is logged. Counts as a use. */
void *td__disk_load(td_disk *d, const char *name, const char *key);
/* Stores a library under n names, and bounds the size of the cache. A failure is a
 * warning, once. */
void  td__disk_store(td_disk *d, const td_buf *library, const char *key,
                     const char *const *names, int n);

/* A file of the cache, read into memory and verified there. */
typedef struct td_disk_entry {
    int    fd;
    char  *bytes;   /* owned */
    size_t n;       /* of the file */
    size_t payload; /* bytes before the footer */
} td_disk_entry;

/* Reads the file `name` that was compiled from `key`: NULL, or why it cannot serve,
 * which is not logged. Counts as a use. Needs td__disk_entry_free either way. */
const char *td__disk_read(td_disk *d, const char *name, const char *key,
                          td_disk_entry *e);
void        td__disk_entry_free(td_disk_entry *e);
/* Stores bytes under one name; `note` is one more line of the footer. As
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
 * behind unfinished over an hour ago. How many files were removed. */
int     td__disk_evict(const td_disk *d, int64_t most);
/* Removes all of them, and the secret. How many files, without the secret. */
int     td__disk_clear(const td_disk *d);

#endif
