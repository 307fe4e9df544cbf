/* emit_value.c -- one statement of a nest as C. Value i is v<i>, the bits of a half
 * float h<i>, its row buffer t<i>; pointer k is p<k>; the index of outer dim d is
 * i<d>, of inner dim d j<d>. */
#include "backend/emit.h"

#include "ops/expr.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One line of C, indented; preprocessor lines begin in the first column. Lines are
 * short: buffers of 2048 bytes suffice. */
void td__emit_line(td_emit *e, const char *fmt, ...) {
    char    line[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    td__buf_printf(e->b, "%*s%s\n", *line == '#' ? 0 : 4 * e->indent, "", line);
}

/* ---- numbers ------------------------------------------------------------- */

/* A number as text, or the name n<k> of a product of symbolic sizes, which the function
 * computes once at its beginning. */
const char *td__emit_extent(td_emit *e, td_extent x, td_emit_num out) {
    if (x.p < 0 || x.c == 0) {
        snprintf(out, sizeof(td_emit_num), "%lld", (long long)x.c);
        return out;
    }
    int k = 0;
    while (k < e->named.n && (e->named.v[k].c != x.c || e->named.v[k].p != x.p)) k++;
    if (k == e->named.n && !td__vec_push(&e->named, x)) e->b->failed = true;
    snprintf(out, sizeof(td_emit_num), "n%d", k);
    return out;
}

/* Literals: C has no literal for the smallest integer; negative ones are in
 * parentheses. */
static void add_int(td_buf *b, int64_t i, td_dtype held) {
    if (i == INT64_MIN) td__buf_add(b, "INT64_MIN");
    else if (i == INT32_MIN && held == TD_I32) td__buf_add(b, "INT32_MIN");
    else td__buf_printf(b, i < 0 ? "(%lld)" : "%lld", (long long)i);
}

/* A constant that the compiler reads back to the same bits: enough digits, and builtins
 * for NaN and infinity. */
static void add_float(td_buf *b, double x, td_dtype held) {
    const char *f = held == TD_F32 ? "f" : "";
    char        text[40];
    if (held == TD_F32) x = (double)(float)x;
    if (isnan(x)) snprintf(text, sizeof text, "__builtin_nan%s(\"\")", f);
    else if (isinf(x)) snprintf(text, sizeof text, "__builtin_inf%s()", f);
    else {
        snprintf(text, sizeof text, held == TD_F32 ? "%.9g" : "%.17g", fabs(x));
        bool whole = !strpbrk(text, ".e");
        strcat(text, whole ? ".0" : "");
        strcat(text, f);
    }
    td__buf_printf(b, signbit(x) ? "(-%s)" : "%s", text);
}

static void add_number(td_buf *b, double f, int64_t i, td_dtype held) {
    if (td__is_float(held)) add_float(b, f, held);
    else add_int(b, i, held);
}

/* ---- indices ------------------------------------------------------------- */

/* Appends " + index * stride", nothing for stride 0. */
static void add_term(td_emit *e, td_buf *b, td_extent stride, const char *index) {
    td_emit_num num;
    if (stride.c == 0) return;
    td__buf_add(b, b->n ? " + " : "");
    if (stride.p < 0 && stride.c == 1) td__buf_add(b, index);
    else if (stride.p < 0 && stride.c < 0)
        td__buf_printf(b, "%s * (%lld)", index, (long long)stride.c);
    else td__buf_printf(b, "%s * %s", index, td__emit_extent(e, stride, num));
}

/* The index expression of an access: strides times loop variables, without dims of size
 * 1. */
void td__emit_index(td_emit *e, td_buf *b, const td_extent *stride) {
    td_buf t = {0};
    char   name[16];
    for (int d = 0; d < e->n->n_dims; d++) {
        bool one = e->n->size[d].p < 0 && e->n->size[d].c == 1;
        snprintf(name, sizeof name, d < e->outer ? "i%d" : "j%d",
                 d < e->outer ? d : d - e->outer);
        if (!one) add_term(e, &t, stride[d], name);
    }
    td__buf_add(b, t.n ? td__buf_str(&t) : "0");
    b->failed |= t.failed;
    td__buf_free(&t);
}

/* The index of an element within its row, as text. */
void td__emit_flat(td_emit *e, td_buf *b) {
    td_emit_num num;
    for (int k = 2; k < e->inner; k++) td__buf_add(b, "(");
    td__buf_add(b, e->inner ? "j0" : "0");
    for (int k = 1; k < e->inner; k++)
        td__buf_printf(b, " * %s + j%d%s",
                       td__emit_extent(e, e->n->size[e->outer + k], num), k,
                       k + 1 < e->inner ? ")" : "");
}

/* ---- values -------------------------------------------------------------- */

/* The text of a conversion with eager's rounding. Halves are computed in f32: the
 * rounded value is widened again. */
void td__emit_cast(td_buf *b, td_dtype from, td_dtype to, const char *s) {
    size_t cap = strlen(s) + 160;
    char  *text = td__alloc(cap);
    if (!text) {
        b->failed = true;
        return;
    }
    td__cast_text(from, to, s, text, cap);
    if (td__is_narrow(to) && from != to)
        td__buf_printf(b, "td_m_%s_to_f32(%s)", td__dtype_text[to].suffix, text);
    else td__buf_add(b, text);
    td__free(text);
}

/* Writes "const T v3 = TEXT;", where TEXT has variable dtype `from`. A half also gets
 * h3, its bits, so that a store need not round again. */
static void declare(td_emit *e, int i, td_dtype from, const char *text) {
    td_dtype to = (td_dtype)e->n->stmt.v[i].dtype;
    td_buf   b = {0};
    char     lead[64];
    int      column;
    if (td__is_narrow(to)) {
        column = snprintf(lead, sizeof lead, "const uint16_t h%d = ", i);
        td__buf_printf(&b, "td_m_f32_to_%s((float)(%s))", td__dtype_text[to].suffix,
                       text);
    } else {
        column = snprintf(lead, sizeof lead, "const %s v%d = ", td__emit_c(to), i);
        if (from == to) td__buf_add(&b, text);
        else {
            td_buf t = {0};
            td__buf_printf(&t, "(%s)", text);
            td__emit_cast(&b, from, to, td__buf_str(&t));
            b.failed |= t.failed;
            td__buf_free(&t);
        }
    }
    td__buf_printf(e->b, "%*s%s", 4 * e->indent, "", lead);
    td__expr_wrap(e->b, td__buf_str(&b), 4 * e->indent + column + 1);
    td__buf_add(e->b, ";\n");
    e->b->failed |= b.failed;
    td__buf_free(&b);
    if (td__is_narrow(to))
        td__emit_line(e, "const float v%d = td_m_%s_to_f32(h%d);", i,
                      td__dtype_text[to].suffix, i);
}

/* The operands of an expression: values, or numbers written out. */
typedef struct expr_args {
    const td_stmt   *s;
    const td_schema *schema;
    td_dtype         held;
} expr_args;

static void add_argument(void *data, td_buf *b, int i) {
    const expr_args *x = data;
    int k = td__expr_operand(x->schema, i), number = td__expr_number(x->schema, i);
    if (k >= 0) td__buf_printf(b, "v%d", x->s->a[k]);
    else if (x->s->p) add_number(b, x->s->p->f[number], x->s->p->i[number], x->held);
    else td__buf_add(b, "0");
}

static bool is_op(const td_stmt *s, td_op op) {
    return s->kind == TD_S_EXPR && s->op == op && s->dtype == TD_F32;
}

static bool is_fold(const td_stmt *s, td_fold how) {
    return s->kind == TD_S_REDUCE && s->how == how && s->dtype == TD_F32;
}

/* Is value i never above 0: x minus the most of its row, or that minus the logarithm of
 * its sum of e^x, of which one is 1? */
static bool is_never_positive(const td_stmt *v, int i) {
    const td_stmt *s = &v[i];
    if (!is_op(s, TD_OP_sub) || !s->p || s->p->f[0] != 1) return false;
    const td_stmt *less = &v[s->a[1]];
    if (is_fold(less, TD_FOLD_MAX)) return less->a[0] == s->a[0];
    if (!is_op(less, TD_OP_log) || !is_fold(&v[less->a[0]], TD_FOLD_SUM)) return false;
    const td_stmt *e = &v[v[less->a[0]].a[0]];
    return is_op(e, TD_OP_exp) && e->a[0] == s->a[0] && is_never_positive(v, e->a[0]);
}

/* An EXPR: the op's .expr from its row, with operands substituted. On a device, e^x of
 * softmax has the form for x <= 0, which gives the same in fewer steps. */
static void emit_expr(td_emit *e, int i) {
    static const td_dtype computed[] = {TD_F32, TD_F64, TD_I32, TD_I64};
    const td_stmt        *s = &e->n->stmt.v[i];
    const td_expr_type   *t = &td__expr_types[s->compute];
    expr_args             x = {s, &td__opinfo(s->op)->s, computed[s->compute]};
    char                  picked[TD_EXPR_MOST];
    td_buf                b = {0};
    bool                  is = td__expr_pick(td__row(s->op)->expr, t->is_float, picked);
    TD_ASSERT(is);
    if (e->device && is_op(s, TD_OP_exp) && is_never_positive(e->n->stmt.v, s->a[0]))
        td__buf_printf(&b, "td_m_exp_neg_f32(v%d)", s->a[0]);
    else if (is) td__expr_text(&b, picked, t, x.schema, add_argument, &x);
    declare(e, i, x.held, td__buf_str(&b));
    e->b->failed |= b.failed;
    td__buf_free(&b);
}

/* The element that statement i accesses by `access`: in memory, or of its vector. */
static void element_text(td_emit *e, td_buf *b, int i, const td_stmt *access) {
    td_buf at = {0};
    if (td__emit_is_vector(e, access)) {
        td__buf_printf(b, "q%d.v[u]", i);
        return;
    }
    td__emit_index(e, &at, access->stride);
    td__buf_printf(b, "p%d[%s]", access->ptr, td__buf_str(&at));
    b->failed |= at.failed;
    td__buf_free(&at);
}

/* Value i loaded by `access`, which is its own LOAD or a STORE of it. */
static void emit_load(td_emit *e, int i, const td_stmt *access) {
    td_dtype dt = (td_dtype)e->n->ptr.v[access->ptr].dtype;
    td_buf   b = {0};
    element_text(e, &b, i, access);
    if (td__is_narrow(dt)) {
        td__emit_line(e, "const uint16_t h%d = %s;", i, td__buf_str(&b));
        td__emit_line(e, "const float v%d = td_m_%s_to_f32(h%d);", i,
                      td__dtype_text[dt].suffix, i);
    } else td__emit_line(e, "const %s v%d = %s;", td__emit_c(dt), i, td__buf_str(&b));
    e->b->failed |= b.failed;
    td__buf_free(&b);
}

/* A constant, rounded to its dtype. */
static void emit_num(td_emit *e, int i) {
    const td_stmt *s = &e->n->stmt.v[i];
    td_dtype       dt = (td_dtype)s->dtype;
    td_buf         b = {0};
    int64_t        item = 0;
    if (td__is_float(dt)) {
        td__store_f(dt, &item, s->num.f);
        add_float(&b, td__load_f(dt, &item), td__emit_var_dtype(dt));
    } else {
        td__store_i(dt, &item, s->num.i);
        add_int(&b, td__load_i(dt, &item), td__emit_var_dtype(dt));
    }
    if (td__is_narrow(dt))
        td__emit_line(e, "const uint16_t h%d = %u;", i, (unsigned)(uint16_t)item);
    td__emit_line(e, "const %s v%d = %s;", td__emit_c(dt), i, td__buf_str(&b));
    e->b->failed |= b.failed;
    td__buf_free(&b);
}

/* A PLACE: the index itself as a value. */
static void emit_place(td_emit *e, int i) {
    const td_stmt *s = &e->n->stmt.v[i];
    td_buf         b = {0};
    td__emit_index(e, &b, s->stride);
    if (s->num.i)
        td__emit_line(e, "const int64_t v%d = %s + %lld;", i, td__buf_str(&b),
                      (long long)s->num.i);
    else td__emit_line(e, "const int64_t v%d = %s;", i, td__buf_str(&b));
    e->b->failed |= b.failed;
    td__buf_free(&b);
}

/* ---- draws --------------------------------------------------------------- */

/* Can the random numbers of a row be drawn as one run? They can if neighbouring
 * elements have neighbouring positions in the draw. */
bool td__emit_draws_runs(const td_emit *e, int i) {
    const td_stmt *place = &e->n->stmt.v[e->n->stmt.v[i].a[0]];
    if (place->kind != TD_S_PLACE || e->in_end || e->device || !e->inner) return false;
    td_extent last = place->stride[e->n->n_dims - 1];
    return e->at[i].depth == e->inner && last.p < 0 && last.c == 1;
}

/* Fills `out` with `count` random numbers from position `place` of the draw, by the
 * helper functions that eager uses too. */
void td__emit_draws(td_emit *e, int i, const char *place, const char *count,
                    const char *out) {
    static const char *const kind[] = {"uniform", "normal"};
    const td_stmt           *s = &e->n->stmt.v[i];
    td_dtype                 dt = (td_dtype)s->dtype;
    td_buf                   b = {0};
    td__buf_printf(&b, "(const uint64_t *)r->given + %d, %s, %s", s->ptr, place, count);
    if (s->how == TD_DRAW_COIN) {
        td__buf_add(&b, ", ");
        add_float(&b, s->num.f, TD_F64);
        td__emit_line(e, "td_draw_coins(%s, %s);", td__buf_str(&b), out);
    } else {
        if (s->how == TD_DRAW_NORMAL && dt != TD_F64) dt = TD_F32;
        td__emit_line(e, "td_draw_%s_%s(%s, %s);", kind[s->how],
                      td__dtype_text[dt].suffix, td__buf_str(&b), out);
    }
    e->b->failed |= b.failed;
    td__buf_free(&b);
}

/* A random number: from the block drawn before the loop, or drawn by itself. */
static void emit_draw(td_emit *e, int i) {
    td_dtype held = td__emit_var_dtype((td_dtype)e->n->stmt.v[i].dtype);
    char     text[40], place[24], out[24];
    int      last = e->inner - 1;
    if (td__emit_draws_runs(e, i)) {
        snprintf(text, sizeof text, e->blocks ? "w%d[j%d - b]" : "w%d[j%d]", i, last);
    } else {
        snprintf(text, sizeof text, "w%d", i);
        snprintf(place, sizeof place, "v%d", e->n->stmt.v[i].a[0]);
        snprintf(out, sizeof out, "&w%d", i);
        td__emit_line(e, "%s w%d;", td__emit_c(held), i);
        td__emit_draws(e, i, place, "1", out);
    }
    declare(e, i, held, text);
}

/* A float cast to an integer and back: gcc 12 would replace it by trunc(), which
 * keeps -0 and ignores overflow. Adding a zero that the compiler cannot see prevents
 * that. */
bool td__emit_truncates(const td_nest *n, int i) {
    const td_stmt *s = &n->stmt.v[i];
    if (s->kind != TD_S_CAST || !td__is_float((td_dtype)s->dtype)) return false;
    const td_stmt *mid = &n->stmt.v[s->a[0]];
    return mid->kind == TD_S_CAST && !td__is_float((td_dtype)mid->dtype) &&
           td__is_float((td_dtype)n->stmt.v[mid->a[0]].dtype);
}

/* Declares v<i>: computed, or read from a buffer or from memory if an earlier loop of
 * the row computed it. */
void td__emit_value(td_emit *e, int i) {
    const td_stmt    *s = &e->n->stmt.v[i];
    const td_emit_at *a = &e->at[i];
    td_dtype          dt = (td_dtype)s->dtype;
    char              text[24];
    if (a->depth && !e->in_end && !e->all && !e->alone &&
        !(a->computed >> e->loop & 1)) {
        td_buf at = {0};
        if (a->store >= 0 && e->at[a->store].loop < e->loop) {
            emit_load(e, i, &e->n->stmt.v[a->store]);
            return;
        }
        if (e->each) td__buf_add(&at, "reg");
        else td__emit_flat(e, &at);
        td__emit_line(e, "const %s v%d = t%d[%s];", td__emit_c(dt), i, i,
                      td__buf_str(&at));
        e->b->failed |= at.failed;
        td__buf_free(&at);
        return;
    }
    switch ((td_stmt_kind)s->kind) {
    case TD_S_LOAD: emit_load(e, i, s); break;
    case TD_S_NUM: emit_num(e, i); break;
    case TD_S_GIVEN:
        td__emit_line(e, "%s v%d;", td__emit_c(dt), i);
        td__emit_line(e, "__builtin_memcpy(&v%d, r->given + %d, sizeof v%d);", i,
                      s->ptr, i);
        break;
    case TD_S_PLACE: emit_place(e, i); break;
    case TD_S_EXPR: emit_expr(e, i); break;
    case TD_S_CAST:
        snprintf(text, sizeof text,
                 td__emit_truncates(e->n, i) ? "(v%d + zero)" : "v%d", s->a[0]);
        declare(e, i, td__emit_var_dtype((td_dtype)e->n->stmt.v[s->a[0]].dtype), text);
        break;
    case TD_S_DRAW: emit_draw(e, i); break;
    default: break;
    }
}

/* Is h<i>, the bits of half value i, in scope? */
static bool has_bits(const td_emit *e, int i) {
    const td_emit_at *a = &e->at[i];
    uint8_t           kind = e->n->stmt.v[i].kind;
    if (kind == TD_S_GIVEN || kind == TD_S_REDUCE || kind == TD_S_COLUMN) return false;
    if (!a->depth || e->in_end || e->all) return true;
    return (a->computed >> e->loop & 1) ||
           (a->store >= 0 && e->at[a->store].loop < e->loop);
}

/* The zeros behind the elements that s stores. */
static void store_zeros(td_emit *e, const td_stmt *s) {
    td_buf at = {0};
    if (e->vector && s->p->i[0] >= e->n->inside.c / e->vector * e->vector)
        return; /* behind the last vector */
    td__emit_index(e, &at, s->stride);
    td__emit_line(e, "if (v%d == %lld)", s->a[1], (long long)s->p->i[0]);
    td__emit_line(e, "    TD_ROLL for (int64_t k = 1; k <= %lld; k++)",
                  (long long)s->p->i[1]);
    td__emit_line(e, "        p%d[%s + k * %lld] = 0;", s->ptr, td__buf_str(&at),
                  (long long)s->p->i[2]);
    e->b->failed |= at.failed;
    td__buf_free(&at);
}

/* Stores a value in the dtype of its tensor. A bool becomes 0 or 1, unless it is a
 * copy: eager's copy keeps the byte. */
void td__emit_store(td_emit *e, int i) {
    const td_stmt *s = &e->n->stmt.v[i];
    td_dtype       dt = (td_dtype)e->n->ptr.v[s->ptr].dtype;
    td_buf         b = {0};
    if (s->n > 1) td__emit_line(e, "{");
    element_text(e, &b, i, s);
    const char *to = td__buf_str(&b);
    if (td__is_narrow(dt) && has_bits(e, s->a[0]))
        td__emit_line(e, "%s = h%d;", to, s->a[0]);
    else if (td__is_narrow(dt))
        td__emit_line(e, "%s = td_m_f32_to_%s(v%d);", to, td__dtype_text[dt].suffix,
                      s->a[0]);
    else if (dt == TD_BOOL && e->n->stmt.v[s->a[0]].kind !=
                                  TD_S_LOAD) /* a copy of a bool keeps its byte */
        td__emit_line(e, "%s = v%d != 0;", to, s->a[0]);
    else if (dt == td__emit_var_dtype(dt)) td__emit_line(e, "%s = v%d;", to, s->a[0]);
    else td__emit_line(e, "%s = (%s)v%d;", to, td__dtype_text[dt].c, s->a[0]);
    e->b->failed |= b.failed;
    td__buf_free(&b);
    if (s->n == 1) return;
    store_zeros(e, s);
    td__emit_line(e, "}");
}

/* A value that is equal for all rows is stored by the part that begins at row 0, also
 * if there are no rows. */
void td__emit_store_once(td_emit *e, int i) {
    td_extent   all = e->in_end ? e->n->inside : e->flat ? e->n->size[0] : e->n->rows;
    td_emit_num n;
    td__emit_extent(e, all, n);
    if (all.p < 0 && all.c > 0) td__emit_line(e, "if (begin == 0 && end > 0)");
    else td__emit_line(e, "if (begin == 0 && (end > 0 || %s == 0))", n);
    e->indent++;
    td__emit_store(e, i);
    e->indent--;
}
