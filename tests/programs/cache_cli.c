/* cache_cli.c -- `tandem cache` as a person meets it: an empty cache, code that is
 * missed and then found, a damaged file, and nothing again. */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char command[1024], place[64], dir[80];
static int  passed, failed;

typedef struct result {
    char text[1 << 16];
    int  status;
} result;

static result *run(const char *args) {
    static result r;
    char          line[2048];
    snprintf(line, sizeof line, "TD_CACHE_DIR=%s %s %s 2>&1", dir, command, args);
    memset(&r, 0, sizeof r);
    FILE *f = popen(line, "r");
    if (f) {
        r.text[fread(r.text, 1, sizeof r.text - 1, f)] = 0;
        int end = pclose(f);
        r.status = WIFEXITED(end) ? WEXITSTATUS(end) : -1;
    } else r.status = -1;
    return &r;
}

/* Ends with that status and says all of the words, which are separated by |. */
static void says(int status, const char *args, const char *words) {
    char    copy[512], *rest = copy;
    result *r = run(args);
    bool    ok = r->status == status;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word; ok && (word = strsep(&rest, "|"));) ok = strstr(r->text, word);
    if (ok) passed++;
    else {
        failed++;
        printf("FAIL tandem %s: wants %d and \"%s\"; status %d, output:\n%.2000s\n",
               args, status, words, r->status, r->text);
    }
}

static void check(bool ok, const char *what) {
    passed += ok, failed += !ok;
    if (!ok) printf("FAIL %s\n", what);
}

static void write_file(const char *name, const char *text) {
    FILE *f = fopen(name, "w");
    if (f) fputs(text, f), fclose(f);
}

static void test_misuse(void) {
    says(2, "cache", "an action is missing");
    says(2, "cache lsit", "no action \"lsit\"");
    says(2, "cache list more", "unexpected argument \"more\"");
    says(2, "cache why a b", "unexpected argument \"b\"");
    says(2, "cache why /nowhere.td", "/nowhere.td");
    says(0, "help cache", "list|verify|clear|why|TD_CACHE_DIR|EXAMPLES");
}

static void test_empty(void) {
    says(0, "cache list", "0 files, 0 kernels");
    says(0, "cache verify", "0 files, all whole");
    says(0, "cache why",
         "tandem |ops |level |compiler | bytes, changed 2|flags |directory ");
    says(0, "doctor", "cc |cc flags |cache |remote     none (TD_CACHE_REMOTE");
#ifdef TD_HAVE_HIREDIS
    setenv("TD_CACHE_REMOTE", "redis://me:secret@127.0.0.1:1/3", 1);
    says(0, "doctor", "remote |not reached: |no key: graphs only");
    says(0, "cache list", "0 files, 0 kernels|remote: |127.0.0.1:1/3, not reached: ");
    says(0, "cache list --json", "\"reached\":\tfalse|\"key\":\t\"\"");
    check(!strstr(run("cache list")->text, "secret"), "passwords are not printed");
    setenv("TD_CACHE_REMOTE", "ftp://x", 1);
    says(0, "doctor", "does not begin with redis://|remote     not usable");
    unsetenv("TD_CACHE_REMOTE");
#endif
}

/* What is kept is kept for these as they are. */
static const char *const settings[][2] = {{"TD_PARTITION", "default"},
                                          {"TD_KEEP_MUTATIONS", "on"},
                                          {"TD_MERGE_WRITES", "off"},
                                          {"TD_MERGE_MADE", "off"},
                                          {"TD_ASSIGN_WRITES", "off"}};

static void test_code(void) {
    char args[200], path[100];
    snprintf(path, sizeof path, "%s/f.td", place);
    write_file(path, "func @f(%x: f32[4,3]) {\n"
                     "  %y = tanh(%x)\n"
                     "  %z = mul(%y, 2.0)\n"
                     "  return %z\n"
                     "}\n"
                     "case \"one\" {\n"
                     "  %x = randn([4,3], seed=1)\n"
                     "  call @f(%x)\n"
                     "}\n");
    snprintf(args, sizeof args, "cache why %s", path);
    says(0, args, "# case one|f is f_|miss f_|miss n_|miss k_|is not there|0 found, ");
    says(0, args, "# case one|f is f_|hit  f_|hit  n_|hit  k_| found, 0 not");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        setenv(settings[i][0], settings[i][1], 1);
        says(0, args, "miss f_|hit  n_|hit  k_");
        says(0, args, "hit  f_|hit  n_|hit  k_");
        unsetenv(settings[i][0]);
    }
    says(0, "cache list",
         "9 files, |compiler /|KiB  used | ago| k_| n_|graph f, | f_|function f, ");
    says(0, "cache verify", "9 files, all whole");
    unlink(path);
}

/* A name of any bytes stays JSON. */
static void test_names(void) {
    char args[200], path[100];
    snprintf(path, sizeof path, "%s/g.td", place);
    write_file(path, "func @\"my \\xff \\\"net\"(%x: f32[4,3]) {\n"
                     "  %y = exp(%x)\n"
                     "  return %y\n"
                     "}\n"
                     "case \"two\" {\n"
                     "  %x = randn([4,3], seed=1)\n"
                     "  call @\"my \\xff \\\"net\"(%x)\n"
                     "}\n");
    snprintf(args, sizeof args, "cache why %s", path);
    says(0, args, "# case two");
    says(0, "cache list --json", "my \\\\xff \\\"net");
    cJSON *all = cJSON_Parse(run("cache list --json")->text);
    check(all && !strchr(run("cache list --json")->text, 0xff), "names are UTF-8");
    cJSON_Delete(all);
    says(0, "cache clear", "files, ");
    unlink(path);
}

/* The name of the file with kernels, by JSON. */
static bool library(char *out, size_t cap) {
    cJSON *all = cJSON_Parse(run("cache list --json")->text), *f;
    bool   ok = false;
    cJSON_ArrayForEach(f, cJSON_GetObjectItem(all, "files")) {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(f, "name"));
        if (!name || strncmp(name, "k_", 2)) continue;
        ok = cJSON_IsTrue(cJSON_GetObjectItem(f, "whole")) &&
             cJSON_GetArraySize(cJSON_GetObjectItem(f, "kernels")) > 0 &&
             cJSON_IsString(cJSON_GetObjectItem(f, "compiler"));
        snprintf(out, cap, "%s/%s", dir, name);
    }
    cJSON_Delete(all);
    return ok;
}

static void test_damage(void) {
    char path[200];
    bool ok = library(path, sizeof path);
    check(ok, "list --json names a file, its kernels and its compiler");
    if (!ok) return;
    write_file(path, "not this");
    says(1, "cache verify", "is truncated|1 of 9 files");
    says(0, "cache clear", "9 files, ");
    says(0, "cache list", "0 files, 0 kernels");
}

int main(int argc, char **argv) {
    char  lock[100];
    char *slash = strrchr(argv[0], '/');
    if (argc > 1 && !strstr("cache_cli", argv[1])) {
        puts("0 passed, 0 failed");
        return 0;
    }
    snprintf(command, sizeof command, "%.*s../tandem",
             slash ? (int)(slash - argv[0]) + 1 : 0, argv[0]);
    snprintf(place, sizeof place, "/tmp/td-cli-XXXXXX");
    if (!mkdtemp(place)) return 1;
    snprintf(dir, sizeof dir, "%s/cache", place);
    test_misuse();
    test_empty();
    test_names();
    test_code();
    test_damage();
    snprintf(lock, sizeof lock, "%s/lock", dir);
    unlink(lock);
    check(rmdir(dir) == 0 && rmdir(place) == 0, "nothing is left");
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
