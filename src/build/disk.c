/* disk.c -- reads, verifies, loads and stores the files of the cache. A file is read
 * into memory once, and everything after that uses those bytes. Nothing here fails a
 * call: a miss compiles. */
#include "build/disk.h"
#include "build/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the footer --------------------------------------------------------- */

/* The end of a file. Another layout gets another magic. */
typedef struct tail {
    char     magic[8];
    uint64_t payload, text; /* bytes */
    uint64_t hi, lo;        /* MAC of everything before them */
} tail;

static const char magic[8] = "TDcode3";

static td_hash128 sign(const td_disk *d, const char *bytes, size_t n) {
    return td__mac128(d->secret, bytes, n - 2 * sizeof(uint64_t));
}

/* Verifies a whole file in memory: NULL, or what is wrong. */
static const char *check_file(const td_disk *d, const char *bytes, size_t n, tail *t) {
    if (n < sizeof *t) return "is truncated";
    memcpy(t, bytes + n - sizeof *t, sizeof *t);
    if (memcmp(t->magic, magic, sizeof magic))
        return "is truncated, or of another version";
    if (t->payload > n || t->text > n || t->payload + t->text + sizeof *t != n)
        return "has another size than its footer says";
    if (!d->signs) return "cannot be checked: the secret of the cache is missing";
    td_hash128 h = sign(d, bytes, n);
    return h.hi == t->hi && h.lo == t->lo
               ? NULL
               : "is damaged, or was not written by this cache: its checksum is wrong";
}

/* ---- reading ------------------------------------------------------------ */

void td__disk_entry_free(td_disk_entry *e) {
    td__free(e->bytes);
    if (e->fd >= 0) close(e->fd);
    *e = (td_disk_entry){.fd = -1};
}

/* Opens a regular file of this user: NULL, or why not. Pipes, devices and links are
 * misses, and opening them does not block. */
static const char *open_file(const td_disk *d, const char *name, td_disk_entry *e) {
    struct stat st;
    int64_t     most = td__config(d->cx)->cache_disk_mb * 1048576;
    const int   how = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    *e = (td_disk_entry){.fd = -1};
    if (!td__io_fault()) e->fd = openat(d->fd, name, how);
    if (e->fd < 0) return errno == ENOENT ? "is not there" : strerror(errno);
    if (fstat(e->fd, &st) != 0) return strerror(errno);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return "is not a regular file of this user";
    if (st.st_mode & (S_IWGRP | S_IWOTH)) return "can be written by others";
    if (st.st_size == 0) return "is empty";
    if (st.st_size > most) return "is larger than the whole cache may be";
    e->n = (size_t)st.st_size;
    return NULL;
}

static const char *read_file(const td_disk *d, const char *name, td_disk_entry *e) {
    const char *bad = open_file(d, name, e);
    if (bad) return bad;
    if (!(e->bytes = td__alloc(e->n))) return "does not fit in memory";
    return td__read_all(e->fd, e->bytes, e->n) ? NULL : strerror(errno);
}

bool td__disk_check(const td_disk *d, const char *name, td_buf *key, char *why,
                    size_t cap) {
    td_disk_entry e;
    tail          t = {0};
    const char   *bad = read_file(d, name, &e);
    if (!bad) bad = check_file(d, e.bytes, e.n, &t);
    if (!bad) td__buf_addn(key, e.bytes + t.payload, t.text);
    td__disk_entry_free(&e);
    snprintf(why, cap, "%s", bad ? bad : "");
    return !bad;
}

/* If the text begins with `line`, moves past it. */
static bool skip_text(const char **at, size_t *left, const char *line) {
    size_t n = strlen(line);
    if (*left < n || memcmp(*at, line, n)) return false;
    *at += n;
    *left -= n;
    return true;
}

/* Is the file intact, and compiled from `key`? Its text begins with the key, then,
 * except for libraries, its name: a file copied to another name is rejected. A
 * library's symbols have its kernels' names. NULL, or why it is unusable. */
static const char *verify(const td_disk *d, td_disk_entry *e, const char *name,
                          const char *key) {
    tail        t;
    char        line[80];
    const char *bad = check_file(d, e->bytes, e->n, &t);
    if (bad) return bad;
    const char *at = e->bytes + t.payload;
    size_t      left = t.text;
    snprintf(line, sizeof line, "entry %.64s\n", name);
    if (!skip_text(&at, &left, key)) return "was made by another compiler or version";
    if (name[0] != 'k' && !skip_text(&at, &left, line)) return "has another name";
    e->payload = t.payload;
    return NULL;
}

/* Reads and verifies a file; fetches it from the remote cache first if it is missing
 * or unusable. */
static const char *read_entry(td_disk *d, const char *name, const char *key,
                              td_disk_entry *e) {
    const char *bad = read_file(d, name, e);
    if (!bad) bad = verify(d, e, name, key);
    if (!bad || !td__disk_fetch(d, name, key)) return bad;
    td__disk_entry_free(e);
    bad = read_file(d, name, e);
    return bad ? bad : verify(d, e, name, key);
}

const char *td__disk_read(td_disk *d, const char *name, const char *key,
                          td_disk_entry *e) {
    *e = (td_disk_entry){.fd = -1};
    if (d->fd < 0) return "there is no cache";
    const char *bad = read_entry(d, name, key, e);
    if (!bad) (void)futimens(e->fd, NULL); /* for eviction by last use */
    return bad;
}

void *td__disk_load(td_disk *d, const char *name, const char *key) {
    char          why[300];
    td_disk_entry e;
    void         *lib = NULL;
    if (d->fd < 0) return NULL;
    const char *bad = td__disk_read(d, name, key, &e);
    if (!bad) {
        lib = td__load_bytes(d->cx, name, e.bytes, e.payload, why, sizeof why);
        if (!lib) {
            bad = why;
            td__disk_warn(d->cx, "cannot load code from ", d->dir, why,
                          "kernels are compiled in every process");
        }
    }
    if (bad) td__log(d->cx, TD_LOG_cache, "miss: %s %.300s", name, bad);
    td__disk_entry_free(&e);
    return lib;
}

/* ---- storing ------------------------------------------------------------ */

/* Appends the footer to the payload. False: out of memory. */
static bool add_footer(const td_disk *d, td_buf *b, const char *key, const char *note) {
    tail t = {0};
    memcpy(t.magic, magic, sizeof magic);
    t.payload = b->n;
    td__buf_add(b, key);
    td__buf_add(b, note);
    td__buf_add(b, "\n");
    t.text = b->n - t.payload;
    td__buf_addn(b, (const char *)&t, sizeof t);
    if (b->failed) return false;
    td_hash128 h = sign(d, b->s, b->n);
    t.hi = h.hi, t.lo = h.lo;
    memcpy(b->s + b->n - sizeof t, &t, sizeof t);
    return true;
}

/* Links the file `temp` to each name; existing names are replaced. Not flushed to
 * disk: a file that a crash truncates fails its MAC and is a miss. */
static bool link_names(const td_disk *d, const char *temp, const char *const *names,
                       int n) {
    char one[64];
    for (int i = 0; i < n; i++) {
        td__temp_name(one, sizeof one);
        if (td__io_fault() || linkat(d->fd, temp, d->fd, one, 0) != 0) return false;
        if (!td__io_fault() && renameat(d->fd, one, d->fd, names[i]) == 0) continue;
        int why = errno;
        unlinkat(d->fd, one, 0);
        errno = why;
        return false;
    }
    return true;
}

/* Writes a temporary file and links it to its names. False: errno says why. */
static bool put(const td_disk *d, const td_buf *b, const char *const *names, int n) {
    char temp[64];
    td__temp_name(temp, sizeof temp);
    int how = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    int fd = td__io_fault() ? -1 : openat(d->fd, temp, how, 0600);
    if (fd < 0) return false;
    bool ok = td__write_all(fd, b->s, b->n);
    int  why = errno;
    if (close(fd) != 0 && ok) ok = false, why = errno;
    if (ok) ok = link_names(d, temp, names, n), why = errno;
    unlinkat(d->fd, temp, 0);
    errno = why;
    return ok;
}

/* Evicts old files. Scans the directory only at first, and again after this process
 * has stored a sixteenth of the limit. */
static void bound(const td_disk *d, size_t stored) {
    static _Atomic int64_t since = INT64_MAX / 2;
    int64_t                most = td__config(d->cx)->cache_disk_mb * 1048576;
    int64_t now = atomic_fetch_add(&since, (int64_t)stored) + (int64_t)stored;
    if (now < most / 16) return;
    atomic_store(&since, 0);
    int removed = td__disk_evict(d, most);
    if (removed)
        td__log(d->cx, TD_LOG_cache, "evicted %d files, least recently used first",
                removed);
}

/* Stores a file; a failure is a warning. */
static bool store(td_disk *d, const td_buf *b, const char *const *names, int n) {
    if (put(d, b, names, n)) return bound(d, b->n), true;
    td__disk_warn(d->cx, "cannot write in ", d->dir, strerror(errno),
                  "compiled code is not cached");
    return false;
}

void td__disk_store_local(td_disk *d, const td_disk_item *item, const char *key) {
    td_buf b = {0}, note = {0};
    bool   one = item->name[0][0] != 'k';
    if (d->fd < 0 || !d->signs || !item->bytes) return;
    td__buf_addn(&b, item->bytes, item->size);
    if (one) td__buf_printf(&note, "entry %s\n", item->name[0]);
    td__buf_add(&note, item->note);
    bool ok = !note.failed && add_footer(d, &b, key, td__buf_str(&note)) &&
              store(d, &b, item->name, item->n);
    if (ok && one)
        td__log(d->cx, TD_LOG_cache, "stored %s, %zu bytes", item->name[0], b.n);
    else if (ok)
        td__log(d->cx, TD_LOG_cache, "stored %d kernel%s, %zu bytes", item->n,
                item->n == 1 ? "" : "s", b.n);
    td__buf_free(&b);
    td__buf_free(&note);
}

void td__disk_store(td_disk *d, const td_buf *library, const char *key,
                    const char *const *names, int n) {
    td_buf note = {0};
    if (d->fd < 0 || !library->n) return;
    td__buf_add(&note, "kernels");
    for (int i = 0; i < n; i++) td__buf_printf(&note, " %s", names[i]);
    td_disk_item item = {names, n, td__buf_str(&note), library->s, library->n};
    if (!note.failed) {
        td__disk_store_local(d, &item, key);
        td__disk_share(d, &item, key);
    }
    td__buf_free(&note);
}

void td__disk_store_entry(td_disk *d, const char *name, const char *key,
                          const char *note, const td_buf *bytes) {
    td_disk_item item = {&name, 1, note, bytes->s, bytes->n};
    if (!bytes->n) return;
    td__disk_store_local(d, &item, key);
    td__disk_share(d, &item, key);
}
