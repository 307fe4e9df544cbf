/* grads.c -- the backward part of a joint graph: tangents are inputs, the engine runs
 * from their roots to the edges of the targets, and the gradients are outputs. If
 * eager's backward fails from a root, its tangent stores the error, and the compiled
 * backward fails in the same way when that tangent arrives. */
#include "core/typed.h"
#include "joint/joint_int.h"
#include "trace/sym.h"

#include <stdio.h>

/* The value of which tangent i is the gradient. */
static td_tensor *tangent_of(const td_joint_run *r, int i) {
    return r->values ? r->values[r->to->tangents[i].index] : NULL;
}

/* Adds tangent i as an input: a tensor without gaps, in its own storage. */
bool td__joint_tangent(td_joint_run *r, int i) {
    td_tangent *to = &r->to->tangents[i];
    td_ctx     *cx = r->cx;
    char        name[24];
    td_meta     m = td__geom_meta(&to->geom);
    m.offset = 0;
    if (r->order) snprintf(name, sizeof name, "t%d_%d", i, r->order + 1);
    else snprintf(name, sizeof name, "t%d", i);
    td_tensor *of = tangent_of(r, i), *given = NULL;
    if (r->opts.tangents && !r->order) given = r->opts.tangents[i];
    bool typed =
        given ? given->typed != NULL : of && of->typed && !r->opts.plain_tangents;
    if (given) td__tensor_meta(given, &m);
    if (given && td__overlaps_itself(given)) /* later ones may not */
        td__strides_dense(m.rank, m.size, m.stride);
    m.offset = 0;
    td_tensor *like = td__tensor_make(cx, &m, true);
    if (!like || (typed && !td__joint_type_tangent(r, like, given ? given : of)))
        return false;
    r->typed_tangents |= !given && typed;
    td_tensor *inner = td__record_input(&r->rec, like, name);
    td_tensor *outer = inner ? td__tensor_alias(cx, like) : NULL;
    if (!outer || (inner->typed && !td__func_unwrap(&r->rec, inner))) return false;
    r->to->g->in_desc.v[r->to->g->in_desc.n - 1] =
        (td_desc){TD_D_TANGENT, (int32_t)i, NULL};
    r->tangent[i] = outer;
    return td__func_give(&r->f, outer, inner);
}

/* Adds a target with edge e, unless another target has the same edge: one tensor passed
 * twice is one target. */
static void add_target(td_joint *j, td_edge *to, td_edge e, td_target t) {
    for (int k = 0; k < j->n_targets; k++)
        if (td__same_edge(to[k], e)) return;
    to[j->n_targets] = e;
    j->targets[j->n_targets++] = t;
}

/* The accumulator of leaf t after event i (-1: at the start of the call), until set_
 * replaces it; NULL: no op reads the leaf in that time. */
static td_node *accumulator_after(const td_joint_run *r, const td_tensor *t, int i) {
    for (int k = i + 1; k < r->log.all.n; k++) {
        const td_event *e = &r->log.all.v[k];
        if (e->t == t && e->op == TD_OP_set_ && e->accum) return e->accum;
    }
    return td__known_accumulator(t);
}

/* Finds the targets whose edge exists only inside the call: leaves that the program
 * sets to require grad, leaves whose metadata changes before an op first reads them,
 * and leaves that set_ gives other sizes, which get a new accumulator. */
static bool find_bound(td_joint_run *r, td_edge *to) {
    td_joint *j = r->to;
    for (int i = 0; i < r->log.all.n; i++) {
        const td_event *e = &r->log.all.v[i];
        bool            renewed = e->op == TD_OP_set_ && e->late;
        bool            leaf = e->leaf || (td__needs_grad(e->t) && !td__has_node(e->t));
        bool changes = e->kind == TD_EV_META && (!e->accum || renewed) && leaf;
        bool begins =
            e->kind == TD_EV_FLAG && e->op == TD_OP_requires_grad_ && e->in[1].u.i;
        td_node *n =
            e->live && (changes || begins) ? accumulator_after(r, e->t, i) : NULL;
        int k = 0;
        if (!n) continue;
        while (k < j->n_targets && to[k].node != n) k++;
        if (k < j->n_targets && begins && !j->targets[k].leaf)
            continue; /* bound at an earlier event */
        if (k == j->n_targets) {
            if (!td__vec_push(&r->bound, n)) return td__fail_memory(r->cx);
            add_target(j, to, (td_edge){.node = td__node_ref(n)},
                       (td_target){.input = td__joint_input(r, e->t)});
        }
        j->targets[k].leaf = true;
        j->targets[k].event = i; /* instead of an earlier event */
    }
    return true;
}

/* A leaf that had no accumulator before the call gets its edge when an op first reads
 * it. */
static void find_first_read(td_joint_run *r, int i) {
    const td_tensor *t = r->inputs[i].real;
    bool             leaf = t && t->flags & TD_TF_NEEDS_GRAD && !td__has_node(t);
    td_node         *n = leaf ? accumulator_after(r, r->inputs[i].outer, -1) : NULL;
    if (n && !r->inputs[i].edge.node)
        r->inputs[i].edge = (td_edge){.node = td__node_ref(n)};
}

/* Lists all targets, reached by tangents or not; to[] gets their edges. */
static bool find_edges(td_joint_run *r, td_edge *to) {
    td_joint *j = r->to;
    for (int i = 0; i < j->n_primals; i++) {
        find_first_read(r, i);
        if (r->inputs[i].edge.node)
            add_target(j, to, r->inputs[i].edge, (td_target){.input = i});
        if (r->inputs[i].base_edge.node)
            add_target(j, to, r->inputs[i].base_edge,
                       (td_target){.input = i, .base = true});
    }
    return find_bound(r, to);
}

/* Drops bases and leaves bound in the call that no tangent leads to: the call does not
 * change their gradients. Inputs stay, in order. */
static void drop_unreached(td_joint *j, td_edge *to) {
    int n = 0, words = td__set_words(j->n_tangents);
    for (int i = 0; i < j->n_targets; i++) {
        td_target t = j->targets[i];
        if ((t.base || t.leaf) && !td__set_any(t.from, words)) continue;
        to[n] = to[i];
        j->targets[n++] = t;
    }
    j->n_targets = n;
}

/* Marks the nodes from `first` on as backward. A backward inside the program belongs to
 * forward. `expect` nodes have been checked in forward, unless backward itself has
 * sizes that depend on values. */
static void tag_backward(td_graph *g, int first) {
    bool shows = false;
    for (int i = 0; i < first; i++) g->nodes.v[i]->origin = TD_FROM_FORWARD;
    for (int i = first; i < g->nodes.n; i++)
        shows |= (td__row(g->nodes.v[i]->op)->flags & TD_OPF_DYNAMIC) != 0;
    for (int i = first; i < g->nodes.n; i++)
        g->nodes.v[i]->origin = shows || g->nodes.v[i]->op != TD_OP_expect
                                    ? TD_FROM_BACKWARD
                                    : TD_FROM_FORWARD;
}

/* Stores the write counts of the inputs before the backward, and their geometry. */
static bool note_inputs(td_joint_run *r, td_geom *to) {
    for (int i = 0; i < r->to->n_primals; i++) {
        td_traced_input *of = &r->inputs[i];
        if (!of->outer) continue;
        of->before = td__func_writes(&r->f, of->nr);
        of->version = atomic_load(&of->outer->st->version);
        if (!td__geom_copy(r->cx, &r->to->arena, &to[i], of->outer)) return false;
    }
    return true;
}

/* The backward of a custom function may write elements of an input. It may not change
 * metadata: compiled code cannot do that when backward runs. */
static bool check_geometry(td_joint_run *r, const td_geom *was) {
    for (int i = 0; i < r->to->n_primals; i++) {
        if (!r->inputs[i].outer) continue;
        td_geom now = td__geom_of(r->inputs[i].outer);
        if (!td__geom_same(&now, &was[i]))
            return td__fail(r->cx, TD_E_UNSUPPORTED,
                            "@%.60s: unsupported: the backward of a custom function "
                            "changes sizes or strides of input %d. Change those of a "
                            "view of it",
                            r->program->name, i);
    }
    return true;
}

/* The storage of result i; NULL: the result is not a tensor, or shares the storage of
 * an input, whose writes td__joint_add_late_writes handles. */
static td_storage *own_storage(const td_joint_run *r, int i) {
    td_tensor *t = r->out[i].kind == TD_K_TENSOR ? r->out[i].u.t : NULL;
    return t && !td__joint_is_input(r, t->st) ? t->st : NULL;
}

/* Stores the versions of the results before the backward. NULL after td__fail. */
static uint64_t *note_results(td_joint_run *r) {
    int       n = r->to->n_results;
    uint64_t *to = td__arena_zalloc(&r->to->arena, sizeof *to * ((size_t)n + 1));
    if (!to) return td__fail_memory(r->cx), NULL;
    for (int i = 0; i < n; i++)
        if (own_storage(r, i)) to[i] = td__version(r->out[i].u.t);
    return to;
}

static bool fail_result(const td_joint_run *r, int i) {
    return td__fail(r->cx, TD_E_UNSUPPORTED,
                    "@%.60s: unsupported: the backward of a custom function writes "
                    "result %d. Write a clone of it",
                    r->program->name, i);
}

/* A custom backward may not write a result, for example a saved one: the caller has the
 * result by then. */
static bool check_results(const td_joint_run *r, const uint64_t *was) {
    for (int i = 0; i < r->to->n_results; i++)
        if (own_storage(r, i) && td__version(r->out[i].u.t) != was[i])
            return fail_result(r, i);
    return true;
}

static bool is_input(const void *env, const td_storage *st) {
    return td__joint_is_input(env, st);
}

/* The sum of the versions of the body's own tensors that hooks read. Writes to inputs
 * are handled by td__joint_add_late_writes. */
static uint64_t hooked_versions(const td_joint_run *r) {
    return td__hooks_versions(r->cx, r->cx->hooks_before, is_input, r);
}

/* A hook may return a tensor of the body as the gradient, and a later hook may write
 * that gradient. In eager, the next hook and the next backward read the new elements;
 * in a graph each backward starts with the values of the call. */
static bool check_hooked(const td_joint_run *r, uint64_t was) {
    return hooked_versions(r) == was ||
           td__fail(
               r->cx, TD_E_UNSUPPORTED,
               "td_on_grad: unsupported: in the backward of @%.60s a hook writes a "
               "result, a written argument, or a gradient that another hook has "
               "returned, and hooks read that tensor. Use td_clone of it",
               r->program->name);
}

/* Adds one output for each target, NONE if the engine gave no gradient. */
static bool put_grads(td_joint_run *r, td_tensor *const *grads) {
    for (int i = 0; i < r->to->n_targets; i++) {
        td_desc d = {TD_D_GRAD, (int32_t)i, NULL};
        if (!grads[i]) {
            td_garg none = {0};
            if (!td__graph_output(r->to->g, none, d)) return false;
            continue;
        }
        if (td__joint_output(r, td__func_value(&r->f, grads[i]), d) < 0) return false;
    }
    return true;
}

/* Does the tangent arrive in a backward that starts at all results, or at the loss? */
static bool arrives(const td_joint_run *r, int i) {
    const td_joint_opts *o = &r->opts;
    bool                 loss = o->loss > 0 && o->loss <= r->to->n_results;
    return !loss || r->to->fwd[r->to->tangents[i].index].result == o->loss - 1;
}

/* Fills roots[] with the roots whose tangents arrive, and with[] with the tangents. If
 * all are missing, a gradient without a value arrived at an unknown result: the node of
 * each root runs without a gradient, and custom backwards receive zeros. */
static int choose_roots(const td_joint_run *r, const uint64_t *missing,
                        td_tensor **roots, td_tensor **with) {
    const td_joint *j = r->to;
    bool            none = missing != NULL;
    int             n = 0;
    for (int i = 0; i < j->n_tangents; i++) none = none && td__set_has(missing, i);
    for (int i = 0; i < j->n_tangents; i++) {
        bool here = missing ? !td__set_has(missing, i) : arrives(r, i);
        if (j->tangents[i].broken || (!here && !none)) continue;
        roots[n] = r->roots[i];
        with[n++] = here ? r->tangent[i] : NULL;
    }
    return n;
}

/* Runs the backward engine from the roots whose tangents arrive, towards r->goal.
 * Tangents of roots that eager cannot differentiate (`broken`) are left out. order
 * NULL: first gradients; otherwise with create_graph. */
static bool go_from(td_joint_run *r, const uint64_t *missing,
                    const td_grad_order *order, td_tensor **grads) {
    td_joint   *j = r->to;
    td_tensor **roots = td__alloc(2 * sizeof *roots * (size_t)(j->n_tangents + 1));
    if (!roots) return td__fail_memory(r->cx);
    td_tensor  **with = roots + j->n_tangents + 1;
    int          n = choose_roots(r, missing, roots, with);
    td_grad_opts o = {TD_GRAD_OPTS, .retain_graph = !order,
                      .create_graph = order != NULL, .grads = {with, n}};
    bool         ok = n == 0 ||
              td__grad_all((td_tensors){roots, n}, r->goal, j->n_targets, grads, &o);
    td__free((void *)roots);
    return ok;
}

bool td__joint_go_back(td_joint_run *r, const td_grad_order *order, td_tensor **grads) {
    return go_from(r, order ? order->missing : r->opts.missing, order, grads);
}

/* Has g, or a graph in it, a branch or a loop? */
static bool has_branch(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind != TD_N_OP) continue;
        if (n->op == TD_OP_cond || n->op == TD_OP_cond_forward ||
            n->op == TD_OP_while_loop)
            return true;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k].kind == TD_G_GRAPH && has_branch(n->in[k].u.g)) return true;
    }
    return false;
}

/* The engine failed from one root. Eager may not fail: no gradient arrives at the
 * operands of a branch that does not run, and it saves none for it. */
static void note_branches(const td_joint_run *r) {
    if (has_branch(r->to->g))
        td__refuse_capture(r->cx, "a compiled backward passes through both branches "
                                  "of td_cond and all of td_while, and fails there");
}

/* Stores the engine's error in *to and clears it. False: eager may not fail, or
 * td__fail. */
static bool take_error(td_joint_run *r, td_code *code, const char **to) {
    td_joint *j = r->to;
    if (!td__is_eagers(td__error(r->cx)) || td__symenv_assumed()) return false;
    note_branches(r);
    *code = td__error(r->cx);
    *to = td__arena_strdup(&j->arena, td__message(r->cx));
    td_clear(r->cx);
    if (!*to) return td__fail_memory(r->cx);
    return td__joint_check_leaves(r, true);
}

/* The engine works from each root and failed from all of them: two gradients of one
 * tensor may be of types that have no sum. Stores the error. The gradients are those of
 * the first tangents that work together; other sets of tangents have graphs of their
 * own. */
static bool go_apart(td_joint_run *r, td_tensor **grads) {
    td_joint *j = r->to;
    size_t    words = (size_t)td__set_words(j->n_tangents);
    uint64_t *missing = td__arena_zalloc(&j->arena, sizeof *missing * words);
    if (!missing) return td__fail_memory(r->cx);
    if (r->opts.missing || !take_error(r, &j->code, &j->broken)) return false;
    for (int i = 0; i < j->n_tangents; i++) td__set_add(missing, i);
    for (int i = 0; i < j->n_tangents; i++) {
        if (j->tangents[i].broken || !arrives(r, i)) continue;
        td__set_drop(missing, i);
        if (go_from(r, missing, NULL, grads)) continue;
        if (!td__is_eagers(td__error(r->cx))) return false;
        td_clear(r->cx);
        td__set_add(missing, i);
    }
    memset(grads, 0, sizeof(td_tensor *) * (size_t)j->n_targets);
    return go_from(r, missing, NULL, grads);
}

/* The engine failed: finds the roots from which it fails, one by one, and stores their
 * errors; then runs it from the others. */
static bool find_broken(td_joint_run *r, td_tensor **grads) {
    td_joint *j = r->to;
    td_clear(r->cx);
    for (int i = 0; i < j->n_tangents; i++) {
        td_tensors   root = {&r->roots[i], 1}, with = {&r->tangent[i], 1};
        td_grad_opts o = {TD_GRAD_OPTS, .retain_graph = true, .grads = with};
        if (td__grad_all(root, r->goal, j->n_targets, grads, &o)) continue;
        if (!take_error(r, &j->tangents[i].code, &j->tangents[i].broken)) return false;
    }
    memset(grads, 0, sizeof(td_tensor *) * (size_t)j->n_targets);
    return td__joint_go_back(r, NULL, grads) || go_apart(r, grads);
}

/* Finds the edges that gradients go to: of inputs, of their bases, and of leaves made
 * in the call. Drops targets that no tangent reaches: eager gives them no gradient. */
bool td__joint_targets(td_joint_run *r) {
    td_joint *j = r->to;
    size_t    n = 2 * (size_t)j->n_primals + (size_t)r->log.all.n + 1;
    r->goal = td__arena_zalloc(&j->arena, sizeof *r->goal * n);
    j->targets = td__arena_zalloc(&j->arena, sizeof *j->targets * n);
    if (!r->goal || !j->targets) return td__fail_memory(r->cx);
    if (!find_edges(r, r->goal) || !td__joint_reach(r, r->goal)) return false;
    if (!td__joint_check_saved(r)) return false;
    drop_unreached(j, r->goal);
    return true;
}

/* ---- what hooks read, and custom functions have stashed ------------------ */

bool td__joint_fail_hook(const td_joint_run *r, int i) {
    return td__fail(r->cx, TD_E_UNSUPPORTED,
                    "td_on_grad: unsupported: the hook reads argument %d, which the "
                    "body writes, through a view, with other sizes or for a gradient "
                    "of a gradient. Let the hook read td_clone of it",
                    i);
}

/* The number of tensor t for op _held: it is an argument or a result that keeps its
 * sizes. False: it is none. */
static bool held_number(const td_joint_run *r, const td_tensor *t, int64_t *nr) {
    int input = td__joint_input(r, t);
    if (t->typed || td__tensor_summary(r, t)->meta_written) return false;
    *nr = -1 - input;
    if (input >= 0) return t->st == r->f.in.v[r->inputs[input].nr].st;
    for (int i = 0; i < r->log.all.n; i++) {
        const td_event *e = &r->log.all.v[i];
        if (e->kind != TD_EV_MADE || !e->live || e->t != t || e->out_nr < 0) continue;
        *nr = e->out_nr;
        return true;
    }
    return false;
}

/* The argument and the result that share the storage of a tensor; -1: none does. */
typedef struct sharers {
    int  input, result;
    bool written; /* the body writes the argument's */
} sharers;

static sharers sharers_of(const td_joint_run *r, const td_tensor *t) {
    sharers s = {-1, -1, false};
    for (int i = 0; i < r->to->n_primals && s.input < 0; i++)
        if (r->inputs[i].outer && r->inputs[i].outer->st == t->st) s.input = i;
    for (int i = 0; i < r->to->n_results && s.result < 0; i++)
        if (r->out[i].kind == TD_K_TENSOR && r->out[i].u.t->st == t->st) s.result = i;
    const td_storage_summary *st = td__storage_summary(r, t->st);
    s.written = s.input >= 0 && st && st->changed;
    return s;
}

/* The value in place of which backward reads tensor t of the call. */
static td_tensor *hold(const td_joint_run *r, td_tensor *t, int64_t nr) {
    td_tensor *to = td_op__held(t, t, nr);
    td_gnode  *n = r->to->g->nodes.v[r->to->g->nodes.n - 1];
    if (n->op == TD_OP__held) n->tags = TD_TAG(TD_MUST_SAVE, 0);
    return to;
}

/* td_stand_in: a hook reads t, whose storage the caller or the epilogue may write
 * before backward. Unwritten arguments are saved as they are (op _late). */
static td_tensor *stand_in(void *env, td_tensor *t) {
    const td_joint_run *r = env;
    sharers             s = sharers_of(r, t);
    int64_t             nr;
    if (s.input >= 0 ? !s.written : s.result < 0) return NULL;
    if (held_number(r, t, &nr)) return hold(r, t, nr);
    if (s.input >= 0) td__joint_fail_hook(r, s.input);
    else td__hooks_fail_result(r->cx, t, s.result);
    return NULL;
}

/* td_stand_in of what custom functions have stashed. Where neither the argument nor a
 * tensor of the call can be read late, the value is saved as any other, and its version
 * is checked. */
static td_tensor *stashed(void *env, td_tensor *t) {
    const td_joint_run *r = env;
    sharers             s = sharers_of(r, t);
    int64_t             nr;
    if (t->typed || (s.input < 0 && s.result < 0)) return NULL;
    if (s.input >= 0 && !s.written) return t;
    return held_number(r, t, &nr) ? hold(r, t, nr) : NULL;
}

/* After the backward: what is held in place of a stashed tensor of the call must be as
 * it was, for a write would not reach the tensor. */
static bool check_stashed(const td_joint_run *r) {
    const td_tensor *t = td__stashes_written(r->cx, r->cx->hooks_before);
    if (TD_LIKELY(!t)) return true;
    sharers s = sharers_of(r, t);
    if (s.input >= 0) return td__joint_fail_twice(r, s.input);
    return fail_result(r, s.result);
}

/* In a program, which may be a text, _held is a copy. */
static bool replace_hooked(td_joint_run *r) {
    td_ctx *cx = r->cx;
    for (int i = 0; i < r->to->g->nodes.n; i++) {
        td_gnode *n = r->to->g->nodes.v[i];
        if (n->op != TD_OP__held) continue;
        n->op = TD_OP_copy;
        n->n_in = 2;
    }
    return cx->last_hook == cx->hooks_before || r->opts.n_orders || r->opts.nested ||
           (td__hooks_replace(cx, cx->hooks_before, stand_in, r) &&
            td__stashes_replace(cx, cx->hooks_before, stashed, r));
}

/* Appends the backward to the joint graph. If eager itself would fail, each tangent is
 * tried alone, so that the error appears only in a backward that uses it. Writes that
 * custom backwards do to inputs become updates. */
bool td__joint_differentiate(td_joint_run *r) {
    td_joint *j = r->to;
    td_arena *a = &j->arena;
    size_t    n = (size_t)j->n_primals + 1;
    if (!replace_hooked(r)) return false;
    int      first = j->g->nodes.n;
    td_geom *geoms = td__arena_zalloc(a, sizeof *geoms * n);
    if (!geoms || !note_inputs(r, geoms)) return geoms ? false : td__fail_memory(r->cx);
    uint64_t *versions = note_results(r);
    uint64_t  hooked = hooked_versions(r);
    if (!versions) return false;
    r->first_tangent = r->f.in.n;
    for (int i = 0; i < j->n_tangents; i++)
        if (!td__joint_tangent(r, i)) return false;
    if (!(r->order ? td__joint_reach(r, r->goal) : td__joint_targets(r))) return false;
    td_tensor **grads = td__arena_zalloc(a, sizeof *grads * ((size_t)j->n_targets + 1));
    if (!grads) return td__fail_memory(r->cx);
    bool ok = td__joint_go_back(r, NULL, grads) ||
              (td__is_eagers(td__error(r->cx)) && find_broken(r, grads));
    ok = ok && check_geometry(r, geoms) && check_results(r, versions) &&
         check_hooked(r, hooked) && check_stashed(r) && put_grads(r, grads) &&
         td__joint_add_late_writes(r);
    tag_backward(j->g, first);
    return ok;
}
