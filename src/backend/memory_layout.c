/* memory_layout.c -- assigns offsets in one block, the arena, to values by their live
 * ranges. Largest first; each goes into the smallest gap between the values that are
 * live at the same time. Knows live ranges only, no graphs.
 *
 * The arena exists for the whole run, while separate allocations come and go. So
 * placing values in it can raise the peak: a run that needs much early and makes its
 * results late would have both at once. Placement is therefore limited such that the
 * peak stays what it would be with separate allocations alone. Values above LARGE are
 * always allocated separately: ops allocate workspaces of unknown size, which can
 * reuse that memory. */
#include "backend/native.h"

#include <stdlib.h>
#include <string.h>

enum {
    LARGE = 4 << 10, /* larger values are allocated separately */
    PAGE = 4096,     /* a peak that differs by less counts as equal */
    LINE = 64,       /* alignment */
    HEAD = 128,      /* overhead of a separate allocation */
    MOST = 2048,     /* most ranges that are placed: the cost is quadratic */
    ATTEMPTS = 8     /* steps of the search for the limit */
};

/* The state of one placement. */
typedef struct placing {
    td_live_range *s;
    int            n, steps;
    int           *order; /* ranges to be placed, largest first */
    int            n_order;
    int           *placed; /* ranges placed so far, by offset */
    int64_t       *sum;    /* [steps + 3] change of live bytes at each step */
} placing;

/* bytes rounded up to a multiple of LINE. */
static int64_t lines(int64_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

/* ---- peaks --------------------------------------------------------------- */

/* The maximum of the running sum of p->sum. */
static int64_t peak_of_sums(const placing *p) {
    int64_t now = 0, most = 0;
    for (int t = 0; t <= p->steps + 1; t++) {
        now += p->sum[t];
        if (now > most) most = now;
    }
    return most;
}

/* Peak bytes of separate allocations: of all ranges, or with `arena` of those outside
 * it. given: saved inputs are freed after their last read, else they live to the end.
 */
static int64_t peak_separate(const placing *p, bool arena, bool given) {
    memset(p->sum, 0, sizeof *p->sum * (size_t)(p->steps + 3));
    for (int i = 0; i < p->n; i++) {
        const td_live_range *s = &p->s[i];
        if ((arena && s->at >= 0) || (s->first < 0 && !given)) continue;
        p->sum[s->first + 1] += s->bytes + HEAD;
        p->sum[s->last + 2] -= s->bytes + HEAD;
    }
    return peak_of_sums(p);
}

/* Peak of the bytes in the arena: a lower bound of its size. */
static int64_t peak_placed(const placing *p) {
    memset(p->sum, 0, sizeof *p->sum * (size_t)(p->steps + 3));
    for (int i = 0; i < p->n; i++) {
        const td_live_range *s = &p->s[i];
        if (s->at < 0) continue;
        p->sum[s->first + 1] += s->bytes;
        p->sum[s->last + 2] -= s->bytes;
    }
    return peak_of_sums(p);
}

/* ---- offsets ------------------------------------------------------------- */

/* The offset of the smallest gap that x fits in, or the end of all that is live with
 * it; -1: that would exceed the limit. */
static int64_t find_gap(const placing *p, int n, const td_live_range *x,
                        int64_t limit) {
    int64_t end = 0, best = -1, smallest = INT64_MAX, bytes = lines(x->bytes);
    for (int k = 0; k < n; k++) {
        const td_live_range *y = &p->s[p->placed[k]];
        if (y->last < x->first || x->last < y->first) continue;
        int64_t gap = y->at - end;
        if (gap >= bytes && gap < smallest) best = end, smallest = gap;
        if (y->at + lines(y->bytes) > end) end = y->at + lines(y->bytes);
    }
    return best < 0 && end <= limit - bytes ? end : best;
}

/* Places as much as fits below `limit`. Returns the arena's size. */
static int64_t place_all(placing *p, int64_t limit) {
    int     n = 0;
    int64_t top = 0;
    for (int i = 0; i < p->n; i++) p->s[i].at = -1;
    for (int i = 0; i < p->n_order; i++) {
        td_live_range *x = &p->s[p->order[i]];
        if ((x->at = find_gap(p, n, x, limit)) < 0) continue;
        int k = n++;
        for (; k > 0 && p->s[p->placed[k - 1]].at > x->at; k--)
            p->placed[k] = p->placed[k - 1];
        p->placed[k] = p->order[i];
        if (x->at + lines(x->bytes) > top) top = x->at + lines(x->bytes);
    }
    return top;
}

/* Is the peak no higher than without an arena, to a page, whether the caller frees
 * saved inputs or not? */
static bool is_modest(const placing *p, int64_t arena, const int64_t *without) {
    for (int given = 0; given < 2; given++)
        if (arena + HEAD + peak_separate(p, true, given) > without[given] + PAGE)
            return false;
    return true;
}

/* Binary search for the largest limit that is_modest; places with it. */
static void choose(placing *p, td_arena_sizes *to) {
    int64_t without[2] = {peak_separate(p, false, false),
                          peak_separate(p, false, true)};
    int64_t best = 0, low = 0, high = to->arena = place_all(p, INT64_MAX / 2);
    to->blocks = without[0];
    if (is_modest(p, to->arena, without)) best = high;
    for (int i = 0; i < ATTEMPTS && best < high; i++) {
        int64_t limit = low + (high - low) / 2;
        if (is_modest(p, place_all(p, limit), without)) best = low = limit;
        else high = limit;
    }
    to->arena = place_all(p, best);
    to->live = peak_placed(p);
    to->most = (to->arena ? to->arena + HEAD : 0) + peak_separate(p, true, false);
}

/* For qsort: descending size, then position. */
static int by_bytes(const void *a, const void *b) {
    const td_live_range *const *x = a, *const *y = b;
    if ((*x)->bytes != (*y)->bytes) return (*x)->bytes < (*y)->bytes ? 1 : -1;
    return *x < *y ? -1 : *x > *y;
}

/* Fills p->order with the ranges that may be placed: at most `most`, and none above
 * `large` bytes. False: out of memory. */
static bool sort_ranges(placing *p, int64_t large, int most) {
    const td_live_range **by = td__alloc(sizeof *by * (size_t)(p->n + 1));
    int                   n = 0;
    if (!by) return false;
    for (int i = 0; i < p->n; i++)
        if (!p->s[i].own && p->s[i].bytes > 0 && p->s[i].bytes <= large)
            by[n++] = &p->s[i];
    qsort(by, (size_t)n, sizeof *by, by_bytes);
    p->n_order = n < most ? n : most;
    for (int i = 0; i < p->n_order; i++) p->order[i] = (int)(by[i] - p->s);
    td__free(by);
    return true;
}

/* Offsets in one arena for the live ranges s, each in the smallest gap that fits. Large
 * values, and as many others as are needed to keep the peak of memory low, are
 * allocated separately instead. */
bool td__arena_place(td_live_range *s, int n, int steps, td_arena_sizes *to) {
    size_t  n_bytes = sizeof(int) * (size_t)(n + 1);
    placing p = {.s = s, .n = n, .steps = steps};
    p.order = td__alloc(n_bytes);
    p.placed = td__alloc(n_bytes);
    p.sum = td__alloc(sizeof *p.sum * (size_t)(steps + 3));
    bool ok = p.order && p.placed && p.sum && sort_ranges(&p, LARGE, MOST);
    *to = (td_arena_sizes){0};
    if (ok) choose(&p, to);
    td__free(p.order);
    td__free(p.placed);
    td__free(p.sum);
    return ok;
}

int64_t td__arena_place_all(td_live_range *s, int n) {
    size_t  n_bytes = sizeof(int) * (size_t)(n + 1);
    placing p = {.s = s, .n = n};
    int64_t top = -1;
    p.order = td__alloc(n_bytes);
    p.placed = td__alloc(n_bytes);
    if (p.order && p.placed && sort_ranges(&p, INT64_MAX, n))
        top = place_all(&p, INT64_MAX / 2);
    td__free(p.order);
    td__free(p.placed);
    return top;
}
