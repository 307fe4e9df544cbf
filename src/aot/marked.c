/* marked.c -- dims that the user marked with td_mark_dynamic: code that serves them has
 * a symbol there. Where a trace cannot have one, the call is an error that names the op
 * and its line. */
#include "aot/aot.h"
#include "aot/cache_int.h"
#include "trace/sym.h"

#include <stdio.h>

/* Is the dim marked, so that it must be a symbol? Sizes 0 and 1 are numbers. */
static bool must_vary(const td_tensor *t, int d) {
    return t->marks >> d & 1 && t->size[d] > 1;
}

/* The first dim of t that must be a symbol and is none in l (NULL: nothing is); -1. */
static int fixed_dim(const td_tensor *t, const td_gtype *l) {
    for (int d = 0; t->marks && d < t->rank; d++)
        if (must_vary(t, d) && !(l && l->rank == t->rank && td__dim_is_sym(l->size[d])))
            return d;
    return -1;
}

static const td_tensor *tensor_of(td_value v) {
    return v.kind == TD_K_TENSOR ? v.u.t : NULL;
}

/* Specializations for sizes that are found in values have numbers for all sizes. */
bool td__marks_count(const td_spec *s) {
    return (s->plan || s->j) && !s->sizes.n && s->set.dynamic != TD_SHAPES_STATIC;
}

bool td__marked_any(td_values args) {
    for (int i = 0; i < args.n; i++) {
        const td_tensor *t = tensor_of(args.v[i]);
        if (t && t->marks) return true;
    }
    return false;
}

bool td__marks_served(const td_tensor *t, const td_gtype *l) {
    return fixed_dim(t, l) < 0;
}

/* ---- errors ------------------------------------------------------------- */

/* Fails for dim d of argument i. why: the reason, and what to do. Returns false. */
static bool fail_marked(td_fn *f, int i, const td_tensor *t, int d, const char *why) {
    char             range[80] = "", name[80];
    const td_bounds *b = t->bounds ? &t->bounds[d] : NULL;
    if (b && b->most)
        snprintf(range, sizeof range, " for sizes %lld to %lld", (long long)b->least,
                 (long long)b->most);
    td__fail(
        f->cx, TD_E_GUARD,
        "%s: dim %d of %s is marked dynamic%s (td_mark_dynamic), but %s, or do not "
        "mark the dim",
        f->name, d, td__arg_name(f, i, name), range, why);
    return false;
}

bool td__marked_refuse_one(td_fn *f, td_values args, int i, const char *why) {
    const td_tensor *t = f->inner ? NULL : tensor_of(args.v[i]);
    int              d = t ? fixed_dim(t, NULL) : -1;
    return d < 0 || fail_marked(f, i, t, d, why);
}

bool td__marked_refuse(td_fn *f, td_values args, const char *why) {
    bool ok = true;
    for (int i = 0; ok && i < args.n; i++) ok = td__marked_refuse_one(f, args, i, why);
    return ok;
}

/* The symbol of a size; NULL: the size was a number from the beginning. */
static const td_symbol *symbol_of(const td_symenv *e, int arg, int dim) {
    for (int i = 0; i < e->symbols.n; i++) {
        const td_symbol *s = &e->symbols.v[i];
        if (s->read == TD_SYM_SIZE && s->arg == arg && s->dim == dim) return s;
    }
    return NULL;
}

/* Fails, and names the guard that makes a number of the size. Returns false. */
static bool fail_fixed(td_fn *f, const td_spec *s, int i, const td_tensor *t, int d,
                       const td_symenv *e) {
    td_buf           b = {0};
    const td_symbol *of = symbol_of(e, i, d);
    const td_guard  *g = of ? td__guard_about(e, of) : NULL;
    bool             member = i < f->n_state + f->opts.n_params + f->opts.n_buffers;
    if (member && s->set.static_params)
        return fail_marked(f, i, t, d,
                           "the sizes of parameters and buffers are fixed by the "
                           "setting static_params. Switch it off");
    td__buf_printf(&b,
                   "the program is only valid for size %lld: ", (long long)t->size[d]);
    size_t head = b.n;
    if (g) td__guard_print(e, g, &b);
    else if (s->guards && of && of->given == of->tag)
        td__guard_lines_print(&s->guards->all, &b);
    if (b.n == head)
        td__buf_add(&b, td__arg_is_static(f, i)
                            ? "td_aot_opts.static_args lists the argument"
                            : "the op that made the view gives it that size");
    td__buf_add(&b, ". Read sizes with td_sym_size");
    fail_marked(f, i, t, d, td__buf_str(&b));
    td__buf_free(&b);
    return false;
}

/* A dim with bounds: no guard may exclude a size in between. */
static bool check_bounds(td_fn *f, int i, const td_tensor *t, int d,
                         const td_symenv *e) {
    const td_symbol *of = t->bounds && t->bounds[d].most ? symbol_of(e, i, d) : NULL;
    const td_guard  *g = of ? td__guard_about(e, of) : NULL;
    if (!g) return true;
    td_buf b = {0};
    td__buf_add(&b, "not every such size passes the guard ");
    td__guard_print(e, g, &b);
    td__buf_add(&b, ". Mark it without bounds");
    fail_marked(f, i, t, d, td__buf_str(&b));
    td__buf_free(&b);
    return false;
}

bool td__marked_check(td_fn *f, const td_spec *s, td_values args, const td_symenv *e) {
    const td_graph *g = s->j->g;
    for (int i = 0, at = 0; i < args.n && !f->inner; i++) {
        const td_tensor *t = tensor_of(args.v[i]);
        if (!t && s->program) continue;
        const td_gtype *l = at < g->inputs.n ? g->inputs.v[at]->type : NULL;
        at++;
        int d = t ? fixed_dim(t, l) : -1;
        if (d >= 0) return fail_fixed(f, s, i, t, d, e);
        for (d = 0; t && d < t->rank; d++)
            if (must_vary(t, d) && !check_bounds(f, i, t, d, e)) return false;
    }
    return true;
}

/* ---- keys --------------------------------------------------------------- */

void td__marks_difference(td_buf *b, const td_fn *f, const td_spec *s, td_values args) {
    const td_graph *g = s->plan && s->guards ? s->plan->j->g : NULL;
    for (int i = 0, at = 0; td__marks_count(s) && i < args.n; i++) {
        const td_tensor *t = tensor_of(args.v[i]);
        if (!t && s->program) continue;
        const td_gtype *l = g && at < g->inputs.n ? g->inputs.v[at]->type : NULL;
        at++;
        int d = t ? fixed_dim(t, l) : -1;
        if (d < 0) continue;
        char name[80];
        td__buf_printf(b, "dim %d of %s is marked dynamic now", d,
                       td__arg_name(f, i, name));
        return;
    }
}

void td__marks_put(td_buf *b, td_values args) {
    for (int i = 0; i < args.n; i++) {
        const td_tensor *t = tensor_of(args.v[i]);
        if (!t || !(t->marks | t->maybe)) continue;
        td__put_int(b, i);
        td__put_uint(b, t->marks);
        td__put_uint(b, t->maybe);
        for (int d = 0; t->bounds && d < t->rank; d++) {
            td__put_int(b, t->bounds[d].least);
            td__put_int(b, t->bounds[d].most);
        }
    }
}
