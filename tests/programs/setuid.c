/* setuid.c -- a set-uid program does not believe the environment of its caller: no
 * setting, no directory and no compiler of it is used. Needs root, which alone can make
 * such a program; others see 0 tests. */
#include "build/unit.h"
#include "tandem/tandem.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char place[64];
static int  passed, failed;

static void check(bool ok, const char *what) {
    if (ok) passed++;
    else {
        failed++;
        printf("FAIL %s\n", what);
    }
}

static char *path_of(const char *name) {
    static char at[8][160];
    static int  nr;
    char       *p = at[nr++ % 8];
    snprintf(p, sizeof at[0], "%s/%s", place, name);
    return p;
}

/* ---- inside the set-uid program ----------------------------------------- */

static bool body(td_call *c) {
    return td_return(c, td_sum(td_tanh(td_mul(td_arg(c, 0), 2.0))));
}

/* 0: it works, and nothing of the environment counts. */
static int inside(void) {
    char    text[200] = "";
    td_ctx *cx = td_open();
    if (!getauxval(AT_SECURE)) return 10;
    td_config_text(cx, "cache_disk_mb", text, sizeof text);
    if (!strcmp(text, "3")) return 11;
    td_config_text(cx, "cache_dir", text, sizeof text);
    if (*text) return 12;
    td_config_set(cx, "backend", "native");
    td_fn     *f = td_aot_function(cx, body, NULL, NULL);
    td_tensor *out[1] = {0};
    if (!td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(5))), out, 1)) {
        fprintf(stderr, "%s\n", td_message(cx));
        return 13;
    }
    double sum = td_item(out[0]);
    td_close(cx);
    return sum > 4.8 && sum < 4.9 ? 0 : 14;
}

/* ---- outside ------------------------------------------------------------ */

static bool copy_self(const char *to) {
    char  some[65536];
    FILE *in = fopen("/proc/self/exe", "r"), *out = fopen(to, "w");
    bool  ok = in && out;
    for (size_t n; ok && (n = fread(some, 1, sizeof some, in)) > 0;)
        ok = fwrite(some, 1, n, out) == n;
    if (in) fclose(in);
    if (out && fclose(out)) ok = false;
    return ok && chmod(to, 04755) == 0;
}

/* A compiler that leaves a trace. */
static void write_trap(const char *name) {
    FILE *f = fopen(path_of(name), "w");
    if (!f) return;
    fprintf(f, "#!/bin/sh\ntouch %s\nexec /usr/bin/cc \"$@\"\n", path_of("all/ran"));
    fclose(f);
    chmod(path_of(name), 0755);
}

static int run_as_nobody(const char *program) {
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char *env[10] = {0}, *argv[] = {(char *)(uintptr_t)program, NULL};
        int   n = 0;
        static const char *const names[][2] = {{"TD_TRACE", "all/trace.json"},
                                               {"TD_CACHE_DIR", "all/cache"},
                                               {"TD_CC", "all/trap"},
                                               {"PATH", "all"},
                                               {"TMPDIR", "all/tmp"},
                                               {"XDG_CACHE_HOME", "all/xdg"},
                                               {"HOME", "all/home"}};
        for (int i = 0; i < TD_COUNT(names); i++)
            if (asprintf(&env[n++], "%s=%s", names[i][0], path_of(names[i][1])) < 0)
                _exit(99);
        env[n++] = strdup("TD_CACHE_DISK_MB=3");
        if (setgid(65534) != 0 || setuid(65534) != 0) _exit(98);
        execve(program, argv, env);
        _exit(97);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool exists(const char *name) { return access(path_of(name), F_OK) == 0; }

static int remove_one(const char *path, const struct stat *st, int kind,
                      struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static void test(void) {
    char what[80];
    check(mkdir(path_of("all"), 0777) == 0 && chmod(path_of("all"), 01777) == 0 &&
              mkdir(path_of("all/tmp"), 0777) == 0 &&
              chmod(path_of("all/tmp"), 01777) == 0,
          "directories are made");
    write_trap("all/trap");
    write_trap("all/cc");
    write_trap("all/gcc");
    write_trap("all/ld");
    check(copy_self(path_of("secure")), "a set-uid copy is made");
    int rc = run_as_nobody(path_of("secure"));
    if (rc == 10) { /* the mount does not know set-uid */
        passed = failed = 0;
        return;
    }
    snprintf(what, sizeof what, "the set-uid program works: status %d", rc);
    check(rc == 0, what);
    check(!exists("all/ran"), "a compiler of the environment is not run");
    check(!exists("all/trace.json"), "TD_TRACE is not written");
    check(!exists("all/cache") && !exists("all/xdg") && !exists("all/home"),
          "a cache of the environment is not used");
}

int main(int argc, char **argv) {
    if (getauxval(AT_SECURE) || geteuid() != getuid()) return inside();
    if (strstr(argv[0], "/secure")) return inside(); /* a mount without set-uid */
    if (geteuid() == 0 && (argc < 2 || strstr("setuid", argv[1]))) {
        snprintf(place, sizeof place, "/tmp/td-setuid-XXXXXX");
        if (!mkdtemp(place)) return 1;
        chmod(place, 0755);
        test();
        nftw(place, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
