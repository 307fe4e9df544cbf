/* cc_run.c -- runs the compiler: child processes with a time limit, and their
 * temporary directory. No shell is involved, and a child inherits no files or signal
 * handlers. */
#include "build/disk.h"
#include "build/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

double td__seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the environment of a child ----------------------------------------- */

/* Is the variable removed from a child's environment? Preloaded libraries are meant
 * for this process, messages must be in English, and the compiler must write no files
 * that the user did not request. */
static bool is_dropped(const char *var) {
    static const char *const names[] = {
        "LD_PRELOAD=",         "LC_",     "LANG=",
        "LANGUAGE=",           "TMPDIR=", "DEPENDENCIES_OUTPUT=",
        "SUNPRO_DEPENDENCIES="};
    for (int i = 0; i < TD_COUNT(names); i++)
        if (!strncmp(var, names[i], strlen(names[i]))) return true;
    return false;
}

/* The environment of a child; the caller frees the array, not its strings. A set-uid
 * program's environment comes from its caller and is not passed on. NULL: out of
 * memory. */
static char **make_environ(char *tmpdir) {
    static char english[] = "LC_ALL=C", path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
    size_t      n = 0, at = 0;
    bool        secure = getauxval(AT_SECURE);
    while (!secure && environ && environ[n]) n++;
    char **env = td__alloc(sizeof *env * (n + 4));
    if (!env) return NULL;
    for (size_t i = 0; i < n; i++)
        if (!is_dropped(environ[i])) env[at++] = environ[i];
    env[at++] = english;
    if (secure) env[at++] = path;
    env[at++] = tmpdir;
    env[at] = NULL;
    return env;
}

/* ---- starting ----------------------------------------------------------- */

/* stdin from /dev/null, stdout and stderr to the log, no other files. 0 or an errno. */
static int set_files(posix_spawn_file_actions_t *f, const char *log) {
    int bad = posix_spawn_file_actions_addopen(f, 0, "/dev/null", O_RDONLY, 0);
    if (!bad)
        bad = posix_spawn_file_actions_addopen(f, 1, log, O_WRONLY | O_CREAT | O_APPEND,
                                               0600);
    if (!bad) bad = posix_spawn_file_actions_adddup2(f, 1, 2);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    if (!bad) bad = posix_spawn_file_actions_addclosefrom_np(f, 3);
#endif
    return bad;
}

/* Default signals, and a process group of its own, so that it can be killed with its
 * children. */
static int set_attributes(posix_spawnattr_t *a) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int bad = posix_spawnattr_setsigmask(a, &none);
    if (!bad) bad = posix_spawnattr_setsigdefault(a, &all);
    if (!bad) bad = posix_spawnattr_setpgroup(a, 0);
    if (!bad)
        bad =
            posix_spawnattr_setflags(a, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                            POSIX_SPAWN_SETPGROUP);
    return bad;
}

static int spawn(td_child *c, const char *const *argv, char **env, const char *log) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t          attr;
    int                        bad = posix_spawn_file_actions_init(&files);
    if (bad) return bad;
    bad = posix_spawnattr_init(&attr);
    if (!bad) {
        bad = set_files(&files, log);
        if (!bad) bad = set_attributes(&attr);
        if (!bad)
            bad = posix_spawn(&c->pid, argv[0], &files, &attr,
                              (char *const *)(uintptr_t)argv, env);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&files);
    return bad;
}

int td__child_start(td_child *c, const char *const *argv, const char *dir,
                    const char *log) {
    size_t n = strlen(dir) + 8;
    char  *tmpdir = td__alloc(n);
    *c = (td_child){0};
    if (!tmpdir) return ENOMEM;
    if (td__fault_now()) return td__free(tmpdir), EAGAIN;
    snprintf(tmpdir, n, "TMPDIR=%s", dir);
    char **env = make_environ(tmpdir);
    int    bad = env ? spawn(c, argv, env, log) : ENOMEM;
    if (bad) c->pid = 0;
    td__free(env);
    td__free(tmpdir);
    return bad;
}

/* ---- waiting ------------------------------------------------------------ */

/* Has the child exited? If this program ignores SIGCHLD or another thread reaped the
 * child, the status is lost: it counts as 0, and missing output files show a
 * failure. */
static bool is_over(td_child *c) {
    if (!c->pid) return true;
    pid_t got = waitpid(c->pid, &c->status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return false;
    if (got < 0) c->status = 0;
    c->pid = 0;
    return true;
}

/* Kills the child's process group and reaps it. */
static void stop(td_child *c) {
    if (!c->pid) return;
    kill(-c->pid, SIGKILL);
    kill(c->pid, SIGKILL);
    while (waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR) {
    }
    c->pid = 0;
}

bool td__children_wait(td_child *c, int n, double until) {
    const struct timespec nap = {0, 200 * 1000};
    for (int i = 0; i < n; i++)
        while (!is_over(&c[i])) {
            if (td__seconds() >= until) {
                for (int k = i; k < n; k++) stop(&c[k]);
                return false;
            }
            nanosleep(&nap, NULL);
        }
    return true;
}

/* ---- temporary files ---------------------------------------------------- */

static const char prefix[] = "tandem-cc-"; /* and six letters */

/* One level only: neither we nor compilers make subdirectories. */
void td__temp_remove(const char *dir) {
    struct stat st;
    const int   how = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    int         fd = *dir ? open(dir, how) : -1;
    if (fd < 0) return;
    bool ours = fstat(fd, &st) == 0 && st.st_uid == geteuid();
    DIR *d = ours ? fdopendir(fd) : NULL;
    if (!d) {
        close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(dir);
}

/* Is it a directory that a process of this user left more than a day ago? */
static bool is_abandoned(int in, const char *name) {
    struct stat st;
    char        unit[64];
    if (strncmp(name, prefix, strlen(prefix)) || strlen(name) != strlen(prefix) + 6)
        return false;
    snprintf(unit, sizeof unit, "%.40s/unit0.c", name);
    return fstatat(in, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid() && (st.st_mode & 0777) == 0700 &&
           time(NULL) - st.st_mtim.tv_sec > 86400 && faccessat(in, unit, F_OK, 0) == 0;
}

/* Removes abandoned directories, once per process. */
static void sweep(const char *in) {
    static _Atomic pid_t by;
    char                 path[512];
    if (atomic_exchange(&by, getpid()) == getpid()) return;
    DIR *d = opendir(in);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));)
        if (is_abandoned(dirfd(d), e->d_name)) {
            int n = snprintf(path, sizeof path, "%s/%s", in, e->d_name);
            if (n > 0 && (size_t)n < sizeof path) td__temp_remove(path);
        }
    closedir(d);
}

/* Makes a fresh directory in `in` that only root and this user can change: 0, or an
 * errno; EPERM if others could replace it. */
static int make_private(const char *in, char *out, size_t cap) {
    int n = snprintf(out, cap, "%s/%sXXXXXX", in, prefix);
    if (n <= 0 || (size_t)n >= cap) return ENAMETOOLONG;
    if (td__io_fault() || !mkdtemp(out)) return errno;
    int  fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    bool safe = fd >= 0 && !td__dir_danger(fd);
    if (fd >= 0) close(fd);
    if (!safe) rmdir(out);
    return safe ? 0 : EPERM;
}

bool td__temp_dir(td_ctx *cx, char *out, size_t cap) {
    const char *in = secure_getenv("TMPDIR");
    if (!in || !*in) in = "/tmp";
    int why = make_private(in, out, cap);
    if (!why) sweep(in);
    if (why == EPERM && strcmp(in, "/tmp")) {
        td__disk_warn(cx, "TMPDIR=", in, "other users can replace files in it",
                      "/tmp is used");
        why = make_private("/tmp", out, cap);
    }
    if (!why) return true;
    *out = 0;
    return td__fail(cx, TD_E_IO,
                    "native code: cannot create a directory in %.200s: %s; set TMPDIR "
                    "to a writable directory, or backend=interp",
                    in,
                    why == EPERM ? "other users can replace files in it"
                                 : strerror(why));
}
