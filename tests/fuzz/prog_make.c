/* prog_make.c -- whole programs: a case that builds inputs with aliasing and history,
 * a function grown on them. */
#include "prog.h"

#include "core/typed.h"

#include <stdio.h>
#include <string.h>

/* ---- inputs ------------------------------------------------------------- */

/* A few are inference tensors. */
static void make_leaf(prog_world *w) {
    int64_t  size[PROG_LIST];
    int      rank = prog_range(&w->r, 0, 9);
    prog_val v;
    rank = rank < 1 ? 0 : rank < 3 ? 1 : rank < 7 ? 2 : rank < 9 ? 3 : 4;
    for (int i = 0; i < rank; i++) size[i] = prog_size(w);
    td_dtype dt = prog_chance(&w->r, 50) ? TD_F32 : prog_dtype(&w->r);
    if (td__numel(rank, size) > PROG_NUMEL) rank = 1;
    bool inference = prog_chance(&w->r, 5);
    if (inference) prog_open_region(w, TD_R_INFERENCE);
    v.t = prog_fresh(w, &w->text, dt, rank, size, v.name);
    if (!td_is_nil(v.t)) td__vec_push(&w->vals, v);
    td_clear(w->cx);
    if (inference) prog_close_region(w);
}

/* Leaves, then views of them, non-leaves, a write or two. */
static void make_inputs(prog_maker *m) {
    static const prog_taste often = {.views = 65, .writers = 10};
    prog_world             *w = &m->inputs;
    int                     leaves = prog_range(&w->r, 1, 3);
    for (int i = 0; i < leaves; i++) make_leaf(w);
    if (prog_with & PROG_TYPES && !prog_public)
        for (int n = prog_range(&w->r, 1, 2); n > 0; n--) prog_typed_leaf(w);
    for (int more = prog_upto(&w->r, 4); more > 0; more--) {
        prog_regions(w, false);
        prog_statement(w, &often);
    }
    prog_regions(w, true);
    if (prog_with & PROG_USER && !prog_public && prog_chance(&w->r, 50))
        prog_object_leaf(w);
}

static void print_type(td_buf *b, const td_tensor *t, bool all);

/* ` of name("metadata", type, type)`: what a tensor of a type consists of. */
static void print_inner(td_buf *b, const td_typed *d) {
    td__buf_printf(b, " of %s(\"%s\"", d->type->opts.name, d->metadata);
    for (int i = 0; i < d->n; i++) {
        td__buf_add(b, ", ");
        print_type(b, d->inner[i], true);
    }
    td__buf_add(b, ")");
}

static void print_strides(td_buf *b, const td_tensor *t) {
    if (!td__is_dense(t->rank, t->size, t->stride) || t->offset) {
        td__buf_add(b, "{");
        for (int i = 0; i < t->rank; i++)
            td__buf_printf(b, i ? ",%lld" : "%lld", (long long)t->stride[i]);
        td__buf_add(b, "}");
    }
    if (t->offset) td__buf_printf(b, "+%lld", (long long)t->offset);
}

static void print_type(td_buf *b, const td_tensor *t, bool all) {
    td__buf_printf(b, "%s", td_dtype_name((td_dtype)t->dtype));
    prog_print_ints(b, t->size, t->rank);
    if (all) print_strides(b, t);
    if (t->typed) print_inner(b, t->typed);
    if (all && td_requires_grad(t)) td__buf_add(b, " grad");
}

/* Storages are numbered; a number is printed where a type says all. */
static int storage_number(const prog_maker *m, int i) {
    int n = 0;
    for (int k = 0; k < i; k++) {
        bool seen = false;
        if (m->arg[k].t->st == m->arg[i].t->st) return storage_number(m, k);
        for (int j = 0; j < k; j++) seen |= m->arg[j].t->st == m->arg[k].t->st;
        n += !seen;
    }
    return n;
}

/* Numbers behind the tensors, of any kind. */
static void choose_numbers(prog_maker *m) {
    prog_rng *r = &m->inputs.r;
    if (!(prog_with & PROG_NUMBERS) || m->n_args == 0) return;
    m->body.n_numbers = prog_range(r, 1, PROG_NUMBER_ARGS);
    m->reads = prog_chance(r, 90);
    for (int i = 0; i < m->body.n_numbers; i++) {
        m->body.number[i] = prog_number(r);
        td__buf_printf(&m->head, ", %%n%d", i);
    }
}

static void choose_args(prog_maker *m) {
    prog_world *w = &m->inputs;
    td_buf     *b = &m->head;
    int         n = prog_range(&w->r, 1, w->vals.n < 4 ? w->vals.n + 1 : 5);
    td__buf_add(b, "func @f(");
    for (int i = 0; i < n && i < PROG_INPUTS && w->vals.n; i++) {
        /* the newest first: those have the most to them */
        int at = i < w->vals.n && prog_chance(&w->r, 75) ? w->vals.n - 1 - i
                                                         : prog_upto(&w->r, w->vals.n);
        m->arg[i] = w->vals.v[at];
        m->closed[i] = prog_with & PROG_CLOSED && prog_chance(&w->r, 40);
        if (m->closed[i] && i && prog_chance(&w->r, 40)) /* passed as an argument too */
            m->arg[i] = m->arg[prog_upto(&w->r, i)];
        bool object = m->arg[i].t->st->object != NULL;
        m->closed[i] &= !object;
        td__tensor_meta(m->arg[i].t, &m->was[i]);
        m->version[i] = td_version(m->arg[i].t);
        m->grad[i] = td_requires_grad(m->arg[i].t);
        prog_val p = {.t = m->arg[i].t};
        snprintf(p.name, sizeof p.name, "%%p%d", i);
        td__buf_printf(b, i ? ", %s" : "%s", p.name);
        bool typed = m->types || object;
        if (typed) td__buf_add(b, ": ");
        if (typed) print_type(b, p.t, m->types == 2);
        if (m->types == 2) td__buf_printf(b, " @%d", storage_number(m, i));
        if (m->closed[i]) td__buf_add(b, " <const>");
        if (object) td__buf_printf(b, " <object \"%s\">", PROG_OBJECT);
        td__vec_push(&m->body.vals, p);
        m->n_args++;
    }
    choose_numbers(m);
    td__buf_add(b, ") {\n");
}

/* ---- the function ------------------------------------------------------- */

static void make_body(prog_world *w, int size) {
    prog_taste often = {.views = prog_range(&w->r, 5, 35),
                        .writers = prog_range(&w->r, 5, 35),
                        .metas = prog_chance(&w->r, 25) ? 12 : 0,
                        .randoms = prog_chance(&w->r, 20) ? 8 : 0};
    for (int n = prog_range(&w->r, 1, size); n > 0; n--) {
        prog_regions(w, false);
        prog_statement(w, &often);
    }
    if (prog_chance(&w->r, 5)) prog_mistake(w);
    prog_regions(w, true);
}

/* A literal of the body is one tensor for all calls. */
static bool is_literal(const prog_maker *m, const prog_val *v) {
    char text[PROG_NAME + 16];
    snprintf(text, sizeof text, "%s = tensor(", v->name);
    return strstr(td__buf_str(&m->body.text), text) != NULL;
}

/* Has the body changed a tensor that outlives a call: elements, sizes or flags? */
static bool writes_outside(const prog_maker *m) {
    bool any = false;
    for (int i = 0; i < m->n_args; i++)
        any |= td_version(m->arg[i].t) != m->version[i] ||
               td_requires_grad(m->arg[i].t) != m->grad[i];
    for (int i = 0; i < m->body.vals.n; i++) {
        const prog_val *v = &m->body.vals.v[i];
        bool            kept = td_version(v->t) == 0 && !td_requires_grad(v->t);
        any |= !kept && is_literal(m, v);
    }
    return any;
}

static void make_return(prog_maker *m) {
    prog_world *w = &m->body;
    int         n = prog_range(&w->r, 1, PROG_OUTPUTS - 1);
    td__buf_add(&w->text, "  return ");
    for (int i = 0; i < n; i++) {
        int             back = prog_chance(&w->r, 60) && w->vals.n > 4 ? 4 : w->vals.n;
        const prog_val *v = &w->vals.v[w->vals.n - 1 - prog_upto(&w->r, back)];
        td__buf_printf(&w->text, i ? ", %s" : "%s", v->name);
        m->result[m->n_out] = *v;
        m->n_out++;
        m->n_grad_out += td_requires_grad(v->t);
    }
    td__buf_add(&w->text, "\n}\n\n");
}

/* ---- a function of the results ------------------------------------------ */

/* %q0 stands for a result of @f, or for an argument of it. */
static void add_param(prog_maker *m, td_buf *head, int i) {
    prog_world *w = &m->second;
    bool        old = m->n_args && prog_chance(&w->r, 35);
    int         k = prog_upto(&w->r, old ? m->n_args : m->n_out);
    prog_val    p = {.t = old ? m->arg[k].t : m->result[k].t};
    snprintf(p.name, sizeof p.name, "%%q%d", i);
    td__buf_printf(head, i ? ", %s: " : "%s: ", p.name);
    print_type(head, p.t, false);
    if (old) td__buf_printf(&m->call, i ? ", %s" : "%s", m->arg[k].name);
    else td__buf_printf(&m->call, i ? ", %%out.%d" : "%%out.%d", k);
    td__vec_push(&w->vals, p);
}

/* @g takes results of @f and returns values of its own. */
static void make_second(prog_maker *m, int size) {
    prog_world *w = &m->second;
    td_buf      head = {0};
    int         n = prog_range(&w->r, 1, 3);
    td__buf_add(&m->call, "  %y... = call @g(");
    for (int i = 0; i < n; i++) add_param(m, &head, i);
    td__buf_add(&m->call, w->control ? ") control=true\n" : ")\n");
    td__buf_printf(&w->text, "func @g(%s) {\n", td__buf_str(&head));
    td__buf_free(&head);
    make_body(w, size);
    td__buf_add(&w->text, "  return ");
    for (int i = 0, of = prog_range(&w->r, 1, 3); i < of; i++) {
        const prog_val *v = &w->vals.v[prog_upto(&w->r, w->vals.n)];
        td__buf_printf(&w->text, i ? ", %s" : "%s", v->name);
        m->n_grad_out += td_requires_grad(v->t);
    }
    td__buf_add(&w->text, "\n}\n\n");
}

/* The program as far as it has grown, for who must know why growing it crashed. */
static const prog_maker *growing;

void prog_unfinished(void (*say)(const char *text, size_t n)) {
    const prog_maker *m = growing;
    if (!m) return;
    const td_buf *parts[] = {&m->inputs.text, &m->head, &m->body.text, &m->second.text};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i]->n) say(parts[i]->s, parts[i]->n);
    prog_unfinished_call(say);
}

bool prog_make(uint64_t seed, int size, td_buf *out) {
    prog_rng   r = {seed * 0x2545f4914f6cdd1du + 1};
    td_ctx    *cx = td_open();
    prog_maker m = {0};
    if (!cx) return false;
    static const int8_t grads[] = {0, 0, 50, 50, 100};
    m.inputs = (prog_world){.cx = cx, .letter = 'a', .is_case = true};
    m.inputs.r.s = prog_next(&r);
    m.inputs.usual = prog_range(&r, 2, 3);
    m.inputs.grads = grads[prog_upto(&r, 5)];
    m.body = (prog_world){.cx = cx, .letter = 'v', .usual = m.inputs.usual};
    m.body.r.s = prog_next(&r);
    m.second = (prog_world){.cx = cx, .letter = 'u', .usual = m.inputs.usual};
    m.second.r.s = m.body.r.s + 1;
    if (prog_with & (PROG_BRANCHES | PROG_REGIONS | PROG_TYPES))
        m.body.control = prog_chance(&r, 60);
    m.second.control = m.body.control;
    m.types = prog_chance(&r, 10) ? 0 : prog_chance(&r, 60) ? 1 : 2;
    if (prog_with & PROG_MARKS && prog_chance(&r, 50)) m.types = 0;
    td_seed(cx, 0);
    td_scope_begin(cx, "program");
    growing = &m;
    make_inputs(&m);
    choose_args(&m);
    make_body(&m.body, size);
    m.writes = writes_outside(&m);
    make_return(&m);
    if (prog_with & PROG_FUNCTIONS) make_second(&m, size / 2 + 1);
    prog_finish(&m);
    growing = NULL;
    td__buf_printf(out, "%s%s%scase \"seed %llu\" {\n%s", td__buf_str(&m.head),
                   td__buf_str(&m.body.text), td__buf_str(&m.second.text),
                   (unsigned long long)seed, td__buf_str(&m.inputs.text));
    prog_world_end(&m.inputs);
    prog_world_end(&m.body);
    prog_world_end(&m.second);
    td__buf_free(&m.head);
    td__buf_free(&m.call);
    td_scope_end(cx, "program", NULL);
    td_close(cx);
    return true;
}
