/* module_state.c -- saves and loads modules as .safetensors files. Loading checks
 * names, sizes, dtypes and ties of all tensors before it writes any, so that a
 * failure changes nothing. */
#include "module/modules.h"
#include "core/files.h"
#include "core/readonly.h"
#include "tandem/io.h"

#include <stdio.h>
#include <string.h>

/* ---- saving ------------------------------------------------------------- */

/* The tensors to be saved; with `distinct`, tied tensors once, and notes with their
 * other names. */
typedef struct saving {
    td_ctx   *cx;
    bool      distinct;
    td_arena  arena;
    td_ptrmap first; /* tensor -> its first name */
    TD_VEC(const char *) names, notes;
    TD_VEC(td_tensor *) tensors;
} saving;

static bool save_one(void *env, const td_member *m) {
    saving *s = env;
    if (!m->persistent) return true;
    const char *name = td__arena_strdup(&s->arena, m->name);
    const char *first = s->distinct ? td__ptrmap_get(&s->first, m->t) : NULL;
    if (!name) return td__fail_memory(s->cx);
    if (first) {
        bool ok = td__vec_push(&s->notes, name) && td__vec_push(&s->notes, first);
        return ok || td__fail_memory(s->cx);
    }
    bool ok =
        td__vec_push(&s->names, name) && td__vec_push(&s->tensors, m->t) &&
        (!s->distinct || td__ptrmap_put(&s->first, m->t, (void *)(uintptr_t)name));
    return ok || td__fail_memory(s->cx);
}

bool td_module_save(td_module *m, const char *path, const td_save_opts *opts) {
    if (!TD_ENTER(m, MODULE) || !td__may_change(m->cx, "td_module_save", "a file"))
        return false;
    td_save_opts o;
    if (!td__opts_take(m->cx, "td_module_save", &o, sizeof o, opts, "TD_SAVE_OPTS"))
        return false;
    saving s = {.cx = m->cx, .distinct = o.distinct};
    bool   ok = td__vec_push(&s.notes, "format") && td__vec_push(&s.notes, "pt");
    if (!ok) td__fail_memory(m->cx);
    ok = ok && td_module_visit(m, TD_VISIT_ALL | TD_VISIT_DUPLICATES, save_one, &s);
    if (ok && !td__vec_push(&s.notes, NULL)) ok = td__fail_memory(m->cx);
    td_tensors all = {s.tensors.v, s.tensors.n};
    ok = ok && td_safetensors_save(m->cx, path, s.names.v, all, s.notes.v);
    if (ok) td__log(m->cx, TD_LOG_modules, "saved %d tensors to %s", all.n, path);
    td__arena_free(&s.arena);
    td__ptrmap_free(&s.first);
    td__vec_free(&s.names);
    td__vec_free(&s.notes);
    td__vec_free(&s.tensors);
    return ok;
}

/* ---- loading: what goes where ------------------------------------------- */

/* A member of the module and the file's tensor for it. */
typedef struct item {
    const char *name;
    td_tensor  *to, *from; /* from NULL: the file has no such name */
} item;

/* The state of loading. */
typedef struct loading {
    td_ctx             *cx;
    const char         *path;
    const td_load_opts *opts;
    td_safetensors     *file;
    td_arena            arena;
    td_map              names;  /* name in the file -> its entry in used */
    bool               *used;   /* by tensor of the file: a member matches it */
    td_ptrmap           loaded; /* tensor of the module -> its first item */
    TD_VEC(item *) items;
} loading;

static bool index_file(loading *l) {
    int n = td_safetensors_count(l->file);
    l->used = td__arena_zalloc(&l->arena, (size_t)n + 1);
    if (!l->used) return td__fail_memory(l->cx);
    for (int i = 0; i < n; i++)
        if (!td__map_put(&l->names, td_safetensors_name(l->file, i), &l->used[i]))
            return td__fail_memory(l->cx);
    return true;
}

static bool match_one(void *env, const td_member *m) {
    loading *l = env;
    if (!m->persistent) return true;
    item *it = td__arena_zalloc(&l->arena, sizeof *it);
    bool *used = td__map_get(&l->names, m->name);
    if (!it || !(it->name = td__arena_strdup(&l->arena, m->name)) ||
        !td__vec_push(&l->items, it))
        return td__fail_memory(l->cx);
    it->to = m->t;
    if (!used) return true;
    *used = true;
    it->from = td_safetensors_get(l->file, m->name);
    if (td_is_nil(it->from)) return false;
    if (td__ptrmap_get(&l->loaded, m->t)) return true;
    return td__ptrmap_put(&l->loaded, m->t, it) || td__fail_memory(l->cx);
}

/* ---- loading: checks ---------------------------------------------------- */

enum { LISTED = 8 };

/* Appends a name to a list in a message; at most LISTED names. */
static void list_name(td_buf *b, const char *what, const char *name, int nr) {
    if (nr == 0) td__buf_printf(b, "%s%s: ", b->n ? "; " : "", what);
    if (nr < LISTED) td__buf_printf(b, "%s%.120s", nr ? ", " : "", name);
}

static void list_end(td_buf *b, int n) {
    if (n > LISTED) td__buf_printf(b, " and %d more", n - LISTED);
}

/* Calls the user's callback and logs a missing or unexpected name. */
static void report_name(const loading *l, const char *name, bool missing) {
    if (l->opts->tell) l->opts->tell(l->opts->env, name, missing);
    td__log(l->cx, TD_LOG_modules, "%s: %s %s", l->path,
            missing ? "missing" : "unexpected", name);
}

/* Fails for names that only the module or only the file has, unless opts->partial. */
static bool check_names(const loading *l) {
    td_buf b = {0};
    int    missing = 0, extra = 0;
    for (int i = 0; i < l->items.n; i++) {
        const item *it = l->items.v[i];
        if (it->from || td__ptrmap_get(&l->loaded, it->to)) continue;
        report_name(l, it->name, true);
        list_name(&b, "missing", it->name, missing++);
    }
    list_end(&b, missing);
    for (int i = 0; i < td_safetensors_count(l->file); i++) {
        if (l->used[i]) continue;
        report_name(l, td_safetensors_name(l->file, i), false);
        list_name(&b, "unexpected", td_safetensors_name(l->file, i), extra++);
    }
    list_end(&b, extra);
    bool ok = missing + extra == 0 || l->opts->partial;
    if (!ok)
        td__fail(l->cx, TD_E_ARG,
                 "td_module_load: %s: %d names missing, %d unexpected; "
                 "%s",
                 l->path, missing, extra, td__buf_str(&b));
    td__buf_free(&b);
    return ok;
}

/* Fails for a tensor that does not fit. Returns false. */
static bool wrong(const loading *l, td_code code, const item *it, const char *why) {
    char from[160];
    snprintf(from, sizeof from, "%s", td__type_str(it->from));
    return td__fail(l->cx, code,
                    "td_module_load: %s: \"%.200s\" is %s in the file and %s in "
                    "the module%s",
                    l->path, it->name, from, td__type_str(it->to), why);
}

static size_t bytes_of(const td_tensor *t) {
    return (size_t)t->numel * td__dtype_bytes[t->dtype];
}

/* Sizes, dtype, and equal contents if several names are one tensor. False after
 * td__fail. */
static bool check_item(const loading *l, const item *it) {
    const item *first = td__ptrmap_get(&l->loaded, it->to);
    if (!td__same_sizes(it->from, it->to)) return wrong(l, TD_E_SHAPE, it, "");
    if (it->from->dtype != it->to->dtype && !l->opts->cast)
        return wrong(l, TD_E_DTYPE, it, "; set td_load_opts.cast to convert it");
    if (it->to->st->readonly)
        return wrong(l, TD_E_ALIAS, it,
                     ", where it " TD_READONLY
                     "; put a clone of it into the module (td_clone)");
    if (td__overlaps_itself(it->to))
        return wrong(l, TD_E_ALIAS, it, ", where elements share memory");
    bool same = first->from->dtype == it->from->dtype &&
                (it->from->numel == 0 ||
                 !memcmp(td__ptr(first->from), td__ptr(it->from), bytes_of(it->from)));
    if (same) return true;
    return td__fail(l->cx, TD_E_IO,
                    "td_module_load: %s: \"%.200s\" and \"%.200s\" are one tensor in "
                    "the module, but differ in the file",
                    l->path, first->name, it->name);
}

/* ---- loading ------------------------------------------------------------ */

/* Matches, checks, then writes. False after td__fail. */
static bool load_checked(loading *l, td_module *m) {
    int what = TD_VISIT_ALL | TD_VISIT_DUPLICATES, n = 0;
    if (!index_file(l) || !td_module_visit(m, what, match_one, l) || !check_names(l))
        return false;
    for (int i = 0; i < l->items.n; i++)
        if (l->items.v[i]->from && !check_item(l, l->items.v[i])) return false;
    for (int i = 0; i < l->items.n; i++) {
        const item *it = l->items.v[i];
        if (!it->from || td__ptrmap_get(&l->loaded, it->to) != it) continue;
        td_write(it->to, (td_dtype)it->from->dtype, td__ptr(it->from),
                 bytes_of(it->from));
        n++;
    }
    td__log(l->cx, TD_LOG_modules, "loaded %d tensors from %s", n, l->path);
    return td_ok(l->cx);
}

bool td_module_load(td_module *m, const char *path, const td_load_opts *opts) {
    if (!TD_ENTER(m, MODULE)) return false;
    td_load_opts o;
    if (!td__opts_take(m->cx, "td_module_load", &o, sizeof o, opts, "TD_LOAD_OPTS"))
        return false;
    loading l = {.cx = m->cx, .path = path, .opts = &o};
    if (!td__module_may_change(m, "td_module_load")) return false;
    if (!td_ok(m->cx) || !td__scope_push(m->cx)) return false;
    l.file = td__safetensors_open(m->cx, "td_module_load", path);
    bool ok = !td_is_nil(l.file) && load_checked(&l, m);
    td_safetensors_close(l.file);
    td__map_free(&l.names);
    td__ptrmap_free(&l.loaded);
    td__vec_free(&l.items);
    td__arena_free(&l.arena);
    td__scope_pop(m->cx, NULL, 0);
    return ok;
}
