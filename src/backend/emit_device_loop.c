/* emit_device_loop.c -- what loops in kernels of devices are made of: indices, folds
 * and their accumulators, vectors. */
#include "backend/emit_device.h"

#include "ops/expr.h"

#include <stdio.h>
#include <string.h>

/* ---- indices ------------------------------------------------------------ */

/* int32_t if every index of the nest fits, as GPUs divide 64-bit numbers slowly. */
const char *td__loop_index_type(const td_nest *n) {
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
void td__loop_split_index(td_emit *e, const char *from, int first, int end, char name) {
    const char *type = td__loop_index_type(e->n);
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
void td__loop_count(td_emit *e, const char *name, int first, int end) {
    td_emit_num n;
    td_buf      b = {0};
    for (int d = first; d < end; d++)
        td__buf_printf(&b, "%s%s", d > first ? " * " : "(int64_t)",
                       td__emit_extent(e, e->n->size[d], n));
    td__emit_line(e, "const int64_t %s = %s;", name, b.n ? td__buf_str(&b) : "1");
    e->b->failed |= b.failed;
    td__buf_free(&b);
}

void td__loop_open(td_emit *e, const char *line) {
    td__emit_line(e, "%s", line);
    e->indent++;
}

void td__loop_close(td_emit *e) {
    e->indent--;
    td__emit_line(e, "}");
}

/* Stores a value that is equal along some dims at their first index only. */
void td__loop_store_first(td_emit *e, int i) {
    const td_extent *s = td__loop_stmt(e, i)->stride;
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
                                        [TD_FOLD_MAX] = "TD_MOST(a, b)",
                                        [TD_FOLD_MIN] = "TD_LEAST(a, b)"};
    return texts[s->how];
}

const char *td__loop_acc_text(const td_stmt *s) {
    return td__dtype_text[td__emit_acc(s)].c;
}

void td__loop_declare_acc(td_emit *e, int i) {
    const td_stmt *s = td__loop_stmt(e, i);
    td__emit_line(e, "%s acc%d = %s;", td__loop_acc_text(s), i,
                  td__device_unit(s, td__emit_acc(s)));
}

/* Folds `x` into `to`. */
void td__loop_fold_into(td_emit *e, int i, const char *to, const char *x) {
    const td_stmt *s = td__loop_stmt(e, i);
    td__emit_line(e, "{");
    td__emit_line(e, "    const %s a = %s, b = %s;", td__loop_acc_text(s), to, x);
    td__emit_line(e, "    %s = %s;", to, td__device_folded(s));
    td__emit_line(e, "}");
}

/* Declares v<i> from its accumulator. */
void td__loop_declare_fold(td_emit *e, int i) {
    const td_stmt *s = td__loop_stmt(e, i);
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
void td__loop_fold_block(td_emit *e, int i) {
    const td_stmt *s = td__loop_stmt(e, i);
    td__emit_line(e, "TD_TOGETHER(%s, acc%d, (%s));", td__loop_acc_text(s), i,
                  td__device_folded(s));
    td__loop_declare_fold(e, i);
}

void td__loop_fold_two(td_emit *e, int i, int k) {
    const td_stmt *s = td__loop_stmt(e, i), *t = td__loop_stmt(e, k);
    td__emit_line(e, "TD_TOGETHER_TWO(%s, acc%d, (%s), %s, acc%d, (%s));",
                  td__loop_acc_text(s), i, td__device_folded(s), td__loop_acc_text(t),
                  k, td__device_folded(t));
    td__loop_declare_fold(e, i);
    td__loop_declare_fold(e, k);
}

/* The accumulators of COLUMN i in a part, as text: `inside` of them, or one. */
void td__loop_part_text(const td_emit *e, int i, char *out, size_t cap) {
    const td_emit_at *a = &e->at[i];
    const char       *c = td__loop_acc_text(td__loop_stmt(e, i));
    if (a->wide)
        snprintf(out, cap, "((%s *)(parts_at + (part * %d + %d) * each))", c,
                 e->code->n_wide, a->acc);
    else
        snprintf(out, cap,
                 "*(%s *)(parts_at + parts * %d * each + (part * %d + %d) * 8)", c,
                 e->code->n_wide, e->code->n_single, a->acc);
}

bool td__loop_is_column(const td_emit *e, int i, bool wide) {
    return td__loop_stmt(e, i)->kind == TD_S_COLUMN && e->at[i].main &&
           e->at[i].wide == wide;
}

/* Names of the accumulators and of the part's rows. */
void td__loop_parts(td_emit *e) {
    td__emit_line(e, "const int64_t parts = r->size[%d];", e->n->n_sizes);
    td__emit_line(e, "char *parts_at = r->ptr[%d];", e->n->ptr.n);
    td__emit_line(e, "const int64_t each = 8 * inside;");
}

void td__loop_part_rows(td_emit *e) {
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
 * consist of whole vectors? `rest`: elements may be left over. */
static bool vectors_fit(const td_nest *n, int vector, bool rest) {
    td_extent last = n->size[n->n_dims - 1];
    if (last.p >= 0 || (last.c % vector && !rest)) return false;
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

/* The largest vector that fits; 0: none does. */
static int fitting(const td_nest *n, int vector, bool rest) {
    while (vector > 1 && n->n_dims && !vectors_fit(n, vector, rest)) vector /= 2;
    return vector > 1 && n->n_dims ? vector : 0;
}

/* The most bytes of an element that follows others; `at` NULL: in both kernels, else in
 * the first. */
static int most_bytes(const td_nest *n, const td_emit_at *at) {
    int most = 0;
    for (int i = 0; i < n->stmt.n; i++) {
        const td_stmt *s = &n->stmt.v[i];
        if (!is_run(n, s) || (at && !at[i].main)) continue;
        int bytes = (int)td__dtype_bytes[n->ptr.v[s->ptr].dtype];
        if (bytes > most) most = bytes;
    }
    return most;
}

int td__loop_vector_of_main(const td_emit *e) {
    int most = most_bytes(e->n, e->at), vector = most ? 16 / most : 0;
    return fitting(e->n, vector > 8 ? 8 : vector, false);
}

/* The elements of a vector of at most 16 bytes, if the nest has any; 0: none. A long
 * row may end with elements that are taken one by one. */
int td__loop_vector_of(const td_nest *n, bool rows) {
    int most = most_bytes(n, NULL);
    int vector = most ? 16 / most : 0;
    if (vector > 8) vector = 8;
    if (rows && n->n_dims - n->n_outer != 1) return 0;
    int  exact = fitting(n, vector, false);
    bool is_long = rows && n->inside.p < 0 && n->inside.c > TD_LOOP_THREADS;
    return exact || !is_long ? exact : fitting(n, vector, true);
}

static const char *suffix_of(const td_emit *e, const td_stmt *access) {
    return td__dtype_text[e->n->ptr.v[access->ptr].dtype].suffix;
}

/* The types of vectors that the nest accesses. */
void td__loop_declare_vectors(const td_emit *e, td_buf *to) {
    uint32_t done = 0;
    for (int i = 0; e->vector && i < e->n->stmt.n; i++) {
        int dt = td__emit_is_vector(e, td__loop_stmt(e, i))
                     ? e->n->ptr.v[td__loop_stmt(e, i)->ptr].dtype
                     : -1;
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

/* Stores and wide COLUMNs of this loop. */
bool td__loop_ends_here(const td_emit *e, int i) {
    const td_emit_at *a = &e->at[i];
    if (!a->main || a->loop != e->loop) return false;
    return td__loop_stmt(e, i)->kind == TD_S_STORE ? a->depth > 0
                                                   : td__loop_is_column(e, i, true);
}

/* The access of memory that statement i makes in the current loop; NULL: none. */
static const td_stmt *access_of(const td_emit *e, int i) {
    const td_stmt    *s = td__loop_stmt(e, i);
    const td_emit_at *a = &e->at[i];
    if (!a->main) return NULL;
    if (e->all) return s->kind == TD_S_LOAD || s->kind == TD_S_STORE ? s : NULL;
    if (s->kind == TD_S_STORE) return td__loop_ends_here(e, i) ? s : NULL;
    if (!a->depth || !(a->needed >> e->loop & 1)) return NULL;
    if (a->computed >> e->loop & 1) return s->kind == TD_S_LOAD ? s : NULL;
    return a->store >= 0 && e->at[a->store].loop < e->loop ? td__loop_stmt(e, a->store)
                                                           : NULL;
}

/* Is the memory of statement i written by the first kernel? */
static bool is_written(const td_emit *e, int i) {
    for (int k = 0; k < e->n->stmt.n; k++)
        if (td__loop_stmt(e, k)->kind == TD_S_STORE && e->at[k].main &&
            td__loop_stmt(e, k)->ptr == td__loop_stmt(e, i)->ptr)
            return true;
    return false;
}

bool td__loop_is_ahead(const td_emit *e, int i) {
    const td_stmt *s = td__loop_stmt(e, i);
    bool           by_row = false;
    if (!e->ahead || s->kind != TD_S_LOAD || !td__emit_is_vector(e, s) ||
        is_written(e, i))
        return false;
    if (!e->at[i].main || (!e->all && !e->at[i].depth)) return false;
    for (int d = 0; d < e->outer; d++) by_row |= s->stride[d].c != 0;
    return by_row;
}

void td__loop_fetch(td_emit *e, int i) {
    const td_stmt *s = td__loop_stmt(e, i);
    td_buf         at = {0};
    td__emit_index(e, &at, s->stride);
    td__emit_line(e, "n%d%s = TD_FETCH(td_vec_%s, p%d + (%s));", i,
                  e->each ? "[k]" : "", suffix_of(e, s), s->ptr, td__buf_str(&at));
    e->b->failed |= at.failed;
    td__buf_free(&at);
}

/* Declares the vectors of a loop, and reads those that it loads. */
void td__loop_load_vectors(td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt *s = access_of(e, i);
        td_buf         at = {0};
        if (!s || !td__emit_is_vector(e, s)) continue;
        const char *t = suffix_of(e, s);
        td__emit_index(e, &at, s->stride);
        if (td__loop_stmt(e, i)->kind == TD_S_STORE)
            td__emit_line(e, "td_vec_%s q%d;", t, i);
        else if (td__loop_is_ahead(e, i))
            td__emit_line(e, "const td_vec_%s q%d = TD_VECTOR(td_vec_%s, m%d%s);", t, i,
                          t, i, e->each ? "[k]" : "");
        else if (td__row_is_kept(e, i))
            td__emit_line(e, "const td_vec_%s q%d = r%d[vec];", t, i, i);
        else
            td__emit_line(e, "const td_vec_%s q%d = TD_TAKE(td_vec_%s, p%d + (%s));", t,
                          i, t, s->ptr, td__buf_str(&at));
        e->b->failed |= at.failed;
        td__buf_free(&at);
    }
}

void td__loop_store_vectors(td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt *s =
            td__loop_stmt(e, i)->kind == TD_S_STORE ? access_of(e, i) : NULL;
        td_buf at = {0};
        if (!s || !td__emit_is_vector(e, s)) continue;
        td__emit_index(e, &at, s->stride);
        td__emit_line(e, "TD_GIVE(td_vec_%s, p%d + (%s), q%d);", suffix_of(e, s),
                      s->ptr, td__buf_str(&at), i);
        e->b->failed |= at.failed;
        td__buf_free(&at);
    }
}
