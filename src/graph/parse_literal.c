/* parse_literal.c -- parses tensor([[1, 2], [3, 4]], f32): nested lists of
 * numbers, or a flat list followed by sizes. A complex element is two numbers, real and
 * imaginary part: a list of its own, tensor([[1, 2], [0, -1]], c64), or in a flat list.
 * Nothing recurses; all lists at one depth must have the same length. */
#include "core/device.h"
#include "graph/parser.h"
#include "rules/shape_rules.h"

#include <math.h>

/* A literal being read. */
typedef struct literal {
    TD_VEC(td_value) items;
    int64_t count[TD_MAX_RANK + 1]; /* by depth: items so far in the open list */
    int64_t size[TD_MAX_RANK + 1];  /* by depth: length of finished lists; -1: none */
    int     depth, leaf;            /* leaf: depth of numbers; -1: none yet */
    bool    fraction, whole, truth; /* what kinds of numbers there are */
} literal;

/* Appends a number; all numbers must be at one depth of the nested lists (`leaf`).
 * Remembers which kinds occurred, because the dtype follows from them as in
 * torch.tensor. */
static bool push_number(td_parser *ps, literal *l) {
    td_garg  a;
    td_value v = TD_NONE;
    td_token at = ps->lx.tok;
    if (!td__parse_arg(ps, &a)) return false;
    if (a.kind == TD_G_FLOAT) v = td_value_float(a.u.f), l->fraction = true;
    else if (a.kind == TD_G_INT) v = td_value_int(a.u.i), l->whole = true;
    else if (a.kind == TD_G_BOOL) v = td_value_bool(a.u.i != 0), l->truth = true;
    else return td__lex_fail_at(&ps->lx, &at, "a tensor literal contains numbers only");
    if (l->leaf < 0) l->leaf = l->depth;
    if (l->leaf != l->depth)
        return td__lex_fail_at(&ps->lx, &at,
                               "numbers are at different depths of the nested lists");
    l->count[l->depth]++;
    return td__vec_push(&l->items, v) ||
           (ps->lx.failed = true, td__fail_memory(ps->lx.cx));
}

/* Goes one list deeper; lists inside a list of numbers are an error. */
static bool open_list(td_parser *ps, literal *l) {
    if (l->leaf >= 0 && l->depth >= l->leaf)
        return td__lex_fail(&ps->lx,
                            "numbers are at different depths of the nested lists");
    if (l->depth == TD_MAX_RANK)
        return td__lex_fail(&ps->lx, "a tensor has at most %d dims", TD_MAX_RANK);
    l->count[++l->depth] = 0;
    td__lex_next(&ps->lx);
    return !ps->lx.failed;
}

/* Ends a list: all lists of one depth must have the same length, which is the size of
 * that dim. An empty list decides the depth of numbers as well. */
static bool close_row(td_parser *ps, literal *l) {
    int64_t n = l->count[l->depth], *size = &l->size[l->depth];
    if (*size >= 0 && *size != n)
        return td__lex_fail(&ps->lx,
                            "this list has %lld items; others at its depth have %lld",
                            (long long)n, (long long)*size);
    *size = n;
    if (n == 0 && l->leaf < 0) l->leaf = l->depth;
    l->count[--l->depth]++;
    td__lex_next(&ps->lx);
    return !ps->lx.failed;
}

/* The nested lists, without recursion, because the depth comes from the text. */
static bool parse_items(td_parser *ps, literal *l) {
    td_lexer *lx = &ps->lx;
    do {
        bool ok = td__lex_is(lx, "[")                   ? open_list(ps, l)
                  : td__lex_is(lx, "]") && l->depth > 0 ? close_row(ps, l)
                                                        : push_number(ps, l);
        if (!ok) return false;
        if (l->depth == 0) return true;
        /* a comma goes between items; behind [ and before ] it is optional */
        if (td__lex_is(lx, ",")) td__lex_next(lx);
        else if (!td__lex_is(lx, "]") && l->count[l->depth] > 0)
            return td__lex_need(lx, ",");
    } while (!lx->failed);
    return false;
}

/* , f32 and , [sizes] */
static bool parse_options(td_parser *ps, td_dtype *dt, td_garg *sizes) {
    td_lexer *lx = &ps->lx;
    while (td__lex_take(lx, ",")) {
        bool done = false;
        if (td__lex_is(lx, "[")) {
            td_token at = lx->tok;
            if (!td__parse_arg(ps, sizes)) return false;
            if (sizes->kind != TD_G_INTS || sizes->n > TD_MAX_RANK)
                return td__lex_fail_at(lx, &at,
                                       "sizes are a list of at most %d integers",
                                       TD_MAX_RANK);
            continue;
        }
        bool keyword = lx->tok.kind == TD_TOK_WORD && td__lex_peek(lx) == '=';
        if (keyword && ps->body->in_case && !td__parse_step_option(ps, &done))
            return false;
        if (done) continue;
        *dt = lx->tok.kind == TD_TOK_WORD ? td__dtype_word(lx->tok.text, lx->tok.n)
                                          : TD_DTYPE_NONE;
        if (*dt == TD_DTYPE_NONE) return td__lex_fail(lx, "expected a dtype or sizes");
        td__lex_next(lx);
    }
    return td__lex_need(lx, ")");
}

/* The sizes: as given, or those of the nested lists, of which the innermost has the two
 * numbers of a complex element. */
static bool set_sizes(td_parser *ps, const literal *l, const td_garg *sizes,
                      td_meta *m) {
    int depth = l->leaf < 0 ? 0 : l->leaf;
    int parts = td__is_complex(m->dtype) ? 2 : 1;
    if (parts == 2 && sizes->kind != TD_G_INTS && (depth == 0 || l->size[depth] != 2))
        return td__lex_fail(&ps->lx, "a complex element is a list of two numbers, the "
                                     "real and the imaginary part");
    if (parts == 2 && sizes->kind != TD_G_INTS) depth--;
    m->rank = sizes->kind == TD_G_INTS ? (int)sizes->n : depth;
    if (sizes->kind == TD_G_INTS && depth > 1)
        return td__lex_fail(&ps->lx, "sizes are allowed only after a flat list");
    for (int d = 0; d < m->rank; d++) {
        m->size[d] = sizes->kind == TD_G_INTS ? sizes->u.ints[d] : l->size[d + 1];
        if (m->size[d] < 0) return td__lex_fail(&ps->lx, "a size is negative");
    }
    int64_t n = td__numel(m->rank, m->size);
    if (n * parts == l->items.n) return true;
    return td__lex_fail(&ps->lx, "the literal has %d numbers for %lld elements",
                        l->items.n, (long long)n);
}

/* The tensor; the caller owns a reference. NULL after td__fail. */
static td_tensor *make_tensor(td_parser *ps, const literal *l, const td_meta *m) {
    td_ctx    *cx = ps->lx.cx;
    td_tensor *t = NULL;
    if (!td__scope_push(cx)) return NULL;
    td_meta whole = {.dtype = m->dtype};
    td__meta_dense(&whole, m->dtype, m->rank, m->size);
    if ((t = td__tensor_make(cx, &whole, false))) {
        td_dtype part = td__real_of(m->dtype);
        size_t   item = td__dtype_bytes[part];
        for (int i = 0; i < l->items.n; i++)
            td__store_value(part, td__ptr(t) + (size_t)i * item, l->items.v[i]);
    }
    if (t && cx->device && !td__storage_move(cx, t->st, cx->device)) t = NULL;
    if (t) td__ref(t);
    td__scope_pop(cx, NULL, 0);
    return t;
}

/* tensor([...], dtype, [sizes]). Without a dtype: bool, i64 or the default float dtype,
 * the first that fits all numbers. *t is the caller's. */
bool td__parse_literal(td_parser *ps, td_tensor **t) {
    literal  l = {.leaf = -1};
    td_garg  sizes = {0};
    td_dtype dt = TD_DTYPE_NONE;
    td_meta  m = {0};
    for (int d = 0; d <= TD_MAX_RANK; d++) l.size[d] = -1;
    bool ok = td__lex_need(&ps->lx, "(") && parse_items(ps, &l) &&
              parse_options(ps, &dt, &sizes);
    if (ok) {
        m.dtype = dt != TD_DTYPE_NONE            ? dt
                  : l.fraction || l.items.n == 0 ? ps->lx.cx->default_dtype
                  : l.whole                      ? TD_I64
                                                 : TD_BOOL;
        ok = set_sizes(ps, &l, &sizes, &m) && (*t = make_tensor(ps, &l, &m)) != NULL;
        if (!ok) ps->lx.failed = true;
    }
    td__vec_free(&l.items);
    return ok;
}
