/* compiled_node.c -- a compiled call on the tape: one node whose edges are the inputs
 * that take gradients, whose results are what tangents come in for, and whose
 * derivative is the backward half. Saved values are checked as eager checks its own. */
#include "eager/history.h"
#include "runtime/node_frame.h"

#include <stdio.h>
#include <string.h>

/* The type that the backward code was made for, of saved value i. */
static const td_geom *saved_type(const td_frame *f, int i) {
    return f->sizes ? &f->sizes->types[i] : &f->p->h->bwd->inputs.v[i]->type->geom;
}

static const td_gtyped *saved_typed(const td_frame *f, int i) {
    return f->sizes ? f->sizes->saved_typed[i] : f->p->h->bwd->inputs.v[i]->type->of;
}

/* Saved value i for backward code b, if that reads it: what it does not read may be
 * gone or overwritten. */
static bool saved_value(td_node *n, const td_back *b, int i, td_value *to) {
    const td_frame *f = n->data;
    if (f->p->saves[i].number) {
        *to = td_value_int(f->sizes->numbers[i]);
        return true;
    }
    if (!b->reads[i])
        return td__size_stand_in(n->cx, f->sizes ? saved_type(f, i) : NULL, to);
    td_tensor *t = td__unpack(n, &n->saved[i]);
    if (t && f->p->saves[i].late && !td__is_type(t, saved_type(f, i)))
        return td__fail(n->cx, TD_E_UNSUPPORTED,
                        "%s: a gradient hook or custom function of the body reads "
                        "saved value %d, which is %s now: its type changed after the "
                        "call. Let it read td_clone of the tensor",
                        n->name, i, td__type_str(t));
    if (t && (n->saved[i].pack || f->p->saves[i].late))
        t = td__fit_unpacked(n, i, t, saved_type(f, i), saved_typed(f, i),
                             b->beside[i]);
    *to = td_value_tensor(t);
    return t != NULL;
}

/* ---- backward ----------------------------------------------------------- */

/* Tangent i as the code, of graph `of`, takes it: in the traced layout. Code does not
 * read one that is missing, but may take symbolic sizes from it. */
bool td__take_tangent(td_node *n, const td_graph *of, int i, td_tensor *g,
                      td_value *to) {
    const td_frame  *f = n->data;
    const td_geom   *want = td__tangent_geom(f->p, f->sizes, i);
    const td_gtyped *type = td__tangent_typed(f->p, f->sizes, i);
    if (!g) return td__size_stand_in(n->cx, of->dims.n ? want : NULL, to);
    g = TD_UNLIKELY(type || g->typed) ? td__fit_typed(n, i, g, type)
                                      : td__fit_tangent(n->cx, g, want);
    *to = td_value_tensor(g);
    return g && !td_is_nil(g);
}

/* The same for backward code. To a joint graph of the user's own a missing tangent is
 * zeros. */
static bool tangent(td_node *n, const td_back *b, int i, td_tensor *g, td_value *to) {
    const td_frame *f = n->data;
    const td_gtype *l = b->g->inputs.v[f->p->n_saved + i]->type;
    if (g && b->typed) { /* symbolic sizes: all are plain */
        const td_geom *want = f->sizes ? td__tangent_geom(f->p, f->sizes, i) : &l->geom;
        bool           typed = (l->of || g->typed) && !f->sizes;
        g = typed ? td__fit_typed(n, i, g, l->of) : td__fit_tangent(n->cx, g, want);
        *to = td_value_tensor(g);
        return g && !td_is_nil(g);
    }
    if (g || f->p->later.joint || td__tangent_typed(f->p, f->sizes, i))
        return td__take_tangent(n, b->g, i, g, to);
    td_tensor *t = td__empty_as(n->cx, td__tangent_geom(f->p, f->sizes, i));
    *to = td_value_tensor(td_op_zero_(t));
    return !td_is_nil(to->u.t);
}

/* Notes which tangents arrived, by g or by came, and which are missing; false: all are.
 * Then the node runs because some arrived without a value: these count as arrived, or
 * all, where it is unknown which did. */
static bool note_arrived(const td_node *n, td_tensor *const *g, const bool *came) {
    td_frame *f = n->data;
    int       words = td__frame_words(f->p);
    size_t    size = sizeof *f->now * (size_t)words;
    memset(f->now, 0, size);
    memset(f->missing, 0, size);
    for (int i = 0; i < n->n_out; i++)
        td__set_add((g ? g[i] != NULL : came && came[i]) ? f->now : f->missing, i);
    bool any = td__set_any(f->now, words);
    for (int i = 0; !any && g && i < n->n_out; i++)
        if (td__walk_came(n, i)) td__set_add(f->now, i);
    if (!td__set_any(f->now, words)) memcpy(f->now, f->missing, size);
    return any;
}

/* Does no tangent that arrived lead to edge i? The call's results share one node, and
 * eager's backward does not visit such an edge. */
static bool apart(const td_node *n, int i) {
    const td_frame *f = n->data;
    return !td__set_meets(f->p->j->targets[i].from, f->now, td__frame_words(f->p));
}

static bool is_late(const td_gval *v) {
    return v->node && td__row(v->node->op)->view == TD_VIEW_LATE;
}

/* The input of a backward graph that gradient i is, or is a view of, read late (op
 * _late), because a hook returned what it closes over; -1: none. */
static int late_input(const td_graph *g, int i) {
    const td_garg *a = &g->outputs.v[i];
    if (a->kind != TD_G_VALUE || !is_late(a->u.v)) return -1;
    while (a->kind == TD_G_VALUE && a->u.v->node) {
        const td_gnode *n = a->u.v->node;
        int             at = is_late(a->u.v) ? 0 : td__opinfo(n->op)->view_of;
        if (at < 0) return -1;
        a = &n->in[at];
    }
    return a->kind == TD_G_VALUE ? a->u.v->nr : -1;
}

/* Finds which inputs a backward graph reads at all, reads beyond their elements
 * (as_strided), and writes; needed before the first run. */
static bool find_reads(td_back *b) {
    size_t n = (size_t)b->g->inputs.n + 1;
    bool  *reads = td__zalloc(3 * n);
    if (!reads) return td__fail_memory(b->g->cx);
    if (!td__graph_reads_beside(b->g, reads + n) || !td__back_find_counts(b))
        return td__free(reads), false;
    td__graph_reads(b->g, reads);
    td__graph_written_inputs(b->g, reads + 2 * n);
    b->reads = reads;
    b->beside = reads + n;
    b->writes = reads + 2 * n;
    for (int i = 0; i < b->g->outputs.n; i++) b->late |= late_input(b->g, i) >= 0;
    return true;
}

/* Compiles a backward unless that has happened; called at its first run, or at once
 * without lazy_backward. */
bool td__plan_compile_back(td_plan *p, td_back *b) {
    td_compile_info info = p->info;
    info.half = TD_BACKWARD;
    if (!b->reads && !find_reads(b)) return false;
    return b->code.run ||
           td__plan_compile(p, p->backend, b->g, &info, &b->code, &b->form);
}

/* May one more backward be compiled where there are n? The limit keeps a program from
 * compiling one for each of 2^n sets of results. */
bool td__plan_may_compile(const td_plan *p, int n, const char *what) {
    return n < p->limit ||
           td__fail(p->cx, TD_E_UNSUPPORTED,
                    "%s: %s was compiled for %d sets of results, which is the limit "
                    "(backward_limit is %lld), and this is another set. Raise "
                    "backward_limit, or go backward from the same results each time",
                    p->name, what, n, (long long)p->limit);
}

/* Fails as eager's backward does, if it fails with the tangents that are not missing,
 * which are of the types that j was traced for. */
static bool check_works(const td_joint *j, const uint64_t *missing) {
    for (int i = 0; i < j->n_tangents; i++) {
        const td_tangent *t = &j->tangents[i];
        if (t->broken && !td__set_has(missing, i))
            return td__fail(j->cx, t->code, "%s", t->broken);
    }
    bool all = !td__set_any(missing, td__set_words(j->n_tangents));
    return !j->broken || !all || td__fail(j->cx, j->code, "%s", j->broken);
}

/* The backward graph for a set of missing tangents: the engine runs again, from the
 * roots whose tangents arrived, and reads what the forward code saved. */
static td_graph *trace_back(const td_plan *p, td_arriving which) {
    td_joint *j = p->later.joint(p->later.env, which);
    bool      ok = j && check_works(j, which.missing);
    td_graph *g = ok ? td__part_reuse(p->h, j) : NULL;
    td__joint_drop(j);
    return g;
}

/* Is b for these tangents: of other types than results have where `other` has them, and
 * of the results' types elsewhere? NULL: all are of the results' types. With
 * symbolic sizes b takes plain ones for all. */
static bool is_for(const td_plan *p, const td_back *b, td_tensor *const *other,
                   bool symbolic) {
    bool is = b->typed == (other != NULL);
    for (int i = 0; is && other && !symbolic && i < p->j->n_tangents; i++) {
        const td_gtyped *of = b->g->inputs.v[p->n_saved + i]->type->of;
        is = other[i] ? td__is_of_type(other[i], of)
                      : td__gtyped_same(of, td__tangent_typed(p, NULL, i));
    }
    return is;
}

/* The backward for this set, made at its first use. other: by tangent, one of another
 * type than the result; NULL: there is none. With symbolic sizes these are plain. */
static td_back *back_for(td_plan *p, const uint64_t *missing, td_tensor *const *other,
                         bool symbolic) {
    td_arriving which = {missing, symbolic ? NULL : other, symbolic && other};
    size_t      size = sizeof *missing * (size_t)td__frame_words(p);
    bool        all = !p->later.joint || !td__set_any(missing, td__frame_words(p));
    td_back    *b = all && !other ? &p->back : p->back.next;
    while (b && b != &p->back &&
           (memcmp(b->missing, missing, size) || !is_for(p, b, other, symbolic)))
        b = b->next;
    bool first = b == &p->back && !b->code.run;
    int  n = p->n_back + (p->back.code.run != NULL);
    if ((first || !b) && !td__plan_may_compile(p, n, "backward")) return NULL;
    if (!b) {
        b = td__zalloc(sizeof *b + size);
        if (!b) return td__fail_memory(p->cx), NULL;
        *b = (td_back){.missing = memcpy(b + 1, missing, size),
                       .typed = other != NULL,
                       .next = p->back.next};
        b->g = trace_back(p, which);
        if (!b->g) return td__free(b), NULL;
        p->back.next = b;
        p->n_back++;
    }
    if (td__history_traced(p->cx)) return b->reads || find_reads(b) ? b : NULL;
    return td__plan_compile_back(p, b) ? b : NULL;
}

/* Which tangents are of another type than the backward of the plan takes, in scratch
 * memory; NULL: none. With symbolic sizes all of them are plain, or it is an error. */
static bool find_others(const td_node *n, td_tensor *const *g, td_tensor ***to) {
    const td_frame *f = n->data;
    *to = NULL;
    if (!f->p->later.joint) return true;
    for (int i = 0; f->sizes && i < n->n_out; i++)
        if (g[i] && g[i]->typed) return true;
    for (int i = 0; i < n->n_out; i++) {
        const td_gtyped *of = td__tangent_typed(f->p, f->sizes, i);
        if (!g[i] || TD_LIKELY(!of && !g[i]->typed) || td__may_fit_typed(g[i], of))
            continue;
        size_t bytes = sizeof **to * ((size_t)n->n_out + 1);
        if (!*to) *to = td__arena_zalloc(&n->cx->scratch, bytes);
        if (!*to) return td__fail_memory(n->cx);
        (*to)[i] = g[i];
    }
    return td_ok(n->cx);
}

/* check_works for the tangents that arrived. If some are of other types, a trace for
 * these types finds out. */
static bool check_arrived(const td_node *n, td_tensor *const *g) {
    const td_frame *f = n->data;
    td_arena_mark   mark = td__arena_mark(&n->cx->scratch);
    td_tensor     **other;
    bool            fails = f->p->j->broken != NULL;
    for (int i = 0; i < n->n_out; i++) fails |= f->p->j->tangents[i].broken != NULL;
    if (TD_LIKELY(!fails)) return true;
    bool ok = find_others(n, g, &other);
    ok = ok && (other || check_works(f->p->j, f->missing));
    td__arena_reset(&n->cx->scratch, mark);
    return ok;
}

/* back_for, which makes real tensors even if the call is on fakes. */
static td_back *find_back(const td_node *n, td_tensor *const *g) {
    const td_frame *f = n->data;
    td_ctx         *cx = n->cx;
    uint8_t         was = cx->takes_fakes;
    td_arena_mark   mark = td__arena_mark(&cx->scratch);
    td_tensor     **other;
    if (!find_others(n, g, &other)) return NULL;
    if (was) cx->takes_fakes = TD_FAKES_INSIDE;
    td_back *b = back_for(f->p, f->missing, other, f->sizes != NULL);
    cx->takes_fakes = was;
    td__arena_reset(&cx->scratch, mark);
    return b;
}

/* Is a mode pushed that receives ops? Autocast was there when the call was compiled. */
static bool is_intercepted(const td_ctx *cx) {
    return td__modes_below_autocast(cx) != cx->tape;
}

/* As compiled, or op by op if a mode receives ops. */
static bool run_code(td_plan *p, const td_back *b, const td_value *in, const bool *own,
                     td_value *out) {
    td_ctx *cx = p->cx;
    if (TD_UNLIKELY(td__history_traced(cx))) return td__graph_replay(b->g, in, out);
    if (TD_LIKELY(!is_intercepted(cx)))
        return td__plan_run(p, &(td_half_code){b->g, b->form, &b->code}, in, own, out);
    bool grad = cx->grad_enabled;
    cx->grad_enabled = false;
    bool ok = td__replay_under_modes(b->g, in, out);
    cx->grad_enabled = grad;
    return ok && td_ok(cx);
}

/* The inputs of the backward code: saved values, then tangents. own[i]: the code's. */
static bool back_inputs(td_node *n, td_tensor *const *g, const td_back *b, td_value *in,
                        bool *own) {
    const td_plan *p = ((const td_frame *)n->data)->p;
    bool           last = p->donates && td__frame_spend(n);
    for (int i = 0; i < p->n_saved; i++) {
        if (!saved_value(n, b, i, &in[i])) return false;
        own[i] = last && b->reads[i] && td__frame_donate(n, i, &in[i]);
    }
    for (int i = 0, at = p->n_saved; i < n->n_out; i++, at++) {
        if (!tangent(n, b, i, g[i], &in[at])) return false;
        bool mine = p->donates && !b->writes[at] && g[i] && in[at].u.t == g[i];
        own[at] = mine && td__walk_give(n, i);
    }
    return td_ok(n->cx);
}

static bool write_tangents(const td_node *n, td_tensor *const *g, const td_back *b,
                           const td_value *in) {
    int at = ((const td_frame *)n->data)->p->n_saved;
    for (int i = 0; i < n->n_out; i++, at++)
        if (b->writes[at] && g[i] && !td__write_tangent(g[i], in[at].u.t)) return false;
    return true;
}

/* Gradients that are tangents become the caller's tensors themselves, where the code
 * took aliases of these because they require grad or are views: accumulation takes over
 * a gradient that nothing else references, and a tangent is the caller's, unless the
 * code owns it. */
static void give_tangents(const td_node *n, td_tensor *const *g, const td_back *b,
                          const td_value *in, const bool *own, td_value *out) {
    const td_plan *p = ((const td_frame *)n->data)->p;
    for (int k = 0, at = p->n_saved; k < n->n_out; k++, at++) {
        const td_gval *v = b->g->inputs.v[at];
        bool           view = g[k] && g[k]->base && !own[at];
        if (!g[k] || (!td__needs_grad(g[k]) && !view) || in[at].u.t != g[k]) continue;
        for (int i = 0; i < p->j->n_targets; i++) {
            const td_garg *a = &b->g->outputs.v[i];
            if (a->kind == TD_G_VALUE && a->u.v == v && out[i].kind == TD_K_TENSOR)
                out[i].u.t = g[k];
        }
    }
}

/* Gradients that are saved values read late become the saved tensors themselves.
 * Eager's hook returns the tensor that it closes over, to which there are other
 * references: accumulation copies it, and would take over an alias of it. So a view of
 * a saved value is copied here if it is accumulated. False after td__fail. */
static bool give_late(const td_node *n, const td_back *b, const td_value *in,
                      td_value *out) {
    const td_plan *p = ((const td_frame *)n->data)->p;
    for (int i = 0; i < p->j->n_targets; i++) {
        int at = late_input(b->g, i);
        if (at < 0 || in[at].kind != TD_K_TENSOR || out[i].kind != TD_K_TENSOR)
            continue;
        td_geom is = td__geom_of(out[i].u.t), was = td__geom_of(in[at].u.t);
        if (td__geom_identical(&is, &was)) out[i].u.t = in[at].u.t;
        else if (td__walk_accumulates(n, i)) out[i].u.t = td_op_clone(out[i].u.t, true);
        if (td_is_nil(out[i].u.t)) return false;
    }
    return true;
}

/* Runs the backward code: unpacks saved values, fits tangents to the traced layout (a
 * missing one stays absent), and stores those gradients that the engine needs. `v` has
 * the inputs, then the outputs. */
static bool run_back(td_node *n, td_tensor *const *g, const bool *need,
                     td_tensor **grads) {
    enum { FEW = 24 };
    td_plan *p = ((td_frame *)n->data)->p;
    td_back *b = find_back(n, g);
    size_t   n_in = (size_t)(p->n_saved + n->n_out);
    size_t   n_values = n_in + (size_t)p->j->n_targets + 1;
    td_value few[FEW], *v = few;
    bool     few_own[FEW], *own = few_own;
    if (!b) return false;
    if (n_values > FEW) {
        v = td__alloc((sizeof *v + sizeof *own) * n_values);
        if (!v) return td__fail_memory(n->cx);
        own = (bool *)(void *)(v + n_values);
    }
    td_value *out = v + n_in;
    bool      ok = back_inputs(n, g, b, v, own);
    if (ok) td__back_save_counts(b, v, p->n_saved, g);
    ok = ok && run_code(p, b, v, own, out) && write_tangents(n, g, b, v) &&
         (!p->asserts || td__plan_check_grads(p, n, out));
    td__back_set_counts(b, ok);
    if (ok) give_tangents(n, g, b, v, own, out);
    if (ok && TD_UNLIKELY(b->late)) ok = give_late(n, b, v, out);
    for (int i = 0; ok && i < p->j->n_targets; i++)
        if (need[i] && out[i].kind == TD_K_TENSOR && !apart(n, i))
            grads[i] = out[i].u.t;
    if (v != few) td__free(v);
    return ok;
}

/* The node's backward. Without create_graph it runs the backward code, with it the plan
 * of the next order. Without any tangent only a custom function does something. Fails
 * first for tangents that eager could not differentiate either. */
static bool apply(td_node *n, td_tensor *const *g, const bool *need,
                  td_tensor **grads) {
    td_frame *f = n->data;
    if (!note_arrived(n, g, NULL) && !f->p->later.nests) return true;
    if (!check_arrived(n, g)) return false;
    for (int i = 0; i < n->n_out; i++) {
        const td_tangent *t = &f->p->j->tangents[i];
        if (!g[i]) continue;
        if (td__set_meets(t->clash, f->spent, td__frame_words(f->p)))
            return td__fail_second(n);
    }
    if (!td__recording(n->cx)) return run_back(n, g, need, grads);
    if (is_intercepted(n->cx))
        return td__fail(
            n->cx, TD_E_UNSUPPORTED,
            "%s: unsupported: create_graph while a mode is pushed, because "
            "double backward of a compiled call repeats its forward, which "
            "the mode would receive a second time. Pop the mode, or push it "
            "before the call, which then runs op by op",
            f->p->name);
    if (f->p->later.plan) return td__node_run_next(n, g, need, grads);
    if (f->p->h->plain)
        return td__fail(
            n->cx, TD_E_UNSUPPORTED,
            "%s: unsupported: create_graph through values that td_aot_opts.saved "
            "packs, because double backward repeats forward from the inputs, where "
            "nothing is packed. Set td_aot_opts.saved.lossless if unpack gives what "
            "pack got, compile the function without td_aot_opts.saved, or go backward "
            "without create_graph",
            f->p->name);
    return td__fail(n->cx, TD_E_UNSUPPORTED,
                    "%s was compiled with double_backward off: its gradients have no "
                    "history; switch the setting on, or go backward without "
                    "create_graph",
                    f->p->name);
}

/* Frees what the frame references; saved values are freed by the node itself. */
static void destroy(td_node *n) {
    td_frame *f = n->data;
    td__plan_drop(f->p);
    td__now_drop(f->sizes);
}

static bool passes(const td_node *n, int from, int to) {
    const td_tangent *t = ((const td_frame *)n->data)->p->j->tangents;
    return from != to && td__set_has(t[to].feeds, from);
}

/* "result 1", "argument 0, which it wrote"; a member of a module by its name. */
static const char *called(const td_joint *j, int nr, char out[120]) {
    const td_fwd  *f = &j->fwd[j->tangents[nr].index];
    const td_desc *d = f->input >= 0 ? &j->g->in_desc.v[f->input] : NULL;
    if (d && (d->kind == TD_D_PARAM || d->kind == TD_D_BUFFER))
        snprintf(out, 120, "%.80s, which it wrote", j->g->inputs.v[f->input]->name);
    else if (d) snprintf(out, 120, "argument %d, which it wrote", f->input);
    else if (f->result >= 0) snprintf(out, 120, "result %d", f->result);
    else snprintf(out, 120, "the tensor that results are views of");
    return out;
}

/* A gradient passes from result `from` through result `to` of the same call: the single
 * node of a compiled call cannot do that. */
static bool refuse(const td_node *n, int from, int to) {
    const td_joint *j = ((const td_frame *)n->data)->p->j;
    char            a[120], b[120];
    return td__fail(
        n->cx, TD_E_UNSUPPORTED,
        "%s: %s was computed from %s, whose gradient is asked for (td_grad, "
        "td_on_grad, td_retain_grad, inputs of td_backward); the compiled "
        "function passes no gradient of the one through the other. Compute "
        "%s outside of the compiled function",
        n->name, called(j, from, a), called(j, to, b),
        j->fwd[j->tangents[from].index].result >= 0 ? a : "it");
}

/* ---- as part of a compiled backward ------------------------------------- */

static void arrived(td_node *n, const bool *came) { note_arrived(n, NULL, came); }

/* The plan, which has the backward graph, the numbers of this call, and the tangents
 * whose values are used up. */
static const char *describe(const td_node *n, td_history *h) {
    const td_frame *f = n->data;
    td__history_put(h, (int64_t)f->p->serial);
    for (int i = 0; i < td__frame_words(f->p); i++)
        td__history_put(h, (int64_t)f->spent[i]);
    for (int i = 0; f->sizes && i < f->p->n_saves; i++)
        if (f->p->saves[i].number) td__history_put(h, f->sizes->numbers[i]);
    for (int i = 0; f->sizes && i < n->n_out; i++)
        td__history_geom(h, &f->sizes->tangents[i], false);
    return NULL;
}

/* A custom function in the body runs without gradients (apply). */
static bool is_hungry(const td_node *n) {
    (void)n;
    return true;
}

static const td_node_kind compiled_kind = {.name = "compiled",
                                           .describe = describe,
                                           .arrived = arrived,
                                           .hungry = is_hungry,
                                           .apply = apply,
                                           .release = td__frame_release,
                                           .destroy = destroy,
                                           .apart = apart,
                                           .binds = true,
                                           .passes = passes,
                                           .refuse = refuse};

/* ---- making one --------------------------------------------------------- */

/* The type of the i-th result of the node; the sizes outlive the node. Field by
 * field: bytes put together and read back as a word would wait for each other. */
static void set_result(td_geom *to, const td_geom *g) {
    to->size = g->size;
    to->stride = NULL;
    to->offset = 0;
    to->dtype = g->dtype;
    to->rank = g->rank;
    to->device = g->device;
}

/* Saves value i of the plan in the node, as the output of the node that it is, if any:
 * then eager's cycle rule applies. An alias is saved where the caller's tensor may
 * later change its metadata; of a tensor that hooks read, one that changes with it. */
static bool save(td_pcall *c, td_node *n, int i) {
    const td_save_plan *k = &c->p->saves[i];
    td_saved           *s = &n->saved[n->n_saved++];
    *s = (td_saved){.flags = TD_SV_FREED}; /* what a failure below leaves */
    if (k->number) {
        c->now->numbers[i] = k->out < 0 ? c->in[k->index].u.i : c->vals[k->out].u.i;
        return true;
    }
    td_tensor *t = k->copied    ? c->old[k->index]
                   : k->out < 0 ? c->in[k->index].u.t
                                : c->vals[k->out].u.t;
    bool       made = k->out >= 0 && k->out < c->p->j->n_fwd;
    bool alias = k->alias || td_is_inference(t); /* the latter eager did not save */
    alias |= made && c->p->j->fwd[k->out].meta_written;
    alias |= td__is_behind(t) && t->creation != TD_MADE_PLAIN; /* nobody may read fn */
    if (alias &&
        !(t = k->late ? td__tensor_follower(t) : td__tensor_alias(c->p->cx, t)))
        return false;
    if (alias) t->flags &= (uint8_t)~TD_TF_INFERENCE;
    *s = (td_saved){.arg = k->nr >= 0 ? (int16_t)-1 : (int16_t)0};
    bool hides = TD_UNLIKELY(n->cx->packers.n > 0) && (k->handle || k->late);
    if (hides && !td__vec_push(&n->cx->packers, (td_saved_hooks){0}))
        return td__fail_memory(n->cx);
    bool ok = td__save(s, t, k->nr >= 0, k->nr < 0 ? 0 : k->nr);
    if (hides) n->cx->packers.n--;
    if (!ok) return false;
    if (!k->checked) s->flags |= TD_SV_PLAIN;
    s->flags |= TD_SV_LEAF; /* gradients go to the edges of the node */
    return td__now_saved(c, i, t);
}

/* Edge i is that of the node of the order below. */
static void take_edge(td_node *n, const td_node *from, int i) {
    const td_geom *type = &from->in_type[i];
    int64_t       *dims = (int64_t *)(uintptr_t)n->in_type[i].size;
    size_t         rank = (size_t)type->rank;
    n->in_type[i] = *type;
    n->in_type[i].size = rank ? memcpy(dims, type->size, sizeof *dims * rank) : dims;
    if (rank && type->stride)
        n->in_type[i].stride = memcpy(dims + rank, type->stride, sizeof *dims * rank);
    n->edge[i] = from->edge[i];
    if (n->edge[i].node) td__node_ref(n->edge[i].node);
}

/* Reserves memory for the types of all edges, and takes those of the order below. The
 * prologue binds the others. */
static void make_edges(const td_pcall *c, td_node *n, int64_t *ints) {
    for (int i = 0; i < n->n_edge; i++) {
        const td_edge_plan *e = &c->p->edges[i];
        n->in_type[i] = (td_geom){.size = ints};
        ints += e->dims;
        if (c->from && i < c->from->n_edge && e->bound) take_edge(n, c->from, i);
    }
}

/* A hash of what the plan saves and for which backward; not 0. */
static uint64_t hash_of_code(td_plan *p) {
    if (!p->code_hash && p->h && p->h->bwd)
        p->code_hash = td__graph_hash(p->h->fwd) * 31 + td__graph_hash(p->h->bwd);
    return p->code_hash ? p->code_hash : 1;
}

/* Fills types of edges and results, and saved values of a new node; `ints` is its
 * memory for sizes and strides. */
static bool fill(td_pcall *c, td_node *n, int64_t *ints) {
    const td_joint *j = c->p->j;
    make_edges(c, n, ints);
    for (int i = 0; i < j->n_tangents; i++)
        set_result(&n->out_type[i], td__tangent_geom(c->p, c->now, i));
    uint64_t was = n->cx->saver;
    bool     ok = true;
    if (TD_UNLIKELY(n->cx->packers.n > 0)) n->cx->saver = hash_of_code(c->p);
    for (int i = 0; i < c->p->n_saves && ok; i++) ok = save(c, n, i);
    n->cx->saver = was;
    return ok;
}

/* Writes of the call itself that share a storage with a saved input, and left the
 * input alone, are not writes after it was saved. */
void td__plan_saved(td_pcall *c) {
    td_node *n = c->node;
    for (int i = 0; n && i < n->n_saved; i++)
        if (n->saved[i].t) n->saved[i].version = td__version(n->saved[i].t);
}

/* Makes the autograd node of the call in one allocation: node, frame, three sets of
 * tangents, sizes. The frame references the plan, so that backward works after the
 * function was dropped. */
bool td__plan_node(td_pcall *c) {
    td_plan     *p = c->p;
    td_node_plan size = {.n_edge = p->j->n_targets,
                         .n_out = p->j->n_tangents,
                         .n_saved = p->n_saves,
                         .n_ints =
                             p->node_dims + TD_FRAME_INTS + 3 * td__frame_words(p)};
    int64_t     *ints;
    td_node     *n = td__node_make(p->cx, &compiled_kind, &size, &ints, NULL);
    if (!n) return false;
    td_frame *f = (td_frame *)(void *)ints;
    *f = (td_frame){.p = p, .sizes = c->now, .seed = c->seed, .offset = c->offset};
    f->now = (uint64_t *)(f + 1);
    f->missing = f->now + td__frame_words(p);
    f->spent = f->missing + td__frame_words(p);
    memset(f->spent, 0, sizeof *f->spent * (size_t)td__frame_words(p));
    p->refs++;
    if (c->now) c->now->refs++;
    n->data = f;
    n->name = p->name;
    n->n_saved = 0; /* counts as they come */
    c->node = n;
    return fill(c, n, ints + TD_FRAME_INTS + 3 * td__frame_words(p));
}
