/* module_state.c -- saves and loads modules as .safetensors files. Loading checks
 * names, sizes, dtypes and ties of all tensors before it writes any, so that a
 * failure changes nothing. */
#include "module/modules.h"
#include "core/files.h"
#include "core/readonly.h"
#include "module/state_files.h"

#include <stdio.h>
#include <string.h>

/* ---- names under prefixes ------------------------------------------------- */

bool td__state_add(td_state_out *s, const char *prefix, const char *name,
                   td_tensor *t) {
    size_t n = strlen(prefix) + strlen(name) + 1;
    char  *whole = td__arena_zalloc(&s->arena, n);
    bool   ok = whole && td__vec_push(&s->tensors, t);
    if (ok) snprintf(whole, n, "%s%s", prefix, name);
    return (ok && td__vec_push(&s->names, whole)) || td__fail_memory(s->cx);
}

void td__state_end(td_state_out *s) {
    td__vec_free(&s->names);
    td__vec_free(&s->tensors);
    td__arena_free(&s->arena);
}

/* What follows the prefix of the part in a name of the file; NULL: of another part. */
static const char *after_prefix(const td_state_in *in, const char *name) {
    size_t n = strlen(in->prefix);
    return strncmp(name, in->prefix, n) ? NULL : name + n;
}

td_tensor *td__state_get(const td_state_in *in, const char *name) {
    for (int i = 0; i < td_safetensors_count(in->file); i++) {
        const char *whole = td_safetensors_name(in->file, i);
        const char *is = after_prefix(in, whole);
        if (is && !strcmp(is, name)) return td_safetensors_get(in->file, whole);
    }
    return NULL;
}

/* ---- saving ------------------------------------------------------------- */

/* The tensors to be saved; with `distinct`, tied tensors once, and notes with their
 * other names. */
typedef struct saving {
    td_state_out *out;
    const char   *prefix;
    bool          distinct;
    td_ptrmap     first; /* tensor -> its first name */
    TD_VEC(const char *) notes;
} saving;

static bool save_one(void *env, const td_member *m) {
    saving *s = env;
    if (!m->persistent) return true;
    const char *first = s->distinct ? td__ptrmap_get(&s->first, m->t) : NULL;
    if (first) {
        const char *name = td__arena_strdup(&s->out->arena, m->name);
        bool        ok =
            name && td__vec_push(&s->notes, name) && td__vec_push(&s->notes, first);
        return ok || td__fail_memory(s->out->cx);
    }
    if (!td__state_add(s->out, s->prefix, m->name, m->t)) return false;
    const char *name = s->out->names.v[s->out->names.n - 1];
    return !s->distinct || td__ptrmap_put(&s->first, m->t, (void *)(uintptr_t)name) ||
           td__fail_memory(s->out->cx);
}

bool td__module_state(td_module *m, const char *prefix, td_state_out *out) {
    saving s = {.out = out, .prefix = prefix};
    return td_module_visit(m, TD_VISIT_ALL | TD_VISIT_DUPLICATES, save_one, &s);
}

bool td_module_save(td_module *m, const char *path, const td_save_opts *opts) {
    if (!TD_ENTER(m, MODULE) || !td__may_change(m->cx, "td_module_save", "a file"))
        return false;
    td_save_opts o;
    if (!td__opts_take(m->cx, "td_module_save", &o, sizeof o, opts, "TD_SAVE_OPTS"))
        return false;
    td_state_out out = {.cx = m->cx};
    saving       s = {.out = &out, .prefix = "", .distinct = o.distinct};
    bool         ok = td__vec_push(&s.notes, "format") && td__vec_push(&s.notes, "pt");
    if (!ok) td__fail_memory(m->cx);
    ok = ok && td_module_visit(m, TD_VISIT_ALL | TD_VISIT_DUPLICATES, save_one, &s);
    if (ok && !td__vec_push(&s.notes, NULL)) ok = td__fail_memory(m->cx);
    td_tensors all = {out.tensors.v, out.tensors.n};
    ok = ok && td__safetensors_save(m->cx, "td_module_save", path, out.names.v, all,
                                    s.notes.v);
    if (ok) td__log(m->cx, TD_LOG_modules, "saved %d tensors to %s", all.n, path);
    td__ptrmap_free(&s.first);
    td__vec_free(&s.notes);
    td__state_end(&out);
    return ok;
}

/* ---- loading: what goes where ------------------------------------------- */

/* A member of the module and the file's tensor for it. */
typedef struct item {
    const char *name;
    td_tensor  *to, *from; /* from NULL: the file has no such name */
} item;

/* The state of loading. */
struct td_module_load_plan {
    td_state_in         in;
    td_ctx             *cx;
    const td_load_opts *opts;
    td_arena            arena;
    td_map              names;  /* name in the file -> its entry in used */
    bool               *used;   /* by tensor of the file: a member matches it */
    td_ptrmap           loaded; /* tensor of the module -> its first item */
    TD_VEC(item *) items;
};
typedef td_module_load_plan loading;

static bool index_file(loading *l) {
    int n = td_safetensors_count(l->in.file);
    l->used = td__arena_zalloc(&l->arena, (size_t)n + 1);
    if (!l->used) return td__fail_memory(l->cx);
    for (int i = 0; i < n; i++) {
        const char *name = after_prefix(&l->in, td_safetensors_name(l->in.file, i));
        l->used[i] = !name; /* of another part */
        if (name && !td__map_put(&l->names, name, &l->used[i]))
            return td__fail_memory(l->cx);
    }
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
    it->from =
        td_safetensors_get(l->in.file,
                           td_safetensors_name(l->in.file, (int)(used - l->used)));
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
    td__log(l->cx, TD_LOG_modules, "%s: %s %s", l->in.path,
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
    for (int i = 0; i < td_safetensors_count(l->in.file); i++) {
        const char *name = td_safetensors_name(l->in.file, i);
        if (l->used[i]) continue;
        report_name(l, name, false);
        list_name(&b, "unexpected", name, extra++);
    }
    list_end(&b, extra);
    bool ok = missing + extra == 0 || l->opts->partial;
    if (!ok)
        td__fail(l->cx, TD_E_ARG, "%s: %s: %d names missing, %d unexpected; %s",
                 l->in.who, l->in.path, missing, extra, td__buf_str(&b));
    td__buf_free(&b);
    return ok;
}

/* Fails for a tensor that does not fit. Returns false. */
static bool wrong(const loading *l, td_code code, const item *it, const char *why) {
    char from[160];
    snprintf(from, sizeof from, "%s", td__type_str(it->from));
    return td__fail(l->cx, code,
                    "%s: %s: \"%.200s\" is %s in the file and %s in the module%s",
                    l->in.who, l->in.path, it->name, from, td__type_str(it->to), why);
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
                    "%s: %s: \"%.200s\" and \"%.200s\" are one tensor in the module, "
                    "but differ in the file",
                    l->in.who, l->in.path, first->name, it->name);
}

/* ---- loading ------------------------------------------------------------ */

td_module_load_plan *td__module_load_begin(td_module *m, const td_state_in *in,
                                           const td_load_opts *opts) {
    int      what = TD_VISIT_ALL | TD_VISIT_DUPLICATES;
    loading *l = td__zalloc(sizeof *l);
    if (!l) return td__fail_memory(m->cx), NULL;
    l->in = *in;
    l->cx = m->cx;
    l->opts = opts;
    bool ok = index_file(l) && td_module_visit(m, what, match_one, l) && check_names(l);
    for (int i = 0; ok && i < l->items.n; i++)
        ok = !l->items.v[i]->from || check_item(l, l->items.v[i]);
    if (ok) return l;
    td__module_load_end(l);
    return NULL;
}

bool td__module_load_write(td_module_load_plan *l) {
    int n = 0;
    for (int i = 0; i < l->items.n; i++) {
        const item *it = l->items.v[i];
        if (!it->from || td__ptrmap_get(&l->loaded, it->to) != it) continue;
        td_write(it->to, (td_dtype)it->from->dtype, td__ptr(it->from),
                 bytes_of(it->from));
        n++;
    }
    td__log(l->cx, TD_LOG_modules, "loaded %d tensors from %s", n, l->in.path);
    return td_ok(l->cx);
}

void td__module_load_end(td_module_load_plan *l) {
    if (!l) return;
    td__map_free(&l->names);
    td__ptrmap_free(&l->loaded);
    td__vec_free(&l->items);
    td__arena_free(&l->arena);
    td__free(l);
}

bool td_module_load(td_module *m, const char *path, const td_load_opts *opts) {
    static const char who[] = "td_module_load";
    if (!TD_ENTER(m, MODULE)) return false;
    td_load_opts o;
    if (!td__opts_take(m->cx, who, &o, sizeof o, opts, "TD_LOAD_OPTS")) return false;
    if (!td__module_may_change(m, who)) return false;
    if (!td_ok(m->cx) || !td__scope_push(m->cx)) return false;
    td_state_in in = {m->cx, who, path, td__safetensors_open(m->cx, who, path), ""};
    td_module_load_plan *l =
        td_is_nil(in.file) ? NULL : td__module_load_begin(m, &in, &o);
    bool ok = l && td__module_load_write(l);
    td__module_load_end(l);
    td_safetensors_close(in.file);
    td__scope_pop(m->cx, NULL, 0);
    return ok;
}
