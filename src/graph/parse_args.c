/* parse_args.c -- parses symbolic sizes, types, descriptors and arguments. */
#include "core/device.h"
#include "graph/parser.h"

#include <math.h>
#include <stdio.h>

enum {
    DIM_NEST = 64
}; /* nesting of size expressions, over which the parser recurses */

/* ---- numbers ------------------------------------------------------------ */

static bool signed_int(td_parser *ps, bool minus, int64_t *i) {
    uint64_t m = ps->lx.tok.i;
    if (!minus && m > INT64_MAX)
        return td__lex_fail(&ps->lx, "the integer does not fit 64 bits");
    *i = minus ? (int64_t)(0 - m) : (int64_t)m;
    td__lex_next(&ps->lx);
    return !ps->lx.failed;
}

bool td__parse_integer(td_parser *ps, int64_t *i) {
    bool minus = td__lex_take(&ps->lx, "-");
    if (ps->lx.tok.kind != TD_TOK_INT)
        return td__lex_fail(&ps->lx, "expected an integer");
    return signed_int(ps, minus, i);
}

bool td__parse_bool(td_parser *ps, bool *on) {
    *on = td__lex_word(&ps->lx, "true");
    if (!*on && !td__lex_word(&ps->lx, "false"))
        return td__lex_fail(&ps->lx, "expected true or false");
    td__lex_next(&ps->lx);
    return !ps->lx.failed;
}

/* ---- sizes -------------------------------------------------------------- */

static bool parse_sum(td_parser *ps, int64_t *dim, int deep);

/* s0 or u12 */
static bool is_symbol(const td_token *t) {
    if (t->kind != TD_TOK_WORD || t->n < 2 || t->n > 9) return false;
    if (t->text[0] != 's' && t->text[0] != 'u') return false;
    for (size_t i = 1; i < t->n; i++)
        if (t->text[i] < '0' || t->text[i] > '9') return false;
    return t->n == 2 || t->text[1] != '0';
}

/* A symbol such as s0 (backed by an input's size) or u0 (depends on values); the lexer
 * has bounded its digits. */
static bool parse_symbol(td_parser *ps, int64_t *dim) {
    const td_token *t = &ps->lx.tok;
    int32_t         nr = 0;
    for (size_t i = 1; i < t->n; i++) nr = nr * 10 + (t->text[i] - '0');
    *dim = td__gdim_symbol(ps->body->g, t->text[0], nr);
    if (*dim == TD_DIM_HUGE) return ps->lx.failed = true, false;
    td__lex_next(&ps->lx);
    return !ps->lx.failed;
}

/* *a = *a op b, with divisor and depth checked. */
static bool combine(td_parser *ps, td_dim_op op, int64_t *a, int64_t b) {
    const td_gdim *da = td__gdim_at(ps->body->g, *a), *db = td__gdim_at(ps->body->g, b);
    if ((op == TD_DIM_DIV || op == TD_DIM_MOD) && !db && b <= 0)
        return td__lex_fail(&ps->lx,
                            "a size is divided by a number that is not positive");
    if ((da && da->depth > DIM_NEST) || (db && db->depth > DIM_NEST))
        return td__lex_fail(&ps->lx, "a size expression is nested too deeply");
    *a = td__gdim_make(ps->body->g, op, *a, b);
    if (td_ok(ps->lx.cx)) return true;
    return ps->lx.failed = true, false;
}

static bool parse_extreme(td_parser *ps, int64_t *dim, int deep) {
    td_dim_op op = td__lex_word(&ps->lx, "min") ? TD_DIM_MIN : TD_DIM_MAX;
    int64_t   b;
    td__lex_next(&ps->lx);
    return td__lex_need(&ps->lx, "(") && parse_sum(ps, dim, deep + 1) &&
           td__lex_need(&ps->lx, ",") && parse_sum(ps, &b, deep + 1) &&
           td__lex_need(&ps->lx, ")") && combine(ps, op, dim, b);
}

/* A number, symbol, min(...), max(...) or parenthesis, each with an optional minus. */
static bool parse_atom(td_parser *ps, int64_t *dim, int deep) {
    td_lexer *lx = &ps->lx;
    if (deep > DIM_NEST)
        return td__lex_fail(lx, "a size expression is nested too deeply");
    if (is_symbol(&lx->tok)) return parse_symbol(ps, dim);
    if (td__lex_word(lx, "min") || td__lex_word(lx, "max"))
        return parse_extreme(ps, dim, deep);
    if (td__lex_take(lx, "("))
        return parse_sum(ps, dim, deep + 1) && td__lex_need(lx, ")");
    bool     minus = td__lex_take(lx, "-");
    td_token at = lx->tok;
    if (lx->tok.kind != TD_TOK_INT && minus) {
        int64_t x;
        *dim = 0;
        return parse_atom(ps, &x, deep + 1) && combine(ps, TD_DIM_SUB, dim, x);
    }
    if (lx->tok.kind != TD_TOK_INT)
        return td__lex_fail(lx, "expected an integer or a symbol such as s0");
    if (!signed_int(ps, minus, dim)) return false;
    if (td__dim_is_sym(*dim)) return td__lex_fail_at(lx, &at, "a size is below -2^62");
    return true;
}

/* *, // and % bind more tightly than + and -, and associate to the left. */
static bool parse_product(td_parser *ps, int64_t *dim, int deep) {
    int64_t b;
    if (!parse_atom(ps, dim, deep)) return false;
    for (;;) {
        td_dim_op op = td__lex_is(&ps->lx, "*")    ? TD_DIM_MUL
                       : td__lex_is(&ps->lx, "//") ? TD_DIM_DIV
                       : td__lex_is(&ps->lx, "%")  ? TD_DIM_MOD
                                                   : TD_DIM_EQ;
        if (op == TD_DIM_EQ) return !ps->lx.failed;
        td__lex_next(&ps->lx);
        if (!parse_atom(ps, &b, deep) || !combine(ps, op, dim, b)) return false;
    }
}

static bool parse_sum(td_parser *ps, int64_t *dim, int deep) {
    int64_t b;
    if (!parse_product(ps, dim, deep)) return false;
    for (;;) {
        td_dim_op op = td__lex_is(&ps->lx, "+")   ? TD_DIM_ADD
                       : td__lex_is(&ps->lx, "-") ? TD_DIM_SUB
                                                  : TD_DIM_EQ;
        if (op == TD_DIM_EQ) return !ps->lx.failed;
        td__lex_next(&ps->lx);
        if (!parse_product(ps, &b, deep) || !combine(ps, op, dim, b)) return false;
    }
}

bool td__parse_dim(td_parser *ps, int64_t *dim) { return parse_sum(ps, dim, 0); }

/* ---- types -------------------------------------------------------------- */

/* Sizes separated by commas, up to `close`. */
static bool parse_dims(td_parser *ps, const char *close, int64_t *v, int *n) {
    *n = 0;
    if (td__lex_take(&ps->lx, close)) return true;
    do {
        if (*n == TD_MAX_RANK)
            return td__lex_fail(&ps->lx, "a tensor has at most %d dims", TD_MAX_RANK);
        if (!td__parse_dim(ps, &v[(*n)++])) return false;
    } while (td__lex_take(&ps->lx, ","));
    return td__lex_need(&ps->lx, close);
}

/* ` of name("metadata", type, type)`: what a tensor of a type consists of. */
static bool parse_typed(td_parser *ps, td_gtype *l) {
    td_lexer *lx = &ps->lx;
    td_arena *a = &ps->body->g->arena;
    if (!td__lex_word(lx, "of")) return true;
    td__lex_next(lx);
    td_token       at = lx->tok;
    const char    *name = lx->tok.kind == TD_TOK_WORD ? td__lex_text(lx, a) : NULL;
    const td_type *type = name ? td__type_find(name) : NULL;
    if (!type && name)
        return td__lex_fail(lx,
                            "no type %.60s is registered in this process "
                            "(td_register_type)",
                            name);
    if (!type) return td__lex_fail(lx, "expected a type: f32[2] of pair(\"\", ...)");
    int        n = type->opts.n_inner;
    td_gtyped *of = td__arena_zalloc(a, sizeof *of + sizeof(td_gtype *) * (size_t)n);
    if (!of) return lx->failed = true, td__fail_memory(lx->cx);
    of->name = name;
    td__lex_next(lx);
    if (ps->typed >= TD_TYPE_DEPTH)
        return td__lex_fail_at(lx, &at, "types are nested too deeply");
    if (!td__lex_need(lx, "(")) return false;
    if (lx->tok.kind != TD_TOK_STRING)
        return td__lex_fail(lx, "expected metadata: \"\"");
    if (!(of->metadata = td__lex_text(lx, a))) return false;
    td__lex_next(lx);
    ps->typed++;
    for (; of->n < n; of->n++)
        if (!td__lex_need(lx, ",") || !td__parse_type(ps, &of->inner[of->n]))
            return false;
    ps->typed--;
    l->of = of;
    return td__lex_need(lx, ")");
}

/* ` on cuda:0`: the device of a tensor, without it the default device. */
static bool parse_device(td_parser *ps, td_gtype *l) {
    td_lexer *lx = &ps->lx;
    char      text[32];
    td_device dev;
    l->device = lx->cx->device;
    if (!td__lex_word(lx, "on")) return true;
    td__lex_next(lx);
    td_token at = lx->tok;
    int      n = snprintf(text, sizeof text, "%.*s", (int)(at.n > 20 ? 20 : at.n),
                     at.kind == TD_TOK_WORD ? at.text : "");
    td__lex_next(lx);
    if (td__lex_take(lx, ":")) {
        snprintf(text + n, sizeof text - (size_t)n, ":%.*s",
                 (int)(lx->tok.n > 8 ? 8 : lx->tok.n), lx->tok.text);
        td__lex_next(lx);
    }
    if (!td_device_parse(text, &dev))
        return td__lex_fail_at(lx, &at, "expected a device: f32[2] on cuda:0");
    l->device = td__device_code(dev);
    return !lx->failed;
}

/* The end of a type: its device, `grad`, and @N for values that share a storage. */
static bool parse_flags(td_parser *ps, td_gtype *l) {
    td_lexer *lx = &ps->lx;
    if (!parse_typed(ps, l) || !parse_device(ps, l)) return false;
    if (td__lex_word(lx, "grad")) {
        l->grad = true;
        td__lex_next(lx);
    }
    const td_token *t = &lx->tok;
    if (t->kind != TD_TOK_AT || t->n == 0 || t->text[0] < '0' || t->text[0] > '9')
        return !lx->failed;
    int32_t nr = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (t->text[i] < '0' || t->text[i] > '9' || i >= 9)
            return td__lex_fail(lx, "a storage is @ and a number of at most 9 digits");
        nr = nr * 10 + (t->text[i] - '0');
    }
    l->storage = nr;
    td__lex_next(lx);
    return !lx->failed;
}

/* [sizes]{strides}+offset; strides may be omitted if row-major. */
static bool parse_geometry(td_parser *ps, td_gtype *l, int64_t *size, int64_t *stride) {
    td_lexer *lx = &ps->lx;
    td_token  at = lx->tok;
    int       rank, n;
    if (!td__lex_need(lx, "[") || !parse_dims(ps, "]", size, &rank)) return false;
    for (int d = 0; d < rank; d++)
        if (size[d] < 0 && !td__dim_is_sym(size[d]))
            return td__lex_fail_at(lx, &at, "a size is negative");
    l->rank = (uint8_t)rank;
    l->size = size;
    if (td__lex_take(lx, "{")) {
        if (!parse_dims(ps, "}", stride, &n)) return false;
        if (n != rank)
            return td__lex_fail_at(lx, &at, "the type has %d strides for %d sizes", n,
                                   rank);
        l->stride = stride;
    }
    if (td__lex_take(lx, "+") && !td__parse_dim(ps, &l->offset)) return false;
    if (l->offset < 0 && !td__dim_is_sym(l->offset))
        return td__lex_fail_at(lx, &at, "the offset is negative");
    return parse_flags(ps, l);
}

/* A tensor type f32[2,3]{3,1}+4 @0, or int, float, bool; `int=s1` is a number with a
 * symbolic value. Storage numbers in a text may have gaps: they are renumbered when the
 * function ends. */
bool td__parse_type(td_parser *ps, const td_gtype **type) {
    td_lexer *lx = &ps->lx;
    td_gtype  l = {.kind = TD_K_TENSOR, .storage = -1};
    int64_t   size[TD_MAX_RANK], stride[TD_MAX_RANK];
    if (lx->tok.kind != TD_TOK_WORD) return td__lex_fail(lx, "expected a type");
    td_kind number = td__lex_word(lx, "int")     ? TD_K_INT
                     : td__lex_word(lx, "float") ? TD_K_FLOAT
                                                 : TD_K_NONE;
    if (td__lex_word(lx, "bool") && td__lex_peek(lx) != '[') number = TD_K_BOOL;
    td_dtype dt = td__dtype_word(lx->tok.text, lx->tok.n);
    if (number == TD_K_NONE && dt == TD_DTYPE_NONE)
        return td__lex_fail(lx,
                            "unknown type \"%.*s\"; types are f32[2,3], int, bool...",
                            (int)(lx->tok.n > 40 ? 40 : lx->tok.n), lx->tok.text);
    td__lex_next(lx);
    if (number != TD_K_NONE) {
        l.kind = (uint8_t)number;
        if (number == TD_K_INT && td__lex_take(lx, "=") &&
            !td__parse_dim(ps, &l.offset))
            return false;
        if (!td__dim_is_sym(l.offset)) l.offset = 0; /* only symbols are recorded */
    } else {
        l.dtype = (uint8_t)dt;
        if (!parse_geometry(ps, &l, size, stride)) return false;
    }
    *type = td__graph_type_of(ps->body->g, l);
    if (!*type) return lx->failed = true, false;
    if (l.storage < 0) return true;
    td_gtype *mine =
        (td_gtype *)(uintptr_t)*type; /* not shared yet; renumbered at the end */
    return td__vec_push(&ps->body->shared, mine) ||
           (lx->failed = true, td__fail_memory(lx->cx));
}

/* A descriptor such as <tangent 0> or <param "w">; without one, a plain one. A mistake
 * is recorded in the lexer. */
td_desc td__parse_desc(td_parser *ps) {
    td_lexer *lx = &ps->lx;
    td_desc   d = TD_PLAIN_DESC;
    int64_t   index;
    if (!td__lex_take(lx, "<")) return d;
    int kind = 0;
    while (kind < TD_D_COUNT && !td__lex_word(lx, td__desc_words[kind])) kind++;
    if (kind == TD_D_COUNT) {
        td__lex_fail(lx, "expected a descriptor: param, buffer, tangent, update...");
        return d;
    }
    d.kind = (uint8_t)kind;
    td__lex_next(lx);
    if (lx->tok.kind == TD_TOK_INT && td__parse_integer(ps, &index)) {
        if (index > INT32_MAX) td__lex_fail(lx, "that index is too large");
        d.index = (int32_t)index;
    }
    if (lx->tok.kind == TD_TOK_STRING) {
        d.name = td__lex_text(lx, &ps->body->g->arena);
        td__lex_next(lx);
    }
    td__lex_need(lx, ">");
    return d;
}

/* ---- arguments ---------------------------------------------------------- */

/* %p.3 of `%p... = split(...)`: the result is added when it is first read.
 * NULL: no such list. */
static td_gval *open_result(td_parser *ps, const char *name) {
    td_pbody   *b = ps->body;
    const char *dot = strrchr(name, '.');
    char        base[80];
    if (!dot || dot == name || (size_t)(dot - name) >= sizeof base || !dot[1])
        return NULL;
    memcpy(base, name, (size_t)(dot - name));
    base[dot - name] = 0;
    td_open_list *open = td__map_get(&b->lists, base);
    int           nr = 0;
    for (const char *p = dot + 1; *p; p++) {
        if (*p < '0' || *p > '9' || nr > 99999) return NULL;
        nr = nr * 10 + (*p - '0');
    }
    if (!open || (dot[1] == '0' && dot[2])) return NULL;
    td_gnode *n = open->node;
    while (n->n_out <= nr) {
        td_gval *v = td__graph_result(b->g, n, &open->cap);
        char    *own =
            v ? td__arena_printf(&b->g->arena, "%s.%d", base, (int)v->nr) : NULL;
        if (!own) return td__fail_memory(ps->lx.cx), NULL;
        if (!td__parse_name(ps, v, own)) return NULL;
    }
    return n->out[nr];
}

/* A value by name. A result of a multi-result op may also be read as %name.1 where its
 * names were left open (%name...). */
td_gval *td__parse_read(td_parser *ps) {
    td_lexer   *lx = &ps->lx;
    td_token    at = lx->tok;
    td_arena    temp = {0};
    const char *name = td__lex_text(lx, &temp);
    td_gval    *v = name ? td__map_get(&ps->body->names, name) : NULL;
    if (!v && name) v = open_result(ps, name);
    if (!v && td_ok(lx->cx)) {
        int n = (int)(at.n > 60 ? 60 : at.n);
        td__lex_fail_at(lx, &at, "%%%.*s is not defined before this line", n, at.text);
    }
    td__arena_free(&temp);
    if (!v) return lx->failed = true, NULL;
    if (lx->tok.more)
        return td__lex_fail(lx, "%%name... is allowed only on the left of ="), NULL;
    td__lex_next(lx);
    return lx->failed ? NULL : v;
}

/* Makes a list argument in the graph's arena. */
static bool close_list(td_parser *ps, td_garg *a, const td_garg *v, int n, bool ints) {
    size_t item = ints ? sizeof(int64_t) : sizeof(td_garg), room_n = n ? (size_t)n : 1;
    void  *items = td__arena_alloc(&ps->body->g->arena, item * room_n);
    if (!items) return td__fail_memory(ps->lx.cx);
    *a = (td_garg){ints ? TD_G_INTS : TD_G_LIST, (uint32_t)n, {0}};
    if (ints) a->u.ints = items;
    else a->u.list = items;
    for (int i = 0; i < n; i++) {
        if (ints) ((int64_t *)items)[i] = v[i].u.i;
        else ((td_garg *)items)[i] = v[i];
    }
    return true;
}

/* A list: of integers if all entries are, else of arguments. */
static bool parse_list(td_parser *ps, td_garg *a) {
    TD_VEC(td_garg) items = {0};
    td_lexer *lx = &ps->lx;
    bool      ok = true, ints = true;
    while (ok && !td__lex_is(lx, "]")) {
        td_garg item = {0};
        if (td__lex_is(lx, "[")) ok = td__lex_fail(lx, "a list inside a list");
        ok = ok && td__parse_arg(ps, &item) &&
             (td__vec_push(&items, item) || td__fail_memory(lx->cx));
        ints &= item.kind == TD_G_INT || item.kind == TD_G_SYM;
        if (item.kind == TD_G_INT && td__dim_is_sym(item.u.i))
            ok = ok && td__lex_fail(lx, "an integer in a list is below -2^62");
        if (!td__lex_take(lx, ",")) break;
    }
    ok = ok && td__lex_need(lx, "]") && close_list(ps, a, items.v, items.n, ints);
    td__vec_free(&items);
    if (!ok) lx->failed = true;
    return ok;
}

/* inf and nan are words; -nan is nan, because the sign of a NaN is not printed. */
static bool parse_float(td_parser *ps, bool minus, td_garg *a) {
    td_lexer *lx = &ps->lx;
    double    f = lx->tok.kind == TD_TOK_FLOAT ? lx->tok.f
                  : td__lex_word(lx, "inf")    ? (double)INFINITY
                                               : (double)NAN;
    *a = (td_garg){TD_G_FLOAT, 0, {0}};
    a->u.f = minus && !isnan(f) ? -f : f;
    td__lex_next(lx);
    return !lx->failed;
}

static bool is_float_token(const td_lexer *lx) {
    return lx->tok.kind == TD_TOK_FLOAT || td__lex_word(lx, "inf") ||
           td__lex_word(lx, "nan");
}

/* Is the current token followed by an operator? */
static bool goes_on(const td_lexer *lx) {
    char c = td__lex_peek(lx);
    return c && strchr("+-*/%", c);
}

/* A number, or an expression over symbols. An integer by itself may have any
 * value; in expressions and lists those below -2^62 are reserved. */
static bool parse_number(td_parser *ps, td_garg *a) {
    td_lexer *lx = &ps->lx, was = *lx;
    bool      minus = td__lex_take(lx, "-");
    if (is_float_token(lx)) return parse_float(ps, minus, a);
    *a = td__garg_int(0);
    if (lx->tok.kind == TD_TOK_INT && !goes_on(lx))
        return signed_int(ps, minus, &a->u.i);
    *lx = was;
    if (!td__parse_dim(ps, &a->u.i)) return false;
    if (td__dim_is_sym(a->u.i)) a->kind = TD_G_SYM;
    return true;
}

/* true, false, none, a dtype, a nested function, or an expression that begins with a
 * symbol. */
static bool parse_word(td_parser *ps, td_garg *a) {
    td_lexer *lx = &ps->lx;
    td_dtype  dt = td__dtype_word(lx->tok.text, lx->tok.n);
    *a = (td_garg){TD_G_NONE, 0, {0}};
    if (td__lex_word(lx, "true") || td__lex_word(lx, "false")) {
        a->kind = TD_G_BOOL;
        a->u.i = td__lex_word(lx, "true");
    } else if (td__lex_word(lx, "none")) {
        a->kind = TD_G_NONE;
    } else if (dt != TD_DTYPE_NONE) {
        a->kind = TD_G_DTYPE;
        a->u.dt = dt;
    } else if (td__lex_word(lx, "func")) {
        return td__parse_nested(ps, a);
    } else return parse_number(ps, a);
    td__lex_next(lx);
    return !lx->failed;
}

/* Is it op(...) where an argument is expected? min and max are size
 * expressions. */
static bool is_nested_call(const td_lexer *lx) {
    return td__lex_peek(lx) == '(' && !td__lex_word(lx, "min") &&
           !td__lex_word(lx, "max") && !td__lex_word(lx, "func");
}

/* Any argument. The text is not checked against the op's schema here, but when the call
 * is complete (td__garg_fit). */
bool td__parse_arg(td_parser *ps, td_garg *a) {
    td_lexer *lx = &ps->lx;
    if (lx->tok.kind == TD_TOK_VALUE) {
        td_gval *v = td__parse_read(ps);
        *a = td__garg_value(v);
        return v != NULL;
    }
    if (lx->tok.kind == TD_TOK_STRING) {
        *a = (td_garg){TD_G_STR, 0, {0}};
        a->u.s = td__lex_text(lx, &ps->body->g->arena);
        td__lex_next(lx);
        return !lx->failed;
    }
    if (lx->tok.kind == TD_TOK_WORD) {
        if (td__lex_word(lx, "inf") || td__lex_word(lx, "nan"))
            return parse_float(ps, false, a);
        if (is_nested_call(lx))
            return td__lex_fail(
                lx,
                "%.*s(...) is a call, and a call cannot be an argument; "
                "give its result a name first: %%t = %.*s(...)",
                (int)lx->tok.n, lx->tok.text, (int)lx->tok.n, lx->tok.text);
        return parse_word(ps, a);
    }
    if (lx->tok.kind == TD_TOK_AT) return td__parse_defined(ps, a);
    if (td__lex_take(lx, "[")) return parse_list(ps, a);
    bool number = lx->tok.kind == TD_TOK_INT || lx->tok.kind == TD_TOK_FLOAT ||
                  td__lex_is(lx, "-") || td__lex_is(lx, "(");
    return number
               ? parse_number(ps, a)
               : td__lex_fail(lx, "expected an argument: a value, a number, a list...");
}
