/* native_report.c -- native code for `tandem explain`: a line per kernel with its
 * ops, its space, bytes, operations and time, a line per called op, then memory. */
#include "backend/native.h"

#include <string.h>

enum { WIDE = 52 }; /* columns of a label; labels are shorter than 64 */

static void add_size(td_buf *b, td_extent e) {
    if (e.p < 0) td__buf_printf(b, "%lld", (long long)e.c);
    else td__buf_add(b, "?");
}

/* Appends bytes and operations if known, and the time if it was measured. */
static void add_work(td_buf *b, td_ctx *cx, const char *span, td_work w) {
    td_span_total t = td__span_total(cx, span);
    if (w.read >= 0 && w.written >= 0 && w.flops >= 0)
        td__buf_printf(b, ", reads %lld B, writes %lld B, %lld flops",
                       (long long)w.read, (long long)w.written, (long long)w.flops);
    if (t.count)
        td__buf_printf(b, ", %.1f us", 1e-3 * (double)t.self_ns / (double)t.count);
    td__buf_add(b, "\n");
}

/* -1 means unknown, and stays. */
static void add_up(int64_t *to, int64_t n) { *to = *to < 0 || n < 0 ? -1 : *to + n; }

static void add_work_up(td_work *to, td_work w) {
    add_up(&to->read, w.read);
    add_up(&to->written, w.written);
    add_up(&to->flops, w.flops);
}

static bool same_space(const td_launch *a, const td_launch *b) {
    const td_nest *x = &a->b.nest, *y = &b->b.nest;
    return x->rows.c == y->rows.c && x->rows.p == y->rows.p &&
           x->inside.c == y->inside.c && x->inside.p == y->inside.p;
}

/* The same ops over the same space? */
static bool alike(const td_launch *a, const td_launch *b) {
    return !strcmp(a->label, b->label) && same_space(a, b);
}

/* Kernels that are alike share a line, at the first of them: bytes and operations of
 * all, the time of one. Symbolic sizes are those of the last run. */
static void add_kernel(td_buf *b, const td_native *c, int i) {
    const td_launch *k = &c->launches[i];
    td_work          sum = {0};
    int              count = 0;
    for (int j = 0; j < i; j++)
        if (alike(&c->launches[j], k)) return;
    for (int j = i; j < c->n_launches; j++) {
        if (!alike(&c->launches[j], k)) continue;
        add_work_up(&sum, td__launch_work(&c->launches[j], c->mem.placed));
        count++;
    }
    td__buf_printf(b, "    %-*s ", WIDE, k->label);
    add_size(b, k->b.nest.rows);
    td__buf_add(b, " x ");
    add_size(b, k->b.nest.inside);
    if (count > 1) td__buf_printf(b, ", %d times", count);
    add_work(b, c->g->cx, k->label, sum);
}

/* A line per called op: the work of all calls, the time of one. */
static void add_calls(td_buf *b, const td_native *c) {
    int     count[TD_OP_LIMIT] = {0};
    td_work sum[TD_OP_LIMIT] = {{0}};
    for (int i = 0; i < c->steps.n; i++) {
        const td_gnode *n = c->steps.v[i].node;
        if (!n || td__view_operand(n) >= 0) continue;
        count[n->op]++;
        add_work_up(&sum[n->op],
                    td__call_work(c->g, n, c->mem.placed ? c->mem.bound : NULL));
    }
    for (int op = 0; op < TD_OP_LIMIT; op++) {
        if (!count[op]) continue;
        td__buf_printf(b, "    %-*s called %d time%s", WIDE, td__row(op)->name,
                       count[op], count[op] == 1 ? "" : "s");
        add_work(b, c->g->cx, td__row(op)->name, sum[op]);
    }
}

/* The peak and the arena of a run; with symbolic sizes, of the last one. */
static void add_memory(td_buf *b, const td_memory *m) {
    int n = 0, own = 0;
    for (int i = 0; i < m->ranges.n; i++) {
        n += m->ranges.v[i].at >= 0;
        own += m->ranges.v[i].at < 0 && m->ranges.v[i].first >= 0;
    }
    if (m->bound && !m->placed) return;
    td__buf_printf(b,
                   "    peak memory of a run: %lld B (%lld B with every value "
                   "allocated separately)\n",
                   (long long)m->sizes.most, (long long)m->sizes.blocks);
    td__buf_printf(b,
                   "    arena: %d value%s in %lld B, at most %lld B of it in use at "
                   "once; %d value%s allocated separately\n",
                   n, n == 1 ? "" : "s", (long long)m->sizes.arena,
                   (long long)m->sizes.live, own, own == 1 ? "" : "s");
}

void td__native_report(td_buf *b, const td_runner *r, const char *what) {
    const td_native *c = td__native_full(r);
    if (!c) return;
    td__buf_printf(b, "  %s code: %d kernel%s\n", what, c->n_launches,
                   c->n_launches == 1 ? "" : "s");
    for (int i = 0; i < c->n_launches; i++) add_kernel(b, c, i);
    add_calls(b, c);
    add_memory(b, &c->mem);
}

/* ---- single steps --------------------------------------------------------- */

int td__native_parts(const td_runner *r) {
    const td_native *c = td__native_full(r);
    return c ? c->steps.n : 0;
}

bool td__native_found(const td_runner *r) {
    const td_native *c = td__native_of(r);
    return c && c->found;
}

/* Name, C text and bytes of step i, for td_explain and reports; a function from the
 * cache is lowered again for it. */
td_native_part td__native_part(const td_runner *r, int i) {
    const td_native      *c = td__native_full(r);
    const td_native_step *s = &c->steps.v[i];
    if (s->node) {
        const int64_t *bound = c->mem.placed ? c->mem.bound : NULL;
        td_work        w = td__call_work(c->g, s->node, bound);
        return (td_native_part){td__row(s->node->op)->name, NULL, w.read, w.written};
    }
    const td_launch *k = &c->launches[s->launch];
    td_work          w = td__launch_work(k, c->mem.placed);
    return (td_native_part){k->label, k->kernel.text, w.read, w.written};
}

bool td__native_nest(td_buf *b, const td_runner *r, int i) {
    const td_native      *c = td__native_full(r);
    const td_native_step *s = &c->steps.v[i];
    return s->node || td__nest_print(b, &c->launches[s->launch].b);
}
