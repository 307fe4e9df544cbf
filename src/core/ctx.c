/* ctx.c -- contexts: making and freeing them, scopes and the tensors they own. */
#include "core/callback.h"
#include "core/typed.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A nil tensor: f32[0] without elements, so that reading its sizes is safe. */
static void init_nil(td_ctx *cx, td_tensor *nil) {
    nil->handle = (td_handle){TD_TAG_NIL | TD_H_TENSOR, 0, cx};
    nil->refs = 1;
    nil->slot = -1;
    nil->dtype = TD_F32;
    nil->flags = TD_TF_NIL;
    nil->size = nil->dims;
    nil->stride = nil->dims + TD_INLINE_RANK;
    nil->dims_cap = TD_INLINE_RANK;
    nil->rank = 1; /* no elements */
    nil->stride[0] = 1;
    nil->st = &cx->nil_storage;
}

static void init_nils(td_ctx *cx) {
    atomic_init(&cx->nil_storage.refs, 1);
    init_nil(cx, &cx->nil);
    init_nil(cx, &cx->no_gradient);
    for (uint32_t k = 0; k < TD_H_COUNT; k++)
        cx->nils[k] = (td_handle){TD_TAG_NIL | k, 0, cx};
}

/* A context without autograd, which td_open adds. NULL: out of memory. */
td_ctx *td__ctx_make(void) {
    td_ctx *cx = td__handle_make(NULL, TD_H_CTX, sizeof *cx);
    if (!cx) return NULL;
    cx->cx = cx;
    init_nils(cx);
    cx->n_ended = TD_RELEASED_SCOPE - 1;
    /* Reserve memory for a few scopes, so that cleanup works when memory is out. */
    if (!td__vec_reserve(&cx->scopes)) {
        td__handle_free(cx, TD_H_CTX);
        return NULL;
    }
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

/* td__ctx_orphan */
static td_ctx orphan;

static void init_orphan(void) {
    orphan.handle = (td_handle){TD_TAG_NIL | TD_H_CTX, 0, &orphan};
    orphan.code = TD_E_ARG;
    init_nils(&orphan);
}

td_ctx *td__ctx_orphan(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_orphan);
    return &orphan;
}

/* ---- freeing ------------------------------------------------------------ */

/* Frees everything, also objects and tensors that the user kept: the context owns them
 * all. Autograd state is freed first, while all tensors that nodes reference exist. */
void td__ctx_free(td_ctx *cx) {
    td_callback freeing; /* so that td_close in a destructor fails */
    if (!cx) return;
    td__callback_begin(&freeing, cx);
    td__handles_end(cx);
    td__modes_drop(cx, cx->tape);
    for (td_tensor *t = cx->all; t; t = t->next)
        t->refs++; /* so that none is freed below */
    for (td_tensor *t = cx->all; t; t = t->next)
        if (t->ag) {
            cx->hooks->free_autograd(t);
            t->ag = NULL;
        }
    for (td_tensor *t = cx->all; t; t = t->next)
        if (t->typed) td__typed_set(t, NULL); /* drops references to inner tensors */
    if (cx->hooks && cx->hooks->close) cx->hooks->close(cx);
    if (cx->drop_remote) cx->drop_remote(cx);
    for (td_tensor *t = cx->all, *next; t; t = next) {
        next = t->next;
        td__view_step_drop(t->steps);
        td__storage_drop(t->st);
        t->serial = TD_RELEASED_CLOSE;
        td__tensor_retire(t);
    }
    td__tensors_leave(cx);
    td__vec_free(&cx->owned);
    td__vec_free(&cx->scopes);
    td__arena_free(&cx->scratch);
    td__spans_free(cx);
    td__config_free(cx);
    td__callback_end(&freeing);
    td__handle_free(cx, TD_H_CTX);
}

/* ---- scopes ------------------------------------------------------------- */

bool td__scope_own(td_tensor *t) {
    td_ctx *cx = t->cx;
    if (!td__vec_push(&cx->owned, t)) return td__fail_memory(cx);
    t->slot = cx->owned.n - 1;
    return true;
}

static bool push_scope(td_ctx *cx, const char *label) {
    td_scope s = {label, cx->owned.n, td_here};
    if (!td__vec_push(&cx->scopes, s)) return td__fail_memory(cx);
    return true;
}

/* Drops the scopes' references from index `first` on, newest first. Tensors
 * record how they were released, even if a graph keeps them alive. */
static void drop_from(td_ctx *cx, int first, uint32_t how) {
    while (cx->owned.n > first) {
        td_tensor *t = cx->owned.v[--cx->owned.n];
        if (!t) continue;
        t->slot = -1;
        t->serial = how;
        td__unref(t);
    }
}

/* If a scope that ends owns t (slot >= first), swaps it to index `first`, which
 * then belongs to the parent. Returns the new `first`. */
static int rescue(td_ctx *cx, td_tensor *t, int first) {
    if (t->slot < first) return first; /* owned by an outer scope or by none, or nil */
    td_tensor *other = cx->owned.v[first];
    cx->owned.v[first] = t;
    cx->owned.v[t->slot] = other;
    if (other) other->slot = t->slot;
    t->slot = first;
    return first + 1;
}

bool td__scope_push(td_ctx *cx) { return push_scope(cx, NULL); }

const char td__unnamed[] = "scope";

/* Records that a user's scope ended; returns its number. */
static uint32_t note_end(td_ctx *cx, const char *label, td_where at) {
    if (++cx->n_ended < TD_RELEASED_SCOPE) cx->n_ended = TD_RELEASED_SCOPE;
    td_ended *e = &cx->ended[cx->n_ended % TD_ENDED_KEPT];
    e->nr = cx->n_ended;
    e->file = at.file;
    e->line = at.line;
    if (label == td__unnamed) {
        memcpy(e->label, td__unnamed, sizeof td__unnamed);
        return e->nr;
    }
    size_t n = strnlen(label, sizeof e->label - 1);
    memcpy(e->label, label, n);
    e->label[n] = 0;
    return e->nr;
}

/* Ends the innermost scope; results[0..n) move to its parent. */
static void pop_scope(td_ctx *cx, td_tensor **results, int n, td_where at) {
    TD_ASSERT(cx->scopes.n > 0);
    td_scope s = cx->scopes.v[--cx->scopes.n];
    int      first = s.first;
    for (int i = 0; i < n; i++)
        if (results[i]) first = rescue(cx, results[i], first);
    if (cx->owned.n == first) return;
    drop_from(cx, first, s.label ? note_end(cx, s.label, at) : TD_RELEASED_INNER);
}

void td__scope_pop(td_ctx *cx, td_tensor **results, int n) {
    pop_scope(cx, results, n, (td_where){0});
}

/* The label must outlive the scope; string literals do. If memory is out, the
 * scope is not opened and the error is recorded; its td_scope_end, and those of
 * scopes begun inside it, then end nothing (cx->missed). */
void td_scope_begin(td_ctx *cx, const char *label) {
    if (!TD_ENTER_CTX(cx)) return;
    if (cx->missed || !push_scope(cx, label ? label : td__unnamed)) cx->missed++;
}

/* Pointers are compared first: most td_scope_end calls pass the same literal. */
static bool same_label(const char *a, const char *b) {
    return a == b || (a && !strcmp(a, b));
}

td_tensor *(td_scope_end)(td_ctx *cx, const char *label, td_tensor *result) {
    if (!TD_ENTER_CTX(cx)) return &td__current_ctx()->nil;
    const char *want = label ? label : td__unnamed;
    int         at = cx->scopes.n - 1;
    if (!result) result = &cx->nil;
    else if (!td__is_live(result, TD_H_TENSOR)) {
        td__refuse_in(cx, result, TD_H_TENSOR, "td_scope_end");
        result = &cx->nil;
    } else if (result->cx != cx) {
        td__fail(cx, TD_E_ARG,
                 "td_scope_end: the result (%s) belongs to another context than the "
                 "scope",
                 td__type_str(result));
        result = &cx->nil;
    }
    if (cx->missed > 0) { /* the scope was not opened: its tensors are its parent's */
        cx->missed--;
        return result;
    }
    while (at >= 0 && !same_label(cx->scopes.v[at].label, want)) at--;
    const td_callback *in = cx->callback;
    if (at >= 0 && in && at < in->scopes) {
        td__fail(
            cx, TD_E_ARG,
            "td_scope_end: scope \"%s\" was begun outside of this code, which runs "
            "inside a call of the library (as a body, hook or mode); end it after "
            "that call returns",
            want);
        return result;
    }
    if (at < 0) {
        td__fail(cx, TD_E_ARG,
                 "td_scope_end: no open scope has the label \"%s\"; begin it with "
                 "td_scope_begin",
                 want);
        return result;
    }
    cx->scopes.n = at + 1;
    pop_scope(cx, &result, 1, td_here);
    return result;
}

td_tensor *td_keep(td_tensor *t) {
    if (t && t->tag == (TD_TAG_NIL | TD_H_TENSOR)) return t;
    if (!TD_ENTER(t, TENSOR)) return &td__ctx_of_any(t)->nil;
    t->kept++;
    return td__ref(t);
}

void td__unref_held(td_tensor *t) {
    if (!t->kept && t->slot < 0) t->serial = TD_RELEASED_OWNER;
    td__unref(t);
}

/* Drops the reference of td_keep, or else the scope's. `how` and the source line are
 * remembered for the message if the tensor is used after it was freed. */
void td__drop_as(td_tensor *t, uint32_t how) {
    if (t->kept > 0) t->kept--;
    else if (t->slot >= 0) {
        t->cx->owned.v[t->slot] = NULL;
        t->slot = -1;
    } else {
        td__fail(t->cx, TD_E_ARG,
                 "td_drop: this tensor (%s) was not kept; call td_drop once for each "
                 "td_keep",
                 td__type_str(t));
        return;
    }
    if (!t->kept && t->slot < 0) t->serial = how;
    td__unref(t);
    if (t->tag != (TD_TAG_FREED | TD_H_TENSOR)) return;
    t->freed_file = td_here.file;
    t->freed_line = td_here.line;
}

void td_drop(td_tensor *t) {
    if (TD_MAY_FREE(t, TENSOR)) td__drop_as(t, TD_RELEASED_DROP);
}
