/* unit_disk.c -- compiled code on disk: found again by another process, never used
 * where anything about it is wrong, bounded in size, and not needed. */
#include "disk_help.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

/* ---- finding ------------------------------------------------------------ */

TEST(what_one_process_compiles_another_finds) {
    enter();
    outcome a = load((wish){.by = 31}), b = load((wish){.by = 31});
    CHECK(!a.found && a.made && a.stored && b.found && !b.made && !b.stored);
    CHECK(strstr(a.miss, "is not there") && !*b.miss && !a.warnings && !b.warnings);
    leave();
}

TEST(kernels_are_found_one_by_one) {
    enter();
    outcome a = load((wish){.by = 31, .more = 3});
    outcome b = load((wish){.by = 33});
    outcome c = load((wish){.by = 33, .more = 2});
    outcome d = load((wish){.by = 31, .more = 4});
    CHECK(a.made && b.found && !b.made && c.found && c.made && d.found && !d.made);
    leave();
}

TEST(other_flags_or_another_level_are_not_found) {
    enter();
    load((wish){.by = 31});
    outcome a = load((wish){.by = 31, .flags = "-O1"});
    outcome b = load((wish){.by = 31, .flags = "-O1"});
    CHECK(!a.found && a.made && b.found && !b.made);
    leave();
}

/* ---- what is wrong with files ------------------------------------------- */

TEST(a_damaged_file_is_a_miss_and_replaced) {
    char path[256], byte;
    enter();
    load((wish){.by = 31});
    only_file(path, sizeof path);
    struct stat st;
    CHECK(stat(path, &st) == 0);
    for (off_t at = 0; at < st.st_size - 40; at += st.st_size / 7) {
        int fd = open(path, O_RDWR);
        CHECK(pread(fd, &byte, 1, at) == 1);
        byte ^= 4;
        CHECK(pwrite(fd, &byte, 1, at) == 1);
        close(fd);
        is_replaced("checksum");
    }
    leave();
}

TEST(a_file_that_is_cut_off_is_a_miss_and_replaced) {
    char        path[256];
    struct stat st;
    enter();
    load((wish){.by = 31});
    only_file(path, sizeof path);
    CHECK(stat(path, &st) == 0 && truncate(path, st.st_size - 1) == 0);
    is_replaced("truncated");
    CHECK(truncate(path, 10) == 0);
    is_replaced("truncated");
    CHECK(truncate(path, 0) == 0);
    is_replaced("is empty");
    leave();
}

TEST(what_is_not_a_file_of_ours_is_a_miss_and_replaced) {
    char path[256];
    enter();
    load((wish){.by = 31});
    only_file(path, sizeof path);
    CHECK(unlink(path) == 0 && symlink("/bin/true", path) == 0);
    is_replaced("symbolic links");
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 100; i++) fputs("from somewhere else", f);
    fclose(f);
    is_replaced("another version");
    leave();
}

TEST(a_file_that_was_made_by_another_compiler_is_a_miss) {
    outcome o = {0};
    char    path[256];
    td_disk d;
    enter();
    load((wish){.by = 31});
    only_file(path, sizeof path);
    td_ctx *cx = open_at(place);
    td_log_to(cx, listen, &o);
    td__disk_open(&d, cx, false);
    CHECK(!td__disk_load(&d, strrchr(path, '/') + 1, "tandem 9\n"));
    CHECK(strstr(o.miss, "made by another compiler") != NULL);
    td__disk_close(&d);
    td_close(cx);
    leave();
}

TEST(a_file_says_what_it_was_made_of) {
    char    path[256], why[100];
    td_buf  text = {0};
    td_disk d;
    enter();
    load((wish){.by = 31});
    only_file(path, sizeof path);
    td_ctx *cx = open_at(place);
    td__disk_open(&d, cx, false);
    CHECK(td__disk_check(&d, strrchr(path, '/') + 1, &text, why, sizeof why));
    static const char *const words[] = {"tandem ",      "\nops ",    "\nlevel ",
                                        "\ncompiler /", "\nflags -", "\nkernels k_"};
    for (int i = 0; i < TD_COUNT(words); i++)
        CHECK(strstr(td__buf_str(&text), words[i]) != NULL);
    td__buf_free(&text);
    td__disk_close(&d);
    td_close(cx);
    leave();
}

/* ---- directories -------------------------------------------------------- */

TEST(a_directory_others_can_write_is_not_used) {
    enter();
    CHECK(chmod(place, 0770) == 0);
    outcome a = load((wish){.by = 31}), b = load((wish){.by = 31});
    CHECK(a.made && !a.stored && a.warnings == 1 && b.made && !b.found);
    CHECK(strstr(a.warning, "written by others") && strstr(a.warning, place));
    CHECK(chmod(place, 0700) == 0);
    leave();
}

TEST(a_directory_of_somebody_else_is_not_used) {
    if (geteuid() != 0) return;
    enter();
    CHECK(chown(place, 12345, 12345) == 0);
    outcome a = load((wish){.by = 31});
    CHECK(a.made && !a.stored && a.warnings == 1);
    CHECK(strstr(a.warning, "belongs to another user") != NULL);
    CHECK(chown(place, 0, 0) == 0);
    leave();
}

TEST(a_directory_is_made_with_those_above_it) {
    char        dir[160], path[200];
    struct stat st;
    enter();
    snprintf(dir, sizeof dir, "%s/a/b", place);
    outcome a = load((wish){.by = 31, .dir = dir});
    outcome b = load((wish){.by = 31, .dir = dir});
    CHECK(a.stored && b.found);
    CHECK(stat(dir, &st) == 0 && (st.st_mode & 0777) == 0700);
    td_ctx *cx = open_at(dir);
    td_disk d;
    td__disk_open(&d, cx, false);
    CHECK(td__disk_clear(&d) == 2);
    td__disk_close(&d);
    td_close(cx);
    snprintf(path, sizeof path, "%s/lock", dir);
    CHECK((unlink(path) == 0 || errno == ENOENT) && rmdir(dir) == 0); /* not locked */
    snprintf(dir, sizeof dir, "%s/a", place);
    CHECK(rmdir(dir) == 0);
    leave();
}

TEST(a_place_that_is_no_directory_is_one_warning) {
    enter();
    outcome a = load((wish){.by = 31, .dir = "/dev/null/x"});
    CHECK(a.made && a.warnings == 1 && strstr(a.warning, "/dev/null/x"));
    a = load((wish){.by = 31, .dir = "not/absolute"});
    CHECK(a.made && a.warnings == 1 && strstr(a.warning, "absolute"));
    leave();
}

/* ---- no room ------------------------------------------------------------ */

TEST(a_full_disk_is_one_warning_and_leaves_nothing) {
    char        path[256];
    struct stat st;
    enter();
    load((wish){.by = 31});
    only_file(path, sizeof path);
    CHECK(stat(path, &st) == 0 && unlink(path) == 0);
    /* room for the library itself, but not for all of what is behind it */
    outcome a = load((wish){.by = 31, .most_bytes = (rlim_t)st.st_size - 9});
    CHECK(a.made && !a.stored && a.warnings == 1);
    TD_CHECK_THAT(strstr(a.warning, "cannot write in") && strstr(a.warning, place),
                  "%s", a.warning);
    outcome b = load((wish){.by = 31});
    CHECK(b.made && b.stored);
    leave();
}

/* Removes the entry that says which compiler was used. */
static void forget_compiler(const td_disk *d) {
    td_disk_files list = {0};
    CHECK(td__disk_list(d, &list));
    for (int i = 0; i < list.n; i++)
        if (list.v[i].name[0] == 'c') unlinkat(d->fd, list.v[i].name, 0);
    td__vec_free(&list);
}

static void set_age(const td_disk *d, const char *name, int seconds) {
    struct timespec then = {.tv_sec = time(NULL) - seconds};
    utimensat(d->fd, name, (struct timespec[2]){then, then}, 0);
}

TEST(the_least_recently_used_go_first) {
    char          name[3][64];
    td_ctx       *cx = open_at(place);
    td_disk_files list = {0};
    td_disk       d;
    enter();
    td_config_set(cx, "cache_dir", place);
    for (int i = 0; i < 3; i++) load((wish){.by = 31 + 10 * i, .more = i});
    td__disk_open(&d, cx, false);
    forget_compiler(&d);
    CHECK(td__disk_list(&d, &list) && list.n == 6);
    /* the oldest is the one of three names, then that of one */
    for (int i = 0; i < list.n; i++) {
        struct stat st;
        fstatat(d.fd, list.v[i].name, &st, 0);
        static const int age[] = {200, 100, 300};
        size_t           links = (size_t)st.st_nlink;
        set_age(&d, list.v[i].name, age[links - 1]);
        snprintf(name[links - 1], sizeof name[0], "%s", list.v[i].name);
    }
    int64_t all = td__disk_bytes(&list);
    td__vec_free(&list);
    CHECK(td__disk_evict(&d, all) == 0);
    CHECK(td__disk_evict(&d, all - 1) == 3);
    CHECK(faccessat(d.fd, name[2], F_OK, 0) != 0);
    CHECK(faccessat(d.fd, name[0], F_OK, 0) == 0);
    td__disk_close(&d);
    outcome a = load((wish){.by = 31});
    CHECK(a.found); /* used just now: the other one goes */
    td__disk_open(&d, cx, false);
    CHECK(td__disk_list(&d, &list) && list.n == 3);
    CHECK(td__disk_evict(&d, td__disk_bytes(&list) * 6 / 10) == 2);
    CHECK(faccessat(d.fd, name[0], F_OK, 0) == 0);
    td__vec_free(&list);
    td__disk_close(&d);
    td_close(cx);
    leave();
}

TEST(files_of_killed_processes_are_removed) {
    td_ctx *cx = open_at(place);
    td_disk d;
    enter();
    td_config_set(cx, "cache_dir", place);
    td__disk_open(&d, cx, false);
    static const char *const names[] = {"tmp-1-2-3", "tmp-4-5-6", "notes.txt"};
    for (int i = 0; i < 3; i++) close(openat(d.fd, names[i], O_CREAT | O_WRONLY, 0600));
    set_age(&d, names[0], 4000);
    set_age(&d, names[2], 4000);
    CHECK(td__disk_evict(&d, 1 << 20) == 1);
    CHECK(faccessat(d.fd, names[0], F_OK, 0) != 0);
    CHECK(faccessat(d.fd, names[1], F_OK, 0) == 0);
    CHECK(unlinkat(d.fd, names[2], 0) == 0);
    td__disk_close(&d);
    td_close(cx);
    leave();
}

/* The compiler's own files are needed, the cache's are not. */
TEST(every_failing_allocation_or_file_is_an_error_or_no_matter) {
    td_ctx *cx = open_at(place);
    outcome o = {0};
    int     failures = 0;
    enter();
    td_config_set(cx, "cache_dir", place);
    td_log_to(cx, listen, &o);
    load((wish){.by = 5000, .more = 1});
    for (int n = 0;; n++) {
        td_kernel k[2] = {scale_kernel(5000), scale_kernel(6000 + n)};
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
    td_close(cx);
    leave();
}
