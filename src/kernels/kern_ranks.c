/* kern_ranks.c -- elements at given ranks of lines, without a sort of the whole line:
 * keys are counted by their upper bits, then only those that share these bits with a
 * wanted rank are collected and sorted. */
#include "kernels/reduce.h"
#include "kernels/sort_keys.h"
#include "ops/cast.h"
#include "rules/index_args.h"

#include <stdatomic.h>
#include <string.h>

enum { BUCKETS = 1 << 11, SHORT = 64, TASK = 4096 };

/* ---- one line ----------------------------------------------------------- */

struct td_ranks {
    td_sort_item *items; /* 2 n; the first are sorted */
    int64_t       n;     /* of the longest line */
    int           used;  /* buckets of this line */
    /* keys in buckets before b, and those of them that were collected */
    int64_t       first[BUCKETS + 1], place[BUCKETS + 1];
    uint8_t       want[BUCKETS];
};

td_ranks *td__ranks_begin(int64_t n) {
    td_ranks *r = td__block_alloc(sizeof *r);
    if (!r) return NULL;
    r->n = n;
    r->items = td__block_alloc(2 * (size_t)n * sizeof *r->items);
    if (r->items) return r;
    td__block_free(r, sizeof *r);
    return NULL;
}

void td__ranks_end(td_ranks *r) {
    td__block_free(r->items, 2 * (size_t)r->n * sizeof *r->items);
    td__block_free(r, sizeof *r);
}

/* The bucket that holds a rank: first[b] <= rank < first[b + 1]. */
static int bucket_of(const td_ranks *r, int64_t rank) {
    int low = 0, high = r->used;
    while (high - low > 1) {
        int mid = (low + high) / 2;
        if (r->first[mid] <= rank) low = mid;
        else high = mid;
    }
    return low;
}

int64_t td__ranks_at(const td_ranks *r, int64_t rank) {
    int b = bucket_of(r, rank);
    return r->items[r->place[b] + rank - r->first[b]].index;
}

/* Loops over the keys of a line; inlined for the commonest dtypes, as a switch for each
 * element costs as much as the rest. */
static inline void count_keys(td_dtype dt, const td_line *l, int64_t *count,
                              int shift) {
    int64_t step = l->step * td__dtype_bytes[dt];
    for (int64_t i = 0; i < l->n; i++)
        count[td__sort_key(dt, l->p + i * step) >> shift]++;
}
static inline int64_t collect_keys(td_dtype dt, const td_line *l, td_ranks *r,
                                   int shift) {
    int64_t step = l->step * td__dtype_bytes[dt], n = 0;
    for (int64_t i = 0; i < l->n; i++) {
        uint64_t key = td__sort_key(dt, l->p + i * step);
        r->items[n] = (td_sort_item){key, i}; /* stays only if it is wanted */
        n += r->want[key >> shift];
    }
    return n;
}
static inline int64_t count_below(td_dtype dt, const td_line *l, uint64_t top) {
    int64_t step = l->step * td__dtype_bytes[dt], n = 0;
    for (int64_t i = 0; i < l->n; i++) n += td__sort_key(dt, l->p + i * step) != top;
    return n;
}

int64_t td__line_numbers(const td_line *l) {
    uint64_t top = td__sort_key_top(l->dt);
    if (!td__is_float(l->dt)) return l->n;
    if (l->dt == TD_F32) return count_below(TD_F32, l, top);
    if (l->dt == TD_F64) return count_below(TD_F64, l, top);
    return count_below(l->dt, l, top);
}

/* first[b]: how many keys are in buckets before b. */
static void count_buckets(td_ranks *r, const td_line *l, int shift) {
    memset(r->first, 0, sizeof *r->first * (size_t)(r->used + 1));
    if (l->dt == TD_F32) count_keys(TD_F32, l, r->first + 1, shift);
    else if (l->dt == TD_F64) count_keys(TD_F64, l, r->first + 1, shift);
    else count_keys(l->dt, l, r->first + 1, shift);
    for (int b = 0; b < r->used; b++) r->first[b + 1] += r->first[b];
}

/* Marks the buckets of the ranks; place[b]: where the keys of bucket b begin among
 * those that are collected. */
static void mark_buckets(td_ranks *r, const int64_t *rank, int64_t step,
                         int64_t count) {
    memset(r->want, 0, (size_t)r->used);
    for (int64_t k = 0; k < count; k++) r->want[bucket_of(r, rank[k * step])] = 1;
    r->place[0] = 0;
    for (int b = 0; b < r->used; b++)
        r->place[b + 1] =
            r->place[b] + (r->want[b] ? r->first[b + 1] - r->first[b] : 0);
}

/* The whole line as one bucket. */
static void take_all(td_ranks *r, const td_line *l) {
    r->used = 1;
    r->first[0] = r->place[0] = 0;
    r->first[1] = l->n;
    td__sort_load(l->dt, l->p, l->n, l->step, 0, r->items);
}

void td__ranks_line(td_ranks *r, const td_line *l, const int64_t *rank,
                    int64_t rank_step, int64_t count) {
    int     bytes = td__dtype_bytes[l->dt], bits = l->n > 16 * BUCKETS ? 11 : 8;
    int     shift = 8 * bytes - bits;
    int64_t n = l->n;
    if (n <= SHORT || shift < 0) take_all(r, l);
    else {
        r->used = 1 << bits;
        count_buckets(r, l, shift);
        mark_buckets(r, rank, rank_step, count);
        if (l->dt == TD_F32) n = collect_keys(TD_F32, l, r, shift);
        else if (l->dt == TD_F64) n = collect_keys(TD_F64, l, r, shift);
        else n = collect_keys(l->dt, l, r, shift);
    }
    td__sort_items(r->items, r->items + n, n, bytes);
}

/* ---- lines of a tensor -------------------------------------------------- */

/* One call. Lines of self along dim, and lines of ranks, values and indices. */
typedef struct ranking {
    const td_tensor *t, *ranks;
    td_tensor       *values, *indices;
    int              dim;
    int64_t          n, wanted; /* elements and ranks of a line */
    atomic_bool      failed, out_of_range;
} ranking;

/* Element offset in u of line l over all dims but dim; u has the sizes of t there. */
static int64_t line_at(const ranking *r, const td_tensor *u, int64_t l) {
    int64_t at = 0;
    for (int d = r->t->rank - 1; d >= 0; d--) {
        if (d == r->dim) continue;
        at += l % r->t->size[d] * u->stride[d];
        l /= r->t->size[d];
    }
    return at;
}

static int64_t step_of(const ranking *r, const td_tensor *u) {
    return u->rank ? u->stride[r->dim] : 1;
}

/* Writes the values and indices of line nr, which is l. */
static void write_line(const ranking *r, int64_t nr, const td_line *l,
                       const int64_t *rank, const td_ranks *found) {
    int64_t  size = td__dtype_bytes[l->dt], step = step_of(r, r->ranks);
    int64_t  v = line_at(r, r->values, nr), x = line_at(r, r->indices, nr);
    int64_t *index = (int64_t *)(void *)td__ptr(r->indices);
    for (int64_t k = 0; k < r->wanted; k++) {
        int64_t i = td__ranks_at(found, rank[k * step]);
        memcpy(td__ptr(r->values) + (v + k * step_of(r, r->values)) * size,
               l->p + i * l->step * size, (size_t)size);
        index[x + k * step_of(r, r->indices)] = i;
    }
}

/* Are the ranks of a line within it? */
static bool ranks_fit(const ranking *r, const int64_t *rank, int64_t step) {
    for (int64_t k = 0; k < r->wanted; k++)
        if (rank[k * step] < 0 || rank[k * step] >= r->n) return false;
    return true;
}

/* Lines [begin, end). */
static void run_lines(void *arg, int64_t begin, int64_t end) {
    ranking  *r = arg;
    int64_t   step = step_of(r, r->ranks), size = td__dtype_bytes[r->t->dtype];
    td_ranks *found = td__ranks_begin(r->n);
    if (!found) {
        atomic_store(&r->failed, true);
        return;
    }
    for (int64_t nr = begin; nr < end; nr++) {
        td_line l = {(td_dtype)r->t->dtype, td__ptr(r->t) + line_at(r, r->t, nr) * size,
                     r->n, step_of(r, r->t)};
        const int64_t *rank =
            (const int64_t *)(const void *)td__ptr(r->ranks) + line_at(r, r->ranks, nr);
        if (!ranks_fit(r, rank, step)) {
            atomic_store(&r->out_of_range, true);
            break;
        }
        td__ranks_line(found, &l, rank, step, r->wanted);
        write_line(r, nr, &l, rank, found);
    }
    td__ranks_end(found);
}

/* in: self, dim, ranks. */
bool td__kern_sorted_at(td_opcall *c) {
    const td_tensor *t = td__in(c, 0), *ranks = td__in(c, 2);
    ranking          r = {.t = t,
                          .ranks = ranks,
                          .values = c->out[0],
                          .indices = c->out[1],
                          .dim = td__wrap_dim(td__in_int(c, 1), t->rank)};
    r.n = t->rank ? t->size[r.dim] : 1;
    r.wanted = ranks->rank ? ranks->size[r.dim] : 1;
    if (ranks->numel == 0) return true;
    td__pool_run(ranks->numel / r.wanted, TASK / (r.n + 1) + 1, run_lines, &r);
    if (atomic_load(&r.failed)) return td__fail_memory(c->cx);
    return !atomic_load(&r.out_of_range) ||
           td__op_fail(c, TD_E_INDEX, "a rank is not from 0 to %lld",
                       (long long)r.n - 1);
}

/* in: self, least, most, what. */
bool td__kern_expect_range(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td_dtype         dt = (td_dtype)t->dtype;
    double           least = td__in_f(c, 1), most = td__in_f(c, 2);
    td__copy_into(c->out[0], t);
    for (int64_t i = 0; i < t->numel; i++) {
        const char *p = td__ptr(c->out[0]) + i * td__dtype_bytes[dt];
        double v = td__is_float(dt) ? td__load_f(dt, p) : (double)td__load_i(dt, p);
        if (!(v >= least && v <= most))
            return td__op_fail(c, TD_E_ARG,
                               "%s must be from %g to %g, and an element "
                               "is %g",
                               c->in[3].u.s, least, most, v);
    }
    return true;
}
