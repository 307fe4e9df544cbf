/* capture.c -- runs a body once on fake tensors, under the recorder and the tape, and
 * returns the graph. Also td_call_body, which runs a body eagerly, and the accessors of
 * td_call.
 *
 * Whether the capture succeeds or fails, the context's modes, scopes and
 * generator are restored; only an error remains. */
#include "core/callback.h"
#include "core/stack.h"
#include "ops/call.h"
#include "trace/trace_int.h"

#include <stdio.h>
#include <string.h>

struct td_call {
    TD_HANDLE_FIELDS;
    void     *env;
    td_values args;           /* borrowed; fake copies during a capture */
    uint8_t  *reads;          /* td_closure.reads */
    bool      returned;       /* td_return was called */
    TD_VEC(td_value) results; /* owned: one reference per tensor */
};

/* ---- arguments and results of a running body ---------------------------- */

td_ctx *td_call_ctx(const td_call *c) {
    if (!TD_ENTER(c, CALL)) return td__current_ctx();
    return c->cx;
}
void *td_call_env(const td_call *c) {
    if (!TD_ENTER(c, CALL)) return NULL;
    return c->env;
}
int td_arg_count(const td_call *c) {
    if (!TD_ENTER(c, CALL)) return 0;
    return c->args.n;
}

td_values td__call_args(const td_call *c) { return c->args; }

static bool is_stand_in(td_value v) {
    return v.kind == TD_K_TENSOR && td__is_live(v.u.t, TD_H_TENSOR) &&
           v.u.t->flags & TD_TF_NUMBER;
}

/* The kind of argument i. A NULL tensor counts as absent, and a tensor that stands for
 * a number as that number. For an index out of range it is TD_K_STR, which no accessor
 * accepts. */
static td_kind kind_of(const td_call *c, int i) {
    if (i < 0 || i >= c->args.n) return TD_K_STR;
    const td_value *v = &c->args.v[i];
    if (is_stand_in(*v)) return v->u.t->dtype == TD_F64 ? TD_K_FLOAT : TD_K_INT;
    return v->kind == TD_K_TENSOR && !v->u.t ? TD_K_NONE : (td_kind)v->kind;
}

static const char *kind_name(td_kind k) {
    switch (k) {
    case TD_K_NONE: return "absent";
    case TD_K_TENSOR: return "a tensor";
    case TD_K_INT: return "an int";
    case TD_K_FLOAT: return "a float";
    case TD_K_BOOL: return "a bool";
    default: return "neither a tensor nor a number";
    }
}

/* Records the error of accessor `who` for argument i; `wants` names the kind that it
 * returns. */
static void fail_arg(td_call *c, const char *who, int i, const char *wants) {
    if (i < 0 || i >= c->args.n)
        td__fail(c->cx, TD_E_ARG,
                 "%s: there is no argument %d: the call has %d argument%s", who, i,
                 c->args.n, c->args.n == 1 ? "" : "s");
    else
        td__fail(c->cx, TD_E_ARG, "%s: argument %d is %s; the body expects %s there",
                 who, i, kind_name(kind_of(c, i)), wants);
}

td_tensor *td_arg(td_call *c, int i) {
    if (!TD_ENTER(c, CALL)) return TD_NIL_BY(c, TENSOR);
    td_kind k = kind_of(c, i);
    if (k == TD_K_TENSOR) return c->args.v[i].u.t;
    if (k == TD_K_NONE) return NULL;
    fail_arg(c, "td_arg", i, "a tensor");
    return td_nil(c->cx);
}

static bool is_number(td_kind k) {
    return k == TD_K_INT || k == TD_K_FLOAT || k == TD_K_BOOL;
}

/* Number i for C code: a constant of the program. A symbol is fixed by a guard; a float
 * that is an input of the program cannot be. */
static td_value number_at(td_call *c, int i) {
    td_value v = c->args.v[i];
    if (c->reads) c->reads[i] |= TD_ARG_READ;
    if (v.kind == TD_K_INT) v.u.i = td__dim_fixed(v.u.i);
    if (!is_stand_in(v)) return v;
    if (kind_of(c, i) == TD_K_INT) return td_value_int(td__dim_fixed(v.u.t->size[0]));
    td__fail(c->cx, TD_E_UNSUPPORTED,
             "argument %d is a float that varies, and the body reads it as a number; "
             "read it with td_arg_value",
             i);
    return td_value_float(0);
}

int64_t td_sym_arg(td_call *c, int i) {
    if (!TD_ENTER(c, CALL)) return 0;
    td_kind k = kind_of(c, i);
    if (k == TD_K_INT)
        return is_stand_in(c->args.v[i]) ? c->args.v[i].u.t->size[0] : c->args.v[i].u.i;
    if (k == TD_K_BOOL) return td__value_i(number_at(c, i));
    fail_arg(c, "td_sym_arg", i, "an int");
    return 0;
}

td_value td_arg_value(td_call *c, int i) {
    if (!TD_ENTER(c, CALL)) return TD_NONE;
    td_kind k = kind_of(c, i);
    if (k == TD_K_NONE) return TD_NONE;
    if (k == TD_K_INT) return td_value_int(td_sym_arg(c, i));
    if (k == TD_K_TENSOR || is_number(k)) return c->args.v[i];
    fail_arg(c, "td_arg_value", i, "a tensor or a number");
    return TD_NONE;
}

double td_arg_number(td_call *c, int i) {
    if (!TD_ENTER(c, CALL)) return 0.0;
    if (is_number(kind_of(c, i))) return td__value_f(number_at(c, i));
    fail_arg(c, "td_arg_number", i, "a number");
    return 0.0;
}

int64_t td_arg_int(td_call *c, int i) {
    if (!TD_ENTER(c, CALL)) return 0;
    if (is_number(kind_of(c, i))) return td__value_i(number_at(c, i));
    fail_arg(c, "td_arg_int", i, "a number");
    return 0;
}

bool td_arg_absent(const td_call *c, int i) {
    if (!TD_ENTER(c, CALL)) return true;
    return kind_of(c, i) == TD_K_NONE;
}

/* The op `expect` has ==, !=, < and >=. Because sizes are integers, x <= n is x < n +
 * 1, and x > n is x >= n + 1. */
bool(td_expect)(td_tensor *t, int64_t dim, const char *rel, int64_t than) {
    if (!TD_ENTER(t, TENSOR) || !td__has(t->cx, "td_expect", "the relation", rel))
        return false;
    bool    le = !strcmp(rel, "<="), gt = !strcmp(rel, ">");
    int64_t size = td_sym_size(t, dim);
    if (!td_ok(t->cx)) return false;
    return td_op_expect(t->cx, size,
                        le   ? "<"
                        : gt ? ">="
                             : rel,
                        than + (le || gt), false);
}

/* Adds one result and takes a reference to it. Nil counts as absent: it is nil
 * because of a recorded error, and then td_return_values fails anyway. */
static bool take_result(td_call *c, td_value v) {
    if (v.kind == TD_K_TENSOR && !td__is_live(v.u.t, TD_H_TENSOR)) {
        if (v.u.t && v.u.t->tag != (TD_TAG_NIL | TD_H_TENSOR))
            return td__enter_in(c->cx, v.u.t, TD_H_TENSOR, "td_return");
        v = TD_NONE;
    }
    if (v.kind != TD_K_NONE && v.kind != TD_K_TENSOR && !is_number((td_kind)v.kind))
        return td__fail(c->cx, TD_E_ARG,
                        "td_return: result %d is a list, a string or a dtype; a body "
                        "returns tensors, numbers or NULL",
                        c->results.n);
    if (is_stand_in(v))
        return td__fail(c->cx, TD_E_UNSUPPORTED,
                        "td_return: result %d is a float argument that varies",
                        c->results.n);
    if (v.kind == TD_K_TENSOR && v.u.t->cx != c->cx)
        return td__fail(c->cx, TD_E_ARG,
                        "td_return: result %d belongs to another context than the call",
                        c->results.n);
    if (!td__vec_push(&c->results, v)) return td__fail_memory(c->cx);
    if (v.kind == TD_K_TENSOR) td__ref(v.u.t);
    return true;
}

bool td_return_values(td_call *c, td_values results) {
    if (!TD_ENTER(c, CALL)) return false;
    if (c->returned)
        return td__fail(
            c->cx, TD_E_ARG,
            "td_return: called twice; a body returns once, with all results");
    if (!td__has_list(c->cx, "td_return", results.v, results.n)) return false;
    c->returned = true;
    for (int i = 0; i < results.n; i++)
        if (!take_result(c, results.v[i])) return false;
    return td_ok(c->cx); /* a nil result comes from an error: the call fails */
}

bool td__call_inner(td_call *c, td_body *body, void *env, int skip) {
    void     *was = c->env;
    td_values args = c->args;
    c->env = env;
    c->args = (td_values){args.v + skip, args.n - skip};
    if (c->reads) c->reads += skip;
    bool ok = body(c);
    if (c->reads) c->reads -= skip;
    c->env = was;
    c->args = args;
    return ok;
}

bool td__call_map(td_call *c, td_tensor *(*fn)(td_tensor *t)) {
    for (int i = 0; i < c->results.n; i++) {
        td_value *v = &c->results.v[i];
        if (v->kind != TD_K_TENSOR) continue;
        td_tensor *to = fn(v->u.t);
        if (td_is_nil(to)) return false;
        td__ref(to);
        td__unref(v->u.t);
        v->u.t = to;
    }
    return true;
}

static void drop_results(td_call *c) {
    for (int i = 0; i < c->results.n; i++)
        if (c->results.v[i].kind == TD_K_TENSOR) td__unref(c->results.v[i].u.t);
    td__vec_free(&c->results);
}

/* ---- eager execution of a body ------------------------------------------ */

/* Gives results whose scope ended inside the body to the innermost open scope. */
static bool give_to_scope(td_call *c) {
    for (int i = 0; i < c->results.n; i++) {
        td_tensor *t = c->results.v[i].u.t;
        if (c->results.v[i].kind != TD_K_TENSOR || t->slot >= 0 || t->kept > 0)
            continue;
        if (!td__scope_own(t)) return false;
        td__ref(t);
    }
    return true;
}

/* Returns the number of results, of which n_out are stored; -1 on failure, with
 * nil in all of out[]. */
int td_call_body(td_ctx *cx, td_body *body, void *env, td_values args, td_value *out,
                 int n_out) {
    static const char who[] = "td_call_body";
    if (!TD_ENTER_CTX(cx) || !td__has(cx, who, "the body", body) ||
        !td__has_list(cx, who, args.v, args.n) || !td__has_room(cx, who, out, n_out)) {
        td__nil_values(cx, out, n_out);
        return -1;
    }
    td_call c = {.handle = TD_LIVE(CALL, cx), .env = env, .args = args};
    bool    ok;
    TD_CALLBACK(cx, ok = body(&c));
    if (!ok && td_ok(cx))
        td__fail(cx, TD_E_ARG,
                 "the body returned false without an error; end it with td_return, or "
                 "record the reason with td_fail");
    ok = ok && td_ok(cx) && give_to_scope(&c);
    int n = ok ? c.results.n : -1;
    for (int i = 0; i < n_out; i++)
        out[i] = i < n ? c.results.v[i] : ok ? TD_NONE : td_value_tensor(td_nil(cx));
    drop_results(&c);
    TD_ENDED(&c, CALL);
    return n;
}

/* ---- the mode stack of a capture ---------------------------------------- */

/* Pushes the recorder's modes around the tape (see td_record). Of the state outside,
 * only autocast and the dependencies being collected carry over into the body. */
static void begin_recording(td_record *r, const td_ambient *outside) {
    td_ctx *cx = r->cx;
    r->first_scope = cx->scopes.n;
    r->mode.seen_as = td__record_seen_as;
    cx->deps = outside->deps; /* a nested capture adds to the enclosing one's */
    cx->whole = r->outer ? outside->whole : r->close.whole;
    td__modes_tape(cx, &r->mark);
    td__mode_push(cx, &r->inside);
    td__mode_push(cx, &r->mode);
    if (outside->autocast.on) td_autocast_begin(cx, outside->autocast.dtype);
    cx->fake = true;
}

/* ---- arguments ---------------------------------------------------------- */

bool td__has_args(td_ctx *cx, const char *who, td_values args) {
    char what[100];
    if (!td__has_list(cx, who, args.v, args.n)) return false;
    for (int i = 0; i < args.n; i++) {
        const td_tensor *t = args.v[i].kind == TD_K_TENSOR ? args.v[i].u.t : NULL;
        snprintf(what, sizeof what, "%.60s: argument %d", who, i);
        if (t && t->tag != (TD_TAG_NIL | TD_H_TENSOR) && !td__is_live(t, TD_H_TENSOR))
            return td__refuse_in(cx, t, TD_H_TENSOR, what);
        if (!td_is_nil(t) && TD_IS_KEPT(t)) return td__fail_kept(cx, what, t);
    }
    return true;
}

/* Makes an input for each tensor among args; to[i] is what the body receives. */
static bool take_args(td_record *r, td_values args, td_value *to) {
    char name[24];
    for (int i = 0; i < args.n; i++) {
        to[i] = args.v[i];
        if (to[i].kind == TD_K_TENSOR && !to[i].u.t) to[i] = TD_NONE;
        if (to[i].kind == TD_K_NONE || is_number((td_kind)to[i].kind)) continue;
        if (to[i].kind != TD_K_TENSOR)
            return td__fail(r->cx, TD_E_ARG,
                            "argument %d is a list, a string or a dtype; a captured "
                            "body takes tensors, numbers or NULL",
                            i);
        if (td_is_nil(to[i].u.t) || to[i].u.t->cx != r->cx)
            return td__fail(r->cx, TD_E_ARG,
                            "argument %d is nil (an earlier call failed) or belongs to "
                            "another context",
                            i);
        if (!td__record_outer(r, &to[i].u.t)) return false;
        snprintf(name, sizeof name, "x%d", i);
        bool number = is_stand_in(to[i]) && (r->close.reads || r->lift);
        if (!(to[i].u.t = td__record_input(r, to[i].u.t, name))) return false;
        if (number) to[i].u.t->flags |= TD_TF_NUMBER;
    }
    return true;
}

/* ---- results ------------------------------------------------------------ */

/* Adds result i as an output. A number becomes a constant, or an expression of
 * symbolic sizes. */
static bool put_result(td_record *r, td_value v, int i) {
    td_garg a = {0};
    char    who[32];
    snprintf(who, sizeof who, "result %d", i);
    if (v.kind == TD_K_TENSOR) {
        if (td__retains_grad(v.u.t))
            return td__fail(
                r->cx, TD_E_TRACE,
                "%s has td_retain_grad set, which a captured program cannot "
                "record; call td_retain_grad on the result outside the body",
                who);
        td_gval *g = td__record_value(r, &v.u.t, who);
        if (!g) return false;
        if (TD_UNLIKELY(v.u.t->st->inner))
            return td__fail(r->cx, TD_E_UNSUPPORTED,
                            "%s: unsupported: it is an inner tensor of a tensor of a "
                            "type, or shares one, so that both would have the same "
                            "elements; return a clone",
                            who);
        a = td__garg_value(g);
    } else if (v.kind == TD_K_FLOAT) {
        a.kind = TD_G_FLOAT;
        a.u.f = v.u.f;
    } else if (v.kind != TD_K_NONE) {
        a.kind = v.kind == TD_K_BOOL          ? TD_G_BOOL
                 : td__dim_is_symbolic(v.u.i) ? TD_G_SYM
                                              : TD_G_INT;
        a.u.i = td__graph_dim(r->g, v.u.i);
    }
    return td__graph_output(r->g, a, TD_PLAIN_DESC);
}

static bool put_results(td_record *r, const td_call *c) {
    for (int i = 0; i < c->results.n; i++)
        if (!put_result(r, c->results.v[i], i)) return false;
    return true;
}

/* ---- running the body --------------------------------------------------- */

/* Fails when the body changed state it must restore: autocast and other regions, a
 * pushed mode, saved-tensor hooks. */
static bool check_restored(const td_record *r, const td_outside *o) {
    td_ctx     *cx = r->cx;
    const char *left = td__modes_left(cx, &o->was);
    if (left)
        return td__fail(cx, TD_E_TRACE,
                        "the body left %s changed; end the region it began", left);
    if (td__mode_inner(cx) != &r->mode)
        return td__fail(cx, TD_E_TRACE,
                        "the body pushed a mode and did not pop it; td_mode_pop it "
                        "before td_return");
    if (cx->packers.n)
        return td__fail(cx, TD_E_TRACE,
                        "the body pushed saved-tensor hooks and did not pop them; "
                        "td_saved_hooks_pop them before td_return");
    return true;
}

/* Runs the body and completes the graph: outputs, .grad outputs, checks of what
 * a program cannot reproduce. Results are released either way. */
static bool run_body(td_record *r, const td_outside *o, td_body *body, td_call *c) {
    begin_recording(r, &o->was);
    td_callback b;
    td_ctx     *outer = td__capturing;
    td__callback_begin(&b, r->cx);
    b.at = o->here;
    td__capturing = r->cx;
    bool ok = body(c);
    td__capturing = outer;
    td__callback_end(&b);
    if (!ok && td_ok(r->cx))
        td__fail(r->cx, TD_E_ARG,
                 "the body returned false without an error; end it with td_return, or "
                 "record the reason with td_fail");
    ok = td_ok(r->cx) && check_restored(r, o) &&
         td__copies_returned(r->cx, c->results.v, c->results.n) &&
         td__record_asserts(r) && put_results(r, c) && td__own_grads_end(r) &&
         td__history_check(r) && td__record_finish(r);
    drop_results(c);
    return ok;
}

/* Adds an input for each tensor that an earlier body of the same op lifted, even if
 * this body does not read it. */
static bool take_lifted(td_record *r) {
    char name[24];
    for (int i = 0; r->lift && i < r->lift->tensors.n; i++) {
        snprintf(name, sizeof name, "c%d", i);
        if (!td__record_input(r, r->lift->tensors.v[i], name)) return false;
    }
    return true;
}

/* Options of a capture besides body and arguments. */
typedef struct capture_opts {
    td_lift   *lift; /* nested capture: lifts what it closes over; NULL: consts */
    td_closure close;
} capture_opts;

td_record *td__recorder_of(const td_ctx *cx) {
    for (td_mode *m = cx->top; m; m = m->below)
        if (m->stand_in == td__record_stand_in && m->composites) return (td_record *)m;
    return NULL;
}

bool td__result_copy(td_ctx *cx, td_tensor **t, bool *outside) {
    td_record *r = td__recorder_of(cx);
    *outside = r && !td__record_tag(r, *t);
    return !*outside || td__record_value(r, t, "a result");
}

/* One capture from start to end: set the ambient state aside, begin the
 * recorder, make inputs, run the body, restore. False after td__fail; g is then
 * incomplete. */
static bool capture_into(td_graph *g, td_body *body, void *env, td_values args,
                         const capture_opts *how) {
    td_ctx *cx = g->cx;
    if (how->lift && !td__stack_holds(cx, "a body inside another")) return false;
    td_record  r, *outer = how->lift ? td__recorder_of(cx) : NULL;
    td_outside o;
    td_value  *copies = td__zalloc(sizeof *copies * ((size_t)args.n + 1));
    if (!copies) return td__fail_memory(cx);
    if (!td__ambient_clear(cx, &o)) return td__free(copies), false;
    td__modes_resume(cx, &o.was);
    td__record_begin(&r, g);
    r.lift = how->lift;
    r.outer = outer;
    r.outside = &o;
    r.close = how->close;
    r.function = outer ? outer->function : NULL;
    if (how->close.function) r.function = td__place_file(cx, how->close.function);
    td_call c = {.handle = TD_LIVE(CALL, cx), .env = env, .args = {copies, args.n}};
    c.reads = how->close.reads;
    bool ok = take_args(&r, args, copies) && td__record_bind(&r, copies) &&
              (r.lift || td__record_siblings(&r)) && take_lifted(&r) &&
              run_body(&r, &o, body, &c);
    td__ambient_restore(cx, &o, true);
    td__record_end(&r);
    td__free(copies);
    return ok;
}

/* Captures with an environment for symbols: a result whose size depends on values needs
 * one. If an enclosing trace has none, the capture begins one. */
static bool capture_served(td_graph *g, td_body *body, void *env, td_values args,
                           const capture_opts *how) {
    if (td__dim_served()) return capture_into(g, body, env, args, how);
    td_symenv *e = td__symenv_make(g->cx);
    if (!e) return false;
    td__symenv_begin(e);
    bool ok = capture_into(g, body, env, args, how);
    td__symenv_end(e);
    td__symenv_drop(e);
    return ok;
}

/* Captures into a new graph. NULL after td__fail, or if an error was recorded
 * before. */
static td_graph *capture(td_ctx *cx, td_body *body, void *env, td_values args,
                         const capture_opts *how) {
    td_graph *g = td_ok(cx) ? td__graph_make(cx, "f") : NULL;
    if (!g || capture_served(g, body, env, args, how)) return g;
    td__graph_drop(g);
    return NULL;
}

td_graph *td__capture_nested(td_ctx *cx, td_body *body, void *env, td_values args,
                             td_lift *lift) {
    return capture(cx, body, env, args, &(capture_opts){.lift = lift});
}

td_graph *td__capture_closing(td_ctx *cx, td_body *body, void *env, td_values args,
                              const td_closure *close) {
    return capture(cx, body, env, args, &(capture_opts){.close = *close});
}

td_graph *td__capture(td_ctx *cx, td_body *body, void *env, td_values args) {
    return capture(cx, body, env, args, &(capture_opts){0});
}
