/* case_parse.c -- parses and prints cases: statements that build inputs, call
 * functions and run backward. A case has its values and op calls in a graph of
 * its own; names may be redefined. */
#include "graph/parser.h"

/* ---- steps -------------------------------------------------------------- */

bool td__parse_add_step(td_parser *ps, td_gstep step) {
    return td__vec_push(&ps->body->in_case->steps, step) ||
           (ps->lx.failed = true, td__fail_memory(ps->lx.cx));
}

/* Adds n new values with these names as results of step s. */
static bool add_values(td_parser *ps, td_gstep *s, const char *const *names, int n) {
    td_graph *g = ps->body->g;
    s->n_out = n;
    s->out = td__arena_alloc(&g->arena, sizeof *s->out * (size_t)(n ? n : 1));
    if (!s->out) return ps->lx.failed = true, td__fail_memory(ps->lx.cx);
    for (int i = 0; i < n; i++) {
        s->out[i] = td__graph_input(g, NULL, NULL, TD_PLAIN_DESC);
        if (!s->out[i]) return ps->lx.failed = true, false;
        if (!td__parse_name(ps, s->out[i], names[i])) return false;
    }
    return true;
}

/* `%x = tensor([...])` in a case: a constant of the case's graph, copied for each
 * run. */
static bool step_tensor(td_parser *ps, const td_results *r) {
    td_pbody  *b = ps->body;
    td_tensor *t;
    b->step = (td_gstep){.kind = TD_STEP_TENSOR, .line = ps->lx.tok.line, .n_out = 1};
    td__lex_next(&ps->lx);
    if (!td__parse_literal(ps, &t)) return false;
    td_gval *v = td__graph_const(b->g, NULL, t);
    td__unref(t);
    b->step.konst = b->g->consts.n - 1;
    b->step.out = td__arena_alloc(&b->g->arena, sizeof *b->step.out);
    if (!v || !b->step.out) return ps->lx.failed = true, td__fail_memory(ps->lx.cx);
    b->step.out[0] = v;
    return td__parse_name(ps, v, r->names.v[0]) && td__parse_add_step(ps, b->step);
}

static const char *parse_string(td_parser *ps) {
    if (ps->lx.tok.kind != TD_TOK_STRING)
        return td__lex_fail(&ps->lx, "expected a string"), NULL;
    const char *s = td__lex_text(&ps->lx, &ps->body->g->arena);
    td__lex_next(&ps->lx);
    return ps->lx.failed ? NULL : s;
}

/* load("file.safetensors", "name") or load("file.npy") */
static bool step_load(td_parser *ps, const td_results *r) {
    td_lexer *lx = &ps->lx;
    td_gstep *s = &ps->body->step;
    bool      done;
    *s = (td_gstep){.kind = TD_STEP_LOAD, .line = lx->tok.line};
    td__lex_next(lx);
    if (!td__lex_need(lx, "(") || !(s->path = parse_string(ps))) return false;
    while (td__lex_take(lx, ",")) {
        done = false;
        if (!td__parse_step_option(ps, &done)) return false;
        if (!done && !(s->name = parse_string(ps))) return false;
    }
    return td__lex_need(lx, ")") && add_values(ps, s, r->names.v, 1) &&
           td__parse_add_step(ps, *s);
}

/* (args) of call @f(args). */
static bool parse_call_args(td_parser *ps, td_gstep *s) {
    td_lexer *lx = &ps->lx;
    TD_VEC(td_garg) args = {0};
    bool ok = td__lex_need(lx, "(");
    while (ok && !td__lex_is(lx, ")")) {
        td_garg a = {0};
        ok = td__parse_arg(ps, &a) &&
             (td__vec_push(&args, a) || (lx->failed = true, td__fail_memory(lx->cx)));
        if (!td__lex_take(lx, ",")) break;
    }
    ok = ok && td__lex_need(lx, ")");
    if (ok) {
        size_t n = sizeof *s->args * (size_t)(args.n ? args.n : 1);
        s->args = td__arena_alloc(&ps->body->g->arena, n);
        if (!s->args) ok = td__fail_memory(lx->cx);
        else if (args.n) memcpy(s->args, args.v, sizeof *s->args * (size_t)args.n);
        s->n_args = args.n;
    }
    td__vec_free(&args);
    return ok;
}

/* Inputs that a call passes: neither consts nor .grad of others. */
static int open_inputs(const td_graph *g) {
    int n = 0;
    for (int i = 0; i < g->inputs.n; i++)
        n += !td__is_const_input(g, i) && g->in_desc.v[i].kind != TD_D_OWN_GRAD;
    return n;
}

/* Results of a call. With grads=true the .grad of each argument follows; a
 * rehearsal (compile without running) has none. */
static int n_results(const td_gstep *s) {
    if (s->rehearse) return 0;
    return td__graph_results(s->fn) + (s->grads ? s->n_args : 0);
}

/* Names a call's results: as given, or %out.0, %out.1... */
static bool name_outputs(td_parser *ps, td_gstep *s, const td_results *r) {
    TD_VEC(const char *) names = {0};
    const char *base = r->more ? r->names.v[0] : "out";
    bool        ok = true;
    for (int i = 0; ok && i < n_results(s); i++) {
        const char *name =
            r->names.n && !r->more
                ? r->names.v[i]
                : td__arena_printf(&ps->body->g->arena, "%s.%d", base, i);
        ok = name && td__vec_push(&names, name);
    }
    if (!ok) ps->lx.failed = true, td__fail_memory(ps->lx.cx);
    ok = ok && add_values(ps, s, names.v, names.n);
    td__vec_free(&names);
    return ok;
}

/* `%y = call @f(...)`. The function must be defined before the case. Arguments and
 * results are counted, constants of the function are not. */
static bool step_call(td_parser *ps, const td_results *r) {
    td_lexer *lx = &ps->lx;
    td_gstep  s = {.kind = TD_STEP_CALL, .line = lx->tok.line};
    td__lex_next(lx);
    td_token    at = lx->tok;
    const char *name = td__lex_name(lx, &ps->body->g->arena);
    if (!name) return td__lex_fail(lx, "expected the name of a function: call @f(...)");
    s.fn = td__gfile_find(ps->file, name);
    if (!s.fn)
        return td__lex_fail_at(lx, &at,
                               "function @%.60s is not defined before this case", name);
    if (!parse_call_args(ps, &s) || !td__parse_options(ps, &s)) return false;
    if (s.n_args != open_inputs(s.fn))
        return td__lex_fail_at(lx, &at, "@%.60s takes %d arguments, got %d", name,
                               open_inputs(s.fn), s.n_args);
    if (r->names.n && !r->more && r->names.n != n_results(&s))
        return td__lex_fail_at(lx, &at, "@%.60s has %d results, but %d names are given",
                               name, n_results(&s), r->names.n);
    return name_outputs(ps, &s, r) && td__parse_add_step(ps, s);
}

typedef TD_VEC(td_garg) garg_vec;

/* `%a, %b`, perhaps none. */
static bool read_values(td_parser *ps, garg_vec *to) {
    td_lexer *lx = &ps->lx;
    while (lx->tok.kind == TD_TOK_VALUE) {
        td_gval *v = td__parse_read(ps);
        if (!v) return false;
        if (!td__vec_push(to, td__garg_value(v)))
            return lx->failed = true, td__fail_memory(lx->cx);
        if (!td__lex_take(lx, ",")) break;
    }
    return true;
}

/* `%a, %b with %t, %u`: roots, and a tangent for each or none at all. */
static bool read_roots(td_parser *ps, td_gstep *s, garg_vec *to) {
    td_lexer *lx = &ps->lx;
    if (!read_values(ps, to)) return false;
    s->n_roots = to->n;
    td_token at = lx->tok;
    if (!td__lex_word(lx, "with")) return true;
    td__lex_next(lx);
    if (!read_values(ps, to)) return false;
    return to->n == 2 * s->n_roots ||
           td__lex_fail_at(lx, &at, "%d values have %d tangents; name one for each",
                           s->n_roots, to->n - s->n_roots);
}

/* `backward %a, %b with %t, %u option=...`; without values, from all outputs of the
 * last call that require grad. */
static bool step_backward(td_parser *ps) {
    td_lexer *lx = &ps->lx;
    td_gstep  s = {.kind = TD_STEP_BACKWARD, .line = lx->tok.line};
    garg_vec  args = {0};
    td__lex_next(lx);
    bool ok = read_roots(ps, &s, &args) && td__parse_options(ps, &s);
    if (ok && args.n) {
        s.n_args = args.n;
        s.args = td__arena_alloc(&ps->body->g->arena, sizeof *s.args * (size_t)args.n);
        ok = s.args || (lx->failed = true, td__fail_memory(lx->cx));
        if (ok) memcpy(s.args, args.v, sizeof *s.args * (size_t)args.n);
    }
    td__vec_free(&args);
    return ok && td__parse_add_step(ps, s);
}

/* %g = grad %x: the .grad of %x after the backwards so far. */
static bool step_grad(td_parser *ps, const td_results *r) {
    td_lexer *lx = &ps->lx;
    td_gstep  s = {.kind = TD_STEP_GRAD, .line = lx->tok.line, .n_args = 1};
    td__lex_next(lx);
    td_gval *v = td__parse_read(ps);
    if (!v) return false;
    s.args = td__arena_alloc(&ps->body->g->arena, sizeof *s.args);
    if (!s.args) return lx->failed = true, td__fail_memory(lx->cx);
    s.args[0] = td__garg_value(v);
    return add_values(ps, &s, r->names.v, 1) && td__parse_add_step(ps, s);
}

/* A statement that only cases have. *done is false for the others, which are ordinary
 * ops. */
bool td__parse_case_step(td_parser *ps, const td_results *r, bool *done) {
    td_lexer *lx = &ps->lx;
    bool      one = r->names.n == 1 && !r->more;
    *done = true;
    if (td__lex_word(lx, "call")) return step_call(ps, r);
    if (td__lex_word(lx, "backward") && r->names.n == 0) return step_backward(ps);
    bool tensor = td__lex_word(lx, "tensor"), load = td__lex_word(lx, "load");
    bool grad = td__lex_word(lx, "grad");
    if ((tensor || load || grad) && !one)
        return td__lex_fail(lx, "tensor, load and grad need one name before =");
    if (tensor) return step_tensor(ps, r);
    if (load) return step_load(ps, r);
    if (grad) return step_grad(ps, r);
    *done = false;
    return true;
}

/* ---- cases -------------------------------------------------------------- */

static bool parse_steps(td_parser *ps) {
    td_lexer *lx = &ps->lx;
    if (!td__lex_need(lx, "{")) return false;
    if (lx->tok.kind == TD_TOK_LINE) td__lex_next(lx);
    while (!td__lex_is(lx, "}") || ps->body->regions)
        if (!td__parse_statement(ps)) return false;
    return td__body_finish(ps) && td__lex_need(lx, "}");
}

/* A case is a list of steps. Its graph has the values and constants of the steps; the
 * ops are executed one by one, eagerly. */
bool td__parse_case(td_parser *ps) {
    td_lexer *lx = &ps->lx;
    td_gfile *f = ps->file;
    td_pbody  body;
    td_gcase *c = td__arena_zalloc(&f->arena, sizeof *c);
    if (!c || !td__vec_reserve(&f->cases))
        return lx->failed = true, td__fail_memory(lx->cx);
    c->line = lx->tok.line;
    ps->defined.n = 0;
    td__lex_next(lx);
    if (lx->tok.kind != TD_TOK_STRING)
        return td__lex_fail(lx, "expected the name of a case: case \"...\" {");
    if (!(c->name = td__lex_text(lx, &f->arena))) return false;
    td__lex_next(lx);
    if (!td__body_begin(ps, &body, "case")) return td__graph_drop(body.g), false;
    body.in_case = c;
    c->g = body.g;
    f->cases.v[f->cases.n++] = c; /* from here on the file frees it */
    bool ok = parse_steps(ps);
    td__body_end(ps, &body, NULL);
    return ok && td__parse_line_end(ps);
}

/* ---- printing ----------------------------------------------------------- */

static void print_names(td_buf *b, const td_labels *l, td_gval *const *v, int n) {
    for (int i = 0; i < n; i++) {
        td__buf_add(b, i ? ", %" : "%");
        td__buf_add(b, l->name[v[i]->id]);
    }
    if (n) td__buf_add(b, " = ");
}

static void print_args(td_buf *b, const td_labels *l, const td_gstep *s) {
    for (int i = 0; i < s->n_args; i++) {
        if (i) td__buf_add(b, i == s->n_roots ? " with " : ", ");
        td__text_arg(b, l, &s->args[i], 0);
    }
}

/* A call with the options inside its parentheses. */
static void print_build(td_buf *b, const td_labels *l, const td_gstep *s) {
    td__text_node(b, l, s->node, 0);
    if (b->failed || (!s->seeded && !s->requires_grad)) return;
    b->n--;
    td__text_options(b, s, s->node->n_in ? ", " : "");
    td__buf_add(b, ")");
}

/* With explicit dtype and sizes, so that it parses back to the same tensor. */
static void print_literal(td_buf *b, const td_labels *l, const td_gstep *s) {
    td_tensor *t = l->g->consts.v[s->konst];
    td__buf_add(b, "tensor([");
    td__text_elements(b, t);
    td__buf_printf(b, "], %s, [", td_dtype_name((td_dtype)t->dtype));
    for (int d = 0; d < t->rank; d++)
        td__buf_printf(b, d ? ",%lld" : "%lld", (long long)t->size[d]);
    td__buf_add(b, "]");
    td__text_options(b, s, ", ");
    td__buf_add(b, ")");
}

/* One statement of a case, as step_... parses it. */
static void print_step(td_buf *b, const td_labels *l, const td_gstep *s) {
    print_names(b, l, s->out, s->n_out);
    switch ((td_gstep_kind)s->kind) {
    case TD_STEP_NODE: print_build(b, l, s); break;
    case TD_STEP_TENSOR: print_literal(b, l, s); break;
    case TD_STEP_LOAD:
        td__buf_add(b, "load(");
        td__text_string(b, s->path);
        if (s->name) {
            td__buf_add(b, ", ");
            td__text_string(b, s->name);
        }
        td__text_options(b, s, ", ");
        td__buf_add(b, ")");
        break;
    case TD_STEP_CALL:
        td__buf_add(b, "call ");
        td__text_name(b, s->fn->name);
        td__buf_add(b, "(");
        print_args(b, l, s);
        td__buf_add(b, ")");
        td__text_options(b, s, " ");
        break;
    case TD_STEP_GRAD:
        td__buf_add(b, "grad ");
        print_args(b, l, s);
        break;
    case TD_STEP_BACKWARD:
        td__buf_add(b, s->n_args ? "backward " : "backward");
        print_args(b, l, s);
        td__text_options(b, s, " ");
        break;
    }
}

/* Regions indent; the indentation stops growing at 32 columns. */
static void print_case(td_buf *b, const td_gcase *c) {
    td_labels l;
    int       indent = 2;
    if (!td__labels_make(&l, c->g, TD_PRINT_TYPES)) {
        b->failed = true;
        return;
    }
    td__buf_add(b, "case ");
    td__text_string(b, c->name);
    td__buf_add(b, " {\n");
    for (int i = 0; i < c->steps.n; i++) {
        const td_gstep *s = &c->steps.v[i];
        const td_gnode *edge = s->kind == TD_STEP_NODE ? s->node : NULL;
        if (edge && edge->kind == TD_N_LEAVE) indent -= 2;
        td__buf_printf(b, "%*s", indent > 32 ? 32 : indent, "");
        if (edge && edge->kind == TD_N_LEAVE) td__buf_add(b, "}");
        else if (edge && edge->kind == TD_N_ENTER)
            td__buf_printf(b, "%s {", td__region_words[edge->region]), indent += 2;
        else print_step(b, &l, s);
        td__buf_add(b, "\n");
    }
    td__buf_add(b, "}\n");
    td__labels_free(&l);
}

/* Functions, then cases: a case may call any function of the file. */
bool td__gfile_print(td_buf *b, const td_gfile *f, unsigned how) {
    for (int i = 0; i < f->graphs.n; i++) {
        if (i) td__buf_add(b, "\n");
        if (!td__graph_print(b, f->graphs.v[i], how)) return false;
    }
    for (int i = 0; i < f->cases.n; i++) {
        if (i || f->graphs.n) td__buf_add(b, "\n");
        print_case(b, f->cases.v[i]);
    }
    return !b->failed || td__fail_memory(f->cx);
}
