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
#include "backend/emit.h"

#include "ops/expr.h"

#include <stdio.h>
#include <string.h>

static const td_stmt *stmt(const td_emit *e, int i) { return &e->n->stmt.v[i]; }

/* ---- indices ------------------------------------------------------------ */

/* int32_t if every index of the nest fits, as GPUs divide 64-bit numbers slowly. */
static const char *index_type(const td_nest *n) {
    const int64_t most = INT32_MAX / 2;
    int64_t       points = 1;
    for (int d = 0; d < n->n_dims; d++)
        if (n->size[d].p >= 0 || __builtin_mul_overflow(points, n->size[d].c, &points))
            return "int64_t";
    for (int i = 0; i < n->stmt.n; i++) {
        const td_extent *s = n->stmt.v[i].stride;
        int64_t          reach = 0, step;
        for (int d = 0; s && d < n->n_dims; d++) {
            if (s[d].p >= 0 || __builtin_mul_overflow(s[d].c, n->size[d].c, &step))
                return "int64_t";
            reach += step < 0 ? -step : step;
            if (reach > most) return "int64_t";
        }
    }
    return points > most ? "int64_t" : "int32_t";
}

/* Declares the indices of dims first..end, of which the last is fastest, from
 * `from`. */
static void split_index(td_emit *e, const char *from, int first, int end, char name) {
    const char *type = index_type(e->n);
    td_emit_num n;
    if (end == first) return;
    if (end == first + 1) {
        td__emit_line(e, "const %s %c0 = (%s)%s;", type, name, type, from);
        return;
    }
    td__emit_line(e, "%s rest_%c = (%s)%s;", type, name, type, from);
    for (int d = end - 1; d > first; d--) {
        td__emit_extent(e, e->n->size[d], n);
        td__emit_line(e, "const %s %c%d = rest_%c %% %s;", type, name, d - first, name,
                      n);
        td__emit_line(e, "rest_%c /= %s;", name, n);
    }
    td__emit_line(e, "const %s %c0 = rest_%c;", type, name, name);
}

/* Declares a count of points: the product of the sizes of dims first..end. */
static void count(td_emit *e, const char *name, int first, int end) {
    td_emit_num n;
    td_buf      b = {0};
    for (int d = first; d < end; d++)
        td__buf_printf(&b, "%s%s", d > first ? " * " : "(int64_t)",
                       td__emit_extent(e, e->n->size[d], n));
    td__emit_line(e, "const int64_t %s = %s;", name, b.n ? td__buf_str(&b) : "1");
    e->b->failed |= b.failed;
    td__buf_free(&b);
}

static void open(td_emit *e, const char *line) {
    td__emit_line(e, "%s", line);
    e->indent++;
}

static void close(td_emit *e) {
    e->indent--;
    td__emit_line(e, "}");
}

/* Stores a value that is equal along some dims at their first index only. */
static void store_first(td_emit *e, int i) {
    const td_extent *s = stmt(e, i)->stride;
    td_buf           b = {0};
    for (int d = 0; d < e->n->n_dims; d++) {
        bool one = e->n->size[d].p < 0 && e->n->size[d].c == 1;
        if (s[d].c != 0 || one) continue;
        td__buf_printf(&b, "%s%c%d == 0", b.n ? " && " : "", d < e->outer ? 'i' : 'j',
                       d < e->outer ? d : d - e->outer);
    }
    if (b.n) td__emit_line(e, "if (%s)", td__buf_str(&b));
    e->indent += b.n > 0;
    td__emit_store(e, i);
    e->indent -= b.n > 0;
    e->b->failed |= b.failed;
    td__buf_free(&b);
}

/* ---- folds -------------------------------------------------------------- */

const char *td__device_unit(const td_stmt *s, td_dtype acc) {
    bool real = td__is_float(acc), least = s->how == TD_FOLD_MIN;
    if (s->how == TD_FOLD_SUM || (s->dtype == TD_BOOL && !least)) return "0";
    if (s->how == TD_FOLD_PROD) return "1";
    if (real) return least ? "__builtin_inf()" : "-__builtin_inf()";
    return least ? "INT64_MAX" : "INT64_MIN";
}

const char *td__device_folded(const td_stmt *s) {
    static const char *const texts[] = {[TD_FOLD_SUM] = "a + b",
                                        [TD_FOLD_PROD] = "a * b",
                                        [TD_FOLD_MAX] = "(a > b || a != a) ? a : b",
                                        [TD_FOLD_MIN] = "(a < b || a != a) ? a : b"};
    return texts[s->how];
}

static const char *acc_text(const td_stmt *s) {
    return td__dtype_text[td__emit_acc(s)].c;
}

static void declare_acc(td_emit *e, int i) {
    const td_stmt *s = stmt(e, i);
    td__emit_line(e, "%s acc%d = %s;", acc_text(s), i,
                  td__device_unit(s, td__emit_acc(s)));
}

/* Folds `x` into `to`. */
static void fold_into(td_emit *e, int i, const char *to, const char *x) {
    const td_stmt *s = stmt(e, i);
    td__emit_line(e, "{");
    td__emit_line(e, "    const %s a = %s, b = %s;", acc_text(s), to, x);
    td__emit_line(e, "    %s = %s;", to, td__device_folded(s));
    td__emit_line(e, "}");
}

/* Declares v<i> from its accumulator. */
static void declare_fold(td_emit *e, int i) {
    const td_stmt *s = stmt(e, i);
    td_buf         b = {0};
    char           acc[24];
    snprintf(acc, sizeof acc, "acc%d", i);
    td__emit_cast(&b, td__emit_acc(s), (td_dtype)s->dtype, acc);
    td__emit_line(e, "const %s v%d = %s;", td__emit_c((td_dtype)s->dtype), i,
                  td__buf_str(&b));
    e->b->failed |= b.failed;
    td__buf_free(&b);
}

/* Folds acc<i> over the threads of a block; every thread then has v<i>. */
static void fold_block(td_emit *e, int i) {
    const td_stmt *s = stmt(e, i);
    td__emit_line(e, "TD_TOGETHER(%s, acc%d, (%s));", acc_text(s), i,
                  td__device_folded(s));
    declare_fold(e, i);
}

/* The accumulators of COLUMN i in a part, as text: `inside` of them, or one. */
static void part_text(const td_emit *e, int i, char *out, size_t cap) {
    const td_emit_at *a = &e->at[i];
    const char       *c = acc_text(stmt(e, i));
    if (a->wide)
        snprintf(out, cap, "((%s *)(parts_at + (part * %d + %d) * each))", c,
                 e->code->n_wide, a->acc);
    else
        snprintf(out, cap,
                 "*(%s *)(parts_at + parts * %d * each + (part * %d + %d) * 8)", c,
                 e->code->n_wide, e->code->n_single, a->acc);
}

static bool is_column(const td_emit *e, int i, bool wide) {
    return stmt(e, i)->kind == TD_S_COLUMN && e->at[i].main && e->at[i].wide == wide;
}

/* Names of the accumulators and of the part's rows. */
static void emit_parts(td_emit *e) {
    td__emit_line(e, "const int64_t parts = r->size[%d];", e->n->n_sizes);
    td__emit_line(e, "char *parts_at = r->ptr[%d];", e->n->ptr.n);
    td__emit_line(e, "const int64_t each = 8 * inside;");
}

static void emit_part_rows(td_emit *e) {
    td__emit_line(e, "const int64_t begin = rows * part / parts;");
    td__emit_line(e, "const int64_t end = rows * (part + 1) / parts;");
}

/* ---- vectors ------------------------------------------------------------ */

/* Do its elements follow each other along the last dim? */
static bool is_run(const td_nest *n, const td_stmt *s) {
    bool access = s->kind == TD_S_LOAD || s->kind == TD_S_STORE;
    return access && s->stride[n->n_dims - 1].p < 0 && s->stride[n->n_dims - 1].c == 1;
}

bool td__emit_is_vector(const td_emit *e, const td_stmt *access) {
    return e->vector && is_run(e->n, access);
}

int td__device_alignment(const td_nest *n, int vector, int k) {
    int most = 1;
    for (int i = 0; vector && i < n->stmt.n; i++)
        if (is_run(n, &n->stmt.v[i]) && n->stmt.v[i].ptr == k)
            most = vector * (int)td__dtype_bytes[n->ptr.v[k].dtype];
    return most;
}

/* Does every access of a vector begin at a multiple of it, and does the last dim
 * consist of whole vectors? */
static bool vectors_fit(const td_nest *n, int vector) {
    td_extent last = n->size[n->n_dims - 1];
    if (last.p >= 0 || last.c % vector) return false;
    for (int i = 0; i < n->stmt.n; i++) {
        const td_stmt *s = &n->stmt.v[i];
        if (s->kind != TD_S_LOAD && s->kind != TD_S_STORE) continue;
        td_extent along = s->stride[n->n_dims - 1];
        if (along.p >= 0 || (along.c != 0 && along.c != 1)) return false;
        for (int d = 0; along.c && d < n->n_dims - 1; d++)
            if (s->stride[d].p >= 0 || s->stride[d].c % vector) return false;
    }
    return true;
}

/* The elements of a vector of at most 16 bytes, if the nest has any; 0: none. */
static int vector_of(const td_nest *n, bool rows) {
    int most = 0;
    for (int i = 0; i < n->stmt.n; i++) {
        const td_stmt *s = &n->stmt.v[i];
        if (!is_run(n, s)) continue;
        int bytes = (int)td__dtype_bytes[n->ptr.v[s->ptr].dtype];
        if (bytes > most) most = bytes;
    }
    int vector = most ? 16 / most : 0;
    if (vector > 8) vector = 8;
    if (rows && n->n_dims - n->n_outer != 1) return 0;
    while (vector > 1 && n->n_dims && !vectors_fit(n, vector)) vector /= 2;
    return vector > 1 && n->n_dims && vectors_fit(n, vector) ? vector : 0;
}

static const char *suffix_of(const td_emit *e, const td_stmt *access) {
    return td__dtype_text[e->n->ptr.v[access->ptr].dtype].suffix;
}

/* The types of vectors that the nest accesses. */
static void declare_vectors(const td_emit *e, td_buf *to) {
    uint32_t done = 0;
    for (int i = 0; e->vector && i < e->n->stmt.n; i++) {
        int dt =
            td__emit_is_vector(e, stmt(e, i)) ? e->n->ptr.v[stmt(e, i)->ptr].dtype : -1;
        if (dt < 0 || done >> dt & 1) continue;
        done |= 1u << dt;
        td__buf_printf(to,
                       "typedef struct td_vec_%s {\n"
                       "    %s v[%d];\n"
                       "} __attribute__((aligned(%d))) td_vec_%s;\n",
                       td__dtype_text[dt].suffix, td__dtype_text[dt].c, e->vector,
                       e->vector * (int)td__dtype_bytes[dt], td__dtype_text[dt].suffix);
    }
}

/* The access of memory that statement i makes in the current loop; NULL: none. */
static const td_stmt *access_of(const td_emit *e, int i);

/* Declares the vectors of a loop, and reads those that it loads. */
static void load_vectors(td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt *s = access_of(e, i);
        td_buf         at = {0};
        if (!s || !td__emit_is_vector(e, s)) continue;
        const char *t = suffix_of(e, s);
        td__emit_index(e, &at, s->stride);
        if (stmt(e, i)->kind == TD_S_STORE) td__emit_line(e, "td_vec_%s q%d;", t, i);
        else
            td__emit_line(e, "const td_vec_%s q%d = *(const td_vec_%s *)(p%d + (%s));",
                          t, i, t, s->ptr, td__buf_str(&at));
        e->b->failed |= at.failed;
        td__buf_free(&at);
    }
}

static void store_vectors(td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt *s = stmt(e, i)->kind == TD_S_STORE ? access_of(e, i) : NULL;
        td_buf         at = {0};
        if (!s || !td__emit_is_vector(e, s)) continue;
        td__emit_index(e, &at, s->stride);
        td__emit_line(e, "*(td_vec_%s *)(p%d + (%s)) = q%d;", suffix_of(e, s), s->ptr,
                      td__buf_str(&at), i);
        e->b->failed |= at.failed;
        td__buf_free(&at);
    }
}

/* Opens the loop over points from `first` to `end` by `step`, and the one over the
 * points of a vector; declares their indices. */
static void open_points(td_emit *e, const char *first, const char *end,
                        const char *step) {
    int  last = e->n->n_dims - 1 - e->outer;
    char line[200];
    if (!e->vector) {
        td__emit_line(e, "TD_UNROLL");
        snprintf(line, sizeof line, "for (int64_t at = %s; at < %s; at += %s) {", first,
                 end, step);
        open(e, line);
        split_index(e, "at", e->outer, e->n->n_dims, 'j');
        return;
    }
    snprintf(line, sizeof line, "for (int64_t vec = %s; vec < %s / %d; vec += %s) {",
             first, end, e->vector, step);
    open(e, line);
    td__emit_line(e, "const int64_t base = vec * %d;", e->vector);
    split_index(e, "base", e->outer, e->n->n_dims, 'j');
    td__emit_line(e, "const %s from = j%d;", index_type(e->n), last);
    load_vectors(e);
    td__emit_line(e, "TD_UNROLL_ALL");
    snprintf(line, sizeof line, "for (int u = 0; u < %d; u++) {", e->vector);
    open(e, line);
    td__emit_line(e, "const int64_t at = base + u;");
    td__emit_line(e, "const %s j%d = from + u;", index_type(e->n), last);
}

/* Stores the vectors and closes the loops. */
static void close_points(td_emit *e) {
    close(e);
    if (!e->vector) return;
    store_vectors(e);
    close(e);
}

/* ---- elements ----------------------------------------------------------- */

/* All statements that KERNEL needs, at one point. */
static void emit_point(td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        uint8_t kind = stmt(e, i)->kind;
        if (!e->at[i].main || kind == TD_S_COLUMN) continue;
        if (kind == TD_S_STORE) store_first(e, i);
        else td__emit_value(e, i);
    }
}

static void emit_elements(td_emit *e) {
    count(e, "count", 0, e->n->n_dims);
    open_points(e, "TD_FIRST", "count", "TD_STEP");
    emit_point(e);
    close_points(e);
}

/* ---- columns ------------------------------------------------------------ */

static void emit_columns(td_emit *e) {
    char to[120], x[24];
    count(e, "rows", 0, e->outer);
    count(e, "inside", e->outer, e->n->n_dims);
    emit_parts(e);
    td__emit_line(e, "const int64_t tiles = (inside + 255) / 256;");
    open(e, "for (int64_t w = TD_ROW; w < parts * tiles; w += TD_ROWS) {");
    td__emit_line(e, "const int64_t part = w / tiles, first = w %% tiles * 256;");
    td__emit_line(e,
                  "const int64_t last = first + 256 < inside ? first + 256 : inside;");
    emit_part_rows(e);
    open(e, "for (int64_t at = first + TD_LANE; at < last; at += TD_LANES) {");
    split_index(e, "at", e->outer, e->n->n_dims, 'j');
    for (int i = 0; i < e->n->stmt.n; i++)
        if (is_column(e, i, true)) declare_acc(e, i);
    td__emit_line(e, "TD_UNROLL");
    open(e, "for (int64_t row = begin; row < end; row++) {");
    split_index(e, "row", 0, e->outer, 'i');
    emit_point(e);
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (!is_column(e, i, true)) continue;
        snprintf(to, sizeof to, "acc%d", i);
        snprintf(x, sizeof x, "v%d", stmt(e, i)->a[0]);
        fold_into(e, i, to, x);
    }
    close(e);
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (!is_column(e, i, true)) continue;
        part_text(e, i, to, sizeof to);
        td__emit_line(e, "%s[at] = acc%d;", to, i);
    }
    close(e);
    close(e);
}

/* ---- rows --------------------------------------------------------------- */

static bool folds_here(const td_emit *e, int i) {
    return stmt(e, i)->kind == TD_S_REDUCE && e->at[i].main &&
           e->at[i].loop - 1 == e->loop;
}

/* Stores and wide COLUMNs of this loop. */
static bool ends_here(const td_emit *e, int i) {
    const td_emit_at *a = &e->at[i];
    if (!a->main || a->loop != e->loop) return false;
    return stmt(e, i)->kind == TD_S_STORE ? a->depth > 0 : is_column(e, i, true);
}

static void emit_inside(td_emit *e) {
    char to[24], x[24], part[160];
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_emit_at *a = &e->at[i];
        uint8_t           kind = stmt(e, i)->kind;
        if (a->main && a->depth && a->needed >> e->loop & 1 && kind != TD_S_STORE &&
            kind != TD_S_COLUMN && kind != TD_S_REDUCE)
            td__emit_value(e, i);
    }
    for (int i = 0; i < e->n->stmt.n; i++) {
        snprintf(x, sizeof x, "v%d", stmt(e, i)->a[0]);
        if (folds_here(e, i)) {
            snprintf(to, sizeof to, "acc%d", i);
            fold_into(e, i, to, x);
        } else if (ends_here(e, i) && stmt(e, i)->kind == TD_S_STORE) {
            td__emit_store(e, i);
        } else if (ends_here(e, i)) {
            snprintf(part, sizeof part, "col%d[at]", i);
            fold_into(e, i, part, x);
        }
    }
}

static const td_stmt *access_of(const td_emit *e, int i) {
    const td_stmt    *s = stmt(e, i);
    const td_emit_at *a = &e->at[i];
    if (!a->main) return NULL;
    if (e->all) return s->kind == TD_S_LOAD || s->kind == TD_S_STORE ? s : NULL;
    if (s->kind == TD_S_STORE) return ends_here(e, i) ? s : NULL;
    if (!a->depth || !(a->needed >> e->loop & 1)) return NULL;
    if (a->computed >> e->loop & 1) return s->kind == TD_S_LOAD ? s : NULL;
    return a->store >= 0 && e->at[a->store].loop < e->loop ? stmt(e, a->store) : NULL;
}

/* One loop over the inside of a row, and the folds that it ends. */
static void emit_loop(td_emit *e, int k) {
    bool work = false;
    e->loop = k;
    for (int i = 0; i < e->n->stmt.n; i++) {
        work |= folds_here(e, i) || ends_here(e, i);
        if (folds_here(e, i)) declare_acc(e, i);
    }
    if (!work) return;
    open_points(e, "TD_LANE", "inside", "TD_LANES");
    emit_inside(e);
    close_points(e);
    for (int i = 0; i < e->n->stmt.n; i++)
        if (folds_here(e, i)) fold_block(e, i);
}

/* Values of a whole row between its loops; stage -1: values equal for all rows. Every
 * thread computes them, the first one of a block stores them. */
static void emit_stage(td_emit *e, int stage) {
    char acc[24], x[24];
    e->loop = stage;
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt    *s = stmt(e, i);
        const td_emit_at *a = &e->at[i];
        if (!a->main || a->depth || a->fixed != (stage < 0) || s->kind == TD_S_REDUCE ||
            (stage >= 0 && a->loop != stage) || is_column(e, i, true))
            continue;
        if (s->kind == TD_S_COLUMN) {
            snprintf(acc, sizeof acc, "acc%d", i);
            snprintf(x, sizeof x, "v%d", s->a[0]);
            fold_into(e, i, acc, x);
        } else if (s->kind == TD_S_STORE) {
            td__emit_line(e, "if (%sTD_LANE == 0)", stage < 0 ? "TD_ROW == 0 && " : "");
            e->indent++;
            td__emit_store(e, i);
            e->indent--;
        } else td__emit_value(e, i);
    }
}

/* Sets the accumulators of a part: wide ones in memory, single ones in variables. */
static void emit_part_begin(td_emit *e) {
    char at[160];
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt *s = stmt(e, i);
        if (is_column(e, i, false)) declare_acc(e, i);
        if (!is_column(e, i, true)) continue;
        part_text(e, i, at, sizeof at);
        td__emit_line(e, "%s *col%d = %s;", acc_text(s), i, at);
        td__emit_line(e,
                      "for (int64_t at = TD_LANE; at < inside; at += TD_LANES) "
                      "col%d[at] = %s;",
                      i, td__device_unit(s, td__emit_acc(s)));
    }
}

static void emit_part_end(td_emit *e) {
    char at[160];
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (!is_column(e, i, false)) continue;
        part_text(e, i, at, sizeof at);
        td__emit_line(e, "if (TD_LANE == 0) %s = acc%d;", at, i);
    }
}

static void emit_rows(td_emit *e) {
    bool columns = e->code->has_end;
    count(e, "rows", 0, e->outer);
    count(e, "inside", e->outer, e->n->n_dims);
    if (columns) emit_parts(e);
    emit_stage(e, -1);
    if (columns) {
        open(e, "for (int64_t part = TD_ROW; part < parts; part += TD_ROWS) {");
        emit_part_rows(e);
        emit_part_begin(e);
        open(e, "for (int64_t row = begin; row < end; row++) {");
    } else open(e, "for (int64_t row = TD_ROW; row < rows; row += TD_ROWS) {");
    split_index(e, "row", 0, e->outer, 'i');
    for (int k = 0; k <= e->n_loops; k++) {
        emit_stage(e, k);
        emit_loop(e, k);
    }
    close(e);
    if (!columns) return;
    emit_part_end(e);
    close(e);
}

/* ---- after all parts ----------------------------------------------------- */

/* Folds the accumulators of all parts; `lanes`: divided among the threads of a
 * block. */
static void combine(td_emit *e, int i, bool lanes) {
    char to[24], at[160];
    part_text(e, i, at, sizeof at);
    snprintf(to, sizeof to, "acc%d", i);
    declare_acc(e, i);
    td__emit_line(e, lanes ? "TD_UNROLL" : "TD_UNROLL_MORE");
    open(e, lanes ? "for (int64_t part = TD_LANE; part < parts; part += TD_LANES) {"
                  : "for (int64_t part = 0; part < parts; part++) {");
    strcat(at, lanes ? "" : "[at]");
    fold_into(e, i, to, at);
    close(e);
    if (lanes) fold_block(e, i);
    else declare_fold(e, i);
}

/* Statements after the folds: at every inner element, or once. */
static void emit_after(td_emit *e, bool inside) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt *s = stmt(e, i);
        if (!e->at[i].end || (e->at[i].depth > 0) != inside) continue;
        if (s->kind == TD_S_COLUMN) combine(e, i, !inside);
        else if (s->kind != TD_S_STORE) td__emit_value(e, i);
        else if (inside) td__emit_store(e, i);
        else {
            td__emit_line(e, "if (TD_FIRST == 0)");
            e->indent++;
            td__emit_store(e, i);
            e->indent--;
        }
    }
}

static void emit_end(td_emit *e) {
    bool inside = false;
    e->in_end = true;
    count(e, "inside", e->outer, e->n->n_dims);
    emit_parts(e);
    emit_after(e, false);
    for (int i = 0; i < e->n->stmt.n; i++)
        inside |= e->at[i].end && e->at[i].depth > 0 && stmt(e, i)->kind == TD_S_STORE;
    if (!inside) return;
    open(e, "for (int64_t at = TD_FIRST; at < inside; at += TD_STEP) {");
    split_index(e, "at", e->outer, e->n->n_dims, 'j');
    emit_after(e, true);
    close(e);
}

/* ---- the whole ---------------------------------------------------------- */

static td_device_shape shape_of(const td_emit *e) {
    bool folds = false, columns = false;
    for (int i = 0; i < e->n->stmt.n; i++) {
        folds |= stmt(e, i)->kind == TD_S_REDUCE || is_column(e, i, false);
        columns |= stmt(e, i)->kind == TD_S_COLUMN;
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
    declare_vectors(e, to);
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

bool td__device_emit(const td_nest *n, bool vectors, td_device_code *to) {
    td_nest_code code = {0};
    kernel_text  k;
    td_emit      e = {.n = n, .code = &code, .loop = -1, .device = true};
    static void (*const bodies[])(td_emit *) = {[TD_DEVICE_ELEMENTS] = emit_elements,
                                                [TD_DEVICE_ROWS] = emit_rows,
                                                [TD_DEVICE_COLUMNS] = emit_columns};
    bool ok = td__emit_plan(&e);
    if (ok) {
        to->shape = shape_of(&e);
        to->has_end = code.has_end;
        to->n_wide = code.n_wide;
        to->n_single = code.n_single;
        if (to->shape == TD_DEVICE_ELEMENTS) e.outer = 0, e.inner = n->n_dims;
        e.all = to->shape != TD_DEVICE_ROWS;
        if (vectors && to->shape != TD_DEVICE_COLUMNS)
            e.vector = to->vector = vector_of(n, !e.all);
        emit_kernel(&e, &k, &to->text, bodies[to->shape]);
        e.all = false;
        e.vector = 0;
        if (code.has_end) emit_kernel(&e, &k, &to->end, emit_end);
    }
    td__free(e.at);
    td__vec_free(&e.named);
    return ok && !to->text.failed && !to->end.failed;
}

void td__device_code_free(td_device_code *c) {
    td__buf_free(&c->text);
    td__buf_free(&c->end);
}
