/* kern_sort.c -- sort, topk, kthvalue and median along a dim.
 *
 * Every element becomes an unsigned key whose order is the wanted one: NaN after
 * all numbers, -0 beside +0, complemented for descending. Keys with their indices
 * are sorted by insertion when few, else digit by digit from the lowest: both are
 * stable. Values are then read again by index, so every bit of them survives. */
#include "kernels/reduce.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { FEW = 32, SMALL_K = 32, TASK = 4096 };

/* An element as its key, with the index it had. */
typedef struct item {
    uint64_t key;
    int64_t  index;
} item;

/* One call: which ranks of each line are returned, and how lines are found. */
typedef struct sorting {
    td_tensor  *t;
    td_tensor  *values, *indices; /* along dim, or reduced there */
    int         dim;
    int64_t     n, step; /* of a line */
    bool        descending;
    int64_t     first, count; /* which ranks are returned */
    bool        median;       /* rank (n-1)/2, or the first NaN */
    bool        reduced;      /* results have no dim `dim` to step along */
    atomic_bool failed;       /* out of memory in a thread */
} sorting;

/* ---- keys -------------------------------------------------------------- */

/* Sign and magnitude to an unsigned order; NaN to the top. */
static uint64_t key_float(uint64_t bits, uint64_t sign, uint64_t inf) {
    uint64_t mag = bits & (sign - 1);
    if (mag > inf) return sign * 2 - 1;
    return bits & sign ? sign - mag : sign + mag;
}

/* The key of an element: unsigned order of keys is the ascending order of values. */
static uint64_t key_of(td_dtype dt, const char *p) {
    uint64_t u = 0;
    memcpy(&u, p, td__dtype_bytes[dt]);
    switch (dt) {
    case TD_F64: {
        uint64_t sign = (uint64_t)1 << 63, mag = u & (sign - 1);
        if (mag > (uint64_t)0x7ff << 52) return UINT64_MAX;
        return u & sign ? sign - mag : sign + mag;
    }
    case TD_F32: return key_float(u, (uint64_t)1 << 31, (uint64_t)0x7f800000);
    case TD_F16: return key_float(u, (uint64_t)1 << 15, 0x7c00);
    case TD_BF16: return key_float(u, (uint64_t)1 << 15, 0x7f80);
    case TD_I64: return u ^ (uint64_t)1 << 63;
    case TD_I32: return u ^ (uint64_t)1 << 31;
    case TD_I16: return u ^ (uint64_t)1 << 15;
    case TD_I8: return u ^ (uint64_t)1 << 7;
    default: return u;
    }
}

/* The greatest key of a dtype: NaN's, for floats. */
static uint64_t key_top(td_dtype dt) {
    return UINT64_MAX >> (64 - 8 * td__dtype_bytes[dt]);
}

/* The commonest dtype has a loop of its own: the switch costs as much as the sort. */
static void load_keys_f32(const sorting *s, const char *p, item *to, uint64_t flip) {
    const uint32_t *u = (const void *)p;
    for (int64_t i = 0; i < s->n; i++)
        to[i] =
            (item){key_float(u[i * s->step], (uint64_t)1 << 31, 0x7f800000) ^ flip, i};
}

/* A descending sort complements the keys, so equal elements keep their order there,
 * too. */
static void load_keys(const sorting *s, const char *p, item *to) {
    td_dtype dt = (td_dtype)s->t->dtype;
    int64_t  step = s->step * td__dtype_bytes[dt];
    uint64_t flip = s->descending ? key_top(dt) : 0;
    if (dt == TD_F32) {
        load_keys_f32(s, p, to, flip);
        return;
    }
    for (int64_t i = 0; i < s->n; i++)
        to[i] = (item){key_of(dt, p + i * step) ^ flip, i};
}

/* ---- sorting keys ------------------------------------------------------ */

/* Insertion sort. */
static void sort_few(item *v, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        item    x = v[i];
        int64_t k = i;
        for (; k > 0 && v[k - 1].key > x.key; k--) v[k] = v[k - 1];
        v[k] = x;
    }
}

/* By `bytes` digits; ends in v. A digit all keys share costs no pass. */
static void sort_digits(item *v, item *spare, int64_t n, int bytes) {
    item *from = v, *to = spare;
    for (int b = 0; b < bytes; b++) {
        int64_t count[257] = {0};
        int     shift = 8 * b;
        for (int64_t i = 0; i < n; i++) count[(from[i].key >> shift & 255) + 1]++;
        if (count[(from[0].key >> shift & 255) + 1] == n) continue;
        for (int k = 0; k < 256; k++) count[k + 1] += count[k];
        for (int64_t i = 0; i < n; i++)
            to[count[from[i].key >> shift & 255]++] = from[i];
        item *x = from;
        from = to;
        to = x;
    }
    if (from != v) memcpy(v, from, (size_t)n * sizeof *v);
}

/* The k least of n, in order, by insertion into a short list at the front. */
static void sort_front(item *v, int64_t n, int64_t k) {
    sort_few(v, k);
    for (int64_t i = k; i < n; i++) {
        if (v[i].key >= v[k - 1].key) continue;
        item    x = v[i];
        int64_t at = k - 1;
        for (; at > 0 && v[at - 1].key > x.key; at--) v[at] = v[at - 1];
        v[at] = x;
    }
}

/* The method by length and by how many ranks are wanted. */
static void sort_line(const sorting *s, item *v, item *spare) {
    if (s->n <= FEW) sort_few(v, s->n);
    else if (!s->median && s->first == 0 && s->count > 0 && s->count <= SMALL_K &&
             s->n > 4 * s->count)
        sort_front(v, s->n, s->count);
    else sort_digits(v, spare, s->n, td__dtype_bytes[s->t->dtype]);
}

/* ---- lines ------------------------------------------------------------- */

/* Offset in u of line l, counted over all dims but `dim` of the sorted tensor.
 * A reduced result either lacks that dim or has it with size 1. */
static int64_t line_at(const sorting *s, const td_tensor *u, int64_t l) {
    int64_t at = 0;
    bool    lacks = u->rank < s->t->rank;
    for (int d = s->t->rank - 1; d >= 0; d--) {
        if (d == s->dim) continue;
        at += l % s->t->size[d] * u->stride[lacks && d > s->dim ? d - 1 : d];
        l /= s->t->size[d];
    }
    return at;
}

/* Which rank is the median: the middle one, or the first NaN. */
static int64_t median_rank(const sorting *s, const item *v) {
    td_dtype dt = (td_dtype)s->t->dtype;
    int64_t  i = s->n - 1;
    if (!td__is_float(dt) || v[i].key != key_top(dt)) return (s->n - 1) / 2;
    while (i > 0 && v[i - 1].key == key_top(dt)) i--;
    return i;
}

/* Ranks first .. first + count of line l, values read by index from p. */
static void write_line(const sorting *s, int64_t l, const char *p, const item *v) {
    int64_t  size = td__dtype_bytes[s->t->dtype];
    int64_t  to = line_at(s, s->values, l), ix = to;
    int64_t  step = s->reduced || !s->t->rank ? 0 : s->values->stride[s->dim];
    int64_t *out = s->indices ? (int64_t *)(void *)td__ptr(s->indices) : NULL;
    int64_t  first = s->median ? median_rank(s, v) : s->first;
    for (int64_t i = 0; i < s->count; i++) {
        int64_t k = v[first + i].index;
        memcpy(td__ptr(s->values) + (to + i * step) * size, p + k * s->step * size,
               (size_t)size);
        if (out) out[ix + i * step] = k;
    }
}

/* Lines [begin, end); v holds the keys and as many spare items. */
static void run_lines(void *arg, int64_t begin, int64_t end) {
    sorting *s = arg;
    item     few[2 * FEW], *v = few;
    size_t   bytes = 2 * (size_t)s->n * sizeof *v;
    if (s->n > FEW && !(v = td__block_alloc(bytes))) {
        atomic_store(&s->failed, true);
        return;
    }
    for (int64_t l = begin; l < end; l++) {
        const char *p =
            td__ptr(s->t) + line_at(s, s->t, l) * td__dtype_bytes[s->t->dtype];
        load_keys(s, p, v);
        sort_line(s, v, v + s->n);
        write_line(s, l, p, v);
    }
    if (v != few) td__block_free(v, bytes);
}

static bool run(td_opcall *c, sorting *s, int64_t dim) {
    td_tensor *t = s->t = td__in(c, 0);
    s->values = c->out[0];
    if (c->n_out > 1) s->indices = c->out[1];
    s->dim = td__wrap_dim(dim, t->rank);
    s->n = t->rank ? t->size[s->dim] : 1;
    s->step = t->rank ? t->stride[s->dim] : 1;
    if (s->count < 0 || s->count > s->n) s->count = s->n;
    if (t->rank == 0) s->count = 1;
    if (t->numel == 0 || s->count == 0) return true;
    td__pool_run(t->numel / s->n, TASK / s->n + 1, run_lines, s);
    return !atomic_load(&s->failed) || td__fail_memory(c->cx);
}

/* in: self, dim, descending, stable. Always stable. */
bool td__kern_sort(td_opcall *c) {
    sorting s = {.descending = td__in_bool(c, 2), .count = -1};
    return run(c, &s, td__in_int(c, 1));
}

/* in: self, k, dim, largest, sorted. Always sorted. */
bool td__kern_topk(td_opcall *c) {
    sorting s = {.descending = td__in_bool(c, 3), .count = td__in_int(c, 1)};
    return run(c, &s, td__in_int(c, 2));
}

/* in: self, k, dim, keepdim. */
bool td__kern_kthvalue(td_opcall *c) {
    sorting s = {.first = td__in_int(c, 1) - 1, .count = 1, .reduced = true};
    return run(c, &s, td__in_int(c, 2));
}

/* in: self, dim, keepdim. */
bool td__kern_median_dim(td_opcall *c) {
    sorting s = {.count = 1, .reduced = true, .median = true};
    return run(c, &s, td__in_int(c, 1));
}

/* All elements as one line; an empty tensor has the median NaN, cast. */
bool td__kern_median(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *out = c->out[0];
    size_t     size = td__dtype_bytes[t->dtype],
           bytes = 2 * (size_t)t->numel * sizeof(item);
    td_walk w;
    bool    mask[TD_MAX_RANK + 1];
    sorting s = {.t = t, .n = t->numel, .median = true};
    if (t->numel == 0) {
        td__store_f((td_dtype)out->dtype, td__ptr(out), (double)NAN);
        return true;
    }
    item *v = td__block_alloc(bytes);
    if (!v) return td__fail_memory(c->cx);
    for (int i = 0; i < t->rank; i++) mask[i] = true;
    td__walk_make(&w, t, mask, false);
    for (int64_t i = 0; i < t->numel; i++) {
        int64_t at = td__walk_red(&w, i);
        v[i] = (item){key_of((td_dtype)t->dtype, td__ptr(t) + at * (int64_t)size), at};
    }
    sort_line(&s, v, v + s.n);
    memcpy(td__ptr(out), td__ptr(t) + v[median_rank(&s, v)].index * (int64_t)size,
           size);
    td__block_free(v, bytes);
    return true;
}
