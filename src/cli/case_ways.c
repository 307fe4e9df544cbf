/* case_ways.c -- the ways a function can be executed: eagerly, which is the measure,
 * and those that must do the same. */
#include "cli/case_run.h"
#include "func/func.h"

static bool call_eager(case_run *run, const td_graph *fn, const td_value *in,
                       td_value *out) {
    (void)run;
    return td__graph_replay(fn, in, out);
}

const case_way case_eager = {.name = "eager", .call = call_eager};

static bool has_regions(const td_graph *fn) {
    for (int i = 0; i < fn->nodes.n; i++)
        if (fn->nodes.v[i]->kind == TD_N_ENTER) return true;
    return false;
}

static bool sets_flags(const td_graph *fn) {
    for (int i = 0; i < fn->nodes.n; i++)
        if (fn->nodes.v[i]->op == TD_OP_requires_grad_) return true;
    return false;
}

/* The functional graph says nothing of histories. */
static const char *no_history(const td_graph *fn, const td_value *in) {
    for (int i = 0; i < fn->inputs.n; i++)
        if (in[i].kind == TD_K_TENSOR && td_requires_grad(in[i].u.t))
            return "an input requires grad";
    if (sets_flags(fn)) return "the function makes a tensor require grad";
    return has_regions(fn) ? "the function changes the grad mode" : NULL;
}

static bool call_functional(case_run *run, const td_graph *fn, const td_value *in,
                            td_value *out) {
    const char    *why = no_history(fn, in);
    td_functional *f = td__functionalize(fn, in);
    if (why) run->values_only = why;
    run->refused = !f;
    bool ok = f && td__functional_run(f, in, out);
    td__functional_drop(f);
    return ok;
}

static const case_way functional = {
    .name = "functional",
    .about = "the graph without writes, then written inputs put back",
    .call = call_functional};

const case_way *const case_ways[] = {&functional, NULL};
