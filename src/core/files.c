/* files.c -- maps files for reading, and writes files so that they appear
 * complete or not at all: to a temporary file in the same directory, flushed,
 * then renamed. Devices and pipes are written directly, because a rename would
 * replace them. */
#include "core/files.h"
#include "core/device.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the file formats need memory in little-endian byte order"
#endif

bool td__io_fault(void) {
    if (!td__fault_now()) return false;
    errno = EIO;
    return true;
}

/* ---- mapping ------------------------------------------------------------ */

static td_mapping *make_mapping(td_ctx *cx, const void *bytes, size_t n, bool mapped) {
    td_mapping *m = td__alloc(sizeof *m);
    if (!m) {
        td__fail_memory(cx);
        return NULL;
    }
    *m = (td_mapping){.bytes = bytes, .n = n, .mapped = mapped};
    atomic_init(&m->refs, 1);
    return m;
}

/* Maps an open file. *why is a reason other than errno. FIFOs and devices are refused
 * before anything is read from them. */
static bool map_fd(int fd, void **bytes, size_t *n, const char **why) {
    struct stat st;
    *why = NULL;
    if (td__io_fault() || fstat(fd, &st) != 0) return false;
    if (!S_ISREG(st.st_mode)) {
        *why = "is not a regular file";
        return false;
    }
    if (st.st_size == 0) {
        *why = "is empty";
        return false;
    }
    *n = (size_t)st.st_size;
    *bytes = mmap(NULL, *n, PROT_READ, MAP_PRIVATE, fd, 0);
    return *bytes != MAP_FAILED;
}

bool td__may_read_file(td_ctx *cx, const char *who) {
    return td__may_read(cx, who, "a file");
}

/* The file may be closed and even unlinked afterwards. O_NONBLOCK: opening a FIFO must
 * not wait. */
td_mapping *td__mapping_open(td_ctx *cx, const char *who, const char *path) {
    void       *bytes = NULL;
    size_t      n = 0;
    const char *why = NULL;
    if (!td__has(cx, who, "the path", path) || !td__may_read_file(cx, who)) return NULL;
    int  fd = td__io_fault() ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool ok = fd >= 0 && map_fd(fd, &bytes, &n, &why);
    if (!ok)
        td__fail(cx, TD_E_IO, "%s: %s: %s", who, path, why ? why : strerror(errno));
    if (fd >= 0) close(fd);
    if (!ok) return NULL;
    td_mapping *m = make_mapping(cx, bytes, n, true);
    if (!m) munmap(bytes, n);
    return m;
}

td_mapping *td__mapping_over(td_ctx *cx, const void *bytes, size_t n) {
    return make_mapping(cx, bytes, n, false);
}

void td__mapping_drop(td_mapping *m) {
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) return;
    if (m->mapped) munmap((void *)(uintptr_t)m->bytes, m->n);
    td__free(m);
}

static void release(void *env) { td__mapping_drop(env); }

static td_tensor *copied(td_ctx *cx, const uint8_t *from, size_t n,
                         const td_meta *meta) {
    td_tensor *t = td__tensor_make(cx, meta, false);
    if (t && n) memcpy(t->st->data, from, n);
    return t;
}

/* A read-only tensor over the mapped bytes, which references the mapping; a copy if
 * they are not aligned for the dtype. */
td_tensor *td__mapping_tensor(td_ctx *cx, td_mapping *m, size_t at,
                              const td_meta *meta) {
    const uint8_t *from = m->bytes + at;
    size_t         item = td__dtype_bytes[meta->dtype];
    size_t         n = (size_t)td__numel(meta->rank, meta->size) * item;
    if (n == 0 || (uintptr_t)from % item) return copied(cx, from, n, meta);
    td_storage *st = td__storage_wrap((void *)(uintptr_t)from, n, release, m);
    if (!st) {
        td__fail_memory(cx);
        return NULL;
    }
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    st->readonly = true;
    td_tensor *t = td__tensor_over(cx, st, meta);
    td__storage_drop(st);
    return t;
}

int64_t td__mapping_bad_bool(const td_mapping *m, size_t at, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (m->bytes[at + (size_t)i] > 1) return i;
    return -1;
}

/* ---- writing ------------------------------------------------------------ */

/* Closes the file and frees the names. */
static void end_out(td_out *o) {
    if (o->fd >= 0) close(o->fd);
    td__free(o->temp);
    td__free(o->target);
    o->fd = -1;
    o->temp = o->target = NULL;
}

/* Records errno as an error and removes the temporary file. Returns false. */
static bool give_up(td_out *o, const char *what) {
    td__fail(o->cx, TD_E_IO, "%s: %s: %s: %s", o->who, o->path, what, strerror(errno));
    if (o->temp) unlink(o->temp);
    end_out(o);
    return false;
}

/* Opens a temporary file under a name that no other writer uses. */
static bool open_temp(td_out *o) {
    static _Atomic unsigned counter;
    size_t                  cap = strlen(o->target) + 48;
    if (!(o->temp = td__alloc(cap))) {
        end_out(o);
        return td__fail_memory(o->cx);
    }
    for (int tries = 0; tries < 100 && o->fd < 0; tries++) {
        unsigned nr = atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
        snprintf(o->temp, cap, "%s.%ld-%u.tmp", o->target, (long)getpid(), nr);
        o->fd = td__io_fault()
                    ? -1
                    : open(o->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (o->fd < 0 && errno != EEXIST) break;
    }
    if (o->fd >= 0) return true;
    int why = errno;
    td__free(o->temp);
    o->temp = NULL;
    errno = why;
    return give_up(o, "cannot create a file beside it");
}

/* For a device, pipe or socket. Opening a pipe waits for its reader. */
static bool open_direct(td_out *o) {
    o->fd = td__io_fault() ? -1 : open(o->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return o->fd >= 0 || give_up(o, "cannot open");
}

/* The name the file gets. If path is a symbolic link, the file it points to is
 * replaced and the link stays. */
static bool find_target(td_out *o) {
    char        real[PATH_MAX];
    struct stat st;
    const char *name = o->path;
    if (lstat(o->path, &st) == 0 && S_ISLNK(st.st_mode)) {
        if (!realpath(o->path, real))
            return give_up(o, "cannot follow the symbolic link; create the file it "
                              "leads to, or remove the link");
        name = real;
    }
    size_t n = strlen(name) + 1;
    if (!(o->target = td__alloc(n))) return td__fail_memory(o->cx);
    memcpy(o->target, name, n);
    return true;
}

/* Regular files are written under a temporary name and renamed at the end: a reader
 * sees the old file or the complete new one. Devices and pipes are written directly. */
bool td__out_open(td_out *o, td_ctx *cx, const char *who, const char *path) {
    struct stat st;
    *o = (td_out){.cx = cx, .who = who, .path = path, .fd = -1};
    if (!td__has(cx, who, "the path", path) || !td__may_change(cx, who, "a file"))
        return false;
    bool exists = stat(path, &st) == 0;
    if (exists && !S_ISREG(st.st_mode)) return open_direct(o);
    return find_target(o) && open_temp(o);
}

bool td__out_write(td_out *o, const void *p, size_t n) {
    const char *at = p;
    while (n > 0) {
        size_t  some = n < ((size_t)1 << 30) ? n : (size_t)1 << 30;
        ssize_t done = td__io_fault() ? -1 : write(o->fd, at, some);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return give_up(o, "cannot write");
        at += done;
        n -= (size_t)done;
    }
    return true;
}

#define GATHER 65536 /* bytes */

/* Moves p to the next element in row-major order. */
static char *next_element(const td_tensor *t, int64_t *where, char *p) {
    int64_t item = td__dtype_bytes[t->dtype];
    for (int d = t->rank - 1; d >= 0; d--) {
        p += t->stride[d] * item;
        if (++where[d] < t->size[d]) return p;
        p -= t->size[d] * t->stride[d] * item;
        where[d] = 0;
    }
    return p;
}

/* A strided tensor goes through a buffer. */
static bool write_strided(td_out *o, const td_tensor *t) {
    size_t  item = td__dtype_bytes[t->dtype], used = 0;
    int64_t where[TD_MAX_RANK] = {0};
    char   *buf = td__alloc(GATHER), *p = td__ptr(t);
    bool    ok = true;
    if (!buf) {
        td__fail_memory(o->cx);
        errno = ENOMEM;
        return give_up(o, "cannot write");
    }
    for (int64_t i = 0; i < t->numel && ok; i++) {
        memcpy(buf + used, p, item);
        used += item;
        p = next_element(t, where, p);
        if (used + item <= GATHER && i < t->numel - 1) continue;
        ok = td__out_write(o, buf, used);
        used = 0;
    }
    td__free(buf);
    return ok;
}

/* Elements of another device are written from a copy on the host. */
static bool write_from_device(td_out *o, const td_tensor *t) {
    td_ctx    *cx = t->cx;
    bool       open = td__scope_push(cx);
    td_tensor *host = open ? td__on_host((td_tensor *)(uintptr_t)t) : NULL;
    bool       ok = host && td__out_tensor(o, host);
    if (open) td__scope_pop(cx, NULL, 0);
    if (host) return ok;
    errno = EIO;
    return give_up(o, "cannot write");
}

bool td__out_tensor(td_out *o, const td_tensor *t) {
    if (t->numel == 0) return true;
    if (TD_UNLIKELY(t->st->device)) return write_from_device(o, t);
    if (!td_is_contiguous(t)) return write_strided(o, t);
    return td__out_write(o, td__ptr(t), (size_t)t->numel * td__dtype_bytes[t->dtype]);
}

/* Makes the rename durable. Some file systems cannot flush directories; the
 * file is complete nevertheless. */
static void flush_directory(td_out *o) {
    char *slash = strrchr(o->temp, '/');
    if (slash) slash[slash == o->temp] = 0;
    int fd = open(slash ? o->temp : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

/* Flushes, renames and flushes the directory, so that a crash leaves the old file or
 * the new one. */
bool td__out_finish(td_out *o) {
    /* only regular files are flushed */
    if (td__io_fault() || (fsync(o->fd) != 0 && o->temp))
        return give_up(o, "cannot flush");
    int bad = close(o->fd);
    o->fd = -1;
    if (bad) return give_up(o, "cannot close");
    if (o->temp && (td__io_fault() || rename(o->temp, o->target) != 0))
        return give_up(o, "cannot put it in place");
    if (o->temp) flush_directory(o);
    end_out(o);
    return true;
}
