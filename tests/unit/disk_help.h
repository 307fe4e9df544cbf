/* disk_help.h -- a cache of a test's own, and processes that load kernels over it. */
#ifndef TD_DISK_HELP_H
#define TD_DISK_HELP_H

#include "build/disk.h"
#include "unit_help.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char place[128];

static inline void enter(void) {
    snprintf(place, sizeof place, "/tmp/td-cache-XXXXXX");
    CHECK(mkdtemp(place) != NULL);
}

static inline td_ctx *open_at(const char *dir) {
    td_ctx *cx = td_open();
    td_config_set(cx, "cache_dir", dir);
    td_config_set(cx, "log", "compile,cache");
    return cx;
}

static inline void leave(void) {
    td_ctx *cx = open_at(place);
    td_disk d;
    td__disk_open(&d, cx, false);
    td__disk_clear(&d);
    td__disk_close(&d);
    CHECK(rmdir(place) == 0);
    td_close(cx);
}

/* What loading a kernel in a fresh process came to. */
typedef struct outcome {
    bool ok, found, made, stored;
    bool by_path; /* a file below `place` is mapped */
    int  warnings;
    char warning[300], miss[300];
} outcome;

static inline void listen(void *env, const char *topic, const char *text) {
    outcome *o = env;
    if (!strncmp(text, "hit: ", 5)) o->found = true;
    if (!strcmp(topic, "compile")) o->made = true;
    if (!strncmp(text, "stored", 6)) o->stored = true;
    if (!strncmp(text, "miss", 4)) snprintf(o->miss, sizeof o->miss, "%s", text);
    if (strcmp(topic, "warning")) return;
    o->warnings++;
    snprintf(o->warning, sizeof o->warning, "%s", text);
}

typedef struct wish {
    int         by, more; /* kernels by, by + 1, ... */
    const char *dir, *flags, *cc;
    rlim_t      most_bytes; /* of a file; 0: no limit */
    bool        fails;      /* loading is to fail; the message is in `warning` */
} wish;

/* Is a file whose path has that text in it mapped in this process? */
static inline bool is_mapped(const char *text) {
    char  line[1024];
    bool  found = false;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f)) found = found || strstr(line, text);
    if (f) fclose(f);
    return found;
}

static inline void in_child(const wish *w, outcome *o) {
    td_ctx   *cx = open_at(w->dir ? w->dir : place);
    td_kernel k[8];
    float     x = 2, y = 0;
    int       n = 1 + w->more;
    if (w->flags) td_config_set(cx, "cc_flags", w->flags);
    if (w->cc) td_config_set(cx, "cc", w->cc);
    td_log_to(cx, listen, o);
    if (w->most_bytes) child_limits_files(w->most_bytes);
    for (int i = 0; i < n; i++) k[i] = scale_kernel(w->by + i);
    o->ok = td__kernels_load(cx, k, n);
    for (int i = 0; i < n && o->ok; i++) {
        run_on(&k[i], &x, &y, 0, 1);
        o->ok = y == 2 * (float)(w->by + i);
    }
    o->by_path = is_mapped(place);
    if (!td_ok(cx)) snprintf(o->warning, sizeof o->warning, "%s", td_message(cx));
    td_close(cx);
}

static inline outcome load(wish w) {
    outcome o = {0};
    int     p[2];
    CHECK(pipe(p) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        in_child(&w, &o);
        bool ok = write(p[1], &o, sizeof o) == sizeof o;
        child_leaves(ok);
    }
    close(p[1]);
    bool ok = read(p[0], &o, sizeof o) == sizeof o;
    close(p[0]);
    CHECK(waitpid(pid, NULL, 0) == pid && ok);
    TD_CHECK_THAT(o.ok == !w.fails, "%s", o.warning);
    return o;
}

/* The one library there is. */
static inline void only_file(char *path, size_t cap) {
    td_ctx       *cx = open_at(place);
    td_disk_files list = {0};
    td_disk       d;
    td__disk_open(&d, cx, false);
    CHECK(td__disk_list(&d, &list) && list.n == 2);
    int at = list.v[0].name[0] == 'k' ? 0 : 1;
    CHECK(list.v[at].name[0] == 'k' && list.v[1 - at].name[0] == 'c');
    snprintf(path, cap, "%s/%s", place, list.v[at].name);
    td__vec_free(&list);
    td__disk_close(&d);
    td_close(cx);
}

/* A miss for that reason, and a file that is whole again. */
static inline void is_replaced(const char *why) {
    outcome a = load((wish){.by = 31}), b = load((wish){.by = 31});
    TD_CHECK_THAT(!a.found && a.made && a.stored && strstr(a.miss, why), "%s", a.miss);
    CHECK(b.found && !b.made && !a.warnings);
}

#endif
