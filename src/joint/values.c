/* values.c -- which values of the forward code the epilogue needs, and which of them a
 * tangent comes in for. */
#include "joint/joint_int.h"
#include "trace/sym.h"

/* What the forward output is for, in the words of descriptors. */
static td_desc desc_of(const td_joint_run *r, const td_event *e) {
    int input = td__about_tensor(r, e->to)->input;
    int result = td__about_tensor(r, e->to)->result;
    if (e->kind == TD_EV_MADE && result >= 0) return r->program->out_desc.v[result];
    if (input >= 0) return (td_desc){TD_D_UPDATE, input, NULL};
    return (td_desc){TD_D_BASE, -1, NULL};
}

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

static bool name_output(td_joint_run *r, td_event *e) {
    td_joint *j = r->to;
    int       k = e->out_nr = td__joint_output(r, e->put, desc_of(r, e));
    if (k < 0) return false;
    r->values[k] = e->put;
    td_fwd                *to = &j->fwd[k];
    const td_about_tensor *t = td__about_tensor(r, e->to);
    int                    last_write = td__about_storage(r, e->st)->last_write;
    *to = (td_fwd){.made = e->kind == TD_EV_MADE,
                   .input = t->input,
                   .result = t->result,
                   .event = e->hist_event,
                   .whole = e->hist && e->hist != r->log.all.v[e->hist_event].root,
                   .tangent = e->hist ? j->n_tangents : -1};
    if (to->made && !keep_geom(r, &to->geom, &e->geom)) return false;
    to->written = to->made && last_write > (int)(e - r->log.all.v);
    to->meta_written = to->made && t->meta_written;
    return !e->hist || td__joint_want(r, k, e->hist);
}

static void find_touched(td_joint_run *r) {
    for (int k = 0; k < r->to->n_primals; k++) {
        if (!r->outer[k]) continue;
        const td_about_storage *st = td__about_storage(r, r->f.in.v[r->nr[k]].st);
        r->to->touched[k] =
            td__about_tensor(r, r->outer[k])->touched || (st && st->changed);
    }
    for (int i = 0; i < r->log.all.n; i++) {
        const td_event *e = &r->log.all.v[i];
        if (e->kind == TD_EV_FLAG && e->op == TD_OP_requires_grad_ && !e->in[1].u.i)
            r->to->releases |= td__joint_input(r, e->t) >= 0;
    }
}

/* ---- sizes that only run time knows -------------------------------------- */

/* The forward code gives each as a number, unless it did before. */
static bool name_symbol(td_joint_run *r, int64_t dim) {
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

static bool name_symbols(td_joint_run *r, int64_t dim) {
    const td_symexpr *x = r->rec.sym ? td__sym_at(r->rec.sym, dim) : NULL;
    if (!x || !x->unbacked) return true;
    if (x->kind == TD_SYM_SYMBOL) return name_symbol(r, dim);
    if (x->kind != TD_SYM_SUM) return name_symbols(r, x->a) && name_symbols(r, x->b);
    for (int i = 0; i < x->nr; i++)
        for (int k = 0; k < x->term[i].n; k++)
            if (!name_symbols(r, td__sym_tag(x->term[i].atom[k]))) return false;
    return true;
}

static bool name_sizes(td_joint_run *r, const td_value *v) {
    if (v->kind == TD_K_INT) return name_symbols(r, v->u.i);
    for (uint32_t i = 0; v->kind == TD_K_INTS && i < v->n; i++)
        if (!name_symbols(r, v->u.ints[i])) return false;
    return true;
}

static bool name_all_sizes(td_joint_run *r) {
    for (int i = 0; i < r->log.all.n; i++) {
        const td_event *e = &r->log.all.v[i];
        for (int k = 0; e->kept && k < e->n_in; k++)
            if (!name_sizes(r, &e->in[k])) return false;
    }
    for (int i = 0; i < r->to->n_results; i++)
        if (!name_sizes(r, &r->out[i])) return false;
    return true;
}

/* Outputs the forward part may have: a value for each event, symbols, and ends. */
static bool make_room(td_joint_run *r) {
    td_joint *j = r->to;
    size_t    n = (size_t)r->log.all.n + 1;
    if (r->rec.sym) n += (size_t)r->rec.sym->symbols.n;
    if (r->opts.ends) n += 2 * (size_t)j->n_primals + (size_t)j->n_results;
    j->fwd = td__arena_zalloc(&j->arena, sizeof *j->fwd * n);
    r->values = td__arena_zalloc(&j->arena, sizeof *r->values * n);
    r->numbers = td__arena_zalloc(&j->arena, sizeof *r->numbers * n);
    return (j->fwd && r->values && r->numbers) || td__fail_memory(r->cx);
}

bool td__epilogue_values(td_joint_run *r) {
    if (!td__log_index(r)) return false;
    find_touched(r);
    if (!td__log_merge(r) || !make_room(r) || !td__log_slice(r)) return false;
    td__log_index_kept(r);
    if (!td__joint_choose_inside(r)) return false;
    for (int i = 0; i < r->log.all.n; i++) {
        td_event *e = &r->log.all.v[i];
        if (!e->kept || !e->put || (e->kind == TD_EV_GIVEN && !e->hist)) continue;
        if (!name_output(r, e)) return false;
    }
    return name_all_sizes(r);
}
