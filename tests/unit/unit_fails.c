/* unit_fails.c -- compilers that are missing, fail, hang, are killed or make nothing, a
 * place for files that is none, memory that runs out: an error that says what happened
 * and what to do, no files left, and the next try works. */
#include "unit_help.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A place for a test's own files, which TMPDIR is too. */
static char place[128];

static void enter(void) {
    snprintf(place, sizeof place, "/tmp/td-unit-XXXXXX");
    CHECK(mkdtemp(place) != NULL);
    setenv("TMPDIR", place, 1);
}

/* All that was made is gone again. */
static void leave(void) {
    CHECK(rmdir(place) == 0);
    unsetenv("TMPDIR");
}

/* A compiler made of a few lines of shell; the setting cc is its path. */
static void fake_cc(td_ctx *cx, const char *lines) {
    char path[160];
    snprintf(path, sizeof path, "%s/fake", place);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fprintf(f, "#!/bin/sh\n%s\n", lines);
    fclose(f);
    chmod(path, 0700);
    CHECK(td_config_set(cx, "cc", path));
}

static void drop_cc(td_ctx *cx) {
    unlink(td__config(cx)->cc);
    td_config_set(cx, "cc", "");
}

/* Refused, with all of the words in the message; then it works with the usual one. */
static void refused(td_ctx *cx, td_code code, int by, const char *const *words) {
    td_kernel k = scale_kernel(by);
    CHECK(!td__kernels_load(cx, &k, 1) && !k.run);
    TD_CHECK_THAT(td_error(cx) == code, "%s", td_message(cx));
    for (; *words; words++)
        TD_CHECK_THAT(strstr(td_message(cx), *words), "no \"%s\" in: %s", *words,
                      td_message(cx));
    td_clear(cx);
}

#define WORDS(...) \
    (const char *const[]) { __VA_ARGS__, NULL }

TEST(a_compiler_that_is_not_there_is_named) {
    td_ctx *cx = open_plain();
    char   *path = getenv("PATH") ? strdup(getenv("PATH")) : NULL;
    td_config_set(cx, "cc", "no-such-cc -O9");
    refused(cx, TD_E_UNSUPPORTED, 11, WORDS("\"no-such-cc -O9\"", "TD_CC", "interp"));
    td_config_set(cx, "cc", "/usr/bin");
    refused(cx, TD_E_UNSUPPORTED, 11, WORDS("\"/usr/bin\"", "TD_CC"));
    td_config_set(cx, "cc", "");
    setenv("PATH", "/proc:/nowhere", 1);
    refused(cx, TD_E_UNSUPPORTED, 11, WORDS("no C compiler", "install one", "interp"));
    setenv("PATH", path, 1);
    free(path);
    td_kernel k = scale_kernel(11);
    CHECK(td__kernels_load(cx, &k, 1));
    td_close(cx);
}

TEST(a_compiler_that_fails_is_quoted) {
    td_ctx *cx = open_plain();
    enter();
    fake_cc(cx, "echo warning: careful; echo 'x.c:1: error: no room' >&2; exit 3");
    refused(cx, TD_E_UNSUPPORTED, 12,
            WORDS("/fake failed with status 3: x.c:1: error: no room", "TD_CC"));
    fake_cc(cx, "kill -9 $$");
    refused(cx, TD_E_UNSUPPORTED, 12, WORDS("/fake was killed by signal 9;"));
    fake_cc(cx, "exit 0");
    refused(cx, TD_E_UNSUPPORTED, 12, WORDS("cannot load", "TMPDIR"));
    drop_cc(cx);
    leave();
    td_close(cx);
}

TEST(a_compiler_that_hangs_is_stopped_with_all_it_started) {
    td_ctx *cx = open_plain();
    double  start = td__seconds();
    enter();
    td_config_set(cx, "cc_seconds", "1");
    fake_cc(cx, "sleep 100 & sleep 100");
    refused(cx, TD_E_UNSUPPORTED, 13, WORDS("longer than 1 seconds", "cc_seconds"));
    CHECK(td__seconds() - start < 20);
    drop_cc(cx);
    leave();
    td_close(cx);
}

TEST(a_text_that_is_no_c_is_an_error_with_its_line) {
    td_ctx   *cx = open_plain();
    td_kernel k[2] = {scale_kernel(14), {.text = "void KERNEL(int x { }\n"}};
    enter();
    CHECK(!td__kernels_load(cx, k, 2) && td_error(cx) == TD_E_UNSUPPORTED);
    TD_CHECK_THAT(strstr(td_message(cx), "unit0.c:") &&
                      strstr(td_message(cx), "error: "),
                  "%s", td_message(cx));
    td_clear(cx);
    CHECK(td__kernels_load(cx, k, 1) && k[0].run);
    leave();
    td_close(cx);
}

TEST(a_library_without_the_function_is_an_error) {
    td_ctx   *cx = open_plain();
    td_kernel k = {.text = "int other_than_said;\n"};
    enter();
    CHECK(!td__kernels_load(cx, &k, 1) && td_error(cx) == TD_E_UNSUPPORTED);
    CHECK(strstr(td_message(cx), "lacks the symbol k_") != NULL);
    leave();
    td_close(cx);
}

TEST(a_place_for_files_that_is_none_is_an_error) {
    td_ctx *cx = open_plain();
    setenv("TMPDIR", "/nowhere/at/all", 1);
    refused(cx, TD_E_IO, 15, WORDS("/nowhere/at/all", "TMPDIR", "interp"));
    unsetenv("TMPDIR");
    td_kernel k = scale_kernel(15);
    CHECK(td__kernels_load(cx, &k, 1));
    td_close(cx);
}

/* Only what is ours beyond doubt. In a process of its own: it is done once in each. */
TEST(what_a_killed_process_left_is_swept_up_after_a_day) {
    static const char *const names[] = {"tandem-cc-abcdef", "tandem-cc-young1",
                                        "tandem-cc-nounit", "tandem-cc-toolong"};
    char                     path[256];
    int                      status, left = 0;
    enter();
    struct timespec then = {.tv_sec = time(NULL) - 100000};
    for (int i = 0; i < TD_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", place, names[i]);
        CHECK(mkdir(path, 0700) == 0);
        snprintf(path, sizeof path, "%s/%s/%s.c", place, names[i],
                 i == 2 ? "mine" : "unit0");
        close(open(path, O_CREAT | O_WRONLY, 0600));
        snprintf(path, sizeof path, "%s/%s", place, names[i]);
        if (i != 1) utimensat(AT_FDCWD, path, (struct timespec[2]){then, then}, 0);
    }
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        td_ctx   *cx = open_plain();
        td_kernel k = scale_kernel(20);
        child_leaves(td__kernels_load(cx, &k, 1));
    }
    CHECK(waitpid(pid, &status, 0) == pid && child_was_ok(status));
    for (int i = 0; i < TD_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", place, names[i]);
        bool there = access(path, F_OK) == 0;
        left += there;
        td__temp_remove(path);
        CHECK(i != 0 || !there);
    }
    CHECK(left == 3);
    leave();
}

TEST(a_compiler_gets_nothing_of_ours) {
    td_ctx *cx = open_plain();
    int     fd = open("/dev/null", O_RDONLY); /* not closed on exec */
    enter();
    signal(SIGINT, SIG_IGN);
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGTERM);
    sigprocmask(SIG_BLOCK, &s, NULL);
    fake_cc(cx, "echo error: $(ls /proc/self/fd | wc -l) files, "
                "$(grep -c 'Sig[BI].*0000000$' /proc/self/status) clean, "
                "$(readlink /proc/$$/fd/0), $LC_ALL, $TMPDIR; exit 1");
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    /* 0, 1, 2 and the directory that ls reads */
    refused(cx, TD_E_UNSUPPORTED, 16,
            WORDS("error: 4 files, 2 clean, /dev/null, C, ", place));
    unsetenv("LC_ALL");
    signal(SIGINT, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &s, NULL);
    close(fd);
    drop_cc(cx);
    leave();
    td_close(cx);
}

TEST(a_program_that_reaps_all_children_can_compile) {
    td_ctx   *cx = open_plain();
    td_kernel k = scale_kernel(17);
    signal(SIGCHLD, SIG_IGN);
    bool ok = td__kernels_load(cx, &k, 1);
    signal(SIGCHLD, SIG_DFL);
    CHECK_OK(cx);
    CHECK(ok && k.run);
    td_close(cx);
}

TEST(every_failing_allocation_or_file_is_an_error_and_leaves_nothing) {
    td_ctx *cx = open_plain();
    int     failures = 0;
    enter();
    for (int n = 0;; n++) {
        td_kernel k[2] = {scale_kernel(1000 + n), scale_kernel(-n)};
        td__fault_arm(n, false);
        bool ok = td__kernels_load(cx, k, 2);
        bool hit = td__fault_count() > n;
        td__fault_arm(-1, false);
        CHECK(ok == td_ok(cx) && ok == (k[0].run && k[1].run));
        CHECK(ok || td_error(cx) == TD_E_MEMORY || td_error(cx) == TD_E_IO ||
              td_error(cx) == TD_E_UNSUPPORTED);
        td_clear(cx);
        failures += !ok;
        if (!hit) break;
        CHECK(n < 10000);
    }
    CHECK(failures > 20);
    leave();
    td_close(cx);
}
