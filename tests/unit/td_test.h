/* td_test.h -- what a unit test is written with.
 *
 *     TEST(a_sentence_that_is_true) {
 *         CHECK(td_is_nil(y));
 *     }
 *
 * A test's suite is the base name of its file (the Makefile passes TD_SUITE). A
 * failed CHECK ends its test. Tests register themselves.
 *
 * Each test runs in a forked process, so a crash or a test that hangs fails alone.
 * Under the sanitizers and valgrind leaks of a test would be lost with its process:
 * there, with TD_TEST_INPROC, tests run one after the other in one process. */
#ifndef TD_TEST_H
#define TD_TEST_H

#include "child.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define TEST(name) TD_TEST_IN(TD_SUITE, name)

typedef struct td_test {
    const char *suite, *name;
    void (*run)(void);
    struct td_test *next;
} td_test;

void           td_test_add(td_test *t);
_Noreturn void td_test_fail(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define TD_TEST_IN(suite, name) TD_TEST_NAMED(suite, name)
#define TD_TEST_NAMED(suite_, name_)                                     \
    static void    name_(void);                                          \
    static td_test td_test_##name_ = {#suite_, #name_, name_, NULL};     \
    __attribute__((constructor)) static void td_test_add_##name_(void) { \
        td_test_add(&td_test_##name_);                                   \
    }                                                                    \
    static void name_(void)
#define TD_CHECK_THAT(ok, ...) \
    ((ok) ? (void)0 : td_test_fail(__FILE__, __LINE__, __VA_ARGS__))

static inline bool td_test_same(const char *a, const char *b) {
    return a && b && strcmp(a, b) == 0;
}

/* Is `text` the message, but for the " (file:line)" at its end? */
static inline bool td_test_says(const char *message, const char *text) {
    size_t      n = strlen(text);
    const char *colon = strrchr(message, ':');
    if (strncmp(message, text, n) != 0) return false;
    if (!message[n]) return true;
    return !strncmp(message + n, " (", 2) && colon > message + n &&
           strspn(colon + 1, "0123456789") + 2 == strlen(colon) &&
           message[strlen(message) - 1] == ')';
}

/* NaN is near NaN, and an infinity near itself only. */
static inline bool td_test_near(double a, double b, double tol) {
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tol;
}

#define CHECK(cond) TD_CHECK_THAT(cond, "%s", #cond)
#define CHECK_STR(a, b)                                                               \
    TD_CHECK_THAT(td_test_same(a, b), "%s\n  is       \"%s\"\n  not      \"%s\"", #a, \
                  a, b)
#define CHECK_SAYS(a, b)                                                              \
    TD_CHECK_THAT(td_test_says(a, b), "%s\n  is       \"%s\"\n  not      \"%s\"", #a, \
                  a, b)
#define CHECK_MESSAGE(cx, b) CHECK_SAYS(td_message(cx), b)
#define CHECK_NEAR(a, b, tol)                                                         \
    TD_CHECK_THAT(td_test_near(a, b, tol), "%s is %.17g, not %.17g", #a, (double)(a), \
                  (double)(b))
#define CHECK_OK(cx) TD_CHECK_THAT(td_ok(cx), "%s", td_message(cx))

#endif
