/* cache_guards.c -- guards as bytes. Everything a guard program refers to (registers,
 * arguments, texts) is written with it and checked when it is read. */
#include "aot/cache_int.h"
#include "core/typed.h"
#include "trace/sym.h"

#include <string.h>

enum { CHECK = TD_DIM_MAX + 1 }; /* td_guard_step.op */

_Static_assert(sizeof(td_guard_prog) == 88 && sizeof(td_guard_load) == 16 &&
                   sizeof(td_guard_step) == 8,
               "a field of the guards is not written");

/* 1 + the index of the first node with that source line; 0: none. Source lines are
 * stored as nodes, because the process that reads has its own paths. */
static int node_at(const td_graph *g, td_where here) {
    for (int i = 0; here.file && i < g->nodes.n; i++) {
        td_where at = g->nodes.v[i]->here;
        if (at.line == here.line && at.file && !strcmp(at.file, here.file))
            return i + 1;
    }
    return 0;
}

/* Texts, reasons and source lines of guards. */
static void put_lines(td_buf *b, const td_guard_lines *l, const td_graph *program) {
    td__put_uint(b, (uint64_t)l->n);
    for (int i = 0; i < l->n; i++) {
        td__put_text(b, l->v[i].text);
        td__put_text(b, l->v[i].why);
        td__put_int(b, node_at(program, l->v[i].here));
    }
}

/* The guard program as numbers: which sizes to load, constants, then steps over
 * registers. td__get_guards checks all of them against their ranges. */
void td__put_guards(td_buf *b, const td_guard_prog *p, const td_graph *program) {
    td__put_uint(b, (uint64_t)p->loads.n);
    for (int i = 0; i < p->loads.n; i++) {
        td__put_uint(b, p->loads.v[i].read);
        td__put_int(b, p->loads.v[i].arg);
        td__put_int(b, p->loads.v[i].dim);
        td__put_int(b, p->loads.v[i].part);
    }
    td__put_uint(b, (uint64_t)p->consts.n);
    for (int i = 0; i < p->consts.n; i++) td__put_int(b, p->consts.v[i]);
    put_lines(b, &p->checks, program);
    put_lines(b, &p->all, program);
    td__put_int(b, p->n_regs);
    td__put_uint(b, (uint64_t)p->steps.n);
    for (int i = 0; i < p->steps.n; i++) {
        td__put_uint(b, p->steps.v[i].op);
        td__put_uint(b, p->steps.v[i].to);
        td__put_uint(b, p->steps.v[i].a);
        td__put_uint(b, p->steps.v[i].b);
    }
}

/* Does the argument have what the load reads: an int, an offset, or that dim? */
static bool can_load(td_values args, const td_guard_load *l) {
    const td_value *v = &args.v[l->arg];
    if (l->read == TD_SYM_INT) return v->kind == TD_K_INT;
    if (v->kind != TD_K_TENSOR || !v->u.t) return false;
    const td_tensor *t = td__typed_part(v->u.t, l->part);
    return t && (l->read == TD_SYM_OFFSET || (l->dim >= 0 && l->dim < t->rank));
}

/* A guard may only load sizes that the arguments of this call have. */
static void get_loads(td_reader *r, td_guard_prog *p, td_values args) {
    int n = td__get_count(r);
    for (int i = 0; !r->bad && i < n; i++) {
        td_guard_load l = {.read = (uint8_t)td__get_below(r, TD_SYM_INSIDE)};
        l.arg = td__get_within(r, 0, args.n);
        l.dim = td__get_within(r, -1, TD_MAX_RANK);
        l.part = td__get_within(r, 0, INT32_MAX);
        if (r->bad || !can_load(args, &l) || !td__vec_push(&p->loads, l)) r->bad = true;
    }
}

static void get_consts(td_reader *r, td_guard_prog *p) {
    int n = td__get_count(r);
    for (int i = 0; !r->bad && i < n; i++)
        if (!td__vec_push(&p->consts, td__get_int(r))) r->bad = true;
}

/* Reads a guard's text; false: the reader is bad, or out of memory. */
static bool get_line(td_reader *r, td_arena *a, const td_graph *program,
                     td_guard_line *to) {
    const char *text = td__get_text(r, a), *why = td__get_text(r, a);
    int         node = td__get_within(r, 0, program->nodes.n + 1);
    if (r->bad || !text) return false;
    to->text = td__strdup(text);
    to->why = why ? td__strdup(why) : NULL;
    if (node > 0) to->here = program->nodes.v[node - 1]->here;
    if (to->here.file) to->here.file = td__place_file(program->cx, to->here.file);
    return to->text && (to->why || !why);
}

static void get_lines(td_reader *r, td_guard_lines *to, const td_graph *program) {
    td_arena a = {0};
    int      n = td__get_count(r);
    for (int i = 0; !r->bad && i < n; i++) {
        td_guard_line l = {0};
        if (get_line(r, &a, program, &l) && td__vec_push(to, l)) continue;
        td__free(l.text);
        td__free(l.why);
        r->bad = true;
    }
    td__arena_free(&a);
}

/* The last step must be a check: a computation that fails reports the check after it.
 */
static void get_steps(td_reader *r, td_guard_prog *p) {
    int n = td__get_count(r), most = p->n_regs;
    for (int i = 0; !r->bad && i < n; i++) {
        td_guard_step s = {.op = (uint8_t)td__get_below(r, CHECK + TD_DIM_IS_GE + 1)};
        s.to = (uint16_t)td__get_below(r, s.op >= CHECK ? p->checks.n : most);
        s.a = (uint16_t)td__get_below(r, most);
        s.b = (uint16_t)td__get_below(r, most);
        if (!td__vec_push(&p->steps, s)) r->bad = true;
    }
    if (n && !r->bad && p->steps.v[n - 1].op < CHECK) r->bad = true;
}

/* The guards must only refer to arguments of this call and to registers that exist;
 * anything else sets r->bad. The result belongs to the caller. */
td_guard_prog *td__get_guards(td_reader *r, td_values args, const td_graph *program) {
    td_guard_prog *p = td__zalloc(sizeof *p);
    if (!p) return r->bad = true, NULL;
    get_loads(r, p, args);
    get_consts(r, p);
    get_lines(r, &p->checks, program);
    get_lines(r, &p->all, program);
    p->n_regs = td__get_within(r, 0, UINT16_MAX + 1);
    if (p->n_regs < p->loads.n + p->consts.n) r->bad = true;
    get_steps(r, p);
    if (!r->bad) return p;
    td__guards_drop(p);
    return NULL;
}
