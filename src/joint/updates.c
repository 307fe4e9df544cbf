/* updates.c -- what a program leaves behind in its inputs: new elements, another
 * geometry, another history. */
#include "joint/joint_int.h"

static bool refuse(const td_joint_run *r, int i, const char *what) {
    return td__fail(r->cx, TD_E_UNSUPPORTED, "@%.60s: input %d %s", r->program->name, i,
                    what);
}

static bool same_edge(td_edge a, td_edge b) { return a.node == b.node && a.nr == b.nr; }

/* Does the geometry at the end show all the elements the input came with? */
static bool shows_all(const td_geom *was, const td_geom *end) {
    return td__geom_same(was, end) ||
           (td__geom_covers(end, was) && td__dim_eq(td__numel(was->rank, was->size),
                                                    td__numel(end->rank, end->size)));
}

/* Compares where the input stands in the history with where it stood. */
static bool find_history(td_joint_run *r, int i, td_update *u, bool data) {
    td_tensor *t = r->outer[i];
    td_edge    now = {0};
    bool       did = r->edge[i].node != NULL, does = td__needs_grad(t);
    if (does && !td__edge_of(t, &now)) return false;
    bool same = same_edge(now, r->edge[i]);
    if (now.node) td__node_drop(now.node);
    u->detached = did && !does;
    u->wants = !did && does && td_is_leaf(t);
    u->history = does && !same && !u->wants && data;
    return true;
}

static bool put_elements(td_joint_run *r, td_update *u, int nr) {
    td_desc d = {TD_D_UPDATE, u->input, NULL};
    u->late = u->meta && u->history;
    if (u->late && !shows_all(&r->geom[u->input], &u->end))
        return refuse(r, u->input,
                      "is written where gradients count and then shows other elements; "
                      "write after its geometry has changed");
    td_tensor *v = u->late ? td__func_value(&r->f, r->outer[u->input])
                           : td__func_given_value(&r->f, nr);
    u->in_graph = r->opts.keep_mutations && !u->history && !u->meta &&
                  !td__overlaps_itself(r->outer[u->input]);
    if (u->in_graph) {
        r->write[r->to->n_updates] =
            v ? td__record_value(&r->rec, &v, "an update") : NULL;
        return r->write[r->to->n_updates] != NULL;
    }
    u->out = td__joint_output(r, v, d);
    return u->out >= 0;
}

static bool find_update(td_joint_run *r, int i) {
    td_joint   *j = r->to;
    int         nr = r->nr[i];
    td_func_in *in = &r->f.in.v[nr];
    td_update   u = {.input = i, .out = -1};
    bool        data = td__func_writes(&r->f, nr) > 0;
    if (td__func_writes_outside(&r->f, nr))
        return refuse(r, i,
                      "lies in a storage in which elements are written that no input "
                      "shows; pass the base as an input");
    if (in->t->st != in->st || in->strayed)
        return refuse(r, i, "is moved to other bytes (set_)");
    if (in->st->bytes > in->bytes) return refuse(r, i, "makes its storage grow");
    j->written[i] = data;
    if (!td__geom_copy(r->cx, &j->arena, &u.end, r->outer[i])) return false;
    u.meta = !td__geom_same(&r->geom[i], &u.end);
    u.versions = (int64_t)(td__version(r->outer[i]) - r->version[i]);
    if (!find_history(r, i, &u, data)) return false;
    if (!data && !u.meta && !u.detached && !u.wants && !u.versions) return true;
    if (data && !put_elements(r, &u, nr)) return false;
    j->updates[j->n_updates++] = u;
    return true;
}

/* An input all of whose elements another update puts back already is left out, when no
 * history is at stake. */
static bool is_covered(const td_joint_run *r, int i) {
    const td_joint  *j = r->to;
    const td_tensor *t = r->outer[i];
    if (r->edge[i].node || td__needs_grad(t)) return false;
    for (int k = 0; k < j->n_updates; k++) {
        const td_update *u = &j->updates[k];
        if ((u->out < 0 && !u->in_graph) || r->outer[u->input]->st != t->st || u->meta)
            continue;
        if (td__geom_covers_bytes(&r->geom[u->input], &r->geom[i])) return true;
    }
    return false;
}

static bool is_again(const td_joint_run *r, int i) {
    for (int k = 0; k < i; k++)
        if (r->outer[k] == r->outer[i]) return true;
    return false;
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
            continue;
        }
        if (any && is_covered(r, i)) {
            j->written[i] = true;
            continue;
        }
        if (!find_update(r, i)) return false;
    }
    return true;
}
