/* way_compiled.c -- functions of a case, compiled ahead of time. A run keeps one
 * compiled function for each function it calls, so that later calls find what earlier
 * ones compiled. */
#include "cli/case_run.h"

#include "backend/backend.h"
#include "tandem/aot.h"

/* What the ways differ in. */
typedef struct variant {
    td_partition partition;
    bool         keep; /* writes of inputs may stay in the graph */
    td_shapes    sizes;
    bool         replayed;
} variant;

static td_fn *make(const td_graph *fn, const variant *v) {
    td_config c = {TD_CONFIG};
    if (!td_config_get(fn->cx, &c)) return NULL;
    c.partition = v->partition;
    c.keep_mutations = v->keep;
    if (v->sizes != TD_SHAPES_AUTO) c.dynamic = v->sizes;
    const td_backend *b = v->replayed ? &td__replayed : NULL;
    td_aot_opts       opts = {TD_AOT_OPTS, .config = &c, .forward = b, .backward = b,
                              .inference = b};
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

#define COMPILED(of, ...)                                                              \
    {                                                                                  \
        .name = of, .call = call_compiled, .env = &(variant){__VA_ARGS__}, .slack = 4, \
        .grad_slack = 256, .saves_copies = true                                        \
    }
#define VARIANTS(replayed)                                                            \
    {                                                                                 \
        COMPILED("compiled", TD_PARTITION_MINCUT, false, TD_SHAPES_AUTO, replayed),   \
            COMPILED("compiled-all", TD_PARTITION_DEFAULT, false, TD_SHAPES_AUTO,     \
                     replayed),                                                       \
            COMPILED("compiled-keep", TD_PARTITION_MINCUT, true, TD_SHAPES_AUTO,      \
                     replayed),                                                       \
            COMPILED("compiled-all-keep", TD_PARTITION_DEFAULT, true, TD_SHAPES_AUTO, \
                     replayed),                                                       \
            COMPILED("compiled-dynamic", TD_PARTITION_MINCUT, false,                  \
                     TD_SHAPES_DYNAMIC, replayed),                                    \
            COMPILED("compiled-dynamic-all-keep", TD_PARTITION_DEFAULT, true,         \
                     TD_SHAPES_DYNAMIC, replayed)                                     \
    }

const case_way case_compiled[CASE_COMPILED] = VARIANTS(false);
const case_way case_replayed[CASE_COMPILED] = VARIANTS(true);
