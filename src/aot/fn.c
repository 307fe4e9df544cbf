/* fn.c -- compiled functions: making and freeing them (td_aot_function,
 * td_aot_graph), and calling them (td_invoke): check the arguments, pick or compile a
 * specialization, run it. */
#include "core/callback.h"
#include "aot/aot.h"
#include "trace/sym.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- making ------------------------------------------------------------- */

/* Functions are numbered from 1, for backends that name their code. */
static atomic_int last_id;

/* Takes over the reference to the options h, also after a failure. h NULL: making the
 * options failed already. */
td_fn *td__fn_make(td_ctx *cx, td_shared_opts *h, const char *name) {
    td_fn *f = h ? td__handle_make(cx, TD_H_FN, sizeof *f) : NULL;
    char  *copy = f ? td__strdup(name) : NULL;
    if (copy) {
        f->id = atomic_fetch_add(&last_id, 1) + 1;
        f->shared = h;
        f->opts = h->opts;
        f->name = copy;
        return f;
    }
    td__handle_free(f, TD_H_FN);
    td__shared_opts_drop(h);
    if (td_ok(cx)) td__fail_memory(cx);
    return NULL;
}

/* Frees f now, or after the last call that is still running in it. */
static void end(void *object) { td__fn_free(object); }

td_fn *td__fn_give(td_ctx *cx, td_fn *f) {
    return f ? td__handle_own(f, end) : TD_NIL(cx, FN);
}

td_fn *td__fn_of_body(td_ctx *cx, td_body *body, void *env, const td_aot_opts *opts) {
    td_shared_opts *h = td__shared_opts_make(cx, opts);
    td_fn          *f = td__fn_make(cx, h, td__shared_opts_name(h, "f"));
    if (!f) return NULL;
    f->body = body;
    f->env = env;
    if (td__has(cx, "td_aot_function", "the body", body)) return f;
    td__fn_free(f);
    return NULL;
}

td_fn *td_aot_function(td_ctx *cx, td_body *body, void *env, const td_aot_opts *opts) {
    if (!TD_ENTER_CTX(cx)) return TD_NIL(cx, FN);
    return td__fn_give(cx, td__fn_of_body(cx, body, env, opts));
}

/* The function owns a reference to the graph, so that the file it came from may be
 * dropped. */
td_fn *td_aot_graph(const td_graph *g, const td_aot_opts *opts) {
    if (!TD_ENTER(g, GRAPH)) return TD_NIL_BY(g, FN);
    td_shared_opts *h = td__shared_opts_make(g->cx, opts);
    td_fn          *f = td__fn_make(g->cx, h, td__shared_opts_name(h, g->name));
    if (f) {
        td__graph_keep((td_graph *)(uintptr_t)g);
        f->graph = g;
        f->owns_graph = true;
    }
    return td__fn_give(g->cx, f);
}

/* Drops all specializations: the next call compiles again. Nodes of earlier calls keep
 * what they need. */
static void forget(td_fn *f) {
    if (!f->loaded) td__images_drop(f);
    for (td_spec *s = f->specs, *next; s; s = next) {
        next = s->next;
        td__spec_drop(s);
    }
    f->specs = NULL;
    f->n_specs = 0;
}

void td_fn_forget(td_fn *f) {
    if (!TD_ENTER(f, FN)) return;
    if (td__may_change(f->cx, "td_fn_forget", "a compiled function")) forget(f);
}

void td_fn_drop(td_fn *f) {
    if (TD_MAY_FREE(f, FN)) td__fn_free(f);
}

void td__fn_free(td_fn *f) {
    if (!f) return;
    td__handle_disown(f);
    if (f->calls) {
        f->dropped = true;
        return;
    }
    forget(f);
    td__images_drop(f);
    td__free(f->loaded);
    td__state_drop(f->state);
    td__free(f->step);
    td__free(f->numbers);
    if (f->owns_graph) td__graph_drop((td_graph *)(uintptr_t)f->graph);
    td__vec_free(&f->key);
    td__arg_aliases_free(&f->aliases);
    td__free(f->name);
    td__shared_opts_drop(f->shared);
    td__handle_free(f, TD_H_FN);
}

void td__fn_leave(td_fn *f) {
    if (--f->calls == 0 && f->dropped) td__fn_free(f);
}

int td_fn_specializations(const td_fn *f) {
    if (!TD_ENTER(f, FN)) return 0;
    (void)td__may_read(f->cx, "td_fn_specializations", "what was compiled");
    return f->n_specs;
}

/* ---- calling ------------------------------------------------------------ */

/* Does a mode other than autograd and autocast see the ops of the body, or is the
 * call part of a fake run? Then the body runs op by op. The capture has applied
 * autocast already. */
static bool is_intercepted(const td_fn *f) {
    const td_ctx *cx = f->cx;
    return td__modes_below_autocast(cx) != cx->tape || cx->fake;
}

/* Runs the body, or replays the graph, without compiling. Returns the number of
 * results, -1 after td__fail. */
static int run_eager(td_fn *f, td_values args, td_value *out, int n_out) {
    if (!f->graph && !f->body) {
        td__fail_loaded(f, "a capture, a mode that sees its ops, or anomaly mode");
        return -1;
    }
    if (!f->graph) return td_call_body(f->cx, f->body, f->env, args, out, n_out);
    int       n = f->graph->outputs.n;
    td_value *all = td__zalloc(sizeof *all * (size_t)(n + 1));
    if (!all) return td__fail_memory(f->cx), -1;
    bool ok = td__graph_replay(f->graph, args.v, all) &&
              td__own_grads_leave(f->graph, args.v, all);
    n = td__graph_results(f->graph);
    for (int i = 0; i < n_out; i++) out[i] = ok && i < n ? all[i] : TD_NONE;
    td__free(all);
    return ok ? n : -1;
}

/* Fails for argument i, which is nil or was freed. */
static bool bad_arg(td_fn *f, int i, const td_tensor *t) {
    char who[80];
    snprintf(who, sizeof who, "%.40s: argument %d", f->name, i - f->n_state);
    td__enter_in(f->cx, t, TD_H_TENSOR, who);
    return !td_ok(f->cx) ? false : td__fail(f->cx, TD_E_ARG, "%s is nil", who);
}

/* Fails for argument i, which is no fake tensor where all are. */
static bool fail_real(const td_fn *f, int i) {
    char name[80];
    return td__fail(f->cx, TD_E_ARG,
                    "%s: %s is a real tensor, and between td_fakes_begin and "
                    "td_fakes_end all tensors of a call are fake; pass a fake copy of "
                    "it (td_fake_like), or make the module inside",
                    f->name, td__arg_name(f, i, name));
}

/* Every tensor argument must be alive and of this context, and the state that the
 * options promise must be there. `runs`: the arguments must have elements, which a
 * compilation and a backward's unread inputs do without. False after td__fail. */
static bool check_args(td_fn *f, td_values args, bool runs) {
    for (int i = 0; i < args.n; i++) {
        const td_value *v = &args.v[i];
        if (v->kind != TD_K_TENSOR || !v->u.t) continue;
        if (!td__is_live(v->u.t, TD_H_TENSOR)) return bad_arg(f, i, v->u.t);
        if (v->u.t->cx != f->cx)
            return td__fail(f->cx, TD_E_ARG,
                            "%s: argument %d belongs to another context; pass "
                            "td_share(cx, tensor), "
                            "which makes it usable in this one",
                            f->name, i - f->n_state);
        if (runs && TD_IS_KEPT(v->u.t)) return td__fail_kept(f->cx, f->name, v->u.t);
        if (TD_UNLIKELY(f->cx->takes_fakes == TD_FAKES_SCOPE) && !td__is_fake(v->u.t))
            return fail_real(f, i);
    }
    int given = args.n - f->n_state, state = f->opts.n_params + f->opts.n_buffers;
    for (int i = 0; i < f->opts.n_static_args && !f->inner; i++)
        if (f->opts.static_args[i] >= given)
            return td__fail(f->cx, TD_E_ARG,
                            "%s: called with %d arguments; td_aot_opts.static_args "
                            "names argument %d",
                            f->name, given, f->opts.static_args[i]);
    return f->inner || given >= state ||
           td__fail(f->cx, TD_E_ARG,
                    "%s: called with %d arguments; td_aot_opts promises %d parameters "
                    "and buffers before the inputs",
                    f->name, given, state);
}

/* May the call run s? The module's form, the modules and bytes the body read, the key
 * and the guards on sizes must all match. mismatch.c explains failures in the same
 * order. */
static bool fits(td_fn *f, td_spec *s, td_values args) {
    return s->mode == f->mode && td__deps_unchanged(&s->deps) &&
           td__key_fits(f, args, s) &&
           (!s->guards || td__guards_run(s->guards, args.v) < 0);
}

/* With the setting fallback=eager, turns "cannot be compiled" into a warning (once
 * per *warned) and clears the error. False: the error stands. */
static bool falls_back(td_fn *f, const td_config *c, bool *warned) {
    td_code code = td__error(f->cx);
    if (c->fallback != TD_FALLBACK_EAGER || f->loaded) return false;
    if (code != TD_E_UNSUPPORTED && code != TD_E_TRACE && code != TD_E_BUILD)
        return false;
    if (!*warned)
        td__warn(f->cx, "%s is not compiled and runs eagerly: %s", f->name,
                 td__message(f->cx));
    *warned = true;
    td_clear(f->cx);
    return true;
}

/* A specialization without a plan: calls that fit it run eagerly. */
static td_spec *make_eager_spec(td_fn *f, td_values args, const td_config *c) {
    td_spec *s = td__zalloc(sizeof *s);
    if (!s) return td__fail_memory(f->cx), NULL;
    s->nr = f->n_specs;
    s->mode = f->mode;
    s->set = *c;
    if (td__key_make(f, &s->key, args, s)) return s;
    td__spec_drop(s);
    return NULL;
}

/* Compiles a specialization and puts it first in the list. NULL: after td__fail, or,
 * without an error, run the call eagerly. */
static td_spec *add_spec(td_fn *f, td_values args, td_dim_list *sizes) {
    td_config c = td__fn_settings(f);
    bool      warned = false;
    if (f->staged) {
        td_buf why = {0};
        if (f->specs) td__spec_difference(&why, f, args, f->specs);
        td__fail(f->cx, TD_E_UNSUPPORTED,
                 "%s: this function was staged for other arguments: %s. Stage another "
                 "function for these (td_stage_capture)",
                 f->name, td__buf_str(&why));
        td__buf_free(&why);
        return NULL;
    }
    if (f->loaded && sizes) return td__fail_loaded(f, "another size"), NULL;
    if (f->n_specs >= c.specialization_limit && !f->loaded) {
        td__fail_limit(f, args, c.specialization_limit);
        falls_back(f, &c, &f->limit_warned);
        return NULL;
    }
    td_spec *s = td__spec_make(f, args, sizes);
    if (!s && falls_back(f, &c, &warned)) s = make_eager_spec(f, args, &c);
    if (!s) return NULL;
    s->next = f->specs;
    f->n_specs++;
    return f->specs = s;
}

/* The specialization that the call fits, moved to the front of the list; NULL: none, or
 * td__fail. */
static td_spec *find(td_fn *f, td_values args) {
    for (td_spec **at = &f->specs; *at; at = &(*at)->next) {
        td_spec *s = *at;
        if (!fits(f, s, args)) continue;
        *at = s->next;
        s->next = f->specs;
        return f->specs = s;
    }
    return NULL;
}

/* Finds or compiles one for l->args. NULL: as for add_spec. */
static td_spec *find_or_add(td_fn *f, td_lifted *l) {
    if (!td__lifted_make(f, l)) return NULL;
    td_spec *s = find(f, l->args);
    return s || !td_ok(f->cx) ? s : add_spec(f, l->args, NULL);
}

/* The specialization for l->given; sets l->args to what it is called with. Numbers that
 * changed become inputs of its code, unless that fails. NULL: as for add_spec. */
static td_spec *pick(td_fn *f, td_lifted *l) {
    td_spec *s = td__lifted_make(f, l) ? find(f, l->args) : NULL;
    if (s || !td_ok(f->cx)) return s;
    td__log_mismatch(f, l->args);
    if (f->specs) (void)td__numbers_learn(f, l->given);
    s = td_ok(f->cx) ? find_or_add(f, l) : NULL;
    if (s || td_ok(f->cx) || !l->n_lifted || f->loaded ||
        td__error(f->cx) == TD_E_MEMORY)
        return s;
    td__numbers_forbid(f, l);
    s = find_or_add(f, l);
    td__numbers_decide(f, s != NULL);
    return s;
}

/* pick, with fake tensors among the arguments: compiling makes real tensors too. */
static td_spec *pick_for_fakes(td_fn *f, td_lifted *l) {
    uint8_t was = f->cx->takes_fakes;
    f->cx->takes_fakes = TD_FAKES_INSIDE;
    td_spec *s = pick(f, l);
    f->cx->takes_fakes = was;
    return s;
}

bool td__fn_prepare(td_fn *f, td_values args) {
    td_lifted l = {.given = args, .args = args};
    if (check_args(f, args, false)) (void)pick_for_fakes(f, &l);
    td__lifted_end(&l);
    return td_ok(f->cx);
}

/* Anomaly mode checks the gradients of every op of a backward, also of one inside the
 * body. Compiled code has no such ops, so the body runs eagerly then. */
static bool must_check(const td_fn *f, const td_spec *s) {
    return f->cx->anomaly && s->differentiates && !f->graph;
}

/* Runs s. Returns the number of results, -1 after td__fail. */
static int call_spec(td_fn *f, td_spec *s, const td_lifted *l, bool *own, td_value *out,
                     int n_out) {
    td_values args = l->args;
    if (!s || !s->plan || must_check(f, s)) return run_eager(f, l->given, out, n_out);
    bool fakes = f->cx->takes_fakes == TD_FAKES_SCOPE;
    if (!fakes && !td__spec_recheck(f, s, args)) return -1;
    int      n = td__graph_results(td__spec_program(f, s));
    int      n_all = s->plan->j->n_results; /* gradients that are left, too */
    td_value few[16], *all = few;
    if (n_all > TD_COUNT(few) && !(all = td__alloc(sizeof *all * (size_t)n_all)))
        return td__fail_memory(f->cx), -1;
    if (s->plan->checks_sizes) own = NULL; /* other code may have to run */
    bool ok = td__spec_call(f, s, args, own, all);
    for (int i = 0; i < n_out; i++) out[i] = ok && i < n ? all[i] : TD_NONE;
    if (all != few) td__free(all);
    return ok ? n : -1;
}

/* The code of s has found a size that depends on values to be another than it was made
 * for, before it wrote anything. Gives the next specialization that fits, or, after the
 * last, one for the sizes of this call: then *made. NULL after td__fail. */
static td_spec *next_spec(td_fn *f, const td_spec *s, td_values args, bool *made) {
    td_dim_list sizes = {0};
    td_spec    *to = NULL;
    for (td_spec *at = s->next; at; at = at->next)
        if (fits(f, at, args)) return td_clear(f->cx), at;
    *made = td__spec_measure(f, s, args, &sizes);
    if (*made) to = add_spec(f, args, &sizes);
    td__vec_free(&sizes);
    return to;
}

/* Runs the call compiled, or eagerly where there is no compiled code. Code that met
 * another size than it was made for has had no effect yet, and other code is tried;
 * except where the code writes inputs itself (keep_mutations). Returns the number of
 * results, -1 after td__fail. */
static int call(td_fn *f, td_values args, bool *own, td_value *out, int n_out) {
    uint64_t  offset = f->cx->rng_offset;
    td_lifted l;
    l.given = l.args = args;
    l.heap = NULL;
    l.n_lifted = 0;
    bool     fine = check_args(f, args, !f->inner);
    td_spec *s = !fine                             ? NULL
                 : TD_UNLIKELY(f->cx->takes_fakes) ? pick_for_fakes(f, &l)
                                                   : pick(f, &l);
    int      n = td_ok(f->cx) ? call_spec(f, s, &l, own, out, n_out) : -1;
    bool     made = false;
    while (n < 0 && f->cx->other_size && s && !made &&
           !(s->plan && s->plan->n_inside)) {
        f->cx->rng_offset = offset;
        if ((s = next_spec(f, s, l.args, &made)))
            n = call_spec(f, s, &l, own, out, n_out);
    }
    td__lifted_end(&l);
    return n;
}

/* A captured body may call its own function; each such call runs the body. Calls
 * nested deeper than this would exhaust the stack. */
enum { DEEPEST_CALL = 100 };

/* While a body is captured, calls of its own function run the body. Recursion that
 * does not end would exhaust the stack, so its depth is limited. */
static bool recursion_ends(const td_fn *f) {
    return !f->cx->fake || f->calls <= DEEPEST_CALL ||
           td__fail(f->cx, TD_E_TRACE,
                    "%s: the body calls its own function, %d calls deep; a recursion "
                    "must end during the capture, for example by a number that counts "
                    "down. Call another function, or write a loop",
                    f->name, DEEPEST_CALL);
}

int td__fn_call(td_fn *f, td_values args, bool *own, td_value *out, int n_out) {
    if (!is_intercepted(f)) return call(f, args, own, out, n_out);
    return recursion_ends(f) ? run_eager(f, args, out, n_out) : -1;
}

/* Are f, its context, the argument list and the result array usable? False after
 * td__fail. */
static bool may_call(td_fn *f, td_values args, const void *out, int n_out,
                     const char *who) {
    return td__enter(f, TD_H_FN, who) && td_ok(f->cx) &&
           td__has_list(f->cx, who, args.v, args.n) &&
           td__has_room(f->cx, who, out, n_out);
}

/* Backends, passes and hooks of the user run during a call, so it counts as a callback:
 * they cannot close the context, and may drop the function. */
int td_invoke_values(td_fn *f, td_values args, td_value *out, int n_out) {
    if (!may_call(f, args, out, n_out, "td_invoke_values")) {
        td__nil_values(td__ctx_of_any(f), out, n_out);
        return -1;
    }
    td_callback b; /* backends and passes are the user's, too */
    int         n;
    f->calls++; /* the code may drop the function */
    td__callback_begin(&b, f->cx);
    n = f->state ? td__state_call(f, args, NULL, out, n_out)
                 : td__fn_call(f, args, NULL, out, n_out);
    td__callback_end(&b);
    if (n < 0) td__nil_values(f->cx, out, n_out);
    td__fn_leave(f);
    return n;
}

/* More results asked for than the body returned is an error; fewer are allowed. */
bool td__fn_check_results(const td_fn *f, const char *who, int n, int n_out) {
    return n >= n_out ||
           td__fail(f->cx, TD_E_ARG,
                    "%s: n_out is %d, but @%s returned %d result%s; the body returns "
                    "results with td_return",
                    who, n_out, f->name, n, n == 1 ? "" : "s");
}

/* Results that are numbers are an error here (td_invoke_values returns those). After a
 * failure all of out is nil. */
bool td_invoke(td_fn *f, td_values args, td_tensor **out, int n_out) {
    if (!may_call(f, args, out, n_out, "td_invoke")) {
        td__nil_tensors(td__ctx_of_any(f), out, n_out);
        return false;
    }
    td_value few[16], *v = few;
    if (n_out > TD_COUNT(few) && !(v = td__alloc(sizeof *v * (size_t)n_out))) {
        td__nil_tensors(f->cx, out, n_out);
        return td__fail_memory(f->cx);
    }
    int  n = td_invoke_values(f, args, v, n_out);
    bool ok = n >= 0 && td__fn_check_results(f, "td_invoke", n, n_out);
    for (int i = 0; i < n_out; i++)
        out[i] = ok && v[i].kind == TD_K_TENSOR && v[i].u.t ? v[i].u.t : td_nil(f->cx);
    if (v != few) td__free(v);
    return ok;
}
