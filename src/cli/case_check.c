/* case_check.c -- two runs of one case, a step of this one and a step of that one, each
 * with the generator and the grad mode it left. */
#include "cli/case_check.h"

#include "tandem/grad.h"

#include <stdio.h>
#include <string.h>

/* What a run sees and changes in the context. */
typedef struct state {
    uint64_t seed, offset;
    bool     grad, inference;
} state;

typedef struct side {
    case_run run;
    state    s;
    td_code  code;  /* of its failure */
    bool     stale; /* a saved value was written: td_ctx.stale */
    bool     gone;  /* ...or let go: td_ctx.gone */
    char     message[200];
} side;

typedef struct check {
    td_ctx         *cx;
    const td_gcase *c;
    case_pair       p;
    side            eager, other;
    bool            backward; /* the step at hand is one */
} check;

/* ---- one side ----------------------------------------------------------- */

static state state_of(const td_ctx *cx) {
    return (state){cx->rng_seed, cx->rng_offset, cx->grad_enabled, cx->inference};
}

static void set_state(td_ctx *cx, state s) {
    td_rng_set(cx, s.seed, s.offset);
    cx->grad_enabled = s.grad;
    cx->inference = s.inference;
}

/* The end of what a side did: its state and failure go from the context to it. */
static bool pause(check *k, side *s, bool ok) {
    td_ctx *cx = k->cx;
    s->s = state_of(cx);
    if (!ok && !s->code) {
        s->code = td_ok(cx) ? TD_E_MEMORY : td_error(cx);
        s->stale = cx->stale;
        s->gone = cx->gone;
        snprintf(s->message, sizeof s->message, "%s", td_message(cx));
    }
    td_clear(cx);
    return ok;
}

static bool step(check *k, side *s, int i) {
    set_state(k->cx, s->s);
    return pause(k, s, case_step(&s->run, i));
}

static bool begin(check *k, side *s, const case_way *way, const td_gfile *f) {
    *s = (side){.run = {.file = f, .c = k->c, .way = way}};
    return pause(k, s, case_begin(&s->run));
}

/* ---- both --------------------------------------------------------------- */

static void compare_states(const check *k) {
    const state *a = &k->eager.s, *b = &k->other.s;
    const char  *way = k->other.run.way->name;
    if (a->seed != b->seed || a->offset != b->offset)
        case_differ(&k->p, "the generator is at %llu:%llu, %s %llu:%llu",
                    (unsigned long long)a->seed, (unsigned long long)a->offset, way,
                    (unsigned long long)b->seed, (unsigned long long)b->offset);
    if (a->grad != b->grad || a->inference != b->inference)
        case_differ(&k->p, "gradients are %s%s, %s %s%s", a->grad ? "on" : "off",
                    a->inference ? " in inference mode" : "", way,
                    b->grad ? "on" : "off", b->inference ? " in inference mode" : "");
}

static void compare(check *k) {
    case_compare(&k->p);
    compare_states(k);
}

/* Eager's backward wants a value that the program has overwritten, or that went with
 * the backward of a gradient, whose history leads through it. The other way has it
 * still, and may fail later for another reason. */
static bool goes_on(const check *k) {
    bool    gone = k->eager.gone && k->eager.run.higher;
    td_code code = k->eager.code ? k->eager.code : k->other.code;
    if (k->p.v->vain && k->backward && code == TD_E_GRAD)
        return true; /* zeros, or nothing to go through */
    return (k->eager.stale || gone) && k->other.run.way->saves_copies;
}

/* Saved-tensor hooks and checkpoints hold values of their own, which eager does not
 * check for writes. A compiled function checks what its graph would have saved. */
static bool checks_more(const check *k) {
    const td_gcase *c = k->eager.run.c;
    bool            holds = false;
    for (int i = 0; i < c->steps.n; i++)
        holds |= c->steps.v[i].hooks || c->steps.v[i].checkpoint;
    return holds && strstr(k->other.message, "it has been modified in place");
}

/* The other way computes values again where eager has kept them: its backward says
 * that what it computes them from was overwritten since. Where eager checks less, it
 * may go on from there to another error. */
static bool stops(const check *k) {
    bool stale = k->other.stale && !k->eager.code;
    return (stale || checks_more(k)) && k->other.run.way->saves_copies;
}

/* Eager failed at an op that fails for certain values. A trace does not see those, and
 * may come to another error behind it first. */
static bool by_value(const side *a) {
    char        name[64];
    const char *end = strstr(a->message, ": ");
    const char *start = end;
    while (start && start > a->message && start[-1] != ' ') start--;
    if (!end || (size_t)(end - start) >= sizeof name) return false;
    snprintf(name, sizeof name, "%.*s", (int)(end - start), start);
    td_op op = td__op_find(name);
    if (op == TD_OP_COUNT) return false;
    const td_opinfo *info = td__opinfo(op);
    if (info->pure != TD_OP_COUNT) op = info->pure;
    return td__ops[op].flags & TD_OPF_PICKY;
}

/* A way says that it does not do this: when it compiles the function, or in a backward
 * the gradient of its gradient. */
static bool refuses(const check *k) {
    td_code code = k->other.code;
    bool    compiles =
        k->other.run.refused || (k->backward && k->other.run.way->saves_copies);
    return compiles && (code == TD_E_UNSUPPORTED || code == TD_E_TRACE);
}

/* At least one side failed at this step. */
static void judge_failure(check *k) {
    const side   *a = &k->eager, *b = &k->other;
    case_verdict *v = k->p.v;
    /* of several nodes of a backward that fail, any may be the first */
    bool          both = a->code && b->code && (k->backward || by_value(a));
    if (a->code == b->code || both) {
        v->result = CASE_BOTH_FAIL;
        td__buf_printf(&v->why, "%s", a->message);
    } else if (goes_on(k)) {
        v->result = a->code && b->code ? CASE_BOTH_FAIL : CASE_GOES_ON;
        td__buf_printf(&v->why, "%s", a->code ? a->message : b->message);
    } else if (stops(k) || refuses(k)) {
        v->result = CASE_REFUSED;
        td__buf_printf(&v->why, "%s", b->message);
    } else if (a->code && b->code)
        case_differ(&k->p, "both fail: %s; %s: %s", a->message, b->run.way->name,
                    b->message);
    else if (a->code)
        case_differ(&k->p, "fails (%s), %s does not", a->message, b->run.way->name);
    else case_differ(&k->p, "works, %s fails: %s", b->run.way->name, b->message);
}

/* False: there is a verdict other than equal. */
static bool run_both(check *k, bool looks) {
    for (int i = 0; i < k->c->steps.n; i++) {
        k->p.line = k->c->steps.v[i].line;
        bool a = step(k, &k->eager, i), b = step(k, &k->other, i);
        k->backward = k->c->steps.v[i].kind == TD_STEP_BACKWARD;
        if (!a || !b) return judge_failure(k), false;
        if (looks && k->c->steps.v[i].kind >= TD_STEP_CALL) compare(k);
        if (k->p.v->differences) return false;
    }
    return true;
}

/* ---- writing outputs ---------------------------------------------------- */

/* Adds 2 to it. A leaf that requires grad may be written with gradients off only. */
static bool write(check *k, side *s, int id) {
    td_ctx  *cx = k->cx;
    td_value v = s->run.r.val[id];
    td_dtype dt = (td_dtype)v.u.t->dtype;
    set_state(cx, s->s);
    bool leaf = td_requires_grad(v.u.t) && td_is_leaf(v.u.t);
    if (leaf) td_set_grad_enabled(cx, false);
    td_tensor *t = dt == TD_BOOL ? td_op_logical_not_(v.u.t)
                                 : td_op_add_(v.u.t, td_value_int(2), td_value_int(1));
    td_set_grad_enabled(cx, s->s.grad);
    return pause(k, s, !td_is_nil(t));
}

/* Writes output i of the last call on both sides and compares. */
static void write_output(check *k, int i) {
    const td_gstep *s = k->eager.run.last;
    int             id = s->out[i]->id;
    if (k->eager.run.r.val[id].kind != TD_K_TENSOR ||
        k->other.run.r.val[id].kind != TD_K_TENSOR)
        return;
    k->p.written = s->out[i]->name ? s->out[i]->name : "?";
    bool a = write(k, &k->eager, id), b = write(k, &k->other, id);
    if (a && b) compare(k);
    else if (k->eager.code != k->other.code) judge_failure(k);
}

/* ---- runs --------------------------------------------------------------- */

/* A run of both sides from the start; output `nr` of the last call is written then,
 * none when it is -1. How many outputs that call has; -1: there is a verdict. */
static int run_once(check *k, const case_way *way, const td_gfile *f, int nr) {
    td_ctx *cx = k->cx;
    state   was = state_of(cx);
    int     outputs = -1;
    bool    opened = td__scope_push(cx);
    bool    a = begin(k, &k->eager, way->against ? way->against : &case_eager, f);
    bool    b = begin(k, &k->other, way, f);
    k->p.eager = &k->eager.run;
    k->p.other = &k->other.run;
    if (!a || !b) judge_failure(k);
    else if (run_both(k, nr < 0)) {
        outputs = k->eager.run.last ? k->eager.run.last->n_out : 0;
        if (nr >= 0 && nr < outputs) write_output(k, nr);
    }
    case_end(&k->eager.run);
    case_end(&k->other.run);
    if (opened) td__scope_pop(cx, NULL, 0);
    set_state(cx, was);
    td_clear(cx);
    return outputs;
}

case_result case_check(const td_gfile *f, const td_gcase *c, const case_way *way,
                       case_verdict *v) {
    td_where here = td_here;
    check    k = {.cx = f->cx, .c = c, .p = {.v = v}};
    *v = (case_verdict){.result = CASE_EQUAL};
    td_clear(f->cx);
    int outputs = run_once(&k, way, f, -1);
    for (int i = 0; i < outputs && v->result == CASE_EQUAL; i++)
        run_once(&k, way, f, i);
    td_here = here;
    return v->result;
}
