/* error.c -- the first failure sticks to its context. Every failure passes
 * td__fail: break there. Failing allocates nothing. */
#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local td_where td_here;

static const char *const code_names[TD_E_COUNT] = {
    "ok",    "shape", "dtype", "argument", "index",       "alias", "grad",
    "trace", "build", "io",    "memory",   "unsupported", "guard",
};

const char *td_code_name(td_code code) {
    return (unsigned)code < TD_E_COUNT ? code_names[code] : "?";
}

/* Appends to the message, cutting at its end. */
static void append(td_ctx *cx, const char *fmt, va_list ap) {
    size_t n = strlen(cx->message);
    vsnprintf(cx->message + n, sizeof cx->message - n, fmt, ap);
}

static void append_path(td_ctx *cx) {
    size_t n = 0, cap = sizeof cx->message / 4;
    bool   any = false;
    for (int i = 0; i < cx->scopes.n && n < cap; i++) {
        const char *label = cx->scopes.v[i].label;
        if (!label) continue;
        n += (size_t)snprintf(cx->message + n, cap - n, any ? "/%s" : "%s", label);
        any = true;
    }
    if (n >= cap) n = cap - 1;
    if (any) snprintf(cx->message + n, sizeof cx->message - n, ": ");
}

/* Appends `here` to the message and keeps it for td_error_place. The file's name is
 * copied: it may belong to a graph that is freed before the message is read. */
static void append_place(td_ctx *cx, td_where here) {
    size_t n = strlen(cx->message);
    if (!here.file || cx->failed_at.file) return;
    snprintf(cx->failed_file, sizeof cx->failed_file, "%s", here.file);
    cx->failed_at = (td_where){cx->failed_file, here.line};
    snprintf(cx->message + n, sizeof cx->message - n, " (%s:%d)", cx->failed_file,
             here.line);
}

void td__fail_at(td_ctx *cx, td_where here) {
    if (cx->code != TD_OK) append_place(cx, here);
}

static void record(td_ctx *cx, td_code code, const char *fmt, va_list ap) {
    if (cx->code != TD_OK) return;
    cx->code = code;
    cx->message[0] = 0;
    cx->failed_at = (td_where){0};
    append_path(cx);
    append(cx, fmt, ap);
    append_place(cx, td_here);
    if (cx->on_error) cx->on_error(cx->on_error_env, code, cx->message);
    if (td__config(cx)->strict) {
        fprintf(stderr, "tandem: %s\n", cx->message);
        abort(); /* only on request: TD_STRICT=1 */
    }
}

bool td__fail(td_ctx *cx, td_code code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    record(cx, code, fmt, ap);
    va_end(ap);
    return false;
}

/* The failed request may have been another thread's: then its size is not known. */
bool td__fail_memory(td_ctx *cx) {
    size_t n = td__refused_bytes;
    td__refused_bytes = 0;
    if (!n) return td__fail(cx, TD_E_MEMORY, "out of memory");
    return td__fail(cx, TD_E_MEMORY,
                    "out of memory: %zu bytes could not be allocated; tensors hold %zu "
                    "bytes now",
                    n, td__block_live());
}

bool td__fail_memory_for(td_ctx *cx, size_t bytes, td_dtype dt, int rank,
                         const int64_t *size) {
    td__refused_bytes = 0;
    return td__fail(cx, TD_E_MEMORY,
                    "out of memory: %zu bytes for a tensor %s%s could not be "
                    "allocated; tensors hold %zu bytes now",
                    bytes, td_dtype_name(dt), td__sizes_str(rank, size),
                    td__block_live());
}

bool td__fail_no_bytes(td_ctx *cx, const char *who, const char *rule) {
    return td__fail(
        cx, TD_E_TRACE,
        "%s: %s; values are known only when a program runs: branch with td_cond or "
        "td_where, loop with td_while, pass the number as an argument, or return the "
        "tensor and read it outside",
        who, rule);
}

td_tensor *td_fail(td_ctx *cx, td_code code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    record(cx, code, fmt, ap);
    va_end(ap);
    return &cx->nil;
}

bool        td_ok(const td_ctx *cx) { return cx->code == TD_OK; }
td_code     td_error(const td_ctx *cx) { return cx->code; }
const char *td_message(const td_ctx *cx) { return cx->message; }

const char *td_error_place(const td_ctx *cx, int *line) {
    if (line) *line = cx->failed_at.line;
    return cx->failed_at.file;
}

void td_clear(td_ctx *cx) {
    cx->code = TD_OK;
    cx->failed_at = (td_where){0};
    cx->stale = cx->gone = false;
    cx->message[0] = 0;
}

void td_on_error(td_ctx *cx, void (*hook)(void *, td_code, const char *), void *env) {
    cx->on_error = hook;
    cx->on_error_env = env;
}

/* ---- texts for messages ------------------------------------------------- */

#define TEXT_CAP 160

static char *next_text(void) {
    static _Thread_local char texts[4][TEXT_CAP];
    static _Thread_local int  next;
    return texts[next++ % TD_COUNT(texts)];
}

/* Symbolic sizes print as expressions; a long one is cut. */
static size_t write_dim(char *s, size_t n, int64_t dim) {
    td_buf b = {0};
    td__dim_text(dim, &b);
    n += (size_t)snprintf(s + n, TEXT_CAP - n, "%.*s", (int)(TEXT_CAP - 4 - n),
                          td__buf_str(&b));
    td__buf_free(&b);
    return n;
}

static size_t write_sizes(char *s, size_t n, int rank, const int64_t *size) {
    n += (size_t)snprintf(s + n, TEXT_CAP - n, "[");
    for (int i = 0; i < rank && n < TEXT_CAP - 24; i++) {
        if (i) s[n++] = ',';
        if (td__dim_is_sym(size[i])) n = write_dim(s, n, size[i]);
        else n += (size_t)snprintf(s + n, TEXT_CAP - n, "%lld", (long long)size[i]);
    }
    n += (size_t)snprintf(s + n, TEXT_CAP - n, "]");
    return n;
}

const char *td__sizes_str(int rank, const int64_t *size) {
    char *s = next_text();
    write_sizes(s, 0, rank, size);
    return s;
}

const char *td__type_str(const td_tensor *t) {
    char *s = next_text();
    if (t->flags & TD_TF_NIL) return "nil";
    size_t n = (size_t)snprintf(s, TEXT_CAP, "%s", td_dtype_name((td_dtype)t->dtype));
    write_sizes(s, n, t->rank, t->size);
    return s;
}
