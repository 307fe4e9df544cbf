/* prog_user_ops.c -- ops that the fuzzer registers, for programs with --with=user: a
 * derivative as formulas with two results, one in C, an in-place form, effects, lists
 * of tensors, objects. The kernels call ops, so that they take every dtype. */
#include "prog.h"

#include "cli/case_check.h"
#include "tandem/object.h"
#include "tandem/user_op.h"

#include <stdio.h>
#include <stdlib.h>

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

/* ---- lists --------------------------------------------------------------- */

static td_tensor *sum_of(td_tensor *a, td_tensor *b) {
    return td_op_add(a, td_value_tensor(b), td_value_int(1));
}

/* Each tensor twice. */
static bool echo(const td_op_run *r) {
    for (int k = 0; k < r->n_out; k++) {
        td_tensor *x = r->in[0].u.ts[k];
        if (td_is_nil(td_op_copy_(r->out[k], sum_of(x, x), false))) return false;
    }
    return true;
}
static bool echo_back(const td_op_run *r) {
    for (int k = 0; k < r->n_out; k++)
        if (r->g[k] && r->list_need[0][k])
            r->list_grad[0][k] = sum_of(r->g[k], r->g[k]);
    return td_ok(r->cx);
}

/* The entries of dim 0, as often as there are. */
static bool parts(const td_op_run *r) {
    for (int k = 0; k < r->n_out; k++) {
        td_tensor *x = td_op_select(r->in[0].u.t, 0, k);
        if (td_is_nil(td_op_copy_(r->out[k], td_op_sin(x), false))) return false;
    }
    return true;
}
/* The cosine of what it reads; where no gradient arrived there is none. */
static bool parts_back(const td_op_run *r) {
    td_tensor *x = r->in[0].u.t, *g[64];
    if (r->n_out > TD_COUNT(g)) return td_fail(r->cx, TD_E_ARG, "fz_parts: too many");
    for (int k = 0; k < r->n_out; k++) {
        td_tensor *d = td_op_cos(td_op_select(x, 0, k));
        g[k] = r->g[k] ? td_op_mul(r->g[k], td_value_tensor(d))
                       : td_op_zeros_like(d, TD_DTYPE_NONE);
    }
    if (r->n_out) r->grad[0] = td_op_stack((td_tensors){g, r->n_out}, 0);
    return td_ok(r->cx);
}

/* An effect with a list of results. */
static bool note_parts(const td_op_run *r) {
    note_call(r->in[0].u.t, r->in[1].u.i + 300 + r->n_out);
    return parts(r);
}

/* ---- objects ------------------------------------------------------------- */

/* An effect on the object: it counts, and the count is part of the note. */
static bool tick(const td_op_run *r) {
    int64_t *n = td_object_data(r->in[1].u.t, PROG_OBJECT);
    if (!n) return false;
    note_call(r->in[0].u.t, r->in[2].u.i + 1000 * ++*n);
    return !td_is_nil(td_op_copy_(r->out[0], r->in[0].u.t, false));
}
static bool tick_back(const td_op_run *r) {
    td_value n = td_value_int(r->in[2].u.i + 400);
    return td_call_op(r->cx, "fz_tick", TD_ARGS(r->g[0], r->in[1].u.t, n), r->grad, 1);
}

/* Reads that it is an object, and nothing of it. */
static bool hold(const td_op_run *r) {
    td_tensor *x = r->in[0].u.t;
    return td_object_data(r->in[1].u.t, PROG_OBJECT) &&
           !td_is_nil(td_op_copy_(r->out[0], sum_of(x, x), false));
}

void prog_object_leaf(prog_world *w) {
    prog_val       v = {.t = td_op_zeros(w->cx, (td_ints){(int64_t[]){0}, 1}, TD_U8)};
    td_object_opts o = {TD_OBJECT_OPTS, .type = PROG_OBJECT};
    snprintf(v.name, sizeof v.name, "%%%c%d", w->letter, w->n_names++);
    td__buf_printf(&w->text, "  %s = zeros([0], u8)\n", v.name);
    o.data = calloc(1, sizeof(int64_t));
    o.drop = free;
    td_tensor *t = td_object(w->cx, &o);
    if (!td_is_nil(t)) td__tensor_set_storage(v.t, t->st); /* as the case will */
    if (!td_is_nil(t)) td__vec_push(&w->vals, v);
    td_clear(w->cx);
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
        {TD_OP_OPTS, .schema = "fz_echo(Tensor[] xs) -> Tensor[]", .shape = "xs",
         .kernel = echo, .backward = echo_back, .version = 1},
        {TD_OP_OPTS, .schema = "fz_parts(Tensor x) -> Tensor[]",
         .shape = "unbind(x, 0)", .kernel = parts, .backward = parts_back, .saves = "x",
         .version = 1},
        {TD_OP_OPTS, .schema = "fz_note_parts(Tensor x, int n=0) -> Tensor[]",
         .shape = "unbind(x, 0)", .kernel = note_parts, .backward = parts_back,
         .saves = "x", .effect = TD_EFFECT_ORDERED, .version = 1},
        {TD_OP_OPTS, .schema = "fz_tick(Tensor x, Object c, int n=0) -> Tensor",
         .shape = "x", .kernel = tick, .backward = tick_back, .saves = "c",
         .effect = TD_EFFECT_ORDERED, .version = 1},
        {TD_OP_OPTS, .schema = "fz_hold(Tensor x, Object c) -> Tensor", .shape = "x",
         .kernel = hold, .derivative = "x: g * 2", .version = 1},
        {TD_OP_OPTS, .schema = "fz_same(Tensor x, int n=0) -> Tensor", .shape = "x",
         .kernel = same, .backward = mark_back, .version = 1},
    };
    case_effects_now = &effects;
    for (int i = 0; i < TD_COUNT(all); i++)
        if (!td_register_op(cx, &all[i])) return false;
    return true;
}

td_op prog_user_op(prog_world *w) {
    static const char *const names[] = {"fz_scale",     "fz_scale_", "fz_pair",
                                        "fz_tanh",      "fz_note",   "fz_mark",
                                        "fz_same",      "fz_echo",   "fz_parts",
                                        "fz_note_parts"};
    static const char *const of_objects[] = {"fz_tick", "fz_hold"};
    bool                     object = false;
    for (int i = 0; i < w->vals.n; i++) object |= w->vals.v[i].t->st->object != NULL;
    if (object && prog_chance(&w->r, 40))
        return td__op_find(of_objects[prog_upto(&w->r, TD_COUNT(of_objects))]);
    return td__op_find(names[prog_upto(&w->r, TD_COUNT(names))]);
}
