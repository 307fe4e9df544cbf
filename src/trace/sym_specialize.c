/* sym_specialize.c -- specialization in the middle of a capture. A body runs only
 * once. If it does something that symbolic sizes cannot express, every size
 * becomes the number it has, under a guard; existing fake tensors get these
 * sizes, and the body continues. */
#include "trace/trace_int.h"

#include <stdio.h>

bool td__sym_fix_all(td_symenv *e) {
    bool any = false;
    if (!e || !e->may_fix || e->fixed || td__error(e->cx) == TD_E_MEMORY) return false;
    for (int i = 0; i < e->symbols.n && !any; i++)
        any = td__dim_is_sym(td__sym_now(e, e->symbols.v[i].tag)) &&
              e->symbols.v[i].letter == 's';
    if (!any) return false;
    snprintf(e->why, sizeof e->why, "%.190s", td__message(e->cx));
    td_clear(e->cx);
    e->fixed = true;
    for (int i = 0; i < e->symbols.n; i++) {
        td_symbol s = e->symbols.v[i]; /* a copy: the array may be reallocated */
        if (s.letter == 's') td__sym_holds(e, s.tag, TD_DIM_IS_EQ, s.hint);
    }
    return td_ok(e->cx);
}

/* ---- tensors ------------------------------------------------------------ */

/* Storages whose byte size was symbolic get the byte size of their original. */
static void fix_storages(const td_faker *f) {
    for (int i = 0; f && i + 1 < f->pairs.n; i += 2) {
        td_storage       *st = f->pairs.v[i]->st;
        const td_storage *real = f->pairs.v[i + 1]->st;
        if (!st->fake || !st->open || real->open) continue;
        st->bytes = real->bytes;
        st->span = 0;
        st->open = false;
    }
}

/* Replaces the sizes of a fake tensor, and of its storage, by their known values. */
static bool fix_tensor(td_tensor *t) {
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

/* Enclosing captures first: the originals of inner copies are copies of theirs. */
static void fix_all_storages(const td_record *r) {
    if (r->outer) fix_all_storages(r->outer);
    fix_storages(r->close.fakes);
    fix_storages(&r->fakes);
}

bool td__record_fix(td_record *r) {
    if (!td__sym_fix_all(r->sym)) return false;
    fix_all_storages(r);
    for (td_tensor *t = r->cx->all; t; t = t->next)
        if (td__is_fake(t) && !fix_tensor(t)) return false;
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
