/* emit_device.c -- a nest as the text of one or two device kernels. Statements are
 * written as for the CPU (emit_value.c), in the loops that emit_plan.c gives them; only
 * who runs them differs. There are three shapes of kernel:
 *
 *   elements   no fold: all threads divide the points of the space
 *   rows       a block has a row, its threads the inside; folds of the inside go
 *              together over the block. With COLUMNs a block has a part of the rows,
 *              and a thread adds to the accumulators of its own inner elements
 *   columns    COLUMNs of the inside only: a thread has an inner element of a part of
 *              the rows
 *
 * A second kernel folds the accumulators of all parts, in order, and computes what
 * depends on them. The words in capitals are a plugin's (docs/cuda.md). Sizes of
 * compiled graphs are constants of the text, so divisions by them are cheap. */
#include "backend/emit_device.h"

#include "ops/expr.h"

#include <stdio.h>
#include <string.h>

/* COLUMN_THREADS: of a block that folds columns of vectors; KEPT: most elements of a
 * row that a thread has. */
enum {
    COLUMN_THREADS = 128,
    WARP = 32,
    KEPT = 16,
    LONG = 8192,
    LONG_THREADS = 512,
    FEW = 8,
    CHEAP = 16
};

/* ---- rows in registers --------------------------------------------------- */

/* Vectors of a row, or its elements. */
static int64_t row_vectors(const td_emit *e) {
    return e->n->inside.c / td__loop_width(e);
}

/* Divides a row of one dim, of known size, among the threads of a block; e->each is 0
 * if it is too long for their registers. */
static void divide_row(td_emit *e) {
    const td_nest *n = e->n;
    int64_t        count = row_vectors(e),
            each = (count + TD_LOOP_THREADS - 1) / TD_LOOP_THREADS;
    if (n->inside.p >= 0 || n->n_dims - n->n_outer != 1 ||
        each * td__loop_width(e) > KEPT || n->inside.c % td__loop_width(e))
        return;
    e->each = (int)each;
    e->threads = (int)((count + each - 1) / each + WARP - 1) / WARP * WARP;
}

/* Registers of a thread for a value of each of its elements. */
static void registers(const td_emit *e, char *out, size_t cap) {
    snprintf(out, cap, "TD_SHARE(%lld, %d) * %lld", (long long)row_vectors(e),
             e->threads, (long long)td__loop_width(e));
}

static void declare_kept(td_emit *e) {
    char n[80];
    registers(e, n, sizeof n);
    for (int i = 0; e->each && i < e->n->stmt.n; i++)
        if (e->at[i].main && e->at[i].buffered)
            td__emit_line(e, "%s t%d[%s];",
                          td__emit_c((td_dtype)td__loop_stmt(e, i)->dtype), i, n);
}

/* Opens the loop over a thread's vectors. */
static void open_share(td_emit *e) {
    char line[120];
    td__emit_line(e, "TD_UNROLL_ALL");
    snprintf(line, sizeof line, "for (int k = 0; k < TD_SHARE(%lld, %d); k++) {",
             (long long)row_vectors(e), e->threads);
    td__loop_open(e, line);
    td__emit_line(e, "const int vec = (int)TD_LANE + k * (int)TD_LANES;");
    td__emit_line(e, "if (vec >= %lld) continue;", (long long)row_vectors(e));
}

/* ---- vectors that are read ahead ----------------------------------------- */

static void declare_ahead(td_emit *e, char name) {
    char of[60] = "";
    if (e->each)
        snprintf(of, sizeof of, "[TD_SHARE(%lld, %d)]", (long long)row_vectors(e),
                 e->threads);
    for (int i = 0; i < e->n->stmt.n; i++)
        if (td__loop_is_ahead(e, i))
            td__emit_line(
                e, "TD_WORDS(td_vec_%s) %c%d%s;",
                td__dtype_text[e->n->ptr.v[td__loop_stmt(e, i)->ptr].dtype].suffix,
                name, i, of);
}

/* n<i> are the vectors that were read ahead, m<i> those of this turn. */
static void take_ahead(td_emit *e, const char *k) {
    for (int i = 0; i < e->n->stmt.n; i++)
        if (td__loop_is_ahead(e, i)) td__emit_line(e, "m%d%s = n%d%s;", i, k, i, k);
}

static void fetch(td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++)
        if (td__loop_is_ahead(e, i)) td__loop_fetch(e, i);
}

/* Opens the loop over points from `first` to `end` by `step`, and the one over the
 * points of a vector; declares their indices. */
static void open_points(td_emit *e, const char *first, const char *end,
                        const char *step) {
    int  last = e->n->n_dims - 1 - e->outer;
    char line[200];
    if (!e->vector) {
        if (e->each) {
            open_share(e);
            td__emit_line(e, "const int at = vec, reg = k;");
        } else {
            td__emit_line(e, "TD_UNROLL");
            snprintf(line, sizeof line, "for (int64_t at = %s; at < %s; at += %s) {",
                     first, end, step);
            td__loop_open(e, line);
        }
        td__loop_split_index(e, "at", e->outer, e->n->n_dims, 'j');
        return;
    }
    snprintf(line, sizeof line, "for (int64_t vec = %s; vec < %s / %d; vec += %s) {",
             first, end, e->vector, step);
    if (e->each) open_share(e);
    else {
        td__emit_line(e, "TD_UNROLL_TWO");
        td__loop_open(e, line);
    }
    td__emit_line(e, "const int64_t base = vec * %d;", e->vector);
    td__loop_split_index(e, "base", e->outer, e->n->n_dims, 'j');
    td__emit_line(e, "const %s from = j%d;", td__loop_index_type(e->n), last);
    td__loop_load_vectors(e);
    td__emit_line(e, "TD_UNROLL_ALL");
    snprintf(line, sizeof line, "for (int u = 0; u < %d; u++) {", e->vector);
    td__loop_open(e, line);
    td__emit_line(e, "const int64_t at = base + u;");
    td__emit_line(e, "const %s j%d = from + u;", td__loop_index_type(e->n), last);
    if (e->each) td__emit_line(e, "const int reg = k * %d + u;", e->vector);
}

static const char *next_row(const td_emit *e) {
    return e->code->has_end ? "row + 1" : "row + TD_ROWS";
}

/* Stores the vectors and closes the loops. */
static void close_points(td_emit *e) {
    td__loop_close(e);
    if (!e->vector) return;
    td__loop_store_vectors(e);
    if (!e->all) td__row_bring_next(e, next_row(e), e->code->has_end ? "end" : "rows");
    td__loop_close(e);
}

/* ---- elements ----------------------------------------------------------- */

/* All statements that KERNEL needs, at one point. */
static void emit_point(td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        uint8_t kind = td__loop_stmt(e, i)->kind;
        if (!e->at[i].main || kind == TD_S_COLUMN) continue;
        if (kind == TD_S_STORE) td__loop_store_first(e, i);
        else td__emit_value(e, i);
    }
}

static void emit_elements(td_emit *e) {
    td__loop_count(e, "count", 0, e->n->n_dims);
    open_points(e, "TD_FIRST", "count", "TD_STEP");
    emit_point(e);
    close_points(e);
}

/* ---- columns ------------------------------------------------------------ */

/* Accumulator i of the element that is computed. */
static void column_acc(const td_emit *e, int i, char *out, size_t cap) {
    snprintf(out, cap, e->vector ? "acc%d[u]" : "acc%d", i);
}

static void declare_columns(td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt *s = td__loop_stmt(e, i);
        if (!td__loop_is_column(e, i, true)) continue;
        if (!e->vector) {
            td__loop_declare_acc(e, i);
            continue;
        }
        td__emit_line(e, "%s acc%d[%d];", td__loop_acc_text(s), i, e->vector);
        td__emit_line(e, "TD_UNROLL_ALL");
        td__emit_line(e, "for (int u = 0; u < %d; u++) acc%d[u] = %s;", e->vector, i,
                      td__device_unit(s, td__emit_acc(s)));
    }
}

/* Opens the loop over the elements of a vector. */
static void open_vector(td_emit *e) {
    char line[60];
    td__emit_line(e, "TD_UNROLL_ALL");
    snprintf(line, sizeof line, "for (int u = 0; u < %d; u++) {", e->vector);
    td__loop_open(e, line);
}

/* The elements of a row, whose index is `at` or follows `from`. */
static void emit_column_points(td_emit *e) {
    char to[40], x[24];
    if (e->vector) {
        td__emit_line(e, "const %s j0 = from;", td__loop_index_type(e->n));
        td__loop_load_vectors(e);
        open_vector(e);
        td__emit_line(e, "const %s j0 = from + u;", td__loop_index_type(e->n));
    }
    emit_point(e);
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (!td__loop_is_column(e, i, true)) continue;
        column_acc(e, i, to, sizeof to);
        snprintf(x, sizeof x, "v%d", td__loop_stmt(e, i)->a[0]);
        td__loop_fold_into(e, i, to, x);
    }
    if (!e->vector) return;
    td__loop_close(e);
    td__loop_store_vectors(e);
}

static void store_columns(td_emit *e) {
    char to[120], acc[40];
    if (e->vector) open_vector(e);
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (!td__loop_is_column(e, i, true)) continue;
        td__loop_part_text(e, i, to, sizeof to);
        column_acc(e, i, acc, sizeof acc);
        td__emit_line(e, e->vector ? "%s[from + u] = %s;" : "%s[at] = %s;", to, acc);
    }
    if (e->vector) td__loop_close(e);
}

/* Reads the vectors of a row ahead, if there is one. */
static void fetch_column(td_emit *e, const char *row) {
    char line[80];
    snprintf(line, sizeof line, "if (%s < end) {", row);
    td__loop_open(e, line);
    td__emit_line(e, "const int64_t next = %s;", row);
    td__loop_split_index(e, "next", 0, e->outer, 'i');
    td__emit_line(e, "const %s j0 = from;", td__loop_index_type(e->n));
    fetch(e);
    td__loop_close(e);
}

/* Operations of a point. Where they take longer than reading it, one row after the
 * other is computed; else several are read at a time. */
static int costs(const td_emit *e) {
    int cost = 0;
    for (int i = 0; i < e->n->stmt.n; i++)
        if (e->at[i].main && e->at[i].depth && td__loop_stmt(e, i)->kind == TD_S_EXPR)
            cost += e->at[i].own;
    return cost;
}

/* A tile is what the threads of a block have of a row, an element or a vector each. */
static void emit_columns(td_emit *e) {
    int tile = e->threads, wide = (int)td__loop_width(e);
    td__loop_count(e, "rows", 0, e->outer);
    td__loop_count(e, "inside", e->outer, e->n->n_dims);
    td__loop_parts(e);
    if (e->vector) td__emit_line(e, "const int64_t all = inside / %d;", wide);
    else td__emit_line(e, "const int64_t all = inside;");
    td__emit_line(e, "const int64_t tiles = (all + %d) / %d;", tile - 1, tile);
    td__loop_open(e, "for (int64_t w = TD_ROW; w < parts * tiles; w += TD_ROWS) {");
    td__emit_line(e, "const int64_t part = w / tiles, first = w %% tiles * %d;", tile);
    td__emit_line(e, "const int64_t last = first + %d < all ? first + %d : all;", tile,
                  tile);
    td__loop_part_rows(e);
    td__loop_open(e, "for (int64_t at = first + TD_LANE; at < last; at += TD_LANES) {");
    if (e->vector)
        td__emit_line(e, "const %s from = (%s)at * %d;", td__loop_index_type(e->n),
                      td__loop_index_type(e->n), wide);
    else td__loop_split_index(e, "at", e->outer, e->n->n_dims, 'j');
    declare_columns(e);
    e->ahead = e->vector && costs(e) > CHEAP;
    if (e->ahead) declare_ahead(e, 'n'), fetch_column(e, "begin");
    td__emit_line(e, e->ahead ? "TD_ROLL" : "TD_UNROLL");
    td__loop_open(e, "for (int64_t row = begin; row < end; row++) {");
    if (e->ahead) {
        declare_ahead(e, 'm');
        take_ahead(e, "");
        fetch_column(e, "row + 1");
    }
    td__loop_split_index(e, "row", 0, e->outer, 'i');
    emit_column_points(e);
    td__loop_close(e);
    e->ahead = false;
    store_columns(e);
    td__loop_close(e);
    td__loop_close(e);
}

/* ---- rows --------------------------------------------------------------- */

static bool folds_here(const td_emit *e, int i) {
    return td__loop_stmt(e, i)->kind == TD_S_REDUCE && e->at[i].main && !e->at[i].one &&
           e->at[i].loop - 1 == e->loop;
}

static void emit_inside(td_emit *e) {
    char to[24], x[24], part[160];
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_emit_at *a = &e->at[i];
        uint8_t           kind = td__loop_stmt(e, i)->kind;
        if (a->main && a->depth && a->needed >> e->loop & 1 && kind != TD_S_STORE &&
            kind != TD_S_COLUMN && kind != TD_S_REDUCE) {
            td__emit_value(e, i);
            if (a->buffered && a->computed == 1u << e->loop)
                td__emit_line(e, "t%d[reg] = v%d;", i, i);
        }
    }
    for (int i = 0; i < e->n->stmt.n; i++) {
        snprintf(x, sizeof x, "v%d", td__loop_stmt(e, i)->a[0]);
        if (folds_here(e, i)) {
            snprintf(to, sizeof to, "acc%d", i);
            td__loop_fold_into(e, i, to, x);
        } else if (td__loop_ends_here(e, i) &&
                   td__loop_stmt(e, i)->kind == TD_S_STORE) {
            td__emit_store(e, i);
        } else if (td__loop_ends_here(e, i)) {
            snprintf(part, sizeof part, e->each ? "col%d[reg]" : "col%d[at]", i);
            td__loop_fold_into(e, i, part, x);
        }
    }
}

/* The elements of a row behind its last whole vector. */
static void emit_rest(td_emit *e) {
    int  vector = e->vector;
    char line[120];
    if (!vector || e->n->inside.c % vector == 0) return;
    snprintf(line, sizeof line,
             "for (int64_t at = inside / %d * %d + TD_LANE; at < inside; at += "
             "TD_LANES) {",
             vector, vector);
    e->vector = 0;
    td__emit_line(e, "TD_ROLL");
    td__loop_open(e, line);
    td__loop_split_index(e, "at", e->outer, e->n->n_dims, 'j');
    emit_inside(e);
    td__loop_close(e);
    e->vector = vector;
}

/* The folds that a loop ends, two at a time. */
static void fold_blocks(td_emit *e) {
    int one = -1;
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (!folds_here(e, i)) continue;
        if (one >= 0) td__loop_fold_two(e, one, i);
        one = one >= 0 ? -1 : i;
    }
    if (one >= 0) td__loop_fold_block(e, one);
}

/* One loop over the inside of a row, and the folds that it ends. */
static void emit_loop(td_emit *e, int k) {
    bool work = false;
    e->loop = k;
    for (int i = 0; i < e->n->stmt.n; i++) {
        work |= folds_here(e, i) || td__loop_ends_here(e, i);
        if (folds_here(e, i)) td__loop_declare_acc(e, i);
    }
    if (!work) return;
    open_points(e, "TD_LANE", "inside", "TD_LANES");
    emit_inside(e);
    close_points(e);
    emit_rest(e);
    fold_blocks(e);
}

/* Values of a whole row between its loops; stage -1: values equal for all rows. Every
 * thread computes them, the first one of a block stores them. */
static void emit_stage(td_emit *e, int stage) {
    char acc[24], x[24];
    e->loop = stage;
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt    *s = td__loop_stmt(e, i);
        const td_emit_at *a = &e->at[i];
        if (!a->main || a->depth || a->fixed != (stage < 0) ||
            (s->kind == TD_S_REDUCE && !a->one) || (stage >= 0 && a->loop != stage) ||
            td__loop_is_column(e, i, true))
            continue;
        if (s->kind == TD_S_REDUCE) {
            td__row_one(e, i);
            continue;
        }
        if (s->kind == TD_S_COLUMN) {
            snprintf(acc, sizeof acc, "acc%d", i);
            snprintf(x, sizeof x, "v%d", s->a[0]);
            td__loop_fold_into(e, i, acc, x);
        } else if (s->kind == TD_S_STORE) {
            td__emit_line(e, "if (%sTD_LANE == 0)", stage < 0 ? "TD_ROW == 0 && " : "");
            e->indent++;
            td__emit_store(e, i);
            e->indent--;
        } else td__emit_value(e, i);
    }
    if (td__row_needs_barrier(e, stage)) td__emit_line(e, "TD_SYNC;");
}

/* Sets a wide accumulator of a part: in registers, or in memory. */
static void begin_column(td_emit *e, int i) {
    const td_stmt *s = td__loop_stmt(e, i);
    const char *c = td__loop_acc_text(s), *unit = td__device_unit(s, td__emit_acc(s));
    char        text[160];
    if (e->each) {
        registers(e, text, sizeof text);
        td__emit_line(e, "%s col%d[%s];", c, i, text);
        td__emit_line(e, "TD_UNROLL_ALL");
        td__emit_line(e, "for (int k = 0; k < %s; k++) col%d[k] = %s;", text, i, unit);
        return;
    }
    td__loop_part_text(e, i, text, sizeof text);
    td__emit_line(e, "%s *col%d = %s;", c, i, text);
    td__emit_line(e,
                  "for (int64_t at = TD_LANE; at < inside; at += TD_LANES) "
                  "col%d[at] = %s;",
                  i, unit);
}

/* Sets the accumulators of a part. */
static void emit_part_begin(td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (td__loop_is_column(e, i, false)) td__loop_declare_acc(e, i);
        if (td__loop_is_column(e, i, true)) begin_column(e, i);
    }
}

/* Stores the accumulators of a part that are not in memory. */
static void emit_part_end(td_emit *e) {
    char at[160];
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (!td__loop_is_column(e, i, false) &&
            !(e->each && td__loop_is_column(e, i, true)))
            continue;
        td__loop_part_text(e, i, at, sizeof at);
        if (td__loop_is_column(e, i, false)) {
            td__emit_line(e, "if (TD_LANE == 0) %s = acc%d;", at, i);
            continue;
        }
        open_share(e);
        td__emit_line(e, "TD_UNROLL_ALL");
        td__emit_line(e, "for (int u = 0; u < %lld; u++)",
                      (long long)td__loop_width(e));
        td__emit_line(e, "    %s[vec * %lld + u] = col%d[k * %lld + u];", at,
                      (long long)td__loop_width(e), i, (long long)td__loop_width(e));
        td__loop_close(e);
    }
}

/* Reads the vectors of the row of that name. */
static void fetch_row(td_emit *e, const char *row) {
    char line[80];
    snprintf(line, sizeof line, "if (%s < end) {", row);
    td__loop_open(e, line);
    td__loop_split_index(e, row, 0, e->outer, 'i');
    open_share(e);
    td__emit_line(e, "const int64_t base = vec * %d;", e->vector);
    td__loop_split_index(e, "base", e->outer, e->n->n_dims, 'j');
    fetch(e);
    td__loop_close(e);
    td__loop_close(e);
}

/* Takes the vectors of this row, and reads those of the next. */
static void take_row(td_emit *e) {
    char line[80];
    declare_ahead(e, 'm');
    td__emit_line(e, "TD_UNROLL_ALL");
    snprintf(line, sizeof line, "for (int k = 0; k < TD_SHARE(%lld, %d); k++) {",
             (long long)row_vectors(e), e->threads);
    td__loop_open(e, line);
    take_ahead(e, "[k]");
    td__loop_close(e);
    td__emit_line(e, "const int64_t next = row + 1;");
    fetch_row(e, "next");
}

static void emit_rows(td_emit *e) {
    bool columns = e->code->has_end;
    e->ahead = e->vector && columns && e->each;
    td__loop_count(e, "rows", 0, e->outer);
    td__loop_count(e, "inside", e->outer, e->n->n_dims);
    if (columns) td__loop_parts(e);
    td__row_declare_kept(e);
    emit_stage(e, -1);
    if (columns) {
        td__loop_open(e,
                      "for (int64_t part = TD_ROW; part < parts; part += TD_ROWS) {");
        td__loop_part_rows(e);
        emit_part_begin(e);
        if (e->ahead) declare_ahead(e, 'n'), fetch_row(e, "begin");
        td__row_bring_first(e, "begin", "end");
        td__loop_open(e, "for (int64_t row = begin; row < end; row++) {");
    } else {
        td__row_bring_first(e, "TD_ROW", "rows");
        td__loop_open(e, "for (int64_t row = TD_ROW; row < rows; row += TD_ROWS) {");
    }
    td__row_arrived(e);
    if (e->ahead) take_row(e);
    td__loop_split_index(e, "row", 0, e->outer, 'i');
    declare_kept(e);
    for (int k = 0; k <= e->n_loops; k++) {
        emit_stage(e, k);
        emit_loop(e, k);
    }
    td__loop_close(e);
    e->ahead = false;
    if (!columns) return;
    emit_part_end(e);
    td__loop_close(e);
}

/* ---- after all parts ----------------------------------------------------- */

static bool ends_column(const td_emit *e, int i, bool wide) {
    return td__loop_stmt(e, i)->kind == TD_S_COLUMN && e->at[i].end &&
           (e->at[i].depth > 0) == wide;
}

/* Folds the accumulators of all parts, divided among the threads of a block; `wide`:
 * among those that have the same inner element. All columns are read in one loop. */
static void combine(td_emit *e, bool wide) {
    char to[24], at[160];
    int  n = 0;
    for (int i = 0; i < e->n->stmt.n; i++)
        if (ends_column(e, i, wide)) td__loop_declare_acc(e, i), n++;
    if (n == 0) return;
    td__emit_line(e, "TD_UNROLL_MORE");
    td__loop_open(
        e, wide ? "for (int64_t part = TD_SLICE; part < parts; part += TD_SLICES) {"
                : "for (int64_t part = TD_LANE; part < parts; part += TD_LANES) {");
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (!ends_column(e, i, wide)) continue;
        td__loop_part_text(e, i, at, sizeof at);
        strcat(at, wide ? "[at]" : "");
        snprintf(to, sizeof to, "acc%d", i);
        td__loop_fold_into(e, i, to, at);
    }
    td__loop_close(e);
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (!ends_column(e, i, wide)) continue;
        td__emit_line(e, "%s(%s, acc%d, (%s));", wide ? "TD_DOWN" : "TD_TOGETHER",
                      td__loop_acc_text(td__loop_stmt(e, i)), i,
                      td__device_folded(td__loop_stmt(e, i)));
        td__loop_declare_fold(e, i);
    }
}

/* Statements after the folds: at every inner element, or once. */
static void emit_after(td_emit *e, bool inside) {
    combine(e, inside);
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt *s = td__loop_stmt(e, i);
        if (!e->at[i].end || (e->at[i].depth > 0) != inside || s->kind == TD_S_COLUMN)
            continue;
        if (s->kind != TD_S_STORE) td__emit_value(e, i);
        else {
            td__emit_line(e, inside ? "if (mine)" : "if (TD_FIRST == 0)");
            e->indent++;
            td__emit_store(e, i);
            e->indent--;
        }
    }
}

/* The inner elements that a block of the second kernel has: few, so that many blocks
 * read the parts; if there are many, one for each thread. */
static int tile_of(const td_nest *n) {
    if (n->inside.p >= 0) return WARP;
    return n->inside.c > 64 * LONG_THREADS ? LONG_THREADS
           : n->inside.c > LONG            ? WARP
                                           : FEW;
}

/* A block has TD_COLUMNS inner elements, and TD_SLICES threads for each. */
static void emit_end(td_emit *e) {
    bool inside = false;
    e->in_end = true;
    td__loop_count(e, "inside", e->outer, e->n->n_dims);
    td__loop_parts(e);
    emit_after(e, false);
    for (int i = 0; i < e->n->stmt.n; i++)
        inside |= e->at[i].end && e->at[i].depth > 0 &&
                  td__loop_stmt(e, i)->kind == TD_S_STORE;
    if (!inside) return;
    td__loop_open(e, "for (int64_t w = TD_ROW * TD_COLUMNS; w < inside; "
                     "w += TD_ROWS * TD_COLUMNS) {");
    td__emit_line(e, "const bool mine = TD_SLICE == 0 && w + TD_COLUMN < inside;");
    td__emit_line(e, "const int64_t at = w + TD_COLUMN < inside ? w + TD_COLUMN "
                     ": inside - 1;");
    td__loop_split_index(e, "at", e->outer, e->n->n_dims, 'j');
    emit_after(e, true);
    td__loop_close(e);
}

/* ---- the whole ---------------------------------------------------------- */

static td_device_shape shape_of(const td_emit *e) {
    bool folds = false, columns = false;
    for (int i = 0; i < e->n->stmt.n; i++) {
        folds |=
            td__loop_stmt(e, i)->kind == TD_S_REDUCE || td__loop_is_column(e, i, false);
        columns |= td__loop_stmt(e, i)->kind == TD_S_COLUMN;
    }
    return folds ? TD_DEVICE_ROWS : columns ? TD_DEVICE_COLUMNS : TD_DEVICE_ELEMENTS;
}

/* What a kernel is written to: its body, and the kernel with it. */
typedef struct kernel_text {
    td_buf body, whole;
} kernel_text;

/* One kernel: the functions it uses, its argument, its text. The body is written first,
 * because it decides which sizes get names. */
static void emit_kernel(td_emit *e, kernel_text *k, td_buf *to,
                        void (*body)(td_emit *)) {
    const td_nest *n = e->n;
    td_nest_code   used = {0};
    *k = (kernel_text){0};
    e->named.n = 0;
    e->indent = 1;
    e->b = &k->body;
    body(e);
    e->b = &k->whole;
    td__buf_printf(&k->whole, "TD_KERNEL KERNEL(TD_RUN(td_nest_run)) {\n    TD_OPEN\n");
    td__emit_locals(e);
    td__buf_printf(&k->whole, "%s}\n", td__buf_str(&k->body));
    td__buf_add(&used.text, td__buf_str(&k->whole));
    td__emit_helpers(&used);
    bool ok = td__helpers_text(to, td__buf_str(&used.helpers));
    td__loop_declare_vectors(e, to);
    td__buf_printf(to,
                   "typedef struct td_nest_run {\n"
                   "    char *ptr[%d];\n"
                   "    int64_t size[%d], given[%d], zero;\n"
                   "} td_nest_run;\n%s",
                   n->ptr.n + 1, n->n_sizes + 1, n->n_given + 1,
                   td__buf_str(&k->whole));
    to->failed |= !ok || k->body.failed || k->whole.failed || used.text.failed;
    td__nest_code_free(&used);
    td__buf_free(&k->body);
    td__buf_free(&k->whole);
}

bool td__device_emit(const td_nest *n, bool vectors, int64_t shared,
                     td_device_code *to) {
    td_nest_code code = {0};
    kernel_text  k;
    td_emit      e = {.n = n, .code = &code, .loop = -1, .device = true};
    e.vector = vectors ? td__loop_vector_of(n, true) : 0;
    divide_row(&e);
    static void (*const bodies[])(td_emit *) = {[TD_DEVICE_ELEMENTS] = emit_elements,
                                                [TD_DEVICE_ROWS] = emit_rows,
                                                [TD_DEVICE_COLUMNS] = emit_columns};
    bool ok = td__emit_plan(&e);
    if (ok) {
        to->shape = shape_of(&e);
        to->has_end = code.has_end;
        to->n_wide = code.n_wide, to->n_single = code.n_single;
        if (to->shape == TD_DEVICE_ELEMENTS) e.outer = 0, e.inner = n->n_dims;
        e.all = to->shape != TD_DEVICE_ROWS;
        if (e.all) e.each = 0;
        if (vectors && to->shape == TD_DEVICE_ELEMENTS)
            e.vector = td__loop_vector_of(n, false);
        if (to->shape == TD_DEVICE_COLUMNS && e.vector)
            e.vector = n->inside.c % e.vector ? 0 : td__loop_vector_of_main(&e);
        if (e.all) e.threads = e.vector ? COLUMN_THREADS : TD_LOOP_THREADS;
        to->vector = e.vector;
        to->threads = e.each || to->shape == TD_DEVICE_COLUMNS ? e.threads : 0;
        if (to->shape == TD_DEVICE_ROWS && !e.each && n->inside.p < 0 &&
            n->inside.c > LONG)
            to->threads = LONG_THREADS;
        to->shared = td__row_keep(&e, to->shape == TD_DEVICE_ROWS ? shared : 0);
        emit_kernel(&e, &k, &to->text, bodies[to->shape]);
        e.all = false;
        e.vector = e.each = 0;
        to->tile = tile_of(n);
        if (code.has_end) {
            td__buf_printf(&to->end, "#define TD_TILE %d\n", to->tile);
            emit_kernel(&e, &k, &to->end, emit_end);
        }
    }
    td__free(e.at);
    td__vec_free(&e.named);
    return ok && !to->text.failed && !to->end.failed;
}

void td__device_code_free(td_device_code *c) {
    td__buf_free(&c->text);
    td__buf_free(&c->end);
}
