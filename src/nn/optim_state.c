/* optim_state.c -- the tensors of an optimizer by name, and in files. Loading checks
 * every tensor before it writes any, so that a failure changes nothing. */
#include "nn/optim.h"
#include "core/files.h"
#include "tandem/io.h"

#include <stdio.h>
#include <string.h>

enum { NAME = 512 }; /* a parameter's name has 400 characters at most */

/* ---- names -------------------------------------------------------------- */

/* A tensor of an optimizer. */
typedef struct listed {
    td_tensor  *t, *of; /* of: the parameter it belongs to; NULL: the group */
    char        name[NAME];
    const char *slot; /* the last part of the name */
} listed;

/* Called for each tensor; false stops the walk. */
typedef bool visit_fn(void *env, const listed *it);

/* The name of state by its parameter: the parameter's name, or its number. */
static void name_state(listed *it, const td_trained *t, int nr) {
    if (t->name) snprintf(it->name, NAME, "state.%s.%s", t->name, it->slot);
    else snprintf(it->name, NAME, "state.%d.%s", nr, it->slot);
}

/* Visits a tensor of the group itself. */
static bool visit_own(td_tensor *t, const char *slot, int nr, visit_fn *fn, void *env) {
    listed it = {.t = t, .slot = slot};
    snprintf(it.name, NAME, "group.%d.%s", nr, slot);
    return fn(env, &it);
}

/* Visits lr and steps of a group, then the state of its parameters. */
static bool visit_group(const td_group *g, int nr, int first, visit_fn *fn, void *env) {
    listed it = {0};
    if (!visit_own(g->lr, "lr", nr, fn, env) ||
        !visit_own(g->steps, "step", nr, fn, env))
        return false;
    for (int k = 0; k < TD_L_COUNT; k++)
        if (g->flat[k] && !visit_own(g->flat[k], td__lbfgs_name(k), nr, fn, env))
            return false;
    for (int i = 0; i < g->at.n; i++)
        for (int k = 0; k < TD_S_COUNT; k++) {
            if (!(it.t = g->at.v[i].state[k])) continue;
            it.of = g->at.v[i].p;
            it.slot = td__slot_name(k);
            name_state(&it, &g->at.v[i], first + i);
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
    const char   *prefix;
    td_state_out *out;
} saving;

static bool save_one(void *env, const listed *it) {
    const saving *s = env;
    return td__state_add(s->out, s->prefix, it->name, it->t);
}

bool td__optim_state(const td_optim *o, const char *prefix, td_state_out *out) {
    saving s = {prefix, out};
    return visit(o, save_one, &s);
}

bool td_optim_save(td_optim *o, const char *path) {
    if (!TD_ENTER(o, OPTIM)) return false;
    static const char *const notes[] = {"format", "tandem optimizer", NULL};
    td_state_out             s = {.cx = o->cx};
    if (!td_ok(o->cx) || !td__may_change(o->cx, "td_optim_save", "a file"))
        return false;
    bool ok = td__optim_state(o, "", &s) &&
              td__safetensors_save(o->cx, "td_optim_save", path, s.names.v,
                                   td__nn_list(s.tensors.v, s.tensors.n), notes);
    td__state_end(&s);
    return ok;
}

/* ---- loading ------------------------------------------------------------ */

struct td_optim_load_plan {
    td_state_in in;
    td_optim   *o;
    int         at; /* in the walk that writes */
    TD_VEC(td_tensor *) from;
};
typedef td_optim_load_plan loading;

/* First walk: finds and checks each tensor in the file. False after td__fail. */
static bool check_one(void *env, const listed *it) {
    loading   *l = env;
    td_tensor *from = td__state_get(&l->in, it->name);
    char       is[128];
    if (!from)
        return td__fail(l->in.cx, TD_E_ARG,
                        "%s: %s has no tensor \"%s%s\"; it was saved by an optimizer "
                        "with other groups, rules or parameters",
                        l->in.who, l->in.path, l->in.prefix, it->name);
    if (td_is_nil(from)) return false;
    if (!td__same_type(from, it->t)) {
        snprintf(is, sizeof is, "%s", td__type_str(from));
        return td__fail(l->in.cx, TD_E_SHAPE,
                        "%s: %s: \"%s%s\" is %s; the optimizer's is %s", l->in.who,
                        l->in.path, l->in.prefix, it->name, is, td__type_str(it->t));
    }
    return td__vec_push(&l->from, from) || td__fail_memory(l->in.cx);
}

/* Second walk: copies the bytes. */
static bool write_one(void *env, const listed *it) {
    loading   *l = env;
    td_tensor *from = l->from.v[l->at++];
    size_t     bytes = (size_t)td_numel(from) * td_dtype_size(td_dtype_of(from));
    return td_write(it->t, td_dtype_of(from), td_data(from), bytes);
}

/* How many tensors of the file have the prefix. */
static int count_part(const td_state_in *in) {
    int    n = 0;
    size_t length = strlen(in->prefix);
    for (int i = 0; i < td_safetensors_count(in->file); i++)
        n += !strncmp(td_safetensors_name(in->file, i), in->prefix, length);
    return n;
}

td_optim_load_plan *td__optim_load_begin(td_optim *o, const td_state_in *in) {
    int      have = count_part(in);
    loading *l = td__zalloc(sizeof *l);
    if (!l) return td__fail_memory(o->cx), NULL;
    l->in = *in;
    l->o = o;
    bool ok = visit(o, check_one, l);
    if (ok && l->from.n != have)
        ok = td__fail(o->cx, TD_E_ARG, "%s: %s has %d tensors; the optimizer has %d",
                      in->who, in->path, have, l->from.n);
    if (ok) return l;
    td__optim_load_end(l);
    return NULL;
}

bool td__optim_load_write(td_optim_load_plan *l) { return visit(l->o, write_one, l); }

void td__optim_load_end(td_optim_load_plan *l) {
    if (!l) return;
    td__vec_free(&l->from);
    td__free(l);
}

bool td_optim_load(td_optim *o, const char *path) {
    static const char who[] = "td_optim_load";
    if (!TD_ENTER(o, OPTIM) || !td_ok(o->cx)) return false;
    if (!td__may_change(o->cx, who, "an optimizer")) return false;
    td_scope_begin(o->cx, who);
    td_state_in in = {o->cx, who, path, td__safetensors_open(o->cx, who, path), ""};
    td_optim_load_plan *l = td_is_nil(in.file) ? NULL : td__optim_load_begin(o, &in);
    bool                ok = l && td__optim_load_write(l);
    td__optim_load_end(l);
    td_safetensors_close(in.file);
    td_scope_end(o->cx, who, NULL);
    return ok;
}
