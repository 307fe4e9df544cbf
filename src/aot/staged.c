/* staged.c -- td_staged: the pipeline in two steps, between which the user may
 * inspect and replace the joint graph. */
#include "aot/aot.h"
#include "module/modules.h"
#include "aot/slots.h"

/* A function that is traced but not compiled. After td_stage_compile all fields are
 * NULL. */
struct td_staged {
    TD_OWNED_FIELDS;
    td_fn    *f; /* owned; NULL: td_stage_compile gave it to the user */
    td_spec  *s;
    td_joint *j;
};

static void end(void *object) {
    td_staged *s = object;
    td__joint_drop(s->j);
    td__spec_drop(s->s);
    td__fn_free(s->f);
    td__handle_free(s, TD_H_STAGED);
}

/* Traces f on the arguments. Takes over f, which may be NULL after td__fail. NULL
 * after td__fail. */
static td_staged *stage(td_fn *f, td_values args) {
    if (!f) return NULL;
    td_ctx    *cx = f->cx;
    td_staged *st = td__handle_make(cx, TD_H_STAGED, sizeof *st);
    td_spec   *s = td__zalloc(sizeof *s);
    f->staged = true;
    if (st && s) {
        st->f = f;
        st->s = s;
        st->j = td__spec_join(f, s, args);
        if (st->j) return st;
        end(st);
        return NULL;
    }
    td__handle_free(st, TD_H_STAGED);
    td__free(s);
    td__fn_free(f);
    td__fail_memory(cx);
    return NULL;
}

/* Hands s to the user, who owns it until td_stage_drop; the nil object for NULL. */
static td_staged *give(td_ctx *cx, td_staged *s) {
    return s ? td__handle_own(s, end) : TD_NIL(cx, STAGED);
}

td_staged *td_stage_capture(td_ctx *cx, td_body *body, void *env, td_values args,
                            const td_aot_opts *opts) {
    if (!TD_ENTER_CTX(cx) || !td__has_args(cx, "td_stage_capture", args))
        return TD_NIL(cx, STAGED);
    return give(cx, stage(td__fn_of_body(cx, body, env, opts), args));
}

td_staged *td_stage_module(td_module *m, td_values args, const td_aot_opts *opts) {
    if (!TD_ENTER(m, MODULE) || !td__has_args(m->cx, "td_stage_module", args))
        return TD_NIL_BY(m, STAGED);
    td_fn    *f = td__fn_of_module(m, opts, false);
    td_values all;
    if (!f) return TD_NIL(m->cx, STAGED);
    if (!td__state_renew(f) || !td__state_args(f, args, &all)) {
        td__fn_free(f);
        return TD_NIL(m->cx, STAGED);
    }
    td_staged *s = stage(f, all);
    td__state_give(f, all);
    return give(m->cx, s);
}

void td_stage_drop(td_staged *s) {
    if (!TD_MAY_FREE(s, STAGED)) return;
    td__handle_disown(s);
    end(s);
}

/* ---- inspecting ---------------------------------------------------------- */

const td_graph *td_stage_program(const td_staged *s) {
    if (!TD_ENTER(s, STAGED)) return TD_NIL_BY(s, GRAPH);
    return s->s ? s->s->program : NULL;
}
const td_graph *td_stage_joint(const td_staged *s) {
    if (!TD_ENTER(s, STAGED)) return TD_NIL_BY(s, GRAPH);
    return s->j ? s->j->g : NULL;
}
int td_stage_inputs(const td_staged *s) {
    if (!TD_ENTER(s, STAGED)) return 0;
    return s->j ? s->j->g->inputs.n : 0;
}
int td_stage_outputs(const td_staged *s) {
    if (!TD_ENTER(s, STAGED)) return 0;
    return s->j ? s->j->g->outputs.n : 0;
}

/* The result that the epilogue makes of forward output k; -1: none. */
static int result_of(const td_joint *j, int k) {
    const td_graph *e = j->epilogue;
    for (int i = 0; i < e->outputs.n; i++) {
        const td_gval *v = e->outputs.v[i].kind == TD_G_VALUE ? e->outputs.v[i].u.v : 0;
        const td_gnode *n = v ? v->node : NULL;
        if (n && n->op == TD_OP__made && n->in[0].u.v->nr == j->n_primals + k) return i;
    }
    return -1;
}

/* Does the epilogue change the input's sizes, strides or offset before it writes
 * output k to it? */
static bool follows_meta_write(const td_joint *j, int input, int k) {
    const td_graph *e = j->epilogue;
    bool            changed = false;
    for (int i = 0; i < e->nodes.n; i++) {
        const td_gnode *n = e->nodes.v[i];
        if (n->kind != TD_N_OP || n->in[0].u.v != e->inputs.v[input]) continue;
        bool writes = n->n_in > 1 && n->in[1].kind == TD_G_VALUE;
        if (writes && n->in[1].u.v == e->inputs.v[j->n_primals + k]) return changed;
        changed |= td__op_writes_geometry(n->op);
    }
    return false;
}

/* The slot of forward output k. */
static td_slot forward_slot(const td_joint *j, int k) {
    td_slot s = td__slot_out(j->g, k);
    if (s.kind == TD_SLOT_PLAIN) s.index = result_of(j, k);
    else if (s.kind == TD_SLOT_UPDATE && follows_meta_write(j, s.index, k))
        s.kind = TD_SLOT_META_UPDATE;
    return s;
}

/* Refines a tangent's slot by what its forward output is. */
static void name_tangent(const td_joint *j, const td_tangent *t, td_slot *s) {
    td_slot of = forward_slot(j, t->index);
    s->index = of.index;
    if (of.kind == TD_SLOT_BASE) s->kind = TD_SLOT_BASE_TANGENT;
    if (of.kind == TD_SLOT_UPDATE || of.kind == TD_SLOT_META_UPDATE)
        s->kind = TD_SLOT_UPDATE_TANGENT;
}

/* Tangents are named after the result or input they belong to; closed-over tensors are
 * inputs of kind CONST. */
td_slot td_stage_input(const td_staged *s, int i) {
    if (!TD_ENTER(s, STAGED)) return (td_slot){.index = -1};
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

/* Forward outputs are described by what the epilogue does with them, gradients by their
 * input. */
td_slot td_stage_output(const td_staged *s, int i) {
    if (!TD_ENTER(s, STAGED)) return (td_slot){.index = -1};
    const td_joint *j = s->j;
    if (!j) return (td_slot){.index = -1};
    if (i >= 0 && i < j->n_fwd) return forward_slot(j, i);
    td_slot slot = td__slot_out(j->g, i);
    if (slot.kind == TD_SLOT_GRAD) {
        slot.index = j->targets[i - j->n_fwd].input;
        slot.name = slot.index < 0 ? NULL : j->g->in_desc.v[slot.index].name;
    }
    return slot;
}

/* ---- replacing and compiling --------------------------------------------- */

static bool is_open(const td_staged *s, const char *who) {
    return s->j ||
           td__fail(s->cx, TD_E_ARG,
                    "%s: this td_staged was compiled already; stage the function again",
                    who);
}

bool td_stage_replace(td_staged *s, const td_graph *g) {
    if (!TD_ENTER(s, STAGED) || !td__enter_in(s->cx, g, TD_H_GRAPH, __func__))
        return false;
    static const char who[] = "td_stage_replace";
    return td__may_change_object(s, who, "a staged function") && is_open(s, who) &&
           td__joint_become(s->j, g, who) && td__joint_tidy(s->j, s->s->set.cse);
}

/* The stage gives up its joint graph, specialization and function, also after a
 * failure: a second compile is an error. */
td_fn *td_stage_compile(td_staged *s) {
    static const char who[] = "td_stage_compile";
    if (!TD_ENTER(s, STAGED) || !td_ok(s->cx) || !is_open(s, who) ||
        !td__may_change_object(s, who, "a staged function"))
        return TD_NIL_BY(s, FN);
    td_joint *j = s->j;
    td_fn    *f = s->f;
    s->j = NULL; /* taken over */
    if (!td__spec_plan(f, s->s, j)) return TD_NIL(s->cx, FN);
    f->specs = s->s;
    f->n_specs = 1;
    s->s = NULL;
    s->f = NULL;
    return td__fn_give(s->cx, f);
}
