/* plan.c -- makes a plan of a joint graph and its halves, and carries out a call. */
#include "runtime/plan.h"

#include <stdatomic.h>
#include <string.h>

/* Plans are numbered from 1, so that a key can name one that may be freed. */
static atomic_uint_fast64_t last_serial;

/* ---- what is saved ------------------------------------------------------- */

/* The entry of saves that is forward output `out`, or, if that is -1, the primal; -1:
 * none. */
static int find_save(const td_plan *p, int out, int primal) {
    for (int i = 0; i < p->n_saves; i++) {
        const td_save_plan *k = &p->saves[i];
        if (k->out == out && !k->copied && !k->late && (out >= 0 || k->index == primal))
            return i;
    }
    return -1;
}

/* The copy through which the forward graph reads primal i, which the call writes; NULL:
 * none. */
static td_gval *input_copy(const td_plan *p, int i) {
    const td_graph *fwd = p->h->fwd;
    for (int k = 0; k < fwd->nodes.n; k++) {
        const td_gnode *n = fwd->nodes.v[k];
        const td_gval  *v = td__joint_is_input_copy(n) ? n->in[0].u.v : NULL;
        if (v && !v->node && v->nr == i) return n->out[0];
    }
    return NULL;
}

static int32_t storage_of(const td_graph *g, int out) {
    const td_garg *a = &g->outputs.v[out];
    return a->kind == TD_G_VALUE && a->u.v->type ? a->u.v->type->storage : -1;
}

/* Does it share bytes with a forward output that the caller gets? */
static bool is_shown(const td_plan *p, int out) {
    int32_t at = storage_of(p->h->fwd, out);
    for (int i = 0; at >= 0 && i < p->h->n_fwd; i++)
        if (p->j->fwd[i].made && storage_of(p->h->fwd, i) == at) return true;
    return false;
}

typedef struct reading {
    const td_gval *v;
    bool           found;
} reading;

static void find_read(void *env, td_gval *v) {
    reading *r = env;
    r->found |= v == r->v;
}

static bool node_reads(const td_gnode *n, const td_gval *v) {
    reading r = {.v = v};
    for (int i = 0; i < n->n_in; i++) td__garg_each(&n->in[i], find_read, &r);
    return r.found;
}

/* Do ops _late alone read v in the backward half, directly or through views? */
static bool is_read_late(const td_graph *g, const td_gval *v) {
    bool any = false;
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (!node_reads(n, v)) continue;
        bool late = td__row(n->op)->view == TD_VIEW_LATE;
        if (!late && (td__opinfo(n->op)->view_of < 0 || !is_read_late(g, n->out[0])))
            return false;
        any = true;
    }
    return any;
}

/* The type of what op _held names: forward output nr, or input -1 - nr. NULL: there is
 * none. */
static const td_gtype *held_type(const td_plan *p, int64_t nr) {
    const td_graph *g = p->h->fwd;
    if (nr < 0) return nr >= -p->j->n_primals ? g->inputs.v[-1 - nr]->type : NULL;
    const td_garg *a = nr < p->h->n_fwd ? &g->outputs.v[nr] : NULL;
    bool           made = a && a->kind == TD_G_VALUE && p->j->fwd[nr].made;
    return made ? a->u.v->type : NULL;
}

/* The node _held whose result is saved as `to`, of type l; NULL: it is another. */
static const td_gnode *held_by(const td_plan *p, const td_save_plan *to,
                               const td_gtype *l) {
    const td_garg  *a = to->out < p->h->n_fwd ? NULL : &p->h->fwd->outputs.v[to->out];
    const td_gnode *n = a && a->kind == TD_G_VALUE ? a->u.v->node : NULL;
    const td_gtype *of = n && n->op == TD_OP__held ? held_type(p, n->in[2].u.i) : NULL;
    bool            same = of && l && of->kind == l->kind && of->dtype == l->dtype &&
                of->rank == l->rank; /* each backward checks the sizes */
    return same ? n : NULL;
}

/* A value that hooks alone read is the tensor of the call that op _held names, or the
 * argument, whatever has been written to it since. */
static void set_late(const td_plan *p, int i, td_save_plan *to) {
    const td_gval *v = p->h->bwd ? p->h->bwd->inputs.v[i] : NULL;
    if (!v || to->number || !is_read_late(p->h->bwd, v)) return;
    const td_gnode *n = held_by(p, to, v->type);
    to->late = n || to->out < 0;
    if (!to->late) return;
    to->checked = false;
    if (!n) return;
    int64_t nr = n->in[2].u.i;
    to->out = nr < 0 ? -1 : (int)nr;
    to->index = nr < 0 ? (int)(-1 - nr) : (int)nr;
    to->nr = -1;
}

/* How value i of the partition is saved: as an input, as an output of the node, or as a
 * further output. `checked` is false for values that no caller can write. */
static td_save_plan save_of(const td_plan *p, int i) {
    const td_halves      *h = p->h;
    const td_saved_value *from = &h->saved[i];
    td_save_plan to = {.out = -1, .index = from->index, .nr = -1, .checked = true};
    to.number = i >= h->n_saved - h->n_saved_syms;
    if (from->from == TD_SAVED_PRIMAL) return to;
    to.out = from->index;
    to.checked = is_shown(p, to.out);
    if (from->from == TD_SAVED_OUTPUT && p->j->fwd[to.out].made)
        to.nr = p->j->fwd[to.out].tangent;
    const td_garg *made = &h->fwd->outputs.v[to.out];
    to.handle = made->kind == TD_G_VALUE && made->u.v->node &&
                made->u.v->node->op == TD_OP_offload_store;
    return to;
}

/* May its history be the node, which would be a cycle? An alias has none. */
static bool leads_to_node(const td_plan *p, const td_save_plan *of) {
    bool leads = false;
    for (int i = 0; i < p->j->n_fwd; i++) {
        const td_fwd *f = &p->j->fwd[i];
        bool          is = of->out < 0 ? f->input >= 0 : i == of->out;
        leads |= is && f->tangent >= 0;
    }
    return leads;
}

/* Appends a value to save. An input whose metadata the call may change is saved through
 * an alias, which keeps the old metadata. */
static void add_save(td_plan *p, td_save_plan to) {
    to.alias =
        to.late ? leads_to_node(p, &to) : to.out < 0 && p->j->primals[to.index].touched;
    p->saves[p->n_saves++] = to;
}

static void mark(void *env, td_gval *v) { ((bool *)env)[v->id] = true; }

/* Which primals do the gradients depend on, and the random numbers they are computed
 * with, and what may fail on the way? */
static bool find_needs(td_plan *p) {
    const td_graph *g = p->j->g;
    bool           *live = td__zalloc((size_t)g->n_values + 1);
    if (!live) return td__fail_memory(p->cx);
    for (int i = p->j->n_fwd; i < g->outputs.n; i++)
        td__garg_each(&g->outputs.v[i], mark, live);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const td_gnode *n = g->nodes.v[i];
        bool            late = n->origin == TD_FROM_BACKWARD;
        bool            wanted =
            late ? td__gnode_stays(n) : td__gnode_draws(n) || td__gnode_shows(n);
        for (int k = 0; k < n->n_out; k++) wanted |= live[n->out[k]->id];
        for (int k = 0; k < n->n_in && wanted; k++)
            td__garg_each(&n->in[k], mark, live);
    }
    for (int i = 0; i < p->j->n_primals; i++) p->needs[i] |= live[g->inputs.v[i]->id];
    td__free(live);
    return true;
}

/* A forward output that is the copy, the one saved already if there is one; -1 after
 * td__fail. */
static int copy_out(const td_plan *p, td_gval *v) {
    td_graph *fwd = p->h->fwd;
    for (int i = 0; i < p->n_saved; i++) {
        int out = p->saves[i].out;
        if (out >= p->h->n_fwd && fwd->outputs.v[out].kind == TD_G_VALUE &&
            fwd->outputs.v[out].u.v == v)
            return out;
    }
    td_desc d = {TD_D_SAVED, fwd->outputs.n - p->h->n_fwd, NULL};
    return td__graph_output(fwd, td__garg_value(v), d) ? fwd->outputs.n - 1 : -1;
}

/* A backward that is itself differentiated recomputes everything from the primals:
 * those it needs are saved, as they were before the call wrote them. */
static bool save_primal(td_plan *p, int i) {
    td_save_plan to = {.out = -1, .index = i, .nr = -1, .checked = true};
    if (!p->needs[i]) return true;
    if (p->j->primals[i].written) {
        td_gval *copy = input_copy(p, i);
        to.checked = false;
        to.copied = !copy || td__plan_reads_storage(p, i);
        if (!to.copied && (to.out = copy_out(p, copy)) < 0) return false;
    }
    if (to.copied && p->j->g->inputs.v[i]->type->of) return true; /* has no bytes */
    p->copies |= to.copied;
    int known = to.copied ? -1 : find_save(p, to.out, i);
    p->primal_save[i] = known < 0 ? p->n_saves : known;
    if (known < 0) add_save(p, to);
    return true;
}

/* Decides what a node saves: the values of the partition, then (o->twice) the primals
 * that double backward needs. */
static bool plan_saves(td_plan *p, const td_plan_opts *o) {
    for (int i = 0; i < p->h->n_saved; i++) {
        td_save_plan to = save_of(p, i);
        set_late(p, i, &to);
        add_save(p, to);
    }
    p->n_saved = p->n_saves;
    for (int i = 0; i < p->j->n_primals; i++) p->primal_save[i] = -1;
    bool ok = !o->twice || find_needs(p);
    for (int i = 0; ok && o->twice && i < p->j->n_primals; i++) ok = save_primal(p, i);
    return ok;
}

/* Bases, and leaves that the call makes, may have any rank; a leaf that was read has
 * the rank it had then (_bind). An edge that no tangent leads to is bound for
 * the next order, and only if gradients depend on that input: an edge keeps the
 * accumulation node of a leaf alive, which remembers the leaf's sizes. A backward does
 * not visit it (`apart`). */
static void plan_edges(td_plan *p) {
    const td_joint *j = p->j;
    for (int i = 0; i < j->n_targets; i++) {
        const td_target *t = &j->targets[i];
        const td_gtype  *l = t->leaf || t->base ? NULL : j->g->inputs.v[t->input]->type;
        td_edge_plan    *to = &p->edges[i];
        to->dims = l && 2 * l->rank > TD_MAX_RANK ? 2 * l->rank : TD_MAX_RANK;
        if (!l) to->dims = 2 * TD_MAX_RANK;
        to->bound = td__set_any(t->from, td__set_words(j->n_tangents)) ||
                    (t->input >= 0 && p->needs[t->input]);
        p->node_dims += to->dims;
    }
}

/* The static part of a node: what it saves, how much memory its sizes need, and which
 * backward reads which value. */
static bool plan_backward(td_plan *p, const td_plan_opts *o) {
    const td_joint *j = p->j;
    size_t          n = (size_t)(p->h->n_saved + j->n_primals) + 1;
    p->saves = td__arena_zalloc(&p->h->arena, sizeof *p->saves * n);
    p->primal_save = td__arena_zalloc(&p->h->arena, sizeof *p->primal_save * n);
    p->needs = td__arena_zalloc(&p->h->arena, n);
    p->edges =
        td__arena_zalloc(&p->h->arena, sizeof *p->edges * ((size_t)j->n_targets + 1));
    if (!p->saves || !p->primal_save || !p->needs || !p->edges)
        return td__fail_memory(p->cx);
    p->back.g = p->h->bwd;
    if (!plan_saves(p, o)) return false;
    plan_edges(p);
    return td__plan_used(p, o->twice) && td__half_drop_input_copies(p->h->fwd);
}

/* Results that are tensors of the call's own, each once. */
static bool find_fresh(td_plan *p) {
    const td_graph *g = p->j->epilogue;
    p->fresh = td__arena_zalloc(&p->j->arena, (size_t)g->outputs.n + 1);
    bool *seen = td__zalloc((size_t)g->n_values + 1);
    bool  ok = (p->fresh && seen) || td__fail_memory(p->cx);
    for (int i = 0; ok && i < g->outputs.n; i++) {
        const td_gval *v =
            g->outputs.v[i].kind == TD_G_VALUE ? g->outputs.v[i].u.v : NULL;
        if (!v || !v->node || seen[v->id]) continue;
        p->fresh[i] = seen[v->id] = true;
    }
    td__free(seen);
    return ok;
}

/* Values that are only read, where another output is the same value: the code gives one
 * tensor for both, and a history belongs to one. */
static bool find_twins(td_plan *p) {
    const td_graph *g = td__plan_forward(p);
    int             n = p->j->n_fwd;
    int            *count = td__zalloc(sizeof *count * ((size_t)g->n_values + 1));
    p->twin = td__arena_zalloc(&p->j->arena, (size_t)n + 1);
    bool ok = (p->twin && count) || td__fail_memory(p->cx);
    for (int i = 0; ok && i < n; i++)
        if (g->outputs.v[i].kind == TD_G_VALUE) count[g->outputs.v[i].u.v->id]++;
    for (int i = 0; ok && i < n; i++)
        if (g->outputs.v[i].kind == TD_G_VALUE && !p->j->fwd[i].made)
            p->twin[i] = count[g->outputs.v[i].u.v->id] > 1;
    td__free(count);
    return ok;
}

/* Compiles the forward code, and the backward code unless that is lazy. */
static bool compile_now(td_plan *p, const td_plan_opts *o) {
    const td_graph *g = td__plan_forward(p);
    p->n_vals = g->outputs.n;
    p->info.half = p->h ? TD_FORWARD : TD_INFERENCE;
    if ((p->h && !td__plan_prologue(p)) ||
        !td__steps_make(&p->steps, p->prologue, p->j->epilogue) ||
        !td__plan_inputs(p) || !find_fresh(p) || !find_twins(p) ||
        !td__plan_compile(p, o->fwd, g, &p->info, &p->fwd, &p->fwd_form))
        return false;
    if (!p->h) return true;
    return td__plan_form(p, p->h->bwd, &p->back.form) &&
           (o->lazy_backward || td__plan_compile_back(p, &p->back));
}

/* Takes ownership of j and h, also after a failure. h is NULL if nothing requires
 * grad. */
td_plan *td__plan_make(td_joint *j, td_halves *h, const td_plan_opts *o) {
    td_ctx  *cx = j->cx;
    td_plan *p = td__zalloc(sizeof *p);
    if (!p) {
        td__halves_drop(h);
        td__joint_drop(j);
        return td__fail_memory(cx), NULL;
    }
    *p = (td_plan){.refs = 1,
                   .serial = atomic_fetch_add(&last_serial, 1) + 1,
                   .cx = cx,
                   .name = j->g->name,
                   .j = j,
                   .h = h,
                   .backend = o->bwd,
                   .info = o->info,
                   .on = o->on,
                   .asserts = o->asserts,
                   .checks_sizes = td__graph_flags(j->g, TD_OPF_DYNAMIC),
                   .donates = o->donates,
                   .functional_rng = o->functional_rng,
                   .limit = o->limit};
    bool ok = h ? plan_backward(p, o) : td__half_drop_input_copies(j->g);
    if (ok && compile_now(p, o)) return p;
    td__plan_drop(p);
    return NULL;
}

/* Drops a reference. Nodes of earlier calls have references, so that code and graphs
 * live as long as a backward may need them. */
void td__plan_drop(td_plan *p) {
    if (!p || --p->refs > 0) return;
    td__runner_drop(&p->fwd);
    td__runner_drop(&p->back.code);
    td__graph_drop(p->fwd_form);
    td__graph_drop(p->back.form);
    td__free(p->back.reads);
    for (td_back *b = p->back.next, *next; b; b = next) {
        next = b->next;
        td__runner_drop(&b->code);
        td__graph_drop(b->form);
        td__graph_drop(b->g);
        td__free(b->reads);
        td__free(b);
    }

    td__steps_free(&p->steps);
    td__graph_drop(p->prologue);
    if (p->later.drop) p->later.drop(p->later.env);
    td__free(p->reads);
    td__halves_drop(p->h);
    td__joint_drop(p->j);
    td__scratch_free(&p->inputs);
    td__scratch_free(&p->values);
    td__free(p);
}

/* ---- a call ------------------------------------------------------------- */

/* Tensors of the graph are tensors of its rank in `out`: a backend of the user's may
 * have left some out. Sizes and strides are read by that rank. */
static bool check_filled(const td_plan *p, const td_graph *g, const td_value *out) {
    for (int i = 0; i < g->outputs.n; i++) {
        if (g->outputs.v[i].kind != TD_G_VALUE) continue;
        const td_gtype *l = g->outputs.v[i].u.v->type;
        if (!l || l->kind != TD_K_TENSOR) continue;
        bool there = out[i].kind == TD_K_TENSOR && td__is_live(out[i].u.t, TD_H_TENSOR);
        if (TD_LIKELY(there && out[i].u.t->rank == l->rank)) continue;
        return td__fail(p->cx, TD_E_ARG,
                        "%s: the backend's code returned true, but out[%d] is %s; run "
                        "of td_runner must set it to a tensor of rank %d",
                        p->name, i, there ? td__type_str(out[i].u.t) : "no tensor",
                        l->rank);
    }
    return true;
}

/* Code without `take` has its own inputs dropped after it ran. */
static bool run_code(td_ctx *cx, const td_graph *g, const td_runner *code,
                     const td_value *in, const bool *own, td_value *out) {
    if (own && code->take) return code->take(code->env, cx, in, own, out);
    bool ok = code->run(code->env, cx, in, out);
    td__drop_owned(g, in, own, out);
    return ok;
}

/* Runs compiled code without recording. A backend that returns false without an error
 * gets one here, and every output must be filled in. */
bool td__plan_run(td_plan *p, const td_half_code *h, const td_value *in,
                  const bool *own, td_value *out) {
    td_ctx         *cx = p->cx;
    const td_graph *g = h->g;
    if (TD_UNLIKELY(cx->takes_fakes == TD_FAKES_SCOPE))
        return td__plan_run_fake(p, g, in, own, out);
    if (TD_UNLIKELY(h->form != NULL))
        return td__plan_run_rng(p, h->form, h->code, in, own, out);
    bool grad = cx->grad_enabled;
    cx->grad_enabled = false;
    for (int i = 0; i < g->outputs.n; i++) out[i] = TD_NONE;
    bool ok = run_code(cx, g, h->code, in, own, out);
    cx->grad_enabled = grad;
    if (!ok && td_ok(cx))
        td__fail(cx, TD_E_ARG, "%s: the compiled code failed without a reason",
                 p->name);
    return ok && td_ok(cx) && check_filled(p, g, out);
}

const td_graph *td__plan_forward(const td_plan *p) {
    return p->h ? p->h->fwd : p->j->g;
}

/* The steps of a call, in the order that docs/plan.md gives: code, node, epilogue,
 * versions of saved values. With debug_asserts the inputs and outputs are checked
 * around the code. */
static bool run(td_pcall *c) {
    td_plan *p = c->p;
    if (p->asserts && !td__plan_check_inputs(c)) return false;
    if (p->copies && !td__plan_copy_storages(c)) return false;
    if (!td__plan_code(c)) return false;
    if (p->asserts && !td__plan_check_values(c)) return false;
    if (!td__now_tangents(c)) return false;
    bool ok = (!p->h || td__plan_node(c)) && td__plan_epilogue(c);
    if (ok) td__plan_saved(c);
    if (c->node) td__node_drop(c->node);
    if (ok && p->j->left) td__region_set(p->cx, (td_gregion)(p->j->left - 1));
    return ok;
}

/* Results leave the scope of the call; numbers and inputs have none. */
static void end_scope(td_pcall *c, bool ok) {
    td_tensor *few[16], **ts = few;
    int        n = 0, most = ok ? c->p->j->n_results : 0;
    if (most > TD_COUNT(few)) ts = td__alloc(sizeof *ts * (size_t)most);
    if (!ts) ok = td__fail_memory(c->p->cx), most = 0;
    for (int i = 0; i < most; i++)
        if (c->out[i].kind == TD_K_TENSOR) ts[n++] = c->out[i].u.t;
    td__scope_pop(c->p->cx, ts, n);
    if (ts != few) td__free(ts);
    for (int i = 0; !ok && i < c->p->j->n_results; i++) c->out[i] = TD_NONE;
}

/* Memory for the values of large calls, reused from call to call. */
static bool take_scratch(td_pcall *c, void **heap) {
    size_t vals = sizeof *c->vals * (size_t)c->p->n_vals;
    size_t counts = sizeof *c->counts * (size_t)c->p->n_inside;
    *heap = td__scratch_take(&c->p->values, vals + counts);
    if (!*heap) return td__fail_memory(c->p->cx);
    c->vals = *heap;
    c->counts = (uint64_t *)(void *)((char *)*heap + vals);
    return true;
}

/* One call in a scope of its own. Small calls need no allocation: values fit into
 * `few`. The plan is referenced meanwhile, because a hook may drop the function. */
bool td__plan_call(td_plan *p, const td_node *from, td_value *in, bool *own,
                   td_value *out) {
    td_ctx  *cx = p->cx;
    td_value few[16];
    uint64_t few_counts[16];
    void    *heap = NULL;
    td_pcall c = {.p = p,
                  .in = in,
                  .own = own,
                  .vals = few,
                  .out = out,
                  .counts = few_counts,
                  .from = from,
                  .seed = cx->rng_seed,
                  .offset = cx->rng_offset};
    for (int i = 0; i < p->j->n_results; i++) out[i] = TD_NONE;
    if ((p->n_vals > TD_COUNT(few) || p->n_inside > TD_COUNT(few_counts)) &&
        !take_scratch(&c, &heap))
        return false;
    p->refs++;
    bool ok = td__now_make(&c);
    ok = ok && td__scope_push(cx);
    if (ok) {
        ok = run(&c);
        end_scope(&c, ok);
        ok = ok && td_ok(cx);
    }
    td__now_drop(c.now);
    td__arena_free(&c.arena);
    td__scratch_give(&p->values, heap);
    td__plan_drop(p);
    return ok;
}
