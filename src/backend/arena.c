/* arena.c -- where in one block the bytes lie that a run needs for a while. The largest
 * are placed first, each in the smallest gap between those that are there at the same
 * time. Nothing here knows of graphs.
 *
 * The block is there as long as the run is, while bytes of their own come and go. So
 * what is placed may raise the most that is in use at once: a run that needs much
 * early, and later makes results, would hold both. Places are given out up to a limit
 * that keeps the most where it would be without any. What is large stays a block: ops
 * take room of their own while they run, which nobody knows beforehand, and it may be
 * where such a block was. */
#include "backend/native.h"

#include <stdlib.h>
#include <string.h>

enum {
    LARGE = 4 << 10, /* blocks above this are worth being free between */
    PAGE = 4096,     /* less than this is no difference */
    LINE = 64,       /* alignment */
    HEAD = 128,      /* bytes a block of one's own costs beside its bytes */
    MOST = 2048,     /* stays that are placed: this is square */
    ATTEMPTS = 8     /* at a limit that works */
};

typedef struct placing {
    td_stay *s;
    int      n, steps;
    int     *order; /* those to be placed, the largest first */
    int      n_order;
    int     *placed; /* by place */
    int64_t *sum;    /* [steps + 3] room for peaks */
} placing;

static int64_t lines(int64_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

/* ---- the most at once ---------------------------------------------------- */

/* Of what p->sum says comes and goes with each step. */
static int64_t highest(const placing *p) {
    int64_t now = 0, most = 0;
    for (int t = 0; t <= p->steps + 1; t++) {
        now += p->sum[t];
        if (now > most) most = now;
    }
    return most;
}

/* Of blocks: all stays, or, with `arena`, those without a place in it. With `given`
 * what was there before goes after its last read, else it stays for ever. */
static int64_t most_at_once(const placing *p, bool arena, bool given) {
    memset(p->sum, 0, sizeof *p->sum * (size_t)(p->steps + 3));
    for (int i = 0; i < p->n; i++) {
        const td_stay *s = &p->s[i];
        if ((arena && s->at >= 0) || (s->first < 0 && !given)) continue;
        p->sum[s->first + 1] += s->bytes + HEAD;
        p->sum[s->last + 2] -= s->bytes + HEAD;
    }
    return highest(p);
}

/* Of what may be placed, to the byte: no arena can be smaller. */
static int64_t most_placed(const placing *p) {
    memset(p->sum, 0, sizeof *p->sum * (size_t)(p->steps + 3));
    for (int i = 0; i < p->n; i++) {
        const td_stay *s = &p->s[i];
        if (s->at < 0) continue;
        p->sum[s->first + 1] += s->bytes;
        p->sum[s->last + 2] -= s->bytes;
    }
    return highest(p);
}

/* ---- places -------------------------------------------------------------- */

/* The start of the smallest gap x fits in, or of what is above all; -1: none below the
 * limit. */
static int64_t find_gap(const placing *p, int n, const td_stay *x, int64_t limit) {
    int64_t end = 0, best = -1, room = INT64_MAX, bytes = lines(x->bytes);
    for (int k = 0; k < n; k++) {
        const td_stay *y = &p->s[p->placed[k]];
        if (y->last < x->first || x->last < y->first) continue;
        int64_t gap = y->at - end;
        if (gap >= bytes && gap < room) best = end, room = gap;
        if (y->at + lines(y->bytes) > end) end = y->at + lines(y->bytes);
    }
    return best < 0 && end <= limit - bytes ? end : best;
}

/* How large the arena is. */
static int64_t place_all(placing *p, int64_t limit) {
    int     n = 0;
    int64_t top = 0;
    for (int i = 0; i < p->n; i++) p->s[i].at = -1;
    for (int i = 0; i < p->n_order; i++) {
        td_stay *x = &p->s[p->order[i]];
        if ((x->at = find_gap(p, n, x, limit)) < 0) continue;
        int k = n++;
        for (; k > 0 && p->s[p->placed[k - 1]].at > x->at; k--)
            p->placed[k] = p->placed[k - 1];
        p->placed[k] = p->order[i];
        if (x->at + lines(x->bytes) > top) top = x->at + lines(x->bytes);
    }
    return top;
}

/* Is no more in use than with blocks alone, to a page, whether inputs are given up or
 * kept? */
static bool is_modest(const placing *p, int64_t arena, const int64_t *without) {
    for (int given = 0; given < 2; given++)
        if (arena + HEAD + most_at_once(p, true, given) > without[given] + PAGE)
            return false;
    return true;
}

static void choose(placing *p, td_arena_sizes *to) {
    int64_t without[2] = {most_at_once(p, false, false), most_at_once(p, false, true)};
    int64_t best = 0, low = 0, high = to->arena = place_all(p, INT64_MAX / 2);
    to->blocks = without[0];
    if (is_modest(p, to->arena, without)) best = high;
    for (int i = 0; i < ATTEMPTS && best < high; i++) {
        int64_t limit = low + (high - low) / 2;
        if (is_modest(p, place_all(p, limit), without)) best = low = limit;
        else high = limit;
    }
    to->arena = place_all(p, best);
    to->live = most_placed(p);
    to->most = (to->arena ? to->arena + HEAD : 0) + most_at_once(p, true, false);
}

static int by_bytes(const void *a, const void *b) {
    const td_stay *const *x = a, *const *y = b;
    if ((*x)->bytes != (*y)->bytes) return (*x)->bytes < (*y)->bytes ? 1 : -1;
    return *x < *y ? -1 : *x > *y;
}

static bool sort_stays(placing *p) {
    const td_stay **by = td__alloc(sizeof *by * (size_t)(p->n + 1));
    int             n = 0;
    if (!by) return false;
    for (int i = 0; i < p->n; i++)
        if (!p->s[i].own && p->s[i].bytes > 0 && p->s[i].bytes <= LARGE)
            by[n++] = &p->s[i];
    qsort(by, (size_t)n, sizeof *by, by_bytes);
    p->n_order = n < MOST ? n : MOST;
    for (int i = 0; i < p->n_order; i++) p->order[i] = (int)(by[i] - p->s);
    td__free(by);
    return true;
}

bool td__arena_place(td_stay *s, int n, int steps, td_arena_sizes *to) {
    size_t  room = sizeof(int) * (size_t)(n + 1);
    placing p = {.s = s, .n = n, .steps = steps};
    p.order = td__alloc(room);
    p.placed = td__alloc(room);
    p.sum = td__alloc(sizeof *p.sum * (size_t)(steps + 3));
    bool ok = p.order && p.placed && p.sum && sort_stays(&p);
    *to = (td_arena_sizes){0};
    if (ok) choose(&p, to);
    td__free(p.order);
    td__free(p.placed);
    td__free(p.sum);
    return ok;
}
