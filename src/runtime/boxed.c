/* boxed.c -- inputs that are the call's own: the code drops those nothing else of the
 * call looks at behind it. */
#include "runtime/plan.h"

static void need(td_plan *p, int input) {
    if (input >= 0) p->late[input] = true;
}

/* Inputs that the epilogue reads (all of them where their sizes are symbols), that are
 * saved, or that take gradients. */
bool td__plan_late(td_plan *p) {
    const td_joint *j = p->j;
    p->late = td__arena_zalloc(&p->j->arena, (size_t)j->epilogue->inputs.n + 1);
    if (!p->late) return td__fail_memory(p->cx);
    td__graph_reads(j->epilogue, p->late);
    for (int i = 0; j->epilogue->dims.n && i < j->n_primals; i++) need(p, i);
    for (int i = 0; p->h && i < j->n_targets; i++) need(p, j->targets[i].input);
    for (int i = 0; i < p->n_keep; i++)
        if (p->keep[i].out < 0) need(p, p->keep[i].index);
    return true;
}

/* Code that takes inputs over, in the form of code that does not. */
typedef struct taking {
    const td_runner *code;
    const bool      *give;
} taking;

static bool run_taking(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    taking *t = env;
    return t->code->take(t->code->env, cx, in, t->give, out);
}

/* What nothing needs later is the code's; else it goes here. */
static bool run_giving(td_pcall *c, bool *give) {
    td_plan  *p = c->p;
    taking    t = {&p->fwd, give};
    td_runner taker = {.run = run_taking, .env = &t};
    for (int i = 0; i < p->j->n_primals; i++)
        give[i] = c->own[i] && !p->late[i] && c->in[i].kind == TD_K_TENSOR;
    bool ok = td__plan_run(p, td__plan_forward(p), p->fwd.take ? &taker : &p->fwd,
                           c->in, c->vals);
    for (int i = 0; i < p->j->n_primals; i++) {
        if (!give[i]) continue;
        if (!p->fwd.take) td_drop(c->in[i].u.t);
        c->in[i] = TD_NONE;
        c->own[i] = false;
    }
    return ok;
}

bool td__plan_code(td_pcall *c) {
    td_plan *p = c->p;
    bool     few[64], *give = few;
    if (!c->own) return td__plan_run(p, td__plan_forward(p), &p->fwd, c->in, c->vals);
    if (p->j->n_primals > TD_COUNT(few) && !(give = td__alloc((size_t)p->j->n_primals)))
        return td__fail_memory(p->cx);
    bool ok = run_giving(c, give);
    if (give != few) td__free(give);
    return ok;
}
