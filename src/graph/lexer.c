/* lexer.c -- splits the text form into tokens. Input may be any bytes; what is
 * no token is an error with line and column. */
#include "graph/lexer.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

/* ---- errors ------------------------------------------------------------- */

/* The column in characters, not bytes: UTF-8 continuation bytes are not
 * counted. */
static int column(const td_token *t) {
    int n = 1;
    for (const char *p = t->line_start; p < t->at; p++)
        n += ((unsigned char)*p >> 6) != 2;
    return n;
}

/* Records the first error at token t; from then on every token is END. */
static bool fail(td_lexer *lx, const td_token *t, const char *fmt, va_list args) {
    char text[512];
    vsnprintf(text, sizeof text, fmt, args);
    if (!lx->failed)
        td__fail(lx->cx, TD_E_ARG, "%s:%d:%d: %s", lx->file, t->line, column(t), text);
    lx->failed = true;
    lx->tok.kind = TD_TOK_END;
    return false;
}

bool td__lex_fail(td_lexer *lx, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fail(lx, &lx->tok, fmt, args);
    va_end(args);
    return false;
}

bool td__lex_fail_at(td_lexer *lx, const td_token *t, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fail(lx, t, fmt, args);
    va_end(args);
    return false;
}

/* ---- tokens ------------------------------------------------------------- */

/* %name, or %name... for a list of values. */
static void lex_value(td_lexer *lx, td_token *t) {
    t->kind = TD_TOK_VALUE;
    t->text = ++lx->p;
    while (lx->p < lx->end && is_name_char(*lx->p)) lx->p++;
    t->n = (size_t)(lx->p - t->text);
    if (t->n > 3 && !memcmp(lx->p - 3, "...", 3)) {
        t->more = true;
        t->n -= 3;
    }
    if (t->n == 0 || t->text[t->n - 1] == '.')
        td__lex_fail(lx, "a value name is %% and letters, digits, _ or ., and does not "
                         "end in .");
}

/* An integer, or a float if it has a point or an exponent. The text is not
 * NUL-terminated, so a float is copied for conversion. */
static void lex_number(td_lexer *lx, td_token *t) {
    char copy[400];
    bool whole = true;
    t->kind = TD_TOK_INT;
    while (lx->p < lx->end && is_digit(*lx->p)) {
        unsigned digit = (unsigned)(*lx->p++ - '0');
        if (t->i > (UINT64_MAX - digit) / 10) whole = false;
        t->i = t->i * 10 + digit;
    }
    const char *p = lx->p;
    if (p < lx->end && *p == '.')
        for (p++; p < lx->end && is_digit(*p);) p++;
    if (p < lx->end && (*p == 'e' || *p == 'E')) {
        const char *e = p + 1;
        if (e < lx->end && (*e == '+' || *e == '-')) e++;
        if (e < lx->end && is_digit(*e))
            for (p = e; p < lx->end && is_digit(*p);) p++;
    }
    t->n = (size_t)(p - t->at);
    if (p == lx->p) {
        if (!whole || t->i > (uint64_t)INT64_MAX + 1)
            td__lex_fail(lx, "the integer does not fit 64 bits");
        return;
    }
    lx->p = p;
    t->kind = TD_TOK_FLOAT;
    if (t->n >= sizeof copy) {
        td__lex_fail(lx, "a number of %zu characters is too long", t->n);
        return;
    }
    memcpy(copy, t->at, t->n);
    copy[t->n] = 0;
    t->f = td__text_to_float(copy);
}

static int hex(char c) {
    if (is_digit(c)) return c - '0';
    return c >= 'a' && c <= 'f'   ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Decodes the escape at p into *out; returns its length, 0 if it is unknown. */
static int escape(const char *p, const char *end, char *out) {
    if (end - p < 2) return 0;
    const char *known = "nt\"\\", *means = "\n\t\"\\";
    const char *hit = p[1] ? strchr(known, p[1]) : NULL;
    if (hit) return *out = means[hit - known], 2;
    if (p[1] != 'x' || end - p < 4) return 0;
    int high = hex(p[2]), low = hex(p[3]);
    if (high < 0 || low < 0 || high + low == 0) return 0;
    *out = (char)(high * 16 + low);
    return 4;
}

/* The text between quotes, with its escapes still in it; td__lex_text resolves them.
 * Strings end on their line. */
static void lex_string(td_lexer *lx, td_token *t) {
    char c;
    t->kind = TD_TOK_STRING;
    t->text = ++lx->p;
    while (lx->p < lx->end && *lx->p != '"') {
        int n = *lx->p == '\\' ? escape(lx->p, lx->end, &c) : 1;
        if (n == 0) {
            td__lex_fail(lx,
                         "unknown escape in a string; known are \\\", \\\\, \\n, \\t "
                         "and \\xHH");
            return;
        }
        if ((unsigned char)*lx->p < 0x20) break;
        lx->p += n;
    }
    if (lx->p >= lx->end || *lx->p != '"') {
        td__lex_fail(lx, "the string does not end on its line");
        return;
    }
    t->n = (size_t)(lx->p++ - t->text);
}

/* Inside parentheses and brackets (`nest`) line ends are skipped, so that long calls
 * may be broken. */
static void lex_sign(td_lexer *lx, td_token *t) {
    t->kind = TD_TOK_SIGN;
    t->n = 1;
    if (!*lx->p || !strchr("()[]{}<>,=:+-*/%", *lx->p)) {
        td__lex_fail(lx,
                     (unsigned char)*lx->p > 0x20 && (unsigned char)*lx->p < 0x7f
                         ? "unexpected character \"%c\""
                         : "unexpected byte 0x%02x",
                     (unsigned char)*lx->p);
        return;
    }
    if (*lx->p == '/') {
        t->n = 2;
        if (lx->end - lx->p < 2 || lx->p[1] != '/') {
            td__lex_fail(lx, "unexpected /; division of sizes is //");
            return;
        }
    }
    if (*lx->p == '(' || *lx->p == '[') lx->nest++;
    if ((*lx->p == ')' || *lx->p == ']') && lx->nest > 0) lx->nest--;
    lx->p += t->n;
}

/* Skips white space and comments; true if a line ended outside of brackets. */
static bool skip(td_lexer *lx) {
    bool ended = false;
    while (lx->p < lx->end) {
        if (*lx->p == '#')
            while (lx->p < lx->end && *lx->p != '\n') lx->p++;
        else if (*lx->p == '\n') {
            lx->p++;
            ended |= lx->nest == 0;
            lx->line++;
            lx->line_start = lx->p;
        } else if (*lx->p == ' ' || *lx->p == '\t' || *lx->p == '\r') lx->p++;
        else break;
    }
    return ended;
}

/* The token at lx->p, which is neither blank nor a line end. */
static void lex_rest(td_lexer *lx, td_token *t) {
    char c = *lx->p;
    if (c == '%' && lx->end - lx->p > 1 && is_name_char(lx->p[1])) lex_value(lx, t);
    else if (is_digit(c)) lex_number(lx, t);
    else if (c == '"') lex_string(lx, t);
    else if (c == '@' || is_letter(c)) {
        t->kind = c == '@' ? TD_TOK_AT : TD_TOK_WORD;
        t->text = c == '@' ? ++lx->p : lx->p;
        while (lx->p < lx->end && is_name_char(*lx->p)) lx->p++;
        t->n = (size_t)(lx->p - t->text);
    } else lex_sign(lx, t);
}

/* A token LINE stands for any number of line ends and comments. After a failure the
 * token stays, so that callers need not check each step. */
void td__lex_next(td_lexer *lx) {
    td_token *t = &lx->tok;
    if (lx->failed) return;
    int         line = lx->line;
    const char *start = lx->line_start, *at = lx->p;
    if (skip(lx)) {
        *t = (td_token){.kind = TD_TOK_LINE,
                        .at = at,
                        .text = at,
                        .line = line,
                        .line_start = start};
        return;
    }
    *t = (td_token){.at = lx->p,
                    .text = lx->p,
                    .line = lx->line,
                    .line_start = lx->line_start};
    if (lx->p < lx->end) lex_rest(lx, t);
}

void td__lex_begin(td_lexer *lx, td_ctx *cx, const char *text, size_t n,
                   const char *file) {
    *lx = (td_lexer){.cx = cx,
                     .file = file,
                     .p = text,
                     .end = text + n,
                     .line_start = text,
                     .line = 1};
    td__lex_next(lx);
}

/* ---- tests of the current token ----------------------------------------- */

bool td__lex_is(const td_lexer *lx, const char *sign) {
    return lx->tok.kind == TD_TOK_SIGN && strlen(sign) == lx->tok.n &&
           !memcmp(lx->tok.text, sign, lx->tok.n);
}

bool td__lex_word(const td_lexer *lx, const char *word) {
    return lx->tok.kind == TD_TOK_WORD && strlen(word) == lx->tok.n &&
           !memcmp(lx->tok.text, word, lx->tok.n);
}

bool td__lex_take(td_lexer *lx, const char *sign) {
    if (!td__lex_is(lx, sign)) return false;
    td__lex_next(lx);
    return !lx->failed;
}

/* Consumes the sign or fails with what was found instead. */
bool td__lex_need(td_lexer *lx, const char *sign) {
    if (td__lex_is(lx, sign)) {
        td__lex_next(lx);
        return !lx->failed;
    }
    const td_token *t = &lx->tok;
    if (t->kind == TD_TOK_END)
        return td__lex_fail(lx, "expected %s, the text ends", sign);
    if (t->kind == TD_TOK_LINE)
        return td__lex_fail(lx, "expected %s, the line ends", sign);
    int n = (int)(lx->p - t->at);
    return td__lex_fail(lx, "expected %s, got \"%.*s\"", sign, n > 40 ? 40 : n, t->at);
}

char td__lex_peek(const td_lexer *lx) {
    const char *p = lx->p;
    while (p < lx->end && (*p == ' ' || *p == '\t')) p++;
    return p < lx->end ? *p : 0;
}

/* A copy of the token's text in the arena, with the escapes of a string resolved. NULL:
 * out of memory. */
const char *td__lex_text(td_lexer *lx, td_arena *a) {
    const td_token *t = &lx->tok;
    char           *copy = td__arena_alloc(a, t->n + 1);
    if (!copy) return td__fail_memory(lx->cx), lx->failed = true, NULL;
    size_t n = 0;
    for (const char *p = t->text, *end = p + t->n; p < end;) {
        int len = 1;
        copy[n] = *p;
        if (t->kind == TD_TOK_STRING && *p == '\\') len = escape(p, end, &copy[n]);
        p += len > 0 ? len : 1;
        n++;
    }
    copy[n] = 0;
    return copy;
}

/* A function's name: @f or @"any text". NULL without an error if there is none, so that
 * the caller can say what it expected. */
const char *td__lex_name(td_lexer *lx, td_arena *a) {
    const td_token *t = &lx->tok;
    if (lx->failed || t->kind != TD_TOK_AT) return NULL;
    if (t->n == 0) { /* @"any text" */
        if (lx->p >= lx->end || *lx->p != '"') return NULL;
        td__lex_next(lx);
    } else if (is_digit(t->text[0])) return NULL; /* @3 is a storage number */
    const char *name = lx->failed ? NULL : td__lex_text(lx, a);
    if (name) td__lex_next(lx);
    return name;
}
