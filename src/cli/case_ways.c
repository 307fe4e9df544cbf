/* case_ways.c -- the ways a function can be executed: eagerly, which is the measure,
 * and those that must do the same. */
#include "cli/case_run.h"
#include "eager/node.h"
#include "joint/joint.h"

static bool call_eager(case_run *run, const td_graph *fn, const td_value *in,
                       td_value *out) {
    (void)fn;
    return case_body(run, run->step, in, out);
}

const case_way case_eager = {.name = "eager", .call = call_eager};

/* Makes tensors that require grad, or never can, or asks whether they may? */
static bool makes_history(const td_gnode *n) {
    return n->kind == TD_N_ENTER
               ? n->region >= TD_R_INFERENCE
               : n->op == TD_OP_requires_grad_ || n->op == TD_OP_detach_;
}

/* Has the call anything to do with gradients? */
static bool has_history(const td_graph *fn, const td_value *in) {
    for (int i = 0; i < fn->nodes.n; i++)
        if (makes_history(fn->nodes.v[i])) return true;
    for (int i = 0; i < fn->inputs.n; i++)
        if (in[i].kind == TD_K_TENSOR && td_requires_grad(in[i].u.t)) return true;
    return false;
}

/* Does the program ask the tape also where nothing requires grad? */
static bool asks_tape(const td_graph *fn) {
    for (int i = 0; i < fn->nodes.n; i++)
        if (fn->nodes.v[i]->kind == TD_N_OP && fn->nodes.v[i]->op == TD_OP_detach_)
            return true;
    return false;
}

static bool sets_flags(const td_graph *fn) {
    for (int i = 0; i < fn->nodes.n; i++)
        if (fn->nodes.v[i]->kind == TD_N_OP &&
            fn->nodes.v[i]->op == TD_OP_requires_grad_)
            return true;
    return asks_tape(fn);
}

/* Functionalizing asks the rules of ops, facts those of the tape. */
static bool obeys_tape(const td_graph *fn, const td_value *in) {
    td_facts *facts = td__facts(fn, in, false);
    td__facts_drop(facts);
    return facts != NULL;
}

static const case_way dynamic;

static td_functional *functionalize(const case_run *run, const td_graph *fn,
                                    const td_value *in) {
    if (run->way != &dynamic) return td__functionalize(fn, in);
    return td__program_may_vary(fn) ? td__functionalize_dynamic(fn, in, TD_DYNAMIC_ALL)
                                    : NULL;
}

/* Is there an op that addresses elements by their place in the storage? */
static bool counts_places(const td_graph *fn) {
    for (int i = 0; i < fn->nodes.n; i++) {
        td_op op = fn->nodes.v[i]->op;
        if (fn->nodes.v[i]->kind == TD_N_OP &&
            (op == TD_OP_as_strided || op == TD_OP_as_strided_ || op == TD_OP_resize_ ||
             op == TD_OP_as_strided_scatter || op == TD_OP_set_))
            return true;
    }
    return false;
}

static bool is_partial(const case_run *run, td_value v) {
    for (int i = 0; i < run->partial.n; i++)
        if (v.kind == TD_K_TENSOR && v.u.t == run->partial.v[i]) return true;
    return false;
}

/* A view that has not asked its base for a history since that was written: traces ask,
 * and then it is no leaf any more. */
static bool has_unasked(const td_graph *fn, const td_value *in) {
    for (int i = 0; i < fn->inputs.n; i++) {
        const td_tensor *t = in[i].kind == TD_K_TENSOR ? in[i].u.t : NULL;
        if (t && t->creation == TD_MADE_PLAIN && td__is_behind(t) && !td__has_node(t))
            return true;
    }
    return false;
}

bool case_functional_may(case_run *run, const td_graph *fn, const td_value *in) {
    bool partial = false;
    if (sets_flags(fn) && has_unasked(fn, in))
        return run->refused = true,
               td__fail(fn->cx, TD_E_UNSUPPORTED,
                        "@%s: changes requires_grad or detaches, and an argument is a "
                        "view whose base has got a history since",
                        fn->name);
    for (int i = 0; i < fn->inputs.n; i++) partial |= is_partial(run, in[i]);
    if (!partial || (!counts_places(fn) && !sets_flags(fn))) return true;
    run->refused = true;
    return td__fail(fn->cx, TD_E_UNSUPPORTED,
                    "@%s: addresses elements by their place in a storage, or changes "
                    "flags, and an argument is a result that is a view, shares its "
                    "storage or came without all of it",
                    fn->name);
}

void case_functional_ran(case_run *run, const td_functional *f, const td_value *out) {
    for (int i = 0; i < f->n_out; i++)
        if (f->out[i].partial && out[i].kind == TD_K_TENSOR &&
            !td__vec_push(&run->partial, out[i].u.t))
            td__fail_memory(f->cx);
}

static bool call_functional(case_run *run, const td_graph *fn, const td_value *in,
                            td_value *out) {
    /* flags of what a call without history left are not eager's */
    bool           history = has_history(fn, in) && !run->values_only;
    td_functional *f = NULL;
    if (run->step->grads || run->step->module)
        return run->refused = true,
               td__fail(fn->cx, TD_E_UNSUPPORTED,
                        "@%s: grads= and module= need a body, and this way of "
                        "execution has the graph alone; check the compiled ones",
                        fn->name);
    if (!case_functional_may(run, fn, in)) return false;
    bool rules = history || (!run->values_only && asks_tape(fn));
    if (!rules || obeys_tape(fn, in)) f = functionalize(run, fn, in);
    if (f && run->values_only) f->no_history = run->values_only;
    if (f && f->no_history && history) run->values_only = f->no_history;
    bool ok = f && td__functional_run(f, in, out) && td__own_grads_leave(fn, in, out);
    if (ok) case_functional_ran(run, f, out);
    /* sizes that depend on values are met when it runs */
    run->refused = !f || (!ok && td_error(fn->cx) == TD_E_UNSUPPORTED);
    td__functional_drop(f);
    return ok;
}

static const case_way functional = {.name = "functional",
                                    .call = call_functional,
                                    .grad_slack = 256,
                                    .saves_copies = true,
                                    .of_graphs = true};

/* The same with symbols for sizes. */
static const case_way dynamic = {.name = "dynamic",
                                 .on_demand = true,
                                 .call = call_functional,
                                 .grad_slack = 256,
                                 .saves_copies = true,
                                 .of_graphs = true};

const case_way *const case_ways[] = {
    &functional,       &dynamic,          &case_compiled[0],
    &case_compiled[1], &case_compiled[2], &case_compiled[3],
    &case_compiled[4], &case_compiled[5], NULL};
