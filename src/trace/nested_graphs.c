/* nested_graphs.c -- nested graphs (of cond, while_loop, custom) during a capture:
 * tensors lifted out of them, which inputs they write, and graphs that must be
 * captured again because their operands changed type. */
#include "trace/trace_int.h"

#include <stdio.h>

/* ---- lifted tensors ----------------------------------------------------- */

void td__lift_free(td_lift *l) {
    for (int i = 0; i < l->tensors.n; i++) td__unref(l->tensors.v[i]);
    td__vec_free(&l->tensors);
}

/* Both branches take the same operands: a graph that does not read a lifted tensor has
 * an unused input for it. */
bool td__lift_pad(td_graph *g, const td_lift *l, int n_args) {
    char name[24];
    for (int i = g->inputs.n - n_args; i < l->tensors.n; i++) {
        td_tensor      *t = l->tensors.v[i];
        const td_gtype *type = td__graph_type(g, t, td__needs_grad(t), -1);
        snprintf(name, sizeof name, "c%d", i);
        if (!type || !td__graph_input(g, name, type, TD_PLAIN_DESC)) return false;
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

int td__graph_gives_lifted(const td_graph *g, int n_args) {
    for (int i = 0; i < g->outputs.n; i++) {
        const td_gtype *l = g->outputs.v[i].u.v->type;
        for (int j = n_args; j < g->inputs.n; j++)
            if (g->inputs.v[j]->type->storage == l->storage && l->storage >= 0)
                return i;
    }
    return -1;
}

/* ---- operands ------------------------------------------------------------ */

/* Does g compute tensors from whole storages, of which a clone has none? */
static bool reads_storages(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind != TD_N_OP) continue;
        if (td__op_view_kind(n->op) == TD_VIEW_STRIDED || n->op == TD_OP_set_ ||
            td__row(n->op)->flags & TD_OPF_WHOLE)
            return true;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k].kind == TD_G_GRAPH && reads_storages(n->in[k].u.g))
                return true;
    }
    return false;
}

/* Has a clone of t the same strides? */
static bool clones_alike(td_tensor *t) {
    bool symbolic = td__dims_any_sym(t->size, t->rank) ||
                    td__dims_any_sym(t->stride, t->rank) || t->typed;
    return symbolic ? td__is_dense_inside(t)
                    : td__is_packed(t->rank, t->size, t->stride);
}

/* In eager a view of an inference tensor has no history, and other ops give results
 * that have one. False after td__fail. */
static bool has_one_history(td_tensor *t, int i) {
    if (!td__needs_grad(t) || !td_is_inference(t)) return true;
    return td__fail(t->cx, TD_E_UNSUPPORTED,
                    "unsupported: operand %d of a captured branch or loop, %s, is an "
                    "inference tensor that requires grad; pass td_clone of it",
                    i, td__type_str(t));
}

bool td__operands_keep(td_ctx *cx, td_tensor **ts, int n, td_graph *const g[2]) {
    bool grads = false;
    for (int i = 0; i < n; i++) grads |= td__needs_grad(ts[i]);
    if (!grads || !td__recording(cx)) return true;
    for (int i = 0; i < n; i++)
        if (!has_one_history(ts[i], i)) return false;
    if (reads_storages(g[0]) || reads_storages(g[1])) return true;
    for (int i = 0; i < n; i++) {
        if (!clones_alike(ts[i])) continue;
        ts[i] = td_op_clone(ts[i], false);
        if (td_is_nil(ts[i])) return false;
    }
    return true;
}

/* ---- results of bodies ------------------------------------------------------ */

bool td__shares_storage(const td_tensor *t, const td_value *v, int n) {
    for (int i = 0; i < n; i++)
        if (v[i].kind == TD_K_TENSOR && v[i].u.t && v[i].u.t->st == t->st) return true;
    return false;
}

/* ---- writes ------------------------------------------------------------- */

/* State of td__graph_writes while it visits the written arguments of a node. */
typedef struct writes {
    const td_graph *g;
    td_input_write *to;    /* by input */
    td_where        here;  /* of the current node */
    uint8_t         mark;  /* its flags */
    uint64_t        times; /* how often it writes each */
    bool            meta;  /* it writes metadata of its argument, ... */
    bool            self;  /* ...which is no write of the storage */
} writes;

/* May elements of the two, which share a storage, have the same address? */
static bool may_overlap(const td_gtype *a, const td_gtype *b) {
    return !td__gtype_is_concrete(a) || !td__gtype_is_concrete(b) ||
           a->dtype != b->dtype || td__geom_overlap(&a->geom, &b->geom);
}

/* Marks v and, if the storage is written, every input that overlaps v there. */
static void note_write(void *env, td_gval *v) {
    writes *w = env;
    for (int i = 0; i < w->g->inputs.n; i++) {
        const td_gval *in = w->g->inputs.v[i];
        bool           shared = in->type && v->type && in->type->storage >= 0 &&
                      in->type->storage == v->type->storage &&
                      may_overlap(in->type, v->type);
        uint8_t how = in == v || (shared && !w->self) ? w->mark : 0;
        if (in == v && w->meta) how |= TD_WRITTEN_META;
        if (how && !w->to[i].how) w->to[i].at = w->here;
        if (how) w->to[i].times += w->times;
        w->to[i].how |= how;
    }
}

/* The grad mode inside a region. */
static bool grad_inside(td_gregion r) {
    return r == TD_R_ENABLE_GRAD || r == TD_R_PLAIN;
}

/* An op writes the arguments that its schema marks. */
static void note_op(writes *w, const td_gnode *n, bool grad) {
    const td_schema *s = &td__opinfo(n->op)->s;
    uint32_t         flags = td__row(n->op)->flags;
    if (td__gnode_is_idle(n)) return;
    w->mark = (uint8_t)(TD_WRITTEN | (grad ? TD_WRITTEN_GRAD : 0));
    w->times = 1;
    w->meta = flags & TD_OPF_META;
    w->self = w->meta && (flags & TD_OPF_TAPE || n->op == TD_OP_set_);
    for (int k = 0; k < n->n_in; k++)
        if (s->in[k].write) td__garg_each(&n->in[k], note_write, w);
}

/* Is input i of a custom function marked dirty? */
static bool is_dirty(const td_gnode *n, uint32_t i) {
    const td_garg *a = &n->in[TD_CUSTOM_DIRTY];
    for (uint32_t k = 0; a->kind == TD_G_INTS && k < a->n; k++)
        if (a->u.ints[k] == (int64_t)i) return true;
    return false;
}

/* A custom function writes what its forward graph writes: the schema marks all inputs,
 * because any of them may be written. Forward runs under no_grad; autograd records the
 * write of an input that is marked dirty. */
static bool note_custom(writes *w, const td_gnode *n, bool grad) {
    const td_graph *f = n->in[TD_CUSTOM_FORWARD].u.g;
    td_input_write *inner = td__graph_writes(f, false);
    int             at = 0;
    for (int k = TD_CUSTOM_INPUTS; k <= TD_CUSTOM_FIXED && inner; k++)
        for (uint32_t i = 0; i < n->in[k].n; i++) {
            const td_garg *a = &n->in[k].u.list[i];
            while (at < f->inputs.n && td__graph_holds(f, at)) at++;
            if (a->kind != TD_G_VALUE || at == f->inputs.n) continue;
            bool history = grad && k == TD_CUSTOM_INPUTS && is_dirty(n, i);
            w->mark = inner[at].how;
            w->times = inner[at].times;
            w->here = inner[at++].at;
            w->meta = w->self =
                false; /* the mark has both; inputs that share storage are written */
            if (w->mark && history) w->mark |= TD_WRITTEN_GRAD;
            note_write(w, a->u.v);
        }
    td__free(inner);
    return inner != NULL;
}

/* For each input of a nested graph: is it written, is any of its writes recorded by
 * autograd, and does any change its metadata? `grad` is the grad mode around the
 * graph. */
td_input_write *td__graph_writes(const td_graph *g, bool grad) {
    writes w = {.g = g, .to = td__zalloc(sizeof *w.to * ((size_t)g->inputs.n + 1))};
    bool   ok = w.to != NULL || td__fail_memory(g->cx);
    TD_VEC(bool) outer = {0};
    for (int i = 0; i < g->nodes.n && ok; i++) {
        const td_gnode *n = g->nodes.v[i];
        w.here = n->here;
        if (n->kind == TD_N_ENTER) {
            ok = td__vec_push(&outer, grad) || td__fail_memory(g->cx);
            if (td__region_is_grad((td_gregion)n->region))
                grad = grad_inside((td_gregion)n->region);
        } else if (n->kind == TD_N_LEAVE) grad = outer.v[--outer.n];
        else if (n->op == TD_OP_custom) ok = note_custom(&w, n, grad);
        else note_op(&w, n, grad);
    }
    td__vec_free(&outer);
    if (ok) return w.to;
    td__free(w.to);
    return NULL;
}

const char *td__write_place(const td_input_write *w, char out[120]) {
    out[0] = 0;
    if (w->at.file) snprintf(out, 120, " (%.100s:%d)", w->at.file, w->at.line);
    return out;
}

/* ---- graphs as arguments ------------------------------------------------ */

/* Does t, which requires grad if `grad`, have this type? */
static bool has_type(const td_gtype *l, const td_tensor *t, bool grad) {
    if (!l || l->kind != TD_K_TENSOR || l->dtype != t->dtype || l->rank != t->rank ||
        l->grad != grad)
        return false;
    for (int d = 0; d < t->rank; d++)
        if (l->size[d] != t->size[d] || l->stride[d] != t->stride[d]) return false;
    return td__gtyped_is(l->of, t->typed);
}

/* The operands of an op with nested graphs are the tensors of its list
 * arguments, in order; a graph takes the first ones of them. */
static int operand_count(const td_opcall *c) {
    int n = 0;
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].kind == TD_K_TENSORS) n += (int)c->in[i].n;
    return n;
}

/* Operand number `at` of an op whose operands are spread over several lists. */
static td_tensor *operand(const td_opcall *c, int at) {
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i].kind != TD_K_TENSORS) continue;
        if (at < (int)c->in[i].n) return c->in[i].u.ts[at];
        at -= (int)c->in[i].n;
    }
    return NULL;
}

/* The operand that output i of graph argument k becomes in the next iteration; -1:
 * none. The body of a loop gives its state, the backward of a loop the gradients, which
 * are the last operands. */
static int next_operand(const td_opcall *c, int k, int i) {
    if (c->def == td__row(TD_OP_while_loop)) return k == 1 ? i : -1;
    if (c->def != td__row(TD_OP_while_loop_backward) || k == 0) return -1;
    return k == 1 ? i : (int)(c->in[3].n + c->in[4].n) + i;
}

/* Marks operands that require grad from an iteration on because graph argument k gives
 * them a grad_fn; true: there are new ones. */
static bool note_next(const td_opcall *c, int k, bool *grad) {
    const td_graph *g = c->in[k].u.g;
    bool            more = false;
    for (int i = 0; i < g->outputs.n; i++) {
        const td_garg *a = &g->outputs.v[i];
        int            at = next_operand(c, k, i);
        if (at < 0 || at >= operand_count(c) || grad[at] || a->kind != TD_G_VALUE ||
            !a->u.v->type || !a->u.v->type->grad)
            continue;
        grad[at] = more = true;
    }
    return more;
}

/* Was g captured for operands of these types, with all types of its outputs
 * known? */
static bool is_current(const td_opcall *c, const td_graph *g, const bool *grad) {
    for (int i = 0, at = 0; i < g->inputs.n; i++) {
        if (td__graph_holds(g, i)) continue;
        const td_tensor *t = operand(c, at);
        if (!t || !has_type(g->inputs.v[i]->type, t, grad[at++])) return false;
    }
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.v[i].kind == TD_G_VALUE && !g->outputs.v[i].u.v->type)
            return false;
    return true;
}

/* g captured for the operands of call c, of which those in `grad` require grad; NULL
 * after td__fail. */
static td_graph *recapture(td_opcall *c, const td_graph *g, const bool *grad) {
    td_value *in =
        td__arena_zalloc(&c->cx->scratch, sizeof *in * ((size_t)g->inputs.n + 1));
    int at = 0;
    if (!in) return td__fail_memory(c->cx), NULL;
    for (int i = 0; i < g->inputs.n; i++) {
        if (td__graph_holds(g, i)) continue;
        td_tensor *t = operand(c, at++);
        if (t && !(t = td__template(t, grad[at - 1]))) return NULL;
        if (t) in[i] = td_value_tensor(t);
    }
    if (at <= operand_count(c)) { /* the first of them */
        td_graph *made = td__capture_graph(g, in);
        if (!made) td__nested_refuse(c);
        return made;
    }
    td__fail(c->cx, TD_E_ARG, "%s: the graph @%.60s takes %d inputs; %d operands given",
             c->info->s.name, g->name, at, operand_count(c));
    return NULL;
}

/* Was g, the body of a region, captured with symbolic sizes that are numbers now? */
static bool is_fixed_since(const td_opcall *c, const td_graph *g) {
    bool fixed = c->info->op == TD_OP_region && g->dims.n > 0;
    for (int i = 0; fixed && i < operand_count(c); i++)
        fixed = !td__dims_any_sym(operand(c, i)->size, operand(c, i)->rank);
    return fixed;
}

/* Makes r->g own the graphs of call c, those that are not current captured again if
 * `again`. */
static bool own_graphs(td_record *r, td_opcall *c, bool again, const bool *grad) {
    for (int i = 0; i < c->n_in; i++) {
        td_graph *g = c->in[i].u.g;
        if (c->in[i].kind != TD_K_GRAPH) continue;
        bool fixed = is_fixed_since(c, g);
        if (fixed || (again && !is_current(c, g, grad))) {
            const char *name = g->name;
            g = recapture(c, g, grad);
            if (g && fixed) g = td__region_shared(r, g, name);
        } else td__graph_keep(g);
        if (!g || !td__graph_own(r->g, g)) return false;
        c->in[i].u.g = g;
    }
    return true;
}

/* A recorder of pure graphs (no composites) receives graphs that the functional
 * mode made, which fit. The graphs of a custom function and of regions stay as well:
 * nothing reads their types, or they were made for them. The graphs of a loop are
 * captured until it is clear which operands require grad; each round adds one. */
bool td__record_graphs(td_record *r, td_opcall *c, td_garg *args) {
    if (!(c->def->flags & TD_OPF_NESTS)) return true;
    bool  calls = td__op_calls(c->info->op), more = true;
    bool  again = r->mode.composites && !c->info->composite && !calls;
    int   n = operand_count(c);
    bool *grad = td__arena_zalloc(&c->cx->scratch, (size_t)n + 1);
    if (!grad) return td__fail_memory(c->cx);
    for (int i = 0; i < n; i++) {
        const td_tensor *t = operand(c, i);
        grad[i] = t && td__needs_grad(t);
    }
    while (more) {
        more = false;
        if (!own_graphs(r, c, again, grad)) return false;
        for (int i = 0; i < c->n_in && again; i++)
            if (c->in[i].kind == TD_K_GRAPH) more |= note_next(c, i, grad);
    }
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].kind == TD_K_GRAPH) args[i].u.g = c->in[i].u.g;
    return true;
}
