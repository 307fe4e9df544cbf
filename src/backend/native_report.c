/* native_report.c -- what a graph was compiled to, for `tandem explain`: a line for
 * each kernel, with its ops, its space and the bytes it moves, and how often which op
 * is called as it is. */
#include "backend/native.h"

/* Elements of a pointer that a nest touches, where sizes are numbers; else -1. */
static int64_t touched(const td_nest *n, const td_stmt *s) {
    int64_t count = 1;
    for (int d = 0; d < n->n_dims; d++) {
        if (n->size[d].p >= 0) return -1;
        if (s->stride[d].c || s->stride[d].p >= 0) count *= n->size[d].c;
    }
    return count;
}

/* Bytes read or written, each pointer once. */
static int64_t bytes_moved(const td_nest *n, td_stmt_kind kind) {
    int64_t total = 0;
    for (int i = 0; i < n->stmt.n; i++) {
        const td_stmt *s = &n->stmt.v[i];
        if (s->kind != kind) continue;
        int64_t count = touched(n, s);
        if (count < 0) return -1;
        total += count * td__dtype_bytes[n->ptr.v[s->ptr].dtype];
    }
    return total;
}

static void add_size(td_buf *b, td_extent e) {
    if (e.p < 0) td__buf_printf(b, "%lld", (long long)e.c);
    else td__buf_add(b, "?");
}

static void add_kernel(td_buf *b, const td_launch *k) {
    const td_nest *n = &k->b.nest;
    int64_t        in = bytes_moved(n, TD_S_LOAD), out = bytes_moved(n, TD_S_STORE);
    td__buf_printf(b, "    %-52s ", k->label);
    add_size(b, n->rows);
    td__buf_add(b, " x ");
    add_size(b, n->inside);
    if (in >= 0 && out >= 0)
        td__buf_printf(b, ", reads %lld B, writes %lld B", (long long)in,
                       (long long)out);
    td__buf_add(b, "\n");
}

static void add_calls(td_buf *b, const td_native *c) {
    int  count[TD_OP_COUNT] = {0};
    bool any = false;
    for (int i = 0; i < c->steps.n; i++)
        if (c->steps.v[i].node && td__shown(c->steps.v[i].node) < 0)
            count[c->steps.v[i].node->op]++;
    for (int op = 0; op < TD_OP_COUNT; op++) {
        if (!count[op]) continue;
        td__buf_printf(b, "%s%s %d",
                       any ? ", " : "    called as they are: ", td__ops[op].name,
                       count[op]);
        any = true;
    }
    if (any) td__buf_add(b, "\n");
}

void td__native_report(td_buf *b, const td_runner *r, const char *what) {
    const td_native *c = td__native_of(r);
    if (!c) return;
    td__buf_printf(b, "  %s code: %d kernels\n", what, c->n_launches);
    for (int i = 0; i < c->n_launches; i++) add_kernel(b, &c->launches[i]);
    add_calls(b, c);
}

/* ---- steps one by one ---------------------------------------------------- */

int td__native_parts(const td_runner *r) {
    const td_native *c = td__native_of(r);
    return c ? c->steps.n : 0;
}

td_native_part td__native_part(const td_runner *r, int i) {
    const td_native      *c = td__native_of(r);
    const td_native_step *s = &c->steps.v[i];
    if (s->node) return (td_native_part){.label = td__ops[s->node->op].name};
    const td_launch *k = &c->launches[s->launch];
    return (td_native_part){k->label, k->kernel.text};
}

bool td__native_nest(td_buf *b, const td_runner *r, int i) {
    const td_native      *c = td__native_of(r);
    const td_native_step *s = &c->steps.v[i];
    return s->node || td__nest_print(b, &c->launches[s->launch].b);
}
