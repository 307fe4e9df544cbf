/* stages.c -- the pipeline: a table of stages, and the one function that runs its
 * rows. Spans, times, logs, verification and the disk cache wrap the rows; no stage
 * calls them. */
#include "aot/aot.h"
#include "core/callback.h"
#include "aot/facts.h"

#include <string.h>

/* ---- capture ------------------------------------------------------------ */

/* Captures a graph by replaying it on the arguments. */
static td_graph *capture_graph(td_fn *f, td_values args, const td_closure *close) {
    size_t    n = (size_t)(f->graph->inputs.n > args.n ? f->graph->inputs.n : args.n);
    td_value *in = td__zalloc(sizeof *in * (n + 1));
    if (!in) return td__fail_memory(f->cx), NULL;
    for (int i = 0; i < args.n; i++) in[i] = args.v[i];
    td_graph *g = td__capture_cast(f->graph, in, close);
    td__free(in);
    return g;
}

/* td_closure.name: members of the function's own module, then those of modules that
 * the body has used so far. */
static const char *name_of(void *env, const td_tensor *t) {
    const td_fn   *f = env;
    const td_deps *d = f->cx->deps;
    for (int i = 0; i < f->n_state; i++)
        if (f->members[i].u.t == t) return td__state_member(f, i);
    for (int i = 0; d && i < d->names.n; i++)
        if (d->names.v[i].t == t && !d->names.v[i].of) return d->names.v[i].name;
    return NULL;
}

/* Captures the body (or the user's graph) and records in deps which modules, members
 * and watched bytes it read. Members become inputs under their names. */
td_graph *td__spec_capture(td_fn *f, td_values args, td_capture_as how, td_deps *deps) {
    td_ctx    *cx = f->cx;
    td_deps   *was = cx->deps;
    td_closure close = {.bound = {f->members, f->n_state},
                        .fakes = how.fakes,
                        .aliases = true,
                        .name = name_of,
                        .env = f,
                        .function = f->name,
                        .whole = how.whole};
    if (!f->body && !f->graph) return td__fail_loaded(f, "capture"), NULL;
    if (!f->graph && !td__numbers_reserve(f, args.n)) return NULL;
    if (!f->graph) close.reads = f->numbers;
    if (!td__deps_begin(deps, td__state_module(f))) return NULL;
    cx->deps = deps;
    td_graph *g = f->graph ? capture_graph(f, args, &close)
                           : td__capture_closing(cx, f->body, f->env, args, &close);
    cx->deps = was;
    if (!g) return NULL;
    g->name = td__graph_str(g, f->name);
    bool named = g->name && td__state_name(f, g, deps);
    td__deps_drop_names(deps);
    if (named) return g;
    td__graph_drop(g);
    return NULL;
}

td_graph *td__spec_replay(const td_spec *s, td_values args) {
    td_value *in = td__spec_inputs(s, s->program, args);
    td_graph *g = in ? td__capture_replay(s->program, in) : NULL;
    td__free(in);
    return g;
}

/* The program for the sizes of the specialization. NULL after td__fail. */
static td_graph *capture_sized(td_fn *f, td_spec *s, td_values args) {
    td_dim_given was = td__dim_give((td_dim_given){s->sizes.v, s->sizes.n, 0});
    td_graph    *g =
        s->program
               ? td__spec_replay(s, args)
               : td__spec_capture(f, args, (td_capture_as){s->fakes, false}, &s->deps);
    td__dim_give(was);
    if (!g || td__sizes_keep(g, &s->sizes)) return g;
    td__graph_drop(g);
    return NULL;
}

/* Does a program make tensors of a type outside of the derivatives it has taken? */
static bool makes_typed(const td_graph *g) {
    bool any = false;
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        any |=
            n->kind == TD_N_OP && n->op == TD_OP__wrap && n->origin != TD_FROM_BACKWARD;
    }
    return any;
}

/* A program that exists already is replayed: the body must not run twice. A graph is
 * its own program, unless autocast adds casts to it, it becomes one for some sizes
 * alone, or a capture has to find out what its tensors of a type share. */
static bool capture(td_fn *f, td_spec *s, td_values args) {
    td_graph *was = s->program;
    if (f->graph && !td__graph_verify(f->graph, TD_STAGE_PROGRAM)) return false;
    bool own = f->graph && !td__autocast_state(&f->cx->ambient) && !s->sizes.n &&
               !makes_typed(f->graph);
    if (!was && own) return true;
    s->program = capture_sized(f, s, args);
    s->replayed = was != NULL;
    td__graph_drop(was);
    td_here = (td_where){0}; /* later stages have no source line */
    return s->program != NULL;
}

/* ---- facts, joint, passes ----------------------------------------------- */

/* Computes what inputs and outputs are, for the log only. The joint stage does not
 * use it and reports unsupported programs better, so errors but for memory are
 * cleared. */
static bool facts(td_fn *f, td_spec *s, td_values args) {
    const td_graph *program = td__spec_program(f, s);
    td_value       *in = td__spec_inputs(s, program, args);
    td_facts       *made = in ? td__facts(program, in, s->set.keep_mutations) : NULL;
    td_buf          b = {0};
    if (made && td__facts_print(&b, made))
        td__log_text(f->cx, TD_LOG_facts, f->name, td__buf_str(&b));
    td__buf_free(&b);
    td__facts_drop(made);
    td__free(in);
    if (td__error(f->cx) != TD_E_MEMORY) td_clear(f->cx);
    return td_ok(f->cx);
}

/* Does the program change the metadata of a tensor that it detaches? Then the code
 * depends on whether an input is a view, even if it requires no grad. */
static bool depends_on_views(const td_graph *program) {
    for (int i = 0; i < program->nodes.n; i++) {
        const td_gnode *n = program->nodes.v[i];
        uint32_t        flags = n->kind == TD_N_OP ? td__row(n->op)->flags : 0;
        if (flags & TD_OPF_META && flags & TD_OPF_CUTS) return true;
    }
    return false;
}

td_joint_opts td__spec_joint_opts(const td_fn *f, const td_spec *s) {
    /* Code that meets another size than it was made for must not have written yet. */
    bool keep = s->set.keep_mutations && !f->n_orders && !s->measures;
    return (td_joint_opts){.keep_mutations = keep,
                           .n_orders = f->n_orders,
                           .orders = f->orders,
                           .merge_writes = s->set.merge_writes,
                           .merge_made = s->set.merge_made,
                           .assign_writes = s->set.assign_writes,
                           .train = td__recording(f->cx) && !f->forward};
}

static td_joint *trace_joint(const td_fn *f, const td_spec *s, const td_value *in) {
    td_joint_opts o = td__spec_joint_opts(f, s);
    o.loss = f->loss;
    return td__joint(td__spec_program(f, s), in, &o);
}

/* Static arguments are state: saving them costs nothing. */
static void describe_static(const td_fn *f, const td_spec *s, td_values args) {
    for (int i = 0, at = 0; f->opts.n_static_args && i < args.n; i++) {
        bool tensor = args.v[i].kind == TD_K_TENSOR && args.v[i].u.t;
        if (!tensor && s->program) continue;
        td_gval *v = s->j->g->inputs.v[at];
        td_desc *d = &s->j->g->in_desc.v[at++];
        if (tensor && d->kind == TD_D_PLAIN && td__arg_is_static(f, i))
            *d = (td_desc){TD_D_BUFFER, -1, v->name};
    }
}

/* Traces the joint graph and the epilogue of the program. False after td__fail. */
static bool join(td_fn *f, td_spec *s, td_values args) {
    const td_graph *program = td__spec_program(f, s);
    td_value       *in = td__spec_inputs(s, program, args);
    bool            ok = in && (!f->n_orders || td__custom_linear(f, program));
    s->measures = td__graph_flags(program, TD_OPF_DYNAMIC);
    s->j = ok ? trace_joint(f, s, in) : NULL;
    bool hidden = s->j && !s->measures && td__graph_flags(s->j->g, TD_OPF_DYNAMIC);
    if (hidden) { /* in a composite, which the program has whole */
        s->measures = true;
        td__joint_drop(s->j);
        s->j = trace_joint(f, s, in);
    }
    td__free(in);
    s->views = depends_on_views(program);
    s->reads = td__graph_flags(program, TD_OPF_META); /* sizes of leaves may change */
    if (!s->j) return false;
    describe_static(f, s, args);
    if (!f->inner && !td__tokens_add(s->j->g)) return false;
    return td__step_check(f, s->j);
}

/* The user's pass and decompositions, then the joint graph's own passes. A staged
 * function is cleaned after the user has seen the graph. */
static bool clean(td_fn *f, td_spec *s, td_values args) {
    (void)args;
    return td__joint_change(f, s->j, s->set.cse) &&
           (f->staged || td__joint_clean(s->j, s->set.cse));
}

/* ---- partition ---------------------------------------------------------- */

/* The partitioner's options from the settings. */
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

/* A training step has its backward inside: chooses which of the values it reads are
 * recomputed in it. */
static bool part_step(td_spec *s, td_part_opts o) {
    if (s->set.partition == TD_PARTITION_DEFAULT) o.budget = 1;
    return td__half_drop_input_copies(s->j->g) && td__part_step(s->j, &o, &s->step);
}

/* Cuts the joint graph into forward and backward, by the user's partitioner or a
 * built-in one. Without tangents there is nothing to cut. Tokens have served their
 * readers, the passes: from here on the order of nodes is that of effects. */
static bool part(td_fn *f, td_spec *s, td_values args) {
    td_part_opts o = part_opts(&s->set);
    (void)args;
    if (!td__tokens_remove(s->j->g)) return false;
    if (!s->j->n_tangents) return part_step(s, o);
    s->h = f->opts.chooser.choose && !f->inner
               ? td__part_given(s->j, &o, &f->opts.chooser)
           : s->set.partition == TD_PARTITION_DEFAULT ? td__part_default(s->j, &o)
                                                      : td__part_mincut(s->j, &o);
    bool as_is = !f->opts.saved.pack && !f->opts.offload.store;
    return s->h && (as_is || f->inner || td__spec_pack(f, s, &o));
}

/* ---- plan --------------------------------------------------------------- */

/* b, or the backend in the settings. */
static const td_backend *backend_of(const td_spec *s, const td_backend *b) {
    if (b) return b;
    return s->set.backend == TD_BACKEND_NATIVE   ? &td__native
           : s->set.backend == TD_BACKEND_INTERP ? &td__interp
                                                 : &td__auto;
}

/* The plan takes over s->j and s->h. */
static bool plan(td_fn *f, td_spec *s, td_values args) {
    td_joint    *j = s->j;
    td_halves   *h = s->h;
    td_plan_opts o = {.info = td__spec_info(f, s, NULL, TD_FORWARD),
                      .on = &f->shared->opts.on_compile,
                      .lazy_backward = s->set.lazy_backward,
                      .asserts = s->set.debug_asserts,
                      .limit = s->set.backward_limit,
                      .twice = td__spec_twice(f, s, h),
                      .donates = s->set.donated_buffers,
                      .functional_rng = s->set.functional_rng};
    (void)args;
    o.fwd = backend_of(s, j->n_tangents ? f->opts.forward : f->opts.inference);
    o.bwd = backend_of(s, f->opts.backward);
    s->j = NULL;
    s->h = NULL;
    return (s->plan = td__plan_make(j, h, &o)) != NULL;
}

/* ---- the table ---------------------------------------------------------- */

static const td_joint *joint_of(const td_spec *s) {
    return s->plan ? s->plan->j : s->j;
}
/* The joint graph if there is one, else the program. */
static const td_graph *latest(const td_fn *f, const td_spec *s) {
    return joint_of(s) ? joint_of(s)->g : td__spec_program(f, s);
}
static const td_graph *epilogue(const td_fn *f, const td_spec *s) {
    (void)f;
    return joint_of(s)->epilogue;
}
static const td_graph *forward(const td_fn *f, const td_spec *s) {
    (void)f;
    return s->plan->h || s->plan->fwd_form ? td__plan_forward_code(s->plan) : NULL;
}
static const td_graph *backward(const td_fn *f, const td_spec *s) {
    (void)f;
    return td__plan_backward_code(s->plan);
}

/* The partition's table: each value and whether it is saved or recomputed. */
static void partition_text(td_buf *b, const td_spec *s) {
    if (td__spec_partition(s)) td__halves_report(b, td__spec_partition(s));
}

enum {
    PROGRAM = 1,
    FACTS = 2,
    TRACED = 4,
    JOINT = 8,
    HALVES = 16,
    PLAN = 32,
    CODE = 64
};

/* clang-format off */
const td_stage_row td__stages[TD_PIPE_COUNT] = {
    [TD_PIPE_CAPTURE] = {"capture", capture, 0, PROGRAM, .artifacts = {
        {"capture", "program", TD_LOG_capture, latest, NULL}}},
    [TD_PIPE_FACTS] = {"facts", facts, PROGRAM, FACTS, .for_log = TD_LOG_facts,
        .looks_up = true},
    [TD_PIPE_JOINT] = {"joint", join, PROGRAM, TRACED, .artifacts = {
        {NULL, "joint graph, as traced", TD_LOG_joint, latest, NULL},
        {NULL, "epilogue", TD_LOG_joint, epilogue, NULL}}},
    [TD_PIPE_PASSES] = {"passes", clean, TRACED, JOINT, .users = true, .artifacts = {
        {"joint", "joint graph", TD_LOG_joint, latest, NULL}}},
    [TD_PIPE_PARTITION] = {"partition", part, JOINT, HALVES, .stores = true,
        .users = true},
    [TD_PIPE_PLAN] = {"plan", plan, JOINT | HALVES, PLAN, .artifacts = {
        {"forward", "forward graph", TD_LOG_graphs, forward, NULL},
        {"backward", "backward graph", TD_LOG_graphs, backward, NULL},
        {"plan", NULL, TD_LOG_graphs, epilogue, NULL},
        {NULL, "saved for backward", TD_LOG_partition, NULL, partition_text},
        {NULL, "inputs and results of a call", TD_LOG_wrappers, NULL,
            td__explain_wrappers}}},
    /* By the backend, while the plan is made or at the first backward. */
    [TD_PIPE_FORWARD] = {"compile forward", NULL, PLAN, .makes = CODE},
    [TD_PIPE_BACKWARD] = {"compile backward", NULL, PLAN, .makes = CODE},
    [TD_PIPE_INFERENCE] = {"compile inference", NULL, PLAN, .makes = CODE},
};
/* clang-format on */

const td_artifact *td__stage_artifact(const char *name) {
    for (int i = 0; i < TD_PIPE_COUNT * TD_STAGE_ARTIFACTS; i++) {
        const td_artifact *m =
            &td__stages[i / TD_STAGE_ARTIFACTS].artifacts[i % TD_STAGE_ARTIFACTS];
        if (m->name && !strcmp(m->name, name)) return m;
    }
    return NULL;
}

/* ---- running ------------------------------------------------------------ */

void td__stages_found(td_spec *s) {
    s->has = PROGRAM | FACTS | TRACED | JOINT | (s->h ? HALVES : 0);
}

td_compile_info td__spec_info(const td_fn *f, const td_spec *s, const char *stage,
                              td_half half) {
    return (td_compile_info){.size = sizeof(td_compile_info),
                             .id = f->id,
                             .nr = s->nr,
                             .half = half,
                             .name = f->name,
                             .stage = stage,
                             .order = f->n_orders};
}

/* Runs the row, with what td_compiling returns in functions of the user that it
 * calls. */
static bool run_users(td_fn *f, td_spec *s, td_values args, const td_stage_row *r) {
    if (!r->users) return r->run(f, s, args);
    td_half         half = s->j->n_tangents ? TD_JOINT : TD_INFERENCE;
    td_compile_info info = td__spec_info(f, s, r->name, half);
    bool            ok;
    TD_CALLBACK_FOR(f->cx, &info, ok = r->run(f, s, args));
    return ok;
}

/* Runs one row with its span, verification and log. A row that fails leaves its span
 * open; the span around the whole pipeline closes it. */
static bool run_row(td_fn *f, td_spec *s, td_values args, const td_stage_row *r) {
    td__span_begin(f->cx, r->name);
    if (!run_users(f, s, args, r)) return false;
    td_stage contract = joint_of(s) ? TD_STAGE_JOINT : TD_STAGE_PROGRAM;
    td__span_arg(f->cx, "nodes", latest(f, s)->nodes.n);
    td__span_end(f->cx, r->name);
    if (s->set.debug_asserts && !td__graph_verify(latest(f, s), contract)) return false;
    s->has |= r->makes;
    td__stage_log(f, s, r);
    return true;
}

/* Serializes for the disk cache at the right moment: a joint graph without tangents
 * before the partition, which modifies it, any other together with its two halves. */
static bool serialize(td_fn *f, td_spec *s, const td_stage_row *r) {
    bool halves = (s->has & r->makes) != 0;
    if (!r->stores || halves != (s->j->n_tangents > 0)) return true;
    td__cache_serialize(f, s);
    return td__image_serialize(f, s);
}

/* Runs the rows first..last. A row whose results exist already (from the cache) is
 * skipped, and so is one that only serves a log that is off. The cache is looked up and
 * filled before and after the rows that say so. */
bool td__stages_run(td_fn *f, td_spec *s, td_values args, td_pipe_stage first,
                    td_pipe_stage last) {
    for (const td_stage_row *r = td__stages + first; r <= td__stages + last; r++) {
        if (r->looks_up) (void)td__cache_find(f, s, args);
        if (!serialize(f, s, r)) return false; /* also what was found */
        if (s->has & r->makes || (r->for_log && !td__log_on(f->cx, r->for_log)))
            continue;
        if ((s->has & r->needs) != r->needs || !run_row(f, s, args, r)) return false;
        if (!serialize(f, s, r)) return false;
    }
    return true;
}
