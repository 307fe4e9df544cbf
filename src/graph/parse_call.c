/* parse_call.c -- parses statements: op calls with their results, regions,
 * tensor literals. */
#include "core/device.h"
#include "graph/parser.h"

/* By td_arg_type: what an argument must be, for messages. */
static const char *const type_words[] = {
    "a tensor",
    "a tensor or none",
    "a list of tensors",
    "a list of tensors",
    "a tensor or a number",
    "a number",
    "a number or none",
    "an integer",
    "an integer or none",
    "a list of integers",
    "a list of integers or none",
    "a number",
    "a number or none",
    "true or false",
    "a dtype",
    "a dtype or none",
    "a string",
    "a function",
};

/* A statement ends at the end of its line, of its block or of the file. */
bool td__parse_line_end(td_parser *ps) {
    td_lexer *lx = &ps->lx;
    if (lx->failed) return false;
    if (lx->tok.kind == TD_TOK_LINE) {
        td__lex_next(lx);
        return !lx->failed;
    }
    if (lx->tok.kind == TD_TOK_END || td__lex_is(lx, "}")) return true;
    return td__lex_fail(lx, "expected the end of the line");
}

/* ---- results ------------------------------------------------------------ */

/* The names before `=`. `%name...` takes all results of an op, however many there
 * are. */
bool td__parse_results(td_parser *ps, td_results *r) {
    td_lexer *lx = &ps->lx;
    if (lx->tok.kind != TD_TOK_VALUE) return true;
    do {
        if (lx->tok.kind != TD_TOK_VALUE || r->more)
            return td__lex_fail(lx, r->more ? "%%name... must be the only name before ="
                                            : "expected a value name after the comma");
        const char *name = td__lex_text(lx, &ps->body->g->arena);
        if (!name || !td__vec_push(&r->names, name))
            return lx->failed = true, td__fail_memory(lx->cx);
        if (!ps->body->in_case && td__map_get(&ps->body->names, name))
            return td__lex_fail(lx,
                                "%%%.60s is defined already; a value is defined once",
                                name);
        r->more = lx->tok.more;
        if (r->more && r->names.n > 1)
            return td__lex_fail(lx, "%%name... must be the only name before =");
        td__lex_next(lx);
    } while (td__lex_take(lx, ","));
    return td__lex_need(lx, "=");
}

/* Values are defined once; only statements of cases may define a name anew. */
bool td__parse_name(td_parser *ps, td_gval *v, const char *name) {
    v->name = name;
    if (!ps->body->in_case && td__map_get(&ps->body->names, name))
        return td__lex_fail(&ps->lx,
                            "%%%.60s is defined already; a value is defined once",
                            name);
    if (td__map_put(&ps->body->names, name, v)) return true;
    return ps->lx.failed = true, td__fail_memory(ps->lx.cx);
}

/* Gives a node's results the names before =. */
static bool name_results(td_parser *ps, td_gnode *n, const td_results *r) {
    for (int i = 0; i < r->names.n && !r->more; i++)
        if (!td__parse_name(ps, n->out[i], r->names.v[i])) return false;
    if (!r->more) return true;
    td_open_list *open = td__arena_zalloc(&ps->body->g->arena, sizeof *open);
    if (!open || !td__map_put(&ps->body->lists, r->names.v[0], open))
        return ps->lx.failed = true, td__fail_memory(ps->lx.cx);
    open->node = n;
    return true;
}

/* ---- arguments ---------------------------------------------------------- */

static int find_param(const td_schema *s, const td_token *t) {
    for (int i = 0; i < s->n_in; i++)
        if (strlen(s->in[i].name) == t->n && !memcmp(s->in[i].name, t->text, t->n))
            return i;
    return -1;
}

/* Reads `name=` and returns the parameter's index; -1 after an error; s->n_in:
 * it was an option of a case's statement, already read. */
static int parse_keyword(td_parser *ps, const td_schema *s) {
    td_lexer *lx = &ps->lx;
    td_token  at = lx->tok;
    int       i = find_param(s, &at);
    bool      done = false;
    if (i < 0 && ps->body->in_case && !td__parse_step_option(ps, &done)) return -1;
    if (done) return s->n_in;
    if (i < 0) {
        td__lex_fail(lx, "%s has no argument %.*s", s->name,
                     (int)(at.n > 40 ? 40 : at.n), at.text);
        return -1;
    }
    td__lex_next(lx);
    return td__lex_need(lx, "=") ? i : -1;
}

static bool read_into(td_parser *ps, const td_schema *s, int i, td_garg *in) {
    td_token at = ps->lx.tok;
    if (!td__parse_arg(ps, in)) return false;
    if (td__garg_fit(&s->in[i], in)) return true;
    return td__lex_fail_at(&ps->lx, &at, "%s: argument %s must be %s", s->name,
                           s->in[i].name, type_words[s->in[i].type]);
}

/* Reads one argument. *at is the next position; -1 once keywords have begun. */
static bool parse_one(td_parser *ps, const td_schema *s, td_garg *in, bool *given,
                      int *at) {
    td_lexer *lx = &ps->lx;
    int       i = *at;
    if (lx->tok.kind == TD_TOK_WORD && td__lex_peek(lx) == '=') {
        *at = -1;
        if ((i = parse_keyword(ps, s)) < 0) return false;
        if (i == s->n_in) return true;
    } else if (*at < 0) {
        return td__lex_fail(lx,
                            "%s: a positional argument comes after a keyword argument",
                            s->name);
    } else if (i >= s->n_in) {
        return td__lex_fail(lx, "%s takes %d arguments", s->name, s->n_in);
    } else *at = i + 1;
    if (given[i])
        return td__lex_fail(lx, "%s: argument %s is given twice", s->name,
                            s->in[i].name);
    given[i] = true;
    return read_into(ps, s, i, &in[i]);
}

/* Reads (a, b, name=c) into in[], in schema order. Returns the number of
 * arguments up to the last one given; -1 after an error. */
static int parse_args(td_parser *ps, const td_schema *s, td_garg *in) {
    td_lexer *lx = &ps->lx;
    bool      given[TD_MAX_ARGS] = {false};
    int       at = 0, n = 0;
    if (!td__lex_need(lx, "(")) return -1;
    while (!td__lex_is(lx, ")")) {
        if (!parse_one(ps, s, in, given, &at)) return -1;
        if (!td__lex_take(lx, ",")) break;
    }
    for (int i = 0; i < s->n_in && !lx->failed; i++) {
        if (given[i]) n = i + 1;
        else if (!s->in[i].has_default)
            td__lex_fail(lx, "%s: argument %s is missing", s->name, s->in[i].name);
    }
    return td__lex_need(lx, ")") ? n : -1;
}

/* ---- what follows a call ------------------------------------------------ */

/* Types of the results; list: the node gets as many results as there are types. */
static bool parse_types(td_parser *ps, td_gnode *n, bool list) {
    td_lexer *lx = &ps->lx;
    bool      group = td__lex_take(lx, "(");
    int       i = 0, cap = n->n_out;
    do {
        const td_gtype *type = NULL;
        if (td__lex_word(lx, "_")) td__lex_next(lx);
        else if (!td__parse_type(ps, &type)) return false;
        if (i >= n->n_out && list && !td__graph_result(ps->body->g, n, &cap))
            return lx->failed = true, false;
        if (i >= n->n_out)
            return td__lex_fail(lx, "the call has %d types for %d results", i + 1,
                                n->n_out);
        n->out[i++]->type = type;
    } while (group && td__lex_take(lx, ","));
    if (group && !td__lex_need(lx, ")")) return false;
    return i == n->n_out ||
           td__lex_fail(lx, "the call has %d types for %d results", i, n->n_out);
}

/* "file":line */
static bool parse_where(td_parser *ps, td_where *to) {
    td_lexer *lx = &ps->lx;
    int64_t   line;
    if (lx->tok.kind != TD_TOK_STRING)
        return td__lex_fail(lx, "expected a source location: \"file\":line");
    to->file = td__place_file(lx->cx, td__lex_text(lx, &ps->body->g->arena));
    if (!to->file) return lx->failed = true, false;
    td__lex_next(lx);
    if (!td__lex_need(lx, ":") || !td__parse_integer(ps, &line)) return false;
    if (line < 0 || line > INT32_MAX)
        return td__lex_fail(lx, "the line number is out of range");
    to->line = (int)line;
    return true;
}

/* A source location @"file":line behind a statement, as td_graph_format prints it with
 * places, and the calls around it: < "file":line < "file":line. */
static bool parse_place(td_parser *ps, td_gnode *n) {
    td_lexer *lx = &ps->lx;
    td_where  at[TD_STACK_MOST];
    int       calls = 0;
    td__lex_next(lx);
    if (!parse_where(ps, &n->here)) return false;
    while (td__lex_take(lx, "<")) {
        if (calls == TD_STACK_MOST)
            return td__lex_fail(lx, "a source location has at most %d calls around it",
                                TD_STACK_MOST);
        if (!parse_where(ps, &at[calls++])) return false;
    }
    while (calls > 0) n->stack = td__place_in(at[--calls], n->stack);
    return true;
}

/* `must_recompute 3`: the policy that checkpoint region 3 sets for the node. */
static bool parse_policy(td_parser *ps, td_gnode *n) {
    td_lexer *lx = &ps->lx;
    for (int p = TD_MUST_SAVE; p <= TD_MUST_OFFLOAD; p++) {
        int64_t region;
        if (!td__lex_word(lx, td__policy_words[p])) continue;
        td__lex_next(lx);
        if (!td__parse_integer(ps, &region)) return false;
        if (region < 0 || region >= 1 << 24)
            return td__lex_fail(lx, "a checkpoint region is a number below 2^24");
        n->tags = TD_TAG(p, region);
        break;
    }
    return !lx->failed;
}

/* Types, origin, policy, source location and scope label of a call. */
static bool parse_tail(td_parser *ps, td_gnode *n, bool list) {
    td_lexer *lx = &ps->lx;
    if (td__lex_take(lx, ":") && !parse_types(ps, n, list)) return false;
    bool again = td__lex_word(lx, "again");
    if (again || td__lex_word(lx, "backward")) {
        n->origin = again ? TD_FROM_AGAIN : TD_FROM_BACKWARD;
        td__lex_next(lx);
    }
    if (!parse_policy(ps, n)) return false;
    if (lx->tok.kind == TD_TOK_AT && lx->tok.n == 0 && !parse_place(ps, n))
        return false;
    if (!td__lex_word(lx, "in")) return !lx->failed;
    td__lex_next(lx);
    if (lx->tok.kind != TD_TOK_STRING)
        return td__lex_fail(lx, "a scope is a string: in \"model/attn\"");
    n->scope = td__lex_text(lx, &ps->body->g->arena);
    td__lex_next(lx);
    return !lx->failed;
}

/* ---- calls -------------------------------------------------------------- */

/* Reads an op's name; an unknown one gets the nearest known name in the message. */
static td_op parse_op(td_parser *ps) {
    td_lexer *lx = &ps->lx;
    char      name[64];
    if (lx->tok.kind != TD_TOK_WORD)
        return td__lex_fail(lx,
                            "expected a statement: %%x = op(...), op(...), return..."),
               TD_OP_COUNT;
    size_t n = lx->tok.n < sizeof name ? lx->tok.n : sizeof name - 1;
    memcpy(name, lx->tok.text, n);
    name[n] = 0;
    td_op       op = td__op_find(name);
    const char *near = op == TD_OP_COUNT ? td__op_near(name) : NULL;
    if (near) td__lex_fail(lx, "no op \"%s\"; did you mean %s?", name, near);
    else if (op == TD_OP_COUNT)
        td__lex_fail(lx, "no op \"%s\"; `tandem ops` lists the ops", name);
    if (op == TD_OP_COUNT) return op;
    td__lex_next(lx);
    return op;
}

/* How many results the node gets; -1 after an error. */
static int count_results(td_parser *ps, const td_schema *s, const td_results *r) {
    bool list = s->n_out == 1 && s->out[0].type == TD_T_TENSORS;
    if (r->more && !list)
        return td__lex_fail(&ps->lx,
                            "%s does not return a list; write %%a, %%b = instead of "
                            "%%a... =",
                            s->name),
               -1;
    if (r->more) return 0;
    if (list) return r->names.n;
    if (r->names.n == s->n_out || r->names.n == 0) return s->n_out;
    td__lex_fail(&ps->lx, "%s has %d results, but %d names are given", s->name,
                 s->n_out, r->names.n);
    return -1;
}

bool td__parse_call(td_parser *ps, const td_results *r, td_gnode **out) {
    td_garg   in[TD_MAX_ARGS] = {{0}};
    td_graph *g = ps->body->g;
    int       line = ps->lx.tok.line;
    td_op     op = parse_op(ps);
    if (op == TD_OP_COUNT) return false;
    const td_schema *s = &td__opinfo(op)->s;
    int              n_in = parse_args(ps, s, in);
    int              n_out = n_in < 0 ? -1 : count_results(ps, s, r);
    if (n_out < 0) return false;
    td_gnode *n = td__graph_op(g, op, in, n_in, n_out);
    if (!n) return ps->lx.failed = true, false;
    n->here = (td_where){ps->body->file, line};
    *out = n;
    bool list = s->n_out == 1 && s->out[0].type == TD_T_TENSORS && r->names.n == 0;
    return parse_tail(ps, n, list) && name_results(ps, n, r);
}

/* ---- statements --------------------------------------------------------- */

static bool parse_region(td_parser *ps, bool *done) {
    td_lexer *lx = &ps->lx;
    for (int r = 0; r < TD_R_COUNT; r++) {
        if (!td__lex_word(lx, td__region_words[r]) || td__lex_peek(lx) != '{') continue;
        *done = true;
        td__lex_next(lx);
        if (!td__lex_need(lx, "{")) return false;
        if (!td__graph_enter(ps->body->g, (td_gregion)r))
            return lx->failed = true, false;
        ps->body->regions++;
        if (lx->tok.kind == TD_TOK_LINE) td__lex_next(lx);
        break;
    }
    return !lx->failed;
}

/* The type of a literal, which must agree with its elements; it only adds @N and a
 * device. */
static bool parse_const_type(td_parser *ps, td_gval *v) {
    const td_gtype *was = v->type, *l;
    td_token        at = ps->lx.tok;
    if (!td__lex_take(&ps->lx, ":")) return true;
    if (!td__parse_type(ps, &l)) return false;
    if (l->kind != TD_K_TENSOR || l->dtype != was->dtype || l->rank != was->rank ||
        !l->dense || l->offset != 0 || l->grad ||
        memcmp(l->size, was->size, sizeof *l->size * l->rank))
        return td__lex_fail_at(&ps->lx, &at, "the literal has another type than this");
    v->type = l;
    return true;
}

/* %c = tensor([...], f32): a constant of the function. */
static bool parse_const(td_parser *ps, const td_results *r) {
    td_tensor *t;
    td_token   at = ps->lx.tok;
    td__lex_next(&ps->lx);
    if (r->names.n != 1 || r->more)
        return td__lex_fail_at(&ps->lx, &at, "tensor(...) needs one name before =");
    if (!td__parse_literal(ps, &t)) return false;
    td_gval *v = td__graph_const(ps->body->g, NULL, t);
    td__unref(t);
    if (!v) return ps->lx.failed = true, false;
    if (!parse_const_type(ps, v)) return false;
    if (!td__storage_move(ps->lx.cx, t->st, v->type->device))
        return ps->lx.failed = true, false;
    return td__parse_name(ps, v, r->names.v[0]);
}

/* In a case, the region edge just added is a step of its own. */
static bool last_edge(td_parser *ps) {
    td_gstep step = {.kind = TD_STEP_NODE, .line = ps->lx.tok.line};
    step.node = ps->body->g->nodes.v[ps->body->g->nodes.n - 1];
    return !ps->body->in_case || td__parse_add_step(ps, step);
}

static bool statement(td_parser *ps, const td_results *r) {
    td_lexer *lx = &ps->lx;
    bool      done = false;
    if (r->names.n == 0 && !parse_region(ps, &done)) return false;
    if (done) return last_edge(ps);
    if (ps->body->in_case && !td__parse_case_step(ps, r, &done)) return false;
    if (done) return td__parse_line_end(ps);
    if (td__lex_word(lx, "tensor")) return parse_const(ps, r) && td__parse_line_end(ps);
    td_gnode *n;
    ps->body->step = (td_gstep){.kind = TD_STEP_NODE, .line = lx->tok.line};
    if (!td__parse_call(ps, r, &n)) return false;
    ps->body->step.node = n;
    if (ps->body->in_case && !td__parse_add_step(ps, ps->body->step)) return false;
    return td__parse_line_end(ps);
}

bool td__parse_statement(td_parser *ps) {
    td_results r = {0};
    if (td__lex_is(&ps->lx, "}")) {
        if (ps->body->regions == 0)
            return td__lex_fail(&ps->lx, "unexpected }: no region is open");
        ps->body->regions--;
        if (!td__graph_leave(ps->body->g) || !last_edge(ps))
            return ps->lx.failed = true, false;
        td__lex_next(&ps->lx);
        return td__parse_line_end(ps);
    }
    bool ok = td__parse_results(ps, &r) && statement(ps, &r);
    td__vec_free(&r.names);
    return ok;
}
