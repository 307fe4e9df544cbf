/* optim_state.c -- the tensors of an optimizer by name, and in files. Loading checks
 * every tensor before it writes any, so that a failure changes nothing. */
#include "nn/optim.h"
#include "tandem/io.h"

#include <stdio.h>
#include <string.h>

enum { NAME = 64 };

/* ---- names -------------------------------------------------------------- */

/* A tensor of an optimizer. */
typedef struct listed {
    td_tensor  *t, *of; /* of: the parameter it belongs to; NULL: the group */
    char        name[NAME];
    const char *slot; /* the last part of the name */
} listed;

/* Called for each tensor; false stops the walk. */
typedef bool visit_fn(void *env, const listed *it);

/* Visits lr and steps of a group, then the state of its parameters. */
static bool visit_group(const td_group *g, int nr, int first, visit_fn *fn, void *env) {
    listed it = {.t = g->lr, .slot = "lr"};
    snprintf(it.name, NAME, "group.%d.lr", nr);
    if (!fn(env, &it)) return false;
    it.t = g->steps;
    it.slot = "step";
    snprintf(it.name, NAME, "group.%d.step", nr);
    if (!fn(env, &it)) return false;
    for (int i = 0; i < g->at.n; i++)
        for (int k = 0; k < TD_S_COUNT; k++) {
            if (!(it.t = g->at.v[i].state[k])) continue;
            it.of = g->at.v[i].p;
            it.slot = td__slot_names[k];
            snprintf(it.name, NAME, "state.%d.%s", first + i, td__slot_names[k]);
            if (!fn(env, &it)) return false;
        }
    return true;
}

/* Visits all tensors in a fixed order. False if fn returned false. */
static bool visit(const td_optim *o, visit_fn *fn, void *env) {
    int first = 0;
    for (int i = 0; i < o->groups.n; i++) {
        if (!visit_group(&o->groups.v[i], i, first, fn, env)) return false;
        first += o->groups.v[i].at.n;
    }
    return true;
}

/* Counts tensors and copies as many as fit. */
typedef struct lister {
    td_tensor **out;
    int         n, cap;
} lister;

static bool list_one(void *env, const listed *it) {
    lister *l = env;
    if (l->out && l->n < l->cap) l->out[l->n] = it->t;
    l->n++;
    return true;
}

static bool name_one(void *env, const listed *it) {
    char name[NAME];
    snprintf(name, NAME, "%s", it->of ? it->slot : it->name);
    return td__deps_name(env, (td_dep_name){it->t, it->of, name});
}

bool td__optim_used(const td_optim *o) {
    bool first;
    return td__deps_use(o->cx, o->revision, "the optimizer", &first) &&
           (!first || visit(o, name_one, o->cx));
}

int td_optim_tensors(const td_optim *o, td_tensor **out, int cap) {
    if (!TD_ENTER(o, OPTIM)) return 0;
    if (cap < 0 && !td__no_room(o->cx, "td_optim_tensors", cap)) return 0;
    (void)td__optim_used(o);
    lister l = {.out = out, .cap = cap};
    visit(o, list_one, &l);
    return l.n;
}

typedef struct finder {
    int  left;
    char name[NAME];
} finder;

static bool find_one(void *env, const listed *it) {
    finder *f = env;
    if (f->left-- > 0) return true;
    memcpy(f->name, it->name, NAME);
    return false;
}

size_t td_optim_tensor_name(const td_optim *o, int i, char *out, size_t cap) {
    if (!TD_ENTER(o, OPTIM)) return td__text_out("", 0, out, cap);
    finder f = {.left = i};
    (void)td__optim_used(o);
    if (i >= 0) visit(o, find_one, &f);
    return td__text_out(f.name, strlen(f.name), out, cap);
}

/* ---- saving ------------------------------------------------------------- */

typedef struct saving {
    td_arena arena;
    TD_VEC(const char *) names;
    TD_VEC(td_tensor *) tensors;
} saving;

static bool save_one(void *env, const listed *it) {
    saving     *s = env;
    const char *name = td__arena_strdup(&s->arena, it->name);
    return name && td__vec_push(&s->names, name) && td__vec_push(&s->tensors, it->t);
}

bool td_optim_save(td_optim *o, const char *path) {
    if (!TD_ENTER(o, OPTIM)) return false;
    static const char *const notes[] = {"format", "tandem optimizer", NULL};
    saving                   s = {0};
    if (!td_ok(o->cx) || !td__may_change(o->cx, "td_optim_save", "a file"))
        return false;
    bool ok = visit(o, save_one, &s) || td__fail_memory(o->cx);
    ok = ok && td_safetensors_save(o->cx, path, s.names.v,
                                   td__nn_list(s.tensors.v, s.tensors.n), notes);
    td__vec_free(&s.names);
    td__vec_free(&s.tensors);
    td__arena_free(&s.arena);
    return ok;
}

/* ---- loading ------------------------------------------------------------ */

typedef struct loading {
    td_ctx         *cx;
    const char     *path;
    td_safetensors *file;
    TD_VEC(td_tensor *) from;
    int written;
} loading;

/* Has the file a tensor of that name? False after td__fail. */
static bool file_has(const loading *l, const char *name) {
    for (int i = 0; i < td_safetensors_count(l->file); i++)
        if (!strcmp(td_safetensors_name(l->file, i), name)) return true;
    return td__fail(l->cx, TD_E_ARG,
                    "td_optim_load: %s has no tensor \"%s\"; it was saved by an "
                    "optimizer with other groups, rules or parameters",
                    l->path, name);
}

/* Equal dtype and sizes? */
static bool same_type(const td_tensor *a, const td_tensor *b) {
    bool same = td_rank(a) == td_rank(b) && td_dtype_of(a) == td_dtype_of(b);
    for (int i = 0; same && i < td_rank(a); i++) same = td_size(a, i) == td_size(b, i);
    return same;
}

/* First walk: finds and checks each tensor in the file. False after td__fail. */
static bool check_one(void *env, const listed *it) {
    loading *l = env;
    if (!file_has(l, it->name)) return false;
    td_tensor *from = td_safetensors_get(l->file, it->name);
    if (td_is_nil(from)) return false;
    if (!same_type(from, it->t)) {
        char is[128];
        snprintf(is, sizeof is, "%s", td__type_str(from));
        return td__fail(l->cx, TD_E_SHAPE,
                        "td_optim_load: %s: \"%s\" is %s; the optimizer's is %s",
                        l->path, it->name, is, td__type_str(it->t));
    }
    return td__vec_push(&l->from, from) || td__fail_memory(l->cx);
}

/* Second walk: copies the bytes. */
static bool write_one(void *env, const listed *it) {
    loading   *l = env;
    td_tensor *from = l->from.v[l->written++];
    size_t     bytes = (size_t)td_numel(from) * td_dtype_size(td_dtype_of(from));
    return td_write(it->t, td_dtype_of(from), td_data(from), bytes);
}

static bool load(td_optim *o, loading *l) {
    int have = td_safetensors_count(l->file);
    if (!visit(o, check_one, l)) return false;
    if (l->from.n != have)
        return td__fail(o->cx, TD_E_ARG,
                        "td_optim_load: %s has %d tensors; the optimizer has %d",
                        l->path, have, l->from.n);
    return visit(o, write_one, l);
}

bool td_optim_load(td_optim *o, const char *path) {
    if (!TD_ENTER(o, OPTIM)) return false;
    loading l = {.cx = o->cx, .path = path};
    if (!td_ok(o->cx)) return false;
    if (!td__may_change(o->cx, "td_optim_load", "an optimizer")) return false;
    td_scope_begin(o->cx, "td_optim_load");
    l.file = td_safetensors_open(o->cx, path);
    bool ok = !td_is_nil(l.file) && load(o, &l);
    td__vec_free(&l.from);
    td_safetensors_close(l.file);
    td_scope_end(o->cx, "td_optim_load", NULL);
    return ok;
}
