/* input_grad.c -- the .grad of a program's inputs. A body may read, accumulate
 * into, replace or clear the .grad of its arguments; the program has inputs and
 * outputs <own_grad i> for that (trace.h). This file finds them during a
 * capture, and moves them between tensors and programs at a call. */
#include "trace/trace_int.h"

#include <stdio.h>

/* ---- during the body ---------------------------------------------------- */

/* Is t, which the body of a nested capture uses, a value of a graph around it? */
static bool is_outer(const td_record *r, const td_tensor *t) {
    if (td__record_tag(r, t)) return false;
    while ((r = r->outer))
        if (td__record_tag(r, t)) return true;
    return false;
}

td_tensor *td__record_stand_in(td_mode *m, td_tensor *t) {
    td_record *r = (td_record *)m;
    if (td_is_nil(t) || (td__is_traced(t) && !is_outer(r, t))) return t;
    return td__record_value(r, &t, "a tensor from outside") ? t : &r->cx->nil;
}

/* The graph input whose copy t is; NULL: t is no input. */
static td_gval *input_of(const td_record *r, const td_tensor *t) {
    const td_tag *tag = t ? td__record_tag(r, t) : NULL;
    return tag && tag->v && !tag->v->node ? tag->v : NULL;
}

/* Makes `real`, the .grad that input `owner` had at entry, an input; once per
 * owner. */
static bool add_input(td_record *r, td_gval *owner, td_tensor *real) {
    char name[96];
    if (td__ptrmap_get(&r->own_grads, owner)) return true;
    snprintf(name, sizeof name, "%.80s.grad", owner->name);
    if (!td__ptrmap_put(&r->own_grads, owner, owner)) return td__fail_memory(r->cx);
    if (!td__record_input(r, real, name)) return false;
    r->g->in_desc.v[r->g->in_desc.n - 1] = (td_desc){TD_D_OWN_GRAD, owner->nr, NULL};
    return true;
}

td_tag *td__own_grad_input(td_record *r, const td_tensor *t) {
    const td_fake_grad *of = td__ptrmap_get(&r->fakes.grads, t);
    td_gval            *owner = of ? input_of(r, of->owner) : NULL;
    return owner && add_input(r, owner, of->real) ? td__record_tag(r, t) : NULL;
}

/* ---- after the body ----------------------------------------------------- */

/* Fails with "the body <what> (input <name>)". */
static bool fail_use(td_record *r, const td_gval *v, const char *what) {
    return td__fail(r->cx, TD_E_UNSUPPORTED, "the body %s%s%s%s", what,
                    v ? " (input " : "", v ? v->name : "", v ? ")" : "");
}

/* Adds the output <own_grad> of `owner`: its .grad at exit, or none. */
static bool put_output(td_record *r, const td_gval *owner, td_tensor *now) {
    td_garg  a = {0};
    td_gval *v = now ? td__record_value(r, &now, "the gradient of an argument") : NULL;
    if (now && !v) return false;
    if (v) a = td__garg_value(v);
    return td__graph_output(r->g, a, (td_desc){TD_D_OWN_GRAD, owner->nr, NULL});
}

/* Fails for uses of .grad that a program cannot reproduce. */
static bool check_use(td_record *r, const td_tensor *copy, td_tensor *real,
                      const td_gval *v) {
    unsigned use = td__grad_use(copy);
    if (td__retains_grad(copy))
        return fail_use(
            r, v, "calls td_retain_grad on an argument; call it outside the body");
    if (use & TD_GRAD_ACCUMULATED && td__grad_hooked(td__record_real(r, real), true))
        return fail_use(
            r, v,
            "calls td_backward, which reaches a tensor with gradient hooks; a "
            "captured program does not run them. Remove them with "
            "td_hook_remove, or do their work in the body");
    if (r->lift && use & (TD_GRAD_ACCUMULATED | TD_GRAD_SET))
        return fail_use(
            r, v,
            "of a region, branch, loop or custom function changes the .grad "
            "of a tensor (td_backward, td_set_grad, td_zero_grad); compute the "
            "gradient with td_grad and return it");
    return true;
}

/* One outside tensor: decides from how the body used its .grad (td__grad_use)
 * whether the program reads it at entry, must find none at entry, or sets it at
 * exit. */
static bool finish_one(td_record *r, td_tensor *copy, td_tensor *real) {
    unsigned   use = td__grad_use(copy) & ~(unsigned)TD_GRAD_REACHED;
    td_gval   *v = input_of(r, copy);
    td_tensor *entry = td__own_grad(real), *now = td__own_grad(copy);
    if (!use && !td__retains_grad(copy)) return true;
    if (!v && td__record_tag(r, copy)) return true; /* the program makes it itself */
    if (!check_use(r, copy, real, v)) return false;
    if (r->lift) r->lift->grads = true;
    if (!v && use & TD_GRAD_ACCUMULATED)
        return fail_use(
            r, NULL,
            "calls td_backward, which reaches the base of an argument that is "
            "a view; pass the base as an argument, or use td_grad");
    if (r->outer && use & TD_GRAD_READ && !td__grad_read(real)) return false;
    if (!v || r->lift) return true;
    if (use & TD_GRAD_READ && entry && !add_input(r, v, entry)) return false;
    if (use & TD_GRAD_READ && !entry &&
        !td__vec_push(&r->g->noted[TD_NOTED_BARE], v->nr))
        return td__fail_memory(r->cx);
    td_tensor *was = entry ? td__ptrmap_get(&r->fakes.copies, entry) : NULL;
    bool       known = use & TD_GRAD_READ || !(use & TD_GRAD_SET);
    return (now == was && known) || put_output(r, v, now);
}

/* td_backward in a body may change .grad of arguments: the new gradients become outputs
 * of the program. Fails if the backward would continue into history outside. */
bool td__own_grads_end(td_record *r) {
    for (int i = 0; i < r->fakes.outer_leaves.n; i++)
        if (td__grad_use(r->fakes.outer_leaves.v[i]) & TD_GRAD_ACCUMULATED)
            return fail_use(
                r, NULL,
                "calls td_backward, which continues through an argument that "
                "is not a leaf into history outside of the body; pass a "
                "detached argument, list the leaves in "
                "td_backward_opts.inputs, or use td_grad");
    for (int i = 0; i + 1 < r->fakes.pairs.n; i += 2)
        if (!finish_one(r, r->fakes.pairs.v[i], r->fakes.pairs.v[i + 1])) return false;
    return true;
}

/* ---- calling a program -------------------------------------------------- */

/* The tensor of input i; NULL: it is a number or absent. */
static td_tensor *owner_in(const td_value *in, int i) {
    return in[i].kind == TD_K_TENSOR ? in[i].u.t : NULL;
}

/* Fills in the gradients that the program reads from its arguments. False: a gradient
 * exists where the program found none, or the reverse; then the call does not match. */
bool td__own_grads_read(const td_graph *p, td_value *in) {
    for (int i = 0; i < p->noted[TD_NOTED_BARE].n; i++) {
        const td_tensor *t = owner_in(in, p->noted[TD_NOTED_BARE].v[i]);
        if (t && td__own_grad(t)) return false;
    }
    for (int i = 0; i < p->inputs.n; i++) {
        const td_desc *d = &p->in_desc.v[i];
        if (d->kind != TD_D_OWN_GRAD) continue;
        const td_tensor *t = owner_in(in, d->index);
        td_tensor       *g = t ? td__own_grad(t) : NULL;
        if (!g) return false;
        in[i] = td_value_tensor(g);
    }
    return true;
}

bool td__own_grads_leave(const td_graph *p, const td_value *in, const td_value *out) {
    for (int i = td__graph_results(p); i < p->outputs.n; i++) {
        td_tensor *t = owner_in(in, p->out_desc.v[i].index);
        td_tensor *g = out[i].kind == TD_K_TENSOR ? out[i].u.t : NULL;
        if (t && !td_set_grad(t, g)) return false;
    }
    return true;
}

bool td__program_replay(const td_graph *p, td_value *in, td_value *out) {
    if (!td__own_grads_read(p, in))
        return td__fail(p->cx, TD_E_ARG,
                        "@%.60s: an argument has a .grad where the captured one had "
                        "none, or the reverse; capture the body for these arguments",
                        p->name);
    return td__graph_replay(p, in, out) && td__own_grads_leave(p, in, out);
}
