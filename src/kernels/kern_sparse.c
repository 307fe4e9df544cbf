/* kern_sparse.c -- indices of sparse tensors: checked copies, sorting by row,
 * positions, and the entries of one tensor looked up in another. Every kernel checks
 * the indices that it follows: inner tensors may be written by anyone. */
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

/* An i64 tensor of one or two dims, with any strides. */
static inline int64_t at1(const td_tensor *t, int64_t k) {
    return ((const int64_t *)(const void *)td__ptr(t))[k * t->stride[0]];
}
static inline int64_t at2(const td_tensor *t, int64_t d, int64_t k) {
    return (
        (const int64_t *)(const void *)td__ptr(t))[d * t->stride[0] + k * t->stride[1]];
}

static int64_t *out_ints(const td_opcall *c, int i) {
    return (int64_t *)(void *)td__ptr(c->out[i]);
}

/* Is index v of entry k inside a dim of n? */
static bool inside(td_opcall *c, int64_t v, int64_t n, int64_t k) {
    return (v >= 0 && v < n) ||
           td__op_fail(c, TD_E_INDEX,
                       "index %lld of entry %lld is out of range for a dim of %lld",
                       (long long)v, (long long)k, (long long)n);
}

/* ---- places ------------------------------------------------------------- */

/* in: indices, size. */
bool td__kern_coo_check(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    int64_t         *to = out_ints(c, 0), n = t->size[1];
    for (int64_t d = 0; d < t->size[0]; d++)
        for (int64_t k = 0; k < n; k++) {
            int64_t v = at2(t, d, k);
            if (!inside(c, v, c->in[1].u.ints[d], k)) return false;
            to[d * n + k] = v;
        }
    return true;
}

bool td__kern_coo_flat(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    int64_t         *to = out_ints(c, 0), n = t->size[1];
    memset(to, 0, sizeof *to * (size_t)n);
    for (int64_t d = 0; d < t->size[0]; d++)
        for (int64_t k = 0; k < n; k++) {
            int64_t v = at2(t, d, k), size = c->in[1].u.ints[d];
            if (!inside(c, v, size, k)) return false;
            to[k] = to[k] * size + v;
        }
    return true;
}

/* in: flat, size. */
bool td__kern_coo_unflat(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    int64_t         *to = out_ints(c, 0), n = t->size[0];
    for (int64_t k = 0; k < n; k++) {
        int64_t v = at1(t, k);
        for (int64_t d = (int64_t)c->in[1].n - 1; d >= 0; d--) {
            int64_t size = c->in[1].u.ints[d] ? c->in[1].u.ints[d] : 1;
            to[d * n + k] = v % size;
            v /= size;
        }
    }
    return true;
}

/* Counts the entries of each row in count[row + 1]; count has n + 1 numbers. */
static bool count_rows(td_opcall *c, const td_tensor *rows, int64_t n, int64_t *count) {
    memset(count, 0, sizeof *count * (size_t)(n + 1));
    for (int64_t k = 0; k < rows->size[0]; k++) {
        int64_t r = at1(rows, k);
        if (!inside(c, r, n, k)) return false;
        count[r + 1]++;
    }
    for (int64_t r = 0; r < n; r++) count[r + 1] += count[r];
    return true;
}

/* in: rows, n. */
bool td__kern_coo_crow(td_opcall *c) {
    return count_rows(c, td__in(c, 0), td__in_int(c, 1), out_ints(c, 0));
}

/* in: rows, n. Counts, then each entry takes the next place of its row. */
bool td__kern_coo_order(td_opcall *c) {
    const td_tensor *rows = td__in(c, 0);
    int64_t          n = td__in_int(c, 1), *to = out_ints(c, 0);
    size_t           bytes = sizeof(int64_t) * (size_t)(n + 1);
    int64_t         *next = td__block_alloc(bytes);
    if (!next) return td__fail_memory(c->cx);
    bool ok = count_rows(c, rows, n, next);
    for (int64_t k = 0; ok && k < rows->size[0]; k++) to[next[at1(rows, k)]++] = k;
    td__block_free(next, bytes);
    return ok;
}

/* ---- CSR ---------------------------------------------------------------- */

/* Do the starts ascend from 0 to the number of entries? */
static bool check_crow(td_opcall *c, const td_tensor *crow, int64_t nnz) {
    int64_t n = crow->size[0], was = 0;
    for (int64_t r = 0; r < n; r++) {
        int64_t v = at1(crow, r);
        if (v < was || (r == 0 && v != 0) || v > nnz)
            return td__op_fail(c, TD_E_INDEX,
                               "crow_indices[%lld] is %lld; the starts of rows ascend "
                               "from 0 to the number of entries, %lld",
                               (long long)r, (long long)v, (long long)nnz);
        was = v;
    }
    return was == nnz ||
           td__op_fail(c, TD_E_INDEX,
                       "crow_indices end with %lld, and there are %lld entries",
                       (long long)was, (long long)nnz);
}

/* in: crow, col, size. */
bool td__kern_csr_check(td_opcall *c) {
    const td_tensor *crow = td__in(c, 0), *col = td__in(c, 1);
    int64_t         *to = out_ints(c, 0), *cols = out_ints(c, 1);
    if (!check_crow(c, crow, col->size[0])) return false;
    for (int64_t r = 0; r < crow->size[0]; r++) to[r] = at1(crow, r);
    for (int64_t k = 0; k < col->size[0]; k++) {
        cols[k] = at1(col, k);
        if (!inside(c, cols[k], c->in[2].u.ints[1], k)) return false;
    }
    return true;
}

static bool equal(const td_tensor *a, const td_tensor *b) {
    bool same = a->size[0] == b->size[0];
    for (int64_t k = 0; same && k < a->size[0]; k++) same = at1(a, k) == at1(b, k);
    return same;
}

/* in: crow, col, crow2, col2. */
bool td__kern_csr_same(td_opcall *c) {
    int64_t *to = out_ints(c, 0);
    if (!equal(td__in(c, 0), td__in(c, 2)) || !equal(td__in(c, 1), td__in(c, 3)))
        return td__op_fail(c, TD_E_UNSUPPORTED,
                           "unsupported: two sparse_csr tensors with entries at "
                           "different places; convert one with td_to_sparse");
    for (int64_t r = 0; r < td__in(c, 0)->size[0]; r++) to[r] = at1(td__in(c, 0), r);
    return true;
}

/* in: crow, col. */
bool td__kern_csr_rows(td_opcall *c) {
    const td_tensor *crow = td__in(c, 0);
    int64_t         *to = out_ints(c, 0);
    if (!check_crow(c, crow, td__in(c, 1)->size[0])) return false;
    for (int64_t r = 0; r + 1 < crow->size[0]; r++)
        for (int64_t k = at1(crow, r); k < at1(crow, r + 1); k++) to[k] = r;
    return true;
}

/* ---- sorted positions --------------------------------------------------- */

typedef struct entry {
    int64_t flat, k;
} entry;

static int compare(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->flat != y->flat) return x->flat < y->flat ? -1 : 1;
    return (x->k > y->k) - (x->k < y->k);
}

/* The entries by position, those of one position in order. NULL after td__fail. */
static entry *sorted(td_opcall *c, const td_tensor *flat, size_t *bytes) {
    int64_t n = flat->size[0];
    bool    ascends = true;
    *bytes = sizeof(entry) * (size_t)(n + 1);
    entry *e = td__block_alloc(*bytes);
    if (!e) return td__fail_memory(c->cx), NULL;
    for (int64_t k = 0; k < n; k++) {
        e[k] = (entry){at1(flat, k), k};
        ascends &= k == 0 || e[k - 1].flat <= e[k].flat;
    }
    if (!ascends) qsort(e, (size_t)n, sizeof *e, compare);
    return e;
}

bool td__kern_coo_first(td_opcall *c) {
    const td_tensor *flat = td__in(c, 0);
    uint8_t         *to = (uint8_t *)td__ptr(c->out[0]);
    size_t           bytes;
    entry           *e = sorted(c, flat, &bytes);
    if (!e) return false;
    for (int64_t k = 0; k < flat->size[0]; k++)
        to[e[k].k] = k == 0 || e[k - 1].flat != e[k].flat;
    td__block_free(e, bytes);
    return true;
}

/* A lookup of row-major values, each of `inner` numbers. */
typedef struct lookup {
    const entry *e;
    int64_t      n, inner;
    const char  *from;
    char        *to;
    bool         wide; /* f64 */
} lookup;

/* to[k] += values of the entries from i on that have the position. */
static void add_from(const lookup *l, int64_t i, int64_t flat, int64_t k) {
    for (; i < l->n && l->e[i].flat == flat; i++)
        for (int64_t j = 0; j < l->inner; j++) {
            int64_t to = k * l->inner + j, from = l->e[i].k * l->inner + j;
            if (l->wide)
                ((double *)(void *)l->to)[to] +=
                    ((const double *)(const void *)l->from)[from];
            else
                ((float *)(void *)l->to)[to] +=
                    ((const float *)(const void *)l->from)[from];
        }
}

/* The first entry that is not before the position. */
static int64_t find(const lookup *l, int64_t flat) {
    int64_t low = 0, high = l->n;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (l->e[mid].flat < flat) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* in: at, flat, values, which are row-major. Positions that ascend are walked in
 * step. */
bool td__kern_coo_lookup(td_opcall *c) {
    const td_tensor *at = td__in(c, 0), *flat = td__in(c, 1), *values = td__in(c, 2);
    if (!td__is_dense(values->rank, values->size, values->stride))
        return td__op_fail(c, TD_E_ARG, "values must be row-major (td_contiguous)");
    size_t bytes, width = td__dtype_bytes[values->dtype];
    lookup l = {.n = flat->size[0],
                .inner = 1,
                .from = td__ptr(values),
                .to = td__ptr(c->out[0]),
                .wide = values->dtype == TD_F64};
    for (int d = 1; d < values->rank; d++) l.inner *= values->size[d];
    memset(l.to, 0, width * (size_t)(at->size[0] * l.inner));
    entry *e = sorted(c, flat, &bytes);
    if (!e) return false;
    l.e = e;
    int64_t i = 0;
    for (int64_t k = 0; k < at->size[0]; k++) {
        int64_t p = at1(at, k);
        bool    next = i < l.n && e[i].flat == p && (i == 0 || e[i - 1].flat != p);
        if (!next) i = find(&l, p);
        add_from(&l, i, p, k);
        while (i < l.n && e[i].flat == p) i++;
    }
    td__block_free(e, bytes);
    return true;
}
