/* compile.c -- a specialization: what happens between a call that fits nothing compiled
 * so far and a plan that serves it. The stages are in stages.c. */
#include "aot/aot.h"
#include "trace/sym.h"

#include <stdio.h>
#include <string.h>

/* ---- arguments ---------------------------------------------------------- */

int td__spec_given(const td_spec *s, td_values args, td_value *in, int n) {
    int at = 0;
    for (int i = 0; i < args.n && at < n; i++) {
        bool tensor = args.v[i].kind == TD_K_TENSOR && args.v[i].u.t;
        if (tensor || !s->program) in[at++] = args.v[i];
    }
    return at;
}

/* By input of the program: arguments, then consts and gradients. */
static bool inputs_of(const td_spec *s, const td_graph *program, td_values args,
                      td_value *in) {
    int at = td__spec_given(s, args, in, program->inputs.n);
    for (; at < program->inputs.n; at++) {
        const td_desc *d = &program->in_desc.v[at];
        if (d->kind == TD_D_OWN_GRAD && s->program) continue;
        if (d->kind != TD_D_CONST || d->index < 0 || d->index >= program->consts.n)
            return td__fail(program->cx, TD_E_ARG, "@%.60s takes %d inputs, not %d",
                            program->name, program->inputs.n, args.n);
        td_tensor *t = program->consts.v[d->index];
        if (s->fakes && !(t = td__fake_copy(s->fakes, t))) return false;
        in[at] = td_value_tensor(t);
    }
    return !s->program || td__own_grads_read(program, in) ||
           td__fail(program->cx, TD_E_ARG, "@%.60s: gradients of its inputs changed",
                    program->name);
}

td_value *td__spec_inputs(const td_spec *s, const td_graph *program, td_values args) {
    td_value *in = td__zalloc(sizeof *in * (size_t)(program->inputs.n + 1));
    if (!in) return td__fail_memory(program->cx), NULL;
    if (inputs_of(s, program, args, in)) return in;
    td__free(in);
    return NULL;
}

const td_graph *td__spec_program(const td_fn *f, const td_spec *s) {
    return s->program ? s->program : f->graph;
}

/* ---- settings ----------------------------------------------------------- */

td_config td__fn_settings(const td_fn *f) {
    td_config c = f->opts.config ? *f->opts.config : *td__config(f->cx);
    if (f->opts.partition) c.partition = f->opts.partition;
    if (f->opts.keep_mutations) c.keep_mutations = true;
    if (f->opts.limit > 0) c.specialization_limit = f->opts.limit;
    if (f->opts.dynamic) c.dynamic = f->opts.dynamic;
    c.log = c.trace_file = ""; /* the context's business */
    return c;
}

/* Does the program, its graph, or what the plan does, count from the start of an
 * input's storage? Then another offset is another specialization; what did nothing for
 * this one may do something there. */
static bool counts_offsets(const td_graph *program, const td_joint *j) {
    return td__graph_flags(program, TD_OPF_PLACES) ||
           td__graph_flags(j->g, TD_OPF_PLACES) ||
           td__graph_flags(j->epilogue, TD_OPF_PLACES);
}

static bool has_backward(const td_graph *program) {
    for (int i = 0; i < program->nodes.n; i++)
        if (program->nodes.v[i]->origin == TD_FROM_BACKWARD) return true;
    return false;
}

/* ---- all stages --------------------------------------------------------- */

/* Forgets a trace with symbols that came to nothing; the program stays. */
static void start_over(td_fn *f, td_spec *s) {
    td__log(f->cx, TD_LOG_guards, "%s: not for other sizes: %s", f->name,
            td_message(f->cx));
    td_clear(f->cx);
    td__joint_drop(s->j);
    s->j = NULL;
    s->has = 0;
}

/* With symbolic sizes where the settings want them. A program that cannot be joined so
 * is replayed for the sizes at hand; only a body that has failed with symbols runs once
 * more with numbers: it may have computed with a handle (td_sym_size) in C. */
static bool trace(td_fn *f, td_spec *s, td_values args) {
    if (td__spec_trace(f, s, args, TD_SIZES_MAY_VARY)) return true;
    td_code code = td_error(f->cx);
    if (!s->varies || code == TD_E_MEMORY || code == TD_E_GUARD) return false;
    start_over(f, s);
    return td__spec_trace(f, s, args, TD_SIZES_NUMBERS);
}

static bool specialize(td_fn *f, td_spec *s, td_values args) {
    if (!td__keep_vouched(f, s, args) && !trace(f, s, args)) return false;
    const td_graph *program = td__spec_program(f, s);
    if (s->kept.found) td__stage_log(f, s, &td__stages[TD_SPENT_PASSES]);
    s->offsets = counts_offsets(program, s->j);
    s->differentiates = has_backward(program);
    if (!td__key_owners(s, args)) return td__fail_memory(f->cx);
    if (!td__stages_run(f, s, args, TD_SPENT_PARTITION, TD_SPENT_PLAN) ||
        !td__again_make(f, s) || !td__key_make(f, &s->key, args, s))
        return false;
    td__keep_store(f, s);
    td__log_guards(f, s);
    return true;
}

/* Some of the stages, with the time each took. What the function wants logged is,
 * beside what the context does; a failure of no one line is the call's. */
static bool timed(td_fn *f, td_spec *s, td_values args, td_stage_fn *run) {
    td_ctx     *cx = f->cx;
    uint32_t    topics = cx->log.topics;
    td_where    here = td_here;
    char        bad[8];
    const char *near;
    if (f->opts.log)
        cx->log.topics |= td__log_parse(f->opts.log, bad, sizeof bad, &near);
    td_here = (td_where){0};
    td__span_collect(cx, true);
    for (int i = 0; i < TD_SPENT_COUNT; i++)
        s->ns[i] -= td__span_total(cx, td__stages[i].name).self_ns;
    td__span_begin(cx, "specialize");
    bool ok = run(f, s, args);
    td__span_end(cx, "specialize");
    for (int i = 0; i < TD_SPENT_COUNT; i++)
        s->ns[i] += td__span_total(cx, td__stages[i].name).self_ns;
    td__span_collect(cx, false);
    td_here = here;
    td__fail_at(cx, here);
    cx->log.topics = topics;
    return ok;
}

td_spec *td__spec_make(td_fn *f, td_values args) {
    td_spec *s = td__zalloc(sizeof *s);
    if (!s) return td__fail_memory(f->cx), NULL;
    s->nr = f->n_specs;
    s->mode = f->mode;
    s->set = td__fn_settings(f);
    if (timed(f, s, args, specialize)) return s;
    td__spec_drop(s);
    return NULL;
}

/* ---- in two steps ------------------------------------------------------- */

static bool stage_joint(td_fn *f, td_spec *s, td_values args) {
    bool any = s->set.dynamic == TD_SHAPES_DYNAMIC;
    return td__spec_trace(f, s, args, any ? TD_SIZES_MUST_VARY : TD_SIZES_NUMBERS) &&
           (td__key_owners(s, args) || td__fail_memory(f->cx)) &&
           td__key_make(f, &s->key, args, s);
}

static bool stage_plan(td_fn *f, td_spec *s, td_values args) {
    return td__joint_clean(s->j, s->set.cse) &&
           td__stages_run(f, s, args, TD_SPENT_PARTITION, TD_SPENT_PLAN) &&
           td__again_make(f, s);
}

/* Other offsets are other calls whatever graph comes in between. */
td_joint *td__spec_join(td_fn *f, td_spec *s, td_values args) {
    s->mode = f->mode;
    s->set = td__fn_settings(f);
    s->offsets = true;
    if (!timed(f, s, args, stage_joint)) return NULL;
    td_joint *j = s->j;
    s->j = NULL;
    return j;
}

bool td__spec_plan(td_fn *f, td_spec *s, td_joint *j) {
    s->j = j;
    return timed(f, s, (td_values){0}, stage_plan);
}

/* ---- one ---------------------------------------------------------------- */

void td__spec_drop(td_spec *s) {
    if (!s) return;
    td__plan_drop(s->plan);
    td__joint_drop(s->j);
    td__halves_drop(s->step);
    td__halves_drop(s->h);
    td__buf_free(&s->kept.bytes);
    td__graph_drop(s->program);
    td__guards_drop(s->guards);
    td__deps_free(&s->deps);
    td__vec_free(&s->key);
    td__vec_free(&s->owners);
    td__vec_free(&s->bare);
    td__vec_free(&s->reached);
    td__free(s);
}

/* Which inputs of the program are the call's to drop; behind it, which of the arguments
 * still are. */
static void own_inputs(const td_spec *s, td_values args, bool *own, bool *in,
                       bool back) {
    for (int i = 0, at = 0; i < args.n; i++) {
        bool tensor = args.v[i].kind == TD_K_TENSOR && args.v[i].u.t;
        if (!tensor && s->program) continue;
        if (back) own[i] = in[at++];
        else in[at++] = own[i];
    }
}

static bool call_owning(td_spec *s, td_values args, bool *own, td_value *in,
                        td_value *out) {
    bool *mine = td__zalloc((size_t)(s->plan->j->n_primals + args.n) + 1);
    if (!mine) return td__fail_memory(s->plan->cx);
    own_inputs(s, args, own, mine, false);
    bool ok = td__plan_call(s->plan, in, mine, out);
    own_inputs(s, args, own, mine, true);
    td__free(mine);
    return ok;
}

/* Gradients that inputs are left with; the scope does not hold those made for it. */
static bool leave_grads(const td_plan *p, const td_graph *program, const td_value *in,
                        td_value *out) {
    if (!td__own_grads_leave(program, in, out)) return false;
    for (int i = td__graph_results(program); i < p->j->n_results; i++)
        if (out[i].kind == TD_K_TENSOR && p->fresh[i]) td_drop(out[i].u.t);
    return true;
}

/* The code may have the function forget what runs. */
bool td__spec_call(td_fn *f, td_spec *s, td_values args, bool *own, td_value *out) {
    td_graph *program = (td_graph *)(uintptr_t)td__spec_program(f, s);
    td_plan  *p = s->plan;
    td_value  few[16], *in = few;
    size_t    room = sizeof *in * (size_t)program->inputs.n;
    if (program->inputs.n > TD_COUNT(few) && !(in = td__spare_take(&p->inputs, room)))
        return td__fail_memory(f->cx);
    p->refs++;
    td__graph_keep(program);
    bool ok =
        inputs_of(s, program, args, in) &&
        (own ? call_owning(s, args, own, in, out) : td__plan_call(p, in, NULL, out)) &&
        leave_grads(p, program, in, out);
    if (in != few) td__spare_give(&p->inputs, in);
    td__graph_drop(program);
    td__plan_drop(p);
    return ok;
}
