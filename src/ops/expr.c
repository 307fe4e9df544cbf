/* expr.c -- .expr and casts as C text; the language of .expr is described at the top
 * of pointwise.def. Linked into the generator as well as into the library. */
#define TD_TABLE_TEXT /* needs no generated header: the generator uses it */
#include "ops/expr.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const td_expr_type td__expr_types[TD_COMPUTE_COUNT] = {
    {"f32", "float", "f", true, NULL},
    {"f64", "double", "f", true, NULL},
    {"i32", "int32_t", "i", false, NULL},
    {"i64", "int64_t", "i", false, NULL},
    {"c64", "float _Complex", "f", false, "float"},
    {"c128", "double _Complex", "f", false, "double"}};

const td_dtype_text td__dtype_text[TD_DTYPE_COUNT] = {
#define TD_DTYPE(id, text, bytes, klass, c, ...) [TD_##id] = {text, c, bytes},
#include "core/dtype.def"
#undef TD_DTYPE
};

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* ---- arguments ----------------------------------------------------------- */

/* Does the loop read this argument element by element? */
static bool is_operand(uint8_t type) {
    return type == TD_T_TENSOR || type == TD_T_OPT_TENSOR || type == TD_T_OPERAND;
}

/* Is this argument one number for the whole loop? */
static bool is_number(uint8_t type) {
    return type == TD_T_SCALAR || type == TD_T_OPT_SCALAR || type == TD_T_INT ||
           type == TD_T_FLOAT || type == TD_T_OPT_FLOAT || type == TD_T_BOOL ||
           type == TD_T_OPT_INT;
}

/* Operands are numbered in schema order, so that callers of a loop need the schema
 * alone. */
int td__expr_operand(const td_schema *s, int i) {
    int n = 0;
    for (int k = 0; k < i; k++) n += is_operand(s->in[k].type);
    return is_operand(s->in[i].type) ? n : -1;
}

int td__expr_number(const td_schema *s, int i) {
    int n = 0;
    for (int k = 0; k < i; k++) n += is_number(s->in[k].type);
    return is_number(s->in[i].type) ? n : -1;
}

bool td__expr_names(const char *picked, char mark, const char *name) {
    size_t n = strlen(name);
    for (const char *p = strchr(picked, mark); p; p = strchr(p + 1, mark))
        if (!strncmp(p + 1, name, n) && !is_word(p[1 + n])) return true;
    return false;
}

/* ---- text ---------------------------------------------------------------- */

/* Text without a label is for both classes. */
bool td__expr_pick(const char *text, bool is_float, char *out) {
    const char *label = is_float ? "float:" : "int:", *at = strstr(text, label);
    bool        split = !strncmp(text, "float:", 6) || !strncmp(text, "int:", 4);
    if (split && !at) return false;
    if (split) text = at + strlen(label);
    while (*text == ' ') text++;
    size_t n = strcspn(text, ";");
    if (n >= TD_EXPR_MOST) return false;
    memcpy(out, text, n);
    out[n] = 0;
    return true;
}

/* A number: typed, so that float loops do no double arithmetic. */
static const char *add_number(td_buf *b, const char *p, const td_expr_type *t) {
    const char *start = p;
    bool        whole = true;
    while (isalnum((unsigned char)*p) || *p == '.' ||
           ((*p == '-' || *p == '+') && (p[-1] == 'e' || p[-1] == 'p'))) {
        whole &= *p != '.';
        p++;
    }
    td__buf_addn(b, start, (size_t)(p - start));
    bool single = !strcmp(t->suffix, "f32") || !strcmp(t->suffix, "c64");
    if (!whole && single) td__buf_add(b, "f");
    return p;
}

/* A bare word is a function of math.h when a parenthesis follows. */
static const char *add_word(td_buf *b, const char *p, const td_expr_type *t) {
    size_t n = 0;
    while (is_word(p[n])) n++;
    if (p[n] == '(') td__buf_printf(b, "td_m_%.*s_%s", (int)n, p, t->suffix);
    else td__buf_addn(b, p, n);
    return p + n;
}

/* Copies the text; $name and %name are replaced by `fn`, functions get the prefix and
 * suffix of the compute type. */
void td__expr_text(td_buf *b, const char *picked, const td_expr_type *t,
                   const td_schema *s, td_expr_arg_fn *fn, void *data) {
    for (const char *p = picked; *p;) {
        if (*p == '$' || (*p == '%' && is_word(p[1]))) {
            size_t n = 1;
            while (is_word(p[n])) n++;
            for (int i = 0; i < s->n_in; i++)
                if (!strncmp(s->in[i].name, p + 1, n - 1) && !s->in[i].name[n - 1])
                    fn(data, b, i);
            p += n;
        } else if (isdigit((unsigned char)*p)) p = add_number(b, p, t);
        else if (is_word(*p)) p = add_word(b, p, t);
        else td__buf_addn(b, p++, 1);
    }
}

void td__expr_wrap(td_buf *b, const char *text, int column) {
    while (*text) {
        size_t n = strlen(text), fit = column < 60 ? (size_t)(84 - column) : 24;
        if (n > fit) {
            for (n = fit; n > 1 && text[n] != ' '; n--) {
            }
            if (n == 1) n = 1 + strcspn(text + 1, " "); /* one long word */
        }
        td__buf_addn(b, text, n);
        text += n;
        if (*text) td__buf_printf(b, "\n%*s", column - 1, "");
    }
}

/* ---- casts --------------------------------------------------------------- */

/* The value of `s` as float where it is a narrow float, else as it is. */
static const char *widened(td_dtype from, const char *s, char *buf, size_t cap) {
    if (!td__is_narrow(from)) return s;
    snprintf(buf, cap, "td_m_%s_to_f32(%s)", td__dtype_text[from].suffix, s);
    return buf;
}

/* A complex number becomes its real part, a bool whether it is not 0. */
static void complex_text(td_dtype from, td_dtype to, const char *s, char *out,
                         size_t cap) {
    char real[96], x[160];
    snprintf(real, sizeof real, "__real__ %s", s);
    if (to == TD_BOOL) snprintf(out, cap, "%s != 0", s);
    else if (td__is_complex(from) && td__is_complex(to))
        snprintf(out, cap, "(%s)%s", td__dtype_text[to].c, s);
    else if (td__is_complex(from)) td__cast_text(td__real_of(from), to, real, out, cap);
    else {
        td__cast_text(from, td__real_of(to), s, x, sizeof x);
        snprintf(out, cap, "(%s)(%s)", td__dtype_text[to].c, x);
    }
}

/* Narrow floats go through float, floats to narrow integers through td_m_..., which
 * round and wrap as ATen does. */
void td__cast_text(td_dtype from, td_dtype to, const char *s, char *out, size_t cap) {
    char        wide[96];
    const char *x = widened(from, s, wide, sizeof wide), *d = td__dtype_text[to].suffix;
    const char *f = from == TD_F64 ? "f64" : "f32";
    if (from == to) snprintf(out, cap, "%s", s);
    else if (td__is_complex(from) || td__is_complex(to))
        complex_text(from, to, s, out, cap);
    else if (to == TD_BOOL) snprintf(out, cap, "%s != 0", x);
    else if (td__is_narrow(to)) snprintf(out, cap, "td_m_f32_to_%s((float)%s)", d, x);
    else if (td__is_float(from) && !td__is_float(to))
        snprintf(out, cap, "td_m_%s_to_%s(%s)", f, d, x);
    else snprintf(out, cap, "(%s)%s", td__dtype_text[to].c, x);
}
