/* compile.c -- compiles a specialization for a call that fits none, and calls one.
 * The stages of the pipeline are in stages.c. */
#include "aot/aot.h"
#include "aot/facts.h"
#include "core/callback.h"
#include "trace/sym.h"

#include <stdio.h>
#include <string.h>

/* ---- arguments ---------------------------------------------------------- */

/* The arguments that are inputs of the graphs: tensors only, because numbers are
 * constants of the program. A user's graph (no program) takes all. */
int td__spec_args(const td_spec *s, td_values args, td_value *in, int n) {
    int at = 0;
    for (int i = 0; i < args.n && at < n; i++) {
        bool tensor = args.v[i].kind == TD_K_TENSOR && args.v[i].u.t;
        if (tensor || !s->program) in[at++] = args.v[i];
    }
    return at;
}

/* Fills in[]: arguments, then consts and the .grad tensors the program reads. False
 * after td__fail. */
static bool inputs_of(const td_spec *s, const td_graph *program, td_values args,
                      td_value *in) {
    int at = td__spec_args(s, args, in, program->inputs.n);
    for (; at < program->inputs.n; at++) {
        const td_desc *d = &program->in_desc.v[at];
        if (d->kind == TD_D_OWN_GRAD && s->program) continue;
        if (d->kind != TD_D_CONST || d->index < 0 || d->index >= program->consts.n)
            return td__fail(program->cx, TD_E_ARG,
                            "@%.60s takes %d inputs; the call passes %d", program->name,
                            program->inputs.n, args.n);
        td_tensor *t = program->consts.v[d->index];
        if (s->fakes && !(t = td__fake_copy(s->fakes, t))) return false;
        in[at] = td_value_tensor(t);
    }
    return !s->program || td__own_grads_read(program, in) ||
           td__fail(program->cx, TD_E_ARG,
                    "@%.60s: an input's .grad that the program reads was dropped",
                    program->name);
}

/* Arguments followed by closed-over tensors, in the order of the program's inputs;
 * freed by the caller. */
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

/* The context's settings, or those the function was made with, overridden by its
 * options. */
td_config td__fn_settings(const td_fn *f) {
    td_config c = f->opts.config ? *f->opts.config : *td__config(f->cx);
    if (f->opts.partition) c.partition = f->opts.partition;
    if (f->opts.keep_mutations) c.keep_mutations = true;
    if (f->opts.functional_rng) c.functional_rng = true;
    if (f->opts.limit > 0) c.specialization_limit = f->opts.limit;
    if (f->opts.dynamic) c.dynamic = f->opts.dynamic;
    c.log = c.trace_file = ""; /* these are settings of the context */
    return c;
}

/* Does the program, the joint graph or the epilogue address storage directly
 * (as_strided, set_)? Then another offset is another specialization: a no-op for this
 * offset may write for another. */
static bool addresses_storage(const td_graph *program, const td_joint *j) {
    return td__graph_flags(program, TD_OPF_PLACES) ||
           td__graph_flags(j->g, TD_OPF_PLACES) ||
           td__graph_flags(j->epilogue, TD_OPF_PLACES);
}

/* Does the body run a backward? */
static bool has_backward(const td_graph *program) {
    for (int i = 0; i < program->nodes.n; i++)
        if (program->nodes.v[i]->origin == TD_FROM_BACKWARD) return true;
    return false;
}

/* ---- all stages --------------------------------------------------------- */

/* Discards a failed trace with symbolic sizes; the captured program stays. */
static void start_over(td_fn *f, td_spec *s, const char *why) {
    td__log(f->cx, TD_LOG_guards, "%s: compiled for these sizes only: %s", f->name,
            why);
    td_clear(f->cx);
    td__joint_drop(s->j);
    s->j = NULL;
    s->has = 0;
}

/* Traces with numbers, after a trace with symbols failed with this message. What
 * succeeds only with numbers is an error where the user marked a size. `change` may be
 * NULL. */
static bool trace_numbers(td_fn *f, td_spec *s, td_values args, const char *message,
                          void (*change)(td_spec *s)) {
    char why[400];
    snprintf(why, sizeof why,
             "the trace cannot have a symbol there: %.300s. Avoid that", message);
    start_over(f, s, message);
    if (change) change(s);
    return td__spec_trace(f, s, args, TD_SIZES_NUMBERS) &&
           (s->set.dynamic == TD_SHAPES_STATIC || td__marked_refuse(f, args, why));
}

/* Traces with symbolic sizes if the settings say so. If that fails, the captured
 * program is replayed with numbers. The body runs a second time only if the capture
 * itself failed: it may have computed with a symbolic size in C (td_sym_size). */
static bool trace_sizes(td_fn *f, td_spec *s, td_values args) {
    if (s->sizes.n) return td__spec_trace(f, s, args, TD_SIZES_NUMBERS);
    if (td__spec_trace(f, s, args, TD_SIZES_MAY_VARY)) return true;
    td_code code = td__error(f->cx);
    if (!s->varies || code == TD_E_MEMORY || code == TD_E_GUARD) return false;
    return trace_numbers(f, s, args, td__message(f->cx), NULL);
}

bool td__spec_measure(td_fn *f, const td_spec *s, td_values args, td_dim_list *to) {
    const td_graph *program = td__spec_program(f, s);
    td_code         code = td__error(f->cx);
    if (!program || code == TD_E_MEMORY || f->staged) return false;
    td_value *in = td__spec_inputs(s, program, args);
    bool      ok = in && td__sizes_measure(program, in, to);
    td__free(in);
    return ok;
}

/* Was the program captured under assumptions about sizes that depend on values? They
 * may have decided which values it returns: dropout returns an empty input itself. */
static bool has_guesses(const td_graph *program) {
    for (int i = 0; program && i < program->nodes.n; i++)
        if (td__node_is_guess(program->nodes.v[i])) return true;
    return false;
}

/* A program that assumed other sizes than these is captured again. Other values make
 * other sizes, so that nothing is cached. */
static void drop_guesses(td_spec *s) {
    s->cache.on = false;
    if (!has_guesses(s->program)) return;
    td__graph_drop(s->program);
    s->program = NULL;
}

/* If that fails, too, sizes that depend on values are those of this call. */
static bool trace(td_fn *f, td_spec *s, td_values args) {
    char message[304];
    if (trace_sizes(f, s, args)) return true;
    snprintf(message, sizeof message, "%.300s", td__message(f->cx));
    if (s->sizes.n || !td__spec_measure(f, s, args, &s->sizes)) return false;
    return trace_numbers(f, s, args, message, drop_guesses);
}

/* All stages, or what the disk cache has of them, then the key. False after td__fail.
 */
static bool specialize(td_fn *f, td_spec *s, td_values args) {
    bool found =
        f->loaded ? td__image_find(f, s, args) : td__cache_find_version(f, s, args);
    if (!found && (f->loaded || !trace(f, s, args))) return false;
    s->found = found || s->cache.found;
    const td_graph *program = td__spec_program(f, s);
    if (s->cache.found) td__stage_log(f, s, &td__stages[TD_PIPE_PASSES]);
    s->offsets = addresses_storage(program, s->j);
    s->differentiates = has_backward(program);
    if (!td__key_find_grads(s, args)) return td__fail_memory(f->cx);
    if (!td__spec_arrive(f, s, args) ||
        !td__stages_run(f, s, args, TD_PIPE_PARTITION, TD_PIPE_PLAN) ||
        !td__spec_later(f, s) || !td__key_make(f, &s->key, args, s) ||
        !td__image_keep(f, s))
        return false;
    td__cache_store(f, s);
    td__log_guards(f, s);
    return true;
}

/* Runs some of the stages with the function's log topics on, and adds the time of
 * each stage to s->ns. Errors that no source line caused are reported at the call. */
static bool timed(td_fn *f, td_spec *s, td_values args, td_stage_fn *run) {
    td_ctx     *cx = f->cx;
    uint32_t    topics = cx->log.topics;
    td_where    here = td_here;
    char        bad[8];
    const char *near;
    if (f->opts.log)
        cx->log.topics |= td__log_parse(f->opts.log, bad, sizeof bad, &near);
    td_callback call; /* the calls around a body begin with this one */
    td__callback_begin(&call, cx);
    call.compiling = call.outer ? call.outer->compiling : NULL;
    td_here = (td_where){0};
    td__span_collect(cx, true);
    for (int i = 0; i < TD_PIPE_COUNT; i++)
        s->ns[i] -= td__span_total(cx, td__stages[i].name).self_ns;
    td__span_begin(cx, "specialize");
    bool ok = run(f, s, args);
    td__callback_end(&call);
    td__span_end(cx, "specialize");
    for (int i = 0; i < TD_PIPE_COUNT; i++)
        s->ns[i] += td__span_total(cx, td__stages[i].name).self_ns;
    td__span_collect(cx, false);
    td_here = here;
    td__fail_at(cx, here);
    cx->log.topics = topics;
    return ok;
}

/* The same between the calls of td_aot_opts.on_compile. */
static bool announced(td_fn *f, td_spec *s, td_values args, td_stage_fn *run) {
    const td_on_compile *on = &f->opts.on_compile;
    td_compile_info      info = td__spec_info(f, s, "specialize", TD_JOINT);
    int64_t              since = td__compile_begin(f->cx, on, &info);
    bool                 ok = timed(f, s, args, run);
    td__compile_end(f->cx, on, &info, since,
                    (td_compiled){.ok = ok, .found = s->found});
    return ok;
}

/* Makes a specialization for these arguments; NULL after td__fail. */
td_spec *td__spec_make(td_fn *f, td_values args, td_dim_list *sizes) {
    td_spec *s = td__zalloc(sizeof *s);
    if (!s) return td__fail_memory(f->cx), NULL;
    if (sizes) {
        s->sizes = *sizes;
        *sizes = (td_dim_list){0};
    }
    s->nr = f->n_specs;
    s->mode = f->mode;
    s->set = td__fn_settings(f);
    if (announced(f, s, args, specialize)) return s;
    td__spec_drop(s);
    return NULL;
}

/* ---- in two steps ------------------------------------------------------- */

/* The first half of a staged compilation, up to the cleaned joint graph. */
static bool stage_joint(td_fn *f, td_spec *s, td_values args) {
    bool any = s->set.dynamic == TD_SHAPES_DYNAMIC || td__marked_any(args);
    return (any ? trace(f, s, args) : td__spec_trace(f, s, args, TD_SIZES_NUMBERS)) &&
           (td__key_find_grads(s, args) || td__fail_memory(f->cx)) &&
           td__key_make(f, &s->key, args, s) && td__spec_arrive(f, s, args);
}

/* The second half, from the joint graph, which the user may have replaced. */
static bool stage_plan(td_fn *f, td_spec *s, td_values args) {
    return td__joint_clean(s->j, s->set.cse) &&
           td__stages_run(f, s, args, TD_PIPE_PARTITION, TD_PIPE_PLAN) &&
           td__spec_later(f, s) && td__image_keep(f, s);
}

/* s->offsets is set in any case: the graph that the user puts in between may address
 * storage. */
td_joint *td__spec_join(td_fn *f, td_spec *s, td_values args) {
    s->mode = f->mode;
    s->set = td__fn_settings(f);
    s->offsets = true;
    if (!timed(f, s, args, stage_joint)) return NULL;
    td_joint *j = s->j;
    s->j = NULL;
    return j;
}

static bool stage_program(td_fn *f, td_spec *s, td_values args) {
    return td__stages_run(f, s, args, TD_PIPE_CAPTURE, TD_PIPE_CAPTURE);
}

/* Captures f for the sizes of args, and derives the facts from the program. */
td_facts *td__spec_facts(td_fn *f, td_values args) {
    td_spec  *s = td__zalloc(sizeof *s);
    td_facts *facts = NULL;
    td_value *in = NULL;
    if (!s) return td__fail_memory(f->cx), NULL;
    s->mode = f->mode;
    s->set = td__fn_settings(f);
    if (timed(f, s, args, stage_program)) {
        const td_graph *program = td__spec_program(f, s);
        in = td__spec_inputs(s, program, args);
        if (in) facts = td__facts(program, in, s->set.keep_mutations);
    }
    td__free(in);
    td__spec_drop(s);
    return facts;
}

bool td__spec_plan(td_fn *f, td_spec *s, td_joint *j) {
    s->j = j;
    return announced(f, s, (td_values){0}, stage_plan);
}

/* ---- freeing and calling ------------------------------------------------- */

void td__spec_drop(td_spec *s) {
    if (!s) return;
    td__plan_drop(s->plan);
    td__joint_drop(s->j);
    td__halves_drop(s->step);
    td__halves_drop(s->h);
    td__buf_free(&s->cache.bytes);
    td__buf_free(&s->image);
    td__arrived_drop(s->arrived);
    td__graph_drop(s->program);
    td__guards_drop(s->guards);
    td__vec_free(&s->sizes);
    td__vec_free(&s->marks);
    td__deps_free(&s->deps);
    td__vec_free(&s->key);
    td__vec_free(&s->grads_read);
    td__vec_free(&s->grads_absent);
    td__vec_free(&s->grad_targets);
    td__free(s);
}

/* Maps own[] between arguments and inputs of the program: before the call to inputs,
 * after it (back) to the arguments that the call did not drop. */
static void own_inputs(const td_spec *s, td_values args, bool *own, bool *in,
                       bool back) {
    for (int i = 0, at = 0; i < args.n; i++) {
        bool tensor = args.v[i].kind == TD_K_TENSOR && args.v[i].u.t;
        if (!tensor && s->program) continue;
        if (back) own[i] = in[at++];
        else in[at++] = own[i];
    }
}

/* td__plan_call, in which the code may drop the arguments in own. False after
 * td__fail. */
static bool call_owning(td_spec *s, td_values args, bool *own, td_value *in,
                        td_value *out) {
    bool *mine = td__zalloc((size_t)(s->plan->j->n_primals + args.n) + 1);
    if (!mine) return td__fail_memory(s->plan->cx);
    own_inputs(s, args, own, mine, false);
    bool ok = td__plan_call(s->plan, NULL, in, mine, out);
    own_inputs(s, args, own, mine, true);
    td__free(mine);
    return ok;
}

/* Stores the gradients that the program computed as .grad of its inputs. The inputs
 * own them; the references of the scope are dropped. */
static bool leave_grads(const td_plan *p, const td_graph *program, const td_value *in,
                        td_value *out) {
    if (!td__own_grads_leave(program, in, out)) return false;
    for (int i = td__graph_results(program); i < p->j->n_results; i++)
        if (out[i].kind == TD_K_TENSOR && p->fresh[i]) td_drop(out[i].u.t);
    return true;
}

/* Results whose sizes were symbols are likely to vary in the next function, too. */
static void mark_results(const td_joint *j, int n, td_value *out) {
    for (int i = 0; j->g->dims.n && i < n; i++)
        if (out[i].kind == TD_K_TENSOR && out[i].u.t) out[i].u.t->maybe |= j->varies[i];
}

/* The code may drop the function or its specializations (td_fn_forget), so the plan
 * and the program are held by a reference during the call. */
bool td__spec_call(td_fn *f, td_spec *s, td_values args, bool *own, td_value *out) {
    td_graph *program = (td_graph *)(uintptr_t)td__spec_program(f, s);
    td_plan  *p = s->plan;
    td_value  few[16], *in = few;
    size_t    bytes = sizeof *in * (size_t)program->inputs.n;
    if (program->inputs.n > TD_COUNT(few) &&
        !(in = td__scratch_take(&p->inputs, bytes)))
        return td__fail_memory(f->cx);
    p->refs++;
    td__graph_keep(program);
    bool ok = inputs_of(s, program, args, in) &&
              (own ? call_owning(s, args, own, in, out)
                   : td__plan_call(p, NULL, in, NULL, out)) &&
              leave_grads(p, program, in, out);
    if (ok) mark_results(p->j, td__graph_results(program), out);
    if (in != few) td__scratch_give(&p->inputs, in);
    td__graph_drop(program);
    td__plan_drop(p);
    return ok;
}
