/* kern_sort.c -- sort, topk, kthvalue and median along a dim.
 *
 * Every element becomes an unsigned key whose order is the wanted one: NaN after
 * all numbers, -0 beside +0, complemented for descending. Keys with their indices
 * are sorted by insertion when few, else digit by digit from the lowest: both are
 * stable. Values are then read again by index, so every bit of them survives. */
#include "kernels/reduce.h"
#include "kernels/sort_keys.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { FEW = 32, SMALL_K = 32, LONG = 256, TASK = 4096 };

typedef td_sort_item item;

/* Which ranks of a line are wanted. */
typedef enum pick {
    RANKS,     /* first .. first + count */
    MEDIAN,    /* (n - 1) / 2, or the first NaN */
    NANMEDIAN, /* the median of the elements that are not NaN */
    MODE       /* the last of the most frequent key */
} pick;

/* One call: which ranks of each line are returned, and how lines are found. */
typedef struct sorting {
    td_tensor  *t;
    td_tensor  *values, *indices; /* along dim, or reduced there */
    int         dim;
    int64_t     n, step; /* of a line */
    bool        descending;
    int64_t     first, count; /* which ranks are returned */
    pick        pick;
    bool        reduced; /* results have no dim `dim` to step along */
    atomic_bool failed;  /* out of memory in a thread */
} sorting;

/* ---- keys -------------------------------------------------------------- */

uint64_t td__sort_key_top(td_dtype dt) {
    return UINT64_MAX >> (64 - 8 * td__dtype_bytes[dt]);
}

/* The commonest dtype has a loop of its own: the switch costs as much as the sort. */
void td__sort_load(td_dtype dt, const char *p, int64_t n, int64_t step, uint64_t flip,
                   item *to) {
    int64_t         bytes = step * td__dtype_bytes[dt];
    const uint32_t *u = (const void *)p;
    if (dt == TD_F32)
        for (int64_t i = 0; i < n; i++)
            to[i] =
                (item){td__sort_key_float(u[i * step], (uint64_t)1 << 31, 0x7f800000) ^
                           flip,
                       i};
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = (item){td__sort_key(dt, p + i * bytes) ^ flip, i};
}

/* A descending sort complements the keys, so equal elements keep their order there,
 * too. */
static void load_keys(const sorting *s, const char *p, item *to) {
    td_dtype dt = (td_dtype)s->t->dtype;
    td__sort_load(dt, p, s->n, s->step, s->descending ? td__sort_key_top(dt) : 0, to);
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

void td__sort_items(item *v, item *spare, int64_t n, int bytes) {
    if (n <= FEW) sort_few(v, n);
    else sort_digits(v, spare, n, bytes);
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
    if (s->n > FEW && s->pick == RANKS && s->first == 0 && s->count > 0 &&
        s->count <= SMALL_K && s->n > 4 * s->count)
        sort_front(v, s->n, s->count);
    else td__sort_items(v, spare, s->n, td__dtype_bytes[s->t->dtype]);
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

/* How many of the sorted keys are not NaN. */
static int64_t count_numbers(const sorting *s, const item *v) {
    td_dtype dt = (td_dtype)s->t->dtype;
    int64_t  n = s->n;
    if (!td__is_float(dt)) return n;
    while (n > 0 && v[n - 1].key == td__sort_key_top(dt)) n--;
    return n;
}

/* The last of the most frequent key; of several, the least key. NaNs are all
 * different. */
static int64_t mode_rank(const sorting *s, const item *v) {
    int64_t numbers = count_numbers(s, v), best = 0, most = 0;
    for (int64_t i = 0, run = 0; i < s->n; i++) {
        run = i > 0 && i < numbers && v[i].key == v[i - 1].key ? run + 1 : 1;
        if (run > most) most = run, best = i;
    }
    return best;
}

/* The rank that is returned of a line whose keys are sorted. */
static int64_t first_rank(const sorting *s, const item *v) {
    if (s->pick == RANKS) return s->first;
    if (s->pick == MODE) return mode_rank(s, v);
    int64_t n = count_numbers(s, v);
    if (s->pick == MEDIAN) return n < s->n ? n : (n - 1) / 2;
    return n > 0 ? (n - 1) / 2 : 0;
}

/* Ranks first .. first + count of line l, values read by index from p. */
static void write_line(const sorting *s, int64_t l, const char *p, const item *v) {
    int64_t  size = td__dtype_bytes[s->t->dtype];
    int64_t  to = line_at(s, s->values, l), ix = to;
    int64_t  step = s->reduced || !s->t->rank ? 0 : s->values->stride[s->dim];
    int64_t *out = s->indices ? (int64_t *)(void *)td__ptr(s->indices) : NULL;
    int64_t  first = first_rank(s, v);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t k = v[first + i].index;
        memcpy(td__ptr(s->values) + (to + i * step) * size, p + k * s->step * size,
               (size_t)size);
        if (out) out[ix + i * step] = k;
    }
}

/* ---- one rank ---------------------------------------------------------- */

/* Is one element of each line wanted, and can it be found without a sort? */
static bool selects(const sorting *s) {
    return s->count == 1 && s->reduced && s->pick != MODE && s->n > LONG;
}

/* The index in the line of the element that is returned. */
static int64_t select_one(td_ranks *r, const td_line *l, pick which, int64_t first) {
    int64_t n = which == RANKS ? l->n : td__line_numbers(l);
    int64_t rank = which == RANKS ? first : (n - 1) / 2;
    if (which == MEDIAN && n < l->n) rank = n;
    if (which == NANMEDIAN && n == 0) rank = 0;
    td__ranks_line(r, l, &rank, 1, 1);
    return td__ranks_at(r, rank);
}

/* Lines [begin, end), of which one element each is wanted. */
static void select_lines(void *arg, int64_t begin, int64_t end) {
    sorting  *s = arg;
    int64_t   size = td__dtype_bytes[s->t->dtype];
    td_ranks *r = td__ranks_begin(s->n);
    if (!r) {
        atomic_store(&s->failed, true);
        return;
    }
    for (int64_t l = begin; l < end; l++) {
        td_line line = {(td_dtype)s->t->dtype,
                        td__ptr(s->t) + line_at(s, s->t, l) * size, s->n, s->step};
        int64_t k = select_one(r, &line, s->pick, s->first);
        int64_t to = line_at(s, s->values, l);
        memcpy(td__ptr(s->values) + to * size, line.p + k * s->step * size,
               (size_t)size);
        if (s->indices) ((int64_t *)(void *)td__ptr(s->indices))[to] = k;
    }
    td__ranks_end(r);
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
    td__pool_run(t->numel / s->n, TASK / s->n + 1,
                 selects(s) ? select_lines : run_lines, s);
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
    sorting s = {.count = 1, .reduced = true, .pick = MEDIAN};
    return run(c, &s, td__in_int(c, 1));
}

bool td__kern_nanmedian_dim(td_opcall *c) {
    sorting s = {.count = 1, .reduced = true, .pick = NANMEDIAN};
    return run(c, &s, td__in_int(c, 1));
}

bool td__kern_mode(td_opcall *c) {
    sorting s = {.count = 1, .reduced = true, .pick = MODE};
    return run(c, &s, td__in_int(c, 1));
}

/* The median of a row-major tensor, which is one line. */
static bool median_of_line(td_opcall *c, pick which) {
    td_tensor *t = td__in(c, 0);
    td_ranks  *r = td__ranks_begin(t->numel);
    td_line    l = {(td_dtype)t->dtype, td__ptr(t), t->numel, 1};
    int64_t    size = td__dtype_bytes[t->dtype];
    if (!r) return td__fail_memory(c->cx);
    memcpy(td__ptr(c->out[0]), l.p + select_one(r, &l, which, 0) * size, (size_t)size);
    td__ranks_end(r);
    return true;
}

/* All elements as one line; an empty tensor has the median NaN, cast. */
static bool median_of_all(td_opcall *c, pick which) {
    td_tensor *t = td__in(c, 0), *out = c->out[0];
    size_t     size = td__dtype_bytes[t->dtype],
           bytes = 2 * (size_t)t->numel * sizeof(item);
    td_walk w;
    bool    mask[TD_MAX_RANK + 1];
    sorting s = {.t = t, .n = t->numel, .pick = which};
    if (t->numel == 0) {
        td__store_f((td_dtype)out->dtype, td__ptr(out), (double)NAN);
        return true;
    }
    if (td__is_dense(t->rank, t->size, t->stride)) return median_of_line(c, which);
    item *v = td__block_alloc(bytes);
    if (!v) return td__fail_memory(c->cx);
    for (int i = 0; i < t->rank; i++) mask[i] = true;
    td__walk_make(&w, t, mask, false);
    for (int64_t i = 0; i < t->numel; i++) {
        int64_t at = td__walk_red(&w, i);
        v[i] = (item){td__sort_key((td_dtype)t->dtype, td__ptr(t) + at * (int64_t)size),
                      at};
    }
    sort_line(&s, v, v + s.n);
    memcpy(td__ptr(out), td__ptr(t) + v[first_rank(&s, v)].index * (int64_t)size, size);
    td__block_free(v, bytes);
    return true;
}

bool td__kern_median(td_opcall *c) { return median_of_all(c, MEDIAN); }
bool td__kern_nanmedian(td_opcall *c) { return median_of_all(c, NANMEDIAN); }
