/* functional_rng.c -- compiled code that takes the state of the random generator as
 * inputs and gives the new one (graph/functional_rng.c makes its graph). Joint graph
 * and halves draw from the generator, as the program does; only what a backend
 * compiles has the other form, so nothing else of a plan depends on the setting. */
#include "rules/shape_rules.h"
#include "runtime/plan.h"

#include <string.h>

bool td__plan_form(const td_plan *p, const td_graph *g, td_graph **form) {
    td_stage stage = p->h ? TD_STAGE_HALF : TD_STAGE_JOINT;
    if (*form || !p->functional_rng || !td__graph_draws(g)) return true;
    td_graph *made = td__graph_clone(g);
    if (made && td__graph_functional_rng(made) &&
        (!p->asserts || td__graph_verify(made, stage)))
        return *form = made, true;
    td__graph_drop(made);
    return false;
}

const td_graph *td__plan_forward_code(const td_plan *p) {
    return p->fwd_form ? p->fwd_form : td__plan_forward(p);
}

const td_graph *td__plan_backward_code(const td_plan *p) {
    return p->back.form ? p->back.form : p->h ? p->h->bwd : NULL;
}

bool td__plan_compile(const td_plan *p, const td_backend *b, const td_graph *g,
                      const td_compile_info *info, td_runner *code, td_graph **form) {
    if (!td__plan_form(p, g, form)) return false;
    return td__compile_told(p->cx, b, *form ? *form : g, info, p->on, code);
}

/* A 0-d i64 tensor of this value. */
static td_tensor *number(td_ctx *cx, uint64_t value) {
    td_meta m;
    td__meta_dense(&m, TD_I64, 0, NULL);
    td_tensor *t = td__tensor_make(cx, &m, false);
    if (t) memcpy(td__ptr(t), &value, sizeof value);
    return t;
}

/* Runs the code with all[], which has room for the inputs, then for the outputs. */
static bool run(td_plan *p, const td_graph *form, const td_runner *code, td_value *all,
                const bool *own, td_value *out) {
    td_ctx    *cx = p->cx;
    int        n_in = form->inputs.n, n_out = form->outputs.n - 1;
    td_value  *made = all + n_in;
    td_tensor *seed = number(cx, cx->rng_seed);
    td_tensor *offset = seed ? number(cx, cx->rng_offset) : NULL;
    if (!offset) return false;
    all[n_in - 2] = td_value_tensor(seed);
    all[n_in - 1] = td_value_tensor(offset);
    td_half_code h = {form, NULL, code};
    if (!td__plan_run(p, &h, all, own, made)) return false;
    memcpy(out, made, sizeof *out * (size_t)n_out);
    memcpy(&cx->rng_offset, td__ptr(made[n_out].u.t), sizeof cx->rng_offset);
    return true;
}

bool td__plan_run_rng(td_plan *p, const td_graph *form, const td_runner *code,
                      const td_value *in, const bool *own, td_value *out) {
    td_half_code plain = {form, NULL, code};
    if (!td__graph_takes_rng(form)) /* it repeats the draws of a forward */
        return td__plan_run(p, &plain, in, own, out);
    size_t    n_in = (size_t)form->inputs.n, n = n_in + (size_t)form->outputs.n;
    td_value *all = td__zalloc((sizeof *all + sizeof *own) * n);
    if (!all) return td__fail_memory(p->cx);
    bool *owned = (bool *)(void *)(all + n);
    memcpy(all, in, sizeof *all * (n_in - 2));
    if (own) memcpy(owned, own, sizeof *own * (n_in - 2));
    bool ok = run(p, form, code, all, own ? owned : NULL, out);
    td__free(all);
    return ok;
}
