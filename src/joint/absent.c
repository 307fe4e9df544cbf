/* absent.c -- takes tangents that do not arrive out of a backward graph. Gradients are
 * linear in tangents, so an op none of whose tangents is there gives nothing; a sum
 * gives its other term; anything else that reads one that is not there reads zeros. */
#include "joint/absent.h"

#include "joint/joint_int.h"

/* What a value has to do with tangents: nothing, with one that is there, or only with
 * ones that are not, FAINT where gradients that are zeros go into it as well. */
enum { PLAIN, THERE, ABSENT, FAINT };

typedef struct pruning {
    td_graph        *g;
    uint8_t         *state; /* by id */
    td_gval        **stand; /* by id: what is read in its place; NULL: itself */
    int              words; /* of sets of tangents */
    int              first; /* outputs from there on are gradients, */
    const td_target *to;    /* ...of these */
    bool             there, absent, faint, plain, ok;
} pruning;

static bool is_absent(const pruning *p, const td_gval *v) {
    return p->state[v->id] >= ABSENT;
}

static void look(void *env, td_gval *v) {
    pruning *p = env;
    p->there |= p->state[v->id] == THERE;
    p->absent |= is_absent(p, v);
    p->faint |= p->state[v->id] == FAINT;
    p->plain |= p->state[v->id] == PLAIN;
}

static void look_at(pruning *p, const td_garg *a, int n) {
    p->there = p->absent = p->faint = p->plain = false;
    for (int i = 0; i < n; i++) td__garg_each(&a[i], look, p);
}

static td_gval *stand_in(void *env, td_gval *v) {
    pruning *p = env;
    return p->stand[v->id] ? p->stand[v->id] : v;
}

/* The other term of a sum one term of which is absent; NULL: it is no such sum. */
static td_gval *other_term(const pruning *p, const td_gnode *n) {
    if (n->op != TD_OP_add || n->n_in != 2) return NULL;
    if (n->in[0].kind != TD_G_VALUE || n->in[1].kind != TD_G_VALUE) return NULL;
    td_gval *a = n->in[0].u.v, *b = n->in[1].u.v;
    return is_absent(p, a) ? b : a;
}

/* Is the sum the term itself, for all that is known of their sizes? */
static bool is_all_of(const td_look *term, const td_look *sum) {
    return term && sum && term->dtype == sum->dtype && term->rank == sum->rank &&
           !memcmp(term->size, sum->size, sizeof *sum->size * sum->rank);
}

/* Do two looks of the same sizes differ in a stride along which steps are taken? */
static bool lies_otherwise(const td_look *a, const td_look *b) {
    for (int d = 0; d < a->rank; d++)
        if (a->size[d] != 1 && a->stride[d] != b->stride[d]) return true;
    return false;
}

/* Views of the sum are made of the term from now on, so it is laid out alike, and
 * begins where its bytes do. */
static td_gval *in_place_of(pruning *p, td_gval *left, const td_look *sum) {
    bool same = left->look->offset == sum->offset && !lies_otherwise(left->look, sum);
    td_gval *v = stand_in(p, left);
    if (!same) v = td__joint_copy(p->g, v, sum->stride);
    if (v && !same) v->node->origin = TD_FROM_BACKWARD;
    p->ok &= v != NULL;
    return v;
}

/* Zeros that lie as l says, from node g->nodes.n on: first one for each place. */
static td_gval *lay_zeros(td_graph *g, const td_look *l) {
    int64_t size[TD_MAX_RANK];
    bool    spread = false;
    for (int d = 0; d < l->rank; d++) {
        bool one = l->stride[d] == 0 && l->size[d] != 1;
        size[d] = one ? 1 : l->size[d];
        spread |= one;
    }
    td_look places = *l, dense = *l;
    places.size = dense.size = size;
    dense.stride = NULL; /* row-major */
    td_garg in[2] = {td__garg_ints(size, l->rank), {.kind = TD_G_DTYPE}};
    in[1].u.dt = (td_dtype)l->dtype;
    td_gnode *z = td__graph_op(g, TD_OP_zeros, in, 2, 1);
    if (!z || !(z->out[0]->look = td__graph_look_of(g, dense))) return NULL;
    td_gval *v = z->out[0];
    if (lies_otherwise(v->look, &places)) v = td__joint_copy(g, v, l->stride);
    if (!spread || !v) return v;
    td_garg to[2] = {td__garg_value(v), td__garg_ints(l->size, l->rank)};
    z = td__graph_op(g, TD_OP_expand, to, 2, 1);
    return z ? z->out[0] : NULL;
}

static td_gval *make_zeros(td_graph *g, const td_look *l) {
    int      from = g->nodes.n;
    td_gval *v = lay_zeros(g, l);
    for (int i = from; i < g->nodes.n; i++) g->nodes.v[i]->origin = TD_FROM_BACKWARD;
    if (v) v->look = l;
    return v;
}

/* Zeros where an absent value is read beside others. */
static void need_zeros(void *env, td_gval *v) {
    pruning *p = env;
    if (!is_absent(p, v) || p->stand[v->id] || !p->ok) return;
    p->ok = v->look != NULL;
    if (!p->ok) {
        td__fail(p->g->cx, TD_E_UNSUPPORTED,
                 "@%.60s: a gradient of unknown size does not arrive", p->g->name);
        return;
    }
    p->stand[v->id] = make_zeros(p->g, v->look);
    p->ok = p->stand[v->id] != NULL;
}

static void give_state(pruning *p, const td_gnode *n, uint8_t state) {
    for (int i = 0; i < n->n_out; i++) p->state[n->out[i]->id] = state;
}

/* A gradient is linear in tangents: a term of it, or a part, that has nothing to do
 * with them is zeros. Arguments of other ops may be factors. */
static bool joins_gradients(const td_gnode *n) {
    return td__ops[n->op].linear == TD_LINEAR_SUM;
}

static bool prune_node(pruning *p, td_gnode *n) {
    look_at(p, n->in, n->n_in);
    p->faint |= p->plain && joins_gradients(n);
    td_gval *left = p->absent ? other_term(p, n) : NULL;
    bool     zeros = left && p->state[left->id] == PLAIN;
    if (p->absent && !p->there && !zeros && !td__gnode_is_fixed(n)) {
        give_state(p, n, p->faint ? FAINT : ABSENT);
        return true;
    }
    give_state(p, n, p->there ? THERE : PLAIN);
    if (left && is_all_of(left->look, n->out[0]->look)) {
        p->stand[n->out[0]->id] = in_place_of(p, left, n->out[0]->look);
        return p->ok;
    }
    for (int i = 0; i < n->n_in && p->absent; i++)
        td__garg_each(&n->in[i], need_zeros, p);
    for (int i = 0; i < n->n_in; i++) td__garg_map(&n->in[i], stand_in, p);
    return p->ok && (td__vec_push(&p->g->nodes, n) || td__fail_memory(p->g->cx));
}

/* to: where the gradient goes, NULL: it is none. A tangent that is there leads to it,
 * perhaps by way of zeros. */
static void prune_output(pruning *p, td_garg *a, const uint64_t *missing,
                         const td_target *to) {
    look_at(p, a, 1);
    bool due = to && (td__set_leaves(to->fills, missing, p->words) ||
                      (p->faint && td__set_leaves(to->gives, missing, p->words)));
    if (p->absent && due) td__garg_each(a, need_zeros, p);
    if (p->absent && !p->there && !due) *a = (td_garg){0};
    else td__garg_map(a, stand_in, p);
}

/* Where output i goes, a gradient; NULL: it is none. */
static const td_target *target_of(const pruning *p, int i) {
    return i < p->first ? NULL : &p->to[i - p->first];
}

static bool prune(pruning *p, const uint64_t *missing) {
    td_graph  *g = p->g;
    int        n = g->nodes.n;
    td_gnode **all = td__alloc(sizeof *all * (size_t)(n + 1));
    if (!all) return td__fail_memory(g->cx);
    for (int i = 0; i < n; i++) all[i] = g->nodes.v[i];
    g->nodes.n = 0;
    for (int i = 0; i < g->inputs.n; i++) {
        const td_desc *d = &g->in_desc.v[i];
        if (d->kind != TD_D_TANGENT) continue;
        bool gone = td__set_has(missing, d->index);
        p->state[g->inputs.v[i]->id] = gone ? ABSENT : THERE;
    }
    bool ok = true;
    for (int i = 0; ok && i < n; i++) ok = prune_node(p, all[i]);
    for (int i = 0; ok && i < g->outputs.n; i++)
        prune_output(p, &g->outputs.v[i], missing, target_of(p, i));
    td__free(all);
    return ok && p->ok && td__graph_dce(g) && td__graph_fix_storages(g);
}

td_graph *td__graph_without(const td_graph *g, const uint64_t *missing,
                            const td_joint *j) {
    pruning p = {.g = td__graph_clone(g),
                 .words = td__set_words(j->n_tangents),
                 .to = j->targets,
                 .first = g->outputs.n - j->n_targets,
                 .ok = true};
    if (!p.g) return NULL;
    /* For each value four may come: zeros, room, a copy in it, an expanded view. */
    size_t n = 6 * (size_t)p.g->n_values + 1;
    p.state = td__zalloc(n);
    p.stand = td__zalloc(sizeof *p.stand * n);
    bool ok = (p.state && p.stand) || td__fail_memory(g->cx);
    for (int i = p.first; ok && i < p.g->outputs.n; i++)
        if (!td__set_leaves(target_of(&p, i)->gives, missing, p.words))
            p.g->outputs.v[i] = (td_garg){0};
    ok = ok && prune(&p, missing);
    td__free(p.state);
    td__free((void *)p.stand);
    if (ok) return p.g;
    td__graph_drop(p.g);
    return NULL;
}
