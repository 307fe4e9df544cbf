/* exported.c -- an exported function: its signature, its text, its file, a run. A run
 * executes the graph and then the epilogue, as a compiled call does. */
#include "export/export_int.h"
#include "aot/slots.h"
#include "core/files.h"
#include "core/typed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- making and dropping ------------------------------------------------ */

/* Graphs that were parsed belong to their file, which is then freed instead. */
static void drop_graphs(td_graph *g, td_graph *epilogue, td_gfile *file) {
    if (file) {
        td__gfile_drop(file);
        return;
    }
    td__graph_drop(g);
    td__graph_drop(epilogue);
}

static void end(void *object) {
    td_exported *e = object;
    drop_graphs(e->g, e->epilogue, e->file);
    td__free(e->in_tree);
    td__free(e->out_tree);
    td__handle_free(e, TD_H_EXPORTED);
}

td_exported *td__exported_make(td_graph *g, td_graph *epilogue, td_gfile *file,
                               const char *in_tree, const char *out_tree) {
    td_ctx      *cx = g->cx;
    td_exported *e = td__handle_make(cx, TD_H_EXPORTED, sizeof *e);
    if (e) {
        e->g = g;
        e->epilogue = epilogue;
        e->file = file;
        e->in_tree = in_tree ? td__strdup(in_tree) : NULL;
        e->out_tree = out_tree ? td__strdup(out_tree) : NULL;
        if ((!in_tree || e->in_tree) && (!out_tree || e->out_tree))
            return td__handle_own(e, end);
        end(e);
    } else drop_graphs(g, epilogue, file);
    td__fail_memory(cx);
    return TD_NIL(cx, EXPORTED);
}

void td_exported_drop(td_exported *e) {
    if (!TD_MAY_FREE(e, EXPORTED)) return;
    td__handle_disown(e);
    end(e);
}

/* ---- the signature ------------------------------------------------------ */

const td_graph *td_exported_graph(const td_exported *e) {
    if (!TD_ENTER(e, EXPORTED)) return TD_NIL_BY(e, GRAPH);
    return e->g;
}
const td_graph *td_exported_epilogue(const td_exported *e) {
    if (!TD_ENTER(e, EXPORTED)) return TD_NIL_BY(e, GRAPH);
    return e->epilogue;
}
int td_exported_inputs(const td_exported *e) {
    if (!TD_ENTER(e, EXPORTED)) return 0;
    return td_graph_inputs(e->g);
}

/* How many of n inputs or outputs come before those of kind k, the tokens and the state
 * of the generator, which are the last ones in this order. */
static int n_before(const td_desc *d, int n, td_desc_kind k) {
    while (n > 0 && (d[n - 1].kind == k || d[n - 1].kind == TD_D_TOKEN ||
                     td__is_rng_desc(&d[n - 1])))
        n--;
    return n;
}

/* Inputs of the graph before the tangents, and outputs before the gradients. */
static int n_primals(const td_graph *g) {
    return n_before(g->in_desc.v, g->inputs.n, TD_D_TANGENT);
}
static int n_forward(const td_graph *g) {
    return n_before(g->out_desc.v, g->outputs.n, TD_D_GRAD);
}

int td_exported_outputs(const td_exported *e) {
    if (!TD_ENTER(e, EXPORTED)) return 0;
    return e->epilogue->outputs.n + e->g->outputs.n - n_forward(e->g);
}
const char *td_exported_in_tree(const td_exported *e) {
    if (!TD_ENTER(e, EXPORTED)) return NULL;
    return e->in_tree;
}
const char *td_exported_out_tree(const td_exported *e) {
    if (!TD_ENTER(e, EXPORTED)) return NULL;
    return e->out_tree;
}

/* The i-th input that somebody passes. */
static int passed(const td_graph *g, int i) {
    for (int k = 0; k < g->inputs.n; k++)
        if (!td__graph_holds(g, k) && i-- == 0) return k;
    return -1;
}

/* The forward output that result i is made of; -1: it is a number, or an input. */
static int value_of(const td_exported *e, int i) {
    const td_garg *a = &e->epilogue->outputs.v[i];
    while (a->kind == TD_G_VALUE && a->u.v->node && a->u.v->node->n_in)
        a = &a->u.v->node->in[0];
    int k = a->kind == TD_G_VALUE && !a->u.v->node ? a->u.v->nr - n_primals(e->g) : -1;
    return k >= 0 && k < n_forward(e->g) ? k : -1;
}

static int result_of(const td_exported *e, int value) {
    int i = e->epilogue->outputs.n - 1;
    while (i >= 0 && value_of(e, i) != value) i--;
    return i;
}

/* A tangent's number is that of a graph output. */
td_slot td_exported_input(const td_exported *e, int i) {
    if (!TD_ENTER(e, EXPORTED)) return (td_slot){.index = -1};
    td_slot s = td__slot_in(e->g, passed(e->g, i));
    if (s.kind != TD_SLOT_TANGENT) return s;
    td_slot of = td__slot_out(e->g, s.index);
    bool    update = of.kind == TD_SLOT_UPDATE;
    s.index = update ? of.index : result_of(e, s.index);
    s.name = of.name;
    if (update) s.kind = TD_SLOT_UPDATE_TANGENT;
    return s;
}

td_slot td_exported_output(const td_exported *e, int i) {
    if (!TD_ENTER(e, EXPORTED)) return (td_slot){.index = -1};
    int n = e->epilogue->outputs.n;
    if (i < 0 || i >= n)
        return td__slot_out(e->g, i < 0 ? -1 : n_forward(e->g) + i - n);
    int     k = value_of(e, i);
    td_slot s = k < 0 ? td__slot_out(e->epilogue, i) : td__slot_out(e->g, k);
    if (s.kind != TD_SLOT_LOSS) s.kind = TD_SLOT_PLAIN;
    s.index = i;
    return s;
}

int td_exported_find_input(const td_exported *e, td_slot_kind kind, int index) {
    if (!TD_ENTER(e, EXPORTED)) return -1;
    for (int i = 0; i < td_exported_inputs(e); i++) {
        td_slot s = td_exported_input(e, i);
        if (s.kind == kind && s.index == index) return i;
    }
    return -1;
}

int td_exported_find_output(const td_exported *e, td_slot_kind kind, int index) {
    if (!TD_ENTER(e, EXPORTED)) return -1;
    for (int i = 0; i < td_exported_outputs(e); i++) {
        td_slot s = td_exported_output(e, i);
        if (s.kind == kind && s.index == index) return i;
    }
    return -1;
}

int td_exported_loss(const td_exported *e) {
    if (!TD_ENTER(e, EXPORTED)) return -1;
    for (int i = 0; i < e->epilogue->outputs.n; i++)
        if (td_exported_output(e, i).kind == TD_SLOT_LOSS) return i;
    return -1;
}

/* ---- a run -------------------------------------------------------------- */

/* Sizes may be symbols; bound[] says what they are in this run. */
static bool has_sizes(const td_graph *g, const td_gtype *l, const td_tensor *t,
                      const int64_t *bound) {
    if (t->dtype != l->dtype || t->rank != l->rank) return false;
    for (int d = 0; d < l->rank; d++)
        if (td__gdim_value(g, l->size[d], bound) != t->size[d]) return false;
    return true;
}

/* Is t of the type and metadata of `of`, with inner tensors of these dtypes and sizes?
 * NULL: a plain tensor. */
static bool has_type(const td_graph *g, const td_gtyped *of, const td_tensor *t,
                     const int64_t *bound) {
    const td_typed *d = t->typed;
    if (!of || !d) return !of && !d;
    bool same = d->n == of->n && !strcmp(d->type->opts.name, of->name) &&
                !strcmp(d->metadata, of->metadata);
    for (int i = 0; same && i < of->n; i++)
        same = has_sizes(g, of->inner[i], d->inner[i], bound) &&
               has_type(g, of->inner[i]->of, d->inner[i], bound);
    return same;
}

/* Fails because t is of another type (tandem/type.h) than input l. */
static bool fail_type(const td_exported *e, const char *who, const td_gtype *l,
                      const td_tensor *t) {
    td_buf b = {0};
    char   is[120];
    td__gtype_print(&b, e->g, l);
    td__fail(e->cx, TD_E_ARG,
             "%s is %s, but the graph takes %.300s; pass a tensor of that type and "
             "metadata, with inner tensors of these sizes",
             who, td__typed_str(t->typed, is, sizeof is), td__buf_str(&b));
    td__buf_free(&b);
    return false;
}

/* Is x a tensor of this context with the dtype and sizes of input i? `bound` has the
 * values of symbolic sizes, found from all inputs before. */
static bool check_input(const td_exported *e, int i, td_value x, const int64_t *bound) {
    const td_gval   *v = e->g->inputs.v[passed(e->g, i)];
    const td_gtype  *l = v->type;
    const td_tensor *t = x.kind == TD_K_TENSOR ? x.u.t : NULL;
    int64_t          want[TD_MAX_RANK];
    char             who[100], is[160];
    snprintf(who, sizeof who, "td_exported_run: input %d, %%%.60s,", i,
             v->name ? v->name : "");
    if (!t) return td__fail(e->cx, TD_E_ARG, "%s is no tensor", who);
    if (td_is_nil(t))
        return td__enter_in(e->cx, t, TD_H_TENSOR, who) || !td_ok(e->cx)
                   ? false
                   : td__fail(e->cx, TD_E_ARG, "%s is nil", who);
    if (t->cx != e->cx)
        return td__fail(e->cx, TD_E_ARG,
                        "%s belongs to another context (td_share gives it to this one)",
                        who);
    if (TD_IS_KEPT(t)) return td__fail_kept(e->cx, who, t);
    if (!l || l->kind != TD_K_TENSOR) return true;
    if (has_sizes(e->g, l, t, bound))
        return has_type(e->g, l->of, t, bound) || fail_type(e, who, l, t);
    snprintf(is, sizeof is, "%s", td__type_str(t));
    for (int d = 0; d < l->rank; d++) want[d] = td__gdim_value(e->g, l->size[d], bound);
    return td__fail(e->cx, TD_E_ARG,
                    "%s is %s, but the graph takes %s%s; export it for "
                    "these sizes, or with sizes that may change (td_export_opts)",
                    who, is, td_dtype_name((td_dtype)l->dtype),
                    td__sizes_str(l->rank, want));
}

/* The first passed input that has `size` in one of its dims, and that dim. */
static bool find_size(const td_exported *e, int64_t size, int *input, int *dim) {
    for (*input = 0; *input < td_exported_inputs(e); ++*input) {
        const td_gtype *l = e->g->inputs.v[passed(e->g, *input)]->type;
        for (*dim = 0; l && l->kind == TD_K_TENSOR && *dim < l->rank; ++*dim)
            if (l->size[*dim] == size) return true;
    }
    return false;
}

/* Which numbers a symbolic size may be: "a size of at least 2", "a size from 2 to 64".
 * f is the fact about it that does not hold. */
static void add_range(td_buf *b, const td_graph *g, const td_gfact *f) {
    int64_t least = 0, most = INT64_MAX;
    for (int i = 0; i < g->facts.n; i++) {
        const td_gfact *k = &g->facts.v[i];
        if (k->a != f->a || td__dim_is_sym(k->b)) continue;
        if (k->rel == TD_DIM_IS_GE && k->b > least) least = k->b;
        if (k->rel == TD_DIM_IS_LT && k->b - 1 < most) most = k->b - 1;
    }
    if (f->rel == TD_DIM_IS_EQ) td__buf_printf(b, "size %" PRId64, f->b);
    else if (f->rel == TD_DIM_IS_NE)
        td__buf_printf(b, "a size other than %" PRId64, f->b);
    else if (most == INT64_MAX) td__buf_printf(b, "a size of at least %" PRId64, least);
    else td__buf_printf(b, "a size from %" PRId64 " to %" PRId64, least, most);
}

static void mark_dim(const td_graph *g, int64_t dim, bool *used) {
    int i = td__dim_entry(dim, g->dims.n);
    if (i >= 0) used[i] = true;
}

/* Appends a fact about an expression, and which sizes its symbols are: "s0*2 % 4 == 0,
 * where s0 is the size of input 1 in dim 0, here 5". Operands come before their
 * expression in the table, so one pass finds the symbols. */
static void add_fact(td_buf *b, const td_exported *e, const td_gfact *f,
                     const int64_t *bound) {
    const td_graph *g = e->g;
    const char     *where = ", where";
    bool           *used = td__zalloc((size_t)g->dims.n + 1);
    td__gfact_text(b, g, f);
    if (used) mark_dim(g, f->a, used), mark_dim(g, f->b, used);
    for (int i = g->dims.n - 1; used && i >= 0; i--) {
        const td_gdim *d = &g->dims.v[i];
        int            input, dim;
        if (!used[i]) continue;
        if (d->op != TD_GDIM_SYMBOL) mark_dim(g, d->a, used), mark_dim(g, d->b, used);
        else if (find_size(e, td__dim_tag(i), &input, &dim)) {
            td__buf_printf(b,
                           "%s %c%d is the size of input %d in dim %d, here %" PRId64,
                           where, d->letter, (int)d->nr, input, dim, bound[i]);
            where = " and";
        }
    }
    td__free(used);
}

/* The error of sizes that the graph was not exported for. */
static bool fail_fact(const td_exported *e, const td_gfact *f, const int64_t *bound) {
    td_buf b = {0};
    int    input, dim;
    if (!td__dim_is_sym(f->b) && find_size(e, f->a, &input, &dim)) {
        const td_gval *v = e->g->inputs.v[passed(e->g, input)];
        td__buf_printf(&b,
                       "input %d, %%%.60s, has size %" PRId64 " in dim %d; the graph "
                       "was exported for ",
                       input, v->name ? v->name : "", td__gdim_value(e->g, f->a, bound),
                       dim);
        add_range(&b, e->g, f);
        td__buf_add(&b, " there");
    } else {
        td__buf_add(&b, "the graph was exported for inputs whose sizes satisfy ");
        add_fact(&b, e, f, bound);
    }
    td__fail(e->cx, TD_E_ARG, "td_exported_run: %.400s; export it for such inputs",
             td__buf_str(&b));
    td__buf_free(&b);
    return false;
}

/* What the graph was traced for. */
static bool check_facts(const td_exported *e, const int64_t *bound) {
    for (int i = 0; i < e->g->facts.n; i++)
        if (!td__gfact_holds(e->g, &e->g->facts.v[i], bound))
            return fail_fact(e, &e->g->facts.v[i], bound);
    return true;
}

/* Do inputs a and b lie to each other as they did when it was traced? */
static bool same_overlap(const td_graph *g, int a, int b, const td_value *all,
                         const int64_t *bound) {
    const td_gtype  *l = g->inputs.v[a]->type, *m = g->inputs.v[b]->type;
    const td_tensor *t = all[a].u.t, *u = all[b].u.t;
    bool             shared = l->storage >= 0 && l->storage == m->storage;
    if (!shared) return t->st != u->st || t->numel == 0 || u->numel == 0;
    int64_t apart =
        td__gdim_value(g, l->offset, bound) - td__gdim_value(g, m->offset, bound);
    if (t->st != u->st || t->offset - u->offset != apart) return false;
    for (int d = 0; d < l->rank; d++)
        if (td__gdim_value(g, l->stride[d], bound) != t->stride[d]) return false;
    for (int d = 0; d < m->rank; d++)
        if (td__gdim_value(g, m->stride[d], bound) != u->stride[d]) return false;
    return true;
}

/* Does a run write inputs, in the epilogue or, with keep_mutations, in the graph? */
static bool writes_inputs(const td_exported *e) {
    const td_graph *all[2] = {e->epilogue, e->g};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < all[k]->nodes.n; i++) {
            const td_gnode *n = all[k]->nodes.v[i];
            if (n->kind == TD_N_OP && td__opinfo(n->op)->writes && n->op != TD_OP__made)
                return true;
        }
    return false;
}

/* The input of the graph that v is, or is a view of; NULL: none. */
static const td_gval *input_under(const td_gval *v) {
    while (v && v->node) {
        int of = td__opinfo(v->node->op)->view_of;
        v = of >= 0 && v->node->in[of].kind == TD_G_VALUE ? v->node->in[of].u.v : NULL;
    }
    return v;
}

/* Fails if g writes an inference tensor outside of inference mode, as eager does. all[]
 * has the inputs of the exported graph, which the epilogue takes first. */
static bool check_inference(const td_exported *e, const td_graph *g,
                            const td_value *all) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind != TD_N_OP || !td__opinfo(n->op)->writes) continue;
        for (int k = 0; k < n->n_in; k++) {
            bool           written = td__opinfo(n->op)->s.in[k].write;
            const td_gval *v = written && n->in[k].kind == TD_G_VALUE
                                   ? input_under(n->in[k].u.v)
                                   : NULL;
            if (!v || v->nr >= n_primals(e->g) || all[v->nr].kind != TD_K_TENSOR ||
                !td_is_inference(all[v->nr].u.t))
                continue;
            return td__fail(e->cx, TD_E_GRAD,
                            "td_exported_run: input %%%.60s is an inference tensor, "
                            "which the graph writes; an inference tensor cannot be "
                            "written outside inference mode. Pass a clone of it, or "
                            "run the graph in inference mode",
                            v->name ? v->name : "");
        }
    }
    return true;
}

/* What is written is seen through whatever shares its bytes. */
static bool check_aliases(const td_exported *e, const td_value *all,
                          const int64_t *bound) {
    const td_graph *g = e->g;
    if (!writes_inputs(e)) return true;
    for (int a = 0; a < g->inputs.n; a++)
        for (int b = 0; all[a].kind == TD_K_TENSOR && b < a; b++) {
            bool known = g->inputs.v[a]->type && g->inputs.v[b]->type;
            if (all[b].kind != TD_K_TENSOR || !known) continue;
            if (same_overlap(g, b, a, all, bound)) continue;
            return td__fail(
                e->cx, TD_E_ARG,
                "td_exported_run: %%%.60s and %%%.60s share storage in another way "
                "than the exported inputs did, and the graph writes inputs; "
                "export it for such inputs",
                g->inputs.v[b]->name ? g->inputs.v[b]->name : "",
                g->inputs.v[a]->name ? g->inputs.v[a]->name : "");
        }
    return true;
}

/* Checks all inputs: symbolic sizes are solved first from every tensor, then each type,
 * the guards and the alias pattern are compared. all[] gets the inputs of the graph,
 * consts left out. */
static bool check_inputs(const td_exported *e, td_values in, td_value *all) {
    const td_graph *g = e->g;
    if (in.n != td_exported_inputs(e))
        return td__fail(e->cx, TD_E_ARG,
                        "td_exported_run: @%.60s takes %d inputs, got %d; parameters "
                        "and buffers come first (td_exported_input describes each)",
                        g->name, td_exported_inputs(e), in.n);
    int64_t *bound = td__zalloc(sizeof *bound * ((size_t)g->dims.n + 1));
    bool     ok = bound || td__fail_memory(e->cx);
    for (int i = 0; ok && i < in.n; i++)
        if (in.v[i].kind == TD_K_TENSOR && in.v[i].u.t) all[passed(g, i)] = in.v[i];
    if (ok) td__gdim_bind(g, all, bound);
    if (ok) td__gdim_solve(g, bound);
    for (int i = 0; ok && i < in.n; i++) ok = check_input(e, i, in.v[i], bound);
    ok = ok && check_facts(e, bound) && check_aliases(e, all, bound) &&
         (e->cx->inference ||
          (check_inference(e, e->g, all) && check_inference(e, e->epilogue, all)));
    td__free(bound);
    return ok;
}

/* The graph, then the epilogue. all[]: room for the inputs of the epilogue, which are
 * primals and forward outputs; vals[]: for the outputs of the graph. */
static bool run_both(const td_exported *e, td_values in, td_value *all, td_value *vals,
                     td_value *out) {
    const td_graph *g = e->g, *last = e->epilogue;
    int             n_in = n_primals(g), n_fwd = n_forward(g), n = last->outputs.n;
    if (!td_graph_run(g, in.v, in.n, vals, g->outputs.n)) return false;
    for (int i = 0; i < n_in; i++)
        if (td__graph_holds(g, i))
            all[i] = td_value_tensor(g->consts.v[g->in_desc.v[i].index]);
    for (int i = 0; i < n_fwd; i++) all[n_in + i] = vals[i];
    if (!td_graph_run(last, all, last->inputs.n, out, n)) return false;
    for (int i = n_fwd; i < g->outputs.n; i++) out[n + i - n_fwd] = vals[i];
    return true;
}

/* Values that are neither results nor gradients go with the scope. */
static bool run_scoped(const td_exported *e, td_values in, td_value *all,
                       td_value *vals, td_value *out, int n_out) {
    td_ctx     *cx = e->cx;
    td_tensor **ts = td__zalloc(sizeof *ts * ((size_t)n_out + 1));
    if (!ts) return td__fail_memory(cx);
    bool grad = cx->grad_enabled, ok = td__scope_push(cx);
    int  n = 0;
    cx->grad_enabled = false;
    if (ok) {
        ok = run_both(e, in, all, vals, out);
        for (int i = 0; ok && i < n_out; i++)
            if (out[i].kind == TD_K_TENSOR) ts[n++] = out[i].u.t;
        td__scope_pop(cx, ts, n);
    }
    cx->grad_enabled = grad;
    td__free((void *)ts);
    return ok;
}

/* to[]: the inputs, with a new token for each that the caller left out. */
static bool take_tokens(const td_exported *e, td_values in, td_value *to) {
    for (int i = 0; i < in.n; i++) {
        int at = passed(e->g, i);
        to[i] = in.v[i];
        if (at < 0 || in.v[i].kind != TD_K_NONE ||
            e->g->in_desc.v[at].kind != TD_D_TOKEN)
            continue;
        to[i] = td_value_tensor(td_zeros(e->cx, TD_SHAPE(0), TD_U8));
        if (td_is_nil(to[i].u.t)) return false;
    }
    return true;
}

/* Checks and runs, in the innermost scope. */
static bool run_checked(const td_exported *e, td_values in, td_value *out, int n_out) {
    size_t    n = (size_t)e->g->inputs.n + (size_t)e->epilogue->inputs.n;
    size_t    m = (size_t)e->g->outputs.n + 1;
    td_value *all = td__zalloc(sizeof *all * (n + m + (size_t)in.n));
    if (!all) return td__fail_memory(e->cx);
    td_values given = {all + n + m, in.n};
    bool      ok = take_tokens(e, in, all + n + m) && check_inputs(e, given, all) &&
              run_scoped(e, given, all, all + n, out, n_out);
    td__free(all);
    return ok;
}

bool td_exported_run(const td_exported *e, td_values in, td_value *out, int n_out) {
    static const char who[] = "td_exported_run";
    bool              ok = TD_ENTER(e, EXPORTED) && td_ok(e->cx) &&
              td__has_list(e->cx, who, in.v, in.n) &&
              td__has_room(e->cx, who, out, n_out);
    if (ok && n_out != td_exported_outputs(e))
        ok = td__fail(e->cx, TD_E_ARG, "%s: @%.60s has %d outputs, but n_out is %d",
                      who, e->g->name, td_exported_outputs(e), n_out);
    ok = ok && run_checked(e, in, out, n_out);
    if (!ok) td__nil_values(td__ctx_of_any(e), out, n_out);
    return ok;
}

/* ---- text --------------------------------------------------------------- */

static const char head[] = "# tandem export 2\n", head_1[] = "# tandem export 1\n",
                  in_head[] = "# in: ", out_head[] = "# out: ";

/* The text of a file: the magic first line, the tree specifications as comments, then
 * graph and epilogue with types. */
static bool print(const td_exported *e, td_buf *b) {
    td__buf_add(b, head);
    if (e->in_tree) td__buf_printf(b, "%s%s\n", in_head, e->in_tree);
    if (e->out_tree) td__buf_printf(b, "%s%s\n", out_head, e->out_tree);
    return (td__graph_print(b, e->g, TD_PRINT_TYPES) &&
            td__graph_print(b, e->epilogue, TD_PRINT_TYPES) && !b->failed) ||
           td__fail_memory(e->cx);
}

size_t td_exported_text(const td_exported *e, char *out, size_t cap) {
    if (!TD_ENTER(e, EXPORTED)) return td__text_out("", 0, out, cap);
    td_buf b = {0};
    size_t n = print(e, &b) ? b.n : 0;
    td__text_out(td__buf_str(&b), n, out, cap);
    td__buf_free(&b);
    return n;
}

/* What stands behind `word` at the beginning of a line, among the comments at the top;
 * *out is the caller's, NULL where there is no such line. */
static bool find_line(td_ctx *cx, const char *text, size_t n, const char *word,
                      char **out) {
    size_t      len = strlen(word);
    const char *end = text + n;
    *out = NULL;
    while (text < end && *text == '#') {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop) stop = end;
        if ((size_t)(stop - text) >= len && !memcmp(text, word, len)) {
            size_t got = (size_t)(stop - text) - len;
            *out = td__zalloc(got + 1);
            if (!*out) return td__fail_memory(cx);
            memcpy(*out, text + len, got);
            return true;
        }
        text = stop + (stop < end);
    }
    return true;
}

/* Is it a well-formed tree? The number of leaves is the number of `*` in the text. */
static bool check_tree(td_ctx *cx, const char *spec) {
    int n = 0;
    for (const char *p = spec; p && *p; p++) n += *p == '*';
    td_value *none = td__zalloc(sizeof *none * ((size_t)n + 1));
    if (!none) return td__fail_memory(cx);
    td_tree *t = spec ? td_tree_from(cx, spec, (td_values){none, n}) : NULL;
    bool     ok = !spec || !td_is_nil(t);
    td__free(none);
    td_tree_drop(t);
    return ok;
}

/* Reads the tree specifications from comment lines of the text. Owns f from here on,
 * also after a failure. */
static td_exported *with_trees(td_gfile *f, const char *text, size_t n) {
    td_graph *g = f->graphs.v[0];
    char     *in = NULL, *out = NULL;
    bool      ok = find_line(g->cx, text, n, in_head, &in) &&
              find_line(g->cx, text, n, out_head, &out) && check_tree(g->cx, in) &&
              check_tree(g->cx, out);
    td_exported *e =
        ok ? td__exported_make(g, f->graphs.v[1], f, in, out) : TD_NIL(g->cx, EXPORTED);
    if (!ok) td__gfile_drop(f);
    td__free(in);
    td__free(out);
    return e;
}

/* Do two values, of two graphs, have the same dtype and sizes? Only numbers are
 * compared: symbols belong to their graph. */
static bool same_type(const td_gtype *l, const td_gtype *m) {
    if (!l || !m || l->kind != TD_K_TENSOR || m->kind != TD_K_TENSOR)
        return !l || !m || l->kind == m->kind;
    if (l->dtype != m->dtype || l->rank != m->rank) return false;
    for (int d = 0; d < l->rank; d++)
        if (!td__dim_is_sym(l->size[d]) && !td__dim_is_sym(m->size[d]) &&
            l->size[d] != m->size[d])
            return false;
    return true;
}

/* Are the epilogue's inputs of the types of the graph's primals and forward outputs? */
static bool check_epilogue(const td_graph *g, const td_graph *e, const char *name) {
    int n = n_primals(g);
    for (int i = 0; i < e->inputs.n; i++) {
        const td_garg  *a = i < n ? NULL : &g->outputs.v[i - n];
        const td_gtype *l = !a                      ? g->inputs.v[i]->type
                            : a->kind == TD_G_VALUE ? a->u.v->type
                                                    : NULL;
        if (same_type(l, e->inputs.v[i]->type)) continue;
        return td__fail(g->cx, TD_E_ARG,
                        "%.200s: input %d of the epilogue @%.60s has another type than "
                        "%s %d of @%.60s",
                        name, i, e->name, a ? "output" : "input", a ? i - n : i,
                        g->name);
    }
    return true;
}

/* A graph and an epilogue that takes its primals and forward outputs. Both run on fake
 * tensors of their types, so that a run does not fail halfway for a type that the text
 * states wrongly; symbolic sizes are checked in each run alone. */
static bool check_file(td_ctx *cx, const td_gfile *f, const char *name) {
    if (f->graphs.n != 2)
        return td__fail(cx, TD_E_ARG,
                        "%.200s: an exported file has two functions, a graph and its "
                        "epilogue, not %d",
                        name, f->graphs.n);
    td_graph *g = f->graphs.v[0], *e = f->graphs.v[1];
    if (!td__graph_verify(g, TD_STAGE_JOINT) || !td__graph_verify(e, TD_STAGE_PROGRAM))
        return false;
    int want = n_primals(g) + n_forward(g);
    if (td_graph_inputs(e) != want || e->inputs.n != want)
        return td__fail(cx, TD_E_ARG,
                        "%.200s: the epilogue @%.60s takes %d inputs, but @%.60s has "
                        "%d inputs and forward outputs",
                        name, e->name, e->inputs.n, g->name, want);
    return check_epilogue(g, e, name) && td__graph_check_types(g) &&
           td__graph_check_types(e);
}

td_exported *td_exported_parse(td_ctx *cx, const char *text, size_t n,
                               const char *name) {
    if (!TD_ENTER_CTX(cx)) return TD_NIL(cx, EXPORTED);
    size_t magic = sizeof head - 1;
    if (!td_ok(cx) || (n && !td__has(cx, "td_exported_parse", "the text", text)))
        return TD_NIL(cx, EXPORTED);
    if (!name) name = "text";
    if (n >= magic && !memcmp(text, head_1, magic)) {
        td__fail(cx, TD_E_IO,
                 "%.200s was exported in format 1, which has no epilogue; this version "
                 "reads format 2. Export it again",
                 name);
        return TD_NIL(cx, EXPORTED);
    }
    if (n < magic || memcmp(text, head, magic) != 0) {
        td__fail(cx, TD_E_IO,
                 "%.200s: no exported graph: its first line is not \"%.*s\"", name,
                 (int)magic - 1, head);
        return TD_NIL(cx, EXPORTED);
    }
    td_gfile *f = td__gfile_parse(cx, text, n, name);
    if (!f) return TD_NIL(cx, EXPORTED);
    if (check_file(cx, f, name)) return with_trees(f, text, n);
    td__gfile_drop(f);
    return TD_NIL(cx, EXPORTED);
}

/* ---- files -------------------------------------------------------------- */

bool td_exported_save(const td_exported *e, const char *path) {
    if (!TD_ENTER(e, EXPORTED)) return false;
    td_buf b = {0};
    td_out o;
    bool   ok = td_ok(e->cx) && print(e, &b) &&
              td__out_open(&o, e->cx, "td_exported_save", path) &&
              td__out_write(&o, b.s, b.n) && td__out_finish(&o);
    td__buf_free(&b);
    return ok;
}

td_exported *td_exported_load(td_ctx *cx, const char *path) {
    if (!TD_ENTER_CTX(cx)) return TD_NIL(cx, EXPORTED);
    if (!td_ok(cx)) return TD_NIL(cx, EXPORTED);
    td_mapping *m = td__mapping_open(cx, "td_exported_load", path);
    if (!m) return TD_NIL(cx, EXPORTED);
    td_exported *e = td_exported_parse(cx, (const char *)m->bytes, m->n, path);
    td__mapping_drop(m);
    return e;
}
