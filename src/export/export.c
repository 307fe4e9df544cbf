/* export.c -- a joint or inference graph with its signature. The body is captured with
 * its results cloned, so that every result is a value of the graph; what the caller
 * of a compiled function would do around the graph becomes outputs of it. */
#include "export/export_int.h"
#include "module/modules.h"

#include <string.h>

typedef struct exporting {
    td_fn         *f;
    td_spec       *s;
    td_joint      *j;
    td_ends        ends;
    td_body       *body; /* the function's own */
    void          *env;
    td_export_opts o;
    int            n_args; /* the user's */
} exporting;

static bool refuse(const exporting *x, int input, const char *what) {
    const td_gval *v = x->j->g->inputs.v[input];
    return td__fail(x->f->cx, TD_E_UNSUPPORTED, "export: %s: input %d, %%%.60s, %s",
                    x->f->name, input, v->name ? v->name : "", what);
}

/* ---- what cannot be said in a graph ------------------------------------- */

/* Refuses inputs whose state after the call a pure graph cannot express: set_ to
 * another input, a changed requires_grad, a write to a closed-over tensor. */
static bool check_end(const exporting *x, int input) {
    const td_end *e = &x->ends.in[input];
    if (e->shares)
        return refuse(x, input,
                      "is moved into the bytes of another input (set_); return it "
                      "instead");
    if (e->flagged)
        return refuse(x, input,
                      "begins or ceases to require grad inside; do that outside");
    bool written = e->meta || x->j->written[input];
    if (written && x->s->program->in_desc.v[input].kind == TD_D_CONST)
        return refuse(x, input,
                      "is written, and is neither a member nor an argument; make it a "
                      "buffer");
    return true;
}

/* What the body closes over is a literal in the text: it shares bytes with nothing. */
static bool check_closed(const exporting *x) {
    const td_graph *p = x->s->program;
    for (int i = 0; i < p->inputs.n; i++) {
        if (p->in_desc.v[i].kind != TD_D_CONST) continue;
        for (int k = 0; k < p->inputs.n; k++)
            if (p->in_desc.v[k].kind != TD_D_CONST &&
                p->inputs.v[k]->type->storage == p->inputs.v[i]->type->storage)
                return refuse(x, k,
                              "shares bytes with a tensor that the body closes over; "
                              "use td_arg for both, or pass a clone");
    }
    return true;
}

/* Gradients are of inputs, for those that take none there is no output. */
static bool check_target(const exporting *x, int i) {
    const td_joint  *j = x->j;
    const td_target *t = &j->targets[i];
    if (j->g->outputs.v[j->n_fwd + i].kind != TD_G_VALUE) return true;
    if (t->leaf)
        return td__fail(x->f->cx, TD_E_UNSUPPORTED,
                        "export: %s: a tensor begins to require grad inside, and takes "
                        "gradients; do that outside",
                        x->f->name);
    return !t->base || refuse(x, t->input,
                              "overlaps another that is written, so that its gradient "
                              "is that of their base; pass clones");
}

/* Is everything the function does expressible as values of a graph? False after
 * td__fail, which names the input or result. */
static bool check(const exporting *x) {
    const td_joint *j = x->j;
    if (j->left)
        return td__fail(x->f->cx, TD_E_UNSUPPORTED,
                        "export: %s leaves gradients switched on or off; switch them "
                        "back before it returns",
                        x->f->name);
    if (!check_closed(x)) return false;
    for (int i = 0; i < j->n_primals; i++)
        if (!check_end(x, i)) return false;
    for (int i = 0; i < j->n_targets; i++)
        if (!check_target(x, i)) return false;
    for (int i = 0; i < j->n_results; i++)
        if (x->ends.out[i] < 0)
            return td__fail(x->f->cx, TD_E_UNSUPPORTED,
                            "export: result %d of %s is no value of its own", i,
                            x->f->name);
    return true;
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
        if (t->index != x->ends.out[loss]) continue;
        if (t->broken) return td__fail(cx, t->code, "%s", t->broken), -1;
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

/* A tangent is that of a graph output. */
static void name_tangents(td_joint *j) {
    for (int i = 0; i < j->n_tangents; i++)
        j->g->in_desc.v[j->n_primals + i].index = j->tangents[i].index;
}

/* For TD_EXPORT_LOSS replaces the tangent of the loss by ones; otherwise fails if a
 * tangent has no gradient (the reason was recorded when it was traced). */
static bool differentiate(exporting *x) {
    td_joint *j = x->j;
    if (x->o.what == TD_EXPORT_LOSS) return close_tangents(x);
    for (int i = 0; i < j->n_tangents; i++)
        if (j->tangents[i].broken)
            return td__fail(x->f->cx, j->tangents[i].code, "%s", j->tangents[i].broken);
    return true;
}

/* ---- outputs in order --------------------------------------------------- */

/* The tensor an input has become, where only its geometry is another. */
static td_gval *with_geometry(td_graph *g, int input, const td_geom *e) {
    td_gval *v = g->inputs.v[input];
    td_garg  in[4] = {td__garg_value(v), td__garg_ints(e->size, e->rank),
                      td__garg_ints(e->stride, e->rank), td__garg_int(e->offset)};
    if (td__dim_is_sym(e->offset)) in[3].kind = TD_G_SYM;
    td_gnode *n = td__graph_op(g, TD_OP_as_strided, in, 4, 1);
    if (!n) return NULL;
    td_gtype l = {.kind = TD_K_TENSOR,
                  .dtype = (uint8_t)e->dtype,
                  .rank = (uint8_t)e->rank,
                  .storage = v->type ? v->type->storage : -1,
                  .offset = e->offset,
                  .size = e->size,
                  .stride = e->stride};
    n->out[0]->type = td__graph_type_of(g, l);
    return n->out[0]->type ? n->out[0] : NULL;
}

typedef struct outputs {
    td_garg *old;
    int     *at; /* by old output: where it is now; -1: nowhere */
} outputs;

static bool move(td_graph *g, outputs *o, int from, td_desc d) {
    if (from < 0) return true;
    o->at[from] = g->outputs.n;
    return td__graph_output(g, o->old[from], d);
}

/* Appends the new elements of a written input (<update>), and its new geometry as a
 * view of the input (<meta_update>) if that changed. */
static bool put_update(const exporting *x, outputs *o, int input) {
    td_graph     *g = x->j->g;
    const td_end *e = &x->ends.in[input];
    td_desc       data = {TD_D_UPDATE, input, NULL};
    td_desc       meta = {TD_D_META_UPDATE, input, NULL};
    if (!move(g, o, e->out, data) || !move(g, o, e->now, meta)) return false;
    if (!e->meta || e->now >= 0) return true;
    td_gval *v = with_geometry(g, input, &e->geom);
    return v && td__graph_output(g, td__garg_value(v), meta);
}

/* Appends the gradients of inputs. Gradients of bases and of leaves made inside have no
 * input to belong to and are left out. */
static bool put_grads(const exporting *x, outputs *o) {
    td_graph *g = x->j->g;
    for (int i = 0; i < x->j->n_targets; i++) {
        int input = x->j->targets[i].input;
        if (x->j->targets[i].base || input < 0) continue;
        td_desc d = {TD_D_GRAD, input, g->in_desc.v[input].name};
        if (!td__graph_output(g, o->old[x->j->n_fwd + i], d)) return false;
    }
    return true;
}

/* The order of outputs that the header promises: updates, results, gradients. */
static bool put_outputs(const exporting *x, outputs *o) {
    td_joint *j = x->j;
    td_graph *g = j->g;
    for (int i = 0; i < j->n_primals; i++)
        if (!put_update(x, o, i)) return false;
    for (int i = 0; i < j->n_results; i++) {
        bool    loss = x->o.what == TD_EXPORT_LOSS && i == x->o.loss;
        td_desc d = loss ? (td_desc){TD_D_LOSS, i, NULL} : TD_PLAIN_DESC;
        if (!move(g, o, x->ends.out[i], d)) return false;
    }
    return put_grads(x, o);
}

/* A history that an input has for a while, or by a view alone, is that of no output. */
static bool place_tangent(const exporting *x, int i, const int *at) {
    td_desc *d = &x->j->g->in_desc.v[i];
    if (at[d->index] < 0)
        return td__fail(x->f->cx, TD_E_UNSUPPORTED,
                        "export: %s writes several times where gradients count, and "
                        "changes geometry in between; write to a clone",
                        x->f->name);
    d->index = at[d->index];
    return true;
}

/* Rewrites the outputs of the joint graph in the exported order. `o.at` maps an old
 * output to its new index, which tangents refer to. */
static bool order_outputs(const exporting *x) {
    td_graph *g = x->j->g;
    size_t    n = (size_t)g->outputs.n + 1;
    outputs   o = {td__zalloc(sizeof *o.old * n), td__zalloc(sizeof *o.at * n)};
    bool      ok = (o.old && o.at) || td__fail_memory(g->cx);
    if (ok) {
        memcpy(o.old, g->outputs.v, sizeof *o.old * (n - 1));
        for (int i = 0; i < g->outputs.n; i++) o.at[i] = -1;
        g->outputs.n = g->out_desc.n = 0;
        ok = put_outputs(x, &o);
    }
    for (int i = 0; ok && i < g->inputs.n; i++)
        if (g->in_desc.v[i].kind == TD_D_TANGENT) ok = place_tangent(x, i, o.at);
    td__free(o.old);
    td__free(o.at);
    return ok;
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

static bool finish(exporting *x) {
    td_graph *g = x->j->g;
    return td__half_unshield(g) && hold_consts(x) && td__graph_dce(g) &&
           td__graph_fix_storages(g) && td__graph_verify(g, TD_STAGE_JOINT);
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
    if (ok || td_error(x->f->cx) == TD_E_MEMORY) return ok;
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
    if (!x->j || !trees_fit(x) || !check(x) || !td__joint_clean(x->j, x->s->set.cse))
        return false;
    name_tangents(x->j);
    return differentiate(x) && order_outputs(x) && finish(x);
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
                         .n_params = o->n_params,
                         .n_buffers = o->n_buffers,
                         .state_names = o->state_names};
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
    f->ends = &x.ends;
    f->forward = o->what == TD_EXPORT_FORWARD;
    if (export(&x, args)) {
        e = td__exported_make(x.j->g, NULL, o->in_tree, o->out_tree);
        x.j->g = NULL; /* taken over */
    }
    td__joint_drop(x.j);
    td__spec_drop(x.s);
    td__fn_free(f);
    return e;
}

td_exported *td_export_joint(td_ctx *cx, td_body *body, void *env, td_values args,
                             const td_export_opts *opts) {
    td_export_opts o;
    if (!TD_ENTER_CTX(cx) || !td__has_list(cx, "td_export_joint", args.v, args.n) ||
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
    if (!TD_ENTER(m, MODULE) ||
        !td__has_list(m->cx, "td_export_module", args.v, args.n) ||
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
