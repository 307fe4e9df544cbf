/* func_help.h -- the cases of a .td file, built up to their call. */
#ifndef TD_FUNC_HELP_H
#define TD_FUNC_HELP_H

#include "op_help.h"

#include "aot/facts.h"

/* ---- cases -------------------------------------------------------------- */

enum { MOST = 16 };

/* The values of a case up to its call, and what the call gave. */
typedef struct side {
    td_replay r;
    td_graph *fn;
    td_value  in[MOST], out[MOST];
    int       n_in, n_out;
} side;

static inline void run_step(td_ctx *cx, side *s, const td_gcase *c,
                            const td_gstep *st) {
    if (st->seeded) td_seed(cx, (uint64_t)st->seed);
    if (st->kind == TD_STEP_NODE) {
        CHECK(td__replay_node(&s->r, st->node));
        if (st->requires_grad)
            td_set_requires_grad(s->r.val[st->node->out[0]->id].u.t, true);
    } else if (st->kind == TD_STEP_TENSOR) {
        td_tensor *t = td_op_clone(c->g->consts.v[st->konst], false);
        CHECK(td__replay_set(&s->r, st->out[0], td_value_tensor(t)));
    } else CHECK(st->kind == TD_STEP_CALL);
}

static inline void build(td_ctx *cx, side *s, const td_gcase *c) {
    *s = (side){0};
    CHECK(td__replay_begin(&s->r, c->g));
    for (int i = 0; i < c->steps.n; i++) {
        const td_gstep *st = &c->steps.v[i];
        run_step(cx, s, c, st);
        CHECK_OK(cx);
        if (st->kind != TD_STEP_CALL) continue;
        s->fn = st->fn;
        s->n_in = st->n_args;
        s->n_out = st->fn->outputs.n;
        CHECK(s->n_in <= MOST && s->n_out <= MOST);
        for (int k = 0; k < s->n_in; k++)
            CHECK(td__replay_arg(&s->r, &st->args[k], &s->in[k]));
    }
    CHECK(s->fn != NULL);
}

#endif
