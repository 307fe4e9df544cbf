/* forward_outputs.c -- the outputs of the forward code: a value for each event that
 * makes a tensor or writes one, a number for each symbolic size that is known only when
 * the code runs; and a tangent for each value with a grad_fn. */
#include "joint/joint_int.h"
#include "rules/geom.h"
#include "trace/sym.h"

/* ---- tangents ----------------------------------------------------------- */

void td__tangent_strides(const td_tangent *t, const int64_t *size, int64_t *stride) {
    int64_t step = 1;
    for (int k = t->geom.rank - 1; k >= 0; k--) {
        stride[t->order[k]] = step;
        step = td__dim_mul(step, td__dim_max(size[t->order[k]], 1));
    }
}

/* Sorts the dims by the strides of ones_like(t), outermost first: the layout of the
 * gradient that the engine makes for t, and that most ops preserve, so that derivatives
 * read the same layout as in eager. `stride` is scratch, [rank]. */
static void find_order(td_tangent *to, const td_tensor *t, int64_t *stride) {
    td__strides_like(t->rank, t->size, t->stride, stride);
    for (int i = 0; i < t->rank; i++) {
        int k = i;
        for (; k > 0 && td__dim_seems_lt(stride[to->order[k - 1]], stride[i]); k--)
            to->order[k] = to->order[k - 1];
        to->order[k] = (uint8_t)i;
    }
}

/* Adds the tangent of forward output `index`. t is the output's root, with its
 * grad_fn. */
static bool add_tangent(td_joint_run *r, int index, td_tensor *t) {
    td_joint   *j = r->to;
    td_tangent *to = &j->tangents[j->n_tangents];
    int64_t    *stride =
        td__arena_alloc(&j->arena, sizeof *stride * (size_t)(t->rank + 1));
    *to = (td_tangent){.index = index};
    to->order = td__arena_alloc(&j->arena, (size_t)t->rank + 1);
    if (!stride || !to->order) return td__fail_memory(r->cx);
    if (!td__geom_copy(r->cx, &j->arena, &to->geom, t)) return false;
    find_order(to, t, stride);
    td__tangent_strides(to, t->size, stride);
    to->geom.stride = stride;
    to->geom.offset = 0;
    r->roots[j->n_tangents++] = t;
    return true;
}

/* ---- values ------------------------------------------------------------- */

/* The descriptor of the output of event e: the result it becomes, the input it is
 * written to, or a tensor that results are views of. */
static td_desc desc_of(const td_joint_run *r, const td_event *e) {
    int input = td__tensor_summary(r, e->to)->input;
    int result = td__tensor_summary(r, e->to)->result;
    if (r->order) return TD_PLAIN_DESC;
    if (e->kind == TD_EV_MADE && result >= 0) return r->program->out_desc.v[result];
    if (input >= 0) return (td_desc){TD_D_UPDATE, input, NULL};
    return (td_desc){TD_D_BASE, -1, NULL};
}

/* Copies a geometry of the log, which is freed with the run. */
static bool keep_geom(td_joint_run *r, td_geom *to, const td_geom *from) {
    size_t   n = (size_t)from->rank;
    int64_t *dims = td__arena_alloc(&r->to->arena, sizeof *dims * (2 * n + 1));
    if (!dims) return td__fail_memory(r->cx);
    *to = *from;
    if (n) memcpy(dims, from->size, sizeof *dims * n);
    if (n) memcpy(dims + n, from->stride, sizeof *dims * n);
    to->size = dims;
    to->stride = dims + n;
    return true;
}

/* Adds the value of event e as a forward output, with a tangent if it has a grad_fn. */
static bool add_value(td_joint_run *r, td_event *e) {
    td_joint *j = r->to;
    if (e->kind == TD_EV_MADE && !(e->put = td__func_result(&r->f, e->put, &e->geom)))
        return false;
    int k = e->out_nr = td__joint_output(r, e->put, desc_of(r, e));
    if (k < 0) return false;
    r->values[k] = e->put;
    td_fwd                  *to = &j->fwd[k];
    const td_tensor_summary *t = td__tensor_summary(r, e->to);
    int                      last_write = td__storage_summary(r, e->st)->last_write;
    *to = (td_fwd){.made = e->kind == TD_EV_MADE,
                   .input = t->input,
                   .result = t->result,
                   .tangent = e->hist ? j->n_tangents : -1};
    if (to->made && !keep_geom(r, &to->geom, &e->geom)) return false;
    to->written = to->made && last_write > (int)(e - r->log.all.v);
    to->meta_written = to->made && t->meta_written;
    return !e->hist || add_tangent(r, k, e->hist);
}

/* Finds the inputs whose elements, metadata or flags an event changes, directly or
 * through their storage. */
static void find_touched(td_joint_run *r) {
    for (int k = 0; k < r->to->n_primals; k++) {
        if (!r->inputs[k].outer) continue;
        const td_storage_summary *st =
            td__storage_summary(r, r->f.in.v[r->inputs[k].nr].st);
        r->to->primals[k].touched =
            td__tensor_summary(r, r->inputs[k].outer)->touched || (st && st->changed);
    }
}

/* ---- sizes that depend on values ---------------------------------------- */

/* Adds a symbol as a forward output, once. */
static bool add_symbol(td_joint_run *r, int64_t dim) {
    td_joint *j = r->to;
    td_garg   a = td__garg_int(td__graph_dim(j->g, dim));
    for (int i = 0; i < j->g->outputs.n; i++)
        if (!r->values[i] && r->numbers[i] == dim) return true;
    int k = j->g->outputs.n;
    a.kind = TD_G_SYM;
    r->numbers[k] = dim;
    j->fwd[k] = TD_FWD_UNREAD;
    return td__graph_output(j->g, a, TD_PLAIN_DESC);
}

/* Adds the symbols of a size that depends on values (unbacked). */
static bool add_symbols(td_joint_run *r, int64_t dim) {
    const td_symexpr *x = r->rec.sym ? td__sym_at(r->rec.sym, dim) : NULL;
    if (!x || !x->unbacked) return true;
    if (x->kind == TD_SYM_SYMBOL) return add_symbol(r, dim);
    if (x->kind != TD_SYM_SUM) return add_symbols(r, x->a) && add_symbols(r, x->b);
    for (int i = 0; i < x->nr; i++)
        for (int k = 0; k < x->term[i].n; k++)
            if (!add_symbols(r, td__sym_tag(x->term[i].atom[k]))) return false;
    return true;
}

/* Adds the symbols in an argument of the epilogue, or in a result. */
static bool add_sizes(td_joint_run *r, const td_value *v) {
    if (v->kind == TD_K_INT) return add_symbols(r, v->u.i);
    for (uint32_t i = 0; v->kind == TD_K_INTS && i < v->n; i++)
        if (!add_symbols(r, v->u.ints[i])) return false;
    return true;
}

/* Symbolic sizes that the epilogue reads and that depend on values become forward
 * outputs. */
static bool add_all_sizes(td_joint_run *r) {
    for (int i = 0; i < r->log.all.n; i++) {
        const td_event *e = &r->log.all.v[i];
        for (int k = 0; e->live && k < e->n_in; k++)
            if (!add_sizes(r, &e->in[k])) return false;
    }
    for (int i = 0; i < r->to->n_results; i++)
        if (!add_sizes(r, &r->out[i])) return false;
    return true;
}

/* Allocates for the largest possible number of forward outputs: a value for each event,
 * and all symbols. */
static bool allocate(td_joint_run *r) {
    td_joint *j = r->to;
    size_t    n = (size_t)r->log.all.n + 1;
    if (r->rec.sym) n += (size_t)r->rec.sym->symbols.n;
    j->fwd = td__arena_zalloc(&j->arena, sizeof *j->fwd * n);
    r->values = td__arena_zalloc(&j->arena, sizeof *r->values * n);
    r->numbers = td__arena_zalloc(&j->arena, sizeof *r->numbers * n);
    return (j->fwd && r->values && r->numbers) || td__fail_memory(r->cx);
}

/* From the complete log to the list of forward outputs: merges writes, drops events
 * that cannot be observed, chooses writes that stay in the graph, then adds one output
 * for the value of each remaining event. */
bool td__epilogue_values(td_joint_run *r) {
    find_touched(r);
    if (!td__log_merge(r) || !allocate(r) || !td__log_slice(r)) return false;
    td__log_index_live(r);
    if (!td__joint_choose_writes(r)) return false;
    for (int i = 0; i < r->log.all.n; i++) {
        td_event *e = &r->log.all.v[i];
        if (!e->live || !e->put || (e->kind == TD_EV_GIVEN && !e->hist)) continue;
        if (!add_value(r, e)) return false;
    }
    return add_all_sizes(r);
}

/* ---- after the trace ---------------------------------------------------- */

/* Converts dims of the trace in a list to dims of g, in place. */
static void keep_list(td_graph *g, const int64_t *list, int n) {
    int64_t *own = (int64_t *)(uintptr_t)list;
    for (int i = 0; i < n; i++) own[i] = td__graph_dim(g, own[i]);
}

static void keep_geom_dims(td_graph *g, td_geom *of) {
    of->offset = td__graph_dim(g, of->offset);
    keep_list(g, of->size, of->rank);
    keep_list(g, of->stride, of->rank);
}

bool td__joint_keep_sizes(td_joint *j) {
    td_graph *g = j->g;
    for (int i = 0; i < j->n_tangents; i++) keep_geom_dims(g, &j->tangents[i].geom);
    for (int i = 0; i < j->n_fwd; i++)
        if (j->fwd[i].made) keep_geom_dims(g, &j->fwd[i].geom);
    return td_ok(j->cx);
}
