/* disk.c -- the cache on disk: where it lies, loading from it after a check, storing.
 * Nothing here fails a call: what is not there is made. */
#include "backend/disk.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Says it once in a process for each text. */
static void warn_once(td_ctx *cx, const char *what, const char *dir, const char *why) {
    static _Atomic uint64_t told[8];
    char                    text[1400];
    snprintf(text, sizeof text, "cache: %s%.1024s: %.200s; compiled code is not kept",
             what, dir, why);
    uint64_t hash = td__hash(text, strlen(text), 1) | 1;
    for (int i = 0; i < TD_COUNT(told); i++) {
        uint64_t none = 0;
        if (atomic_load(&told[i]) == hash) return;
        if (atomic_compare_exchange_strong(&told[i], &none, hash)) break;
        if (none == hash) return;
    }
    td__warn(cx, "%s", text);
}

/* Tests make file calls fail in turn, like allocations. */
static bool io_fault(void) {
    if (!td__fault_now()) return false;
    errno = EIO;
    return true;
}

/* ---- the directory ------------------------------------------------------ */

/* False: no place is set, and none follows from the environment. */
static bool choose_dir(td_disk *d) {
    const char *said = td__config(d->cx)->cache_dir, *rest = "";
    if (!*said) said = getenv("XDG_CACHE_HOME"), rest = "/tandem";
    if (!said || *said != '/') {
        if (said && *said && !*rest) {
            warn_once(d->cx, "", said, "is not an absolute path");
            return false;
        }
        said = getenv("HOME"), rest = "/.cache/tandem";
    }
    if (!said || *said != '/') return false;
    int n = snprintf(d->dir, sizeof d->dir, "%s%s", said, rest);
    if (n > 0 && (size_t)n < sizeof d->dir) return true;
    *d->dir = 0;
    return false;
}

/* With all directories above it, for this user alone. */
static void make_dir(const char *dir) {
    char path[1024];
    snprintf(path, sizeof path, "%s", dir);
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            (void)mkdir(path, 0700);
            *p = '/';
        }
    (void)mkdir(path, 0700);
}

/* Code is run from it: nobody else may write there. */
static const char *danger(int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0) return strerror(errno);
    if (st.st_uid != geteuid()) return "belongs to another user";
    if (st.st_mode & (S_IWGRP | S_IWOTH)) return "can be written by others (chmod 700)";
    return NULL;
}

static bool open_dir(td_disk *d) {
    d->fd = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return d->fd >= 0;
}

void td__disk_open(td_disk *d, td_ctx *cx, bool make) {
    *d = (td_disk){.cx = cx, .fd = -1};
    if (td__config(cx)->cache_disk_mb == 0 || !choose_dir(d)) return;
    if (!open_dir(d) && make && errno == ENOENT) {
        make_dir(d->dir);
        (void)open_dir(d);
    }
    if (d->fd < 0) {
        if (make) warn_once(cx, "cannot open ", d->dir, strerror(errno));
        return;
    }
    const char *why = danger(d->fd);
    if (!why) return;
    warn_once(cx, "", d->dir, why);
    td__disk_close(d);
}

void td__disk_close(td_disk *d) {
    if (d->fd >= 0) close(d->fd);
    d->fd = -1;
}

/* ---- the footer --------------------------------------------------------- */

/* The end of a file. A change of layout is another magic. */
typedef struct tail {
    char     magic[8];
    uint64_t library, text; /* bytes */
    uint64_t hi, lo;        /* checksum of all before it, and of the fields above */
} tail;

static const char magic[8] = "TDcode1";

static td_hash128 checksum(const char *bytes, size_t n) {
    return td__hash128(bytes, n - 2 * sizeof(uint64_t));
}

/* Of a whole file in memory: NULL, or what is wrong with it. */
static const char *look_at(const char *bytes, size_t n, tail *t) {
    if (n < sizeof *t) return "is cut off";
    memcpy(t, bytes + n - sizeof *t, sizeof *t);
    if (memcmp(t->magic, magic, sizeof magic))
        return "is cut off, or of another version";
    if (t->library > n || t->text > n || t->library + t->text + sizeof *t != n)
        return "has another size than it says";
    td_hash128 h = checksum(bytes, n);
    return h.hi == t->hi && h.lo == t->lo ? NULL : "is damaged: its checksum is wrong";
}

/* ---- loading ------------------------------------------------------------ */

void td__disk_unmap(td_disk_map *m) {
    if (m->bytes) munmap((void *)(uintptr_t)m->bytes, m->n);
    if (m->fd >= 0) close(m->fd);
}

/* NULL, or why not. */
static const char *map_file(const td_disk *d, const char *name, td_disk_map *m) {
    struct stat st;
    *m = (td_disk_map){.fd = -1};
    if (!io_fault()) m->fd = openat(d->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (m->fd < 0) return errno == ENOENT ? "is not there" : strerror(errno);
    if (fstat(m->fd, &st) != 0) return strerror(errno);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid()) return "is not a file of ours";
    if (st.st_size == 0) return "is empty";
    m->n = (size_t)st.st_size;
    void *p =
        io_fault() ? MAP_FAILED : mmap(NULL, m->n, PROT_READ, MAP_PRIVATE, m->fd, 0);
    if (p == MAP_FAILED) return strerror(errno);
    m->bytes = p;
    return NULL;
}

bool td__disk_check(const td_disk *d, const char *name, td_buf *key, char *why,
                    size_t cap) {
    td_disk_map m;
    tail        t;
    const char *bad = map_file(d, name, &m);
    if (!bad) bad = look_at(m.bytes, m.n, &t);
    if (!bad) td__buf_addn(key, m.bytes + t.library, t.text);
    td__disk_unmap(&m);
    snprintf(why, cap, "%s", bad ? bad : "");
    return !bad;
}

/* NULL, or why the file cannot serve. The text of the footer begins with the key. */
static const char *verify(td_disk_map *m, const char *key) {
    tail        t;
    size_t      n = strlen(key);
    const char *bad = look_at(m->bytes, m->n, &t);
    if (bad) return bad;
    if (t.text < n || memcmp(m->bytes + t.library, key, n))
        return "was made by another compiler or version";
    m->kept = t.library;
    return NULL;
}

static const char *find(const td_disk *d, const char *name, const char *key,
                        td_disk_map *m) {
    const char *bad = map_file(d, name, m);
    return bad ? bad : verify(m, key);
}

const char *td__disk_map(td_disk *d, const char *name, const char *key,
                         td_disk_map *m) {
    *m = (td_disk_map){.fd = -1};
    if (d->fd < 0) return "there is no cache";
    const char *bad = find(d, name, key, m);
    if (!bad) (void)futimens(m->fd, NULL); /* used just now */
    return bad;
}

void *td__disk_load(td_disk *d, const char *name, const char *key) {
    char        path[1200];
    td_disk_map m;
    void       *lib = NULL;
    if (d->fd < 0) return NULL;
    const char *bad = find(d, name, key, &m);
    if (!bad) {
        snprintf(path, sizeof path, "%s/%s", d->dir, name);
        lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (lib) (void)futimens(m.fd, NULL); /* used just now */
        else bad = dlerror();
    }
    if (bad) td__log(d->cx, TD_LOG_cache, "miss: %s %.300s", name, bad);
    td__disk_unmap(&m);
    return lib;
}

/* ---- storing ------------------------------------------------------------ */

static bool write_all(int fd, const char *p, size_t n) {
    while (n > 0) {
        ssize_t done = io_fault() ? -1 : write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* Appends a whole file; false: it cannot be read. */
static bool add_file(td_buf *b, const char *path) {
    char  some[8192];
    FILE *f = fopen(path, "re");
    if (!f) return false;
    for (size_t got; (got = fread(some, 1, sizeof some, f)) > 0;)
        td__buf_addn(b, some, got);
    bool ok = !ferror(f);
    fclose(f);
    return ok;
}

/* The footer behind what is kept; false: no memory. */
static bool add_footer(td_buf *b, const char *key, const char *note) {
    tail t = {0};
    memcpy(t.magic, magic, sizeof magic);
    t.library = b->n;
    td__buf_add(b, key);
    td__buf_add(b, note);
    td__buf_add(b, "\n");
    t.text = b->n - t.library;
    td__buf_addn(b, (const char *)&t, sizeof t);
    if (b->failed) return false;
    td_hash128 h = checksum(b->s, b->n);
    t.hi = h.hi, t.lo = h.lo;
    memcpy(b->s + b->n - sizeof t, &t, sizeof t);
    return true;
}

/* A name nobody else writes to, also on another machine that shares the directory. */
static void temp_name(char *out, size_t cap) {
    static _Atomic unsigned counter;
    struct timespec         now;
    unsigned nr = atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(out, cap, "tmp-%ld-%u-%lx%08lx", (long)getpid(), nr, (long)now.tv_sec,
             now.tv_nsec);
}

/* Puts the file `temp` under each name as well. A name that is taken is replaced. Not
 * flushed: what a crash of the machine cuts off is a miss, as its checksum tells. */
static bool link_names(const td_disk *d, const char *temp, const char *const *names,
                       int n) {
    char one[64];
    for (int i = 0; i < n; i++) {
        temp_name(one, sizeof one);
        if (io_fault() || linkat(d->fd, temp, d->fd, one, 0) != 0) return false;
        if (!io_fault() && renameat(d->fd, one, d->fd, names[i]) == 0) continue;
        int why = errno;
        unlinkat(d->fd, one, 0);
        errno = why;
        return false;
    }
    return true;
}

static bool put(const td_disk *d, const td_buf *b, const char *const *names, int n) {
    char temp[64];
    temp_name(temp, sizeof temp);
    int how = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    int fd = io_fault() ? -1 : openat(d->fd, temp, how, 0600);
    if (fd < 0) return false;
    bool ok = write_all(fd, b->s, b->n);
    int  why = errno;
    if (close(fd) != 0 && ok) ok = false, why = errno;
    if (ok) ok = link_names(d, temp, names, n), why = errno;
    unlinkat(d->fd, temp, 0);
    errno = why;
    return ok;
}

/* Looks at the whole directory now and then only: at first, and after what this
 * process has stored since could matter. */
static void bound(const td_disk *d, size_t stored) {
    static _Atomic int64_t since = INT64_MAX / 2;
    int64_t                most = td__config(d->cx)->cache_disk_mb * 1048576;
    int64_t now = atomic_fetch_add(&since, (int64_t)stored) + (int64_t)stored;
    if (now < most / 16) return;
    atomic_store(&since, 0);
    int gone = td__disk_evict(d, most);
    if (gone)
        td__log(d->cx, TD_LOG_cache, "%d files were not used for long and went", gone);
}

/* False: nothing was stored, which is a warning. */
static bool store(td_disk *d, const td_buf *b, const char *const *names, int n) {
    if (put(d, b, names, n)) return bound(d, b->n), true;
    warn_once(d->cx, "cannot write in ", d->dir, strerror(errno));
    return false;
}

void td__disk_store(td_disk *d, const char *path, const char *key,
                    const char *const *names, int n) {
    td_buf b = {0}, note = {0};
    if (d->fd < 0) return;
    td__buf_add(&note, "kernels");
    for (int i = 0; i < n; i++) td__buf_printf(&note, " %s", names[i]);
    bool ok = !note.failed && add_file(&b, path) && add_footer(&b, key, note.s) &&
              store(d, &b, names, n);
    if (ok)
        td__log(d->cx, TD_LOG_cache, "stored %d kernel%s, %zu bytes", n,
                n == 1 ? "" : "s", b.n);
    td__buf_free(&b);
    td__buf_free(&note);
}

void td__disk_keep(td_disk *d, const char *name, const char *key, const char *note,
                   const td_buf *bytes) {
    td_buf b = {0};
    if (d->fd < 0 || !bytes->n) return;
    td__buf_addn(&b, bytes->s, bytes->n);
    if (add_footer(&b, key, note) && store(d, &b, &name, 1))
        td__log(d->cx, TD_LOG_cache, "stored %s, %zu bytes", name, b.n);
    td__buf_free(&b);
}
