/* compile.c -- the pipeline: what happens between a call that fits nothing compiled so
 * far and a plan that serves it. One line a stage. */
#include "aot/aot.h"

#include <string.h>

/* ---- arguments ---------------------------------------------------------- */

/* By input of the program: its tensors in order (a captured program has no others),
 * then NONE for consts. A graph's own inputs may be numbers too. */
static bool inputs_of(const td_spec *s, const td_graph *program, td_values args,
                      td_value *in) {
    int at = 0;
    for (int i = 0; i < args.n && at < program->inputs.n; i++) {
        bool tensor = args.v[i].kind == TD_K_TENSOR && args.v[i].u.t;
        if (tensor || !s->program) in[at++] = args.v[i];
    }
    for (; at < program->inputs.n; at++) {
        const td_desc *d = &program->in_desc.v[at];
        if (d->kind != TD_D_CONST || d->index < 0 || d->index >= program->consts.n)
            return td__fail(program->cx, TD_E_ARG, "@%.60s takes %d inputs, not %d",
                            program->name, program->inputs.n, args.n);
        in[at] = td_value_tensor(program->consts.v[d->index]);
    }
    return true;
}

static const td_graph *program_of(const td_fn *f, const td_spec *s) {
    return s->program ? s->program : f->graph;
}

/* ---- stages ------------------------------------------------------------- */

static bool capture(td_fn *f, td_spec *s, td_values args) {
    if (f->graph) return td__graph_verify(f->graph, TD_STAGE_PROGRAM);
    s->program = td__capture(f->cx, f->body, f->env, args);
    if (!s->program) return false;
    s->program->name = td__graph_str(s->program, f->name);
    return s->program->name != NULL;
}

static td_joint *join(td_fn *f, const td_graph *program, const td_value *in) {
    td_joint_opts o = {.keep_mutations = f->opts.keep_mutations,
                       .train = td__recording(f->cx)};
    td_joint     *j = td__joint(program, in, &o);
    if (j && td__joint_clean(j)) return j;
    td__joint_drop(j);
    return NULL;
}

static td_halves *part(td_fn *f, const td_joint *j) {
    td_part_opts o = td__part_defaults();
    return f->opts.partition == TD_PARTITION_DEFAULT ? td__part_default(j, &o)
                                                     : td__part_mincut(j, &o);
}

static const td_backend *backend_of(const td_backend *b) { return b ? b : &td__interp; }

static bool plan(td_fn *f, td_spec *s, td_joint *j) {
    td_halves      *h = NULL;
    td_compile_info info = {.size = sizeof info,
                            .id = f->id,
                            .nr = s->nr,
                            .name = f->name};
    if (j->n_tangents && !(h = part(f, j))) {
        td__joint_drop(j);
        return false;
    }
    const td_backend *fwd = backend_of(h ? f->opts.forward : f->opts.inference);
    s->plan = td__plan_make(j, h, fwd, backend_of(f->opts.backward), &info);
    return s->plan != NULL;
}

/* Does the graph, or what the plan does, count elements from the start of an input's
 * storage? Then another offset is another specialization. */
static bool counts_offsets(const td_joint *j) {
    for (int i = 0; i < j->g->nodes.n; i++) {
        td_op op = j->g->nodes.v[i]->op;
        if (op == TD_OP_as_strided || op == TD_OP_as_strided_scatter) return true;
    }
    for (int i = 0; i < j->n_updates; i++)
        if (j->updates[i].meta) return true;
    for (int i = 0; i < j->n_results; i++) {
        const td_result *r = &j->results[i];
        if (r->how == TD_RESULT_LIE && r->source == TD_OF_INPUT) return true;
        for (int k = 0; k < r->n_views; k++)
            if (r->views[k].op == TD_OP_as_strided) return true;
    }
    return false;
}

static bool specialize(td_fn *f, td_spec *s, td_values args) {
    if (!capture(f, s, args)) return false;
    const td_graph *program = program_of(f, s);
    td_value       *in = td__zalloc(sizeof *in * (size_t)(program->inputs.n + 1));
    if (!in) return td__fail_memory(f->cx);
    td_joint *j = inputs_of(s, program, args, in) ? join(f, program, in) : NULL;
    td__free(in);
    if (!j) return false;
    s->offsets = counts_offsets(j);
    return plan(f, s, j) && td__again_make(f, s) &&
           td__key_make(f->cx, &s->key, args, s);
}

td_spec *td__spec_make(td_fn *f, td_values args) {
    td_spec *s = td__zalloc(sizeof *s);
    if (!s) return td__fail_memory(f->cx), NULL;
    s->nr = f->n_specs;
    if (specialize(f, s, args)) return s;
    td__spec_drop(s);
    return NULL;
}

void td__spec_drop(td_spec *s) {
    if (!s) return;
    td__plan_drop(s->plan);
    td__graph_drop(s->program);
    td__vec_free(&s->key);
    td__free(s);
}

bool td__spec_call(td_fn *f, td_spec *s, td_values args, td_value *out) {
    const td_graph *program = program_of(f, s);
    td_value        few[16], *in = few;
    if (program->inputs.n > TD_COUNT(few) &&
        !(in = td__alloc(sizeof *in * (size_t)program->inputs.n)))
        return td__fail_memory(f->cx);
    bool ok = inputs_of(s, program, args, in) && td__plan_call(s->plan, in, out);
    if (in != few) td__free(in);
    return ok;
}
