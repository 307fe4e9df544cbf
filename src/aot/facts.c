/* facts.c -- what a program does to its inputs and what its outputs are, read off a run
 * without bytes under the tape above the functional mode. The rules are those of
 * AOTAutograd's metadata analysis. */
#include "aot/aot.h"
#include "aot/facts_int.h"

#include <stddef.h>

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

/* Was its storage exchanged by set_, and is it another now, or was it written
 * meanwhile? */
static bool is_set(const td_facts_run *r, const td_tensor *t, const td_storage *given) {
    bool set = false, written = false;
    for (int i = 0; i < r->r->log->all.n; i++) {
        const td_event *e = &r->r->log->all.v[i];
        if (e->t != t) continue;
        set |= e->kind == TD_EV_META && e->op == TD_OP_set_;
        written |= e->kind == TD_EV_WRITE && e->st != given;
    }
    return set && (t->st != given || written);
}

static void find_mutations(td_facts_run *r, int i) {
    td_input_fact    *to = &r->to->in[i];
    td_tensor        *t = r->r->inputs[i].outer;
    const td_func_in *in = &r->r->f->in.v[r->r->inputs[i].nr];
    int               writes = td__func_writes(r->r->f, r->r->inputs[i].nr);
    td_geom           now = td__geom_of(t);
    to->requires_grad = td_requires_grad(t);
    to->mutates_storage = is_set(r, t, in->st);
    to->mutates_data = writes > 0 && !to->mutates_storage;
    to->mutates_metadata =
        to->mutates_storage || !td__geom_same(&r->r->inputs[i].geom, &now);
    to->hidden = writes == 0;
    to->no_grad = to->mutates_data &&
                  writes == td__func_quiet_writes(r->r->f, r->r->inputs[i].nr);
    to->resized = t->st == in->st && in->st->bytes > in->bytes;
    to->mutation = mutation_of(to, r->to->keep_mutations);
}

/* A view that is behind has a history when it is asked, and nobody asks it here. */
static void find_input(td_facts_run *r, int i) {
    uint8_t        kind = r->r->program->in_desc.v[i].kind;
    td_input_fact *to = &r->to->in[i];
    to->duplicate = -1;
    to->is_static = kind == TD_D_PARAM || kind == TD_D_BUFFER;
    if (!(to->tensor = r->r->inputs[i].outer != NULL)) return;
    to->is_leaf =
        !td__has_node(r->r->inputs[i].real) && !td__is_behind(r->r->inputs[i].real);
    for (int k = i - 1; k >= 0; k--)
        if (r->r->inputs[k].outer == r->r->inputs[i].outer) to->duplicate = k;
    find_mutations(r, i);
}

/* Fills in all facts. Inputs come first, because the facts of outputs and tangents read
 * them. */
static bool find_all(td_facts_run *r) {
    td_facts *to = r->to;
    for (int i = 0; i < to->n_in; i++) find_input(r, i);
    to->random = td__graph_draws(r->r->g);
    if (r->r->program->left) {
        int left = r->r->program->left - 1;
        to->grad_mode = left == TD_R_ENABLE_GRAD || left == TD_R_PLAIN;
    }
    return td__facts_outputs(r) && td__facts_tangents(r);
}

/* Allocates the lists of the facts in their arena. There is at most one tangent per
 * input and two per output. */
static bool make_room(td_facts_run *r) {
    td_facts *to = r->to;
    td_arena *a = r->arena;
    size_t    n = (size_t)to->n_in + 1, m = (size_t)to->n_out + 1;
    r->bases = td__arena_zalloc(a, sizeof *r->bases * m);
    to->in = td__arena_zalloc(a, sizeof *to->in * n);
    to->out = td__arena_zalloc(a, sizeof *to->out * m);
    to->bases = td__arena_zalloc(a, sizeof *to->bases * m);
    to->tangents = td__arena_zalloc(a, sizeof *to->tangents * (n + 2 * m));
    to->name = td__arena_strdup(a, r->r->program->name ? r->r->program->name : "");
    bool ok = r->bases && to->in && to->out && to->bases && to->tangents && to->name;
    for (int i = 0; ok && i < to->n_in; i++) {
        const char *name = r->r->program->inputs.v[i]->name;
        ok = (to->in[i].name = td__arena_strdup(a, name ? name : "")) != NULL;
    }
    return ok || td__fail_memory(r->r->cx);
}

static bool look(void *env, const td_replayed *replayed) {
    td_facts_own *own = env;
    td_facts_run  r = {.to = &own->facts, .arena = &own->arena, .r = replayed};
    return make_room(&r) && find_all(&r);
}

bool td__facts_type(td_facts_run *r, td_tensor_type *to, const td_tensor *t) {
    td_geom g;
    if (!td__geom_copy(r->r->cx, r->arena, &g, t)) return false;
    *to = (td_tensor_type){(td_dtype)g.dtype, g.rank, g.size, g.stride, g.offset};
    return true;
}

/* ---- making and dropping ------------------------------------------------- */

static void end(void *object) {
    td_facts_own *own = object;
    td__arena_free(&own->arena);
    td__handle_free(own, TD_H_FACTS);
}

static td_facts_own *own_of(td_facts *f) {
    return (td_facts_own *)(void *)((char *)f - offsetof(td_facts_own, facts));
}

td_facts *td__facts(const td_graph *program, const td_value *in, bool keep_mutations) {
    td_facts_own *own = td__handle_make(program->cx, TD_H_FACTS, sizeof *own);
    if (!own) return NULL;
    own->facts = (td_facts){.n_in = program->inputs.n,
                            .n_out = program->outputs.n,
                            .grad_mode = -1,
                            .keep_mutations = keep_mutations};
    if (td__joint_look(program, in, look, own)) return &own->facts;
    end(own);
    return NULL;
}

void td__facts_drop(td_facts *f) {
    if (f) end(own_of(f));
}

/* The members of a module, or the state of a step, come before the arguments. */
td_facts *td_fn_facts(td_fn *f, td_values args) {
    td_values all = args;
    if (!TD_ENTER(f, FN) || !td_ok(f->cx) ||
        !td__may_read(f->cx, "td_fn_facts", "the facts of a function") ||
        !td__has_args(f->cx, "td_fn_facts", args))
        return NULL;
    if (f->state && (!td__state_renew(f) || !td__state_args(f, args, &all)))
        return NULL;
    td_facts *facts = td__spec_facts(f, all);
    if (f->state) td__state_give(f, all);
    if (facts) td__handle_own(own_of(facts), end);
    return facts;
}

void td_facts_drop(td_facts *facts) {
    td_facts_own *own = facts ? own_of(facts) : NULL;
    if (!TD_MAY_FREE(own, FACTS)) return;
    td__handle_disown(own);
    end(own);
}
