/* fn_options.c -- a function's options: checked, copied with everything they point
 * to, and the one place that calls the drop functions of the user's callbacks. What
 * each field is stands in options.def; here are the checks of several together. */
#include "aot/options.h"
#include "core/store.h"

#include <string.h>

/* Replaces *text by a copy in the arena. False: out of memory. */
static bool copy_text(td_shared_opts *h, const char **text) {
    return !*text || (*text = td__arena_strdup(&h->arena, *text)) != NULL;
}

/* Replaces *b by a copy in h->backends[i]. False: out of memory. */
static bool copy_backend(td_shared_opts *h, int i, const td_backend **b) {
    if (!*b) return true;
    h->backends[i] = **b;
    *b = &h->backends[i];
    return copy_text(h, &h->backends[i].name) && copy_text(h, &h->backends[i].version);
}

/* Settings that a shorter, older td_config does not have come from the context. */
static void take_config(td_shared_opts *h, td_ctx *cx) {
    const td_config *c = h->opts.config;
    if (!c) return;
    h->config = *td__config(cx);
    memcpy(&h->config, c, c->size);
    h->config.size = sizeof h->config;
    h->opts.config = &h->config;
}

/* Copies state_names: one per parameter, buffer and state tensor. */
static bool copy_names(td_shared_opts *h) {
    td_aot_opts *o = &h->opts;
    const void  *names = o->state_names;
    int          n = o->n_params + o->n_buffers + o->state.n;
    bool ok = td__opts_copy_list(&h->arena, &names, n, sizeof *o->state_names, 0);
    o->state_names = names;
    return ok;
}

/* A backend compiles. Its code is cached with save, load and version, or not at all. */
static bool check_backend(td_ctx *cx, const char *field, const td_backend *b) {
    const char *name = b && b->name ? b->name : "without a name";
    if (b && !b->compile)
        return td__fail(cx, TD_E_ARG,
                        "td_aot_opts.%s: the backend %.40s has no compile; set the "
                        "function, or leave the field NULL for the usual backend",
                        field, name);
    return !b || (!b->save == !b->load && (b->version || !b->save)) ||
           td__fail(cx, TD_E_ARG,
                    "td_aot_opts.%s: the backend %.40s has no %s; to cache its code "
                    "set version, save and load, else leave save and load NULL",
                    field, name,
                    !b->save   ? "save"
                    : !b->load ? "load"
                               : "version");
}

/* A user callback: if any field of its struct is set, its function must be. */
static bool check_callback(td_ctx *cx, const char *field, bool function, bool any) {
    return function || !any ||
           td__fail(cx, TD_E_ARG,
                    "td_aot_opts.%s is NULL, but other fields of the struct are set; "
                    "set it, or leave all of them zero",
                    field);
}

/* td_aot_opts.saved: both functions, or nothing at all. */
static bool check_packing(td_ctx *cx, const td_packing *k) {
    bool any = k->pack || k->unpack || k->filter || k->version || k->env || k->drop;
    return check_callback(cx, "saved.pack", k->pack, any) &&
           check_callback(cx, "saved.unpack", k->unpack, any);
}

/* Each names another op, which can be replaced, and has a function. */
static bool check_decompositions(td_ctx *cx, const td_aot_opts *o) {
    const td_decomposition *d = o->decompositions;
    for (int i = 0; i < o->n_decompositions; i++) {
        if (!d[i].op || !d[i].run)
            return td__fail(cx, TD_E_ARG,
                            "td_aot_opts.decompositions[%d] has no %s; set both", i,
                            d[i].op ? "run" : "op");
        if (!td__decompose_by_check(cx, d[i].op)) return false;
        for (int k = 0; k < i; k++)
            if (!strcmp(d[k].op, d[i].op))
                return td__fail(cx, TD_E_ARG,
                                "td_aot_opts.decompositions: [%d] and [%d] are both "
                                "for %.40s; give one that decides",
                                k, i, d[i].op);
    }
    return true;
}

/* td_aot_opts.offload: a store, or nothing at all. */
static bool check_offload(td_ctx *cx, const td_offload *o) {
    bool any = o->choose || o->min_bytes || o->filter || o->ahead || o->version ||
               o->env || o->drop;
    if (!check_callback(cx, "offload.store", o->store, any)) return false;
    if (!o->store) return true;
    if (!td__enter_in(cx, o->store, TD_H_STORE, "td_aot_opts.offload")) return false;
    return o->store->cx == cx ||
           td__fail(cx, TD_E_ARG,
                    "td_aot_opts.offload.store belongs to another context; open one in "
                    "the context of the function");
}

static bool check_callbacks(td_ctx *cx, const td_aot_opts *o) {
    const td_pass       *p = &o->pass;
    const td_chooser    *c = &o->chooser;
    const td_on_compile *on = &o->on_compile;
    return check_backend(cx, "forward", o->forward) &&
           check_backend(cx, "backward", o->backward) &&
           check_backend(cx, "inference", o->inference) &&
           check_callback(cx, "pass.run", p->run, p->name || p->env || p->drop) &&
           check_callback(cx, "chooser.choose", c->choose,
                          c->name || c->env || c->drop) &&
           check_callback(cx, "on_compile.begin and .end", on->begin || on->end,
                          on->env || on->drop) &&
           check_packing(cx, &o->saved) && check_offload(cx, &o->offload) &&
           check_decompositions(cx, o);
}

static bool check_static_args(td_ctx *cx, const td_aot_opts *o) {
    for (int i = 0; i < o->n_static_args; i++)
        if (o->static_args[i] < 0)
            return td__fail(cx, TD_E_ARG,
                            "td_aot_opts.static_args: there is no argument %d",
                            o->static_args[i]);
    return true;
}

/* Checks all options before anything is copied. False after td__fail. */
static bool check(td_ctx *cx, const td_aot_opts *o) {
    if (o->config && !td__config_check(cx, "td_aot_opts", o->config)) return false;
    if (!td__opts_in_range(cx, o) || !check_static_args(cx, o) ||
        !check_callbacks(cx, o))
        return false;
    char        bad[40] = "";
    const char *near = NULL;
    if (o->log) td__log_parse(o->log, bad, sizeof bad, &near);
    if (!bad[0]) return true;
    return td__fail(cx, TD_E_ARG, "td_aot_opts.log: there is no topic %.40s%s%s", bad,
                    near ? "; did you mean " : "", near ? near : "");
}

/* Rows with the same drop and env are one object to the user. */
static void drop_decompositions(const td_aot_opts *o) {
    const td_decomposition *d = o->decompositions;
    for (int i = 0; d && i < o->n_decompositions; i++) {
        bool done = !d[i].drop;
        for (int k = 0; k < i && !done; k++)
            done = d[k].drop == d[i].drop && d[k].env == d[i].env;
        if (!done) d[i].drop(d[i].env);
    }
}

/* Calls each drop function once. Two backends with the same drop and env are the same
 * backend to the user. */
static void drop_callbacks(const td_aot_opts *o) {
    const td_backend *b[3] = {o->forward, o->backward, o->inference};
    for (int i = 0; i < 3; i++) {
        bool done = !b[i] || !b[i]->drop;
        for (int k = 0; k < i && !done; k++)
            done = b[k] && b[k]->drop == b[i]->drop && b[k]->env == b[i]->env;
        if (!done) b[i]->drop(b[i]->env);
    }
    if (o->pass.drop) o->pass.drop(o->pass.env);
    if (o->chooser.drop) o->chooser.drop(o->chooser.env);
    if (o->saved.drop) o->saved.drop(o->saved.env);
    if (o->offload.drop) o->offload.drop(o->offload.env);
    if (o->on_compile.drop) o->on_compile.drop(o->on_compile.env);
    drop_decompositions(o);
}

/* Copies everything that the options point to. False: out of memory. */
static bool fill(td_shared_opts *h) {
    td_aot_opts *o = &h->opts;
    return copy_backend(h, 0, &o->forward) && copy_backend(h, 1, &o->backward) &&
           copy_backend(h, 2, &o->inference) && copy_text(h, &h->store) &&
           copy_names(h) && td__opts_copy(&h->arena, o);
}

/* Options are shared by a function, its double backwards and its nodes, because each of
 * these may compile later. The callbacks' drop functions run when the last reference is
 * dropped, or at once if this fails. */
td_shared_opts *td__shared_opts_make(td_ctx *cx, const td_aot_opts *opts) {
    td_aot_opts o;
    bool ok = td__opts_take(cx, "td_aot_opts", &o, sizeof o, opts, "TD_AOT_OPTS");
    td_shared_opts *h = ok && td_ok(cx) && check(cx, &o) ? td__zalloc(sizeof *h) : NULL;
    if (h) {
        h->refs = 1;
        h->opts = o;
        h->store = o.offload.store ? o.offload.store->name : NULL;
        take_config(h, cx);
        if (fill(h)) return h;
    }
    if (td_ok(cx)) td__fail_memory(cx);
    drop_callbacks(&o);
    if (h) td__arena_free(&h->arena);
    td__free(h);
    return NULL;
}

void td__shared_opts_drop(td_shared_opts *h) {
    if (!h || --h->refs > 0) return;
    drop_callbacks(&h->opts);
    td__arena_free(&h->arena);
    td__free(h);
}

bool td__arg_is_static(const td_fn *f, int i) {
    for (int k = 0; k < f->opts.n_static_args && !f->inner; k++)
        if (f->n_state + f->opts.static_args[k] == i) return true;
    return false;
}

const char *td__shared_opts_name(const td_shared_opts *h, const char *usual) {
    return h && h->opts.name ? h->opts.name : usual;
}
