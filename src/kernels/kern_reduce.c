/* kern_reduce.c -- the reduction engine of reduce.h: any dtype, strides and dims.
 *
 * Rows: where a reduced dim has the smallest stride, each output reduces runs of
 * its own. Columns: where a kept dim has, whole rows are combined into a strip of
 * accumulators. Elements that need no conversion are read in place, others pass
 * through a buffer that stays in the first-level cache. */
#include "kernels/reduce.h"

#include <math.h>
#include <string.h>

enum {
    BUF_BYTES = 8192,  /* of a strip's accumulators, and of converted elements */
    BLOCK = 32768,     /* reduced elements between two steps of a sum's tree */
    SPLIT_OUTS = 4096, /* fewer outputs than this may be cut into blocks */
    TASK = 32768,      /* elements that are worth a thread's while */
    LEVELS = 4,        /* of a column sum's cascade */
    FAN = 64           /* rows, or sums of the level below, per level */
};

/* Accumulators of a strip, or converted elements, in whichever type the reduction
 * uses. */
typedef union accs {
    double  f64[BUF_BYTES / 8];
    float   f32[BUF_BYTES / 4];
    int64_t i64[BUF_BYTES / 8];
} accs;

td_acc td__acc_of(td_dtype dt) {
    if (dt == TD_F64) return TD_ACC_F64;
    return td__is_float(dt) ? TD_ACC_F32 : TD_ACC_I64;
}

size_t td__acc_size(td_acc a) { return a == TD_ACC_F32 ? 4 : 8; }

/* n accumulators that hold the identity of the operation. */
static void fill_unit(td_acc acc, td_red op, void *a, int64_t n) {
    static const double  f[] = {0, 1, -INFINITY, INFINITY};
    static const int64_t k[] = {0, 1, INT64_MIN, INT64_MAX};
    if (op == TD_RED_SUM) {
        memset(a, 0, (size_t)n * td__acc_size(acc));
    } else if (acc == TD_ACC_F32) {
        for (int64_t i = 0; i < n; i++) ((float *)a)[i] = (float)f[op];
    } else if (acc == TD_ACC_F64) {
        for (int64_t i = 0; i < n; i++) ((double *)a)[i] = f[op];
    } else {
        for (int64_t i = 0; i < n; i++) ((int64_t *)a)[i] = k[op];
    }
}

void td__reduce_init(td_reduction *r, const td_tensor *t, td_dtype as) {
    memset(r, 0, offsetof(td_reduction, w));
    r->acc = td__acc_of(as);
    r->in = (td_dtype)t->dtype;
    bool cut_short = td__is_half(as) || (td__is_float(r->in) && as != TD_I64);
    r->round = cut_short && as != r->in && as > TD_F32 ? as : TD_DTYPE_NONE;
    static const char nothing[16];
    r->src = td__ptr(t) ? td__ptr(t) : nothing; /* an empty tensor may have no bytes */
    r->center = NULL;
    r->finish = NULL;
    r->raw = NULL;
    r->dst = NULL;
    r->k = 0;
    r->out = as;
}

/* ---- the parts of a running reduction ---------------------------------- */

/* One reduction as it is cut and run; the same for all threads. */
typedef struct job {
    const td_reduction    *r;
    const td_reduce_loops *loops;
    td_row_fn             *row;
    td_col_fn             *col;
    td_load_fn            *load;
    td_map_fn             *map; /* NULL: none */
    size_t                 in_bytes, acc_bytes;
    bool                   direct; /* elements are accumulators already */
    int64_t                fold;   /* narrow rows taken as one wide row */
    int64_t                width;  /* outputs in a strip */
    int64_t                strips; /* along the innermost kept dim */
    int64_t                tasks;  /* strips in all */
    int64_t                block;  /* reduced elements in a block */
    int64_t                blocks;
    char                  *partial; /* [blocks][outs], when blocks > 1 */
} job;

/* Elements p[0], p[stride].. converted and mapped, n of them into buf. Those that
 * lose bits take their dtype by way of double, in which skip_nan makes NaN 0. */
static void fetch(const job *j, const char *p, int64_t stride, int64_t n, void *buf) {
    const td_reduction *r = j->r;
    if (r->round == TD_DTYPE_NONE) {
        j->load(p, stride, n, buf);
    } else {
        const int64_t most = BUF_BYTES / 8;
        for (int64_t i = 0, k; i < n; i += k, p += k * stride * (int64_t)j->in_bytes) {
            accs wide, cast;
            k = n - i < most ? n - i : most;
            j->loops->load[TD_ACC_F64][r->in](p, stride, k, &wide);
            if (r->skip_nan) j->loops->map[TD_ACC_F64][TD_MAP_NAN0](&wide, k, 0);
            j->loops->store[TD_ACC_F64][r->round](&wide, k, &cast);
            j->loops->load[r->acc][r->round](&cast, 1, k,
                                             (char *)buf + (size_t)i * j->acc_bytes);
        }
    }
    if (j->map) j->map(buf, n, r->power);
}

/* Finishes n accumulators that start at a place, all in one strip. */
static void emit(const job *j, void *acc, int64_t place, int64_t n) {
    const td_reduction *r = j->r;
    const td_walk_dim  *in = &r->w.kept[r->w.nk - 1];
    if (r->finish) r->finish(r, acc, place, n);
    if (r->raw) {
        memcpy((char *)r->raw + (size_t)place * j->acc_bytes, acc,
               (size_t)n * j->acc_bytes);
        return;
    }
    size_t       size = td__dtype_bytes[r->out];
    char        *to = r->dst + td__walk_out(&r->w, place) * (int64_t)size;
    td_store_fn *store = j->loops->store[r->acc][r->out];
    if (in->out == 1 || n == 1) {
        store(acc, n, to);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        store((char *)acc + (size_t)i * j->acc_bytes, 1,
              to + i * in->out * (int64_t)size);
}

/* ---- rows -------------------------------------------------------------- */

/* Combines reduced elements [at, end) of one output into *acc. Short runs are
 * gathered until the buffer is full. */
static void row_range(const job *j, const char *p, int64_t at, int64_t end,
                      const void *center, void *acc) {
    const td_walk     *w = &j->r->w;
    const td_walk_dim *run = &w->red[w->nr - 1];
    accs               buf;
    int64_t            cap = BUF_BYTES / 8, used = 0;
    while (at < end) {
        int64_t     i = at % run->size, n = run->size - i;
        const char *q = p + td__walk_red(w, at) * (int64_t)j->in_bytes;
        if (n > end - at) n = end - at;
        if (j->direct && run->in == 1 && n >= 64) {
            j->row(q, n, acc);
        } else {
            if (n > cap - used) n = cap - used;
            fetch(j, q, run->in, n, (char *)&buf + (size_t)used * j->acc_bytes);
            used += n;
        }
        at += n;
        if (used < cap && at < end) continue;
        if (center) j->loops->f[j->r->acc].square_dev(&buf, center, 0, used);
        j->row(&buf, used, acc);
        used = 0;
    }
}

/* Joins x into a binary counter of partial results: level i holds 2^i blocks. */
static void carry(const job *j, char *level, int64_t count, void *x) {
    size_t size = j->acc_bytes;
    for (int64_t c = count; c & 1; c >>= 1, level += size) j->row(level, 1, x);
    memcpy(level, x, size);
}

/* All elements [at, end) of one output, block after block, combined in a tree. */
static void row_tree(const job *j, const char *p, int64_t at, int64_t end,
                     const void *center, void *acc) {
    int64_t level[64], x, count = 0;
    if (end - at <= BLOCK) {
        row_range(j, p, at, end, center, acc);
        return;
    }
    for (; at < end; at += BLOCK, count++) {
        fill_unit(j->r->acc, j->r->op, &x, 1);
        row_range(j, p, at, end - at < BLOCK ? end : at + BLOCK, center, &x);
        carry(j, (char *)level, count, &x);
    }
    for (int i = 0; count >> i; i++)
        if (count >> i & 1) j->row((char *)level + (size_t)i * j->acc_bytes, 1, acc);
}

/* Outputs [place, place + n) from reduced elements [at, end), one output at a time. */
static void row_strip(const job *j, int64_t place, int64_t n, int64_t at, int64_t end,
                      char *acc) {
    const td_walk *w = &j->r->w;
    const char    *p = j->r->src + td__walk_in(w, place) * (int64_t)j->in_bytes;
    int64_t        step = w->kept[w->nk - 1].in * (int64_t)j->in_bytes;
    const char    *center = j->r->center;
    bool whole = j->direct && w->nr == 1 && w->red[0].in == 1 && end - at <= BLOCK;
    for (int64_t i = 0; i < n; i++, p += step, acc += j->acc_bytes) {
        if (whole) j->row(p + at * (int64_t)j->in_bytes, end - at, acc);
        else
            row_tree(j, p, at, end,
                     center ? center + (size_t)(place + i) * j->acc_bytes : NULL, acc);
    }
}

/* ---- columns ----------------------------------------------------------- */

/* A cascade of sums: level 0 takes FAN (wide) rows, level i + 1 takes FAN sums of level
 * i. Other operations need no levels and stay on level 0. */
typedef struct cascade {
    accs    level[LEVELS];
    int64_t used[LEVELS];
    int     top; /* levels in use */
} cascade;

/* Moves full levels into the next one, from the lowest up. */
static void cascade_up(const job *j, cascade *s, int64_t n) {
    for (int i = 0; s->used[i] == FAN && i + 1 < LEVELS; i++) {
        if (i + 1 == s->top) {
            s->top++;
            s->used[i + 1] = 0;
            fill_unit(j->r->acc, j->r->op, &s->level[i + 1], n);
        }
        j->col(&s->level[i + 1], &s->level[i], 0, 1, n);
        s->used[i + 1]++;
        s->used[i] = 0;
        fill_unit(j->r->acc, j->r->op, &s->level[i], n);
    }
}

/* A few columns in rows that follow each other: `fold` rows count as one wide row,
 * whose sums are then folded. Consumes a multiple of fold rows; returns how many. */
static int64_t folded_rows(const job *j, const char *q, int64_t k, int64_t n,
                           void *acc) {
    accs    wide;
    int64_t fold = j->fold, width = n * fold;
    fill_unit(j->r->acc, j->r->op, &wide, width);
    j->col(&wide, q, width, k / fold, width);
    j->col(acc, &wide, n, fold, n);
    return k - k % fold;
}

/* Neighbouring columns: the first element, where they are centered, how many. */
typedef struct columns {
    const char *p;
    const char *center;
    int64_t     n;
} columns;

/* Rows [at, end) of the reduced elements into acc. */
static void column_rows(const job *j, const columns *c, int64_t at, int64_t end,
                        void *acc) {
    const td_walk     *w = &j->r->w;
    const td_walk_dim *run = &w->red[w->nr - 1], *across = &w->kept[w->nk - 1];
    while (at < end) {
        int64_t     i = at % run->size, k = run->size - i;
        const char *q = c->p + td__walk_red(w, at) * (int64_t)j->in_bytes;
        if (k > end - at) k = end - at;
        at += k;
        if (j->fold > 1 && k >= j->fold) {
            int64_t done = folded_rows(j, q, k, c->n, acc);
            k -= done;
            q += done * run->in * (int64_t)j->in_bytes;
        }
        if (j->direct && across->in == 1) {
            j->col(acc, q, run->in, k, c->n);
            continue;
        }
        for (; k > 0; k--, q += run->in * (int64_t)j->in_bytes) {
            accs buf;
            fetch(j, q, across->in, c->n, &buf);
            if (c->center) j->loops->f[j->r->acc].square_dev(&buf, c->center, 1, c->n);
            j->col(acc, &buf, 0, 1, c->n);
        }
    }
}

/* Outputs [place, place + n) side by side; float sums go through the cascade, so that
 * rounding errors grow with the logarithm of the length. */
static void column_strip(const job *j, int64_t place, int64_t n, int64_t at,
                         int64_t end, char *acc) {
    const char *center = j->r->center;
    columns     c = {j->r->src + td__walk_in(&j->r->w, place) * (int64_t)j->in_bytes,
                 center ? center + (size_t)place * j->acc_bytes : NULL, n};
    cascade     s;
    if (j->r->op != TD_RED_SUM || j->r->acc == TD_ACC_I64) {
        column_rows(j, &c, at, end, acc);
        return;
    }
    s.top = 1;
    s.used[0] = 0;
    fill_unit(j->r->acc, j->r->op, &s.level[0], n);
    int64_t step = FAN * j->fold;
    for (; at < end; at += step) {
        column_rows(j, &c, at, end - at < step ? end : at + step, &s.level[0]);
        s.used[0] = FAN;
        cascade_up(j, &s, n);
    }
    for (int i = 0; i < s.top; i++) j->col(acc, &s.level[i], 0, 1, n);
}

/* ---- tasks ------------------------------------------------------------- */

/* Task t is a strip of outputs and a block of reduced elements. */
static void run_tasks(void *arg, int64_t begin, int64_t end) {
    const job     *j = arg;
    const td_walk *w = &j->r->w;
    int64_t        across = w->kept[w->nk - 1].size;
    for (int64_t t = begin; t < end; t++) {
        accs    acc;
        int64_t strip = t % j->tasks, block = t / j->tasks;
        int64_t from = strip % j->strips * j->width;
        int64_t place = strip / j->strips * across + from;
        int64_t n = across - from < j->width ? across - from : j->width;
        int64_t at = block * j->block, stop = at + j->block;
        if (stop > w->reds) stop = w->reds;
        fill_unit(j->r->acc, j->r->op, &acc, n);
        (w->by_column ? column_strip : row_strip)(j, place, n, at, stop, (char *)&acc);
        if (j->partial)
            memcpy(j->partial + (size_t)(block * w->outs + place) * j->acc_bytes, &acc,
                   (size_t)n * j->acc_bytes);
        else emit(j, &acc, place, n);
    }
}

/* Joins the blocks' results, neighbours first, then finishes every strip. */
static void join_blocks(const job *j) {
    const td_walk *w = &j->r->w;
    int64_t        across = w->kept[w->nk - 1].size;
    for (int64_t step = 1; step < j->blocks; step *= 2)
        for (int64_t b = 0; b + step < j->blocks; b += 2 * step)
            j->col(j->partial + (size_t)(b * w->outs) * j->acc_bytes,
                   j->partial + (size_t)((b + step) * w->outs) * j->acc_bytes, 0, 1,
                   w->outs);
    for (int64_t place = 0; place < w->outs; place += across)
        for (int64_t i = 0; i < across; i += j->width)
            emit(j, j->partial + (size_t)(place + i) * j->acc_bytes, place + i,
                 across - i < j->width ? across - i : j->width);
}

/* Cuts the work: strips wide enough to stream, and blocks only where there are
 * few outputs and many elements in each. */
static void cut(job *j) {
    const td_walk *w = &j->r->w;
    int64_t        across = w->kept[w->nk - 1].size;
    int64_t        most = BUF_BYTES / (int64_t)j->acc_bytes;
    bool packed = w->kept[w->nk - 1].in == 1 && w->red[w->nr - 1].in == across;
    j->fold = w->by_column && j->direct && packed && across <= 64 ? 256 / across : 1;
    j->width = w->by_column ? most : TASK / (w->reds > 0 ? w->reds : 1);
    if (j->width < 1) j->width = 1;
    if (j->width > most) j->width = most;
    if (j->width > across) j->width = across;
    j->strips = (across + j->width - 1) / j->width;
    j->tasks = w->outs / across * j->strips;
    j->block = w->reds > 0 ? w->reds : 1;
    j->blocks = 1;
    if (w->outs >= SPLIT_OUTS || j->tasks >= 16 ||
        td__dim_mul(w->outs, w->reds) < 2 * TASK)
        return;
    int64_t rows = w->by_column ? TASK / across : TASK;
    if (rows < 1) rows = 1;
    int64_t limit = w->by_column ? 32 : 1024; /* bounds the partial results */
    while (w->reds / rows > limit) rows *= 2;
    if (rows >= w->reds) return;
    j->block = rows;
    j->blocks = (w->reds + rows - 1) / rows;
}

/* Picks the loops for the accumulator and the dtype. */
static void prepare(job *j, const td_reduction *r) {
    memset(j, 0, sizeof *j);
    j->r = r;
    j->loops = td__reduce_loops();
    j->row = j->loops->row[r->acc][r->op];
    j->col = j->loops->col[r->acc][r->op];
    j->load = j->loops->load[r->acc][r->in];
    j->map = j->loops->map[r->acc][r->map];
    j->in_bytes = td__dtype_bytes[r->in];
    j->acc_bytes = td__acc_size(r->acc);
    j->direct = (r->in == TD_F32 && r->acc == TD_ACC_F32) ||
                (r->in == TD_F64 && r->acc == TD_ACC_F64) ||
                (r->in == TD_I64 && r->acc == TD_ACC_I64);
    j->direct = j->direct && !j->map && !r->center && r->round == TD_DTYPE_NONE;
}

/* The cut depends on sizes and strides only, so the result does not depend on the
 * number of threads. */
bool td__reduce_run(td_ctx *cx, td_reduction *r) {
    job j;
    if (r->w.outs == 0) return true;
    prepare(&j, r);
    cut(&j);
    size_t bytes = (size_t)(j.blocks * r->w.outs) * j.acc_bytes;
    if (j.blocks > 1 && !(j.partial = td__block_alloc(bytes)))
        return td__fail_memory(cx);
    int64_t each = r->w.reds < j.block ? r->w.reds : j.block;
    int64_t grain = TASK / (each * j.width + 1);
    td__pool_run(j.tasks * j.blocks, grain < 1 ? 1 : grain, run_tasks, &j);
    if (!j.partial) return true;
    join_blocks(&j);
    td__block_free(j.partial, bytes);
    return true;
}
