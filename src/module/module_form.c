/* module_form.c -- the form of a module as comparable text. Lines: "m path mode type"
 * for a module, "p path tie tensor" for a parameter, "b ..." for a buffer. Members
 * with the same tie number are the same tensor; without identities the tensor is "-".
 */
#include "module/deps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The state of writing. */
typedef struct form {
    td_ctx   *cx;
    td_buf   *b;
    td_ptrmap at; /* tensor -> its tie number + 1 */
    intptr_t  n;
    bool      identities;
} form;

static bool add_module(void *env, td_module *m, const char *path) {
    form *f = env;
    td__buf_printf(f->b, "m %s %d %s\n", *path ? path : ".", m->training,
                   td_module_name(m));
    return true;
}

static bool add_member(void *env, const td_member *m) {
    form    *f = env;
    intptr_t at = (intptr_t)td__ptrmap_get(&f->at, m->t);
    if (!at) {
        at = ++f->n;
        if (!td__ptrmap_put(&f->at, m->t, (void *)at)) return td__fail_memory(f->cx);
    }
    td__buf_printf(f->b, "%c %s %" PRIdPTR " ", m->buffer ? 'b' : 'p', m->name, at - 1);
    if (f->identities) td__buf_printf(f->b, "%" PRIxPTR "\n", (uintptr_t)m->t);
    else td__buf_add(f->b, "-\n");
    return true;
}

bool td__form_write(td_buf *b, td_module *m, bool identities) {
    form f = {.cx = m->cx, .b = b, .identities = identities};
    int  all = TD_VISIT_PARAMS | TD_VISIT_BUFFERS | TD_VISIT_DUPLICATES;
    bool ok =
        td_module_apply(m, add_module, &f) && td_module_visit(m, all, add_member, &f);
    td__ptrmap_free(&f.at);
    return ok && (!b->failed || td__fail_memory(m->cx));
}

/* ---- differences -------------------------------------------------------- */

/* A parsed line; pointers into the form. */
typedef struct line {
    char        kind; /* 'm', 'p', 'b'; 0: no more lines */
    const char *path;
    int         path_n;
    const char *rest; /* mode or tie, then type or tensor */
    int         rest_n;
} line;

/* Parses the line at *at and moves past it. */
static line next_line(const char **at) {
    const char *s = *at, *end = strchr(s, '\n');
    line        l = {0};
    if (!*s || !end) return l;
    *at = end + 1;
    l.path = s + 2;
    if (end - s < 2) return l; /* no line of a form: it is from a damaged file */
    const char *gap = memchr(l.path, ' ', (size_t)(end - l.path));
    l.path_n = (int)((gap ? gap : end) - l.path);
    l.rest = gap ? gap + 1 : end;
    l.rest_n = (int)(end - l.rest);
    l.kind = *s;
    return l;
}

static bool same_text(const char *a, int n, const char *b, int m) {
    return n == m && !memcmp(a, b, (size_t)n);
}

static const char *mode_of(const line *l) {
    return *l->rest == '1' ? "training" : "eval";
}

/* Appends the difference of two lines of the same module or member. */
static void differ_rest(td_buf *b, const line *now, const line *was) {
    if (now->kind != 'm') {
        bool tied = atoi(now->rest) != atoi(was->rest);
        td__buf_printf(b,
                       tied ? ": \"%.*s\" is tied to other members than before"
                            : ": \"%.*s\" is another tensor",
                       now->path_n, now->path);
        return;
    }
    bool root = now->path_n == 1 && *now->path == '.';
    if (*now->rest == *was->rest) td__buf_add(b, ": a module has another type");
    else if (root)
        td__buf_printf(b, " is in %s mode, was in %s mode", mode_of(now), mode_of(was));
    else
        td__buf_printf(b, ": \"%.*s\" is in %s mode, was in %s mode", now->path_n,
                       now->path, mode_of(now), mode_of(was));
}

void td__form_difference(td_buf *b, const char *name, const char *now,
                         const char *was) {
    for (;;) {
        line a = next_line(&now), c = next_line(&was);
        if (!a.kind && !c.kind) return;
        bool same =
            a.kind && a.kind == c.kind && same_text(a.path, a.path_n, c.path, c.path_n);
        if (same && same_text(a.rest, a.rest_n, c.rest, c.rest_n)) continue;
        td__buf_printf(b, "module %s", name);
        if (same) differ_rest(b, &a, &c);
        else if (a.kind && c.kind)
            td__buf_printf(b, " has \"%.*s\" where it had \"%.*s\"", a.path_n, a.path,
                           c.path_n, c.path);
        else if (a.kind) td__buf_printf(b, " has \"%.*s\" now", a.path_n, a.path);
        else td__buf_printf(b, " no longer has \"%.*s\"", c.path_n, c.path);
        return;
    }
}
