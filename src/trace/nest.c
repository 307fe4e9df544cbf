/* nest.c -- graphs inside graphs while recording: tensors lifted out of them, what
 * they write, and graphs that are captured anew because their operands are others
 * than they were made for. */
#include "trace/trace_int.h"

#include <stdio.h>

/* ---- lifted tensors ----------------------------------------------------- */

void td__lift_free(td_lift *l) {
    for (int i = 0; i < l->tensors.n; i++) td__unref(l->tensors.v[i]);
    td__vec_free(&l->tensors);
}

bool td__lift_pad(td_graph *g, const td_lift *l, int n_args) {
    char name[24];
    for (int i = g->inputs.n - n_args; i < l->tensors.n; i++) {
        td_tensor     *t = l->tensors.v[i];
        const td_look *look = td__graph_look(g, t, td__needs_grad(t), -1);
        snprintf(name, sizeof name, "c%d", i);
        if (!look || !td__graph_input(g, name, look, TD_PLAIN_DESC)) return false;
    }
    return true;
}

td_tensor *td__template(td_tensor *t, bool grad) {
    td_ctx    *cx = t->cx;
    td_tensor *a = td__tensor_alias(cx, t);
    if (!a) return NULL;
    a->payload = NULL;
    td_mode *top = td__modes_from(cx, cx->tape); /* the flag is no user's op call */
    if (grad) a = td_set_requires_grad(a, true);
    td__modes_from(cx, top);
    return td_is_nil(a) ? NULL : a;
}

/* ---- writes ------------------------------------------------------------- */

typedef struct writes {
    const td_graph *g;
    uint8_t        *how;
    uint8_t         mark;
} writes;

/* Inputs that lie where v does. */
static void note_write(void *env, td_gval *v) {
    writes *w = env;
    for (int i = 0; i < w->g->inputs.n; i++) {
        const td_gval *in = w->g->inputs.v[i];
        bool           shared = in->look && v->look && in->look->storage >= 0 &&
                      in->look->storage == v->look->storage;
        if (in == v || shared) w->how[i] |= w->mark;
    }
}

static bool grad_inside(td_gregion r) {
    return r == TD_R_ENABLE_GRAD || r == TD_R_PLAIN;
}

bool td__graph_writes(const td_graph *g, bool grad, uint8_t *how) {
    writes w = {.g = g, .how = how};
    TD_VEC(bool) outer = {0};
    memset(how, 0, (size_t)g->inputs.n);
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind == TD_N_ENTER) {
            if (!td__vec_push(&outer, grad)) return td__fail_memory(g->cx);
            grad = grad_inside((td_gregion)n->region);
        } else if (n->kind == TD_N_LEAVE) grad = outer.v[--outer.n];
        if (n->kind != TD_N_OP) continue;
        const td_schema *s = &td__opinfo(n->op)->s;
        w.mark = (uint8_t)(TD_WRITTEN | (grad ? TD_WRITTEN_LOUD : 0));
        for (int k = 0; k < n->n_in; k++)
            if (s->in[k].write) td__garg_each(&n->in[k], note_write, &w);
    }
    td__vec_free(&outer);
    return true;
}

/* ---- graphs as arguments ------------------------------------------------ */

static bool looks_as(const td_look *l, const td_tensor *t) {
    if (!l || l->kind != TD_K_TENSOR || l->dtype != t->dtype || l->rank != t->rank ||
        l->grad != td__needs_grad(t))
        return false;
    for (int d = 0; d < t->rank; d++)
        if (l->size[d] != t->size[d] || l->stride[d] != t->stride[d]) return false;
    return true;
}

/* The tensors in lists, in order: a graph of cond or a loop takes the first of them. */
static int operand_count(const td_opcall *c) {
    int n = 0;
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].kind == TD_K_TENSORS) n += (int)c->in[i].n;
    return n;
}

static td_tensor *operand(const td_opcall *c, int at) {
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i].kind != TD_K_TENSORS) continue;
        if (at < (int)c->in[i].n) return c->in[i].u.ts[at];
        at -= (int)c->in[i].n;
    }
    return NULL;
}

/* Was it captured for such operands? */
static bool is_current(const td_opcall *c, const td_graph *g) {
    for (int i = 0, at = 0; i < g->inputs.n; i++) {
        if (td__graph_holds(g, i)) continue;
        const td_tensor *t = operand(c, at++);
        if (!t || !looks_as(g->inputs.v[i]->look, t)) return false;
    }
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.v[i].kind == TD_G_VALUE && !g->outputs.v[i].u.v->look)
            return false;
    return true;
}

static td_graph *capture_again(const td_opcall *c, const td_graph *g) {
    td_value *in =
        td__arena_zalloc(&c->cx->scratch, sizeof *in * ((size_t)g->inputs.n + 1));
    int at = 0;
    if (!in) return td__fail_memory(c->cx), NULL;
    for (int i = 0; i < g->inputs.n; i++) {
        if (td__graph_holds(g, i)) continue;
        td_tensor *t = operand(c, at++);
        if (t && !(t = td__template(t, td__needs_grad(t)))) return NULL;
        if (t) in[i] = td_value_tensor(t);
    }
    if (at <= operand_count(c)) return td__capture_graph(g, in); /* the first of them */
    td__fail(c->cx, TD_E_ARG, "%s: @%.60s takes %d inputs, there are %d tensors",
             c->info->s.name, g->name, at, operand_count(c));
    return NULL;
}

/* A recorder of pure graphs is given what the functional mode made. A custom
 * function's graphs stay: nothing in them is asked for by looks. */
bool td__record_graphs(td_record *r, td_opcall *c, td_garg *args) {
    bool again = r->mode.composites && !c->info->composite;
    for (int i = 0; c->def->flags & TD_OPF_NESTS && i < c->n_in; i++) {
        td_graph *g = c->in[i].u.g;
        if (c->in[i].kind != TD_K_GRAPH) continue;
        if (again && !is_current(c, g)) g = capture_again(c, g);
        else td__graph_keep(g);
        if (!g || !td__graph_own(r->g, g)) return false;
        args[i].u.g = c->in[i].u.g = g;
    }
    return true;
}
