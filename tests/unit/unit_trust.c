/* unit_trust.c -- what the cache believes: bytes it wrote itself, in a directory that
 * nobody else can change, under the name they were written for. Everything else is a
 * miss, never a hang and never foreign code. */
#include "disk_help.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* ---- directories -------------------------------------------------------- */

static void make_at(char *path, size_t cap, const char *name, mode_t mode) {
    snprintf(path, cap, "%s/%s", place, name);
    CHECK(mkdir(path, 0700) == 0 && chmod(path, mode) == 0);
}

/* Removes place/a/b and place/a with all of the cache in it. */
static void remove_below(const char *parent, const char *dir) {
    td_disk d;
    CHECK(chmod(parent, 0700) == 0);
    td_ctx *cx = open_at(dir);
    td__disk_open(&d, cx, false);
    td__disk_clear(&d);
    td__disk_close(&d);
    td_close(cx);
    CHECK(rmdir(dir) == 0 && rmdir(parent) == 0);
}

TEST(a_cache_below_a_directory_that_others_can_write_is_not_used) {
    char parent[160], dir[200];
    enter();
    make_at(parent, sizeof parent, "open", 0777);
    snprintf(dir, sizeof dir, "%s/c", parent);
    outcome a = load((wish){.by = 31, .dir = dir});
    CHECK(a.made && !a.stored && a.warnings == 1);
    CHECK(strstr(a.warning, "a parent directory can be written by others"));
    CHECK(chmod(parent, 01777) == 0);
    outcome b = load((wish){.by = 31, .dir = dir});
    outcome c = load((wish){.by = 31, .dir = dir});
    CHECK(b.stored && !b.warnings && c.found && !c.warnings);
    remove_below(parent, dir);
    leave();
}

TEST(a_cache_below_a_directory_of_another_user_is_not_used) {
    char parent[160], dir[200];
    if (geteuid() != 0) return;
    enter();
    make_at(parent, sizeof parent, "theirs", 0755);
    CHECK(chown(parent, 12345, 12345) == 0);
    snprintf(dir, sizeof dir, "%s/c", parent);
    outcome a = load((wish){.by = 31, .dir = dir});
    CHECK(a.made && !a.stored && a.warnings == 1);
    CHECK(strstr(a.warning, "a parent directory belongs to another user"));
    remove_below(parent, dir);
    leave();
}

/* ---- files -------------------------------------------------------------- */

/* dlopen by path would show: the file can be replaced between check and load. */
TEST(code_is_loaded_from_the_bytes_that_were_verified) {
    enter();
    outcome a = load((wish){.by = 31}), b = load((wish){.by = 31});
    CHECK(a.made && b.found && !a.by_path && !b.by_path);
    leave();
}

TEST(where_no_file_in_memory_is_to_be_had_a_private_one_serves) {
    char    path[256], why[200] = "";
    td_buf  b = {0};
    td_disk d;
    enter();
    load((wish){.by = 31});
    only_file(path, sizeof path);
    td_ctx       *cx = open_at(place);
    td_disk_entry e;
    td_cc         cc;
    CHECK(td__cc_open(&cc, cx) && td__unit_key(&b, &cc));
    td__disk_open(&d, cx, false);
    CHECK(!td__disk_read(&d, strrchr(path, '/') + 1, b.s, &e));
    for (int i = 0; i < 3; i++) {
        td__fault_arm(0, false);
        void *lib = td__load_bytes(cx, "x", e.bytes, e.payload, why, sizeof why);
        td__fault_arm(-1, false);
        TD_CHECK_THAT(lib != NULL, "%s", why);
        CHECK(is_mapped("/load"));
    }
    td__disk_entry_free(&e);
    td__disk_close(&d);
    td__cc_close(&cc);
    td__buf_free(&b);
    td_close(cx);
    leave();
}

TEST(what_cannot_be_loaded_is_a_warning_and_a_miss) {
    char    why[200] = "";
    td_ctx *cx = open_plain();
    CHECK(!td__load_bytes(cx, "x", "no library", 10, why, sizeof why));
    TD_CHECK_THAT(strstr(why, "file too short") || strstr(why, "ELF"), "%s", why);
    CHECK(td_ok(cx));
    td_close(cx);
}

TEST(pipes_directories_and_devices_under_a_name_are_a_miss) {
    char path[256];
    enter();
    load((wish){.by = 31});
    only_file(path, sizeof path);
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    alarm(300);
    is_replaced("is not a regular file of this user");
    if (geteuid() == 0 && unlink(path) == 0 && mknod(path, S_IFCHR | 0600, 5 << 8) == 0)
        is_replaced(""); /* the terminal: it is not opened, or there is none */
    CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
    outcome a = load((wish){.by = 31});
    CHECK(a.made && !a.stored && a.warnings == 1);
    CHECK(rmdir(path) == 0);
    leave();
}

TEST(a_file_that_others_can_write_is_a_miss) {
    char path[256];
    enter();
    load((wish){.by = 31});
    only_file(path, sizeof path);
    CHECK(chmod(path, 0620) == 0);
    is_replaced("can be written by others");
    leave();
}

static void copy_file(const char *from, const char *to) {
    char  some[8192];
    FILE *in = fopen(from, "r"), *out = fopen(to, "w");
    CHECK(in && out);
    for (size_t n; (n = fread(some, 1, sizeof some, in)) > 0;) fwrite(some, 1, n, out);
    fclose(in);
    fclose(out);
    chmod(to, 0600);
}

TEST(a_whole_file_of_another_cache_is_a_miss) {
    char path[256], other[160], from[300];
    enter();
    load((wish){.by = 31});
    only_file(path, sizeof path);
    snprintf(other, sizeof other, "%s/other", place);
    load((wish){.by = 31, .dir = other});
    snprintf(from, sizeof from, "%s/%s", other, strrchr(path, '/') + 1);
    copy_file(from, path);
    is_replaced("was not written by this cache");
    td_ctx *cx = open_at(other);
    td_disk d;
    td__disk_open(&d, cx, false);
    td__disk_clear(&d);
    td__disk_close(&d);
    td_close(cx);
    CHECK(rmdir(other) == 0);
    leave();
}

TEST(a_whole_file_under_another_name_is_a_miss) {
    td_buf        b = {0};
    td_disk       d;
    td_disk_entry e;
    char          from[256], to[256];
    enter();
    td_ctx *cx = open_at(place);
    td__disk_open(&d, cx, true);
    td__buf_add(&b, "payload");
    td__disk_store_entry(&d, "n_1", "key\n", "note", &b);
    CHECK(!td__disk_read(&d, "n_1", "key\n", &e) && e.payload == 7);
    td__disk_entry_free(&e);
    snprintf(from, sizeof from, "%s/n_1", place);
    snprintf(to, sizeof to, "%s/n_2", place);
    copy_file(from, to);
    CHECK_STR(td__disk_read(&d, "n_2", "key\n", &e), "has another name");
    td__disk_entry_free(&e);
    td__disk_close(&d);
    td__buf_free(&b);
    td_close(cx);
    leave();
}

/* Every bit of a file, without the secret to sign it again. */
TEST(a_file_with_any_bit_changed_is_a_miss) {
    td_buf        b = {0};
    td_disk       d;
    td_disk_entry e, whole;
    enter();
    td_ctx *cx = open_at(place);
    td_config_set(cx, "log", "");
    td__disk_open(&d, cx, true);
    for (int i = 0; i < 50; i++) td__buf_printf(&b, "%d ", i);
    td__disk_store_entry(&d, "n_1", "key\n", "note", &b);
    CHECK(!td__disk_read(&d, "n_1", "key\n", &whole));
    int fd = openat(d.fd, "n_1", O_RDWR);
    for (size_t at = 0; at < 8 * whole.n; at++) {
        char byte = (char)(whole.bytes[at / 8] ^ 1 << at % 8);
        CHECK(pwrite(fd, &byte, 1, (off_t)(at / 8)) == 1);
        CHECK(td__disk_read(&d, "n_1", "key\n", &e) != NULL);
        td__disk_entry_free(&e);
        CHECK(pwrite(fd, &whole.bytes[at / 8], 1, (off_t)(at / 8)) == 1);
    }
    CHECK(!td__disk_read(&d, "n_1", "key\n", &e));
    close(fd);
    td__disk_entry_free(&e);
    td__disk_entry_free(&whole);
    td__disk_close(&d);
    td__buf_free(&b);
    td_close(cx);
    leave();
}

/* ---- the secret --------------------------------------------------------- */

TEST(a_secret_that_others_can_read_or_that_is_none_is_replaced) {
    char        path[256];
    struct stat st;
    enter();
    load((wish){.by = 31});
    snprintf(path, sizeof path, "%s/secret", place);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600 && st.st_size == 16);
    CHECK(chmod(path, 0644) == 0);
    is_replaced("its checksum is wrong");
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(truncate(path, 3) == 0);
    is_replaced("its checksum is wrong");
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    alarm(300);
    is_replaced("its checksum is wrong");
    CHECK(unlink(path) == 0 && symlink("/etc/passwd", path) == 0);
    is_replaced("its checksum is wrong");
    leave();
}

/* Too many open files, for one: nothing is wrong with what lies there. */
TEST(a_secret_that_cannot_be_read_now_is_not_replaced) {
    outcome o = {0};
    td_disk d;
    int     refused = 0;
    enter();
    load((wish){.by = 31});
    td_ctx *cx = open_at(place);
    td_log_to(cx, listen, &o);
    for (int64_t n = 0, more = 1; more; n++) {
        td__fault_arm(n, false);
        td__disk_open(&d, cx, true);
        more = td__fault_count() > n;
        td__fault_arm(-1, false);
        refused += d.fd < 0;
        CHECK(!more || d.fd < 0);
        td__disk_close(&d);
    }
    CHECK(refused >= 2 && o.warnings >= 1);
    CHECK(strstr(o.warning, "cannot read the secret of /tmp/td-cache-"));
    td_close(cx);
    CHECK(load((wish){.by = 31}).found);
    leave();
}

/* ---- compilers ---------------------------------------------------------- */

/* A compiler that is a script, at place/name. */
static void write_compiler(char *path, size_t cap, const char *name) {
    snprintf(path, cap, "%s/%s", place, name);
    FILE *f = fopen(path, "w");
    CHECK(f);
    fputs("#!/bin/sh\nexec cc \"$@\"\n", f);
    fclose(f);
    CHECK(chmod(path, 0700) == 0);
}

TEST(a_warm_cache_serves_without_a_compiler) {
    char cc[256];
    enter();
    write_compiler(cc, sizeof cc, "mycc");
    outcome a = load((wish){.by = 31, .cc = cc});
    CHECK(a.made && a.stored);
    CHECK(unlink(cc) == 0);
    outcome b = load((wish){.by = 31, .cc = cc});
    CHECK(b.found && !b.made && !b.warnings);
    outcome c = load((wish){.by = 32, .cc = cc, .fails = true});
    CHECK(strstr(c.warning, "not found") && strstr(c.warning, cc));
    leave();
}

TEST(a_compiler_may_have_blanks_in_its_path) {
    char cc[256], said[600];
    enter();
    write_compiler(cc, sizeof cc, "my \"cc");
    snprintf(said, sizeof said, "'%s' -O0", cc);
    outcome a = load((wish){.by = 31, .cc = said});
    CHECK(a.made && a.stored);
    snprintf(said, sizeof said, "%s/my\\ \\\"cc -O0", place);
    outcome b = load((wish){.by = 31, .cc = said});
    CHECK(b.found && !b.made);
    snprintf(said, sizeof said, "\"%s/my \\\"cc\" '-O0'", place);
    outcome c = load((wish){.by = 31, .cc = said, .flags = "-DX='a b'"});
    CHECK(c.made && c.stored);
    snprintf(said, sizeof said, "'%s", cc);
    outcome d = load((wish){.by = 31, .cc = said, .fails = true});
    CHECK(strstr(d.warning, "a quote is not closed"));
    CHECK(unlink(cc) == 0);
    leave();
}

/* ---- temporary files ---------------------------------------------------- */

static outcome load_with_tmpdir(const char *dir, int by) {
    setenv("TMPDIR", dir, 1);
    outcome o = load((wish){.by = by});
    unsetenv("TMPDIR");
    return o;
}

TEST(a_dollar_in_tmpdir_is_only_a_letter) {
    char dir[160];
    enter();
    make_at(dir, sizeof dir, "$ORIGIN", 0700);
    outcome a = load_with_tmpdir(dir, 31);
    CHECK(a.made && a.stored && !a.warnings);
    CHECK(rmdir(dir) == 0);
    leave();
}

TEST(code_is_not_compiled_where_others_can_replace_it) {
    char dir[160];
    enter();
    make_at(dir, sizeof dir, "open", 0777);
    outcome a = load_with_tmpdir(dir, 31);
    CHECK(a.made && a.warnings == 1);
    CHECK(strstr(a.warning, "TMPDIR") && strstr(a.warning, "/tmp is used"));
    CHECK(rmdir(dir) == 0);
    leave();
}

/* Loading does not go through the file, so that its mount does not matter. */
TEST(a_cache_on_a_disk_without_programs_is_used) {
    int status = 0;
    enter();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = unshare(CLONE_NEWNS) == 0 &&
                  mount("none", "/", "", MS_REC | MS_PRIVATE, NULL) == 0 &&
                  mount("x", place, "tmpfs", MS_NOEXEC, "mode=0700") == 0;
        if (!ok) child_leaves(true); /* not for everybody */
        outcome a = load((wish){.by = 31}), b = load((wish){.by = 31});
        child_leaves(a.stored && b.found && !b.made && !a.warnings && !b.warnings);
    }
    CHECK(waitpid(pid, &status, 0) == pid && child_was_ok(status));
    leave();
}
