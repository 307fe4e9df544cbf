/* deps.c -- what a captured body read besides its arguments. During a capture,
 * td_ctx.deps points to the specialization's list; modules that are called or
 * queried, bytes passed to td_watch, and tensors of other contexts (td_share) add
 * themselves. A later call fits only if all of them are unchanged. */
#include "module/deps.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- names of tensors --------------------------------------------------- */

bool td__deps_name(td_ctx *cx, td_dep_name n) {
    td_deps *d = cx->deps;
    if (!d) return true;
    if ((n.name = td__strdup(n.name)) && td__vec_push(&d->names, n)) return true;
    td__free(n.name);
    return td__fail_memory(cx);
}

void td__deps_drop_names(td_deps *d) {
    for (int i = 0; i < d->names.n; i++) td__free(d->names.v[i].name);
    td__vec_free(&d->names);
}

/* Names the members of a module that is no argument: "Linear.weight". False after
 * td__fail. */
static bool name_members(td_ctx *cx, td_module *m) {
    td_flat *flat = td__module_flat(m);
    td_buf   b = {0};
    bool     ok = flat != NULL;
    for (int i = 0; ok && i < flat->n_params + flat->n_buffers; i++) {
        b.n = 0;
        td__buf_printf(&b, "%s.%s", m->label, flat->entries[i].names[0]);
        ok = !b.failed || td__fail_memory(cx);
        ok = ok &&
             td__deps_name(cx, (td_dep_name){.t = flat->entries[i].t, .name = b.s});
    }
    td__flat_free(flat);
    td__buf_free(&b);
    return ok;
}

/* ---- modules ------------------------------------------------------------ */

/* A reference to a module that may be freed meanwhile; NULL after td__fail. */
static td_module_link *link_to(td_module *m) {
    if (!m->link) {
        m->link = td__alloc(sizeof *m->link);
        if (!m->link) return td__fail_memory(m->cx), NULL;
        *m->link = (td_module_link){1, m};
    }
    m->link->refs++;
    return m->link;
}

void td__module_unlink(td_module_link *l) {
    if (l && --l->refs == 0) td__free(l);
}

/* Adds a module of a tree to d->seen. False after td__fail. */
static bool mark_seen(void *env, td_module *m, const char *path) {
    td_deps *d = env;
    (void)path;
    return td__ptrmap_get(&d->seen, m) || td__ptrmap_put(&d->seen, m, m) ||
           td__fail_memory(m->cx);
}

bool td__deps_begin(td_deps *d, td_module *own) {
    td__deps_free(d);
    return !own || td_module_apply(own, mark_seen, d);
}

static void drop_module(td_used_module *u) {
    td__module_unlink(u->link);
    td__free(u->name);
    td__free(u->form);
}

/* Adds a module with its current form, and marks its tree as seen. False after
 * td__fail. */
static bool add_module(td_deps *d, td_module *m) {
    td_used_module u = {.link = link_to(m), .name = td__strdup(m->label)};
    td_buf         b = {0};
    bool           ok = u.link && u.name && td__form_write(&b, m, true) &&
              td_module_apply(m, mark_seen, d) && td__vec_push(&d->modules, u);
    u.form = b.s;
    if (ok) d->modules.v[d->modules.n - 1].form = u.form;
    else drop_module(&u);
    return ok || (td_ok(m->cx) && td__fail_memory(m->cx));
}

/* Called by every function that reads a module. While a body is captured, the module
 * becomes part of its key, once. */
void td__module_used(const td_module *m) {
    td_ctx  *cx = m->cx;
    td_deps *d = cx->deps;
    if (TD_LIKELY(!d) || td__ptrmap_get(&d->seen, m)) return;
    cx->deps = NULL; /* the walk below reads modules too */
    if (!d->modules.n) d->epoch = td__module_epoch();
    bool ok = add_module(d, (td_module *)(uintptr_t)m);
    cx->deps = d;
    if (ok) (void)name_members(cx, (td_module *)(uintptr_t)m);
}

/* Writes the module's current form. False: it was freed, or td__fail. */
static bool form_now(const td_used_module *u, td_buf *b) {
    return u->link->m && td__form_write(b, u->link->m, true);
}

/* Has the module the form it had when it was captured? */
static bool same_form(const td_used_module *u) {
    td_buf b = {0};
    bool   same = form_now(u, &b) && !strcmp(td__buf_str(&b), u->form);
    td__buf_free(&b);
    return same;
}

/* ---- other objects ------------------------------------------------------ */

td_revision *td__revision_make(void) {
    td_revision *r = td__alloc(sizeof *r);
    if (r) *r = (td_revision){1, 0};
    return r;
}

static void drop_revision(td_revision *r) {
    if (--r->refs == 0) td__free(r);
}

void td__revision_end(td_revision *r) {
    if (!r) return;
    r->nr++;
    drop_revision(r);
}

/* Records that the captured body uses an object with a revision (an optimizer). *first:
 * it was not used before, so the caller records its parts. */
bool td__deps_use(td_ctx *cx, td_revision *r, const char *what, bool *first) {
    td_deps *d = cx->deps;
    *first = d != NULL;
    for (int i = 0; d && i < d->objects.n; i++)
        if (d->objects.v[i].now == r) *first = false;
    if (!*first) return true;
    td_used_object u = {r, r->nr, what};
    if (!td__vec_push(&d->objects, u)) return td__fail_memory(cx);
    r->refs++;
    return true;
}

/* ---- bytes -------------------------------------------------------------- */

/* The entry of these bytes; NULL: none. */
static td_watched *find_watched(td_deps *d, const void *at, size_t n) {
    for (int i = 0; i < d->watched.n; i++)
        if (d->watched.v[i].at == at && d->watched.v[i].n == n) return &d->watched.v[i];
    return NULL;
}

static void drop_watched(td_watched *w) {
    td__free(w->copy);
    td__free(w->place);
}

/* Records a copy of the bytes and the source line. False after td__fail. */
static bool add_watched(td_ctx *cx, td_deps *d, const void *at, size_t n) {
    char place[256] = "";
    if (td_here.file)
        snprintf(place, sizeof place, "%s:%d", td_here.file, td_here.line);
    td_watched w = {at, n, td__alloc(n), td__strdup(place)};
    if (!w.copy || !w.place || !td__vec_push(&d->watched, w)) {
        drop_watched(&w);
        return td__fail_memory(cx);
    }
    memcpy(w.copy, at, n);
    d->bytes += n;
    return true;
}

bool(td_watch)(td_call *c, const void *bytes, size_t n) {
    td_ctx  *cx = td_call_ctx(c);
    td_deps *d = cx->deps;
    if (!td_ok(cx)) return false;
    if (!bytes && n)
        return td__fail(
            cx, TD_E_ARG,
            "td_watch: bytes is NULL, n is %zu; pass the address of the value", n);
    if (!d || !n || find_watched(d, bytes, n)) return true;
    if (n > TD_WATCH_MOST - d->bytes)
        return td__fail(cx, TD_E_ARG,
                        "td_watch: %zu bytes exceed the limit of a function (%zu are "
                        "watched already, at most %d, as each call compares them); "
                        "watch single fields, and pass larger data as a tensor",
                        n, d->bytes, (int)TD_WATCH_MOST);
    return add_watched(cx, d, bytes, n);
}

/* ---- tensors of other contexts ------------------------------------------- */

/* Makes the capture in progress, if any, depend on the type and the storage of t; its
 * elements are read in each call. False after td__fail. */
static bool use_share(td_ctx *cx, const td_tensor *t, const td_meta *m) {
    td_used_share u = {td__weak(t->cx), t, t->st, *m};
    return !cx->deps || td__vec_push(&cx->deps->shares, u) || td__fail_memory(cx);
}

td_tensor *td_share(td_ctx *cx, const td_tensor *t) {
    if (!TD_ENTER_CTX(cx)) return TD_NIL(cx, TENSOR);
    if (!td__is_live(t, TD_H_TENSOR) && !td__enter_in(cx, t, TD_H_TENSOR, __func__))
        return TD_NIL(cx, TENSOR);
    if (!td__may_read(t->cx, "td_share", "a tensor into another context") ||
        (TD_IS_KEPT(t) && !td__fail_kept(cx, "td_share", t)))
        return TD_NIL(cx, TENSOR);
    td_meta m;
    td__tensor_meta(t, &m);
    td_tensor *s = use_share(cx, t, &m) ? td__tensor_over(cx, t->st, &m) : NULL;
    return s ? s : &cx->nil;
}

/* Would td_share return the same tensor again? */
static bool same_share(const td_used_share *u) {
    const td_tensor *t = u->t;
    size_t           bytes = sizeof *t->size * (size_t)u->m.rank;
    return td__weak_live(u->cx, TD_H_CTX) && td__is_live(t, TD_H_TENSOR) &&
           t->st == u->st && t->dtype == u->m.dtype && t->rank == u->m.rank &&
           t->offset == u->m.offset && !memcmp(t->size, u->m.size, bytes) &&
           !memcmp(t->stride, u->m.stride, bytes);
}

/* ---- checking ------------------------------------------------------------- */

/* The check at each call: watched bytes, revisions, then modules. If no module of the
 * process changed since the last check (epoch), their forms are not compared. */
bool td__deps_unchanged(td_deps *d) {
    for (int i = 0; i < d->watched.n; i++) {
        const td_watched *w = &d->watched.v[i];
        if (memcmp(w->at, w->copy, w->n)) return false;
    }
    for (int i = 0; i < d->objects.n; i++)
        if (d->objects.v[i].now->nr != d->objects.v[i].was) return false;
    for (int i = 0; i < d->shares.n; i++)
        if (!same_share(&d->shares.v[i])) return false;
    uint64_t epoch = td__module_epoch();
    if (!d->modules.n || d->epoch == epoch) return true;
    for (int i = 0; i < d->modules.n; i++)
        if (!same_form(&d->modules.v[i])) return false;
    d->epoch = epoch;
    return true;
}

void td__deps_free(td_deps *d) {
    for (int i = 0; i < d->watched.n; i++) drop_watched(&d->watched.v[i]);
    for (int i = 0; i < d->modules.n; i++) drop_module(&d->modules.v[i]);
    for (int i = 0; i < d->objects.n; i++) drop_revision(d->objects.v[i].now);
    td__deps_drop_names(d);
    td__vec_free(&d->watched);
    td__vec_free(&d->modules);
    td__vec_free(&d->objects);
    td__vec_free(&d->shares);
    td__ptrmap_free(&d->seen);
    *d = (td_deps){0};
}

/* ---- as text ------------------------------------------------------------ */

/* The type of watched bytes is unknown: 4 and 8 bytes print as a float and as an int.
 */
static void bytes_text(td_buf *b, const void *at, size_t n) {
    float   f;
    double  g;
    int32_t i;
    int64_t k;
    if (n == sizeof f) {
        memcpy(&f, at, n);
        memcpy(&i, at, n);
        td__buf_printf(b, "%g (as an int %" PRId32 ")", (double)f, i);
    } else if (n == sizeof g) {
        memcpy(&g, at, n);
        memcpy(&k, at, n);
        td__buf_printf(b, "%g (as an int %" PRId64 ")", g, k);
    } else if (n == 1) td__buf_printf(b, "%d", *(const unsigned char *)at);
    else td__buf_printf(b, "%zu bytes", n);
}

static void watched_name(td_buf *b, const td_deps *d, int i) {
    const td_watched *w = &d->watched.v[i];
    td__buf_printf(b, "watched value %d", i);
    if (*w->place) td__buf_printf(b, " (%s)", w->place);
}

/* Appends how watched value i changed. False: it did not. */
static bool differ_watched(td_buf *b, const td_deps *d, int i) {
    const td_watched *w = &d->watched.v[i];
    if (!memcmp(w->at, w->copy, w->n)) return false;
    watched_name(b, d, i);
    td__buf_add(b, " is ");
    bytes_text(b, w->at, w->n);
    td__buf_add(b, ", was ");
    bytes_text(b, w->copy, w->n);
    return true;
}

/* Appends how the module changed. False: it did not. */
static bool differ_module(td_buf *b, const td_used_module *u) {
    td_buf now = {0};
    size_t was = b->n;
    if (!u->link->m) td__buf_printf(b, "module %s was freed", u->name);
    else if (form_now(u, &now))
        td__form_difference(b, u->name, td__buf_str(&now), u->form);
    td__buf_free(&now);
    return b->n != was;
}

/* The first dependency that changed, for messages. */
void td__deps_difference(td_buf *b, const td_deps *d) {
    for (int i = 0; i < d->watched.n; i++)
        if (differ_watched(b, d, i)) return;
    for (int i = 0; i < d->modules.n; i++)
        if (differ_module(b, &d->modules.v[i])) return;
    for (int i = 0; i < d->objects.n; i++) {
        const td_used_object *u = &d->objects.v[i];
        if (u->now->nr == u->was) continue;
        td__buf_printf(b, "%s was changed or freed after the capture", u->what);
        return;
    }
    for (int i = 0; i < d->shares.n; i++) {
        const td_used_share *u = &d->shares.v[i];
        if (same_share(u)) continue;
        td__buf_printf(b,
                       "the shared tensor %s%s of another context has another type or "
                       "storage, or was freed",
                       td_dtype_name(u->m.dtype), td__sizes_str(u->m.rank, u->m.size));
        return;
    }
}

/* One line per dependency, for td_explain. */
void td__deps_each(const td_deps *d, void (*fn)(void *env, const char *text),
                   void          *env) {
    td_buf b = {0};
    for (int i = 0; i < d->watched.n; i++) {
        b.n = 0;
        watched_name(&b, d, i);
        td__buf_add(&b, ": ");
        bytes_text(&b, d->watched.v[i].copy, d->watched.v[i].n);
        fn(env, td__buf_str(&b));
    }
    for (int i = 0; i < d->modules.n; i++) {
        b.n = 0;
        td__buf_printf(&b, "module %s: modes and members", d->modules.v[i].name);
        fn(env, td__buf_str(&b));
    }
    for (int i = 0; i < d->objects.n; i++) {
        b.n = 0;
        td__buf_printf(&b, "%s: groups and parameters", d->objects.v[i].what);
        fn(env, td__buf_str(&b));
    }
    for (int i = 0; i < d->shares.n; i++) {
        const td_meta *m = &d->shares.v[i].m;
        b.n = 0;
        td__buf_printf(&b, "shared tensor %s%s of another context: type and storage",
                       td_dtype_name(m->dtype), td__sizes_str(m->rank, m->size));
        fn(env, td__buf_str(&b));
    }
    td__buf_free(&b);
}
