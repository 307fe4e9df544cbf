/* trace.c -- makes a joint graph: the program is replayed under log, tape, functional
 * mode and recorder, then the engine runs while the recorder continues. The program
 * works on outer tensors, which have eager's metadata, aliasing and history. The
 * recorder, below the functional mode, receives only pure ops on inner tensors. */
#include "joint/joint_int.h"
#include "ops/call.h"

#include <stdio.h>

/* ---- arguments ---------------------------------------------------------- */

/* Finds inputs that are the same tensor, and inputs that share bytes: their copies stay
 * views of their base. */
static bool find_aliases(td_joint_run *r) {
    td_ptrmap first = {0}; /* by tensor, and by bytes: 1 + the first such input */
    bool      ok = true;
    for (int i = 0; ok && i < r->to->n_primals; i++) {
        td_tensor *t = r->inputs[i].real;
        r->to->primals[i].same = i;
        if (!t) continue;
        const void *bytes = t->st->data ? t->st->data : (const void *)t->st;
        uintptr_t   same = (uintptr_t)td__ptrmap_get(&first, t);
        uintptr_t   near = (uintptr_t)td__ptrmap_get(&first, bytes);
        void       *own = (void *)(uintptr_t)(i + 1);
        if (same) r->to->primals[i].same = (int)same - 1;
        else ok = td__ptrmap_put(&first, t, own);
        if (!near) ok = ok && td__ptrmap_put(&first, bytes, own);
        if (!near || r->inputs[near - 1].real == t) continue;
        r->inputs[i].shares = true;
        if (r->inputs[near - 1].real->st == t->st) r->inputs[near - 1].shares = true;
    }
    td__ptrmap_free(&first);
    return ok || td__fail_memory(r->cx);
}

/* Properties of a program that decide whether views may be copied as plain tensors. */
typedef struct traits {
    bool leaves;  /* it may make a view a leaf: by requires_grad_, or by set_
                     to the storage of a tensor that requires grad */
    bool meta;    /* it writes metadata */
    bool no_grad; /* it may write metadata under no_grad */
    bool places;  /* it reads elements of a storage outside of a tensor */
    bool hooks;   /* it registers hooks; on a view they get no gradients of the base */
} traits;

static traits traits_of(const td_graph *p) {
    traits to = {.places = td__graph_flags(p, TD_OPF_PLACES)};
    bool   region = !p->cx->grad_enabled;
    for (int i = 0; i < p->nodes.n; i++) {
        const td_gnode *n = p->nodes.v[i];
        region |= n->kind == TD_N_ENTER;
        if (n->kind != TD_N_OP) continue;
        to.leaves |= n->op == TD_OP_requires_grad_ || n->op == TD_OP_set_;
        to.meta |= td__op_writes_geometry(n->op);
        to.hooks |= n->op == TD_OP_on_grad;
    }
    to.no_grad = to.meta && region;
    return to;
}

/* The input that a writing node writes directly, not through a view; NULL: none. */
static const td_gval *written_input(const td_gnode *n) {
    const td_gval *v = n->in[0].kind == TD_G_VALUE ? n->in[0].u.v : NULL;
    while (v && v->node && td__opinfo(v->node->op)->writes &&
           v->node->in[0].kind == TD_G_VALUE)
        v = v->node->in[0].u.v;
    return v && !v->node ? v : NULL;
}

/* Marks the inputs that detach_ is called on: it fails on views, so views stay views.
 * If the op's operand is not an input, it may be any view. */
static void find_detached(const td_joint_run *r) {
    const td_graph *p = r->program;
    for (int i = 0; i < p->nodes.n; i++) {
        const td_gnode *n = p->nodes.v[i];
        if (n->kind != TD_N_OP || n->op != TD_OP_detach_) continue;
        const td_gval *v = written_input(n); /* NULL: maybe the result of an op */
        for (int k = 0; k < r->to->n_primals; k++) {
            const td_tensor *t = r->inputs[k].real;
            if (t && (v ? t == r->inputs[v->nr].real : t->base != NULL))
                r->inputs[k].shares = true;
        }
    }
}

/* Does view t behave in this program like a tensor that is not a view? Then its copy is
 * not a view, which keeps the base out of the graph: t may be written, and its history,
 * if any, is that of an ordinary tensor. */
static bool is_plain(const traits *p, const td_tensor *t) {
    if (!t->base) return true;
    if (t->creation != TD_MADE_PLAIN || td__is_apart(t)) return false;
    if (t->base->st != t->st)
        return !td__needs_grad(t); /* a write records a node for the base */
    if (!td__needs_grad(t)) return !p->leaves;
    if (td__overlaps_itself(t)) return false; /* the base does not overlap */
    /* elements outside the view have the history of the base, and so have writes after
     * set_ */
    if (p->places || p->hooks) return false;
    /* the view's history is that of its base; views of leaves keep their geometry */
    return td__has_node(t) && td__needs_grad(t->base) && !p->no_grad &&
           (!p->meta || td__has_node(t->base));
}

/* Makes the outer tensors: fake copies of the inputs. Copies of .grad inputs come
 * first, because copying a tensor copies its .grad. */
static bool find_inputs(td_joint_run *r, const td_value *in) {
    const td_graph *p = r->program;
    traits          of = traits_of(p);
    if (!td__program_inputs(p, in, r->in)) return false;
    for (int i = 0; i < p->inputs.n; i++)
        if (r->in[i].kind == TD_K_TENSOR) r->inputs[i].real = r->in[i].u.t;
    if (!find_aliases(r)) return false;
    find_detached(r);
    for (int grads = 1; grads >= 0; grads--) /* .grad inputs first */
        for (int i = 0; i < p->inputs.n; i++) {
            td_traced_input *to = &r->inputs[i];
            bool             grad = p->in_desc.v[i].kind == TD_D_OWN_GRAD;
            if (!to->real || grad != (grads == 1)) continue;
            bool shares = to->shares || r->inputs[r->to->primals[i].same].shares;
            r->fakes.flat = !shares && is_plain(&of, to->real);
            if (!(to->outer = td__fake_copy(&r->fakes, to->real))) return false;
        }
    return true;
}

/* Adds input i to the graph and registers its inner tensor with the functional mode: an
 * alias without history, one alias for a tensor that is passed twice. */
static bool give_tensor(td_joint_run *r, int i) {
    td_graph        *g = r->to->g;
    td_traced_input *to = &r->inputs[i];
    int              same = r->to->primals[i].same;
    to->alias = same == i ? td__tensor_alias(r->cx, to->real) : r->inputs[same].alias;
    td_tensor *t =
        to->alias ? td__record_input(&r->rec, to->alias, r->program->inputs.v[i]->name)
                  : NULL;
    if (!t) return false;
    td_gval *v = g->inputs.v[i];
    td_desc *d = &g->in_desc.v[i];
    v->type = td__graph_type(g, t, td__needs_grad(to->outer), v->type->storage);
    *d = r->program->in_desc.v[i];
    if (d->kind == TD_D_CONST) /* the caller passes a const like an argument */
        *d = (td_desc){TD_D_PARAM, -1, v->name};
    if (!v->type || (d->name && !(d->name = td__graph_str(g, d->name)))) return false;
    if (TD_UNLIKELY(t->typed) && same == i && !td__func_unwrap(&r->rec, t))
        return false;
    to->nr = r->f.in.n;
    r->in[i] = td_value_tensor(to->outer);
    return td__geom_copy(r->cx, &r->to->arena, &to->geom, to->outer) &&
           td__func_give(&r->f, to->outer, t);
}

static bool give_inputs(td_joint_run *r) {
    const td_graph *p = r->program;
    for (int i = 0; i < r->to->n_primals; i++) {
        const td_gtype *l = p->inputs.v[i]->type;
        if (r->inputs[i].real) {
            if (!give_tensor(r, i))
                return td_ok(r->cx) ? td__fail_memory(r->cx) : false;
            continue;
        }
        if (l) l = td__graph_type_of(r->to->g, *l);
        if (!td__graph_input(r->to->g, p->inputs.v[i]->name, l, p->in_desc.v[i]))
            return false;
    }
    return true;
}

/* Finds the gradient edges of inputs and of their bases before the program runs. A
 * stale view has none yet: reading its edge would recompute its grad_fn, which eager
 * does at its first use. A leaf without accumulator gets its edge when an op first
 * reads it. */
static bool find_edges(td_joint_run *r) {
    for (int i = 0; i < r->to->n_primals; i++) {
        td_traced_input *of = &r->inputs[i];
        td_tensor       *t = of->outer, *base = t ? t->base : NULL;
        if (!t || !td__needs_grad(t)) continue;
        bool later =
            td__is_behind(t) || (!td__has_node(t) && !td__known_accumulator(of->real));
        if (!later && !td__edge_of(t, &of->edge)) return false;
        if (base && td__needs_grad(base) && !td__edge_of(base, &of->base_edge))
            return false;
    }
    return true;
}

static void drop_edges(td_joint_run *r) {
    for (int i = 0; r->inputs && i < r->to->n_primals; i++) {
        if (r->inputs[i].edge.node) td__node_drop(r->inputs[i].edge.node);
        if (r->inputs[i].base_edge.node) td__node_drop(r->inputs[i].base_edge.node);
    }
    for (int i = 0; i < r->bound.n; i++) td__node_drop(r->bound.v[i]);
    td__vec_free(&r->bound);
}

/* ---- outputs ------------------------------------------------------------ */

int td__joint_output(td_joint_run *r, td_tensor *value, td_desc d) {
    td_gval *g = value ? td__record_value(&r->rec, &value, "an output") : NULL;
    if (!g || !td__graph_output(r->to->g, td__garg_value(g), d)) return -1;
    return r->to->g->outputs.n - 1;
}

/* ---- the run ------------------------------------------------------------ */

/* Ends the modes. Edges are dropped first, while the tape that made them exists. */
static void end_recording(td_joint_run *r) {
    td_ctx *cx = r->cx;
    drop_edges(r);
    cx->grad_enabled = cx->inference = false;
    td__func_end(&r->f);
    td__record_end(&r->rec);
}

/* Refuses a storage that grows while sizes are symbolic: its new size, and which bytes
 * are new, depend on the numbers. */
static bool check_growth(td_joint_run *r) {
    for (int i = 0; td__dim_tracing() && i < r->to->n_primals; i++) {
        const td_func_in *in = r->inputs[i].outer ? &r->f.in.v[r->inputs[i].nr] : NULL;
        if (in && (in->st->open || in->st->span) && in->st->bytes != in->bytes)
            return td__fail(r->cx, TD_E_UNSUPPORTED,
                            "@%.60s: unsupported: the storage of input %d grows, and "
                            "sizes are dynamic. Resize it before the call, or compile "
                            "for fixed sizes (dynamic=off)",
                            r->program->name, i);
    }
    return true;
}

/* After the replay: finds written inputs, forward outputs and tangents of the current
 * order. */
static bool plan_order(td_joint_run *r) {
    td_joint *j = r->to;
    for (int i = 0; i < j->n_primals; i++)
        if (r->inputs[i].outer)
            j->primals[i].written =
                td__func_writes(&r->f, r->inputs[i].nr) > r->inputs[i].before;
    size_t n = (size_t)r->log.all.n + 1;
    r->roots = td__arena_zalloc(&j->arena, sizeof *r->roots * n);
    r->tangent = td__arena_zalloc(&j->arena, sizeof *r->tangent * n);
    j->tangents = td__arena_zalloc(&j->arena, sizeof *j->tangents * n);
    if (!r->roots || !r->tangent || !j->tangents) return td__fail_memory(r->cx);
    return check_growth(r) && td__joint_share_inner(r) && td__epilogue_values(r);
}

/* Replays the program in the grad mode and default dtype of the call. */
static bool run_program(td_joint_run *r, const td_ambient *outside) {
    td_ctx *cx = r->cx;
    bool    ok = give_inputs(r) && find_edges(r);
    td__modes_resume(cx, outside);
    cx->whole = r->opts.n_orders > 0; /* gradients are differentiated op by op */
    cx->grad_enabled &= r->opts.train;
    r->grad = cx->grad_enabled;
    r->inference = cx->inference;
    td__log_begin(&r->log, cx, &r->f);
    ok = ok && td__graph_replay(r->program, r->in, r->out) &&
         td__copies_returned(cx, r->out, r->to->n_results) &&
         td__record_asserts(&r->rec);
    td__log_end(&r->log);
    cx->grad_enabled = cx->inference = false;
    return ok;
}

/* Passes the replayed program to the callback of td__joint_look. */
static bool look_at(td_joint_run *r, const td_ambient *outside) {
    td_replayed to = {.program = r->program,
                      .g = r->to->g,
                      .cx = r->cx,
                      .f = &r->f,
                      .log = &r->log,
                      .inputs = r->inputs,
                      .out = r->out};
    td__modes_resume(r->cx, outside);
    bool ok = r->look(r->look_env, &to);
    r->cx->grad_enabled = r->cx->inference = false;
    return ok;
}

/* Finds sizes of results that may differ between calls. The results of an order above
 * the first are gradients, whose sizes are those of existing tensors. */
static bool find_varying(td_joint_run *r) {
    td_joint *j = r->to;
    j->varies =
        td__arena_zalloc(&j->arena, sizeof *j->varies * ((size_t)j->n_results + 1));
    if (!j->varies) return td__fail_memory(r->cx);
    for (int i = 0; i < j->n_results && !j->order; i++) {
        const td_tensor *t = r->out[i].kind == TD_K_TENSOR ? r->out[i].u.t : NULL;
        for (int d = 0; t && d < t->rank; d++)
            if (td__dim_is_sym(td__dim_now(t->size[d])))
                j->varies[i] |= (uint32_t)1 << d;
    }
    return td_ok(r->cx);
}

bool td__joint_is_input(const td_joint_run *r, const td_storage *st) {
    for (int i = 0; i < r->to->n_primals; i++)
        if (r->inputs[i].outer && r->inputs[i].outer->st == st) return true;
    return false;
}

/* A hook runs in backward and reads the elements that its tensors have then. These
 * equal the values of the call for tensors that nobody else can write. The backward of
 * a backward, of a branch or of a region has values of the others, which must not
 * change. */
static bool check_hooks(const td_joint_run *r) {
    td_ctx *cx = r->cx;
    bool    values = r->opts.n_orders > 0 || r->opts.nested;
    if (cx->last_hook == cx->hooks_before) return true;
    for (int i = 0; i < r->to->n_primals; i++) {
        const td_tensor          *t = r->inputs[i].outer;
        const td_storage_summary *st = t ? td__storage_summary(r, t->st) : NULL;
        if (t && !r->opts.n_orders) td__hooks_note_given(cx, cx->hooks_before, t->st);
        bool reads = values && st && st->changed;
        if (reads && td__hooks_read(cx, cx->hooks_before, t->st))
            return td__joint_fail_hook(r, i);
    }
    for (int i = 0; values && i < r->to->n_results; i++) {
        const td_tensor *t = r->out[i].kind == TD_K_TENSOR ? r->out[i].u.t : NULL;
        if (t && !td__joint_is_input(r, t->st) &&
            td__hooks_read(cx, cx->hooks_before, t->st))
            return td__hooks_fail_result(cx, t, i);
    }
    return true;
}

/* From the replayed program to the joint graph and its epilogue. */
static bool finish(td_joint_run *r) {
    td_joint *j = r->to;
    j->order = r->opts.n_orders;
    j->left = r->opts.n_orders ? 0 : r->program->left;
    bool ok = td__log_index(r) && check_hooks(r) && plan_order(r);
    for (int i = 0; ok && i < r->opts.n_orders; i++)
        ok = td__joint_raise(r, &r->opts.orders[i]) && plan_order(r);
    j->n_fwd = j->g->outputs.n;
    if (!j->n_tangents) j->n_targets = 0; /* of an order above the first */
    if (ok && j->n_tangents) ok = td__joint_differentiate(r);
    return ok && td__epilogue_write(r) && td__joint_add_writes(r) &&
           td__joint_keep_sizes(j) && find_varying(r);
}

/* An effect has happened in the call. If gradients of gradients read its result,
 * recomputing the result would repeat the effect. */
static bool refuse_repeats(td_graph *g, const td_gnode *n) {
    return !td__gnode_has_effect(n) ||
           td__fail(g->cx, TD_E_UNSUPPORTED,
                    "%.60s: a backward with create_graph reads the result of %s, and "
                    "would repeat its effect to compute it. Pass the result to the "
                    "function as an argument, or call the op on td_detach of a value "
                    "and do not read its result",
                    g->name, td__row(n->op)->name);
}

/* The program has run in the call with the same values: its checks passed and its
 * effects happened. Of an order above the first, only nodes that gradients are computed
 * from stay. */
static bool drop_program_effects(td_joint_run *r) {
    td_graph *g = r->to->g;
    for (int i = 0; i < r->first; i++) g->nodes.v[i]->origin = TD_FROM_BEFORE;
    bool ok = td__graph_dce(g);
    for (int i = 0; ok && i < g->nodes.n; i++) {
        if (g->nodes.v[i]->origin != TD_FROM_BEFORE) continue;
        g->nodes.v[i]->origin = TD_FROM_FORWARD;
        ok = refuse_repeats(g, g->nodes.v[i]);
    }
    return ok;
}

static bool trace(td_joint_run *r, const td_ambient *outside) {
    td__func_record(&r->f, r->cx, &r->rec, r->to->g);
    bool ok = run_program(r, outside) && (r->look ? look_at(r, outside) : finish(r));
    end_recording(r);
    if (ok && r->order) ok = drop_program_effects(r);
    return ok && (r->look || td__graph_verify(r->to->g, TD_STAGE_JOINT));
}

/* ---- beginning and end -------------------------------------------------- */

static bool allocate(td_joint_run *r) {
    td_joint *j = r->to;
    td_arena *a = &j->arena;
    size_t    n = (size_t)j->n_primals + 1, m = (size_t)j->n_results + 1;
    r->in = td__arena_zalloc(a, sizeof *r->in * n);
    r->out = td__arena_zalloc(a, sizeof *r->out * m);
    r->inputs = td__arena_zalloc(a, sizeof *r->inputs * n);
    j->primals = td__arena_zalloc(a, sizeof *j->primals * n);
    j->feeds = td__arena_zalloc(a, sizeof *j->feeds * m);
    bool ok = r->in && r->out && r->inputs && j->primals && j->feeds;
    return ok || td__fail_memory(r->cx);
}

/* Traces with the ambient state of the context set aside (core/ambient.c). */
static bool run(td_joint_run *r, const td_value *in) {
    td_outside o;
    if (!allocate(r) || !td__ambient_clear(r->cx, &o)) return false;
    r->to->g = td__graph_make(r->cx, r->program->name);
    bool ok = r->to->g && find_inputs(r, in) && trace(r, &o.was);
    td__ambient_restore(r->cx, &o, ok);
    td__log_index_free(r);
    td__log_free(&r->log);
    for (int i = 0; i < r->logs.n; i++) td__log_free(&r->logs.v[i]);
    td__vec_free(&r->logs);
    td__faker_end(&r->fakes);
    return ok;
}

/* Begins a run, allocated because it is too large for small stacks. NULL after
 * td__fail. */
static td_joint_run *begin(const td_graph *program, const td_joint_opts *opts) {
    td_joint_run *r = td__zalloc(sizeof *r);
    td_joint     *j = r ? td__zalloc(sizeof *j) : NULL;
    if (!j) return td__free(r), td__fail_memory(program->cx), NULL;
    r->program = program;
    r->opts = *opts;
    r->to = j;
    r->cx = r->fakes.cx = j->cx = program->cx;
    j->n_primals = program->inputs.n;
    j->n_results = program->outputs.n;
    return r;
}

/* Runs it and frees it. NULL after td__fail. */
static td_joint *end(td_joint_run *r, const td_value *in, bool *typed) {
    td_joint *j = r->to;
    bool      ok = run(r, in);
    *typed = r->typed_tangents;
    td__free(r);
    if (ok) return j;
    td__joint_drop(j);
    return NULL;
}

/* Makes a joint graph. *typed: some tangents have the type of their value. */
static td_joint *join(const td_graph *program, const td_value *in,
                      const td_joint_opts *opts, bool *typed) {
    td_joint_run *r = begin(program, opts);
    return r ? end(r, in, typed) : NULL;
}

/* Tangents of a typed value have its type first. If that is unsupported, they are
 * plain: a type that computes with plain tensors mostly has plain gradients. */
td_joint *td__joint(const td_graph *program, const td_value *in,
                    const td_joint_opts *opts) {
    td_joint_opts plain = *opts;
    td_ctx       *cx = program->cx;
    bool          typed = false;
    char          why[600];
    td_joint     *j = join(program, in, opts, &typed);
    if (j || !typed || td__error(cx) != TD_E_UNSUPPORTED) return j;
    snprintf(why, sizeof why, "%.560s", td__message(cx));
    td_clear(cx);
    plain.plain_tangents = true;
    if ((j = join(program, in, &plain, &typed))) return j;
    bool memory = td__error(cx) == TD_E_MEMORY;
    if (!memory) td_clear(cx);
    if (!memory) td__fail(cx, TD_E_UNSUPPORTED, "%s", why);
    return NULL;
}

bool td__joint_look(const td_graph *program, const td_value *in, td_look_fn *look,
                    void *env) {
    td_joint_run *r = begin(program, &(td_joint_opts){.train = true});
    if (!r) return false;
    r->look = look;
    r->look_env = env;
    bool      typed;
    td_joint *j = end(r, in, &typed);
    td__joint_drop(j);
    return j != NULL;
}

void td__joint_drop(td_joint *j) {
    if (!j) return;
    td__graph_drop(j->g);
    td__graph_drop(j->epilogue);
    td__arena_free(&j->arena);
    td__free(j);
}
