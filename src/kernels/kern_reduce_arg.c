/* kern_reduce_arg.c -- where the greatest or least element is: argmax, argmin,
 * max_dim, min_dim. The first of equal ones counts, and the first NaN before all
 * else. A search for the least turns the order round on loading. */
#include "kernels/reduce.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 512, TASK = 32768 };

typedef union chunk {
    float   f32[CHUNK];
    double  f64[CHUNK];
    int64_t i64[CHUNK];
} chunk;

/* A search over the kept dims of w; indices count the reduced elements in row-major
 * order. */
typedef struct search {
    td_walk     w;
    td_acc      acc;
    bool        least;
    td_dtype    in;
    const char *src;
    td_load_fn *load;
    td_row_fn  *max;
    td_tensor  *values; /* NULL: not wanted */
    td_tensor  *indices;
} search;

/* Negates, or complements: both reverse the order and undo themselves. */
static void reverse_order(const search *s, chunk *b, int64_t n) {
    if (!s->least) return;
    for (int64_t i = 0; i < n; i++) {
        if (s->acc == TD_ACC_F32) b->f32[i] = -b->f32[i];
        else if (s->acc == TD_ACC_F64) b->f64[i] = -b->f64[i];
        else b->i64[i] = ~b->i64[i];
    }
}

/* Does x[i] beat the best so far? A NaN beats all but another NaN. */
static bool beats(td_acc acc, const chunk *x, int64_t i, const chunk *best, int64_t k) {
    if (acc == TD_ACC_I64) return x->i64[i] > best->i64[k];
    double a = acc == TD_ACC_F32 ? (double)x->f32[i] : x->f64[i];
    double b = acc == TD_ACC_F32 ? (double)best->f32[k] : best->f64[k];
    return a > b || (isnan(a) && !isnan(b));
}

/* to[k] = from[i]. */
static void set(td_acc acc, chunk *to, int64_t k, const chunk *from, int64_t i) {
    if (acc == TD_ACC_F32) to->f32[k] = from->f32[i];
    else if (acc == TD_ACC_F64) to->f64[k] = from->f64[i];
    else to->i64[k] = from->i64[i];
}

/* The first element of b that is top->[0], which is one of them. */
static int64_t locate(td_acc acc, const chunk *b, const chunk *top) {
    int64_t i = 0;
    if (acc == TD_ACC_I64)
        while (b->i64[i] != top->i64[0]) i++;
    else if (acc == TD_ACC_F64)
        while (isnan(top->f64[0]) ? !isnan(b->f64[i]) : b->f64[i] != top->f64[0]) i++;
    else
        while (isnan(top->f32[0]) ? !isnan(b->f32[i]) : b->f32[i] != top->f32[0]) i++;
    return i;
}

/* Stores one output: its index, and its value where that is a result. */
static void emit(const search *s, int64_t place, int64_t index, const chunk *best,
                 int64_t k) {
    int64_t at = td__walk_out(&s->w, place);
    ((int64_t *)(void *)td__ptr(s->indices))[at] = index;
    if (!s->values) return;
    chunk one;
    set(s->acc, &one, 0, best, k);
    reverse_order(s, &one, 1);
    td_dtype dt = (td_dtype)s->values->dtype;
    td__reduce_loops()->store[s->acc][dt](&one, 1,
                                          td__ptr(s->values) +
                                              at * td__dtype_bytes[dt]);
}

/* One output: the greatest of each chunk, searched for where it is better. */
static void search_row(const search *s, int64_t place) {
    const td_walk_dim *run = &s->w.red[s->w.nr - 1];
    const char        *p = s->src + td__walk_in(&s->w, place) * td__dtype_bytes[s->in];
    int64_t            index = 0;
    chunk              buf, best, top;
    for (int64_t at = 0, n; at < s->w.reds; at += n) {
        n = run->size - at % run->size;
        if (n > CHUNK) n = CHUNK;
        s->load(p + td__walk_red(&s->w, at) * td__dtype_bytes[s->in], run->in, n, &buf);
        reverse_order(s, &buf, n);
        set(s->acc, &top, 0, &buf, 0);
        s->max(&buf, n, &top);
        if (at > 0 && !beats(s->acc, &top, 0, &best, 0)) continue;
        set(s->acc, &best, 0, &top, 0);
        index = at + locate(s->acc, &buf, &top);
    }
    emit(s, place, index, &best, 0);
}

/* n neighbouring outputs of one strip, a row of elements at a time. */
static void search_columns(const search *s, int64_t place, int64_t n) {
    const td_walk_dim *across = &s->w.kept[s->w.nk - 1];
    const char        *p = s->src + td__walk_in(&s->w, place) * td__dtype_bytes[s->in];
    int64_t            index[CHUNK] = {0};
    chunk              buf, best;
    for (int64_t at = 0; at < s->w.reds; at++) {
        chunk *to = at ? &buf : &best;
        s->load(p + td__walk_red(&s->w, at) * td__dtype_bytes[s->in], across->in, n,
                to);
        reverse_order(s, to, n);
        for (int64_t k = 0; at && k < n; k++) {
            if (!beats(s->acc, &buf, k, &best, k)) continue;
            set(s->acc, &best, k, &buf, k);
            index[k] = at;
        }
    }
    for (int64_t k = 0; k < n; k++) emit(s, place + k, index[k], &best, k);
}

/* Outputs [begin, end), one after another. */
static void run_rows(void *arg, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) search_row(arg, i);
}

/* Strips [begin, end) of neighbouring outputs. */
static void run_columns(void *arg, int64_t begin, int64_t end) {
    const search *s = arg;
    int64_t       across = s->w.kept[s->w.nk - 1].size;
    int64_t       strips = (across + CHUNK - 1) / CHUNK;
    for (int64_t i = begin; i < end; i++) {
        int64_t from = i % strips * CHUNK;
        search_columns(s, i / strips * across + from,
                       across - from < CHUNK ? across - from : CHUNK);
    }
}

/* in: self, dim or none, keepdim. The reduced dims keep row-major order: the index is
 * their linear index. */
static bool run(td_opcall *c, td_tensor *values, td_tensor *indices, bool least) {
    const td_tensor       *t = td__in(c, 0);
    const td_reduce_loops *loops = td__reduce_loops();
    bool                   mask[TD_MAX_RANK + 1];
    search s = {.least = least, .in = (td_dtype)t->dtype, .src = td__ptr(t)};
    if (indices->numel == 0) return true;
    s.acc = td__acc_of(s.in);
    s.load = loops->load[s.acc][s.in];
    s.max = loops->row[s.acc][TD_RED_MAX];
    s.values = values;
    s.indices = indices;
    td__reduce_mask(&c->in[1], t->rank, true, mask);
    td__walk_make(&s.w, t, mask, true);
    if (!s.w.by_column) {
        td__pool_run(s.w.outs, TASK / s.w.reds + 1, run_rows, &s);
        return true;
    }
    int64_t across = s.w.kept[s.w.nk - 1].size, strips = (across + CHUNK - 1) / CHUNK;
    td__pool_run(s.w.outs / across * strips, TASK / (s.w.reds * CHUNK) + 1, run_columns,
                 &s);
    return true;
}

bool td__kern_argmax(td_opcall *c) { return run(c, NULL, c->out[0], false); }
bool td__kern_argmin(td_opcall *c) { return run(c, NULL, c->out[0], true); }
bool td__kern_max_dim(td_opcall *c) { return run(c, c->out[0], c->out[1], false); }
bool td__kern_min_dim(td_opcall *c) { return run(c, c->out[0], c->out[1], true); }
