/* keep_guards.c -- guards as bytes. A program of guards is whole in itself; read back,
 * its registers, arguments and texts are there. */
#include "aot/keep_int.h"
#include "trace/sym.h"

enum { CHECK = TD_DIM_MAX + 1 }; /* td_guard_step.op */

_Static_assert(sizeof(td_guard_prog) == 72 && sizeof(td_guard_load) == 12 &&
                   sizeof(td_guard_step) == 8,
               "a field of the guards is not written");

void td__put_guard_text(td_buf *b, const char *text) {
    td_buf plain = {0};
    if (text) td__guard_text_unplaced(text, &plain);
    td__put_text(b, text ? td__buf_str(&plain) : NULL);
    if (plain.failed) b->failed = true;
    td__buf_free(&plain);
}

void td__put_guards(td_buf *b, const td_guard_prog *p) {
    td__put_uint(b, (uint64_t)p->loads.n);
    for (int i = 0; i < p->loads.n; i++) {
        td__put_uint(b, p->loads.v[i].read);
        td__put_int(b, p->loads.v[i].arg);
        td__put_int(b, p->loads.v[i].dim);
    }
    td__put_uint(b, (uint64_t)p->consts.n);
    for (int i = 0; i < p->consts.n; i++) td__put_int(b, p->consts.v[i]);
    td__put_uint(b, (uint64_t)p->texts.n);
    for (int i = 0; i < p->texts.n; i++) td__put_guard_text(b, p->texts.v[i]);
    td__put_int(b, p->n_regs);
    td__put_uint(b, (uint64_t)p->steps.n);
    for (int i = 0; i < p->steps.n; i++) {
        td__put_uint(b, p->steps.v[i].op);
        td__put_uint(b, p->steps.v[i].to);
        td__put_uint(b, p->steps.v[i].a);
        td__put_uint(b, p->steps.v[i].b);
    }
}

/* Does the argument have what is read of it? */
static bool can_load(td_values args, const td_guard_load *l) {
    const td_value *v = &args.v[l->arg];
    if (l->read == TD_SYM_INT) return v->kind == TD_K_INT;
    if (v->kind != TD_K_TENSOR || !v->u.t) return false;
    return l->read == TD_SYM_OFFSET || (l->dim >= 0 && l->dim < v->u.t->rank);
}

static void get_loads(td_reader *r, td_guard_prog *p, td_values args) {
    int n = td__get_count(r);
    for (int i = 0; !r->bad && i < n; i++) {
        td_guard_load l = {.read = (uint8_t)td__get_below(r, TD_SYM_INSIDE)};
        l.arg = td__get_within(r, 0, args.n);
        l.dim = td__get_within(r, -1, TD_MAX_RANK);
        if (r->bad || !can_load(args, &l) || !td__vec_push(&p->loads, l)) r->bad = true;
    }
}

static void get_consts(td_reader *r, td_guard_prog *p) {
    int n = td__get_count(r);
    for (int i = 0; !r->bad && i < n; i++)
        if (!td__vec_push(&p->consts, td__get_int(r))) r->bad = true;
}

static void get_texts(td_reader *r, td_guard_prog *p) {
    td_arena a = {0};
    int      n = td__get_count(r);
    for (int i = 0; !r->bad && i < n; i++) {
        const char *s = td__get_text(r, &a);
        char       *copy = s ? td__strdup(s) : NULL;
        if (copy && td__vec_push(&p->texts, copy)) continue;
        td__free(copy);
        r->bad = true;
    }
    td__arena_free(&a);
}

/* The last step is a test: what fails to compute is the failure of the next one. */
static void get_steps(td_reader *r, td_guard_prog *p) {
    int n = td__get_count(r), most = p->n_regs;
    for (int i = 0; !r->bad && i < n; i++) {
        td_guard_step s = {.op = (uint8_t)td__get_below(r, CHECK + TD_SYM_GE + 1)};
        s.to = (uint16_t)td__get_below(r, s.op >= CHECK ? p->texts.n : most);
        s.a = (uint16_t)td__get_below(r, most);
        s.b = (uint16_t)td__get_below(r, most);
        if (!td__vec_push(&p->steps, s)) r->bad = true;
    }
    if (n && !r->bad && p->steps.v[n - 1].op < CHECK) r->bad = true;
}

td_guard_prog *td__get_guards(td_reader *r, td_values args) {
    td_guard_prog *p = td__zalloc(sizeof *p);
    if (!p) return r->bad = true, NULL;
    get_loads(r, p, args);
    get_consts(r, p);
    get_texts(r, p);
    p->n_regs = td__get_within(r, 0, UINT16_MAX + 1);
    if (p->n_regs < p->loads.n + p->consts.n) r->bad = true;
    get_steps(r, p);
    if (!r->bad) return p;
    td__guards_drop(p);
    return NULL;
}
