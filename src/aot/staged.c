/* staged.c -- the pipeline in two steps, with the joint graph in the user's hands in
 * between. */
#include "aot/aot.h"
#include "aot/slots.h"

struct td_staged {
    td_ctx   *cx;
    td_fn    *f; /* NULL: compiled, and the caller's, with its specialization */
    td_spec  *s;
    td_joint *j;
};

/* Takes over f, which may be NULL after td__fail. */
static td_staged *stage(td_fn *f, td_values args) {
    if (!f) return NULL;
    td_staged *st = td__zalloc(sizeof *st);
    td_spec   *s = td__zalloc(sizeof *s);
    td_ctx    *cx = f->cx;
    bool       sizes = td__fn_settings(f).dynamic == TD_SHAPES_DYNAMIC;
    f->staged = true;
    if (st && s) {
        *st = (td_staged){.cx = cx,
                          .f = f,
                          .s = s,
                          .j = td__spec_join(f, s, args, sizes)};
        if (st->j) return st;
        td_stage_drop(st);
        return NULL;
    }
    td__free(st);
    td__free(s);
    td_fn_drop(f);
    td__fail_memory(cx);
    return NULL;
}

td_staged *td_stage_capture(td_ctx *cx, td_body *body, void *env, td_values args,
                            const td_aot_opts *opts) {
    return stage(td_aot_function(cx, body, env, opts), args);
}

td_staged *td_stage_module(td_module *m, td_values args, const td_aot_opts *opts) {
    td_fn    *f = td_aot_module(m, opts);
    td_values all;
    if (!f) return NULL;
    if (!td__state_renew(f) || !td__state_args(f, args, &all)) {
        td_fn_drop(f);
        return NULL;
    }
    td_staged *s = stage(f, all);
    td__state_give(f, all);
    return s;
}

void td_stage_drop(td_staged *s) {
    if (!s) return;
    td__joint_drop(s->j);
    td__spec_drop(s->s);
    td_fn_drop(s->f);
    td__free(s);
}

/* ---- looking ------------------------------------------------------------ */

const td_graph *td_stage_program(const td_staged *s) {
    return s->s ? s->s->program : NULL;
}
const td_graph *td_stage_joint(const td_staged *s) { return s->j ? s->j->g : NULL; }
int td_stage_inputs(const td_staged *s) { return s->j ? s->j->g->inputs.n : 0; }
int td_stage_outputs(const td_staged *s) { return s->j ? s->j->g->outputs.n : 0; }

static void name_tangent(const td_joint *j, const td_tangent *t, td_slot *s) {
    s->index = t->index;
    if (t->of == TD_TANGENT_BASE) s->kind = TD_SLOT_BASE_TANGENT;
    if (t->of != TD_TANGENT_INPUT) return;
    s->kind = TD_SLOT_UPDATE_TANGENT;
    s->index = j->updates[t->index].input;
}

td_slot td_stage_input(const td_staged *s, int i) {
    const td_joint *j = s->j;
    if (!j) return (td_slot){.index = -1};
    td_slot slot = td__slot_in(j->g, i);
    if (slot.kind == TD_SLOT_TANGENT)
        name_tangent(j, &j->tangents[i - j->n_primals], &slot);
    else if (i >= 0 && i < j->n_primals &&
             s->s->program->in_desc.v[i].kind == TD_D_CONST)
        slot.kind = TD_SLOT_CONST;
    return slot;
}

td_slot td_stage_output(const td_staged *s, int i) {
    const td_joint *j = s->j;
    if (!j) return (td_slot){.index = -1};
    td_slot slot = td__slot_out(j->g, i);
    if (slot.kind == TD_SLOT_GRAD) {
        slot.index = j->targets[i - j->n_fwd].input;
        slot.name = j->g->in_desc.v[slot.index].name;
    }
    for (int r = 0; slot.kind == TD_SLOT_PLAIN && r < j->n_results; r++)
        if (j->results[r].out == i) slot.index = r;
    for (int u = 0; u < j->n_updates; u++)
        if (j->updates[u].now == i) slot.kind = TD_SLOT_META_UPDATE;
    return slot;
}

/* ---- going on ----------------------------------------------------------- */

static bool is_open(const td_staged *s, const char *who) {
    return s->j || td__fail(s->cx, TD_E_ARG, "%s: the stage has been compiled", who);
}

bool td_stage_replace(td_staged *s, const td_graph *g) {
    static const char who[] = "td_stage_replace";
    return is_open(s, who) && td__joint_become(s->j, g, who) &&
           td__joint_tidy(s->j, s->s->set.cse);
}

td_fn *td_stage_compile(td_staged *s) {
    if (!td_ok(s->cx) || !is_open(s, "td_stage_compile")) return NULL;
    td_joint *j = s->j;
    td_fn    *f = s->f;
    s->j = NULL; /* taken over */
    if (!td__spec_plan(f, s->s, j)) return NULL;
    f->specs = s->s;
    f->n_specs = 1;
    s->s = NULL;
    s->f = NULL;
    return f;
}
