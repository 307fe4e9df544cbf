/* export.c -- makes an exported function: its joint or inference graph, which is pure
 * and has a signature, and the epilogue, which does what a call does besides computing:
 * it writes inputs and gives the results. The body is captured with its results cloned,
 * so that every result is a value of the graph. */
#include "export/export_int.h"
#include "module/modules.h"

#include <stdio.h>
#include <string.h>

typedef struct exporting {
    td_fn         *f;
    td_spec       *s;
    td_joint      *j;
    td_body       *body; /* the function's own */
    void          *env;
    td_export_opts o;
    int            n_args; /* the user's */
    bool           closed; /* tensors that the body closes over are state, too */
} exporting;

static bool refuse(const exporting *x, int input, const char *what) {
    const td_gval *v = x->j->g->inputs.v[input];
    return td__fail(x->f->cx, TD_E_UNSUPPORTED, "export: %s: input %d, %%%.60s, %s",
                    x->f->name, input, v->name ? v->name : "", what);
}

/* ---- what a file cannot express ----------------------------------------- */

/* A tensor that the body closes over is a literal in the text: nobody sees a write to
 * it, and it shares bytes with nothing. */
static bool check_closed(const exporting *x) {
    const td_graph *p = x->s->program;
    for (int i = 0; i < p->inputs.n; i++) {
        if (p->in_desc.v[i].kind != TD_D_CONST) continue;
        if (x->j->primals[i].touched && !x->closed)
            return refuse(x, i,
                          "is written, and is neither a member nor an argument; make "
                          "it a buffer");
        for (int k = 0; k < p->inputs.n; k++)
            if (p->in_desc.v[k].kind != TD_D_CONST &&
                p->inputs.v[k]->type->storage == p->inputs.v[i]->type->storage)
                return refuse(x, k,
                              "shares bytes with a tensor that the body closes over; "
                              "use td_arg for both, or pass a clone");
    }
    return true;
}

/* Gradients are outputs for inputs: there is none for a base that is not passed. */
static bool check_target(const exporting *x, int i) {
    const td_joint  *j = x->j;
    const td_target *t = &j->targets[i];
    if (j->g->outputs.v[j->n_fwd + i].kind != TD_G_VALUE || !t->base) return true;
    return refuse(x, t->input,
                  "overlaps another that is written, so that its gradient is that of "
                  "their base; pass clones");
}

/* A file names no object, and another process has none to pass. */
static bool check_objects(const exporting *x) {
    const td_graph *p = x->s->program;
    for (int i = 0; i < p->inputs.n; i++) {
        const td_desc *d = &p->in_desc.v[i];
        bool held = d->kind == TD_D_CONST && d->index >= 0 && d->index < p->consts.n &&
                    p->consts.v[d->index]->st->object;
        if (d->kind == TD_D_OBJECT || held)
            return refuse(x, i,
                          "is an object (td_object), which a file cannot hold; export "
                          "a function that does not take it");
    }
    return true;
}

/* The test of a loop, and a graph of a second gradient, take no token: in data flow,
 * their effects would have no place among the others. */
static bool check_effects(const exporting *x) {
    const td_graph *g = x->j->g;
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (!td__gnode_has_effect(n) || td__row(n->op)->flags & TD_OPF_EFFECT) continue;
        if (td__gnode_takes_token(n)) continue;
        return td__fail(x->f->cx, TD_E_UNSUPPORTED,
                        "export: %s: a graph of %s calls an op with an effect, which "
                        "no token can order; call the op outside",
                        x->f->name, td__row(n->op)->name);
    }
    return true;
}

/* ---- td_export_opts.simple ---------------------------------------------- */

static int32_t storage_of(const td_gval *v) { return v->type ? v->type->storage : -1; }

/* The value that result i of the program is a clone of (values_body); NULL: it is no
 * tensor. */
static const td_gval *returned(const td_graph *p, int i) {
    const td_garg *a = &p->outputs.v[i];
    bool           made =
        a->kind == TD_G_VALUE && a->u.v->node && a->u.v->node->op == TD_OP_clone;
    return made ? a->u.v->node->in[0].u.v : NULL;
}

/* Does a tensor of storage st come before: an input, or one of the first n results? */
static bool check_alias(const exporting *x, int i, int32_t st) {
    const td_graph *p = x->s->program;
    for (int k = 0; k < p->inputs.n; k++)
        if (storage_of(p->inputs.v[k]) == st)
            return td__fail(x->f->cx, TD_E_UNSUPPORTED,
                            "export: %s: result %d shares the storage of input %d; "
                            "td_export_opts.simple allows new results only, return "
                            "td_clone of it",
                            x->f->name, i, k);
    for (int k = 0; k < i; k++)
        if (returned(p, k) && storage_of(returned(p, k)) == st)
            return td__fail(x->f->cx, TD_E_UNSUPPORTED,
                            "export: %s: results %d and %d share a storage; "
                            "td_export_opts.simple does not allow it, return td_clone "
                            "of one",
                            x->f->name, k, i);
    return true;
}

static bool check_simple(const exporting *x) {
    const td_graph *p = x->s->program;
    for (int i = 0; x->o.simple && i < p->inputs.n; i++) {
        int32_t st = storage_of(p->inputs.v[i]);
        if (x->j->primals[i].touched)
            return refuse(x, i,
                          "is written, which td_export_opts.simple does not allow; "
                          "write to a clone and return it");
        for (int k = 0; k < i && st >= 0; k++)
            if (storage_of(p->inputs.v[k]) == st)
                return refuse(x, i,
                              "shares the storage of another input, which "
                              "td_export_opts.simple does not allow; pass a clone");
    }
    for (int i = 0; x->o.simple && i < p->outputs.n; i++) {
        const td_gval *v = returned(p, i);
        if (v && storage_of(v) >= 0 && !check_alias(x, i, storage_of(v))) return false;
    }
    return true;
}

/* Can the graph and the epilogue express everything the function does? False after
 * td__fail. */
static bool check(const exporting *x) {
    const td_joint *j = x->j;
    if (j->left)
        return td__fail(x->f->cx, TD_E_UNSUPPORTED,
                        "export: %s leaves gradients switched on or off; switch them "
                        "back before it returns",
                        x->f->name);
    if (j->epilogue->inputs.n > j->n_primals + j->n_fwd) /* it binds edges of a node */
        return td__fail(x->f->cx, TD_E_UNSUPPORTED,
                        "export: %s: a tensor begins to require grad inside, and takes "
                        "gradients; do that outside",
                        x->f->name);
    for (int i = 0; i < j->n_targets; i++)
        if (!check_target(x, i)) return false;
    return check_simple(x) && check_objects(x) && check_closed(x);
}

/* ---- gradients ---------------------------------------------------------- */

static const char loss_who[] = "export: result %d of %s %s";

/* The tangent of the loss; -1 after td__fail. */
static int find_loss(const exporting *x) {
    const td_joint *j = x->j;
    td_ctx         *cx = x->f->cx;
    const char     *name = x->f->name;
    int             loss = x->o.loss;
    if (loss < 0 || loss >= j->n_results)
        return td__fail(cx, TD_E_ARG, "export: %s has %d results, and no loss %d", name,
                        j->n_results, loss),
               -1;
    for (int i = 0; i < j->n_tangents; i++) {
        const td_tangent *t = &j->tangents[i];
        if (j->fwd[t->index].result != loss) continue;
        if (t->broken) return td__fail(cx, t->code, "%s", t->broken), -1;
        if (j->g->inputs.v[j->n_primals + i]->type->of)
            return td__fail(
                       cx, TD_E_UNSUPPORTED, loss_who, loss, name,
                       "is a tensor of a type, and is no loss; return a plain one"),
                   -1;
        if (td__numel(t->geom.rank, t->geom.size) == 1) return i;
        td__fail(cx, TD_E_GRAD, loss_who, loss, name,
                 "has several elements and is no loss; return its sum or mean");
        return -1;
    }
    td__fail(cx, TD_E_GRAD, loss_who, loss, name,
             "does not depend on anything that requires grad, so it is no loss");
    return -1;
}

/* Ones in the tangent's place, before the first node that reads it. */
static bool put_ones(td_graph *g, td_gval *tangent) {
    const td_gtype *l = tangent->type;
    td_garg         in[2] = {td__garg_ints(l->size, l->rank), {.kind = TD_G_DTYPE}};
    in[1].u.dt = (td_dtype)l->dtype;
    td_gnode *ones = td__graph_op(g, TD_OP_ones, in, 2, 1);
    if (!ones) return false;
    ones->origin = TD_FROM_BACKWARD;
    ones->out[0]->type = td__graph_type_of(g, *l);
    if (!ones->out[0]->type || !td__graph_index(g)) return false;
    int first = g->nodes.n - 1;
    for (const td_guse *u = tangent->uses; u; u = u->next)
        if (u->node && u->node->id < first) first = u->node->id;
    memmove(g->nodes.v + first + 1, g->nodes.v + first,
            sizeof *g->nodes.v * (size_t)(g->nodes.n - 1 - first));
    g->nodes.v[first] = ones;
    td__graph_replace(g, tangent, ones->out[0]);
    return td__graph_index(g);
}

/* The engine started at the loss alone (td_joint_opts.loss); its tangent is one. */
static bool close_tangents(exporting *x) {
    td_joint *j = x->j;
    int       loss = find_loss(x);
    if (loss < 0) return false;
    td_graph *g = j->g;
    if (!put_ones(g, g->inputs.v[j->n_primals + loss])) return false;
    g->inputs.n = g->in_desc.n = j->n_primals;
    return td__graph_dce(g);
}

/* A tangent is that of a forward output: a result, or the last value of an input. */
static bool name_tangent(const exporting *x, int i) {
    const td_joint *j = x->j;
    int             k = j->tangents[i].index, input = j->fwd[k].input;
    bool            one = j->fwd[k].result >= 0 || input >= 0;
    if (j->tangents[i].broken)
        return td__fail(x->f->cx, j->tangents[i].code, "%s", j->tangents[i].broken);
    if (j->broken) return td__fail(x->f->cx, j->code, "%s", j->broken);
    for (int m = 0; m < i && input >= 0; m++)
        one &= j->fwd[j->tangents[m].index].input != input;
    if (!one)
        return td__fail(x->f->cx, TD_E_UNSUPPORTED,
                        "export: %s writes several times where gradients count, and "
                        "changes geometry in between; write to a clone",
                        x->f->name);
    j->g->in_desc.v[j->n_primals + i].index = k;
    return true;
}

/* For TD_EXPORT_LOSS replaces the tangent of the loss by ones; otherwise names the
 * tangents. */
static bool differentiate(exporting *x) {
    if (x->o.what == TD_EXPORT_LOSS) return close_tangents(x);
    for (int i = 0; i < x->j->n_tangents; i++)
        if (!name_tangent(x, i)) return false;
    return true;
}

/* ---- outputs ------------------------------------------------------------ */

/* Gradients are named after inputs. Those of bases go; check has found them absent. */
static void name_outputs(const exporting *x) {
    const td_joint *j = x->j;
    td_graph       *g = j->g;
    int             n = j->n_fwd;
    for (int i = 0; i < j->n_fwd; i++)
        if (x->o.what == TD_EXPORT_LOSS && j->fwd[i].result == x->o.loss)
            g->out_desc.v[i] = (td_desc){TD_D_LOSS, x->o.loss, NULL};
    for (int i = 0; i < j->n_targets; i++) {
        int input = j->targets[i].input;
        if (j->targets[i].base || input < 0) continue;
        g->outputs.v[n] = g->outputs.v[j->n_fwd + i];
        g->out_desc.v[n++] = (td_desc){TD_D_GRAD, input, g->in_desc.v[input].name};
    }
    g->outputs.n = g->out_desc.n = n;
}

/* ---- inputs ------------------------------------------------------------- */

/* Tensors that nobody passes are the graph's again. */
static bool hold_consts(const exporting *x) {
    const td_graph *p = x->s->program;
    td_graph       *g = x->j->g;
    for (int i = 0; i < p->inputs.n; i++) {
        const td_desc *d = &p->in_desc.v[i];
        if (d->kind != TD_D_CONST) continue;
        if (!td__vec_push(&g->consts, p->consts.v[d->index]))
            return td__fail_memory(g->cx);
        td__ref(p->consts.v[d->index]);
        g->in_desc.v[i] = (td_desc){TD_D_CONST, g->consts.n - 1, NULL};
    }
    return true;
}

/* The generator's state as inputs and outputs of g, if that is asked for. */
static bool take_rng(const exporting *x, td_graph *g) {
    if (!x->s->set.functional_rng) return true;
    if (!td__graph_functional_rng(g)) return false;
    return !td__graph_draws(g) || td__graph_takes_rng(g) ||
           td__fail(
               g->cx, TD_E_UNSUPPORTED,
               "@%.60s: unsupported: functional_rng in a function that sets the seed "
               "of the generator (random_state), or draws as many numbers as values "
               "decide; pass the state, or the numbers, as an argument",
               g->name);
}

static bool finish(exporting *x) {
    td_graph *g = x->j->g, *e = x->j->epilogue;
    char      name[80];
    snprintf(name, sizeof name, "%.60s_epilogue", g->name);
    return (e->name = td__graph_str(e, name)) && td__half_drop_input_copies(g) &&
           hold_consts(x) && td__graph_dce(g) && check_effects(x) &&
           td__tokens_add(g) && take_rng(x, g) && td__graph_fix_storages(g) &&
           td__graph_verify(g, TD_STAGE_JOINT);
}

/* ---- all ---------------------------------------------------------------- */

static td_tensor *value_of(td_tensor *t) { return td_op_clone(t, false); }

static bool values_body(td_call *c) {
    exporting *x = td_call_env(c);
    return td__call_inner(c, x->body, x->env, 0) && td__call_map(c, value_of);
}

/* Does the tree specification have exactly n leaves? It is parsed with n absent values,
 * because only its form matters. */
static bool check_tree(const exporting *x, const char *spec, int n, const char *what) {
    if (!spec) return true;
    td_value *none = td__zalloc(sizeof *none * ((size_t)n + 1));
    if (!none) return td__fail_memory(x->f->cx);
    td_tree *t = td_tree_from(x->f->cx, spec, (td_values){none, n});
    bool     ok = !td_is_nil(t);
    td__free(none);
    td_tree_drop(t);
    if (ok || td__error(x->f->cx) == TD_E_MEMORY) return ok;
    td_clear(x->f->cx);
    return td__fail(x->f->cx, TD_E_ARG, "export: \"%.80s\" is no tree of %d %s", spec,
                    n, what);
}

static bool trees_fit(const exporting *x) {
    return check_tree(x, x->o.in_tree, x->n_args, "arguments") &&
           check_tree(x, x->o.out_tree, x->j->n_results, "results");
}

/* Runs the stages up to the cleaned joint graph and turns that into an exported graph.
 * x->s and x->j belong to x, whose owner frees them also after a failure. */
static bool export(exporting *x, td_values args) {
    td_ctx *cx = x->f->cx;
    if (x->o.what != TD_EXPORT_FORWARD && !td__recording(cx))
        return td__fail(cx, TD_E_GRAD,
                        "export: gradients are off, and there would be "
                        "none in the graph; switch them on");
    x->s = td__zalloc(sizeof *x->s);
    if (!x->s) return td__fail_memory(cx);
    if (x->o.what == TD_EXPORT_LOSS) x->f->loss = x->o.loss + 1;
    x->j = td__spec_join(x->f, x->s, args);
    if (!x->j || !trees_fit(x) || !check(x) || !td__joint_clean(x->j, x->s->set.cse) ||
        !td__tokens_remove(x->j->g)) /* until inputs and outputs are settled */
        return false;
    if (!differentiate(x)) return false;
    name_outputs(x);
    return finish(x);
}

/* Copies the caller's options; `usual` is the kind of export for TD_EXPORT_AUTO. */
static bool options(td_ctx *cx, td_export_opts *o, const td_export_opts *opts,
                    td_export_what usual) {
    if (!td__opts_take(cx, "td_export", o, sizeof *o, opts, "TD_EXPORT_OPTS"))
        return false;
    if (o->what == TD_EXPORT_AUTO) o->what = usual;
    return true;
}

/* The options of the function that is traced for the export; strings are borrowed from
 * *o. */
static td_aot_opts aot_options(const td_export_opts *o) {
    return (td_aot_opts){TD_AOT_OPTS,
                         .name = o->name,
                         .keep_mutations = o->keep_mutations,
                         .decompose = o->decompose,
                         .dynamic = o->dynamic,
                         .functional_rng = o->functional_rng,
                         .n_params = o->n_params,
                         .n_buffers = o->n_buffers,
                         .state_names = o->state_names};
}

/* A graph as a body: its inputs but for those it holds are the arguments. */
static bool graph_body(td_call *c) {
    const td_graph *g = td_call_env(c);
    size_t          n = (size_t)(g->inputs.n + g->outputs.n + 1);
    td_value       *in = td__zalloc(sizeof *in * n);
    if (!in) return td__fail_memory(g->cx);
    td_value *out = in + g->inputs.n;
    for (int i = 0, k = 0; i < g->inputs.n; i++)
        if (!td__graph_holds(g, i)) in[i] = td_value_tensor(td_arg(c, k++));
    bool ok = td__graph_replay(g, in, out) &&
              td_return_values(c, (td_values){out, g->outputs.n});
    td__free(in);
    return ok;
}

/* Inputs that the user's graph calls parameters or buffers are those of the export. */
static void copy_descs(td_graph *to, const td_graph *from) {
    for (int i = 0, k = 0; i < from->inputs.n; i++) {
        const td_desc *d = &from->in_desc.v[i];
        if (td__graph_holds(from, i)) continue;
        if ((d->kind == TD_D_PARAM || d->kind == TD_D_BUFFER) && k < to->in_desc.n)
            to->in_desc.v[k] = (td_desc){d->kind, d->index,
                                         d->name ? td__graph_str(to, d->name) : NULL};
        if (k < to->inputs.n && !to->inputs.v[k]->name && from->inputs.v[i]->name)
            to->inputs.v[k]->name = td__graph_str(to, from->inputs.v[i]->name);
        k++;
    }
}

/* Everything of f that an export replaces is restored. */
bool td__export_trace(td_fn *f, td_values args, const td_export_opts *o,
                      td_traced *to) {
    td_fn     was = *f;
    exporting x = {.f = f, .body = f->body, .env = f->env, .o = *o, .closed = true};
    x.n_args = args.n - f->n_state;
    if (f->graph) {
        x.body = graph_body;
        x.env = (void *)(uintptr_t)f->graph;
        f->graph = NULL;
    }
    f->body = values_body;
    f->env = &x;
    f->staged = true;
    f->forward = o->what == TD_EXPORT_FORWARD;
    f->opts.keep_mutations = true;
    f->opts.functional_rng = false;
    bool ok = export(&x, args) &&
              (to->in = td__spec_inputs(x.s, td__spec_program(f, x.s), args));
    if (ok) {
        to->g = x.j->g;
        to->epilogue = x.j->epilogue;
        to->n_forward = x.j->n_fwd;
        x.j->g = x.j->epilogue = NULL; /* taken over */
        if (was.graph) copy_descs(to->g, was.graph);
    }
    f->graph = was.graph;
    f->body = was.body;
    f->env = was.env;
    f->staged = was.staged;
    f->forward = was.forward;
    f->loss = was.loss;
    f->opts = was.opts;
    td__joint_drop(x.j);
    td__spec_drop(x.s);
    return ok;
}

/* Takes over f, which may be NULL after td__fail. */
static td_exported *make(td_fn *f, td_values args, int n_args,
                         const td_export_opts *o) {
    if (!f) return NULL;
    td_ctx   *cx = f->cx;
    exporting x = {.f = f, .body = f->body, .env = f->env, .o = *o, .n_args = n_args};
    td_exported *e = TD_NIL(cx, EXPORTED);
    f->body = values_body;
    f->env = &x;
    f->staged = true;
    f->forward = o->what == TD_EXPORT_FORWARD;
    if (export(&x, args)) {
        e = td__exported_make(x.j->g, x.j->epilogue, NULL, o->in_tree, o->out_tree);
        x.j->g = x.j->epilogue = NULL; /* taken over */
    }
    td__joint_drop(x.j);
    td__spec_drop(x.s);
    td__fn_free(f);
    return e;
}

td_exported *td_export_joint(td_ctx *cx, td_body *body, void *env, td_values args,
                             const td_export_opts *opts) {
    td_export_opts o;
    if (!TD_ENTER_CTX(cx) || !td__has_args(cx, "td_export_joint", args) ||
        !options(cx, &o, opts, TD_EXPORT_TANGENTS))
        return TD_NIL(cx, EXPORTED);
    td_aot_opts  a = aot_options(&o);
    td_exported *e = make(td__fn_of_body(cx, body, env, &a), args, args.n, &o);
    return e ? e : TD_NIL(cx, EXPORTED);
}

/* Parameters and buffers become the first inputs; td__state_args appends the user's
 * arguments to them. */
td_exported *td_export_module(td_module *m, td_values args,
                              const td_export_opts *opts) {
    td_export_opts o;
    if (!TD_ENTER(m, MODULE) || !td__has_args(m->cx, "td_export_module", args) ||
        !options(m->cx, &o, opts, TD_EXPORT_FORWARD))
        return TD_NIL_BY(m, EXPORTED);
    td_aot_opts a = aot_options(&o);
    td_fn      *f = td__fn_of_module(m, &a, false);
    td_values   all;
    if (!f) return TD_NIL(m->cx, EXPORTED);
    if (!td__state_renew(f) || !td__state_args(f, args, &all)) {
        td__fn_free(f);
        return TD_NIL(m->cx, EXPORTED);
    }
    td_exported *e = make(f, all, args.n, &o);
    td__state_give(f, all);
    return e;
}
