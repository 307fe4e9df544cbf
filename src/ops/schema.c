/* schema.c -- reads the schema text of an op row into parameters.
 *
 *   name(Type arg=default, ...) -> Type | (Type name, ...)
 *
 * A tensor type may carry an alias mark: Tensor(a) shares storage with the other
 * a, Tensor(a!) is written. No allocation; used by the table and the generator. */
#define TD_TABLE_TEXT /* needs no generated header: the generator uses it */
#include "ops/ops.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *p;
    char       *why;
    size_t      cap;
} reader;

/* Records what is wrong and where; always false. */
static bool wrong(reader *r, const char *what) {
    snprintf(r->why, r->cap, "schema: %s at \"%.24s\"", what, r->p);
    return false;
}

/* Blanks only: a schema is one line. */
static void skip(reader *r) {
    while (*r->p == ' ') r->p++;
}

/* Skips blanks and takes the text s if it comes next. */
static bool take(reader *r, const char *s) {
    skip(r);
    size_t n = strlen(s);
    if (strncmp(r->p, s, n) != 0) return false;
    r->p += n;
    return true;
}

/* Letters, digits and underscores, at most cap - 1 of them. */
static bool read_name(reader *r, char *out, size_t cap) {
    skip(r);
    size_t n = 0;
    while (isalnum((unsigned char)r->p[n]) || r->p[n] == '_') n++;
    if (n == 0 || n >= cap) return wrong(r, "expected a name");
    memcpy(out, r->p, n);
    out[n] = 0;
    r->p += n;
    return true;
}

/* Plain, optional, list and optional-element list forms of a base type; 255: none. */
static const struct {
    const char *word;
    uint8_t     plain, optional, list, opt_list;
} types[] = {
    {"Tensor", TD_T_TENSOR, TD_T_OPT_TENSOR, TD_T_TENSORS, 255},
    {"Operand", TD_T_OPERAND, 255, 255, 255},
    {"Scalar", TD_T_SCALAR, TD_T_OPT_SCALAR, 255, 255},
    {"int", TD_T_INT, TD_T_OPT_INT, TD_T_INTS, TD_T_OPT_INTS},
    {"float", TD_T_FLOAT, TD_T_OPT_FLOAT, 255, 255},
    {"bool", TD_T_BOOL, 255, 255, 255},
    {"dtype", TD_T_DTYPE, TD_T_OPT_DTYPE, 255, 255},
    {"str", TD_T_STR, 255, 255, 255},
    {"Graph", TD_T_GRAPH, 255, 255, 255},
    {"Object", TD_T_OBJECT, 255, 255, 255},
};

/* "(a)" or "(a!)" behind a type; absent is fine. */
static bool read_alias(reader *r, td_param *p) {
    if (*r->p != '(') return true;
    r->p++;
    if (!islower((unsigned char)*r->p)) return wrong(r, "expected an alias letter");
    p->alias = *r->p++;
    if (*r->p == '!') p->write = true, r->p++;
    if (*r->p != ')') return wrong(r, "expected ) after the alias mark");
    r->p++;
    return true;
}

/* A type word with its alias mark, then "?", "[]" or "[]?". */
static bool read_type(reader *r, td_param *p) {
    char word[16];
    int  k = 0;
    if (!read_name(r, word, sizeof word)) return false;
    while (k < TD_COUNT(types) && strcmp(types[k].word, word)) k++;
    if (k == TD_COUNT(types)) return wrong(r, "unknown type");
    if (!read_alias(r, p)) return false;
    bool opt = *r->p == '?' && r->p++;
    bool list = r->p[0] == '[' && r->p[1] == ']';
    if (list) r->p += 2;
    bool opt_list = list && *r->p == '?' && r->p++;
    if (list && opt && k == 0) p->type = TD_T_OPT_TENSORS;
    else
        p->type = list ? (opt_list ? types[k].opt_list : types[k].list)
                       : (opt ? types[k].optional : types[k].plain);
    return p->type != 255 || wrong(r, "no such form of this type");
}

/* The rest of "[1, 2]" after the bracket; lists of defaults are short and stored in the
 * parameter. */
static bool read_int_list(reader *r, td_param *p) {
    int n = 0;
    for (skip(r); *r->p && *r->p != ']'; take(r, ",")) {
        char *end;
        if (n == TD_COUNT(p->ints_def)) return wrong(r, "default list is too long");
        p->ints_def[n++] = strtoll(r->p, &end, 10);
        if (end == r->p) return wrong(r, "expected an integer");
        r->p = end;
    }
    if (!take(r, "]")) return wrong(r, "expected ]");
    p->def.kind = TD_K_INTS;
    p->def.n = (uint32_t)n;
    p->def.u.ints = p->ints_def;
    return true;
}

/* An int, or a float when it has a point or an exponent; a float parameter makes either
 * a float. */
static bool read_number(reader *r, td_param *p) {
    char   *end;
    int64_t i = strtoll(r->p, &end, 10);
    if (end != r->p && *end != '.' && *end != 'e') p->def = td_value_int(i);
    else {
        double f = strtod(r->p, &end);
        if (end == r->p) return wrong(r, "bad default");
        p->def = td_value_float(f);
    }
    r->p = end;
    if ((p->type == TD_T_FLOAT || p->type == TD_T_OPT_FLOAT) && p->def.kind == TD_K_INT)
        p->def = td_value_float((double)p->def.u.i);
    return true;
}

/* A default in single or double quotes. */
static bool read_string(reader *r, td_param *p, char quote) {
    size_t n = 0;
    while (r->p[n] && r->p[n] != quote) n++;
    if (!r->p[n] || n >= sizeof p->str_def) return wrong(r, "bad default string");
    memcpy(p->str_def, r->p, n);
    p->def.kind = TD_K_STR;
    p->def.u.s = p->str_def;
    r->p += n + 1;
    return true;
}

/* The text after "=". */
static bool read_default(reader *r, td_param *p) {
    p->has_default = true;
    if (take(r, "None")) return p->def = td_value_none(), true;
    if (take(r, "True")) return p->def = td_value_bool(true), true;
    if (take(r, "False")) return p->def = td_value_bool(false), true;
    if (take(r, "[")) return read_int_list(r, p);
    if (take(r, "'")) return read_string(r, p, '\'');
    if (take(r, "\"")) return read_string(r, p, '"');
    return read_number(r, p);
}

/* Up to the closing parenthesis. "*" (keyword-only in PyTorch) is skipped: arguments
 * are positional here. */
static bool read_params(reader *r, td_schema *s) {
    while (!take(r, ")")) {
        if (take(r, "*")) {
            take(r, ",");
            continue;
        }
        if (s->n_in == TD_MAX_ARGS) return wrong(r, "too many arguments");
        td_param *p = &s->in[s->n_in++];
        if (!read_type(r, p) || !read_name(r, p->name, sizeof p->name)) return false;
        if (take(r, "=") && !read_default(r, p)) return false;
        skip(r);
        if (*r->p != ')' && !take(r, ",")) return wrong(r, "expected , or )");
    }
    return true;
}

/* "-> Tensor", "-> (Tensor a, Tensor b)" or "-> ()"; unnamed results are called
 * "out". */
static bool read_results(reader *r, td_schema *s) {
    if (!take(r, "->")) return wrong(r, "expected ->");
    bool several = take(r, "(");
    bool none = several && take(r, ")");
    while (!none) {
        if (s->n_out == TD_MAX_RESULTS) return wrong(r, "too many results");
        td_param *p = &s->out[s->n_out++];
        if (!read_type(r, p)) return false;
        if (p->type != TD_T_TENSOR && p->type != TD_T_TENSORS)
            return wrong(r, "a result is Tensor or Tensor[]");
        skip(r);
        if (several && isalpha((unsigned char)*r->p)) {
            if (!read_name(r, p->name, sizeof p->name)) return false;
        } else strcpy(p->name, "out");
        if (!several || !take(r, ",")) break;
    }
    if (several && !none && !take(r, ")")) return wrong(r, "expected )");
    skip(r);
    return *r->p == 0 || wrong(r, "trailing text");
}

/* On failure s is unspecified and `why` says what was expected where. */
bool td__schema_parse(const char *text, td_schema *s, char *why, size_t cap) {
    reader r = {text, why, cap};
    memset(s, 0, sizeof *s);
    if (!read_name(&r, s->name, sizeof s->name)) return false;
    if (!take(&r, "(")) return wrong(&r, "expected (");
    return read_params(&r, s) && read_results(&r, s);
}

/* Defaults point into their own schema; a copy's must point into the copy. */
static void fix_defaults(td_schema *s) {
    for (int i = 0; i < s->n_in; i++) {
        td_param *p = &s->in[i];
        if (p->def.kind == TD_K_INTS) p->def.u.ints = p->ints_def;
        if (p->def.kind == TD_K_STR) p->def.u.s = p->str_def;
    }
}

/* The schema of a writer made by TD_WRITES: its twin's, with the first argument
 * written and returned. */
bool td__schema_writer(const td_schema *pure, td_schema *s, char *why, size_t cap) {
    *s = *pure;
    fix_defaults(s);
    uint8_t first = pure->in[0].type;
    if (pure->n_in == 0 || pure->n_out != 1 ||
        (first != TD_T_TENSOR && first != TD_T_OPERAND)) {
        snprintf(why, cap, "schema: %s cannot have an in-place twin", pure->name);
        return false;
    }
    s->in[0].type = TD_T_TENSOR; /* a number cannot be written */
    strcat(s->name, "_");
    s->in[0].alias = s->out[0].alias = 'x';
    s->in[0].write = s->out[0].write = true;
    return true;
}
