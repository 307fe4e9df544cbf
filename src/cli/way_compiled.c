/* way_compiled.c -- functions of a case, compiled ahead of time. A run keeps one
 * compiled function for each function it calls, so that later calls find what earlier
 * ones compiled. */
#include "cli/case_run.h"
#include "tandem/aot.h"

/* What the ways differ in. */
typedef struct variant {
    td_partition partition;
    bool         keep; /* writes of inputs may stay in the graph */
    td_shapes    sizes;
} variant;

static td_fn *make(const td_graph *fn, const variant *v) {
    td_config c = {TD_CONFIG};
    if (!td_config_get(fn->cx, &c)) return NULL;
    c.partition = v->partition;
    c.keep_mutations = v->keep;
    if (v->sizes != TD_SHAPES_AUTO) c.dynamic = v->sizes;
    td_aot_opts opts = {TD_AOT_OPTS, .config = &c};
    return td_aot_graph(fn, &opts);
}

static td_fn *compiled(case_run *run, const td_graph *fn) {
    for (int i = 0; i < run->fns.n; i++)
        if (run->fns.v[i].fn == fn) return run->fns.v[i].f;
    case_fn c = {fn, make(fn, run->way->env)};
    if (!c.f) return NULL;
    if (td__vec_push(&run->fns, c)) return c.f;
    td_fn_drop(c.f);
    td__fail_memory(fn->cx);
    return NULL;
}

static bool call_compiled(case_run *run, const td_graph *fn, const td_value *in,
                          td_value *out) {
    td_fn  *f = compiled(run, fn);
    bool    ok = f && td_invoke_values(f, (td_values){in, fn->inputs.n}, out,
                                       fn->outputs.n) >= 0;
    td_code code = td_error(fn->cx);
    run->refused = !ok && (code == TD_E_UNSUPPORTED || code == TD_E_TRACE);
    return ok;
}

#define COMPILED(of, partition, keep, sizes)                                  \
    {                                                                         \
        .name = of, .call = call_compiled,                                    \
        .env = &(variant){TD_PARTITION_##partition, keep, TD_SHAPES_##sizes}, \
        .slack = 4, .grad_slack = 256, .saves_copies = true                   \
    }

const case_way case_compiled[CASE_COMPILED] = {
    COMPILED("compiled", MINCUT, false, AUTO),
    COMPILED("compiled-all", DEFAULT, false, AUTO),
    COMPILED("compiled-keep", MINCUT, true, AUTO),
    COMPILED("compiled-all-keep", DEFAULT, true, AUTO),
    COMPILED("compiled-dynamic", MINCUT, false, DYNAMIC),
    COMPILED("compiled-dynamic-all-keep", DEFAULT, true, DYNAMIC)};
