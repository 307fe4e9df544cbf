/* facts.c -- what a program does to its inputs and what its outputs are, read off a run
 * without bytes under the tape above the functional mode. The rules are those of
 * AOTAutograd's metadata analysis. */
#include "func/facts_int.h"

#include "eager/node.h"

/* ---- inputs ------------------------------------------------------------- */

/* Whether the graph itself may perform the write (keep_mutations) or the call does it
 * afterwards. Metadata and writes with history are never left in the graph. */
static td_mutation mutation_of(const td_input_fact *in, bool keep) {
    bool data = in->mutates_data || in->mutates_storage || in->resized;
    if (!data && !in->mutates_metadata) return TD_NOT_MUTATED;
    if (!keep || !data) return TD_MUTATED_OUT_GRAPH;
    if (!in->mutates_metadata && !in->requires_grad) return TD_MUTATED_IN_GRAPH;
    return in->hidden || in->no_grad ? TD_MUTATED_IN_GRAPH : TD_MUTATED_OUT_GRAPH;
}

/* set_ away and back does not count, unless the tensor was written in between. */
static void find_mutations(td_facts_run *r, int i) {
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

/* A view that is behind has a history when it is asked, and nobody asks it here. */
static void find_input(td_facts_run *r, int i) {
    uint8_t        kind = r->program->in_desc.v[i].kind;
    td_input_fact *to = &r->to->in[i];
    to->duplicate = -1;
    to->is_static = kind == TD_D_PARAM || kind == TD_D_BUFFER;
    if (!(to->tensor = r->outer[i] != NULL)) return;
    to->is_leaf = !td__has_node(r->real[i]) && !td__is_behind(r->real[i]);
    for (int k = i - 1; k >= 0; k--)
        if (r->outer[k] == r->outer[i]) to->duplicate = k;
    find_mutations(r, i);
}

/* Fills in all facts. Inputs come first, because the facts of outputs and tangents read
 * them. */
static bool find_all(td_facts_run *r) {
    td_facts *to = r->to;
    for (int i = 0; i < to->n_in; i++) find_input(r, i);
    to->random = r->f->draws;
    if (r->program->left) {
        int left = r->program->left - 1;
        to->grad_mode = left == TD_R_ENABLE_GRAD || left == TD_R_PLAIN;
    }
    return td__facts_outputs(r) && td__facts_tangents(r);
}

/* Allocates the lists of the facts in their arena. There is at most one tangent per
 * input and two per output. */
static bool make_room(td_facts_run *r) {
    td_facts *to = r->to;
    td_arena *a = &to->arena;
    size_t    n = (size_t)to->n_in + 1, m = (size_t)to->n_out + 1;
    r->bases = td__arena_zalloc(a, sizeof *r->bases * m);
    to->names = td__arena_zalloc(a, sizeof *to->names * n);
    to->in = td__arena_zalloc(a, sizeof *to->in * n);
    to->out = td__arena_zalloc(a, sizeof *to->out * m);
    to->bases = td__arena_zalloc(a, sizeof *to->bases * m);
    to->tangents = td__arena_zalloc(a, sizeof *to->tangents * (n + 2 * m));
    to->name = td__arena_strdup(a, r->program->name ? r->program->name : "");
    bool ok = r->bases && to->names && to->in && to->out && to->bases && to->tangents &&
              to->name;
    for (int i = 0; ok && i < to->n_in; i++) {
        const char *name = r->program->inputs.v[i]->name;
        if (name) ok = (to->names[i] = td__arena_strdup(a, name)) != NULL;
    }
    return ok || td__fail_memory(r->cx);
}

/* The facts of a run that has just finished; owned by the caller (td__facts_drop). NULL
 * after td__fail. */
td_facts *td__facts_find(td_facts_run *r, bool keep_mutations) {
    td_facts *to = r->to = td__zalloc(sizeof *to);
    if (!to) return td__fail_memory(r->cx), NULL;
    *to = (td_facts){.cx = r->cx,
                     .n_in = r->program->inputs.n,
                     .n_out = r->program->outputs.n,
                     .grad_mode = -1,
                     .keep = keep_mutations};
    if (make_room(r) && find_all(r)) return to;
    td__facts_drop(to);
    return r->to = NULL;
}

void td__facts_drop(td_facts *f) {
    if (!f) return;
    td__arena_free(&f->arena);
    td__free(f);
}
