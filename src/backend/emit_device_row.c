/* emit_device_row.c -- rows in kernels of devices: sums that one element decides, and
 * rows that a block keeps in shared memory between its loops. */
#include "backend/emit_device.h"

#include "ops/expr.h"

#include <stdio.h>

/* ---- sums of one element ---------------------------------------------------
 *
 * A loss of class targets sums where(index == target, x, 0) over the classes. The sum
 * is x at the target, and 0 if there is none: no loop is needed. Adding zeros changes
 * no bit but the sign of a zero, which is added for. */

static bool is_zero(const td_stmt *s) {
    return s->kind == TD_S_NUM &&
           (td__is_float((td_dtype)s->dtype) ? s->num.f == 0 : s->num.i == 0);
}

/* Is it the index along the inner dim, from a number on? */
static bool is_place(const td_emit *e, const td_stmt *s) {
    if (s->kind != TD_S_PLACE || s->stride[e->n->n_dims - 1].p >= 0 ||
        s->stride[e->n->n_dims - 1].c != 1)
        return false;
    for (int d = 0; d < e->n->n_dims - 1; d++)
        if (s->stride[d].c != 0) return false;
    return true;
}

bool td__emit_sums_one(const td_emit *e, int i, td_emit_one *to) {
    const td_stmt *v = e->n->stmt.v, *s = &v[i], *w = &v[s->a[0]];
    if (!e->device || s->kind != TD_S_REDUCE || s->how != TD_FOLD_SUM ||
        e->inner != 1 || w->kind != TD_S_EXPR || w->op != TD_OP_where || w->n != 3 ||
        w->dtype != s->dtype || !is_zero(&v[w->a[2]]))
        return false;
    const td_stmt *q = &v[w->a[0]];
    if (q->kind != TD_S_EXPR || q->op != TD_OP_eq || q->n != 2 ||
        q->compute != TD_COMPUTE_I64)
        return false;
    for (int k = 0; k < 2; k++)
        if (is_place(e, &v[q->a[k]]) && e->at[q->a[!k]].depth == 0) {
            *to = (td_emit_one){q->a[!k], w->a[1], v[q->a[k]].num.i};
            return true;
        }
    return false;
}

/* Declares value i and what it is computed from, if they are of the inside. */
static void emit_cone(td_emit *e, int i, bool *done) {
    const td_stmt *s = td__loop_stmt(e, i);
    if (e->at[i].depth == 0 || done[i]) return;
    for (int k = 0; k < s->n; k++) emit_cone(e, s->a[k], done);
    td__emit_value(e, i);
    done[i] = true;
}

void td__row_one(td_emit *e, int i) {
    td_emit_one one = {0};
    bool       *done = td__zalloc((size_t)e->n->stmt.n + 1);
    int         vector = e->vector;
    const char *type = td__loop_index_type(e->n);
    if (!done || !td__emit_sums_one(e, i, &one)) {
        e->b->failed |= !done;
        td__free(done);
        return;
    }
    td__loop_declare_acc(e, i);
    td__emit_line(e, "if (v%d >= %lld && v%d - %lld < inside) {", one.at,
                  (long long)one.base, one.at, (long long)one.base);
    e->indent++;
    e->alone = true;
    e->vector = 0;
    td__emit_line(e, "const %s j0 = (%s)(v%d - %lld);", type, type, one.at,
                  (long long)one.base);
    emit_cone(e, one.value, done);
    td__emit_line(e, "acc%d += v%d;", i, one.value);
    e->vector = vector;
    e->alone = false;
    td__loop_close(e);
    td__loop_declare_fold(e, i);
    td__free(done);
}

bool td__row_needs_barrier(const td_emit *e, int stage) {
    bool one = false, stores = false;
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_emit_at *a = &e->at[i];
        if (!a->main) continue;
        one |= a->one && a->loop == stage;
        stores |=
            td__loop_stmt(e, i)->kind == TD_S_STORE && a->depth > 0 && a->loop == stage;
    }
    return one && stores;
}

/* ---- rows in shared memory -------------------------------------------------
 *
 * A long row is walked once for each fold. A thread has the same vectors in every walk,
 * so it finds them in shared memory, and no thread waits for another. Behind the last
 * walk through a place it brings the vector of the next row there, which arrives while
 * this row is computed. */

/* The number of loops that read the memory of vector i. */
static int readers(const td_emit *e, int i) {
    int n = 0;
    for (int k = 0; k <= e->n_loops; k++) n += (int)(e->at[i].computed >> k & 1);
    return n;
}

static bool varies_by_row(const td_emit *e, const td_stmt *s) {
    bool by_row = false;
    for (int d = 0; d < e->outer; d++) by_row |= s->stride[d].c != 0;
    return by_row;
}

static int64_t row_bytes(const td_emit *e, const td_stmt *s) {
    int64_t vector = e->vector * td__dtype_bytes[e->n->ptr.v[s->ptr].dtype];
    return (e->n->inside.c / e->vector * vector + 15) / 16 * 16;
}

int td__row_keep(td_emit *e, int64_t bytes) {
    int64_t used = 0;
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt *s = td__loop_stmt(e, i);
        e->at[i].kept = -1;
        if (s->kind != TD_S_LOAD || !e->vector || e->each || !e->at[i].main ||
            !e->at[i].depth || e->n->inside.p >= 0 || !td__emit_is_vector(e, s) ||
            !varies_by_row(e, s) || readers(e, i) < 2 || used + row_bytes(e, s) > bytes)
            continue;
        e->at[i].kept = (int32_t)used;
        used += row_bytes(e, s);
    }
    return (int)used;
}

void td__row_declare_kept(td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++) {
        const td_stmt *s = td__loop_stmt(e, i);
        if (e->at[i].kept >= 0)
            td__emit_line(e, "TD_KEEP(td_vec_%s, r%d, %d, %lld);",
                          td__dtype_text[e->n->ptr.v[s->ptr].dtype].suffix, i,
                          e->at[i].kept, (long long)(e->n->inside.c / e->vector));
    }
}

bool td__row_is_kept(const td_emit *e, int i) { return !e->all && e->at[i].kept >= 0; }

static bool keeps_any(const td_emit *e) {
    for (int i = 0; i < e->n->stmt.n; i++)
        if (td__row_is_kept(e, i)) return true;
    return false;
}

static void bring(td_emit *e, int i) {
    const td_stmt *s = td__loop_stmt(e, i);
    td_buf         at = {0};
    td__emit_index(e, &at, s->stride);
    td__emit_line(e, "TD_BRING(td_vec_%s, r%d + vec, p%d + (%s));",
                  td__dtype_text[e->n->ptr.v[s->ptr].dtype].suffix, i, s->ptr,
                  td__buf_str(&at));
    e->b->failed |= at.failed;
    td__buf_free(&at);
}

/* Opens a block where `row` is the row that is brought, if there is one. */
static void open_row(td_emit *e, const char *row, const char *end) {
    char line[80];
    snprintf(line, sizeof line, "if (%s < %s) {", row, end);
    td__loop_open(e, line);
    td__emit_line(e, "const int64_t next = %s;", row);
    td__loop_split_index(e, "next", 0, e->outer, 'i');
}

void td__row_bring_first(td_emit *e, const char *row, const char *end) {
    char line[80];
    if (!keeps_any(e)) return;
    open_row(e, row, end);
    snprintf(line, sizeof line,
             "for (int64_t vec = TD_LANE; vec < inside / %d; vec += TD_LANES) {",
             e->vector);
    td__loop_open(e, line);
    td__emit_line(e, "const int64_t base = vec * %d;", e->vector);
    td__loop_split_index(e, "base", e->outer, e->n->n_dims, 'j');
    for (int i = 0; i < e->n->stmt.n; i++)
        if (td__row_is_kept(e, i)) bring(e, i);
    td__loop_close(e);
    td__loop_close(e);
}

void td__row_arrived(td_emit *e) {
    if (keeps_any(e)) td__emit_line(e, "TD_ARRIVED;");
}

void td__row_bring_next(td_emit *e, const char *next, const char *end) {
    bool any = false;
    for (int i = 0; i < e->n->stmt.n; i++) {
        if (!td__row_is_kept(e, i) || e->at[i].computed >> e->loop != 1u) continue;
        if (!any) open_row(e, next, end);
        any = true;
        bring(e, i);
    }
    if (any) td__loop_close(e);
}
