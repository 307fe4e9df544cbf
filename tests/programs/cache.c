/* cache.c -- the cache of compiled code under processes that are killed at any moment,
 * and under many at once: every load gives the right kernels, every file is whole. */
#include "../unit/child.h"
#include "build/disk.h"
#include "build/unit.h"
#include "tandem/tandem.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char place[64], dir[80];
static int  passed, failed;

static void check(bool ok, const char *what, const char *more) {
    if (ok) passed++;
    else {
        failed++;
        printf("FAIL %s%s%s\n", what, *more ? ": " : "", more);
    }
}

/* ---- a process that loads kernels --------------------------------------- */

enum { MOST = 6 };

/* x *= by, out of a large table: a few of these fill a megabyte. */
static void write_kernel(char *text, size_t cap, int by) {
    snprintf(text, cap,
             "static const float KERNEL_table[9000] = {[%d] = %d.0f};\n"
             "void KERNEL(const td_nest_run *r, int64_t part, int64_t begin,\n"
             "            int64_t end) {\n"
             "    float *x = (float *)r->ptr[0];\n"
             "    for (int64_t i = begin; i < end; i++) x[i] *= KERNEL_table[%d];\n"
             "}\n",
             by, by, by);
}

/* Kernels by, by + 1, ...: are they what they should be? */
static bool load_some(td_ctx *cx, int by, int n) {
    static char text[MOST][400];
    td_kernel   k[MOST] = {0};
    for (int i = 0; i < n; i++) {
        write_kernel(text[i], sizeof text[i], by + i);
        k[i].text = text[i];
    }
    if (!td__kernels_load(cx, k, n)) return false;
    for (int i = 0; i < n; i++) {
        float       x = 3;
        char       *ptr[] = {(char *)&x};
        td_nest_run r = {.ptr = ptr};
        k[i].run(&r, 0, 0, 1);
        if (x != 3 * (float)(by + i)) return false;
    }
    return true;
}

static int warnings;

static void listen(void *env, const char *topic, const char *text) {
    (void)env;
    if (strcmp(topic, "warning")) return;
    warnings++;
    printf("%s\n", text);
}

static td_ctx *open_here(const char *mb) {
    td_ctx *cx = td_open();
    td_config_set(cx, "cache_dir", dir);
    td_config_set(cx, "cache_disk_mb", mb);
    td_log_to(cx, listen, NULL);
    return cx;
}

/* A random walk over 40 kernels, from `first` on. */
static void work(int first, unsigned seed, int rounds, const char *mb) {
    td_ctx *cx = open_here(mb);
    bool    ok = true;
    for (int i = 0; i < rounds && ok; i++)
        ok = load_some(cx, first + rand_r(&seed) % 34, 1 + rand_r(&seed) % MOST);
    if (!ok) printf("%s\n", td_ok(cx) ? "a wrong kernel" : td_message(cx));
    fflush(stdout);
    td_close(cx);
    child_counts();
    _exit(ok && !warnings ? 0 : 1);
}

static pid_t start(int first, unsigned seed, int rounds, const char *mb) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) work(first, seed, rounds, mb);
    return pid;
}

static bool ended_well(pid_t pid) {
    int status = -1;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

/* ---- what is there ------------------------------------------------------ */

static int64_t type(const char *when, int *files) {
    td_ctx       *cx = open_here("64");
    td_disk_files list = {0};
    td_disk       d;
    td_buf        text = {0};
    char          why[200] = "";
    td__disk_open(&d, cx, false);
    bool ok = d.fd < 0 || td__disk_list(&d, &list);
    check(ok, "the cache can be listed", when);
    *files = 0;
    for (int i = 0; i < list.n; i++) {
        if (list.v[i].temp) continue;
        ++*files;
        ok = td__disk_check(&d, list.v[i].name, &text, why, sizeof why);
        if (!ok) check(false, "a file is whole", why);
    }
    int64_t bytes = td__disk_bytes(&list);
    td__buf_free(&text);
    td__vec_free(&list);
    td__disk_close(&d);
    td_close(cx);
    return bytes;
}

/* ---- the tests ---------------------------------------------------------- */

/* Each has kernels that nobody had before, so that it compiles and stores as long as it
 * lives, which is up to three times what the first of that takes. */
static void test_kills(int times) {
    unsigned seed = 7;
    int      files, killed = 0;
    double   begin = td__seconds();
    check(ended_well(start(1, 0, 1, "64")), "a process alone", "");
    long most = 3000 * (long)(1000 * (td__seconds() - begin)) + 1000;
    for (int i = 1; i <= times; i++) {
        pid_t           pid = start(40 * i, (unsigned)i, 1000, "64");
        long            us = (long)(rand_r(&seed) % 1000) * (most / 1000);
        struct timespec nap = {us / 1000000, us % 1000000 * 1000};
        int             status = -1;
        nanosleep(&nap, NULL);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        killed += WIFSIGNALED(status);
        check(WIFSIGNALED(status) || status == 0, "a process before it is killed", "");
        type("after a kill", &files);
    }
    check(killed > times / 2, "most processes were killed at work", "");
    check(ended_well(start(1, 99, 20, "64")), "a process after all those", "");
    type("in the end", &files);
    check(files > 0, "something was kept", "");
}

/* With room for few files, so that they go while others look for them. */
static void test_many(int rounds, const char *mb) {
    pid_t pid[8];
    int   files;
    for (int i = 0; i < 8; i++) pid[i] = start(8000, (unsigned)(100 + i), rounds, mb);
    for (int i = 0; i < 8; i++) check(ended_well(pid[i]), "one of eight processes", mb);
    type("after eight at once", &files);
    check(files > 0, "something was kept", mb);
}

static int remove_one(const char *path, const struct stat *st, int kind,
                      struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

int main(int argc, char **argv) {
    bool quick = getenv("TD_TEST_QUICK") != NULL;
    if (argc > 1 && !strstr("cache", argv[1])) {
        puts("0 passed, 0 failed");
        return 0;
    }
    snprintf(place, sizeof place, "/tmp/td-kill-XXXXXX");
    if (!mkdtemp(place)) return 1;
    snprintf(dir, sizeof dir, "%s/cache", place);
    setenv("TMPDIR", place, 1);
    test_kills(quick ? 8 : 30);
    test_many(quick ? 2 : 6, "64");
    test_many(quick ? 2 : 6, "1");
    nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
