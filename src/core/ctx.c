/* ctx.c -- a context: its scopes, the tensors they own, and the mode stack. */
#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void init_nil(td_ctx *cx) {
    td_storage *st = &cx->nil_storage;
    atomic_init(&st->refs, 1);
    cx->nil.cx = cx;
    cx->nil.refs = 1;
    cx->nil.slot = -1;
    cx->nil.dtype = TD_F32;
    cx->nil.flags = TD_TF_NIL;
    cx->nil.size = cx->nil.dims;
    cx->nil.stride = cx->nil.dims + TD_INLINE_RANK;
    cx->nil.dims_cap = TD_INLINE_RANK;
    cx->nil.rank = 1; /* no elements */
    cx->nil.stride[0] = 1;
    cx->nil.st = st;
}

td_ctx *td__ctx_make(void) {
    td_ctx *cx = td__zalloc(sizeof *cx);
    if (!cx) return NULL;
    /* A few scopes open without memory, so that a failing step can be left. */
    if (!td__vec_room(&cx->scopes)) {
        td__free(cx);
        return NULL;
    }
    init_nil(cx);
    if (!td__config_load(cx, secure_getenv)) {
        td__ctx_free(cx);
        return NULL;
    }
    td__ambient_init(cx);
    cx->print_precision = 4;
    cx->print_edge = 3;
    cx->print_width = 80;
    cx->print_threshold = 1000;
    return cx;
}

static void report(void *env, td_code code, const char *message) {
    (void)env;
    fprintf(stderr, "tandem: %s error: %s\n", td_code_name(code), message);
}

/* One for the process: it only ever fails, and thread-local space is scarce in a
 * library that is loaded late. Two threads that err at once may mix messages. */
td_ctx *td__ctx_orphan(void) {
    static td_ctx orphan;
    if (!orphan.nil.cx) init_nil(&orphan);
    td_clear(&orphan);
    orphan.on_error = report;
    return &orphan;
}

/* Everything dies, also what users kept: the context owns it all. Autograd state
 * goes first, while all tensors that graphs refer to still stand. */
void td__ctx_free(td_ctx *cx) {
    if (!cx) return;
    td__modes_drop(cx, cx->tape);
    for (td_tensor *t = cx->all; t; t = t->next) t->refs++; /* hold all */
    for (td_tensor *t = cx->all; t; t = t->next)
        if (t->ag) {
            cx->hooks->free_autograd(t);
            t->ag = NULL;
        }
    if (cx->hooks && cx->hooks->close) cx->hooks->close(cx);
    for (td_tensor *t = cx->all, *next; t; t = next) {
        next = t->next;
        td__view_step_drop(t->steps);
        td__storage_drop(t->st);
        if (t->size != t->dims) td__free(t->size);
        td__free(t);
    }
    for (td_tensor *t = cx->free, *next; t; t = next) {
        next = t->next;
        td__free(t);
    }
    td__vec_free(&cx->owned);
    td__vec_free(&cx->scopes);
    td__arena_free(&cx->scratch);
    td__spans_free(cx);
    td__config_free(cx);
    td__free(cx);
}

/* ---- scopes ------------------------------------------------------------- */

bool td__scope_own(td_tensor *t) {
    td_ctx *cx = t->cx;
    if (!td__vec_push(&cx->owned, t)) return td__fail_memory(cx);
    t->slot = cx->owned.n - 1;
    return true;
}

static bool push_scope(td_ctx *cx, const char *label) {
    td_scope s = {label, cx->owned.n};
    if (!td__vec_push(&cx->scopes, s)) return td__fail_memory(cx);
    return true;
}

/* Drops everything owned from index `first` on, newest first. */
static void drop_from(td_ctx *cx, int first) {
    while (cx->owned.n > first) {
        td_tensor *t = cx->owned.v[--cx->owned.n];
        if (!t) continue;
        t->slot = -1;
        td__unref(t);
    }
}

/* Moves t below index `first` if a scope from there on owns it. */
static int rescue(td_ctx *cx, td_tensor *t, int first) {
    if (t->slot < first) return first; /* an outer scope's, nobody's, or nil */
    td_tensor *other = cx->owned.v[first];
    cx->owned.v[first] = t;
    cx->owned.v[t->slot] = other;
    if (other) other->slot = t->slot;
    t->slot = first;
    return first + 1;
}

bool td__scope_push(td_ctx *cx) { return push_scope(cx, NULL); }

void td__scope_pop(td_ctx *cx, td_tensor **results, int n) {
    TD_ASSERT(cx->scopes.n > 0);
    int first = cx->scopes.v[--cx->scopes.n].first;
    for (int i = 0; i < n; i++)
        if (results[i]) first = rescue(cx, results[i], first);
    drop_from(cx, first);
}

/* A label must outlive its scope; string literals do. When memory is exhausted
 * the scope is not opened, the error is recorded, and its td_scope_end ends
 * nothing; nor do the ends of scopes begun inside it. */
void td_scope_begin(td_ctx *cx, const char *label) {
    if (cx->missed || !push_scope(cx, label ? label : "scope")) cx->missed++;
}

/* Most ends name the very literal of their begin. */
static bool same_label(const char *a, const char *b) {
    return a == b || (a && !strcmp(a, b));
}

td_tensor *td_scope_end(td_ctx *cx, const char *label, td_tensor *result) {
    const char *want = label ? label : "scope";
    int         at = cx->scopes.n - 1;
    if (cx->missed > 0) { /* one that did not open: its tensors are its parent's */
        cx->missed--;
        return result ? result : &cx->nil;
    }
    while (at >= 0 && !same_label(cx->scopes.v[at].label, want)) at--;
    if (at < 0) {
        td__fail(cx, TD_E_ARG, "td_scope_end: no open scope is called \"%s\"", want);
        return result ? result : &cx->nil;
    }
    cx->scopes.n = at + 1;
    td__scope_pop(cx, &result, 1);
    return result ? result : &cx->nil;
}

td_tensor *td_keep(td_tensor *t) {
    if (t->flags & TD_TF_NIL) return t;
    t->kept++;
    return td__ref(t);
}

void td_drop(td_tensor *t) {
    if (!t || t->flags & TD_TF_NIL) return;
    if (t->kept > 0) t->kept--;
    else if (t->slot >= 0) {
        t->cx->owned.v[t->slot] = NULL;
        t->slot = -1;
    } else {
        td__fail(t->cx, TD_E_ARG, "td_drop: this tensor was not kept (%s)",
                 td__type_str(t));
        return;
    }
    td__unref(t);
}

/* ---- modes -------------------------------------------------------------- */

/* Where the next mode goes in, or comes out. */
static td_mode **place(td_ctx *cx, const td_mode *m) {
    bool under = cx->top && cx->top->first && cx->top != m && !m->first;
    return under ? &cx->top->below : &cx->top;
}

void td__mode_push(td_ctx *cx, td_mode *m) {
    td_mode **at = place(cx, m);
    m->below = *at;
    *at = m;
}

void td__mode_pop(td_ctx *cx, td_mode *m) {
    td_mode **at = place(cx, m);
    TD_ASSERT(*at == m);
    *at = m->below;
}

td_mode *td__mode_inner(const td_ctx *cx) {
    return cx->top && cx->top->first ? cx->top->below : cx->top;
}

void td__modes_drop(td_ctx *cx, const td_mode *until) {
    for (td_mode *m; (m = td__mode_inner(cx)) && m != until && m->drop;) {
        td__mode_pop(cx, m);
        m->drop(m);
    }
}
