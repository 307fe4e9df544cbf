/* load_bytes.c -- loads a shared library from bytes in memory. dlopen takes a path,
 * and between verifying a file and opening its path the file could be replaced. So
 * the bytes are copied to a sealed memory file (memfd), or, if that is unavailable,
 * to a file in a private directory. */
#include "build/disk.h"
#include "build/unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U /* Linux 6.3: the file may be mapped as code */
#endif

static unsigned next_nr(void) {
    static _Atomic unsigned counter;
    return atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
}

/* dlopen takes two libraries with equal paths for one, and descriptor numbers are
 * reused. So every load writes the path differently: "/" or "/." for each bit of a
 * counter. */
static void unique_path(char *out, int fd) {
    unsigned nr = next_nr();
    out += sprintf(out, "/proc/self/fd");
    for (int bit = 0; bit < 32; bit++)
        out += sprintf(out, "%s", nr >> bit & 1 ? "/." : "/");
    sprintf(out, "/%d", fd);
}

/* dlopen; NULL: *why has its message without the path. */
static void *open_path(const char *path, char *why, size_t cap) {
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (lib) return lib;
    const char *message = dlerror();
    size_t      n = strlen(path);
    if (!message) message = "unknown error of the dynamic loader";
    if (!strncmp(message, path, n) && message[n] == ':') message += n + 2;
    snprintf(why, cap, "%s", message);
    return NULL;
}

/* A sealed memory file with these bytes; -1: errno says why. */
static int make_sealed(const char *label, const void *bytes, size_t n) {
    const unsigned how = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    if (td__io_fault()) return -1;
    int fd = memfd_create(label, how | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) fd = memfd_create(label, how);
    if (fd < 0) return -1;
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    if (td__write_all(fd, bytes, n) && fcntl(fd, F_ADD_SEALS, seals) == 0) return fd;
    int why_not = errno;
    close(fd);
    errno = why_not;
    return -1;
}

/* Loads from a sealed memory file. NULL: *why has the reason; *made: whether the memory
 * file could be created. */
static void *load_sealed(const char *label, const void *bytes, size_t n, bool *made,
                         char *why, size_t cap) {
    char path[128];
    int  fd = make_sealed(label, bytes, n);
    *made = fd >= 0;
    if (fd < 0) return NULL;
    unique_path(path, fd);
    void *lib = open_path(path, why, cap);
    close(fd);
    return lib;
}

/* Loads from a file in a directory that no one else can change (td__temp_dir). */
static void *load_private(td_ctx *cx, const void *bytes, size_t n, char *why,
                          size_t cap) {
    char  dir[512], path[600];
    void *lib = NULL;
    if (!td__temp_dir(cx, dir, sizeof dir)) {
        snprintf(why, cap, "%s", td__message(cx));
        td_clear(cx);
        return NULL;
    }
    snprintf(path, sizeof path, "%s/load%u.so", dir, next_nr());
    int  fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && td__write_all(fd, bytes, n);
    if (!ok) snprintf(why, cap, "cannot write %.200s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    if (ok) lib = open_path(path, why, cap);
    td__temp_remove(dir);
    return lib;
}

/* If the context has an error, it is kept, and there is no second attempt, which could
 * fail too. */
void *td__load_bytes(td_ctx *cx, const char *label, const void *bytes, size_t n,
                     char *why, size_t cap) {
    char  other[400];
    bool  made;
    void *lib = load_sealed(label, bytes, n, &made, why, cap);
    if (lib || !td_ok(cx)) return lib;
    return load_private(cx, bytes, n, made ? other : why, made ? sizeof other : cap);
}
