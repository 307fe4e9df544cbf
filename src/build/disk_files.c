/* disk_files.c -- lists, evicts and clears the files of the cache. */
#include "build/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A name that the cache makes; other files in the directory are never touched. */
static bool is_ours(const char *name) {
    return (strchr("kfnuc", name[0]) && name[0] && name[1] == '_') ||
           !strncmp(name, "tmp-", 4);
}

static bool add_file(const td_disk *d, const char *name, td_disk_files *list) {
    struct stat  st;
    td_disk_file f = {.temp = name[0] == 't'};
    if (!is_ours(name) || strlen(name) >= sizeof f.name) return true;
    if (fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return true; /* removed */
    if (!S_ISREG(st.st_mode)) return true;
    memcpy(f.name, name, strlen(name) + 1);
    f.inode = st.st_ino;
    f.device = st.st_dev;
    f.bytes = st.st_size;
    f.used = st.st_mtim.tv_sec;
    return td__vec_push(list, f);
}

/* Last used first; names of one file are adjacent. */
static int order(const void *a, const void *b) {
    const td_disk_file *x = a, *y = b;
    if (x->used != y->used) return x->used < y->used ? 1 : -1;
    if (x->inode != y->inode) return x->inode < y->inode ? 1 : -1;
    return strcmp(x->name, y->name);
}

bool td__disk_list(const td_disk *d, td_disk_files *list) {
    int  fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    bool ok = dir != NULL;
    if (!dir && fd >= 0) close(fd);
    for (struct dirent *e; ok && (e = readdir(dir));) ok = add_file(d, e->d_name, list);
    if (dir) closedir(dir);
    if (ok && list->n) qsort(list->v, (size_t)list->n, sizeof *list->v, order);
    return ok;
}

/* Is entry i another name of the file before it? */
static bool is_same_file(const td_disk_files *list, int i) {
    return i > 0 && list->v[i].inode == list->v[i - 1].inode &&
           list->v[i].device == list->v[i - 1].device;
}

int64_t td__disk_bytes(const td_disk_files *list) {
    int64_t sum = 0;
    for (int i = 0; i < list->n; i++)
        if (!is_same_file(list, i)) sum += list->v[i].bytes;
    return sum;
}

/* Removes files from the oldest on, under all their names, down to 7/8 of the limit. */
static int remove_oldest(const td_disk *d, const td_disk_files *list, int64_t most) {
    int64_t have = td__disk_bytes(list), keep = most - most / 8, now = time(NULL);
    int     removed = 0;
    if (have <= most) keep = have;
    for (int i = list->n - 1; i >= 0; i--) {
        const td_disk_file *f = &list->v[i];
        bool                left = f->temp && now - f->used > 3600;
        bool                much = have > keep && !f->temp;
        if (!left && !much) continue;
        removed += unlinkat(d->fd, f->name, 0) == 0;
        if (!is_same_file(list, i)) have -= f->bytes;
    }
    return removed;
}

/* One process at a time; others skip it instead of waiting. */
int td__disk_evict(const td_disk *d, int64_t most) {
    td_disk_files list = {0};
    int           removed = 0;
    const int     how = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int           fd = openat(d->fd, "lock", how, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && td__disk_list(d, &list))
        removed = remove_oldest(d, &list, most);
    td__vec_free(&list);
    if (fd >= 0) close(fd);
    return removed;
}

int td__disk_clear(const td_disk *d) {
    td_disk_files list = {0};
    int           removed = 0;
    if (td__disk_list(d, &list))
        for (int i = 0; i < list.n; i++)
            removed += unlinkat(d->fd, list.v[i].name, 0) == 0;
    td__vec_free(&list);
    (void)unlinkat(d->fd, "secret", 0);
    (void)unlinkat(d->fd, "lock", 0);
    return removed;
}
