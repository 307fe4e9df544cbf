/* open.c -- td_open and td_close: a context with core's state, the op table,
 * and the tape as the bottom of its mode stack. */
#include "core/callback.h"
#include "eager/eager_int.h"

/* td_ctx_hooks.free_ambient: frees ambient state of autograd, at the end of a
 * trace or of the context. */
static void free_ambient(td_ctx *cx) {
    td__autocast_close(cx);
    td__hook_graphs_release(cx);
    td__vec_free(&cx->packers);
}

/* td_ctx_hooks.close: all tensors and nodes are freed, only pools are left. */
static void close_eager(td_ctx *cx) {
    td_eager *e = cx->eager;
    free_ambient(cx);
    TD_ASSERT(e->hooks == NULL); /* freed with their tensors and nodes */
    for (int i = 0; i < TD_NODE_CLASSES; i++)
        for (td_node *n = e->pool[i], *next; n; n = next) {
            next = n->next;
            td__free(n);
        }
    for (td_autograd *s = e->states, *next; s; s = next) {
        next = s->next;
        td__free(s);
    }
    td__arena_free(&e->walks);
    td__walk_lists_free(&e->idle);
    td__free(e);
    cx->eager = NULL;
}

static const td_ctx_hooks hooks = {.free_autograd = td__state_free,
                                   .made_by = td__made_by,
                                   .free_ambient = free_ambient,
                                   .close = close_eager};

td_ctx *td_open(void) {
    if (!td__table_init()) return NULL;
    td_ctx   *cx = td__ctx_make();
    td_eager *e = cx ? td__zalloc(sizeof *e) : NULL;
    /* The arena's first chunk is allocated before any walk, so none frees it. */
    if (!e || !td__arena_alloc(&e->walks, 1)) {
        td__free(e);
        td__ctx_free(cx);
        return NULL;
    }
    e->cx = cx;
    e->mode.name = "autograd";
    e->mode.call = td__tape_call;
    e->resize = td__row(TD_OP_resize_);
    cx->eager = e;
    cx->hooks = &hooks;
    cx->tape = &e->mode;
    td__mode_push(cx, &e->mode);
    td__named_ctx = cx;
    return cx;
}

/* With debug_asserts: names the scopes that nobody ended. Their tensors lived until
 * now, which in a loop is a leak. */
static void warn_open_scopes(td_ctx *cx) {
    for (int i = 0; i < cx->scopes.n && td__config(cx)->debug_asserts; i++) {
        const td_scope *s = &cx->scopes.v[i];
        if (s->label)
            td__warn(cx,
                     "td_close: the scope \"%s\" is still open; end it with "
                     "td_scope_end. It was begun at %s:%d",
                     s->label, s->here.file ? s->here.file : "?", s->here.line);
    }
}

/* Does a captured body close a context that it did not open? */
static bool is_outside_body(const td_ctx *cx) {
    return td__capturing && td__capturing != cx &&
           (int32_t)(cx->serial - td__capturing->last_serial) <= 0;
}

void td_close(td_ctx *cx) {
    if (!TD_MAY_FREE(cx, CTX)) return;
    if (is_outside_body(cx)) {
        td__refuse(cx, TD_H_CTX, __func__);
        return;
    }
    if (cx->unwinding || cx->callback)
        td__fail(
            cx, TD_E_ARG,
            "td_close: the context is in use, because this code runs inside a call "
            "of the library (as a body, hook or mode). Nothing was freed; close "
            "the context after that call returns");
    else {
        if (cx->code != TD_OK && cx->unread)
            td__warn(cx,
                     "td_close: nobody read this error: %s. Check td_ok and print "
                     "td_message before td_close; td_clear drops an error silently",
                     cx->message);
        warn_open_scopes(cx);
        td__ctx_free(cx);
    }
}
