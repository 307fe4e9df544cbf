/* explain_epilogue.c -- the tensors of an epilogue: their names, the view ops that
 * lead to them, their types when the call returns, and how far their versions
 * advance. */
#include "aot/explain.h"

#include <string.h>

/* ---- names -------------------------------------------------------------- */

static bool is_made(const td_gval *v) { return v->node && v->node->op == TD_OP__made; }

/* The first result that v is; -1: none. */
static int result_of(const td_joint *j, const td_gval *v) {
    const td_graph *g = j->epilogue;
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.v[i].kind == TD_G_VALUE && g->outputs.v[i].u.v == v) return i;
    return -1;
}

/* Does node i make a base, a new tensor that is no result? */
static bool makes_base(const td_joint *j, int i) {
    const td_gnode *n = j->epilogue->nodes.v[i];
    return n->kind == TD_N_OP && n->op == TD_OP__made && !n->in[0].u.v->node &&
           n->in[0].u.v->nr >= j->n_primals && result_of(j, n->out[0]) < 0;
}

int td__epi_n_bases(const td_joint *j) {
    int nr = 0;
    for (int i = 0; i < j->epilogue->nodes.n; i++) nr += makes_base(j, i);
    return nr;
}

const td_gval *td__epi_base(const td_joint *j, int nr) {
    for (int i = 0; i < j->epilogue->nodes.n; i++)
        if (makes_base(j, i) && nr-- == 0) return j->epilogue->nodes.v[i]->out[0];
    return NULL;
}

/* The number of the base v. */
static int base_nr(const td_joint *j, const td_gval *v) {
    int nr = 0;
    for (int i = 0; i < j->epilogue->nodes.n; i++) {
        if (j->epilogue->nodes.v[i] == v->node) return nr;
        nr += makes_base(j, i);
    }
    return -1;
}

/* How users refer to a tensor of the epilogue: an input, a result, the base of results,
 * or a view of one of these. */
td_named td__epi_name(const td_joint *j, const td_gval *v) {
    if (!v->node) return (td_named){TD_NAMED_INPUT, v->nr};
    int r = result_of(j, v);
    if (r >= 0) return (td_named){TD_NAMED_RESULT, r};
    if (is_made(v)) return (td_named){TD_NAMED_BASE, base_nr(j, v)};
    return (td_named){TD_NAMED_VIEW, -1};
}

/* Is result i a tensor that the call makes, and not an input or an earlier result? */
bool td__epi_is_new(const td_joint *j, int i) {
    const td_garg *a = &j->epilogue->outputs.v[i];
    td_named       name = {TD_NAMED_INPUT, 0};
    if (a->kind == TD_G_VALUE) name = td__epi_name(j, a->u.v);
    return name.as == TD_NAMED_RESULT && name.index == i;
}

void td__epi_name_print(td_buf *b, const td_joint *j, const td_gval *v) {
    static const char *const words[] = {"input", "result", "base"};
    td_named                 name = td__epi_name(j, v);
    if (name.as == TD_NAMED_VIEW) {
        td__buf_add(b, "a view of ");
        name = td__epi_name(j, td__epi_origin(j, v));
    }
    td__buf_printf(b, "%s %d", words[name.as], name.index);
}

int td__epi_made_of(const td_joint *j, const td_gval *v) {
    return is_made(v) ? v->node->in[0].u.v->nr - j->n_primals : -1;
}

/* ---- views -------------------------------------------------------------- */

const td_gval *td__epi_viewed(const td_gval *v) {
    int of = v->node ? td__opinfo(v->node->op)->view_of : -1;
    return of < 0 ? NULL : v->node->in[of].u.v;
}

const td_gval *td__epi_origin(const td_joint *j, const td_gval *v) {
    const td_gval *at = td__epi_viewed(v);
    while (at && td__epi_name(j, at).as == TD_NAMED_VIEW) at = td__epi_viewed(at);
    return at;
}

/* One view op as a line; an op with several results adds "#nr". */
static void view_line(const td_joint *j, const td_gval *v, td_line_fn *fn, void *env) {
    td_buf b = {0};
    td__gnode_call_print(&b, j->epilogue, v->node);
    if (td__row(v->node->op)->flags & TD_OPF_MULTI) td__buf_printf(&b, "#%d", v->nr);
    fn(env, b.failed ? NULL : td__buf_str(&b));
    td__buf_free(&b);
}

/* The view ops from `of` to v, outermost last. Chains are short, so that walking up
 * repeatedly does not matter. */
void td__epi_views(const td_joint *j, const td_gval *v, const td_gval *of,
                   td_line_fn *fn, void *env) {
    int n = 0;
    for (const td_gval *at = v; at && at != of; at = td__epi_viewed(at)) n++;
    while (n-- > 0) {
        const td_gval *at = v;
        for (int i = 0; i < n; i++) at = td__epi_viewed(at);
        view_line(j, at, fn, env);
    }
}

void td__epi_join(void *env, const char *line) {
    td_lines *l = env;
    if (!line) l->b->failed = true;
    if (l->any) td__buf_add(l->b, ", ");
    if (line) td__buf_add(l->b, line);
    l->any = true;
}

void td__epi_views_print(td_buf *b, const td_joint *j, const td_gval *v,
                         const td_gval *of) {
    td__epi_views(j, v, of, td__epi_join, &(td_lines){b, false});
}

/* Is there a detach among the view ops that make v? */
bool td__epi_is_detached(const td_joint *j, const td_gval *v) {
    const td_gval *origin = td__epi_origin(j, v);
    bool           any = false;
    for (const td_gval *at = v; origin && at != origin; at = td__epi_viewed(at))
        any |= (td__row(at->node->op)->flags & TD_OPF_DETACH) != 0;
    return any;
}

/* ---- types -------------------------------------------------------------- */

/* v's type after the last metadata write before node `end`; NULL: there was none, or
 * the type is not known. */
static const td_gtype *type_before(const td_joint *j, const td_gval *v, int end) {
    for (int i = end - 1; i >= 0; i--) {
        const td_gnode *n = j->epilogue->nodes.v[i];
        if (n->kind == TD_N_OP && n->n_in && n->in[0].u.v == v && n->out[0]->type &&
            td__row(n->op)->flags & TD_OPF_META)
            return n->out[0]->type;
    }
    return NULL;
}

/* The type after the whole epilogue, which may have changed its metadata. */
void td__epi_type(td_buf *b, const td_joint *j, const td_gval *v) {
    const td_gtype *l = type_before(j, v, j->epilogue->nodes.n);
    if (!l) l = v->type;
    if (l) td__gtype_print(b, j->epilogue, l);
    else if (is_made(v)) td__explain_type(b, j->g, &j->fwd[td__epi_made_of(j, v)].geom);
}

/* ---- versions ------------------------------------------------------------ */

/* resize_ to the current sizes does nothing, and does not advance the version. */
static bool keeps_sizes(const td_joint *j, int i) {
    const td_gnode *n = j->epilogue->nodes.v[i];
    const td_gval  *v = n->in[0].u.v;
    const td_gtype *now = n->out[0]->type, *was = type_before(j, v, i);
    if (!was) was = is_made(v) ? v->node->in[0].u.v->type : v->type;
    return now && was && now->rank == was->rank &&
           !memcmp(now->size, was->size, sizeof *now->size * now->rank);
}

/* By how much node i advances a version. */
static int64_t writes_of(const td_joint *j, int i) {
    const td_gnode *n = j->epilogue->nodes.v[i];
    int             count = td__op_arg(n->op, "writes");
    if (count >= 0) return n->in[count].u.i;
    if (td__row(n->op)->flags & TD_OPF_TAPE) return 0;
    if (n->op == TD_OP_resize_) return !keeps_sizes(j, i);
    return td__opinfo(n->op)->writes;
}

/* Did inputs i and k share a storage at the start of the call? */
static bool shared_storage(const td_joint *j, int i, int k) {
    const td_gtype *a = j->g->inputs.v[i]->type, *b = j->g->inputs.v[k]->type;
    return i == k || j->primals[k].same == j->primals[i].same ||
           (a && b && a->storage >= 0 && a->storage == b->storage);
}

/* Does v, before node `end`, have the storage that input i had at the start? Walks
 * backward through set_ and view ops. */
static bool is_in_storage(const td_joint *j, const td_gval *v, int i, int end) {
    for (int k = end - 1; k >= 0; k--) {
        const td_gnode *n = j->epilogue->nodes.v[k];
        if (n->kind != TD_N_OP || !n->n_in) continue;
        if (n->op == TD_OP_set_ && n->in[0].u.v == v) v = n->in[1].u.v;
        else if (n == v->node) {
            v = td__epi_viewed(v);
            if (!v) return false; /* new */
        }
    }
    return v->nr < j->n_primals && shared_storage(j, i, v->nr);
}

/* By how much the version of input i grows: writes to any tensor that is in its storage
 * at that point. */
int64_t td__epi_versions(const td_joint *j, int i) {
    int64_t writes = 0;
    for (int k = 0; k < j->epilogue->nodes.n; k++) {
        const td_gnode *n = j->epilogue->nodes.v[k];
        int64_t         more = n->kind == TD_N_OP ? writes_of(j, k) : 0;
        if (more && is_in_storage(j, n->in[0].u.v, i, k + 1)) writes += more;
    }
    return writes;
}

/* ---- forward outputs, targets ------------------------------------------- */

/* The node of the epilogue that uses forward output k as a new tensor or as new
 * elements; NULL: none. */
const td_gnode *td__epi_user(const td_joint *j, int k) {
    for (int i = 0; i < j->epilogue->nodes.n; i++) {
        const td_gnode *n = j->epilogue->nodes.v[i];
        int             at = n->op == TD_OP__made ? 0 : 1;
        if (n->kind == TD_N_OP && n->op != TD_OP__bind && n->n_in > at &&
            n->in[at].kind == TD_G_VALUE && !n->in[at].u.v->node &&
            n->in[at].u.v->nr == j->n_primals + k)
            return n;
    }
    return NULL;
}

/* The leaf that target i is bound to; NULL: an input or its base. */
const td_gval *td__epi_leaf(const td_joint *j, int i) {
    for (int k = 0; k < j->epilogue->nodes.n; k++) {
        const td_gnode *n = j->epilogue->nodes.v[k];
        if (n->kind == TD_N_OP && n->op == TD_OP__bind && n->in[2].u.i == i)
            return n->in[0].u.v;
    }
    return NULL;
}

/* Does the joint graph itself write input i (keep_mutations, or a custom backward)? */
bool td__epi_code_writes(const td_joint *j, int i) {
    for (int k = 0; k < j->g->nodes.n; k++) {
        const td_gnode *n = j->g->nodes.v[k];
        if (n->kind == TD_N_OP && td__opinfo(n->op)->writes && n->n_in &&
            n->in[0].kind == TD_G_VALUE && n->in[0].u.v == j->g->inputs.v[i])
            return true;
    }
    return false;
}

/* ---- regions, text ------------------------------------------------------ */

/* The innermost region around a node, among those in the set; TD_R_COUNT: none. */
static td_gregion region_of(const td_joint *j, const td_gnode *n, unsigned set) {
    int i = 0, closed = 0;
    while (i < j->epilogue->nodes.n && j->epilogue->nodes.v[i] != n) i++;
    while (i-- > 0) {
        const td_gnode *at = j->epilogue->nodes.v[i];
        if (at->kind == TD_N_LEAVE) closed++;
        if (at->kind != TD_N_ENTER || closed-- > 0) continue;
        closed = 0;
        if (set >> at->region & 1) return (td_gregion)at->region;
    }
    return TD_R_COUNT;
}

bool td__epi_is_no_grad(const td_joint *j, const td_gnode *n) {
    td_gregion r = region_of(j, n, ~0u);
    return r == TD_R_NO_GRAD || r == TD_R_INFERENCE;
}

bool td__epi_is_inference(const td_joint *j, const td_gnode *n) {
    return region_of(j, n, 1u << TD_R_INFERENCE | 1u << TD_R_PLAIN) == TD_R_INFERENCE;
}

/* The lines of the epilogue's text without the first (its signature) and the last. */
void td__epi_lines(const td_joint *j, td_line_fn *fn, void *env) {
    td_buf text = {0};
    td__graph_print(&text, j->epilogue, TD_PRINT_OPS | TD_PRINT_BRIEF);
    if (text.failed) fn(env, NULL);
    char *at = text.failed ? NULL : strchr(text.s, '\n');
    for (char *end; at && (end = strchr(at + 1, '\n')) && end[1]; at = end) {
        *end = 0;
        fn(env, at + 3); /* after newline and indentation */
    }
    td__buf_free(&text);
}
