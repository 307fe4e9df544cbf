/* store_file.c -- a store in one unnamed file, so that nothing is left on disk however
 * the process ends. Values are extents of the file; freed extents are reused, first
 * fit, and the file is truncated when it is empty. */
#include "core/files.h"
#include "core/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Bytes of the file, of a value or free. All extents of a file are in one list, ordered
 * by offset, without gaps. */
typedef struct extent {
    struct extent *prev, *next;
    uint64_t       at, n;
    uint32_t       file; /* the serial number of the file that it is in */
    bool           used;
} extent;

typedef struct file {
    char    *folder;
    int      fd;
    pid_t    owner; /* a forked child makes its own file */
    uint32_t serial;
    extent  *first; /* NULL: empty */
    uint64_t bytes; /* the end of the last extent */
} file;

static bool fail(const file *f, char *why, const char *what, const extent *e) {
    const char *reason = errno ? strerror(errno) : "the file ends early";
    snprintf(why, TD_STORE_WHY, "file in %.60s: %s %llu bytes at %llu: %.60s",
             f->folder, what, (unsigned long long)e->n, (unsigned long long)e->at,
             reason);
    return false;
}

/* ---- extents ---------------------------------------------------------------- */

static void unlink_extent(file *f, extent *e) {
    *(e->prev ? &e->prev->next : &f->first) = e->next;
    if (e->next) e->next->prev = e->prev;
    td__free(e);
}

/* A new extent behind `prev`. NULL: out of memory. */
static extent *insert(file *f, extent *prev, uint64_t at, uint64_t n) {
    extent *e = td__alloc(sizeof *e), *next = prev ? prev->next : f->first;
    if (!e) return NULL;
    *e = (extent){.prev = prev, .next = next, .at = at, .n = n, .file = f->serial};
    *(prev ? &prev->next : &f->first) = e;
    if (next) next->prev = e;
    return e;
}

/* An extent of n bytes: the first free one that is large enough, or the end of the
 * file. */
static extent *reserve(file *f, uint64_t n) {
    extent *last = NULL;
    for (extent *e = f->first; e; last = e, e = e->next) {
        if (e->used || e->n < n) continue;
        if (e->n > n && !insert(f, e, e->at + n, e->n - n)) return NULL;
        e->n = n;
        e->used = true;
        return e;
    }
    extent *e = insert(f, last, f->bytes, n);
    if (!e) return NULL;
    e->used = true;
    f->bytes += n;
    return e;
}

/* Frees an extent: joins it with free neighbours. An empty file is truncated. */
static void give_back(file *f, extent *e) {
    e->used = false;
    if (e->next && !e->next->used) {
        e->n += e->next->n;
        unlink_extent(f, e->next);
    }
    if (e->prev && !e->prev->used) {
        e = e->prev;
        e->n += e->next->n;
        unlink_extent(f, e->next);
    }
    if (e->next) return;
    f->bytes = e->at;
    unlink_extent(f, e);
    if (!f->first && ftruncate(f->fd, 0) != 0) return; /* it keeps its length */
}

/* ---- the file --------------------------------------------------------------- */

/* A file without a name in the folder; -1: none. */
static int make_file(const char *folder) {
    char path[4096];
    int  fd = -1;
    if (td__io_fault()) return -1;
#ifdef O_TMPFILE
    fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
#endif
    int n = snprintf(path, sizeof path, "%s/tandem-store-XXXXXX", folder);
    if (n < 0 || n >= (int)sizeof path) return errno = ENAMETOOLONG, -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) (void)unlink(path);
    return fd;
}

/* Parent and child of a fork would write the same offsets: the child gets another
 * file, and cannot read what is in the first. */
static bool own_file(file *f, char *why) {
    if (f->owner == getpid()) return true;
    int fd = make_file(f->folder);
    if (fd < 0) {
        snprintf(why, TD_STORE_WHY, "no file can be made in %.60s: %.60s", f->folder,
                 strerror(errno));
        return false;
    }
    for (extent *e = f->first, *next; e;
         e = next) { /* used ones are freed by their drop */
        next = e->next;
        if (!e->used) td__free(e);
    }
    f->first = NULL;
    close(f->fd);
    f->fd = fd;
    f->owner = getpid();
    f->serial++;
    f->bytes = 0;
    return true;
}

/* Moves all bytes, in as many system calls as needed. errno 0: the file ended early. */
static bool move(const file *f, const extent *e, char *to, const char *from) {
    for (size_t at = 0; at < e->n;) {
        errno = 0;
        if (td__io_fault()) return false;
        ssize_t n = to ? pread(f->fd, to + at, e->n - at, (off_t)(e->at + at))
                       : pwrite(f->fd, from + at, e->n - at, (off_t)(e->at + at));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

/* ---- the store -------------------------------------------------------------- */

static bool put(void *env, const void *bytes, size_t n, uint64_t *handle, char *why) {
    file *f = env;
    if (!own_file(f, why)) return false;
    extent *e = reserve(f, n);
    if (!e) {
        snprintf(why, TD_STORE_WHY, "file in %.60s: out of memory", f->folder);
        return false;
    }
    *handle = (uint64_t)(uintptr_t)e;
    if (move(f, e, NULL, bytes)) return true;
    fail(f, why, "writing", e);
    give_back(f, e);
    return false;
}

/* Is the extent in a file that this process made? */
static bool is_ours(const file *f, const extent *e) {
    return f->owner == getpid() && e->file == f->serial;
}

static bool get(void *env, uint64_t handle, void *to, size_t n, char *why) {
    const file   *f = env;
    const extent *e = (const extent *)(uintptr_t)handle;
    (void)n;
    if (is_ours(f, e)) return move(f, e, to, NULL) || fail(f, why, "reading", e);
    snprintf(why, TD_STORE_WHY,
             "file in %.60s: the value was stored before a fork; go backward in the "
             "process that went forward",
             f->folder);
    return false;
}

static void drop(void *env, uint64_t handle) {
    file   *f = env;
    extent *e = (extent *)(uintptr_t)handle;
    if (is_ours(f, e)) give_back(f, e);
    else if (e->file != f->serial) td__free(e); /* it is in no list */
}

static void close_file(void *env) {
    file *f = env;
    while (f->first) unlink_extent(f, f->first);
    if (f->fd >= 0) close(f->fd);
    td__free(f->folder);
    td__free(f);
}

bool td__file_io(td_ctx *cx, const char *folder, td_store_io *io) {
    file *f = td__zalloc(sizeof *f);
    if (f) f->fd = -1;
    if (!f || !(f->folder = td__strdup(folder))) {
        td__free(f);
        return td__fail_memory(cx);
    }
    f->owner = getpid();
    f->fd = make_file(folder);
    *io = (td_store_io){put, get, drop, close_file, f};
    if (f->fd >= 0) return true;
    td__fail(cx, TD_E_IO, "td_store_file: no file can be made in %.200s: %s", folder,
             strerror(errno));
    close_file(f);
    return false;
}
