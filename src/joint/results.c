/* results.c -- what each result of a program is: a value the graph computes, an input,
 * or a view of either that is made again outside. Results that share storage with an
 * input or with each other must do so after every call; only a result that is alone
 * in its storage is taken as the graph gives it. Elements of a result's
 * storage that the result does not show come with it: eager can show them later. */
#include "joint/joint_int.h"
#include "ops/geom.h"

static td_tensor *out_tensor(const td_joint_run *r, int i) {
    return r->out[i].kind == TD_K_TENSOR ? r->out[i].u.t : NULL;
}

/* What t is a view of; NULL where set_ has taken either of them elsewhere. */
static td_tensor *base_of(const td_tensor *t) {
    return t->base && t->base->st == t->st ? t->base : NULL;
}

/* ---- who is who --------------------------------------------------------- */

static int same_result(const td_joint_run *r, const td_tensor *t, int below) {
    int i = td__joint_spot(r, t)->result;
    return i < below ? i : -1;
}

/* The input t was made of, the nearest. -1: none. */
static int made_of(const td_joint_run *r, const td_tensor *t) {
    int best = -1, least = 0;
    if (!base_of(t) || td__joint_spot(r, t->st)->at_end < 0) return -1;
    for (int i = r->to->n_primals - 1; i >= 0; i--) {
        const td_tensor *u = r->outer[i];
        int              n = -1;
        if (!u || u->st != t->st) continue;
        if (t->base == u) n = td__joint_steps(t->steps, NULL);
        else if (t->base == u->base) n = td__joint_steps(t->steps, u->steps);
        if (n < 0 || (best >= 0 && n > least)) continue;
        best = i;
        least = n;
    }
    return best;
}

/* ---- tensors that are no views ------------------------------------------ */

/* The i-th result, or what it is a view of, when that lies in the storage. */
static td_tensor *root_at(td_joint_run *r, int i, const td_storage *st) {
    td_tensor *t = out_tensor(r, i);
    if (!t || t->st != st) return NULL;
    return base_of(t) && td__joint_in_base(r, t) ? t->base : t;
}

static bool covers(td_joint_run *r, const td_tensor *t, const td_tensor *u) {
    td_geom a, b;
    return td__geom_copy(r->cx, &r->to->arena, &a, t) &&
           td__geom_copy(r->cx, &r->to->arena, &b, u) && a.offset == 0 &&
           td__geom_covers_bytes(&a, &b);
}

/* Does t show a part of what its storage holds, and was that written? The value of such
 * a tensor is not always a view of all its storage in the graph. */
static bool hides(td_joint_run *r, td_tensor *t) {
    return atomic_load(&t->st->version) > 0 && td__func_hides(&r->f, t);
}

/* Of the roots in a storage made inside, one that shows all the others show: the one
 * with a history, else the first. NULL: none does. */
static td_tensor *whole_of(td_joint_run *r, const td_storage *st) {
    td_tensor *whole = NULL;
    for (int i = r->to->n_results - 1; i >= 0; i--) {
        td_tensor *t = root_at(r, i, st), *u;
        bool       all = t && t != whole && t->offset == 0;
        for (int k = 0; all && k < r->to->n_results; k++)
            all = !(u = root_at(r, k, st)) || u == t || covers(r, t, u);
        if (all &&
            (!whole || !td__joint_has_history(whole) || td__joint_has_history(t)))
            whole = t;
    }
    return whole;
}

static int room_nr(td_joint_run *r, td_storage *st) {
    td_joint *j = r->to;
    for (int i = 0; i < j->n_rooms; i++)
        if (r->rooms[i] == st) return i;
    if (td__dim_tracing())
        td__fail(r->cx, TD_E_UNSUPPORTED,
                 "@%.60s: results share bytes whose size is not a number",
                 r->program->name);
    r->rooms[j->n_rooms] = st;
    j->rooms[j->n_rooms] = (td_room){st->bytes, atomic_load(&st->version)};
    return j->n_rooms++;
}

static void fill_in(td_result *to, td_tensor *t) {
    to->inference = td_is_inference(t);
    to->creation = t->creation;
    to->version = td__version(t);
    to->stale = td__joint_is_stale(t);
    to->behind = t->base && t->seen != td__version(t) && !td__needs_grad(t);
    to->wants = t->flags & TD_TF_NEEDS_GRAD && !td__has_node(t);
}

static void place(td_joint_run *r, td_result *to, td_tensor *t);

static int base_nr(td_joint_run *r, td_tensor *base) {
    td_joint *j = r->to;
    for (int i = 0; i < j->n_bases; i++)
        if (r->bases[i] == base) return i;
    int        nr = j->n_bases++;
    td_result *to = &j->bases[nr];
    r->bases[nr] = base;
    *to = (td_result){.how = TD_RESULT_VALUE, .from = -1, .out = -1};
    td__geom_copy(r->cx, &j->arena, &to->geom, base);
    fill_in(to, base);
    place(r, to, base);
    return nr;
}

/* `to` is to be made of root, which is a result or becomes a base. */
static void made_from(td_joint_run *r, td_result *to, td_tensor *root) {
    int at = same_result(r, root, r->to->n_results);
    to->source = at >= 0 ? TD_OF_RESULT : TD_OF_BASE;
    to->from = at >= 0 ? at : base_nr(r, root);
}

/* t, a result or base, is no view, or is to be none: where it lies. */
static void place(td_joint_run *r, td_result *to, td_tensor *t) {
    const td_joint_spot *spot = td__joint_spot(r, t->st);
    int                  input = spot->at_end, came = spot->came;
    bool                 fresh = input < 0 && came < 0;
    to->history = !to->stale && td__joint_has_history(t);
    if (t == spot->all) return;
    td_tensor *whole = fresh && spot->sharers > 1 ? whole_of(r, t->st) : t;
    if (fresh && whole && hides(r, whole)) whole = td__joint_list(r, t);
    if (fresh && whole == t) return;
    to->how = TD_RESULT_LIE;
    to->source = input >= 0 ? TD_OF_INPUT : came >= 0 ? TD_OF_CAME : TD_OF_ROOM;
    to->from = input >= 0 ? input : came >= 0 ? came : -1;
    to->fill = came < 0;
    if (!fresh) return;
    if (whole) made_from(r, to, whole);
    else to->from = room_nr(r, t->st);
    if (whole) to->fill = false;
}

/* ---- views -------------------------------------------------------------- */

/* A view may have a history where what it is made of has none: that ended, or the view
 * was a leaf for itself. Then its history is the compiled function's. */
static void find_own_history(td_joint_run *r, td_result *to, td_tensor *t,
                             td_tensor *from) {
    bool input = to->source == TD_OF_INPUT, leaf = !td__has_node(from);
    if (to->wants) return;
    bool behind = input && r->to->stale[to->from];
    bool fresh = !input || !r->edge[to->from].node;
    if (fresh && !to->stale && td__has_node(t) && from->flags & TD_TF_NEEDS_GRAD &&
        (leaf || behind)) {
        /* from became a leaf in here, and may take after its base from now on */
        td_edge own = {.node = td__known_accumulator(from)};
        bool    leads = own.node && td__joint_leads(to, t, own);
        bool    silent = leaf && from->base && !td__needs_grad(from->base);
        to->history = behind && !silent ? leads : !leads;
        return;
    }
    if (to->early && !to->stale && !td__joint_leads(to, t, r->edge[to->from]))
        to->early = false;
    else if (input && r->edge[to->from].node) return;
    to->history = td__has_node(t) && !td__needs_grad(from);
}

/* Was the view made before the history of what both it and its input are views of
 * ended? One made of a view without gradients takes after that, too. */
static bool is_older(td_joint_run *r, const td_result *to, td_tensor *t,
                     const td_tensor *from) {
    td_edge was = r->base_edge[to->from];
    if (!was.node || td__needs_grad(from->base) || !td__has_node(t)) return false;
    if (to->creation == TD_MADE_NO_GRAD) return true;
    const td_node *n = to->stale ? NULL : td__grad_fn(t);
    while (n && n != was.node && n->n_edge == 1 && n->def &&
           n->def->flags & (TD_OPF_VIEW | TD_OPF_META))
        n = n->edge[0].node;
    return n && n == was.node && td_ok(r->cx);
}

/* No view can be made of a base that set_ has taken elsewhere. */
static bool check_base(td_joint_run *r, const td_tensor *t) {
    bool grad = t->base && (td__needs_grad(t->base) || td__has_node(t));
    if (!grad || base_of(t)) return true;
    return td__fail(r->cx, TD_E_UNSUPPORTED,
                    "@%.60s: a result is a view of a tensor that requires grad, and "
                    "set_ has parted them; return a clone",
                    r->program->name);
}

/* ...nor of one that shows other elements by now. Where nobody sees that one, its
 * history, brought up to date, is the view's own. */
static bool place_parted(td_joint_run *r, td_result *to, td_tensor *t) {
    bool alone = td__joint_spot(r, t->st)->sharers == 1;
    bool plain = t->creation == TD_MADE_PLAIN;
    bool fine = plain && alone && td__joint_has_history(t->base);
    if (fine) to->stale = !td__grad_fn(t) && !td_ok(r->cx);
    place(r, to, t);
    if (!td__is_float((td_dtype)t->dtype) || fine || (plain && !td__needs_grad(t)))
        return td_ok(r->cx);
    return td__fail(r->cx, TD_E_UNSUPPORTED,
                    "@%.60s: a result is a view of a tensor whose geometry was written "
                    "and that shows other elements now; return a clone",
                    r->program->name);
}

/* Does the history of t, a view, meet set_ on its way to that of its base? */
static bool meets_set(td_tensor *t) {
    const td_node *n = td__grad_fn(t), *end = td__grad_fn(t->base);
    while (n && n != end && n->def && n->n_edge > 0) {
        if (n->flags & TD_NF_NONE) return true;
        if (!(n->def->flags & (TD_OPF_VIEW | TD_OPF_META))) return false;
        n = n->edge[0].node;
    }
    return false;
}

/* Views that custom functions return may have a history of their own. */
static bool is_own(const td_result *to, const td_tensor *t) {
    return !to->stale && t->creation == TD_MADE_CUSTOM;
}

/* Of a fresh tensor nobody else sees, and nothing tells it from one? */
static bool is_plain(td_joint_run *r, const td_result *to, td_tensor *t) {
    const td_joint_spot *spot = td__joint_spot(r, t->st);
    return spot->at_end < 0 && spot->came < 0 && spot->sharers == 1 &&
           to->creation == TD_MADE_PLAIN && !to->stale && !meets_set(t) &&
           (td__joint_has_history(t->base) || !td__needs_grad(t)) && !hides(r, t);
}

/* Has it a history, and the ops that make it again give none? */
static bool is_silent(const td_result *to, const td_tensor *t) {
    return td__has_node(t) && to->n_views > 0 && !to->views[to->n_views - 1].grad;
}

/* Does its history end at a leaf that the program made, and not at what the view is
 * made of outside? */
static bool ends_inside(const td_joint_run *r, td_tensor *t, const td_tensor *from) {
    const td_node *n = td__grad_fn(t);
    while (n && n->def && n->def->flags & (TD_OPF_VIEW | TD_OPF_META) && n->n_edge == 1)
        n = n->edge[0].node;
    if (!n || n->def || n->n_edge > 0 || n == td__known_accumulator(from)) return false;
    for (int i = 0; i < r->to->n_primals; i++)
        if (r->edge[i].node == n || r->base_edge[i].node == n ||
            (r->outer[i] && td__known_accumulator(r->outer[i]) == n))
            return false;
    return true;
}

static bool find_place(td_joint_run *r, td_result *to, td_tensor *t) {
    int  input = made_of(r, t);
    bool plain = base_of(t) && !is_own(to, t) && input < 0 && is_plain(r, to, t);
    if (!base_of(t) || is_own(to, t) || plain) {
        place(r, to, t);
        to->view = plain && to->how == TD_RESULT_VALUE;
        return check_base(r, t);
    }
    bool fresh = input < 0 || td__joint_spot(r, t->st)->came < 0;
    if (fresh && !td__joint_in_base(r, t)) return place_parted(r, to, t);
    td_tensor *from = input < 0 ? t->base : r->outer[input];
    if (!td__joint_views(r, to, t, from)) return false;
    to->how = TD_RESULT_VIEW;
    if (input < 0) made_from(r, to, from);
    else {
        to->source = TD_OF_INPUT;
        to->from = input;
        to->early = r->edge[input].node && !td__needs_grad(from);
    }
    find_own_history(r, to, t, from);
    /* until its base is written */
    to->history |=
        !to->stale && (meets_set(t) || is_silent(to, t) || ends_inside(r, t, from));
    if (input >= 0 && !to->history && is_older(r, to, t, from)) to->early = true;
    return true;
}

static bool find_result(td_joint_run *r, int i) {
    td_result *to = &r->to->results[i];
    td_tensor *t = out_tensor(r, i);
    *to = (td_result){.how = TD_RESULT_VALUE, .from = -1, .out = -1};
    if (!t) return true;
    int input = td__joint_spot(r, t)->input, again = same_result(r, t, i);
    if (!td__geom_copy(r->cx, &r->to->arena, &to->geom, t)) return false;
    fill_in(to, t);
    if (input < 0 && again < 0) return find_place(r, to, t) && td_ok(r->cx);
    to->how = input >= 0 ? TD_RESULT_INPUT : TD_RESULT_AGAIN;
    to->from = input >= 0 ? input : again;
    to->stale = to->wants = false;
    return td_ok(r->cx);
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
    if (to->how != TD_RESULT_VALUE && !to->history && !to->fill) return true;
    to->out = td__joint_output(r, td__func_value(&r->f, t), r->program->out_desc.v[i]);
    return to->out >= 0;
}

/* A view of a leaf sends it gradients of the sizes the leaf had then. */
static bool check_leaf(td_joint_run *r, const td_result *to) {
    int from = to->from;
    if (to->how != TD_RESULT_VIEW || to->source != TD_OF_INPUT || !r->edge[from].node ||
        !td__joint_is_leaf(r->real[from]) || td__joint_same_sizes(r, from))
        return true;
    return td__joint_fail_sizes(r, from);
}

bool td__joint_results(td_joint_run *r) {
    td_joint *j = r->to;
    for (int i = 0; i < j->n_results; i++)
        if (!find_result(r, i) || !check_leaf(r, &j->results[i])) return false;
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

void td__tangent_strides(const td_tangent *t, const int64_t *size, int64_t *stride) {
    int64_t step = 1;
    for (int k = t->geom.rank - 1; k >= 0; k--) {
        stride[t->order[k]] = step;
        step = td__dim_mul(step, td__dim_max(size[t->order[k]], 1));
    }
}

/* The order of dims that a gradient has which the engine makes for t (ones_like), and
 * most ops that follow t: its own, so that derivatives find the layout they find in
 * eager. `stride` is room for it. */
static void find_order(td_tangent *to, const td_tensor *t, int64_t *stride) {
    td__strides_like(t->rank, t->size, t->stride, stride);
    for (int i = 0; i < t->rank; i++) {
        int k = i;
        for (; k > 0 && td__dim_seems_lt(stride[to->order[k - 1]], stride[i]); k--)
            to->order[k] = to->order[k - 1];
        to->order[k] = (uint8_t)i;
    }
}

static bool want(td_joint_run *r, td_tangent_of of, int index, td_tensor *t) {
    td_joint   *j = r->to;
    td_tangent *to = &j->tangents[j->n_tangents];
    int64_t    *stride =
        td__arena_alloc(&j->arena, sizeof *stride * (size_t)(t->rank + 1));
    *to = (td_tangent){.of = of, .index = index};
    to->order = td__arena_alloc(&j->arena, (size_t)t->rank + 1);
    if (!stride || !to->order) return td__fail_memory(r->cx);
    if (!td__geom_copy(r->cx, &j->arena, &to->geom, t)) return false;
    find_order(to, t, stride);
    td__tangent_strides(to, t->size, stride);
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
