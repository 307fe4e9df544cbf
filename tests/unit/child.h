/* child.h -- the verdict of a forked child.
 * Not given by exit: a leak checker would look at the child then, and miss what the
 * other threads of its parent held. */
#ifndef TD_CHILD_H
#define TD_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

static inline void child_leaves(bool ok) {
    signal(SIGTERM, SIG_DFL);
    raise(ok ? SIGTERM : SIGKILL);
}

static inline bool child_was_ok(int status) {
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
}

#endif
