/* prog_user_ops.c -- ops that the fuzzer registers, for programs with --with=user: a
 * derivative as formulas with two results, one in C, an in-place form, effects. The
 * kernels call ops, so that they take every dtype. */
#include "prog.h"

#include "cli/case_check.h"
#include "tandem/user_op.h"

static bool scale(const td_op_run *r) {
    td_tensor *y = td_op_mul(r->in[0].u.t, td_value_float(r->in[1].u.f));
    return !td_is_nil(td_op_copy_(r->out[0], y, false));
}

static bool pair(const td_op_run *r) {
    td_tensor *a = r->in[0].u.t;
    return !td_is_nil(td_op_copy_(r->out[0],
                                  td_op_add(a, td_value_tensor(a), td_value_int(1)),
                                  false)) &&
           !td_is_nil(td_op_copy_(r->out[1], td_op_mul(a, td_value_tensor(a)), false));
}

/* Reads a saved result and a saved argument. */
static bool tanh_of(const td_op_run *r) {
    return !td_is_nil(td_op_copy_(r->out[0], td_op_tanh(r->in[0].u.t), false));
}
static bool tanh_back(const td_op_run *r) {
    td_tensor *y = r->out[0], *one = td_op_ones_like(y, TD_DTYPE_NONE);
    td_tensor *d = td_op_sub(one, td_value_tensor(td_op_mul(y, td_value_tensor(y))),
                             td_value_int(1));
    r->grad[0] = td_op_mul(r->g[0], td_value_tensor(d));
    return td_ok(r->cx);
}

/* ---- effects ------------------------------------------------------------ */

static case_effects effects; /* compared with eager's after each step */

/* Notes an effect: its number and the type of its argument. Elements may differ in the
 * last digit from way to way. */
static void note_call(const td_tensor *t, int64_t n) {
    uint64_t h = (uint64_t)n * 31 + t->dtype;
    for (int d = 0; d < t->rank; d++) h = h * 31 + (uint64_t)t->size[d];
    effects.hash = effects.hash * 1000003 + h + 1;
    effects.calls++;
}

static bool note(const td_op_run *r) {
    note_call(r->in[0].u.t, r->in[1].u.i);
    return !td_is_nil(td_op_copy_(r->out[0], r->in[0].u.t, false));
}

/* An effect in backward, too. */
static bool note_back(const td_op_run *r) {
    td_value n = td_value_int(r->in[1].u.i + 100);
    return td_call_op(r->cx, "fz_note", TD_ARGS(r->g[0], n), r->grad, 1);
}

static bool mark(const td_op_run *r) {
    note_call(r->in[0].u.t, r->in[1].u.i);
    return true;
}

/* An effect in backward alone. */
static bool same(const td_op_run *r) {
    return !td_is_nil(td_op_copy_(r->out[0], r->in[0].u.t, false));
}
static bool mark_back(const td_op_run *r) {
    td_value n = td_value_int(r->in[1].u.i + 200);
    r->grad[0] = r->g[0];
    return td_call_op(r->cx, "fz_mark", TD_ARGS(r->g[0], n), NULL, 0);
}

bool prog_register_ops(td_ctx *cx) {
    static const td_op_opts all[] = {
        {TD_OP_OPTS, .schema = "fz_scale(Tensor x, float s=2.0) -> Tensor",
         .shape = "x", .kernel = scale, .derivative = "x: g * s", .in_place = true,
         .version = 1},
        {TD_OP_OPTS, .schema = "fz_pair(Tensor a) -> (Tensor s, Tensor p)",
         .shape = "a; a", .kernel = pair, .derivative = "a: 2 * g_s + 2 * g_p * a",
         .version = 1},
        {TD_OP_OPTS, .schema = "fz_tanh(Tensor x) -> Tensor", .shape = "tanh(x)",
         .kernel = tanh_of, .backward = tanh_back, .saves = "out", .version = 1},
        {TD_OP_OPTS, .schema = "fz_note(Tensor x, int n=0) -> Tensor", .shape = "x",
         .kernel = note, .backward = note_back, .effect = TD_EFFECT_ORDERED,
         .version = 1},
        {TD_OP_OPTS, .schema = "fz_mark(Tensor x, int n=0) -> ()", .kernel = mark,
         .effect = TD_EFFECT_ORDERED, .version = 1},
        {TD_OP_OPTS, .schema = "fz_same(Tensor x, int n=0) -> Tensor", .shape = "x",
         .kernel = same, .backward = mark_back, .version = 1},
    };
    case_effects_now = &effects;
    for (int i = 0; i < TD_COUNT(all); i++)
        if (!td_register_op(cx, &all[i])) return false;
    return true;
}

td_op prog_user_op(prog_world *w) {
    static const char *const names[] = {"fz_scale", "fz_scale_", "fz_pair", "fz_tanh",
                                        "fz_note",  "fz_mark",   "fz_same"};
    return td__op_find(names[prog_upto(&w->r, TD_COUNT(names))]);
}
