/* code_image.c -- the code of a user's backend in the disk cache: the bytes that its
 * `save` gave, under a hash of name and version of the backend, the graph, the half and
 * the build of the library. The cache verifies that the bytes are those that were
 * stored; `load` decides whether they are code. No failure here fails a call. */
#include "backend/backend.h"
#include "build/disk.h"
#include "build/unit.h"
#include "core/sources.h"
#include "graph/graph_image.h"
#include "tandem/cache.h"

#include <stdio.h>

/* "u_" and a 128-bit hash. False: out of memory, or the graph cannot be written. */
static bool make_name(const td_backend *b, const td_graph *g,
                      const td_compile_info *info, td_code_entry *at) {
    td_buf   of = {0};
    td_image m = {0};
    bool     ok = td__unit_library(&at->key);
    td__buf_printf(&at->key, "sources %s\n", td__sources);
    td__buf_addn(&of, td__buf_str(&at->key), at->key.n);
    td__put_text(&of, b->name);
    td__put_text(&of, b->version);
    td__put_int(&of, (int)info->half);
    td__put_int(&of, g->cx->default_dtype);
    ok = ok && td__image_begin(&m, &of, NULL, true) && td__image_graph(&m, g);
    td__image_end(&m);
    ok = ok && !of.failed && !at->key.failed;
    if (ok) {
        td_hash128 h = td__hash128(of.s, of.n);
        snprintf(at->name, sizeof at->name, "u_%016llx%016llx",
                 (unsigned long long)h.hi, (unsigned long long)h.lo);
    }
    td__buf_free(&of);
    return ok;
}

/* Reads an entry: NULL if *code was loaded, else the reason for the miss. */
static const char *read_code(td_disk *d, const td_backend *b, const td_graph *g,
                             const td_compile_info *info, const td_code_entry *at,
                             td_runner *code) {
    td_disk_entry e;
    const char   *bad = td__disk_read(d, at->name, at->key.s, &e);
    if (!bad) {
        bool ok = b->load(b->env, g, info, e.bytes, e.payload, code);
        if (!ok || !code->run || !td_ok(g->cx)) {
            bad = "is refused by the backend's load";
            td__runner_drop(code);
        }
    }
    td__disk_entry_free(&e);
    return bad;
}

/* A graph that cannot be written has no name, and is compiled each time. */
bool td__code_find(const td_backend *b, const td_graph *g, const td_compile_info *info,
                   td_code_entry *at, td_runner *code) {
    td_ctx     *cx = g->cx;
    td_disk     d;
    const char *bad = "has no name";
    td__span_begin(cx, "find");
    td__disk_open(&d, cx, true);
    bool ok = d.fd >= 0 && make_name(b, g, info, at);
    if (ok) bad = read_code(&d, b, g, info, at, code);
    else *at->name = 0;
    td__log(cx, TD_LOG_cache, "%s: %s %s %.200s", bad ? "miss" : "hit",
            *at->name ? at->name : "code", bad ? bad : g->name, td__message(cx));
    td__disk_close(&d);
    td_clear(cx); /* a miss is no error */
    td__span_arg(cx, "found", !bad);
    td__span_end(cx, "find");
    return !bad;
}

/* td_code_put. The size limit is that of the remote cache, so that an entry is shared
 * either by all machines or by none. */
static bool put(void *to, const void *bytes, size_t n) {
    td_buf *b = to;
    if (b->failed || n > TD_CACHE_MOST_BYTES || b->n > TD_CACHE_MOST_BYTES - n)
        return b->failed = true, false;
    if (bytes && n) td__buf_addn(b, bytes, n);
    return !b->failed;
}

void td__code_store(const td_backend *b, const td_graph *g, const td_code_entry *at,
                    const td_runner *code) {
    td_ctx *cx = g->cx;
    td_buf  bytes = {0};
    td_disk d;
    char    note[160];
    if (!*at->name) return;
    bool ok = b->save(b->env, code, put, &bytes) && td_ok(cx);
    if (ok && !bytes.failed && bytes.n) {
        snprintf(note, sizeof note, "code of %.40s for @%.60s",
                 b->name ? b->name : "a backend", g->name);
        td__disk_open(&d, cx, true);
        td__disk_store_entry(&d, at->name, at->key.s, note, &bytes);
        td__disk_close(&d);
    } else
        td__log(cx, TD_LOG_cache, "bypass: @%.60s: %s", g->name,
                bytes.failed ? "the code is longer than 16 MiB, or memory ran out"
                             : "save of its backend gave no bytes");
    td__buf_free(&bytes);
    td_clear(cx);
}
