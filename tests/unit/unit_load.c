/* unit_load.c -- texts of kernels become functions: compiled, linked, loaded, and each
 * of them once. */
#include "unit_help.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(a_kernel_is_compiled_and_does_what_its_text_says) {
    td_ctx   *cx = open_plain();
    td_kernel k = scale_kernel(3);
    float     x[5] = {1, 2, 3, 4, 5}, y[5] = {0};
    CHECK(td__kernels_load(cx, &k, 1));
    CHECK_OK(cx);
    run_on(&k, x, y, 1, 4);
    CHECK(y[0] == 0 && y[1] == 6 && y[3] == 12 && y[4] == 0);
    td_close(cx);
}

TEST(a_kernel_sees_all_that_it_is_given) {
    td_ctx     *cx = open_plain();
    td_kernel   k = {.text = "void KERNEL(const td_nest_run *r, int64_t part, "
                               "int64_t begin, int64_t end) {\n"
                               "    int64_t *o = (int64_t *)r->ptr[0];\n"
                               "    o[0] = r->size[1], o[1] = r->given[0];\n"
                               "    o[2] = r->parts[part * r->part_bytes];\n"
                               "    o[3] = end - begin;\n"
                               "}\n"
                               "void KERNEL_end(const td_nest_run *r, int64_t parts, "
                               "int64_t begin, int64_t end) {\n"
                               "    ((int64_t *)r->ptr[0])[4] = parts + begin + end;\n"
                               "}\n",
                     .has_end = true};
    int64_t     out[5] = {0}, size[2] = {7, 8}, given[1] = {9};
    char        parts[] = {0, 0, 5, 0, 0, 6};
    char       *ptr[] = {(char *)out};
    td_nest_run r = {ptr, size, given, parts, 2, 0};
    CHECK(td__kernels_load(cx, &k, 1) && k.run && k.end);
    k.run(&r, 1, 10, 14);
    k.end(&r, 2, 3, 4);
    CHECK(out[0] == 8 && out[1] == 9 && out[2] == 5 && out[3] == 4 && out[4] == 9);
    td_close(cx);
}

TEST(equal_texts_are_one_function) {
    td_ctx   *cx = open_plain();
    td_kernel k[3] = {scale_kernel(5), scale_kernel(6), scale_kernel(5)};
    td_kernel again = scale_kernel(6);
    k[0].note = "here */ and */ there";
    CHECK(td__kernels_load(cx, k, 3));
    CHECK(k[0].run == k[2].run && k[0].run != k[1].run);
    td_config_set(cx, "cc_seconds", "1");
    CHECK(td__kernels_load(cx, &again, 1) && again.run == k[1].run);
    td_close(cx);
}

TEST(other_flags_are_another_function) {
    td_ctx   *cx = open_plain();
    td_kernel a = scale_kernel(7), b = scale_kernel(7);
    CHECK(td__kernels_load(cx, &a, 1));
    td_config_set(cx, "cc_flags", "-DUNUSED  -O1");
    CHECK(td__kernels_load(cx, &b, 1) && a.run != b.run);
    td_close(cx);
}

TEST(many_kernels_are_spread_over_units) {
    enum { N = 24 };
    td_ctx   *cx = open_plain();
    td_kernel k[N];
    float     x[2] = {1, 2}, y[2];
    for (int i = 0; i < N; i++) k[i] = scale_kernel(100 + i);
    CHECK(td__kernels_load(cx, k, N));
    for (int i = 0; i < N; i++) {
        run_on(&k[i], x, y, 0, 2);
        CHECK(y[0] == (float)(100 + i) && y[1] == (float)(200 + 2 * i));
    }
    td_close(cx);
}

TEST(the_text_of_a_kernel_is_what_its_name_is_made_of) {
    td_ctx   *cx = open_plain();
    char      a[TD_UNIT_NAME], b[TD_UNIT_NAME];
    td_kernel k = scale_kernel(1), l = scale_kernel(2);
    CHECK(td__unit_name(cx, "key", &k, a) && td__unit_name(cx, "key", &k, b));
    CHECK_STR(a, b);
    CHECK(strlen(a) == 34);
    k.note = "another";
    CHECK(td__unit_name(cx, "key", &k, b) && !strcmp(a, b));
    CHECK(td__unit_name(cx, "key", &l, b) && strcmp(a, b));
    CHECK(td__unit_name(cx, "kez", &k, b) && strcmp(a, b));
    k.has_end = true;
    CHECK(td__unit_name(cx, "key", &k, b) && strcmp(a, b));
    td_close(cx);
}

/* ---- threads ------------------------------------------------------------ */

enum { THREADS = 4, SHARED = 6 };

static void *load_shared(void *arg) {
    td_ctx      *cx = open_plain();
    td_kernel    k[SHARED];
    td_nest_fn **out = arg;
    for (int i = 0; i < SHARED; i++) k[i] = scale_kernel(500 + i);
    if (td__kernels_load(cx, k, SHARED))
        for (int i = 0; i < SHARED; i++) out[i] = k[i].run;
    td_close(cx);
    return NULL;
}

TEST(threads_that_want_the_same_kernels_compile_them_once) {
    td_nest_fn *got[THREADS][SHARED] = {0};
    pthread_t   t[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, load_shared, got[i]) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < SHARED; k++) CHECK(got[i][k] && got[i][k] == got[0][k]);
}

/* ---- forks -------------------------------------------------------------- */

static void *load_slowly(void *arg) {
    td_ctx   *cx = open_plain();
    td_kernel k = scale_kernel(700);
    td_config_set(cx, "cc", arg);
    (void)td__kernels_load(cx, &k, 1);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL); /* leaves nothing open */
    td_close(cx);
    return NULL;
}

/* A compiler that takes a second. */
static void make_slow(char *path) {
    int   fd = mkstemp(path);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    CHECK(f != NULL);
    fprintf(f, "#!/bin/sh\nsleep 1\nexec cc \"$@\"\n");
    fclose(f);
    CHECK(chmod(path, 0700) == 0);
}

/* The child has the lock and what is being compiled, but not the thread that does. */
TEST(a_fork_while_a_kernel_is_compiled_leaves_it_free) {
    pthread_t t;
    char      path[] = "/tmp/td-slow-XXXXXX";
    int       status;
    make_slow(path);
    CHECK(pthread_create(&t, NULL, load_slowly, path) == 0);
    usleep(300 * 1000);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        td_ctx   *cx = open_plain();
        td_kernel k = scale_kernel(700), other = scale_kernel(701);
        td_config_set(cx, "cc", path);
        bool ok = td__kernels_load(cx, &k, 1) && td__kernels_load(cx, &other, 1);
        child_leaves(ok && k.run);
    }
    CHECK(waitpid(pid, &status, 0) == pid && child_was_ok(status));
    pthread_join(t, NULL);
    unlink(path);
}

/* ---- cancelled threads --------------------------------------------------- */

/* The thread that compiles is cancelled; who wants the same kernel then must not wait
 * for it forever. */
TEST(a_thread_cancelled_while_it_compiles_leaves_nobody_waiting) {
    pthread_t t;
    char      path[] = "/tmp/td-slow-XXXXXX";
    void     *end = NULL;
    make_slow(path);
    CHECK(pthread_create(&t, NULL, load_slowly, path) == 0);
    alarm(600);
    while (td__kernels_loaded() == 0) usleep(1000); /* until it is its to build */
    usleep(300 * 1000);
    CHECK(pthread_cancel(t) == 0);
    td_ctx   *cx = open_plain();
    td_kernel k = scale_kernel(700);
    td_config_set(cx, "cc", path);
    CHECK(td__kernels_load(cx, &k, 1) && k.run);
    CHECK(pthread_join(t, &end) == 0);
    alarm(0);
    td_close(cx);
    unlink(path);
}

TEST(no_name_ends_a_comment_of_emitted_code) {
    static const char *const notes[] = {"a */ b", "a *\\\n/ b", "a *\?\?/\n/ b",
                                        "**/",    "*\\\r\n/",   "*\x01/"};
    for (int i = 0; i < TD_COUNT(notes); i++) {
        td_ctx         *cx = td_open();
        td_buf          text = {0};
        int             units;
        td_kernel       k = {.text = "void KERNEL(void) {}", .note = notes[i]};
        td_named_kernel a = {.k = &k, .name = "k_1"};
        CHECK(td__unit_texts(cx, &a, 1, &text, 1, &units));
        const char *at = strstr(text.s, "/* "), *end = strstr(text.s, "*/");
        CHECK(at && end && !strncmp(end, "*/\nvoid k_1", 11));
        CHECK(!memchr(at, '\\', (size_t)(end - at)) &&
              !memchr(at, '?', (size_t)(end - at)));
        td__buf_free(&text);
        td_close(cx);
    }
}
