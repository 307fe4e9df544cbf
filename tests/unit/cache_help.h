/* cache_help.h -- a cache of a test's own, and what its log says. */
#ifndef TD_KEEP_HELP_H
#define TD_KEEP_HELP_H

#include "aot_help.h"
#include "build/disk.h"

#include <stdlib.h>
#include <unistd.h>

static char place[64];

static inline td_ctx *enter(const char *topics) {
    td_ctx *cx = open_hearing(topics);
    if (!*place) {
        snprintf(place, sizeof place, "/tmp/td-keep-XXXXXX");
        CHECK(mkdtemp(place) != NULL);
    }
    td_config_set(cx, "cache_dir", place);
    td_config_set(cx, "backend", "interp");
    return cx;
}

static inline void leave(td_ctx *cx) {
    td_disk d;
    td__disk_open(&d, cx, false);
    td__disk_clear(&d);
    td__disk_close(&d);
    td_close(cx);
    CHECK(rmdir(place) == 0);
    *place = 0;
}

static inline int count(const char *word) {
    int n = 0;
    for (const char *p = heard; (p = strstr(p, word)); p++) n++;
    return n;
}

#endif
