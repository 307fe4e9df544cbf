/* td_files.h -- a scratch directory and raw files for the tests of file formats. */
#ifndef TD_FILES_TEST_H
#define TD_FILES_TEST_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A fresh directory; files_path names a file in it, files_end removes all. */
static char files_dir[64];

static inline void files_begin(void) {
    strcpy(files_dir, "/tmp/td-files-XXXXXX");
    if (!mkdtemp(files_dir)) abort();
}

static inline const char *files_path(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", files_dir, name);
    return path;
}

static inline int files_count(void) {
    DIR *d = opendir(files_dir);
    int  n = 0;
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

static inline void files_end(void) {
    DIR *d = opendir(files_dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') unlink(files_path(e->d_name));
    if (d) closedir(d);
    rmdir(files_dir);
}

static inline void files_write(const char *name, const void *bytes, size_t n) {
    FILE *f = fopen(files_path(name), "wb");
    if (!f || fwrite(bytes, 1, n, f) != n) abort();
    fclose(f);
}

static inline size_t files_read(const char *name, void *bytes, size_t cap) {
    FILE  *f = fopen(files_path(name), "rb");
    size_t n = f ? fread(bytes, 1, cap, f) : 0;
    if (f) fclose(f);
    return n;
}

#endif
