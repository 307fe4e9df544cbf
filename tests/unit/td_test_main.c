/* td_test_main.c -- runs the unit tests in one process, for the sanitizers and
 * valgrind. `unit WORD` runs those whose suite/name contains WORD; with
 * TD_TEST_PART=1/4 in the environment every fourth of them, from the first on. A
 * failed check jumps back here; a crash ends the run, and names its test first. */
#include "td_test.h"

#ifdef TD_TEST_INPROC

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

static td_test *tests, **last = &tests;
static jmp_buf  back;

void td_test_add(td_test *t) {
    *last = t;
    last = &t->next;
}

void td_test_fail(const char *file, int line, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    printf("%s:%d: ", file, line);
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    longjmp(back, 1);
}

static bool is_wanted(const td_test *t, const char *word) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", t->suite, t->name);
    return strstr(full, word) != NULL;
}

/* The line is out before the test runs, so that a crash has a name. */
static bool run_one(const td_test *t) {
    printf("%s/%s\n", t->suite, t->name);
    fflush(stdout);
    if (setjmp(back)) {
        printf("FAILED %s/%s\n", t->suite, t->name);
        return false;
    }
    t->run();
    return true;
}

int main(int argc, char **argv) {
    const char *of = getenv("TD_TEST_PART");
    int         passed = 0, failed = 0, part = 1, parts = 1, nr = 0;
    if (of && (sscanf(of, "%d/%d", &part, &parts) != 2 || part < 1 || part > parts)) {
        printf("TD_TEST_PART is %s, not of the form 1/4\n", of);
        return 2;
    }
    for (td_test *t = tests; t; t = t->next) {
        if (!is_wanted(t, argc > 1 ? argv[1] : "")) continue;
        if (nr++ % parts != part - 1) continue;
        if (run_one(t)) passed++;
        else failed++;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

#else

typedef int td_test_main_is_empty; /* Criterion brings its own main */

#endif
