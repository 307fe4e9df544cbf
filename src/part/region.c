/* region.c -- the halves of a region. The body is joined and partitioned once for each
 * list of operand types, independently of the program around it. The result belongs to
 * the body's graph, which all calls share.
 *
 * A call of halves is one node of the tape where eager has many. If that difference
 * would be observable, the region is inlined: the ops of its body are called
 * instead. */
#include "core/typed.h"
#include "part/region.h"

#include <stdio.h>
#include <string.h>

/* ---- keys --------------------------------------------------------------- */

/* A key contains, for each operand: dtype, whether it is an inference tensor, rank,
 * destination of its gradient, sizes, strides and inner types. */
static int key_size(td_tensors ts) {
    int n = 2;
    for (int i = 0; i < ts.n; i++)
        n += 3 + 2 * ts.v[i]->rank + td__typed_key(ts.v[i]->typed, NULL);
    return n;
}

/* Where the gradient of an operand goes. */
enum { NO_GRAD, HAS_EDGE, HAS_NO_EDGE };

/* A view made under no_grad of a tensor that requires grad requires grad and has no
 * edge: eager's ops save nothing for its gradient. */
static int64_t edge_kind(td_tensor *t) {
    td_edge e;
    if (!td__needs_grad(t)) return NO_GRAD;
    if (!td__edge_of(t, &e)) {
        if (td__error(t->cx) == TD_E_GRAD)
            td_clear(t->cx); /* an op that reads it will fail */
        return HAS_NO_EDGE;
    }
    if (!e.node) return HAS_NO_EDGE;
    td__node_drop(e.node);
    return HAS_EDGE;
}

/* For td__typed_leaves. */
static bool is_ordinary(void *env, td_tensor *leaf) {
    (void)env;
    return !td_is_inference(leaf);
}

/* Is t, or one of its inner tensors, an inference tensor? */
static bool has_inference(td_tensor *t) {
    return td_is_inference(t) || !td__typed_leaves(t, is_ordinary, NULL);
}

/* False after td__fail. */
static bool make_key(const td_ctx *cx, td_tensors ts, bool branch, int64_t *key) {
    td_modes now = td__modes_of(&cx->ambient);
    *key++ =
        (int64_t)cx->grad_enabled | (int64_t)cx->inference << 1 | (int64_t)branch << 2;
    *key++ = now.default_dtype | now.device << 8;
    for (int i = 0; i < ts.n; i++) {
        td_tensor *t = ts.v[i];
        *key++ = t->dtype | t->st->device << 8 | has_inference(t) << 16;
        *key++ = t->rank;
        *key++ = edge_kind(t);
        for (int d = 0; d < t->rank; d++) *key++ = t->size[d];
        for (int d = 0; d < t->rank; d++) *key++ = t->stride[d];
        key += td__typed_key(t->typed, key);
    }
    return td_ok(cx);
}

/* ---- freeing ------------------------------------------------------------ */

static void drop_regions(void *env) {
    for (td_region_parts *r = env, *next; r; r = next) {
        next = r->next;
        for (td_region_back *b = r->back; b; b = b->next) td__graph_drop(b->g);
        td__handover_drop(r->hand);
        td__graph_drop(r->forward);
        td__halves_drop(r->h);
        td__joint_drop(r->j);
        td__arena_free(&r->arena);
        td__free(r);
    }
}

static void *room(td_region_parts *r, size_t n, size_t item) {
    void *p = td__arena_zalloc(&r->arena, (n + 1) * item);
    if (!p) td__fail_memory(r->body->cx);
    return p;
}

/* ---- may the region be one node? ------------------------------------------- */

/* Does a graph, or one inside of it, switch gradients on? */
static bool enables_grad(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind == TD_N_ENTER &&
            (n->region == TD_R_ENABLE_GRAD || n->region == TD_R_PLAIN))
            return true;
        for (int k = 0; n->kind == TD_N_OP && k < n->n_in; k++)
            if (n->in[k].kind == TD_G_GRAPH && enables_grad(n->in[k].u.g)) return true;
    }
    return false;
}

/* For td__typed_leaves: are all sizes of the leaf numbers? */
static bool has_fixed_sizes(void *env, td_tensor *leaf) {
    (void)env;
    return !td__dims_any_sym(leaf->size, leaf->rank);
}

/* The reason to inline the body, of operand t; NULL: none. The joint graph is made on
 * tensors that have histories, and are not inference tensors: views of an inference
 * tensor have no history, and backward cannot save one. */
static const char *why_operand(td_tensor *t) {
    if (edge_kind(t) == HAS_NO_EDGE)
        return "an operand requires grad and has no history";
    return has_inference(t) ? "an operand is an inference tensor" : NULL;
}

/* The reason to inline the body; NULL: none yet. The list that branches pass to
 * backward (branch.c) has plain tensors only. */
static const char *why_inline(const td_graph *body, td_tensors ts, bool branch) {
    bool typed = td__graph_is_typed(body);
    for (int i = 0; i < ts.n; i++) {
        if (td__dims_any_sym(ts.v[i]->size, ts.v[i]->rank) ||
            !td__typed_leaves(ts.v[i], has_fixed_sizes, NULL))
            return "sizes of its operands are symbols";
        typed |= ts.v[i]->typed != NULL;
    }
    if (branch && typed) return "it computes with tensors of a type";
    const char *why = NULL;
    for (int i = 0; i < ts.n && !why && td__recording(body->cx); i++)
        why = why_operand(ts.v[i]);
    if (why) return why;
    if (body->dims.n) return "sizes in its body are symbols";
    if (td__graph_flags(body, TD_OPF_DYNAMIC))
        return "a size in its body depends on values";
    if (!branch && td__graph_flags(body, TD_OPF_EFFECT))
        return "its body calls an op with effects";
    if (td__graph_flags(body, TD_OPF_PLACES | TD_OPF_TAPE))
        return "its body sets flags or histories, or addresses storages";
    if ((!body->cx->grad_enabled || body->cx->inference) && enables_grad(body))
        return "its body switches gradients on";
    return NULL;
}

static bool is_whole(const uint64_t *set, int n) {
    for (int i = 0; i < n; i++)
        if (!td__set_has(set, i)) return false;
    return true;
}

/* The reason to inline: backwards from different results visit or free different nodes
 * of eager's history, so one node would behave differently. NULL: none. */
static const char *why_apart(const td_joint *j) {
    int words = td__set_words(j->n_tangents);
    for (int i = 0; i < j->n_tangents; i++) {
        const td_tangent *t = &j->tangents[i];
        if (td__set_any(t->feeds, words))
            return "a result is computed from another one";
        if (td__set_any(t->clash, words) != td__set_any(j->tangents[0].clash, words) ||
            (td__set_any(t->clash, words) && !is_whole(t->clash, j->n_tangents)) ||
            (!td__set_any(t->clash, words) && j->n_tangents > 1))
            return "its results have separate histories";
    }
    for (int i = 0; i < j->n_targets; i++) {
        const td_target *t = &j->targets[i];
        if (td__set_any(t->from, words) && !is_whole(t->from, j->n_tangents))
            return "its results have separate histories";
    }
    return NULL;
}

/* Is the set neither empty nor that of all tangents? NULL: the empty set. */
static bool is_part(const td_joint *j, const uint64_t *set) {
    return set && td__set_any(set, td__set_words(j->n_tangents)) &&
           !is_whole(set, j->n_tangents);
}

/* The reason to inline: backwards from different results check different saved values
 * for writes; one node checks all of them. NULL: none. */
static const char *why_checks(const td_joint *j) {
    bool part = false;
    for (int i = 0; i < j->n_primals; i++) part |= is_part(j, j->primals[i].saved);
    for (int i = 0; i < j->n_fwd; i++) part |= is_part(j, j->fwd[i].saved);
    return part ? "eager saves a value for some of its results alone" : NULL;
}

/* The reason to inline: a gradient of a result leads to something other than an
 * operand, or eager's backward fails. NULL: none. */
static const char *why_broken(const td_joint *j) {
    if (j->broken) return "its backward fails in eager";
    for (int i = 0; i < j->n_tangents; i++)
        if (j->tangents[i].broken) return "its backward fails in eager";
    for (int i = 0; i < j->n_targets; i++) {
        const td_target *t = &j->targets[i];
        if (t->input < 0 || t->base || t->leaf) return "its body makes leaves";
    }
    return NULL;
}

/* The reason to inline: the call does more than return new tensors. NULL: none. */
static const char *why_effects(const td_joint *j, bool branch) {
    for (int i = 0; i < j->n_primals; i++)
        if (j->primals[i].written || j->primals[i].touched)
            return "its body writes an operand";
    if (j->n_fwd != j->n_results || j->left)
        return "its results are not all new tensors";
    for (int i = 0; i < j->n_fwd; i++)
        if (!j->fwd[i].made || j->fwd[i].written || j->fwd[i].meta_written ||
            (branch ? j->fwd[i].result < 0 : j->fwd[i].result != i) ||
            j->g->outputs.v[i].kind != TD_G_VALUE)
            return "its results are not all new tensors";
    if (j->g->dims.n) return "sizes in its body are symbols";
    const char *why = why_broken(j);
    if (why || branch) return why;
    why = why_apart(j);
    return why ? why : why_checks(j);
}

/* ---- joint graph and halves --------------------------------------------- */

/* Fake tensors with the types of the operands, which share nothing. */
static bool make_inputs(td_region_parts *r, td_tensors ts, td_value *in) {
    const td_graph *b = r->body;
    for (int i = 0, at = 0; i < b->inputs.n; i++) {
        if (td__graph_holds(b, i)) continue;
        td_meta m;
        if (at >= ts.n)
            return td__fail(b->cx, TD_E_ARG,
                            "region: the graph @%.60s takes more than "
                            "the %d operands given",
                            b->name, ts.n);
        td__tensor_meta(ts.v[at], &m);
        m.offset = 0;
        const td_typed *of = ts.v[at]->typed;
        bool            grad = td__needs_grad(ts.v[at++]);
        td_tensor      *t = td__tensor_make(b->cx, &m, true);
        if (!t || (of && !td__typed_fake(t, of))) return false;
        td_mode *top = td__modes_from(b->cx, b->cx->tape);
        if (t && grad) t = td_set_requires_grad(t, true);
        td__modes_from(b->cx, top);
        if (!t || td_is_nil(t)) return false;
        in[i] = td_value_tensor(t);
    }
    return true;
}

/* Joins the body on operands like ts; missing and tangents are as in td_joint_opts.
 * NULL after td__fail. */
static td_joint *join(td_region_parts *r, td_tensors ts, const uint64_t *missing,
                      td_tensor *const *tangents) {
    td_ctx       *cx = r->body->cx;
    td_value     *in = room(r, (size_t)r->body->inputs.n, sizeof *in);
    td_joint_opts o = {.nested = true,
                       .train = cx->grad_enabled && !cx->inference,
                       .find_saved = true,
                       .missing = missing,
                       .tangents = tangents};
    return in && make_inputs(r, ts, in) ? td__joint(r->body, in, &o) : NULL;
}

static bool name_graph(td_graph *g, const td_graph *body, const char *what) {
    char name[100];
    snprintf(name, sizeof name, "%.80s%s", body->name, what);
    return (g->name = td__graph_str(g, name)) != NULL;
}

/* Removes gradients that are inputs, and missing ones, from the outputs of a backward
 * graph: a call returns new tensors only. grads[] is as in op call_forward. */
static bool sort_grads(td_region_parts *r, td_region_back *b) {
    const td_joint *j = r->j;
    int             kept = 0;
    int             n = j->n_primals, words = td__set_words(j->n_tangents);
    if (!(b->grads = room(r, (size_t)n, sizeof *b->grads))) return false;
    for (int i = 0; i < n; i++) b->grads[i] = TD_GRAD_NO_EDGE;
    for (int i = 0; i < j->n_targets; i++) {
        td_garg  a = b->g->outputs.v[i];
        int64_t *to = &b->grads[j->targets[i].input];
        if (a.kind != TD_G_VALUE) {
            if (td__set_any(j->targets[i].from, words)) *to = TD_GRAD_NONE;
            continue;
        }
        if (!a.u.v->node) {
            *to = TD_GRAD_INPUT - a.u.v->nr;
            continue;
        }
        *to = kept;
        b->g->out_desc.v[kept] = b->g->out_desc.v[i];
        b->g->outputs.v[kept++] = a;
    }
    b->g->outputs.n = b->g->out_desc.n = kept;
    return true;
}

/* Adds the backward graph g, whose reference it takes over. NULL after td__fail. */
static td_region_back *add_back(td_region_parts *r, td_graph *g,
                                const uint64_t *missing) {
    int             words = td__set_words(r->j->n_tangents);
    td_region_back *b = room(r, 1, sizeof *b), **at = &r->back;
    if (b) b->missing = room(r, (size_t)words, sizeof *b->missing);
    if (!b || !b->missing) return td__graph_drop(g), NULL;
    if (missing) memcpy(b->missing, missing, sizeof *missing * (size_t)words);
    b->g = g;
    while (*at) at = &(*at)->next;
    *at = b;
    return name_graph(g, r->body, "_backward") && sort_grads(r, b) ? b : NULL;
}

/* Results with a tangent require grad in the forward graph. */
static bool mark_grads(td_region_parts *r) {
    for (int i = 0; i < r->j->n_results; i++) {
        td_gval *v = r->forward->outputs.v[i].u.v;
        td_gtype l = *v->type;
        l.grad = r->j->fwd[i].tangent >= 0;
        if (!(v->type = td__graph_type_of(r->forward, l))) return false;
    }
    return true;
}

/* The lists of op call_forward. */
static bool make_lists(td_region_parts *r) {
    const td_joint  *j = r->j;
    const td_halves *h = r->h;
    int              words = td__set_words(j->n_tangents);
    r->saved = room(r, (size_t)h->n_saved, sizeof *r->saved);
    r->tangents = room(r, (size_t)j->n_tangents, sizeof *r->tangents);
    r->checks = room(r, (size_t)(j->n_primals + j->n_fwd), sizeof *r->checks);
    if (!r->saved || !r->tangents || !r->checks) return false;
    for (int i = 0; i < h->n_saved; i++) {
        bool primal = h->saved[i].from == TD_SAVED_PRIMAL;
        r->saved[i] = primal ? -1 - h->saved[i].index : h->saved[i].index;
    }
    for (int i = 0; i < j->n_tangents; i++)
        r->tangents[i] = j->fwd[j->tangents[i].index].result;
    for (int i = 0; i < j->n_primals; i++)
        if (td__set_any(j->primals[i].saved, words)) r->checks[r->n_checks++] = i;
    for (int i = 0; i < j->n_fwd; i++)
        if (td__set_any(j->fwd[i].saved, words)) r->checks[r->n_checks++] = -1 - i;
    return true;
}

static bool keeps_saving(const td_region_parts *r) {
    bool eager = td__set_any(r->j->tangents[0].clash, td__set_words(r->j->n_tangents));
    return eager == (r->h->n_saved + r->n_checks > 0);
}

/* From the joint graph to forward and backward. */
static bool split(td_region_parts *r) {
    td_joint    *j = r->j;
    td_part_opts o = td__part_defaults();
    if (!td__joint_clean(j, true)) return false;
    if (!j->n_tangents) {
        td__graph_keep(r->forward = j->g);
        return name_graph(r->forward, r->body, "_inference");
    }
    o.budget = td__config(j->cx)->memory_budget;
    o.make_notes = false;
    if (!(r->h = td__part_mincut(j, &o))) return false;
    td__graph_keep(r->forward = r->h->fwd);
    if (!name_graph(r->forward, r->body, "_forward") || !mark_grads(r)) return false;
    if (!make_lists(r)) return false;
    td__graph_keep(r->h->bwd);
    if (!add_back(r, r->h->bwd, NULL)) return false;
    if (r->h->n_saved_syms) r->inlined = "a size in its body is a symbol";
    else if (!r->branch && !keeps_saving(r))
        r->inlined = "eager saves other values for its backward";
    return true;
}

/* Makes the parts, or finds the reason why they cannot be made. */
static bool make(td_region_parts *r, td_tensors ts) {
    td_ctx *cx = r->body->cx;
    if ((r->inlined = why_inline(r->body, ts, r->branch))) return true;
    if (!td__scope_push(cx)) return false;
    bool ok = (r->j = join(r, ts, NULL, NULL)) != NULL;
    if (ok && !(r->inlined = why_effects(r->j, r->branch))) ok = split(r);
    td__scope_pop(cx, NULL, 0);
    if (ok || td__error(cx) == TD_E_MEMORY) return ok;
    td_clear(cx); /* the ops, called one by one, fail as they do in eager */
    r->inlined = "its joint graph cannot be made";
    return true;
}

static td_region_parts *find(td_region_parts *r, const int64_t *key, int n) {
    for (; r; r = r->next)
        if (r->n_key == n && !memcmp(r->key, key, sizeof *key * (size_t)n)) return r;
    return NULL;
}

td_region_parts *td__region_for(td_graph *body, td_tensors ts, bool branch) {
    td_ctx          *cx = body->cx;
    int              n = key_size(ts);
    int64_t         *key = td__zalloc(sizeof *key * (size_t)n);
    td_region_parts *r = NULL;
    if (!key) return td__fail_memory(cx), NULL;
    if (!make_key(cx, ts, branch, key)) return td__free(key), NULL;
    if (!(r = find(body->parts.env, key, n)) && (r = td__zalloc(sizeof *r))) {
        *r = (td_region_parts){.next = body->parts.env,
                               .body = body,
                               .n_key = n,
                               .branch = branch};
        body->parts = (td_gmade){.env = r, .drop = drop_regions};
        if ((r->key = room(r, (size_t)n, sizeof *key)))
            memcpy(r->key, key, sizeof *key * (size_t)n);
        if (!r->key || !make(r, ts)) {
            body->parts.env = r->next;
            r->next = NULL;
            drop_regions(r);
            r = NULL;
        } else if (r->inlined)
            td__log(cx, TD_LOG_joint, "%s @%.60s is %s: %s",
                    branch ? "branch" : "region", body->name,
                    branch ? "recomputed in backward" : "inlined", r->inlined);
    } else if (!r) td__fail_memory(cx);
    td__free(key);
    return r;
}

td_region_parts *td__region_of(const td_graph *body, const td_graph *forward) {
    for (td_region_parts *r = body->parts.env; r; r = r->next)
        if (r->forward == forward) return r;
    return NULL;
}

/* ---- missing gradients, and gradients of another type ---------------------- */

/* A tensor without bytes of a type of r's forward graph. NULL after td__fail. */
static td_tensor *tensor_like(const td_region_parts *r, const td_gtype *l) {
    td_meta m;
    td__geom_to_meta(&l->geom, &m);
    m.offset = 0;
    td_tensor *t = td__tensor_make(r->body->cx, &m, true);
    return t && (!l->of || td__gtyped_fake(t, l->of)) ? t : NULL;
}

/* Operands like those that r was made for. */
static bool operands_like(const td_region_parts *r, td_tensor **to, int *n) {
    const td_graph *b = r->forward;
    for (int i = 0; i < b->inputs.n; i++) {
        td_tensor *t = tensor_like(r, b->inputs.v[i]->type);
        td_mode   *top = td__modes_from(b->cx, b->cx->tape);
        if (t && r->j->g->inputs.v[i]->type->grad) t = td_set_requires_grad(t, true);
        td__modes_from(b->cx, top);
        if (!t || td_is_nil(t)) return false;
        to[(*n)++] = t;
    }
    return true;
}

/* Joins the body again without the missing tangents, or with tangents of the types that
 * arrived, and extracts a backward for the values that the forward half saves. */
static td_graph *cut_again(td_region_parts *r, const uint64_t *missing,
                           td_tensor *const *tangents) {
    td_ctx     *cx = r->body->cx;
    td_tensor **ts = room(r, (size_t)r->forward->inputs.n, sizeof(td_tensor *));
    td_graph   *g = NULL;
    int         n = 0;
    bool        was = cx->grad_enabled;
    if (!ts || !td__scope_push(cx)) return NULL;
    cx->grad_enabled = true;
    td_joint *j = operands_like(r, ts, &n)
                      ? join(r, (td_tensors){ts, n}, missing, tangents)
                      : NULL;
    cx->grad_enabled = was;
    if (j && td__joint_clean(j, true)) g = td__part_reuse(r->h, j);
    td__joint_drop(j);
    td__scope_pop(cx, NULL, 0);
    return g;
}

/* Can gradient g be input `to` of a backward graph? If one of them is typed, their
 * types must be equal; plain gradients are copied to the input's strides. */
static bool takes(const td_gval *to, const td_tensor *g) {
    if (!g->typed && !to->type->of) return true;
    return td__dims_identical(to->type->stride, g->stride, g->rank) &&
           td__gtyped_is(to->type->of, g->typed);
}

/* Is b for gradients of these types? g is by result. */
static bool takes_all(const td_region_parts *r, const td_region_back *b,
                      td_tensor *const *g) {
    for (int i = 0; i < r->j->n_tangents; i++) {
        const td_tensor *t = g[r->tangents[i]];
        if (t && !takes(b->g->inputs.v[r->h->n_saved + i], t)) return false;
    }
    return true;
}

const td_region_back *td__region_back(td_region_parts *r, td_tensor *const *g) {
    int         words = td__set_words(r->j->n_tangents);
    uint64_t   *missing = room(r, (size_t)words, sizeof *missing);
    td_tensor **given = room(r, (size_t)r->j->n_tangents, sizeof *given);
    if (!missing || !given) return NULL;
    for (int i = 0; i < r->j->n_tangents; i++) {
        td_tensor *t = g[r->tangents[i]];
        if (!t) td__set_add(missing, i);
        else if (!takes(r->back->g->inputs.v[r->h->n_saved + i], t)) given[i] = t;
    }
    for (const td_region_back *b = r->back; b; b = b->next)
        if (!memcmp(b->missing, missing, sizeof *missing * (size_t)words) &&
            takes_all(r, b, g))
            return b;
    td_graph *made = cut_again(r, missing, given);
    return made ? add_back(r, made, missing) : NULL;
}
