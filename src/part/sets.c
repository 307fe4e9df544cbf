/* sets.c -- properties of nodes that hold for every partition: which must run in
 * backward, which forward needs, how far each value is from backward, and what can
 * fuse. */
#include "part/part_int.h"

/* Does a hook read an input or a tensor of the call (op _held) here? The caller may
 * write these before backward; no other code can write values of the program. */
static bool reads_late(const td_part *p, const td_gnode *n) {
    if (td__row(n->op)->view != TD_VIEW_LATE || n->in[0].kind != TD_G_VALUE)
        return false;
    int maker = p->maker[p->root[n->in[0].u.v->id]];
    return maker < 0 || p->g->nodes.v[maker]->op == TD_OP__held;
}

/* Does it depend on a tangent or on what a hook reads, or is it an effect of backward?
 */
static bool runs_in_backward(const td_part *p, int i) {
    const td_gnode *n = p->g->nodes.v[i];
    if (n->origin == TD_FROM_BACKWARD && (reads_late(p, n) || td__gnode_stays(n)))
        return true;
    for (int k = p->read_at[i]; k < p->read_at[i + 1]; k++)
        if (p->bwd_only_v[p->reads[k]]) return true;
    return false;
}

/* In a training step by position: nodes from the backward on are not moved. */
static bool find_backward_run(td_part *p) {
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode *n = p->g->nodes.v[i];
        p->bwd_only[i] = i >= p->from;
        for (int k = 0; k < n->n_out; k++) {
            int v = n->out[k]->id;
            p->bwd_only_v[v] = p->bwd_only[i];
            p->is_grad[v] = p->is_out[v] && p->bwd_only[i];
            p->is_out[v] = p->is_out[v] && !p->bwd_only[i];
        }
    }
    return true;
}

/* Fills bwd_only. False after td__fail. */
static bool find_backward(td_part *p) {
    if (p->from >= 0) return find_backward_run(p);
    for (int i = 0; i < p->j->n_tangents; i++) p->bwd_only_v[p->n_primals + i] = true;
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode *n = p->g->nodes.v[i];
        p->bwd_only[i] = runs_in_backward(p, i);
        for (int k = 0; k < n->n_out; k++)
            p->bwd_only_v[n->out[k]->id] = p->bwd_only[i];
        if (p->bwd_only[i] && n->origin == TD_FROM_FORWARD)
            return td__fail(p->cx, TD_E_ARG,
                            "partition: forward node %d (%s) depends on a tangent", i,
                            td__row(n->op)->name);
    }
    for (int v = 0; v < p->n_values; v++)
        if (p->is_out[v] && p->bwd_only_v[v])
            return td__fail(p->cx, TD_E_ARG,
                            "partition: a forward output depends on a tangent");
    return true;
}

/* Fills fw: the nodes that forward outputs, effects and hooks need. */
static void find_forward(td_part *p) {
    for (int i = p->n_nodes - 1; i >= 0; i--) {
        const td_gnode *n = p->g->nodes.v[i];
        bool            in = !p->bwd_only[i] && td__gnode_stays(n);
        in |= n->op == TD_OP__held;
        for (int k = 0; k < n->n_out && !in; k++) {
            int v = n->out[k]->id;
            in = p->is_out[v];
            for (int u = p->user_at[v]; u < p->user_at[v + 1] && !in; u++)
                in = p->fw[p->users[u]];
        }
        p->fw[i] = in;
    }
}

/* The number of nodes from v to the nearest backward node. */
static int distance(const td_part *p, const int32_t *of_node, int v) {
    int far = p->is_grad[v] ? 0 : TD_FAR;
    for (int u = p->user_at[v]; u < p->user_at[v + 1]; u++)
        if (of_node[p->users[u]] < far) far = of_node[p->users[u]];
    return far >= TD_FAR ? TD_FAR : far + 1;
}

/* Fills dist. False after td__fail. */
static bool find_distances(td_part *p) {
    int32_t *of_node = td__part_alloc(p, (size_t)p->n_nodes, sizeof *of_node);
    if (!of_node) return false;
    for (int i = p->n_nodes - 1; i >= 0; i--) {
        const td_gnode *n = p->g->nodes.v[i];
        of_node[i] = p->fw[i] ? TD_FAR : 0;
        for (int k = 0; k < n->n_out; k++) {
            int v = n->out[k]->id;
            p->dist[v] = distance(p, of_node, v);
            if (p->fw[i] && p->dist[v] < of_node[i]) of_node[i] = p->dist[v];
        }
    }
    for (int v = 0; v < p->g->inputs.n; v++) p->dist[v] = distance(p, of_node, v);
    return true;
}

/* fuses: a cheap or random op. gathers: a cheap op of a list of tensors, such as cat,
 * which reads its operands as they are computed. */
static void find_fusible(td_part *p) {
    for (int i = 0; i < p->n_nodes; i++) {
        td_op op = p->g->nodes.v[i]->op;
        bool  cheap = td__op_is_cheap(op);
        p->fuses[i] = cheap || td__op_draws(op);
        p->gathers[i] = cheap && td__opinfo(op)->s.n_in > 0 &&
                        td__opinfo(op)->s.in[0].type == TD_T_TENSORS;
    }
}

/* Writes are at the end of the graph, whichever half they belong to, and do not
 * count. */
int td__part_last_forward(const td_part *p) {
    int last = p->n_nodes - 1;
    for (; last >= 0; last--) {
        const td_gnode *n = p->g->nodes.v[last];
        if (n->origin == TD_FROM_FORWARD && !td__opinfo(n->op)->writes) break;
    }
    return last;
}

/* Classifies nodes: depends on a tangent, belongs to forward, fuses with neighbours;
 * and the distance of each value to the nearest backward node. */
bool td__part_sets(td_part *p) {
    size_t nn = (size_t)p->n_nodes, nv = (size_t)p->n_values;
    p->bwd_only = td__part_alloc(p, nn, 1);
    p->bwd_only_v = td__part_alloc(p, nv, 1);
    p->fw = td__part_alloc(p, nn, 1);
    p->must_recompute = td__part_alloc(p, nn, 1);
    p->firm = td__part_alloc(p, nn, 1);
    p->fuses = td__part_alloc(p, nn, 1);
    p->gathers = td__part_alloc(p, nn, 1);
    p->dist = td__part_alloc(p, nv, sizeof *p->dist);
    if (!p->bwd_only || !p->bwd_only_v || !p->fw || !p->must_recompute || !p->firm ||
        !p->fuses || !p->gathers || !p->dist)
        return false;
    if (!find_backward(p)) return false;
    find_forward(p);
    find_fusible(p);
    return find_distances(p);
}
