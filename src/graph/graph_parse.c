/* graph_parse.c -- parses files of the text form (docs/text-format.md):
 * functions here, cases in case_parse.c. The first error ends it, with file,
 * line and column. Only nested functions recurse, up to a limit; memory is
 * proportional to the text. */
#include "graph/parser.h"

#include "core/files.h"

#include <stdlib.h>

/* ---- bodies ------------------------------------------------------------- */

bool td__body_begin(td_parser *ps, td_pbody *b, const char *name) {
    *b = (td_pbody){0};
    b->g = td__graph_make(ps->lx.cx, name);
    if (b->g) b->file = td__place_file(b->g->cx, ps->lx.file);
    ps->body = b;
    if (!b->file) ps->lx.failed = true;
    return b->file != NULL;
}

static int by_number(const void *x, const void *y) {
    int32_t a = (*(td_gtype *const *)x)->storage, b = (*(td_gtype *const *)y)->storage;
    return (a > b) - (a < b);
}

/* Replaces the storage numbers of the text by consecutive ones. */
static void number_storages(td_pbody *b) {
    int32_t last = -1, next = -1;
    if (b->shared.n)
        qsort(b->shared.v, (size_t)b->shared.n, sizeof *b->shared.v, by_number);
    for (int i = 0; i < b->shared.n; i++) {
        td_gtype *l = b->shared.v[i];
        if (l->storage != last) next++;
        last = l->storage;
        l->storage = next;
    }
    b->g->n_storages = next + 1;
}

bool td__body_finish(td_parser *ps) {
    if (ps->body->regions)
        return td__lex_fail(&ps->lx, "%d regions are not closed; } is missing",
                            ps->body->regions);
    number_storages(ps->body);
    if (!ps->body->in_case) td__graph_pack(ps->body->g);
    return !ps->lx.failed;
}

void td__body_end(td_parser *ps, td_pbody *b, td_pbody *outer) {
    td__map_free(&b->names);
    td__map_free(&b->lists);
    td__vec_free(&b->shared);
    ps->body = outer;
}

/* ---- functions ---------------------------------------------------------- */

static bool parse_param(td_parser *ps) {
    td_lexer       *lx = &ps->lx;
    td_graph       *g = ps->body->g;
    const td_gtype *type = NULL;
    if (lx->tok.kind != TD_TOK_VALUE || lx->tok.more)
        return td__lex_fail(lx, "expected a parameter: %%x: f32[2,3]");
    td_token    at = lx->tok;
    const char *name = td__lex_text(lx, &g->arena);
    if (!name) return false;
    if (td__map_get(&ps->body->names, name))
        return td__lex_fail_at(lx, &at,
                               "%%%.60s is defined already; a value is defined once",
                               name);
    td__lex_next(lx);
    if (td__lex_take(lx, ":") && !td__parse_type(ps, &type)) return false;
    td_desc d = td__parse_desc(ps);
    if (lx->failed) return false;
    if (d.kind == TD_D_CONST) d.index = -1; /* passed by the caller, not a literal */
    td_gval *v = td__graph_input(g, NULL, type, d);
    if (!v) return lx->failed = true, false;
    return td__parse_name(ps, v, name);
}

static bool parse_return(td_parser *ps) {
    td_lexer *lx = &ps->lx;
    td__lex_next(lx);
    while (lx->tok.kind != TD_TOK_LINE && !td__lex_is(lx, "}")) {
        td_garg a = {0};
        if (!td__parse_arg(ps, &a)) return false;
        td_desc d = td__parse_desc(ps);
        if (lx->failed) return false;
        if (!td__graph_output(ps->body->g, a, d)) return lx->failed = true, false;
        if (!td__lex_take(lx, ",")) break;
    }
    return td__parse_line_end(ps);
}

/* `leaves no_grad`: the grad mode that holds after the function. */
static bool parse_leaves(td_parser *ps) {
    td_lexer *lx = &ps->lx;
    td__lex_next(lx);
    for (int r = 0; td__region_is_grad((td_gregion)r); r++) {
        if (!td__lex_word(lx, td__region_words[r])) continue;
        ps->body->g->left = (uint8_t)(1 + r);
        td__lex_next(lx);
        return td__parse_line_end(ps);
    }
    return td__lex_fail(lx, "expected a grad mode: leaves no_grad");
}

static bool parse_rel(td_lexer *lx, uint8_t *rel) {
    for (int r = 0; r < TD_DIM_RELS; r++) {
        const char first[2] = {td__rel_signs[r][0], 0};
        const char then[2] = {td__rel_signs[r][1], 0};
        if (!td__lex_is(lx, first) || (then[0] && td__lex_peek(lx) != then[0]))
            continue;
        *rel = (uint8_t)r;
        td__lex_next(lx);
        return !then[0] || td__lex_need(lx, then);
    }
    return td__lex_fail(lx, "expected ==, <>, < or >=");
}

/* `given s0 >= 2, s1 == 16`: facts about symbolic sizes. */
static bool parse_given(td_parser *ps) {
    td_graph *g = ps->body->g;
    td__lex_next(&ps->lx);
    do {
        td_gfact f = {0};
        if (!td__parse_dim(ps, &f.a) || !parse_rel(&ps->lx, &f.rel) ||
            !td__parse_dim(ps, &f.b))
            return false;
        if (!td__vec_push(&g->facts, f))
            return ps->lx.failed = true, td__fail_memory(g->cx);
    } while (td__lex_take(&ps->lx, ","));
    return td__parse_line_end(ps);
}

/* Is it a declaration about the function rather than a statement? */
static bool is_declaration(const td_lexer *lx) {
    return td__lex_word(lx, "leaves") || td__lex_word(lx, "given");
}

static bool parse_declaration(td_parser *ps) {
    return td__lex_word(&ps->lx, "leaves") ? parse_leaves(ps) : parse_given(ps);
}

/* (params) { statements; return ... } */
static bool parse_body(td_parser *ps) {
    td_lexer *lx = &ps->lx;
    if (!td__lex_need(lx, "(")) return false;
    while (!td__lex_is(lx, ")"))
        if (!parse_param(ps) || (!td__lex_take(lx, ",") && !td__lex_is(lx, ")")))
            return td__lex_need(lx, ")"), false;
    if (!td__lex_need(lx, ")")) return false;
    int outer = lx->nest;
    lx->nest = 0; /* line ends count in a body, even inside an argument list */
    if (!td__lex_need(lx, "{")) return false;
    if (lx->tok.kind == TD_TOK_LINE) td__lex_next(lx);
    while (!td__lex_word(lx, "return"))
        if (is_declaration(lx) ? !parse_declaration(ps) : !td__parse_statement(ps))
            return false;
    if (!parse_return(ps) || !td__body_finish(ps)) return false;
    lx->nest = outer;
    return td__lex_need(lx, "}");
}

/* A function as an argument. It has names of its own: ps->body is exchanged while it is
 * parsed. The nested graph is owned by the outer one. */
bool td__parse_nested(td_parser *ps, td_garg *a) {
    td_pbody *outer = ps->body, inner = {0};
    if (ps->deep >= TD_NEST_LIMIT)
        return td__lex_fail(&ps->lx, "functions are nested more than %d levels deep",
                            TD_NEST_LIMIT);
    ps->deep++;
    td__lex_next(&ps->lx);
    const char *name = "nested";
    if (ps->lx.tok.kind == TD_TOK_AT) name = td__lex_name(&ps->lx, &outer->g->arena);
    if (!name) td__lex_fail(&ps->lx, "expected a function's name: func @f(...)");
    bool ok = name && td__body_begin(ps, &inner, name) && parse_body(ps);
    td__body_end(ps, &inner, outer);
    ps->deep--;
    if (!ok) td__graph_drop(inner.g);
    if (!ok || !td__graph_own(outer->g, inner.g)) return ps->lx.failed = true, false;
    *a = (td_garg){TD_G_GRAPH, 0, {0}};
    a->u.g = inner.g;
    if (td__vec_push(&ps->defined, inner.g)) return true;
    return ps->lx.failed = true, td__fail_memory(ps->lx.cx);
}

/* @f: the last nested function of that name that is complete. Its owner is part of the
 * function being read. */
bool td__parse_defined(td_parser *ps, td_garg *a) {
    td_token    at = ps->lx.tok;
    const char *name = td__lex_name(&ps->lx, &ps->body->g->arena);
    if (!name) return td__lex_fail(&ps->lx, "expected the name of a nested function");
    for (int i = ps->defined.n - 1; i >= 0; i--) {
        td_graph *g = ps->defined.v[i];
        if (strcmp(g->name, name) != 0) continue;
        *a = (td_garg){TD_G_GRAPH, 0, {0}};
        a->u.g = g;
        td__graph_keep(g);
        return td__graph_own(ps->body->g, g) || !(ps->lx.failed = true);
    }
    return td__lex_fail_at(&ps->lx, &at,
                           "no nested function @%.60s before this; define it at its "
                           "first use: func @%.60s(...) {...}",
                           name, name);
}

/* A function of the file. Names must be unique; the graph belongs to the file from here
 * on. */
static bool parse_func(td_parser *ps) {
    td_lexer *lx = &ps->lx;
    td_pbody  body;
    td__lex_next(lx);
    td_token    at = lx->tok;
    const char *name = td__lex_name(lx, &ps->file->arena);
    if (!name)
        return td__lex_fail(lx, "expected a function's name: func @f(...), or "
                                "func @\"any text\"(...)");
    if (td__gfile_find(ps->file, name))
        return td__lex_fail_at(lx, &at, "function @%.60s is defined already", name);
    ps->defined.n = 0;
    bool ok = td__body_begin(ps, &body, name) && parse_body(ps);
    td__body_end(ps, &body, NULL);
    td_gfile *f = ps->file;
    if (ok && !(td__vec_reserve(&f->graphs) && td__map_put(&f->by_name, name, body.g)))
        ok = td__fail_memory(lx->cx);
    if (ok) f->graphs.v[f->graphs.n++] = body.g;
    else td__graph_drop(body.g);
    return ok && td__parse_line_end(ps);
}

/* ---- files -------------------------------------------------------------- */

/* A file is a sequence of functions and cases. */
static bool parse_all(td_parser *ps) {
    td_lexer *lx = &ps->lx;
    while (!lx->failed && lx->tok.kind != TD_TOK_END) {
        bool ok = false;
        if (lx->tok.kind == TD_TOK_LINE) td__lex_next(lx), ok = true;
        else if (td__lex_word(lx, "func")) ok = parse_func(ps);
        else if (td__lex_word(lx, "case")) ok = td__parse_case(ps);
        else td__lex_fail(lx, "expected func or case");
        if (!ok) return false;
    }
    return !lx->failed;
}

/* Errors name file, line and column. The file name lives as long as the context,
 * because source lines of nodes refer to it. */
td_gfile *td__gfile_parse(td_ctx *cx, const char *text, size_t n, const char *name) {
    td_gfile *f = td__handle_make(cx, TD_H_GFILE, sizeof *f);
    if (!f) return NULL;
    f->name = td__place_file(cx, name);
    if (f->name) {
        td_parser ps = {.file = f};
        td__lex_begin(&ps.lx, cx, text, n, f->name);
        bool ok = parse_all(&ps);
        td__vec_free(&ps.defined);
        if (ok) return f;
    } else td__fail_memory(cx);
    td__gfile_drop(f);
    return NULL;
}

td_gfile *td__gfile_read(td_ctx *cx, const char *path) {
    td_mapping *m = td__mapping_open(cx, "td_graphs_read", path);
    if (!m) return NULL;
    td_gfile *f = td__gfile_parse(cx, (const char *)m->bytes, m->n, path);
    td__mapping_drop(m);
    return f;
}

td_graph *td__gfile_find(const td_gfile *f, const char *name) {
    return td__map_get(&f->by_name, name);
}

void td__gfile_drop(td_gfile *f) {
    if (!f) return;
    td__handle_disown(f);
    for (int i = 0; i < f->graphs.n; i++) td__graph_drop(f->graphs.v[i]);
    for (int i = 0; i < f->cases.n; i++) {
        td__graph_drop(f->cases.v[i]->g);
        td__vec_free(&f->cases.v[i]->steps);
    }
    td__vec_free(&f->graphs);
    td__vec_free(&f->cases);
    td__map_free(&f->by_name);
    td__arena_free(&f->arena);
    td__handle_free(f, TD_H_GFILE);
}
