/* steps.c -- makes and walks the flat form of a prologue or an epilogue. Slots are
 * inputs, then values of the forward code, then tensors that steps make. Steps that
 * take symbolic sizes are run as a graph. */
#include "runtime/steps.h"

#include <string.h>

/* ---- making ------------------------------------------------------------- */

typedef struct making {
    td_steps       *s;
    const td_graph *g;
    int            *slot;            /* by value id */
    bool            grad, inference; /* at this point */
    TD_VEC(uint8_t) modes;           /* of open regions: what each found */
    bool ok;
} making;

static td_plan_step *add(making *m) {
    td_plan_step *to = &m->s->v[m->s->n++];
    *to = (td_plan_step){0};
    return to;
}

/* An argument: a literal, or the slot of a tensor. False: only a run of the graph knows
 * it. */
static bool set_arg(const making *m, const td_garg *a, td_value *to, int32_t *slot) {
    *slot = a->kind == TD_G_VALUE ? m->slot[a->u.v->id] : -1;
    if (a->kind == TD_G_INTS && td__dims_any_sym(a->u.ints, (int)a->n)) return false;
    return td__garg_literal(a, to) || a->kind == TD_G_VALUE;
}

/* An op that only plans have is called directly, with all arguments of its schema:
 * those that are left out are false. It returns the tensor it was given, in its slot.
 * Other ops are called as eager calls them. */
static bool add_op(making *m, const td_gnode *n) {
    td_arena     *a = &m->s->arena;
    td_plan_step *to = add(m);
    to->run = td__step_of(n->op);
    to->op = n->op;
    to->n_in = to->run ? td__opinfo(n->op)->s.n_in : n->n_in;
    to->n_out = n->n_out;
    to->in = td__arena_zalloc(a, sizeof *to->in * (size_t)(to->n_in + 1));
    to->from = td__arena_alloc(a, sizeof *to->from * (size_t)(to->n_in + 1));
    if (!to->in || !to->from) return m->ok = td__fail_memory(m->g->cx);
    for (int i = 0; i < to->n_in; i++) {
        to->from[i] = -1;
        if (i < n->n_in && !set_arg(m, &n->in[i], &to->in[i], &to->from[i]))
            return false;
    }
    to->first = to->run ? to->from[0] : m->s->n_slots;
    if (!to->run) m->s->n_slots += n->n_out;
    for (int i = 0; i < n->n_out; i++) m->slot[n->out[i]->id] = to->first + i;
    return true;
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
    td_plan_step *to = add(m);
    to->sets_mode = true;
    to->grad = m->grad;
    to->inference = m->inference;
    return true;
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
    for (int i = 0; flat && i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        flat = n->kind == TD_N_OP ? add_op(m, n) : add_region(m, n);
    }
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

/* Calls the op of the step as eager does; its results go to their slots. */
static bool call(td_ctx *cx, const td_plan_step *s, const td_value *in,
                 td_value *slot) {
    td_tensor *few[8], **out = few;
    bool       ok;
    if (s->n_out > TD_COUNT(few) && !(out = td__alloc(sizeof *out * (size_t)s->n_out)))
        return td__fail_memory(cx);
    ok = td__call(cx, s->op, in, s->n_in, out, s->n_out);
    for (int i = 0; ok && i < s->n_out; i++) {
        slot[s->first + i] = td_value_tensor(out[i]);
        ok = !td_is_nil(out[i]);
    }
    if (out != few) td__free(out);
    return ok;
}

static bool run(td_ctx *cx, const td_plan_step *s, td_value *slot) {
    td_value in[TD_MAX_ARGS];
    if (s->sets_mode) {
        cx->grad_enabled = s->grad;
        cx->inference = s->inference;
        return true;
    }
    for (int i = 0; i < s->n_in; i++)
        in[i] = s->from[i] < 0 ? s->in[i] : slot[s->from[i]];
    return s->run ? s->run(in) : call(cx, s, in, slot);
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
