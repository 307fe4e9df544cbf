/* again.c -- gradients of gradients. The gradients of a specialization are a pure
 * function of its primals and tangents: the joint graph without its forward outputs,
 * or, where history ends inside the program, what regrad.c does. It becomes a function
 * like any other, compiled when first called, and so its own backward can be
 * differentiated in turn, to any order. */
#include "aot/aot.h"

#include <stdio.h>

typedef struct again {
    td_fn       *fn; /* NULL until needed */
    td_plan     *p;  /* not held: it owns this */
    td_again_how how;
    td_regrad    cut;    /* program NULL: TD_AGAIN_JOINT */
    td_held     *held;   /* the backends, also where only backward needs them */
    td_config    config; /* the settings of the specialization */
    char        *name;
} again;

/* The joint graph with its gradients only; written inputs are read, not written. */
static td_graph *gradients_of(const td_joint *j) {
    td_graph *g = td__graph_clone(j->g);
    if (!g) return NULL;
    int at = 0;
    for (int i = j->n_fwd; i < g->outputs.n; i++, at++) {
        g->outputs.v[at] = g->outputs.v[i];
        g->out_desc.v[at] = TD_PLAIN_DESC;
    }
    g->outputs.n = g->out_desc.n = at;
    for (int i = 0; i < g->inputs.n; i++) g->in_desc.v[i] = TD_PLAIN_DESC;
    for (int i = 0; i < g->nodes.n; i++) {
        g->nodes.v[i]->origin = TD_FROM_BEFORE;
        if (td__opinfo(g->nodes.v[i]->op)->writes) g->nodes.v[i]->dead = true;
    }
    bool ok = td__graph_dce(g);
    for (int i = 0; i < g->nodes.n; i++) g->nodes.v[i]->origin = TD_FROM_FORWARD;
    if (ok) return g;
    td__graph_drop(g);
    return NULL;
}

static td_fn *make_fn(again *a) {
    td_graph *g = a->cut.program ? NULL : gradients_of(a->p->j);
    if (!g && !a->cut.program) return NULL;
    a->held->refs++;
    td_fn *f = td__fn_make(a->p->cx, a->held, a->name);
    if (!f) return td__graph_drop(g), NULL;
    f->inner = true;
    f->opts.config = &a->config;
    f->graph = g;
    f->owns_graph = g != NULL;
    if (!g) f->body = td__regrad, f->env = &a->cut;
    return f;
}

/* An input that was overwritten may have no value any more. */
static bool check(const again *a) {
    const td_joint *j = a->p->j;
    for (int i = 0; i < j->n_primals; i++)
        if (a->p->needs[i] && a->p->held[i] < 0)
            return td__fail(a->p->cx, TD_E_UNSUPPORTED,
                            "%s: a gradient of its gradient needs input %d as it was "
                            "before the call, which writes it; pass a clone",
                            a->p->name, i);
    return !a->cut.program || td__regrad_check(&a->cut, a->p->name);
}

static bool call(void *env, const td_value *in, td_value *out) {
    again *a = env;
    if (!check(a)) return false;
    const td_joint *j = a->p->j;
    td_values       args = {in, j->n_primals + j->n_tangents};
    if (a->how == TD_AGAIN_EAGER)
        return td_call_body(j->cx, td__regrad, &a->cut, args, out, j->n_targets) >= 0;
    if (!a->fn && !(a->fn = make_fn(a))) return false;
    return td_invoke_values(a->fn, args, out, j->n_targets) >= 0;
}

static void drop(void *env) {
    again *a = env;
    td_fn_drop(a->fn);
    td__held_drop(a->held);
    td__graph_drop(a->cut.program);
    td__free(a->name);
    td__free(a);
}

bool td__again_make(td_fn *f, td_spec *s) {
    if (!s->plan->h) return true;
    again *a = td__zalloc(sizeof *a);
    char   name[80];
    if (!a) return td__fail_memory(f->cx);
    snprintf(name, sizeof name, "%.60s'", f->name);
    *a = (again){.p = s->plan,
                 .held = f->held,
                 .config = s->set,
                 .name = td__strdup(name)};
    f->held->refs++;
    td_graph *program = (td_graph *)(uintptr_t)td__spec_program(f, s);
    a->how = td__again_how(program, s->plan->j);
    if (a->how != TD_AGAIN_JOINT) {
        td__graph_keep(program);
        a->cut = (td_regrad){s->plan->j, program};
    }
    s->plan->again = (td_again){s->set.double_backward ? call : NULL, drop, a};
    return a->name != NULL || td__fail_memory(f->cx);
}
