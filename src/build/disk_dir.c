/* disk_dir.c -- the cache directory: where it is, whether other users could change
 * it, and the secret that authenticates its files. */
#include "build/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void td__disk_warn(td_ctx *cx, const char *what, const char *dir, const char *why,
                   const char *then) {
    static _Atomic uint64_t warned[8];
    char                    text[1800];
    snprintf(text, sizeof text, "cache: %s%.1024s: %.300s; %.200s", what, dir, why,
             then);
    uint64_t hash = td__hash(text, strlen(text), 1) | 1;
    for (int i = 0; i < TD_COUNT(warned); i++) {
        uint64_t none = 0;
        if (atomic_load(&warned[i]) == hash) return;
        if (atomic_compare_exchange_strong(&warned[i], &none, hash)) break;
        if (none == hash) return;
    }
    td__warn(cx, "%s", text);
}

/* Warns that the cache is not used. */
static void warn_unused(td_disk *d, const char *what, const char *why) {
    td__disk_warn(d->cx, what, d->dir, why, "compiled code is not cached");
}

/* ---- files -------------------------------------------------------------- */

bool td__write_all(int fd, const void *bytes, size_t n) {
    const char *p = bytes;
    while (n > 0) {
        ssize_t done = td__io_fault() ? -1 : write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

bool td__read_all(int fd, void *bytes, size_t n) {
    char *p = bytes;
    while (n > 0) {
        ssize_t done = td__io_fault() ? -1 : read(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done == 0) errno = EIO; /* the file shrank */
        if (done <= 0) return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

void td__temp_name(char *out, size_t cap) {
    static _Atomic unsigned counter;
    struct timespec         now;
    unsigned nr = atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(out, cap, "tmp-%ld-%u-%lx%08lx", (long)getpid(), nr, (long)now.tv_sec,
             now.tv_nsec);
}

/* ---- permissions ------------------------------------------------------------ */

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Checks a parent directory. If others may write to it, the sticky bit must keep them
 * from renaming or removing this user's entries. */
static const char *parent_danger(const struct stat *st) {
    bool shared = st->st_mode & (S_IWGRP | S_IWOTH);
    if (st->st_uid != 0 && st->st_uid != geteuid())
        return "a parent directory belongs to another user";
    if (shared && !(st->st_mode & S_ISVTX))
        return "a parent directory can be written by others and has no sticky bit "
               "(chmod go-w, or chmod +t)";
    return NULL;
}

static const char *own_danger(const struct stat *st) {
    if (st->st_uid != geteuid()) return "belongs to another user";
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return "can be written by others (chmod 700)";
    return NULL;
}

/* Walks up from the open directory itself, so that links and renames on the path to
 * it do not matter. */
const char *td__dir_danger(int fd) {
    struct stat at, up;
    if (fstat(fd, &at) != 0) return strerror(errno);
    const char *bad = own_danger(&at);
    int         here = fd;
    while (!bad) {
        int next = openat(here, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (here != fd) close(here);
        here = fd;
        if (next < 0) return "a parent directory cannot be opened";
        here = next;
        if (fstat(next, &up) != 0) bad = strerror(errno);
        else if (same_file(&at, &up)) break; /* the root */
        else bad = parent_danger(&up);
        at = up;
    }
    if (here != fd) close(here);
    return bad;
}

/* ---- the secret --------------------------------------------------------- */

static const char secret_name[] = "secret";

/* The outcome of reading the secret. */
typedef enum secret {
    SECRET_READ,
    SECRET_NONE,
    SECRET_WRONG,  /* not a file that only this user can read: replace it */
    SECRET_UNREAD, /* perhaps valid, but reading failed (errno): leave it */
} secret;

static secret read_secret(td_disk *d) {
    struct stat st;
    secret      got = SECRET_WRONG;
    const int   how = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int         fd = td__io_fault() ? -1 : openat(d->fd, secret_name, how);
    if (fd < 0 && errno == ENOENT) return SECRET_NONE;
    if (fd < 0) return errno == ELOOP || errno == EACCES ? SECRET_WRONG : SECRET_UNREAD;
    if (fstat(fd, &st) != 0) got = SECRET_UNREAD;
    else if (S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077) &&
             st.st_size == TD_SECRET_BYTES)
        got =
            td__read_all(fd, d->secret, sizeof d->secret) ? SECRET_READ : SECRET_UNREAD;
    int why = got == SECRET_WRONG ? EPERM : errno;
    close(fd);
    errno = why;
    d->signs = got == SECRET_READ;
    return got;
}

/* Creates the secret; among several processes the first wins. replace: overwrites a
 * file that cannot be a secret; entries under the old one become misses. False: errno
 * says why. */
static bool make_secret(td_disk *d, bool replace) {
    char    temp[64];
    uint8_t fresh[TD_SECRET_BYTES];
    td__temp_name(temp, sizeof temp);
    if (getrandom(fresh, sizeof fresh, 0) != (ssize_t)sizeof fresh) return false;
    int how = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    int fd = td__io_fault() ? -1 : openat(d->fd, temp, how, 0600);
    if (fd < 0) return false;
    bool ok = td__write_all(fd, fresh, sizeof fresh);
    int  why = errno;
    if (close(fd) != 0 && ok) ok = false, why = errno;
    if (ok) {
        if (replace) ok = renameat(d->fd, temp, d->fd, secret_name) == 0;
        else ok = linkat(d->fd, temp, d->fd, secret_name, 0) == 0 || errno == EEXIST;
        why = errno;
    }
    unlinkat(d->fd, temp, 0);
    errno = why;
    return ok;
}

/* Reads or creates the secret: NULL, or what failed, with errno. */
static const char *find_secret(td_disk *d) {
    secret got = read_secret(d);
    if (got == SECRET_WRONG)
        td__log(d->cx, TD_LOG_cache,
                "the secret of %s is made anew: it is not a file that only this user "
                "can read",
                d->dir);
    if (got == SECRET_NONE || got == SECRET_WRONG) {
        if (!make_secret(d, got == SECRET_WRONG)) return "cannot write in ";
        got = read_secret(d);
    }
    return got == SECRET_READ ? NULL : "cannot read the secret of ";
}

/* ---- opening ------------------------------------------------------------ */

/* The setting cache_dir, else XDG_CACHE_HOME or HOME. False: none of them is usable. */
static bool choose_dir(td_disk *d) {
    const char *setting = td__config(d->cx)->cache_dir, *rest = "";
    if (!*setting) setting = secure_getenv("XDG_CACHE_HOME"), rest = "/tandem";
    if (!setting || *setting != '/') {
        if (setting && *setting && !*rest) {
            td__disk_warn(d->cx, "", setting, "is not an absolute path",
                          "compiled code is not cached");
            return false;
        }
        setting = secure_getenv("HOME"), rest = "/.cache/tandem";
    }
    if (!setting || *setting != '/') return false;
    int n = snprintf(d->dir, sizeof d->dir, "%s%s", setting, rest);
    if (n > 0 && (size_t)n < sizeof d->dir) return true;
    *d->dir = 0;
    return false;
}

/* Creates the directory and its parents for this user only. */
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

static bool open_dir(td_disk *d) {
    d->fd = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return d->fd >= 0;
}

void td__disk_open(td_disk *d, td_ctx *cx, bool make) {
    *d = (td_disk){.cx = cx, .fd = -1, .bound = true};
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &d->cancel);
    if (td__config(cx)->cache_disk_mb == 0 || !choose_dir(d)) return;
    if (!open_dir(d) && make && errno == ENOENT) {
        make_dir(d->dir);
        (void)open_dir(d);
    }
    if (d->fd < 0) {
        if (make) warn_unused(d, "cannot open ", strerror(errno));
        return;
    }
    const char *bad = td__dir_danger(d->fd);
    if (bad) warn_unused(d, "", bad);
    else if (!make) (void)read_secret(d);
    else if ((bad = find_secret(d))) warn_unused(d, bad, strerror(errno));
    if (bad) td__disk_close(d);
}

void td__disk_close(td_disk *d) {
    if (d->fd >= 0) close(d->fd);
    d->fd = -1;
    if (d->bound) pthread_setcancelstate(d->cancel, NULL);
    d->bound = false;
}
