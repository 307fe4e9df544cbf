/* error.c -- errors: the first one stays in its context until td_clear. Every
 * error goes through td__fail: set a breakpoint there. Recording an error
 * allocates nothing. */
#include "core/callback.h"

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

/* Appends to the message, truncating at the end of the buffer. */
static void append(td_ctx *cx, const char *fmt, va_list ap) {
    size_t n = strlen(cx->message);
    vsnprintf(cx->message + n, sizeof cx->message - n, fmt, ap);
}

/* Starts the message with the labels of the open scopes, "net/fc1: "; scopes without a
 * label are left out. Returns where the last label starts. */
static size_t append_path(td_ctx *cx) {
    size_t n = 0, last = 0, cap = sizeof cx->message / 4;
    bool   any = false;
    for (int i = 0; i < cx->scopes.n && n < cap; i++) {
        const char *label = cx->scopes.v[i].label;
        if (!label || label == td__unnamed) continue;
        last = any ? n + 1 : n;
        n += (size_t)snprintf(cx->message + n, cap - n, any ? "/%s" : "%s", label);
        any = true;
    }
    if (n >= cap) n = cap - 1;
    if (any) snprintf(cx->message + n, sizeof cx->message - n, ": ");
    return last;
}

/* Many messages start with the name that is also the innermost label ("fc1:
 * fc1: ..."): removes the label then. */
static void drop_double(td_ctx *cx, size_t last, size_t text) {
    size_t n = text - last;
    if (last < text && !strncmp(cx->message + last, cx->message + text, n))
        memmove(cx->message + last, cx->message + text, strlen(cx->message + text) + 1);
}

/* Appends the calls around the line: " < model.c:12 < train.c:80". Only for a node of a
 * graph: a body that is captured fails with the message it has when it runs eagerly,
 * and then its calls are on the stack of the thread. */
static void append_calls(td_ctx *cx, td_where here) {
    td_where list[4];
    bool     node = cx->callback && cx->callback->stack;
    int      most = node ? td__stack_list(cx, list, TD_COUNT(list)) : 0;
    for (int i = 0; i < most; i++) {
        size_t n = strlen(cx->message);
        if (!i && td__same_where(list[0], here)) continue;
        snprintf(cx->message + n, sizeof cx->message - n, " < %s:%d", list[i].file,
                 list[i].line);
    }
}

/* Appends the source line and stores it for td_error_place. The file name is
 * copied: it may belong to a graph that is freed before the message is read. */
static void append_place(td_ctx *cx, td_where here) {
    size_t n = strlen(cx->message);
    if (!here.file || cx->failed_at.file) return;
    snprintf(cx->failed_file, sizeof cx->failed_file, "%s", here.file);
    cx->failed_at = (td_where){cx->failed_file, here.line};
    snprintf(cx->message + n, sizeof cx->message - n, " (%s:%d", cx->failed_file,
             here.line);
    append_calls(cx, here);
    n = strlen(cx->message);
    snprintf(cx->message + n, sizeof cx->message - n, ")");
}

void td__fail_at(td_ctx *cx, td_where here) {
    if (cx->code != TD_OK) append_place(cx, here);
}

void td__fail_prefix(td_ctx *cx, const char *why) {
    char was[sizeof cx->message];
    if (cx->code == TD_OK) return;
    memcpy(was, cx->message, sizeof was);
    int n = snprintf(cx->message, sizeof cx->message, "%.300s: ", why);
    snprintf(cx->message + n, sizeof cx->message - (size_t)n, "%.1700s", was);
}

void td__fail_backward(td_ctx *cx, td_where op, td_where caller) {
    size_t n = strlen(cx->message);
    if (cx->code == TD_OK || !caller.file || !op.file || !cx->failed_at.file) return;
    if (cx->failed_at.line != op.line || strcmp(cx->failed_file, op.file)) return;
    if (caller.line == op.line && !strcmp(caller.file, op.file)) return;
    if (n && cx->message[n - 1] == ')') n--;
    snprintf(cx->message + n, sizeof cx->message - n,
             ", in the backward called at %s:%d)", caller.file, caller.line);
}

/* The last error of this thread for which there was no context. */
static _Thread_local char last_error[512];

/* For errors that belong to no context: td_last_error, and stderr. */
static void record_last(const char *fmt, va_list ap) {
    vsnprintf(last_error, sizeof last_error, fmt, ap);
    size_t n = strlen(last_error);
    if (td_here.file)
        snprintf(last_error + n, sizeof last_error - n, " (%s:%d)", td_here.file,
                 td_here.line);
    fprintf(stderr, "tandem: %s\n", last_error);
}

const char *td_last_error(void) { return last_error; }

/* Records an error in cx, unless it has one; without a live context, by thread. */
static void record(td_ctx *cx, td_code code, const char *fmt, va_list ap) {
    if (TD_UNLIKELY(!td__is_live(cx, TD_H_CTX))) {
        record_last(fmt, ap);
        return;
    }
    if (cx->code != TD_OK) return;
    cx->code = code;
    cx->unread = !cx->on_error;
    cx->message[0] = 0;
    cx->failed_at = (td_where){0};
    size_t last = append_path(cx), text = strlen(cx->message);
    append(cx, fmt, ap);
    drop_double(cx, last, text);
    append_place(cx, td_here);
    if (cx->on_error)
        TD_CALLBACK(cx, cx->on_error(cx->on_error_env, code, cx->message));
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

/* The failed request may have been another thread's; then its size is unknown. */
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
                    "%s%sout of memory: %zu bytes for a tensor %s%s could not be "
                    "allocated; tensors hold %zu bytes now",
                    cx->making ? cx->making : "", cx->making ? ": " : "", bytes,
                    td_dtype_name(dt), td__sizes_str(rank, size), td__block_live());
}

/* The error for reading values while a body is captured; `rule` says what was read. */
bool td__fail_no_bytes(td_ctx *cx, const char *who, const char *rule) {
    return td__fail(
        cx, TD_E_TRACE,
        "%s: %s; values are known only when a program runs: branch with td_cond or "
        "td_where, loop with td_while, pass the number as an argument, or return the "
        "tensor and read it outside",
        who, rule);
}

void td__origin_text(const td_payload *p, char *out, size_t cap) {
    char at[160] = "", in[80] = "";
    if (p->here.file)
        snprintf(at, sizeof at, " at %.140s:%d", p->here.file, p->here.line);
    if (p->body) snprintf(in, sizeof in, " in the body of %.60s", p->body);
    if (p->op) snprintf(out, cap, "%.40s%s%s", p->op, at, in);
    else if (p->body) snprintf(out, cap, "an argument of %.60s", p->body);
    else snprintf(out, cap, "%s", "");
}

bool td__fail_kept(td_ctx *cx, const char *who, const td_tensor *t) {
    char from[300] = "";
    if (!td__is_traced(t))
        return td__fail(cx, TD_E_TRACE,
                        "%s: this tensor is fake (td_fake) and has no elements; use it "
                        "between td_fakes_begin and td_fakes_end",
                        who);
    if (t->payload) td__origin_text(t->payload, from, sizeof from);
    return td__fail(
        cx, TD_E_TRACE,
        "%s: this tensor%s%s%s was kept from a body that was captured, and has no "
        "elements; return it from the body with td_return",
        who, from[0] ? " (" : "", from, from[0] ? ")" : "");
}

bool td__fail_other_size(td_ctx *cx, int64_t size, const char *rel, int64_t than) {
    cx->other_size = td_ok(cx);
    return td__fail(cx, TD_E_UNSUPPORTED,
                    "unsupported: a size that depends on values is %lld, but the "
                    "program was traced for a size %s %lld. State the relation with "
                    "td_expect, or run this part eagerly",
                    (long long)size, rel, (long long)than);
}

td_tensor *td_fail(td_ctx *cx, td_code code, const char *fmt, ...) {
    va_list ap;
    if (!cx) cx = td__current_ctx();
    else if (!TD_ENTER_CTX(cx)) return &td__current_ctx()->nil;
    if (code <= TD_OK || code >= TD_E_COUNT) code = TD_E_ARG;
    va_start(ap, fmt);
    record(cx, code, fmt ? fmt : "td_fail without a message", ap);
    va_end(ap);
    return &cx->nil;
}

bool td_ok(const td_ctx *cx) { return td__is_live(cx, TD_H_CTX) && cx->code == TD_OK; }

/* Is the context open? Its error counts as read from now on. */
static bool read_error(const td_ctx *cx) {
    if (!td__is_live(cx, TD_H_CTX)) return false;
    ((td_ctx *)(uintptr_t)cx)->unread = false;
    return true;
}

td_code td_error(const td_ctx *cx) { return read_error(cx) ? cx->code : TD_E_ARG; }

const char *td_message(const td_ctx *cx) {
    if (read_error(cx)) return cx->message;
    return *last_error ? last_error : "there is no open context";
}

const char *td_error_place(const td_ctx *cx, int *line) {
    bool open = td__is_live(cx, TD_H_CTX);
    if (line) *line = open ? cx->failed_at.line : 0;
    return open ? cx->failed_at.file : NULL;
}

void td_clear(td_ctx *cx) {
    if (!td__is_live(cx, TD_H_CTX)) {
        last_error[0] = 0;
        return;
    }
    cx->code = TD_OK;
    cx->unread = false;
    cx->failed_at = (td_where){0};
    cx->stale = cx->gone = cx->other_size = cx->recompute = false;
    cx->message[0] = 0;
}

void td_on_error(td_ctx *cx, void (*hook)(void *, td_code, const char *), void *env) {
    if (!TD_ENTER_CTX(cx)) return;
    if (!td__may_change(cx, "td_on_error", "the error hook")) return;
    cx->on_error = hook;
    cx->on_error_env = env;
}

/* ---- texts for messages ------------------------------------------------- */

#define TEXT_CAP 160

/* Thread-local: sizes are printed by functions without a tensor or context argument. */
static char *next_text(void) {
    static _Thread_local char texts[4][TEXT_CAP];
    static _Thread_local int  next;
    return texts[next++ % TD_COUNT(texts)];
}

/* A symbolic size as an expression, truncated if it is long. */
static size_t write_dim(char *s, size_t n, int64_t dim) {
    td_buf b = {0};
    td__dim_text(dim, &b);
    n += (size_t)snprintf(s + n, TEXT_CAP - n, "%.*s", (int)(TEXT_CAP - 4 - n),
                          td__buf_str(&b));
    td__buf_free(&b);
    return n;
}

/* Long shapes are cut off at the end of the buffer, still with a closing bracket. */
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

/* ---- messages about freed tensors --------------------------------------- */

/* "when the scope "step" ended at train.c:12" */
static void released_by_scope(const td_ctx *cx, uint32_t nr, char *out, size_t cap) {
    const td_ended *e = &cx->ended[nr % TD_ENDED_KEPT];
    if (e->nr != nr) snprintf(out, cap, "when its scope ended");
    else if (!e->file) snprintf(out, cap, "when the scope \"%s\" ended", e->label);
    else
        snprintf(out, cap, "when the scope \"%s\" ended at %s:%d", e->label, e->file,
                 e->line);
}

static void released_by_drop(const td_tensor *t, char *out, size_t cap) {
    if (!t->freed_file) snprintf(out, cap, "by td_drop");
    else snprintf(out, cap, "by td_drop at %s:%d", t->freed_file, t->freed_line);
}

/* A tensor made during a capture is freed when its body ends, unless the body itself
 * ended its scope or dropped it: those calls have a source line. */
static bool freed_with_body(const td_tensor *t) { /* its context is open */
    const td_ended *e = &t->cx->ended[t->serial % TD_ENDED_KEPT];
    if (t->serial == TD_RELEASED_DROP) return !t->freed_file;
    return t->serial < TD_RELEASED_SCOPE || e->nr != t->serial || !e->file;
}

/* How and where the tensor was freed, and the call that would have kept it alive. Reads
 * a freed tensor's memory, which is kept for this. */
void td__released_text(const td_tensor *t, char *out, size_t cap) {
    td__unpoison(t, sizeof *t);
    char        type[80] = "", how[200] = "already";
    const char *instead = "keep it with td_keep";
    bool        open = td__is_live(t->cx, TD_H_CTX), inside = t->flags & TD_TF_TRACED;
    if (inside && open) inside = freed_with_body(t);
    if (t->rank <= TD_INLINE_RANK && !inside)
        snprintf(type, sizeof type, " (%.70s)", td__type_str(t));
    if (t->serial == TD_RELEASED_CLOSE || !open) {
        snprintf(how, sizeof how, "when its context closed");
        instead = "give it to another context with td_share before td_close";
    } else if (t->serial == TD_RELEASED_OWNER) {
        snprintf(how, sizeof how, "with the module or optimizer that owned it");
        instead = "keep it with td_keep before freeing that";
    } else if (t->serial == TD_RELEASED_DROP) {
        released_by_drop(t, how, sizeof how);
        instead = "call td_drop once for each td_keep, after the last use";
    } else if (t->serial >= TD_RELEASED_SCOPE) {
        released_by_scope(t->cx, t->serial, how, sizeof how);
        instead = "keep it with td_keep, or pass it to td_scope_end as the result";
    }
    if (inside) {
        td_payload of = {NULL,
                         t->made_by,
                         {t->made_file, (int)t->made_line},
                         t->made_in};
        td__origin_text(&of, how, sizeof how);
        snprintf(out, cap,
                 "this tensor%s%s%s belongs to a body that was captured and is valid "
                 "only inside it; return it from the body with td_return",
                 how[0] ? " (" : "", how, how[0] ? ")" : "");
    } else snprintf(out, cap, "this tensor%s was freed %s; %s", type, how, instead);
}

/* The nil of td_grad_of for a tensor without gradient is the only nil whose use is an
 * error; false for all others. */
bool td__refuse_nil(const td_handle *h, td_handle_kind kind, const char *who) {
    const td_ctx *cx = h->cx;
    char          at[200] = "";
    if (kind != TD_H_TENSOR || h != &cx->no_gradient.handle ||
        !td__is_live(cx, TD_H_CTX))
        return false;
    if (cx->no_gradient_at.file)
        snprintf(at, sizeof at, " at %s:%d", cx->no_gradient_at.file,
                 cx->no_gradient_at.line);
    return td__fail(
        h->cx, TD_E_GRAD,
        "%s: this is the result of td_grad_of%s for a tensor that has no "
        "gradient; call %s, or test it with td_has_grad",
        who, at,
        cx->no_gradient_leaf
            ? "td_backward first"
            : "td_retain_grad on it before td_backward, which otherwise stores "
              "gradients of leaves only");
}
