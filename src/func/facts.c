/* facts.c -- what a program does to its inputs and what its outputs are, found by one
 * run without bytes: the tape above the functional mode above nothing. The rules are
 * those of AOTAutograd's metadata analysis. */
#include "func/facts_int.h"

/* ---- inputs ------------------------------------------------------------- */

static td_mutation mutation_of(const td_input_fact *in, bool keep) {
    bool data = in->mutates_data || in->mutates_storage || in->resized;
    if (!data && !in->mutates_metadata) return TD_NOT_MUTATED;
    if (!keep || !data) return TD_MUTATED_OUT_GRAPH;
    if (!in->mutates_metadata && !in->requires_grad) return TD_MUTATED_IN_GRAPH;
    return in->hidden || in->no_grad ? TD_MUTATED_IN_GRAPH : TD_MUTATED_OUT_GRAPH;
}

/* set_ away and back does not count, unless the tensor was written in between. */
static void find_input(td_facts_run *r, int i) {
    td_input_fact *to = &r->to->in[i];
    td_func_in    *in = td__facts_given(r, i);
    td_group      *g = td__group_of(in->given);
    td_fval       *now = in->t->payload;
    bool           moved = in->t->st != in->st;
    to->requires_grad = td_requires_grad(in->t);
    to->mutates_storage = in->n_set > 0 && (moved || in->strayed);
    to->mutates_data = g->writes > 0 && !to->mutates_storage;
    to->mutates_metadata =
        to->mutates_storage || !td__geom_same(&in->given->geom, &now->geom);
    to->hidden = g->writes == 0;
    to->no_grad = to->mutates_data && g->writes == g->quiet_writes;
    to->resized = !moved && in->st->bytes > in->bytes;
    to->mutation = mutation_of(to, r->to->keep);
}

/* ---- the run ------------------------------------------------------------ */

static bool find_args(td_facts_run *r, const td_value *in) {
    const td_graph *p = r->program;
    if (!td__program_inputs(p, in, r->in)) return false;
    for (int i = 0; i < p->inputs.n; i++) {
        uint8_t        kind = p->in_desc.v[i].kind;
        td_input_fact *to = &r->to->in[i];
        to->duplicate = -1;
        to->is_static = kind == TD_D_PARAM || kind == TD_D_BUFFER;
        if (r->in[i].kind != TD_K_TENSOR) continue;
        if (!(r->outer[i] = td__fake_copy(&r->fakes, r->in[i].u.t))) return false;
        to->tensor = true;
        to->is_leaf = td__facts_is_leaf(r, r->outer[i]);
        for (int k = i - 1; k >= 0; k--)
            if (r->outer[k] == r->outer[i]) to->duplicate = k;
    }
    return true;
}

/* The value of an argument: another tensor without bytes or history. */
static bool give_args(td_facts_run *r) {
    for (int i = 0; i < r->to->n_in; i++) {
        td_tensor *t = r->outer[i];
        if (!t) continue;
        r->nr[i] = r->f.in.n;
        r->in[i] = td_value_tensor(t);
        td_tensor *inner = td__tensor_alias(r->cx, t);
        if (!inner) return false;
        inner->payload = NULL;
        if (!td__func_give(&r->f, t, inner)) return false;
    }
    return true;
}

static bool collect(td_facts_run *r) {
    td_facts *to = r->to;
    for (int i = 0; i < to->n_in; i++)
        if (r->outer[i]) find_input(r, i);
    to->random = r->f.draws;
    if (r->program->left) {
        int left = r->program->left - 1;
        to->grad_mode = left == TD_R_ENABLE_GRAD || left == TD_R_PLAIN;
    }
    return td__facts_outputs(r) && td__facts_tangents(r);
}

/* The tape stands on the functional mode for the length of the run. */
static bool trace(td_facts_run *r, const td_ambient *outside) {
    td_ctx *cx = r->cx;
    td__modes_resume(cx, outside);
    td__func_begin(&r->f, cx, NULL);
    cx->tape->below = &r->f.mode;
    cx->top = cx->tape;
    cx->fake = true;
    bool ok = give_args(r) && td__graph_replay(r->program, r->in, r->out);
    td__modes_resume(cx, outside);
    ok = ok && collect(r);
    td__func_end(&r->f);
    return ok;
}

static bool make_room(td_facts_run *r) {
    td_facts *to = r->to;
    td_arena *a = &to->arena;
    size_t    n = (size_t)to->n_in + 1, m = (size_t)to->n_out + 1;
    r->outer = td__arena_zalloc(a, sizeof *r->outer * n);
    r->nr = td__arena_zalloc(a, sizeof *r->nr * n);
    r->in = td__arena_zalloc(a, sizeof *r->in * n);
    r->out = td__arena_zalloc(a, sizeof *r->out * m);
    r->bases = td__arena_zalloc(a, sizeof *r->bases * m);
    to->names = td__arena_zalloc(a, sizeof *to->names * n);
    to->in = td__arena_zalloc(a, sizeof *to->in * n);
    to->out = td__arena_zalloc(a, sizeof *to->out * m);
    to->bases = td__arena_zalloc(a, sizeof *to->bases * m);
    to->tangents = td__arena_zalloc(a, sizeof *to->tangents * (n + 2 * m));
    to->name = td__arena_strdup(a, r->program->name ? r->program->name : "");
    bool ok = r->outer && r->nr && r->in && r->out && r->bases && to->names && to->in &&
              to->out && to->bases && to->tangents && to->name;
    for (int i = 0; ok && i < to->n_in; i++) {
        const char *name = r->program->inputs.v[i]->name;
        if (name) ok = (to->names[i] = td__arena_strdup(a, name)) != NULL;
    }
    return ok || td__fail_memory(r->cx);
}

td_facts *td__facts(const td_graph *program, const td_value *in, bool keep_mutations) {
    td_ctx   *cx = program->cx;
    td_facts *to = td__zalloc(sizeof *to);
    if (!to) return td__fail_memory(cx), NULL;
    *to = (td_facts){.cx = cx,
                     .n_in = program->inputs.n,
                     .n_out = program->outputs.n,
                     .grad_mode = -1,
                     .keep = keep_mutations};
    td_facts_run r = {.to = to, .program = program, .cx = cx, .fakes = {.cx = cx}};
    td_outside   o;
    bool         ok = make_room(&r) && td__ambient_clear(cx, &o);
    if (ok) {
        ok = find_args(&r, in) && trace(&r, &o.was);
        td__ambient_restore(cx, &o, ok);
    }
    td__faker_end(&r.fakes);
    if (ok) return to;
    td__facts_drop(to);
    return NULL;
}

void td__facts_drop(td_facts *f) {
    if (!f) return;
    td__arena_free(&f->arena);
    td__free(f);
}
