/* updates.c -- what a program leaves behind in its inputs: new elements, another
 * geometry, another history. */
#include "joint/joint_int.h"

static bool refuse(const td_joint_run *r, int i, const char *what) {
    return td__fail(r->cx, TD_E_UNSUPPORTED, "@%.60s: input %d %s", r->program->name, i,
                    what);
}

bool td__joint_same_sizes(const td_joint_run *r, int i) {
    const td_geom   *was = &r->geom[i];
    const td_tensor *t = r->outer[i];
    bool             same = was->rank == t->rank;
    for (int d = 0; d < was->rank && same; d++)
        same = td__dim_same(was->size[d], t->size[d]);
    return same;
}

bool td__joint_fail_sizes(const td_joint_run *r, int i) {
    return refuse(r, i,
                  "is a leaf that takes gradients, and its sizes change; change those "
                  "of a view of it");
}

/* Does the geometry at the end show all the elements the input came with? */
static bool shows_all(const td_geom *was, const td_geom *end) {
    return td__geom_same(was, end) ||
           (td__geom_covers(end, was) && td__dim_eq(td__numel(was->rank, was->size),
                                                    td__numel(end->rank, end->size)));
}

static bool compare(td_tensor *t, td_edge was, bool *same) {
    td_edge now = {0};
    if (!td__edge_of(t, &now)) return false;
    *same = td__same_edge(now, was);
    if (now.node) td__node_drop(now.node);
    return true;
}

static bool stays(const td_joint_run *r, int i) {
    const td_tensor *t = r->outer[i];
    td_geom          now = {(td_dtype)t->dtype, t->rank, t->offset, t->size, t->stride};
    return r->f.in.v[r->nr[i]].st == t->st && td__geom_same(&now, &r->geom[i]);
}

/* Has it another geometry, of the same elements? */
static bool shows_still(const td_joint_run *r, int i) {
    const td_tensor *t = r->outer[i];
    td_geom          now = {(td_dtype)t->dtype, t->rank, t->offset, t->size, t->stride};
    return r->f.in.v[r->nr[i]].st == t->st && shows_all(&r->geom[i], &now);
}

/* Views that may not be written were written through others. */
static bool may_be_written(const td_joint_run *r, int i) {
    td_tensor *t = r->real[i];
    bool       leaf = t->flags & TD_TF_NEEDS_GRAD && !td__is_behind(t) && td_is_leaf(t);
    return r->outer[i]->creation == TD_MADE_PLAIN && !leaf;
}

/* Is there an input that shows all this one, a view, shows, being what it is a view of
 * or another view of that? Then elements and history are put there. From a base that
 * set_ took elsewhere the view has its history as well, when it next asks. */
static bool has_deputy(const td_joint_run *r, int i) {
    const td_tensor *t = r->outer[i], *base = t->base;
    if (base && !may_be_written(r, i)) return true;
    for (int k = 0; base && k < r->to->n_primals; k++) {
        const td_tensor *u = r->outer[k];
        if (!u || u == t || (u != base && u->base != base)) continue;
        if (u == base && r->f.in.v[r->nr[k]].st != u->st && t->st != u->st) return true;
        if (!stays(r, k) && !(u == base && shows_still(r, k))) continue;
        if (!td__geom_covers_bytes(&r->geom[k], &r->geom[i])) continue;
        if (!td__func_writes(&r->f, r->nr[k])) continue; /* of empty ones */
        if (u == base) return true;
        if (may_be_written(r, k) &&
            (k < i || !td__geom_covers_bytes(&r->geom[i], &r->geom[k])))
            return true;
    }
    return false;
}

/* How often has geometry been written with history since the input stood at `was`? A
 * view that was asked for its history since it was written has it from its base. *none:
 * gradients do not pass, for set_ is among it. */
static int count_turns(const td_node *fn, td_edge was, bool *none) {
    int n = 0;
    *none = false;
    while (fn && fn != was.node && td__joint_turns(fn)) {
        *none |= (fn->flags & TD_NF_NONE) != 0;
        fn = fn->edge[0].node;
        n++;
    }
    return n;
}

/* Is input i a view with a history that its base had for a while, and has no more? */
static bool is_lent(const td_joint_run *r, int i) {
    td_tensor     *t = r->outer[i];
    const td_node *was = r->edge[i].node, *below = r->base_edge[i].node;
    if (!t->base || !td__has_node(t) || td__needs_grad(t->base)) return false;
    if (!was) return true;
    const td_node *n = td__joint_is_stale(t) ? NULL : td__grad_fn(t);
    while (n && n != was && n != below && n->def && n->n_edge == 1 &&
           n->def->flags & (TD_OPF_VIEW | TD_OPF_META))
        n = n->edge[0].node;
    return n && n != was && n != below && n->n_edge > 0; /* not that of a leaf */
}

/* Compares where the input stands in the history with where it stood. A view stands
 * where its base does: any write in the storage has it ask there again. */
static bool find_history(td_joint_run *r, int i, td_update *u, bool data) {
    td_tensor *t = r->outer[i], *base = t->base;
    bool       did = r->edge[i].node != NULL, does = td__needs_grad(t), same = true;
    bool       by_base = r->base_edge[i].node != NULL;
    bool       lost = td__joint_is_stale(t) && td__has_node(t->base);
    bool       leaf = t->flags & TD_TF_NEEDS_GRAD && !td__has_node(t) && !lost;
    bool       again = did && leaf && !base && td__has_node(r->real[i]);
    if (again && td__known_accumulator(t))
        return refuse(r, i,
                      "becomes a leaf of its own, and is used after that; pass a "
                      "detached alias as another argument");
    if (is_lent(r, i))
        return refuse(r, i,
                      "is a view that has the history its base had for a while; detach "
                      "the base before the call, or pass a clone");
    if (does &&
        !compare(by_base ? t->base : t, by_base ? r->base_edge[i] : r->edge[i], &same))
        return false;
    const td_node *fn = does && !td__joint_is_stale(t) ? td__grad_fn(t) : NULL;
    bool           none;
    int            turns = count_turns(fn, r->edge[i], &none);
    bool           own = none || turns > 1; /* not one step from where it stood */
    u->detached = did && (!does || again);
    u->wants = leaf && (!did || again);
    u->turned = turns && !own && did && !data && !u->wants;
    bool refuses = td__joint_is_stale(t) && t->creation != TD_MADE_PLAIN; /* to tell */
    u->history = does && !same && !u->wants && !refuses &&
                 (data || own || u->moved != TD_HOME_SAME) &&
                 (!base || td__has_node(base)) && (!by_base || td__needs_grad(base));
    if (u->history && !u->meta && has_deputy(r, i)) u->history = false;
    return true;
}

/* Which bytes it lies in now. */
static bool find_home(td_joint_run *r, int i, td_update *u) {
    td_storage *st = r->outer[i]->st;
    u->home = -1;
    u->bytes = st->bytes;
    if (st == r->f.in.v[r->nr[i]].st) return true;
    u->moved = TD_HOME_FRESH;
    u->version = atomic_load(&st->version);
    for (int k = 0; k < r->to->n_primals; k++)
        if (r->outer[k] && r->f.in.v[r->nr[k]].st == st) {
            u->moved = TD_HOME_INPUT;
            u->home = k;
            return true;
        }
    for (int k = 0; k < r->to->n_updates; k++)
        if (r->outer[r->to->updates[k].input]->st == st) u->home = k;
    return true;
}

/* An input all of whose elements another one shows, which is put back itself, is left
 * out. */
static bool is_covered(const td_joint_run *r, int i) {
    const td_storage *st = r->f.in.v[r->nr[i]].st;
    for (int k = 0; k < r->to->n_primals; k++) {
        const td_tensor *t = r->outer[k];
        if (!t || t == r->outer[i] || t->st != st || r->f.in.v[r->nr[k]].st != st)
            continue;
        if (!stays(r, k)) continue;
        if (td__geom_covers_bytes(&r->geom[k], &r->geom[i]) &&
            (k < i || !td__geom_covers_bytes(&r->geom[i], &r->geom[k])))
            return true;
    }
    return false;
}

/* Views of a storage that was written look for their history at their base when they
 * are next asked. */
static bool asks_base(const td_joint_run *r, int i, const td_update *u) {
    const td_tensor *t = r->real[i];
    return t->base && t->base->st == t->st && u->versions && u->moved == TD_HOME_SAME &&
           !u->turned && !u->late &&
           (t->creation == TD_MADE_PLAIN || !r->outer[i]->base) &&
           td__needs_grad(r->outer[i]);
}

/* Does an input that came in the bytes u ends in show all that u shows? Then its own
 * update puts the elements there. */
static bool is_shown(const td_joint_run *r, const td_update *u) {
    const td_storage *st = r->outer[u->input]->st;
    for (int k = 0; k < r->to->n_primals; k++)
        if (r->outer[k] && r->f.in.v[r->nr[k]].st == st &&
            td__geom_covers_bytes(&r->geom[k], &u->end))
            return true;
    return false;
}

static bool put_output(td_joint_run *r, td_update *u, td_tensor *v, int *out) {
    td_desc d = {TD_D_UPDATE, u->input, NULL};
    *out = td__joint_output(r, v, d);
    return *out >= 0;
}

/* Elements go back where they came from, or into the geometry the input ends with,
 * where that shows them all, or both. */
static bool put_elements(td_joint_run *r, td_update *u, int nr, bool data) {
    if (data && !u->meta && !u->history && is_covered(r, u->input)) return true;
    bool same = u->moved == TD_HOME_SAME;
    bool one = u->meta && same && shows_all(&r->geom[u->input], &u->end);
    bool shown = u->moved == TD_HOME_INPUT && is_shown(r, u);
    bool late = u->meta && !shown && (data || !same);
    u->late = u->history && u->meta && same && !one;
    if (u->late && r->real[u->input]->base)
        return refuse(r, u->input,
                      "is written where gradients count and then shows other elements; "
                      "write after its geometry has changed");
    u->in_graph = r->opts.keep_mutations && !u->history && !u->meta && data &&
                  !td__overlaps_itself(r->outer[u->input]);
    if (u->in_graph) {
        td_tensor *v = td__func_given_value(&r->f, nr);
        td_gval   *w = v ? td__record_value(&r->rec, &v, "an update") : NULL;
        r->write[r->to->n_updates] = w;
        return w != NULL;
    }
    if (data && !one && !put_output(r, u, td__func_given_value(&r->f, nr), &u->out))
        return false;
    return !late ||
           put_output(r, u, td__func_value(&r->f, r->outer[u->input]), &u->now);
}

static bool any_needs(const td_joint_run *r) {
    bool any = false;
    for (int i = 0; i < r->to->n_primals; i++)
        any |= r->outer[i] && td__needs_grad(r->outer[i]);
    return any && r->opts.train;
}

typedef struct reading {
    const td_gval *v;
    bool           any;
} reading;

static void note_read(void *env, td_gval *v) {
    reading *r = env;
    r->any |= v == r->v;
}

/* Does an op read input i, so that gradients of it are those of the sizes it has then?
 * An accumulator from before the call has sizes already. */
static bool is_fixed_by_reads(const td_joint_run *r, int i) {
    const td_tensor *t = r->real[i];
    reading          read = {r->program->inputs.v[i], false};
    if (!td__needs_grad(t) || !td__joint_is_leaf(t) || td__known_accumulator(t))
        return false;
    for (int k = 0; k < r->program->nodes.n; k++) {
        const td_gnode *n = r->program->nodes.v[k];
        if (n->kind != TD_N_OP || td__opinfo(n->op)->writes) continue;
        for (int a = 0; a < n->n_in; a++) td__garg_each(&n->in[a], note_read, &read);
    }
    return read.any;
}

static bool find_update(td_joint_run *r, int i) {
    td_joint   *j = r->to;
    int         nr = r->nr[i];
    td_func_in *in = &r->f.in.v[nr];
    td_update   u = {.input = i, .out = -1, .now = -1, .set = in->n_set > 0};
    bool        data = td__func_writes(&r->f, nr) > 0;
    if (td__func_writes_outside(&r->f, nr))
        return refuse(r, i,
                      "lies in a storage in which elements are written that no input "
                      "shows; pass the base as an input");
    j->written[i] = data;
    if (in->n_set && r->real[i]->base && any_needs(r))
        return refuse(r, i, "is a view, and set_ takes it elsewhere; clone it");
    bool gains = td__needs_grad(r->outer[i]) && !td__needs_grad(r->real[i]);
    if (in->n_set && r->outer[i]->numel == 0 && gains)
        return refuse(r, i, "is empty, and set_ takes it elsewhere; clone it");
    if (!td__geom_copy(r->cx, &j->arena, &u.end, r->outer[i]) || !find_home(r, i, &u))
        return false;
    if (td__dim_tracing() && (u.moved || in->st->bytes != in->bytes))
        return refuse(r, i, "moves to bytes of a size that is not a number");
    td_shown by = {r->program->name, r->outer, r->out, j->n_primals, j->n_results};
    if (u.moved == TD_HOME_FRESH && r->outer[i]->numel > 0 &&
        !td__storage_shown(r->cx, r->outer[i]->st, &by))
        return false;
    u.meta = u.moved || !td__geom_same(&r->geom[i], &u.end);
    if (u.meta && !td__joint_same_sizes(r, i) && is_fixed_by_reads(r, i))
        return td__joint_fail_sizes(r, i);
    u.versions = (int64_t)(atomic_load(&in->st->version) - r->version[i]);
    u.grown = in->st->bytes > in->bytes ? in->st->bytes : 0;
    if (!find_history(r, i, &u, data)) return false;
    u.meta |= u.turned; /* also to what it was: eager asked for its history */
    if (asks_base(r, i, &u)) j->stale[i] = true;
    if (!data && !u.meta && !u.detached && !u.wants && !u.versions && !u.grown)
        return true;
    if (!put_elements(r, &u, nr, data)) return false;
    j->updates[j->n_updates++] = u;
    return true;
}

static bool is_again(const td_joint_run *r, int i) {
    return td__joint_spot(r, r->outer[i])->input < i;
}

bool td__joint_updates(td_joint_run *r) {
    td_joint *j = r->to;
    bool      any = false;
    for (int i = 0; i < j->n_primals; i++)
        any |= r->outer[i] && (td__func_writes(&r->f, r->nr[i]) ||
                               td__version(r->outer[i]) != r->version[i]);
    for (int i = 0; i < j->n_primals; i++) {
        if (!r->outer[i]) continue;
        if (any && is_again(r, i)) {
            j->written[i] = td__func_writes(&r->f, r->nr[i]) > 0;
            j->stale[i] = j->stale[td__joint_spot(r, r->outer[i])->input];
            continue;
        }
        if (!find_update(r, i)) return false;
    }
    return true;
}
