/* verify.c -- invariants of graphs, one contract per stage. Runs between stages
 * (with debug_asserts) and on every graph that comes from text.
 *
 * Every stage: a value is defined once, before it is read; arguments fit the
 * schema; regions nest; types are valid; a view has its argument's storage
 * number. functional: no op that writes, no regions. joint: functional, except
 * that copy_ may write an input at the end; tangents come after the other
 * inputs and gradients after the other outputs; forward nodes and plain outputs
 * do not depend on tangents. half: with tangents (backward) it has no saved
 * outputs; without (forward) it has no gradients, and saved values are the last
 * outputs. code: a half whose copy_ may also write slices of tensors made by empty. */
#include "core/stack.h"
#include "graph/graph_int.h"
#include "ops/call.h"

#include <stdio.h>

/* State of one verification. */
typedef struct checker {
    const td_graph *g;
    td_stage        stage;
    const td_gval **made;          /* by id: defined so far */
    bool           *tangent;       /* by id: depends on a tangent */
    const td_gnode *node;          /* the node being checked; NULL: inputs or outputs */
    const char     *where;         /* for messages when node is NULL */
    bool            ok;            /* no violation so far */
    bool            reads_tangent; /* the current node or output does */
    bool            any_set;       /* a set_ came before: storage numbers may differ */
} checker;

/* Fails with the source line of the current node, or its number. */
static bool TD_PRINTF(2, 3) wrong(checker *c, const char *fmt, ...) {
    char    text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    c->ok = false;
    if (!c->node)
        return td__fail(c->g->cx, TD_E_ARG, "graph @%.60s: %s: %s", c->g->name,
                        c->where, text);
    const char *op = c->node->kind == TD_N_OP ? td__row(c->node->op)->name : "region";
    if (c->node->here.file)
        return td__fail(c->g->cx, TD_E_ARG, "%s:%d: %s: %s", c->node->here.file,
                        c->node->here.line, op, text);
    return td__fail(c->g->cx, TD_E_ARG, "graph @%.60s: node %d (%s): %s", c->g->name,
                    (int)c->node->id, op, text);
}

/* ---- values ------------------------------------------------------------- */

/* A stated type is plausible in itself: known dtype, nonnegative or symbolic sizes, a
 * storage number in range. */
static bool check_type(checker *c, const td_gtype *l) {
    if (!l) return true;
    if (l->kind != TD_K_TENSOR)
        return l->kind == TD_K_INT || l->kind == TD_K_FLOAT || l->kind == TD_K_BOOL ||
               wrong(c, "a value is a tensor, an int, a float or a bool");
    if (l->dtype >= TD_DTYPE_COUNT || l->rank > TD_MAX_RANK)
        return wrong(c, "the type of a value has an unknown dtype or too many dims");
    for (int d = 0; d < l->rank; d++)
        if (l->size[d] < 0 && !td__gdim_at(c->g, l->size[d]))
            return wrong(c, "size %d of a value is negative", d);
    if (l->storage >= c->g->n_storages)
        return wrong(c,
                     "the type of a value has a storage number that is out of range");
    if (l->grad && !td__is_differentiable((td_dtype)l->dtype))
        return wrong(
            c, "a value that is neither floating-point nor complex requires grad");
    return true;
}

/* Marks v as defined; `tangent`: it depends on a tangent. */
static bool define(checker *c, const td_gval *v, bool tangent) {
    if (v->id < 0 || v->id >= c->g->n_values) return wrong(c, "a value has a wrong id");
    if (c->made[v->id]) return wrong(c, "two values have the id %d", (int)v->id);
    c->made[v->id] = v;
    c->tangent[v->id] = tangent;
    return check_type(c, v->type);
}

/* v must be defined before the node that is checked. */
static void check_read(void *env, td_gval *v) {
    checker *c = env;
    if (!c->ok) return;
    if (!v || v->id < 0 || v->id >= c->g->n_values || c->made[v->id] != v)
        wrong(c, "%%%.60s is read before it is made",
              v && v->name ? v->name : "a value without a name");
    else c->reads_tangent |= c->tangent[v->id];
}

/* Nested graphs obey the contract of the same stage, those that are called that of
 * functional graphs. */
static bool check_nested(checker *c, const td_garg *a) {
    if (a->kind == TD_G_GRAPH) {
        if (!td__stack_holds(c->g->cx, "a nested graph")) return c->ok = false;
        td_stage as =
            c->node && c->node->op == TD_OP_call ? TD_STAGE_FUNCTIONAL : c->stage;
        if (a->u.g && td__graph_verify(a->u.g, as)) return true;
        return c->ok = false;
    }
    for (uint32_t i = 0; a->kind == TD_G_LIST && i < a->n; i++)
        if (!check_nested(c, &a->u.list[i])) return false;
    return true;
}

/* ---- nodes -------------------------------------------------------------- */

/* Arguments fit the schema, read only values defined before, and nested graphs verify.
 * Missing ones must have a default. */
static bool check_args(checker *c, const td_gnode *n, const td_schema *s) {
    if (n->n_in > s->n_in)
        return wrong(c, "%d arguments, at most %d", (int)n->n_in, s->n_in);
    for (int i = 0; i < s->n_in; i++) {
        const td_param *p = &s->in[i];
        if (i >= n->n_in) {
            if (!p->has_default) return wrong(c, "argument %s is missing", p->name);
            continue;
        }
        td__garg_each(&n->in[i], check_read, c);
        if (!c->ok || !check_nested(c, &n->in[i])) return false;
        td_garg copy = n->in[i];
        if (!td__garg_fit(p, &copy))
            return wrong(c, "argument %s has the wrong type", p->name);
    }
    return true;
}

/* The results of a view op have its argument's storage number, but where a type of the
 * library replaces the op by one that makes a tensor (td_type_opts.instead). */
static bool check_storage(checker *c, const td_gnode *n) {
    int at = td__opinfo(n->op)->view_of;
    c->any_set |= n->op == TD_OP_set_;
    if (c->any_set || at < 0 || at >= n->n_in || n->in[at].kind != TD_G_VALUE)
        return true;
    const td_gtype *from = n->in[at].u.v->type;
    if (from && from->of && td__typed_replaces(from->of->name, n->op)) return true;
    for (int i = 0; i < n->n_out && from; i++) {
        const td_gtype *to = n->out[i]->type;
        if (to && to->storage >= 0 && from->storage >= 0 &&
            to->storage != from->storage)
            return wrong(c, "a view has another storage than its argument");
    }
    return true;
}

enum { MOST_SLICES = 64 }; /* of slices; a damaged graph may have a cycle */

/* Is v an empty tensor, or a slice of one? */
static bool is_unset(const td_gval *v) {
    const td_gnode *n = v->node;
    for (int i = 0; i < MOST_SLICES && n && n->op == TD_OP_slice && n->n_in > 0 &&
                    n->in[0].kind == TD_G_VALUE;
         i++)
        n = n->in[0].u.v->node;
    return n && n->op == TD_OP_empty;
}

/* Is it a copy_ into an input, with which joint graphs and halves may end, or a _bump,
 * which counts such writes? Code may also set what it has made itself. */
static bool is_allowed_write(const checker *c, const td_gnode *n) {
    bool copies = n->op == TD_OP_copy_ || n->op == TD_OP__bump;
    if (c->stage == TD_STAGE_FUNCTIONAL || !copies || n->n_in == 0 ||
        n->in[0].kind != TD_G_VALUE)
        return false;
    return !n->in[0].u.v->node || (c->stage == TD_STAGE_CODE && is_unset(n->in[0].u.v));
}

/* A node fits its op's schema; outside of programs it writes nothing except the final
 * copy_ into an input; in a joint graph, forward nodes do not depend on tangents. */
static bool check_op(checker *c, const td_gnode *n) {
    if (!td__op_exists(n->op)) return wrong(c, "no such op");
    const td_opinfo *info = td__opinfo(n->op);
    bool             list = info->s.n_out == 1 && info->s.out[0].type == TD_T_TENSORS;
    if (!list && n->n_out != info->s.n_out)
        return wrong(c, "has %d results; the op has %d", (int)n->n_out, info->s.n_out);
    if (c->stage != TD_STAGE_PROGRAM && info->writes && !is_allowed_write(c, n))
        return wrong(c, "writes its argument, in a functional graph");
    c->reads_tangent = false;
    if (!check_args(c, n, &info->s) || !check_storage(c, n)) return false;
    if (c->stage == TD_STAGE_JOINT && n->origin == TD_FROM_FORWARD && c->reads_tangent)
        return wrong(c, "a forward node depends on a tangent");
    for (int i = 0; i < n->n_out; i++) {
        if (n->out[i]->node != n || n->out[i]->nr != i)
            return wrong(c, "result %d belongs to another node", i);
        if (!define(c, n->out[i], c->reads_tangent)) return false;
    }
    return true;
}

/* Nodes are in a valid order, and grad-mode regions, which only programs have, are
 * balanced. */
static bool check_nodes(checker *c) {
    int open = 0;
    for (int i = 0; i < c->g->nodes.n; i++) {
        const td_gnode *n = c->node = c->g->nodes.v[i];
        if (n->dead) continue;
        if (n->kind == TD_N_OP) {
            if (!check_op(c, n)) return false;
            continue;
        }
        if (c->stage != TD_STAGE_PROGRAM)
            return wrong(c, "a region, in a functional graph");
        if (n->kind == TD_N_ENTER && n->region >= TD_R_COUNT)
            return wrong(c, "no such region");
        open += n->kind == TD_N_ENTER ? 1 : -1;
        if (open < 0) return wrong(c, "closes a region that is not open");
    }
    c->node = NULL;
    c->where = "nodes";
    return open == 0 || wrong(c, "%d regions are not closed", open);
}

/* ---- inputs and outputs ------------------------------------------------- */

/* Each input is defined once, at its own index; in a joint graph tangents come after
 * all primals. */
static bool check_inputs(checker *c) {
    const td_graph *g = c->g;
    bool            late = false;
    c->where = "inputs";
    if (g->inputs.n != g->in_desc.n) return wrong(c, "each has one descriptor");
    for (int i = 0; i < g->inputs.n; i++) {
        const td_desc *d = &g->in_desc.v[i];
        bool           tangent = d->kind == TD_D_TANGENT;
        if (d->kind >= TD_D_COUNT) return wrong(c, "input %d: no such descriptor", i);
        if (g->inputs.v[i]->node || g->inputs.v[i]->nr != i)
            return wrong(c, "input %d has another place", i);
        if (!define(c, g->inputs.v[i], tangent)) return false;
        late |= tangent;
        bool after = late && !tangent && d->kind != TD_D_CONST &&
                     d->kind != TD_D_TOKEN && !td__is_rng_desc(d);
        if (c->stage == TD_STAGE_JOINT && after)
            return wrong(c, "input %d comes after a tangent", i);
    }
    return true;
}

/* Forward outputs first, none of which depends on a tangent, then gradients. */
static bool check_joint_output(checker *c, int i, bool *grads) {
    const td_desc *d = &c->g->out_desc.v[i];
    bool           grad = d->kind == TD_D_GRAD;
    /* Behind all others, of both halves: see tokens.c and functional_rng.c. */
    if (d->kind == TD_D_TOKEN || td__is_rng_desc(d)) return true;
    if (*grads && !grad) return wrong(c, "output %d comes after a gradient", i);
    *grads |= grad;
    if (grad && d->index >= c->g->outputs.n)
        return wrong(c, "output %d: the index of its <grad> is out of range", i);
    return grad || !c->reads_tangent || wrong(c, "output %d depends on a tangent", i);
}

/* A forward half returns results, then saved values; a backward half returns gradients
 * and saves nothing. */
static bool check_half_output(checker *c, int i, bool backward, bool *saved) {
    uint8_t kind = c->g->out_desc.v[i].kind;
    if (backward && kind == TD_D_SAVED)
        return wrong(c, "a backward half saves nothing");
    if (!backward && kind == TD_D_GRAD)
        return wrong(c, "a forward half gives no gradients");
    if (*saved && kind != TD_D_SAVED && kind != TD_D_OFFSET)
        return wrong(c, "output %d comes after a saved value", i);
    *saved |= kind == TD_D_SAVED;
    return true;
}

/* An <own_grad i> must refer to an input that is a tensor. */
static bool check_own_grad(checker *c, const td_desc *d, const char *what, int i) {
    const td_graph *g = c->g;
    if (d->kind != TD_D_OWN_GRAD) return true;
    bool            there = d->index >= 0 && d->index < g->inputs.n;
    const td_gtype *l = there ? g->inputs.v[d->index]->type : NULL;
    if (there && (!l || l->kind == TD_K_TENSOR)) return true;
    return wrong(c, "%s %d: <own_grad> refers to an input that is not a tensor", what,
                 i);
}

/* Descriptors <own_grad> (gradients that arguments have before or after a step) refer
 * to inputs, and in a program follow the results. */
static bool check_own_grads(checker *c) {
    const td_graph *g = c->g;
    for (int i = 0; i < g->inputs.n; i++)
        if (!check_own_grad(c, &g->in_desc.v[i], "input", i)) return false;
    for (int i = 0; i < g->outputs.n; i++) {
        if (!check_own_grad(c, &g->out_desc.v[i], "output", i)) return false;
        if (c->stage == TD_STAGE_PROGRAM && i >= td__graph_results(g)) continue;
        if (c->stage == TD_STAGE_PROGRAM && g->out_desc.v[i].kind == TD_D_OWN_GRAD)
            return wrong(c, "output %d: <own_grad> outputs must come after the results",
                         i);
    }
    return true;
}

/* <seed> and <offset> are the last inputs, in this order, and an <offset> is the last
 * output; all are i64[]. There are all three or none. */
static bool check_rng(checker *c) {
    const td_graph *g = c->g;
    int             n = g->in_desc.n, m = g->out_desc.n, found = 0;
    for (int i = 0; i < n; i++) found += td__is_rng_desc(&g->in_desc.v[i]);
    for (int i = 0; i < m; i++) found += td__is_rng_desc(&g->out_desc.v[i]);
    if (!found) return true;
    if (found != 3 || !td__graph_takes_rng(g) ||
        g->out_desc.v[m - 1].kind != TD_D_OFFSET)
        return wrong(c, "<seed> and <offset> must be the last inputs, and <offset> the "
                        "last output");
    const td_garg  *out = &g->outputs.v[m - 1];
    const td_gtype *l[3] = {g->inputs.v[n - 2]->type, g->inputs.v[n - 1]->type,
                            out->kind == TD_G_VALUE ? out->u.v->type : NULL};
    for (int i = 0; i < 3; i++)
        if (out->kind != TD_G_VALUE || (l[i] && (l[i]->kind != TD_K_TENSOR ||
                                                 l[i]->dtype != TD_I64 || l[i]->rank)))
            return wrong(c, "<seed> and <offset> must be i64[]");
    return true;
}

/* Outputs read defined values, and their order is that of the stage. */
static bool check_outputs(checker *c) {
    const td_graph *g = c->g;
    bool            late = false, backward = false;
    c->where = "outputs";
    if (g->outputs.n != g->out_desc.n) return wrong(c, "each has one descriptor");
    for (int i = 0; i < g->in_desc.n; i++)
        backward |= g->in_desc.v[i].kind == TD_D_TANGENT;
    for (int i = 0; i < g->outputs.n; i++) {
        c->reads_tangent = false;
        td__garg_each(&g->outputs.v[i], check_read, c);
        if (g->out_desc.v[i].kind >= TD_D_COUNT) wrong(c, "no such descriptor");
        if (!c->ok) return false;
        if (c->stage == TD_STAGE_JOINT && !check_joint_output(c, i, &late))
            return false;
        if (c->stage >= TD_STAGE_HALF && !check_half_output(c, i, backward, &late))
            return false;
    }
    return check_own_grads(c) && check_rng(c);
}

/* `made` is the set of values defined so far, `tangent` those that depend on a tangent.
 * Fails with the first violation, naming the node. */
bool td__graph_verify(const td_graph *g, td_stage stage) {
    size_t  n = (size_t)(g->n_values > 0 ? g->n_values : 0) + 1;
    checker c = {.g = g, .stage = stage, .ok = true, .where = "graph"};
    c.made = td__zalloc(sizeof *c.made * n);
    c.tangent = td__zalloc(n);
    bool ok = (c.made && c.tangent) || td__fail_memory(g->cx);
    ok = ok && check_inputs(&c) && check_nodes(&c) && check_outputs(&c);
    td__free((void *)c.made);
    td__free(c.tangent);
    return ok;
}
