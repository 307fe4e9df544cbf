/* options.c -- the table of td_aot_opts (options.def), and what follows from its rows:
 * which options are given, whether their values are in range, copies of texts and
 * lists, and the part of a key. */
#include "aot/options.h"
#include "base/bytes.h"

#include <stddef.h>
#include <string.h>

typedef enum kind { TEXT, FLAG, INT, LONG, WORD, LIST, BACKEND, ANY } kind;
enum { LOAD = TD_OPT_LOAD, BACK = TD_OPT_BACK, KEY = 4, OWN = 8, NO_TEXT = -1 };

typedef struct option {
    const char *name; /* "saved.version" */
    kind        kind;
    int         uses;
    size_t      at, bytes; /* of the field in td_aot_opts */
    int64_t     least;
    const char *note; /* behind the message of a number out of range; NULL: none */
    int         most;
    const char *words;
    size_t      count, item; /* of a list: where its length is, bytes of an entry */
    int         text;        /* ...offset of a text in an entry, or NO_TEXT */
} option;

#define FIELD(f) (((const td_aot_opts *)0)->f)
#define LIST_OF(f) .count = offsetof(td_aot_opts, n_##f), .item = sizeof *FIELD(f)
#define TD_OPTION(k, f, u, ...)      \
    {.name = #f,                     \
     .kind = (k),                    \
     .uses = (u),                    \
     .at = offsetof(td_aot_opts, f), \
     .bytes = sizeof FIELD(f),       \
     __VA_ARGS__},
static const option options[] = {
#include "aot/options.def"
};

static const char *field(const option *r, const td_aot_opts *o) {
    return (const char *)o + r->at;
}

static int64_t number(const option *r, const td_aot_opts *o) {
    const void *at = field(r, o);
    switch (r->kind) {
    case FLAG: return *(const bool *)at;
    case LONG: return *(const int64_t *)at;
    case INT:
    case WORD: return *(const int *)at; /* enums without negative values, too */
    default: return 0;
    }
}

static const void *pointer(const option *r, const td_aot_opts *o) {
    const void *p;
    memcpy(&p, field(r, o), sizeof p);
    return p;
}

static int length(const option *r, const td_aot_opts *o) {
    return *(const int *)(const void *)((const char *)o + r->count);
}

static bool is_given(const option *r, const td_aot_opts *o) {
    static const char zero[16];
    return memcmp(field(r, o), zero, r->bytes) != 0;
}

bool td__opts_only(td_ctx *cx, const td_aot_opts *o, int use, const char *who,
                   const char *why) {
    for (int i = 0; i < TD_COUNT(options); i++) {
        const option *r = &options[i];
        if (r->uses & use || !is_given(r, o)) continue;
        return td__fail(cx, TD_E_ARG, "%s: td_aot_opts.%.*s %s", who,
                        (int)strcspn(r->name, "."), r->name, why);
    }
    return true;
}

/* ---- values in range ------------------------------------------------------ */

static bool check_row(td_ctx *cx, const option *r, const td_aot_opts *o) {
    int64_t n = number(r, o);
    if (r->kind == WORD && (n < 0 || n > r->most))
        return td__fail(cx, TD_E_ARG, "td_aot_opts.%s is %lld, and must be %s", r->name,
                        (long long)n, r->words);
    if ((r->kind == INT || r->kind == LONG) && n < r->least)
        return td__fail(cx, TD_E_ARG,
                        "td_aot_opts.%s is %lld, and must be at least %lld%s", r->name,
                        (long long)n, (long long)r->least, r->note ? r->note : "");
    if (r->kind == LIST && (length(r, o) < 0 || (length(r, o) && !pointer(r, o))))
        return td__fail(cx, TD_E_ARG, "td_aot_opts.%s is %s, and n_%s is %d", r->name,
                        pointer(r, o) ? "a list" : "NULL", r->name, length(r, o));
    return true;
}

bool td__opts_in_range(td_ctx *cx, const td_aot_opts *o) {
    for (int i = 0; i < TD_COUNT(options); i++)
        if (!check_row(cx, &options[i], o)) return false;
    return true;
}

/* ---- copies --------------------------------------------------------------- */

/* Replaces the text at `at` by a copy. False: out of memory. */
static bool copy_text(td_arena *a, char *at) {
    const char *text;
    memcpy(&text, at, sizeof text);
    if (text && !(text = td__arena_strdup(a, text))) return false;
    memcpy(at, &text, sizeof text);
    return true;
}

bool td__opts_copy_list(td_arena *a, const void **list, int n, size_t item, int text) {
    if (!*list || n <= 0) return true;
    char *to = td__arena_alloc(a, item * (size_t)n);
    if (!to) return false;
    memcpy(to, *list, item * (size_t)n);
    *list = to;
    for (int i = 0; i < n && text != NO_TEXT; i++)
        if (!copy_text(a, to + (size_t)i * item + text)) return false;
    return true;
}

static bool copy_row(td_arena *a, const option *r, td_aot_opts *o) {
    char *at = (char *)o + r->at;
    if (r->kind == TEXT) return copy_text(a, at);
    if (r->kind != LIST) return true;
    const void *list = pointer(r, o);
    bool        ok = td__opts_copy_list(a, &list, length(r, o), r->item, r->text);
    memcpy(at, &list, sizeof list);
    return ok;
}

bool td__opts_copy(td_arena *a, td_aot_opts *o) {
    for (int i = 0; i < TD_COUNT(options); i++)
        if (!copy_row(a, &options[i], o)) return false;
    return true;
}

/* ---- keys ----------------------------------------------------------------- */

static void put_list(td_buf *b, const option *r, const td_aot_opts *o) {
    const char *v = pointer(r, o);
    td__put_int(b, length(r, o));
    for (int i = 0; i < length(r, o); i++) {
        const char *entry = v + (size_t)i * r->item, *text;
        if (r->text == NO_TEXT) {
            td__put_int(b, *(const int *)(const void *)entry);
            continue;
        }
        memcpy(&text, entry + r->text, sizeof text);
        td__put_text(b, text);
    }
}

void td__opts_put(td_buf *b, const td_aot_opts *o, bool own) {
    static const td_aot_opts none;
    for (int i = 0; i < TD_COUNT(options); i++) {
        const option      *r = &options[i];
        const td_aot_opts *of = r->uses & OWN && !own ? &none : o;
        if (!(r->uses & KEY)) continue;
        if (r->kind == TEXT) td__put_text(b, pointer(r, of));
        else if (r->kind == LIST) put_list(b, r, of);
        else td__put_int(b, number(r, of));
    }
}
