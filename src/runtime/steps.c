/* steps.c -- makes and walks the flat form of a prologue or an epilogue. Slots are
 * inputs, then values of the forward code, then tensors that steps make. Steps of
 * compiled calls (eager/epilogue_ops.c) are called directly, other ops as eager calls
 * them. Steps that take symbolic sizes are run as a graph. */
#include "runtime/steps.h"

#include <string.h>

enum { STEP_MADE, STEP_ASSIGN, STEP_BUMP, STEP_TOUCH, STEP_BIND, STEP_MODE, STEP_OP };

/* ---- making ------------------------------------------------------------- */

typedef struct making {
    td_steps       *s;
    const td_graph *g;
    int            *slot;            /* by value id */
    bool            grad, inference; /* at this point */
    TD_VEC(uint8_t) modes;           /* of open regions: what each found */
    bool ok;
} making;

static td_plan_step *add(making *m, uint8_t code) {
    td_plan_step *to = &m->s->v[m->s->n++];
    *to = (td_plan_step){.code = code, .a = -1, .b = -1};
    return to;
}

static int slot_of(const making *m, const td_garg *a) {
    return a->kind == TD_G_VALUE ? m->slot[a->u.v->id] : -1;
}

/* An argument: a literal, or the slot of a tensor. False: only a run of the graph knows
 * it. */
static bool set_arg(const making *m, const td_garg *a, td_value *to, int32_t *slot) {
    *slot = slot_of(m, a);
    if (a->kind == TD_G_INTS && td__dims_any_sym(a->u.ints, (int)a->n)) return false;
    return td__garg_literal(a, to) || a->kind == TD_G_VALUE;
}

/* Arguments that are left out have their defaults. */
static bool add_op(making *m, const td_gnode *n) {
    td_arena     *a = &m->s->arena;
    td_plan_step *to = add(m, STEP_OP);
    to->op = n->op;
    to->n_in = n->n_in;
    to->n_out = n->n_out;
    to->in = td__arena_alloc(a, sizeof *to->in * (size_t)(n->n_in + 1));
    to->from = td__arena_alloc(a, sizeof *to->from * (size_t)(n->n_in + 1));
    if (!to->in || !to->from) return m->ok = td__fail_memory(m->g->cx);
    for (int i = 0; i < n->n_in; i++)
        if (!set_arg(m, &n->in[i], &to->in[i], &to->from[i])) return false;
    to->a = m->s->n_slots;
    m->s->n_slots += n->n_out;
    for (int i = 0; i < n->n_out; i++) m->slot[n->out[i]->id] = to->a + i;
    return true;
}

/* What gives back the tensor it was given has its slot. */
static void add_own(making *m, const td_gnode *n, uint8_t code) {
    td_plan_step *to = add(m, code);
    to->a = slot_of(m, &n->in[0]);
    if (code == STEP_ASSIGN || code == STEP_BIND) to->b = slot_of(m, &n->in[1]);
    if (code == STEP_BUMP) to->n = n->in[1].u.i;
    if (code == STEP_ASSIGN || code == STEP_BIND) to->n = n->in[2].u.i;
    if (code == STEP_BIND) to->base = n->n_in > 3 && n->in[3].u.i;
    if (code == STEP_BIND) to->leaf = n->n_in > 4 && n->in[4].u.i;
    m->slot[n->out[0]->id] = to->a;
}

/* A grad-mode region becomes a step that sets the mode; `modes` is the stack of modes
 * to restore. */
static bool add_region(making *m, const td_gnode *n) {
    uint8_t was = (uint8_t)(m->grad | m->inference << 1);
    if (n->kind == TD_N_ENTER) {
        if (!td__vec_push(&m->modes, was)) return m->ok = td__fail_memory(m->g->cx);
        m->inference =
            n->region == TD_R_INFERENCE || (n->region != TD_R_PLAIN && m->inference);
        m->grad = n->region == TD_R_ENABLE_GRAD || n->region == TD_R_PLAIN;
    } else {
        was = m->modes.v[--m->modes.n];
        m->grad = was & 1;
        m->inference = was & 2;
    }
    td_plan_step *to = add(m, STEP_MODE);
    to->a = m->grad;
    to->b = m->inference;
    return true;
}

/* Ops that only epilogues have are steps of their own; all others call the op as eager
 * does. */
static bool add_node(making *m, const td_gnode *n) {
    if (n->kind != TD_N_OP) return add_region(m, n);
    switch (n->op) {
    case TD_OP__made: add_own(m, n, STEP_MADE); return true;
    case TD_OP__assign: add_own(m, n, STEP_ASSIGN); return true;
    case TD_OP__bump: add_own(m, n, STEP_BUMP); return true;
    case TD_OP__touch: add_own(m, n, STEP_TOUCH); return true;
    case TD_OP__bind: add_own(m, n, STEP_BIND); return true;
    default: return add_op(m, n);
    }
}

/* Where the results are found after the last step. */
static bool add_outputs(making *m) {
    td_steps *s = m->s;
    s->outs =
        td__arena_alloc(&s->arena, sizeof *s->outs * (size_t)(m->g->outputs.n + 1));
    s->out_slot =
        td__arena_alloc(&s->arena, sizeof *s->out_slot * (size_t)(m->g->outputs.n + 1));
    if (!s->outs || !s->out_slot) return m->ok = td__fail_memory(m->g->cx);
    for (int i = 0; i < m->g->outputs.n; i++)
        if (!set_arg(m, &m->g->outputs.v[i], &s->outs[i], &s->out_slot[i]))
            return false;
    return true;
}

/* The nodes of graph m->g, whose inputs have the first slots. */
static bool add_graph(making *m) {
    const td_graph *g = m->g;
    bool            flat = true;
    m->slot = td__zalloc(sizeof *m->slot * ((size_t)g->n_values + 1));
    if (!m->slot) return m->ok = td__fail_memory(g->cx);
    for (int i = 0; i < g->inputs.n; i++) m->slot[g->inputs.v[i]->id] = i;
    for (int i = 0; flat && i < g->nodes.n; i++) flat = add_node(m, g->nodes.v[i]);
    flat = flat && add_outputs(m);
    td__free(m->slot);
    return flat;
}

/* Flattens the prologue, if there is one, and the epilogue into one array of steps. If
 * an argument is a symbolic size, `flat` is false, and both are replayed instead.
 * Failure only for lack of memory. */
bool td__steps_make(td_steps *s, const td_graph *prologue, const td_graph *g) {
    making m = {.s = s, .g = g, .ok = true};
    m.grad = g->cx->grad_enabled;
    m.inference = g->cx->inference;
    *s = (td_steps){.n_slots = g->inputs.n};
    int n = g->nodes.n + (prologue ? prologue->nodes.n : 0);
    s->v = td__arena_alloc(&s->arena, sizeof *s->v * (size_t)(n + 1));
    m.ok = s->v || td__fail_memory(g->cx);
    m.g = prologue;
    s->flat = m.ok && (!prologue || add_graph(&m));
    m.g = g;
    s->flat = s->flat && add_graph(&m);
    td__vec_free(&m.modes);
    return m.ok;
}

/* ---- running ------------------------------------------------------------ */

static bool call(td_ctx *cx, const td_plan_step *s, td_value *slot) {
    td_value   in[TD_MAX_ARGS];
    td_tensor *few[8], **out = few;
    bool       ok;
    if (s->n_out > TD_COUNT(few) && !(out = td__alloc(sizeof *out * (size_t)s->n_out)))
        return td__fail_memory(cx);
    for (int i = 0; i < s->n_in; i++)
        in[i] = s->from[i] < 0 ? s->in[i] : slot[s->from[i]];
    ok = td__call(cx, s->op, in, s->n_in, out, s->n_out);
    for (int i = 0; ok && i < s->n_out; i++) {
        slot[s->a + i] = td_value_tensor(out[i]);
        ok = !td_is_nil(out[i]);
    }
    if (out != few) td__free(out);
    return ok;
}

static bool run(td_ctx *cx, const td_plan_step *s, td_value *slot) {
    switch (s->code) {
    case STEP_MADE: return td__step_made(slot[s->a].u.t);
    case STEP_ASSIGN:
        return td__step_assign(slot[s->a].u.t, slot[s->b].u.t, (uint64_t)s->n);
    case STEP_BUMP: return td__step_bump(slot[s->a].u.t, (uint64_t)s->n);
    case STEP_TOUCH: return td__step_touch(slot[s->a].u.t);
    case STEP_BIND:
        return td__step_bind(slot[s->a].u.t, slot[s->b].u.t, (int)s->n, s->base,
                             s->leaf);
    case STEP_MODE:
        cx->grad_enabled = s->a;
        cx->inference = s->b;
        return true;
    default: return call(cx, s, slot);
    }
}

/* Runs the steps on `slot`, which begins with the inputs and has space for every value.
 * The grad mode is restored afterwards. */
bool td__steps_run(const td_steps *s, td_ctx *cx, td_value *slot, td_value *out,
                   int n_out) {
    bool grad = cx->grad_enabled, inference = cx->inference, ok = true;
    for (int i = 0; ok && i < s->n; i++) ok = run(cx, &s->v[i], slot);
    cx->grad_enabled = grad;
    cx->inference = inference;
    for (int i = 0; ok && i < n_out; i++)
        out[i] = s->out_slot[i] < 0 ? s->outs[i] : slot[s->out_slot[i]];
    return ok;
}

void td__steps_free(td_steps *s) { td__arena_free(&s->arena); }
