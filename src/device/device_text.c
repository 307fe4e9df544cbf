/* device_text.c -- a nest as the text of a device kernel. Statements are written as for
 * the CPU (backend/emit_value.c); only the loops differ: elements are divided among all
 * threads, or rows among blocks and the inside of a row among the threads of its block.
 * The division is written with TD_FIRST, TD_STEP, TD_ROW, TD_ROWS, TD_LANE, TD_LANES,
 * TD_UNROLL and TD_TOGETHER, which a plugin defines. */
#include "backend/emit.h"
#include "device/device_int.h"
#include "ops/expr.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- indices ------------------------------------------------------------ */

/* Splits `from` into the indices of dims first..end, of which the last is fastest. */
static void split_index(td_emit *e, const char *from, int first, int end,
                        const char *name) {
    td_emit_num n;
    if (end == first) return;
    td__emit_line(e, "int64_t rest_%s = %s;", name, from);
    for (int d = end - 1; d > first; d--) {
        td__emit_extent(e, e->n->size[d], n);
        td__emit_line(e, "const int64_t %s%d = td_k_split(&rest_%s, %s);", name,
                      d - first, name, n);
    }
    td__emit_line(e, "const int64_t %s0 = rest_%s;", name, name);
}

/* The product of the sizes of dims first..end, declared as `name`. */
static void count(td_emit *e, const char *name, int first, int end) {
    td_emit_num n;
    td_buf      b = {0};
    for (int d = first; d < end; d++)
        td__buf_printf(&b, "%s%s", d > first ? " * " : "",
                       td__emit_extent(e, e->n->size[d], n));
    td__emit_line(e, "const int64_t %s = %s;", name, b.n ? td__buf_str(&b) : "1");
    e->b->failed |= b.failed;
    td__buf_free(&b);
}

/* ---- kernels of elements ------------------------------------------------ */

static void emit_statements(td_emit *e, int first, int end) {
    for (int i = first; i < end; i++)
        if (e->n->stmt.v[i].kind == TD_S_STORE) td__emit_store(e, i);
        else td__emit_value(e, i);
}

static void emit_elements(td_emit *e) {
    count(e, "count", 0, e->n->n_dims);
    td__emit_line(e, "TD_UNROLL");
    td__emit_line(e, "for (int64_t at = TD_FIRST; at < count; at += TD_STEP) {");
    e->indent++;
    split_index(e, "at", 0, e->n->n_dims, "j");
    emit_statements(e, 0, e->n->stmt.n);
    e->indent--;
    td__emit_line(e, "}");
}

/* ---- kernels of rows ---------------------------------------------------- */

/* Folds the inside of the row with the statements before REDUCE r; afterwards v<r> is
 * the result in every thread. */
static void emit_fold(td_emit *e, int r) {
    const td_stmt *s = &e->n->stmt.v[r];
    td_dtype       acc = td__emit_acc(s);
    const char    *c = td__dtype_text[acc].c;
    td__emit_line(e, "%s acc = %s;", c, td__device_unit(s, acc));
    td__emit_line(e, "TD_UNROLL");
    td__emit_line(e, "for (int64_t at = TD_LANE; at < inside; at += TD_LANES) {");
    e->indent++;
    split_index(e, "at", e->outer, e->n->n_dims, "j");
    emit_statements(e, 0, r);
    td__emit_line(e, "const %s a = acc, b = v%d;", c, s->a[0]);
    td__emit_line(e, "acc = %s;", td__device_folded(s));
    e->indent--;
    td__emit_line(e, "}");
    td__emit_line(e, "TD_TOGETHER(%s, acc, (%s));", c, td__device_folded(s));
    td__emit_line(e, "const %s v%d = (%s)acc;", td__emit_c((td_dtype)s->dtype), r,
                  td__emit_c((td_dtype)s->dtype));
}

static void emit_rows(td_emit *e) {
    int r = 0;
    while (e->n->stmt.v[r].kind != TD_S_REDUCE) r++;
    count(e, "rows", 0, e->outer);
    count(e, "inside", e->outer, e->n->n_dims);
    td__emit_line(e, "for (int64_t row = TD_ROW; row < rows; row += TD_ROWS) {");
    e->indent++;
    split_index(e, "row", 0, e->outer, "i");
    emit_fold(e, r);
    td__emit_line(e, "if (TD_LANE == 0) {");
    e->indent++;
    emit_statements(e, r + 1, e->n->stmt.n);
    e->indent--;
    td__emit_line(e, "}");
    e->indent--;
    td__emit_line(e, "}");
}

/* ---- the whole ---------------------------------------------------------- */

/* Sizes and pointers that the body mentions. */
static void emit_locals(td_emit *e) {
    td__emit_line(e, "TD_OPEN");
    bool truncates = false;
    for (int i = 0; i < e->n->stmt.n; i++) truncates |= td__emit_truncates(e->n, i);
    if (truncates) td__emit_line(e, "const int32_t zero = (int32_t)r->zero;");
    for (int k = 0; k < e->named.n; k++) { /* a parameter, without a factor */
        td_extent x = e->named.v[k];
        td__emit_line(e, "const int64_t n%d = r->size[%d];", k, x.p);
    }
    for (int k = 0; k < e->n->ptr.n; k++) {
        const char *c = td__dtype_text[e->n->ptr.v[k].dtype].c;
        const char *is = e->n->ptr.v[k].written ? "" : "const ";
        td__emit_line(e, "%s%s *p%d = (%s%s *)r->ptr[%d];", is, c, k, is, c, k);
    }
}

/* Names of the td_ functions in the text, one per line. */
static void list_functions(td_buf *to, const char *text) {
    for (const char *p = text; (p = strstr(p, "td_"));) {
        size_t n = 0;
        while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
        bool inside = p > text && (isalnum((unsigned char)p[-1]) || p[-1] == '_');
        char name[80];
        snprintf(name, sizeof name, "%.*s\n", n < 70 ? (int)n : 70, p);
        if (!inside && strncmp(p, "td_nest_run", 11) != 0 &&
            !strstr(td__buf_str(to), name))
            td__buf_add(to, name);
        p += n;
    }
}

static bool has_fold(const td_nest *n) {
    for (int i = 0; i < n->stmt.n; i++)
        if (n->stmt.v[i].kind == TD_S_REDUCE) return true;
    return false;
}

/* The lines of the kernel: the body first, because it decides which sizes get names. */
static void emit_kernel(td_emit *e, td_buf *to) {
    td_buf body = {0};
    e->b = &body;
    e->indent = 1;
    if (has_fold(e->n)) emit_rows(e);
    else emit_elements(e);
    e->b = to;
    emit_locals(e);
    td__buf_add(to, td__buf_str(&body));
    to->failed |= body.failed;
    td__buf_free(&body);
}

bool td__device_text(td_buf *to, const td_nest *n) {
    td_nest_code none = {0};
    td_buf       kernel = {0}, names = {0};
    td__buf_add(to, "#define TD_NAME td_nest\n");
    td_emit e = {.n = n, .code = &none, .outer = n->n_outer};
    e.inner = n->n_dims - n->n_outer;
    e.at = td__zalloc(sizeof *e.at * ((size_t)n->stmt.n + 1));
    if (e.at) emit_kernel(&e, &kernel);
    list_functions(&names, td__buf_str(&kernel));
    bool ok = e.at && td__helpers_text(to, td__buf_str(&names));
    td__buf_printf(to,
                   "typedef struct td_nest_run {\n"
                   "    char *ptr[%d];\n"
                   "    int64_t size[%d], given[%d], zero;\n"
                   "} td_nest_run;\n"
                   "TD_KERNEL KERNEL(TD_RUN(td_nest_run)) {\n"
                   "%s}\n",
                   TD_DEVICE_PTRS, TD_DEVICE_SIZES, TD_DEVICE_GIVEN,
                   td__buf_str(&kernel));
    ok = ok && !kernel.failed && !names.failed && !to->failed;
    td__free(e.at);
    td__vec_free(&e.named);
    td__buf_free(&kernel);
    td__buf_free(&names);
    return ok;
}
