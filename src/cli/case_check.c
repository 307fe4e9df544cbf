/* case_check.c -- runs one case eagerly and in another way, in lock step; each run
 * has the generator and grad mode that it left itself. */
#include "cli/case_check.h"

#include "tandem/grad.h"

#include <stdio.h>
#include <string.h>

/* The part of the context that a run reads and changes. */
typedef struct state {
    uint64_t     seed, offset;
    bool         grad, inference;
    case_effects effects;
} state;

case_effects *case_effects_now;

/* One of the two runs. */
typedef struct side {
    case_run run;
    state    s;
    td_code  code;      /* of its failure; 0: none */
    bool     recompute; /* failed when a checkpointed region was recomputed */
    bool     stale;     /* failed because a saved value was modified (td_ctx.stale) */
    bool     gone;      /* failed because a saved value was freed (td_ctx.gone) */
    char     message[200];
} side;

/* A comparison in progress. */
typedef struct check {
    td_ctx         *cx;
    const td_gcase *c;
    case_pair       p;
    side            eager, other;
    bool            backward; /* the current step is a backward */
} check;

/* ---- one side ----------------------------------------------------------- */

static state state_of(const td_ctx *cx) {
    case_effects none = {0};
    return (state){cx->rng_seed, cx->rng_offset, cx->grad_enabled, cx->inference,
                   case_effects_now ? *case_effects_now : none};
}

static void set_state(td_ctx *cx, state s) {
    td_rng_set(cx, s.seed, s.offset);
    cx->grad_enabled = s.grad;
    cx->inference = s.inference;
    if (case_effects_now) *case_effects_now = s.effects;
}

/* Moves state and error of the context to the side. Returns ok. */
static bool end_step(check *k, side *s, bool ok) {
    td_ctx *cx = k->cx;
    s->s = state_of(cx);
    if (!ok && !s->code) {
        s->code = td_ok(cx) ? TD_E_MEMORY : td_error(cx);
        s->recompute = cx->recompute;
        s->stale = cx->stale;
        s->gone = cx->gone;
        snprintf(s->message, sizeof s->message, "%s", td_message(cx));
    }
    td_clear(cx);
    return ok;
}

static bool step(check *k, side *s, int i) {
    set_state(k->cx, s->s);
    return end_step(k, s, case_step(&s->run, i));
}

static bool begin(check *k, side *s, const case_way *way, const td_gfile *f) {
    *s = (side){.run = {.file = f, .c = k->c, .way = way}};
    return end_step(k, s, case_begin(&s->run));
}

/* ---- both --------------------------------------------------------------- */

/* How often a region of td_checkpoint runs is unspecified. */
static bool repeats(const td_gcase *c) {
    bool any = false;
    for (int i = 0; i < c->steps.n; i++) any |= c->steps.v[i].checkpoint;
    return any;
}

/* Compares generator, grad mode and effects. */
static void compare_states(const check *k) {
    const state *a = &k->eager.s, *b = &k->other.s;
    const char  *way = k->other.run.way->name;
    if (a->seed != b->seed || a->offset != b->offset)
        case_differ(&k->p, "the generator is at seed:offset %llu:%llu, %s at %llu:%llu",
                    (unsigned long long)a->seed, (unsigned long long)a->offset, way,
                    (unsigned long long)b->seed, (unsigned long long)b->offset);
    if (a->grad != b->grad || a->inference != b->inference)
        case_differ(&k->p, "grad mode is %s%s, %s %s%s", a->grad ? "on" : "off",
                    a->inference ? " in inference mode" : "", way,
                    b->grad ? "on" : "off", b->inference ? " in inference mode" : "");
    const case_effects *x = &a->effects, *y = &b->effects;
    if ((x->calls != y->calls || x->hash != y->hash) && !repeats(k->c))
        case_differ(&k->p, "effects happened %llu times, %s %llu times%s",
                    (unsigned long long)x->calls, way, (unsigned long long)y->calls,
                    x->calls == y->calls ? " in another order" : "");
}

static void compare(check *k) {
    case_compare(&k->p);
    compare_states(k);
}

/* Is it correct that only eager's backward fails? Eager needs a saved value that the
 * program overwrote, that an earlier backward freed, or that a checkpointed region
 * fails to recompute; compiled code saved a copy, recomputes by itself, or reads no
 * such value. */
static bool only_eager_fails(const check *k) {
    bool    gone = k->eager.gone && k->eager.run.higher;
    td_code code = k->eager.code ? k->eager.code : k->other.code;
    if (k->p.v->vain && k->backward && code == TD_E_GRAD)
        return true; /* gradients are zero, or there is no history */
    bool saved = k->eager.stale || gone || k->eager.recompute;
    return saved && k->other.run.way->saves_copies;
}

/* With saved-tensor hooks and checkpoints eager does not check for modified or detached
 * values; compiled functions check the values that their graph saves. */
static bool checks_more(const check *k) {
    const td_gcase *c = k->eager.run.c;
    bool            holds = false;
    for (int i = 0; i < c->steps.n; i++)
        holds |= c->steps.v[i].hooks || c->steps.v[i].checkpoint;
    return holds && (strstr(k->other.message, "it has been modified in place") ||
                     strstr(k->other.message, "was detached in place by detach_"));
}

/* A compiled branch or loop saves its predicate and operands, which a first backward
 * frees; eager saves what the executed ops need, which may be nothing. */
static bool branch_freed(const check *k) {
    return k->other.gone && case_has_control(k->eager.run.c);
}

/* Is it correct that only the other way fails? It recomputes a value that eager
 * saved, and reports that its operand was modified or freed in between. */
static bool only_other_detects_write(const check *k) {
    bool lost = (k->other.stale || branch_freed(k)) && !k->eager.code;
    return (lost || checks_more(k)) && k->other.run.way->saves_copies;
}

/* Does the op whose name is the last word before `end` fail for certain values? */
static bool is_picky(const char *text, const char *end) {
    char        name[64];
    const char *start = end;
    while (start > text && !strchr(" (", start[-1])) start--;
    if ((size_t)(end - start) >= sizeof name) return false;
    snprintf(name, sizeof name, "%.*s", (int)(end - start), start);
    td_op op = td__op_find(name);
    if (op == TD_OP_COUNT) return false;
    const td_opinfo *info = td__opinfo(op);
    if (info->pure != TD_OP_COUNT) op = info->pure;
    return td__row(op)->flags & TD_OPF_PICKY;
}

/* Did eager fail in an op whose failure depends on values, or in such a part of a
 * composite: "median_: ... (in gather)"? A trace does not see values, and may report a
 * later error first. */
static bool by_value(const side *a) {
    const char *end = strstr(a->message, ": "), *in = strstr(a->message, " (in ");
    const char *close = in ? strchr(in, ')') : NULL;
    return (end && is_picky(a->message, end)) || (close && is_picky(in, close));
}

/* Did the way report that it does not support the function, or double backward of it?
 * Eager reports that of the op while_loop, and of ops that a type does not have. */
static bool is_unsupported(const check *k) {
    td_code code = k->other.code;
    bool    typed = k->cx->n_typed > 0;
    if ((k->backward || typed) && k->eager.code == TD_E_UNSUPPORTED) return true;
    bool compiles =
        k->other.run.refused || (k->backward && k->other.run.way->saves_copies);
    if (k->other.run.refused && code == TD_E_GUARD) return true; /* of a marked dim */
    return compiles && (code == TD_E_UNSUPPORTED || code == TD_E_TRACE);
}

/* Sets the verdict; at least one side failed at this step. */
static void judge_failure(check *k) {
    const side   *a = &k->eager, *b = &k->other;
    case_verdict *v = k->p.v;
    /* if several nodes of a backward fail, either may come first; whether autograd lets
     * an argument be written is checked in the run, behind errors of the trace */
    bool          late = k->backward || by_value(a) || a->code == TD_E_GRAD;
    bool          both = a->code && b->code && late;
    if (a->code == b->code || both) {
        v->result = CASE_BOTH_FAIL;
        td__buf_printf(&v->why, "%s", a->message);
    } else if (a->code && is_unsupported(k)) { /* neither runs the program */
        v->result = CASE_BOTH_FAIL;
        td__buf_printf(&v->why, "%s", a->message);
    } else if (only_eager_fails(k)) {
        v->result = a->code && b->code ? CASE_BOTH_FAIL : CASE_GOES_ON;
        td__buf_printf(&v->why, "%s", a->code ? a->message : b->message);
    } else if (only_other_detects_write(k) || is_unsupported(k)) {
        v->result = CASE_REFUSED;
        td__buf_printf(&v->why, "%s", b->message);
    } else if (a->code && b->code)
        case_differ(&k->p, "both fail, with different errors: %s; %s: %s", a->message,
                    b->run.way->name, b->message);
    else if (a->code)
        case_differ(&k->p, "eager fails (%s), %s does not", a->message,
                    b->run.way->name);
    else case_differ(&k->p, "eager works, %s fails: %s", b->run.way->name, b->message);
}

/* Runs all steps of both sides; `compares`: also compares after each call. False: the
 * verdict is set, or the steps that follow may differ. */
static bool run_both(check *k, bool compares) {
    for (int i = 0; i < k->c->steps.n; i++) {
        k->p.line = k->c->steps.v[i].line;
        bool a = step(k, &k->eager, i), b = step(k, &k->other, i);
        k->backward = k->c->steps.v[i].kind == TD_STEP_BACKWARD;
        if (!a || !b) return judge_failure(k), false;
        if (compares && k->c->steps.v[i].kind >= TD_STEP_CALL) compare(k);
        if (k->p.v->differences) return false;
        if (k->backward && case_took_tangent(&k->p, &k->c->steps.v[i])) return false;
    }
    return true;
}

/* ---- writing to outputs ------------------------------------------------------ */

/* Adds 2 to the value, under no_grad if it is a leaf that requires grad. */
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
    return end_step(k, s, !td_is_nil(t));
}

/* Copies eager's bytes to an integer output that compared equal. Its bytes may differ
 * if they belong to a NaN of a float value, whose bits are unspecified; adding 2 would
 * then give different numbers. */
static void take_bits(td_tensor *to, const td_tensor *from) {
    size_t  item = td__dtype_bytes[from->dtype];
    int64_t a = 0, b = 0, at[TD_MAX_RANK] = {0};
    if (td__is_float((td_dtype)from->dtype) || !td__ptr(from) || !td__ptr(to)) return;
    if (from->st->device | to->st->device) return; /* the host cannot write there */
    for (int64_t i = 0; i < from->numel; i++) {
        char *p = td__ptr(to) + a * (int64_t)item;
        if (memcmp(p, td__ptr(from) + b * (int64_t)item, item))
            memcpy(p, td__ptr(from) + b * (int64_t)item, item);
        case_advance(to, from, at, &a, &b);
    }
}

/* Writes output i of the last call on both sides and compares everything. */
static void write_output(check *k, int i) {
    const td_gstep *s = k->eager.run.last;
    int             id = s->out[i]->id;
    if (k->eager.run.r.val[id].kind != TD_K_TENSOR ||
        k->other.run.r.val[id].kind != TD_K_TENSOR)
        return;
    k->p.written = s->out[i]->name ? s->out[i]->name : "?";
    take_bits(k->other.run.r.val[id].u.t, k->eager.run.r.val[id].u.t);
    bool a = write(k, &k->eager, id), b = write(k, &k->other, id);
    if (a && b) compare(k);
    else if (k->eager.code != k->other.code) judge_failure(k);
}

/* ---- runs --------------------------------------------------------------- */

/* Runs both sides from the start, then writes output nr of the last call (-1: none).
 * Returns the number of outputs of that call; -1: the verdict is set. */
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

/* Runs the case eagerly and by `way` and compares; then once more for each output of
 * the last call, which is written in place in both runs, so that hidden aliasing
 * shows. */
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
