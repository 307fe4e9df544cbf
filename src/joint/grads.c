/* grads.c -- the backward part of a joint graph: tangents come in, the engine goes from
 * what they belong to back to the inputs, and the gradients that arrive are outputs.
 * What eager's backward would refuse is found out here, and told when it is asked. */
#include "joint/joint_int.h"
#include "trace/sym.h"

#include <stdio.h>

/* A tangent comes as a dense tensor of its own. */
static bool add_tangent(td_joint_run *r, int i) {
    td_tangent *to = &r->to->tangents[i];
    td_ctx     *cx = r->cx;
    char        name[24];
    td_meta     m = td__geom_meta(&to->geom);
    m.offset = 0;
    snprintf(name, sizeof name, "t%d", i);
    td_tensor *like = td__tensor_make(cx, &m, true);
    td_tensor *inner = like ? td__record_input(&r->rec, like, name) : NULL;
    td_tensor *outer = inner ? td__tensor_alias(cx, like) : NULL;
    if (!outer) return false;
    r->to->g->in_desc.v[r->to->g->in_desc.n - 1] =
        (td_desc){TD_D_TANGENT, (int32_t)i, NULL};
    r->tangent[i] = outer;
    return td__func_make(&r->f, outer, inner);
}

static void add_target(td_joint *j, td_edge *to, td_edge e, td_target t) {
    for (int k = 0; k < j->n_targets; k++)
        if (td__same_edge(to[k], e)) return;
    to[j->n_targets] = e;
    j->targets[j->n_targets++] = t;
}

/* Target k is the leaf of event i from there on. */
static void bind_at(td_joint_run *r, int k, int i) {
    td_target *t = &r->to->targets[k];
    if (t->leaf) r->log.all.v[t->event].bind = -1;
    t->leaf = true;
    t->event = i;
    r->log.all.v[i].bind = k;
}

/* Leaves that come to require grad inside take gradients from then on; those that get
 * another geometry before anything reads them have it when they take the first, and
 * those that set_ gives other sizes begin anew. */
static bool find_bound(td_joint_run *r, td_edge *to) {
    td_joint *j = r->to;
    for (int i = 0; i < r->log.all.n; i++) {
        const td_event *e = &r->log.all.v[i];
        bool            renewed = e->op == TD_OP_set_ && e->late;
        bool            leaf = td__needs_grad(e->t) && !td__has_node(e->t); /* still */
        bool            turns = e->kind == TD_EV_META && (!e->used || renewed) && leaf;
        bool            begins =
            e->kind == TD_EV_FLAG && e->op == TD_OP_requires_grad_ && e->in[1].u.i;
        td_node *n = e->kept && (turns || begins) ? td__known_accumulator(e->t) : NULL;
        int      k = 0;
        if (!n) continue;
        while (k < j->n_targets && to[k].node != n) k++;
        if (k < j->n_targets && begins && !j->targets[k].leaf)
            continue; /* was before */
        if (k == j->n_targets) {
            if (!td__vec_push(&r->bound, n)) return td__fail_memory(r->cx);
            add_target(j, to, (td_edge){.node = td__node_ref(n)},
                       (td_target){.input = td__joint_input(r, e->t)});
        }
        bind_at(r, k, i);
    }
    return true;
}

/* A leaf that came as one, and was read. */
static void find_first_read(td_joint_run *r, int i) {
    const td_tensor *t = r->real[i];
    bool             leaf = t && t->flags & TD_TF_NEEDS_GRAD && !td__has_node(t);
    td_node         *n = leaf ? td__known_accumulator(r->outer[i]) : NULL;
    if (n && !r->edge[i].node) r->edge[i] = (td_edge){.node = td__node_ref(n)};
}

static bool find_targets(td_joint_run *r, td_edge *to) {
    td_joint *j = r->to;
    for (int i = 0; i < j->n_primals; i++) {
        find_first_read(r, i);
        if (r->edge[i].node) add_target(j, to, r->edge[i], (td_target){.input = i});
        if (r->base_edge[i].node)
            add_target(j, to, r->base_edge[i], (td_target){.input = i, .base = true});
    }
    return find_bound(r, to);
}

/* Bases and leaves made inside that no tangent leads to are nobody's business. */
static void drop_unreached(td_joint_run *r, td_edge *to) {
    td_joint *j = r->to;
    int       n = 0, words = td__set_words(j->n_tangents);
    for (int i = 0; i < j->n_targets; i++) {
        td_target t = j->targets[i];
        bool      bound = t.leaf && r->log.all.v[t.event].bind == i;
        if (bound) r->log.all.v[t.event].bind = -1;
        if ((t.base || t.leaf) && !td__set_any(t.from, words)) continue;
        if (bound) r->log.all.v[t.event].bind = n;
        to[n] = to[i];
        j->targets[n++] = t;
    }
    j->n_targets = n;
}

/* A backward inside the program is forward's; what comes from node `first` on is
 * backward's. What is expected of sizes is checked forward already, where they are
 * known there. */
static void tag_backward(td_graph *g, int first) {
    bool shows = false;
    for (int i = 0; i < first; i++) g->nodes.v[i]->origin = TD_FROM_FORWARD;
    for (int i = first; i < g->nodes.n; i++)
        shows |= (td__ops[g->nodes.v[i]->op].flags & TD_OPF_DYNAMIC) != 0;
    for (int i = first; i < g->nodes.n; i++)
        g->nodes.v[i]->origin = shows || g->nodes.v[i]->op != TD_OP_expect
                                    ? TD_FROM_BACKWARD
                                    : TD_FROM_FORWARD;
}

/* It stands for the write that made the value, and has its place in the source. */
bool td__joint_add_write(td_joint_run *r, int input, td_gval *v) {
    td_graph *g = r->to->g;
    td_garg   in[2] = {td__garg_value(g->inputs.v[input]), td__garg_value(v)};
    td_gnode *n = td__graph_op(g, TD_OP_copy_, in, 2, 1);
    if (!n) return false;
    n->out[0]->look = g->inputs.v[input]->look;
    if (v->node) n->here = v->node->here;
    if (v->node) n->scope = v->node->scope;
    return true;
}

/* Inputs the backward itself wrote: the graph writes them at its end. */
static bool write_late(td_joint_run *r, const int *writes) {
    for (int i = 0; i < r->to->n_primals; i++) {
        if (!r->outer[i] || td__func_writes(&r->f, r->nr[i]) == writes[i]) continue;
        td_tensor *t = td__func_given_value(&r->f, r->nr[i]);
        td_gval   *v = t ? td__record_value(&r->rec, &t, "an update") : NULL;
        if (!v || !td__joint_add_write(r, i, v)) return false;
    }
    return true;
}

/* What the inputs look like, into `looks`. */
static bool note_looks(td_joint_run *r, td_geom *looks) {
    for (int i = 0; i < r->to->n_primals; i++)
        if (r->outer[i] && !td__geom_copy(r->cx, &r->to->arena, &looks[i], r->outer[i]))
            return false;
    return true;
}

/* A backward may write elements; nobody changes an input's geometry after the call. */
static bool check_looks(td_joint_run *r, const td_geom *was) {
    td_geom now;
    for (int i = 0; i < r->to->n_primals; i++) {
        if (!r->outer[i]) continue;
        if (!td__geom_copy(r->cx, &r->to->arena, &now, r->outer[i])) return false;
        if (!td__geom_same(&now, &was[i]))
            return td__fail(r->cx, TD_E_UNSUPPORTED,
                            "@%.60s: the backward of a custom function changes sizes "
                            "or strides of input %d; let it work on a view of its own",
                            r->program->name, i);
    }
    return true;
}

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

/* Does the tangent arrive in the backward that is traced? */
static bool arrives(const td_joint_run *r, int i) {
    const td_joint_opts *o = &r->opts;
    if (o->missing) return !td__set_has(o->missing, i);
    bool loss = o->loss > 0 && o->loss <= r->to->n_results;
    return !loss || r->to->tangents[i].index == o->ends->out[o->loss - 1];
}

/* Runs the engine once, from all roots whose tangent arrives and whose backward eager
 * allows. The history stays for another run. */
static bool go_back(td_joint_run *r, const td_edge *to, td_tensor **grads) {
    td_joint   *j = r->to;
    td_tensor **roots = td__alloc(2 * sizeof *roots * (size_t)(j->n_tangents + 1));
    int         n = 0;
    if (!roots) return td__fail_memory(r->cx);
    td_tensor **with = roots + j->n_tangents + 1;
    for (int i = 0; i < j->n_tangents; i++) {
        if (j->tangents[i].broken || !arrives(r, i)) continue;
        roots[n] = r->roots[i];
        with[n++] = r->tangent[i];
    }
    td_grad_opts o = {TD_GRAD_OPTS, .retain_graph = true, .grads = {with, n}};
    bool         ok =
        n == 0 || td__grad_all((td_tensors){roots, n}, to, j->n_targets, grads, &o);
    td__free((void *)roots);
    return ok;
}

/* Would eager's backward fail with this, too? */
static bool is_eagers(td_code code) {
    return code != TD_E_MEMORY && code != TD_E_TRACE && code != TD_E_UNSUPPORTED;
}

/* Eager fails when it goes backward from certain roots, and not before: so will the
 * compiled function. Each is tried alone. */
static bool find_broken(td_joint_run *r, const td_edge *to, td_tensor **grads) {
    td_joint *j = r->to;
    td_clear(r->cx);
    for (int i = 0; i < j->n_tangents; i++) {
        td_tensors   root = {&r->roots[i], 1}, with = {&r->tangent[i], 1};
        td_grad_opts o = {TD_GRAD_OPTS, .retain_graph = true, .grads = with};
        if (td__grad_all(root, to, j->n_targets, grads, &o)) continue;
        if (!is_eagers(td_error(r->cx)) || td__symenv_assumed()) return false;
        j->tangents[i].code = td_error(r->cx);
        j->tangents[i].broken = td__arena_strdup(&j->arena, td_message(r->cx));
        td_clear(r->cx);
        if (!j->tangents[i].broken) return td__fail_memory(r->cx);
    }
    memset(grads, 0, sizeof(td_tensor *) * (size_t)j->n_targets);
    return go_back(r, to, grads);
}

bool td__joint_differentiate(td_joint_run *r) {
    td_joint   *j = r->to;
    td_arena   *a = &j->arena;
    size_t      n = (size_t)j->n_primals + 1 + (size_t)r->log.all.n;
    int         first = j->g->nodes.n;
    td_edge    *to = td__arena_zalloc(a, sizeof *to * 2 * n);
    td_tensor **grads = td__arena_zalloc(a, sizeof *grads * 2 * n);
    int        *writes = td__arena_zalloc(a, sizeof *writes * n);
    td_geom    *looks = td__arena_zalloc(a, sizeof *looks * n);
    if (!to || !grads || !writes || !looks) return td__fail_memory(r->cx);
    for (int i = 0; i < j->n_primals; i++)
        if (r->outer[i]) writes[i] = td__func_writes(&r->f, r->nr[i]);
    for (int i = 0; i < j->n_tangents; i++)
        if (!add_tangent(r, i)) return false;
    if (!find_targets(r, to) || !note_looks(r, looks)) return false;
    if (!td__joint_reach(r, to)) return false;
    drop_unreached(r, to);
    bool ok = go_back(r, to, grads) ||
              (is_eagers(td_error(r->cx)) && find_broken(r, to, grads));
    ok = ok && check_looks(r, looks) && put_grads(r, grads) && write_late(r, writes);
    tag_backward(j->g, first);
    return ok;
}
