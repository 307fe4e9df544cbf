/* captured_program.c -- td_program: a captured body as users hold it. It owns the graph
 * and remembers the arguments it was captured for; td_program_run checks that a
 * call's arguments fit before it replays the graph. */
#include "trace/sym_args.h"

#include <string.h>

struct td_program {
    TD_OWNED_FIELDS;
    td_graph      *g;        /* owned */
    int            n_args;   /* arguments of the body, tensors and others */
    td_value      *args;     /* numbers as captured; absent ones; tensors are NULL */
    td_guard_prog *guards;   /* guards on symbolic sizes; NULL: sizes are numbers */
    char          *text;     /* the guards as text */
    int            autocast; /* autocast state at capture (td__autocast_state) */
};

static void end(void *object) {
    td_program *p = object;
    td__graph_drop(p->g);
    td__guards_drop(p->guards);
    td__free(p->text);
    td__free(p->args);
    td__handle_free(p, TD_H_PROGRAM);
}

void td_program_drop(td_program *p) {
    if (!TD_MAY_FREE(p, PROGRAM)) return;
    td__handle_disown(p);
    end(p);
}

/* ---- capturing ---------------------------------------------------------- */

/* A program without a graph that remembers args; NULL after td__fail. */
static td_program *make(td_ctx *cx, td_values args) {
    td_program *p = td__handle_make(cx, TD_H_PROGRAM, sizeof *p);
    td_value   *v = p ? td__alloc(sizeof *v * ((size_t)args.n + 1)) : NULL;
    if (!v) {
        td__handle_free(p, TD_H_PROGRAM);
        td__fail_memory(cx);
        return NULL;
    }
    for (int i = 0; i < args.n; i++) {
        v[i] = args.v[i];
        if (v[i].kind != TD_K_TENSOR) continue;
        v[i] = v[i].u.t ? td_value_tensor(NULL) : TD_NONE;
    }
    p->n_args = args.n;
    p->args = v;
    return td__handle_own(p, end);
}

/* Compiles the trace's guards and keeps their text. */
static bool take_guards(td_program *p, td_symenv *e) {
    td_buf b = {0};
    td__guards_print(e, &b);
    p->text = b.s;
    if (b.failed) return td__fail_memory(e->cx);
    return (p->guards = td__guards_compile(e)) != NULL;
}

/* Captures with symbolic sizes. The symbol environment lives only during the
 * capture: the graph and the compiled guards have copies of its expressions. */
static bool capture_symbolic(td_program *p, td_ctx *cx, td_body *body, void *env,
                             td_values args, td_symplan plan) {
    td_symenv *e = td__symenv_make(cx);
    td_symargs a;
    if (!e) return false;
    td__symenv_begin(e);
    if (td__symargs_make(&a, e, args, plan))
        p->g = td__capture_closing(cx, body, env, (td_values){a.v, args.n},
                                   &(td_closure){.fakes = &a.fakes});
    td__symargs_drop(&a);
    bool ok = p->g && take_guards(p, e);
    td__symenv_end(e);
    td__symenv_drop(e);
    return ok;
}

td_program *td_capture_with(td_ctx *cx, td_body *body, void *env, td_values args,
                            const td_capture_opts *opts) {
    static const char who[] = "td_capture";
    td_capture_opts   o;
    if (!TD_ENTER_CTX(cx) || !td_ok(cx) || !td__has(cx, who, "the body", body) ||
        !td__has_args(cx, who, args) ||
        !td__opts_take(cx, "td_capture_with", &o, sizeof o, opts, "TD_CAPTURE_OPTS"))
        return TD_NIL(cx, PROGRAM);
    td_program *p = make(cx, args);
    if (!p) return TD_NIL(cx, PROGRAM);
    td_symplan plan = {.dynamic = o.dynamic, .no_duck = o.no_duck};
    if (o.dynamic) capture_symbolic(p, cx, body, env, args, plan);
    else p->g = td__capture(cx, body, env, args);
    p->autocast = td__autocast_state(&cx->ambient);
    if (p->g && td_ok(cx)) return p;
    td_program_drop(p);
    return TD_NIL(cx, PROGRAM);
}

td_program *td_capture(td_ctx *cx, td_body *body, void *env, td_values args) {
    return td_capture_with(cx, body, env, args, NULL);
}

int td_program_results(const td_program *p) {
    if (!TD_ENTER(p, PROGRAM)) return 0;
    return td__graph_results(p->g);
}

size_t td_program_text(const td_program *p, char *out, size_t cap) {
    if (!TD_ENTER(p, PROGRAM)) return td__text_out("", 0, out, cap);
    td_buf b = {0};
    size_t n = td__graph_print(&b, p->g, TD_PRINT_TYPES) ? b.n : 0;
    td__text_out(td__buf_str(&b), n, out, cap);
    td__buf_free(&b);
    return n;
}

size_t td_program_guards(const td_program *p, char *out, size_t cap) {
    if (!TD_ENTER(p, PROGRAM)) return td__text_out("", 0, out, cap);
    const char *s = p->text ? p->text : "";
    return td__text_out(s, strlen(s), out, cap);
}

/* ---- running ------------------------------------------------------------ */

/* Does t have the type the program was captured for? With guards, they compare
 * the sizes and strides, which may be symbolic. */
static bool has_type(const td_program *p, const td_tensor *t, const td_gtype *l) {
    td_geom g = td__geom_of(t);
    if (l->dtype != t->dtype || l->rank != t->rank || l->grad != td__needs_grad(t))
        return false;
    return p->guards || (td__sizes_identical(&l->geom, &g) &&
                         td__dims_identical(l->stride, t->stride, t->rank));
}

/* Argument i as an input of the graph; *at counts inputs. */
static bool take_arg(td_program *p, td_value v, int i, td_value *in, int *at) {
    td_ctx  *cx = p->g->cx;
    td_value was = p->args[i];
    if (v.kind == TD_K_TENSOR && !v.u.t) v = TD_NONE;
    if (was.kind == TD_K_TENSOR) {
        const td_gtype *l = p->g->inputs.v[*at]->type;
        if (v.kind != TD_K_TENSOR || td_is_nil(v.u.t) || v.u.t->cx != cx)
            return td__fail(cx, TD_E_ARG,
                            "td_program_run: argument %d must be a tensor of this "
                            "context, as at capture",
                            i);
        if (!has_type(p, v.u.t, l))
            return td__fail(cx, TD_E_ARG,
                            "td_program_run: argument %d is %s; it was captured for "
                            "%s with %d dims and differs in dtype, sizes, strides or "
                            "requires_grad. Capture the body for these arguments",
                            i, td__type_str(v.u.t), td_dtype_name((td_dtype)l->dtype),
                            l->rank);
        in[(*at)++] = v;
        return true;
    }
    bool same = v.kind == was.kind &&
                (v.kind == TD_K_NONE || !memcmp(&v.u.i, &was.u.i, sizeof v.u.i));
    return same || td__fail(cx, TD_E_ARG,
                            "td_program_run: argument %d is not the number it was at "
                            "capture; numbers are constants of a program. Capture the "
                            "body for this number, or pass it as a tensor",
                            i);
}

/* The tensor of input i: an argument (i < n) or one the body closes over. NULL
 * for an <own_grad> input. */
static const td_tensor *tensor_of(const td_graph *g, const td_value *in, int n, int i) {
    const td_desc *d = &g->in_desc.v[i];
    if (i < n) return in[i].u.t;
    return d->kind == TD_D_CONST && d->index >= 0 ? g->consts.v[d->index] : NULL;
}

/* Fails unless the same inputs share storage as at capture: what a write does
 * to the other inputs depends on it. */
static bool same_sharing(td_program *p, const td_value *in, int n) {
    td_graph *g = p->g;
    td_ptrmap first = {0}; /* by bytes and by storage number: the first input */
    bool      ok = true;
    for (int i = 0; i < g->inputs.n && ok; i++) {
        const td_tensor *t = tensor_of(g, in, n, i);
        if (!t) continue;
        const void *bytes = t->st->data ? t->st->data : (const void *)t->st;
        const void *type = &g->inputs.v[g->inputs.v[i]->type->storage];
        td_gval    *a = td__ptrmap_get(&first, bytes);
        td_gval    *b = td__ptrmap_get(&first, type);
        if (a != b)
            ok = td__fail(g->cx, TD_E_ARG,
                          "td_program_run: tensor %d%s %s storage with another one, "
                          "unlike at capture; capture the body for these arguments",
                          i, i < n ? "" : ", which the body closes over,",
                          a ? "shares" : "does not share");
        else if (!a)
            ok = (td__ptrmap_put(&first, bytes, g->inputs.v[i]) &&
                  td__ptrmap_put(&first, type, g->inputs.v[i])) ||
                 td__fail_memory(g->cx);
    }
    td__ptrmap_free(&first);
    return ok;
}

/* Checks the arguments, fills in[] and replays. */
static bool run(td_program *p, td_values args, td_value *in, td_value *out) {
    int at = 0;
    for (int i = 0; i < args.n; i++)
        if (!take_arg(p, args.v[i], i, in, &at)) return false;
    return same_sharing(p, in, at) &&
           (!p->guards || td__guards_hold(p->guards, p->g, in)) &&
           td__program_replay(p->g, in, out);
}

/* The casts of an autocast region are nodes of the program, so autocast must be
 * on as at capture, and is switched off while the program runs. */
static bool run_as_captured(td_program *p, td_values args, td_value *in,
                            td_value *out) {
    td_ctx *cx = p->g->cx;
    if (p->autocast != td__autocast_state(&cx->ambient))
        return td__fail(cx, TD_E_ARG,
                        "td_program_run: the program was captured with autocast %s and "
                        "autocast is %s now; capture it again",
                        p->autocast ? "on" : "off",
                        !td_autocast_enabled(cx) ? "off"
                        : p->autocast            ? "of another dtype"
                                                 : "on");
    if (!p->autocast) return run(p, args, in, out);
    td_autocast_mode was = td_autocast_off_begin(cx);
    bool             ok = run(p, args, in, out);
    td_autocast_end(cx, was);
    return ok;
}

/* Runs the captured graph under the modes of the caller. Grad mode and autocast must be
 * as at capture. Results beyond those of the program are absent. */
bool td_program_run(td_program *p, td_values args, td_value *out, int n_out) {
    static const char who[] = "td_program_run";
    if (!TD_ENTER(p, PROGRAM) || !td__has_list(p->cx, who, args.v, args.n) ||
        !td__has_room(p->cx, who, out, n_out)) {
        td__nil_values(td__ctx_of_any(p), out, n_out);
        return false;
    }
    const td_graph *g = p->g;
    td_ctx         *cx = g->cx;
    int             n_res = td__graph_results(g);
    size_t          n = (size_t)(g->inputs.n + g->outputs.n + 1);
    td_value       *in = td__zalloc(sizeof *in * n);
    bool            ok = false;
    if (!in) td__fail_memory(cx);
    else if (args.n != p->n_args)
        td__fail(cx, TD_E_ARG, "td_program_run: got %d arguments; the program takes %d",
                 args.n, p->n_args);
    else ok = run_as_captured(p, args, in, in + g->inputs.n);
    for (int i = 0; i < n_out; i++)
        out[i] = ok && i < n_res ? in[g->inputs.n + i]
                 : ok            ? TD_NONE
                                 : td_value_tensor(td_nil(cx));
    td__free(in);
    return ok;
}
