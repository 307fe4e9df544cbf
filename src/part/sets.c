/* sets.c -- which nodes belong to backward whatever is decided, which forward needs,
 * how far each value is from backward, and what can be fused with what. */
#include "part/part_int.h"

static bool is_late(const td_part *p, int i) {
    const td_gnode *n = p->g->nodes.v[i];
    if (n->origin == TD_FROM_BACKWARD && td__gnode_stays(n)) return true;
    for (int k = p->read_at[i]; k < p->read_at[i + 1]; k++)
        if (p->late_v[p->reads[k]]) return true;
    return false;
}

/* By place: what a step computes from where a backward begins on is not moved. */
static bool find_late_run(td_part *p) {
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode *n = p->g->nodes.v[i];
        p->late[i] = i >= p->from;
        for (int k = 0; k < n->n_out; k++) {
            int v = n->out[k]->id;
            p->late_v[v] = p->late[i];
            p->is_grad[v] = p->is_out[v] && p->late[i];
            p->is_out[v] = p->is_out[v] && !p->late[i];
        }
    }
    return true;
}

static bool find_late(td_part *p) {
    if (p->from >= 0) return find_late_run(p);
    for (int i = 0; i < p->j->n_tangents; i++) p->late_v[p->n_primals + i] = true;
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode *n = p->g->nodes.v[i];
        p->late[i] = is_late(p, i);
        for (int k = 0; k < n->n_out; k++) p->late_v[n->out[k]->id] = p->late[i];
        if (p->late[i] && n->origin == TD_FROM_FORWARD)
            return td__fail(p->cx, TD_E_ARG,
                            "partition: forward node %d (%s) depends on a tangent", i,
                            td__ops[n->op].name);
    }
    for (int v = 0; v < p->n_values; v++)
        if (p->is_out[v] && p->late_v[v])
            return td__fail(p->cx, TD_E_ARG,
                            "partition: a forward output depends on a tangent");
    return true;
}

static void find_forward(td_part *p) {
    for (int i = p->n_nodes - 1; i >= 0; i--) {
        const td_gnode *n = p->g->nodes.v[i];
        bool            in = !p->late[i] && td__gnode_stays(n);
        for (int k = 0; k < n->n_out && !in; k++) {
            int v = n->out[k]->id;
            in = p->is_out[v];
            for (int u = p->user_at[v]; u < p->user_at[v + 1] && !in; u++)
                in = p->fw[p->users[u]];
        }
        p->fw[i] = in;
    }
}

/* What is not forward is at 0; a forward value one further than its nearest reader. */
static int distance(const td_part *p, const int32_t *of_node, int v) {
    int far = p->is_grad[v] ? 0 : TD_FAR;
    for (int u = p->user_at[v]; u < p->user_at[v + 1]; u++)
        if (of_node[p->users[u]] < far) far = of_node[p->users[u]];
    return far >= TD_FAR ? TD_FAR : far + 1;
}

static bool find_distances(td_part *p) {
    int32_t *of_node = td__part_room(p, (size_t)p->n_nodes, sizeof *of_node);
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

static void find_fusible(td_part *p) {
    for (int i = 0; i < p->n_nodes; i++) {
        td_op op = p->g->nodes.v[i]->op;
        bool  cheap = td__op_is_cheap(op);
        p->fuses[i] = cheap || td__op_draws(op);
        p->gathers[i] = cheap && td__opinfo(op)->s.n_in > 0 &&
                        td__opinfo(op)->s.in[0].type == TD_T_TENSORS;
    }
}

/* Writes stand at the end of the graph, whichever half they are of. */
int td__part_last_forward(const td_part *p) {
    int last = p->n_nodes - 1;
    for (; last >= 0; last--) {
        const td_gnode *n = p->g->nodes.v[last];
        if (n->origin == TD_FROM_FORWARD && !td__opinfo(n->op)->writes) break;
    }
    return last;
}

bool td__part_sets(td_part *p) {
    size_t nn = (size_t)p->n_nodes, nv = (size_t)p->n_values;
    p->late = td__part_room(p, nn, 1);
    p->late_v = td__part_room(p, nv, 1);
    p->fw = td__part_room(p, nn, 1);
    p->again = td__part_room(p, nn, 1);
    p->firm = td__part_room(p, nn, 1);
    p->fuses = td__part_room(p, nn, 1);
    p->gathers = td__part_room(p, nn, 1);
    p->dist = td__part_room(p, nv, sizeof *p->dist);
    if (!p->late || !p->late_v || !p->fw || !p->again || !p->firm || !p->fuses ||
        !p->gathers || !p->dist)
        return false;
    if (!find_late(p)) return false;
    find_forward(p);
    find_fusible(p);
    return find_distances(p);
}
