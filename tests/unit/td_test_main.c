/* td_test_main.c -- runs the unit tests: each in a forked process, or, with
 * TD_TEST_INPROC, all in this one. `unit WORD` runs those whose suite/name contains
 * WORD; with TD_TEST_PART=1/4 in the environment every fourth of them, from the first
 * on. */
#include "td_test.h"

#include "../test_part.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

enum { SECONDS = 120 }; /* the most that a forked test may take */

static td_test *tests, **last = &tests;

void td_test_add(td_test *t) {
    *last = t;
    last = &t->next;
}

static bool is_wanted(const td_test *t, const char *word) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", t->suite, t->name);
    return strstr(full, word) != NULL;
}

#ifdef TD_TEST_INPROC

static jmp_buf back;

static _Noreturn void end_failed(void) { longjmp(back, 1); }

/* The line is out before the test runs, so that a crash, which ends the run, has a
 * name. */
static bool run_one(const td_test *t) {
    printf("%s/%s\n", t->suite, t->name);
    fflush(stdout);
    if (setjmp(back)) return false;
    t->run();
    return true;
}

#else

static _Noreturn void end_failed(void) { exit(1); }

/* The parent never calls the library: each test starts as a new process does. */
static bool run_one(const td_test *t) {
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        t->run();
        exit(0);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (child > 0 && WIFSIGNALED(status))
        printf("%s/%s ended by signal %d: %s\n", t->suite, t->name, WTERMSIG(status),
               strsignal(WTERMSIG(status)));
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#endif

void td_test_fail(const char *file, int line, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    printf("%s:%d: ", file, line);
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    end_failed();
}

int main(int argc, char **argv) {
    int passed = 0, failed = 0, part, parts, nr = 0;
    if (!test_part(&part, &parts)) return 2;
    for (td_test *t = tests; t; t = t->next) {
        if (!is_wanted(t, argc > 1 ? argv[1] : "")) continue;
        if (nr++ % parts != part - 1) continue;
        if (run_one(t)) passed++;
        else failed++, printf("FAILED %s/%s\n", t->suite, t->name);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
