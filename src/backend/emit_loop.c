/* emit_loop.c -- the loops over a row's inside, and the statements between them.
 *
 * A loop computes elements only. A value to be folded goes into a buffer, and a
 * function of fold.h folds the buffer with four vectors. So the loops vectorize with
 * every compiler, and sums have the same order everywhere. Short rows are folded
 * whole, others block by block. A buffer is free after its fold, so several loops
 * share it. */
#include "backend/emit.h"

#include "ops/expr.h"

#include <stdio.h>
#include <string.h>

static const td_stmt *stmt(const td_emit *e, int i) { return &e->n->stmt.v[i]; }

/* ---- what the current loop does ------------------------------------------ */

/* Does the current loop compute the operand of fold i? */
static bool folds_here(const td_emit *e, int i) {
    const td_emit_at *a = &e->at[i];
    if (!a->main || a->direct) return false;
    if (stmt(e, i)->kind == TD_S_REDUCE) return a->loop - 1 == e->loop;
    return stmt(e, i)->kind == TD_S_COLUMN && e->flat;
}

/* Is STORE i in the current loop? */
static bool stores_here(const td_emit *e, int i) {
    const td_emit_at *a = &e->at[i];
    return stmt(e, i)->kind == TD_S_STORE && a->main && a->depth && a->loop == e->loop;
}

/* Does the current loop add to the wide COLUMN i? */
static bool adds_here(const td_emit *e, int i) {
    const td_emit_at *a = &e->at[i];
    return stmt(e, i)->kind == TD_S_COLUMN && a->main && a->wide && a->loop == e->loop;
}

/* Does the current loop fill the row buffer of value i? */
static bool buffers_here(const td_emit *e, int i) {
    const td_emit_at *a = &e->at[i];
    return a->buffered && a->main && a->computed == 1u << e->loop;
}

/* Does the current loop read numbers of DRAW i that were drawn block by block? */
static bool draws_here(const td_emit *e, int i) {
    return stmt(e, i)->kind == TD_S_DRAW && e->at[i].main &&
           e->at[i].computed >> e->loop & 1 && td__emit_draws_runs(e, i);
}

/* May the loop be marked `omp simd`? Not with a DRAW of single elements: it has
 * arrays, which clang 14 does not make private per iteration. */
static bool is_simd(const td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++)
        if (stmt(e, i)->kind == TD_S_DRAW && e->at[i].main &&
            e->at[i].computed >> e->loop & 1 && !td__emit_draws_runs(e, i))
            return false;
    return true;
}

/* ---- buffers ------------------------------------------------------------- */

const char *td__emit_last(td_emit *e, td_emit_num out) {
    return td__emit_extent(e, e->n->size[e->n->n_dims - 1], out);
}

/* Does a loop that runs block by block need more than one block? */
static bool is_long(const td_emit *e) {
    td_extent last = e->n->size[e->n->n_dims - 1];
    return e->flat || last.p >= 0 || last.c > e->block;
}

/* Declares an array: a whole row, or one block. */
static void declare_buffer(td_emit *e, td_dtype held, char name, int i, bool row) {
    int64_t n = e->block;
    if (row) n = e->n->inside.c > 0 ? e->n->inside.c : 1;
    td__emit_line(e, "_Alignas(64) %s %c%d[%lld];", td__dtype_text[held].c, name, i,
                  (long long)n);
}

/* Declares row buffers: values that two loops of a row need (t), runs of random numbers
 * (w), and elements that a fold reads from memory (s). */
void td__emit_buffers(td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt    *s = stmt(e, i);
        const td_emit_at *a = &e->at[i];
        td_dtype          held = td__emit_var_dtype((td_dtype)s->dtype);
        if (!a->main) continue;
        if (a->buffered) declare_buffer(e, held, 't', i, true);
        if (s->kind == TD_S_DRAW && td__emit_draws_runs(e, i))
            declare_buffer(e, held, 'w', i, false);
        if (s->kind == TD_S_REDUCE && !a->direct && !td__emit_folds_buffered(e, i) &&
            a->buffer == i)
            declare_buffer(e, td__emit_acc(s), 's', i, e->has_rows);
        if (s->kind == TD_S_COLUMN && e->flat)
            declare_buffer(e, td__emit_acc(s), 's', i, false);
    }
}

/* ---- folds --------------------------------------------------------------- */

/* "td_fold_sum_f32(s5, 768, 0.0f)": folds n elements of `from` into so_far, or into
 * the neutral element if so_far is NULL. */
static void fold_text(td_emit *e, td_buf *b, int i, const char *from, const char *n,
                      const char *so_far) {
    static const char *const how[] = {"sum", "prod", "max", "min"};
    const td_stmt           *s = stmt(e, i);
    td_dtype                 acc = td__emit_acc(s);
    td_emit_num              unit;
    td__buf_printf(b, "td_fold_%s_%s(%s, %s, %s)", how[s->how],
                   td__dtype_text[acc].suffix, from, n,
                   so_far ? so_far : td__emit_unit(s, acc, unit));
    e->b->failed |= b->failed;
}

/* Declares v<i> from the text of its accumulator. */
static void declare_fold(td_emit *e, int i, const char *text) {
    const td_stmt *s = stmt(e, i);
    td_buf         b = {0};
    td__emit_cast(&b, td__emit_acc(s), (td_dtype)s->dtype, text);
    td__emit_line(e, "const %s v%d = %s;", td__emit_c((td_dtype)s->dtype), i,
                  td__buf_str(&b));
    e->b->failed |= b.failed;
    td__buf_free(&b);
}

/* Folds a whole row: of contiguous memory, or, after the loop, of a buffer. */
static void fold_row(td_emit *e, int i) {
    const td_stmt *s = stmt(e, i), *x = stmt(e, s->a[0]);
    td_buf         b = {0}, from = {0};
    td_emit_num    n;
    if (e->at[i].direct) {
        td_buf    at = {0};
        td_extent stride[TD_NEST_DIMS];
        memcpy(stride, x->stride, sizeof *stride * (size_t)e->n->n_dims);
        memset(stride + e->outer, 0, sizeof *stride * (size_t)e->inner);
        td__emit_index(e, &at, stride);
        td__buf_printf(&from, "&p%d[%s]", x->ptr, td__buf_str(&at));
        from.failed |= at.failed;
        td__buf_free(&at);
    } else
        td__buf_printf(&from, td__emit_folds_buffered(e, i) ? "t%d" : "s%d",
                       td__emit_folds_buffered(e, i) ? s->a[0] : e->at[i].buffer);
    fold_text(e, &b, i, td__buf_str(&from), td__emit_extent(e, e->n->inside, n), NULL);
    declare_fold(e, i, td__buf_str(&b));
    e->b->failed |= from.failed;
    td__buf_free(&from);
    td__buf_free(&b);
}

/* After a block: folds its buffers into the accumulators. */
static void fold_blocks(td_emit *e, const char *count) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        td_buf b = {0};
        char   from[24], acc[24];
        if (!folds_here(e, i) || e->has_rows) continue;
        snprintf(from, sizeof from, "s%d", e->at[i].buffer);
        snprintf(acc, sizeof acc, "a%d", i);
        bool column = stmt(e, i)->kind == TD_S_COLUMN;
        fold_text(e, &b, i, from, count, column ? NULL : acc);
        if (column) td__emit_column_row(e, i, td__buf_str(&b));
        else td__emit_line(e, "%s = %s;", acc, td__buf_str(&b));
        td__buf_free(&b);
    }
}

/* ---- one loop ------------------------------------------------------------ */

/* Stores v<v> in the buffer of fold i ('s') or in the row buffer t<i>. */
static void fill_buffer(td_emit *e, int i, char name, int v) {
    td_buf at = {0};
    int    last = e->inner - 1;
    bool   block = name == 's' && !e->has_rows;
    if (!block) td__emit_flat(e, &at);
    else td__buf_printf(&at, e->blocks ? "j%d - b" : "j%d", last);
    if (name == 's')
        td__emit_line(e, "s%d[%s] = v%d;", e->at[i].buffer, td__buf_str(&at), v);
    else td__emit_line(e, "t%d[%s] = v%d;", i, td__buf_str(&at), v);
    e->b->failed |= at.failed;
    td__buf_free(&at);
}

/* The values at `depth`, then what the loop does with them. */
static void emit_depth(td_emit *e, int depth) {
    int n = e->n->stmt.n;
    for (int i = 0; i < n; i++) {
        const td_emit_at *a = &e->at[i];
        uint8_t           kind = stmt(e, i)->kind;
        if (depth && a->main && a->depth == depth && a->needed >> e->loop & 1 &&
            kind != TD_S_STORE && kind != TD_S_COLUMN && kind != TD_S_REDUCE)
            td__emit_value(e, i);
    }
    for (int i = 0; i < n && depth == e->inner; i++) {
        int x = stmt(e, i)->a[0];
        if (buffers_here(e, i)) fill_buffer(e, i, 't', i);
        if (folds_here(e, i) && !td__emit_folds_buffered(e, i))
            fill_buffer(e, i, 's', x);
        if (adds_here(e, i)) td__emit_column_add(e, i);
    }
    for (int i = 0; i < n; i++)
        if (stores_here(e, i) && e->at[i].depth == depth) td__emit_store(e, i);
}

/* Draws a block of random numbers into w<i>, for each DRAW that allows it. */
static void make_draws(td_emit *e, const char *from, const char *count) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        td_buf place = {0};
        char   out[24];
        if (!draws_here(e, i)) continue;
        const td_stmt *x = stmt(e, stmt(e, i)->a[0]);
        snprintf(out, sizeof out, "w%d", i);
        td__emit_line(e, "{");
        e->indent++;
        td__emit_line(e, "const int64_t j%d = %s;", e->inner - 1, from);
        td__emit_index(e, &place, x->stride);
        if (x->num.i) td__buf_printf(&place, " + %lld", (long long)x->num.i);
        td__emit_draws(e, i, td__buf_str(&place), count, out);
        e->indent--;
        td__emit_line(e, "}");
        e->b->failed |= place.failed;
        td__buf_free(&place);
    }
}

/* The loop over the last inner dim, whole or block by block. */
static void emit_innermost(td_emit *e) {
    td_emit_num size, to;
    const char *count = e->blocks ? "m" : td__emit_last(e, size);
    int         k = e->inner - 1;
    const char *end = e->flat ? "end" : td__emit_last(e, to);
    if (e->blocks) {
        td__emit_line(e, "for (int64_t b = %s; b < %s; b += %d) {",
                      e->flat ? "begin" : "0", end, e->block);
        e->indent++;
        td__emit_line(e, "const int64_t m = %s - b < %d ? %s - b : %d;", end, e->block,
                      end, e->block);
    }
    make_draws(e, e->blocks ? "b" : e->flat ? "begin" : "0", count);
    if (is_simd(e)) td__emit_line(e, "#pragma omp simd");
    td__emit_line(e, "for (int64_t j%d = %s; j%d < %s; j%d++) {", k,
                  e->blocks ? "b"
                  : e->flat ? "begin"
                            : "0",
                  k, e->blocks ? "b + m" : end, k);
    e->indent++;
    emit_depth(e, e->inner);
    e->indent--;
    td__emit_line(e, "}");
    fold_blocks(e, count);
    if (e->blocks) {
        e->indent--;
        td__emit_line(e, "}");
    }
}

/* All inner loops. */
static void emit_nest(td_emit *e) {
    td_emit_num num;
    if (!e->inner) {
        emit_depth(e, 0);
        return;
    }
    for (int k = 0; k + 1 < e->inner; k++) {
        td__emit_line(e, "for (int64_t j%d = 0; j%d < %s; j%d++) {", k, k,
                      td__emit_extent(e, e->n->size[e->outer + k], num), k);
        e->indent++;
        emit_depth(e, k + 1);
    }
    emit_innermost(e);
    for (int k = 0; k + 1 < e->inner; k++) {
        e->indent--;
        td__emit_line(e, "}");
    }
}

/* Emits inner loop k of a row with its stores and folds. Folds read the row from a
 * buffer if rows are short; otherwise they accumulate in pieces in registers. */
void td__emit_loop(td_emit *e, int k) {
    bool work = false, pieces = false;
    e->loop = k;
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_emit_at *a = &e->at[i];
        if (a->direct && a->main && a->loop - 1 == k) fold_row(e, i);
        work |= folds_here(e, i) || stores_here(e, i) || adds_here(e, i);
        pieces |= draws_here(e, i) || (folds_here(e, i) && !e->has_rows);
    }
    e->blocks = pieces && is_long(e);
    for (int i = 0; i < e->n->stmt.n && !e->has_rows; i++)
        if (folds_here(e, i) && stmt(e, i)->kind == TD_S_REDUCE) {
            td_dtype    acc = td__emit_acc(stmt(e, i));
            td_emit_num unit;
            td__emit_line(e, "%s a%d = %s;", td__emit_c(acc), i,
                          td__emit_unit(stmt(e, i), acc, unit));
        }
    if (work) emit_nest(e);
    for (int i = 0; i < e->n->stmt.n; i++) {
        char text[24];
        if (!folds_here(e, i) || stmt(e, i)->kind != TD_S_REDUCE) continue;
        snprintf(text, sizeof text, "a%d", i);
        if (e->has_rows) fold_row(e, i);
        else declare_fold(e, i, text);
    }
}

/* ---- between loops ------------------------------------------------------- */

/* Statements between the loops of a row: values that are the same for the whole row.
 * Stage -1: values that are the same for all rows. */
void td__emit_stage(td_emit *e, int stage) {
    e->loop = stage;
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt    *s = stmt(e, i);
        const td_emit_at *a = &e->at[i];
        char              text[24];
        if (!a->main || a->depth || a->fixed != (stage < 0)) continue;
        if (stage >= 0 && a->loop != stage) continue;
        snprintf(text, sizeof text, "v%d", s->a[0]);
        if (s->kind == TD_S_REDUCE) continue;
        if (s->kind == TD_S_COLUMN) {
            if (!e->flat) td__emit_column_row(e, i, text);
        } else if (s->kind != TD_S_STORE) td__emit_value(e, i);
        else {
            if (stage < 0) td__emit_store_once(e, i);
            else td__emit_store(e, i);
        }
    }
}
