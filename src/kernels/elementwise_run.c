/* elementwise_run.c -- carries out an elementwise run (iter.h).
 *
 * The space is cut into units of some columns (dim 0) by some rows (the tile dim);
 * threads take ranges of units. An operand is DIRECT where memory is what the loop
 * reads, a NUMBER where one value serves all, SPREAD where one serves a row, LOADed
 * by strided casts, or, when it is transposed against the output, brought in by TILEs
 * a cache line wide so that every line is read once. Spaces with very short rows go
 * element-linear instead.
 *
 * Buffers are short: beside two streams, 4 KiB of constants no longer stay in the
 * first-level cache, and x + column took 1.3 times as long as with 1 KiB. */
#include "kernels/iter.h"

#include <string.h>

/* How an operand reaches the loop, then sizes in bytes and elements. */
enum {
    DIRECT,
    NUMBER,
    SPREAD,
    LOAD,
    TILE, /* how an operand reaches the loop */
    LINE = 64,
    TILE_COLS = 256,
    TILE_BYTES = LINE * TILE_COLS,
    SHORT_ROW = 64, /* below this, rows are gathered into chunks */
    MAX_BYTES = 16  /* of an element */
};

/* How a run is cut and read; the same for all threads. */
typedef struct plan {
    const td_run *r;
    uint8_t       mode[TD_RUN_OPERANDS];
    bool          buffered;            /* some operand goes through a buffer */
    int           tile;                /* the dim of rows; 0: a unit is one row */
    int64_t       step[TD_MAX_RANK];   /* elements of a unit along each dim */
    int64_t       blocks[TD_MAX_RANK]; /* units along each dim */
    int64_t       units;
} plan;

/* A thread's buffers. 64-byte aligned, on its stack. */
typedef struct buffers {
    _Alignas(LINE) char buf[TD_RUN_OPERANDS][TD_RUN_CHUNK * MAX_BYTES];
    _Alignas(LINE) char via[TD_RUN_CHUNK * MAX_BYTES];
} buffers;

/* Tiles of the operands that need one, 16 KB each: too much for a stack. */
typedef struct tiles {
    char *raw[TD_RUN_OPERANDS]; /* [row][column]; NULL: not a TILE */
    void *block;
} tiles;

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- planning ------------------------------------------------------------ */

/* One element serves the whole run. */
static bool is_number(const td_iter *it, int k) {
    for (int d = 0; d < it->rank; d++)
        if (it->stride[k][d] != 0) return false;
    return true;
}

/* The dim along which operand k is contiguous, when that is not dim 0. */
static int transposed_dim(const td_run *r, int k) {
    const td_iter *it = &r->it;
    if (it->stride[k][0] == 0 || it->size[0] < SHORT_ROW) return 0;
    for (int d = 1; d < it->rank; d++)
        if (it->stride[k][d] == r->side[k].mem && it->size[d] >= 4) return d;
    return 0;
}

/* Decides the mode of operand k; the first transposed operand decides the tile dim for
 * all. */
static int mode_of(plan *p, int k) {
    const td_run  *r = p->r;
    const td_side *s = &r->side[k];
    if (k > 0 && is_number(&r->it, k)) return NUMBER;
    if (k > 0 && r->it.stride[k][0] == 0) return SPREAD;
    if (s->same && !s->widen && r->it.stride[k][0] == s->mem) return DIRECT;
    int d = k > 0 && r->it.stride[k][0] != s->mem ? transposed_dim(r, k) : 0;
    if (d == 0 || (p->tile && p->tile != d)) return LOAD;
    p->tile = d;
    return TILE;
}

/* Modes, then the size of a unit: a tile where one is needed, else a stretch of a
 * row. */
static void make_plan(plan *p, const td_run *r) {
    int64_t rows = LINE, cols = TD_RUN_GRAIN;
    p->r = r;
    p->tile = 0;
    p->buffered = false;
    for (int k = 0; k < r->it.n; k++) {
        p->mode[k] = (uint8_t)mode_of(p, k);
        p->buffered |= p->mode[k] != DIRECT;
        if (p->mode[k] != TILE) continue;
        cols = TILE_COLS;
        rows = at_most(rows, LINE / r->side[k].mem);
    }
    p->units = 1;
    for (int d = 0; d < r->it.rank; d++) {
        p->step[d] = d == 0 ? at_most(cols, r->it.size[0]) : d == p->tile ? rows : 1;
        p->blocks[d] = (r->it.size[d] + p->step[d] - 1) / p->step[d];
        p->units *= p->blocks[d];
    }
}

/* ---- one unit ------------------------------------------------------------ */

/* n elements from memory, as the loop sees them. */
static void bring(const td_side *s, buffers *m, int64_t n, char *buf, const char *src,
                  int64_t step) {
    char   *to = s->widen ? m->via : buf;
    int64_t size = s->widen ? s->via : s->loop;
    s->convert(n, to, size, src, step);
    if (s->widen) s->widen(n, buf, s->loop, m->via, s->via);
}

/* n elements of operand k into its buffer. */
static const char *load(const td_run *r, buffers *m, int k, int64_t n, const char *src,
                        int64_t step) {
    bring(&r->side[k], m, n, m->buf[k], src, step);
    return m->buf[k];
}

/* Once per thread: a number fills its buffer for all chunks. */
static void load_numbers(const plan *p, buffers *m) {
    const td_run *r = p->r;
    for (int k = 1; k < r->it.n; k++)
        if (p->mode[k] == NUMBER)
            load(r, m, k, at_most(TD_RUN_CHUNK, p->step[0]), r->it.ptr[k], 0);
}

/* One chunk of a row; at[k] is where operand k's elements start. */
static void run_chunk(const plan *p, buffers *m, int64_t n, char *const *at) {
    const td_run  *r = p->r;
    const uint8_t *mode = p->mode;
    const void    *in[TD_LOOP_INPUTS];
    for (int k = 1; k < r->it.n; k++) {
        if (mode[k] == DIRECT) in[k - 1] = at[k];
        else if (mode[k] <= SPREAD) in[k - 1] = m->buf[k];
        else if (mode[k] == TILE) /* a row of the tile, contiguous */
            in[k - 1] = r->side[k].same && !r->side[k].widen
                            ? at[k]
                            : load(r, m, k, n, at[k], r->side[k].mem);
        else in[k - 1] = load(r, m, k, n, at[k], r->it.stride[k][0]);
    }
    if (mode[0] == DIRECT) {
        r->loop(n, at[0], in, &r->p);
        return;
    }
    r->loop(n, m->buf[0], in, &r->p);
    r->side[0].convert(n, at[0], r->it.stride[0][0], m->buf[0], r->side[0].loop);
}

/* One row of a unit, by chunks; at[] moves along. */
static void run_row(const plan *p, buffers *m, int64_t cols, char **at) {
    const td_run *r = p->r;
    int64_t       chunk = p->buffered ? TD_RUN_CHUNK : cols;
    for (int k = 1; k < r->it.n; k++)
        if (p->mode[k] == SPREAD) load(r, m, k, at_most(chunk, cols), at[k], 0);
    for (int64_t j = 0; j < cols; j += chunk) {
        int64_t n = at_most(chunk, cols - j);
        run_chunk(p, m, n, at);
        for (int k = 0; k < r->it.n; k++)
            at[k] += n * (p->mode[k] == TILE ? r->side[k].mem : r->it.stride[k][0]);
    }
}

/* Transposes the tiles of a unit, then runs it row by row. */
static void run_tile(const plan *p, buffers *m, tiles *t, int64_t rows, int64_t cols,
                     char *const *base) {
    const td_run *r = p->r;
    char         *at[TD_RUN_OPERANDS];
    for (int k = 1; k < r->it.n; k++)
        if (p->mode[k] == TILE)
            r->isa->transpose(rows, cols,
                              (td_block){t->raw[k], base[k], cols * r->side[k].mem,
                                         r->it.stride[k][0], r->side[k].mem});
    for (int64_t row = 0; row < rows; row++) {
        for (int k = 0; k < r->it.n; k++)
            at[k] = p->mode[k] == TILE ? t->raw[k] + row * cols * r->side[k].mem
                                       : base[k] + row * r->it.stride[k][p->tile];
        run_row(p, m, cols, at);
    }
}

/* A copy needs no loop: the cast goes from place to place. */
static void copy_unit(const plan *p, char *raw, int64_t rows, int64_t cols,
                      char *const *at) {
    const td_run  *r = p->r;
    const td_side *s = &r->side[1];
    int64_t        to = r->it.stride[0][0], from = r->it.stride[1][0];
    int64_t     to_row = r->it.stride[0][p->tile], from_row = r->it.stride[1][p->tile];
    const char *src = at[1];
    if (p->mode[1] == TILE && s->same && to == s->mem) {
        r->isa->transpose(rows, cols, (td_block){at[0], src, to_row, from, s->mem});
        return;
    }
    if (p->mode[1] == TILE) {
        r->isa->transpose(rows, cols,
                          (td_block){raw, src, cols * s->mem, from, s->mem});
        src = raw, from = s->mem, from_row = cols * s->mem;
    }
    for (int64_t row = 0; row < rows; row++) {
        char *d = at[0] + row * to_row;
        if (s->same && to == s->mem && from == s->mem)
            memcpy(d, src + row * from_row, (size_t)(cols * s->mem));
        else s->convert(cols, d, to, src + row * from_row, from);
    }
}

/* ---- walking the units --------------------------------------------------- */

/* Addresses of the unit's first elements, and its size. */
static void place_unit(const plan *p, const int64_t *idx, char **at, int64_t *rows,
                       int64_t *cols) {
    const td_iter *it = &p->r->it;
    *cols = at_most(p->step[0], it->size[0] - idx[0] * p->step[0]);
    *rows = 1;
    if (p->tile)
        *rows = at_most(p->step[p->tile],
                        it->size[p->tile] - idx[p->tile] * p->step[p->tile]);
    for (int k = 0; k < it->n; k++) {
        at[k] = it->ptr[k];
        for (int d = 0; d < it->rank; d++)
            at[k] += idx[d] * p->step[d] * it->stride[k][d];
    }
}

/* The next unit in dim order. */
static void next_unit(const plan *p, int64_t *idx) {
    for (int d = 0; d < p->r->it.rank; d++) {
        if (++idx[d] < p->blocks[d]) return;
        idx[d] = 0;
    }
}

/* The unit's index along each dim. */
static void find_unit(const plan *p, int64_t unit, int64_t *idx) {
    for (int d = 0; d < p->r->it.rank; d++) {
        idx[d] = unit % p->blocks[d];
        unit /= p->blocks[d];
    }
}

/* Units [begin, end) without tiles. */
static void run_rows(void *arg, int64_t begin, int64_t end) {
    const plan *p = arg;
    buffers     m;
    int64_t     idx[TD_MAX_RANK], rows, cols;
    char       *at[TD_RUN_OPERANDS];
    load_numbers(p, &m);
    find_unit(p, begin, idx);
    for (int64_t u = begin; u < end; u++, next_unit(p, idx)) {
        place_unit(p, idx, at, &rows, &cols);
        run_row(p, &m, cols, at);
    }
}

/* Memory for the tiles of p; without any, p loads those operands by their strides. */
static tiles take_tiles(plan *p) {
    tiles  t = {.block = NULL};
    size_t n = 0;
    for (int k = 1; k < p->r->it.n; k++) n += p->mode[k] == TILE;
    t.block = td__alloc(n * TILE_BYTES + LINE);
    char *at = (char *)(((uintptr_t)t.block + LINE - 1) / LINE * LINE);
    for (int k = 1; k < p->r->it.n; k++) {
        if (p->mode[k] != TILE) continue;
        if (!t.block) p->mode[k] = LOAD;
        else t.raw[k] = at, at += TILE_BYTES;
    }
    return t;
}

/* Units [begin, end) with tiles; p is a copy, since take_tiles may change its modes. */
static void run_tiles(void *arg, int64_t begin, int64_t end) {
    plan    p = *(const plan *)arg;
    buffers m;
    tiles   t = take_tiles(&p);
    int64_t idx[TD_MAX_RANK], rows, cols;
    char   *at[TD_RUN_OPERANDS];
    load_numbers(&p, &m);
    find_unit(&p, begin, idx);
    for (int64_t u = begin; u < end; u++, next_unit(&p, idx)) {
        place_unit(&p, idx, at, &rows, &cols);
        run_tile(&p, &m, &t, rows, cols, at);
    }
    td__free(t.block);
}

/* Units [begin, end) of a run without a loop. */
static void run_copies(void *arg, int64_t begin, int64_t end) {
    const plan         *p = arg;
    _Alignas(LINE) char raw[TILE_BYTES];
    int64_t             idx[TD_MAX_RANK], rows, cols;
    char               *at[TD_RUN_OPERANDS];
    find_unit(p, begin, idx);
    for (int64_t u = begin; u < end; u++, next_unit(p, idx)) {
        place_unit(p, idx, at, &rows, &cols);
        copy_unit(p, raw, rows, cols, at);
    }
}

/* ---- copies with very short rows ------------------------------------------ */

enum { NARROW = 8, NARROW_ROWS = 512 };

/* Does a copy of plain bytes have rows of a few elements, and many of them? */
static bool is_narrow(const td_run *r) {
    const td_iter *it = &r->it;
    int            mem = r->side[1].mem;
    return !r->loop && it->n == 2 && it->rank > 1 && r->side[1].same &&
           r->side[0].mem == mem && it->size[0] <= NARROW && it->size[1] >= NARROW &&
           (mem == 1 || mem == 2 || mem == 4 || mem == 8);
}

/* Column by column: n elements with these steps in bytes. */
static void copy_column(int mem, int64_t n, char *to, int64_t to_step, const char *from,
                        int64_t step) {
#define COLUMN(bytes)                                              \
    for (int64_t i = 0; i < n; i++, to += to_step, from += step) { \
        memcpy(to, from, bytes);                                   \
    }
    if (mem == 4) COLUMN(4)
    else if (mem == 8) COLUMN(8)
    else if (mem == 2) COLUMN(2)
    else COLUMN(1)
#undef COLUMN
}

/* Places [begin, end) of the dims from the third on. */
static void run_narrow(void *arg, int64_t begin, int64_t end) {
    const td_run  *r = arg;
    const td_iter *it = &r->it;
    for (int64_t u = begin; u < end; u++) {
        char   *to = it->ptr[0], *from = it->ptr[1];
        int64_t rest = u;
        for (int d = 2; d < it->rank; rest /= it->size[d++]) {
            int64_t i = rest % it->size[d];
            to += i * it->stride[0][d];
            from += i * it->stride[1][d];
        }
        for (int64_t row = 0; row < it->size[1]; row += NARROW_ROWS)
            for (int64_t col = 0; col < it->size[0]; col++)
                copy_column(r->side[1].mem, at_most(it->size[1] - row, NARROW_ROWS),
                            to + row * it->stride[0][1] + col * it->stride[0][0],
                            it->stride[0][1],
                            from + row * it->stride[1][1] + col * it->stride[1][0],
                            it->stride[1][1]);
    }
}

/* ---- short rows ---------------------------------------------------------- */

/* One operand's way through the space, element by element in dim order. */
typedef struct walk {
    const td_iter *it;
    int            k;
    char          *ptr;
    int64_t        idx[TD_MAX_RANK];
} walk;

/* At element `at`, counted in dim order. */
static void walk_start(walk *w, const td_iter *it, int k, int64_t at) {
    w->it = it;
    w->k = k;
    w->ptr = it->ptr[k];
    for (int d = 0; d < it->rank; d++) {
        w->idx[d] = at % it->size[d];
        at /= it->size[d];
        w->ptr += w->idx[d] * it->stride[k][d];
    }
}

/* n elements further; n does not go beyond the end of a row. */
static void walk_on(walk *w, int64_t n) {
    const int64_t *stride = w->it->stride[w->k], *size = w->it->size;
    w->idx[0] += n;
    w->ptr += n * stride[0];
    for (int d = 0; w->idx[d] == size[d] && d + 1 < w->it->rank; d++) {
        w->ptr += stride[d + 1] - size[d] * stride[d];
        w->idx[d] = 0;
        w->idx[d + 1]++;
    }
}

/* Brings n elements from where w stands into buf; without m, from buf to there. */
static void walk_rows(const td_run *r, walk *w, buffers *m, int64_t n, char *buf) {
    const td_side *s = &r->side[w->k];
    int64_t        step = r->it.stride[w->k][0];
    while (n > 0) {
        int64_t len = at_most(n, r->it.size[0] - w->idx[0]);
        if (m) bring(s, m, len, buf, w->ptr, step);
        else s->convert(len, w->ptr, step, buf, s->loop);
        walk_on(w, len);
        buf += len * s->loop;
        n -= len;
    }
}

/* Is operand k, over all dims, one contiguous stretch of the loop's type? */
static bool is_linear(const td_run *r, int k) {
    const td_iter *it = &r->it;
    int64_t        step = r->side[k].mem;
    if (!r->side[k].same || r->side[k].widen) return false;
    for (int d = 0; d < it->rank; step *= it->size[d], d++)
        if (it->stride[k][d] != step) return false;
    return true;
}

/* Elements [begin, end) in dim order, gathered into chunks. */
static void run_linear(void *arg, int64_t begin, int64_t end) {
    const plan   *p = arg;
    const td_run *r = p->r;
    buffers       m;
    walk          w[TD_RUN_OPERANDS];
    const void   *in[TD_LOOP_INPUTS];
    load_numbers(p, &m);
    for (int k = 0; k < r->it.n; k++)
        if (p->mode[k] == LOAD) walk_start(&w[k], &r->it, k, begin);
    for (int64_t i = begin, n; i < end; i += n) {
        n = at_most(TD_RUN_CHUNK, end - i);
        for (int k = 1; k < r->it.n; k++) {
            in[k - 1] =
                p->mode[k] == DIRECT ? r->it.ptr[k] + i * r->side[k].mem : m.buf[k];
            if (p->mode[k] != LOAD) continue;
            walk_rows(r, &w[k], &m, n, m.buf[k]);
        }
        char *out = p->mode[0] == DIRECT ? r->it.ptr[0] + i * r->side[0].mem : m.buf[0];
        r->loop(n, out, in, &r->p);
        if (p->mode[0] == LOAD) walk_rows(r, &w[0], NULL, n, m.buf[0]);
    }
}

/* A loop call per short row would cost more than gathering the rows. */
static void run_short(const td_run *r, int64_t total) {
    plan p = {.r = r, .buffered = true, .step = {TD_RUN_CHUNK}};
    for (int k = 0; k < r->it.n; k++)
        p.mode[k] = k > 0 && is_number(&r->it, k) ? NUMBER
                    : is_linear(r, k)             ? DIRECT
                                                  : LOAD;
    td__pool_run(total, TD_RUN_GRAIN, run_linear, &p);
}

/* Chooses between copies, tiles, rows and short rows, and splits the units over
 * threads. */
void td__run(td_run *r) {
    plan    p;
    int64_t total = 1;
    for (int d = 0; d < r->it.rank; d++) total *= r->it.size[d];
    if (total == 0) return;
    if (r->loop && r->it.rank > 1 && r->it.size[0] < SHORT_ROW) {
        run_short(r, total);
        return;
    }
    if (is_narrow(r)) {
        int64_t each = r->it.size[0] * r->it.size[1];
        td__pool_run(total / each, TD_RUN_GRAIN / each + 1, run_narrow, r);
        return;
    }
    make_plan(&p, r);
    int64_t grain = TD_RUN_GRAIN * p.units / total;
    td__pool_run(p.units, grain > 0 ? grain : 1,
                 !r->loop ? run_copies
                 : p.tile ? run_tiles
                          : run_rows,
                 &p);
}
