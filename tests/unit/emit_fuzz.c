/* emit_fuzz.c -- random nests against a reading of nest.h that computes every statement
 * at every point. Values are small whole numbers, so that sums are exact in any order
 * and all have to be equal. */
#include "emit_help.h"

#include <stdlib.h>

enum { NESTS = 60, POINTS = 9000 };

static uint64_t noise;

static int pick(int n) {
    noise = noise * 6364136223846793005u + 1442695040888963407u;
    return (int)((noise >> 33) % (uint64_t)n);
}

/* A nest, its memory, and what should be there afterwards. */
typedef struct sample {
    maker    m;
    int64_t  size[TD_NEST_DIMS], points, rows, inside;
    uint32_t vary[MAKER_STMTS];
    bool     after[MAKER_STMTS], reduced[MAKER_STMTS];
    int64_t  sizes[2]; /* of the run */
    int64_t  bytes[MAKER_PTRS];
    char    *mem[MAKER_PTRS], *want[MAKER_PTRS]; /* of the same address: the same */
    bool     shared[MAKER_PTRS];
    double  *value[MAKER_STMTS];
} sample;

/* ---- making ---------------------------------------------------------------- */

static uint32_t outer_mask(const sample *s) { return (1u << s->m.n.n_outer) - 1u; }

static void make_space(sample *s) {
    static const int sizes[] = {1, 2, 3, 5, 7, 16, 33, 64, 130, 1030, 4100};
    int              dims = 1 + pick(4), outer = pick(dims + 1);
    s->points = s->rows = s->inside = 1;
    for (int d = 0; d < dims; d++) {
        int64_t n = sizes[pick(TD_COUNT(sizes))];
        while (s->points * n > POINTS) n = n / 2;
        s->size[d] = n > 0 ? n : 1;
        s->points *= s->size[d];
        *(d < outer ? &s->rows : &s->inside) *= s->size[d];
    }
    maker_begin(&s->m, outer, dims, s->size);
    for (int k = 0; k < 2 && pick(3) == 0; k++) { /* one of rows and inside each */
        int from = k ? outer : 0, to = k ? dims : outer;
        if (from == to) continue;
        int        d = from + pick(to - from);
        td_extent *all = k ? &s->m.n.inside : &s->m.n.rows;
        s->sizes[k] = s->size[d];
        s->m.n.size[d] = (td_extent){1, k};
        *all = (td_extent){s->size[d] ? all->c / s->size[d] : 0, k};
    }
}

/* Row-major strides over the dims of a mask, in a random order of dims. */
static int64_t make_strides(sample *s, uint32_t mask, int64_t *stride) {
    int     order[TD_NEST_DIMS], dims = s->m.n.n_dims;
    int64_t step = 1;
    for (int d = 0; d < dims; d++) order[d] = d;
    for (int d = dims - 1; d > 0 && pick(3) == 0; d--) {
        int k = pick(d + 1), x = order[d];
        order[d] = order[k], order[k] = x;
    }
    for (int k = dims - 1; k >= 0; k--) {
        int d = order[k];
        stride[d] = mask >> d & 1 ? step : 0;
        if (mask >> d & 1) step *= s->size[d];
    }
    return step;
}

static void new_memory(sample *s, int ptr, int64_t n, td_dtype dt) {
    s->bytes[ptr] = n * td__dtype_bytes[dt];
    s->mem[ptr] = malloc((size_t)s->bytes[ptr] + 1);
    s->want[ptr] = malloc((size_t)s->bytes[ptr] + 1);
    for (int64_t i = 0; i < n; i++) {
        char *at = s->mem[ptr] + i * td__dtype_bytes[dt];
        if (td__is_float(dt)) td__store_f(dt, at, pick(17) - 8);
        else td__store_i(dt, at, pick(17) - 8);
    }
    memcpy(s->want[ptr], s->mem[ptr], (size_t)s->bytes[ptr]);
}

static void make_load(sample *s, td_dtype dt) {
    int64_t  stride[TD_NEST_DIMS];
    uint32_t all = (1u << s->m.n.n_dims) - 1u;
    uint32_t mask = pick(3) ? all : (uint32_t)pick((int)all + 1);
    int64_t  n = make_strides(s, mask, stride);
    int      i = maker_load(&s->m, dt, stride);
    s->vary[i] = mask;
    new_memory(s, s->m.stmt[i].ptr, n, dt);
}

/* A value, and a whole number. */
static bool is_whole(const sample *s, int i) {
    return s->m.stmt[i].kind != TD_S_STORE && s->m.stmt[i].op != TD_OP_tanh;
}

/* Any earlier value, -1: none. What the end reads may not be a row's. */
static int earlier(sample *s, bool end) {
    for (int tries = 0; tries < 40; tries++) {
        int i = pick(s->m.n.stmt.n);
        if (!is_whole(s, i)) continue;
        if (end ? !(s->vary[i] & outer_mask(s)) && !s->reduced[i] : !s->after[i])
            return i;
    }
    return -1;
}

static int note(sample *s, int i) {
    const td_stmt *t = &s->m.stmt[i];
    for (int k = 0; k < t->n; k++) {
        s->vary[i] |= s->vary[t->a[k]];
        s->after[i] |= s->after[t->a[k]];
        s->reduced[i] |= s->reduced[t->a[k]];
    }
    return i;
}

/* Keeps numbers small: min(max(x, -8), 8). */
static int clamped(sample *s, int i) {
    int         k = note(s, op1(&s->m, TD_OP_clamp, i));
    td_scalars *p = &s->m.numbers[k];
    p->f[0] = -8, p->i[0] = -8, p->f[1] = 8, p->i[1] = 8;
    return k;
}

static void make_op(sample *s, bool end) {
    static const td_op two[] = {TD_OP_add, TD_OP_sub, TD_OP_mul, TD_OP_maximum};
    int                a = earlier(s, end), b = earlier(s, end);
    if (a < 0 || b < 0) return;
    if (td__is_float((td_dtype)s->m.stmt[a].dtype) && pick(3) == 0) /* a costly one */
        note(s, op1(&s->m, TD_OP_round, note(s, op1(&s->m, TD_OP_tanh, a))));
    else clamped(s, note(s, op2(&s->m, two[pick(4)], a, b)));
}

static void make_fold(sample *s) {
    int  a = earlier(s, false);
    bool column = pick(2);
    if (a < 0) return;
    int  i = note(s, fold(&s->m, column ? TD_S_COLUMN : TD_S_REDUCE,
                         pick(2) ? TD_FOLD_SUM : TD_FOLD_MAX, a));
    bool wide = s->vary[a] & ~outer_mask(s) && s->m.stmt[a].kind != TD_S_REDUCE;
    if (!column) s->vary[i] &= outer_mask(s);
    else s->vary[i] = wide ? s->vary[a] & ~outer_mask(s) : 0;
    s->after[i] |= column;
    s->reduced[i] = !column;
    clamped(s, i);
}

/* A store to fresh memory, or over what an earlier load has read. */
static void make_store(sample *s, int v) {
    int64_t  stride[TD_NEST_DIMS];
    uint32_t all = (1u << s->m.n.n_dims) - 1u;
    if (s->after[v]) all &= ~outer_mask(s);
    uint32_t mask = pick(4) || s->after[v] ? s->vary[v] : all;
    int64_t  n = make_strides(s, mask, stride);
    int      i = maker_store(&s->m, v, stride), p = s->m.stmt[i].ptr;
    for (int k = 0; k < i && !s->mem[p]; k++) {
        const td_stmt *l = &s->m.stmt[k];
        bool           over = l->kind == TD_S_LOAD && !s->shared[l->ptr] && pick(2);
        over =
            over && l->dtype == s->m.stmt[i].dtype && s->vary[k] == all && mask == all;
        if (!over || s->after[v]) continue;
        memcpy(s->m.stride[i], s->m.stride[k], sizeof s->m.stride[i]);
        s->mem[p] = s->mem[l->ptr], s->want[p] = s->want[l->ptr];
        s->shared[p] = s->shared[l->ptr] = true;
    }
    if (!s->mem[p]) new_memory(s, p, n, (td_dtype)s->m.stmt[i].dtype);
}

static void make_sample(sample *s) {
    static const td_dtype dtypes[] = {TD_F32, TD_F32, TD_F64, TD_I32, TD_I64, TD_BF16};
    td_dtype              dt = dtypes[pick(TD_COUNT(dtypes))];
    memset(s, 0, sizeof *s);
    make_space(s);
    for (int k = 1 + pick(3); k > 0; k--) make_load(s, dt);
    for (int k = 2 + pick(7); k > 0; k--)
        if (pick(3)) make_op(s, pick(4) == 0);
        else make_fold(s);
    for (int k = 1 + pick(3); k > 0; k--) {
        int v = pick(s->m.n.stmt.n);
        if (is_whole(s, v)) make_store(s, v);
    }
    make_store(s,
               s->m.stmt[s->m.n.stmt.n - 1].kind == TD_S_STORE ? 0 : s->m.n.stmt.n - 1);
}

/* ---- computing ------------------------------------------------------------- */

static int64_t place_of(const sample *s, const td_extent *stride, int64_t point) {
    int64_t at = 0;
    for (int d = s->m.n.n_dims - 1; d >= 0; d--) {
        at += point % s->size[d] * stride[d].c;
        point /= s->size[d];
    }
    return at;
}

static double load(td_dtype dt, const void *p) {
    return td__is_float(dt) ? td__load_f(dt, p) : (double)td__load_i(dt, p);
}

static double rounded(td_dtype dt, double x) {
    int64_t item = 0;
    if (td__is_float(dt)) td__store_f(dt, &item, x);
    else td__store_i(dt, &item, (int64_t)x);
    return load(dt, &item);
}

static double compute(const td_stmt *t, double a, double b) {
    switch (t->op) {
    case TD_OP_add: return a + b;
    case TD_OP_sub: return a - b;
    case TD_OP_mul: return a * b;
    case TD_OP_maximum: return fmax(a, b);
    case TD_OP_tanh: return tanh(a);
    case TD_OP_round: return rint(a);
    default: return fmin(fmax(a, -8), 8); /* clamp */
    }
}

/* Folds over all points that differ only in `over`; the rest is repeated. */
static void fold_all(const sample *s, int i, uint32_t over) {
    const td_stmt *t = &s->m.stmt[i];
    double        *acc = calloc((size_t)s->points + 1, sizeof *acc);
    td_extent      key[TD_NEST_DIMS];
    int64_t        step = 1;
    for (int d = s->m.n.n_dims - 1; d >= 0; d--) {
        key[d] = fix(over >> d & 1 ? 0 : step);
        if (!(over >> d & 1)) step *= s->size[d];
    }
    for (int64_t k = 0; k < step; k++) acc[k] = t->how == TD_FOLD_SUM ? 0 : -INFINITY;
    for (int64_t k = 0; k < s->points; k++) {
        double *a = &acc[place_of(s, key, k)], x = s->value[t->a[0]][k];
        *a = t->how == TD_FOLD_SUM ? *a + x : fmax(*a, x);
    }
    for (int64_t k = 0; k < s->points; k++)
        s->value[i][k] = rounded((td_dtype)t->dtype, acc[place_of(s, key, k)]);
    free(acc);
}

/* What a fold goes over: a COLUMN of what is the same in a row takes it once a row. */
static uint32_t fold_dims(const sample *s, int i) {
    uint32_t all = (1u << s->m.n.n_dims) - 1u, outer = outer_mask(s);
    if (s->m.stmt[i].kind == TD_S_REDUCE) return all & ~outer;
    return outer;
}

static void reckon(sample *s) {
    for (int i = 0; i < s->m.n.stmt.n; i++) {
        const td_stmt *t = &s->m.stmt[i];
        td_dtype       dt = (td_dtype)t->dtype;
        s->value[i] = malloc(((size_t)s->points + 1) * sizeof(double));
        if (t->kind == TD_S_REDUCE || t->kind == TD_S_COLUMN)
            fold_all(s, i, fold_dims(s, i));
        for (int64_t k = 0; k < s->points; k++) {
            char *at = NULL;
            if (t->stride)
                at = (t->kind == TD_S_LOAD ? s->mem : s->want)[t->ptr] +
                     place_of(s, t->stride, k) * td__dtype_bytes[dt];
            if (t->kind == TD_S_LOAD) s->value[i][k] = load(dt, at);
            if (t->kind == TD_S_EXPR)
                s->value[i][k] =
                    rounded(dt, compute(t, s->value[t->a[0]][k],
                                        t->n > 1 ? s->value[t->a[1]][k] : 0));
            if (t->kind != TD_S_STORE) continue;
            double x = s->value[t->a[0]][k];
            if (td__is_float(dt)) td__store_f(dt, at, x);
            else td__store_i(dt, at, (int64_t)x);
        }
    }
}

/* ---- comparing ------------------------------------------------------------- */

static void check_sample(built *b, int i, sample *s) {
    int64_t rows = s->rows;
    bool    flat = s->m.n.n_dims == 1 && s->m.n.n_outer == 0;
    for (int k = 0; k < s->m.n.stmt.n; k++) flat &= s->m.stmt[k].kind != TD_S_REDUCE;
    for (int k = 0; k < s->m.n.stmt.n; k++) flat &= s->m.stmt[k].kind != TD_S_COLUMN;
    if (flat) rows = s->inside;
    reckon(s);
    run(b, i,
        (run_args){(void **)s->mem, s->sizes, NULL, rows, s->inside, 1 + pick(3)});
    for (int p = 0; p < s->m.n.ptr.n; p++) {
        td_dtype dt = (td_dtype)s->m.ptr[p].dtype;
        for (int64_t k = 0; k < s->bytes[p]; k += td__dtype_bytes[dt])
            TD_CHECK_THAT(load(dt, s->mem[p] + k) == load(dt, s->want[p] + k),
                          "nest %d, p%d, byte %lld:\n%s", i, p, (long long)k,
                          td__buf_str(&b->code[i].text));
    }
}

static void free_sample(sample *s) {
    for (int i = 0; i < s->m.n.stmt.n; i++) free(s->value[i]);
    for (int p = 0; p < s->m.n.ptr.n; p++) {
        if (!s->bytes[p]) continue; /* of another pointer */
        free(s->mem[p]);
        free(s->want[p]);
    }
}

static void check_samples(uint64_t seed) {
    static sample s[NESTS];
    static built  b;
    noise = seed;
    for (int i = 0; i < NESTS; i++) {
        make_sample(&s[i]);
        build_add(&b, &s[i].m.n);
    }
    build(&b, "gcc", "");
    for (int i = 0; i < NESTS; i++) check_sample(&b, i, &s[i]);
    for (int i = 0; i < NESTS; i++) free_sample(&s[i]);
    build_end(&b);
}

TEST(random_nests_do_what_their_statements_say) {
    const char *seed = getenv("TD_EMIT_SEED");
    CHECK(td__table_init());
    check_samples(seed ? strtoull(seed, NULL, 10) : 1);
}

/* One allocation fails: the whole text comes out, or none. */
static int check_fails(const td_nest *n) {
    td_nest_code whole = {0};
    int64_t      k = 0;
    bool         hit = true;
    CHECK(td__nest_emit(n, &whole));
    for (; hit && k < 100000; k++) {
        td_nest_code code = {0};
        td__fault_arm(k, false);
        bool ok = td__nest_emit(n, &code);
        hit = td__fault_count() > k;
        td__fault_arm(-1, false);
        TD_CHECK_THAT(!ok || !strcmp(code.text.s, whole.text.s), "allocation %d:\n%s",
                      (int)k, code.text.s);
        if (ok) CHECK_STR(td__buf_str(&code.helpers), td__buf_str(&whole.helpers));
        td__nest_code_free(&code);
    }
    td__nest_code_free(&whole);
    return (int)k;
}

TEST(a_text_is_whole_or_there_is_no_memory) {
    static sample s;
    int           tried = 0;
    CHECK(td__table_init());
    noise = 7;
    for (int i = 0; i < NESTS; i++) {
        memset(&s, 0, sizeof s);
        make_sample(&s);
        tried += check_fails(&s.m.n);
        free_sample(&s);
    }
    CHECK(tried > 20 * NESTS);
}
