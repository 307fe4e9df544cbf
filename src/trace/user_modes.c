/* user_modes.c -- modes written by users. td_mode_push puts a link on the context's
 * mode stack; the link's call function hands each op call to the user's
 * function as a td_mode_call, through which the user reads and changes arguments,
 * lets the call continue below, or supplies results. */
#include "core/callback.h"
#include "trace/trace_int.h"

#include "ops/call.h"
#include "tandem/mode.h"

#include <string.h>

/* One pushed user mode. Owned by the stack; hook->link points back. */
typedef struct mode_link {
    td_mode       mode; /* first: the mode is the link */
    td_mode_hook *hook;
} mode_link;

/* ---- the stack ---------------------------------------------------------- */

/* td_mode.call of a user mode. Afterwards every result must exist, from the
 * modes below or from td_mode_call_answer. */
static bool call_user(td_mode *m, td_opcall *c) {
    const td_mode_hook *hook = ((mode_link *)m)->hook;
    td_mode_call        h = {.handle = TD_LIVE(MODE_CALL, c->cx), .mode = m, .c = c};
    bool                ok;
    TD_CALLBACK(c->cx, ok = hook->call(hook->env, &h));
    TD_ENDED(&h, MODE_CALL);
    if (!ok) {
        if (td_ok(c->cx))
            td__fail(c->cx, TD_E_ARG,
                     "%s: the function of mode %s returned false without an error; "
                     "record the reason with td_fail",
                     c->info->s.name, hook->name ? hook->name : "");
        return false;
    }
    for (int i = 0; i < c->n_out; i++)
        if (!c->out[i] || td_is_nil(c->out[i]))
            return td__fail(
                c->cx, TD_E_ARG,
                "%s: mode %s neither called td_mode_call_go nor gave result %d "
                "with td_mode_call_answer",
                c->info->s.name, hook->name ? hook->name : "", i);
    return true;
}

static void drop_link(td_mode *m) {
    mode_link *l = (mode_link *)m;
    l->hook->link = NULL;
    td__free(l);
}

bool td_mode_push(td_ctx *cx, td_mode_hook *m) {
    if (!TD_ENTER_CTX(cx)) return false;
    if (!td__has(cx, "td_mode_push", "the mode", m)) return false;
    if (m->link || !m->call)
        return td__fail(cx, TD_E_ARG, "td_mode_push: mode %s %s",
                        m->name ? m->name : "",
                        m->call ? "is pushed already; pop it first, or push another one"
                                : "has no call function");
    mode_link *l = td__zalloc(sizeof *l);
    if (!l) return td__fail_memory(cx);
    l->mode = (td_mode){.name = m->name,
                        .call = call_user,
                        .composites = m->composites,
                        .drop = drop_link};
    l->hook = m;
    m->link = l;
    td__mode_push(cx, &l->mode);
    return true;
}

bool td_mode_pop(td_ctx *cx, td_mode_hook *m) {
    if (!TD_ENTER_CTX(cx)) return false;
    if (!td__has(cx, "td_mode_pop", "the mode", m)) return false;
    mode_link *l = m->link;
    if (!l)
        return td__fail(cx, TD_E_ARG,
                        "td_mode_pop: mode %s is not pushed; call it once for each "
                        "td_mode_push",
                        m->name ? m->name : "");
    if (td__mode_inner(cx) != &l->mode)
        return td__fail(cx, TD_E_ARG,
                        "td_mode_pop: mode %s is not the innermost one; pop modes in "
                        "the reverse order of pushes",
                        m->name ? m->name : "");
    td__mode_pop(cx, &l->mode);
    drop_link(&l->mode);
    return true;
}

/* ---- one call ----------------------------------------------------------- */

td_ctx *td_mode_call_ctx(const td_mode_call *h) {
    if (!TD_ENTER(h, MODE_CALL)) return td__current_ctx();
    return h->c->cx;
}
const char *td_mode_call_name(const td_mode_call *h) {
    if (!TD_ENTER(h, MODE_CALL)) return "";
    return h->c->info->s.name;
}
int td_mode_call_args(const td_mode_call *h) {
    if (!TD_ENTER(h, MODE_CALL)) return 0;
    return h->c->n_in;
}

/* Is i an index below n? Fails otherwise. */
static bool in_range(const td_mode_call *h, int i, int n, const char *who) {
    if (i >= 0 && i < n) return true;
    return td__fail(h->c->cx, TD_E_INDEX, "%s: index %d; this call of %s has %d", who,
                    i, h->c->info->s.name, n);
}

td_value td_mode_call_arg(const td_mode_call *h, int i) {
    if (!TD_ENTER(h, MODE_CALL)) return TD_NONE;
    return in_range(h, i, h->c->n_in, "td_mode_call_arg") ? h->c->in[i] : TD_NONE;
}

const char *td_mode_call_arg_name(const td_mode_call *h, int i) {
    if (!TD_ENTER(h, MODE_CALL)) return "";
    bool ok = in_range(h, i, h->c->n_in, "td_mode_call_arg_name");
    return ok ? h->c->info->s.in[i].name : "";
}

bool td_mode_call_writes(const td_mode_call *h, int i) {
    if (!TD_ENTER(h, MODE_CALL)) return false;
    return in_range(h, i, h->c->n_in, "td_mode_call_writes") &&
           h->c->info->s.in[i].write;
}

/* May v replace argument `was` of parameter p? Numbers may replace each other,
 * and tensors too where the parameter accepts either; the op checks the rest. */
static bool fits(const td_param *p, td_value was, td_value v) {
    bool number = v.kind == TD_K_INT || v.kind == TD_K_FLOAT || v.kind == TD_K_BOOL;
    if (v.kind == TD_K_TENSOR && !v.u.t) return false;
    if (p->type == TD_T_OPERAND) return number || v.kind == TD_K_TENSOR;
    if (p->type == TD_T_SCALAR || p->type == TD_T_OPT_SCALAR) return number;
    if (p->type == TD_T_OPT_TENSOR) return v.kind == TD_K_NONE || v.kind == TD_K_TENSOR;
    return v.kind == was.kind;
}

bool td_mode_call_change(td_mode_call *h, int i, td_value v) {
    if (!TD_ENTER(h, MODE_CALL)) return false;
    td_opcall *c = h->c;
    if (!in_range(h, i, c->n_in, "td_mode_call_change")) return false;
    if (h->gone || !fits(&c->info->s.in[i], c->in[i], v) ||
        (v.kind == TD_K_TENSOR && (v.u.t->cx != c->cx || td_is_nil(v.u.t))))
        return td__op_fail(
            c, TD_E_ARG,
            "td_mode_call_change: the value for %s has another kind than the "
            "argument, is nil, or comes after td_mode_call_go",
            c->info->s.in[i].name);
    c->in[i] = v;
    return true;
}

/* Nothing below a type computes its ops. */
static bool fail_in_type(const td_mode_call *h, const char *who) {
    return td__op_fail(h->c, TD_E_ARG,
                       "%s: the function of type %s computes the op itself: by "
                       "td_type_each, td_type_plain or td_mode_call_answer",
                       who, h->type->opts.name);
}

bool td_mode_call_go(td_mode_call *h) {
    if (!TD_ENTER(h, MODE_CALL)) return false;
    if (h->gone) return td__op_fail(h->c, TD_E_ARG, "td_mode_call_go: called twice");
    if (h->type) return fail_in_type(h, "td_mode_call_go");
    h->gone = true;
    return td__call_below(h->mode, h->c);
}

bool td_mode_call_has_simpler(const td_mode_call *h) {
    if (!TD_ENTER(h, MODE_CALL)) return false;
    return h->c->info->has_simpler;
}

bool td_mode_call_simpler(td_mode_call *h) {
    if (!TD_ENTER(h, MODE_CALL)) return false;
    if (h->type) return fail_in_type(h, "td_mode_call_simpler");
    if (h->gone || !h->c->info->has_simpler)
        return td__op_fail(h->c, TD_E_ARG, "td_mode_call_simpler: %s",
                           h->gone ? "called twice" : "there is no simpler form");
    h->gone = true;
    return td__call_simpler(h->mode, h->c);
}

/* The length of a list of results is known only after the call went on. */
int td_mode_call_results(const td_mode_call *h) {
    if (!TD_ENTER(h, MODE_CALL)) return 0;
    return h->c->n_out;
}

td_tensor *td_mode_call_result(const td_mode_call *h, int i) {
    if (!TD_ENTER(h, MODE_CALL)) return TD_NIL_BY(h, TENSOR);
    td_opcall *c = h->c;
    bool       ok = in_range(h, i, c->n_out, "td_mode_call_result") && c->out[i];
    return ok ? c->out[i] : td_nil(c->cx);
}

bool td_mode_call_answer(td_mode_call *h, int i, td_tensor *t) {
    if (!TD_ENTER(h, MODE_CALL)) return false;
    td_opcall *c = h->c;
    if (!in_range(h, i, c->n_out, "td_mode_call_answer")) return false;
    if (!t || td_is_nil(t) || t->cx != c->cx)
        return td__op_fail(
            c, TD_E_ARG,
            "td_mode_call_answer: the result is NULL, nil or a tensor of "
            "another context");
    c->out[i] = t;
    h->answered = true;
    return true;
}
