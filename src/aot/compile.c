/* compile.c -- the pipeline: what happens between a call that fits nothing compiled so
 * far and a plan that serves it. One line a stage. */
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

static td_part_opts part_opts(const td_config *c) {
    td_part_opts o = td__part_defaults();
    o.budget = c->memory_budget;
    o.cse = c->cse;
    o.recompute_views = c->recompute_views;
    o.aggressive = c->aggressive_recompute;
    o.ban_far_apart = c->ban_far_apart;
    o.ban_long_chains = c->ban_long_chains;
    o.ban_materialized = c->ban_materialized;
    o.ban_reductions = c->ban_reductions;
    o.free_params = c->free_params;
    o.knapsack = c->knapsack;
    return o;
}

/* The caller's backend, or the one of the settings. */
static const td_backend *backend_of(const td_spec *s, const td_backend *b) {
    if (b) return b;
    return s->set.backend == TD_BACKEND_NATIVE   ? &td__native
           : s->set.backend == TD_BACKEND_INTERP ? &td__interp
                                                 : &td__auto;
}

/* ---- stages ------------------------------------------------------------- */

const char *const td__spent_names[TD_SPENT_COUNT] = {
    "capture", "joint",           "passes",           "partition",
    "plan",    "compile forward", "compile backward", "compile inference"};

/* Begins and ends a stage; what fails leaves it open, and the whole ends it. */
static void begin(const td_fn *f, td_spent stage) {
    td__span_begin(f->cx, td__spent_names[stage]);
}
static void end(const td_fn *f, td_spent stage, const td_graph *g) {
    td__span_arg(f->cx, "nodes", g->nodes.n);
    td__span_end(f->cx, td__spent_names[stage]);
}

/* A graph, by its replay. */
static td_graph *capture_graph(td_fn *f, td_values args, const td_closure *close) {
    size_t    n = (size_t)(f->graph->inputs.n > args.n ? f->graph->inputs.n : args.n);
    td_value *in = td__zalloc(sizeof *in * (n + 1));
    if (!in) return td__fail_memory(f->cx), NULL;
    for (int i = 0; i < args.n; i++) in[i] = args.v[i];
    td_graph *g = td__capture_cast(f->graph, in, close);
    td__free(in);
    return g;
}

td_graph *td__spec_capture(td_fn *f, td_values args, td_faker *fakes, td_deps *deps) {
    td_ctx    *cx = f->cx;
    td_deps   *was = cx->deps;
    td_closure close = {{f->members, f->n_state}, fakes, true};
    if (!td__deps_begin(deps, td__state_module(f))) return NULL;
    cx->deps = deps;
    td_graph *g = f->graph ? capture_graph(f, args, &close)
                           : td__capture_closing(cx, f->body, f->env, args, &close);
    cx->deps = was;
    if (!g) return NULL;
    g->name = td__graph_str(g, f->name);
    bool named = g->name && td__state_name(f, g, deps);
    td__deps_forget_names(deps);
    if (named) return g;
    td__graph_drop(g);
    return NULL;
}

td_graph *td__spec_replay(const td_spec *s, td_values args) {
    const td_graph *p = s->program;
    td_value       *in = td__zalloc(sizeof *in * (size_t)(p->inputs.n + 1));
    if (!in) return td__fail_memory(p->cx), NULL;
    td_graph *g = inputs_of(s, p, args, in) ? td__capture_replay(p, in) : NULL;
    td__free(in);
    return g;
}

/* A graph is a program as it is, but where autocast adds casts to it. */
static bool make_program(td_fn *f, td_spec *s, td_values args) {
    td_graph *was = s->program;
    if (f->graph && !td__graph_verify(f->graph, TD_STAGE_PROGRAM)) return false;
    if (was) s->program = td__spec_replay(s, args);
    else if (f->graph && !td__autocast_state(&f->cx->ambient)) return true;
    else s->program = td__spec_capture(f, args, s->fakes, &s->deps);
    td__graph_drop(was);
    if (!s->program) return false;
    return f->body != td__regrad || td__regrad_linear(f, s->program);
}

bool td__spec_program_for(td_fn *f, td_spec *s, td_values args) {
    begin(f, TD_SPENT_CAPTURE);
    if (!make_program(f, s, args)) return false;
    td_here = (td_where){0}; /* later stages are of no one place */
    end(f, TD_SPENT_CAPTURE, td__spec_program(f, s));
    td__log_graph(f, s, TD_LOG_capture, "program", td__spec_program(f, s));
    return true;
}

static void log_joint(const td_fn *f, const td_spec *s, const td_joint *j) {
    td__log_graph(f, s, TD_LOG_joint, j->n_tangents ? "joint graph" : "inference graph",
                  j->g);
}

static td_joint *join(td_fn *f, td_spec *s, const td_value *in) {
    const td_graph *program = td__spec_program(f, s);
    td_joint_opts   o = {.keep_mutations = s->set.keep_mutations,
                         .merge_writes = s->set.merge_writes,
                         .merge_made = s->set.merge_made,
                         .assign_writes = s->set.assign_writes,
                         .ends = f->ends,
                         .train = td__recording(f->cx) && !f->forward};
    td__log_facts(f, program, in);
    if (!td_ok(f->cx)) return NULL;
    begin(f, TD_SPENT_JOINT);
    td_joint *j = td__joint(program, in, &o);
    if (!j || !td__step_check(f, j) || !td__custom_check(f, program, j))
        return td__joint_drop(j), NULL;
    end(f, TD_SPENT_JOINT, j->g);
    td__log_graph(f, s, TD_LOG_joint, "joint graph, as traced", j->g);
    if (j->epilogue) td__log_graph(f, s, TD_LOG_joint, "epilogue", j->epilogue);
    begin(f, TD_SPENT_PASSES);
    bool ok = td__joint_change(f, j, s->set.cse) &&
              (f->staged || td__joint_clean(j, s->set.cse));
    if (!ok) return td__joint_drop(j), NULL;
    end(f, TD_SPENT_PASSES, j->g);
    log_joint(f, s, j);
    return j;
}

static td_halves *part(td_fn *f, td_spec *s, const td_joint *j) {
    td_halves *found = s->kept.h;
    s->kept.h = NULL;
    if (found) return found;
    td_part_opts o = part_opts(&s->set);
    begin(f, TD_SPENT_PARTITION);
    td_halves *h = f->opts.chooser.choose && !f->inner
                       ? td__part_given(j, &o, &f->opts.chooser)
                   : s->set.partition == TD_PARTITION_DEFAULT ? td__part_default(j, &o)
                                                              : td__part_mincut(j, &o);
    if (h) end(f, TD_SPENT_PARTITION, j->g);
    return h;
}

/* What backwards inside, those of a step, find kept. */
static bool part_step(td_fn *f, td_spec *s, td_joint *j) {
    td_part_opts o = part_opts(&s->set);
    if (s->set.partition == TD_PARTITION_DEFAULT) o.budget = 1;
    begin(f, TD_SPENT_PARTITION);
    bool ok = td__half_unshield(j->g) && td__part_step(j, &o, &s->step);
    if (ok) end(f, TD_SPENT_PARTITION, j->g);
    return ok;
}

static bool plan(td_fn *f, td_spec *s, td_joint *j) {
    td_halves   *h = NULL;
    td_plan_opts o = {.info = {.size = sizeof o.info, .id = f->id, .nr = s->nr},
                      .lazy_backward = s->set.lazy_backward,
                      .asserts = s->set.debug_asserts,
                      .limit = s->set.backward_limit,
                      .twice = s->set.double_backward,
                      .hold_all = td__again_reruns(td__spec_program(f, s), j)};
    o.info.name = f->name;
    o.fwd = backend_of(s, j->n_tangents ? f->opts.forward : f->opts.inference);
    o.bwd = backend_of(s, f->opts.backward);
    if (!j->n_tangents)
        td__keep_note(f, s, j, NULL); /* a step is cut when found, too */
    if (j->n_tangents ? !(h = part(f, s, j)) : !part_step(f, s, j)) {
        td__joint_drop(j);
        return false;
    }
    if (h) td__keep_note(f, s, j, h);
    begin(f, TD_SPENT_PLAN);
    s->plan = td__plan_make(j, h, &o);
    if (!s->plan) return false;
    end(f, TD_SPENT_PLAN, j->g);
    return true;
}

/* Does the program, its graph, or what the plan does, count from the start of an
 * input's storage? Then another offset is another specialization; what did nothing for
 * this one may do something there. */
static bool counts_offsets(const td_graph *program, const td_joint *j) {
    return td__graph_flags(program, TD_OPF_PLACES) ||
           td__graph_flags(j->g, TD_OPF_PLACES) ||
           td__graph_flags(j->epilogue, TD_OPF_PLACES);
}

/* Does it matter whether an input is a view that takes no gradients? */
static bool counts_views(const td_graph *program) {
    for (int i = 0; i < program->nodes.n; i++) {
        const td_gnode *n = program->nodes.v[i];
        uint64_t        flags = n->kind == TD_N_OP ? td__ops[n->op].flags : 0;
        if (flags & TD_OPF_META && flags & TD_OPF_CUTS) return true;
    }
    return false;
}

static bool has_backward(const td_graph *program) {
    for (int i = 0; i < program->nodes.n; i++)
        if (program->nodes.v[i]->origin == TD_FROM_BACKWARD) return true;
    return false;
}

bool td__spec_joint_for(td_fn *f, td_spec *s, td_values args) {
    if (td__keep_find(f, s, args)) return true;
    const td_graph *program = td__spec_program(f, s);
    td_value       *in = td__zalloc(sizeof *in * (size_t)(program->inputs.n + 1));
    if (!in) return td__fail_memory(f->cx);
    s->j = inputs_of(s, program, args, in) ? join(f, s, in) : NULL;
    td__free(in);
    s->views = counts_views(program);
    return s->j != NULL;
}

/* Forgets a trace with symbols that came to nothing; the program stays. */
static void start_over(td_fn *f, td_spec *s) {
    td__log(f->cx, TD_LOG_guards, "%s: not for other sizes: %s", f->name,
            td_message(f->cx));
    td_clear(f->cx);
    td__joint_drop(s->j);
    s->j = NULL;
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
    td_joint *j = s->j;
    s->j = NULL;
    if (s->kept.found) log_joint(f, s, j);
    s->offsets = counts_offsets(td__spec_program(f, s), j);
    s->differentiates = has_backward(td__spec_program(f, s));
    if (!td__key_owners(s, args)) return td__joint_drop(j), td__fail_memory(f->cx);
    bool ok =
        plan(f, s, j) && td__again_make(f, s) && td__key_make(f, &s->key, args, s);
    if (ok) td__keep_store(f, s);
    return ok;
}

/* What the function wants logged is, beside what the context does. */
static uint32_t log_more(td_fn *f) {
    uint32_t    was = f->cx->log.topics;
    char        bad[8];
    const char *near;
    if (f->opts.log)
        f->cx->log.topics |= td__log_parse(f->opts.log, bad, sizeof bad, &near);
    return was;
}

/* With the time each stage took. */
static bool timed(td_fn *f, td_spec *s, td_values args) {
    td_ctx *cx = f->cx;
    td__span_collect(cx, true);
    for (int i = 0; i < TD_SPENT_COUNT; i++)
        s->ns[i] = -td__span_total(cx, td__spent_names[i]).self_ns;
    td__span_begin(cx, "specialize");
    bool ok = specialize(f, s, args);
    td__span_end(cx, "specialize");
    for (int i = 0; i < TD_SPENT_COUNT; i++)
        s->ns[i] += td__span_total(cx, td__spent_names[i]).self_ns;
    td__span_collect(cx, false);
    return ok;
}

td_spec *td__spec_make(td_fn *f, td_values args) {
    td_spec *s = td__zalloc(sizeof *s);
    if (!s) return td__fail_memory(f->cx), NULL;
    s->nr = f->n_specs;
    s->mode = f->mode;
    s->set = td__fn_settings(f);
    uint32_t topics = log_more(f);
    td_where here = td_here;
    td_here = (td_where){0};
    bool ok = timed(f, s, args);
    td_here = here;
    td__fail_at(f->cx, here); /* a stage of no one line: the call's */
    if (ok) td__log_spec(f, s);
    f->cx->log.topics = topics;
    if (ok) return s;
    td__spec_drop(s);
    return NULL;
}

/* ---- in two steps ------------------------------------------------------- */

/* Other offsets are other calls whatever graph comes in between. */
td_joint *td__spec_join(td_fn *f, td_spec *s, td_values args, bool sizes) {
    uint32_t topics = log_more(f);
    td_where here = td_here;
    s->mode = f->mode;
    s->set = td__fn_settings(f);
    s->offsets = true;
    td__span_begin(f->cx, "specialize");
    bool ok =
        td__spec_trace(f, s, args, sizes ? TD_SIZES_MUST_VARY : TD_SIZES_NUMBERS) &&
        (td__key_owners(s, args) || td__fail_memory(f->cx)) &&
        td__key_make(f, &s->key, args, s);
    td__span_end(f->cx, "specialize");
    f->cx->log.topics = topics;
    td_here = here;
    td__fail_at(f->cx, here);
    td_joint *j = ok ? s->j : NULL;
    if (ok) s->j = NULL;
    return j;
}

bool td__spec_plan(td_fn *f, td_spec *s, td_joint *j) {
    uint32_t topics = log_more(f);
    bool     ok = td__joint_clean(j, s->set.cse);
    td__span_begin(f->cx, "specialize");
    if (ok) ok = plan(f, s, j) && td__again_make(f, s);
    else td__joint_drop(j);
    td__span_end(f->cx, "specialize");
    f->cx->log.topics = topics;
    return ok;
}

/* ---- one ---------------------------------------------------------------- */

void td__spec_drop(td_spec *s) {
    if (!s) return;
    td__plan_drop(s->plan);
    td__joint_drop(s->j);
    td__halves_drop(s->step);
    td__halves_drop(s->kept.h);
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
