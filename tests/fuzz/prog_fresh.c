/* prog_fresh.c -- tensors made for a program: literals, fills and draws, each with the
 * statement that makes it. */
#include "prog.h"

#include <stdio.h>
#include <string.h>

/* ---- small choices ------------------------------------------------------ */

td_dtype prog_dtype(prog_rng *r) {
    static const uint8_t often[] = {TD_F32, TD_F32,  TD_F32, TD_F32,  TD_F64,
                                    TD_F64, TD_I64,  TD_I64, TD_BOOL, TD_I32,
                                    TD_F16, TD_BF16, TD_U8,  TD_I16,  TD_I8};
    return (td_dtype)often[prog_upto(r, (int)sizeof often)];
}

int prog_size(prog_world *w) {
    if (prog_chance(&w->r, 70)) return w->usual;
    static const int8_t rare[] = {1, 1, 2, 3, 4, 2, 3, 1, 0};
    return rare[prog_upto(&w->r, (int)sizeof rare)];
}

int prog_rank(prog_world *w) {
    static const int8_t often[] = {2, 2, 2, 1, 1, 3, 3, 0, 4, 2};
    return often[prog_upto(&w->r, (int)sizeof often)];
}

int prog_sizes(prog_world *w, int64_t *size) {
    int rank = prog_rank(w);
    for (int i = 0; i < rank; i++) size[i] = prog_size(w);
    return rank;
}

void prog_print_ints(td_buf *b, const int64_t *v, int n) {
    td__buf_add(b, "[");
    for (int i = 0; i < n; i++)
        td__buf_printf(b, i ? ",%lld" : "%lld", (long long)v[i]);
    td__buf_add(b, "]");
}

/* ---- fresh tensors ------------------------------------------------------ */

static void new_name(prog_world *w, char *name) {
    snprintf(name, PROG_NAME, "%%%c%d", w->letter, w->n_names++);
}

/* A literal: the same numbers in text and tensor; real ones for a complex dtype. */
static td_tensor *literal(prog_world *w, td_buf *text, td_dtype dt, int rank,
                          const int64_t *size) {
    double  v[PROG_NUMEL];
    int64_t n = td__numel(rank, size);
    dt = td__real_of(dt);
    td__buf_add(text, "tensor([");
    for (int64_t i = 0; i < n; i++) {
        v[i] = prog_range(&w->r, dt == TD_U8 || dt == TD_BOOL ? 0 : -2,
                          dt == TD_BOOL ? 1 : 3);
        td__buf_printf(text, i ? ", %g" : "%g", v[i]);
    }
    td__buf_printf(text, "], %s, ", td_dtype_name(dt));
    prog_print_ints(text, size, rank);
    td_tensor *t = td_from(w->cx, TD_F64, TD_SHAPE_OF(size, rank), v);
    return td_op_to(t, dt, false);
}

static td_tensor *drawn(prog_world *w, td_buf *text, td_dtype dt, int rank,
                        const int64_t *size) {
    td_ints sizes = {size, rank};
    if (td__is_float(dt) && prog_chance(&w->r, 40)) {
        td__buf_add(text, "randn(");
        prog_print_ints(text, size, rank);
        td__buf_printf(text, ", %s", td_dtype_name(dt));
        return td_op_randn(w->cx, sizes, dt);
    }
    int lo = dt == TD_U8 || dt == TD_BOOL ? 0 : -3, hi = dt == TD_BOOL ? 2 : 4;
    td__buf_printf(text, "randint(%d, %d, ", lo, hi);
    prog_print_ints(text, size, rank);
    td__buf_printf(text, ", %s", td_dtype_name(dt));
    return td_op_randint(w->cx, lo, hi, sizes, dt);
}

static td_tensor *filled(prog_world *w, td_buf *text, td_dtype dt, int rank,
                         const int64_t *size) {
    int v = prog_range(&w->r, 0, 2);
    td__buf_add(text, "full(");
    prog_print_ints(text, size, rank);
    td__buf_printf(text, ", %d, %s", v, td_dtype_name(dt));
    return td_op_full(w->cx, (td_ints){size, rank}, td_value_int(v), dt);
}

void prog_indent(td_buf *b, const prog_world *w) {
    for (int i = 0; i <= w->depth; i++) td__buf_add(b, "  ");
}

/* In a case draws have seeds of their own and float leaves may require grad. */
td_tensor *prog_fresh(prog_world *w, td_buf *text, td_dtype dt, int rank,
                      const int64_t *size, char *name) {
    td_ctx    *cx = w->cx;
    uint64_t   seed = td_rng_seed(cx), offset = td_rng_offset(cx);
    int        own = prog_range(&w->r, 1, 99), how = prog_upto(&w->r, 10);
    td_tensor *t;
    new_name(w, name);
    prog_indent(text, w);
    td__buf_printf(text, "%s = ", name);
    if (w->is_case) td_rng_set(cx, (uint64_t)own, 0);
    if (how < 2) t = literal(w, text, dt, rank, size);
    else if (how < 4) t = filled(w, text, dt, rank, size);
    else t = drawn(w, text, dt, rank, size);
    if (w->is_case) {
        td_rng_set(cx, seed, offset);
        if (how >= 4) td__buf_printf(text, ", seed=%d", own);
        if (td__is_float(dt) && prog_chance(&w->r, w->grads) && !td_is_nil(t)) {
            td__buf_add(text, ", requires_grad=true");
            td_set_requires_grad(t, true);
        }
    }
    td__buf_add(text, ")\n");
    return t;
}

td_tensor *prog_fresh_none(prog_world *w, td_buf *text, int rank, const int64_t *size,
                           char *name) {
    new_name(w, name);
    prog_indent(text, w);
    td__buf_printf(text, "%s = full(", name);
    prog_print_ints(text, size, rank);
    td__buf_add(text, ", 0, bool)\n");
    return td_op_full(w->cx, (td_ints){size, rank}, td_value_int(0), TD_BOOL);
}

/* Whole numbers from lo to below hi. */
static td_tensor *whole_numbers(prog_call *c, int64_t lo, int64_t hi, td_dtype dt,
                                td_ints size, char *name) {
    prog_world *w = c->w;
    new_name(w, name);
    prog_indent(&c->before, w);
    td__buf_printf(&c->before, "%s = randint(%lld, %lld, ", name, (long long)lo,
                   (long long)hi);
    prog_print_ints(&c->before, size.v, size.n);
    td__buf_printf(&c->before, ", %s%s)\n", td_dtype_name(dt),
                   w->is_case ? ", seed=7" : "");
    uint64_t seed = td_rng_seed(w->cx), offset = td_rng_offset(w->cx);
    if (w->is_case) td_rng_set(w->cx, 7, 0);
    td_tensor *t = td_op_randint(w->cx, lo, hi, size, dt);
    if (w->is_case) td_rng_set(w->cx, seed, offset);
    return t;
}

td_tensor *prog_fresh_index(prog_call *c, int64_t most, char *name) {
    prog_world *w = c->w;
    int64_t     size[PROG_LIST];
    int         rank = prog_chance(&w->r, 60) ? 1 : prog_rank(w);
    bool        like = c->self && c->self->rank <= PROG_LIST && prog_chance(&w->r, 40);
    for (int i = 0; i < rank; i++) size[i] = prog_size(w);
    if (like) {
        rank = c->self->rank;
        memcpy(size, c->self->size, sizeof *size * (size_t)rank);
    }
    return whole_numbers(c, 0, most < 1 ? 1 : most, TD_I64, (td_ints){size, rank},
                         name);
}

td_tensor *prog_fresh_pivots(prog_call *c, char *name) {
    const td_tensor *a = c->self;
    int64_t          size[PROG_LIST] = {c->w->usual};
    int              rank = a && a->rank > 1 && a->rank <= PROG_LIST ? a->rank - 1 : 1;
    if (a && a->rank > rank) memcpy(size, a->size, sizeof *size * (size_t)rank);
    int64_t rows = size[rank - 1];
    if (a && a->rank > rank && a->size[rank] < rows) size[rank - 1] = a->size[rank];
    return whole_numbers(c, 1, rows + 1, TD_I32, (td_ints){size, rank}, name);
}
