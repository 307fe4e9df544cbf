/* emit.c -- writes a nest as C: the function KERNEL and, if it has COLUMNs,
 * KERNEL_end.
 *
 * needs a nest; gives text that depends on the nest alone, so that equal nests give
 * equal text. nest.h describes how the functions are called. */
#include "backend/emit.h"

#include "ops/expr.h"

#include <ctype.h>
#include <string.h>

static const td_stmt *stmt(const td_emit *e, int i) { return &e->n->stmt.v[i]; }

/* ---- declarations -------------------------------------------------------- */

/* Does the function being written access pointer k? */
static bool uses_pointer(const td_emit *e, int k) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt *s = stmt(e, i);
        bool           here = e->in_end ? e->at[i].end : e->at[i].main;
        if ((s->kind == TD_S_LOAD || s->kind == TD_S_STORE) && s->ptr == k && here)
            return true;
    }
    return false;
}

/* Does a cast need the variable `zero` (td__emit_truncates)? */
static bool truncates(const td_nest *n) {
    for (int i = 0; i < n->stmt.n; i++)
        if (td__emit_truncates(n, i)) return true;
    return false;
}

void td__emit_locals(td_emit *e) {
    e->indent = 1;
    if (truncates(e->n)) td__emit_line(e, "const int32_t zero = (int32_t)r->zero;");
    for (int k = 0; k < e->named.n; k++) {
        td_extent x = e->named.v[k];
        if (x.c == 1) td__emit_line(e, "const int64_t n%d = r->size[%d];", k, x.p);
        else
            td__emit_line(e, "const int64_t n%d = %lld * r->size[%d];", k,
                          (long long)x.c, x.p);
    }
    for (int k = 0; k < e->n->ptr.n; k++) {
        const char *c = td__dtype_text[e->n->ptr.v[k].dtype].c;
        const char *is = e->n->ptr.v[k].written ? "" : "const ";
        /* a point reads before it writes, and no other point reads what it writes */
        bool        lone = e->device && !e->n->ptr.v[k].shared;
        const char *alone = lone ? "restrict " : "";
        if (uses_pointer(e, k))
            td__emit_line(e, "%s%s *%sp%d = (%s%s *)r->ptr[%d];", is, c, alone, k, is,
                          c, k);
    }
}

/* ---- rows ---------------------------------------------------------------- */

/* Opens the loop over rows. The first row number is decomposed into outer indices;
 * further rows increment them like an odometer. */
static void emit_rows_begin(td_emit *e) {
    td_emit_num n;
    int         last = e->outer - 1;
    if (last > 0) {
        td__emit_line(
            e,
            "if (begin < end) {"); /* then every size is positive, and % is defined */
        e->indent++;
        td__emit_line(e, "int64_t rest = begin;");
        for (int d = last; d > 0; d--) {
            td__emit_extent(e, e->n->size[d], n);
            td__emit_line(e, "int64_t i%d = rest %% %s;", d, n);
            td__emit_line(e, "rest /= %s;", n);
        }
        td__emit_line(e, "int64_t i0 = rest;");
    }
    td__emit_line(e, "for (int64_t row = begin; row < end; row++) {");
    e->indent++;
    if (last == 0) td__emit_line(e, "const int64_t i0 = row;");
}

/* Increments the outer indices and closes the loops of emit_rows_begin. */
static void emit_rows_end(td_emit *e) {
    td_emit_num n;
    int         opened = 0;
    for (int d = e->outer - 1; d > 0; d--, opened++) {
        td__emit_line(e, "if (++i%d == %s) {", d, td__emit_extent(e, e->n->size[d], n));
        e->indent++;
        td__emit_line(e, "i%d = 0;", d);
    }
    if (e->outer > 1) td__emit_line(e, "i0++;");
    opened += e->outer > 1 ? 2 : 1;
    while (opened--) {
        e->indent--;
        td__emit_line(e, "}");
    }
}

/* The body of KERNEL: fixed statements, then per row the stages and loops in turn. */
static void emit_main(td_emit *e) {
    e->indent = 1;
    td__emit_columns_begin(e);
    td__emit_buffers(e);
    td__emit_stage(e, -1);
    if (e->flat) {
        td__emit_loop(e, 0);
    } else {
        emit_rows_begin(e);
        for (int k = 0; k <= e->n_loops; k++) {
            td__emit_stage(e, k);
            td__emit_loop(e, k);
        }
        td__emit_columns_row_end(e);
        emit_rows_end(e);
    }
    td__emit_columns_finish(e);
}

/* ---- helpers ------------------------------------------------------------- */

/* Is the word a line of the text? */
static bool has_line(const char *lines, const char *name, size_t n) {
    for (const char *p = lines; *p; p += strcspn(p, "\n") + 1)
        if (!strncmp(p, name, n) && p[n] == '\n') return true;
    return false;
}

/* Lists the td_ functions that the text mentions, once each; td_nest_run is a type. */
void td__emit_helpers(td_nest_code *code) {
    const char *text = td__buf_str(&code->text);
    for (const char *p = text; (p = strstr(p, "td_"));) {
        size_t n = 0;
        while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
        bool run = (n == 11 && !strncmp(p, "td_nest_run", n)) ||
                   !strncmp(p, "td_vec_", 7); /* types */
        if (!run && !has_line(td__buf_str(&code->helpers), p, n))
            td__buf_printf(&code->helpers, "%.*s\n", (int)n, p);
        p += n;
    }
}

/* ---- the whole ----------------------------------------------------------- */

/* Writes the body first, because it decides which sizes get names, then the head, the
 * declarations and the body. */
static void emit_function(td_emit *e, const char *head, void (*body)(td_emit *)) {
    td_buf text = {0}, *out = e->b;
    e->named.n = 0;
    e->b = &text;
    body(e);
    e->b = out;
    td__buf_printf(out, "%s", head);
    td__emit_locals(e);
    td__buf_add(out, td__buf_str(&text));
    td__buf_add(out, "}\n");
    out->failed |= text.failed;
    td__buf_free(&text);
}

static void emit_end_body(td_emit *e) {
    e->indent = 1;
    td__emit_end(e);
}

/* Emits two C functions: KERNEL runs rows begin..end of one part; KERNEL_end, if
 * needed, combines the parts of folds over rows. The text has the placeholder KERNEL,
 * so that it does not depend on the name, which is a hash of it. */
bool td__nest_emit(const td_nest *n, td_nest_code *code) {
    td_emit e = {.n = n, .code = code, .b = &code->text, .loop = -1};
    if (td__emit_plan(&e)) {
        emit_function(&e,
                      "void KERNEL(const td_nest_run *r, int64_t part, int64_t begin, "
                      "int64_t end) {\n",
                      emit_main);
        e.in_end = true;
        if (code->has_end)
            emit_function(
                &e,
                "void KERNEL_end(const td_nest_run *r, int64_t parts, int64_t "
                "begin, int64_t end) {\n",
                emit_end_body);
        td__emit_helpers(code);
    } else code->text.failed = true;
    td__free(e.at);
    td__vec_free(&e.named);
    return !code->text.failed && !code->helpers.failed;
}

void td__nest_code_free(td_nest_code *code) {
    td__buf_free(&code->text);
    td__buf_free(&code->helpers);
    *code = (td_nest_code){0};
}
