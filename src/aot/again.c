/* again.c -- gradients of gradients. The gradients of a specialization are a pure
 * function of its primals and tangents: the joint graph without its forward outputs,
 * or, where history ends inside the program, what regrad.c does. It becomes a function
 * like any other, compiled when first called, and so its own backward can be
 * differentiated in turn, to any order. */
#include "aot/aot.h"

#include <stdio.h>
#include <string.h>

/* One for each set of tangents that does not arrive: eager leaves out what would only
 * add zeros, and their history. */
typedef struct variant {
    struct variant *next;
    td_regrad       cut; /* program NULL: the joint graph gives them */
    td_fn          *fn;
    bool           *reads; /* by primal: the gradients depend on it */
} variant;

typedef struct again {
    variant        *all;
    td_plan        *p;       /* not held: it owns this */
    td_graph       *program; /* NULL: the joint graph gives them */
    td_shared_opts *held;    /* the backends, also where only backward needs them */
    td_config       config;  /* the settings of the specialization */
    char           *name;
} again;

/* The joint graph for these tangents, NULL after td__fail. */
static td_graph *joint_for(const td_plan *p, const uint64_t *missing) {
    if (!p->retrace.joint || !td__set_any(missing, td__set_words(p->j->n_tangents)))
        return td__graph_clone(p->j->g);
    td_joint *j = p->retrace.joint(p->retrace.env, missing);
    td_graph *g = j ? j->g : NULL;
    if (j) j->g = NULL;
    td__joint_drop(j);
    return g;
}

/* The joint graph with its gradients only; written inputs are read, not written. */
static td_graph *gradients_of(const td_plan *p, const uint64_t *missing) {
    const td_joint *j = p->j;
    td_graph       *g = joint_for(p, missing);
    if (!g) return NULL;
    int at = 0;
    for (int i = j->n_fwd; i < g->outputs.n; i++, at++) {
        g->outputs.v[at] = g->outputs.v[i];
        g->out_desc.v[at] = TD_PLAIN_DESC;
    }
    g->outputs.n = g->out_desc.n = at;
    for (int i = 0; i < g->inputs.n; i++) g->in_desc.v[i] = TD_PLAIN_DESC;
    for (int i = 0; i < g->nodes.n; i++) {
        if (g->nodes.v[i]->origin != TD_FROM_BACKWARD)
            g->nodes.v[i]->origin = TD_FROM_BEFORE;
        if (td__opinfo(g->nodes.v[i]->op)->writes) g->nodes.v[i]->dead = true;
    }
    bool ok = td__graph_dce(g);
    for (int i = 0; i < g->nodes.n; i++) g->nodes.v[i]->origin = TD_FROM_FORWARD;
    if (ok) return g;
    td__graph_drop(g);
    return NULL;
}

static void note_read(void *env, td_gval *v) {
    if (!v->node) ((bool *)env)[v->nr] = true;
}

static void find_reads(const td_graph *g, bool *reads) {
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_in; k++)
            td__garg_each(&g->nodes.v[i]->in[k], note_read, reads);
    for (int i = 0; i < g->outputs.n; i++)
        td__garg_each(&g->outputs.v[i], note_read, reads);
}

/* Takes over g, the gradients as a graph. A program that is run once more depends on
 * the same primals. */
static bool make_fn(again *a, variant *v, td_graph *g) {
    find_reads(g, v->reads);
    if (a->program) td__graph_drop(g), g = NULL;
    a->held->refs++;
    td_fn *f = td__fn_make(a->p->cx, a->held, a->name);
    if (!f) return td__graph_drop(g), false;
    f->inner = true;
    f->opts.config = &a->config;
    f->graph = g;
    f->owns_graph = g != NULL;
    if (!g) f->body = td__regrad, f->env = &v->cut;
    v->fn = f;
    return true;
}

static variant *make_variant(again *a, const uint64_t *missing) {
    const td_joint *j = a->p->j;
    size_t          words = (size_t)td__set_words(j->n_tangents);
    size_t          set = sizeof *missing * words, all = set + (size_t)j->g->inputs.n;
    td_graph       *g = gradients_of(a->p, missing);
    variant        *v = g ? td__zalloc(sizeof *v + all + 1) : NULL;
    if (!v) {
        if (g) td__fail_memory(j->cx);
        return td__graph_drop(g), NULL;
    }
    uint64_t *own = (uint64_t *)(v + 1); /* behind it */
    memcpy(own, missing, set);
    *v = (variant){.cut = {j, a->program, own}, .reads = (bool *)(own + words)};
    if (make_fn(a, v, g)) return v;
    td__free(v);
    return NULL;
}

static variant *variant_for(again *a, const uint64_t *missing) {
    size_t size = sizeof *missing * (size_t)td__set_words(a->p->j->n_tangents);
    for (variant *v = a->all; v; v = v->next)
        if (!memcmp(v->cut.missing, missing, size)) return v;
    td_again *all = &a->p->again;
    if (!td__plan_room(a->p, all->n, "gradients of gradients")) return NULL;
    variant *v = make_variant(a, missing);
    if (!v) return NULL;
    all->n++;
    v->next = a->all;
    return a->all = v;
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
    return !a->program || td__regrad_check(j, a->program, a->p->name);
}

/* The casts are in the graphs already. */
static bool invoke(td_fn *f, td_values args, td_value *out, int n_out) {
    if (!td_autocast_enabled(f->cx)) return td_invoke_values(f, args, out, n_out) >= 0;
    td_autocast_mode was = td_autocast_off_begin(f->cx);
    bool             ok = td_invoke_values(f, args, out, n_out) >= 0;
    td_autocast_end(f->cx, was);
    return ok;
}

static const bool *reads(void *env, const uint64_t *missing) {
    again   *a = env;
    variant *v = check(a) ? variant_for(a, missing) : NULL;
    return v ? v->reads : NULL;
}

static bool call(void *env, const uint64_t *missing, const td_value *in,
                 td_value *out) {
    again   *a = env;
    variant *v = variant_for(a, missing);
    if (!v) return false;
    const td_joint *j = a->p->j;
    td_values       args = {in, j->n_primals + j->n_tangents};
    return invoke(v->fn, args, out, j->n_targets);
}

static void drop(void *env) {
    again *a = env;
    while (a->all) {
        variant *v = a->all;
        a->all = v->next;
        td__fn_free(v->fn);
        td__free(v);
    }
    td__shared_opts_drop(a->held);
    td__graph_drop(a->program);
    td__free(a->name);
    td__free(a);
}

/* Does n give another geometry to an input that is a leaf? Gradients are off there, and
 * the leaf takes those of its new sizes; a copy has a history, of its old ones. */
static bool turns_leaf(const td_joint *j, const td_gnode *n) {
    if (n->kind != TD_N_OP || !(td__ops[n->op].flags & TD_OPF_META)) return false;
    const td_gval *v =
        td__opinfo(n->op)->pure == TD_OP_COUNT ? NULL : td__joint_written(n);
    for (int i = 0; v && i < j->n_targets; i++)
        if (j->targets[i].leaf && j->targets[i].input == v->nr) return true;
    return false;
}

/* Node i, in a region with gradients on and inference mode off. */
static bool record(td_graph *g, int i) {
    if (!td__graph_enter(g, TD_R_PLAIN) || !td__graph_leave(g)) return false;
    td_gnode **v = g->nodes.v, *enter = v[g->nodes.n - 2], *leave = v[g->nodes.n - 1];
    memmove(v + i + 3, v + i + 1, sizeof *v * (size_t)(g->nodes.n - i - 3));
    v[i + 1] = v[i];
    v[i] = enter;
    v[i + 2] = leave;
    return true;
}

/* The program, to be run on copies of its arguments, which are no leaves: where it says
 * that one requires no gradient any more, its history ends; where it gives one another
 * geometry, its history goes on. */
static td_graph *on_copies(const td_graph *program, const td_joint *j) {
    td_graph *g = td__graph_clone(program);
    bool      ok = g != NULL;
    for (int i = 0; ok && i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        if (turns_leaf(j, n)) ok = record(g, i), i += 2;
        else if (td__gnode_lets_go(n) && td__joint_written(n)) {
            n->op = TD_OP_detach_;
            n->n_in = 1;
        }
    }
    if (ok) return g;
    td__graph_drop(g);
    return NULL;
}

bool td__again_make(td_fn *f, td_spec *s) {
    if (!s->plan->h) return true;
    again *a = td__zalloc(sizeof *a);
    char   name[80];
    if (!a) return td__fail_memory(f->cx);
    snprintf(name, sizeof name, "%.60s'", f->name);
    *a = (again){.p = s->plan,
                 .held = f->shared,
                 .config = s->set,
                 .name = td__strdup(name)};
    f->shared->refs++;
    const td_graph *program = td__spec_program(f, s);
    s->plan->again =
        (td_again){s->set.double_backward ? call : NULL, reads, drop, a, 0};
    if (!a->name) return td__fail_memory(f->cx);
    return !td__again_reruns(program, s->plan->j) ||
           (a->program = on_copies(program, s->plan->j));
}
