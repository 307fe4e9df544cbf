/* train_step.c -- td_aot_step: a body that runs its own backward and optimizer,
 * compiled as one graph. Its state (parameters, buffers, optimizer state) is passed
 * to each call like a module's members. Results have no grad_fn. */
#include "aot/aot.h"

/* The user's body, which takes the arguments after the state. */
typedef struct td_step {
    td_body *body;
    void    *env;
} td_step;

/* t detached, unless it is a leaf or requires no grad. */
static td_tensor *without_history(td_tensor *t) {
    return td__needs_grad(t) && !td_is_leaf(t) ? td_detach(t) : t;
}

/* The body that is compiled: runs the user's on the arguments after the state, and
 * detaches its results. */
static bool step_body(td_call *c) {
    const td_fn *f = td_call_env(c);
    return td__call_inner(c, f->step->body, f->step->env, f->n_state) &&
           td__call_map(c, without_history);
}

/* Are the module and the state tensors alive and of this context? False after
 * td__fail. */
static bool check_state(td_ctx *cx, const td_aot_opts *o) {
    if (o->module && !td__enter_in(cx, o->module, TD_H_MODULE, "td_aot_step"))
        return false;
    if (!td__has_list(cx, "td_aot_step", o->state.v, o->state.n)) return false;
    if (o->module && td_module_ctx(o->module) != cx)
        return td__fail(cx, TD_E_ARG,
                        "td_aot_step: td_aot_opts.module belongs to another context");
    for (int i = 0; i < o->state.n; i++) {
        const td_tensor *t = o->state.v[i];
        if (!td__enter_in(cx, t, TD_H_TENSOR, "td_aot_step")) return false;
        if (t->cx != cx)
            return td__fail(cx, TD_E_ARG,
                            "td_aot_step: td_aot_opts.state[%d] belongs to "
                            "another context",
                            i);
    }
    return true;
}

/* Forward and backward of a step are one graph, which saves nothing. */
static bool check_saved(td_ctx *cx, const td_aot_opts *o) {
    const char *field = o->saved.pack ? "saved" : "offload";
    return (!o->saved.pack && !o->offload.store) ||
           td__fail(cx, TD_E_UNSUPPORTED,
                    "td_aot_step: unsupported: td_aot_opts.%s, because a step saves "
                    "nothing between two calls. Compile the model with td_aot_module "
                    "or td_aot_function, or use td_aot_opts.config's memory_budget",
                    field);
}

/* A step writes parameters, so writes stay in the graph. Its state is the module's
 * members, td_aot_opts.state and whatever else the body closes over. */
td_fn *td_aot_step(td_ctx *cx, td_body *body, void *env, const td_aot_opts *opts) {
    if (!TD_ENTER_CTX(cx)) return TD_NIL(cx, FN);
    td_shared_opts *h = td__shared_opts_make(cx, opts);
    if (h) h->opts.keep_mutations = true;
    if (h) h->opts.n_params = h->opts.n_buffers = 0;
    td_fn *f = td__fn_make(cx, h, td__shared_opts_name(h, "step"));
    if (!f) return TD_NIL(cx, FN);
    f->step = td__alloc(sizeof *f->step);
    if (!f->step) td__fail_memory(cx);
    else *f->step = (td_step){body, env};
    f->body = step_body;
    f->env = f;
    if (f->step && td__has(cx, "td_aot_step", "the body", body) &&
        check_state(cx, &f->opts) && check_saved(cx, &f->opts) &&
        td__state_make(f, f->opts.module, f->opts.state, false))
        return td__fn_give(cx, f);
    td__fn_free(f);
    return TD_NIL(cx, FN);
}

/* A step's joint graph must have no tangents: its gradients are computed inside. */
bool td__step_check(const td_fn *f, const td_joint *j) {
    if (!f->step || j->n_tangents == 0) return true;
    const td_desc *d = &j->g->out_desc.v[j->tangents[0].index];
    int            input = d->kind == TD_D_UPDATE ? d->index : -1;
    const char    *name = input >= 0 ? j->g->inputs.v[input]->name : NULL;
    return td__fail(f->cx, TD_E_UNSUPPORTED,
                    "%s: after the step, %s%s has a grad_fn; a compiled step must end "
                    "without one. Write it under td_no_grad_begin, or write a detached "
                    "value (td_detach)",
                    f->name, input >= 0 ? "input " : "the .grad of a tensor",
                    name ? name : "");
}
