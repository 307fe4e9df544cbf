/* fn.c -- compiled functions: td_aot_function, td_invoke. */
#include "aot/aot.h"

#include <stdatomic.h>
#include <string.h>

/* ---- making ------------------------------------------------------------- */

static atomic_int last_id;

static td_fn *make(td_ctx *cx, const td_aot_opts *opts, const char *name) {
    if (!td_ok(cx)) return NULL;
    td_fn *f = td__zalloc(sizeof *f);
    if (!f) return td__fail_memory(cx), NULL;
    f->cx = cx;
    f->id = atomic_fetch_add(&last_id, 1) + 1;
    if (opts)
        memcpy(&f->opts, opts, opts->size < sizeof *opts ? opts->size : sizeof *opts);
    if (f->opts.limit <= 0) f->opts.limit = 64;
    f->name = td__strdup(f->opts.name ? f->opts.name : name);
    if (f->name) return f;
    td__free(f);
    return td__fail_memory(cx), NULL;
}

td_fn *td_aot_function(td_ctx *cx, td_body *body, void *env, const td_aot_opts *opts) {
    td_fn *f = make(cx, opts, "f");
    if (!f) return NULL;
    f->body = body;
    f->env = env;
    return f;
}

td_fn *td_aot_graph(const td_graph *g, const td_aot_opts *opts) {
    td_fn *f = make(g->cx, opts, g->name);
    if (f) f->graph = g;
    return f;
}

void td_fn_drop(td_fn *f) {
    if (!f) return;
    for (td_spec *s = f->specs, *next; s; s = next) {
        next = s->next;
        td__spec_drop(s);
    }
    const td_backend *b[3] = {f->opts.forward, f->opts.backward, f->opts.inference};
    for (int i = 0; i < 3; i++) {
        bool again = false;
        for (int k = 0; k < i; k++) again |= b[k] == b[i];
        if (b[i] && !again && b[i]->drop) b[i]->drop(b[i]->env);
    }
    if (f->owns_graph) td__graph_drop((td_graph *)(uintptr_t)f->graph);
    td__vec_free(&f->key);
    td__free(f->name);
    td__free(f);
}

int td_fn_specializations(const td_fn *f) { return f->n_specs; }

/* ---- calling ------------------------------------------------------------ */

/* Is somebody listening to the ops of the body? Then it runs as it is. */
static bool heard(const td_ctx *cx) { return cx->top != cx->tape || cx->fake; }

static int run_as_is(td_fn *f, td_values args, td_value *out, int n_out) {
    if (!f->graph) return td_call_body(f->cx, f->body, f->env, args, out, n_out);
    int       n = f->graph->outputs.n;
    td_value *all = td__zalloc(sizeof *all * (size_t)(n + 1));
    if (!all) return td__fail_memory(f->cx), -1;
    bool ok = td__graph_replay(f->graph, args.v, all);
    for (int i = 0; i < n_out; i++) out[i] = ok && i < n ? all[i] : TD_NONE;
    td__free(all);
    return ok ? n : -1;
}

static bool check_args(td_fn *f, td_values args) {
    for (int i = 0; i < args.n; i++) {
        const td_value *v = &args.v[i];
        if (v->kind != TD_K_TENSOR || !v->u.t) continue;
        if (td_is_nil(v->u.t) || v->u.t->cx != f->cx)
            return td__fail(f->cx, TD_E_ARG,
                            "%s: argument %d is nil or of another context", f->name, i);
    }
    return true;
}

static bool fits(td_fn *f, const td_spec *s, td_values args) {
    if (!td__key_make(f->cx, &f->key, args, s)) return false;
    return f->key.n == s->key.n &&
           !memcmp(f->key.v, s->key.v, sizeof *f->key.v * (size_t)f->key.n);
}

/* The specialization for these arguments, now the first in the list. */
static td_spec *pick(td_fn *f, td_values args) {
    for (td_spec **at = &f->specs; *at; at = &(*at)->next) {
        td_spec *s = *at;
        if (!fits(f, s, args)) continue;
        *at = s->next;
        s->next = f->specs;
        return f->specs = s;
    }
    if (!td_ok(f->cx)) return NULL;
    if (f->n_specs >= f->opts.limit) {
        td__fail(f->cx, TD_E_UNSUPPORTED,
                 "%s: compiled for %d kinds of arguments already, and these are "
                 "another; raise td_aot_opts.limit, or make the calls alike",
                 f->name, f->n_specs);
        return NULL;
    }
    td_spec *s = td__spec_make(f, args);
    if (!s) return NULL;
    s->next = f->specs;
    f->n_specs++;
    return f->specs = s;
}

static int call(td_fn *f, td_values args, td_value *out, int n_out) {
    td_spec *s = check_args(f, args) ? pick(f, args) : NULL;
    if (!s) return -1;
    int      n = s->plan->j->n_results;
    td_value few[16], *all = few;
    if (n > TD_COUNT(few) && !(all = td__alloc(sizeof *all * (size_t)n)))
        return td__fail_memory(f->cx), -1;
    bool ok = td__spec_call(f, s, args, all);
    for (int i = 0; i < n_out; i++) out[i] = ok && i < n ? all[i] : TD_NONE;
    if (all != few) td__free(all);
    return ok ? n : -1;
}

int td_invoke_values(td_fn *f, td_values args, td_value *out, int n_out) {
    if (!td_ok(f->cx)) {
        for (int i = 0; i < n_out; i++) out[i] = td_value_tensor(td_nil(f->cx));
        return -1;
    }
    return heard(f->cx) ? run_as_is(f, args, out, n_out) : call(f, args, out, n_out);
}

bool td_invoke(td_fn *f, td_values args, td_tensor **out, int n_out) {
    td_value few[16], *v = few;
    if (n_out > TD_COUNT(few) && !(v = td__alloc(sizeof *v * (size_t)n_out)))
        return td__fail_memory(f->cx);
    bool ok = td_invoke_values(f, args, v, n_out) >= 0;
    for (int i = 0; i < n_out; i++)
        out[i] = ok && v[i].kind == TD_K_TENSOR && v[i].u.t ? v[i].u.t : td_nil(f->cx);
    if (v != few) td__free(v);
    return ok;
}
