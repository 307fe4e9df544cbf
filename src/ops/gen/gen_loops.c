/* gen_loops.c -- writes src/ops/loops/loops_TYPE.c from the .expr of each row: one
 * plain loop per op and compute type, and convert.c, the casts between dtypes.
 * The language of .expr is described at the top of pointwise.def. */
#include "ops/gen/gen.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct ctype {
    const char *suffix, *c, *member; /* f32, float, where td_scalars keeps it */
    bool        is_float;
} ctype;

static const ctype types[] = {{"f32", "float", "f", true},
                              {"f64", "double", "f", true},
                              {"i32", "int32_t", "i", false},
                              {"i64", "int64_t", "i", false}};

typedef struct writer {
    td_buf           out;
    const ctype     *t;
    const td_schema *s;
    char             expr[1024];
} writer;

static bool is_operand(uint8_t type) {
    return type == TD_T_TENSOR || type == TD_T_OPT_TENSOR || type == TD_T_OPERAND;
}

static bool is_scalar(uint8_t type) {
    return type == TD_T_SCALAR || type == TD_T_OPT_SCALAR || type == TD_T_INT ||
           type == TD_T_FLOAT || type == TD_T_OPT_FLOAT || type == TD_T_BOOL ||
           type == TD_T_OPT_INT;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The part of .expr for float or integer types: "float: E; int: F", or all of it.
 * False: the op is not defined on this class. */
static bool pick_expr(writer *w, const char *text) {
    const char *label = w->t->is_float ? "float:" : "int:", *at = strstr(text, label);
    bool        split = !strncmp(text, "float:", 6) || !strncmp(text, "int:", 4);
    if (split && !at) return false;
    if (split) text = at + strlen(label);
    while (*text == ' ') text++;
    size_t n = strcspn(text, ";");
    if (n >= sizeof w->expr) return false;
    memcpy(w->expr, text, n);
    w->expr[n] = 0;
    return true;
}

/* Does the expression name this argument behind `mark`? */
static bool names(const char *expr, char mark, const char *name) {
    size_t n = strlen(name);
    for (const char *p = strchr(expr, mark); p; p = strchr(p + 1, mark))
        if (!strncmp(p + 1, name, n) && !is_word(p[1 + n])) return true;
    return false;
}

/* A number: typed, so that float loops do no double arithmetic. */
static const char *add_number(writer *w, td_buf *b, const char *p) {
    const char *start = p;
    bool        whole = true;
    while (isalnum((unsigned char)*p) || *p == '.' ||
           ((*p == '-' || *p == '+') && (p[-1] == 'e' || p[-1] == 'p'))) {
        whole &= *p != '.';
        p++;
    }
    td__buf_addn(b, start, (size_t)(p - start));
    if (!whole && !strcmp(w->t->suffix, "f32")) td__buf_add(b, "f");
    return p;
}

/* A bare word is a function of math.h when a parenthesis follows. */
static const char *add_word(writer *w, td_buf *b, const char *p) {
    size_t n = 0;
    while (is_word(p[n])) n++;
    if (p[n] == '(') td__buf_printf(b, "td_m_%.*s_%s", (int)n, p, w->t->suffix);
    else td__buf_addn(b, p, n);
    return p + n;
}

static const char *add_argument(writer *w, td_buf *b, const char *p) {
    size_t n = 1;
    while (is_word(p[n])) n++;
    td__buf_addn(b, p + 1, n - 1);
    for (int i = 0; i < w->s->n_in; i++)
        if (!strncmp(w->s->in[i].name, p + 1, n - 1) && !w->s->in[i].name[n - 1] &&
            is_operand(w->s->in[i].type))
            td__buf_add(b, "[i]");
    return p + n;
}

/* .expr in C, broken into lines of at most 84 columns. */
static void add_expr(writer *w, int column) {
    td_buf      b = {0};
    const char *p = w->expr;
    while (*p) {
        if (*p == '$' || (*p == '%' && is_word(p[1]))) p = add_argument(w, &b, p);
        else if (isdigit((unsigned char)*p)) p = add_number(w, &b, p);
        else if (is_word(*p)) p = add_word(w, &b, p);
        else td__buf_addn(&b, p++, 1);
    }
    const char *s = td__buf_str(&b);
    while (*s) {
        size_t n = strlen(s), room = (size_t)(84 - column);
        if (n > room)
            for (n = room; n > 1 && s[n] != ' '; n--) {
            }
        td__buf_addn(&w->out, s, n);
        s += n;
        if (*s) td__buf_printf(&w->out, "\n%*s", column - 1, "");
    }
    td__buf_free(&b);
}

/* Pointers to operands and values of the numbers that the expression names. */
static void add_locals(writer *w) {
    int  operand = 0, scalar = 0;
    bool in = false, p = false;
    for (int i = 0; i < w->s->n_in; i++) {
        const td_param *a = &w->s->in[i];
        if (is_operand(a->type)) {
            bool mask = names(w->expr, '%', a->name);
            if (mask || names(w->expr, '$', a->name))
                td__buf_printf(&w->out, "    const %s *%s = in[%d];\n",
                               mask ? "uint8_t" : w->t->c, a->name, operand),
                    in = true;
            operand++;
        } else if (is_scalar(a->type)) {
            if (names(w->expr, '$', a->name))
                td__buf_printf(&w->out, "    const %s %s = (%s)p->%s[%d];\n", w->t->c,
                               a->name, w->t->c, w->t->member, scalar),
                    p = true;
            scalar++;
        }
    }
    if (!in) td__buf_add(&w->out, "    (void)in;\n");
    if (!p) td__buf_add(&w->out, "    (void)p;\n");
}

static void add_loop(writer *w, const td_opdef *def) {
    const char *out = def->flags & TD_OPF_BOOL_OUT ? "uint8_t" : w->t->c;
    char        lead[64];
    td__buf_printf(&w->out,
                   "\nstatic void op_%s(int64_t n, void *out, const void *const *in,\n"
                   "%*sconst td_scalars *p) {\n",
                   def->name, (int)strlen(def->name) + 16, "");
    td__buf_printf(&w->out, "    %s *o = out;\n", out);
    add_locals(w);
    td__buf_add(&w->out, "#pragma omp simd\n");
    int column = snprintf(lead, sizeof lead, "        o[i] = (%s)(", out);
    td__buf_printf(&w->out, "    for (int64_t i = 0; i < n; i++)\n%s", lead);
    add_expr(w, column + 1);
    td__buf_add(&w->out, ");\n}\n");
}

/* Makes the op the writer's; false: it has no loop of this type. */
static bool is_here(writer *w, int op) {
    w->s = &td__gen_schemas[op];
    return td__ops[op].expr && pick_expr(w, td__ops[op].expr);
}

static bool write_file(const char *dir, const char *path, td_buf *text) {
    FILE *f = td__gen_open(dir, path);
    bool  ok = f && !text->failed && fputs(td__buf_str(text), f) >= 0;
    td__buf_free(text);
    return f && td__gen_close(f, path) && ok;
}

static bool write_type(const char *dir, const ctype *t) {
    writer w = {.t = t};
    char   path[64];
    td__buf_printf(
        &w.out,
        "/* loops_%s.c -- the pointwise ops on %s; generated by gen_loops.c from\n"
        " * the .expr of their rows. Run `make gen` after a change there. */\n"
        "#include \"ops/loops/loops.h\"\n\n"
        "#include \"ops/math.h\"\n#include \"ops/math_int.h\"\n",
        t->suffix, t->c);
    for (int i = 0; i < TD_OP_COUNT; i++)
        if (is_here(&w, i)) add_loop(&w, &td__ops[i]);
    td__buf_printf(&w.out,
                   "\ntd_loop_fn *const TD_ISA_NAME(td__loops_%s)[TD_OP_COUNT] = {\n",
                   t->suffix);
    for (int i = 0; i < TD_OP_COUNT; i++)
        if (is_here(&w, i))
            td__buf_printf(&w.out, "    [TD_OP_%s] = op_%s,\n", td__ops[i].name,
                           td__ops[i].name);
    td__buf_add(&w.out, "};\n");
    snprintf(path, sizeof path, "src/ops/loops/loops_%s.c", t->suffix);
    return write_file(dir, path, &w.out);
}

/* ---- casts --------------------------------------------------------------- */

typedef struct dtype_text {
    const char *suffix, *c; /* in memory */
} dtype_text;

static const dtype_text dtypes[TD_DTYPE_COUNT] = {
    [TD_F64] = {"f64", "double"},   [TD_F32] = {"f32", "float"},
    [TD_F16] = {"f16", "uint16_t"}, [TD_BF16] = {"bf16", "uint16_t"},
    [TD_I64] = {"i64", "int64_t"},  [TD_I32] = {"i32", "int32_t"},
    [TD_I16] = {"i16", "int16_t"},  [TD_I8] = {"i8", "int8_t"},
    [TD_U8] = {"u8", "uint8_t"},    [TD_BOOL] = {"bool", "uint8_t"}};

/* The value of `s` as float where it is a half, else as it is. */
static const char *widened(td_dtype from, const char *s, char *buf, size_t cap) {
    if (!td__is_half(from)) return s;
    snprintf(buf, cap, "td_m_%s_to_f32(%s)", dtypes[from].suffix, s);
    return buf;
}

static void cast_text(td_dtype from, td_dtype to, const char *s, char *out,
                      size_t cap) {
    char        wide[96];
    const char *x = widened(from, s, wide, sizeof wide);
    const char *f = from == TD_F64 ? "f64" : "f32";
    if (from == to) snprintf(out, cap, "%s", s);
    else if (to == TD_BOOL) snprintf(out, cap, "%s != 0", x);
    else if (td__is_half(to))
        snprintf(out, cap, "td_m_f32_to_%s((float)%s)", dtypes[to].suffix, x);
    else if (td__is_float(from) && !td__is_float(to))
        snprintf(out, cap, "td_m_%s_to_%s(%s)", f, dtypes[to].suffix, x);
    else snprintf(out, cap, "(%s)%s", dtypes[to].c, x);
}

/* Three loops: contiguous, one value repeated, and any steps. */
static void add_cast(td_buf *b, td_dtype from, td_dtype to) {
    char        one[160], any[160];
    const char *d = dtypes[to].c, *s = dtypes[from].c;
    cast_text(from, to, "s[i]", one, sizeof one);
    cast_text(from, to, "*s", any, sizeof any);
    td__buf_printf(b,
                   "\nstatic void %s_to_%s(int64_t n, char *dst, int64_t dst_step,\n"
                   "                    const char *src, int64_t src_step) {\n"
                   "    if (dst_step == sizeof(%s) && src_step == sizeof(%s)) {\n"
                   "        %s *d = (%s *)dst;\n"
                   "        const %s *s = (const %s *)src;\n"
                   "#pragma omp simd\n"
                   "        for (int64_t i = 0; i < n; i++) d[i] = (%s)(%s);\n"
                   "        return;\n    }\n",
                   dtypes[from].suffix, dtypes[to].suffix, d, s, d, d, s, s, d, one);
    td__buf_printf(b,
                   "    if (dst_step == sizeof(%s) && src_step == 0) {\n"
                   "        %s *d = (%s *)dst;\n"
                   "        const %s *s = (const %s *)src;\n"
                   "        const %s v = (%s)(%s);\n"
                   "#pragma omp simd\n"
                   "        for (int64_t i = 0; i < n; i++) d[i] = v;\n"
                   "        return;\n    }\n",
                   d, d, d, s, s, d, d, any);
    td__buf_printf(
        b,
        "    for (int64_t i = 0; i < n; i++, dst += dst_step, src += src_step) {\n"
        "        const %s *s = (const %s *)src;\n"
        "        *(%s *)dst = (%s)(%s);\n    }\n}\n",
        s, s, d, d, any);
}

static bool write_casts(const char *dir) {
    td_buf b = {0};
    td__buf_add(
        &b, "/* convert.c -- casts between dtypes, one strided run; generated by\n"
            " * gen_loops.c. Half floats go through float, floats to narrow integers\n"
            " * through int32_t, as ATen's. */\n"
            "#include \"ops/loops/loops.h\"\n\n#include \"ops/math.h\"\n");
    for (int from = 0; from < TD_DTYPE_COUNT; from++)
        for (int to = 0; to < TD_DTYPE_COUNT; to++)
            add_cast(&b, (td_dtype)from, (td_dtype)to);
    td__buf_add(&b,
                "\ntd_convert_fn *const\n"
                "    TD_ISA_NAME(td__convert)[TD_DTYPE_COUNT][TD_DTYPE_COUNT] = {\n");
    for (int from = 0; from < TD_DTYPE_COUNT; from++) {
        td__buf_add(&b, "    {");
        for (int to = 0; to < TD_DTYPE_COUNT; to++)
            td__buf_printf(&b, "%s%s_to_%s%s", to % 4 || !to ? "" : "\n     ",
                           dtypes[from].suffix, dtypes[to].suffix,
                           to + 1 < TD_DTYPE_COUNT ? to % 4 == 3 ? "," : ", " : "},\n");
    }
    td__buf_add(&b, "};\n");
    return write_file(dir, "src/ops/loops/convert.c", &b);
}

bool td__gen_loops(const char *dir) {
    for (int i = 0; i < TD_COUNT(types); i++)
        if (!write_type(dir, &types[i])) return false;
    return write_casts(dir);
}
