/* sym_fix.c -- numbers in the place of symbols in the middle of a capture. A body runs
 * once: where it does what symbols cannot say, every size becomes the number it has,
 * under a guard, the tensors there are get these sizes, and the body goes on. */
#include "trace/trace_int.h"

#include <stdio.h>

bool td__sym_fix_all(td_symenv *e) {
    bool any = false;
    if (!e || !e->may_fix || e->fixed || td_error(e->cx) == TD_E_MEMORY) return false;
    for (int i = 0; i < e->symbols.n && !any; i++)
        any = td__dim_is_sym(td__sym_now(e, e->symbols.v[i].tag)) &&
              e->symbols.v[i].letter == 's';
    if (!any) return false;
    snprintf(e->why, sizeof e->why, "%.190s", td_message(e->cx));
    td_clear(e->cx);
    e->fixed = true;
    for (int i = 0; i < e->symbols.n; i++) {
        td_symbol s = e->symbols.v[i]; /* learning may move them */
        if (s.letter == 's') td__sym_holds(e, s.tag, TD_SYM_EQ, s.hint);
    }
    return td_ok(e->cx);
}

/* ---- tensors ------------------------------------------------------------ */

/* A storage that was as large as its tensor has the bytes of the original. */
static void close_stores(const td_faker *f) {
    for (int i = 0; f && i + 1 < f->held.n; i += 2) {
        td_storage       *st = f->held.v[i]->st;
        const td_storage *real = f->held.v[i + 1]->st;
        if (!st->fake || !st->open || real->open) continue;
        st->bytes = real->bytes;
        st->span = 0;
        st->open = false;
    }
}

static bool renew(td_tensor *t) {
    td_meta     m;
    td_storage *st = t->st;
    int64_t     span = td__dim_now(st->span);
    if (st->span && !td__dim_is_sym(span)) {
        st->bytes = (size_t)span;
        st->span = 0;
        st->open = false;
    }
    td__tensor_meta(t, &m);
    m.offset = td__dim_now(m.offset);
    for (int d = 0; d < m.rank; d++) {
        m.size[d] = td__dim_now(m.size[d]);
        m.stride[d] = td__dim_now(m.stride[d]);
    }
    return td__tensor_set_geometry(t, &m);
}

/* Copies of the outer captures come first: the inner ones are copies of them. */
static void close_all(const td_record *r) {
    if (r->outer) close_all(r->outer);
    close_stores(r->close.fakes);
    close_stores(&r->fakes);
}

bool td__record_fix(td_record *r) {
    if (!td__sym_fix_all(r->sym)) return false;
    close_all(r);
    for (td_tensor *t = r->cx->all; t; t = t->next)
        if (td__is_fake(t) && !renew(t)) return false;
    return true;
}

bool td__record_fix_call(td_record *r, td_opcall *c, td_value *in) {
    if (!td__record_fix(r)) return false;
    for (int i = 0; i < c->n_in; i++) {
        if (in[i].kind == TD_K_INT) in[i].u.i = td__dim_now(in[i].u.i);
        if (in[i].kind == TD_K_INTS) {
            int64_t *ints =
                td__arena_alloc(&r->cx->scratch, sizeof *ints * in[i].n + 1);
            if (!ints) return td__fail_memory(r->cx);
            for (uint32_t k = 0; k < in[i].n; k++)
                ints[k] = td__dim_now(in[i].u.ints[k]);
            in[i].u.ints = ints;
        }
        c->in[i] = in[i];
    }
    return true;
}
