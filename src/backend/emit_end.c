/* emit_end.c -- COLUMNs: sums and other folds over rows.
 *
 * Rows are divided into parts. Each part has its own accumulators in the run's
 * memory: one per inner element for a COLUMN of inside values (wide), else one
 * (single). A wide sum of floats has two arrays in its 8 bytes per element: d<i> sums
 * up to COLUMN_ROWS rows and is then added to c<i>, so that the rounding error grows
 * with the square root of what it would be. A single sum of floats is a double.
 * KERNEL_end combines the parts in order, so results do not depend on the number of
 * threads. */
#include "backend/emit.h"

#include "ops/expr.h"

#include <stdio.h>

enum { COLUMN_ROWS = 64, END_BLOCK = 256 };

static const td_stmt *stmt(const td_emit *e, int i) { return &e->n->stmt.v[i]; }

/* Is statement i a COLUMN, wide or single, that KERNEL computes? */
static bool is_column(const td_emit *e, int i, bool wide) {
    return stmt(e, i)->kind == TD_S_COLUMN && e->at[i].main && e->at[i].wide == wide;
}

/* The dtype of the accumulators. */
static td_dtype acc_of(const td_emit *e, int i) {
    const td_stmt *s = stmt(e, i);
    td_dtype       dt = td__emit_acc(s);
    bool           sum = s->how == TD_FOLD_SUM && !e->at[i].wide;
    return sum && dt == TD_F32 ? TD_F64 : dt;
}

/* Is it a wide f32 sum, with the two arrays described above? */
static bool has_two_arrays(const td_emit *e, int i) {
    return e->at[i].wide && acc_of(e, i) == TD_F32 && stmt(e, i)->how == TD_FOLD_SUM;
}

/* The offset of COLUMN i's accumulators in a part, as text. */
static const char *acc_offset(td_emit *e, int i, char *out, size_t cap) {
    const td_emit_at *a = &e->at[i];
    int               arrays = a->wide ? a->acc : e->code->n_wide;
    int               more = a->wide ? 0 : 8 * a->acc;
    td_emit_num       n;
    if (e->n->inside.p < 0)
        snprintf(out, cap, "%lld", (long long)(8 * arrays * e->n->inside.c + more));
    else
        snprintf(out, cap, "%d * %s + %d", 8 * arrays,
                 td__emit_extent(e, e->n->inside, n), more);
    return out;
}

/* Declares c<i>, its accumulators in part `part`. */
static void declare_acc(td_emit *e, int i) {
    const char *c = td__dtype_text[acc_of(e, i)].c;
    char        at[80];
    td__emit_line(e, "%s *c%d = (%s *)(r->parts + part * r->part_bytes + %s);", c, i, c,
                  acc_offset(e, i, at, sizeof at));
}

/* Sets n elements of `name` to the neutral element. For sums that is memset, which
 * compilers do not turn into a slow loop. */
static void emit_units(td_emit *e, int i, const char *name, const char *n, int bytes) {
    td_emit_num unit;
    if (stmt(e, i)->how == TD_FOLD_SUM) {
        td__emit_line(e, "__builtin_memset(%s, 0, %d * %s);", name, bytes, n);
        return;
    }
    td__emit_line(e, "#pragma omp simd");
    td__emit_line(e, "for (int64_t k = 0; k < %s; k++) %s[k] = %s;", n, name,
                  td__emit_unit(stmt(e, i), acc_of(e, i), unit));
}

/* Declares the accumulators of folds over rows and sets them to the fold's unit. A wide
 * f32 sum has two arrays: c, and d for the last few rows. */
void td__emit_columns_begin(td_emit *e) {
    td_emit_num unit, n;
    char        name[24];
    for (int i = 0; i < e->n->stmt.n; i++) {
        const char *c = td__dtype_text[acc_of(e, i)].c;
        if (is_column(e, i, false))
            td__emit_line(e, "%s c%d = %s;", c, i,
                          td__emit_unit(stmt(e, i), acc_of(e, i), unit));
        if (!is_column(e, i, true)) continue;
        declare_acc(e, i);
        td__emit_extent(e, e->n->inside, n);
        if (has_two_arrays(e, i)) td__emit_line(e, "%s *d%d = c%d + %s;", c, i, i, n);
        snprintf(name, sizeof name, "c%d", i);
        emit_units(e, i, name, n, 8); /* 8 bytes: includes d<i> */
    }
}

/* Adds the value of this element to its column's accumulator. */
void td__emit_column_add(td_emit *e, int i) {
    const td_stmt *s = stmt(e, i);
    td_buf         at = {0};
    td__emit_flat(e, &at);
    const char *k = td__buf_str(&at);
    if (s->how == TD_FOLD_SUM)
        td__emit_line(e, "%c%d[%s] += v%d;", has_two_arrays(e, i) ? 'd' : 'c', i, k,
                      s->a[0]);
    else
        td__emit_line(e, "c%d[%s] = td_fold_one_%s(%d, c%d[%s], v%d);", i, k,
                      td__dtype_text[acc_of(e, i)].suffix, s->how, i, k, s->a[0]);
    e->b->failed |= at.failed;
    td__buf_free(&at);
}

/* Adds a value that is the same for the whole row. */
void td__emit_column_row(td_emit *e, int i, const char *x) {
    const td_stmt *s = stmt(e, i);
    if (s->how == TD_FOLD_SUM) td__emit_line(e, "c%d += %s;", i, x);
    else
        td__emit_line(e, "c%d = td_fold_one_%s(%d, c%d, %s);", i,
                      td__dtype_text[acc_of(e, i)].suffix, s->how, i, x);
}

/* Every COLUMN_ROWS rows the short-term sums d are added to c. */
void td__emit_columns_row_end(td_emit *e) {
    td_emit_num n;
    bool        any = false;
    for (int i = 0; i < e->n->stmt.n; i++)
        any |= is_column(e, i, true) && has_two_arrays(e, i);
    if (!any) return;
    td__emit_line(e, "if ((row - begin) %% %d == %d || row + 1 == end) {", COLUMN_ROWS,
                  COLUMN_ROWS - 1);
    e->indent++;
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (!is_column(e, i, true) || !has_two_arrays(e, i)) continue;
        td__emit_line(e, "#pragma omp simd");
        td__emit_line(e,
                      "for (int64_t k = 0; k < %s; k++) c%d[k] += d%d[k], d%d[k] = 0;",
                      td__emit_extent(e, e->n->inside, n), i, i, i);
    }
    e->indent--;
    td__emit_line(e, "}");
}

/* Stores the accumulators of this part; KERNEL_end combines the parts in order. */
void td__emit_columns_finish(td_emit *e) {
    char at[80];
    for (int i = 0; i < e->n->stmt.n; i++)
        if (is_column(e, i, false))
            td__emit_line(e, "*(%s *)(r->parts + part * r->part_bytes + %s) = c%d;",
                          td__dtype_text[acc_of(e, i)].c,
                          acc_offset(e, i, at, sizeof at), i);
}

/* ---- KERNEL_end ---------------------------------------------------------- */

/* Declares v<i>, the COLUMN's value, from the text of its accumulator. */
static void declare_column(td_emit *e, int i, const char *text) {
    td_dtype dt = (td_dtype)stmt(e, i)->dtype;
    td_buf   b = {0};
    td__emit_cast(&b, acc_of(e, i), dt, text);
    td__emit_line(e, "const %s v%d = %s;", td__emit_c(dt), i, td__buf_str(&b));
    e->b->failed |= b.failed;
    td__buf_free(&b);
}

/* Folds the accumulators of all parts. */
static void combine_single(td_emit *e, int i) {
    const char *k = td__dtype_text[acc_of(e, i)].suffix;
    td_emit_num unit;
    char        text[24];
    td__emit_line(e, "%s a%d = %s;", td__dtype_text[acc_of(e, i)].c, i,
                  td__emit_unit(stmt(e, i), acc_of(e, i), unit));
    td__emit_line(e, "for (int64_t part = 0; part < parts; part++) {");
    e->indent++;
    declare_acc(e, i);
    td__emit_line(e, "a%d = td_fold_one_%s(%d, a%d, *c%d);", i, k, stmt(e, i)->how, i,
                  i);
    e->indent--;
    td__emit_line(e, "}");
    snprintf(text, sizeof text, "a%d", i);
    declare_column(e, i, text);
}

/* Folds the accumulators of all parts for elements [b, b + m) of the inside. */
static void combine_wide(td_emit *e, int i) {
    const char *k = td__dtype_text[acc_of(e, i)].suffix;
    char        name[24];
    td__emit_line(e, "_Alignas(64) %s a%d[%d];", td__dtype_text[acc_of(e, i)].c, i,
                  END_BLOCK);
    snprintf(name, sizeof name, "a%d", i);
    emit_units(e, i, name, "m", td__dtype_bytes[acc_of(e, i)]);
    td__emit_line(e, "for (int64_t part = 0; part < parts; part++) {");
    e->indent++;
    declare_acc(e, i);
    td__emit_line(e, "#pragma omp simd");
    td__emit_line(e, "for (int64_t k = 0; k < m; k++)");
    td__emit_line(e, "    a%d[k] = td_fold_one_%s(%d, a%d[k], c%d[b + k]);", i, k,
                  stmt(e, i)->how, i, i);
    e->indent--;
    td__emit_line(e, "}");
}

/* The statements of KERNEL_end: those inside the loop over the inside, or those
 * outside. */
static void emit_after(td_emit *e, bool inside) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt *s = stmt(e, i);
        char           text[24];
        if (!e->at[i].end || (e->at[i].depth > 0) != inside) continue;
        snprintf(text, sizeof text, e->inner == 1 ? "a%d[j0 - b]" : "a%d[f - b]", i);
        if (s->kind == TD_S_COLUMN && inside) declare_column(e, i, text);
        else if (s->kind == TD_S_COLUMN) combine_single(e, i);
        else if (s->kind != TD_S_STORE) td__emit_value(e, i);
        else if (inside) td__emit_store(e, i);
        else td__emit_store_once(e, i);
    }
}

/* Inner indices from the flat one. */
static void emit_indices(td_emit *e) {
    td_emit_num n;
    td__emit_line(e, "int64_t rest = f;");
    for (int k = e->inner - 1; k > 0; k--) {
        td__emit_extent(e, e->n->size[e->outer + k], n);
        td__emit_line(e, "const int64_t j%d = rest %% %s;", k, n);
        td__emit_line(e, "rest /= %s;", n);
    }
    td__emit_line(e, "const int64_t j0 = rest;");
}

/* The loop over the inside, block by block. */
static void emit_after_loop(td_emit *e, bool simd) {
    td__emit_line(e, "for (int64_t b = begin; b < end; b += %d) {", END_BLOCK);
    e->indent++;
    td__emit_line(e, "const int64_t m = end - b < %d ? end - b : %d;", END_BLOCK,
                  END_BLOCK);
    for (int i = 0; i < e->n->stmt.n; i++)
        if (is_column(e, i, true)) combine_wide(e, i);
    if (simd) td__emit_line(e, "#pragma omp simd");
    td__emit_line(e, "for (int64_t %s = b; %s < b + m; %s++) {",
                  e->inner == 1 ? "j0" : "f", e->inner == 1 ? "j0" : "f",
                  e->inner == 1 ? "j0" : "f");
    e->indent++;
    if (e->inner > 1) emit_indices(e);
    emit_after(e, true);
    e->indent--;
    td__emit_line(e, "}");
    e->indent--;
    td__emit_line(e, "}");
}

/* The body of KERNEL_end: combines the parts, then computes and stores what depends on
 * the folds. */
void td__emit_end(td_emit *e) {
    bool inside = false, simd = e->inner == 1;
    e->in_end = true;
    for (int i = 0; i < e->n->stmt.n; i++) {
        inside |= e->at[i].end && e->at[i].depth > 0 && stmt(e, i)->kind == TD_S_STORE;
        simd &= stmt(e, i)->kind != TD_S_DRAW;
    }
    emit_after(e, false);
    if (inside) emit_after_loop(e, simd);
}
