/* child.h -- the verdict of a forked child.
 * Not given by exit: a leak checker would look at the child then, and miss what the
 * other threads of its parent held. */
#ifndef TD_CHILD_H
#define TD_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* No file of this process grows beyond that, from now on. */
static inline void child_limits_files(rlim_t bytes) {
    struct rlimit l = {0};
    getrlimit(RLIMIT_FSIZE, &l);
    l.rlim_cur = bytes;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &l);
}

/* Counters of `make coverage` are written at exit, which such a child never reaches.
 * Only programs linked for it have this function. */
void __gcov_dump(void) __attribute__((weak));

static inline void child_counts(void) {
    struct rlimit l = {0};
    if (!__gcov_dump) return;
    getrlimit(RLIMIT_FSIZE, &l);
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_FSIZE, &l);
    __gcov_dump();
}

static inline void child_leaves(bool ok) {
    child_counts();
    signal(SIGTERM, SIG_DFL);
    raise(ok ? SIGTERM : SIGKILL);
}

static inline bool child_was_ok(int status) {
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
}

#endif
