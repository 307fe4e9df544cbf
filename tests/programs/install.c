/* install.c -- `make install`: what it copies is there, and a stranger's program builds
 * with it through pkg-config and runs, in C and, where there is a compiler, in C++. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static int  passed, failed, skipped;
static char root[] = "/tmp/tandem-install-XXXXXX";

static void check(bool ok, const char *what) {
    if (!ok) printf("FAIL %s\n", what);
    ok ? passed++ : failed++;
}

/* A program that links a library with a sanitizer needs it itself. */
#if defined __SANITIZE_ADDRESS__
#define SANITIZER "-fsanitize=address,undefined "
#elif defined __SANITIZE_THREAD__
#define SANITIZER "-fsanitize=thread "
#else
#define SANITIZER ""
#endif

/* Runs a command line in the installed tree's environment; its output on failure. */
static bool works(const char *line) {
    char all[2048], out[4096];
    snprintf(all, sizeof all,
             "export R=%s PKG_CONFIG_PATH=%s/lib/pkgconfig LD_LIBRARY_PATH=%s/lib; "
             "(%s) >%s/log 2>&1",
             root, root, root, line, root);
    int status = system(all);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    snprintf(all, sizeof all, "%s/log", root);
    FILE  *f = fopen(all, "r");
    size_t n = f ? fread(out, 1, sizeof out - 1, f) : 0;
    out[n] = 0;
    if (f) fclose(f);
    printf("%s\n%s\n", line, out);
    return false;
}

static void test_files(void) {
    static const char *const files[] = {"include/tandem/tandem.h",
                                        "include/tandem/place.h",
                                        "lib/libtandem.a",
                                        "lib/libtandem.so",
                                        "lib/pkgconfig/tandem.pc",
                                        "lib/cmake/tandem/tandem-config.cmake",
                                        "bin/tandem",
                                        "share/man/man1/tandem.1",
                                        "share/man/man1/tandem-check.1",
                                        "share/doc/tandem/README.md",
                                        "share/doc/tandem/CONTRIBUTING.md",
                                        "share/doc/tandem/docs/guide.md",
                                        "share/doc/tandem/docs/report.png",
                                        "share/doc/tandem/examples/first.c",
                                        "share/doc/tandem/examples/gpt2/model.c"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char line[256];
        snprintf(line, sizeof line, "test -s \"$R/%s\"", files[i]);
        check(works(line), files[i]);
    }
}

static void test_programs(void) {
    check(works(
              "cc " SANITIZER
              "-Wall -Wextra -Werror $R/share/doc/tandem/examples/first.c -o $R/first "
              "$(pkg-config --cflags --libs tandem) && $R/first"),
          "a C program builds with pkg-config and runs");
    if (!works("command -v c++")) {
        skipped++;
        return;
    }
    check(works(
              "printf '#include <tandem/tandem.h>\nint main() { td_ctx *cx = td_open();"
              " td_tensor *x = td_add(td_ones(cx, TD_SHAPE(2, 3)), 1);"
              " bool ok = td_item(td_sum(x)) == 12; td_close(cx); return !ok; }\n'"
              " >$R/p.cc && c++ " SANITIZER
              "-std=c++17 -Wall -Wextra -Werror $R/p.cc -o $R/p "
              "$(pkg-config --cflags --libs tandem) && $R/p"),
          "a C++ program builds without warnings and runs");
}

/* The debug variant, where it was built: its settings differ. */
static void test_debug(void) {
    if (!works("test -e $R/lib/pkgconfig/tandem-debug.pc")) {
        skipped++;
        return;
    }
    check(works("printf '#include <tandem/tandem.h>\nint main(void) {"
                " td_ctx *cx = td_open(); td_config c = {TD_CONFIG};"
                " td_config_get(cx, &c); td_close(cx); return !c.debug_asserts; }\n'"
                " >$R/p.c && cc -Wall -Wextra -Werror $R/p.c -o $R/p "
                "$(pkg-config --cflags --libs tandem-debug) && $R/p"),
          "debug_asserts is on in tandem-debug");
}

/* Pages are installed beside each other: a link to a file that is not installed leads
 * nowhere. */
static void test_links(void) {
    check(works("cd $R/share/doc/tandem && for f in *.md docs/*.md; do "
                "sed 's/](/\\n](/g' $f | sed -n 's/^](\\([^)#]*\\).*/\\1/p' | "
                "grep -v '://' | while read to; do "
                "test -e \"$(dirname $f)/$to\" || echo \"$f: $to\"; "
                "done; done >$R/links; cat $R/links; test ! -s $R/links"),
          "links of installed pages");
}

int main(int argc, char **argv) {
    (void)argc;
    char  line[2048];
    char *end = strrchr(argv[0], '/'); /* BUILD/programs/install */
    if (!mkdtemp(root) || !end) return 1;
    snprintf(line, sizeof line, "tools/install.sh %.*s/.. '' %s 0.1.0 '" TD_LIBS "'",
             (int)(end - argv[0]), argv[0], root);
    check(works(line), "tools/install.sh");
    test_files();
    test_programs();
    test_debug();
    test_links();
    snprintf(line, sizeof line, "tools/uninstall.sh '' %s", root);
    check(works(line), "tools/uninstall.sh");
    check(works("rm -f $R/first $R/p $R/p.c $R/p.cc $R/links; "
                "test \"$(find $R -type f | sed \"s|$R/||\")\" = log"),
          "no file is left after it");
    snprintf(line, sizeof line, "rm -rf '%s'", root);
    check(system(line) == 0, "the installed tree is removed again");
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0;
}
