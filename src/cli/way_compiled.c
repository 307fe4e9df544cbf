/* way_compiled.c -- functions of a case, compiled ahead of time. A run keeps one
 * compiled function for each function it calls, so that later calls find what earlier ones
 * compiled. */
#include "cli/case_run.h"
#include "tandem/aot.h"

static td_fn *compiled(case_run *run, const td_graph *fn) {
    for (int i = 0; i < run->fns.n; i++)
        if (run->fns.v[i].fn == fn) return run->fns.v[i].f;
    case_fn c = {fn, td_aot_graph(fn, run->way->env)};
    if (!c.f) return NULL;
    if (td__vec_push(&run->fns, c)) return c.f;
    td_fn_drop(c.f);
    td__fail_memory(fn->cx);
    return NULL;
}

static bool call_compiled(case_run *run, const td_graph *fn, const td_value *in,
                          td_value *out) {
    td_fn *f = compiled(run, fn);
    bool   ok = f && td_invoke_values(f, (td_values){in, fn->inputs.n}, out,
                                      fn->outputs.n) >= 0;
    run->refused = !ok && td_error(fn->cx) == TD_E_UNSUPPORTED;
    return ok;
}

static td_aot_opts mincut = {TD_AOT_OPTS, .partition = TD_PARTITION_MINCUT};
static td_aot_opts all = {TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT};
static td_aot_opts mincut_keep = {TD_AOT_OPTS, .partition = TD_PARTITION_MINCUT,
                                  .keep_mutations = true};
static td_aot_opts all_keep = {TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT,
                               .keep_mutations = true};

const case_way case_compiled[] = {
    {.name = "compiled", .call = call_compiled, .env = &mincut, .grad_slack = 64},
    {.name = "compiled-all", .call = call_compiled, .env = &all, .grad_slack = 64},
    {.name = "compiled-keep",
     .call = call_compiled,
     .env = &mincut_keep,
     .grad_slack = 64},
    {.name = "compiled-all-keep",
     .call = call_compiled,
     .env = &all_keep,
     .grad_slack = 64}};
