/* text_tokens.c -- tokens of the text form in both directions: numbers that read back
 * exactly, strings, sizes, descriptors. Independent of the locale. */
#include "core/device.h"
#include "core/utf8.h"
#include "graph/graph_int.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *const td__region_words[TD_R_COUNT] = {"no_grad",       "enable_grad",
                                                  "inference",     "plain",
                                                  "autocast_bf16", "autocast_f16",
                                                  "autocast_off"};

const char *const td__rel_signs[TD_DIM_RELS] = {"==", "<>", "<", ">="};

const char *const td__policy_words[TD_MUST_OFFLOAD + 1] = {
    "none",           "must_save",   "prefer_save", "prefer_recompute",
    "must_recompute", "must_offload"};

const char *const td__desc_words[TD_D_COUNT] = {
    "plain",  "param",       "buffer", "const",     "tangent",
    "update", "meta_update", "base",   "view_base", "synthetic_base",
    "grad",   "saved",       "seed",   "offset",    "token",
    "loss",   "own_grad",    "object", "inner"};

td_dtype td__dtype_word(const char *s, size_t n) {
    for (int dt = 0; dt < TD_DTYPE_COUNT; dt++) {
        const char *name = td_dtype_name((td_dtype)dt);
        if (strlen(name) == n && !memcmp(name, s, n)) return (td_dtype)dt;
    }
    return TD_DTYPE_NONE;
}

/* ---- numbers ------------------------------------------------------------ */

/* The "C" locale: an object of the C library that is never freed and needs no
 * allocation. */
static locale_t plain_locale(void) { return newlocale(LC_ALL_MASK, "C", (locale_t)0); }

double td__text_to_float(const char *s) { return strtod_l(s, NULL, plain_locale()); }

/* f rounded to dtype dt. */
static double stored(td_dtype dt, double f) {
    char bytes[8];
    td__store_f(dt, bytes, f);
    return td__load_f(dt, bytes);
}

/* The shortest decimal that reads back to the same value in dtype dt, always with a
 * point or an exponent: 1 is an integer in the text format. Independent of the
 * locale. */
void td__text_float_as(td_buf *b, td_dtype dt, double f) {
    char text[40];
    if (isnan(f) || isinf(f)) {
        td__buf_add(b, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    /* this many digits survive a round trip in any normal number; start there */
    int first = dt == TD_F64 ? 15 : dt == TD_F32 ? 6 : 2;
    if (fabs(f) < (dt == TD_F64 ? DBL_MIN : dt == TD_F16 ? 0x1p-14 : FLT_MIN))
        first = 1;
    locale_t was = uselocale(plain_locale());
    for (int digits = first; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, f);
        double back = strtod(text, NULL);
        if (back == f || (dt != TD_F64 && stored(dt, back) == f)) break;
    }
    uselocale(was);
    td__buf_add(b, text);
    if (!strpbrk(text, ".e")) td__buf_add(b, ".0");
}

void td__text_float(td_buf *b, double f) { td__text_float_as(b, TD_F64, f); }

/* ---- strings ------------------------------------------------------------ */

/* Quoted, with everything escaped that is not printable UTF-8. */
void td__text_string(td_buf *b, const char *s) {
    td__buf_add(b, "\"");
    while (*s) {
        unsigned char c = (unsigned char)*s;
        int           n = td__utf8_step(s);
        if (c == '\n') td__buf_add(b, "\\n");
        else if (c == '\t') td__buf_add(b, "\\t");
        else if (c == '"' || c == '\\') td__buf_printf(b, "\\%c", c);
        else if (!n || c < 0x20 || c == 0x7f) td__buf_printf(b, "\\x%02x", c);
        else td__buf_addn(b, s, (size_t)n);
        s += n ? n : 1;
    }
    td__buf_add(b, "\"");
}

/* Can the lexer read the name without quotes (td__lex_name)? */
static bool is_plain_name(const char *s) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    if (!*s || !strchr(letters, *s)) return false;
    return s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
                       "0123456789.")] == 0;
}

void td__text_name(td_buf *b, const char *name) {
    td__buf_add(b, "@");
    if (is_plain_name(name)) td__buf_add(b, name);
    else td__text_string(b, name);
}

/* ---- sizes -------------------------------------------------------------- */

static const char *const dim_signs[] = {"+", "-", "*", "//", " % ", "min", "max"};

/* Precedence of an operation: sums 1, products 2, others 3. */
static int binding(const td_gdim *d) {
    if (!d || d->op == TD_GDIM_SYMBOL || d->op >= TD_DIM_MIN) return 3;
    return d->op == TD_DIM_ADD || d->op == TD_DIM_SUB ? 1 : 2;
}

/* Prints an expression, in parentheses if its precedence is below `least`.
 * Recurses; td__gdim_make bounds the depth. */
static void dim_text(td_buf *b, const td_graph *g, int64_t dim, int least) {
    const td_gdim *d = td__gdim_at(g, dim);
    if (!d) {
        td__buf_printf(b, "%lld", (long long)dim);
        return;
    }
    if (d->op == TD_GDIM_SYMBOL) {
        td__buf_printf(b, "%c%d", d->letter, (int)d->nr);
        return;
    }
    bool call = d->op >= TD_DIM_MIN;
    int  mine = binding(d);
    if (call) td__buf_printf(b, "%s(", dim_signs[d->op]);
    else if (mine < least) td__buf_add(b, "(");
    dim_text(b, g, d->a, call ? 0 : mine);
    td__buf_add(b, call ? "," : dim_signs[d->op]);
    dim_text(b, g, d->b, call ? 0 : mine + 1);
    if (call || mine < least) td__buf_add(b, ")");
}

void td__text_dim(td_buf *b, const td_graph *g, int64_t dim) { dim_text(b, g, dim, 0); }

/* ---- descriptors and elements ------------------------------------------- */

void td__text_desc(td_buf *b, const td_desc *d) {
    if (d->kind == TD_D_PLAIN && d->index < 0 && !d->name) return;
    td__buf_printf(b, " <%s", td__desc_words[d->kind]);
    if (d->index >= 0) td__buf_printf(b, " %d", (int)d->index);
    if (d->name) {
        td__buf_add(b, " ");
        td__text_string(b, d->name);
    }
    td__buf_add(b, ">");
}

/* Of a complex element first the real, then the imaginary part. */
static void one_element(td_buf *b, td_dtype dt, const char *at, bool json) {
    if (td__is_complex(dt)) {
        dt = td__real_of(dt);
        one_element(b, dt, at, json);
        td__buf_add(b, ", ");
        at += td__dtype_bytes[dt];
    }
    if (dt == TD_BOOL) td__buf_add(b, td__load_i(dt, at) ? "true" : "false");
    else if (!td__is_float(dt))
        td__buf_printf(b, "%lld", (long long)td__load_i(dt, at));
    else if (json) td__json_float(b, dt, td__load_f(dt, at));
    else td__text_float_as(b, dt, td__load_f(dt, at));
}

/* All elements of a tensor of the CPU, in row-major order. */
static void list_elements(td_buf *b, const td_tensor *t, bool json) {
    int64_t at[TD_MAX_RANK] = {0}, place = 0;
    size_t  item = td__dtype_bytes[t->dtype];
    for (int64_t left = t->numel; left > 0; left--) {
        one_element(b, (td_dtype)t->dtype, td__ptr(t) + place * (int64_t)item, json);
        if (left > 1) td__buf_add(b, ", ");
        for (int d = t->rank - 1; d >= 0; d--) {
            place += t->stride[d];
            if (++at[d] < t->size[d]) break;
            place -= at[d] * t->stride[d];
            at[d] = 0;
        }
    }
}

/* False: the tensor has no bytes (a tensor of a type: its inner tensors have them), or
 * after td__fail. */
static bool elements(td_buf *b, const td_tensor *t, bool json) {
    if (td__is_fake(t) || t->typed) return false;
    if (TD_LIKELY(!t->st->device)) return list_elements(b, t, json), true;
    if (!td__scope_push(t->cx)) return false;
    const td_tensor *host = td__on_host((td_tensor *)(uintptr_t)t);
    if (host) list_elements(b, host, json);
    td__scope_pop(t->cx, NULL, 0);
    return host != NULL;
}

bool td__text_elements(td_buf *b, const td_tensor *t) { return elements(b, t, false); }

void td__json_elements(td_buf *b, const td_tensor *t) {
    td__buf_add(b, "[");
    elements(b, t, true);
    td__buf_add(b, "]");
}
