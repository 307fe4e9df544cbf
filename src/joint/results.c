/* results.c -- what each result of a program is: a value the graph computes, an input,
 * or a view of either that is made again outside. Results that share storage with an
 * input or with each other must do so after every call; only a result that is alone
 * in its storage is taken as the graph gives it. */
#include "joint/joint_int.h"
#include "ops/geom.h"

static td_tensor *out_tensor(const td_joint_run *r, int i) {
    return r->out[i].kind == TD_K_TENSOR ? r->out[i].u.t : NULL;
}

/* ---- view ops ----------------------------------------------------------- */

static int steps_between(const td_view_step *s, const td_view_step *until) {
    int n = 0;
    while (s && s != until) {
        s = s->up;
        n++;
    }
    return s == until ? n : -1;
}

static bool copy_step(td_joint_run *r, td_view_op *to, const td_view_step *s) {
    td_arena *a = &r->to->arena;
    *to = (td_view_op){(td_op)(s->def - td__ops), s->out_nr, s->n_in,
                       td__arena_alloc(a, sizeof(td_value) * (size_t)(s->n_in + 1))};
    if (!to->in) return td__fail_memory(r->cx);
    for (int i = 0; i < s->n_in; i++) {
        to->in[i] = s->in[i];
        if (s->in[i].kind != TD_K_INTS) continue;
        int64_t *v = td__arena_alloc(a, sizeof *v * (s->in[i].n + 1));
        if (!v) return td__fail_memory(r->cx);
        if (s->in[i].n) memcpy(v, s->in[i].u.ints, sizeof *v * s->in[i].n);
        to->in[i].u.ints = v;
    }
    return true;
}

static bool one_step(td_joint_run *r, td_result *to) {
    td_arena   *a = &r->to->arena;
    td_view_op *v = td__arena_zalloc(a, sizeof *v);
    if (v) v->in = td__arena_zalloc(a, sizeof *v->in * 4);
    if (!v || !v->in) return td__fail_memory(r->cx);
    v->op = TD_OP_as_strided;
    v->n_in = 4;
    v->in[1] = td__value_ints((td_ints){to->geom.size, to->geom.rank});
    v->in[2] = td__value_ints((td_ints){to->geom.stride, to->geom.rank});
    v->in[3] = td_value_int(to->geom.offset);
    to->views = v;
    to->n_views = 1;
    return true;
}

/* Do the ops, on a tensor like `from`, give what the result looks like? Writes of
 * geometry in between may have left them behind. */
static bool lead_to(td_joint_run *r, const td_result *to, td_tensor *from) {
    td_ctx    *cx = r->cx;
    td_mode   *top = cx->top;
    td_tensor *t = td__tensor_alias(cx, from), *out[64];
    td_geom    end;
    bool       ok = t != NULL;
    cx->top = NULL;
    for (int i = 0; ok && i < to->n_views; i++) {
        const td_view_op *v = &to->views[i];
        td_value          in[TD_MAX_ARGS];
        memcpy(in, v->in, sizeof *in * (size_t)v->n_in);
        in[td__opinfo(v->op)->view_of] = td_value_tensor(t);
        ok = v->nr < TD_COUNT(out) && td__call(cx, v->op, in, v->n_in, out, v->nr + 1);
        if (ok) t = out[v->nr];
    }
    cx->top = top;
    if (!ok && td_error(cx) != TD_E_MEMORY) td_clear(cx);
    return ok && td__geom_copy(cx, &r->to->arena, &end, t) &&
           td__geom_same(&end, &to->geom);
}

/* t is a view; the ops that make it of `from`, a tensor it was made of or shares a
 * base with. */
static bool find_views(td_joint_run *r, td_result *to, td_tensor *t, td_tensor *from) {
    const td_view_step *until = t->base == from ? NULL : from->steps;
    int                 n = steps_between(t->steps, until);
    if (n >= 0) {
        to->views =
            td__arena_zalloc(&r->to->arena, sizeof *to->views * (size_t)(n + 1));
        if (!to->views) return td__fail_memory(r->cx);
        to->n_views = n;
        for (const td_view_step *s = t->steps; n > 0; s = s->up)
            if (!copy_step(r, &to->views[--n], s)) return false;
        if (lead_to(r, to, from)) return true;
        if (!td_ok(r->cx)) return false;
    }
    if (t->dtype != from->dtype)
        return td__fail(r->cx, TD_E_UNSUPPORTED,
                        "@%.60s: a result of another dtype shares bytes with a tensor "
                        "whose geometry is written",
                        r->program->name);
    return one_step(r, to);
}

/* ---- sources ------------------------------------------------------------ */

/* The input t is made of, the nearest; else one that lies in its storage. -1: none. */
static int input_of(const td_joint_run *r, const td_tensor *t) {
    int best = -1, least = 0, any = td__joint_spot(r, t->st)->lies;
    for (int i = any < 0 ? -1 : r->to->n_primals - 1; i >= 0; i--) {
        const td_tensor *u = r->outer[i];
        if (!u || u->st != t->st) continue;
        int n = -1;
        if (t->base == u) n = steps_between(t->steps, NULL);
        else if (t->base && t->base == u->base) n = steps_between(t->steps, u->steps);
        if (n >= 0 && (best < 0 || n <= least)) {
            best = i;
            least = n;
        }
    }
    return best >= 0 ? best : any;
}

/* A tensor left behind in bytes its input has moved away from. */
static bool in_left(td_joint_run *r, td_result *to, td_tensor *t, int input) {
    to->how = TD_RESULT_LIE;
    to->source = TD_OF_CAME;
    to->from = input;
    return !td__joint_has_history(t) ||
           td__fail(r->cx, TD_E_UNSUPPORTED,
                    "@%.60s: a result with gradients lies where input %d lay before "
                    "set_",
                    r->program->name, input);
}

static int same_result(const td_joint_run *r, const td_tensor *t, int below) {
    int i = td__joint_spot(r, t)->result;
    return i < below ? i : -1;
}

/* ---- kinds -------------------------------------------------------------- */

/* A leaf made inside of a view that passes no gradients, and a view of that: outside
 * there is nothing to make it of. */
static bool check_view(td_joint_run *r, const td_result *to, td_tensor *t,
                       td_tensor *from) {
    if (to->stale || to->wants || !td__joint_has_history(t) || td__needs_grad(from))
        return true;
    return td__fail(
        r->cx, TD_E_UNSUPPORTED,
        "@%.60s: a result is a view of a leaf made inside (requires_grad_); "
        "return the leaf, too",
        r->program->name);
}

/* Is t a view of u, or of what u is a view of? */
static bool related(const td_tensor *t, const td_tensor *u) {
    return t->base && (t->base == u || t->base == u->base);
}

static bool in_input(td_joint_run *r, td_result *to, td_tensor *t, int input) {
    to->source = TD_OF_INPUT;
    to->from = input;
    bool custom = t->creation == TD_MADE_CUSTOM && !to->stale;
    if (custom || !related(t, r->outer[input])) {
        to->how = TD_RESULT_LIE;
        to->history = !to->stale && td__joint_has_history(t);
        return true;
    }
    to->how = TD_RESULT_VIEW;
    to->resumed =
        t->creation == TD_MADE_NO_GRAD && !to->stale && td__joint_has_history(t);
    return find_views(r, to, t, r->outer[input]) &&
           check_view(r, to, t, r->outer[input]);
}

static int base_nr(td_joint_run *r, td_tensor *base) {
    td_joint *j = r->to;
    for (int i = 0; i < j->n_bases; i++)
        if (r->bases[i] == base) return i;
    td_base_out *b = &j->bases[j->n_bases];
    *b = (td_base_out){.out = -1,
                       .version = td__version(base),
                       .history = td__joint_has_history(base),
                       .wants = td__needs_grad(base) && td_is_leaf(base)};
    r->bases[j->n_bases] = base;
    return j->n_bases++;
}

/* Of the results in a storage made inside, the tensor the others are made of: one they
 * are views of, else the one with a history, else the first. */
static td_tensor *root_of(const td_joint_run *r, const td_storage *st) {
    td_tensor *root = NULL;
    for (int i = r->to->n_results - 1; i >= 0; i--) {
        td_tensor *t = out_tensor(r, i);
        if (!t || t->st != st) continue;
        if (t->base) return t->base;
        if (!root || !td__joint_has_history(root) || td__joint_has_history(t)) root = t;
    }
    return root;
}

/* A tensor that is no view of the root lies in its storage: the root must show all of
 * it, and the tensor have no history. */
static bool check_lie(td_joint_run *r, const td_result *to, td_tensor *t,
                      td_tensor *root) {
    td_geom whole;
    if (!td__geom_copy(r->cx, &r->to->arena, &whole, root)) return false;
    if (td__geom_covers_bytes(&whole, &to->geom) && !td__joint_has_history(t))
        return true;
    return td__fail(r->cx, TD_E_UNSUPPORTED,
                    "@%.60s: results share a storage (%s) that no tensor they were "
                    "taken from shows whole; return that tensor, too",
                    r->program->name, td__type_str(t));
}

/* A result in a storage made inside. */
static bool in_fresh(td_joint_run *r, td_result *to, td_tensor *t) {
    bool leaf = t->base && td__needs_grad(t->base) && td_is_leaf(t->base);
    bool plain = !t->base || (t->creation == TD_MADE_PLAIN && !to->stale && !leaf);
    if (plain && td__joint_spot(r, t->st)->sharers == 1) return true;
    td_tensor *root = root_of(r, t->st);
    if (root == t) return true;
    int at = same_result(r, root, r->to->n_results);
    to->source = at >= 0 ? TD_OF_RESULT : TD_OF_BASE;
    to->from = at >= 0 ? at : base_nr(r, root);
    to->how = t->base == root ? TD_RESULT_VIEW : TD_RESULT_LIE;
    to->resumed = to->how == TD_RESULT_VIEW && t->creation == TD_MADE_NO_GRAD &&
                  !to->stale && td__joint_has_history(t);
    return to->how == TD_RESULT_VIEW ? find_views(r, to, t, root)
                                     : check_lie(r, to, t, root);
}

static bool find_result(td_joint_run *r, int i) {
    td_result *to = &r->to->results[i];
    td_tensor *t = out_tensor(r, i);
    *to = (td_result){.how = TD_RESULT_VALUE, .from = -1, .out = -1};
    if (!t) return true;
    int input = td__joint_spot(r, t)->input, again = same_result(r, t, i);
    if (!td__geom_copy(r->cx, &r->to->arena, &to->geom, t)) return false;
    to->inference = td_is_inference(t);
    to->creation = t->creation;
    to->version = td__version(t);
    if (input >= 0 || again >= 0) {
        to->how = input >= 0 ? TD_RESULT_INPUT : TD_RESULT_AGAIN;
        to->from = input >= 0 ? input : again;
        return true;
    }
    to->stale = td__joint_is_stale(t);
    to->wants = t->flags & TD_TF_NEEDS_GRAD && !to->stale && td_is_leaf(t);
    input = input_of(r, t);
    int  came = input < 0 ? td__joint_spot(r, t->st)->came : -1;
    bool ok = input >= 0  ? in_input(r, to, t, input)
              : came >= 0 ? in_left(r, to, t, came)
                          : in_fresh(r, to, t);
    if (to->how == TD_RESULT_VALUE) to->history = td__joint_has_history(t);
    return ok && td_ok(r->cx);
}

/* ---- outputs ------------------------------------------------------------ */

static bool put_number(td_joint_run *r, int i) {
    td_value v = r->out[i];
    td_garg  a = {0};
    if (v.kind == TD_K_FLOAT) {
        a.kind = TD_G_FLOAT;
        a.u.f = v.u.f;
    } else if (v.kind != TD_K_NONE) {
        bool sym = v.kind == TD_K_INT && td__dim_is_sym(v.u.i) && td__dim_tracing();
        a.kind = v.kind == TD_K_BOOL ? TD_G_BOOL : sym ? TD_G_SYM : TD_G_INT;
        a.u.i = sym ? td__graph_dim(r->to->g, v.u.i) : v.u.i;
    }
    r->to->results[i].out = r->to->g->outputs.n;
    return td__graph_output(r->to->g, a, r->program->out_desc.v[i]);
}

static bool put_result(td_joint_run *r, int i) {
    td_result *to = &r->to->results[i];
    td_tensor *t = out_tensor(r, i);
    if (!t) return put_number(r, i);
    if (to->how != TD_RESULT_VALUE && !to->history) return true;
    to->out = td__joint_output(r, td__func_value(&r->f, t), r->program->out_desc.v[i]);
    return to->out >= 0;
}

bool td__joint_results(td_joint_run *r) {
    td_joint *j = r->to;
    for (int i = 0; i < j->n_results; i++)
        if (!find_result(r, i)) return false;
    for (int i = 0; i < j->n_results; i++)
        if (!put_result(r, i)) return false;
    for (int i = 0; i < j->n_bases; i++) {
        td_desc d = {TD_D_BASE, (int32_t)i, NULL};
        j->bases[i].out = td__joint_output(r, td__func_value(&r->f, r->bases[i]), d);
        if (j->bases[i].out < 0) return false;
    }
    return true;
}

/* ---- tangents ----------------------------------------------------------- */

/* Row-major, or channels last where the value is. */
static bool want(td_joint_run *r, td_tangent_of of, int index, td_tensor *t) {
    td_joint   *j = r->to;
    td_tangent *to = &j->tangents[j->n_tangents];
    int64_t    *stride =
        td__arena_alloc(&j->arena, sizeof *stride * (size_t)(t->rank + 1));
    if (!stride) return td__fail_memory(r->cx);
    *to = (td_tangent){.of = of, .index = index};
    if (!td__geom_copy(r->cx, &j->arena, &to->geom, t)) return false;
    if (td__is_channels_last(t)) td__strides_channels_last(t->rank, t->size, stride);
    else td__strides_dense(t->rank, t->size, stride);
    to->geom.stride = stride;
    to->geom.offset = 0;
    r->roots[j->n_tangents++] = t;
    return true;
}

bool td__joint_tangents(td_joint_run *r) {
    td_joint *j = r->to;
    for (int i = 0; i < j->n_updates; i++)
        if (j->updates[i].history &&
            !want(r, TD_TANGENT_INPUT, i, r->outer[j->updates[i].input]))
            return false;
    for (int i = 0; i < j->n_results; i++)
        if (j->results[i].history && !want(r, TD_TANGENT_OUTPUT, i, out_tensor(r, i)))
            return false;
    for (int i = 0; i < j->n_bases; i++)
        if (j->bases[i].history && !want(r, TD_TANGENT_BASE, i, r->bases[i]))
            return false;
    return true;
}
