/* store.c -- the open stores of a context, by name. */
#include "core/store.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char open_stores[] = "the open stores";

static bool is_name(const char *s) {
    size_t n = 0;
    if (!isalpha((unsigned char)s[0])) return false;
    while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '-') n++;
    return !s[n] && n <= 30;
}

/* Stores are among the objects that the user must free. */
td_store *td__store_named(const td_ctx *cx, const char *name) {
    for (td_owned *o = cx->owned_objects; o; o = o->next)
        if (o->tag == (TD_TAG_LIVE | TD_H_STORE) &&
            !strcmp(((td_store *)o)->name, name))
            return (td_store *)o;
    return NULL;
}

td_store *td__store_find(td_ctx *cx, const char *name) {
    td_store *s = td__store_named(cx, name);
    if (!s)
        td__fail(cx, TD_E_ARG,
                 "offload: no store %.40s is open in this context; open it before the "
                 "call (td_store_file, td_store_memory, td_store_open) and close it "
                 "after the last one",
                 name);
    return s;
}

static void end(void *object) {
    td_store *s = object;
    td__handle_disown(s);
    td__queue_drop(s->q);
    td__handle_free(s, TD_H_STORE);
}

/* Takes over *io unless it fails. */
static td_store *open_store(td_ctx *cx, const char *name, const td_store_io *io) {
    td_store *s = td__handle_make(cx, TD_H_STORE, sizeof *s);
    if (!s) return TD_NIL(cx, STORE);
    snprintf(s->name, sizeof s->name, "%s", name);
    if ((s->q = td__queue_make(io))) return td__handle_own(s, end);
    td__fail_memory(cx);
    td__handle_free(s, TD_H_STORE);
    return TD_NIL(cx, STORE);
}

/* May a store of that name be opened? False after td__fail. */
static bool check_name(td_ctx *cx, const char *who, const char *name) {
    if (!td__has(cx, who, "name", name)) return false;
    if (!is_name(name))
        return td__fail(cx, TD_E_ARG,
                        "%s: the name \"%.40s\" must be a letter, then at most 29 "
                        "letters, digits, '_' and '-'",
                        who, name);
    return !td__store_named(cx, name) ||
           td__fail(cx, TD_E_ARG,
                    "%s: a store %s is open already; close it first, or choose another "
                    "name",
                    who, name);
}

td_store *td_store_open(td_ctx *cx, const char *name, const td_store_io *io) {
    static const char who[] = "td_store_open";
    if (!TD_ENTER_CTX(cx)) return TD_NIL(cx, STORE);
    if (!td__may_change(cx, who, open_stores) || !check_name(cx, who, name) ||
        !td__has(cx, who, "io", io) || !td__has(cx, who, "io->put", io->put) ||
        !td__has(cx, who, "io->get", io->get) ||
        !td__has(cx, who, "io->drop", io->drop))
        return TD_NIL(cx, STORE);
    return open_store(cx, name, io);
}

td_store *td_store_memory(td_ctx *cx, const char *name) {
    if (!TD_ENTER_CTX(cx) || !td__may_change(cx, "td_store_memory", open_stores) ||
        !check_name(cx, "td_store_memory", name))
        return TD_NIL(cx, STORE);
    td_store_io io = td__memory_io();
    return open_store(cx, name, &io);
}

td_store *td_store_file(td_ctx *cx, const char *name, const char *folder) {
    static const char who[] = "td_store_file";
    td_store_io       io;
    if (!TD_ENTER_CTX(cx) || !td__may_change(cx, who, open_stores) ||
        !check_name(cx, who, name) || !td__has(cx, who, "folder", folder) ||
        !td__file_io(cx, folder, &io))
        return TD_NIL(cx, STORE);
    td_store *s = open_store(cx, name, &io);
    if (td_is_nil(s)) io.close(io.env);
    return s;
}

void td_store_close(td_store *s) {
    if (TD_MAY_FREE(s, STORE)) end(s);
}

bool td_store_limit(td_store *s, size_t bytes) {
    if (!TD_ENTER(s, STORE) || !td__may_change(s->cx, "td_store_limit", "a store"))
        return false;
    td__queue_limit(s->q, bytes);
    return true;
}

bool td_store_flush(td_store *s) {
    char why[TD_STORE_WHY];
    if (!TD_ENTER(s, STORE) || !td__may_change(s->cx, "td_store_flush", "a store"))
        return false;
    return td__queue_flush(s->q, why) ||
           td__fail(s->cx, TD_E_IO, "td_store_flush: %s: %s", s->name, why);
}

td_store_stats td_store_count(const td_store *s) {
    if (!TD_ENTER(s, STORE) || !td__may_read(s->cx, "td_store_count", "a store"))
        return (td_store_stats){0};
    return td__queue_count(s->q);
}
