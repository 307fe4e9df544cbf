/* module_walk.c -- walks over a module and its tree in the order of PyTorch's state
 * dicts: own parameters, own buffers, then children. */
#include "core/callback.h"
#include "module/modules.h"

#include <string.h>

/* The state of a walk. */
typedef struct walk {
    td_ctx       *cx;
    int           what;
    td_member_fn *fn;
    td_module_fn *each; /* called for modules; instead of fn */
    void         *env;
    td_ptrmap     modules, tensors; /* visited already */
    td_buf        path;             /* dotted name of the current module */
} walk;

static void walk_end(walk *w) {
    td__ptrmap_free(&w->modules);
    td__ptrmap_free(&w->tensors);
    td__buf_free(&w->path);
}

/* Appends ".name" to the path; *was is its previous length. False after td__fail. */
static bool path_add(walk *w, const char *name, size_t *was) {
    *was = w->path.n;
    if (w->path.n) td__buf_add(&w->path, ".");
    td__buf_add(&w->path, name);
    return !w->path.failed || td__fail_memory(w->cx);
}

static void path_back(walk *w, size_t was) {
    w->path.n = was;
    if (w->path.s) w->path.s[was] = 0;
}

/* Adds p to the set; *news: it is new. False after td__fail. */
static bool note(walk *w, td_ptrmap *seen, void *p, bool *news) {
    *news = !td__ptrmap_get(seen, p);
    if (!*news || td__ptrmap_put(seen, p, p)) return true;
    return td__fail_memory(w->cx);
}

/* Calls fn for a member, unless it was visited before. */
static bool visit_own(walk *w, td_module *m, const td_own_tensor *own) {
    bool   news = true;
    size_t was;
    if (!own->t) return true;
    if (!(w->what & TD_VISIT_DUPLICATES) && !note(w, &w->tensors, own->t, &news))
        return false;
    if (!news) return true;
    if (!path_add(w, own->name, &was)) return false;
    td_member it = {td__buf_str(&w->path), own->t, m, own->buffer, own->persistent};
    if (!own->buffer) it.persistent = true;
    bool ok;
    TD_CALLBACK(w->cx, ok = w->fn(w->env, &it));
    path_back(w, was);
    return ok;
}

static bool visit_kind(walk *w, td_module *m, bool buffers) {
    for (int i = 0; i < m->tensors.n; i++)
        if (m->tensors.v[i].buffer == buffers && !visit_own(w, m, &m->tensors.v[i]))
            return false;
    return true;
}

/* Visits a module and its tree. False: fn returned false, or td__fail. */
static bool visit_module(walk *w, td_module *m) {
    bool   news = true;
    size_t was;
    if (!(w->what & TD_VISIT_DUPLICATES) && !note(w, &w->modules, m, &news))
        return false;
    if (!news) return true;
    if (w->what & TD_VISIT_PARAMS && !visit_kind(w, m, false)) return false;
    if (w->what & TD_VISIT_BUFFERS && !visit_kind(w, m, true)) return false;
    for (int i = 0; i < m->children.n; i++) {
        if (!path_add(w, m->children.v[i].name, &was)) return false;
        if (!visit_module(w, m->children.v[i].m)) return false;
        path_back(w, was);
    }
    return !w->each || w->each(w->env, m, td__buf_str(&w->path));
}

bool td_module_visit(td_module *m, int what, td_member_fn *fn, void *env) {
    if (!TD_ENTER(m, MODULE) || !td__has(m->cx, "td_module_visit", "the function", fn))
        return false;
    walk w = {.cx = m->cx, .what = what, .fn = fn, .env = env};
    td__module_used(m);
    bool ok = visit_module(&w, m);
    walk_end(&w);
    return ok;
}

bool td_module_apply(td_module *m, td_module_fn *fn, void *env) {
    if (!TD_ENTER(m, MODULE) || !td__has(m->cx, "td_module_apply", "the function", fn))
        return false;
    walk w = {.cx = m->cx, .each = fn, .env = env};
    td__module_used(m);
    bool ok = visit_module(&w, m);
    walk_end(&w);
    return ok;
}

/* ---- lists -------------------------------------------------------------- */

typedef struct list {
    td_tensor **out;
    int         n, cap;
} list;

static bool add_to_list(void *env, const td_member *m) {
    list *l = env;
    if (l->out && l->n < l->cap) l->out[l->n] = m->t;
    l->n++;
    return true;
}

/* The members of a kind, of which the first cap are stored. */
static int list_members(td_module *m, const char *who, int which, td_tensor **out,
                        int cap) {
    list l = {out, 0, cap};
    if (cap < 0 && !td__no_room(td__ctx_of_any(m), who, cap)) return -1;
    return td_module_visit(m, which, add_to_list, &l) ? l.n : -1;
}

int td_module_parameters(td_module *m, td_tensor **out, int cap) {
    return list_members(m, "td_module_parameters", TD_VISIT_PARAMS, out, cap);
}

int td_module_buffers(td_module *m, td_tensor **out, int cap) {
    return list_members(m, "td_module_buffers", TD_VISIT_BUFFERS, out, cap);
}

/* ---- flat lists of members (td_flat) ------------------------------------------ */

typedef struct flat_name {
    int         entry;
    const char *name;
} flat_name;

/* A td_flat under construction; users see pub. */
typedef struct flat {
    TD_OWNED_FIELDS;
    td_flat   pub; /* what users see */
    td_arena  arena;
    td_ptrmap at; /* tensor -> its entry + 1 */
    TD_VEC(td_flat_entry) entries;
    TD_VEC(flat_name) names;
} flat;

/* Adds a member; a tied tensor has one entry with several names. False after
 * td__fail. */
static bool flat_add(void *env, const td_member *m) {
    flat         *f = env;
    intptr_t      at = (intptr_t)td__ptrmap_get(&f->at, m->t);
    td_flat_entry e = {.t = m->t, .buffer = m->buffer, .persistent = m->persistent};
    if (!at) {
        at = f->entries.n + 1;
        if (!td__vec_reserve(&f->entries) || !td__ptrmap_put(&f->at, m->t, (void *)at))
            return td__fail_memory(f->cx);
        f->entries.v[f->entries.n++] = e;
        td__ref(m->t);
    }
    flat_name n = {(int)at - 1, td__arena_strdup(&f->arena, m->name)};
    if (!n.name || !td__vec_push(&f->names, n)) return td__fail_memory(f->cx);
    f->entries.v[at - 1].n_names++;
    f->entries.v[at - 1].persistent |= m->persistent;
    return true;
}

/* Gives each entry its names, in order. False after td__fail. */
static bool flat_names(flat *f) {
    size_t       bytes = sizeof(char *) * ((size_t)f->names.n + 1);
    const char **all = td__arena_alloc(&f->arena, bytes);
    if (!all) return td__fail_memory(f->cx);
    for (int i = 0; i < f->entries.n; i++) {
        f->entries.v[i].names = all;
        all += f->entries.v[i].n_names;
        f->entries.v[i].n_names = 0;
    }
    for (int i = 0; i < f->names.n; i++) {
        td_flat_entry *e = &f->entries.v[f->names.v[i].entry];
        ((const char **)(uintptr_t)e->names)[e->n_names++] = f->names.v[i].name;
    }
    return true;
}

static flat *flat_of(td_flat *pub) {
    return pub ? (flat *)(void *)((char *)pub - offsetof(flat, pub)) : NULL;
}

static void end(void *object) {
    flat *f = object;
    td__handle_disown(f);
    for (int i = 0; i < f->entries.n; i++) td__unref(f->entries.v[i].t);
    td__ptrmap_free(&f->at);
    td__vec_free(&f->entries);
    td__vec_free(&f->names);
    td__arena_free(&f->arena);
    td__handle_free(f, TD_H_FLAT);
}

void td__flat_free(td_flat *pub) {
    if (pub) end(flat_of(pub));
}

td_flat *td__module_flat(td_module *m) {
    flat *f = td__handle_make(m->cx, TD_H_FLAT, sizeof *f);
    int   dup = TD_VISIT_DUPLICATES;
    if (!f) return NULL;
    bool ok = td_module_visit(m, TD_VISIT_PARAMS | dup, flat_add, f);
    f->pub.n_params = f->entries.n;
    ok = ok && td_module_visit(m, TD_VISIT_BUFFERS | dup, flat_add, f) && flat_names(f);
    f->pub.n_buffers = f->entries.n - f->pub.n_params;
    f->pub.entries = f->entries.v;
    if (ok) return &f->pub;
    end(f);
    return NULL;
}

/* The nil list: empty, shared by all contexts. */
static flat nil_flat = {.tag = TD_TAG_NIL | TD_H_FLAT};

td_flat *td_module_flat(td_module *m) {
    td_flat *f = TD_ENTER(m, MODULE) ? td__module_flat(m) : NULL;
    if (!f) return &nil_flat.pub;
    td__handle_own(flat_of(f), end);
    return f;
}

void td_flat_drop(td_flat *p) {
    if (p && TD_MAY_FREE(flat_of(p), FLAT)) end(flat_of(p));
}
