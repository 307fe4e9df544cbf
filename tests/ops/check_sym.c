/* check_sym.c -- the sample's call on tensors without bytes whose sizes are symbols:
 * the result's symbolic geometry is, under the hints, that of the call itself, and
 * under other sizes that pass the guards, that of a call with those. */
#include "trace/sym.h"

#include "sample.h"
#include "tandem/grad.h"

#include <stdio.h>
#include <string.h>

/* The arguments with every tensor replaced. */
typedef struct args {
    td_value   in[TD_MAX_ARGS];
    td_tensor *lists[TD_MAX_ARGS][64];
    td_tensor *out[64];
    int        n_out;
} args;

typedef struct maker {
    td_ctx    *cx;
    td_symenv *e;
    bool       writes; /* a leaf that requires grad may not be written */
    /* what was replaced, by what */
    td_tensor *real[64], *copy[64];
    td_meta    meta[64];
    int        n;
} maker;

static td_tensor *find(const maker *m, const td_tensor *t) {
    for (int i = 0; i < m->n; i++)
        if (m->real[i] == t) return m->copy[i];
    return NULL;
}

/* A tensor without bytes with symbols for sizes; one that shares storage with an
 * earlier one is given up, as its geometry is not free. */
static td_tensor *symbolic(maker *m, td_tensor *t) {
    char       name[16];
    td_tensor *known = find(m, t);
    if (known) return known;
    for (int i = 0; i < m->n; i++)
        if (td_same_storage(m->real[i], t)) return NULL;
    snprintf(name, sizeof name, "x%d", m->n);
    if (m->n == 64 || !td__sym_tensor(m->e, name, m->n, t, TD_SYM_ALL, &m->meta[m->n]))
        return NULL;
    td_tensor *f = td__tensor_make(m->cx, &m->meta[m->n], true);
    if (!f) return NULL;
    if (td_requires_grad(t) && !m->writes) td_set_requires_grad(f, true);
    m->real[m->n] = t;
    m->copy[m->n] = f;
    m->n++;
    return f;
}

/* The same geometry under other values of the symbols. */
static td_tensor *concrete(maker *m, td_tensor *sym, const int64_t *values) {
    td_meta g;
    td__tensor_meta(sym, &g);
    bool ok = td__sym_eval(m->e, g.offset, values, &g.offset);
    for (int d = 0; ok && d < g.rank; d++)
        ok = td__sym_eval(m->e, g.size[d], values, &g.size[d]) &&
             td__sym_eval(m->e, g.stride[d], values, &g.stride[d]);
    td_tensor *t = ok ? td__tensor_make(m->cx, &g, true) : NULL;
    if (t && td_requires_grad(sym)) td_set_requires_grad(t, true);
    return t;
}

static td_tensor *replace(maker *m, td_tensor *t, const int64_t *values) {
    return values ? concrete(m, t, values) : symbolic(m, t);
}

static bool replace_all(maker *m, const td_value *from, int n, const int64_t *values,
                        args *to) {
    for (int i = 0; i < n; i++) {
        td_value v = from[i];
        if (v.kind == TD_K_TENSOR && !(v.u.t = replace(m, v.u.t, values))) return false;
        if (v.kind == TD_K_TENSORS) {
            for (uint32_t k = 0; k < v.n && k < 64; k++) {
                td_tensor *t = from[i].u.ts[k];
                to->lists[i][k] = t ? replace(m, t, values) : NULL;
                if (t && !to->lists[i][k]) return false;
            }
            v.u.ts = to->lists[i];
        }
        to->in[i] = v;
    }
    return true;
}

static const char *text_of(const td_symenv *e, int64_t dim) {
    static char text[256];
    td_buf      b = {0};
    td__sym_print(e, dim, &b);
    snprintf(text, sizeof text, "%s", td__buf_str(&b));
    td__buf_free(&b);
    return text;
}

/* One number of the geometry. */
static bool same(report *r, const maker *m, const char *what, int64_t sym, int64_t want,
                 const int64_t *values) {
    int64_t got;
    if (td__sym_eval(m->e, sym, values, &got) && got == want) return true;
    fail_sample(r, "%s %s is not %lld", what, text_of(m->e, sym), (long long)want);
    return false;
}

static bool same_geometry(report *r, const maker *m, const td_tensor *s,
                          const td_tensor *t, const int64_t *values, const char *when) {
    char what[64];
    if (s->rank != t->rank || s->dtype != t->dtype) {
        fail_sample(r, "symbolic sizes, %s: rank %d, not %d", when, s->rank, t->rank);
        return false;
    }
    for (int d = 0; d < s->rank; d++) {
        snprintf(what, sizeof what, "symbolic, %s: size %d", when, d);
        if (!same(r, m, what, s->size[d], t->size[d], values)) return false;
    }
    for (int d = 0; d < s->rank; d++) {
        snprintf(what, sizeof what, "symbolic, %s: stride %d", when, d);
        if (!same(r, m, what, s->stride[d], t->stride[d], values)) return false;
    }
    snprintf(what, sizeof what, "symbolic, %s: offset", when);
    if (!same(r, m, what, s->offset, t->offset, values)) return false;
    snprintf(what, sizeof what, "symbolic, %s: numel", when);
    return same(r, m, what, s->numel, t->numel, values);
}

/* Sizes other than the hints that the guards let pass; false: none found. */
static bool other_sizes(const td_symenv *e, const td_guard_prog *p, int64_t *values,
                        int64_t *hints) {
    int64_t loads[256];
    for (int add = 1; add < 25; add++) {
        bool other = false;
        for (int i = 0; i < e->symbols.n; i++) {
            const td_symbol *s = &e->symbols.v[i];
            bool             fixed = s->range.lo == s->range.hi;
            values[i] =
                fixed ? s->hint
                      : s->hint * (add > 12 ? add - 11 : 1) + (add > 12 ? 0 : add);
            other |= values[i] != hints[i] && s->given == s->tag;
        }
        for (int i = e->symbols.n - 1; i >= 0; i--)
            if (e->symbols.v[i].is != e->symbols.v[i].tag &&
                !td__sym_eval(e, e->symbols.v[i].is, values, &values[i]))
                return false;
        for (int i = 0; i < e->symbols.n; i++)
            if (e->symbols.v[i].is != e->symbols.v[i].tag &&
                !td__sym_eval(e, e->symbols.v[i].is, values, &values[i]))
                return false;
        for (int i = 0; i < e->symbols.n; i++) loads[i] = values[i];
        if (other && td__guards_run_loaded(p, loads) < 0) return true;
    }
    return false;
}

static void check_other(report *r, maker *m, const inputs *plain, const args *sym,
                        sym_stats *st) {
    static args    other;
    int64_t        values[256], hints[256], loads[256];
    td_guard_prog *p = td__guards_compile(m->e);
    if (!p || m->e->symbols.n > 256) return;
    for (int i = 0; i < m->e->symbols.n; i++)
        hints[i] = loads[i] = m->e->symbols.v[i].hint;
    int bad = td__guards_run_loaded(p, loads);
    if (bad >= 0) fail_sample(r, "guard %s fails its own trace", p->checks.v[bad].text);
    else if (other_sizes(m->e, p, values, hints)) {
        if (!replace_all(m, sym->in, plain->n_in, values, &other)) {
            td_clear(m->cx);
        } else {
            m->cx->fake = true;
            int n =
                td__call_list(m->cx, plain->op, other.in, plain->n_in, other.out, 64);
            m->cx->fake = false;
            bool reads = td_error(m->cx) == TD_E_TRACE &&
                         strstr(td_message(m->cx), "values are known");
            if (n != sym->n_out && !reads)
                fail_sample(r, "with other sizes: %d results, not %d; %s", n,
                            sym->n_out, td_message(m->cx));
            for (int i = 0; i < n && n == sym->n_out; i++)
                if (!same_geometry(r, m, sym->out[i], other.out[i], values,
                                   "other sizes"))
                    break;
            st->other++;
        }
    }
    td__guards_drop(p);
}

static void check_results(report *r, maker *m, const inputs *plain, args *sym,
                          sym_stats *st) {
    int64_t hints[256];
    td__symenv_begin(m->e);
    m->cx->fake = true;
    sym->n_out = td__call_list(m->cx, plain->op, sym->in, plain->n_in, sym->out, 64);
    m->cx->fake = false;
    td__symenv_end(m->e);
    if (td_error(m->cx) == TD_E_TRACE &&
        strstr(td_message(m->cx), "values are known")) {
        st->values++; /* it reads values: there is no geometry yet */
        return;
    }
    if (m->e->n_unbacked > 0 && td_ok(m->cx)) {
        st->values++; /* it picks by a mask: sizes are not those of any hint */
        return;
    }
    if (sym->n_out != plain->n_out || !td_ok(m->cx)) {
        fail_sample(r, "with symbolic sizes: %s", td_message(m->cx));
        return;
    }
    for (int i = 0; i < m->e->symbols.n && i < 256; i++)
        hints[i] = m->e->symbols.v[i].hint;
    for (int i = 0; i < sym->n_out; i++)
        if (!same_geometry(r, m, sym->out[i], plain->out[i], hints, "hints")) return;
    st->same++;
    check_other(r, m, plain, sym, st);
}

/* Ops that read values or make as many results as a size says. */
static bool left_out(const inputs *plain) {
    const td_opdef *def = &td__ops[plain->op];
    return def->flags & (TD_OPF_DYNAMIC | TD_OPF_META) || plain->n_out < 0;
}

void check_sym(td_ctx *cx, report *r, sym_stats *st) {
    static inputs plain;
    static maker  m;
    static args   sym;
    memset(&plain, 0, sizeof plain);
    memset(&m, 0, sizeof m);
    td_op op = td__op_find(r->s->op_name);
    if (!inputs_call(cx, r->s, op, NULL, &plain) || left_out(&plain)) {
        td_clear(cx);
        return;
    }
    m.cx = cx;
    m.writes = plain.writes;
    m.e = td__symenv_make(cx);
    cx->takes_fakes = true; /* outside of a capture, as traces do */
    if (m.e) {
        td__symenv_begin(m.e);
        bool ok = replace_all(&m, plain.in, plain.n_in, NULL, &sym);
        td__symenv_end(m.e);
        if (ok) check_results(r, &m, &plain, &sym, st);
    }
    cx->takes_fakes = false;
    td_clear(cx);
    td__symenv_drop(m.e);
}
