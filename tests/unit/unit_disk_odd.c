/* unit_disk_odd.c -- the cache where things are odd: no place for it, no
 * secret, files that are too large or none of ours, a lock that somebody else
 * has. */
#include "disk_help.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

/* The directory that a context without the setting would use; "": none. */
static void chosen(char *to, size_t cap, const char *xdg, const char *home) {
    td_ctx *cx = td_open();
    td_disk d;
    td_config_set(cx, "cache_dir", "");
    if (xdg) setenv("XDG_CACHE_HOME", xdg, 1);
    else unsetenv("XDG_CACHE_HOME");
    if (home) setenv("HOME", home, 1);
    else unsetenv("HOME");
    td__disk_open(&d, cx, false);
    snprintf(to, cap, "%s", d.dir);
    td__disk_close(&d);
    td_close(cx);
}

TEST(the_place_follows_from_the_environment) {
    char  dir[1100], longer[1100];
    char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    xdg = xdg ? strdup(xdg) : NULL;
    home = home ? strdup(home) : NULL;
    memset(longer, 'x', sizeof longer - 1);
    longer[0] = '/', longer[sizeof longer - 1] = 0;

    chosen(dir, sizeof dir, "/somewhere", "/home/me");
    CHECK_STR(dir, "/somewhere/tandem");
    chosen(dir, sizeof dir, NULL, "/home/me");
    CHECK_STR(dir, "/home/me/.cache/tandem");
    chosen(dir, sizeof dir, "", "/home/me");
    CHECK_STR(dir, "/home/me/.cache/tandem");
    chosen(dir, sizeof dir, "not/absolute", "/home/me"); /* as the standard says */
    CHECK_STR(dir, "/home/me/.cache/tandem");
    chosen(dir, sizeof dir, NULL, NULL);
    CHECK_STR(dir, "");
    chosen(dir, sizeof dir, NULL, "not/absolute");
    CHECK_STR(dir, "");
    chosen(dir, sizeof dir, longer, "/home/me");
    CHECK_STR(dir, "");

    if (xdg) setenv("XDG_CACHE_HOME", xdg, 1);
    else unsetenv("XDG_CACHE_HOME");
    if (home) setenv("HOME", home, 1);
    else unsetenv("HOME");
    free(xdg);
    free(home);
}

TEST(without_its_secret_a_cache_is_looked_at_and_not_believed) {
    char    path[256], why[200];
    td_buf  text = {0}, some = {0};
    td_disk d;
    enter();
    load((wish){.by = 31});
    only_file(path, sizeof path);
    const char *name = strrchr(path, '/') + 1, *other = "k_other";
    td_ctx     *cx = open_at(place);
    td__disk_open(&d, cx, false);
    CHECK(d.signs && td__disk_check(&d, name, &text, why, sizeof why));
    CHECK(!td__disk_check(&d, "k_none", &text, why, sizeof why));
    CHECK_STR(why, "is not there");
    td__buf_add(&some, "bytes");
    td__disk_close(&d);
    char secret[256];
    snprintf(secret, sizeof secret, "%s/secret", place);
    CHECK(unlink(secret) == 0);
    td__disk_open(&d, cx, false); /* which makes none */
    CHECK(d.fd >= 0 && !d.signs);
    CHECK(!td__disk_check(&d, name, &text, why, sizeof why));
    CHECK_STR(why, "cannot be checked: the secret of the cache is missing");
    td__disk_store(&d, &some, "key\n", &other, 1);
    td__disk_store_entry(&d, "n_other", "key\n", "a note", &some);
    CHECK(faccessat(d.fd, other, F_OK, 0) != 0);
    CHECK(faccessat(d.fd, "n_other", F_OK, 0) != 0);
    td__disk_close(&d);
    CHECK(!td__disk_load(&d, other, "key\n")); /* closed */
    td__buf_free(&text);
    td__buf_free(&some);
    td_close(cx);
    leave();
}

TEST(a_file_larger_than_the_cache_may_be_is_a_miss) {
    char    why[200];
    td_buf  text = {0};
    td_disk d;
    enter();
    load((wish){.by = 31});
    td_ctx *cx = open_at(place);
    td_config_set(cx, "cache_disk_mb", "1");
    td__disk_open(&d, cx, false);
    int fd = openat(d.fd, "k_large", O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0 && ftruncate(fd, (1 << 20) + 1) == 0 && close(fd) == 0);
    CHECK(!td__disk_check(&d, "k_large", &text, why, sizeof why));
    CHECK_STR(why, "is larger than the whole cache may be");
    td__disk_close(&d);
    td__buf_free(&text);
    td_close(cx);
    leave();
}

/* Only files whose names are ours are listed, and go. */
TEST(what_is_not_ours_is_neither_listed_nor_removed) {
    char          longest[200] = "k_";
    td_disk_files list = {0};
    td_disk       d;
    enter();
    load((wish){.by = 31});
    td_ctx *cx = open_at(place);
    td__disk_open(&d, cx, false);
    memset(longest + 2, 'x', 150);
    CHECK(mkdirat(d.fd, "k_folder", 0700) == 0);
    static const char *const names[] = {"kept", "k", "tmp", "notes.txt"};
    for (int i = 0; i < TD_COUNT(names); i++)
        close(openat(d.fd, names[i], O_CREAT | O_WRONLY, 0600));
    close(openat(d.fd, longest, O_CREAT | O_WRONLY, 0600));
    CHECK(td__disk_list(&d, &list) && list.n == 2);
    td__vec_free(&list);
    CHECK(td__disk_clear(&d) == 2);
    for (int i = 0; i < TD_COUNT(names); i++) CHECK(unlinkat(d.fd, names[i], 0) == 0);
    CHECK(unlinkat(d.fd, longest, 0) == 0);
    CHECK(unlinkat(d.fd, "k_folder", AT_REMOVEDIR) == 0);
    td__disk_close(&d);
    td_close(cx);
    leave();
}

TEST(one_process_at_a_time_evicts) {
    td_disk d;
    enter();
    load((wish){.by = 31});
    td_ctx *cx = open_at(place);
    td__disk_open(&d, cx, false);
    unlinkat(d.fd, "lock", 0);
    int fd = openat(d.fd, "lock", O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
    CHECK(td__disk_evict(&d, 0) == 0); /* somebody else does */
    close(fd);
    CHECK(unlinkat(d.fd, "lock", 0) == 0 && mkdirat(d.fd, "lock", 0700) == 0);
    CHECK(td__disk_evict(&d, 0) == 0); /* there can be no lock */
    CHECK(unlinkat(d.fd, "lock", AT_REMOVEDIR) == 0);
    /* a file being written now stays, one that was left goes */
    struct timespec then[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    close(openat(d.fd, "tmp-1-new", O_CREAT | O_WRONLY, 0600));
    close(openat(d.fd, "tmp-1-old", O_CREAT | O_WRONLY, 0600));
    CHECK(utimensat(d.fd, "tmp-1-old", then, 0) == 0);
    CHECK(td__disk_evict(&d, 0) == 3);
    CHECK(faccessat(d.fd, "tmp-1-new", F_OK, 0) == 0);
    CHECK(faccessat(d.fd, "tmp-1-old", F_OK, 0) != 0);
    td__disk_close(&d);
    td_close(cx);
    leave();
}
